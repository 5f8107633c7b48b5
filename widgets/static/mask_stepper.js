// Draws masks side by side and steps through their query rows.

import { boxKey, legendOf } from "./chart.js";
import { makeReachable, node } from "./dom.js";
import { MATRIX_FIXED, drawMatrix, visibleText } from "./mask_picture.js";
import { cellSize, cellsOfRow, differingCells, maskWords, numRows, stepWords } from "./mask_layout.js";
import { steppedPicture } from "./stepped.js";
import { count } from "./words.js";

const GAP = 36;

function seesFuture(cell) {
  return cell.visible && cell.future;
}

function keyLabels(mask, size) {
  const every = mask.labels ? 1 : Math.ceil(20 / size);
  return mask.mask[0].map((_, key) => (key % every ? "" : visibleText(mask.labels?.[key] ?? String(key))));
}

function drawMask(mask, other, size) {
  const rows = mask.mask.map((_, row) => ({
    label: String(mask.context_columns + row), className: "sn-mk-row",
    cells: cellsOfRow(mask, row, other).map((cell) => ({ ...cell, wrong: seesFuture(cell) })),
  }));
  const drawn = drawMatrix({
    labels: keyLabels(mask, size), rows, past: mask.context_columns, size,
    attributes: { role: "img", "aria-label": maskWords(mask) },
  });
  const point = (row) => {
    drawn.point(row);
    drawn.rows.forEach((group, at) => group.classList.toggle("sn-mk-later", at > row));
  };
  return { ...drawn, point };
}

function legend(masks) {
  const wrong = masks.some((mask) => mask.mask.some((_, row) =>
    cellsOfRow(mask, row).some(seesFuture)));
  return legendOf(
    boxKey("sn-mk-seen", "may be seen"), boxKey("sn-mk-hidden", "hidden"),
    wrong ? boxKey("sn-mk-wrong", "seen, but in the future") : null,
    masks.length > 1 ? boxKey("sn-mk-differs", "the masks differ") : null,
    "dot: the query's own position",
  );
}

function createFigure(mask, other, counts) {
  const scroller = node("div", { class: "sn-scroll" });
  const differing = other && counts ? differingCells(mask, other) : 0;
  const verdict = differing ? `${count(differing, "cell")} differ${differing === 1 ? "s" : ""}` : "";
  const caption = node(
    "figcaption", {}, node("strong", {}, mask.name),
    verdict ? node("span", { class: "sn-mk-verdict" }, verdict) : null,
    mask.note ? node("span", { class: "sn-mk-note" }, mask.note) : null,
  );
  const element = node("figure", { class: "sn-mk-figure" }, caption, scroller);
  let drawn = null;
  const draw = (room) => {
    drawn = drawMask(mask, other, cellSize(mask.mask[0].length, room - MATRIX_FIXED));
    scroller.replaceChildren(drawn.picture);
    makeReachable(scroller, drawn.width > room, maskWords(mask));
  };
  return { element, draw, point: (row) => drawn.point(row) };
}

function build({ masks }) {
  const figures = masks.map((mask, at) => {
    const other = masks.length > 1 ? masks[at === 0 ? 1 : 0] : null;
    return createFigure(mask, other, at === 0);
  });
  return {
    count: numRows(masks), label: "Query rows", name: (row) => `row ${row} of ${numRows(masks) - 1}`,
    layOut: (width) => {
      const beside = (width - GAP * (masks.length - 1)) / masks.length;
      const wanted = MATRIX_FIXED + 15 * Math.max(...masks.map((mask) => mask.mask[0].length));
      figures.forEach((figure) => figure.draw(Math.floor(beside >= wanted ? beside : width)));
    },
    draw: (row) => figures.forEach((figure) => figure.point(row)),
    says: (row) => stepWords(masks, row),
    below: [node("div", { class: "sn-mk-stage" }, ...figures.map((figure) => figure.element)), legend(masks)],
  };
}

export default steppedPicture({ name: "mask-stepper", label: "Attention masks", inputs: ["masks"], build });
