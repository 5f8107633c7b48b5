"""Sampling: draws named by what they are for, and tokens by inverting the distribution."""

import math
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from nanogpt.sampling import check_temperature, sample_tokens, uniform
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
