// A gate's decision as places and words: pure functions of the decision, which decide nothing.

import { ticks } from "./chart.js";
import { fateWords, scoreWords, signedDuration } from "./signed_words.js";

// The four cases, row by row: what the signs of the two slacks ask for.
export function fourCases(margin) {
  return [
    [
      { candidate: "can make it", incumbent: "can make it", verdict: "compare", words: `Preempt if the candidate's score is more than ${margin} times the incumbent's.` },
      { candidate: "can make it", incumbent: "doomed", verdict: "preempt", words: "Preempt: the incumbent misses its deadline anyway." },
    ],
    [
      { candidate: "doomed", incumbent: "can make it", verdict: "keep", words: "Keep: nothing is sacrificed for a request that cannot be saved." },
      { candidate: "doomed", incumbent: "doomed", verdict: "keep", words: "Keep: no order rescues either of them." },
    ],
  ];
}

export function incumbentOf(decision) {
  return decision.running.find((each) => each.id === decision.incumbent) ?? null;
}

// Whether a cell of the four is the decision's; without an incumbent none is.
export function isCase(cell, decision) {
  const incumbent = incumbentOf(decision);
  return incumbent !== null && cell.candidate === fateWords(decision.candidate.slack_us)
    && cell.incumbent === fateWords(incumbent.slack_us);
}

// The candidate first, then what runs, the highest score first, each with what it is here.
export function rowsOf(decision) {
  const running = [...decision.running].sort((one, other) => other.edf_score - one.edf_score || one.id - other.id);
  return [
    { ...decision.candidate, kind: "candidate", roles: ["candidate"] },
    ...running.map((each) => ({
      ...each, kind: each.immune ? "immune" : "running",
      roles: [
        each.immune ? "immune" : null,
        each.id === decision.incumbent ? "incumbent" : null,
        each.id === decision.victim ? "victim" : null,
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
  const { candidate, margin, bar, victim } = decision;
  const incumbent = incumbentOf(decision);
  const facts = [`Request ${candidate.id} waits with slack ${signedDuration(candidate.slack_us)}, score ${scoreWords(candidate.edf_score)}.`];
  if (incumbent) {
    facts.push(`The incumbent is the most urgent running request that is not immune, request ${incumbent.id}: ` +
      `slack ${signedDuration(incumbent.slack_us)}, score ${scoreWords(incumbent.edf_score)}; ${margin} times that is ${scoreWords(bar)}.`);
  } else {
    facts.push(decision.running.length ? "Every running request is immune: there is no incumbent." : "Nothing runs.");
  }
  facts.push(victim === null ? "No request is preempted." : `Request ${victim} is preempted.`);
  return `${decision.words}\n${facts.join(" ")}`;
}
