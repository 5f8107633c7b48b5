"""A step costs the same however many requests wait: calls are counted, not timed."""

import random
import sys
from collections.abc import Callable
from typing import Any

import pytest
from fakes import fake_model, fake_request, prompt_of

from nanogpt import Engine, EngineConfig, Policies
from nanogpt.block_pool import BlockPool
from nanogpt.policies.blocks import longest_match
from nanogpt.recorded_texts import RecordedTexts
from nanogpt.request import Request

PRIORITY: dict[str, Any] = {"policy": "priority", "preempt_to_admit": True}
BLOCKS: dict[str, Any] = {"block_size": 4, "max_kv_tokens": 400}
SETTINGS = [
    {"max_batch_size": 8},
    {"max_batch_size": 1000, "max_kv_tokens": 400},
    {"max_batch_size": 1000, **BLOCKS, **PRIORITY},
    {"max_batch_size": 1000, **BLOCKS, "share_prefixes": True},
    {"max_batch_size": 1000, **BLOCKS, **PRIORITY, "share_prefixes": True},
    {"max_batch_size": 1000, **BLOCKS, "max_prefilling": 1, "share_prefixes": True},
]


def calls_of(job: Callable[[], object]) -> int:
    """How many functions, Python's own too, the job calls."""
    count = 0

    def note(_: object, event: str, __: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        job()
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_a_step_costs_the_same_however_many_wait_or_have_finished(settings: dict[str, Any]):
    def five_steps(num_waiting: int) -> int:
        config = EngineConfig(16, **settings)
        engine = Engine(RecordedTexts(), config)
        engine.run([(0, Request(10**6 + i, [1], 1)) for i in range(num_waiting)])
        for i in range(num_waiting):
            salt = str(i) if i % 2 else None  # half begin alike, half share nothing
            engine.submit(Request(i, prompt_of(0, 20), 9, i % 3, cache_salt=salt))
        return calls_of(lambda: [engine.step() for _ in range(5)])

    assert five_steps(800) < 1.1 * five_steps(40)


def test_a_request_s_blocks_are_looked_up_once_in_a_step():
    calls: list[int] = []

    def spy(*asked: Any) -> tuple[list[int], int]:
        calls.append(asked[2])
        return longest_match(*asked)

    config = EngineConfig(32, **BLOCKS, share_prefixes=True)
    engine = Engine(RecordedTexts(), config, Policies(longest_match=spy))
    for i in range(9):
        engine.submit(Request(i, prompt_of(0, 20), 9))
    while num_waiting := len(engine.scheduler.waiting):
        calls.clear()
        engine.step()
        assert len(calls) <= num_waiting
    assert engine.steps[-1].prefix_hits


def test_a_block_is_taken_at_the_same_cost_from_any_number_of_cached_ones():
    def take(num_blocks: int) -> int:
        pool = BlockPool(num_blocks, 8, Policies())
        for first in range(0, num_blocks, 16):
            table = pool.take([], 256, 16)
            pool.publish((i, block, f"{first}/{i}") for i, block in enumerate(table))
            pool.drop(table)
        return calls_of(lambda: pool.take([], 16, 16))

    assert take(4096) <= take(64)


def test_the_lowest_empty_blocks_are_taken_at_the_same_cost_from_any_number_of_empty_ones():
    def take(num_blocks: int) -> int:
        pool = BlockPool(num_blocks, 8, Policies())
        table = pool.take([], 16 * num_blocks, 16)
        pool.drop([block for block in table if block % 2])  # no two are neighbours
        return calls_of(lambda: pool.take(table[:1], 64, 16))

    assert take(4096) == take(64)


def test_requests_that_leave_the_queue_are_gone_and_the_others_stay_in_order():
    rng = random.Random(0)
    engine = Engine(fake_model(), EngineConfig(policy="priority"))
    queue, waiting = engine.scheduler.waiting, dict[int, tuple[int, int]]()
    for i in range(3000):
        if not waiting or rng.random() < 0.6:
            request = fake_request(i, 3, 2, priority=rng.randrange(5))
            engine.submit(request)
            waiting[i] = request.priority, i
        elif rng.random() < 0.8:
            left = rng.choice([*waiting])
            engine.abort(left)
            del waiting[left]
        else:
            first = queue.peek_request()
            engine.scheduler.admit(first)
            assert waiting.pop(first.id) == min([*waiting.values(), (first.priority, first.id)])
        if i % 50 == 0:
            assert [request.id for request in queue] == sorted(waiting, key=waiting.__getitem__)
        assert len(queue) == len(waiting)
        assert len(queue.heap) <= len(waiting) + len(waiting) ** 0.5 + 2
