"""Behind lesson 11's exhibits: graphs that are replayed, and a clock beside an asynchronous GPU."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import torch

from course.calling.jobs import RunError, run
from course.calling.policies import Policy
from course.lesson_data.texts import shown, table
from nanogpt import GPT, Engine, EngineConfig, Policies, Request, decode, encode, generate
from nanogpt.executors.packed import PackedExecutor
from nanogpt.kv_store import KVStore
from nanogpt.outputs import ModelOutput, Row

Rule = Callable[..., Any]
CAPTURED = [1, 2, 4]
LINES = (
    ("ROMEO:\nWhat say", 24), ("JULIET:\nO, my l", 32), ("KING RICHARD:\nN", 16),
    ("First Citizen:\n", 40), ("Shall I be plai", 12), ("The king is not", 28),
)  # fmt: skip


# --- A: replayed graphs -------------------------------------------------------------------------


class ReplayExecutor(PackedExecutor):
    """Steps of decodes as graphs of fixed sizes: only so many rows reach the buffer of logits.

    On a GPU the graph computes the rows that it was captured with. Mutable: the buffer, which
    keeps what the last replay left, and the steps so far as (rows, size of the graph).
    """

    name = "replayed"

    def __init__(self, model: GPT, cache: KVStore, policies: Policies, rule: Rule) -> None:
        super().__init__(model, cache, policies)
        self.rule = rule
        self.buffer = torch.zeros(64, model.config.vocab_size, dtype=model.ln_f.weight.dtype)
        self.steps = list[tuple[int, int | None]]()

    def forward(self, rows: Sequence[Row]) -> ModelOutput:
        """Shapes: -> logits (R, V)."""
        output = super().forward(rows)
        if not all(row.is_decode for row in rows):  # prefills run eagerly here
            return output
        size = self.rule(len(rows), list(CAPTURED))
        if size is not None and (type(size) is not int or size not in CAPTURED):
            raise ValueError(f"there is no captured graph of size {size!r}")
        self.steps.append((len(rows), size))
        if size is None:
            return output
        self.buffer[:size][: len(rows)] = output.logits[:size]
        return ModelOutput(self.buffer[: len(rows)].clone(), output.forwards)


def replayed(model: GPT, rule: Rule) -> tuple[list[list[int]], list[tuple[int, int | None]]]:
    """Six requests in a batch of up to six: their tokens, and the steps of decodes."""
    made = list[ReplayExecutor]()

    def make(model: GPT, cache: KVStore, policies: Policies) -> ReplayExecutor:
        made.append(ReplayExecutor(model, cache, policies, rule))
        return made[0]

    config = EngineConfig(token_budget=128, max_batch_size=len(LINES))
    requests = [(0, Request(i, encode(text), n)) for i, (text, n) in enumerate(LINES)]
    trace = Engine(model, config, make_executor=make).run(requests)
    return [list(trace.generated_tokens(i)) for i in range(len(LINES))], made[0].steps


def smallest_that_fits(num_tokens: int, captured: Sequence[int]) -> int | None:
    """The captured size to pad a step to; None for an eager step."""
    return min((size for size in captured if size >= num_tokens), default=None)


def replay_table(model: GPT, rule: Rule) -> tuple[str, bool]:
    """(how the engine's steps ran, whether the texts are the oracle's); Markdown."""
    try:
        texts, steps = run(replayed, model, Policy(rule))
    except RunError as error:
        return f"**The engine stopped:** {error}", False
    rows = [
        f"| {batch} | {'eager | none' if size is None else f'{size} | {size - batch}'} | {count} |"
        for (batch, size), count in Counter(steps).items()
    ]
    oracle = [generate(model, encode(text), n) for text, n in LINES]
    wrong = [i for i, pair in enumerate(zip(texts, oracle, strict=True)) if pair[0] != pair[1]]
    verdict = "All six texts equal those of the oracle."
    if wrong:
        first = wrong[0]
        verdict = (
            f"{len(wrong)} of 6 texts are wrong. Request {first} should be "
            f"{shown(decode(oracle[first]))}, and is {shown(decode(texts[first]))}."
        )
    head = "| decodes in the step | graph | padding rows | steps |"
    return f"{table(head, 'rrrr', rows)}\n\n{verdict}", not wrong


# --- B: a clock beside an asynchronous GPU ------------------------------------------------------

LAUNCH_US, COMPUTE_US, LEAST_US = 300, 5300, 4815
"""The launch of a step, its computing, and the least time by 11.1: 1 decode of 8B on an H100."""


class FakeGPU:
    """A GPU that returns from a launch at once, and its clock. Mutable: both times."""

    def __init__(self) -> None:
        self.now = self.done = 0

    def launch(self) -> None:
        """Begin the step."""
        self.now += LAUNCH_US
        self.done = max(self.now, self.done) + COMPUTE_US

    def synchronize(self) -> None:
        """Wait for the GPU."""
        self.now = max(self.now, self.done)

    def clock_us(self) -> int:
        """The time."""
        return self.now


def timed_by(rule: Rule) -> list[int]:
    """Three steps, each timed by the rule."""
    gpu = FakeGPU()
    return [rule(gpu.launch, gpu.synchronize, gpu.clock_us) for _ in range(3)]


def benchmark(rule: Rule) -> tuple[str, bool]:
    """(what the benchmark says of three steps, whether it waited for the GPU); Markdown."""
    try:
        times = run(timed_by, Policy(rule))
    except RunError as error:
        return f"**The benchmark stopped:** {error}", False
    rows = (f"| {i} | {us} µs | {LEAST_US:,} µs |" for i, us in enumerate(times))
    head = "| step | measured | least time by the roofline |"
    return table(head, "rrr", rows), times == [LAUNCH_US + COMPUTE_US] * 3
