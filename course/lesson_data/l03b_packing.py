"""Behind lesson 3b: the packed step as a picture, four forms of a forward, and what each costs."""

import functools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import median
from typing import Any

import torch
from torch import Tensor

from course.attempt import Attempt
from course.calling.jobs import call
from course.lesson_data.l01_chunks import one_tiny_layer
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
from course.lesson_data.texts import wrong_texts
from course.replay import replays
from nanogpt import GPT, Engine, EngineConfig, Policies, Request, Trace, decode
from nanogpt.clock import SERVER_CPU, Clock, CostClock, WallClock
from nanogpt.experiments.trace_metrics import all_request_metrics, percentile, summary
from nanogpt.policies import fusing

FORMS = {"two forwards": "padded", "one, padded": "fused", "one, packed": "packed"}
BUDGETS = (16, 64, 256)
STAGE = EngineConfig(token_budget=32, temperature=0.8, seed=1)
"""Lesson 3's limits for its six requests, but for the executor."""

Runs = dict[tuple[str, int, str], Trace]  # machine, budget, form


# --- the strip ----------------------------------------------------------------------------------


def strip(attempt: Attempt) -> dict[str, Any] | str:
    """What BatchView takes to draw lesson 3's step padded and then packed; or a sentence.

    Packed by the learner's `pack` where there is one, beside the reference's.
    """
    right = _packed(*fusing.pack(NUM_COMPUTED, NUM_SCHEDULED))
    if not attempt.started or attempt.function is None:
        title = "From padded to packed, by the reference: your pack is not written yet"
        return {**batch(), "packed": right, "title": title}
    mine = call(attempt.function, (NUM_COMPUTED, NUM_SCHEDULED)).value
    try:
        cu_seqlens_q, cu_seqlens_k, mask = mine
        if mask.dtype != torch.bool or list(mask.shape) != [
            sum(NUM_SCHEDULED),
            len(right["mask"][0]),
        ]:
            raise ValueError
        packed = _packed(list(cu_seqlens_q), list(cu_seqlens_k), mask)
    except (TypeError, ValueError, AttributeError):
        return "What `pack` gives for this step cannot be drawn; its check says more."
    both = {**batch(), "packed": right}
    title = "From padded to packed, by your pack"
    return {**batch(), "packed": packed, "reference": both, "title": title}


def _packed(cu_seqlens_q: list[int], cu_seqlens_k: list[int], mask: Tensor) -> dict[str, Any]:
    letters = [
        decode(known[: computed + n]).replace("\n", "⏎").replace(" ", "␣")
        for known, computed, n in zip(TOKEN_IDS, NUM_COMPUTED, NUM_SCHEDULED, strict=True)
    ]
    labels = list("".join(letters))
    return {
        "cu_seqlens_q": cu_seqlens_q,
        "cu_seqlens_k": cu_seqlens_k,
        "mask": mask.tolist(),
        "key_labels": labels,
    }


# --- four forms, one text -----------------------------------------------------------------------


def forms_table(model: GPT, policies: Policies) -> str:
    """Lesson 3's six requests in each form, on the learner's parts: calls, tokens, texts."""
    rows: list[str] = []
    for name, executor in {**FORMS, "one, packed, one mask": "single_mask"}.items():
        # Only the strip calls `pack`, so an edit of it leaves the other forms' runs as they are.
        used = policies if executor == "single_mask" else replace(policies, pack=fusing.pack)
        trace = _served(model, executor, used)
        forwards = [forward for step in trace.steps for forward in step.forwards]
        wrong = wrong_texts(six_requests(), model, STAGE, trace)
        texts = f"**wrong: {', '.join(map(str, wrong))}**" if wrong else "all six the oracle's"
        rows.append(
            f"| {name} | `{executor}` | {len(forwards)} | {sum(f.useful_tokens for f in forwards)} "
            f"| {sum(f.computed_tokens for f in forwards):,} "
            f"| {f'**stopped:** {trace.error}' if trace.error else texts} |"
        )
    head = "| forwards per step | executor | model calls | useful tokens | computed | texts |"
    return "\n".join([head, "|:--|:--|--:|--:|--:|:--|", *rows])


@functools.lru_cache(maxsize=8)
def _served(model: GPT, executor: str, policies: Policies) -> Trace:
    """Lesson 3's six requests in one form."""
    form = replace(STAGE, executor=executor)
    return replays(lambda policies: Engine(model, form, policies), six_requests, 300)(policies)


# --- what each form costs -----------------------------------------------------------------------


def crowd() -> list[tuple[int, Request]]:
    """Five streams of 40 tokens from step 0 on; three prompts of 200 at steps 4, 12 and 20."""
    streams = [(0, Request(i, [1 + i] * 12, 40)) for i in range(5)]
    return [*streams, *((4 + 8 * i, Request(5 + i, [1] * 200, 16)) for i in range(3))]


def crowded(model: GPT, executor: str, token_budget: int, clock: Clock) -> Trace:
    """One run of the crowd; one prompt prefills at a time, as in the posts."""
    limits = EngineConfig(token_budget=token_budget, executor=executor, max_prefilling=1)
    return Engine(model, limits, clock=clock).run(crowd())


def crowd_runs() -> Runs:
    """The crowd on both machines, at three budgets, in three forms; clocks charge for the plan."""
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


def said_of_p99(runs: Runs) -> str:
    """Why the padded form has the longest gaps at a budget of 256."""
    padded, packed = (p99_ms(runs["gpu", 256, form]) for form in ("one, padded", "one, packed"))
    steps = runs["gpu", 256, "one, padded"].steps
    widest = max(steps, key=lambda step: step.forwards[0].computed_tokens)
    chunk = max(work.end - work.start for work in widest.work)
    forward, rows = widest.forwards[0], len(widest.work)
    return (
        f"**{padded:.1f} ms**, and packed {packed:.1f} ms. The widest step has a chunk of {chunk} "
        f"tokens beside {rows - 1} decodes: {rows} rows of {chunk} are "
        f"{forward.computed_tokens:,} tokens, {forward.useful_tokens} of them useful. The weight "
        f"read hides about {GPU.floor_us / GPU.token_us:.0f} tokens ({GPU.floor_us / 1000:.1f} ms "
        f"at {GPU.token_us:.0f} µs a token). The calls went down, the tokens went up, and from "
        "there on tokens are what is paid."
    )


def crowd_table(runs: Runs) -> str:
    """Tokens computed, ITL p99 and throughput of each form, with factors of two forwards."""

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
    return "\n".join([head, "|--:|:--|--:|--:|--:|--:|--:|--:|", *rows])


def step_curves() -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Curves of a step's cost over its chunk, for each form, and the sliders that choose."""
    chunks = [1, 4, 8, *range(16, 193, 16)]
    decodes = [1, 2, 4, 8]
    series = [
        {
            "name": form,
            "points": [[chunk, round(ms, 2)] for chunk, ms in zip(chunks, costs, strict=True)],
            "when": {"decodes": num, "machine": machine},
        }
        for machine, clock in MACHINES.items()
        for num in decodes
        for form, costs in {
            "two forwards": [cost_ms(clock, num, chunk) for chunk in chunks],
            "one, padded": [cost_ms(clock, (num + 1) * chunk) for chunk in chunks],
            "one, packed": [cost_ms(clock, num + chunk) for chunk in chunks],
        }.items()
    ]
    sliders = [
        {"name": "decodes", "values": decodes, "shown": 2},
        {"name": "machine", "values": list(MACHINES), "shown": 0},
    ]
    return series, sliders


def longest_chunk(machine: str, decodes: int) -> int:
    """The longest chunk up to 512 with which the padded forward is no slower than two."""
    clock = MACHINES[machine]
    fits = [
        chunk
        for chunk in range(1, 513)
        if cost_ms(clock, (decodes + 1) * chunk) <= cost_ms(clock, decodes, chunk)
    ]
    return max(fits, default=0)


def live_table(model: GPT) -> str:
    """The crowd on this machine by the wall clock: median of three interleaved rounds."""
    crowded(model, "packed", 64, WallClock())  # warms up
    rounds = [
        {form: crowded(model, name, 64, WallClock()) for form, name in FORMS.items()}
        for _ in range(3)
    ]
    return "\n".join(
        [
            "| **this machine**, just now | tokens/s | | ITL p99 |",
            "|:--|--:|--:|--:|",
            *(_live_row(form, rounds) for form in FORMS),
        ]
    )


def _live_row(form: str, rounds: Sequence[Mapping[str, Trace]]) -> str:
    speeds = [summary(each[form]).tokens_per_s for each in rounds]
    base = median(summary(each["two forwards"]).tokens_per_s for each in rounds)
    late = median(p99_ms(each[form]) for each in rounds)
    return (
        f"| {form} | {median(speeds):,.0f} ({min(speeds):,.0f} to {max(speeds):,.0f}) "
        f"| ×{median(speeds) / base:.2f} | {late:.1f} ms |"
    )
