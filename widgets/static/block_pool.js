// Steps through a run's pool of blocks: tables, shared blocks and cached blocks.

import { drawBlocks } from "./block_pool_picture.js";
import { legendOf } from "./chart.js";
import { node } from "./dom.js";
import { toggleButton } from "./player.js";
import { firstPoolDifference, poolStates } from "./pool_states.js";
import { poolStepOpening, poolStepWords, poolTotalsWords } from "./pool_words.js";
import { steppedPicture } from "./stepped.js";
import { aloneNote, differenceButton, sideWords, stopNote } from "./whose.js";
import { listed } from "./words.js";

function sideOf(trace, alphabet, name) {
  return { trace: { ...trace, alphabet }, name, ...poolStates(trace) };
}

// One step of one run as it is heard: whose, what it did, and the books after it.
function sideSaid(side, index) {
  const { states } = side;
  return sideWords(side, index, () =>
    `Step ${states[index].step.step}: ${poolStepWords(states, index)} ${poolTotalsWords(states[index])}`);
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

function legend(hasHost) {
  return legendOf(
    "×2: two tables name the block", "underlined: found, not computed", "#: the hash of a full block",
    "dashed: free but cached; 1 is evicted first", "thick outline: changed in this step",
    hasHost ? "host tier: the colour of the request that computed it; thick: copied in this step" : null,
  );
}

function build({ trace, other, alphabet, names }, moves) {
  const sides = [trace, other].filter(Boolean).map((each, at) => sideOf(each, alphabet, other ? names[at] : ""));
  const difference = other ? firstPoolDifference(trace, other) : null;
  const stage = node("div", { class: "sn-bp-stage" });
  const queue = node("p", { class: "sn-bp-queue" });
  const chip = node("span", { class: "sn-chip sn-chip-strong" });
  const length = Math.max(...sides.map(({ states }) => states.length));
  let shown = 0;
  const turn = other ? toggleButton(`Draw ${sides[1].name}`, (pressed) => {
    shown = Number(pressed);
    moves.redraw();
  }) : null;
  return {
    count: length, label: "Steps of the pool", name: (step) => `step ${step} of ${length - 1}`, delay: () => 1600, lines: 3,
    extras: other ? [turn, differenceButton(difference, moves)] : [],
    draw: (step, width) => {
      const { states, trace: drawn, name } = sides[shown];
      const index = Math.min(step, states.length - 1);
      chip.textContent = name ? `drawn: ${name}` : `blocks of ${drawn.steps[0].blocks.block_size}`;
      queue.textContent = queueWords(states[index]);
      stage.replaceChildren(drawBlocks(drawn, states, index, width));
    },
    says: (step) => sides.map((side) => sideSaid(side, step)).join("\n"),
    facts: [chip],
    below: [
      other ? differenceNote(difference, sides) : aloneNote(names),
      ...sides.filter((side) => side.trace.error).map(stopNote), stage, queue, legend(Boolean(trace.steps[0].host)),
    ],
    opening: difference ?? poolStepOpening(sides[0].states),
  };
}

export default steppedPicture({
  name: "block-pool", label: "The pool of blocks", build,
  inputs: ["trace", "other", "alphabet", "names"],
});
