// The step toolbar that every stepping widget shares: buttons, scrubber, keyboard, play, live text.
// Left and right step, Home and End jump, up and down move between the buttons, Space presses.

import { askAbove, node, svg, freshId } from "./dom.js";

const STEP_EVENT = "serving-nanogpt-step";
const ICONS = {
  first: "M4 3v10M13 3L6.5 8L13 13Z",
  back: "M11 3L4.5 8L11 13Z",
  play: "M5 2.5L13 8L5 13.5Z",
  pause: "M4.5 3h2.5v10h-2.5ZM9 3h2.5v10h-2.5Z",
  forward: "M5 3L11.5 8L5 13Z",
  last: "M12 3v10M3 3L9.5 8L3 13Z",
};

// Where a key leads from `step`, or null when the key does not step.
export function stepAfterKey(key, step, count) {
  const last = count - 1;
  if (key === "ArrowRight") return Math.min(step + 1, last);
  if (key === "ArrowLeft") return Math.max(step - 1, 0);
  if (key === "Home") return 0;
  return key === "End" ? last : null;
}

// The button that up or down moves to from button `index` of `count`, going round; else null.
export function focusAfterKey(key, index, count) {
  if (key === "ArrowDown") return (index + 1) % count;
  return key === "ArrowUp" ? (index - 1 + count) % count : null;
}

function icon(name) {
  const path = svg("path", { d: ICONS[name], class: "sn-icon-path" });
  return svg("svg", { viewBox: "0 0 16 16", class: "sn-icon", "aria-hidden": "true" }, path);
}

function iconButton(name, label, press) {
  const attributes = { type: "button", class: "sn-button sn-icon-button", "aria-label": label };
  return node("button", { ...attributes, title: label, onclick: press }, icon(name));
}

export function textButton(label, press, pressed = null) {
  const attributes = { type: "button", class: "sn-button", "aria-pressed": pressed };
  return node("button", { ...attributes, onclick: press }, label);
}

// A button that stays pressed until it is pressed again: `onPress(pressed)` hears each press.
export function toggleButton(label, onPress, pressed = false) {
  let now = pressed;
  const button = textButton(label, () => {
    now = !now;
    button.setAttribute("aria-pressed", String(now));
    onPress(now);
  }, String(now));
  return button;
}

// Buttons of which one is pressed: `onChoose(index)` hears which. `mark(index)` presses one silently.
export function choiceButtons(labels, chosen, onChoose) {
  const mark = (index) => buttons.forEach((button, at) => button.setAttribute("aria-pressed", String(at === index)));
  const buttons = labels.map((label, index) => textButton(label, () => {
    mark(index);
    onChoose(index);
  }));
  mark(chosen);
  return { buttons, mark };
}

const CALM_MS = 1000;

// How long play stays on a step: where motion is to be reduced, no picture changes fast.
export function stayMs(wanted, calm) {
  return calm ? Math.max(CALM_MS, wanted) : wanted;
}

// Moves the one Tab stop of the toolbar to `items[index]`.
function rove(items, index) {
  items.forEach((item, at) => item.setAttribute("tabindex", at === index ? "0" : "-1"));
}

// `onStep(step)` draws and returns the words of the live line; `name(step)` names the position;
// `delay(step)` is how long play stays on a step, in milliseconds; `extras` are further buttons.
// Players of one page with the same `group` (not "") share the step: the moved one tells the others.
// Returns { toolbar, live, keys, go, show, open, step, sized }: the caller places the three elements,
// then calls `open`.
export function createPlayer({
  root, count, label, name, onStep, delay = () => 900, extras = [], group = "",
}) {
  const keysId = freshId("keys");
  let step = 0;
  let timer = null;
  const live = node("p", { class: "sn-live", "aria-live": "polite" });
  const where = node("span", { class: "sn-where" });
  const scrubber = node("input", {
    type: "range", class: "sn-scrubber", min: 0, max: Math.max(count - 1, 0), step: 1, value: 0,
    "aria-label": `${label}: position`, oninput: () => go(Number(scrubber.value)),
  });
  const play = iconButton("play", "Play", () => (timer === null ? start() : stop()));
  const items = [
    iconButton("first", "First step", () => go(0)),
    iconButton("back", "Step back", () => go(step - 1)),
    play,
    iconButton("forward", "Step forward", () => go(step + 1)),
    iconButton("last", "Last step", () => go(count - 1)),
    scrubber,
    ...extras,
  ];

  function show(next) {
    step = Math.max(0, Math.min(next, count - 1));
    scrubber.value = String(step);
    where.textContent = name(step);
    scrubber.setAttribute("aria-valuetext", name(step));
    const words = onStep(step);
    if (live.textContent !== words) live.textContent = words;
  }

  // A picture opens at the step that its author chose, else where the widget finds something.
  function open(model, found = 0) {
    askAbove(root, model);
    show(model.get("start") ?? found);
  }

  function go(next) {
    stop();
    // A follower was silent: its own steps are heard again.
    live.setAttribute("aria-live", "polite");
    show(next);
    tell();
  }

  function tell() {
    if (group) window.dispatchEvent(new CustomEvent(STEP_EVENT, { detail: { group, step } }));
  }

  function follow(event) {
    const { group: theirs, step: next } = event.detail ?? {};
    if (theirs !== group || !Number.isInteger(next) || next === step) return;
    stop();
    // Only the player that was moved speaks.
    live.setAttribute("aria-live", "off");
    show(next);
  }

  function setPlaying(playing) {
    play.replaceChildren(icon(playing ? "pause" : "play"));
    play.setAttribute("aria-label", playing ? "Pause" : "Play");
    play.title = playing ? "Pause" : "Play";
    // A screen reader cannot keep up with playing: it hears the step at which play stops.
    live.setAttribute("aria-live", playing ? "off" : "polite");
  }

  function wait() {
    const calm = window.matchMedia("(prefers-reduced-motion: reduce)").matches;
    timer = setTimeout(tick, stayMs(delay(step), calm));
  }

  function tick() {
    if (step >= count - 1) return stop();
    show(step + 1);
    tell();
    wait();
  }

  function start() {
    if (step >= count - 1) show(0);
    setPlaying(true);
    tell();
    wait();
  }

  function stop() {
    if (timer === null) return;
    clearTimeout(timer);
    timer = null;
    setPlaying(false);
  }

  function onKey(event) {
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    const at = items.indexOf(event.target);
    const usable = items.filter((item) => !item.disabled);
    const focus = at < 0 ? null : focusAfterKey(event.key, usable.indexOf(event.target), usable.length);
    const next = stepAfterKey(event.key, step, count);
    if (event.key === " ") event.stopPropagation();
    if (next === null && focus === null) return;
    event.preventDefault();
    event.stopPropagation();
    if (next !== null) return go(next);
    usable[focus].focus();
  }

  items.forEach((item, at) => item.addEventListener("focus", () => rove(items, at)));
  rove(items, 2);
  root.addEventListener("keydown", onKey);
  if (group) window.addEventListener(STEP_EVENT, follow);
  const toolbar = node(
    "div",
    { class: "sn-toolbar", role: "toolbar", "aria-label": label, "aria-describedby": keysId },
    node("span", { class: "sn-group" }, ...items.slice(0, 5)),
    node("span", { class: "sn-group sn-travel" }, scrubber, where),
    extras.length ? node("span", { class: "sn-group" }, ...extras) : null,
  );
  const keys = node(
    "p",
    { class: "sn-keys", id: keysId },
    "Keys: ← and → step, Home and End jump, ↑ and ↓ choose a button, Space presses it.",
  );
  const destroy = () => {
    stop();
    root.removeEventListener("keydown", onKey);
    window.removeEventListener(STEP_EVENT, follow);
  };
  // The view that `mount` asks for: `draw(room)` gets the width inside the widget's edge, read off
  // the toolbar, or off `frame` where the toolbar is not placed.
  const sized = (draw, frame = toolbar) => ({
    resize: (width) => draw(frame.clientWidth || width),
    destroy,
  });
  return { toolbar, live, keys, go, show, open, step: () => step, sized };
}
