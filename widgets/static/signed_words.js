// Times and scores of either sign as words and marks, the same in every picture of slack.

import { duration, number } from "./words.js";

// Microseconds with their sign: 32000 -> "+32.0 ms", -850 -> "−0.85 ms", 0 -> "0 ms"
export function signedDuration(us) {
  if (us === 0) return "0 ms";
  return `${us > 0 ? "+" : "−"}${duration(Math.abs(us))}`;
}

// A score per millisecond, three digits that count: 0.0123456 -> "0.0123", -0.5 -> "−0.5"
export function scoreWords(score) {
  const size = Math.abs(score);
  const digits = size === 0 || size >= 1e-6 ? String(Number(size.toPrecision(3))) : size.toExponential(1);
  return `${score < 0 ? "−" : ""}${digits.includes("e") ? digits : number(digits)}`;
}

// What the sign of a slack says; a slack of 0 still makes it.
export function fateWords(slackUs) {
  return slackUs >= 0 ? "can make it" : "doomed";
}
