// The live page: asks the server twice a second and draws what it says.

import { atMost, bars, count, curve, joined, path, queueWords, rates, rows, sampled, seconds, since, stepWords, words } from "./live_layout.js";

const EVERY_MS = 500;
const MOST_ROWS = 24;
const SVG = "http://www.w3.org/2000/svg";
const one = (id) => document.getElementById(id);

let frames = [];
let samples = [];
let before = null;
let newest = null;
let paused = false;
// The key may come behind the address, which a room can read: it leaves the address bar.
let key = location.hash.slice(1) || sessionStorage.getItem("key") || "";
if (location.hash) {
  sessionStorage.setItem("key", key);
  history.replaceState(null, "", location.pathname);
}

function draw(name, attributes = {}, text = "") {
  const made = document.createElementNS(SVG, name);
  for (const [each, value] of Object.entries(attributes)) made.setAttribute(each, value);
  if (text) made.textContent = text;
  return made;
}

function picture(id, width, height, said, parts, note = "") {
  const svg = draw("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": said });
  svg.append(...parts);
  const shown = document.createElement("p");
  shown.className = "said";
  shown.textContent = note;
  one(id).replaceChildren(svg, ...(note ? [shown] : []));
}

// One unit is one pixel, so that text has its size at every width.
const widthOf = (id) => Math.max(240, Math.floor(one(id).clientWidth));

function drawTimeline(state) {
  const width = widthOf("timeline");
  const [left, high, gap] = [96, 15, 3];
  const columns = Math.max(20, Math.min(120, Math.floor((width - left) / 8)));
  const cell = (width - left) / columns;
  const shown = rows(state.requests, frames, columns, MOST_ROWS);
  const parts = shown.flatMap((row, i) => {
    const y = i * (high + gap);
    const from = left + (row.from ?? columns) * cell;
    return [
      draw("text", { x: 0, y: y + 12, class: row.status === "waiting" ? "" : "strong" }, row.label),
      draw("rect", { x: from, y, width: Math.max(0, width - from), height: high, class: "idle" }),
      ...row.cells.map((each) => draw("rect", { x: left + each.column * cell, y, width: Math.max(1, cell - 1), height: high, class: each.kind })),
    ];
  });
  const height = Math.max(1, shown.length) * (high + gap);
  if (!shown.length) parts.push(draw("text", { x: 0, y: 12 }, "No request is in flight."));
  const said = `${count(shown.length, "request")} over ${count(Math.min(columns, frames.length), "step")}: ${shown.map((row) => row.label).join(", ")}`;
  picture("timeline", width, height, said, parts);
  const hidden = (state.num_in_flight ?? 0) - shown.length;
  one("more").textContent = hidden > 0 ? `and ${count(hidden, "request")} more` : "";
}

function drawCurve(id, places, values, top, said, note, second = null) {
  const [width, height] = [widthOf(id), 110];
  const box = { x: 0, y: 4, width, height: height - 8 };
  const bottom = box.y + box.height;
  const parts = [draw("line", { x1: 0, x2: width, y1: bottom, y2: bottom, class: "axis" })];
  if (second && places.length > 1) parts.push(draw("path", { d: path(curve(places, second, box, top), bottom), class: "cached" }));
  if (places.length > 1) {
    const points = curve(places, values, box, top);
    parts.push(draw("path", { d: path(points, bottom), class: "area" }), draw("path", { d: path(points), class: "curve" }));
  }
  picture(id, width, height, said, parts, note);
}

function drawRate() {
  const all = rates(samples);
  const now = speed();
  const highest = Math.round(Math.max(0, ...all.map((each) => each.rate)));
  const said = `${Math.round(now)} now, at most ${highest} in the last minute`;
  drawCurve("rate", all.map((each) => each.at_s), all.map((each) => each.rate), 1, `Tokens per second: ${said}`, said);
}

function drawKv(state) {
  const steps = frames.map((frame) => frame.step);
  const pool = frames.length ? frames[frames.length - 1].blocks : null;
  if (pool) {
    const [held, idle, all] = pool;
    const said = `${held} of ${all} blocks in use, ${idle} free and still cached, ${all - held - idle} empty`;
    one("h-kv").textContent = "KV blocks after each step";
    const used = frames.map((frame) => frame.blocks[0]);
    drawCurve("kv", steps, used, all, `KV blocks: ${said}`, said, frames.map((frame) => frame.blocks[0] + frame.blocks[1]));
    return;
  }
  const held = frames.map((frame) => frame.kv);
  const most = state.max_kv_tokens ?? 0;
  const said = frames.length ? `${held[held.length - 1]} of ${most} KV tokens after step ${steps[steps.length - 1]}` : "no step yet";
  one("h-kv").textContent = "KV tokens after each step";
  drawCurve("kv", steps, held, most, `KV tokens: ${said}`, said);
}

function drawHistogram(id, name, histogram) {
  const shown = bars(histogram);
  const all = histogram.counts.reduce((sum, each) => sum + each, 0);
  const width = widthOf(id);
  const [high, left, right] = [16, 74, 52];
  const parts = shown.flatMap((bar, i) => [
    draw("text", { x: 0, y: i * high + 12 }, bar.label),
    draw("rect", { x: left, y: i * high + 2, width: bar.share * (width - left - right), height: high - 4, class: "prefill" }),
    draw("text", { x: left + bar.share * (width - left - right) + 6, y: i * high + 12 }, bar.count ? String(bar.count) : ""),
  ]);
  if (!shown.length) parts.push(draw("text", { x: 0, y: 12 }, "Nothing yet."));
  const said = all ? `half within ${seconds(atMost(histogram, 0.5))}, 95 % within ${seconds(atMost(histogram, 0.95))}, of ${all}` : "";
  picture(id, width, Math.max(1, shown.length) * high, `${name}: ${said || "nothing yet"}`, parts, said);
}

/** Tokens per second over the last two seconds. */
function speed() {
  const recent = samples.slice(-5);
  return recent.length > 1 ? rates([recent[0], recent[recent.length - 1]])[0].rate : 0;
}

// A screen reader hears what changes.
function say(id, text) {
  if (one(id).textContent !== text) one(id).textContent = text;
}

function show() {
  if (!newest) return;
  one("model").textContent = newest.model;
  say("words", words(newest, speed()));
  drawTimeline(newest);
  say("step", stepWords(frames));
  say("queue", queueWords(newest.requests));
  drawRate();
  drawKv(newest);
  drawHistogram("ttft", "Time to first token", since(newest.ttft, before?.ttft));
  drawHistogram("itl", "Between two tokens", since(newest.itl, before?.itl));
}

function connection(text, bad = false) {
  say("connection", text);
  one("connection").classList.toggle("bad", bad);
}

async function ask() {
  const after = frames.length ? frames[frames.length - 1].step : -1;
  const headers = key ? { authorization: `Bearer ${key}` } : {};
  const answer = await fetch(`/live/state?after=${after}`, { headers, cache: "no-store" });
  if (answer.status === 401) {
    const was = key;
    key = "";
    if (one("key").hidden) {
      one("key").hidden = false;
      one("secret").focus();
    }
    connection(was ? "that is not this server's key" : "this server asks for its key", true);
    return false;
  }
  if (!answer.ok) throw new Error(`${answer.status}`);
  newest = await answer.json();
  // A server that has begun anew counts from 0 again: what was drawn is not its.
  if (samples.length && newest.tokens < samples[samples.length - 1].tokens) frames = [];
  frames = joined(frames, newest.steps);
  samples = sampled(samples, newest);
  before ??= { ttft: newest.ttft, itl: newest.itl };
  connection(newest.closing ? "the server is shutting down" : "connected");
  show();
  return true;
}

async function go() {
  let again = true;
  if (!paused && !document.hidden) {
    try {
      again = await ask();
    } catch {
      connection("the server does not answer; asking again", true);
    }
  }
  if (again) setTimeout(go, EVERY_MS);
}

one("pause").addEventListener("click", () => {
  paused = !paused;
  one("pause").setAttribute("aria-pressed", String(paused));
  if (paused) connection("paused");
});
one("anew").addEventListener("click", () => {
  if (newest) before = { ttft: newest.ttft, itl: newest.itl };
  show();
});
one("key").addEventListener("submit", (event) => {
  event.preventDefault();
  key = one("secret").value;
  one("secret").value = "";
  one("key").hidden = true;
  one("pause").focus();
  go();
});
addEventListener("resize", show);
go();
