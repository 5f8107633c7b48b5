"""Whatever a caller hands in: one sentence that names it, and an engine that serves the next."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from fakes import assert_equals_oracle, fake_arrivals, fake_engine, prompt_of, snapshot, tiny_model

from nanogpt import (
    Engine,
    EngineConfig,
    Policies,
    Request,
    TextbookModel,
    chunked_prefill_generate,
    interleaved_generate,
    scheduled_generate,
)
from nanogpt.clock import CostClock
from nanogpt.config import TimedKey
from nanogpt.recorded_texts import RecordedTexts
from nanogpt.validate import PolicyError

Call = Callable[[Engine], object]


def ask(request_id: int = 9, **fields: Any) -> Request:
    """A good request, but for the fields that are given."""
    whole: dict[str, Any] = {"id": request_id, "prompt_tokens": [1, 2, 3], "max_new_tokens": 2}
    return Request(**{**whole, **fields})


class Unspeakable:
    """An object that cannot even be shown."""

    def __repr__(self) -> str:
        raise RuntimeError("no words")


def assert_a_sentence(error: BaseException) -> None:
    assert "\n" not in str(error)
    assert len(str(error)) < 250


# ---------------------------------------------------------------- handed to an engine that serves

FIELDS: list[tuple[dict[str, Any], str]] = [
    ({"id": "a"}, "a request's id is 'a'; it must be a whole number"),
    ({"id": 0}, "there is a request 0 already; ids must be unique"),
    ({"prompt_tokens": []}, "request 9 has an empty prompt"),
    ({"prompt_tokens": [1, 65]}, r"request 9 holds token 65, outside the vocabulary 0\.\.64"),
    ({"prompt_tokens": [1, True]}, "holds token True; a token must be an int"),
    ({"prompt_tokens": [1] * 10**5}, "prompt of 100000 tokens, longer than the context of 64"),
    ({"prompt_tokens": [1] * 30, "max_new_tokens": 36}, r"30 \+ 36 - 1 = 65 positions, more than"),
    ({"prompt_tokens": [1] * 30, "max_new_tokens": 12}, r"30 \+ 12 - 1 = 41 .*KV budget of 40"),
    ({"max_new_tokens": 0}, "request 9: max_new_tokens is 0; it must be at least 1"),
    ({"generated_tokens": (1, 2)}, "request 9: generated_tokens is "),
    ({"generated_tokens": [5]}, "has been served before"),
    ({"status": "done"}, "request 9 has the status 'done'; a new one is 'waiting'"),
    ({"seed": -1}, "seed is -1"),
]
CALLS: list[tuple[Call, str]] = [
    *((lambda e, fields=fields: e.submit(ask(**fields)), words) for fields, words in FIELDS),
    (lambda e: e.submit(Unspeakable()), "the request is "),  # pyright: ignore
    (lambda e: e.run(iter([(0, ask())])), "arrivals is of type list_iterator; it must be a list"),
    (lambda e: e.run([ask()]), "an arrival is Request"),
    (lambda e: e.run([(0, ask(7)), (0, None)]), "the request is None"),
    (lambda e: e.run([(0, ask(7)), (0, ask(7))]), "there are two requests 7; ids must be unique"),
    (lambda e: e.run([(True, ask())]), "the arrival step of request 9 is True"),
    (lambda e: e.run([], max_steps=0), "max_steps is 0; it must be at least 1"),
    (lambda e: e.abort([0]), r"there is no unfinished request \[0\] to abort"),  # pyright: ignore
    (lambda e: e.reconfigure({}), "the config is {}; it must be an EngineConfig"),  # pyright: ignore
    (lambda e: e.reconfigure(replace(e.config, max_kv_tokens=8)), r"6 \+ 4 - 1 = 9 .*budget of 8"),
    (lambda e: e.reconfigure(replace(e.config, policy=lambda _: 5)), "policy for request 0 return"),  # pyright: ignore
]


@pytest.mark.parametrize(("call", "words"), CALLS, ids=[words for _, words in CALLS])
def test_what_is_no_request_is_refused_in_a_sentence_and_the_engine_goes_on(call: Call, words: str):
    engine = Engine(tiny_model(), config := EngineConfig(4, max_kv_tokens=40))
    good = [Request(i, prompt_of(i, 6), 4) for i in range(2)]
    engine.submit(good[0])
    engine.step()
    before = snapshot(engine)
    with pytest.raises((ValueError, PolicyError), match=words) as refusal:
        call(engine)
    assert_a_sentence(refusal.value)
    assert (snapshot(engine), engine.config) == (before, config)
    engine.run([(0, good[1])])
    assert_equals_oracle([(0, request) for request in good])


# ---------------------------------------------------------------- what an engine is built from

SETTINGS: list[tuple[dict[str, Any], str]] = [
    ({"token_budget": True}, "token_budget is True; it must be a whole number"),
    ({"max_kv_tokens": math.nan}, "max_kv_tokens is nan"),
    ({"max_batch_size": 10**18}, "no memory for 1000000000"),
    ({"policy": "lifo"}, "there is no policy 'lifo'; choose 'fcfs', 'priority' or a key"),
    ({"policy": TimedKey(5)}, "the key of a TimedKey is 5; it must be callable"),  # pyright: ignore
    ({"temperature": math.inf}, "temperature is inf"),
    ({"executor": "paged"}, r"no executor 'paged'; choose from \['batch_invariant', 'compiled',"),
    ({"sliding_window": 0}, "sliding_window is 0; it must be at least 1"),
    ({"num_sinks": 1}, "num_sinks is 1; without a window everything is kept"),
    ({"kv_storage": "paged"}, r"no K/V storage 'paged'; choose from \['evict', 'ring'\]"),
    ({"block_size": 0}, "block_size is 0; it must be at least 1"),
    ({"share_prefixes": True}, "it goes with a block_size"),
    ({"block_size": 4, "share_prefixes": 1}, "share_prefixes is 1; it must be True or False"),
    ({"block_size": 9, "max_kv_tokens": 8}, "block_size is 9, more than the 8 KV tokens"),
    ({"block_size": 2**40, "max_kv_tokens": 2**50}, "no memory for 1024 blocks of 10995116277"),
    ({"num_draft_tokens": 2, "executor": "single_mask"}, "'single_mask' verifies no drafts"),
    ({"num_draft_tokens": 2, "sliding_window": 8}, "is 2 under a sliding window of 8"),
    ({"num_draft_tokens": -1}, "num_draft_tokens is -1"),
]
FAKE_NEEDS: list[tuple[dict[str, Any], str]] = [
    ({"block_size": 4, "share_prefixes": True}, "the executor 'fake' keeps its K/V elsewhere"),
    ({"num_draft_tokens": 2}, "the executor 'fake' gives no logits to verify drafts by"),
]
MODEL, RECORDED = tiny_model(), RecordedTexts()
BUILDS: list[tuple[Callable[[], Any], str]] = [
    *((lambda each=each: Engine(MODEL, EngineConfig(**each)), words) for each, words in SETTINGS),
    *((lambda each=each: fake_engine(EngineConfig(**each)), words) for each, words in FAKE_NEEDS),
    (
        lambda: Engine(tiny_model(), EngineConfig(block_size=8)).reconfigure(
            EngineConfig(block_size=8, policy="priority")
        ),
        "an engine with blocks or drafts cannot change while the engine runs",
    ),
    (lambda: Engine(TextbookModel(MODEL)), "the model is "),  # pyright: ignore
    (lambda: Engine(MODEL, {"token_budget": 4}), "the config is {'token_budget': 4}"),  # pyright: ignore
    (
        lambda: Engine(RECORDED, EngineConfig(executor="padded")),
        "executor is 'padded'; it must be ",
    ),
    (lambda: Engine(RECORDED, EngineConfig(sliding_window=4)), "sliding_window is 4; it must be N"),
    (lambda: Engine(MODEL, policies={}), "policies is {}"),  # pyright: ignore
    (lambda: Engine(MODEL, make_executor=5), "make_executor is 5; it must be"),  # pyright: ignore
    (lambda: Engine(MODEL, make_executor=lambda *_: None), "what make_executor made is None"),  # pyright: ignore
    (lambda: Policies(plan_step=None), "the policy plan_step is None; it must be a function"),  # pyright: ignore
    (lambda: scheduled_generate(MODEL, iter([ask()])), "requests is "),  # pyright: ignore
    (lambda: interleaved_generate(MODEL, [ask()], executor="padded"), "'padded' takes two forward"),
    (lambda: chunked_prefill_generate(MODEL, None), "request_queue is None"),  # pyright: ignore
]


@pytest.mark.parametrize(("build", "words"), BUILDS, ids=[words for _, words in BUILDS])
def test_what_an_engine_cannot_be_built_from_is_refused_in_a_sentence(
    build: Callable[[], object], words: str
):
    with pytest.raises(ValueError, match=words) as refusal:
        build()
    assert_a_sentence(refusal.value)


# ---------------------------------------------------------------- the caller's own objects


def test_lists_that_the_caller_changes_after_handing_them_in_are_no_business_of_the_run():
    prompt, generated = prompt_of(0, 6), list[int]()
    requests = [Request(i, prompt, 4, generated_tokens=generated) for i in range(3)]
    arrivals = [(0, request) for request in requests]

    class Vandal(CostClock):
        def charge(self, forwards: Any) -> None:
            arrivals.clear()
            prompt[:] = [77] * 9
            super().charge(forwards)

    Engine(tiny_model(), EngineConfig(2), clock=Vandal()).run(arrivals)
    assert generated == []
    assert all(request.prompt_tokens == prompt_of(0, 6) for request in requests)
    assert_equals_oracle([(0, request) for request in requests])


@pytest.mark.parametrize("budget", [None, 256])
def test_a_request_that_no_rule_lets_start_is_told_why_and_not_waited_for_ever(budget: int | None):
    engine, _ = fake_engine(EngineConfig(max_kv_tokens=budget), Policies(admit=lambda *_: "wait"))
    with pytest.raises(ValueError, match=r"nothing can ever run again: .*admit said 'wait'"):
        engine.run(fake_arrivals([(0, 10, 3, 0)]))
