"""Behind lesson 3b: the packed step as a picture, and each layout of a step with its cost."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from statistics import median
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from course.attempt import Attempt
from course.calling.jobs import RunError, call, run
from course.lesson_data.l01_chunks import SOLILOQUY, one_tiny_layer
from course.lesson_data.l03_batch import (
    GPU,
    MACHINES,
    NUM_COMPUTED,
    NUM_SCHEDULED,
    TOKEN_IDS,
    batch,
    cost_ms,
    six_requests,
)
from course.lesson_data.l04b_heads import attention
from course.lesson_data.texts import table, wrong_texts
from course.replay import replays
from nanogpt import GPT, Engine, EngineConfig, Policies, Request, Trace, decode, encode
from nanogpt.clock import SERVER_CPU, Clock, CostClock, WallClock
from nanogpt.experiments.trace_metrics import all_request_metrics, percentile, summary
from nanogpt.figures.curves import line_chart
from nanogpt.policies import fusing

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORMS = {"two forwards": "padded", "one, padded": "fused", "one, packed": "packed"}
BUDGETS = (16, 256)
STAGE = EngineConfig(token_budget=32, temperature=0.8, seed=1)
"""Lesson 3's limits for its six requests, but for the executor."""

Runs = dict[tuple[str, int, str], Trace]  # machine, budget, form


# --- the strip ----------------------------------------------------------------------------------


def strip(attempt: Attempt) -> dict[str, Any] | str:
    """Lesson 3's step padded, then packed by the learner's `pack`, for a BatchView; or a sentence.

    The reference's is shown beside it, and by itself while `pack` is not written.
    """
    right = _packed(*fusing.pack(NUM_COMPUTED, NUM_SCHEDULED))
    if not attempt.started or attempt.function is None:
        title = "From padded to packed, by the reference: your pack is not written yet"
        return {**batch(), "packed": right, "title": title}
    mine = call(attempt.function, (NUM_COMPUTED, NUM_SCHEDULED)).value
    try:
        cu_seqlens_q, cu_seqlens_k, mask = mine
        if mask.dtype != torch.bool or mask.shape != (sum(NUM_SCHEDULED), len(right["key_labels"])):
            raise ValueError
        packed = _packed(list(cu_seqlens_q), list(cu_seqlens_k), mask)
    except (TypeError, ValueError, AttributeError):
        return "Your `pack` returned a value that cannot be drawn; its check says why."
    both = {**batch(), "packed": right}
    title = "From padded to packed, by your pack"
    return {**batch(), "packed": packed, "reference": both, "title": title}


def _packed(cu_seqlens_q: list[int], cu_seqlens_k: list[int], mask: Tensor) -> dict[str, Any]:
    lengths = zip(TOKEN_IDS, NUM_COMPUTED, NUM_SCHEDULED, strict=True)
    keys = "".join(decode(known[: computed + n]) for known, computed, n in lengths)
    return {
        "cu_seqlens_q": cu_seqlens_q,
        "cu_seqlens_k": cu_seqlens_k,
        "mask": mask.tolist(),
        "key_labels": list(keys.replace("\n", "⏎").replace(" ", "␣")),
    }


# --- every layout, one text ---------------------------------------------------------------------


def forms_table(model: GPT, policies: Policies) -> str:
    """Lesson 3's six requests in each layout, with the learner's policies: calls, tokens, texts."""
    rows: list[str] = []
    for name, executor in {**FORMS, "one, packed, one mask": "single_mask"}.items():
        # Only `single_mask` calls `pack`, so an edit of it need not run the other layouts again.
        used = policies if executor == "single_mask" else replace(policies, pack=fusing.pack)
        trace = _served(model, executor, used)
        forwards = [forward for step in trace.steps for forward in step.forwards]
        wrong = wrong_texts(six_requests(), model, STAGE, trace)
        texts = (
            f"**wrong: {', '.join(map(str, wrong))}**" if wrong else "all six equal the oracle's"
        )
        rows.append(
            f"| {name} | `{executor}` | {len(forwards)} | {sum(f.useful_tokens for f in forwards)} "
            f"| {sum(f.computed_tokens for f in forwards):,} "
            f"| {f'**stopped:** {trace.error}' if trace.error else texts} |"
        )
    head = "| forwards per step | executor | calls | useful tokens | computed tokens | texts |"
    return table(head, "llrrrl", rows)


@functools.lru_cache(maxsize=8)
def _served(model: GPT, executor: str, policies: Policies) -> Trace:
    """Lesson 3's six requests in one layout."""
    form = replace(STAGE, executor=executor)
    return replays(lambda policies: Engine(model, form, policies), six_requests, 300)(policies)


# --- attention in blocks ------------------------------------------------------------------------

BLOCK, BLOCKS, DRAWN, LAYER, HEAD = 16, 8, (0, 2, 5, 6), 3, 2  # of the picture of merges
Merge = Callable[..., Sequence[Tensor]]


def merge_chart(model: GPT, attempt: Attempt) -> Figure | str:
    """Each block's share of a query's weight, block after block: merged, and by one softmax.

    The learner's `merge_attention` runs in a child process; a sentence if it does not answer.
    """
    tokens = torch.tensor([encode(SOLILOQUY[: BLOCK * BLOCKS])])
    scores = attention(model, tokens)[LAYER, 0, HEAD, -1].log()  # (T,)
    panels = {"share by one softmax (%)": _shares(scores, softmax_shares)}
    if attempt.started and attempt.function is not None:
        try:
            merge = functools.partial(merged_shares, attempt.or_reference(softmax_shares))
            merged = run(_shares, scores, merge)
        except RunError:
            return "Your `merge_attention` does not merge these blocks; its check says why."
        panels = {"share by your merges (%)": merged, **panels}
    return line_chart(
        panels, "merged blocks of 16 keys", "Attention weight of four of eight blocks"
    )


def _shares(
    scores: Tensor, shares: Callable[[Tensor], Sequence[float]]
) -> dict[str, list[tuple[float, float]]]:
    """What `shares` gives for the first n blocks of 8, as a curve for each block of DRAWN."""
    rows = [shares(scores[: n * BLOCK]) for n in range(1, BLOCKS + 1)]
    return {
        f"block {b}": [(n, 100 * float(row[b])) for n, row in enumerate(rows, 1) if b < n]
        for b in DRAWN
    }


def softmax_shares(scores: Tensor) -> list[float]:
    """Each block's share of the weight. Shapes: scores (S,) -> S / 16 numbers."""
    return scores.softmax(0).view(-1, BLOCK).sum(1).tolist()


def merged_shares(merge: Merge, scores: Tensor) -> list[float]:
    """The same shares, merged block after block; values only say which block a key is in."""
    blocks = scores.view(-1, BLOCK)
    partial = [
        (own[None], each.amax()[None], (each - each.amax()).exp().sum()[None])
        for each, own in zip(blocks, torch.eye(len(blocks), dtype=scores.dtype), strict=True)
    ]
    return functools.reduce(lambda a, b: tuple(merge(*a, *b)), partial)[0][0].tolist()


# --- what each layout costs ---------------------------------------------------------------------


def crowded(model: GPT, executor: str, token_budget: int, clock: Clock) -> Trace:
    """A run of five streams of 40 tokens, and of prompts of 200 that arrive at steps 4, 12 and 20.

    One prompt prefills at a time, as in the posts.
    """
    streams = [(0, Request(i, [1 + i] * 12, 40)) for i in range(5)]
    prompts = [(4 + 8 * i, Request(5 + i, [1] * 200, 16)) for i in range(3)]
    limits = EngineConfig(token_budget=token_budget, executor=executor, max_prefilling=1)
    return Engine(model, limits, clock=clock).run([*streams, *prompts])


def crowd_runs() -> Runs:
    """The crowd on both modelled machines, at each budget, in each layout."""
    tiny = one_tiny_layer()
    return {
        (machine, budget, form): crowded(tiny, executor, budget, CostClock(clock))
        for machine, clock in (("gpu", GPU), ("cpu", SERVER_CPU))
        for budget in BUDGETS
        for form, executor in FORMS.items()
    }


def p99_ms(trace: Trace) -> float:
    """The 99th percentile of all gaps between two tokens of a request, in ms."""
    gaps = [gap for each in all_request_metrics(trace) for gap in each.itls_us]
    found = percentile(gaps, 0.99)
    assert found is not None
    return found / 1000


def crowd_table(runs: Runs) -> str:
    """Tokens computed, ITL p99 and throughput of each layout, relative to two forwards."""

    def cells(machine: str, budget: int, form: str) -> str:
        trace, base = runs[machine, budget, form], runs[machine, budget, "two forwards"]
        late = p99_ms(trace) / p99_ms(base)
        fast = summary(trace).tokens_per_s / summary(base).tokens_per_s
        return f"{p99_ms(trace):.1f} ms, ×{late:.2f} | ×{fast:.2f}"

    rows: list[str] = []
    for budget in BUDGETS:
        for form in FORMS:
            forwards = [each for step in runs["gpu", budget, form].steps for each in step.forwards]
            useful = sum(each.useful_tokens for each in forwards)
            computed = sum(each.computed_tokens for each in forwards)
            rows.append(
                f"| {budget} | {form} | {len(forwards)} | {computed:,} ({useful / computed:.0%}) "
                f"| {cells('gpu', budget, form)} | {cells('cpu', budget, form)} |"
            )
    head = (
        "| budget | forwards per step | model calls | computed (useful) | GPU: ITL p99 | tokens/s "
        "| CPU: ITL p99 | tokens/s |"
    )
    return table(head, "rlrrrrrr", rows)


def layout_costs(machine: str, title: str) -> Figure:
    """A step's cost over its chunk length by layout, beside one decode and beside eight."""
    clock = MACHINES[machine]
    chunks = [1, 4, 8, *range(16, 193, 16)]
    panels = {
        f"a step (ms), {words}": {
            "two forwards": [(n, cost_ms(clock, num, n)) for n in chunks],
            "one, padded": [(n, cost_ms(clock, (num + 1) * n)) for n in chunks],
            "one, packed": [(n, cost_ms(clock, num + n)) for n in chunks],
        }
        for num, words in ((1, "1 decode"), (8, "8 decodes"))
    }
    return line_chart(panels, "chunk length (tokens)", title, machine)


def live_table(model: GPT) -> str:
    """The crowd on this machine by the wall clock: median of three interleaved rounds."""
    crowded(model, "packed", 64, WallClock())  # warms up
    rounds = [
        {form: crowded(model, name, 64, WallClock()) for form, name in FORMS.items()}
        for _ in range(3)
    ]
    rows = (_live_row(form, rounds) for form in FORMS)
    return table("| **this machine**, just now | tokens/s | | ITL p99 |", "lrrr", rows)


def _live_row(form: str, rounds: Sequence[Mapping[str, Trace]]) -> str:
    speeds = [summary(each[form]).tokens_per_s for each in rounds]
    base = median(summary(each["two forwards"]).tokens_per_s for each in rounds)
    late = median(p99_ms(each[form]) for each in rounds)
    return (
        f"| {form} | {median(speeds):,.0f} ({min(speeds):,.0f} to {max(speeds):,.0f}) "
        f"| ×{median(speeds) / base:.2f} | {late:.1f} ms |"
    )
