// The padded batch as a grid whose real cells glide into the packed strip below it.

import { chartText, hatch } from "./chart.js";
import { freshId, node, svg } from "./dom.js";
import { realCells } from "./batch_view_layout.js";
import { visibleText } from "./mask_picture.js";

const INDEX_ROOM = 18;
const CELL_HEIGHT = 38;
const ROW_GAP = 6;
const STRIP_GAP = 30;
const CUMULATIVE_ROOM = 22;
const LEAST_CELL = 23;
const MOST_CELL = 54;
const EDGE = 9;
const TEXT_PX = 7.9;

export function hueOf(row) {
  return `sn-hue-${row % 8}`;
}

// Room for the labels before the rows, and the side of a cell, in `available` pixels.
export function batchSizes(rows, columns, available) {
  const words = rows.flatMap(({ label, kind }) => [label.length * 7.6, kind.length * 6.4]);
  const label = Math.max(84, Math.ceil(Math.max(...words)) + 16);
  const cell = Math.max(LEAST_CELL, Math.min(MOST_CELL, Math.floor((available - label - EDGE) / columns)));
  return { label, cell, width: label + columns * cell + EDGE };
}

function fitted(text, size) {
  const most = Math.max(1, Math.floor((size - 3) / TEXT_PX));
  return text.length > most ? `${text.slice(0, most - 1)}…` : text;
}

function drawBatchCell(cell, size, patternId, attributes) {
  const kind = cell.real ? "sn-bv-real" : cell.stray ? "sn-bv-padding sn-bv-stray" : "sn-bv-padding";
  const group = svg("g", { class: `sn-bv-cell ${kind} ${hueOf(cell.row)}`, ...attributes });
  const box = { x: 1 - size / 2, y: 1, width: size - 2, height: CELL_HEIGHT - 2, rx: 5 };
  group.append(svg("rect", { ...box, class: "sn-bv-box" }));
  if (!cell.real) group.append(svg("rect", { ...box, fill: `url(#${patternId})` }));
  if (cell.real || cell.stray) {
    group.append(
      chartText(0, 17, "middle", fitted(visibleText(cell.text), size), "sn-bv-text"),
      chartText(0, 31, "middle", cell.position === null ? "?" : String(cell.position), "sn-bv-position"),
    );
  }
  if (cell.differs) {
    group.append(svg("rect", { x: 0.5 - size / 2, y: 0.5, width: size - 1, height: CELL_HEIGHT - 1, rx: 6, class: "sn-bv-differs" }));
  }
  return group;
}

function rowLabel({ label, kind }, row, y) {
  return svg(
    "g", { class: hueOf(row), "aria-hidden": "true" },
    svg("rect", { x: 0, y: y + 4, width: 4, height: CELL_HEIGHT - 8, rx: 2, class: "sn-key" }),
    chartText(10, y + 17, "start", label, "sn-side"), chartText(10, y + 31, "start", kind),
  );
}

// Where each request's tokens begin in the strip: the learner's numbers at the places they name.
function drawBoundaries(cuQ, wanted, sizes, top) {
  const group = svg("g", { class: "sn-bv-strip", "aria-hidden": "true" });
  cuQ.forEach((value, at) => {
    const x = sizes.label + value * sizes.cell;
    const wrong = wanted !== null && wanted[at] !== value;
    if (x < 0 || x > sizes.width) return;
    group.append(
      svg("path", { d: `M${x} ${top - 5}V${top + CELL_HEIGHT + 6}`, class: "sn-bv-boundary" }),
      chartText(x, top + CELL_HEIGHT + 18, "middle", String(value), wrong ? "sn-bv-cu sn-bv-cu-wrong" : "sn-bv-cu"),
    );
  });
  group.append(chartText(0, top + CELL_HEIGHT + 18, "start", "cu_seqlens_q"));
  return group;
}

function drawFrame(rows, cells, sizes) {
  const indices = cells[0].map((_, column) => chartText(sizes.label + (column + 0.5) * sizes.cell, 12, "middle", String(column)));
  return [
    svg("g", { "aria-hidden": "true" }, ...indices),
    ...rows.map((row, at) => rowLabel(row, at, INDEX_ROOM + at * (CELL_HEIGHT + ROW_GAP))),
  ];
}

// The picture of the batch, drawn again when its width changes. `scroller` holds it; `show(view)`
// puts the cells where the view has them; `point(cell)` outlines { row, column } and tells its id.
export function createBatchPicture({ rows, cells, packed, reference }) {
  const scroller = node("div", { class: "sn-scroll" });
  const strip = realCells(cells);
  const patternId = freshId("padding");
  const columns = cells[0].length;
  const grid = { role: "grid", tabindex: "0", class: "sn-picture", "aria-label": "Cells of the batch: arrow keys move" };
  const bottom = INDEX_ROOM + rows.length * (CELL_HEIGHT + ROW_GAP);
  const stripTop = bottom - ROW_GAP + STRIP_GAP;
  let drawn = null;

  const placeIn = (sizes, view, { row, column }) => {
    const at = view === "batch" ? -1 : strip.findIndex((cell) => cell.row === row && cell.column === column);
    const y = at < 0 ? INDEX_ROOM + row * (CELL_HEIGHT + ROW_GAP) : stripTop;
    return { x: sizes.label + ((at < 0 ? column : at) + 0.5) * sizes.cell, y };
  };

  function draw(available) {
    const sizes = batchSizes(rows, packed ? Math.max(columns, strip.length) : columns, available);
    const picture = svg("svg", { width: sizes.width, ...grid }, svg("defs", {}, hatch(patternId, "sn-bv-hatch", 2)), ...drawFrame(rows, cells, sizes));
    const shapes = [];
    cells.forEach((line, row) => {
      const group = svg("g", { role: "row", "aria-label": rows[row].label });
      line.forEach((cell, column) => {
        const place = { role: "gridcell", id: freshId("cell"), "aria-label": `${rows[row].label}, column ${column}`, "data-row": row, "data-column": column };
        const shape = cell ? drawBatchCell(cell, sizes.cell, patternId, place) : svg("g", { class: "sn-bv-cell", ...place });
        const ghost = cell?.real ? svg("rect", { x: sizes.label + column * sizes.cell + 1, y: INDEX_ROOM + row * (CELL_HEIGHT + ROW_GAP) + 1, width: sizes.cell - 2, height: CELL_HEIGHT - 2, rx: 5, class: `sn-bv-ghost ${hueOf(row)}` }) : null;
        if (ghost) picture.insertBefore(ghost, picture.firstChild);
        group.append(shape);
        shapes.push({ row, column, shape });
      });
      picture.append(group);
    });
    if (packed) picture.append(drawBoundaries(packed.cu_seqlens_q, reference?.packed?.cu_seqlens_q ?? null, sizes, stripTop));
    const cursor = svg("rect", { width: sizes.cell + 4, height: CELL_HEIGHT + 4, rx: 8, class: "sn-bv-cursor", "aria-hidden": "true" });
    picture.append(cursor);
    scroller.replaceChildren(picture);
    drawn = { picture, sizes, shapes, cursor };
  }

  function show(view) {
    if (!drawn) return;
    const { picture, sizes, shapes } = drawn;
    picture.classList.toggle("sn-bv-packed", view !== "batch");
    picture.setAttribute("height", view === "batch" ? bottom : stripTop + CELL_HEIGHT + CUMULATIVE_ROOM);
    for (const { row, column, shape } of shapes) {
      const { x, y } = placeIn(sizes, view, { row, column });
      shape.style.transform = `translate(${x}px, ${y}px)`;
    }
  }

  function point(view, cell) {
    if (!drawn) return;
    const { picture, sizes, shapes, cursor } = drawn;
    const { x, y } = placeIn(sizes, view, cell);
    cursor.setAttribute("x", x - sizes.cell / 2 - 2);
    cursor.setAttribute("y", y - 2);
    const found = shapes.find(({ row, column }) => row === cell.row && column === cell.column);
    picture.setAttribute("aria-activedescendant", found.shape.id);
    for (const { shape } of shapes) shape.setAttribute("aria-selected", String(shape === found.shape));
    const room = scroller.clientWidth;
    if (x - sizes.cell < scroller.scrollLeft) scroller.scrollLeft = Math.max(0, x - sizes.cell - sizes.label);
    if (x + sizes.cell > scroller.scrollLeft + room) scroller.scrollLeft = x + sizes.cell - room;
  }

  return { scroller, draw, show, point, picture: () => drawn?.picture };
}
