// Steps through a run's pool of blocks: tables, shared blocks and cached blocks.

import { drawBlocks } from "./block_pool_picture.js";
import { mount, node, titleRow } from "./dom.js";
import { createPlayer, textButton } from "./player.js";
import { firstPoolDifference, poolStates } from "./pool_states.js";
import { poolStepOpening, poolStepWords, poolTotalsWords } from "./pool_words.js";
import { aloneNote } from "./whose.js";
import { capital, listed } from "./words.js";

function sideOf(trace, alphabet, name) {
  return { trace: { ...trace, alphabet }, name, ...poolStates(trace) };
}

// One step of one run as it is heard: whose, what it did, and the books after it.
function sideSaid({ trace, states, name }, index) {
  const who = name ? `${capital(name)}, step` : "Step";
  if (index >= states.length) return `${capital(name || "the run")} ${trace.error ? "has stopped" : "is already done"}.`;
  const stop = trace.error && index === states.length - 1 ? ` Here it stopped: ${trace.error}` : "";
  return `${who} ${states[index].step.step}: ${poolStepWords(states, index)} ${poolTotalsWords(states[index])}${stop}`;
}

function stopNote({ trace, name }) {
  const last = trace.steps[trace.steps.length - 1];
  const who = capital(name || "the run");
  return node("p", { class: "sn-note sn-note-bad" }, node("strong", {}, `${who} stopped after step ${last.step}: `), trace.error);
}

function queueWords(state) {
  const { idle } = state.step.blocks;
  return idle.length ? `Cached blocks, in the order of eviction: ${listed(idle)}.` : "No free block is cached.";
}

function differenceNote(difference, [mine, theirs]) {
  const words = difference === null ? `Both pools did the same in every step.`
    : `Step ${mine.trace.steps[difference]?.step ?? theirs.trace.steps[difference].step} is the first in which the pools differ.`;
  return node("p", { class: `sn-note${difference === null ? " sn-note-good" : ""}` }, words);
}

function legend() {
  return node(
    "ul", { class: "sn-legend" },
    node("li", {}, "×2: two tables name the block"),
    node("li", {}, "underlined: found, not computed"),
    node("li", {}, "#: the hash of a full block"),
    node("li", {}, "dashed: free but cached; 1 is evicted first"),
    node("li", {}, "thick outline: changed in this step"),
  );
}

function build(root, model) {
  const [trace, other, names] = [model.get("trace"), model.get("other"), model.get("names")];
  const sides = [trace, other].filter(Boolean).map((each, at) => sideOf(each, model.get("alphabet"), other ? names[at] : ""));
  const difference = other ? firstPoolDifference(trace, other) : null;
  const stage = node("div", { class: "sn-bp-stage" });
  const queue = node("p", { class: "sn-bp-queue" });
  const chip = node("span", { class: "sn-chip sn-chip-strong" });
  let [width, shown] = [0, 0];
  const draw = (step) => {
    const { states, trace: drawn, name } = sides[shown];
    const index = Math.min(step, states.length - 1);
    chip.textContent = name ? `drawn: ${name}` : `blocks of ${drawn.steps[0].blocks.block_size}`;
    queue.textContent = queueWords(states[index]);
    if (width) stage.replaceChildren(drawBlocks(drawn, states, index, width));
  };
  const extras = [];
  if (other) {
    const turn = textButton(`Draw ${sides[1].name}`, () => {
      shown = 1 - shown;
      turn.setAttribute("aria-pressed", String(shown === 1));
      draw(player.step());
    }, "false");
    const jump = textButton("Jump to first difference", () => difference !== null && player.go(difference));
    if (difference === null) jump.setAttribute("aria-disabled", "true");
    extras.push(turn, jump);
  }
  const length = Math.max(...sides.map(({ states }) => states.length));
  const player = createPlayer({
    root, count: length, label: "Steps of the pool", extras,
    name: (step) => `step ${step} of ${length - 1}`,
    delay: () => 1600,
    onStep: (step) => {
      draw(step);
      return sides.map((side) => sideSaid(side, step)).join("\n");
    },
  });
  root.append(...[
    titleRow(model, chip),
    player.toolbar, player.keys, player.live,
    other ? differenceNote(difference, sides) : aloneNote(names),
    ...sides.filter((side) => side.trace.error).map(stopNote),
    stage, queue, legend(),
  ].filter(Boolean));
  player.live.classList.add("sn-bp-live");
  player.open(model, difference ?? poolStepOpening(sides[0].states));
  return player.sized((room) => {
    width = room;
    draw(player.step());
  });
}

export default {
  render: ({ model, el }) => mount({
    model, el, name: "block-pool", label: "The pool of blocks",
    inputs: ["trace", "other", "alphabet", "title", "names"],
    build: (root) => build(root, model),
  }),
};
