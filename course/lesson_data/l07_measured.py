"""Lesson 7's counts: memory in use, tokens found in cached blocks, tokens recomputed.

They are counted from traces of the real engine, and no clock is read. The counts do not depend on
the generated tokens, so the runs use a model of one tiny layer.
"""

from __future__ import annotations

import functools
import random
from typing import TYPE_CHECKING

from course.lesson_data.l02_scheduler import recomputed
from course.lesson_data.l07_pool import computed_tokens, found_tokens
from course.lesson_data.texts import Arrivals, table
from course.replay import Rerun, replay, replays
from nanogpt import Engine, EngineConfig, ModelConfig, Policies, Request, Trace
from nanogpt.experiments.trace_metrics import tokens_held, tokens_taken
from nanogpt.figures.curves import line_chart
from nanogpt.recorded_texts import RecordedTexts

if TYPE_CHECKING:
    from matplotlib.figure import Figure


CONTEXT = ModelConfig().max_model_len
SIZES = (1, 8, 16, 64)
_VOCABULARY = 65
_MOST_STEPS = 2000


def drawn_tokens(name: str, length: int) -> list[int]:
    """Random tokens that depend only on the name."""
    draw = random.Random(name)
    return [draw.randrange(_VOCABULARY) for _ in range(length)]


def run(
    arrivals: Arrivals,
    block_size: int | None,
    *,
    share: bool = False,
    max_batch_size: int = 8,
    token_budget: int = 512,
    max_kv_tokens: int | None = None,
) -> Trace:
    """A run with ample limits unless they are given; in slots without a `block_size`."""
    config = EngineConfig(
        token_budget=token_budget, max_kv_tokens=max_kv_tokens, max_batch_size=max_batch_size,
        block_size=block_size, share_prefixes=share,
    )  # fmt: skip
    return replay(Engine(RecordedTexts(), config), arrivals, _MOST_STEPS)


# --- memory that holds tokens -------------------------------------------------------------------


def short_chats() -> Arrivals:
    """24 requests without common prefixes: prompts of 20 to 60 tokens, 10 to 30 new ones."""
    draw = random.Random("short chats")
    return [
        (2 * i, Request(i, drawn_tokens(f"chat {i}", draw.randint(20, 60)), draw.randint(10, 30)))
        for i in range(24)
    ]


def share_held(trace: Trace, size: int) -> float:
    """The share of the reserved K/V memory, summed over the steps, that held tokens."""
    held = sum(tokens_held(step, size) for step in trace.steps)
    return held / sum(tokens_taken(step, size) for step in trace.steps)


@functools.cache
def shares_of_memory() -> dict[int | None, float]:
    """`share_held` of the short chats by block size; None stands for slots."""
    return {
        size: share_held(run(short_chats(), size), size or CONTEXT) for size in (None, *SIZES[::-1])
    }


def mean_at_the_end() -> float:
    """How many KV tokens a short chat holds when it finishes, on average."""
    ends = [len(r.prompt_tokens) + r.max_new_tokens - 1 for _, r in short_chats()]
    return sum(ends) / len(ends)


# --- block sizes --------------------------------------------------------------------------------


def conversations() -> Arrivals:
    """24 requests with a system prompt of 60, 110 or 150 tokens, and 8 to 60 of their own."""
    draw = random.Random("conversations")
    systems = [drawn_tokens(f"system {length}", length) for length in (60, 110, 150)]
    arrivals: Arrivals = []
    for i in range(24):
        own = drawn_tokens(f"own {i}", draw.randint(8, 60))
        arrivals.append((3 * i, Request(i, draw.choice(systems) + own, draw.randint(8, 24))))
    return arrivals


@functools.cache
def size_chart() -> Figure:
    """By block size: prompt tokens found, and reserved memory that holds tokens, in percent."""
    prompts = sum(len(request.prompt_tokens) for _, request in conversations())
    found: list[tuple[float, float]] = []
    held: list[tuple[float, float]] = []
    for size in (1, 2, 4, 8, 16, 32, 64, 128):
        trace = run(conversations(), size, share=True)
        found.append((size, round(100 * found_tokens(trace) / prompts, 1)))
        held.append((size, round(100 * share_held(trace, size), 1)))
    curves = {"prompt tokens found": found, "reserved memory that holds tokens": held}
    title = "Tokens found and memory used, by block size"
    return line_chart({"share (%)": curves}, "block size (tokens)", title, "counted", log_x=True)


# --- one system prompt for sixteen --------------------------------------------------------------

SYSTEM, OWN, NEW = 300, 20, 16


def sixteen(*, at_once: bool = False) -> Arrivals:
    """16 requests with a system prompt of 300 tokens, one per step or all at once."""
    system = drawn_tokens("system", SYSTEM)
    return [
        (0 if at_once else i, Request(i, system + drawn_tokens(f"own {i}", OWN), NEW))
        for i in range(16)
    ]


@functools.cache
def _sixteen_in_slots() -> Trace:
    return run(sixteen(), None, max_batch_size=16)


@functools.cache
def _sixteen_in_blocks(*, at_once: bool) -> Rerun[Policies, Trace]:
    config = EngineConfig(token_budget=512, max_batch_size=16, block_size=16, share_prefixes=True)
    return replays(
        lambda policies: Engine(RecordedTexts(), config, policies),
        lambda: sixteen(at_once=at_once),
        _MOST_STEPS,
    )


def sixteen_table(policies: Policies, name: str) -> str:
    """Prompt tokens computed and peak memory, in slots and in blocks with `policies`; Markdown."""
    in_a_row, at_once = (_sixteen_in_blocks(at_once=crowd)(policies) for crowd in (False, True))
    runs = (
        ("slots", _sixteen_in_slots(), CONTEXT),
        (f"blocks of 16, {name}", in_a_row, 16),
        ("the same, all sixteen at once", at_once, 16),
    )
    rows: list[str] = []
    for words, trace, size in runs:
        if trace.error:
            return f"**The run stopped early:** {trace.error}"
        most = max(tokens_taken(step, size) for step in trace.steps)
        rows.append(f"| {words} | {computed_tokens(trace):,} | {most:,} |")
    return table("| K/V in | prompt tokens computed | peak memory, KV tokens |", "lrr", rows)


# --- after a preemption --------------------------------------------------------------------------


_BUDGET = 256


def short_of_memory() -> Arrivals:
    """Six requests that outgrow a KV budget which admits four of them."""
    return [(i, Request(i, drawn_tokens(f"crowd {i}", 40), 48)) for i in range(6)]


def preempted_table(policies: Policies, name: str) -> str:
    """Tokens that preempted requests recomputed, in slots and in blocks; Markdown."""
    rows: list[str] = []
    for words, trace in (
        ("slots", _crowd_in(None)),
        ("blocks of 8, not shared", _crowd_in(8)),
        (f"blocks of 8, shared, {name}", _crowd_shared()(policies)),
    ):
        if trace.error:
            return f"**The run stopped early:** {trace.error}"
        victims = sum(len(step.preempted) for step in trace.steps)
        rows.append(f"| {words} | {victims} | {recomputed(trace)} |")
    return table("| K/V in | preemptions | tokens recomputed |", "lrr", rows)


@functools.cache
def _crowd_shared() -> Rerun[Policies, Trace]:
    config = EngineConfig(
        token_budget=64, max_kv_tokens=_BUDGET, max_batch_size=8, block_size=8, share_prefixes=True
    )
    return replays(
        lambda policies: Engine(RecordedTexts(), config, policies), short_of_memory, _MOST_STEPS
    )


@functools.cache
def _crowd_in(block_size: int | None) -> Trace:
    return run(short_of_memory(), block_size, max_kv_tokens=_BUDGET, token_budget=64)
