// The projector's page: the pictures of the run, and the instructor's controls.

import { badge, connect, element, textOf } from "./connection.js";
import { createLiveTrace } from "./widgets/live_trace.js";

const at = (id) => document.getElementById(id);
const WIDTH = 960;
const HEIGHT = 540;
const NAMES = {
  token_budget: "Token budget", max_kv_tokens: "KV budget", sliding_window: "Window", slo_steps: "SLO, steps",
  pace_ms: "Step every, ms",
};

// The token leaves the address bar, which a room can read.
const token = location.hash.slice(1) || sessionStorage.getItem("token");
if (location.hash) {
  sessionStorage.setItem("token", token);
  history.replaceState(null, "", location.pathname);
}

const push = createLiveTrace(at("run"), at("heap"));
const sliders = new Map();
let choice = null;
let settings = {};

const say = connect("/control", () => ({ token }), hear, (words) => notice(words));

function notice(words) {
  at("event").textContent = words;
}

function hear(message) {
  if (message.kind === "welcome") {
    invite(message);
    makeSettings(message);
  } else if (message.kind === "refused") notice(message.why);
  else if (message.kind === "answer") notice(message.why);
  else if (message.kind === "screen") show(message);
}

// ---- the pictures ---------------------------------------------------------------------------

function show(view) {
  settings = view.settings;
  const none = view.room.worker === "up" ? "No request waits." : "The queue was the worker's: the next one gets it anew.";
  const words = push({ ...view, none });
  // Spoken only when it can be followed: paused, step by step.
  if (settings.paused) at("words").textContent = words;
  at("newest").replaceChildren(...view.newest.slice(0, 3).map((asked) =>
    element("article", { class: `line hue-${asked.hue}` },
      element("p", { class: "head" }, element("strong", {}, `${asked.id}`), badge(asked)), textOf(asked))));
  const { step, running, waiting, people, worker } = view.room;
  const kept = view.slo.of ? `SLO kept: ${view.slo.kept} of ${view.slo.of}` : "SLO: none judged yet";
  const state = worker === "up" ? (settings.paused ? "paused" : `step ${step}`) : worker === "lost" ? "worker lost" : "worker starting";
  at("standing").textContent = `${people} here · ${running} run, ${waiting} wait · ${kept} · ${state}`;
  at("standing").classList.toggle("bad", worker !== "up");
  const newest = view.events[view.events.length - 1];
  if (newest && newest !== at("event").dataset.said) {
    at("event").dataset.said = newest;
    notice(newest);
  }
  for (const [name, { input, output }] of sliders) {
    if (input !== document.activeElement || !input.matches(":active")) input.value = settings[name];
    output.textContent = name === "sliding_window" && !settings[name] ? "none" : settings[name];
  }
  if (choice) choice.value = settings.policy;
  pressed("pause", settings.paused, settings.paused ? "Go on" : "Pause");
  pressed("hide", settings.hidden, settings.hidden ? "Show texts" : "Hide texts");
}

// ---- the controls ---------------------------------------------------------------------------

const DEEDS = [
  ["pause", "Pause", () => say({ do: settings.paused ? "go" : "pause" })],
  ["step", "One step", () => say({ do: "step" })],
  ["long", "A long prompt arrives", () => say({ do: "long" })],
  ["halve", "The KV budget halves", () => say({ do: "halve" })],
  ["urgent", "An urgent request", () => say({ do: "urgent" })],
  ["kill", "Kill a worker", () => say({ do: "kill" })],
  ["hide", "Hide texts", () => say({ do: settings.hidden ? "show" : "hide" })],
  ["settings", "Settings", () => toggleSettings()],
  ["join", "Join", () => at("joining").showModal()],
];
const buttons = new Map(DEEDS.map(([name, words, press]) =>
  [name, element("button", { type: "button", onclick: press }, words)]));

function pressed(name, is, words) {
  buttons.get(name).setAttribute("aria-pressed", String(is));
  buttons.get(name).textContent = words;
}

function toggleSettings() {
  at("settings").hidden = !at("settings").hidden;
  at("beside").hidden = !at("settings").hidden;
  pressed("settings", !at("settings").hidden, "Settings");
}

// One Tab stop; the arrow keys go from button to button.
function rove(event) {
  const all = [...buttons.values()];
  const move = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  const from = all.indexOf(event.target);
  if (!move || from < 0) return;
  event.preventDefault();
  const next = all[(from + move + all.length) % all.length];
  all.forEach((button) => button.setAttribute("tabindex", button === next ? "0" : "-1"));
  next.focus();
}

function makeSettings({ sliders: limits, policies }) {
  sliders.clear();
  const rows = Object.entries(limits).map(([name, { least, most, step }]) => {
    const output = element("output", {});
    const input = element("input", {
      type: "range", min: least, max: most, step, id: name,
      oninput: () => { output.textContent = input.value; },
      onchange: () => say({ set: { [name]: Number(input.value) } }),
    });
    sliders.set(name, { input, output });
    return element("p", { class: "slider" }, element("label", { for: name }, NAMES[name]), output, input);
  });
  choice = element("select", { id: "policy", onchange: () => say({ set: { policy: choice.value } }) },
    ...Object.entries(policies).map(([value, words]) => element("option", { value }, words)));
  at("settings").replaceChildren(element("h2", {}, "Settings"), ...rows,
    element("p", { class: "slider" }, element("label", { for: "policy" }, "Policy"), choice));
}

function invite({ code, address, qr, notes }) {
  const plain = address.replace(/^http:\/\//, "").replace(/\/$/, "");
  at("where").replaceChildren(element("span", {}, plain), " · room code ", element("strong", {}, code));
  at("invitation").replaceChildren(...(qr ? [element("img", { src: qr, alt: `QR code of ${address}` })] : []),
    element("div", {}, element("p", { class: "address" }, plain), element("p", {}, "room code"),
      element("p", { class: "code" }, code), ...notes.map((words) => element("p", { class: "soft" }, words))));
  if (!sessionStorage.getItem("started")) at("joining").showModal();
}

at("joining").addEventListener("close", () => sessionStorage.setItem("started", "yes"));
at("deeds").append(...buttons.values());
at("deeds").addEventListener("keydown", rove);
// Safari, and Firefox on a Mac, do not focus a clicked button: the arrow keys would go elsewhere.
at("deeds").addEventListener("click", (event) => event.target.closest("button")?.focus(), true);
[...buttons.values()].slice(1).forEach((button) => button.setAttribute("tabindex", "-1"));

// ---- the size -------------------------------------------------------------------------------

// 960 by 540, as large as the projector takes: its smallest text has 24 of 1080 lines.
function fit() {
  const scale = Math.min(innerWidth / WIDTH, innerHeight / HEIGHT);
  document.body.classList.toggle("narrow", innerWidth < 700);
  at("stage").style.transform = innerWidth < 700 ? "" : `scale(${scale})`;
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  at("stage").dataset.theme = dark ? "dark" : "light";
}

addEventListener("resize", fit);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", fit);
fit();
