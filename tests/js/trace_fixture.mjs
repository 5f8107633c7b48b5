// A small trace by hand: three requests, a budget of 8, four steps, and one that differs.

const request = (id, length, arrivalStep, arrivalUs) => ({
  id, prompt_tokens: Array.from({ length }, (_, at) => at), max_new_tokens: 3, priority: 0,
  arrival_step: arrivalStep, arrival_us: arrivalUs,
});
const prefill = (id, start, end, sampled = null) =>
  ({ request_id: id, kind: "prefill", start, end, sampled });
const decode = (id, at, sampled) =>
  ({ request_id: id, kind: "decode", start: at, end: at + 1, sampled });
const wait = (id, reason, status = "waiting") => ({ request_id: id, status, reason });
const step = (index, startUs, endUs, work, more = {}) => ({
  step: index, start_us: startUs, end_us: endUs, token_budget: 8, work, waits: [], admitted: [],
  preempted: [], finished: [], forwards: [], kv_before: 0, kv_after: 0, kv: [], ...more,
});

export const alphabet = ["\n", " ", "a", "b", "c"];

// 0: four tokens, then decodes; 1: ten tokens in two chunks; 2: arrives at step 1 and waits.
export function smallTrace() {
  return {
    version: 1, clock: { name: "a large GPU", modelled: true }, executor: "packed",
    token_budget: 8, max_kv_tokens: null, error: null,
    requests: [request(0, 4, 0, 1000), request(1, 10, 0, 1000), request(2, 2, 1, 3000)],
    steps: [
      step(0, 1000, 3000, [prefill(0, 0, 4, 2), prefill(1, 0, 4)]),
      step(1, 3000, 9100, [decode(0, 4, 3), prefill(1, 4, 10, 1)],
        { waits: [wait(2, "the token budget is spent")] }),
      step(2, 9100, 10100, [decode(0, 5, 0), decode(1, 10, 4), prefill(2, 0, 1)],
        { finished: [0] }),
      step(3, 10100, 11100, [decode(1, 11, 2), prefill(2, 1, 2, 3)], { finished: [1, 2] }),
    ],
  };
}

export { decode, prefill, step, wait };
