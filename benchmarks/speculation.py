"""Tokens per second with and without speculation, and why: acceptance and what a round costs.

    python -m benchmarks.speculation [--new-tokens N] [--repeats N] [--threads N]
                                     [--clock wall|cpu]

The shipped model and its trigram draft on eight openings from Shakespeare, alone and all at once,
greedy and at temperature 1, with 1 to 6 drafts per pass. All of a load's variants take turns,
repeat by repeat. What the acceptance rate predicts, if a pass took
as long as a decode, is printed beside what is measured.
"""

import functools
import itertools
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from benchmarks.contenders import run_engine
from benchmarks.loads import OPENINGS, Load
from benchmarks.measure import Table, begin, interleave, median_and_range, option
from nanogpt.checkpoints.tokenizer import encode
from nanogpt.checkpoints.weights import load_model
from nanogpt.clock import Clock, ClockRecord, WallClock
from nanogpt.config import EngineConfig
from nanogpt.engine import Engine
from nanogpt.model import GPT
from nanogpt.policies.acceptance import speedup
from nanogpt.request import Request
from nanogpt.sampling import SamplingParams
from nanogpt.speculative.drafting import Draft, propose
from nanogpt.speculative.trigram import TrigramDraft
from nanogpt.trace import ForwardRecord, StepRecord, Trace

DRAFTS = (0, 1, 2, 3, 4, 5, 6)
ROUNDS_OF_DRAFTS = 16
"""How often every opening is drafted from in a turn, so that a turn is long enough to time."""


class CpuClock:
    """CPU time of this process, which others on a busy machine lengthen less than the wall's."""

    record = ClockRecord("CPU time of this machine", False)

    def now_us(self) -> int:
        """Microseconds over all threads of the process."""
        return time.process_time_ns() // 1000

    def charge(self, forwards: Sequence[ForwardRecord]) -> None:
        """Nothing to do: the time has passed already."""


CLOCKS: dict[str, Callable[[], Clock]] = {"wall": WallClock, "cpu": CpuClock}


@dataclass(frozen=True, slots=True)
class Row:
    """One number of drafts under one load. Times are those of a decode without speculation: 1.

    `p` is the share of the drafts looked at that were accepted, `alpha` what a drafted token takes,
    `verifying` what a verifying pass takes, with all that the engine does around it.
    """

    num_drafts: int
    tokens_per_s: list[float]
    measured: float
    p: float | None
    tokens_per_pass: float
    alpha: float | None
    verifying: float
    same_text: bool | None

    @property
    def predicted(self) -> float | None:
        """The textbook's speed-up, where a verifying pass takes as long as a decode."""
        if self.p is None or self.alpha is None:
            return None
        return speedup(self.p, self.num_drafts, self.alpha)


def load_of(batch: int, new_tokens: int) -> Load:
    """The first `batch` openings, with room in a step for all drafts and prompts."""
    prompts = tuple(tuple(encode(text)) for text in OPENINGS[:batch])
    return Load(f"openings-{batch}", prompts, new_tokens, token_budget=256)


def compare(
    model: GPT, draft: Draft, load: Load, temperature: float, repeats: int, clock: str = "wall"
) -> list[Row]:
    """A row per number of drafts, from turns taken by all of them."""
    traces: dict[int, list[Trace]] = {k: [] for k in DRAFTS}

    def serve(engine: Engine, k: int) -> None:
        traces[k].append(run_engine(engine, load))

    turns: dict[str, Callable[[], object]] = {}
    for k in DRAFTS:
        config = EngineConfig(
            load.token_budget,
            max_batch_size=load.num_requests,
            temperature=temperature,
            num_draft_tokens=k,
        )
        engine = Engine(model, config, clock=CLOCKS[clock](), draft=draft)
        turns[f"serve {k}"] = functools.partial(serve, engine, k)
        if k:
            turns[f"draft {k}"] = functools.partial(
                draft_often, draft, load, k, temperature, model.config.vocab_size
            )
    timings = interleave(turns, repeats)
    decode_us = median_us(full_steps(traces[0][1:], load.num_requests, 0))
    plain_s = timings["serve 0"].median_s(clock)
    rows: list[Row] = []
    for k in DRAFTS:
        serve_s = timings[f"serve {k}"].seconds(clock)
        steps = full_steps(traces[k][1:], load.num_requests, k)
        draft_us = 0.0
        if k:
            draft_us = 1e6 * timings[f"draft {k}"].median_s(clock) / ROUNDS_OF_DRAFTS
        accepted, judged = accepted_of_judged(steps)
        rows.append(
            Row(
                k,
                [load.num_generated / seconds for seconds in serve_s],
                plain_s / statistics.median(serve_s),
                accepted / judged if judged else None,
                statistics.fmean(len(work.tokens) for step in steps for work in step.work),
                draft_us / k / decode_us if k else None,
                (median_us(steps) - draft_us) / decode_us,
                texts(traces[k][0]) == texts(traces[0][0]) if temperature == 0 else None,
            )
        )
    return rows


def draft_often(
    draft: Draft, load: Load, num_drafts: int, temperature: float, vocab_size: int
) -> None:
    """The time of the drafts of `ROUNDS_OF_DRAFTS` steps, and of nothing else."""
    requests = [Request(i, list(prompt), 1) for i, prompt in enumerate(load.prompts)]
    for seed in range(ROUNDS_OF_DRAFTS):
        for request in requests:
            params = SamplingParams(temperature, seed, request.id)
            propose(draft, request, num_drafts, params, vocab_size)


def full_steps(traces: Sequence[Trace], batch: int, num_drafts: int) -> list[StepRecord]:
    """The steps in which all decode, with all the drafts that were asked for."""
    return [
        step
        for trace in traces
        for step in trace.steps
        if len(step.work) == batch
        and all(w.kind == "decode" and len(w.drafted) == num_drafts for w in step.work)
    ]


def accepted_of_judged(steps: Sequence[StepRecord]) -> tuple[int, int]:
    """How many drafts were accepted, and how many were looked at: none behind a rejected one."""
    works = [work for step in steps for work in step.work]
    judged = sum(min(work.num_accepted + 1, len(work.drafted)) for work in works)
    return sum(work.num_accepted for work in works), judged


def median_us(steps: Sequence[StepRecord]) -> float:
    """How long a step takes."""
    return statistics.median(step.end_us - step.start_us for step in steps)


def texts(trace: Trace) -> list[tuple[int, ...]]:
    """The arguments of all runs."""
    return [trace.generated_tokens(record.id) for record in trace.requests]


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line."""
    own = {"--new-tokens": option(128, "tokens per request")}
    options = begin(__doc__, arguments, own, repeats=5, threads=1, clock="wall")
    model, draft = load_model(), TrigramDraft.load()
    print(f"{options.new_tokens} tokens per request, {options.clock} time; median of "
          f"{options.repeats} interleaved repeats")  # fmt: skip
    print("times in decodes without speculation: alpha a drafted token, pass a verifying pass\n")
    table = Table("temp:>4g", "batch:>5", "K:>2", "tokens/s:>22", "measured:>8.2f",
                  "predicted:>9.2f", "p:>5.2f", "tokens/pass:>11.2f", "alpha:>6.3f", "pass:>9.2f",
                  "same text:>9")  # fmt: skip
    for temperature, batch in itertools.product((0.0, 1.0), (1, len(OPENINGS))):
        load = load_of(batch, options.new_tokens)
        for row in compare(model, draft, load, temperature, options.repeats, options.clock):
            per_s = median_and_range(row.tokens_per_s, 0)
            same = {None: "", True: "yes", False: "NO"}[row.same_text]
            table.add(temperature, batch, row.num_drafts, per_s, row.measured, row.predicted,
                      row.p, row.tokens_per_pass, row.alpha, row.verifying, same)  # fmt: skip


if __name__ == "__main__":
    main()
