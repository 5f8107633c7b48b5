// Steps through the making of a fused mask; any query of the step can be chosen.

import { boxKey, legendOf } from "./chart.js";
import { node } from "./dom.js";
import { buildCells, buildWords, countCells, isRealQuery, matrixRoom, queriesOf, queryWords } from "./mask_build_layout.js";
import { createMatrix } from "./mask_build_picture.js";
import { MATRIX_FIXED, cellSwatch } from "./mask_picture.js";
import { steppedPicture } from "./stepped.js";
import { aloneNote } from "./whose.js";

const GAP = 28;

// Explains the kinds of cells that the steps hold, and no others.
function buildLegend(steps) {
  const has = (test) => steps.some((_, at) => countCells(steps, at, test) > 0);
  const thrown = steps.some(({ masks, context_columns: numPast }) =>
    masks.some((mask) => mask.mask.some((_, row) => !isRealQuery(mask, numPast, row))));
  return legendOf(
    cellSwatch({ visible: true }, "may be seen"),
    cellSwatch({}, "hidden"),
    has((cell) => cell.padding) ? cellSwatch({ padding: true }, "hidden padding") : null,
    has((cell) => cell.changed) ? cellSwatch({ changed: true }, "hidden by this step") : null,
    has((cell) => cell.wrong) ? cellSwatch({ visible: true, wrong: true }, "seen, but padding or future") : null,
    has((cell) => cell.differs) ? boxKey("sn-mk-differs", "the two differ") : null,
    has((cell) => cell.own) ? "dot: the query's own column" : null,
    thrown ? "faded: a padding query, its output is thrown away" : null,
  );
}

// A query whose cells differ or are wrong is worth looking at first, then any real one.
function firstQuery(steps, at) {
  const queries = queriesOf(steps[at]);
  const telling = queries.findIndex(({ index, row }) =>
    buildCells(steps, at, index, row).some((cell) => cell.differs || cell.wrong));
  if (telling >= 0) return telling;
  const { masks, context_columns: numPast } = steps[at];
  return queries.findIndex(({ index, row }) => isRealQuery(masks[index], numPast, row));
}

function build({ steps, names }, moves) {
  const stage = node("div", {
    class: "sn-mb-stage", role: "listbox", tabindex: "0",
    "aria-label": "Queries: up and down choose one",
  });
  const said = node("p", { class: "sn-said sn-mb-said", "aria-live": "polite" });
  let matrices = [];
  let chosen = 0;
  let touched = false;

  const choose = (next, reveal = false) => {
    const step = steps[moves.step()];
    const queries = queriesOf(step);
    chosen = Math.max(0, Math.min(next, queries.length - 1));
    const query = queries[chosen];
    matrices.forEach((matrix, index) => matrix.point(index === query.index ? query.row : null, reveal));
    const id = matrices[query.index]?.ids[query.row];
    if (id) stage.setAttribute("aria-activedescendant", id);
    const words = queryWords(step, query, names);
    if (said.textContent !== words) said.textContent = words;
  };

  stage.addEventListener("keydown", (event) => {
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    const sideways = event.key === "ArrowLeft" || event.key === "ArrowRight";
    // A matrix that scrolls keeps the keys that scroll it.
    if (sideways && event.target !== stage) return event.stopPropagation();
    const move = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!move) return;
    event.preventDefault();
    event.stopPropagation();
    touched = true;
    choose(chosen + move, true);
  });
  const follow = (event) => {
    const row = event.target.closest?.("[data-row]");
    if (!row) return;
    touched = true;
    const { index, row: at } = row.dataset;
    choose(queriesOf(steps[moves.step()]).findIndex((query) => query.index === Number(index) && query.row === Number(at)));
  };
  stage.addEventListener("pointermove", follow);
  stage.addEventListener("click", follow);

  return {
    count: steps.length, label: "Steps of the mask", still: steps.length === 1, frame: stage,
    name: (step) => `step ${step + 1} of ${steps.length}`,
    delay: () => 2200,
    draw: (at, width) => {
      const room = matrixRoom(steps[at], width, MATRIX_FIXED, GAP);
      matrices = steps[at].masks.map((_, index) => createMatrix({ steps, at, index, names, room }));
      stage.replaceChildren(...matrices.map((matrix) => matrix.element));
      // Until a query is chosen, every step begins at the most telling one.
      choose(touched ? chosen : firstQuery(steps, at));
    },
    says: (step) => buildWords(steps, step),
    below: [aloneNote(names), stage, said, buildLegend(steps)],
  };
}

export default steppedPicture({ name: "mask-build", label: "A mask in steps", inputs: ["steps", "names"], build });
