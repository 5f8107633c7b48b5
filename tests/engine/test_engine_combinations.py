"""Every executor, K/V storage, window, draft, policy and limit together: the oracle's texts."""

import contextlib
import dataclasses
import itertools
import signal
from collections.abc import Iterator
from typing import Any

import tiers
from fakes import (
    Ask,
    any_legal_plan,
    follower,
    prompt_of,
    sometimes_right,
    tiny_model,
)
from hypothesis import given
from hypothesis import strategies as st
from lockstep import (
    arrivals_of,
    decisions,
    sharing_arrivals,
    steps_of,
    text_after,
    watched,
    workloads,
)

from nanogpt.config import EXECUTORS, EngineConfig
from nanogpt.engine import Engine
from nanogpt.kv_cache_manager import kv_limit
from nanogpt.policies import Policies
from nanogpt.policy_views import TimedKey
from nanogpt.request import Request

SHARED = prompt_of(3, 20)
SHUFFLED = TimedKey(lambda request, step: ((request.id * 7919 + step * 104729) % 101,))


@tiers.examples(0.5)
@given(
    workloads(["fcfs", "priority", SHUFFLED]),
    st.none() | st.tuples(st.integers(1, 9), st.integers(0, 3)),
    st.sampled_from([0.0, 2.0]),
    st.sampled_from(list(itertools.combinations(EXECUTORS, 2))),
    st.none() | st.integers(0, 10**6),
)
def test_two_ways_to_run_a_step_decide_alike_and_write_the_oracles_texts(
    workload: tuple[list[Ask], EngineConfig],
    window: tuple[int, int] | None,
    temperature: float,
    ways: tuple[str, str],
    seed: int | None,
):
    asks, config = workload
    fields: dict[str, Any] = {"temperature": temperature}
    if window is not None:
        fields |= {"sliding_window": window[0], "num_sinks": window[1]}
        if config.max_kv_tokens is not None:
            fields["max_kv_tokens"] = min(config.max_kv_tokens, sum(window) + 10)
    decided: list[list[object]] = []
    for way, kv_storage in zip(ways, ["ring", "evict"], strict=True):
        more = {**fields, "kv_storage": kv_storage, "executor": way}
        policies = Policies() if seed is None else Policies(plan_step=any_legal_plan(seed))
        trace = watched(arrivals_of(asks), dataclasses.replace(config, **more), policies)
        decided.append(decisions(trace))
    assert decided[0] == decided[1]


@contextlib.contextmanager
def no_longer_than(seconds: float) -> Iterator[None]:
    """Let what would never end fail, after so many seconds of this process's own time."""

    def fail(*_: object) -> None:
        raise AssertionError(f"not done after {seconds} s of computing")

    before = signal.signal(signal.SIGVTALRM, fail)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


@tiers.examples(4 if tiers.tier() == "all" else 1)
@given(
    arrivals=sharing_arrivals(SHARED, 5, 9),
    extra=st.fixed_dictionaries({"num_draft_tokens": st.integers(1, 6)})
    | st.fixed_dictionaries({"sliding_window": st.integers(1, 9), "num_sinks": st.integers(0, 3)}),
    block_size=st.sampled_from([1, 2, 4, 8]),
    more=st.integers(0, 40),
    token_budget=st.integers(1, 40),
    leavers=st.dictionaries(st.integers(0, 4), st.integers(0, 30), max_size=2),
    limits=st.fixed_dictionaries(
        {
            "max_batch_size": st.integers(1, 5),
            "policy": st.sampled_from(["fcfs", "priority"]),
            "preempt_to_admit": st.booleans(),
            "executor": st.sampled_from(["packed", "batch_invariant"]),
        }
    ),
)
def test_drafts_or_a_window_shared_prefixes_a_kv_budget_and_aborts_together(
    arrivals: list[tuple[int, Request]],
    extra: dict[str, int],
    block_size: int,
    more: int,
    token_budget: int,
    leavers: dict[int, int],
    limits: dict[str, Any],
):
    window, sinks = extra.get("sliding_window"), extra.get("num_sinks", 0)
    largest = max(len(r.prompt_tokens) + r.max_new_tokens - 1 for _, r in arrivals)
    if window is not None:
        largest = min(largest, kv_limit(window, sinks, block_size))
    max_kv_tokens = -(-largest // block_size) * block_size + more
    config = EngineConfig(
        token_budget,
        max_kv_tokens,
        block_size=block_size,
        share_prefixes=True,
        **extra,
        **limits,
    )
    engine = Engine(tiny_model(), config, draft=None if window else sometimes_right)
    # At worst each token of a text is sampled only after all before it were computed again.
    most = 20 + sum(
        (len(r.prompt_tokens) + r.max_new_tokens) * r.max_new_tokens for _, r in arrivals
    )
    steps = 0
    with no_longer_than(2):
        for step in steps_of(engine, arrivals):
            steps += 1
            engine.cache.check()
            in_use = {block for _, table in step.blocks.tables for block in table}
            assert len(in_use) * block_size <= max_kv_tokens
            assert not (step.preempted and any(work.drafted for work in step.work))
            for request_id in [i for i, at in leavers.items() if at <= step.step]:
                if request_id in engine.requests:
                    engine.abort(request_id)
                    engine.cache.check()
    assert steps <= most
    for _, request in arrivals:
        text = text_after(
            tuple(request.prompt_tokens), request.max_new_tokens, window=window, sinks=sinks
        )
        assert request.status in ("done", "aborted")
        assert request.status == "done" or request.id in leavers
        known = tuple(request.tokens_so_far)
        assert known == (text if request.status == "done" else text[: len(known)])
    if all(request.status == "done" for _, request in arrivals):
        follower(engine.trace(), config).check()
