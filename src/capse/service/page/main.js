// Starts the page: what the service has, where the address leads, colours and the API key.

import { api, onKeyNeeded, storeKey, storedKey } from "./api.js";
import { announce, el, problem, waiting } from "./dom.js";
import { graphHome, graphView } from "./graph.js";
import { here, link } from "./route.js";
import { searchView } from "./search.js";
import { setUpTheme } from "./theme.js";

const main = document.getElementById("main");
let served = {};
let leave = null; // what the view that is shown wants to do before another takes its place
let started = false;

async function show() {
  const route = here();
  const [part] = route.path;
  const wrong = route.wrong ?? wrongWith(route);
  if (wrong) return sayWrong(wrong);
  const view = part === "search" ? searchView : part === "entity" ? graphView : served.graph ? graphHome : searchView;
  if (view !== graphView || leave?.view !== graphView) window.scrollTo(0, 0);
  leave = { view };
  markNav(view === searchView ? "search" : "graph");
  if ((view === searchView && !served.search) || (view !== searchView && !served.graph)) {
    main.replaceChildren(missing(view === searchView ? "search" : "graph"));
  } else {
    await view(main, route);
  }
  if (started && !main.contains(document.activeElement)) main.focus({ preventScroll: true });
  started = true;
}

const SIDES = ["tail", "head", "relation"];

/** What is wrong with an address that can be read; null where nothing is. */
function wrongWith({ path: [part, id, ...rest], values }) {
  if (part === undefined || (part === "search" && id === undefined)) return null;
  if (part !== "entity") return `there is no part “${[part, id, ...rest].filter(Boolean).join("/")}” here`;
  if (id === undefined) return "the name of an entity is missing after “entity/”";
  if (rest.length) return `“${[id, ...rest].join("/")}” has a / in it, which is written %2F in an address`;
  if (values.side && !SIDES.includes(values.side)) return `side is “${values.side}”, and can be ${SIDES.join(", ")}`;
  return null;
}

function sayWrong(wrong) {
  document.title = "No such page – capse";
  leave = null;
  const home = el("a", { href: "#/" }, "Begin at the beginning");
  main.replaceChildren(problem({ title: "This address leads nowhere", detail: wrong }), el("p", {}, home));
}

function missing(kind) {
  const other = kind === "search" ? "graph" : "search";
  return el(
    "section",
    { class: "empty" },
    el("h1", {}, kind === "search" ? "No search run is served" : "No graph run is served"),
    el("p", {}, "Start the service with one to use this part: ", el("code", {}, "capse serve RUN"), "."),
    served[other] ? el("p", {}, el("a", { href: link(other === "search" ? ["search"] : []) }, `Go to the ${other} part`)) : null,
  );
}

function markNav(current) {
  for (const item of document.querySelectorAll("#nav a")) {
    if (item.dataset.part === current) item.setAttribute("aria-current", "page");
    else item.removeAttribute("aria-current");
  }
}

function setUpNav() {
  const parts = [["graph", "Graph", []], ["search", "Search", ["search"]]].filter(([part]) => served[part]);
  const items = parts.length > 1 ? parts : []; // one part needs no choice
  document
    .getElementById("nav")
    .replaceChildren(...items.map(([part, name, path]) => el("a", { href: link(path), "data-part": part }, name)));
}

function setUpKey() {
  const dialog = document.getElementById("key-dialog");
  const button = document.getElementById("key");
  const input = document.getElementById("key-input");
  const trouble = document.getElementById("key-problem");
  const open = (found = null) => {
    button.hidden = false;
    trouble.hidden = !(found && storedKey());
    trouble.textContent = found?.detail ? `${found.detail}.` : "";
    input.value = storedKey() ?? "";
    if (!dialog.open) dialog.showModal();
  };
  button.addEventListener("click", () => open());
  button.hidden = !storedKey();
  dialog.addEventListener("close", () => {
    if (!dialog.returnValue) return; // closed with Escape
    storeKey(dialog.returnValue === "keep" ? input.value.trim() : "");
    announce(storedKey() ? "The key is used from now on." : "The key is forgotten.");
    dialog.returnValue = "";
    start();
  });
  dialog.querySelector("form").addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.target !== input) return;
    event.preventDefault(); // the first button would be pressed, and that one forgets
    dialog.close("keep");
  });
  onKeyNeeded(open);
}

async function start() {
  main.replaceChildren(waiting("the page"));
  try {
    const ready = await api.ready();
    served = ready.versions ?? {};
    const versions = Object.entries(served).map(([kind, version]) => `${kind} ${version}`);
    document.getElementById("versions").textContent = versions.length ? `Models: ${versions.join(", ")}.` : "";
    setUpNav();
    await show();
  } catch (error) {
    main.replaceChildren(problem(error), el("button", { type: "button", onclick: start }, "Try again"));
  }
}

document.querySelector("[data-skip]").addEventListener("click", (event) => {
  event.preventDefault(); // the part after # is the address here
  main.focus();
});
window.addEventListener("hashchange", show);
setUpTheme(document.getElementById("theme"));
setUpKey();
start();
