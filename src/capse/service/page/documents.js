// Documents as people type them, one a line.

const MADE = "text-"; // how an id begins that was made of a text

/** [{id, text}]: `d17`, `d17 | a text`, or a text, which gets an id made of it. Repeated ids are left out. */
export function parseDocuments(lines) {
  const found = new Map();
  for (const line of lines.split("\n").map((one) => one.trim()).filter(Boolean)) {
    const [, before, after] = line.match(/^([^|]*)\|(.*)$/) ?? [null, line, null];
    const words = (after ?? (/\s/.test(before) ? before : "")).trim();
    const id = after !== null || !words ? before.trim() : "";
    const one = { id: id || `${MADE}${hash(words)}`, text: words };
    if (!found.has(one.id)) found.set(one.id, one);
  }
  return [...found.values()];
}

/** A document in a sentence: its id, or some of its text where the id was made of that. */
export function short({ id, text }) {
  return id.startsWith(MADE) && text ? `“${text.length > 30 ? `${text.slice(0, 30).trimEnd()}…` : text}”` : id;
}

/** What the service is sent of a document: words beside an id are its title, a text alone is a text. */
export function sent({ id, text }) {
  if (!text) return { id };
  return id.startsWith(MADE) ? { id, text } : { id, title: text };
}

/** FNV-1a, in hexadecimal: the same text has the same id tomorrow. */
function hash(text) {
  let value = 0x811c9dc5;
  for (const byte of new TextEncoder().encode(text)) value = Math.imul(value ^ byte, 0x01000193) >>> 0;
  return value.toString(16).padStart(8, "0");
}

/** An id for an event or a session. */
export function randomId(prefix) {
  const numbers = crypto.getRandomValues(new Uint32Array(4)); // randomUUID needs https
  return `${prefix}-${[...numbers].map((number) => number.toString(16).padStart(8, "0")).join("")}`;
}
