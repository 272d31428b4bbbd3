// One person's list: the order for them, what moved and why; what they open teaches the next list.

import { api } from "./api.js";
import { announce, count, el, named, problem } from "./dom.js";
import { randomId, sent, short } from "./documents.js";

const STRONG = 0.1; // share of a profile that makes a topic an interest

export function person({ user, query, list, session }) {
  const byId = new Map(list.map((one) => [one.id, one]));
  const about = el("div", { class: "profile" });
  const items = el("ol");
  const trouble = el("div");
  const node = el("section", { class: "list" }, el("h2", {}, "For ", named(user)), about, trouble, items);
  const impression = randomId("shown");
  const opened = new Set();
  let ranked = [];

  async function refresh() {
    const answer = await api.rerank({ user, session, query, documents: list.map(sent), explain: true });
    const before = places(items);
    ranked = answer.documents;
    items.replaceChildren(...ranked.map(row));
    slide(items, before);
    await describe();
  }

  async function describe() {
    const known = ranked.some((one) => one.score !== null);
    const stored = opened.size > 0 || ranked.some((one) => one.reasons?.past.length);
    let profile = null;
    try {
      if (stored) profile = await api.user(user); // of others the service says that it knows nothing, which is no answer
    } catch (error) {
      return about.replaceChildren(problem(error)); // the list stands all the same
    }
    const words = profile
      ? `${count(profile.satisfied, "document")} opened.`
      : known
        ? "Known from training; nothing opened since."
        : "Nothing is known of them: the engine's order stays.";
    const strong = (profile?.interests ?? []).filter((one) => one.share >= STRONG);
    const interests = strong.flatMap((one) => one.words.slice(0, 3)).slice(0, 6);
    about.replaceChildren(
      el("p", { class: "hint" }, words, interests.length ? ` Interests: ${interests.join(", ")}.` : ""),
      profile ? el("button", { type: "button", class: "quiet small", onclick: forget }, `Forget ${user}`) : "",
    );
  }

  async function act(doing, done) {
    trouble.replaceChildren();
    node.setAttribute("aria-busy", "true");
    try {
      await doing();
      await refresh();
      announce(`${done} ${heard()}`);
    } catch (error) {
      trouble.replaceChildren(problem(error));
    } finally {
      node.removeAttribute("aria-busy");
    }
  }

  const open = (document) =>
    act(async () => {
      const time = Date.now() / 1000;
      const click = { id: randomId("click"), kind: "click", user, session, time, query, document: document.id };
      const { title, text } = sent(document);
      if (title || text) Object.assign(click, { title: title ?? "", text: text ?? null });
      const documents = ranked.map((one) => one.document);
      const shown = { id: impression, kind: "impression", user, session, time, query, documents };
      await api.events(opened.size ? [click] : [shown, click]);
      opened.add(document.id);
    }, "Stored.").then(() => items.querySelector(`[data-id="${CSS.escape(document.id)}"]`)?.focus());

  const forget = () =>
    act(async () => {
      await api.forget(user);
      opened.clear();
    }, `${user} is forgotten.`);

  function row(one) {
    const document = byId.get(one.document);
    const up = one.position - one.rank;
    const moved = up ? el("span", { class: up > 0 ? "moved up" : "moved down" }, up > 0 ? `↑ ${up}` : `↓ ${-up}`) : null;
    if (moved) moved.append(el("span", { class: "only-heard" }, ` ${up > 0 ? "up" : "down"} from place ${one.position}`));
    const button = el(
      "button",
      { type: "button", class: "title", "data-id": document.id, title: `${user} opens this`, onclick: () => open(document) },
      named(document.text || document.id),
      el("span", { class: "only-heard" }, `, open as ${user}`),
    );
    return el(
      "li",
      { "data-key": document.id },
      el("span", { class: "rank", "aria-hidden": "true" }, one.rank),
      el("div", {}, button, notes(one, document)),
      moved,
    );
  }

  /** Its id, whether it was opened, and what in the profile speaks for it. */
  function notes({ reasons: why, score }, document) {
    const topics = (why?.topics ?? []).slice(0, 1).map((topic) => `shares ${topic.words.slice(0, 3).join(", ")}`);
    const past = (why?.past ?? []).slice(0, 1).map((near) => `like ${short(byId.get(near.id) ?? near)} (${near.likeness.toFixed(2)})`);
    const reasons = topics.length || past.length || score === null ? [...topics, ...past] : ["nothing in common"];
    const own = document.text && short(document) === document.id ? [document.id] : [];
    const words = [...own, ...reasons].join(" · ");
    const badge = opened.has(document.id) ? el("span", { class: "badge" }, "opened") : null;
    return words || badge ? el("p", { class: "note" }, named(words), badge) : null;
  }

  function heard() {
    const moved = ranked.filter((one) => one.rank !== one.position).length;
    const first = short(byId.get(ranked[0].document));
    return moved ? `For ${user}, ${count(moved, "document")} moved; first is ${first}.` : `For ${user}, the engine's order stays.`;
  }

  return { node, refresh, heard };
}

const places = (list) => new Map([...list.children].map((item) => [item.dataset.key, item.getBoundingClientRect().top]));

/** Let rows glide from where they stood, for those who like motion. */
function slide(list, before) {
  if (matchMedia("(prefers-reduced-motion: reduce)").matches) return;
  for (const item of list.children) {
    const from = before.get(item.dataset.key);
    const by = from - item.getBoundingClientRect().top;
    if (from !== undefined && by) item.animate([{ transform: `translateY(${by}px)` }, { transform: "none" }], { duration: 350, easing: "ease-out" });
  }
}
