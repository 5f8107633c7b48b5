"""What grows and what stays flat: work with the queue's length, memory with the requests served."""

import gc
import heapq
import math
import sys
import weakref
from collections.abc import Callable, Sized
from dataclasses import replace
from itertools import islice
from types import FunctionType, ModuleType
from typing import Any

import pytest
import torch
from engine.test_engine_properties import workloads
from engine.test_trace_waits import Poison, drive
from fakes import (
    TINY,
    FakeExecutor,
    assert_equals_oracle,
    fake_model,
    fake_request,
    prompt_of,
    tiny_model,
)
from generated import examples
from hypothesis import given
from hypothesis import strategies as st

from nanogpt.config import EngineConfig
from nanogpt.engine import TRIES, Engine
from nanogpt.experiments.trace_waits import all_waits
from nanogpt.parts import Parts
from nanogpt.parts.ranking import TimedKey, in_order
from nanogpt.request import Request
from nanogpt.scheduler import Scheduler

# ---- a step's work -------------------------------------------------------------------------------


class Counted(float):
    """A number that counts how often it is compared."""

    times = 0

    def __lt__(self, other: float) -> bool:
        Counted.times += 1
        return super().__lt__(other)

    def __eq__(self, other: object) -> bool:
        Counted.times += 1
        return super().__eq__(other)

    __hash__ = float.__hash__


def comparisons(work: Callable[[], object]) -> int:
    before = Counted.times
    work()
    return Counted.times - before


@examples(200)
@given(st.lists(st.integers(0, 20), max_size=60), st.integers(0, 60))
def test_a_heap_is_walked_in_order_and_stays_as_it_is(numbers: list[int], count: int):
    heap = [(number, place) for place, number in enumerate(numbers)]
    heapq.heapify(heap)
    before = list(heap)
    assert list(islice(in_order(heap), count)) == sorted(heap)[:count]
    assert heap == before


def test_the_first_of_ten_thousand_cost_no_more_than_a_few_looks_each():
    heap = [Counted(i * 7919 % 10_007) for i in range(10_000)]
    heapq.heapify(heap)
    for count in (1, 8, 64):
        found: list[float] = []
        looks = comparisons(lambda n=count, found=found: found.extend(islice(in_order(heap), n)))
        assert looks <= 2 * count * math.log2(len(heap))
        assert found == sorted(heap)[:count]


def looks_of_a_step(num_waiting: int, *, last_first: bool) -> int:
    """Comparisons in a step that ends two requests, preempts one and admits what may start."""
    parts = Parts(sort_key=lambda policy, view: (Counted(view.priority), Counted(view.id)))
    scheduler = Scheduler(max_batch_size=4, max_prefilling=None, parts=parts)
    for i in range(num_waiting):
        scheduler.add_request(fake_request(i, 3, 2, i * 31 % 7))
    startable, _ = scheduler.admissible()
    for request in startable:
        scheduler.admit(request)

    def step() -> None:
        for request in scheduler.prefilling[:2]:
            scheduler.complete(request)
        scheduler.preempt(scheduler.prefilling[0])
        found, _ = scheduler.admissible(scheduler.victims())
        assert len(found) == 3
        for request in found[::-1] if last_first else found:
            scheduler.admit(request)

    return comparisons(step)


@pytest.mark.parametrize("last_first", [False, True])
def test_a_step_compares_a_few_of_those_that_wait_however_many_there_are(last_first: bool):
    few, many = (looks_of_a_step(n, last_first=last_first) for n in (100, 12_800))
    assert few <= many <= few * math.log2(12_800) / math.log2(100) * 1.5


def instructions(work: Callable[[], object]) -> int:
    """How many of Python's instructions run, C's loops not counted."""
    count = 0

    def trace(frame: Any, event: str, _: Any) -> Any:
        nonlocal count
        frame.f_trace_opcodes = True
        count += event == "opcode"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


@pytest.mark.parametrize("policy", ["fcfs", "priority"])
@pytest.mark.parametrize("preempt_to_admit", [False, True])
def test_a_step_runs_as_many_instructions_whether_ten_or_thousands_wait(
    policy: str, preempt_to_admit: bool
):
    def steps(num_waiting: int) -> list[int]:
        config = EngineConfig(
            6, max_batch_size=3, policy=policy, preempt_to_admit=preempt_to_admit, max_kv_tokens=60
        )
        engine = Engine(fake_model(), config, make_executor=FakeExecutor().bind)
        for i in range(num_waiting):
            engine.submit(fake_request(i, 3, 4, 1))
        return [instructions(engine.step) for _ in range(9)]

    few, many = steps(10), steps(3000)
    assert min(few) > 1000
    assert all(abs(a - b) <= 0.05 * a for a, b in zip(few, many, strict=True)), (few, many)


# ---- what is kept --------------------------------------------------------------------------------

SKIPPED = (type, ModuleType, torch.Tensor, torch.nn.Module, weakref.ref)


def entries(root: object) -> int:
    """How many entries all containers have that can be reached from `root`."""
    total, seen, ahead = 0, {id(root)}, [root]
    while ahead:
        found = ahead.pop()
        total += len(found) if isinstance(found, Sized) else 0
        # Of a function no more than the variables around it: its module is not the engine's.
        own = found.__closure__ or () if isinstance(found, FunctionType) else ()
        for each in own if isinstance(found, FunctionType) else gc.get_referents(found):
            if id(each) not in seen and not isinstance(each, SKIPPED):
                seen.add(id(each))
                ahead.append(each)
    return total


TIGHT = EngineConfig(8, 24, 3, keep_steps=3)
SLACK = TimedKey(lambda view, step: ((view.id * (step + 2)) % 7,))
LONG_LIVED = {
    "first come, first served": TIGHT,
    "preempted for what is urgent": replace(TIGHT, policy="priority", preempt_to_admit=True),
    "ranked anew in every step": replace(TIGHT, policy=SLACK),
    "a window": replace(TIGHT, sliding_window=6, num_sinks=1),
}


def serve_many(engine: Engine, fake: FakeExecutor, numbers: range) -> None:
    """Serve many small requests, six at a time, under 97 ids that come again and again."""
    for start in numbers[::6]:
        asks = [(i % 97, 1 + i % 9, 1 + i % 5, i % 3) for i in range(start, start + 6)]
        for ask in asks:
            engine.submit(fake_request(*ask))
        drive(engine, [])
        fake.calls.clear()


@pytest.mark.parametrize("name", LONG_LIVED)
def test_an_engine_that_forgets_holds_no_more_after_thousands_of_requests(name: str):
    fake = Poison(frozenset({13, 50}))
    engine = Engine(fake_model(), LONG_LIVED[name], make_executor=fake.bind)
    serve_many(engine, fake, range(300))
    before = entries(engine)
    assert len(engine.steps) == 3 and len(engine.arrived) <= 9
    serve_many(engine, fake, range(300, 2100))
    assert entries(engine) - before < 100
    assert not engine.requests and engine.cache.held_tokens() == 0


@pytest.mark.parametrize(
    "more",
    [{"num_draft_tokens": 2}, {"block_size": 4, "share_prefixes": True, "max_kv_tokens": 32}],
    ids=["drafts", "blocks"],
)
def test_what_a_feature_adds_is_forgotten_too(more: dict[str, Any]):
    config = EngineConfig(16, max_batch_size=4, keep_steps=2, **more)
    engine = Engine(
        tiny_model(), config, draft=lambda known: [1 / TINY.vocab_size] * TINY.vocab_size
    )
    sizes: list[int] = []
    for i in range(90):
        engine.run([(0, Request(i, prompt_of(i, 3), 4))])
        sizes.append(entries(engine))
    assert max(sizes[60:]) - max(sizes[30:60]) < 15


def test_an_engine_that_keeps_everything_shows_that_the_count_counts():
    fake = FakeExecutor()
    engine = Engine(fake_model(), replace(TIGHT, keep_steps=None), make_executor=fake.bind)
    serve_many(engine, fake, range(30))
    before = entries(engine)
    for i in range(100, 200):
        engine.submit(fake_request(i, 2, 1))
    drive(engine, [])
    assert entries(engine) - before > 100 * 10


@examples(60)
@given(workloads(), st.integers(1, 12))
def test_what_an_engine_remembers_is_the_end_of_what_another_keeps(case: Any, keep_steps: int):
    asks, config = case
    kept, whole = (
        Engine(fake_model(), each, make_executor=FakeExecutor().bind)
        for each in (replace(config, keep_steps=keep_steps), config)
    )
    drive(kept, asks)
    drive(whole, asks)
    some, everything = kept.trace(), whole.trace()
    assert some.steps == everything.steps[-keep_steps:]
    assert all_waits(some) == all_waits(everything)[-keep_steps:]
    finished_before = {i for step in everything.steps[:-keep_steps] for i in step.finished}
    assert some.requests == tuple(r for r in everything.requests if r.id not in finished_before)


# ---- whose id it is ------------------------------------------------------------------------------


def test_an_id_comes_again_once_its_request_is_forgotten_and_no_sooner():
    engine = Engine(tiny_model(), EngineConfig(8, keep_steps=2))
    first, other = Request(0, prompt_of(0, 3), 2), Request(1, prompt_of(1, 3), 9)
    engine.submit(first)
    engine.submit(other)
    refused = 0
    while not engine.scheduler.is_done():
        again = Request(0, prompt_of(2, 3), 2)
        if 0 not in [record.id for record in engine.trace().requests]:
            assert first.status == "done"
            engine.submit(again)
            break
        with pytest.raises(ValueError, match="there is a request 0 already; ids must be unique"):
            engine.submit(again)
        refused += 1
        engine.step()
    assert refused == 4  # before each of its two steps, and while the last of them is kept
    engine.run([])
    assert_equals_oracle([(0, request) for request in (first, other, again)])
    assert [record.id for record in engine.trace().requests] == [1]


def test_an_engine_that_keeps_everything_takes_no_id_twice():
    engine = Engine(tiny_model())
    engine.run([(0, Request(0, prompt_of(0, 3), 2))])
    with pytest.raises(ValueError, match="there is a request 0 already; ids must be unique"):
        engine.submit(Request(0, prompt_of(0, 3), 2))


def test_what_was_given_up_is_forgotten_with_the_step_that_says_so():
    fake = Poison(frozenset({0}))
    engine = Engine(fake_model(), EngineConfig(8, keep_steps=1), make_executor=fake.bind)
    engine.submit(fake_request(0, 3, 2))
    for _ in range(TRIES):
        with pytest.raises(ValueError, match="not finite"):
            engine.step()
    engine.submit(fake_request(1, 3, 2))
    assert engine.step().given_up == (0,)
    assert [record.id for record in engine.trace().requests] == [0, 1]
    assert engine.step().given_up == ()
    assert [record.id for record in engine.trace().requests] == [1]
    again = fake_request(0, 3, 2)
    engine.submit(again)
    for _ in range(TRIES):  # as many as if no other had had its id
        assert again.status == "waiting"
        with pytest.raises(ValueError, match="not finite"):
            engine.step()
    assert again.status == "failed"


@pytest.mark.parametrize("keep_steps", [0, -1, 1.5, True])
def test_the_number_of_steps_to_keep_is_a_whole_number_from_1_up(keep_steps: Any):
    with pytest.raises(ValueError, match=r"^keep_steps is "):
        EngineConfig(keep_steps=keep_steps)
