// What a step costs and how to say it: pure functions of a series.

import { count, duration, number } from "./words.js";

// The parts of the line at `tokens`: { fixed, work, total } in microseconds, and whether the floor
// (the time to read the weights once) is what is paid for.
export function costAt(series, tokens) {
  const arithmetic = tokens * series.token_us;
  const atFloor = arithmetic < series.floor_us;
  const work = Math.max(series.floor_us, arithmetic);
  return { fixed: series.fixed_us, work, total: series.fixed_us + work, atFloor };
}

export function tokensPerMs(series, tokens) {
  const { total } = costAt(series, tokens);
  return total > 0 ? (tokens * 1000) / total : 0;
}

// The most microseconds that the chart must show.
export function topUs(series, maxTokens) {
  return Math.max(1, costAt(series, maxTokens).total, ...series.points.map((point) => point.us));
}

// The corners of the line from 1 token to the axis' end: a bend where the floor stops to matter.
export function corners(series, maxTokens) {
  const bend = series.token_us > 0 ? series.floor_us / series.token_us : 0;
  const tokens = [1, ...(bend > 1 && bend < maxTokens ? [bend] : []), maxTokens];
  return tokens.map((each) => ({ tokens: each, us: costAt(series, each).total }));
}

export function seriesWords(series) {
  return `${series.modelled ? "modelled" : "measured"}: ${series.name}`;
}

// The cost of one step in words.
export function costWords(series, tokens) {
  const { fixed, work, total, atFloor } = costAt(series, tokens);
  const rate = tokensPerMs(series, tokens);
  const share = total > 0 ? Math.round((fixed / total) * 100) : 0;
  const why = atFloor
    ? `${duration(work)} to read the weights, which would do for ${count(Math.floor(series.floor_us / (series.token_us || Infinity)), "token")}`
    : `${duration(work)} for the tokens (${duration(series.token_us)} each)`;
  return `A step of ${count(tokens, "token")} costs ${duration(total)} (${seriesWords(series)}): ` +
    `${duration(fixed)} fixed, ${share} percent of it, and ${why}. ` +
    `That is ${number(rate.toFixed(rate < 10 ? 2 : 1))} tokens per ms.`;
}
