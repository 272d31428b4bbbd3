// The ranked answers to one question, each with a reason on request.

import { api } from "./api.js";
import { announce, count, decimal, el, problem, readable, waiting } from "./dom.js";
import { go, link } from "./route.js";
import { explanation } from "./why.js";

const TOP = 10;
let last = null; // the question whose answers stand there: {key, place, rows}
let wanted = null; // the one asked last, whose answers may be on their way

/** Fill `place` with the answers to the question in `values`; nothing is asked again that stands there already. */
export async function answers(place, entity, values) {
  const { relation, side = "tail" } = values;
  if (!relation) {
    last = wanted = null;
    return place.replaceChildren(el("p", { class: "empty" }, "Choose a relation, and the model ranks every entity as the answer."));
  }
  const key = JSON.stringify([entity.entity, relation, side, values.new]);
  if (last?.key !== key || last.place !== place) {
    last = null;
    wanted = key;
    place.replaceChildren(waiting("answers", 5));
    const known = side === "tail" ? "head" : "tail";
    try {
      const found = await api.predict({ relation, [known]: entity.entity, top: TOP, new: values.new === "1" });
      if (wanted !== key) return;
      last = list(entity, values, found.predictions);
    } catch (error) {
      const near = (error.nearest ?? []).map((name) =>
        el("li", {}, el("a", { href: link(["entity", entity.entity], { ...values, relation: name, why: null }) }, name)),
      );
      return place.replaceChildren(problem(error), near.length ? el("ul", { class: "names" }, near) : "");
    }
    Object.assign(last, { key, place });
    place.replaceChildren(...last.nodes);
    place.scrollIntoView({ block: "nearest", behavior: calm() ? "auto" : "smooth" });
    announce(last.heard);
  }
  for (const row of last.rows) row.open(row.id === values.why);
}

const calm = () => matchMedia("(prefers-reduced-motion: reduce)").matches;

function list(entity, values, predictions) {
  const { relation, side = "tail" } = values;
  const words = readable(relation);
  const question = side === "tail" ? [entity.name, words, "?"] : ["?", words, entity.name];
  const title = el("h2", {}, question.flatMap((part, place) => (place ? [el("span", { class: "dash" }, " — "), part] : [part])));
  if (!predictions.length) {
    return { nodes: [title, el("p", { class: "empty" }, "Every answer is known already.")], rows: [], heard: "No new answer." };
  }
  const calibrated = predictions[0].probability !== null && predictions[0].probability !== undefined;
  const rows = predictions.map((answer, place) => answerRow(entity, values, answer, place + 1, calibrated));
  const meaning = calibrated
    ? "Probabilities hold where true facts and facts with a random answer are equally frequent. They do not sum to 1."
    : "These are scores: higher is likelier, and no more than that. A calibrated run shows probabilities.";
  const best = predictions[0];
  const heard = `${count(predictions.length, "answer")}. The first is ${best.name}, ${worth(best, calibrated)}.`;
  return { nodes: [title, el("ol", { class: "ranked" }, rows.map((row) => row.node)), el("p", { class: "hint" }, meaning)], rows, heard };
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
  const { relation, side = "tail" } = values;
  const body = el("div", { class: "why", id: `why-${rank}`, hidden: true });
  const why = el(
    "button",
    {
      type: "button",
      class: "quiet small",
      "aria-expanded": "false",
      "aria-controls": body.id,
      "aria-label": `Why ${answer.name}?`,
      onclick: () => go(["entity", entity.entity], { ...values, why: body.hidden ? answer.entity : null }),
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
        el("a", { href: link(["entity", answer.entity]) }, answer.name),
        answer.known ? el("span", { class: "badge" }, "known") : null,
      ),
      el("span", { class: "worth" }, el("span", { class: "only-heard" }, calibrated ? "probability " : "score "), number, bar),
      why,
    ),
    body,
  );
  let filled = false;
  return {
    id: answer.entity,
    node,
    open: async (shown) => {
      why.setAttribute("aria-expanded", String(shown));
      body.hidden = !shown;
      if (!shown || filled) return;
      filled = true;
      body.replaceChildren(waiting("the explanation", 4));
      const triple = side === "tail" ? { head: entity.entity, tail: answer.entity } : { head: answer.entity, tail: entity.entity };
      try {
        body.replaceChildren(...explanation(await api.explain({ ...triple, relation, asked: side })));
        announce(`Explanation of ${answer.name} shown.`);
      } catch (error) {
        filled = false; // another attempt may go better
        body.replaceChildren(problem(error));
      }
    },
  };
}
