// A gate's decision as places and words: pure functions of the decision, which decide nothing.

import { ticks } from "./chart.js";
import { fateWords, scoreWords, signedDuration } from "./signed_words.js";

// The four cases, row by row: what the signs of the two slacks ask for.
export function fourCases(margin) {
  return [
    [
      { waiter: "can make it", reference: "can make it", verdict: "compare", words: `Preempt if the waiter's score is more than ${margin} times the reference's.` },
      { waiter: "can make it", reference: "doomed", verdict: "preempt", words: "Preempt: the reference misses its deadline anyway." },
    ],
    [
      { waiter: "doomed", reference: "can make it", verdict: "keep", words: "Keep: nothing is sacrificed for a request that cannot be saved." },
      { waiter: "doomed", reference: "doomed", verdict: "keep", words: "Keep: no order rescues either of them." },
    ],
  ];
}

export function referenceOf(decision) {
  return decision.runners.find((runner) => runner.id === decision.reference) ?? null;
}

// Whether a cell of the four is the decision's; without a reference none is.
export function isCase(cell, decision) {
  const reference = referenceOf(decision);
  return reference !== null && cell.waiter === fateWords(decision.waiter.slack_us)
    && cell.reference === fateWords(reference.slack_us);
}

// The waiter first, then the runners, the highest score first, each with what it is here.
export function rowsOf(decision) {
  const runners = [...decision.runners].sort((one, other) => other.edf_score - one.edf_score || one.id - other.id);
  return [
    { ...decision.waiter, kind: "waiter", roles: ["waits"] },
    ...runners.map((runner) => ({
      ...runner, kind: runner.immune ? "immune" : "runner",
      roles: [
        runner.immune ? "immune" : null,
        runner.id === decision.reference ? "reference" : null,
        runner.id === decision.victim ? "gives way" : null,
      ].filter(Boolean),
    })),
  ];
}

// The scores from the lowest to the highest that must be seen, with room on both sides of 0.
export function scoreRange(decision) {
  const scores = [...rowsOf(decision).map((row) => row.edf_score), decision.bar ?? 0, 0];
  const [low, high] = [Math.min(...scores), Math.max(...scores)];
  const room = (high - low || 1) * 0.1;
  return { low: low - room, high: high + room };
}

// Round scores within the range, 0 among them.
export function scoreTicks({ low, high }, wanted) {
  const up = ticks(Math.max(high, -low), wanted).slice(1);
  const both = [...up.map((score) => -score).reverse(), 0, ...up];
  return both.filter((score) => score >= low && score <= high);
}

export function roleWords(row) {
  return [scoreWords(row.edf_score), ...row.roles].join(" · ");
}

// The decision's numbers in words, behind the words that came with it.
export function decisionWords(decision) {
  const { waiter, mode, margin, bar, victim } = decision;
  const reference = referenceOf(decision);
  const which = mode === "conservative" ? "most" : "least";
  const facts = [`Request ${waiter.id} waits with slack ${signedDuration(waiter.slack_us)}, score ${scoreWords(waiter.edf_score)}.`];
  if (reference) {
    facts.push(`It is measured by the ${which} urgent runner that is not immune (${mode}), request ${reference.id}: ` +
      `slack ${signedDuration(reference.slack_us)}, score ${scoreWords(reference.edf_score)}; ${margin} times that is ${scoreWords(bar)}.`);
  } else {
    facts.push(decision.runners.length ? "Every runner is immune: there is none to measure it by." : "Nothing runs.");
  }
  facts.push(victim === null ? "Nothing gives way." : `Request ${victim} gives way.`);
  return `${decision.words}\n${facts.join(" ")}`;
}
