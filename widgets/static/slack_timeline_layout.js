// Where the parts of a slack timeline lie, and how to say them: pure functions of the cases.

import { ticks } from "./chart.js";
import { scoreWords, signedDuration } from "./signed_words.js";
import { capital, count, duration, number } from "./words.js";

// One moment of a case, in microseconds after the arrival: the bar of what must be computed, the
// part of the prompt that is done and need not be, the deadline, and the gap that the bar leaves
// (below 0: by how much it overshoots).
export function momentOf(item, step) {
  const moment = item.moments[step];
  const now = moment.now_us - item.arrival_us;
  const deadline = item.deadline_us - item.arrival_us;
  const end = now + moment.predicted_us;
  return { ...moment, now, deadline, end, wholeEnd: now + moment.whole_us, gap: deadline - end };
}

// Round ticks in milliseconds that hold every case at every moment, so that the axis stays.
export function axisTicks(cases, wanted) {
  const ends = cases.flatMap((item) => item.moments.map((_, step) => {
    const moment = momentOf(item, step);
    return Math.max(moment.deadline, moment.wholeEnd);
  }));
  return ticks(Math.max(1, ...ends) / 1000, wanted);
}

// Whether the slack that was handed in is the gap that is drawn, to half a percent of the bar.
export function agrees(moment) {
  return Math.abs(moment.slack_us - moment.gap) <= Math.max(2, moment.predicted_us * 0.005);
}

export function scoreLine(moment) {
  return `slack ${signedDuration(moment.slack_us)}, score ${scoreWords(moment.edf_score)} per ms`;
}

// A case at a moment in words.
export function momentWords(item, step) {
  const moment = momentOf(item, step);
  const left = item.total_tokens - moment.done_tokens;
  const tokens = moment.done_tokens
    ? `${number(left)} of ${count(item.total_tokens, "token")} are left`
    : `${count(item.total_tokens, "token")} to compute`;
  const late = moment.deadline < moment.now ? `, the deadline ${duration(moment.now - moment.deadline)} past` : "";
  const where = moment.gap >= 0
    ? `ends ${duration(moment.gap)} before the deadline`
    : `overshoots the deadline by ${duration(-moment.gap)}`;
  const spare = moment.whole_us > moment.predicted_us
    ? ` For the whole prompt it would be ${duration(moment.whole_us)}.` : "";
  const wrong = agrees(moment) ? "" : ` That is not the gap in the picture, ${signedDuration(moment.gap)}.`;
  return `${capital(item.label)}, ${duration(moment.now)} after the arrival${late}: ${tokens}, predicted ` +
    `${duration(moment.predicted_us)}. The bar ${where}: ${scoreLine(moment)}.${wrong}${spare}`;
}
