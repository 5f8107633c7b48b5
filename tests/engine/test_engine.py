"""The engine: the oracle's tokens whatever the schedule; refusals leave it able to go on."""

import contextlib
import copy
import dataclasses
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from fakes import (
    TINY,
    Follower,
    assert_equals_oracle,
    fake_arrivals,
    fake_engine,
    fake_request,
    oracle,
    prompt_of,
    snapshot,
    tiny_model,
    token_at,
)

from nanogpt import load_model
from nanogpt.checkpoints.tokenizer import encode
from nanogpt.clock import CostClock
from nanogpt.config import EngineConfig
from nanogpt.engine import Engine
from nanogpt.experiments.machines import LARGE_GPU
from nanogpt.experiments.trace_waits import all_waits
from nanogpt.experiments.whole_prompts import plan_whole_prompts
from nanogpt.parts import Parts
from nanogpt.parts.masks import chunk_mask
from nanogpt.parts.request_view import RequestView
from nanogpt.planning import Plan, plan_step
from nanogpt.posts.oracle import generate
from nanogpt.request import Request
from nanogpt.trace import StepRecord
from nanogpt.validate import PartError

Arrivals = list[tuple[int, Request]]

BOTH = pytest.mark.parametrize("executor", ["packed", "padded"])


@pytest.fixture(autouse=True)
def no_endless_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a run that would never end fail instead."""
    step, taken = Engine.step, 0

    def counted(self: Engine) -> StepRecord:
        nonlocal taken
        taken += 1
        assert taken < 2000, "this run does not end"
        return step(self)

    monkeypatch.setattr(Engine, "step", counted)


def workload() -> Arrivals:
    """Eight requests, some together, some while others run: (arrival, prompt, max_new)."""
    asks = [
        (0, 9, 6),
        (0, 1, 8),
        (0, 20, 3),
        (1, 4, 1),
        (2, 13, 7),
        (5, 2, 5),
        (6, 30, 4),
        (9, 6, 6),
    ]
    return [
        (step, Request(i, prompt_of(i, length), max_new))
        for i, (step, length, max_new) in enumerate(asks)
    ]


# ---------------------------------------------------------------- the oracle


@BOTH
@pytest.mark.parametrize("token_budget", [1, 3, 8, 64])
@pytest.mark.parametrize("max_batch_size", range(1, 9))
def test_the_engine_writes_the_oracles_tokens(
    executor: str, token_budget: int, max_batch_size: int
):
    config = EngineConfig(token_budget, max_batch_size=max_batch_size, executor=executor)
    arrivals = workload()
    trace = Engine(tiny_model(), config).run(arrivals)
    assert_equals_oracle(arrivals)
    Follower(trace, config).check()


@BOTH
@pytest.mark.parametrize("token_budget", [3, 16])
def test_preemption_changes_no_token(executor: str, token_budget: int):
    config = EngineConfig(token_budget, max_kv_tokens=24, executor=executor)
    arrivals = [(i // 2, Request(i, prompt_of(i, 2 + i), 9)) for i in range(6)]
    trace = Engine(tiny_model(), config).run(arrivals)
    assert sum(len(step.preempted) for step in trace.steps) >= 2
    assert_equals_oracle(arrivals)
    Follower(trace, config).check()


@BOTH
@pytest.mark.parametrize("max_prefilling", [1, 2])
def test_a_limit_on_prefills_changes_no_token(executor: str, max_prefilling: int):
    config = EngineConfig(5, max_prefilling=max_prefilling, executor=executor)
    arrivals = workload()
    Follower(Engine(tiny_model(), config).run(arrivals), config).check()
    assert_equals_oracle(arrivals)


@BOTH
def test_whole_prompts_beside_decodes_write_the_same_tokens(executor: str):
    config = EngineConfig(4, executor=executor)
    arrivals = workload()
    trace = Engine(tiny_model(), config, Parts(plan_step=plan_whole_prompts)).run(arrivals)
    assert max(step.used_tokens for step in trace.steps) > 4
    assert_equals_oracle(arrivals)


@BOTH
@pytest.mark.parametrize(
    ("token_budget", "max_batch_size", "max_kv_tokens"), [(3, 2, None), (16, 3, 60)]
)
def test_the_shipped_model_writes_the_oracles_shakespeare(
    executor: str, token_budget: int, max_batch_size: int, max_kv_tokens: int | None
):
    model = load_model(dtype=torch.float64)
    config = EngineConfig(token_budget, max_kv_tokens, max_batch_size, executor=executor)
    texts = ["O Romeo, ", "To be or ", "KING HENRY:\n"]
    arrivals = [(2 * i, Request(i, encode(text), 12)) for i, text in enumerate(texts)]
    Engine(model, config).run(arrivals)
    for _, request in arrivals:
        assert request.generated_tokens == generate(model, request.prompt_tokens, 12)


@BOTH
def test_a_request_may_fill_the_context_to_its_last_position(executor: str):
    arrivals = [(0, Request(0, prompt_of(0, 60), 5)), (0, Request(1, prompt_of(1, 64), 1))]
    Engine(tiny_model(), EngineConfig(50, executor=executor)).run(arrivals)
    assert_equals_oracle(arrivals)


def test_both_executors_hold_the_same_keys_and_values_after_every_step():
    engines = [
        Engine(tiny_model(), EngineConfig(5, max_kv_tokens=40, executor=executor))
        for executor in ("packed", "padded")
    ]
    for engine in engines:
        for _, request in workload():
            engine.submit(request)
    compared = 0
    while not engines[0].scheduler.is_done():
        records = [engine.step() for engine in engines]
        assert records[0].work == records[1].work
        assert records[0].kv == records[1].kv
        for kv in records[0].kv:
            for layer in range(TINY.num_layers):
                ours, theirs = (engine.cache.gather(kv.request_id, layer) for engine in engines)
                torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-9)
                compared += 1
    assert compared > 80


# ---------------------------------------------------------------- sampling


@pytest.mark.parametrize(
    "config",
    [
        EngineConfig(1, temperature=2.0, seed=5),
        EngineConfig(3, temperature=2.0, seed=5, max_batch_size=2),
        EngineConfig(64, temperature=2.0, seed=5, executor="padded"),
        EngineConfig(8, temperature=2.0, seed=5, max_kv_tokens=40),
        EngineConfig(8, temperature=2.0, seed=5, max_prefilling=1, executor="padded"),
    ],
    ids=["budget 1", "batch 2", "padded", "preempting", "one prefill"],
)
def test_sampled_texts_depend_on_seed_and_request_alone(config: EngineConfig):
    arrivals = workload()
    Engine(tiny_model(), config).run(arrivals)
    assert_equals_oracle(arrivals, temperature=2.0, seed=5)


def test_sampled_texts_do_not_depend_on_who_else_is_there_or_when():
    alone = Request(4, prompt_of(4, 13), 7)
    Engine(tiny_model(), EngineConfig(temperature=2.0, seed=5)).run([(7, alone)])
    arrivals = workload()
    Engine(tiny_model(), EngineConfig(temperature=2.0, seed=5)).run(arrivals)
    assert arrivals[4][1].generated_tokens == alone.generated_tokens
    assert alone.generated_tokens != list(oracle(tuple(prompt_of(4, 13)), 7))


def test_another_seed_writes_other_texts():
    texts: list[list[int]] = []
    for seed in (0, 1):
        request = Request(0, prompt_of(0, 5), 12)
        Engine(tiny_model(), EngineConfig(temperature=5.0, seed=seed)).run([(0, request)])
        texts.append(request.generated_tokens)
    assert texts[0] != texts[1]


def test_a_dropped_step_does_not_change_a_sampled_text():
    config = EngineConfig(8, temperature=2.0, seed=5)
    engine = Engine(tiny_model(), config)
    arrivals = workload()
    for _, request in arrivals:
        engine.submit(request)
    run, dropped = engine.executor.run, 0

    def fails_every_third_time(rows: Any) -> Any:
        nonlocal dropped
        result = run(rows)
        if (len(engine.trace().steps) + dropped) % 3 != 2:
            return result
        dropped += 1
        return dataclasses.replace(result, logits=result.logits * math.nan)

    engine.executor.run = fails_every_third_time
    for _ in range(100):  # enough, and an end where an engine gets stuck
        with contextlib.suppress(ValueError):
            engine.step()
    assert dropped > 3
    assert_equals_oracle(arrivals, temperature=2.0, seed=5)


# ---------------------------------------------------------------- arrivals


def test_requests_start_at_their_step_while_others_run():
    engine, _ = fake_engine(EngineConfig(8))
    trace = engine.run(fake_arrivals([(0, 4, 20, 0), (3, 4, 2, 0), (5, 4, 2, 0)]))
    admitted = {i: step.step for step in trace.steps for i in step.admitted}
    assert admitted == {0: 0, 1: 3, 2: 5}
    assert [trace.request(i).arrival_step for i in range(3)] == [0, 3, 5]


def test_arrivals_may_come_in_any_order():
    engine, _ = fake_engine(EngineConfig(8))
    trace = engine.run(list(reversed(fake_arrivals([(0, 4, 3, 0), (2, 4, 3, 0), (1, 4, 3, 0)]))))
    assert {r.id: r.arrival_step for r in trace.requests} == {0: 0, 1: 2, 2: 1}


def test_an_idle_engine_skips_to_the_next_arrival():
    engine, fake = fake_engine(EngineConfig(8))
    trace = engine.run(fake_arrivals([(0, 2, 1, 0), (1000, 2, 1, 0)]))
    assert [step.step for step in trace.steps] == [0, 1000]
    assert len(fake.calls) == 2


def test_a_run_may_follow_a_run():
    engine, _ = fake_engine(EngineConfig(8))
    engine.run([(0, fake_request(0, 3, 2))])
    later = fake_request(1, 3, 2)
    trace = engine.run([(0, later)])
    assert (later.status, later.arrival_time) == ("done", 2)
    assert [step.step for step in trace.steps] == [0, 1, 2, 3]


def test_running_nothing_is_an_empty_trace():
    engine, _ = fake_engine(EngineConfig())
    assert engine.run([]).steps == ()


def test_a_step_with_nothing_to_serve_is_refused_in_words():
    engine, _ = fake_engine(EngineConfig())
    with pytest.raises(ValueError, match="nothing to serve"):
        engine.step()
    assert engine.trace().steps == ()


# ---------------------------------------------------------------- the record of a step


def test_a_small_run_worked_out_by_hand():
    """Budget 4: A prefills 4 + 1 (and samples), then decodes beside B's chunks."""
    engine, fake = fake_engine(EngineConfig(4))
    trace = engine.run(fake_arrivals([(0, 5, 3, 0), (1, 5, 2, 0)]))
    assert fake.calls == [
        [(0, 0, 4)],
        [(0, 4, 1), (1, 0, 3)],
        [(0, 5, 1), (1, 3, 2)],
        [(0, 6, 1), (1, 5, 1)],
    ]
    assert [step.kv_after for step in trace.steps] == [4, 8, 11, 0]
    assert [step.finished for step in trace.steps] == [(), (), (), (0, 1)]
    kinds = [
        [(work.request_id, work.kind, work.sampled) for work in step.work] for step in trace.steps
    ]
    assert kinds[1] == [(0, "prefill", token_at(0, 5)), (1, "prefill", None)]
    assert kinds[2] == [(0, "decode", token_at(0, 6)), (1, "prefill", token_at(1, 5))]


def test_whoever_waits_waits_for_a_stated_reason():
    engine, _ = fake_engine(EngineConfig(4, max_batch_size=2, max_kv_tokens=20))
    asks = [(0, 6, 4, 0), (0, 6, 4, 0), (0, 6, 4, 0), (0, 1, 1, 0)]
    waits = {wait.request_id: wait for wait in all_waits(engine.run(fake_arrivals(asks)))[0]}
    assert waits[1].reason == "the token budget is spent"
    assert "the batch is full" in waits[2].reason
    assert [waits[i].status for i in (1, 2, 3)] == ["waiting"] * 3


def test_a_plan_that_leaves_a_request_out_is_named_as_the_reason():
    def only_the_first(decodes: Any, prefilling: Any, waiting: Any, budget: int) -> Plan:
        return plan_step(decodes, prefilling, waiting, budget)[:1]

    engine, _ = fake_engine(EngineConfig(16), Parts(plan_step=only_the_first))
    first = engine.run(fake_arrivals([(0, 3, 2, 0), (0, 3, 2, 0)])).steps[0]
    assert [(wait.request_id, wait.reason) for wait in first.waits] == [(1, "the plan left it out")]


def test_time_is_charged_by_the_clock_that_was_passed_in():
    engine = Engine(tiny_model(), EngineConfig(64), clock=CostClock(LARGE_GPU))
    trace = engine.run([(0, Request(0, prompt_of(0, 10), 2))])
    assert (trace.clock.name, trace.clock.modelled) == ("a large GPU", True)
    assert trace.steps[0].end_us == LARGE_GPU.step_us(10, 0, 10)
    assert trace.steps[1].duration_us == LARGE_GPU.step_us(0, 1, 11)


def test_a_requests_keys_and_values_can_be_looked_at_while_it_runs():
    engine = Engine(tiny_model(), EngineConfig(4))
    request = Request(0, prompt_of(0, 6), 3)
    assert dict(request.kv_cache) == {}
    engine.submit(request)
    engine.step()
    assert sorted(request.kv_cache) == [(0, 0), (0, 1), (1, 0), (1, 1)]
    k, v = request.kv_cache[1, 0]
    assert k.shape == v.shape == (1, 4, 8)
    assert torch.equal(k[0], engine.cache.gather(0, 1)[0][0])
    with pytest.raises(TypeError):
        request.kv_cache[0, 0] = (k, v)  # pyright: ignore


# ---------------------------------------------------------------- bad requests

FULL = "context of 64"
BAD_REQUESTS = [
    ({"prompt_tokens": []}, "empty prompt"),
    ({"prompt_tokens": [1, -1]}, r"token -1, outside the vocabulary 0\.\.64"),
    ({"prompt_tokens": [1, 65]}, r"token 65, outside the vocabulary 0\.\.64"),
    ({"prompt_tokens": [1] * 65}, f"prompt of 65 tokens, longer than the {FULL}"),
    ({"prompt_tokens": [1] * 30, "max_new_tokens": 36}, rf"30 \+ 36 - 1 = 65 .*{FULL}"),
    ({"prompt_tokens": [1] * 30, "max_new_tokens": 12}, r"30 \+ 12 - 1 = 41 .*budget of 40"),
    ({"max_new_tokens": 0}, "max_new_tokens is 0; it must be at least 1"),
    ({"max_new_tokens": -3}, "max_new_tokens is -3"),
    ({"id": 0}, "a request 0 already"),
    ({"prompt_tokens": [1, 2.0]}, r"2\.0"),
    ({"prompt_tokens": [1, True]}, "True"),
    ({"prompt_tokens": [1, "2"]}, "'2'"),
    ({"prompt_tokens": [1, None]}, "None"),
    ({"prompt_tokens": "To be"}, "prompt"),
    ({"prompt_tokens": None}, "prompt"),
    ({"prompt_tokens": torch.tensor([1, 2])}, "prompt"),
    ({"max_new_tokens": 2.5}, r"2\.5"),
    ({"max_new_tokens": True}, "True"),
    ({"max_new_tokens": "3"}, "'3'"),
    ({"max_new_tokens": None}, "None"),
    ({"max_new_tokens": math.nan}, "nan"),
    ({"id": "a"}, "'a'"),
    ({"id": 1.5}, r"1\.5"),
    ({"id": None}, "None"),
    ({"id": True}, "True"),
    ({"priority": "high"}, "'high'"),
    ({"priority": math.nan}, "nan"),
    ({"generated_tokens": [5]}, "has been served before"),
    ({"prefill_cursor": 2}, "has been served before"),
    ({"status": "done"}, "has been served before"),
]  # fmt: skip


@pytest.mark.parametrize(("wrong", "words"), BAD_REQUESTS, ids=lambda value: str(value)[:40])
def test_a_bad_request_is_refused_in_words_and_the_engine_goes_on(
    wrong: dict[str, Any], words: str
):
    engine = Engine(tiny_model(), EngineConfig(4, max_kv_tokens=40))
    good = [(0, Request(0, prompt_of(0, 9), 4)), (0, Request(2, prompt_of(2, 5), 4))]
    for _, request in good:
        engine.submit(request)
    engine.step()
    before = snapshot(engine)
    bad: dict[str, Any] = {"id": 1, "prompt_tokens": [1, 2], "max_new_tokens": 3, **wrong}
    with pytest.raises(ValueError, match=words):
        engine.submit(Request(**bad))
    assert snapshot(engine) == before
    engine.run([(0, Request(3, prompt_of(3, 3), 2))])
    assert_equals_oracle(good)


def test_the_same_request_twice_is_refused_and_keeps_its_place():
    engine, _ = fake_engine(EngineConfig(4, max_batch_size=1))
    first, second = fake_request(0, 4, 4), fake_request(1, 4, 4)
    engine.submit(first)
    engine.submit(second)
    engine.step()
    for request in (first, second):
        before = snapshot(engine)
        with pytest.raises(ValueError, match=f"request {request.id} "):
            engine.submit(request)
        assert snapshot(engine) == before
    assert (first.arrival_time, second.arrival_time) == (0, 0)
    engine.run([])
    with pytest.raises(ValueError, match="request 0 has been served before"):
        engine.submit(first)


def test_a_request_belongs_to_one_engine():
    ours, theirs = fake_engine(EngineConfig(4))[0], fake_engine(EngineConfig(4))[0]
    request = fake_request(0, 4, 4)
    ours.submit(request)
    with pytest.raises(ValueError, match="request 0"):
        theirs.submit(request)
    ours.run([])
    assert request.num_generated == 4
    assert theirs.scheduler.is_done()


def test_a_refused_request_may_be_corrected_and_submitted_again():
    engine, _ = fake_engine(EngineConfig(4))
    request = fake_request(0, 4, 0)
    with pytest.raises(ValueError, match="max_new_tokens is 0"):
        engine.submit(request)
    request.max_new_tokens = 2
    engine.run([(0, request)])
    assert request.status == "done"


@pytest.mark.parametrize("step", [2.5, "0", None, -1, math.nan])
def test_an_arrival_step_that_is_no_step_is_refused(step: Any):
    engine, _ = fake_engine(EngineConfig(4))
    with pytest.raises(ValueError, match=f"{step}"):
        engine.run([(step, fake_request(0, 4, 2))])
    assert engine.step_number == 0
    engine.run([(0, fake_request(1, 4, 2))])


# ---------------------------------------------------------------- bad settings


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ({"token_budget": 0}, "token_budget is 0; it must be"),
        ({"token_budget": -1}, "token_budget is -1"),
        ({"token_budget": 2.5}, r"token_budget is 2\.5"),
        ({"token_budget": "16"}, "token_budget is '16'"),
        ({"token_budget": None}, "token_budget is None"),
        ({"token_budget": math.nan}, "token_budget is nan"),
        ({"token_budget": True}, "token_budget is True"),
        ({"max_kv_tokens": 0}, "max_kv_tokens is 0"),
        ({"max_kv_tokens": math.nan}, "max_kv_tokens is nan"),
        ({"max_batch_size": 0}, "max_batch_size is 0"),
        ({"max_batch_size": None}, "max_batch_size is None"),
        ({"max_prefilling": 0}, "max_prefilling is 0"),
        ({"temperature": -0.5}, r"temperature is -0\.5"),
        ({"temperature": math.nan}, "temperature is nan"),
        ({"temperature": math.inf}, "temperature is inf"),
        ({"temperature": "hot"}, "temperature is '?hot"),
        ({"temperature": None}, "temperature is None"),
        (
            {"executor": "paged"},
            r"no executor 'paged'; choose from \['fused', 'packed', 'padded', 'strip'\]",
        ),
        ({"executor": None}, "no executor None"),
        ({"executor": ["packed"]}, "no executor"),
        ({"seed": "x"}, "seed"),
        ({"seed": 1.5}, "seed"),
    ],
    ids=str,
)  # fmt: skip
def test_a_bad_setting_is_refused_by_name_value_and_limit(setting: dict[str, Any], words: str):
    with pytest.raises(ValueError, match=words):
        Engine(tiny_model(), EngineConfig(**setting))


# ---------------------------------------------------------------- steps that fail


@pytest.mark.parametrize("nan_at", range(7))
def test_a_step_with_nan_logits_is_dropped_whole(nan_at: int):
    config = EngineConfig(4, max_kv_tokens=14)
    engine, _ = fake_engine(config, nan_at=nan_at)
    for _, request in fake_arrivals([(0, 5, 4, 0), (0, 5, 4, 0)]):
        engine.submit(request)
    for _ in range(nan_at):
        engine.step()
    before = snapshot(engine)
    with pytest.raises(ValueError, match=rf"step {nan_at}: .*request \d .*not finite"):
        engine.step()
    assert snapshot(engine) == before
    trace = engine.run([])
    assert trace.generated_tokens(0) == tuple(token_at(0, p) for p in range(5, 9))
    assert trace.generated_tokens(1) == tuple(token_at(1, p) for p in range(5, 9))
    Follower(trace, config).check()


@BOTH
def test_poisoned_weights_are_noticed_and_the_engine_goes_on_once_they_are_healed(executor: str):
    model = copy.deepcopy(tiny_model())
    engine = Engine(model, EngineConfig(8, executor=executor))
    arrivals = workload()
    for _, request in arrivals:
        engine.submit(request)
    for _ in range(4):
        engine.step()
    gain = model.blocks[0].ln_1.weight
    healthy = gain.clone()
    for poison in (math.nan, math.inf):
        before = snapshot(engine)
        gain.fill_(poison)
        with pytest.raises(ValueError, match="not finite"):
            engine.step()
        assert snapshot(engine) == before
        gain.copy_(healthy)
    engine.run([])
    assert_equals_oracle(arrivals)


@BOTH
def test_a_step_dropped_for_nan_leaves_nothing_behind_in_the_cache(executor: str):
    """After the drop, the plan takes smaller chunks: NaN must not wait in the slots beyond them."""
    model = copy.deepcopy(tiny_model())
    small = False

    def plan(decodes: Any, prefilling: Any, waiting: Any, budget: int) -> Plan:
        whole = plan_step(decodes, prefilling, waiting, budget)
        return [(request_id, 1) for request_id, _ in whole] if small else whole

    engine = Engine(model, EngineConfig(30, executor=executor), Parts(plan_step=plan))
    arrivals = [(0, Request(0, prompt_of(0, 12), 6)), (1, Request(1, prompt_of(1, 10), 6))]
    engine.submit(arrivals[0][1])
    engine.step()
    engine.submit(arrivals[1][1])
    gain = model.blocks[0].ln_1.weight
    healthy = gain.clone()
    gain.fill_(math.nan)
    with pytest.raises(ValueError, match="not finite"):
        engine.step()
    gain.copy_(healthy)
    small = True
    engine.run([])
    assert_equals_oracle(arrivals)


# ---------------------------------------------------------------- learners' parts


def broken_plan(*_: Any) -> Plan:
    raise RuntimeError("oh no")


def endless_plan(*_: Any) -> Plan:
    while True:
        pass


def empties_what_it_was_given(decodes: Any, prefilling: Any, waiting: Any, budget: int) -> Plan:
    plan = plan_step(decodes, prefilling, waiting, budget)
    for gift in (decodes, prefilling, waiting):
        gift.clear()
    return plan


ILLEGAL: list[tuple[Any, str]] = [
    (lambda *_: None, "NoneType"),
    (lambda *_: [], "no progress"),
    (lambda *_: [(99, 1)], "names request 99"),
    (lambda *_: [(0, 1), (0, 1)], "request 0 twice"),
    (lambda *_: [(0, 0)], "0 tokens"),
    (lambda *_: [(0, 2)], "request 0 2 tokens; it has 1 left"),
    (lambda *_: [(1, 100)], "100 tokens"),
    (lambda *_: [(1, 1.5)], "pair of integers"),
    (lambda *_: [(True, 1)], "pair of integers"),
    (lambda *_: 1 // 0, "your plan_step raised ZeroDivisionError"),
    (lambda decodes: [], "your plan_step raised TypeError"),
    (broken_plan, "your plan_step raised RuntimeError .*oh no"),
    (endless_plan, "your plan_step (took longer than 1 s|had not finished)"),
]


@pytest.mark.parametrize(("part", "words"), ILLEGAL, ids=[words for _, words in ILLEGAL])
def test_a_plan_that_fails_changes_nothing_and_a_better_one_goes_on(part: Any, words: str):
    broken = False

    def plan(*args: Any) -> Plan:
        return part(*args) if broken else plan_step(*args)

    config = EngineConfig(4, max_kv_tokens=30)
    engine, fake = fake_engine(config, Parts(plan_step=plan))
    for _, request in fake_arrivals([(0, 3, 4, 0), (0, 12, 4, 0), (0, 12, 4, 0)]):
        engine.submit(request)
    engine.step()
    before, calls = snapshot(engine), len(fake.calls)
    broken = True
    with pytest.raises(PartError, match=words) as refused:
        engine.step()
    assert "\n" not in str(refused.value)
    assert (snapshot(engine), len(fake.calls)) == (before, calls)
    broken = False
    Follower(engine.run([]), config).check()


def test_a_part_cannot_change_the_engine_through_what_it_is_given():
    config = EngineConfig(4)
    engine, _ = fake_engine(config, Parts(plan_step=empties_what_it_was_given))
    Follower(engine.run(fake_arrivals([(0, 9, 4, 0), (1, 9, 4, 0)])), config).check()


WRONG_PARTS: list[tuple[str, Callable[..., Any], str]] = [
    ("chunk_mask", lambda past, new: None, "your chunk_mask"),
    ("chunk_mask", lambda past, new: 1 // 0, "your chunk_mask raised"),
    ("chunk_mask", lambda past, new: torch.zeros(new, past + new).bool(), "no key at all"),
    ("chunk_mask", lambda past, new: chunk_mask(past + 1, new), "must be a torch.bool tensor"),
    ("chunk_inputs", lambda tokens, cursor, n: None, "your chunk_inputs"),
    ("chunk_inputs", lambda tokens, cursor, n: 1 // 0, "your chunk_inputs raised"),
    ("chunk_inputs", lambda tokens, cursor, n: (tokens, list(range(len(tokens))), True), "must be"),
    ("chunk_inputs", lambda tokens, cursor, n: ([65] * n, [0] * n, True), "65"),
    ("chunk_inputs", lambda tokens, cursor, n: ([1] * n, [64] * n, True), "64"),
    ("chunk_inputs", lambda tokens, cursor, n: ([1] * n, [0] * n, False), "does not sample"),
]  # fmt: skip


@BOTH
@pytest.mark.parametrize(
    ("name", "part", "words"),
    WRONG_PARTS,
    ids=[f"{name}: {words}" for name, _, words in WRONG_PARTS],
)
def test_a_part_that_fails_is_named_and_a_better_one_goes_on(
    executor: str, name: str, part: Callable[..., Any], words: str
):
    reference, broken = getattr(Parts(), name), False

    def switch(*args: Any) -> Any:
        return part(*args) if broken else reference(*args)

    config = EngineConfig(16, max_kv_tokens=40, executor=executor)
    engine = Engine(tiny_model(), config, Parts(**{name: switch}))
    arrivals = workload()
    engine.submit(arrivals[0][1])
    engine.step()
    for _, request in arrivals[1:]:
        engine.submit(request)
    before, broken = snapshot(engine), True
    with pytest.raises(PartError, match=words):
        engine.step()
    assert snapshot(engine) == before
    broken = False
    Follower(engine.run([]), config).check()
    assert_equals_oracle(arrivals)


@pytest.mark.parametrize(("prompt_len", "max_new"), [(10, 1), (10, 3), (3, 1)])
def test_sampling_in_the_middle_of_a_prompt_never_breaks_the_engine(prompt_len: int, max_new: int):
    """A natural mistake: its text is wrong, and that is all that happens."""

    def always_samples(tokens: list[int], cursor: int, n: int) -> Any:
        return tokens[cursor : cursor + n], list(range(cursor, cursor + n)), True

    engine = Engine(tiny_model(), EngineConfig(4), Parts(chunk_inputs=always_samples))
    request = Request(0, prompt_of(0, prompt_len), max_new)
    engine.run([(0, request)])
    assert (request.status, request.num_generated) == ("done", max_new)
    assert engine.cache.held_tokens() == 0
    engine.cache.check()


def test_a_sort_key_that_fails_leaves_the_request_unsubmitted():
    broken = True

    def sort_key(policy: str, request: RequestView) -> tuple[int, ...]:
        return (1 // (not broken),)

    engine, _ = fake_engine(EngineConfig(4), Parts(sort_key=sort_key))
    before = snapshot(engine)
    with pytest.raises(PartError, match="your sort_key raised ZeroDivisionError"):
        engine.submit(fake_request(0, 4, 2))
    assert snapshot(engine) == before
    broken = False
    engine.run([(0, fake_request(0, 4, 2))])


def test_a_sort_key_is_asked_once_per_request_even_when_it_is_preempted():
    asked: list[int] = []

    def sort_key(policy: str, request: RequestView) -> tuple[int, ...]:
        asked.append(request.id)
        return (request.arrival_time,)

    config = EngineConfig(16, max_kv_tokens=22)
    engine, _ = fake_engine(config, Parts(sort_key=sort_key))
    trace = engine.run(fake_arrivals([(0, 10, 12, 0), (0, 10, 12, 0)]))
    assert any(step.preempted for step in trace.steps)
    assert asked == [0, 1]


@pytest.mark.parametrize("answer", [None, 3, "first", ("x",), (math.nan,)])
def test_a_sort_key_that_is_no_tuple_of_numbers_is_refused(answer: Any):
    engine, _ = fake_engine(EngineConfig(4), Parts(sort_key=lambda policy, request: answer))
    with pytest.raises(PartError, match="sort_key"):
        engine.submit(fake_request(0, 4, 2))
    assert engine.scheduler.is_done()


@pytest.mark.parametrize("answer", [99, None, "1"])
def test_a_victim_that_does_not_run_is_refused_before_anything_changes(answer: Any):
    engine, _ = fake_engine(
        EngineConfig(16, max_kv_tokens=22), Parts(choose_victim=lambda _: answer)
    )
    for request in (fake_request(0, 10, 12), fake_request(1, 10, 12)):
        engine.submit(request)
    with pytest.raises(PartError, match=f"choose_victim named '?{answer}"):
        engine.run([])
    before = snapshot(engine)
    with pytest.raises(PartError, match="choose_victim"):
        engine.step()
    assert snapshot(engine) == before


# ---------------------------------------------------------------- liveness


@pytest.mark.parametrize("max_new", [5, 8, 10, 12, 13])
@pytest.mark.parametrize("token_budget", [1, 4, 16])
def test_the_workload_that_livelocks_the_posts_scheduler_finishes(max_new: int, token_budget: int):
    """Two equal prompts of 10 and 22 KV tokens; the posts' victim rule never ends."""
    config = EngineConfig(token_budget, max_kv_tokens=22)
    engine, _ = fake_engine(config)
    trace = engine.run(fake_arrivals([(0, 10, max_new, 0), (0, 10, max_new, 0)]))
    Follower(trace, config).check()
    assert all(step.preempted in ((), (1,)) for step in trace.steps)
    assert len(trace.steps) < 2 * (20 + 2 * max_new) + 20


def test_even_the_oldest_as_victim_finishes_since_sampled_tokens_are_kept():
    def oldest(running: Any) -> int:
        return min(running, key=lambda request: (request.arrival_time, request.id)).id

    config = EngineConfig(4, max_kv_tokens=22)
    engine, _ = fake_engine(config, Parts(choose_victim=oldest))
    trace = engine.run(fake_arrivals([(0, 10, 12, 0), (0, 10, 12, 0)]))
    Follower(trace, config).check()
    assert (0,) in [step.preempted for step in trace.steps]


def test_decodes_beyond_the_budget_take_turns():
    """The reference never has more decodes than budget; a plan that admits freely does."""

    def admits_freely(decodes: Any, prefilling: Any, waiting: Any, budget: int) -> Plan:
        plan = plan_whole_prompts if waiting else plan_step
        return plan(decodes, prefilling, waiting, budget)

    engine, fake = fake_engine(EngineConfig(2), Parts(plan_step=admits_freely))
    engine.run(fake_arrivals([(0, 1, 5, 0)] * 5))
    names = [[request_id for request_id, *_ in call] for call in fake.calls]
    assert names[:6] == [[0, 1, 2, 3, 4], [0, 1], [2, 3], [4, 0], [1, 2], [3, 0]]
    assert len(names) == 1 + 5 * 4 // 2


def test_a_preempted_request_keeps_its_tokens_and_computes_them_again():
    config = EngineConfig(16, max_kv_tokens=22)
    engine, fake = fake_engine(config)
    engine.run(fake_arrivals([(0, 10, 5, 0), (0, 10, 5, 0)]))
    restarts = [call for call in fake.calls[1:] for row in call if row[:2] == (1, 0)]
    assert restarts == [[(1, 0, 11)]]
