"""The engine by hand: small runs step by step, and failures that leave no trace."""

import contextlib
import copy
import math
from collections.abc import Callable
from typing import Any

import pytest
from fakes import (
    any_legal_plan,
    assert_equals_oracle,
    fake_arrivals,
    fake_engine,
    fake_request,
    follower,
    prompt_of,
    refusal,
    snapshot,
    sometimes_right,
    tiny_model,
)
from lockstep import arrivals_of, text_of

from nanogpt import Engine, EngineConfig, Policies
from nanogpt.clock import LARGE_GPU, CostClock
from nanogpt.config import EXECUTORS, TimedKey
from nanogpt.experiments.trace_waits import wait_reasons
from nanogpt.experiments.whole_prompts import plan_whole_prompts
from nanogpt.kv_cache import KVCache
from nanogpt.planning import Plan, plan_step
from nanogpt.request import Request
from nanogpt.validate import PolicyError
from nanogpt.views.request_view import RequestView

ALL = pytest.mark.parametrize("executor", EXECUTORS)

# ---------------------------------------------------------------- texts


@ALL
def test_a_request_may_fill_the_context_to_its_last_position(executor: str):
    arrivals = [(0, Request(0, prompt_of(0, 60), 5)), (0, Request(1, prompt_of(1, 64), 1))]
    Engine(tiny_model(), EngineConfig(50, executor=executor)).run(arrivals)
    assert_equals_oracle(arrivals)


# ---------------------------------------------------------------- arrivals


def test_an_idle_engine_skips_to_the_next_arrival_and_a_run_may_follow_a_run():
    engine, fake = fake_engine(EngineConfig(8))
    trace = engine.run(fake_arrivals([(0, 2, 1, 0), (1000, 2, 1, 0)]))
    assert [step.step for step in trace.steps] == [0, 1000]
    assert len(fake.calls) == 2
    later = fake_request(2, 3, 2)
    trace = engine.run([(0, later)])
    assert (later.status, later.arrival_time) == ("done", 1001)
    assert [step.step for step in trace.steps] == [0, 1000, 1001, 1002]
    assert engine.run([]) == trace
    with pytest.raises(ValueError, match="nothing to serve"):
        engine.step()


def test_a_run_that_is_stopped_says_so_and_can_go_on():
    engine, _ = fake_engine(EngineConfig(4))
    stopped = engine.run(fake_arrivals([(0, 4, 20, 0)]), max_steps=5)
    assert (stopped.error, len(stopped.steps)) == ("stopped after 5 steps, before all were done", 5)
    assert engine.run([], max_steps=15).error is None
    assert engine.run([(0, fake_request(1, 4, 3))], max_steps=3).error is None


# ---------------------------------------------------------------- the record of a step


def test_whatever_waits_waits_for_a_stated_reason():
    engine, _ = fake_engine(EngineConfig(4, max_batch_size=2, max_kv_tokens=20))
    asks = [(0, 6, 4, 0), (0, 6, 4, 0), (0, 6, 4, 0), (0, 1, 1, 0)]
    waits = {wait.request_id: wait for wait in wait_reasons(engine.run(fake_arrivals(asks)))[0]}
    assert waits[1].reason == "the token budget is spent"
    assert "the batch is full" in waits[2].reason
    assert [waits[i].status for i in (1, 2, 3)] == ["waiting"] * 3

    def only_the_first(decodes: Any, prefilling: Any, waiting: Any, budget: int) -> Plan:
        return plan_step(decodes, prefilling, waiting, budget)[:1]

    engine, _ = fake_engine(EngineConfig(16), Policies(plan_step=only_the_first))
    first = engine.run(fake_arrivals([(0, 3, 2, 0), (0, 3, 2, 0)])).steps[0]
    assert [(wait.request_id, wait.reason) for wait in first.waits] == [(1, "the plan left it out")]


def test_time_is_charged_by_the_clock_that_was_passed_in():
    engine = Engine(tiny_model(), EngineConfig(64), clock=CostClock(LARGE_GPU))
    trace = engine.run([(0, Request(0, prompt_of(0, 10), 2))])
    assert (trace.clock.name, trace.clock.modelled) == ("a large GPU", True)
    assert trace.steps[0].end_us == LARGE_GPU.step_us(10, 0, 10)
    assert trace.steps[1].duration_us == LARGE_GPU.step_us(0, 1, 11)


# ---------------------------------------------------------------- progress


def test_decodes_beyond_the_budget_take_turns():
    """The reference never has more decodes than budget; a plan that admits freely does."""

    def admits_freely(decodes: Any, prefilling: Any, waiting: Any, budget: int) -> Plan:
        plan = plan_whole_prompts if waiting else plan_step
        return plan(decodes, prefilling, waiting, budget)

    engine, fake = fake_engine(EngineConfig(2), Policies(plan_step=admits_freely))
    engine.run(fake_arrivals([(0, 1, 5, 0)] * 5))
    names = [[request_id for request_id, *_ in call] for call in fake.calls]
    assert names[:6] == [[0, 1, 2, 3, 4], [0, 1], [2, 3], [4, 0], [1, 2], [3, 0]]
    assert len(names) == 1 + 5 * 4 // 2


# ---------------------------------------------------------------- steps that fail

WINDOW = {"sliding_window": 5, "num_sinks": 1, "token_budget": 3, "max_kv_tokens": 14}
WINDOW_BLOCKS = {**WINDOW, "block_size": 2, "share_prefixes": True, "max_kv_tokens": 20}
BLOCKS = {"block_size": 4, "share_prefixes": True, "max_kv_tokens": 32}
DRAFTS = {"num_draft_tokens": 3, "max_kv_tokens": 24}
PUSHY = {"policy": "priority", "preempt_to_admit": True, "seed": 5}
ASKS = [(0, 5, 8, 2), (0, 5, 8, 1), (2, 10, 4, 0), (3, 13, 3, 1)]


def settings(**fields: Any) -> EngineConfig:
    """Limits under which `ASKS` push each other out."""
    return EngineConfig(**{"token_budget": 8, "max_kv_tokens": 22, **PUSHY, **fields})


def assert_texts(engine: Engine, arrivals: list[tuple[int, Request]]) -> None:
    """Texts and books of a whole run of `ASKS` are right."""
    config = engine.config
    for (_, length, max_new, _), (_, request) in zip(ASKS, arrivals, strict=True):
        rule = config.temperature, config.sliding_window, config.num_sinks
        assert tuple(request.tokens_so_far) == text_of(request.id, length, max_new, *rule)
    follower(engine.trace(), config).check()


@pytest.mark.parametrize(
    "fields",
    [
        *({"executor": executor, "temperature": 2.0} for executor in EXECUTORS),
        {**WINDOW, "kv_storage": "ring"},
        {**WINDOW, "kv_storage": "evict", "executor": "fused"},
        {**WINDOW, "block_size": 2, "max_kv_tokens": 20},
        BLOCKS,
        DRAFTS,
    ],
    ids=str,
)
def test_a_step_whose_logits_are_not_finite_leaves_no_trace_and_no_nan_in_the_cache(fields: Any):
    """The plans after it take other chunks: NaN must not wait in the slots beyond them."""
    model = copy.deepcopy(tiny_model())
    weights = model.position_embedding.weight  # which no executor copies
    healthy = weights.clone()
    policies = Policies(plan_step=any_legal_plan(7))
    engine = Engine(model, settings(**fields), policies, draft=sometimes_right)
    arrivals, dropped = arrivals_of(ASKS), 0
    for _, request in arrivals:
        engine.submit(request)
    while not engine.scheduler.is_done():
        if engine.step_number % 2:
            before = snapshot(engine)
            weights.fill_(math.nan if engine.step_number % 4 == 1 else math.inf)
            words = refusal(engine.step)
            if words:
                assert f"step {engine.step_number}: the logits of request" in words
                assert "not finite" in words
                assert snapshot(engine) == before
                dropped += 1
            else:  # a step without logits: requests only left
                assert not engine.trace().steps[-1].work
            weights.copy_(healthy)
        if isinstance(engine.cache, KVCache):
            assert engine.cache.storage.isfinite().all()
        if not engine.scheduler.is_done():
            engine.step()
        engine.cache.check()
    assert dropped > 4
    assert_texts(engine, arrivals)


# ---------------------------------------------------------------- parts that fail


class Breaking:
    """A policy that raises once it has been called so many times; None: never."""

    def __init__(self, reference: Callable[..., Any]) -> None:
        self.reference = reference
        self.calls_left: int | None = None

    def __call__(self, *args: Any) -> Any:
        if self.calls_left is not None:
            if self.calls_left == 0:
                raise RuntimeError("oh no")
            self.calls_left -= 1
        return self.reference(*args)


STORE = ("allocate", "evict_order", "free_table", "block_hashes")
FIELDS: dict[str, dict[str, Any]] = {
    **{name: {"executor": "fused"} for name in ("prepare_inputs", "full_mask", "split_kv")},
    "pack": {"executor": "single_mask"},
    **dict.fromkeys(("kv_usage", "visible", "rolling_buffer_index"), WINDOW),
    "evict": {**WINDOW, "kv_storage": "evict"},
    **dict.fromkeys(("rejection_sample", "roll_back_kv"), DRAFTS),
    **dict.fromkeys(("longest_match", *STORE), BLOCKS),
}
OTHERS = [
    "plan_step",
    "chunk_inputs",
    "chunk_mask",
    "admit",
    "choose_victim",
    "requeue",
    "assign_tokens",
]


def ages(request: RequestView, step: int) -> tuple[float, ...]:
    return (4 * request.priority - (step - request.arrival_time),)


CASES = [(name, FIELDS.get(name, {})) for name in ("policy", *OTHERS, *FIELDS)]
CASES += [(name, WINDOW_BLOCKS) for name in STORE] + [("free_table", {**BLOCKS, **DRAFTS})]


@pytest.mark.parametrize(("name", "fields"), CASES, ids=str)
def test_a_part_that_fails_at_any_point_of_a_step_leaves_no_trace(
    name: str, fields: dict[str, Any]
):
    part = Breaking(ages if name == "policy" else getattr(Policies(), name))
    fields = {"policy": TimedKey(part)} if name == "policy" else fields
    policies = Policies() if name == "policy" else Policies(**{name: part})
    engine = Engine(tiny_model(), settings(**fields), policies, draft=sometimes_right)
    arrivals, failed = arrivals_of(ASKS), 0
    queue = list(arrivals)
    while queue or not engine.scheduler.is_done():
        while queue and queue[0][0] <= engine.step_number:
            engine.submit(queue.pop(0)[1])
        before = snapshot(engine)
        for part.calls_left in (0, 1, 3, 5, None):
            with contextlib.suppress(RuntimeError):
                engine.step()
                break
            assert snapshot(engine) == before
            engine.cache.check()
            failed += 1
        part.calls_left = None
    assert failed >= 2
    assert_texts(engine, arrivals)


@pytest.mark.parametrize(
    ("name", "wrong", "words"),
    [
        ("chunk_inputs", lambda tokens, cursor, n: ([65] * n, [0] * n, True), "65"),
        ("chunk_inputs", lambda tokens, cursor, n: ([1] * n, [64] * n, True), "64"),
        ("prepare_inputs", lambda known, cursors, n: ([[65] * n[0]], [[0] * n[0]]), "token 65"),
        ("prepare_inputs", lambda known, cursors, n: ([[1] * n[0]], [[64] * n[0]]), "position 64"),
    ],
)
def test_an_answer_that_no_step_can_be_made_of_is_refused(name: str, wrong: Any, words: str):
    engine = Engine(tiny_model(), settings(**FIELDS.get(name, {})), Policies(**{name: wrong}))
    engine.submit(Request(0, prompt_of(0, 9), 3))
    before = snapshot(engine)
    with pytest.raises(PolicyError, match=words) as refused:
        engine.step()
    assert "\n" not in str(refused.value)
    assert snapshot(engine) == before


def test_k_v_that_was_rolled_back_too_far_is_computed_again():
    def passes(policies: Policies) -> int:
        engine = Engine(tiny_model(), settings(**DRAFTS), policies, draft=sometimes_right)
        arrivals = arrivals_of(ASKS[:1])
        assert engine.run(arrivals).error is None
        assert_equals_oracle(arrivals)
        return engine.step_number

    assert passes(
        Policies(roll_back_kv=lambda kv_usage, drafted, _: kv_usage - drafted - 1)
    ) > passes(Policies())


def test_blocks_that_are_never_released_run_out():
    engine = Engine(tiny_model(), settings(**BLOCKS), Policies(free_table=lambda counts, table: []))
    with pytest.raises(ValueError, match="blocks are wanted; 0 of 8 are free"):
        engine.run(arrivals_of(ASKS))


def test_an_admit_that_refuses_what_fits_has_its_way():
    engine, _ = fake_engine(EngineConfig(4), Policies(admit=lambda *_: "refuse"))
    with pytest.raises(ValueError, match="request 2 fits, and admit refused it for good"):
        engine.submit(fake_request(2, 4, 2))


@pytest.mark.parametrize("max_new", [1, 3])
def test_sampling_in_the_middle_of_a_prompt_never_breaks_the_engine(max_new: int):
    """A natural mistake: its text is wrong, and that is all that happens."""

    def always_samples(tokens: list[int], cursor: int, n: int) -> Any:
        return tokens[cursor : cursor + n], list(range(cursor, cursor + n)), True

    engine = Engine(tiny_model(), EngineConfig(4), Policies(chunk_inputs=always_samples))
    request = Request(0, prompt_of(0, 10), max_new)
    engine.run([(0, request)])
    assert (request.status, request.num_generated) == ("done", max_new)
    assert engine.cache.held_tokens() == 0
    engine.cache.check()
