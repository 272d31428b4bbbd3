// The ranked answers to one question, each with a reason on request.

import { api } from "./api.js";
import { announce, count, decimal, el, named, problem, readable, waiting } from "./dom.js";
import { go, link } from "./route.js";
import { explanation } from "./why.js";

const TOP = 10;
let last = null; // the question whose answers stand there: {key, place, rows}
let wanted = null; // the one asked last, whose answers may be on their way

/**
 * Fill `place` with the answers to the question in `values`; nothing is asked again that stands there already. Returns
 * the name of the other entity of a question for a relation.
 */
export async function answers(place, entity, values) {
  const { relation, side = "tail", with: other } = values;
  const between = side === "relation";
  if (!(between ? other : relation)) {
    last = wanted = null;
    const hint = between
      ? "Choose another entity, and the model ranks every relation between the two."
      : "Choose a relation, and the model ranks every entity as the answer.";
    return place.replaceChildren(el("p", { class: "empty" }, hint));
  }
  const key = JSON.stringify([entity.entity, between ? other : relation, side, values.new, values.seen]);
  if (last?.key !== key || last.place !== place) {
    last = null;
    wanted = key;
    place.replaceChildren(waiting("answers", 5));
    const query = between ? { head: entity.entity, tail: other } : { relation, [side === "tail" ? "head" : "tail"]: entity.entity };
    let found, second;
    try {
      [found, second] = await Promise.all([
        api.predict({ ...query, top: TOP, new: values.new === "1", seen: !between && values.seen === "1" }),
        between ? api.entity(other) : null,
      ]);
      if (wanted !== key) return;
      last = list(entity, { ...values, second }, found.predictions);
    } catch (error) {
      const near = (error.nearest ?? []).map((name) =>
        el("li", {}, el("a", { href: link(["entity", entity.entity], { ...values, [between ? "with" : "relation"]: name, why: null }) }, name)),
      );
      return place.replaceChildren(problem(error), near.length ? el("ul", { class: "names" }, near) : "");
    }
    Object.assign(last, { key, place, other: second?.name });
    place.replaceChildren(...last.nodes);
    place.scrollIntoView({ block: "nearest", behavior: calm() ? "auto" : "smooth" });
    announce(last.heard);
  }
  for (const row of last.rows) row.open(row.id === values.why);
  return last.other;
}

const calm = () => matchMedia("(prefers-reduced-motion: reduce)").matches;

function list(entity, values, predictions) {
  const { side = "tail", second } = values;
  const words = readable(values.relation ?? "");
  const questions = { tail: [entity.name, words, "?"], head: ["?", words, entity.name], relation: [entity.name, "?", second?.name] };
  const question = questions[side] ?? questions.tail;
  const title = el("h2", {}, question.flatMap((part, place) => (place ? [el("span", { class: "dash" }, " — "), named(part)] : [named(part)])));
  if (!predictions.length) {
    return { nodes: [title, el("p", { class: "empty" }, "Every answer is known already.")], rows: [], heard: "No new answer." };
  }
  const calibrated = predictions[0].probability !== null && predictions[0].probability !== undefined;
  const rows = predictions.map((answer, place) => answerRow(entity, values, answer, place + 1, calibrated));
  const scores = "These are scores: higher is likelier, and no more than that.";
  const uncalibrated = second ? scores : `${scores} A calibrated run shows probabilities.`;
  const meaning = calibrated
    ? "Probabilities hold where true facts and facts with a random answer are equally frequent. They do not sum to 1."
    : uncalibrated;
  const best = predictions[0];
  const heard = `${count(predictions.length, "answer")}. The first is ${called(best)}, ${worth(best, calibrated)}.`;
  return { nodes: [title, el("ol", { class: "ranked" }, rows.map((row) => row.node)), el("p", { class: "hint" }, meaning)], rows, heard };
}

/** An answer's name: an entity's as it is, a relation's as words. */
function called(answer) {
  return answer.relation === undefined ? answer.name : readable(answer.name);
}

function worth(answer, calibrated) {
  return calibrated ? `probability ${percent(answer.probability)}` : `score ${decimal(answer.score)}`;
}

export function percent(share) {
  const value = share * 100;
  if (value > 99 && value < 100) return "> 99 %";
  if (value > 0 && value < 1) return "< 1 %";
  return `${Math.round(value)} %`;
}

function answerRow(entity, values, answer, rank, calibrated) {
  const { side = "tail", second } = values;
  const own = second ? answer.relation : answer.entity;
  const kept = { ...values, second: null };
  const target = second ? link(["entity", entity.entity], { relation: own }) : link(["entity", own]);
  const body = el("div", { class: "why", id: `why-${rank}`, hidden: true });
  const why = el(
    "button",
    {
      type: "button",
      class: "quiet small",
      "aria-expanded": "false",
      "aria-controls": body.id,
      "aria-label": `Why ${called(answer)}?`,
      onclick: () => go(["entity", entity.entity], { ...kept, why: body.hidden ? own : null }),
    },
    "Why?",
  );
  const bar = calibrated ? el("span", { class: "share", style: { "--share": answer.probability } }) : null;
  const number = calibrated ? percent(answer.probability) : decimal(answer.score);
  const node = el(
    "li",
    {},
    el(
      "div",
      { class: "answer" },
      el("span", { class: "rank", "aria-hidden": "true" }, rank),
      el(
        "span",
        { class: "name" },
        el("a", { href: target }, named(called(answer))),
        answer.known ? el("span", { class: "badge" }, "known") : null,
      ),
      el("span", { class: "worth" }, el("span", { class: "only-heard" }, calibrated ? "probability " : "score "), number, bar),
      why,
    ),
    body,
  );
  let filled = false;
  return {
    id: own,
    node,
    open: async (shown) => {
      why.setAttribute("aria-expanded", String(shown));
      body.hidden = !shown;
      if (!shown || filled) return;
      filled = true;
      body.replaceChildren(waiting("the explanation", 4));
      const [head, tail] = side === "head" ? [answer.entity, entity.entity] : [entity.entity, second?.entity ?? answer.entity];
      const triple = { head, relation: second ? own : values.relation, tail };
      const question = { ...triple, asked: side === "head" ? "head" : "tail" };
      try {
        const [told, judged] = await Promise.all([api.explain(question), api.score([triple])]);
        body.replaceChildren(...explanation(told, question, judged.scores[0].verdict).filter(Boolean));
        announce(`Explanation of ${called(answer)} shown.`);
      } catch (error) {
        filled = false; // another attempt may go better
        body.replaceChildren(problem(error));
      }
    },
  };
}
