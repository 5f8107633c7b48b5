"""Whatever a caller hands in: one sentence that names it, and an engine that serves the next."""

import copy
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from fakes import assert_equals_oracle, prompt_of, tiny_model

from nanogpt import (
    Engine,
    EngineConfig,
    Parts,
    Request,
    Scheduler,
    TextbookModel,
    chunked_prefill_generate,
    interleaved_generate,
    scheduled_generate,
)
from nanogpt.clock import CostClock
from nanogpt.engine import TRIES
from nanogpt.speculative.trigram import TrigramDraft

Call = Callable[[Engine], object]


def ask(request_id: int = 9, **fields: Any) -> Request:
    """A good request, but for the fields that are given."""
    whole: dict[str, Any] = {"id": request_id, "prompt_tokens": [1, 2, 3], "max_new_tokens": 2}
    return Request(**{**whole, **fields})


class Unspeakable:
    """An object that cannot even be shown."""

    def __repr__(self) -> str:
        raise RuntimeError("no words")


NOTHINGS: list[Any] = [None, 5, 2.5, True, "x", b"x", {}, [], (), object(), {1, 2}, Unspeakable()]
PARTS = ["plan_step", "chunk_mask", "evict", "held", "visible", "ring_slot", "accept", "sort_key"]

# ---- handed to an engine that is serving: (what is done, words of the refusal)

CALLS: list[tuple[Call, str]] = [
    *[(lambda e, x=x: e.submit(x), "the request is ") for x in NOTHINGS],
    (lambda e: e.submit(ask), "the request is <function"),
    (lambda e: e.submit(Request), "the request is <class"),
    (lambda e: e.submit((0, ask())), r"the request is \(0, Request"),  # pyright: ignore
    *[(lambda e, x=x: e.run(x), "arrivals is ") for x in (None, 5, 2.5, object(), {0: ask()})],
    (lambda e: e.run(ask()), "arrivals is Request"),
    (lambda e: e.run(iter([(0, ask())])), "arrivals is of type list_iterator; it must be a list"),
    (lambda e: e.run((0, ask()) for _ in range(1)), "arrivals is <generator object"),
    (lambda e: e.run([ask()]), "an arrival is Request"),
    (lambda e: e.run([None]), "an arrival is None"),
    (lambda e: e.run([(0,)]), r"an arrival is \(0,\)"),
    (lambda e: e.run([(0, ask(), 1)]), r"an arrival is \(0, Request"),
    (lambda e: e.run([{0: ask()}]), "an arrival is {0: Request"),
    (lambda e: e.run("ab"), "an arrival is 'a'"),
    (lambda e: e.run(["ab"]), "an arrival is 'ab'"),
    (lambda e: e.run((0, ask())), "an arrival is 0"),
    (lambda e: e.run([(ask(), 0)]), "the request is 0"),
    (lambda e: e.run([(0, None)]), "the request is None"),
    (lambda e: e.run([(0, ask(7)), (0, None)]), "the request is None"),
    (lambda e: e.run([(0, ask(7)), (0, ask(7))]), "there are two requests 7"),
    (lambda e: e.run([(None, ask())]), "the arrival step of request 9 is None"),
    (lambda e: e.run([(True, ask())]), "the arrival step of request 9 is True"),
    (lambda e: e.run([(1.0, ask())]), "the arrival step .* is 1.0"),
    (lambda e: e.run([], max_steps=0), "max_steps is 0; it must be at least 1"),
    (lambda e: e.run([], max_steps="3"), "max_steps is '3'"),
    (lambda e: e.run([], max_steps=math.inf), "max_steps is inf"),
    *[
        (lambda e, f=f, x=x: e.submit(ask(**{f: x})), f"{words} is ")
        for f, words in [
            ("id", "a request's id"),
            ("max_new_tokens", "request 9: max_new_tokens"),
            ("priority", "request 9: priority"),
            ("arrival_time", "request 9: arrival_time"),
            ("prefill_cursor", "request 9: prefill_cursor"),
        ]
        for x in (None, "1", 1.0, True, -1, [1], math.nan, torch.tensor(1), np.int64(1))
    ],
    *[
        (lambda e, f=f, x=x: e.submit(ask(**{f: x})), f"request 9: {words} is ")
        for f, words in [("prompt_tokens", "the prompt"), ("generated_tokens", "generated_tokens")]
        for x in (None, 5, "1", (1, 2), {1: 2}, np.array([1, 2]), torch.tensor([1]), range(3))
    ],
    *[
        (lambda e, x=x: e.submit(ask(prompt_tokens=[1, x])), "request 9 holds token ")
        for x in (None, "2", 2.0, True, -1, 65, 10**30, [1], math.nan, np.int64(1), Unspeakable())
    ],
    (lambda e: e.submit(ask(max_new_tokens=10**30)), "positions, more than the context of 64"),
    (lambda e: e.submit(ask(prompt_tokens=[1] * 10**5)), "prompt of 100000 tokens"),
    (lambda e: e.submit(ask(status=None)), "has been served before"),
    (lambda e: e.submit(ask(generated_tokens=[1])), "has been served before"),
    (lambda e: e.submit(ask(0)), "there is a request 0 already"),
    (lambda e: e.scheduler.add_request(None), "the request is None"),  # pyright: ignore
    (lambda e: e.scheduler.add_request(ask(prompt_tokens=None)), "the prompt is None"),
]


@pytest.mark.parametrize(
    ("call", "words"), CALLS, ids=[f"{i}-{w}" for i, (_, w) in enumerate(CALLS)]
)
def test_what_is_no_request_is_refused_in_a_sentence_and_the_engine_goes_on(call: Call, words: str):
    engine = Engine(tiny_model(), EngineConfig(4, max_kv_tokens=40))
    good = [Request(i, prompt_of(i, 6), 4) for i in range(2)]
    engine.submit(good[0])
    engine.step()
    with pytest.raises(ValueError, match=words) as refusal:
        call(engine)
    assert_a_sentence(refusal.value)
    engine.run([(0, good[1])])
    assert_equals_oracle([(0, request) for request in good])


def assert_a_sentence(error: BaseException) -> None:
    assert "\n" not in str(error)
    assert len(str(error)) < 250


# ---- what an engine is built from

MODEL = tiny_model()
BUILDS: list[tuple[Callable[[], object], str]] = [
    *[(lambda x=x: Engine(x), "the model is ") for x in [*NOTHINGS, TextbookModel(MODEL)]],
    *[(lambda x=x: Engine(MODEL, x), "the config is ") for x in NOTHINGS],
    (lambda: Engine(MODEL, {"token_budget": 4}), "the config is {'token_budget': 4}"),  # pyright: ignore
    (lambda: Engine(MODEL, EngineConfig), "the config is <class"),  # pyright: ignore
    *[(lambda x=x: Engine(MODEL, parts=x), "parts is ") for x in NOTHINGS],
    *[(lambda x=x: Engine(MODEL, clock=x), "the clock is ") for x in NOTHINGS if x is not None],
    *[
        (lambda x=x: Engine(MODEL, make_executor=x), "make_executor is ")
        for x in NOTHINGS
        if x is not None
    ],
    *[(lambda x=x: Engine(MODEL, draft=x), "the draft is ") for x in NOTHINGS if x is not None],
    (
        lambda: Engine(MODEL, make_executor=lambda *_: None),  # pyright: ignore
        "what make_executor made is None; it must be an executor with `run`",
    ),
    *[
        (lambda n=n, x=x: Parts(**{n: x}), f"the part {n} is .*; it must be a function")
        for n in PARTS
        for x in (None, 5, "mask")
    ],
    *[
        (lambda x=x: EngineConfig(preempt_to_admit=x), "preempt_to_admit is .*True or False")
        for x in ("yes", 1, 0, None, [])
    ],
    *[
        (lambda x=x: Scheduler(preempt_to_admit=x), "preempt_to_admit is .*True or False")
        for x in ("yes", 1, None)
    ],
    (lambda: EngineConfig(batch_invariant="no"), "batch_invariant is 'no'"),  # pyright: ignore
    *[(lambda x=x: Scheduler(parts=x), "parts is ") for x in (None, 5, {})],
    *[(lambda x=x: Scheduler(x), "there is no policy ") for x in (None, 5, "lifo", [])],
    (lambda: Engine(MODEL, EngineConfig(max_batch_size=10**9)), "max_batch_size is 1000000000"),
    (lambda: Engine(MODEL, EngineConfig(max_batch_size=10**30)), "max_batch_size is 1000000000"),
    *[
        (lambda f=f, x=x: f(MODEL, x), "requests is |request_queue is ")
        for f in (scheduled_generate, interleaved_generate, chunked_prefill_generate)
        for x in (None, 5, ask(), {0: ask()}, iter([ask()]))
    ],
    *[
        (lambda f=f: f(None, [ask()]), "the model is None")
        for f in (scheduled_generate, interleaved_generate)
    ],
    (lambda: scheduled_generate(MODEL, [None]), "the request is None"),  # pyright: ignore
    (lambda: chunked_prefill_generate(MODEL, [ask()]), "an arrival is Request"),  # pyright: ignore
]


@pytest.mark.parametrize(
    ("build", "words"), BUILDS, ids=[f"{i}-{w[:40]}" for i, (_, w) in enumerate(BUILDS)]
)
def test_what_an_engine_cannot_be_built_from_is_refused_in_a_sentence(
    build: Callable[[], object], words: str
):
    with pytest.raises(ValueError, match=words) as refusal:
        build()
    assert_a_sentence(refusal.value)


def test_what_an_engine_can_be_built_from_is_not():
    for given in ({"clock": CostClock()}, {"draft": TrigramDraft.load()}, {"parts": Parts()}):
        request = ask(0)
        Engine(tiny_model(), EngineConfig(), **given).run([(0, request)])
        assert_equals_oracle([(0, request)])


# ---- what the caller does with its own objects afterwards


@pytest.mark.parametrize("now", [[], [77] * 6, None, "gone", [1] * 999])
def test_a_prompt_that_the_caller_changes_after_submitting_it_is_no_business_of_the_run(now: Any):
    prompt = prompt_of(0, 6)
    request = Request(0, prompt, 5)
    engine = Engine(tiny_model(), EngineConfig(2))
    engine.submit(request)
    engine.step()
    prompt[:] = now if isinstance(now, list) else []
    engine.run([])
    assert request.prompt_tokens == prompt_of(0, 6)
    assert_equals_oracle([(0, request)])


def test_requests_that_were_given_one_list_get_lists_of_their_own():
    prompt, generated = prompt_of(0, 6), list[int]()
    requests = [Request(i, prompt, 4, generated_tokens=generated) for i in range(3)]
    Engine(tiny_model(), EngineConfig(8)).run([(0, request) for request in requests])
    assert_equals_oracle([(0, request) for request in requests])
    assert generated == []


def test_arrivals_that_are_changed_during_the_run_are_those_that_were_handed_in():
    arrivals = [(0, Request(0, prompt_of(0, 6), 3)), (9, Request(1, prompt_of(1, 6), 3))]
    good = list(arrivals)

    class Thief(CostClock):
        def charge(self, forwards: Any) -> None:
            arrivals.clear()
            super().charge(forwards)

    Engine(tiny_model(), EngineConfig(8), clock=Thief()).run(arrivals)
    assert_equals_oracle(good)


# ---- weights that are no numbers


def poisoned_at(token: int) -> Any:
    """A model whose embedding of one token is NaN: a request that holds it gets no logits."""
    model = copy.deepcopy(tiny_model())
    model.token_embedding.weight[token] = math.nan
    model.logits = lambda hidden: tiny_model().logits(hidden)
    return model


@pytest.mark.parametrize("executor", ["packed", "strip", "fused", "padded"])
@pytest.mark.parametrize("window", [None, 8])
def test_a_request_whose_logits_are_never_finite_is_given_up_and_the_others_are_served(
    executor: str, window: int | None
):
    poison = 64
    config = EngineConfig(16, max_batch_size=2, executor=executor, sliding_window=window)
    engine = Engine(poisoned_at(poison), config)
    bad = Request(0, [1, poison, 2], 4)
    engine.submit(bad)
    for turn in range(1, TRIES + 1):
        with pytest.raises(ValueError, match="logits of request 0 are not finite") as refusal:
            engine.run([])
        assert ("requests [0] were given up" in str(refusal.value)) == (turn == TRIES)
        assert_a_sentence(refusal.value)
    assert (bad.status, bad.generated_tokens, dict(bad.kv_cache)) == ("failed", [], {})
    assert engine.scheduler.is_done()
    assert engine.cache.held_tokens() == 0
    engine.cache.check()
    good = Request(1, [1, 2, 3], 4)
    engine.run([(0, good)])
    assert (good.status, good.num_generated) == ("done", 4)
    with pytest.raises(ValueError, match="request 0 has been served before"):
        engine.submit(bad)


def test_one_that_fails_beside_others_takes_none_of_them_along():
    engine = Engine(poisoned_at(64), EngineConfig(16))
    good = [Request(i, [i, i + 1, 40 + i], 6) for i in (1, 2)]
    for request in (*good, Request(0, [1, 64], 4)):
        engine.submit(request)
    for _ in range(TRIES):
        with pytest.raises(ValueError, match="request 0 are not finite"):
            engine.run([])
    engine.run([])
    assert_equals_oracle([(0, request) for request in good])


def test_a_model_of_nothing_but_nan_gives_up_each_request_and_no_run_is_endless():
    model = copy.deepcopy(tiny_model())
    model.ln_f.weight.fill_(math.nan)
    engine = Engine(model, EngineConfig(16, max_batch_size=2))
    requests = [Request(i, prompt_of(i, 4), 3) for i in range(5)]
    for request in requests:
        engine.submit(request)
    runs = 0
    while not engine.scheduler.is_done():
        with pytest.raises(ValueError, match="not finite"):
            engine.run([])
        runs += 1
    assert [request.status for request in requests] == ["failed"] * 5
    assert runs == 9
