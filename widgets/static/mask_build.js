// Steps through the making of a fused mask; any query of the step can be chosen.

import { mount, node, titleRow } from "./dom.js";
import { createPlayer } from "./player.js";
import { buildCells, buildWords, countCells, isRealQuery, matrixRoom, queriesOf, queryWords } from "./mask_build_layout.js";
import { createMatrix, MATRIX_FIXED } from "./mask_build_picture.js";
import { cellSwatch, swatch } from "./mask_picture.js";
import { aloneNote } from "./whose.js";

const GAP = 28;

// Explains the kinds of cells that the steps hold, and no others.
function buildLegend(steps) {
  const has = (test) => steps.some((_, at) => countCells(steps, at, test) > 0);
  const thrown = steps.some(({ masks, context_columns: numPast }) =>
    masks.some((mask) => mask.mask.some((_, row) => !isRealQuery(mask, numPast, row))));
  const plain = { visible: false, wrong: false, own: false, differs: false, padding: false, changed: false };
  return node(
    "ul", { class: "sn-legend" },
    cellSwatch({ ...plain, visible: true }, "may be seen"),
    cellSwatch(plain, "hidden"),
    has((cell) => cell.padding) ? cellSwatch({ ...plain, padding: true }, "hidden padding") : null,
    has((cell) => cell.changed) ? cellSwatch({ ...plain, changed: true }, "hidden by this step") : null,
    has((cell) => cell.wrong) ? cellSwatch({ ...plain, visible: true, wrong: true }, "seen, but padding or future") : null,
    has((cell) => cell.differs) ? swatch("sn-mk-differs", "the two differ") : null,
    has((cell) => cell.own) ? node("li", {}, "dot: the query's own column") : null,
    thrown ? node("li", {}, "faded: a padding query, its output is thrown away") : null,
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

function build(root, model) {
  const [steps, names] = ["steps", "names"].map((name) => model.get(name));
  const stage = node("div", {
    class: "sn-mb-stage", role: "listbox", tabindex: "0",
    "aria-label": "Queries: up and down choose one",
  });
  const said = node("p", { class: "sn-mb-said", "aria-live": "polite" });
  let matrices = [];
  let chosen = 0;
  let touched = false;
  let width = 0;

  const choose = (next, reveal = false) => {
    const step = steps[player.step()];
    const queries = queriesOf(step);
    chosen = Math.max(0, Math.min(next, queries.length - 1));
    const query = queries[chosen];
    matrices.forEach((matrix, index) => matrix.point(index === query.index ? query.row : null, reveal));
    const id = matrices[query.index]?.ids[query.row];
    if (id) stage.setAttribute("aria-activedescendant", id);
    const words = queryWords(step, query, names);
    if (said.textContent !== words) said.textContent = words;
  };

  const draw = () => {
    if (!width) return;
    const at = player.step();
    const room = matrixRoom(steps[at], width, MATRIX_FIXED, GAP);
    matrices = steps[at].masks.map((_, index) => createMatrix({ steps, at, index, names, room }));
    stage.replaceChildren(...matrices.map((matrix) => matrix.element));
  };

  const player = createPlayer({
    root, count: steps.length, label: "Steps of the mask",
    name: (step) => `step ${step + 1} of ${steps.length}`,
    delay: () => 2200,
    onStep: (step) => {
      // Until a query is chosen, every step begins at the most telling one.
      draw();
      choose(touched ? chosen : firstQuery(steps, step));
      return buildWords(steps, step);
    },
  });

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
    choose(queriesOf(steps[player.step()]).findIndex((query) => query.index === Number(index) && query.row === Number(at)));
  };
  stage.addEventListener("pointermove", follow);
  stage.addEventListener("click", follow);

  root.append(titleRow(model));
  if (steps.length > 1) root.append(player.toolbar, player.keys);
  else player.live.classList.add("sn-mb-still");
  root.append(...[player.live, aloneNote(names), stage, said, buildLegend(steps)].filter(Boolean));
  player.open(model);
  return player.sized((room) => {
    width = room;
    draw();
    choose(chosen);
  }, stage);
}

export default {
  render: ({ model, el }) => mount({
    model, el, name: "mask-build", label: "A mask in steps", inputs: ["steps", "names", "title"],
    build: (root) => build(root, model),
  }),
};
