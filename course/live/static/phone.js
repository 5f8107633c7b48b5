// A guest's page: come in with the code, send a prompt, watch what becomes of it.

import { badge, connect, element, textOf } from "./connection.js";

const at = (id) => document.getElementById(id);
const scanned = location.hash.slice(1);
if (scanned) history.replaceState(null, "", location.pathname);

let say = null;
let spoken = "";
let limits = { prompt: 120, alphabet: "" };

function enter(code) {
  const first = () => ({ code, key: sessionStorage.getItem("key") });
  sessionStorage.setItem("code", code);
  say = connect("/room", first, hear, (words) => {
    at("connection").textContent = words;
  });
}

function hear(message) {
  if (message.kind === "welcome") {
    sessionStorage.setItem("key", message.key);
    at("join").hidden = true;
    at("inside").hidden = false;
    if (!document.activeElement || document.activeElement === document.body) at("prompt").focus();
  } else if (message.kind === "refused") {
    sessionStorage.removeItem("code");
    at("join").hidden = false;
    at("inside").hidden = true;
    at("connection").textContent = message.why;
    at("code").focus();
  } else if (message.kind === "answer") {
    at("answer").textContent = message.why;
    if (!message.why) at("prompt").value = "";
    count();
  } else if (message.kind === "view") show(message);
}

function card(asked) {
  const head = element("p", { class: "head" }, element("strong", {}, `Request ${asked.id}`), badge(asked));
  const words = element("p", { class: "soft" }, asked.words);
  return element("article", { class: `card hue-${asked.hue}` }, head, textOf(asked), words);
}

function show(view) {
  limits = view.limits;
  count();
  at("mine").replaceChildren(...(view.mine.length ? view.mine.map(card)
    : [element("p", { class: "soft" }, "Nothing yet: send a prompt.")]));
  at("others").replaceChildren(...view.others.map(card));
  const { running, waiting, people, worker, paused } = view.room;
  const stands = worker === "up" ? (paused ? " The engine is paused." : "") : " The engine's process is starting.";
  at("standing").textContent = `${people} here, ${running} running, ${waiting} waiting.${stands}`;
  // A screen reader hears a change of state, not every token.
  const newest = view.mine[0];
  const heard = newest ? `Request ${newest.id}: ${newest.state}` : "";
  if (heard !== spoken) {
    spoken = heard;
    at("words").textContent = newest ? `Request ${newest.id}. ${newest.words}` : "";
  }
}

function count() {
  const length = at("prompt").value.length;
  const unknown = limits.alphabet ? [...at("prompt").value].find((mark) => !limits.alphabet.includes(mark)) : undefined;
  const words = `${length} of ${limits.prompt} characters, a token each`;
  at("left").textContent = unknown === undefined ? `${words}.` : `${words}; the model has never seen “${unknown}”.`;
}

at("prompt").addEventListener("input", count);
at("join").addEventListener("submit", (event) => {
  event.preventDefault();
  enter(at("code").value.trim().toUpperCase());
});
at("ask").addEventListener("submit", (event) => {
  event.preventDefault();
  if (!say({ ask: at("prompt").value })) at("answer").textContent = "Not connected just now; your prompt was not sent.";
});
count();
// A page that is loaded again comes in by itself.
const code = scanned.toUpperCase() || sessionStorage.getItem("code");
if (code) enter(code);
