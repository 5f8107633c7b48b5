// Which positions act on a query's logits, layer by layer: pure functions of the window.

import { count, number, ranges } from "./words.js";

// The fewest layers through which each position acts on the query, infinitely many behind it.
export function layersOf({ window, query, num_positions: positions }) {
  return Array.from({ length: positions }, (_, at) => (at > query ? Infinity : Math.ceil((query - at) / window)));
}

// reach[k]: whether each position acts on the query's logits through k layers. reach[0] is the
// query alone, reach[num_layers] the tokens.
export function reachOf(field) {
  const layers = layersOf(field);
  return Array.from({ length: field.num_layers + 1 }, (_, depth) => layers.map((needed) => needed <= depth));
}

function positionsOf(row) {
  return row.flatMap((acts, position) => (acts ? [position] : []));
}

// The way of a probe up to the query over the fewest layers, [probe, ..., query]: at each layer to
// the latest position that sees where it is.
export function wayUp({ window, query }, probe) {
  const way = [probe];
  while (way.at(-1) < query) way.push(Math.min(query, way.at(-1) + window));
  return way;
}

function rowName(field, depth) {
  if (depth === 0) return `the logits of position ${field.query}`;
  return depth === field.num_layers ? "the tokens" : `the output of layer ${field.num_layers - depth}`;
}

// A row's label in the picture: the logits on top, the tokens at the bottom.
export function rowLabel(field, depth) {
  if (depth === 0) return "logits";
  return depth === field.num_layers ? "tokens" : `layer ${field.num_layers - depth}`;
}

// One step down in words: who acts through so many layers, and how far back that is.
export function fieldWords(field, depth) {
  const { window, query } = field;
  if (depth === 0) return `Start at the top: ${rowName(field, 0)}. One layer shows it positions ${ranges(positionsOf(reachOf({ ...field, num_layers: 1 })[1]))}.`;
  const acting = positionsOf(reachOf(field)[depth]);
  const far = Math.min(query, depth * window);
  const formula = `${depth} × ${window} = ${number(depth * window)} back`;
  const edge = far < depth * window ? `${formula}, more than there is` : formula;
  return `Through ${count(depth, "layer")}, down to ${rowName(field, depth)}: ${acting.length === 1 ? "position" : "positions"} ${ranges(acting)} can act on the logits (${edge}).`;
}

// Where the probe lies, and not yet whether it can act.
export function probePlace({ query }, probe) {
  return probe === query ? `Token ${probe} is the query itself.` : `Token ${probe} lies ${number(query - probe)} back.`;
}

// The probe in words: whether it can act, through how many layers, over which positions.
export function probeWords(field, probe) {
  const { query, num_layers: layers } = field;
  if (probe === query) return `Token ${probe} is the query itself.`;
  const where = `Token ${probe} lies ${number(query - probe)} back`;
  const needed = layersOf(field)[probe];
  const hops = `${count(needed, "layer")} (${wayUp(field, probe).join(" → ")})`;
  if (needed > layers) return `${where}; it would need ${hops}, and there ${layers === 1 ? "is" : "are"} ${layers}: it cannot change the logits.`;
  if (needed === 1) return `${where}: the query sees it directly.`;
  return `${where}, and acts through ${hops}: it can change the logits. Its own K/V is evicted by then, but the kept entries above were computed from it.`;
}

// The picture's cell in pixels, and its label's width.
export function fieldSizes(field, width) {
  const label = width < 500 ? 46 : 58;
  const cell = Math.max(5, Math.min(26, (width - label - 8) / field.num_positions));
  return { label, cell, row: 44, width: Math.max(width, label + 8 + cell * field.num_positions) };
}
