// The live page's layout: from what the server says to rows, bars, curves and words. Pure.

export const NEWEST = 120;
export const RATE_S = 60;
export const KINDS = ["prefill", "decode", "again"];

/** The frames known, with new ones behind them: at most `most`, none twice. Where steps between
 *  them were missed, those known are let go: what stands side by side followed each other. */
export function joined(frames, fresh, most = NEWEST) {
  const last = frames.length ? frames[frames.length - 1].step : -1;
  const more = fresh.filter((each) => each.step > last);
  const missed = more.length && more[0].step > last + 1;
  return [...(missed ? [] : frames), ...more].slice(-most);
}

/** What is in flight, one row each: {id, status, label, cells: [{column, kind, tokens}], from}.
 *
 * The last `columns` steps stand in columns 0 to columns - 1, the newest in the last. `from` is the
 * first column in which the request did anything, null for one that only waits. */
export function rows(requests, frames, columns, most) {
  const shown = frames.slice(-columns);
  const first = columns - shown.length;
  const chosen = requests.slice(0, most).map((each) => ({ id: each.id, status: each.status, label: label(each), cells: [], from: null }));
  const byId = new Map(chosen.map((each) => [each.id, each]));
  shown.forEach((frame, index) => {
    for (const [id, kind, tokens] of frame.work) {
      const row = byId.get(id);
      if (!row) continue;
      row.from ??= first + index;
      row.cells.push({ column: first + index, kind: KINDS[kind], tokens });
    }
  });
  return chosen;
}

/** A request in a few signs: its number and how far it is. */
export function label(request) {
  if (request.status === "waiting") return `#${request.id} waits`;
  if (request.status === "prefilling") return `#${request.id} ${request.known}/${request.prompt + request.generated}`;
  return `#${request.id} ${request.generated}/${request.wanted}`;
}

/** A histogram less what was counted before; counts never go below 0. */
export function since(now, before) {
  const whole = !before || now.counts.some((count, i) => count < before.counts[i]);
  return { bounds: now.bounds, counts: whole ? now.counts : now.counts.map((count, i) => count - before.counts[i]) };
}

/** Where the share of all observations lies: the upper bound of its bucket, Infinity beyond the last, null of none. */
export function atMost(histogram, share) {
  const all = histogram.counts.reduce((sum, count) => sum + count, 0);
  if (!all) return null;
  let seen = 0;
  for (const [i, count] of histogram.counts.entries()) {
    seen += count;
    if (seen >= share * all) return i < histogram.bounds.length ? histogram.bounds[i] : Infinity;
  }
  return Infinity;
}

/** The buckets from the first to the last that is not empty, one more on each side:
 *  {label, count, share of the highest}. */
export function bars(histogram) {
  const { bounds, counts } = histogram;
  const full = counts.map((count, i) => (count ? i : -1)).filter((i) => i >= 0);
  if (!full.length) return [];
  const from = Math.max(0, full[0] - 1);
  const to = Math.min(counts.length - 1, full[full.length - 1] + 1);
  const highest = Math.max(...counts);
  return counts.slice(from, to + 1).map((count, i) => ({
    label: from + i < bounds.length ? `≤ ${seconds(bounds[from + i])}` : `> ${seconds(bounds[bounds.length - 1])}`,
    count,
    share: count / highest,
  }));
}

/** Seconds as people say them. */
export function seconds(value) {
  if (value === Infinity) return "more than 2 min";
  if (value < 1) return `${Number((value * 1000).toPrecision(3))} ms`;
  return value < 60 ? `${value} s` : `${value / 60} min`;
}

/** Samples {at_s, tokens}, the newest last, as tokens per second between each two that follow. */
export function rates(samples) {
  return samples.slice(1).map((each, i) => {
    const seconds = each.at_s - samples[i].at_s;
    return { at_s: each.at_s, rate: seconds > 0 ? Math.max(0, each.tokens - samples[i].tokens) / seconds : 0 };
  });
}

/** The samples with a new one, no older than RATE_S; from anew when the counter has begun again. */
export function sampled(samples, state) {
  const last = samples[samples.length - 1];
  const kept = last && (state.tokens < last.tokens || state.at_s < last.at_s) ? [] : samples;
  return [...kept, { at_s: state.at_s, tokens: state.tokens }].filter((each) => each.at_s > state.at_s - RATE_S);
}

/** Points (x, y) of values over their places in a box: the largest of `top` or the values on top. */
export function curve(places, values, box, top = 0) {
  const [low, high] = [places[0], places[places.length - 1]];
  const highest = Math.max(top, ...values, 1e-9);
  return places.map((place, i) => [
    box.x + (high > low ? ((place - low) / (high - low)) * box.width : box.width),
    box.y + box.height * (1 - values[i] / highest),
  ]);
}

/** Points as an SVG path; closed at the bottom of the box if it is one of an area. */
export function path(points, bottom = null) {
  if (!points.length) return "";
  const line = points.map(([x, y], i) => `${i ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join("");
  if (bottom === null) return line;
  return `${line}L${points[points.length - 1][0].toFixed(1)} ${bottom}L${points[0][0].toFixed(1)} ${bottom}Z`;
}

/** How things are, in a sentence. */
export function words(state, rate) {
  const percent = Math.round(100 * state.kv_usage);
  const preempted = state.preemptions ? `, ${count(state.preemptions, "preemption")} so far` : "";
  return `${state.running} running, ${state.waiting} waiting, ${Math.round(rate)} tokens/s, KV ${percent} % full${preempted}`;
}

/** The newest step in words: which requests computed how many tokens. */
export function stepWords(frames) {
  if (!frames.length) return "";
  const { step, work, preempted } = frames[frames.length - 1];
  const verbs = { prefill: "prefills", decode: "decodes", again: "computes again" };
  const each = work.map(([id, kind, tokens]) => `#${id} ${verbs[KINDS[kind]]} ${count(tokens, "token")}`);
  const gone = preempted.map((id) => `#${id} is preempted`);
  return `Step ${step}: ${[...gone, ...each].join(", ")}.`;
}

/** The waiting requests that are listed, the first to start first, each with its key. */
export function queueWords(requests, most = 7) {
  const waiting = requests.filter(({ status }) => status === "waiting");
  if (!waiting.length) return "No request waits.";
  const shown = waiting.slice(0, most).map(({ id, key }) => `#${id} (key ${key.join(", ")})`);
  const more = waiting.length - shown.length;
  return `Waiting, the first to start first: ${shown.join(", ")}${more ? ` and ${more} more` : ""}.`;
}

/** "1 step", "2 steps". */
export function count(number, what) {
  return `${number} ${what}${number === 1 ? "" : "s"}`;
}
