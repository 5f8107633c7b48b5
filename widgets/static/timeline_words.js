// What a trace says, step by step and against a reference: pure functions of the trace's JSON.

import { budgetBars, knownBefore, originOf } from "./timeline_layout.js";
import { tokensOf } from "./work.js";
import { capital, clockWords, count, duration, listed, named, number } from "./words.js";

// ---- differences ----------------------------------------------------------------------------

function sameWork(one, other) {
  if (!one || !other) return one === other;
  const fields = ["kind", "start", "end", "sampled", "num_accepted"];
  return fields.every((field) => one[field] === other[field])
    && String(tokensOf(one)) === String(tokensOf(other));
}

// The first step at which two traces did different work, and for which requests; null when none.
export function firstDifference(trace, reference) {
  const length = Math.max(trace.steps.length, reference.steps.length);
  for (let index = 0; index < length; index += 1) {
    const one = trace.steps[index]?.work ?? [];
    const other = reference.steps[index]?.work ?? [];
    const ids = [...new Set([...one, ...other].map((work) => work.request_id))].sort((a, b) => a - b);
    const of = (list, id) => list.find((work) => work.request_id === id);
    const changed = ids.filter((id) => !sameWork(of(one, id), of(other, id)));
    const ends = !trace.steps[index] || !reference.steps[index];
    if (changed.length || ends) return { index, ids: changed };
  }
  return null;
}

// ---- words ----------------------------------------------------------------------------------

// A token as it stands in a cell: short, and visible even for white space.
export function tokenMark(token, alphabet) {
  const character = alphabet[token];
  if (character === undefined) return `#${token}`;
  if (character === "\n") return "\\n";
  return character === " " ? "sp" : character;
}

// Several tokens as they stand in a cell: a character each, white space made visible.
export function tokensMark(tokens, alphabet) {
  if (tokens.length === 1) return tokenMark(tokens[0], alphabet);
  const shown = { " ": "␣", "\n": "↵" };
  return tokens.map((token) => shown[alphabet[token]] ?? tokenMark(token, alphabet)).join("");
}

export function tokenWords(token, alphabet) {
  const character = alphabet[token];
  if (character === undefined) return `token ${token}`;
  if (character === "\n") return "a line break";
  return character === " " ? "a space" : `'${character}'`;
}

function decodeWords(decodes, alphabet) {
  const verb = decodes.length === 1 ? ["decodes", "samples"] : ["decode", "sample"];
  const tokens = decodes.flatMap(tokensOf).map((token) => tokenWords(token, alphabet));
  const ending = tokens.length ? ` and ${verb[1]} ${listed(tokens)}` : "";
  return `${named("request", decodes.map((work) => work.request_id))} ${verb[0]}${ending}`;
}

function prefillWords(work, total, alphabet) {
  const many = work.end - work.start > 1;
  const what = many ? `tokens ${work.start} to ${work.end - 1}` : `token ${work.start}`;
  const sample = work.sampled === null ? "" : ` and samples ${tokenWords(work.sampled, alphabet)}`;
  return `request ${work.request_id} prefills ${what} of ${total}${sample}`;
}

function waitWords(waits) {
  const byReason = new Map();
  for (const wait of waits) {
    const key = `${wait.status === "waiting"} ${wait.reason}`;
    byReason.set(key, [...(byReason.get(key) ?? []), wait]);
  }
  return [...byReason.values()].map((group) => {
    const one = group.length === 1;
    const waiting = group[0].status === "waiting";
    const verb = waiting ? (one ? "waits" : "wait") : one ? "pauses" : "pause";
    return `${named("request", group.map((wait) => wait.request_id))} ${verb}: ${group[0].reason}`;
  });
}

// What the requests in `ids` (all when null) do in a step, as parts of a sentence.
export function deeds(trace, index, alphabet, ids = null) {
  const step = trace.steps[index];
  const wanted = (id) => ids === null || ids.includes(id);
  const work = step.work.filter((each) => wanted(each.request_id));
  const decodes = work.filter((each) => each.kind === "decode");
  const prefills = work.filter((each) => each.kind === "prefill");
  const parts = step.preempted.filter(wanted).map((id) => `request ${id} is preempted`);
  if (decodes.length) parts.push(decodeWords(decodes, alphabet));
  for (const each of prefills) {
    parts.push(prefillWords(each, knownBefore(trace, each.request_id, index), alphabet));
  }
  parts.push(...waitWords(step.waits.filter((each) => wanted(each.request_id))));
  const finished = step.finished.filter(wanted);
  if (finished.length) {
    parts.push(`${named("request", finished)} ${finished.length === 1 ? "is" : "are"} done`);
  }
  return parts;
}

// One step in words, budget and cost included.
export function stepWords(trace, index, alphabet) {
  const step = trace.steps[index];
  const parts = deeds(trace, index, alphabet);
  const { used, budget } = budgetBars(trace)[index];
  const over = used > budget ? `, ${number(used - budget)} over the budget` : "";
  const cost = `${duration(step.end_us - step.start_us)} (${clockWords(trace.clock)})`;
  const what = parts.length ? parts.join("; ") : "nothing runs";
  return `Step ${step.step}: ${what}. ${number(used)} of ${count(budget, "token")}${over}, ${cost}.`;
}

// What differs at the first different step, in one sentence.
export function differenceWords(trace, reference, difference, alphabet, names) {
  const [mineName, theirName] = names;
  if (difference === null) return "Both did the same work in every step.";
  const { index, ids } = difference;
  const mine = trace.steps[index];
  const theirs = reference.steps[index];
  if (!mine) {
    const end = trace.steps.length ? `ends after step ${trace.steps[index - 1].step}` : "has no step";
    return `${capital(mineName)} ${end}; ${theirName} goes on.`;
  }
  if (!theirs) {
    const end = reference.steps.length
      ? `ends after step ${reference.steps[index - 1].step}` : "has no step";
    return `${capital(theirName)} ${end}; ${mineName} goes on.`;
  }
  const say = (side) => {
    const parts = deeds(side, index, alphabet, ids);
    return parts.length ? parts.join("; ") : `${named("request", ids)} not in the step`;
  };
  return `Step ${mine.step} is the first that differs. ${capital(mineName)}: ${say(trace)}. ` +
    `${capital(theirName)}: ${say(reference)}.`;
}

// The whole run in one line, for the drawing's label.
export function traceWords(trace) {
  const last = trace.steps[trace.steps.length - 1];
  const whole = last ? `, ${duration(last.end_us - originOf(trace))} in all` : "";
  return `${count(trace.requests.length, "request")} in ${count(trace.steps.length, "step")}${whole}`;
}
