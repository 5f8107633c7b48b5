"""Preemption and waiting in the engine, worked out by hand."""

import dataclasses
from typing import Any

import pytest
from fakes import Ask, Follower, fake_arrivals, fake_engine

from nanogpt.config import EngineConfig
from nanogpt.experiments.trace_waits import wait_reasons
from nanogpt.planning import Plan
from nanogpt.policies import Policies
from nanogpt.trace import Trace

PUSHY = EngineConfig(
    32, max_kv_tokens=22, max_prefilling=1, policy="priority", preempt_to_admit=True
)


def serve(asks: list[Ask], config: EngineConfig, policies: Policies = Policies()) -> Trace:
    """Run a workload in the fake's world, and check its books."""
    trace = fake_engine(config, policies)[0].run(fake_arrivals(asks), max_steps=300)
    Follower(trace, config).check()
    return trace


def preempted(trace: Trace) -> list[int]:
    return [victim for step in trace.steps for victim in step.preempted]


def test_a_more_important_waiter_pushes_out_and_the_victim_comes_back():
    """The posts' worked example: B comes while A, less important, is all that runs."""
    asked: list[Any] = []

    def plan(decodes: Any, prefilling: Any, waiting: Any, budget: int) -> Plan:
        asked.append([*decodes, *prefilling, *waiting])
        return [(i, 1) for i in decodes] + prefilling + waiting

    trace = serve([(0, 10, 6, 2), (3, 20, 2, 0)], PUSHY, Policies(plan_step=plan))
    assert all(asked)  # and never of nobody
    assert [step.preempted for step in trace.steps[:5]] == [(), (), (), (0,), ()]
    leaving = trace.steps[3]
    assert (leaving.work, leaving.forwards, leaving.kv_before) == ((), (), 12)
    assert (leaving.kv_after, leaving.duration_us) == (0, 0)
    assert [wait.reason for wait in wait_reasons(trace)[3]] == [
        "preempted to let request 1 start",
        "a request was just preempted to make room",
    ]
    assert trace.steps[4].admitted == (1,)
    back = next(step for step in trace.steps if step.admitted == (0,) and step.step > 0)
    assert [(w.start, w.end) for w in back.work] == [(0, 13)]  # 10 + 3 tokens computed again


def test_nothing_is_pushed_out_while_a_prefill_stands_in_the_way():
    config = dataclasses.replace(PUSHY, token_budget=4)
    trace = serve([(0, 2, 9, 2), (1, 12, 3, 1), (2, 9, 3, 0)], config)
    prefills = [
        s for s in trace.steps if (1, "prefill") in [(w.request_id, w.kind) for w in s.work]
    ]
    assert len(prefills) > 2
    assert not any(step.preempted for step in prefills)


def test_a_full_batch_gives_one_place_to_a_more_important_waiter():
    config = EngineConfig(32, max_batch_size=2, policy="priority", preempt_to_admit=True)
    assert preempted(serve([(0, 3, 9, 1), (0, 3, 9, 2), (2, 3, 2, 0)], config)) == [1]


@pytest.mark.parametrize(
    ("asks", "token_budget"),
    [
        ([(0, 9, 8, 0), (0, 5, 8, 2), (2, 11, 2, 1)], 32),  # 11 + 11 fit, 12 + 11 do not
        ([(0, 2, 9, 2), (1, 12, 8, 0), (2, 10, 2, 1)], 13),  # 12 + 10 fit, 13 + 10 do not
        ([(0, 8, 8, 2), (0, 1, 1, 2), (2, 12, 2, 0)], 32),  # 10 + 12 fit now
    ],
    ids=["beside a decode", "beside a prefill's last chunk", "it can start"],
)
def test_nothing_is_pushed_out_for_a_head_that_still_cannot_start_or_can_already(
    asks: list[Ask], token_budget: int
):
    """Those who stay grow by a token in the step in which the victim leaves."""
    config = dataclasses.replace(PUSHY, max_prefilling=None, token_budget=token_budget)
    reasons = [wait.reason for waits in wait_reasons(serve(asks, config)) for wait in waits]
    assert "preempted to let request 2 start" not in reasons
