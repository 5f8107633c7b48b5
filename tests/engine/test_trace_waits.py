"""Who waits, and why: what a trace says by the step is what a look at every request would say."""

import contextlib
import json
from collections.abc import Sequence
from typing import Any

import pytest
from engine.test_engine_properties import backwards, configs, one_token
from fakes import Ask, FakeExecutor, any_legal_plan, fake_model, fake_request
from generated import examples
from hypothesis import example, given
from hypothesis import strategies as st

from nanogpt.config import EngineConfig
from nanogpt.engine import Engine
from nanogpt.executors.base import ForwardResult, Row
from nanogpt.experiments.trace_waits import all_waits
from nanogpt.parts import Parts
from nanogpt.parts.ranking import TimedKey
from nanogpt.planning import plan_step
from nanogpt.step import Step
from nanogpt.trace import StepRecord, WaitRecord, plain
from widgets import Timeline

Waits = tuple[WaitRecord, ...]
POLICIES = ("fcfs", "priority", TimedKey(lambda request, step: ((request.id * (step + 2)) % 7,)))


class Poison(FakeExecutor):
    """A fake executor whose logits are NaN for some requests, as long as they run."""

    def __init__(self, ids: frozenset[int]) -> None:
        super().__init__()
        self.ids = ids

    def run(self, rows: Sequence[Row]) -> ForwardResult:
        result = super().run(rows)
        for i, row in enumerate(rows):
            if row.request_id in self.ids:
                result.logits[i] = float("nan")
        return result


class Watched(Engine):
    """An engine that asks every request in every step whether and why it waits."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.seen: list[Waits] = []

    def _record(self, step: Step) -> StepRecord:
        self.seen.append(tuple(self._naive(step)))
        return super()._record(step)

    def _naive(self, step: Step) -> list[WaitRecord]:
        offer, waits = step.offer, list[WaitRecord]()
        offered = {*offer.decodes, *dict(offer.prefilling), *dict(offer.waiting)}
        spent = sum(n for _, n in step.plan) >= self.config.token_budget
        passed_over = "the token budget is spent" if spent else "the plan left it out"
        for request in self.requests.values():
            if request.id in dict(step.plan):
                continue
            if request.id in step.reasons:
                reason = step.reasons[request.id]
            elif request.id in offered:
                reason = passed_over
            else:
                reason = step.blocked or passed_over
            assert request.status not in ("done", "failed")
            waits.append(WaitRecord(request.id, request.status, reason))
        return waits


def drive(engine: Engine, asks: Sequence[Ask]) -> None:
    """Serve to the end, whatever has to be given up on the way."""
    queue = sorted(enumerate(asks), key=lambda each: each[1][0])
    while queue or not engine.scheduler.is_done():
        if engine.scheduler.is_done():
            engine.step_number = max(engine.step_number, queue[0][1][0])
        while queue and queue[0][1][0] <= engine.step_number:
            request_id, (_, *ask) = queue.pop(0)
            engine.submit(fake_request(request_id, *ask))
        if engine.scheduler.is_done():
            continue
        with contextlib.suppress(ValueError):  # of logits that are not finite
            engine.step()


@st.composite
def cases(draw: st.DrawFn) -> tuple[list[Ask], EngineConfig, Parts, frozenset[int]]:
    ask = st.tuples(st.integers(0, 12), st.integers(1, 24), st.integers(1, 12), st.integers(0, 2))
    asks = draw(st.lists(ask, min_size=1, max_size=14))
    limits = draw(configs(asks))
    config = EngineConfig(
        limits.token_budget,
        limits.max_kv_tokens,
        limits.max_batch_size,
        limits.max_prefilling,
        policy=draw(st.sampled_from(POLICIES)),
        preempt_to_admit=draw(st.booleans()),
        keep_steps=draw(st.none() | st.integers(1, 9)),
    )
    odd = draw(st.sampled_from([backwards, one_token, any_legal_plan(draw(st.integers(0, 99)))]))
    parts = Parts(plan_step=draw(st.sampled_from([plan_step, odd])))
    ids = st.sets(st.integers(0, len(asks) - 1), max_size=2)
    return asks, config, parts, frozenset(draw(ids))


@examples(150)
@given(cases())
@example(([(0, 9, 5, 2), (0, 9, 5, 2), (2, 9, 3, 0), (3, 1, 1, 1)],
          EngineConfig(32, 20, 2, policy="priority", preempt_to_admit=True, keep_steps=2),
          Parts(), frozenset({2})))  # fmt: skip
def test_what_a_trace_says_is_what_every_request_would_say(
    case: tuple[list[Ask], EngineConfig, Parts, frozenset[int]],
):
    asks, config, parts, ids = case
    engine = Watched(fake_model(), config, parts, make_executor=Poison(ids).bind)
    drive(engine, asks)
    trace = engine.trace()
    told = all_waits(trace)
    assert told == engine.seen[len(engine.seen) - len(trace.steps) :]
    plain_trace = json.loads(json.dumps(trace.to_json()))
    drawn = Timeline(plain_trace).trace["steps"]
    assert [step["waits"] for step in drawn] == [plain(waits) for waits in told]
    assert all(len(step.waits) <= 2 * config.max_batch_size for step in trace.steps)


@pytest.mark.parametrize("policy", ["fcfs", "priority"])
def test_the_record_of_a_step_is_no_longer_for_a_longer_queue(policy: str):
    def steps(num_waiting: int) -> Any:
        config = EngineConfig(8, max_batch_size=2, policy=policy)
        engine = Engine(fake_model(), config, make_executor=FakeExecutor().bind)
        for i in range(2 + num_waiting):
            engine.submit(fake_request(i, 3, 9, min(i, 1)))
        for _ in range(12):
            engine.step()
        return engine.trace().to_json()["steps"]

    assert steps(10) == steps(1000)


def test_a_step_in_which_nothing_else_waits_names_no_reason_for_it():
    engine = Engine(fake_model(), EngineConfig(8), make_executor=FakeExecutor().bind)
    engine.submit(fake_request(0, 3, 2))
    assert engine.step().blocked is None
    for request_id in (1, 2):
        engine.submit(fake_request(request_id, 9, 2))
    step = engine.step()
    assert (step.waits, step.blocked) == (
        (WaitRecord(2, "waiting", "the token budget is spent"),),
        "the token budget is spent",
    )
