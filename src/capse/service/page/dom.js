// Small helpers: elements, announcements, waiting and problems in words.

const SVG = "http://www.w3.org/2000/svg";

/** An element. Properties that begin with "on" are listeners; null and false leave a property out. */
export function el(tag, properties = {}, ...children) {
  return fill(document.createElement(tag), properties, children);
}

/** The same for SVG. */
export function svg(tag, properties = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), properties, children);
}

function fill(node, properties, children) {
  for (const [name, value] of Object.entries(properties)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "style") for (const [key, one] of Object.entries(value)) node.style.setProperty(key, one);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

/** A name, which may be long and of any script: its direction is its own, and what is cut off can be read on hovering. */
export function named(text, properties = {}) {
  return el("bdi", { title: text.length > 40 ? text : null, ...properties }, text);
}

/** Say something to those who listen instead of look. */
export function announce(text) {
  const place = document.getElementById("announcer");
  place.textContent = "";
  setTimeout(() => (place.textContent = text), 50); // a change is heard, the same text again is not
}

/** Lines that stand for what is on its way. */
export function waiting(what, lines = 3) {
  const rows = Array.from({ length: lines }, () => el("span", { class: "line" }));
  return el("div", { class: "waiting", role: "status" }, el("span", { class: "only-heard" }, `Loading ${what} …`), rows);
}

/** What went wrong and what to do about it. */
export function problem(error) {
  return el(
    "div",
    { class: "notice bad", role: "alert" },
    el("p", {}, el("strong", {}, error.title ?? "That did not work"), error.detail ? `: ${error.detail}.` : "."),
    error.remedy ? el("p", {}, sentence(error.remedy)) : null,
  );
}

export function sentence(text) {
  const whole = text.charAt(0).toUpperCase() + text.slice(1);
  return /[.?!]$/.test(whole) ? whole : `${whole}.`;
}

/**
 * A relation as people read it. Names are left alone; labels as Freebase and WordNet have them are not made for reading:
 * "/people/person/place_of_birth" becomes "place of birth", "_hypernym" becomes "hypernym".
 */
export function readable(relation) {
  if (!/^[/_]\S+$/.test(relation)) return relation;
  const parts = relation.split("./").map((part) => part.split("/").pop().replaceAll("_", " ").trim());
  return parts.filter(Boolean).join(" › ") || relation;
}

/** Three places, or as many as a small number needs; a minus that is one. */
export function decimal(value) {
  const text = value !== 0 && Math.abs(value) < 0.001 ? value.toExponential(1) : value.toFixed(3);
  return text.replaceAll("-", "−");
}

export function signed(value) {
  return value < 0 ? decimal(value) : `+${decimal(value)}`;
}

let last = 0;

/** An id that nothing else on the page has. */
export function freshId(prefix) {
  last += 1;
  return `${prefix}-${last}`;
}

export function count(number, one, many = `${one}s`) {
  return `${number.toLocaleString("en")} ${number === 1 ? one : many}`;
}
