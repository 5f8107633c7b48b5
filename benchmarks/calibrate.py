"""The cost of a step of the shipped model on this machine, as a curve and as a `CostModel`.

    python -m benchmarks.calibrate [--threads N] [--repeats R] [--out FILE]

Times steps of the packed executor: a chunk of 1 to 512 tokens without a past, chunks on top of a
past, and batches of decodes at several contexts. The fit is fixed + per token + per token of
context, least squares of the relative error, so that short steps count as much as long ones.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.measure import begin, cpu_name, interleave, machine
from nanogpt.checkpoints.weights import load_model
from nanogpt.config import EngineConfig
from nanogpt.executors.packed import PackedExecutor
from nanogpt.features import make_cache
from nanogpt.model import GPT
from nanogpt.outputs import Row
from nanogpt.policies import Policies

CHUNKS = (1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512)
PASTS = (64, 128, 256)
BATCHES = (1, 2, 4, 8, 16, 32)


@dataclass(frozen=True, slots=True)
class Step:
    """One shape of step: `num_rows` requests, each with so many new tokens on top of a past."""

    num_rows: int
    num_new: int
    num_past: int

    @property
    def tokens(self) -> int:
        """Tokens that the step computes."""
        return self.num_rows * self.num_new

    @property
    def context(self) -> int:
        """K/V entries that the rows' last tokens attend to, summed over the rows."""
        return self.num_rows * (self.num_past + self.num_new)


def sweep() -> list[Step]:
    """Every shape that is timed; the first ones, without a past, are the curve of lesson 0."""
    chunks = [Step(1, n, 0) for n in CHUNKS]
    later_chunks = [Step(1, n, past) for past in PASTS for n in (8, 32, 128)]
    decodes = [Step(batch, 1, past) for batch in BATCHES for past in PASTS]
    return [*chunks, *later_chunks, *decodes]


def time_steps(model: GPT, steps: Sequence[Step], repeats: int) -> list[float]:
    """Microseconds of CPU time per step, all shapes taking turns.

    The quickest repeat counts: whatever else the machine does can only add to it.
    """
    runs = {str(number): _prepared(model, step) for number, step in enumerate(steps)}
    return [1e6 * min(timing.cpu_s) for timing in interleave(runs, repeats).values()]


def _prepared(model: GPT, step: Step) -> Callable[[], object]:
    """A function that runs the step again and again on the same past."""
    config = EngineConfig(max_batch_size=step.num_rows)
    cache = make_cache(model, config, Policies())
    end = step.num_past + step.num_new
    rows: list[Row] = []
    for i in range(step.num_rows):
        cache.reserve(i)
        cache.allocate([Row(i, [1] * step.num_past, range(step.num_past), 0, False, [])])
        cache.commit(i, step.num_past)
        new, positions = [1] * step.num_new, range(step.num_past, end)
        rows.append(Row(i, new, positions, step.num_past, step.num_new == 1, [1] * end))
    cache.allocate(rows)
    executor = PackedExecutor(model, cache, Policies())
    return lambda: executor.execute(rows)


def fit(steps: Sequence[Step], costs_us: Sequence[float]) -> tuple[float, float, float]:
    """(fixed, per token, per token of context) in microseconds, none below zero.

    A term that comes out negative is left out and the rest is fitted again.
    """
    features = np.array([[1, step.tokens, step.context] for step in steps], dtype=float)
    scaled = features / np.array(costs_us)[:, None]  # relative error: every target becomes 1
    used = [0, 1, 2]
    while True:
        solution = np.linalg.lstsq(scaled[:, used], np.ones(len(steps)), rcond=None)[0]
        if (solution >= 0).all():
            break
        used.pop(int(solution.argmin()))
    found = dict(zip(used, solution, strict=True))
    return float(found.get(0, 0.0)), float(found.get(1, 0.0)), float(found.get(2, 0.0))


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line."""
    own = {"--out": {"type": Path, "help": "where to write the curve as JSON"}}
    options = begin(__doc__, arguments, own, threads=1, repeats=40)
    steps, facts = sweep(), machine()
    costs_us = time_steps(load_model(), steps, options.repeats)
    fixed_us, token_us, context_us = fit(steps, costs_us)
    for step, cost_us in zip(steps, costs_us, strict=True):
        fitted = fixed_us + step.tokens * token_us + step.context * context_us
        print(f"{step.num_rows:3} rows x {step.num_new:3} new, past {step.num_past:3}: "
              f"{cost_us:8.0f} us, fitted {fitted:8.0f}")  # fmt: skip
    print(f"fixed_us={fixed_us:.0f}, floor_us=0.0, token_us={token_us:.1f}, "
          f"context_us={context_us:.3f}, prompt_scale=1")  # fmt: skip
    chunks = [
        (step.tokens, cost_us)
        for step, cost_us in zip(steps, costs_us, strict=True)
        if step.num_rows == 1 and step.num_past == 0
    ]
    if options.out:
        record = {
            "name": cpu_name(),
            "modelled": False,
            "machine": facts,
            "fixed_us": round(fixed_us),
            "token_us": round(token_us, 1),
            "points": [{"tokens": tokens, "us": round(us)} for tokens, us in chunks],
        }
        options.out.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
