// Building DOM and SVG nodes, following the page's theme, waiting for a prediction. Knows no widget.

import { isAnswered, onAnswered } from "./answered.js";
import { helpLeaving } from "./leaving.js";

const SVG_NAMESPACE = "http://www.w3.org/2000/svg";

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) {
      element.setAttribute(name, value === true ? "" : String(value));
    }
  }
  element.append(...children.filter((child) => child !== null));
  return element;
}

// node("p", { class: "x", onclick: press }, "words", otherNode): strings become text nodes.
export function node(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

export function svg(tag, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG_NAMESPACE, tag), attributes, children);
}

// A picture's title, and what stands beside it.
export function titleRow(model, ...beside) {
  const title = model.get("title");
  return node("div", { class: "sn-head" }, title ? node("p", { class: "sn-title" }, title) : "", ...beside);
}

// Short facts beside a title; the first of them stands out where it is `strong`.
export function factChips(facts, strong = true) {
  return node("ul", { class: "sn-chips" }, ...facts.map((fact, index) =>
    node("li", { class: strong && index === 0 ? "sn-chip sn-chip-strong" : "sn-chip" }, fact)));
}

// A picture that scrolls must be reachable by keyboard; one that fits must not be a Tab stop.
export function makeReachable(scroller, scrolls, label) {
  for (const [name, value] of [["tabindex", "0"], ["role", "group"], ["aria-label", label]]) {
    if (scrolls) scroller.setAttribute(name, value);
    else scroller.removeAttribute(name);
  }
}

// Ids for labels and patterns: many widgets share a page, and the module may be evaluated once.
export function freshId(stem) {
  return `${stem}-${Math.random().toString(36).slice(2, 10)}`;
}

// The safe subset of markup for questions and hints: `code`, **bold** and line breaks.
export function parseRich(text) {
  const parts = [];
  const pattern = /`([^`\n]+)`|\*\*([^*\n]+)\*\*|\n/g;
  let from = 0;
  for (const match of text.matchAll(pattern)) {
    if (match.index > from) parts.push({ kind: "text", text: text.slice(from, match.index) });
    if (match[1] !== undefined) parts.push({ kind: "code", text: match[1] });
    else if (match[2] !== undefined) parts.push({ kind: "strong", text: match[2] });
    else parts.push({ kind: "br", text: "" });
    from = match.index + match[0].length;
  }
  if (from < text.length) parts.push({ kind: "text", text: text.slice(from) });
  return parts;
}

export function richText(text) {
  return parseRich(text).map((part) => {
    if (part.kind === "text") return document.createTextNode(part.text);
    return part.kind === "br" ? node("br") : node(part.kind, {}, part.text);
  });
}

// The question that a picture answers, above it, in the page's own type.
export function askAbove(root, model) {
  const question = model.get("question");
  if (question) root.prepend(node("p", { class: "sn-question" }, ...richText(question)));
}

// On `mousedown`: a press that took the focus from the toolbar would take its help away, and move
// the picture up before the press ends.
export function keepFocus(event) {
  event.preventDefault();
}

// Where an event is inside an element, [x, y] in the element's own pixels: slides show it enlarged.
export function pointIn(element, event) {
  const box = element.getBoundingClientRect();
  const scale = element.clientWidth ? box.width / element.clientWidth : 1;
  return [(event.clientX - box.left) / scale, (event.clientY - box.top) / scale];
}

// What one element says about the theme: "dark", "light", or null when it says nothing.
export function declaredTheme(classes, jupyterLight) {
  if (classes.includes("dark") || classes.includes("dark-theme")) return "dark";
  if (classes.includes("light") || classes.includes("light-theme")) return "light";
  if (jupyterLight === "false") return "dark";
  return jupyterLight === "true" ? "light" : null;
}

function pageTheme(start, systemIsDark) {
  let at = start;
  while (at) {
    const theme = declaredTheme([...at.classList], at.dataset.jpThemeLight);
    if (theme) return theme;
    at = at.parentElement ?? at.getRootNode().host ?? null;
  }
  return systemIsDark ? "dark" : "light";
}

// Keeps root's data-theme equal to the page's theme; returns the function that stops watching.
function followTheme(root, el) {
  const system = window.matchMedia("(prefers-color-scheme: dark)");
  const update = () => {
    root.dataset.theme = pageTheme(el, system.matches);
  };
  const observer = new MutationObserver(update);
  const watched = { attributes: true, attributeFilter: ["class", "data-jp-theme-light"] };
  observer.observe(document.body, watched);
  observer.observe(document.documentElement, watched);
  system.addEventListener("change", update);
  update();
  return () => {
    observer.disconnect();
    system.removeEventListener("change", update);
  };
}

// Safari, and Firefox on a Mac, leave the focus elsewhere, and keys would go there. Listen while the
// event is captured: the control's own handler may move the focus on.
function focusClicked(event) {
  event.target.closest("button, input")?.focus({ preventScroll: true });
}

const WITHHELD = "Your prediction above is about this: press Commit there, or Show me.";

// Where a prediction finds what waits for it: marimo draws a widget inside a shadow.
function markWaiting(el, key) {
  const host = el.getRootNode().host ?? el;
  if (!key) host.style.display = "";
  host.dataset.snWaits = key;
}

// Puts one widget into el: builds it, builds it again when an input trait changes, tells it its
// width, and returns the cleanup. `build(root)` returns { resize(width)?, destroy()? }. While the
// prediction named by the trait `after` is not answered, a line says so and nothing is built.
export function mount({ model, el, name, label, inputs, build }) {
  const root = node("div", { class: `sn sn-${name}`, role: "group" });
  const stopTheme = followTheme(root, el);
  let view = {};
  let width = 0;
  let waits = false;
  const rebuild = () => {
    view.destroy?.();
    view = {};
    root.replaceChildren();
    const after = model.get("after");
    waits = Boolean(after) && !isAnswered(after);
    root.classList.toggle("sn-waits", waits);
    markWaiting(el, waits ? after : "");
    root.dataset.after = after;
    // A title may give the answer away.
    root.setAttribute("aria-label", (!waits && model.get("title")) || label);
    if (waits) {
      root.append(node("p", {}, WITHHELD));
      return;
    }
    view = build(root);
    if (width) view.resize?.(width);
  };
  const resized = new ResizeObserver(() => {
    markWaiting(el, waits ? model.get("after") : ""); // only now may a shadow hold it
    if (root.clientWidth === width || root.clientWidth === 0) return;
    width = root.clientWidth;
    view.resize?.(width);
  });
  const rebuilt = [...inputs, "after"];
  helpLeaving();
  root.addEventListener("click", focusClicked, true);
  el.append(root);
  rebuild();
  resized.observe(root);
  const stopWaiting = onAnswered(() => {
    if (waits) rebuild();
  });
  for (const input of rebuilt) model.on(`change:${input}`, rebuild);
  return () => {
    for (const input of rebuilt) model.off(`change:${input}`, rebuild);
    stopWaiting();
    resized.disconnect();
    stopTheme();
    view.destroy?.();
    root.remove();
  };
}
