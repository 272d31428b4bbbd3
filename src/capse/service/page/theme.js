// Colours as the system has them, or light, or dark: one button that goes round.

import { announce } from "./dom.js";

const STORE = "capse-theme";
const WORDS = { system: "as the system", light: "light", dark: "dark" };

export function setUpTheme(button) {
  const order = Object.keys(WORDS);
  const apply = (theme) => {
    if (theme === "system") document.documentElement.removeAttribute("data-theme");
    else document.documentElement.setAttribute("data-theme", theme);
    button.setAttribute("aria-label", `Colours: ${WORDS[theme]}`);
    button.title = `Colours: ${WORDS[theme]}`;
    button.dataset.theme = theme;
  };
  const stored = localStorage.getItem(STORE);
  apply(stored in WORDS ? stored : "system");
  button.addEventListener("click", () => {
    const theme = order[(order.indexOf(button.dataset.theme) + 1) % order.length];
    localStorage.setItem(STORE, theme);
    apply(theme);
    announce(`Colours: ${WORDS[theme]}`);
  });
}
