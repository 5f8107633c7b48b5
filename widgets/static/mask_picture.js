// The cells of a mask and what explains them: drawing that every view of masks shares.

import { node, svg } from "./dom.js";

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

// The line between past and new columns, and the two titles where there is room for them.
export function drawPastDivider({ left, top, bottom, past, fresh, size }) {
  const group = svg("g", {});
  const title = (middle, words, room) => {
    if (words.length * 6.2 > room) return;
    group.append(svg("text", { x: middle, y: top + 10, class: "sn-mk-part", "text-anchor": "middle" }, words));
  };
  const [held, added] = [past * size, fresh * size];
  if (past) {
    title(left + held / 2, held > 70 ? "past keys" : "past", held);
    group.append(svg("path", { d: `M${left + held} ${top}V${bottom}`, class: "sn-mk-divider" }));
  }
  if (fresh > 0) title(left + held + added / 2, added > 70 ? "new keys" : "new", added);
  return group;
}

// A token's text as it is drawn: what cannot be seen gets a name.
export function visibleText(text) {
  if (text === " ") return "sp";
  return text === "\n" ? "\\n" : text;
}

export function swatch(className, words) {
  const box = svg("rect", { x: 1, y: 1, width: 12, height: 12, rx: 3, class: className });
  return node("li", {}, svg("svg", { width: 14, height: 14, "aria-hidden": "true" }, box), words);
}

// The same for a cell with something drawn in it.
export function cellSwatch(cell, words) {
  return node("li", {}, svg("svg", { width: 14, height: 14, "aria-hidden": "true" }, ...drawMaskCell(cell, 0, 0, 14)), words);
}
