"""What a server asks of an engine: to abort a request at any moment, to sample each its way."""

import random
from collections.abc import Iterator

import pytest
import tiers
from fakes import TINY, prompt_of, tiny_model
from hypothesis import given
from hypothesis import strategies as st
from plain_sampling import any_params

from nanogpt import Engine, EngineConfig, generate
from nanogpt.experiments.trace_waits import wait_reasons
from nanogpt.request import Request

VOCAB = TINY.vocab_size
WINDOW = {"sliding_window": 5, "num_sinks": 1}
KINDS = {
    "packed": {},
    "padded": {"executor": "padded"},
    "compiled": {"executor": "compiled", "max_kv_tokens": 40},
    "tight": {"max_kv_tokens": 40, "max_batch_size": 3, "max_prefilling": 1},
    "urgent first": {"policy": "priority", "preempt_to_admit": True, "max_kv_tokens": 48},
    "ring": WINDOW,
    "evict": {**WINDOW, "kv_storage": "evict"},
    "blocks": {"block_size": 4, "share_prefixes": True, "max_kv_tokens": 48},
    "blocks, window": {**WINDOW, "block_size": 2, "share_prefixes": True, "max_kv_tokens": 48},
    "drafts": {"num_draft_tokens": 3, "block_size": 4, "share_prefixes": True},
}


def draft(known: object) -> list[float]:
    """The first token half of the time, the others alike."""
    return [0.5] + [0.5 / (VOCAB - 1)] * (VOCAB - 1)


def asked(chance: random.Random, number: int, *, greedy: bool) -> Request:
    """A request with a way of its own to sample; some begin alike."""
    tokens = prompt_of(chance.choice((0, number)), chance.randint(1, 20))
    degree, seed = (0.0, None) if greedy else (chance.choice((None, 0.0, 0.7)), None)
    if not greedy and chance.random() < 0.5:
        seed = chance.randint(0, 9)
    wanted = chance.randint(1, 16)
    priority = chance.randint(0, 2)
    params = any_params(chance, VOCAB, wanted) if chance.random() < 0.5 else None
    return Request(
        number, tokens, wanted, priority, temperature=degree, seed=seed, logits_params=params
    )


def text_of(request: Request, config: EngineConfig) -> list[int]:
    """What the oracle continues it with."""
    params = request.sampling(config)
    window = {"sliding_window": config.sliding_window, "num_sinks": config.num_sinks}
    draws = {
        "temperature": params.temperature, "seed": params.seed, "request_id": params.stream_id,
        "logits_params": params.logits,
    }  # fmt: skip
    wanted = request.max_new_tokens
    return generate(tiny_model(), request.prompt_tokens, wanted, **draws, **window)


def served(engine: Engine, requests: list[Request], chance: random.Random) -> Iterator[None]:
    """Steps with arrivals between them, until all are done; yields between steps."""
    later = list(requests)
    while later or not engine.scheduler.is_done():
        while later and chance.random() < 0.5:
            engine.submit(later.pop(0))
        if not engine.scheduler.is_done():
            engine.step()
        yield


@tiers.examples(0.7)
@given(st.sampled_from(sorted(KINDS)), st.integers(0, 10**6))
def test_a_request_can_be_aborted_at_any_moment_and_no_other_text_changes(
    kind: str, seed: int
) -> None:
    chance = random.Random(seed)
    drafts = kind == "drafts"
    config = EngineConfig(
        token_budget=chance.randint(2, 24), temperature=0.0 if drafts else 1.0, seed=3,
        **KINDS[kind],
    )  # fmt: skip
    engine = Engine(tiny_model(), config, draft=draft if drafts else None)
    requests = [asked(chance, number, greedy=drafts) for number in range(6)]
    aborted: set[int] = set()
    for _ in served(engine, requests, chance):
        if engine.requests and chance.random() < 0.2:
            one = chance.choice(list(engine.requests))
            engine.abort(one)
            aborted.add(one)
            assert one not in engine.cache.holders()
            assert requests[one].status == "aborted"
            with pytest.raises(ValueError, match=f"no unfinished request {one} to abort"):
                engine.abort(one)
        engine.cache.check()
        unfinished = {request.id for request in requests if request.id in engine.requests}
        assert set(engine.cache.holders()) <= unfinished
    assert not engine.cache.holders()
    for request in requests:
        text = text_of(request, config)
        if request.id in aborted:
            assert request.generated_tokens == text[: request.num_generated]
        else:
            assert request.status == "done" and request.generated_tokens == text


def test_an_aborted_request_waits_no_more_in_the_trace() -> None:
    engine = Engine(tiny_model(), EngineConfig(max_batch_size=1))
    for number in range(3):
        engine.submit(Request(number, prompt_of(number, 3), 4))
    engine.step()
    engine.abort(1)
    engine.step()
    engine.abort(0)
    engine.step()
    waits = wait_reasons(engine.trace())
    assert [[wait.request_id for wait in each] for each in waits] == [[1, 2], [2], []]
    assert [step.aborted for step in engine.steps] == [(), (1,), (0,)]
    assert engine.steps[2].admitted == (2,)
    engine.abort(2)
    assert engine.trace().aborted == (2,), "the last one, which no step follows"
