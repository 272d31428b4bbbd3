// What a reader of the page must be able to see and hear, as a list of complaints. Run inside the page.
() => {
  const complaints = [];
  const visible = (node) => node.checkVisibility({ visibilityProperty: true, opacityProperty: true });
  const say = (node, what) => complaints.push(`${what}: ${node.outerHTML.slice(0, 120)}`);

  // Contrast of text, WCAG 2.2, 1.4.3.
  const parse = (colour) => (colour.match(/[\d.]+/g) ?? []).map(Number);
  const channel = (value) => (value /= 255) <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  const luminance = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
  const ratio = (a, b) => {
    const [high, low] = [luminance(a), luminance(b)].sort((x, y) => y - x);
    return (high + 0.05) / (low + 0.05);
  };
  const ground = (node) => {
    for (let one = node; one; one = one.parentElement) {
      const colour = parse(getComputedStyle(one).backgroundColor);
      if (colour.length === 3 || colour[3] === 1) return colour;
    }
    return parse(getComputedStyle(document.body).backgroundColor);
  };
  let measured = 0;
  for (const node of document.querySelectorAll("body *")) {
    const inSvg = node instanceof SVGElement;
    const words = [...node.childNodes].some((child) => child.nodeType === 3 && child.data.trim());
    if (!words || !visible(node) || node.closest(".only-heard, noscript, title") || (inSvg && node.tagName !== "text")) continue;
    const style = getComputedStyle(node);
    const size = parseFloat(style.fontSize);
    const large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
    const rect = inSvg && node.previousElementSibling?.matches("rect.pill") ? node.previousElementSibling : null;
    const behind = rect ? parse(getComputedStyle(rect).fill) : ground(inSvg ? node.ownerSVGElement.parentElement : node);
    const found = ratio(parse(inSvg ? style.fill : style.color), behind);
    measured += 1;
    if (found < (large ? 3 : 4.5)) say(node, `contrast ${found.toFixed(2)}`);
    if (size < 12) say(node, `letters of ${size} pixels`);
  }
  if (measured < 10) complaints.push(`only ${measured} texts were measured`);

  // Edges of fields, 1.4.11.
  for (const node of document.querySelectorAll("input[type=text], textarea")) {
    if (!visible(node)) continue;
    const found = ratio(parse(getComputedStyle(node).borderTopColor), ground(node.parentElement));
    if (found < 3) say(node, `edge ${found.toFixed(2)}`);
  }

  // Names, 4.1.2: of what can be operated, by text, label or aria-label.
  const heard = (node) => {
    const ids = node.getAttribute("aria-labelledby");
    if (ids) return ids.split(" ").map((id) => document.getElementById(id)?.textContent ?? "").join(" ");
    return node.getAttribute("aria-label") ?? ([...(node.labels ?? [])].map((label) => label.textContent).join(" ") || node.textContent);
  };
  for (const node of document.querySelectorAll("a[href], button, input, textarea, select, [role=listbox], dialog, nav, summary")) {
    if (node.closest("[aria-hidden=true]")) {
      if (node.tabIndex >= 0) say(node, "can be reached but not heard");
    } else if (visible(node) && !heard(node).trim()) say(node, "has no name");
  }
  for (const node of document.querySelectorAll("svg:not([aria-hidden=true] svg):not([aria-hidden=true]), img:not([alt])")) say(node, "a picture without words");

  // Structure: one h1, no level left out, ids that differ and lead somewhere, lists that hold items.
  const levels = [...document.querySelectorAll("h1, h2, h3, h4")].filter(visible).map((node) => Number(node.tagName[1]));
  if (levels.filter((level) => level === 1).length !== 1) complaints.push(`headings of level 1: ${levels}`);
  levels.forEach((level, place) => place && level > levels[place - 1] + 1 && complaints.push(`a heading's level is left out: ${levels}`));
  const ids = [...document.querySelectorAll("[id]")].map((node) => node.id);
  ids.filter((id, place) => ids.indexOf(id) !== place).forEach((id) => complaints.push(`the id ${id} is there twice`));
  for (const name of ["aria-controls", "aria-labelledby", "aria-describedby", "aria-activedescendant", "for"]) {
    for (const node of document.querySelectorAll(`[${name}]`)) {
      if (!document.getElementById(node.getAttribute(name))) say(node, `${name} leads nowhere`);
    }
  }
  for (const node of document.querySelectorAll("ul > :not(li), ol > :not(li)")) say(node, "no item of a list");
  for (const landmark of ["header", "main", "footer"]) if (!document.querySelector(landmark)) complaints.push(`no ${landmark}`);
  if (!document.documentElement.lang) complaints.push("no language");
  if (!document.title) complaints.push("no title");

  // Room: nothing sticks out to the right, and what is touched is 24 pixels high or stands in a sentence (2.5.8).
  const width = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth > width) complaints.push(`the page is ${document.documentElement.scrollWidth} wide, its window ${width}`);
  for (const node of document.querySelectorAll("main *")) {
    if (visible(node) && !node.closest(".only-heard, svg") && node.getBoundingClientRect().right > width + 1) say(node, "sticks out");
  }
  for (const node of document.querySelectorAll("button, input, summary, .names a, [role=option]")) {
    const box = node.getBoundingClientRect();
    const label = node.labels?.[0]?.getBoundingClientRect();
    if (visible(node) && Math.max(box.height, label?.height ?? 0) < 24) say(node, `${box.height} pixels high`);
  }
  return complaints;
}
