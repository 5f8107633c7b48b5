"""Penalties, biases and filters of the logits: what a token is then drawn with, and refusals."""

import random
from typing import Any

import pytest
import tiers
import torch
from fakes import TINY, prompt_of, tiny_model
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from plain_sampling import any_params, plain_probabilities

from nanogpt.engine import Engine
from nanogpt.posts.oracle import generate
from nanogpt.request import Request
from nanogpt.sampling import LogitsParams, penalized, probabilities, sample_tokens

VOCAB = 12


def drawn_with(logits: Any, params: LogitsParams, temperature: float, *known: Any) -> torch.Tensor:
    scores = penalized(logits, params, *known).unsqueeze(0)
    return probabilities(scores, temperature, (params.min_p, params.top_k, params.top_p))[0]


@given(st.integers(0, 10**9), st.sampled_from([0.0, 0.3, 1.0, 3.0]))
def test_a_token_is_drawn_as_the_parameters_say_one_after_the_other(seed: int, temperature: float):
    chance = random.Random(seed)
    params = any_params(chance, VOCAB, 5)
    logits = [chance.gauss(0, 3) for _ in range(VOCAB)]
    known = [chance.randrange(VOCAB) for _ in range(chance.randint(1, 9))]
    num_prompt = chance.randint(1, len(known))
    prompt, output = known[:num_prompt], known[num_prompt:]
    expected = plain_probabilities(logits, params, prompt, output, temperature)
    as_tensor = torch.tensor(logits, dtype=torch.float64)
    p = drawn_with(as_tensor, params, temperature, known, num_prompt)
    assert p.tolist() == pytest.approx(expected, rel=1e-9, abs=0)
    assert as_tensor.tolist() == logits, "the step's logits stay"


@tiers.examples(1)
@given(st.integers(0, 10**9), st.sampled_from([0.3, 1.0, 3.0]))
def test_the_distribution_is_that_of_transformers_processors(seed: int, temperature: float):
    process = pytest.importorskip("transformers.generation.logits_process")
    chance = random.Random(seed)
    params = replace(any_params(chance, 300, 5), frequency_penalty=0.0, presence_penalty=0.0)
    logits = torch.tensor([[chance.gauss(0, 3) for _ in range(300)]], dtype=torch.float64)
    known = torch.tensor([[chance.randrange(300) for _ in range(chance.randint(1, 9))]])
    num_prompt = chance.randint(1, known.shape[1])
    end, least = list(params.stop_token_ids), params.min_tokens
    bias = {(token,): float(each) for token, each in params.logit_bias}
    steps = [
        process.MinNewTokensLengthLogitsProcessor(num_prompt, least, end) if end else None,
        process.SequenceBiasLogitsProcessor(bias) if bias else None,
        process.RepetitionPenaltyLogitsProcessor(float(params.repetition_penalty)),
        process.TemperatureLogitsWarper(temperature),
        process.MinPLogitsWarper(params.min_p),
        process.TopKLogitsWarper(params.top_k) if params.top_k > 0 else None,
        process.TopPLogitsWarper(params.top_p),
    ]
    scores = logits.clone()
    for step in steps:
        scores = scores if step is None else step(known, scores)
    p = drawn_with(logits[0], params, temperature, known[0].tolist(), num_prompt)
    torch.testing.assert_close(p, scores.softmax(-1)[0], rtol=1e-9, atol=0)


def test_tokens_that_are_as_likely_as_the_last_one_kept_stay_in_every_batch():
    logits = torch.tensor([[2.0, 1.0, 1.0, 0.0], [0.0, 0.0, 0.0, 9.0]], dtype=torch.float64)
    for filters in ((0.0, 2, 1.0), (0.0, 0, 0.7), (0.3, 0, 1.0)):
        both = probabilities(logits, 1.0, filters)
        assert (both[0] > 0).tolist() == [True, True, True, False]
        assert torch.equal(both[:1], probabilities(logits[:1], 1.0, filters))
    assert sample_tokens(logits, 1.0, [0.99, 0.0], (0.0, 1, 1.0)) == [0, 3]


def test_no_stop_token_comes_before_min_tokens_and_then_it_may():
    [stop] = generate(tiny_model(), prompt_of(3, 6), 1)
    params = LogitsParams(min_tokens=3, stop_token_ids=(stop,), logit_bias=((stop, 100),))
    text = generate(tiny_model(), prompt_of(3, 6), 5, logits_params=params)
    assert [token == stop for token in text] == [False] * 3 + [True] * 2


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"min_tokens": 5}, "min_tokens is 5; it must be at most 4"),
        (
            {"repetition_penalty": 0},
            "repetition_penalty is 0; it must be a number from 0.01 to 100",
        ),
        ({"frequency_penalty": 2.1}, "frequency_penalty is 2.1; it must be a number from -2 to 2"),
        ({"presence_penalty": True}, "presence_penalty is True; it must be a number from -2 to 2"),
        ({"min_p": float("nan")}, "min_p is nan; it must be a number from 0 to 1"),
        ({"top_k": -2}, "top_k is -2; it must be at least -1"),
        ({"top_p": 0}, "top_p is 0; it must be above 0 and at most 1"),
        ({"stop_token_ids": (65,)}, "stop_token_ids: a token is 65; it must be at most 64"),
        ({"logit_bias": {1: 2}}, "logit_bias is {1: 2}; it must be a tuple of pairs"),
        ({"logit_bias": ((65, 1),)}, "logit_bias: a token is 65; it must be at most 64"),
        ({"logit_bias": ((1, 101),)}, "the bias of token 1 is 101; it must be a number from -100"),
    ],
)
def test_a_parameter_outside_its_limits_is_refused(wrong: Any, said: str):
    assert TINY.vocab_size == 65
    engine = Engine(tiny_model())
    with pytest.raises(ValueError, match=said):
        engine.submit(Request(0, [1, 2], 4, logits_params=LogitsParams(**wrong)))
