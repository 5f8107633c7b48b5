// The cells of a mask and what explains them: drawing that every view of masks shares.

import { chartText, legendKey } from "./chart.js";
import { svg } from "./dom.js";

// A cell is { visible, wrong, own, differs } and, in padded batches, { padding, changed } too.
export function drawMaskCell(cell, x, y, size) {
  const inset = 1;
  const side = size - 2 * inset;
  const box = { x: x + inset, y: y + inset, width: side, height: side, rx: 3 };
  const className = cell.wrong ? "sn-mk-wrong" : cell.visible ? "sn-mk-seen" : "sn-mk-hidden";
  const shapes = [svg("rect", { ...box, class: className })];
  if (cell.padding && !cell.visible) shapes.push(svg("path", { d: slash(x, y, size), class: "sn-mk-padding" }));
  if (cell.wrong) {
    const from = { x: x + size * 0.32, y: y + size * 0.32 };
    const reach = size * 0.36;
    const cross = `M${from.x} ${from.y}l${reach} ${reach}m0 ${-reach}l${-reach} ${reach}`;
    shapes.push(svg("path", { d: cross, class: "sn-mk-cross" }));
  } else if (cell.own) {
    const dot = { cx: x + size / 2, cy: y + size / 2, r: size * 0.13 };
    shapes.push(svg("circle", { ...dot, class: cell.visible ? "sn-mk-own" : "sn-mk-own-hidden" }));
  }
  if (cell.changed) shapes.push(svg("rect", { ...box, class: "sn-mk-changed" }));
  if (cell.differs) {
    shapes.push(svg("rect", { x: x + 0.5, y: y + 0.5, width: size - 1, height: size - 1, rx: 4, class: "sn-mk-differs" }));
  }
  return shapes;
}

function slash(x, y, size) {
  return `M${x + size * 0.28} ${y + size * 0.72}l${size * 0.44} ${-size * 0.44}`;
}

const HEAD_ROOM = 40;
const LABEL_ROOM = 34;
// What a matrix needs beside its cells.
export const MATRIX_FIXED = LABEL_ROOM + 6;
// Where column `key` begins in a matrix of cells of `size` pixels.
export const columnPlace = (key, size) => LABEL_ROOM + key * size;

// The line between past and new columns, and the two titles where there is room for them.
function drawPastDivider(past, fresh, size, bottom) {
  const group = svg("g", {});
  const title = (middle, words, room) => {
    if (words.length * 6.2 <= room) group.append(chartText(middle, 14, "middle", words));
  };
  const [held, added] = [past * size, fresh * size];
  if (past) {
    title(LABEL_ROOM + held / 2, held > 70 ? "past keys" : "past", held);
    group.append(svg("path", { d: `M${LABEL_ROOM + held} 4V${bottom}`, class: "sn-mk-divider" }));
  }
  if (fresh > 0) title(LABEL_ROOM + held + added / 2, added > 70 ? "new keys" : "new", added);
  return group;
}

// A mask with its rows' and columns' labels: `labels` over the columns, "" for none; `rows` are
// { label, cells, className }; the first `past` columns are past. `point(row)` outlines a row, or none.
export function drawMatrix({ labels, rows, past, size, attributes }) {
  const columns = labels.length;
  const [width, height] = [columnPlace(columns, size) + 4, HEAD_ROOM + rows.length * size + 6];
  const picture = svg("svg", { width, height, ...attributes });
  labels.forEach((label, key) => {
    if (label) picture.append(chartText(columnPlace(key + 0.5, size), HEAD_ROOM - 7, "middle", label, "sn-mk-label"));
  });
  const drawn = rows.map(({ label, cells, className }, row) => {
    const y = HEAD_ROOM + row * size;
    return svg(
      "g", { class: className },
      // The whole row takes the pointer, its gaps and its label too.
      svg("rect", { x: 4, y, width: columnPlace(columns, size) - 4, height: size, class: "sn-mk-hit" }),
      chartText(LABEL_ROOM - 9, y + size / 2 + 4, "end", label, "sn-mk-label"),
      ...cells.flatMap((cell, key) => drawMaskCell(cell, columnPlace(key, size), y, size)),
    );
  });
  const cursor = svg("rect", { x: LABEL_ROOM - 29, width: 29 + columns * size + 2, height: size, rx: 5, class: "sn-cursor" });
  picture.append(...drawn, drawPastDivider(past, columns - past, size, height - 2), cursor);
  const point = (row) => {
    cursor.setAttribute("visibility", row !== null && row < rows.length ? "visible" : "hidden");
    if (row !== null) cursor.setAttribute("y", HEAD_ROOM + row * size);
  };
  return { picture, rows: drawn, point, width };
}

// A token's text as it is drawn: what cannot be seen gets a name.
export function visibleText(text) {
  if (text === " ") return "sp";
  return text === "\n" ? "\\n" : text;
}

// A line of a legend for a cell with something drawn in it.
export function cellSwatch(cell, words) {
  return legendKey(words, 14, ...drawMaskCell(cell, 0, 0, 14));
}
