// Steps through the seeds of a comparison: all of them, then one pair after another in every panel.

import { factChips, node, pointIn, svg } from "./dom.js";
import { comparisonWords, differenceWords, sharedWith, pairWords, seedsWords, verdict, verdictMark } from "./paired_seeds_layout.js";
import { drawPanel } from "./paired_seeds_picture.js";
import { keepFocus } from "./pointing.js";
import { steppedPicture } from "./stepped.js";
import { capital, count, listed } from "./words.js";

const TWO_WIDE = 640;
const APART = 32;

function legend() {
  const swatch = (shape, words, className) => node("li", {}, svg("svg", { width: 26, height: 14, "aria-hidden": "true" },
    svg("g", { class: className }, svg("path", { d: "M3 7H20", class: "sn-ps-line" }), shape)), words);
  return node(
    "ul", { class: "sn-legend" },
    swatch(svg("circle", { cx: 20, cy: 7, r: 4, class: "sn-ps-mark" }), "a seed's pair, better", "sn-ps-better"),
    swatch(svg("rect", { x: 16.2, y: 3.2, width: 7.6, height: 7.6, class: "sn-ps-mark" }), "a seed's pair, worse", "sn-ps-worse"),
    node("li", {}, svg("svg", { width: 16, height: 16, "aria-hidden": "true" },
      svg("path", { d: "M8 1V15M4 1h8M4 15h8", class: "sn-ps-whisker" }), svg("path", { d: "M8 3l5 5l-5 5l-5 -5Z", class: "sn-ps-mean" })),
    "mean difference, 95 % interval"),
  );
}

// The frame of a panel, whose picture and words change with the step. `hover(index)` hears which
// seed the pointer is at, null for none; `press(index)` a press on one.
function createPanel(row, rows, { hover, press }) {
  const panel = { row, at: () => null };
  const indexAt = (event) => panel.at(...pointIn(stage, event));
  const stage = node("div", {
    onpointermove: (event) => hover(indexAt(event)),
    onpointerleave: () => hover(null),
    onclick: (event) => {
      const index = indexAt(event);
      if (index !== null) press(index);
    },
    onmousedown: keepFocus,
  });
  const words = node("p", { class: "sn-ps-words" });
  const shared = listed(sharedWith(row, rows));
  const box = node(
    "section", { class: "sn-ps-panel" },
    node("p", { class: "sn-ps-label" }, node("strong", {}, row.label), node("span", { class: `sn-chip sn-ps-${verdict(row)}-chip` }, verdictMark(row))),
    node("p", { class: "sn-ps-hint" }, `${row.better} is better${shared ? `, the scale is that of ${shared}` : ""}`),
    stage, words,
  );
  return Object.assign(panel, { box, stage, words });
}

function build(model, moves) {
  const comparison = model.get("comparison");
  const { rows, baseline, other, scenario, modelled } = comparison;
  const seeds = rows[0].pairs.map((pair) => pair.seed);
  const panels = rows.map((row) => createPanel(row, rows, {
    hover: (index) => {
      if (index === hovered) return;
      hovered = index;
      moves.redraw();
    },
    press: (index) => moves.go(index + 1),
  }));
  const grid = node("div", { class: "sn-ps-grid-of-panels" }, ...panels.map((panel) => panel.box));
  let hovered = null;
  const draw = (step, width) => {
    const shown = hovered ?? (step ? step - 1 : null);
    const columns = width >= TWO_WIDE && panels.length > 1 ? 2 : 1;
    const room = Math.floor((width - (columns - 1) * APART) / columns);
    grid.style.gridTemplateColumns = `repeat(${columns}, ${room}px)`;
    for (const panel of panels) {
      const { row, stage, words } = panel;
      words.textContent = shown === null
        ? `${capital(differenceWords(row))}${seedsWords(row)}.`
        : `Seed ${seeds[shown]}: ${pairWords(row, row.pairs[shown])}.`;
      const { picture, at } = drawPanel(row, rows, [baseline, other], shown, room, `${row.label}. ${words.textContent}`);
      panel.at = at;
      stage.replaceChildren(picture);
    }
  };
  return {
    count: seeds.length + 1, label: "Seeds", delay: () => 1400,
    name: (step) => (step ? `seed ${seeds[step - 1]}` : "all seeds"),
    draw,
    says: (step) => comparisonWords(comparison, step),
    facts: [factChips([modelled ? "modelled" : "measured", scenario, count(seeds.length, "seed")])],
    below: [grid, legend()],
  };
}

export default steppedPicture({
  name: "paired-seeds", label: "Two policies, seed by seed", build,
  inputs: ["comparison"],
});
