// Draws the tables of the requests above the pool of blocks that they name.

import { chartText, drawing } from "./chart.js";
import { requestHue } from "./column_picture.js";
import { svg } from "./dom.js";
import { changedIn, copiedIn, copiesOf, faceOf, kindOf, shortHash } from "./pool_states.js";
import { poolTablesWords } from "./pool_words.js";

const LABEL = 78;
const CELL = 30;
const CELL_HEIGHT = 24;
const LINE = 34;
const CAPTION = 22;
const GAP = 14;
const CHARACTER = 7.3;
const BOX_HEIGHT = 62;
const BOX_GAP = 10;
const BAND = 6;
const COPY_HEIGHT = 40;

// Sizes in pixels that hold for the whole run: a block's box, and how many stand side by side; how
// many cells of a table do, and at which line each request's table begins.
export function poolSizes(trace, width) {
  const first = trace.steps[0].blocks;
  const box = Math.max(66, first.block_size * CHARACTER + 14);
  const columns = Math.max(1, Math.min(first.num_blocks, Math.floor((width + BOX_GAP) / (box + BOX_GAP))));
  const perLine = Math.max(1, Math.floor((width - LABEL) / CELL));
  const longest = (id) => Math.max(0, ...trace.steps.map(({ blocks }) => blocks.tables.find((each) => each[0] === id)?.[1].length ?? 0));
  const tops = [];
  let lines = 0;
  for (const { id } of trace.requests) {
    tops.push(CAPTION + lines * LINE);
    lines += Math.max(1, Math.ceil(longest(id) / perLine));
  }
  const pool = CAPTION + lines * LINE + GAP;
  const rows = Math.ceil(first.num_blocks / columns);
  const host = pool + CAPTION + rows * (BOX_HEIGHT + BOX_GAP);
  const hosted = Math.ceil(Math.max(...trace.steps.map((step) => step.host?.hashes.length ?? 0)) / columns);
  const more = trace.steps[0].host ? GAP + CAPTION + hosted * (COPY_HEIGHT + BOX_GAP) : 0;
  return { box, columns, perLine, tops, pool, host: host + GAP, height: host + more };
}

// What is said of a request without a table.
export function absence(trace, states, index, id) {
  const done = states.slice(0, index + 1).some(({ step }) => step.finished.includes(id));
  if (done) return "done";
  const arrived = trace.requests.find((each) => each.id === id).arrival_step <= states[index].step.step;
  return arrived ? "waits" : "";
}

function drawTable(request, place, context) {
  const { trace, states, index, sizes, changed } = context;
  const { id } = request;
  const state = states[index];
  const top = sizes.tops[place];
  const table = state.tables.find((each) => each[0] === id)?.[1];
  const hue = requestHue(trace, id);
  const name = chartText(10, top + 16, "start", `request ${id}`, table ? "sn-bp-name" : "sn-axis");
  if (!table) return svg("g", {}, name, chartText(LABEL, top + 16, "start", absence(trace, states, index, id)));
  const found = (state.found.get(id) ?? 0) / state.step.blocks.block_size;
  return svg(
    "g", { class: hue },
    svg("rect", { x: 0, y: top + 3, width: 5, height: 18, rx: 2.5, class: "sn-key" }), name,
    ...table.flatMap((block, depth) => {
      const x = LABEL + (depth % sizes.perLine) * CELL;
      const y = top + Math.floor(depth / sizes.perLine) * LINE;
      const lit = changed.has(block) ? " sn-bp-lit" : "";
      return [
        svg("rect", { x: x + 1.5, y: y + 1, width: CELL - 3, height: CELL_HEIGHT - 2, rx: 4, class: `sn-bp-entry${lit}` }),
        depth < found ? svg("path", { d: `M${x + 4} ${y + CELL_HEIGHT + 3}h${CELL - 8}`, class: "sn-bp-found" }) : null,
        chartText(x + CELL / 2, y + 16, "middle", String(block), "sn-bp-number"),
      ];
    }),
  );
}

// The colours of all tables that name the block, side by side at its foot.
function drawBand(ids, x, y, width, trace) {
  const part = width / ids.length;
  return ids.map((id, at) =>
    svg("g", { class: requestHue(trace, id) }, svg("rect", { x: x + at * part, y, width: part - 1, height: BAND, class: "sn-key" })));
}

function drawBlock(block, context) {
  const { trace, states, index, sizes, changed, size } = context;
  const state = states[index];
  const kind = kindOf(state, block);
  const ids = state.holders.get(block) ?? [];
  const x = (block % sizes.columns) * (sizes.box + BOX_GAP);
  const y = sizes.pool + CAPTION + Math.floor(block / sizes.columns) * (BOX_HEIGHT + BOX_GAP);
  const lone = ids.length === 1 ? ` ${requestHue(trace, ids[0])}` : "";
  const lit = changed.has(block) ? " sn-bp-lit" : "";
  const group = svg("g", { class: `sn-bp-box${lone}` });
  const frame = { x: x + 2, y: y + 2, width: sizes.box - 4, height: BOX_HEIGHT - 4, rx: 6 };
  const shared = ids.length > 1 ? " sn-bp-shared" : "";
  group.append(svg("rect", { ...frame, class: `sn-bp-${kind}${shared}${lit}` }));
  group.append(chartText(x + 8, y + 16, "start", String(block), "sn-bp-number"));
  const place = state.step.blocks.idle.indexOf(block) + 1;
  const said = { held: ids.length > 1 ? `×${ids.length}` : "", cached: `free, ${place}`, empty: "empty" }[kind];
  group.append(chartText(x + sizes.box - 8, y + 16, "end", said, ids.length > 1 ? "sn-bp-count" : "sn-axis"));
  if (kind === "empty") return group;
  const text = faceOf(state.texts.get(block) ?? [], trace.alphabet);
  group.append(chartText(x + 8, y + 33, "start", text + "·".repeat(Math.max(0, size - [...text].length)), "sn-bp-tokens"));
  const hash = state.hashes.get(block);
  group.append(chartText(x + 8, y + 49, "start", hash === undefined ? "no hash" : `#${shortHash(hash)}`, hash === undefined ? "sn-axis" : "sn-bp-hash"));
  if (ids.length) group.append(...drawBand(ids, x + 6, y + BOX_HEIGHT - BAND - 4, sizes.box - 12, trace));
  return group;
}

// A copy in the host tier, of its tokens and its hash. It keeps its place while nothing is dropped.
function drawCopy({ hash, tokens, hue }, place, context) {
  const { trace, sizes, copied } = context;
  const x = (place % sizes.columns) * (sizes.box + BOX_GAP);
  const y = sizes.host + CAPTION + Math.floor(place / sizes.columns) * (COPY_HEIGHT + BOX_GAP);
  const frame = { x: x + 2, y: y + 2, width: sizes.box - 4, height: COPY_HEIGHT - 4, rx: 6 };
  return svg(
    "g", { class: hue },
    svg("rect", { ...frame, class: `sn-bp-held${copied.has(hash) ? " sn-bp-lit" : ""}` }),
    chartText(x + 8, y + 17, "start", faceOf(tokens, trace.alphabet), "sn-bp-tokens"),
    chartText(x + 8, y + 32, "start", `#${shortHash(hash)}`, "sn-bp-hash"),
  );
}

function drawHost(context) {
  const { host } = context.states[context.index].step;
  if (!host) return [];
  const said = `the host tier: ${host.hashes.length} of ${host.num_blocks} blocks`;
  return [
    chartText(0, context.sizes.host + 10, "start", said, "sn-bp-caption"),
    ...copiesOf(context.states[context.index]).map((copy, place) =>
      drawCopy({ ...copy, hue: copy.owner === null ? "" : requestHue(context.trace, copy.owner) }, place, context)),
  ];
}

// The picture of one step. Tables that need more than one line make room for it in every step.
export function drawBlocks(trace, states, index, width) {
  const sizes = poolSizes(trace, width);
  const { block_size: size, num_blocks: numBlocks } = states[index].step.blocks;
  const changed = changedIn(states, index);
  const context = { trace, states, index, sizes, size, changed, copied: copiedIn(states[index]) };
  return drawing(
    width, sizes.height, poolTablesWords(states[index]), {},
    chartText(0, 12, "start", "the tables of the requests", "sn-bp-caption"),
    ...trace.requests.map((request, place) => drawTable(request, place, context)),
    chartText(0, sizes.pool + 10, "start", `the pool: ${numBlocks} blocks of ${size} tokens`, "sn-bp-caption"),
    ...Array.from({ length: numBlocks }, (_, block) => drawBlock(block, context)),
    ...drawHost(context),
  );
}
