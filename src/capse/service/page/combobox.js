// A text field that offers what it finds in a list below: the ARIA combobox with a listbox.

import { count, el, freshId, named } from "./dom.js";

const PAUSE = 120; // milliseconds without a key before the service is asked

/**
 * `find(text, signal)` gives rows {id, name, note}; `choose(row)` is called with the one that was chosen.
 * Returns the element, with `.input` for its field and `.set(text)`.
 */
export function combobox({ label, placeholder = "", find, choose, hint = null }) {
  const ids = { input: freshId("field"), list: freshId("list"), hint: freshId("hint") };
  // Not a stop for the tab key, which browsers make of whatever scrolls.
  const list = el("ul", { id: ids.list, role: "listbox", "aria-label": label, tabindex: "-1", class: "options", hidden: true });
  const heard = el("span", { class: "only-heard", role: "status", "aria-live": "polite" });
  const input = el("input", {
    id: ids.input,
    type: "text",
    role: "combobox",
    placeholder,
    autocomplete: "off",
    dir: "auto",
    autocapitalize: "off",
    spellcheck: "false",
    "aria-autocomplete": "list",
    "aria-expanded": "false",
    "aria-controls": ids.list,
    "aria-describedby": hint ? ids.hint : null,
  });
  let rows = [];
  let active = -1;
  let timer = 0;
  let asked = null;

  function open(shown) {
    list.hidden = !shown;
    input.setAttribute("aria-expanded", String(shown));
    if (!shown) mark(-1);
  }

  function mark(index) {
    active = index;
    [...list.children].forEach((option, place) => option.setAttribute("aria-selected", String(place === index)));
    if (index < 0) return input.removeAttribute("aria-activedescendant");
    input.setAttribute("aria-activedescendant", list.children[index].id);
    list.children[index].scrollIntoView({ block: "nearest" });
  }

  function pick(index) {
    const row = rows[index];
    if (!row) return;
    input.value = row.name;
    open(false);
    choose(row);
  }

  async function look() {
    asked?.abort();
    asked = new AbortController();
    const text = input.value.trim();
    try {
      rows = await find(text, asked.signal);
    } catch (error) {
      if (error.name === "AbortError") return;
      rows = [];
      list.replaceChildren(el("li", { class: "none", role: "option", "aria-disabled": "true" }, error.message));
      return open(true);
    }
    list.replaceChildren(
      ...rows.map((row, place) =>
        el(
          "li",
          {
            id: `${ids.list}-${place}`,
            role: "option",
            "aria-selected": "false",
            onpointerdown: (event) => event.preventDefault(), // the field keeps the focus
            onclick: () => pick(place),
          },
          el("span", {}, named(row.name)),
          row.note ? el("span", { class: "note" }, named(row.note)) : null,
        ),
      ),
    );
    if (!rows.length) {
      list.append(el("li", { class: "none", role: "option", "aria-disabled": "true" }, "Nothing is like that"));
    }
    heard.textContent = rows.length ? `${count(rows.length, "suggestion")}. Choose with the arrow keys.` : "No suggestion.";
    mark(-1);
    open(document.activeElement === input);
  }

  input.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(look, PAUSE);
  });
  input.addEventListener("focus", () => {
    input.select();
    look();
  });
  input.addEventListener("blur", () => {
    clearTimeout(timer);
    open(false);
  });
  input.addEventListener("keydown", async (event) => {
    const shown = !list.hidden && rows.length > 0;
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      if (!shown) return look();
      const step = event.key === "ArrowDown" ? 1 : -1;
      mark((active + step + rows.length + (active < 0 && step < 0 ? 1 : 0)) % rows.length);
    } else if (event.key === "Enter") {
      event.preventDefault();
      clearTimeout(timer);
      if (!shown || active < 0) await look(); // what was typed last counts, not what was found before it
      pick(Math.max(active, 0));
    } else if (event.key === "Escape" && !list.hidden) {
      event.preventDefault();
      open(false);
    } else if (event.key === "Home" || event.key === "End") {
      mark(-1);
    }
  });

  const node = el(
    "div",
    { class: "combobox" },
    el("label", { for: ids.input }, label),
    el("div", { class: "field" }, input, list),
    hint ? el("p", { class: "hint", id: ids.hint }, hint) : null,
    heard,
  );
  return Object.assign(node, { input, set: (text) => (input.value = text) });
}
