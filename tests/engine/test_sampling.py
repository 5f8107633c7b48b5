"""Sampling: draws named by what they are for, tokens by inverting the distribution, its limits."""

import math
import random
from typing import Any

import pytest
import torch
from fakes import TINY, tiny_model
from hypothesis import given
from hypothesis import strategies as st
from plain_sampling import any_params, plain_probabilities

from nanogpt import Engine
from nanogpt.request import Request
from nanogpt.sampling import (
    LogitsParams,
    check_temperature,
    penalized,
    probabilities,
    sample_tokens,
    uniform,
)
from nanogpt.validate import show


def test_a_draw_depends_on_its_four_names_only_and_is_the_same_on_every_machine():
    names = [
        (0, 0, 0, "sample"), (1, 2, 3, "sample"), (9, 2, 3, "sample"), (1, 9, 3, "sample"),
        (1, 2, 9, "sample"), (1, 2, 3, "accept"), (12, 3, 3, "sample"), (1, 23, 3, "sample"),
    ]  # fmt: skip
    draws = [uniform(*name) for name in names]
    assert len(set(draws)) == len(names)
    assert draws == [uniform(*name) for name in names]
    assert draws[0] == 0.4267365724679901


def test_temperature_zero_takes_the_most_likely_and_ignores_the_draw():
    logits = torch.tensor([[1.0, 5.0, 2.0], [7.0, 5.0, 2.0]])
    assert sample_tokens(logits, 0.0, [0.999, 0.999]) == [1, 0]
    assert sample_tokens(logits, 1e-310, [0.3, 0.3]) == [1, 0], "nor does one that vanishes"


@given(
    weights=st.lists(st.lists(st.integers(0, 5), min_size=3, max_size=3).filter(any), max_size=4),
    temperature=st.sampled_from([0.5, 1.0, 2.0]),
    data=st.data(),
)
def test_a_draw_picks_the_token_whose_share_of_the_interval_holds_it(weights, temperature, data):
    """Each row by itself; a token of probability 0 is never drawn."""
    logits = torch.tensor(weights).view(-1, 3).double().log()
    draws = [(data.draw(st.integers(0, 999)) + 0.5) / 1000 for _ in weights]
    for row, draw, token in zip(
        weights, draws, sample_tokens(logits, temperature, draws), strict=True
    ):
        shares = [weight ** (1 / temperature) for weight in row]
        below, target = sum(shares[:token]), draw * sum(shares)
        assert shares[token] > 0
        assert below - 1e-9 <= target <= below + shares[token] + 1e-9


def test_the_ends_of_the_interval_belong_to_tokens_that_have_a_share():
    logits = torch.tensor([[-math.inf, 0.0, -math.inf]])
    assert [sample_tokens(logits, 1.0, [draw]) for draw in (0.0, 1 - 2**-53)] == [[1], [1]]


@pytest.mark.parametrize(
    "temperature", [-0.1, math.nan, math.inf, pytest.param(10**400, id="10**400"), "hot", None]
)
def test_a_temperature_that_is_none_is_refused(temperature: Any):
    for right in (0, 0.7, 100.0):
        check_temperature(right)
    with pytest.raises(ValueError, match=f"temperature is {show(temperature)}"):
        check_temperature(temperature)


# ---------------------------------------------------------------- penalties, biases and filters


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


def test_tokens_that_are_as_likely_as_the_last_one_kept_stay_in_every_batch():
    logits = torch.tensor([[2.0, 1.0, 1.0, 0.0], [0.0, 0.0, 0.0, 9.0]], dtype=torch.float64)
    for filters in ((0.0, 2, 1.0), (0.0, 0, 0.7), (0.3, 0, 1.0)):
        both = probabilities(logits, 1.0, filters)
        assert (both[0] > 0).tolist() == [True, True, True, False]
        assert torch.equal(both[:1], probabilities(logits[:1], 1.0, filters))
    assert sample_tokens(logits, 1.0, [0.99, 0.0], (0.0, 1, 1.0)) == [0, 3]


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
