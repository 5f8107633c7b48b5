// A guest's page: come in with the code, send a prompt, watch what becomes of it.

import { card, element, listen, send } from "./room_page.js";

const at = (id) => document.getElementById(id);
const scanned = location.hash.slice(1);
if (scanned) history.replaceState(null, "", location.pathname);

let code = scanned.toUpperCase() || sessionStorage.getItem("code");
let spoken = "";
let limits = { prompt: 120, alphabet: "" };

function headers() {
  const key = sessionStorage.getItem("key");
  return { authorization: `Bearer ${code}`, ...(key ? { "x-guest": key } : {}) };
}

function enter() {
  sessionStorage.setItem("code", code);
  listen("/room/guest", headers, hear, (words) => {
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
  } else if (message.kind === "view") show(message);
}

const soft = (words) => element("p", { class: "soft" }, words);
const cardOf = (request) => card(request, `Request ${request.id}`, soft(request.words));

function show(view) {
  limits = view.limits;
  count();
  at("mine").replaceChildren(...(view.mine.length ? view.mine.map(cardOf) : [soft("Nothing yet: send a prompt.")]));
  at("others").replaceChildren(...view.others.map(cardOf));
  const { running, waiting, people, paused } = view.room;
  const stands = paused ? " The engine is paused." : "";
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
  const words = `${length} of ${limits.prompt} characters${limits.alphabet ? ", a token each" : ""}`;
  at("left").textContent = unknown === undefined ? `${words}.` : `${words}; the model has never seen “${unknown}”.`;
}

at("prompt").addEventListener("input", count);
at("join").addEventListener("submit", (event) => {
  event.preventDefault();
  code = at("code").value.trim().toUpperCase();
  enter();
});
at("ask").addEventListener("submit", async (event) => {
  event.preventDefault();
  const why = await send("/room/ask", headers(), { ask: at("prompt").value });
  at("answer").textContent = why;
  if (!why) at("prompt").value = "";
  count();
});
count();
// A page that is loaded again comes in by itself.
if (code) enter();
