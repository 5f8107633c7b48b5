// The padded batch, cell by cell; its steps take the padding out and lay the mask below.

import { boxKey, legendKey, legendOf } from "./chart.js";
import { node, svg } from "./dom.js";
import {
  batchCells, cellAfterKey, cellWords, hasPacked, queryAfterKey, queryWordsOf, realCells,
  usefulWords, viewWords, viewsOf,
} from "./batch_view_layout.js";
import { createStaircase } from "./batch_view_mask.js";
import { createBatchPicture, hueOf } from "./batch_view_picture.js";
import { cellSwatch } from "./mask_picture.js";
import { steppedPicture } from "./stepped.js";

const NAMES = { batch: "padded", strip: "packed", mask: "its mask" };

function batchLegend(cells, reference) {
  const has = (test) => cells.flat().some((cell) => cell && test(cell));
  return legendOf(
    boxKey(`sn-bv-real-key ${hueOf(0)}`, "a real token, its position below"),
    has((cell) => !cell.real) ? legendKey("padding", 14,
      svg("rect", { x: 1, y: 1, width: 12, height: 12, rx: 3, class: "sn-bv-swatch" }),
      svg("path", { d: "M2 9L9 2M5 12L12 5", class: "sn-bv-hatch" })) : null,
    has((cell) => cell.differs) ? boxKey("sn-bv-differs", "differs from the reference") : null,
    reference && !has((cell) => cell.differs) ? "no cell differs from the reference" : null,
  );
}

function maskLegend(packed, wanted) {
  const cell = (kind, words) => {
    const item = cellSwatch(kind, words);
    item.classList.add(hueOf(0));
    return item;
  };
  return legendOf(
    cell({ visible: true }, "may be seen"),
    cell({}, "hidden"),
    hasPacked(packed, wanted, (each) => each.wrong) ? cell({ visible: true, wrong: true }, "seen, but another request's or in the future") : null,
    hasPacked(packed, wanted, (each) => each.differs) ? boxKey("sn-mk-differs", "differs from the reference") : null,
    "dot: the query's own key",
  );
}

// The learner's own numbers, as they are.
function cumulativeLine(packed, wanted) {
  const one = (name) => {
    const wrong = wanted && String(wanted[name]) !== String(packed[name]);
    const words = `${name} = [${packed[name].join(", ")}]`;
    return node("span", {}, node("code", {}, words), wrong ? node("span", { class: "sn-bv-cu-wrong" }, ` the reference: [${wanted[name].join(", ")}]`) : null);
  };
  return [one("cu_seqlens_q"), one("cu_seqlens_k")];
}

function build({ rows, num_scheduled_tokens: numNew, batch, reference }, moves) {
  const { packed } = batch;
  const wanted = reference?.packed ?? null;
  const cells = batchCells(batch, numNew, reference);
  const strip = realCells(cells);
  const views = viewsOf(packed);
  const picture = createBatchPicture({ rows, cells, packed, reference });
  const staircase = packed ? createStaircase({ rows, strip, packed, wanted }) : null;
  const chip = node("span", { class: "sn-chip sn-chip-strong" });
  const said = node("p", { class: "sn-said sn-bv-said", "aria-live": "polite" });
  const numbers = node("p", { class: "sn-bv-numbers" });
  const legend = node("div", {});
  // The first cell worth reading: one that differs, else the first real one.
  let at = cells.flat().find((cell) => cell?.differs) ?? strip[0];
  const view = () => views[moves.step()];
  // In the padded batch the learner counts; without a strip to come, the count is the picture.
  const counts = (now) => now !== "batch" || views.length === 1;

  const queryOf = ({ row, column }) => strip.findIndex((cell) => cell.row === row && cell.column === column);

  const choose = (cell, reveal = true) => {
    at = { row: cell.row, column: cell.column };
    const query = queryOf(at);
    picture.point(view(), at);
    staircase?.point(query, reveal);
    const words = view() === "batch" ? cellWords(rows, cells[at.row][at.column], at)
      : queryWordsOf({ rows, cell: strip[query], query, packed, reference: wanted, sees: view() === "mask" });
    if (said.textContent !== words) said.textContent = words;
  };

  const onKey = (event) => {
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    const query = queryAfterKey(event.key, queryOf(at), strip.length);
    const next = view() === "batch" ? cellAfterKey(event.key, at, rows.length, cells[0].length)
      : query === null ? null : strip[query];
    if (!next) return;
    event.preventDefault();
    event.stopPropagation();
    choose(next);
  };
  const onPointer = (event) => {
    const cell = event.target.closest?.("[data-column]");
    const query = event.target.closest?.("[data-query]");
    const found = cell ? { row: Number(cell.dataset.row), column: Number(cell.dataset.column) } : strip[query?.dataset.query];
    if (!found || (view() !== "batch" && queryOf(found) < 0)) return;
    // What lies under the pointer must not move away from it.
    choose(found, !query);
  };
  picture.scroller.addEventListener("keydown", onKey);
  staircase?.scroller.addEventListener("keydown", (event) => {
    // A mask that scrolls keeps the keys that scroll it.
    if (event.key === "ArrowLeft" || event.key === "ArrowRight") event.stopPropagation();
  });
  for (const scroller of [picture.scroller, staircase?.scroller]) {
    scroller?.addEventListener("pointermove", onPointer);
    scroller?.addEventListener("click", onPointer);
  }

  return {
    count: views.length, label: "From padded to packed", still: !packed, frame: picture.scroller,
    name: (step) => `${NAMES[views[step]]}, step ${step + 1} of ${views.length}`,
    delay: () => 2400,
    layOut: (width) => {
      picture.draw(width);
      staircase?.draw(width);
    },
    draw: (step) => {
      const now = views[step];
      chip.textContent = usefulWords(cells, now !== "batch");
      chip.hidden = !counts(now);
      picture.show(now);
      numbers.replaceChildren(...(now === "batch" ? [] : cumulativeLine(packed, wanted).slice(0, step)));
      legend.replaceChildren(now === "mask" ? maskLegend(packed, wanted) : batchLegend(cells, reference));
      if (staircase) staircase.scroller.hidden = now !== "mask";
      // Padding has no place in the strip: the cursor moves to the row's first token.
      choose(now !== "batch" && queryOf(at) < 0 ? strip.find((cell) => cell.row === at.row) ?? strip[0] : at);
    },
    says: (step) => viewWords(views[step], rows, cells, packed, !counts(views[step])),
    facts: [node("span", { class: "sn-chips" }, chip)],
    below: [picture.scroller, staircase?.scroller, packed ? numbers : null, said, legend],
  };
}

export default steppedPicture({
  name: "batch-view", label: "A padded batch", build,
  inputs: ["rows", "num_scheduled_tokens", "batch", "reference"],
});
