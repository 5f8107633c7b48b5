// Draws each request's table from logical to physical blocks, and the pool of blocks below.

import { svg } from "./dom.js";
import { changedBlocks, entriesOf, longestTable, requestsOf, tablesWords } from "./block_table_layout.js";

const LABEL = 86;
const ROW = 48;
const CELL = 28;
// Narrower cells have no room for the positions below them.
const WIDE_CELL = 40;
const CAPTION = 22;
const GAP = 18;
const ENTRY = 16;
const BLOCK_HEAD = 20;
const BLOCK_FOOT = 18;
const BLOCK_GAP = 12;

function text(x, y, anchor, words, className = "sn-bt-text") {
  return svg("text", { x, y, "text-anchor": anchor, class: className }, words);
}

// Sizes in pixels: a table's cell, a block, and how many blocks stand side by side.
export function tableSizes(steps, width) {
  const size = steps[0].block_size;
  const block = Math.max(60, size * ENTRY + 10);
  const columns = Math.max(1, Math.min(steps[0].blocks.length, Math.floor((width + BLOCK_GAP) / (block + BLOCK_GAP))));
  const cell = Math.max(22, Math.min(46, (width - LABEL) / longestTable(steps)));
  return {
    cell, block, columns, entry: (block - 10) / size,
    perLine: Math.max(1, Math.floor((width - LABEL) / cell)),
  };
}

function drawTables(step, requests, changed, sizes, tops) {
  const group = svg("g", {});
  requests.forEach((id, at) => {
    const table = step.tables[id];
    const name = table ? "sn-bt-name" : "sn-bt-text";
    const hue = `sn-hue-${at % 8}`;
    if (table) group.append(svg("rect", { x: 0, y: tops[at] + 5, width: 5, height: 18, rx: 2.5, class: `sn-bt-key ${hue}` }));
    group.append(text(11, tops[at] + 19, "start", `request ${id}`, name));
    (table ?? []).forEach((block, logical) => {
      const x = LABEL + (logical % sizes.perLine) * sizes.cell;
      const y = tops[at] + Math.floor(logical / sizes.perLine) * ROW;
      const box = { x: x + 1.5, y, width: sizes.cell - 3, height: CELL, rx: 5 };
      const lit = block !== null && changed.includes(block) ? " sn-bt-lit" : "";
      group.append(svg("rect", { ...box, class: block === null ? "sn-bt-gone" : `sn-bt-entry ${hue}${lit}` }));
      group.append(text(x + sizes.cell / 2, y + 19, "middle", block === null ? "–" : String(block), block === null ? "sn-bt-text" : "sn-bt-number"));
      const last = (logical + 1) * step.block_size - 1;
      const positions = step.block_size > 1 ? `${logical * step.block_size}–${last}` : String(last);
      if (sizes.cell >= WIDE_CELL) group.append(text(x + sizes.cell / 2, y + CELL + 13, "middle", positions));
    });
  });
  return group;
}

function drawBlock(block, number, x, y, sizes, size, hue, lit) {
  const group = svg("g", { class: hue });
  const height = BLOCK_HEAD + ENTRY + 8;
  const owned = block.owner !== null;
  group.append(svg("rect", { x: x + 1, y: y + 1, width: sizes.block - 2, height, rx: 6, class: `${owned ? "sn-bt-block" : "sn-bt-free"}${lit ? " sn-bt-lit" : ""}` }));
  group.append(text(x + 7, y + 15, "start", String(number), "sn-bt-number"));
  if (!owned) group.append(text(x + sizes.block - 7, y + 15, "end", "free"));
  entriesOf(block, size).forEach((state, at) => {
    const inset = sizes.entry > 8 ? 1 : 0.4;
    const place = { x: x + 5 + at * sizes.entry + inset, y: y + BLOCK_HEAD + 2, width: sizes.entry - 2 * inset, height: ENTRY, rx: 2 };
    group.append(svg("rect", { ...place, class: `sn-bt-${state}` }));
    if (state === "outside") group.append(svg("path", { d: `M${place.x + 2} ${place.y + ENTRY - 3}L${place.x + place.width - 2} ${place.y + 3}`, class: "sn-bt-stroke" }));
  });
  if (owned) group.append(text(x + sizes.block - 7, y + 15, "end", `r${block.owner}`));
  return group;
}

// The picture of one step. Tables that need more than one line make room for it in every step.
export function drawPool(steps, index, width) {
  const step = steps[index];
  const requests = requestsOf(steps);
  const sizes = tableSizes(steps, width);
  const changed = changedBlocks(steps, index);
  const lines = requests.map((id) => Math.ceil(Math.max(1, ...steps.map((each) => each.tables[id]?.length ?? 0)) / sizes.perLine));
  const tops = lines.map((_, at) => CAPTION + lines.slice(0, at).reduce((sum, each) => sum + each, 0) * ROW);
  const pool = CAPTION + lines.reduce((sum, each) => sum + each, 0) * ROW + GAP;
  const blockRow = BLOCK_HEAD + ENTRY + BLOCK_FOOT;
  const rows = Math.ceil(step.blocks.length / sizes.columns);
  const height = pool + CAPTION + rows * blockRow;
  const picture = svg("svg", { width, height, role: "img", "aria-label": tablesWords(step) });
  picture.append(text(0, 12, "start", "the block tables", "sn-bt-caption"));
  picture.append(drawTables(step, requests, changed, sizes, tops));
  picture.append(text(0, pool + 10, "start", "the pool: physical blocks", "sn-bt-caption"));
  step.blocks.forEach((block, number) => {
    const x = (number % sizes.columns) * (sizes.block + BLOCK_GAP);
    const y = pool + CAPTION + Math.floor(number / sizes.columns) * blockRow;
    const hue = block.owner === null ? "" : `sn-hue-${requests.indexOf(String(block.owner)) % 8}`;
    picture.append(drawBlock(block, number, x, y, sizes, step.block_size, hue, changed.includes(number)));
  });
  return picture;
}
