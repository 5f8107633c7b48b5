"""Entries and workloads for tests of the contest: any plan, any rank, any promises."""

import random
from collections.abc import Sequence
from typing import Any

from fakes import any_legal_plan
from hypothesis import strategies as st

from nanogpt.contest import Call, Entry, Workload
from nanogpt.contest.contest_machine import MODEL, Machine
from nanogpt.parts import Parts
from nanogpt.parts.request_view import RequestView
from nanogpt.policies import Resumed, resume

PLAIN = Machine()


def of_calls(*calls: Call, machine: Machine = PLAIN) -> Workload:
    """A workload made by hand."""
    return Workload("by hand", 0, machine, calls)


def call(
    number: int,
    length: int = 10,
    new: int = 1,
    *,
    at: int = 0,
    ttft: int = 10**6,
    itl: int = 10**6,
) -> Call:
    """A call whose prompt no other one shares a token with."""
    prompt = tuple((number + i) % MODEL.vocab_size for i in range(length))
    return Call(number, at, prompt, new, 0, ttft, itl)


@st.composite
def workloads(draw: st.DrawFn) -> Workload:
    """Up to seven calls on a small machine, with promises about as long as they take."""
    machine = Machine(
        token_budget=draw(st.integers(1, 24)),
        max_kv_tokens=draw(st.integers(24, 64)),
        max_batch_size=draw(st.integers(1, 4)),
        block_size=draw(st.sampled_from([None, 1, 2, 4])),
    )
    now_us, calls = 0, list[Call]()
    shared = (1, 2, 3, 4, 5, 6)
    for number in range(draw(st.integers(1, 7))):
        now_us += draw(st.sampled_from([0, 0, 3_000, 12_000]))
        prompt = shared[: draw(st.integers(0, 6))]
        prompt += tuple(draw(st.lists(st.integers(0, 64), min_size=1, max_size=12)))
        ttft_us, itl_us = draw(st.integers(5_300, 40_000)), draw(st.integers(4_000, 9_000))
        calls.append(
            Call(number, now_us, prompt, draw(st.integers(1, 5)), number % 3, ttft_us, itl_us)
        )
    return Workload("drawn", 0, machine, tuple(calls))


def random_entry(seed: int) -> Entry:
    """Any legal plan, any rank, any victim; it may throw away what a request was given."""
    rng = random.Random(seed)

    def any_rank(request: RequestView, due_us: int, now_us: int) -> tuple[float, ...]:
        return (rng.random(),)

    def any_victim(active: Sequence[RequestView]) -> int:
        return rng.choice(active).id

    def any_resume(request: RequestView) -> Resumed:
        whole = resume(request)
        if rng.random() < 0.5:
            return whole
        return Resumed(list(request.prompt_tokens), 0, whole.arrival, 0)

    parts = Parts(plan_step=any_legal_plan(seed), choose_victim=any_victim, resume=any_resume)
    return Entry(f"random {seed}", parts, any_rank)


def shortest_first(
    decodes: Any, prefilling: Any, waiting: Any, budget: int
) -> list[tuple[int, int]]:
    """Decodes, then one whole prompt, the shortest: what a hand would do."""
    plan = [(i, 1) for i in decodes]
    offered = sorted([*prefilling, *waiting], key=lambda pair: pair[1])
    return plan + offered[:1]
