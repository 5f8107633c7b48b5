// One matrix of a fused mask, its rows selectable, and the one that it is compared with.

import { freshId, makeReachable, node } from "./dom.js";
import { cellSize } from "./mask_layout.js";
import { buildCells, cellsOfQuery, columnLabel, comparedMask, isRealQuery, matrixWords, queryLabel, queryName } from "./mask_build_layout.js";
import { MATRIX_FIXED, columnPlace, drawMatrix, visibleText } from "./mask_picture.js";

function columnLabels(mask, numPast, size) {
  const labels = mask.mask[0].map((_, key) => visibleText(columnLabel(mask, numPast, key)));
  // Where the longest has no room, every second or third is named.
  const every = Math.ceil((Math.max(...labels.map((label) => label.length)) * 7 + 4) / size);
  return labels.map((label, key) => (label === "·" || key % every === 0 ? label : ""));
}

function drawQueries(mask, numPast, cellsOf, size, attributes) {
  const rows = mask.mask.map((_, row) => ({
    label: queryLabel(mask, numPast, row), cells: cellsOf(row),
    className: isRealQuery(mask, numPast, row) ? "sn-mb-row" : "sn-mb-row sn-mb-thrown",
  }));
  return drawMatrix({ labels: columnLabels(mask, numPast, size), rows, past: numPast, size, attributes });
}

function captioned(words, drawn, room, label) {
  const scroller = node("div", { class: "sn-scroll sn-mb-scroll" }, drawn.picture);
  makeReachable(scroller, drawn.width > room, label);
  return node("div", { class: "sn-mb-matrix" }, node("p", { class: "sn-mb-caption", "aria-hidden": "true" }, words), scroller);
}

// Scrolls narrow pictures so that the columns before `key` can be seen.
function showNewest(element, key, size) {
  for (const scroller of element.querySelectorAll(".sn-scroll")) {
    scroller.scrollLeft = columnPlace(key, size) - scroller.clientWidth;
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
  const drawn = drawQueries(mask, numPast, (row) => buildCells(steps, at, index, row), size, { role: "group", "aria-label": label });
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
    other = drawQueries(right, numPast, (row) => cellsOfQuery(right, numPast, row, mask.mask), size, { "aria-hidden": "true" });
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
