// How much of a head's attention a window keeps, and how to say it: pure functions of the weights.

import { count, number } from "./words.js";

// One head's weights by distance and on the sinks; head null is the mean over the layer's heads.
export function headOf({ weights, sinks }, layer, head) {
  if (head !== null) return { weights: weights[layer][head], sinks: sinks ? sinks[layer][head] : [] };
  return { weights: meanRow(weights[layer]), sinks: sinks ? meanRow(sinks[layer]) : [] };
}

function meanRow(rows) {
  return rows[0].map((_, at) => rows.reduce((total, row) => total + row[at], 0) / rows.length);
}

function sum(values) {
  return values.reduce((total, each) => total + each, 0);
}

// The share of all attention on what a window of `window` keeps out: distances above it, and the
// sinks where they are not kept.
export function shareCut(head, window, keepSinks) {
  const beyond = sum(head.weights.slice(window + 1)) + (keepSinks ? 0 : sum(head.sinks));
  return beyond / (sum(head.weights) + sum(head.sinks));
}

// The smallest window that keeps at least `share` of the attention, or null when none does.
export function windowFor(head, share, keepSinks) {
  for (let window = 0; window < head.weights.length; window += 1) {
    if (1 - shareCut(head, window, keepSinks) >= share - 1e-9) return window;
  }
  return null;
}

export function percent(share) {
  if (share > 0 && share < 0.005) return "less than 1 percent";
  if (share < 1 && share > 0.995) return "more than 99 percent";
  return `${Math.round(share * 100)} percent`;
}

export function headName(layer, head) {
  return head === null ? `Layer ${layer}, mean of its heads` : `Layer ${layer}, head ${head}`;
}

// A head under a window in words: what is cut, what window would be enough, what the sinks weigh.
export function attentionWords(data, { layer, head, keepSinks }, window) {
  const found = headOf(data, layer, head);
  const cut = shareCut(found, window, keepSinks);
  const enough = windowFor(found, 0.9, keepSinks);
  const needs = enough === null ? "No window here keeps 90 percent."
    : enough === 0 ? "The token itself has 90 percent."
      : `To keep 90 percent it needs a window of ${number(enough)}.`;
  const weight = sum(found.sinks) / (sum(found.weights) + sum(found.sinks));
  const sinks = found.sinks.length
    ? ` The first ${count(found.sinks.length, "token")} have ${percent(weight)} of it, and ${keepSinks ? "stay" : "are cut as well"}.` : "";
  return `${headName(layer, head)}: a window of ${number(window)} cuts off ${percent(cut)} of its attention. ${needs}${sinks}`;
}

// The shares of all heads at one window, layer by layer.
export function cutMap(data, window, keepSinks) {
  return data.weights.map((heads, layer) => heads.map((_, head) => shareCut(headOf(data, layer, head), window, keepSinks)));
}
