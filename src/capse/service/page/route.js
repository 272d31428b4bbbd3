// The part of the address after #: #/entity/Kenya?relation=borders is a path and values.

/** {path, values}, with `wrong` in words where the address cannot be read. */
export function here() {
  const [path, values] = location.hash.replace(/^#\/?/, "").split("?");
  const found = { path: [], values: Object.fromEntries(new URLSearchParams(values ?? "")) };
  try {
    found.path = path.split("/").filter(Boolean).map(decodeURIComponent);
  } catch {
    found.wrong = `“${path}” holds a % that no letter follows`;
  }
  return found;
}

/** An address; values that are empty are left out. */
export function link(path, values = {}) {
  const kept = Object.entries(values).filter(([, value]) => value !== null && value !== undefined && value !== "");
  const after = kept.length ? `?${new URLSearchParams(kept)}` : "";
  return `#/${path.map(encodeURIComponent).join("/")}${after}`;
}

export function go(path, values) {
  location.hash = link(path, values);
}
