// Draws masks side by side and steps through their query rows.

import { makeReachable, node, svg } from "./dom.js";
import { drawMaskCell, drawPastDivider, swatch, visibleText } from "./mask_picture.js";
import { cellSize, cellsOfRow, differingCells, maskWords, numRows, stepWords } from "./mask_layout.js";
import { steppedPicture } from "./stepped.js";
import { count } from "./words.js";

const HEAD = 40;
const ROW_LABEL = 34;
const GAP = 36;

function seesFuture(cell) {
  return cell.visible && cell.future;
}

function keyLabels(mask, size) {
  const labels = mask.labels ?? mask.mask[0].map((_, key) => String(key));
  const every = mask.labels ? 1 : Math.ceil(20 / size);
  return labels.flatMap((label, key) => {
    if (key % every) return [];
    const x = ROW_LABEL + key * size + size / 2;
    return [svg("text", { x, y: HEAD - 7, class: "sn-mk-label", "text-anchor": "middle" }, visibleText(label))];
  });
}

function drawMask(mask, other, size) {
  const keys = mask.mask[0].length;
  const width = ROW_LABEL + keys * size + 4;
  const height = HEAD + mask.mask.length * size + 6;
  const picture = svg("svg", { width, height, role: "img", "aria-label": maskWords(mask) });
  picture.append(...keyLabels(mask, size));
  const rows = mask.mask.map((_, row) => {
    const y = HEAD + row * size;
    const group = svg("g", { class: "sn-mk-row" });
    group.append(svg("text", { x: ROW_LABEL - 9, y: y + size / 2 + 4, class: "sn-mk-label", "text-anchor": "end" }, String(mask.context_columns + row)));
    cellsOfRow(mask, row, other).forEach((cell, key) =>
      group.append(...drawMaskCell({ ...cell, wrong: seesFuture(cell) }, ROW_LABEL + key * size, y, size)));
    picture.append(group);
    return group;
  });
  picture.append(drawPastDivider({
    left: ROW_LABEL, top: 4, bottom: HEAD + mask.mask.length * size + 4,
    past: mask.context_columns, fresh: keys - mask.context_columns, size,
  }));
  const cursor = svg("rect", { x: ROW_LABEL - 29, width: 29 + keys * size + 2, height: size, rx: 5, class: "sn-mk-cursor" });
  picture.append(cursor);
  const point = (row) => {
    rows.forEach((group, at) => group.classList.toggle("sn-mk-later", at > row));
    cursor.setAttribute("y", HEAD + row * size);
    cursor.setAttribute("visibility", row < rows.length ? "visible" : "hidden");
  };
  return { picture, point };
}

function legend(masks) {
  const wrong = masks.some((mask) => mask.mask.some((_, row) =>
    cellsOfRow(mask, row).some(seesFuture)));
  return node(
    "ul", { class: "sn-legend" },
    swatch("sn-mk-seen", "may be seen"),
    swatch("sn-mk-hidden", "hidden"),
    wrong ? swatch("sn-mk-wrong", "seen, but in the future") : null,
    masks.length > 1 ? swatch("sn-mk-differs", "the masks differ") : null,
    node("li", {}, "dot: the query's own position"),
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
    drawn = drawMask(mask, other, cellSize(mask.mask[0].length, room - ROW_LABEL - 6));
    scroller.replaceChildren(drawn.picture);
    const scrolls = Number(drawn.picture.getAttribute("width")) > room;
    makeReachable(scroller, scrolls, maskWords(mask));
  };
  return { element, draw, point: (row) => drawn.point(row) };
}

function build(model) {
  const masks = model.get("masks");
  const figures = masks.map((mask, at) => {
    const other = masks.length > 1 ? masks[at === 0 ? 1 : 0] : null;
    return createFigure(mask, other, at === 0);
  });
  return {
    count: numRows(masks), label: "Query rows", name: (row) => `row ${row} of ${numRows(masks) - 1}`,
    layOut: (width) => {
      const beside = (width - GAP * (masks.length - 1)) / masks.length;
      const wanted = ROW_LABEL + 6 + 15 * Math.max(...masks.map((mask) => mask.mask[0].length));
      figures.forEach((figure) => figure.draw(Math.floor(beside >= wanted ? beside : width)));
    },
    draw: (row) => figures.forEach((figure) => figure.point(row)),
    says: (row) => stepWords(masks, row),
    below: [node("div", { class: "sn-mk-stage" }, ...figures.map((figure) => figure.element)), legend(masks)],
  };
}

export default steppedPicture({ name: "mask-stepper", label: "Attention masks", inputs: ["masks"], build });
