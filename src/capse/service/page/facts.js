// The facts of an entity, grouped by relation and direction: for the picture and for the list beside it.

import { count, el, named, readable } from "./dom.js";
import { link } from "./route.js";

/**
 * Groups {relation, name, way, neighbours: [{id, name}]}, those that lead away from the entity first. `way` is "out",
 * "in", or "both" for neighbours that the relation joins to the entity in both directions.
 */
export function grouped(entity, facts) {
  const ways = new Map(); // relation and neighbour: the directions seen
  for (const fact of facts) {
    const out = fact.head === entity;
    const [id, name] = out ? [fact.tail, fact.tail_name] : [fact.head, fact.head_name];
    const key = JSON.stringify([fact.relation, id]);
    if (!ways.has(key)) ways.set(key, { relation: fact.relation, relationName: fact.relation_name, id, name, seen: new Set() });
    ways.get(key).seen.add(out ? "out" : "in");
  }
  const groups = new Map();
  for (const { relation, relationName, id, name, seen } of ways.values()) {
    const way = seen.size > 1 ? "both" : [...seen][0];
    const key = JSON.stringify([way, relation]);
    if (!groups.has(key)) groups.set(key, { relation, name: readable(relationName), way, neighbours: [] });
    groups.get(key).neighbours.push({ id, name });
  }
  const order = ["both", "out", "in"];
  return [...groups.values()].sort((a, b) => order.indexOf(a.way) - order.indexOf(b.way) || a.name.localeCompare(b.name));
}

/** At most `most` neighbours, taken in turn from every group, so that no relation hides another; with how many are left. */
export function chosen(groups, most) {
  const taken = groups.map(() => 0);
  for (let left = most, round = 0; left > 0; round += 1) {
    const open = groups.map((group, place) => place).filter((place) => groups[place].neighbours.length > round);
    if (!open.length) break;
    for (const place of open.slice(0, left)) taken[place] += 1;
    left -= open.length;
  }
  return groups
    .map((group, place) => ({
      ...group,
      neighbours: group.neighbours.slice(0, taken[place]),
      all: group.neighbours.length,
    }))
    .filter((group) => group.neighbours.length);
}

const ARROWS = { out: "→", in: "←", both: "↔" };

/** A group for those who listen: where the entity stands, before the relation or after it. */
function spoken(name, group) {
  if (group.way === "in") return `${group.name}, ${name}`;
  return group.way === "both" ? `${name}, ${group.name}, both ways` : `${name}, ${group.name}`;
}

/** How many facts a group stands for: one for each direction. */
function factsOf({ way, neighbours }) {
  const number = neighbours.length.toLocaleString("en");
  return way === "both" ? `${number}, both ways: ${count(2 * neighbours.length, "fact")}` : number;
}

const SHOWN = 12; // of a group, before the rest is asked for
const MORE = 200; // then, at a time

export function factList(entity, name, groups) {
  return groups.map((group) => {
    const item = (neighbour) => el("li", {}, el("a", { href: link(["entity", neighbour.id]) }, named(neighbour.name)));
    const list = el("ul", { class: "names" }, group.neighbours.slice(0, SHOWN).map(item));
    const rest = group.neighbours.slice(SHOWN);
    const more = el("button", {
      type: "button",
      class: "quiet small",
      onclick: () => {
        const next = rest.splice(0, MORE).map(item);
        list.append(...next);
        if (rest.length) say();
        else more.remove();
        next[0].querySelector("a").focus();
      },
    });
    const say = () => (more.textContent = `${rest.length.toLocaleString("en")} more`);
    say();
    const side = group.way === "in" ? "head" : null;
    return el(
      "section",
      { class: "group" },
      el(
        "h3",
        { title: group.relation },
        el("span", { "aria-hidden": "true" }, el("span", { class: "arrow" }, ARROWS[group.way]), " ", named(group.name)),
        el("span", { class: "only-heard" }, spoken(name, group)),
        el("span", { class: "count" }, ` ${factsOf(group)}`),
      ),
      el(
        "a",
        { class: "ask", href: link(["entity", entity], { relation: group.relation, side }) },
        "ask for more",
        el("span", { class: "only-heard" }, `: ${spoken(name, group)}`),
      ),
      list,
      rest.length ? more : null,
    );
  });
}
