"""The cost of a step of decodes by their number and their contexts: where the knee is.

    python -m benchmarks.batches [--quick] [--threads N] [--clock wall|cpu] [--plot FILE]

The character size. Every batch is filled, and its decodes then run from `context` tokens on; the
batches of one context take turns, step by step, and the median step counts. Memory is the most that
a fresh process has held after filling its batch, less what it held before the engine was made.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from matplotlib.figure import Figure

from benchmarks.loads import character_model
from benchmarks.measure import Table, begin, cpu_name, in_a_process, interleave, peak_mib
from nanogpt.config import EngineConfig
from nanogpt.engine import Engine
from nanogpt.figures.drawing import course_style, curve, label_axes, new_figure, write_plot
from nanogpt.model import GPT
from nanogpt.request import Request

BATCHES = (1, 2, 4, 8, 16, 32, 64, 128)
CONTEXTS = (32, 128, 512)
BUDGET = 4096
"""Tokens per step while a batch is filled."""
STEPS = 12
"""Steps of a batch that count. A context is that of the last of them."""


@dataclass(frozen=True, slots=True)
class Row:
    """One batch: the median step, and the memory that its process took for it."""

    context: int
    batch: int
    step_ms: float
    mib: float

    @property
    def tokens_per_s(self) -> float:
        """Tokens that such steps generate in a second."""
        return self.batch / self.step_ms * 1e3


def filled(model: GPT, batch: int, context: int, steps: int) -> Engine:
    """An engine whose whole batch decodes, `steps` + 1 steps before the first is at `context`.

    The last to be prefilled is behind it by as many tokens as filling took steps.
    """
    vocab_size, filling = model.config.vocab_size, math.ceil(batch * context / BUDGET)
    engine = Engine(model, EngineConfig(BUDGET, max_batch_size=batch, keep_steps=1))
    for i in range(batch):
        prompt = [(i + j) % vocab_size for j in range(context - steps - filling)]
        engine.submit(Request(i, prompt, steps + filling + 1))
    while len(engine.scheduler.active) < batch:
        engine.step()
    return engine


def measure(model: GPT, contexts: Sequence[int], steps: int, clock: str) -> Iterator[Row]:
    """A row per context and batch."""
    for context in contexts:
        engines = {str(batch): filled(model, batch, context, steps) for batch in BATCHES}
        timings = interleave({name: engine.step for name, engine in engines.items()}, steps)
        for name, timing in timings.items():
            mib = in_a_process(memory_of, int(name), context)
            yield Row(context, int(name), timing.median_s(clock) * 1e3, mib)


def memory_of(batch: int, context: int) -> float:
    """In a fresh process: fill a batch; MiB by which the peak grew, the weights not counted."""
    model = character_model()
    before = peak_mib()
    filled(model, batch, context, STEPS)
    return peak_mib() - before


@course_style()
def plot(rows: Sequence[Row], where: str) -> Figure:
    """Step time, throughput and memory by batch, a curve per context."""
    panels = {
        "a step (ms)": lambda row: row.step_ms,
        "throughput (tokens/s)": lambda row: row.tokens_per_s,
        "memory beside the weights (MiB)": lambda row: row.mib,
    }
    figure = new_figure("A step by the size of its batch", len(panels), where)
    for axes, (name, value) in zip(figure.axes, panels.items(), strict=True):
        for context in dict.fromkeys(row.context for row in rows):
            points = [(row.batch, value(row)) for row in rows if row.context == context]
            curve(axes, f"context {context}", points)
        label_axes(axes, "decodes in a step", name, log_x=True)
    return figure


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line."""
    threads = torch.get_num_threads()
    options = begin(__doc__, arguments, quick=False, threads=threads, clock="wall", plot=None)
    print()
    table = Table("context:>7", "batch:>5", "a step, ms:>10.2f", "tokens/s:>9,.0f",
                  "memory, MiB:>11.0f")  # fmt: skip
    rows: list[Row] = []
    contexts, steps = (CONTEXTS[:1], 3) if options.quick else (CONTEXTS, STEPS)
    for row in measure(character_model(), contexts, steps, options.clock):
        table.add(row.context, row.batch, row.step_ms, row.tokens_per_s, row.mib)
        rows.append(row)
    write_plot(options.plot, lambda: plot(rows, cpu_name()))


if __name__ == "__main__":
    main()
