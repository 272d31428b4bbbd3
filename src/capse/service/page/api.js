// The service, and its problems as errors with a title, a detail and a remedy.

const KEY = "capse-key";

export class Problem extends Error {
  constructor({ title, detail, remedy, status, nearest }) {
    super(detail ?? title);
    Object.assign(this, { title, detail, remedy, status, nearest });
  }
}

let askForKey = () => {};

/** Called with the problem whenever the service wants another key. */
export function onKeyNeeded(listener) {
  askForKey = listener;
}

export function storedKey() {
  return sessionStorage.getItem(KEY);
}

export function storeKey(key) {
  if (key) sessionStorage.setItem(KEY, key);
  else sessionStorage.removeItem(KEY);
}

async function ask(method, path, { body, signal } = {}) {
  const headers = { accept: "application/json" };
  if (body !== undefined) headers["content-type"] = "application/json";
  if (storedKey()) headers.authorization = `Bearer ${storedKey()}`;
  let response;
  try {
    response = await fetch(path, { method, headers, signal, body: body === undefined ? undefined : JSON.stringify(body) });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    const remedy = "check that it is running, and try again";
    throw new Problem({ title: "The service does not answer", remedy, status: 0 });
  }
  const text = await response.text();
  let content = null;
  try {
    content = text ? JSON.parse(text) : null;
  } catch {
    if (response.ok) throw new Problem({ title: "The answer makes no sense", remedy: "try again", status: response.status });
  }
  if (response.ok) return content;
  const found = new Problem({ title: `The service answered ${response.status}`, ...content, status: response.status });
  if (response.status === 401) askForKey(found);
  throw found;
}

const FACTS = 5000; // at a time

/** An entity with all of its facts. */
async function entity(id) {
  const path = `v1/entities/${encodeURIComponent(id)}`;
  const found = await ask("GET", `${path}?${query({ limit: FACTS })}`);
  while (found.facts.length < found.total) {
    const more = await ask("GET", `${path}?${query({ limit: FACTS, offset: found.facts.length })}`);
    if (!more.facts.length) break; // another graph took its place meanwhile
    found.facts.push(...more.facts);
  }
  return found;
}

const query = (values) => new URLSearchParams(values).toString();

export const api = {
  ready: () => ask("GET", "ready"),
  entities: (q, limit = 8, signal) => ask("GET", `v1/entities?${query({ q, limit })}`, { signal }),
  relations: (q, limit = 100, signal) => ask("GET", `v1/relations?${query({ q, limit })}`, { signal }),
  entity,
  predict: (body) => ask("POST", "v1/predict", { body }),
  similar: (id, top) => ask("GET", `v1/similar/${encodeURIComponent(id)}?${query({ top })}`),
  score: (triples) => ask("POST", "v1/score", { body: { triples } }),
  explain: (body) => ask("POST", "v1/explain", { body }),
  users: () => ask("GET", `v1/users?${query({ limit: 20 })}`),
  samples: () => ask("GET", "v1/search/samples"),
  rerank: (body) => ask("POST", "v1/rerank", { body }),
  events: (events) => ask("POST", "v1/events", { body: { events } }),
  user: (id) => ask("GET", `v1/users/${encodeURIComponent(id)}`),
  forget: (id) => ask("DELETE", `v1/users/${encodeURIComponent(id)}`),
};
