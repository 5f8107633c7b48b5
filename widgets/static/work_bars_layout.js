// Bars and running totals of work per step: pure functions of the series.

import { count, number } from "./words.js";

export function numSteps(series) {
  return Math.max(...series.map((each) => each.tokens.length));
}

export function mostTokens(series) {
  return Math.max(1, ...series.flatMap((each) => each.tokens));
}

// Tokens of all steps up to and including `step`.
export function totalAt(tokens, step) {
  return tokens.slice(0, step + 1).reduce((sum, each) => sum + each, 0);
}

// The x, width, y and height of every bar in a panel of the given size.
export function barsOf(tokens, steps, top, width, height) {
  const column = width / steps;
  const gap = column > 8 ? 2 : column > 3 ? 1 : 0;
  return tokens.map((each, index) => {
    const tall = each > 0 ? Math.max(1.5, (each / top) * height) : 0;
    return { x: index * column + gap / 2, width: column - gap, y: height - tall, height: tall };
  });
}

// A step and the totals so far, in words; with two series, how many times the work of the second.
export function stepWords(series, step) {
  const now = series.map((each) => `${each.name} ${count(each.tokens[step] ?? 0, "token")}`);
  const totals = series.map((each) => totalAt(each.tokens, step));
  const far = series.map((each, at) => `${each.name} ${number(totals[at])}`);
  const ratio = series.length === 2 && totals[1] > 0 && totals[0] !== totals[1]
    ? ` That is ${number((totals[0] / totals[1]).toFixed(1))} times the work.` : "";
  return `New token ${step + 1}: ${now.join(", ")} through the model. Together so far: ${far.join(", ")}.${ratio}`;
}
