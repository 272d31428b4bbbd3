// The search part: one query for two people, in the engine's order and in the order for each of them.

import { api } from "./api.js";
import { announce, count, el, freshId, named, problem, waiting } from "./dom.js";
import { parseDocuments, randomId, short } from "./documents.js";
import { person } from "./person.js";
import { go, link } from "./route.js";

const EXAMPLE = "d17\nd4 | A title or a text, where the run does not know the id\nA text alone will do";
let shown = null; // the form and lists that stand there

export async function searchView(main, { values }) {
  document.title = "Search – capse";
  if (!shown || !main.contains(shown.node)) {
    shown = page();
    main.replaceChildren(shown.node);
  }
  shown.fill(values);
  await shown.compare(values);
}

function page() {
  const session = randomId("page");
  const query = field("Query", { type: "text", placeholder: "What both of them type", autocomplete: "off" });
  const known = el("datalist", { id: freshId("people") });
  const people = ["First person", "Second person"].map((label) =>
    field(label, { type: "text", autocomplete: "off", spellcheck: "false", list: known.id, dir: "auto" }),
  );
  const documents = field("What the engine found, in its order", { rows: 9, wrap: "off", placeholder: EXAMPLE, spellcheck: "false" }, "textarea");
  const samples = el("div", { class: "some" });
  const chips = el("div", { class: "some" });
  const results = el("div", { class: "lists" });
  const hint = "One document a line: an id that the run knows, an id | a text, or a text.";
  const form = el(
    "form",
    {
      class: "panel",
      onsubmit: (event) => {
        event.preventDefault();
        const [a, b] = people.map((one) => one.input.value.trim());
        const next = { q: query.input.value.trim(), a, b, documents: documents.input.value.trim() };
        if (link(["search"], next) === location.hash) compare({ ...asked }); // the same once more
        else go(["search"], next);
      },
    },
    el("div", {}, query.node, el("div", { class: "pair" }, people.map((one) => one.node)), known, chips),
    el("div", {}, documents.node, el("p", { class: "hint" }, hint), samples),
    el("button", { type: "submit" }, "Compare"),
  );
  let asked = {};

  async function compare(values) {
    asked = values;
    if (!values.documents) {
      const words = "Give a list of documents, and see it in the order for two people. Open a result in somebody's name, and their next list follows.";
      return results.replaceChildren(el("p", { class: "empty" }, words));
    }
    const list = parseDocuments(values.documents);
    results.replaceChildren(waiting("the lists", 8));
    const stale = () => asked !== values; // somebody compares something else by now
    const columns = [values.a, values.b].map((user) => person({ user, query: values.q ?? "", list, session }));
    try {
      await Promise.all(columns.map((column) => column.refresh()));
    } catch (error) {
      return stale() ? null : results.replaceChildren(problem(error));
    }
    if (stale()) return;
    results.replaceChildren(engine(list), ...columns.map((column) => column.node));
    announce(columns.map((column) => column.heard()).join(" "));
  }

  return {
    node: el(
      "div",
      { class: "search" },
      el("h1", {}, "One query, two people"),
      el("p", { class: "lead" }, "The engine's list, and the same list in the order for each of them. What they open teaches the next list."),
      form,
      results,
    ),
    fill: (values) => {
      query.input.value = values.q ?? "";
      documents.input.value = values.documents ?? "";
      people.forEach((one, place) => (one.input.value = [values.a, values.b][place] ?? ["ada", "grace"][place]));
      offerSamples(samples, people);
      offerPeople(known, chips, people);
    },
    compare: (values) => compare({ q: "", documents: "", a: "ada", b: "grace", ...values }),
  };
}

/** Lists that the run itself offers, where it does. */
async function offerSamples(place, people) {
  if (place.childElementCount) return;
  try {
    const { samples } = await api.samples();
    const choose = ({ query, documents }) => {
      const lines = documents.map(({ id, title }) => (title && title !== id ? `${id} | ${title}` : id)).join("\n");
      const [a, b] = people.map((one) => one.input.value.trim());
      go(["search"], { q: query, a, b, documents: lines });
    };
    const button = (sample) => el("button", { type: "button", class: "quiet small", onclick: () => choose(sample) }, sample.query);
    if (samples.length && !place.childElementCount) place.append(el("p", { class: "hint" }, "Or lists of the run's own documents: "), ...samples.map(button));
  } catch (error) {
    if (error.status !== 404) place.replaceChildren(problem(error));
  }
}

/** People of whom something is remembered, where the key may see them: in the fields' lists, and two to begin with. */
async function offerPeople(known, place, people) {
  const { users } = await api.users().catch(() => ({ users: [] }));
  known.replaceChildren(...users.map((user) => el("option", { value: user })));
  if (users.length < 2) return place.replaceChildren();
  const choose = () => people.forEach((one, at) => (one.input.value = users[at]));
  const button = el("button", { type: "button", class: "quiet small", onclick: choose }, named(users[0]), " and ", named(users[1]));
  place.replaceChildren(el("p", { class: "hint" }, "People with a history: "), button);
}

function field(label, properties, tag = "input") {
  const id = freshId("field");
  const input = el(tag, { id, ...properties });
  return { input, node: el("div", { class: "labelled" }, el("label", { for: id }, label), input) };
}

function engine(list) {
  const rows = list.map((one, place) =>
    el(
      "li",
      {},
      el("span", { class: "rank", "aria-hidden": "true" }, place + 1),
      el("div", {}, named(one.text || one.id, { class: "title" }), one.text && short(one) === one.id ? el("p", { class: "note" }, one.id) : null),
    ),
  );
  const wide = matchMedia("(min-width: 52rem)").matches; // where two lists fill the width, the engine's can wait
  return el(
    "section",
    { class: "list engine" },
    el(
      "details",
      { open: wide },
      el("summary", {}, el("h2", {}, "The engine's order")),
      el("p", { class: "hint" }, `${count(list.length, "document")}, the same for everybody.`),
      el("ol", {}, rows),
    ),
  );
}
