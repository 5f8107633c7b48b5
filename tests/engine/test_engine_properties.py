"""Properties of the engine over generated workloads: the fake executor, and a model for texts."""

import contextlib
import dataclasses
import random
from collections.abc import Sequence
from typing import Any

import pytest
from fakes import (
    Ask,
    Follower,
    any_legal_plan,
    assert_equals_oracle,
    fake_arrivals,
    fake_engine,
    prompt_of,
    snapshot,
    tiny_model,
    token_at,
)
from generated import examples
from hypothesis import assume, given
from hypothesis import strategies as st

from nanogpt.config import EngineConfig
from nanogpt.engine import Engine
from nanogpt.experiments.trace_waits import all_waits
from nanogpt.experiments.whole_prompts import plan_whole_prompts
from nanogpt.parts import Parts
from nanogpt.planning import Offer, Plan, plan_problem, plan_step
from nanogpt.request import Request
from nanogpt.trace import Trace
from nanogpt.validate import PartError

ASKS = st.lists(
    st.tuples(
        st.integers(0, 12),  # arrival step
        st.integers(1, 24),  # prompt length
        st.integers(1, 12),  # max_new_tokens
        st.integers(0, 2),  # priority
    ),
    min_size=1,
    max_size=9,
)
MANY = examples(100)
FEW = examples(25)


@st.composite
def configs(draw: st.DrawFn, asks: Sequence[Ask]) -> EngineConfig:
    """Limits under which every request can be served: from hopelessly tight to none at all."""
    needed = max(length + max_new - 1 for _, length, max_new, _ in asks)
    return EngineConfig(
        token_budget=draw(st.integers(1, 40)),
        max_kv_tokens=draw(st.none() | st.integers(needed, needed + 40)),
        max_batch_size=draw(st.integers(1, 9)),
        max_prefilling=draw(st.none() | st.integers(1, 3)),
    )


@st.composite
def workloads(draw: st.DrawFn) -> tuple[list[Ask], EngineConfig]:
    asks = draw(ASKS)
    return asks, draw(configs(asks))


def backwards(decodes: Any, prefilling: Any, waiting: Any, budget: int) -> Plan:
    """Everything in reverse order: the newest first."""
    return plan_step(decodes, prefilling, waiting, budget)[::-1]


def one_token(decodes: Any, prefilling: Any, waiting: Any, budget: int) -> Plan:
    """A single token of a single request per step, of the last one offered."""
    offered = [(i, 1) for i in decodes] + prefilling + waiting
    return [(offered[-1][0], 1)]


def any_victim(seed: int) -> Any:
    """A victim at random."""
    rng = random.Random(seed)
    return lambda running: rng.choice(running).id


def serve(asks: Sequence[Ask], config: EngineConfig, parts: Parts = Parts()) -> Trace:
    """Run the workload in the fake's world; check texts, books and storage."""
    engine, _ = fake_engine(config, parts)
    trace = engine.run(fake_arrivals(asks))
    Follower(trace, config).check()
    for i, (_, length, max_new, _) in enumerate(asks):
        expected = tuple(token_at(i, position) for position in range(length, length + max_new))
        assert trace.generated_tokens(i) == expected
    engine.cache.check()
    assert list(engine.cache.holders()) == []
    return trace


# ---------------------------------------------------------------- the reference plan


@MANY
@given(workloads())
def test_everyone_finishes_within_every_limit_and_the_trace_adds_up(
    workload: tuple[list[Ask], EngineConfig],
):
    trace = serve(*workload)
    for step in trace.steps:
        assert 1 <= step.used_tokens <= workload[1].token_budget


@MANY
@given(workloads())
def test_first_come_is_first_served(workload: tuple[list[Ask], EngineConfig]):
    trace = serve(*workload)
    arrival = {request.id: (request.arrival_step, request.id) for request in trace.requests}
    first_served = list(dict.fromkeys(w.request_id for s in trace.steps for w in s.work))
    assert first_served == sorted(first_served, key=arrival.__getitem__)


@MANY
@given(workloads())
def test_the_oldest_is_never_preempted_and_the_first_to_arrive_never_waits(
    workload: tuple[list[Ask], EngineConfig],
):
    asks, config = workload
    trace = serve([(step, length, new, 0) for step, length, new, _ in asks], config)
    arrival = {request.id: (request.arrival_step, request.id) for request in trace.requests}
    unfinished = set(arrival)
    for step in trace.steps:
        oldest = min(unfinished, key=arrival.__getitem__)
        assert oldest not in step.preempted
        assert oldest in [work.request_id for work in step.work]
        unfinished -= set(step.finished)


@MANY
@given(workloads())
def test_no_token_of_the_budget_is_left_while_somebody_offered_waits(
    workload: tuple[list[Ask], EngineConfig],
):
    trace = serve(*workload)
    for step, waits in zip(trace.steps, all_waits(trace), strict=True):
        if step.used_tokens < step.token_budget:
            assert "the token budget is spent" not in [wait.reason for wait in waits]
            assert "the plan left it out" not in [wait.reason for wait in waits]


@MANY
@given(workloads())
def test_under_priority_the_most_important_are_admitted_first(
    workload: tuple[list[Ask], EngineConfig],
):
    asks, config = workload
    together = [(0, length, max_new, priority) for _, length, max_new, priority in asks]
    trace = serve(together, dataclasses.replace(config, policy="priority"))
    first_served = list(dict.fromkeys(w.request_id for s in trace.steps for w in s.work))
    assert first_served == sorted(first_served, key=lambda i: (together[i][3], i))


@examples(30)
@given(workloads())
def test_a_run_is_the_same_every_time(workload: tuple[list[Ask], EngineConfig]):
    assert serve(*workload).to_json() == serve(*workload).to_json()


# ---------------------------------------------------------------- any legal plan


@MANY
@given(workloads(), st.integers(0, 10**6))
def test_any_legal_plan_and_any_victim_finish_with_the_same_texts(
    workload: tuple[list[Ask], EngineConfig], seed: int
):
    asks, config = workload
    serve(asks, config, Parts(plan_step=any_legal_plan(seed), choose_victim=any_victim(seed)))


@examples(50)
@given(workloads(), st.sampled_from([backwards, one_token, plan_whole_prompts]))
def test_odd_but_legal_policies_finish_too(workload: tuple[list[Ask], EngineConfig], plan: Any):
    serve(*workload, Parts(plan_step=plan))


@examples(50)
@given(workloads())
def test_decodes_beyond_the_budget_wait_no_longer_than_a_round(
    workload: tuple[list[Ask], EngineConfig],
):
    """A plan that admits freely builds up more decodes than budget; then they take turns."""

    def admits_freely(decodes: Any, prefilling: Any, waiting: Any, budget: int) -> Plan:
        plan = plan_whole_prompts if prefilling or waiting else plan_step
        return plan(decodes, prefilling, waiting, budget)

    asks, config = workload
    trace = serve(asks, config, Parts(plan_step=admits_freely))
    longest = -(-config.max_batch_size // config.token_budget)
    waited: dict[int, int] = {}
    for step in trace.steps:
        active = {wait.request_id for wait in step.waits if wait.status == "active"}
        waited = {i: waited.get(i, 0) + 1 for i in active}
        assert max(waited.values(), default=0) < longest


@FEW
@given(workloads(), st.integers(0, 10**6), st.sampled_from(["packed", "padded"]), st.booleans())
def test_any_legal_plan_writes_the_oracles_tokens(
    workload: tuple[list[Ask], EngineConfig], seed: int, executor: str, sampled: bool
):
    asks, limits = workload
    temperature = 2.0 if sampled else 0.0
    config = dataclasses.replace(limits, executor=executor, temperature=temperature, seed=5)
    arrivals = [
        (step, Request(i, prompt_of(i, length), max_new))
        for i, (step, length, max_new, _) in enumerate(asks)
    ]
    parts = Parts(plan_step=any_legal_plan(seed), choose_victim=any_victim(seed))
    Follower(Engine(tiny_model(), config, parts).run(arrivals), config).check()
    assert_equals_oracle(arrivals, temperature, seed=5)


# ---------------------------------------------------------------- failures in between

ANYTHING = st.none() | st.integers(-3, 12) | st.floats() | st.text(max_size=2) | st.booleans()
PLANS = (
    ANYTHING
    | st.lists(ANYTHING, max_size=3)
    | st.lists(st.tuples(st.integers(-1, 9), st.integers(-1, 12)), max_size=4)
    | st.lists(st.tuples(ANYTHING, ANYTHING), max_size=2)
    | st.lists(st.tuples(st.integers(0, 3), st.integers(1, 2), st.integers(0, 1)), max_size=2)
)


@MANY
@given(workloads(), st.integers(0, 30), PLANS)
def test_whatever_a_plan_returns_it_is_legal_or_changes_nothing(
    workload: tuple[list[Ask], EngineConfig], after: int, answer: Any
):
    asks, config = workload
    offers: list[Offer] = []
    odd = False

    def plan(decodes: Any, prefilling: Any, waiting: Any, budget: int) -> Any:
        offers.append(Offer(tuple(decodes), tuple(prefilling), tuple(waiting)))
        return answer if odd else plan_step(decodes, prefilling, waiting, budget)

    engine, fake = fake_engine(config, Parts(plan_step=plan))
    for _, request in fake_arrivals(asks):
        engine.submit(request)
    for _ in range(after):
        if not engine.scheduler.is_done():
            engine.step()
    assume(not engine.scheduler.is_done())
    before, calls, odd = snapshot(engine), len(fake.calls), True
    record = None
    with contextlib.suppress(PartError):
        record = engine.step()
    assert (record is None) == (plan_problem(answer, offers[-1]) is not None)
    if record is None:
        assert (snapshot(engine), len(fake.calls)) == (before, calls)
    else:
        assert [(w.request_id, w.end - w.start) for w in record.work] == answer
    odd = False
    Follower(engine.run([]), config).check()


@MANY
@given(workloads(), st.integers(0, 40))
def test_a_step_dropped_for_nan_leaves_no_trace(
    workload: tuple[list[Ask], EngineConfig], nan_at: int
):
    asks, config = workload
    engine, fake = fake_engine(config, nan_at=nan_at)
    for _, request in fake_arrivals(asks):
        engine.submit(request)
    while not engine.scheduler.is_done():
        if len(fake.calls) != nan_at:
            engine.step()
            continue
        before = snapshot(engine)
        with pytest.raises(ValueError, match="not finite"):
            engine.step()
        assert snapshot(engine) == before
    trace = engine.trace()
    Follower(trace, config).check()
    smooth, _ = fake_engine(config)
    calm = smooth.run([(0, request) for _, request in fake_arrivals(asks)])
    assert trace.to_json()["steps"] == calm.to_json()["steps"]


@MANY
@given(ASKS, st.integers(1, 30))
def test_a_request_is_refused_exactly_when_it_could_never_fit(asks: list[Ask], budget: int):
    config = EngineConfig(max_kv_tokens=budget)
    engine, _ = fake_engine(config)
    for _, request in fake_arrivals(asks):
        needed = len(request.prompt_tokens) + request.max_new_tokens - 1
        before = snapshot(engine)
        if needed <= budget:
            engine.submit(request)
            continue
        with pytest.raises(ValueError, match=f"= {needed} KV tokens; the KV budget of {budget} "):
            engine.submit(request)
        assert snapshot(engine) == before
    Follower(engine.run([]), config).check()
