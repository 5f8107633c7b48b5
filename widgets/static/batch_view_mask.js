// The staircase mask of a packed batch: blocks in their request's colour, cu_seqlens_q and cu_seqlens_k at its edges.

import { chartText } from "./chart.js";
import { makeReachable, node, svg } from "./dom.js";
import { packedCells, stretchOf } from "./batch_view_layout.js";
import { hueOf } from "./batch_view_picture.js";
import { cellSize } from "./mask_layout.js";
import { drawMaskCell, visibleText } from "./mask_picture.js";
import { count } from "./words.js";

const OWNERS = 16;
const LABELS = 16;
const BOUNDARIES = 21;
const QUERY_ROOM = 84;
const MOST_SIDE = 20;

export function staircaseLabel(packed) {
  return `Staircase mask: ${count(packed.mask.length, "row")} of queries by ${count(packed.mask[0].length, "key")}`;
}

// Whose keys are where, over the mask; left out where the name does not fit.
function drawOwners(rows, cuK, size) {
  return rows.flatMap(({ label }, row) => {
    const [from, to] = [cuK[row], cuK[row + 1]];
    if (!(to > from) || label.length * 7 > (to - from) * size) return [];
    return [svg("g", { class: hueOf(row) }, chartText(QUERY_ROOM + ((from + to) / 2) * size, 12, "middle", label, "sn-bv-owner"))];
  });
}

function drawKeyLabels(labels, size) {
  return (labels ?? []).flatMap((label, key) => {
    const words = visibleText(label);
    if (words.length * 6.8 > size - 2) return [];
    return [chartText(QUERY_ROOM + (key + 0.5) * size, OWNERS + 11, "middle", words, "sn-mk-label")];
  });
}

// Lines at the cumulative lengths that were given, with their values where these have room.
function drawEdges(packed, wanted, size, top) {
  const [queries, keys] = [packed.mask.length, packed.mask[0].length];
  const [right, bottom] = [QUERY_ROOM + keys * size, top + queries * size];
  const parts = [];
  let free = -Infinity;
  packed.cu_seqlens_k.forEach((value, at) => {
    if (value < 0 || value > keys) return;
    const x = QUERY_ROOM + value * size;
    parts.push(svg("path", { d: `M${x} ${top - 3}V${bottom + 5}`, class: "sn-bv-boundary" }));
    if (x - free < 20) return;
    free = x;
    const wrong = wanted !== null && wanted.cu_seqlens_k[at] !== value;
    parts.push(chartText(x, bottom + 16, "middle", String(value), wrong ? "sn-bv-cu sn-bv-cu-wrong" : "sn-bv-cu"));
  });
  packed.cu_seqlens_q.forEach((value) => {
    if (value < 0 || value > queries) return;
    parts.push(svg("path", { d: `M${QUERY_ROOM - 5} ${top + value * size}H${right + 3}`, class: "sn-bv-boundary" }));
  });
  parts.push(chartText(0, bottom + 16, "start", "cu_seqlens_k"));
  return parts;
}

function drawQuery({ packed, wanted, cell, query, size, top }) {
  const y = top + query * size;
  const owner = stretchOf(packed.cu_seqlens_q, query);
  const group = svg("g", { class: `sn-bv-query ${owner === null ? "" : hueOf(owner)}`, "data-query": query });
  const words = cell ? `${visibleText(cell.text).slice(0, 3)} ${cell.position ?? "?"}` : "?";
  group.append(
    svg("rect", { x: 0, y, width: QUERY_ROOM + packed.mask[0].length * size, height: size, class: "sn-mk-hit" }),
    chartText(QUERY_ROOM - 9, y + size / 2 + 4, "end", words, "sn-mk-label"),
  );
  packedCells(packed, query, wanted).forEach((each, key) => {
    const shapes = drawMaskCell(each, QUERY_ROOM + key * size, y, size);
    if (each.leak && !each.visible) shapes[0].classList.add("sn-bv-foreign");
    group.append(...shapes);
  });
  return group;
}

// The mask below the strip; `point(query, reveal)` outlines a row and may
// scroll to what it sees. `strip` are the batch's real cells.
export function createStaircase({ rows, strip, packed, wanted }) {
  const scroller = node("div", { class: "sn-scroll sn-bv-mask" });
  const top = OWNERS + (packed.key_labels ? LABELS : 4);
  let drawn = null;

  function draw(available) {
    const keys = packed.mask[0].length;
    const size = Math.min(MOST_SIDE, cellSize(keys, available - QUERY_ROOM - 6));
    const [width, bottom] = [QUERY_ROOM + keys * size + 10, top + packed.mask.length * size];
    const picture = svg("svg", { width, height: bottom + BOUNDARIES, role: "img", "aria-label": staircaseLabel(packed) });
    const cursor = svg("rect", { x: 1, width: QUERY_ROOM + keys * size + 3, height: size, rx: 5, class: "sn-cursor" });
    picture.append(
      ...drawOwners(rows, packed.cu_seqlens_k, size), ...drawKeyLabels(packed.key_labels, size),
      ...packed.mask.map((_, query) => drawQuery({ packed, wanted, cell: strip[query], query, size, top })),
      ...drawEdges(packed, wanted, size, top), cursor,
    );
    scroller.replaceChildren(picture);
    makeReachable(scroller, width > available, staircaseLabel(packed));
    drawn = { cursor, size };
  }

  function point(query, reveal) {
    if (!drawn) return;
    const last = reveal ? packed.mask[query]?.lastIndexOf(true) ?? -1 : -1;
    if (last >= 0) scroller.scrollLeft = QUERY_ROOM + (last + 2) * drawn.size - scroller.clientWidth;
    drawn.cursor.setAttribute("y", top + query * drawn.size);
    drawn.cursor.setAttribute("visibility", query < packed.mask.length ? "visible" : "hidden");
  }

  return { scroller, draw, point };
}
