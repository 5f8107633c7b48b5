// The room around the live page: who is here, the newest texts, and the instructor's controls.

import "./live/live.js"; // first: it takes the token out of the address bar
import { card, element, listen, send } from "./room_page.js";

const at = (id) => document.getElementById(id);
const WIDTH = 960;
const HEIGHT = 540;
const NAMES = {
  token_budget: "Token budget", max_kv_tokens: "KV budget", sliding_window: "Window", slo_steps: "SLO, steps",
  pace_ms: "Step every, ms",
};

const headers = () => ({ authorization: `Bearer ${sessionStorage.getItem("key")}` });
const sliders = new Map();
let choice = null;
let settings = {};

async function say(message) {
  notice(await send("/room/control", headers(), message));
}

function notice(words) {
  if (words) at("event").textContent = words;
}

listen("/room/screen", headers, hear, notice);

function hear(message) {
  if (message.kind === "welcome") {
    invite(message);
    makeSettings(message);
  } else if (message.kind === "refused") notice(message.why);
  else if (message.kind === "screen") show(message);
}

function show(view) {
  settings = view.settings;
  // Spoken only when it can be followed: paused, step by step.
  at("step").setAttribute("aria-live", settings.paused ? "polite" : "off");
  at("newest").replaceChildren(...view.newest.map((request) => card(request, `${request.id}`)));
  const { step, running, waiting, people } = view.room;
  const kept = view.slo.of ? `SLO kept: ${view.slo.kept} of ${view.slo.of}` : "SLO: none judged yet";
  const state = settings.paused ? "paused" : `step ${step}`;
  at("standing").textContent = `${people} here · ${running} run, ${waiting} wait · ${kept} · ${state}`;
  if (view.event !== at("event").dataset.said) {
    at("event").dataset.said = view.event;
    notice(view.event);
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
  ["kill", "Kill the engine", () => say({ do: "kill" })],
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
    const output = element("output");
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
  at("where").replaceChildren(plain, " · room code ", element("strong", {}, code));
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

// 960 by 540, as large as the projector takes: its smallest text has 24 of 1080 lines.
function fit() {
  const scale = innerWidth < 700 ? 1 : Math.min(innerWidth / WIDTH, innerHeight / HEIGHT);
  document.querySelector("main").style.zoom = scale;
}

addEventListener("resize", fit);
fit();
