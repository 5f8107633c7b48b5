// One matrix of a fused mask, its rows selectable, and the one that it is compared with.

import { freshId, makeReachable, node, svg } from "./dom.js";
import { cellSize } from "./mask_layout.js";
import { buildCells, cellsOfQuery, columnLabel, comparedMask, isRealQuery, matrixWords, queryLabel, queryName } from "./mask_build_layout.js";
import { drawMaskCell, drawPastDivider, visibleText } from "./mask_picture.js";

const HEAD_ROOM = 40;
const LABEL_ROOM = 34;
// What a matrix needs beside its cells.
export const MATRIX_FIXED = LABEL_ROOM + 6;

function drawLabels(mask, numPast, size) {
  const labels = mask.mask[0].map((_, key) => visibleText(columnLabel(mask, numPast, key)));
  // Where the longest has no room, every second or third is named.
  const every = Math.ceil((Math.max(...labels.map((label) => label.length)) * 7 + 4) / size);
  return labels.flatMap((label, key) => {
    if (label !== "·" && key % every) return [];
    const at = { x: LABEL_ROOM + (key + 0.5) * size, y: HEAD_ROOM - 7 };
    return [svg("text", { ...at, class: "sn-mk-label", "text-anchor": "middle" }, label)];
  });
}

function drawRow({ mask, numPast, row, cells, size }) {
  const y = HEAD_ROOM + row * size;
  const group = svg("g", { class: isRealQuery(mask, numPast, row) ? "sn-mb-row" : "sn-mb-row sn-mb-thrown" });
  const label = { x: LABEL_ROOM - 9, y: y + size / 2 + 4, class: "sn-mk-label", "text-anchor": "end" };
  // The whole row takes the pointer, its gaps and its label too.
  group.append(
    svg("rect", { x: 4, y, width: LABEL_ROOM - 4 + cells.length * size, height: size, class: "sn-mb-hit" }),
    svg("text", label, queryLabel(mask, numPast, row)),
  );
  cells.forEach((cell, key) => group.append(...drawMaskCell(cell, LABEL_ROOM + key * size, y, size)));
  return group;
}

function drawMatrix({ mask, numPast, cellsOf, size, attributes }) {
  const columns = mask.mask[0].length;
  const [width, height] = [LABEL_ROOM + columns * size + 4, HEAD_ROOM + mask.mask.length * size + 6];
  const picture = svg("svg", { width, height, ...attributes });
  const rows = mask.mask.map((_, row) =>
    drawRow({ mask, numPast, row, cells: cellsOf(row), size }));
  const cursor = svg("rect", { x: LABEL_ROOM - 29, width: 29 + columns * size + 2, height: size, rx: 5, class: "sn-mk-cursor" });
  picture.append(...drawLabels(mask, numPast, size), ...rows, drawPastDivider({
    left: LABEL_ROOM, top: 4, bottom: height - 2, past: numPast, fresh: columns - numPast, size,
  }), cursor);
  const point = (row) => {
    cursor.setAttribute("visibility", row !== null && row < rows.length ? "visible" : "hidden");
    if (row !== null) cursor.setAttribute("y", HEAD_ROOM + row * size);
  };
  return { picture, rows, point, width };
}

function captioned(words, drawn, room, label) {
  const scroller = node("div", { class: "sn-scroll sn-mb-scroll" }, drawn.picture);
  makeReachable(scroller, drawn.width > room, label);
  return node("div", { class: "sn-mb-matrix" }, node("p", { class: "sn-mb-caption", "aria-hidden": "true" }, words), scroller);
}

// Scrolls narrow pictures so that the columns before `key` can be seen.
function showNewest(element, key, size) {
  for (const scroller of element.querySelectorAll(".sn-scroll")) {
    scroller.scrollLeft = LABEL_ROOM + key * size - scroller.clientWidth;
  }
}

// Everything of one mask of a step: `element`, `point(row or null, reveal)` and the ids of its rows.
export function createMatrix({ steps, at, index, names, room }) {
  const step = steps[at];
  const mask = step.masks[index];
  const numPast = step.context_columns;
  const widest = Math.max(mask.mask[0].length, step.compare?.[index][0].length ?? 0);
  const size = cellSize(widest, room - MATRIX_FIXED);
  const label = matrixWords(step, index);
  const drawn = drawMatrix({
    mask, numPast, size, cellsOf: (row) => buildCells(steps, at, index, row),
    attributes: { role: "group", "aria-label": label },
  });
  const ids = drawn.rows.map((group, row) => {
    const id = freshId("query");
    const chosen = { id, role: "option", "aria-label": queryName(mask, numPast, row), "data-index": index, "data-row": row };
    for (const [name, value] of Object.entries(chosen)) group.setAttribute(name, value);
    return id;
  });
  const caption = step.compare ? `${mask.label}: ${names[0]}` : mask.label;
  const element = node("div", { class: "sn-mb-pair" }, captioned(caption, drawn, room, label));
  let other = null;
  if (step.compare) {
    const right = comparedMask(step, index);
    other = drawMatrix({
      mask: right, numPast, size, attributes: { "aria-hidden": "true" },
      cellsOf: (row) => cellsOfQuery(right, numPast, row, mask.mask),
    });
    element.append(captioned(names[1], other, room, `${label}, ${names[1]}`));
  }
  const point = (row, reveal) => {
    drawn.point(row);
    other?.point(row);
    if (reveal && row !== null) showNewest(element, numPast + row + 2, size);
    drawn.rows.forEach((group, each) => group.setAttribute("aria-selected", String(each === row)));
  };
  return { element, point, ids };
}
