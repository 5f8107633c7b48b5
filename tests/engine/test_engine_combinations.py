"""Two executors and two stores of a window decide alike, and write the oracle's texts."""

import dataclasses
import itertools
from typing import Any

import tiers
from fakes import Ask, any_legal_plan
from hypothesis import given
from hypothesis import strategies as st
from lockstep import arrivals_of, decisions, watched, workloads

from nanogpt.config import EXECUTORS, EngineConfig, TimedKey
from nanogpt.policies import Policies

SHUFFLED = TimedKey(lambda request, step: ((request.id * 7919 + step * 104729) % 101,))


@tiers.examples(1)
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
