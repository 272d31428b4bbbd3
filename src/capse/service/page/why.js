// An explanation in words and bars: what carried the score, and which training facts lie near.

import { api } from "./api.js";
import { announce, count, decimal, el, named, problem, readable, sentence, signed, waiting } from "./dom.js";
import { link } from "./route.js";

const BARS = 10;

/** The parts of an explanation, as POST /v1/explain gives it to `question`, and the verdict of POST /v1/score, if any. */
export function explanation(why, question, verdict) {
  return [
    state(why),
    judged(verdict),
    el("div", { class: "reasons" }, moved(why), near(why), rules(why), removals(question), between(why), bars(why)),
    el("p", { class: "hint" }, why.note),
  ];
}

function entityLink(id, name) {
  return el("a", { href: link(["entity", id]) }, named(name));
}

function factWords(fact) {
  return [entityLink(fact.head, fact.head_name), ` ${readable(fact.relation_name)} `, entityLink(fact.tail, fact.tail_name)];
}

const SPLITS = { train: "one of the facts it was trained on", valid: "a fact held out for validation", test: "a fact held out for testing" };

function state(why) {
  const known = why.known ? `This is ${SPLITS[why.known]}.` : "The graph does not say so.";
  const unseen = [
    [why.head_facts, why.fact.head_name],
    [why.tail_facts, why.fact.tail_name],
  ].flatMap(([facts, name]) => (facts ? [] : [` The model never saw ${name} in training: its vector is a guess.`]));
  return el("p", {}, known, unseen.join(""));
}

/** Whether it is said to be true, where the run has thresholds. */
function judged(verdict) {
  if (!verdict) return null;
  const said = verdict.true ? "Said to be true" : "Said to be false";
  const mix = "where half of the facts are true and the others are plausible ones that are false";
  return el("p", {}, el("b", {}, said), `, by its relation's threshold: probability ${percent(verdict.probability)} ${mix}.`);
}

function moved(why) {
  if (!why.moved) return null;
  const { score, keep, among_best, first, motifs } = why.moved;
  const counted = keep === 1 ? "" : `, which counts ${decimal(keep)} times`;
  const placed = among_best
    ? `The run that was refined gives it ${decimal(score)}${counted}. The facts around it add:`
    : "It is not among the best answers of the run that was refined, which alone may change places.";
  const rows = motifs.map(({ text, value }) => el("li", {}, el("span", {}, sentence(text)), el("span", { class: "note" }, signed(value))));
  return el(
    "section",
    {},
    el("h3", {}, "What moved the answer"),
    el("p", {}, placed, first ? " It comes first, since the relation goes both ways and is known the other way." : ""),
    rows.length ? el("ul", { class: "near" }, rows) : null,
  );
}

function near(why) {
  if (!why.nearest.length) return el("section", {}, el("h3", {}, "Nearest facts"), el("p", {}, "The relation has no other training fact."));
  const rows = why.nearest.map(({ fact, similarity, head_similarity, tail_similarity }) => {
    const likes = [
      [fact.head, fact.head_name, why.fact.head, why.fact.head_name, head_similarity],
      [fact.tail, fact.tail_name, why.fact.tail, why.fact.tail_name, tail_similarity],
    ].flatMap(([id, name, own, ownName, cosine]) => (id === own ? [] : [`${name} is ${alike(cosine)} ${ownName} (${cosine.toFixed(2)})`]));
    return el(
      "li",
      {},
      el("span", {}, ...factWords(fact)),
      el("span", { class: "note" }, likes.length ? sentence(likes.join("; ")) : "The same two."),
      el("span", { class: "share", style: { "--share": Math.max(0, similarity) }, "aria-hidden": "true" }),
    );
  });
  return el("section", {}, el("h3", {}, "Nearest facts it was trained on"), el("ul", { class: "near" }, rows));
}

function rules(why) {
  if (!why.rules.length) return null;
  const rows = why.rules.map(({ rule, confidence, facts }) =>
    el(
      "li",
      {},
      el("span", {}, sentence(readable(rule))),
      el("span", { class: "note" }, `Right in ${percent(confidence)} of its cases. Here it rests on: `, ...joined(facts.map(factWords)), "."),
    ),
  );
  return el("section", {}, el("h3", {}, "Rules of the graph that say it"), el("ul", { class: "near" }, rows));
}

/** What removing facts would do, estimated on request: it takes the service longer than the rest. */
function removals(question) {
  const place = el("div", { class: "parts" });
  const button = el("button", { type: "button", class: "quiet small", onclick: () => estimate() }, "Estimate it");
  const estimate = async () => {
    button.disabled = true;
    place.replaceChildren(waiting("the estimate", 3));
    try {
      const found = (await api.explain({ ...question, removals: true })).removals;
      place.replaceChildren(found.length ? el("ul", { class: "near" }, found.map(removal)) : el("p", {}, "No single fact carries it."));
      button.hidden = true;
      announce(`${count(found.length, "fact")} that the answer hangs on.`);
    } catch (error) {
      place.replaceChildren(problem(error));
      button.disabled = false;
    }
  };
  const about = "Training facts whose removal would lower the answer's share among all answers. Nothing is trained for it.";
  return el("section", {}, el("h3", {}, "What the answer hangs on"), el("p", { class: "hint" }, about), button, place);
}

function removal({ fact, change }) {
  return el("li", {}, el("span", {}, ...factWords(fact)), el("span", { class: "note" }, `Without it, about ${percent(Math.exp(change))} of its share.`));
}

function alike(cosine) {
  if (cosine > 0.8) return "very like";
  if (cosine > 0.5) return "like";
  if (cosine > 0.2) return "somewhat like";
  return "hardly like";
}

function between(why) {
  const parts = [];
  if (why.links.length) {
    const rows = why.links.map((fact) => el("li", {}, el("span", {}, ...factWords(fact))));
    parts.push(el("section", {}, el("h3", {}, "Other facts between the two"), el("ul", { class: "near" }, rows)));
  }
  if (why.paths.length) {
    const rows = why.paths.map((path) =>
      el(
        "li",
        {},
        el("span", {}, ...factWords(path.from_head), ", and ", ...factWords(path.to_tail)),
        el("span", { class: "note" }, `${path.name} has ${count(path.facts, "training fact")}.`),
      ),
    );
    parts.push(el("section", {}, el("h3", {}, "Joined to both"), el("ul", { class: "near" }, rows)));
  }
  return parts.length ? el("div", { class: "parts" }, parts) : null;
}

/** Parts with "and" between them. */
const joined = (parts) => parts.flatMap((part, place) => (place ? [" and ", ...part] : part));

const percent = (share) => `${Math.round(100 * share)} %`;

function bars(why) {
  const title = el("h3", {}, "What carried the score");
  if (!why.dimensions) return el("section", {}, title, el("p", {}, "This model's score is no sum over dimensions, so it has no parts to show."));
  const { of, total, values } = why.dimensions;
  const order = values.map((value, place) => [place, value]).sort((a, b) => Math.abs(b[1]) - Math.abs(a[1]));
  const largest = Math.abs(order[0][1]) || 1;
  const gaps = values.every((value) => value <= 0);
  const rows = order.slice(0, BARS).map(([place, value]) =>
    el(
      "tr",
      {},
      el("th", { scope: "row" }, place),
      el("td", { class: "bar" }, el("span", { class: value < 0 ? "against" : "for", style: { "--share": Math.abs(value) / largest } })),
      el("td", { class: "number" }, signed(value)),
    ),
  );
  const told = (why.carriers ?? []).filter((one) => one.like.length);
  const most = told.reduce((sum, { value }) => sum + Math.abs(value), 0) / (values.reduce((sum, value) => sum + Math.abs(value), 0) || 1);
  const words = told.map(({ dimension, value, like }) =>
    el(
      "li",
      {},
      el("span", {}, value < 0 ? "Against it" : "For it", ` (${signed(value)}, dimension ${dimension}): what ${value < 0 ? "also speaks against" : "also carries"} `, ...joined(like.map(factWords)), "."),
    ),
  );
  const rest = order.slice(BARS).reduce((sum, [, value]) => sum + value, 0);
  const meaning = gaps
    ? "Every dimension is a gap between where the relation leads and where the answer lies: the shorter, the better."
    : "What is positive speaks for the fact, what is negative against it.";
  return el(
    "section",
    {},
    title,
    el("p", {}, `${count(values.length, "dimension")} add up to ${of}: ${decimal(total)}. ${meaning}`),
    words.length ? el("p", {}, `${percent(most)} of it lies in ${count(words.length, "dimension")}:`) : null,
    words.length ? el("ul", { class: "near carriers" }, words) : null,
    el(
      "table",
      { class: "bars" },
      el("caption", { class: "only-heard" }, `The ${rows.length} dimensions that add most`),
      el("thead", { class: "only-heard" }, el("tr", {}, el("th", { scope: "col" }, "Dimension"), el("td", {}), el("th", { scope: "col" }, "Adds"))),
      el("tbody", {}, rows),
    ),
    order.length > BARS ? el("p", { class: "hint" }, `The other ${order.length - BARS} together: ${signed(rest)}.`) : null,
  );
}
