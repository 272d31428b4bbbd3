// The graph part: find an entity, see its facts, ask a relation.

import { api } from "./api.js";
import { answers } from "./answers.js";
import { combobox } from "./combobox.js";
import { count, el, freshId, named, problem, readable, waiting } from "./dom.js";
import { chosen, factList, grouped } from "./facts.js";
import { picture } from "./picture.js";
import { go, here, link } from "./route.js";

const NEIGHBOURS = 24; // in the picture
const ALIKE = 8; // entities near another
const LETTERS = ["b", "f", "i", "k", "n", "p", "s"]; // names to begin with: one that begins with each of these
let shown = null; // the entity whose page stands there: {id, node, update}

export async function graphHome(main) {
  shown = null;
  document.title = "capse";
  const field = finder("Find an entity", "A name, or the beginning of one");
  const about = el("p", { class: "lead" }, "Find an entity, see what the graph says of it, and ask the model for what it does not say.");
  const some = el("div", { class: "some" });
  main.replaceChildren(el("section", { class: "hero" }, el("h1", {}, "What is missing in the graph?"), about, field, some));
  try {
    const [relations, ...found] = await Promise.all([api.relations("", 1), ...LETTERS.map((letter) => api.entities(letter, 1))]);
    const rows = new Map(found.flatMap((one) => one.entities).map((row) => [row.entity, row]));
    const names = [...rows.values()].map((row) => el("li", {}, el("a", { href: link(["entity", row.entity]) }, named(row.name))));
    const size = `${count(found[0].total, "entity", "entities")} and ${count(relations.total, "relation")}.`;
    some.append(
      el("p", { class: "hint" }, `${size} For example:`),
      el("ul", { class: "names" }, names),
    );
  } catch (error) {
    some.append(problem(error));
  }
}

function finder(label, placeholder) {
  return entityBox(label, placeholder, (row) => go(["entity", row.id]));
}

function entityBox(label, placeholder, choose) {
  return combobox({
    label,
    placeholder,
    find: async (text, signal) => {
      const found = await api.entities(text, 8, signal);
      return found.entities.map((row) => ({
        id: row.entity,
        name: row.name,
        note: row.match === "similar" ? "similar" : row.name === row.entity ? null : row.entity,
      }));
    },
    choose,
  });
}

export async function graphView(main, route) {
  const id = route.path[1];
  if (shown?.id !== id || !main.contains(shown.node)) {
    main.replaceChildren(waiting("facts", 6));
    let entity;
    try {
      entity = await api.entity(id);
      if (here().path[1] !== id) return; // somebody went on while it was on its way
    } catch (error) {
      const near = (error.nearest ?? []).map((name) => el("li", {}, el("a", { href: link(["entity", name]) }, named(name))));
      shown = null;
      main.replaceChildren(
        problem(error),
        near.length ? el("ul", { class: "names" }, near) : "",
        finder("Find an entity", "A name, or the beginning of one"),
      );
      return;
    }
    shown = entityPage(entity, id);
    main.replaceChildren(shown.node);
  }
  document.title = `${shown.name} – capse`;
  await shown.update(route.values);
}

function entityPage(entity, id) {
  const groups = grouped(entity.entity, entity.facts);
  const picked = chosen(groups, NEIGHBOURS);
  const name = entity.name;
  const places = el("section", { class: "answers", "aria-label": "Answers" });
  const question = ask(entity);
  const title = el("h1", {}, named(name), name === entity.entity ? null : el("span", { class: "label" }, named(entity.entity)));
  const total = entity.total ?? entity.facts.length;
  const wide = matchMedia("(min-width: 52rem)").matches; // where the list has no room beside the picture, it can wait
  const heading = el("summary", {}, el("h2", {}, "Facts"));
  const lists = el("details", { class: "facts", open: wide }, heading, el("div", {}, factList(entity.entity, name, groups)));
  const facts = el(
    "section",
    { class: "about" },
    picture(name, picked),
    lists,
  );
  const alike = el("details", { class: "facts", ontoggle: () => alike.open && neighbours(list, entity.entity) });
  const list = el("div", {});
  alike.append(el("summary", {}, el("h2", {}, "Similar")), list);
  const empty = el("p", { class: "empty" }, "The graph says nothing of ", named(name), ". The model can still be asked.");
  const node = el(
    "div",
    { class: "entity" },
    el("div", { class: "row between" }, title, finder("Another entity", "Find a name")),
    el("p", { class: "hint" }, count(total, "known fact")),
    entity.facts.length ? facts : empty,
    question.node,
    places,
    alike,
  );
  return {
    id, // as the address has it: a name does as well as a label
    name,
    node,
    update: async (values) => {
      question.fill(values);
      const other = await answers(places, entity, values);
      if (other) question.name(other);
    },
  };
}

/** The entities whose vectors are nearest, fetched once. */
async function neighbours(place, id) {
  if (place.childElementCount) return;
  place.replaceChildren(waiting("similar entities", 3));
  try {
    const found = await api.similar(id, ALIKE);
    const rows = found.neighbours.map((row) =>
      el(
        "li",
        {},
        el("a", { href: link(["entity", row.entity]) }, named(row.name)),
        el("span", { class: "note" }, ` ${row.similarity.toFixed(2)}`),
      ),
    );
    const hint = el("p", { class: "hint" }, "Those whose vectors point the same way: 1 is the same direction.");
    place.replaceChildren(rows.length ? el("ul", { class: "near" }, rows) : el("p", { class: "empty" }, "This model has no vectors."), hint);
  } catch (error) {
    place.replaceChildren(problem(error));
  }
}

/** The form that asks a relation in either direction, or what relation there is to another entity. */
function ask(entity) {
  const side = freshId("side");
  const name = entity.name;
  let values = {};
  const change = (changes) => go(["entity", entity.entity], { ...values, ...changes, why: null });
  const relation = combobox({
    label: "Relation",
    placeholder: "Choose a relation",
    find: async (text, signal) => {
      const found = await api.relations(text, 100, signal);
      return found.relations.map((row) => {
        const words = readable(row.name);
        const note = words !== row.relation ? row.relation : row.match === "similar" ? "similar" : null;
        return { id: row.relation, name: words, note };
      });
    },
    choose: (row) => change({ relation: row.id }),
  });
  const choice = (value, words) =>
    el(
      "label",
      { class: "choice" },
      el("input", { type: "radio", name: side, value, onchange: () => change({ side: value === "tail" ? null : value }) }),
      el("span", {}, words),
    );
  const unknown = el("input", { type: "checkbox", onchange: () => change({ new: unknown.checked ? "1" : null }) });
  const seen = el("input", { type: "checkbox", onchange: () => change({ seen: seen.checked ? "1" : null }) });
  const only = el("label", { class: "choice" }, seen, el("span", {}, "Only what training has seen in that place"));
  const directions = [
    choice("tail", [el("b", {}, named(name)), " → ?"]),
    choice("head", ["? → ", el("b", {}, named(name))]),
    choice("relation", [el("b", {}, named(name)), " ? another"]),
  ];
  const other = entityBox("The other entity", "A name, or the beginning of one", (row) => change({ with: row.id }));
  const node = el(
    "section",
    { class: "question" },
    el("h2", {}, "Ask the model"),
    el(
      "form",
      { onsubmit: (event) => event.preventDefault() },
      el("fieldset", {}, el("legend", {}, "Direction"), directions),
      relation,
      other,
      el("label", { class: "choice" }, unknown, el("span", {}, "Leave known facts out")),
      only,
    ),
  );
  const fill = (now) => {
    values = { ...now };
    for (const input of node.querySelectorAll("[type=radio]")) input.checked = input.value === (now.side ?? "tail");
    unknown.checked = now.new === "1";
    seen.checked = now.seen === "1";
    const between = now.side === "relation";
    relation.hidden = between;
    other.hidden = !between;
    only.hidden = between;
    if (document.activeElement !== relation.input) relation.set(readable(now.relation ?? ""));
    if (document.activeElement !== other.input) other.set(now.with ?? "");
  };
  return { node, fill, name: other.set };
}
