// The neighbourhood of an entity as a picture. The list beside it says the same, so it is for the eye alone.

import { el, svg } from "./dom.js";
import { link } from "./route.js";

const ROW = 27; // pixels from one neighbour to the next
const GAP = 13; // between groups
const NARROW = 500; // below this width everything stands in one column
const ruler = document.createElement("canvas").getContext("2d");

/** A picture of chosen groups (see facts.js) that is drawn anew when its width changes. */
export function picture(name, groups) {
  const place = el("div", { class: "picture", "aria-hidden": "true" });
  let drawn = 0;
  new ResizeObserver(([entry]) => {
    const width = Math.floor(entry.contentRect.width);
    if (!width || width === drawn) return;
    drawn = width;
    ruler.font = `14px ${getComputedStyle(place).fontFamily}`;
    place.replaceChildren(width < NARROW ? tree(name, groups, width) : spread(name, groups, width));
  }).observe(place);
  return place;
}

/** The entity on the left, relations in the middle, neighbours on the right; arrows say who is the head. */
function spread(name, groups, width) {
  const tall = heightOf(groups);
  const height = Math.max(tall, 110) + 24;
  const centre = { x: width * 0.14, y: height / 2 };
  const [pill, room, dot] = [width * 0.47, width * 0.31, width * 0.69];
  const edges = [];
  const nodes = [];
  let y = (height - tall) / 2;
  for (const group of groups) {
    const rows = rowsOf(group);
    const middle = y + (rows.length * ROW) / 2;
    const half = pillWidth(group.name, room) / 2;
    const [back, forth] = [group.way !== "out", group.way !== "in"]; // does it lead to the entity, to the neighbours?
    edges.push(curve(centre.x + 9, centre.y, pill - half, middle, back, false));
    rows.forEach((row, number) => {
      const at = y + (number + 0.5) * ROW;
      edges.push(curve(pill + half, middle, dot - 6, at, false, forth && row.id !== null));
      nodes.push(neighbour(row, dot, at, width - dot - 14));
    });
    nodes.push(pillNode(group, pill, middle, room));
    y += rows.length * ROW + GAP;
  }
  const lines = wrapped(name, 2 * centre.x - 4).map((line, number) =>
    svg("text", { class: "centre", x: centre.x, y: centre.y + 28 + number * 19, "text-anchor": "middle" }, line),
  );
  return frame(width, height, edges, nodes, [svg("circle", { class: "centre", cx: centre.x, cy: centre.y, r: 9 }), ...lines]);
}

/** Everything below the entity, relation by relation: for a phone. */
function tree(name, groups, width) {
  const spine = 12;
  const edges = [];
  const nodes = [];
  let y = 42;
  let end = 24;
  for (const group of groups) {
    const half = pillWidth(group.name, width - 60) / 2;
    const at = y + ROW / 2;
    edges.push(svg("path", { class: "edge", d: `M${spine},${at}H${spine + 14}` }));
    nodes.push(pillNode(group, spine + 14 + half, at, width - 60));
    end = at;
    rowsOf(group).forEach((row, number) => {
      const below = at + (number + 1) * ROW;
      edges.push(svg("path", { class: "edge", d: `M${spine + 30},${at + 11}V${below}H${spine + 42}` }));
      nodes.push(neighbour(row, spine + 48, below, width - spine - 64));
    });
    y += (rowsOf(group).length + 1) * ROW + GAP;
  }
  edges.unshift(svg("path", { class: "edge", d: `M${spine},24V${end}` }));
  return frame(width, y, edges, nodes, [
    svg("circle", { class: "centre", cx: spine, cy: 16, r: 8 }),
    svg("text", { class: "centre", x: spine + 16, y: 21 }, fit(name, width - 40, "600 15px")),
  ]);
}

function rowsOf(group) {
  const hidden = group.all - group.neighbours.length;
  return hidden ? [...group.neighbours, { id: null, name: `… of ${group.all.toLocaleString("en")}` }] : group.neighbours;
}

function heightOf(groups) {
  return groups.reduce((sum, group) => sum + rowsOf(group).length * ROW + GAP, -GAP);
}

function frame(width, height, ...layers) {
  const head = { orient: "auto-start-reverse", markerWidth: 7, markerHeight: 7, refX: 6, refY: 3.5, viewBox: "0 0 7 7" };
  return svg(
    "svg",
    { width, height, viewBox: `0 0 ${width} ${height}`, focusable: "false" },
    svg("defs", {}, svg("marker", { id: "arrow", ...head }, svg("path", { class: "arrow", d: "M0 .5 6.5 3.5 0 6.5Z" }))),
    ...layers.flat(),
  );
}

function curve(x1, y1, x2, y2, startArrow, endArrow) {
  const middle = (x1 + x2) / 2;
  return svg("path", {
    class: "edge",
    d: `M${x1},${y1}C${middle},${y1} ${middle},${y2} ${x2},${y2}`,
    "marker-start": startArrow ? "url(#arrow)" : null,
    "marker-end": endArrow ? "url(#arrow)" : null,
  });
}

function neighbour(row, x, y, space) {
  const words = svg(
    "text",
    { x: x + 11, y: y + 5, class: row.id === null ? "more" : null },
    fit(row.name, space, "14px"),
  );
  if (row.id === null) return words;
  const dot = svg("circle", { class: "dot", cx: x, cy: y, r: 5 });
  return svg("a", { href: link(["entity", row.id]), tabindex: "-1" }, svg("title", {}, row.name), dot, words);
}

function pillNode(group, x, y, space) {
  const width = pillWidth(group.name, space);
  return svg(
    "g",
    {},
    svg("title", {}, group.relation),
    svg("rect", { class: "pill", x: x - width / 2, y: y - 11, width, height: 22, rx: 11 }),
    svg("text", { class: "pill", x, y: y + 4.5, "text-anchor": "middle" }, fit(group.name, width - 16, "13px")),
  );
}

function pillWidth(name, space) {
  return Math.min(measure(name, "13px") + 22, space);
}

function measure(text, size) {
  ruler.font = ruler.font.replace(/^.*px/, size);
  return ruler.measureText(text).width;
}

/** The text, or as much of it as there is room for. */
function fit(text, space, size) {
  if (measure(text, size) <= space) return text;
  let end = text.length;
  while (end > 1 && measure(`${text.slice(0, end)}…`, size) > space) end -= 1;
  return `${text.slice(0, end).trimEnd()}…`;
}

/** The entity's name on at most three lines. */
function wrapped(text, space) {
  const lines = [""];
  for (const word of text.split(" ")) {
    const longer = `${lines.at(-1)} ${word}`.trim();
    if (lines.length === 3 || measure(longer, "600 15px") <= space) lines[lines.length - 1] = longer;
    else lines.push(word);
  }
  return lines.filter(Boolean).map((line) => fit(line, space, "600 15px"));
}
