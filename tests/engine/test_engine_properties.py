"""Promises of the scheduler over generated workloads: any policy, victim, plan, and any limits."""

import dataclasses
import gc
import itertools
import random
import time
import tracemalloc
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import tiers
from fakes import (
    Ask,
    FakeExecutor,
    Follower,
    any_legal_plan,
    fake_arrivals,
    fake_engine,
    fake_model,
    fake_request,
    refusal,
    tiny_llama,
    tiny_model,
    token_at,
)
from hypothesis import given
from hypothesis import strategies as st
from lockstep import arrivals_of, decisions, watched, workloads

from course.lesson_data.l01_chunks import one_tiny_layer
from nanogpt import GPT, Engine, EngineConfig, Policies, Trace
from nanogpt.config import EXECUTORS, TimedKey
from nanogpt.engine import MAX_NONFINITE_STEPS
from nanogpt.experiments.trace_waits import wait_reasons
from nanogpt.experiments.whole_prompts import plan_whole_prompts
from nanogpt.outputs import ModelOutput, Row
from nanogpt.planning import Plan, plan_step
from nanogpt.policies.queueing import choose_victim
from nanogpt.recorded_texts import RecordedTexts
from nanogpt.trace import RequestRecord
from nanogpt.views.request_view import RequestView

Workload = tuple[list[Ask], EngineConfig]

# ---------------------------------------------------------------- policies, victims and plans


def shortest_job(request: RequestView) -> tuple[int, ...]:
    return (request.max_new_tokens, len(request.prompt_tokens))


def last_come_first(request: RequestView) -> tuple[int, ...]:
    return (-request.arrival_time, -request.id)


def shuffles(request: Any, step: int) -> tuple[int, ...]:
    """Another order at every step."""
    return ((request.id * 7919 + step * 104729) % 101,)


def against_the_runners(request: RequestView, step: int) -> tuple[int, ...]:
    """What runs is the least important: as much preemption as there can be."""
    return (int(request.kv_tokens > 0),)


STATIC: list[Any] = ["fcfs", "priority", shortest_job, last_come_first, lambda request: ()]
TIMED = [TimedKey(shuffles), TimedKey(against_the_runners)]
POLICIES = [*STATIC, *TIMED]


def longest_admitted(running: Sequence[RequestView]) -> int:
    """The posts' rule: the earliest admission."""
    return min(running, key=lambda request: (request.admitted_at or 0, request.id)).id


def any_victim(running: Sequence[RequestView]) -> int:
    known = sum(request.num_tokens for request in running)
    return random.Random(known).choice(list(running)).id


def backwards(decodes: Any, prefilling: Any, waiting: Any, budget: int) -> Plan:
    """Everything in reverse order: the newest first."""
    return plan_step(decodes, prefilling, waiting, budget)[::-1]


def one_token(decodes: Any, prefilling: Any, waiting: Any, budget: int) -> Plan:
    """A single token of a single request per step, of the last one offered."""
    offered = [(i, 1) for i in decodes] + prefilling + waiting
    return [(offered[-1][0], 1)]


def empties_what_it_is_given(decodes: Any, prefilling: Any, waiting: Any, budget: int) -> Plan:
    plan = plan_step(decodes, prefilling, waiting, budget)
    for gift in (decodes, prefilling, waiting):
        gift.clear()
    return plan


REPEATABLE = [backwards, one_token, plan_whole_prompts, empties_what_it_is_given, plan_step]
VICTIMS = [longest_admitted, any_victim, choose_victim]
POLICY_SETS = st.builds(
    Policies,
    plan_step=st.sampled_from(REPEATABLE) | st.integers(0, 10**6).map(any_legal_plan),
    choose_victim=st.sampled_from(VICTIMS),
)


def in_blocks(config: EngineConfig, block_size: int | None) -> EngineConfig:
    """The same limits, with room for the blocks that are not full."""
    most = config.max_kv_tokens and config.max_kv_tokens + 3
    return dataclasses.replace(config, block_size=block_size, max_kv_tokens=most)


def serve(asks: Sequence[Ask], config: EngineConfig, policies: Policies = Policies()) -> Trace:
    """Run the workload in the fake's world; check texts, books and storage."""
    engine, _ = fake_engine(config, policies)
    trace = engine.run(fake_arrivals(asks), max_steps=3000)
    Follower(trace, config).check()
    for i, (_, length, max_new, _) in enumerate(asks):
        expected = tuple(token_at(i, position) for position in range(length, length + max_new))
        assert trace.generated_tokens(i) == expected
    engine.cache.check()
    assert list(engine.cache.holders()) == []
    return trace


# ---------------------------------------------------------------- whatever decides


@tiers.examples(2)
@given(workloads(POLICIES), POLICY_SETS)
def test_everything_finishes_within_every_limit_and_the_trace_adds_up(
    workload: Workload, policies: Policies
):
    serve(*workload, policies)


# ---------------------------------------------------------------- the reference plan


@given(workloads([*STATIC[:3], TIMED[0]]))
def test_nothing_is_admitted_or_preempted_before_what_ranks_lower(workload: Workload):
    asks, config = workload
    trace = serve(asks, config)

    def rank(i: int, step: int) -> tuple[Any, ...]:
        record: RequestRecord = trace.request(i)
        own = {
            "fcfs": (),
            "priority": (record.priority,),
            shortest_job: (record.max_new_tokens, len(record.prompt_tokens)),
            TIMED[0]: shuffles(record, step),
        }[config.policy]
        return (*own, record.arrival_step, i)

    for step, waits in zip(trace.steps, wait_reasons(trace), strict=True):
        assert step.used_tokens <= config.token_budget
        assert step.used_tokens or step.preempted
        waiting = [w.request_id for w in waits if w.status == "waiting"]
        for i in step.admitted:
            assert all(rank(i, step.step) < rank(other, step.step) for other in waiting)
        reasons = [wait.reason for wait in waits]
        if step.used_tokens < config.token_budget:
            assert "the token budget is spent" not in reasons
        assert "the plan left it out" not in reasons
        if step.preempted:
            least = min(rank(victim, step.step) for victim in step.preempted)
            stay = [rank(work.request_id, step.step) for work in step.work]
            if "preempted to keep the KV budget" in reasons:
                assert all(each < least for each in stay)
            else:  # for the head of the queue
                assert any(rank(i, step.step) < least for i in waiting)


@tiers.examples(0.5)
@given(workloads(POLICIES), st.none() | st.integers(1, 4))
def test_an_engine_that_plays_recorded_texts_gives_the_trace_of_the_run_that_computed_them(
    workload: Workload, block_size: int | None
):
    asks, config = workload
    config, model = in_blocks(config, block_size), one_tiny_layer()
    arrivals = arrivals_of(asks)
    computed = Engine(model, config).run(arrivals)
    texts = {request.id: request.tokens_so_far for _, request in arrivals}
    recorded = RecordedTexts(texts, model.config)
    assert Engine(recorded, config).run(arrivals_of(asks)) == computed


# ---------------------------------------------------------------- what is remembered, and what not


class Poison(FakeExecutor):
    """A fake executor whose logits are NaN for some requests, as long as they run."""

    def __init__(self, *ids: int) -> None:
        super().__init__()
        self.ids = ids

    def execute(self, rows: Sequence[Row]) -> ModelOutput:
        result = super().execute(rows)
        for i, row in enumerate(rows):
            if row.request_id in self.ids:
                result.logits[i] = float("nan")
        return result


def drive(engine: Engine, asks: Sequence[Ask]) -> Trace:
    """Serve to the end, whatever has to be given up on the way."""
    queue = sorted(fake_arrivals(asks), key=lambda arrival: arrival[0])
    while queue or not engine.scheduler.is_done():
        if engine.scheduler.is_done():
            engine.step_number = max(engine.step_number, queue[0][0])
        while queue and queue[0][0] <= engine.step_number:
            engine.submit(queue.pop(0)[1])
        refusal(engine.step)  # for logits that are not finite
    return engine.trace()


@tiers.examples(0.5)
@given(workloads(POLICIES), st.integers(1, 12), st.integers(0, 20))
def test_what_an_engine_remembers_is_the_end_of_what_another_keeps(
    workload: Workload, keep_steps: int, poison: int
):
    asks, config = workload
    some, everything = (
        drive(Engine(fake_model(), each, make_executor=Poison(poison).bind), asks)
        for each in (dataclasses.replace(config, keep_steps=keep_steps), config)
    )
    assert some.steps == everything.steps[-keep_steps:]
    assert wait_reasons(some) == wait_reasons(everything)[-keep_steps:]
    gone = {i for s in everything.steps[:-keep_steps] for i in (*s.finished, *s.aborted)}
    assert some.requests == tuple(r for r in everything.requests if r.id not in gone)


def test_an_id_comes_again_with_all_its_tries_once_its_request_is_forgotten_and_no_sooner():
    engine = Engine(fake_model(), EngineConfig(8, keep_steps=1), make_executor=Poison(0).bind)
    for _ in range(2):
        poisoned = fake_request(0, 3, 2)
        engine.submit(poisoned)
        for turn in range(1, MAX_NONFINITE_STEPS + 1):
            assert poisoned.status != "aborted"
            with pytest.raises(ValueError, match="logits of request 0 are not finite") as refused:
                engine.step()
            is_last = turn == MAX_NONFINITE_STEPS
            assert ("requests [0] were aborted" in str(refused.value)) == is_last
        assert poisoned.status == "aborted"
        engine.submit(fake_request(1, 3, 2))
        assert engine.step().aborted == (0,)
        for i in (0, 1):  # aborted in the last step, and running
            with pytest.raises(ValueError, match=f"there is a request {i} already; ids must be"):
                engine.submit(fake_request(i, 3, 2))
        engine.run([])
        engine.run([(0, fake_request(2, 2, 1))])
        assert [record.id for record in engine.trace().requests] == [2]


def least_cpu_s(work: Callable[[], object], times: int) -> float:
    """The least time that one of some calls takes this thread."""
    seconds: list[float] = []
    for _ in range(times):
        start = time.thread_time()
        work()
        seconds.append(time.thread_time() - start)
    return min(seconds)


@pytest.mark.nightly  # by default `test_growth` counts calls
@pytest.mark.parametrize(
    ("finished", "waiting", "config"),
    [
        (0, 20_000, EngineConfig(6, max_batch_size=3, policy="priority", preempt_to_admit=True)),
        (15_000, 3, EngineConfig(64, max_batch_size=64)),
    ],
    ids=["waiting", "finished"],
)
def test_a_step_takes_as_long_however_many_wait_or_have_finished(
    finished: int, waiting: int, config: EngineConfig
):
    def step_s(finished: int, waiting: int) -> float:
        engine = Engine(RecordedTexts(), config)
        engine.run([(0, fake_request(i, 1, 1)) for i in range(finished)])
        for i in range(finished, finished + waiting):
            engine.submit(fake_request(i, 1, 60, 1))
        return least_cpu_s(engine.step, 50)

    # What runs beside the test may spoil one comparison, and not three.
    assert any(step_s(finished, waiting) < 2 * step_s(0, 3) for _ in range(3))


def test_memory_does_not_grow_with_the_requests_served():
    config = EngineConfig(8, 24, 3, keep_steps=3)
    engine = Engine(RecordedTexts(), config)
    ids = itertools.count(1000)

    def bytes_after(pairs: int) -> int:
        for _ in range(pairs):
            asks = [(next(ids), 5, 4, 1), (next(ids), 9, 6, 0)]
            engine.run([(0, fake_request(*ask)) for ask in asks])
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    try:
        sizes = [bytes_after(30) for _ in range(4)]
        # A leak shows each time, by an entry for each request (60 bytes and more); what is cached
        # for good does not.
        assert min(b - a for a, b in itertools.pairwise(sizes)) < 60 * 40
    finally:
        tracemalloc.stop()


# ---------------------------------------------------------------- two ways to run a step


SHUFFLED = TimedKey(lambda request, step: ((request.id * 7919 + step * 104729) % 101,))


@pytest.mark.filterwarnings("ignore:the compiled executor gives way")  # to a Llama
@tiers.examples(0.7)
@given(
    st.sampled_from([tiny_model, tiny_llama]),
    workloads(["fcfs", "priority", SHUFFLED]),
    st.none() | st.tuples(st.integers(1, 9), st.integers(0, 3)),
    st.sampled_from([0.0, 2.0]),
    st.sampled_from(list(itertools.combinations(EXECUTORS, 2))),
    st.none() | st.integers(0, 10**6),
)
def test_two_ways_to_run_a_step_decide_alike_and_write_the_oracles_texts(
    model: Callable[[], GPT],
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
        trace = watched(
            arrivals_of(asks), dataclasses.replace(config, **more), policies, model=model
        )
        decided.append(decisions(trace))
    assert decided[0] == decided[1]
