// What a committed prediction is told: pure functions.

import { number } from "./words.js";

// The number that was typed, or null when it is none.
export function parsedNumber(typed) {
  const plain = typed.replace(/[\s,]/g, "");
  if (!/^[+-]?(\d+\.?\d*|\.\d+)$/.test(plain)) return null;
  return Number(plain);
}

// "right", "wrong", "shown" without a choice, or "open" when there is nothing to match.
export function verdictOf(choice, answer) {
  if (choice === null) return "shown";
  if (answer === null || answer === undefined) return "open";
  return choice === answer ? "right" : "wrong";
}

function shownWords(answer, options) {
  if (answer === null || answer === undefined) return "Shown without a prediction.";
  return `The answer: ${options.length ? options[answer] : number(answer)}`;
}

export function verdictWords(choice, answer, options) {
  const verdict = verdictOf(choice, answer);
  if (verdict === "shown") return shownWords(answer, options);
  if (verdict === "open") return "Your prediction is noted.";
  if (verdict === "right") return "You predicted it.";
  if (options.length) return `Not this time. The answer: ${options[answer]}`;
  return `You said ${number(choice)}; it is ${number(answer)}.`;
}
