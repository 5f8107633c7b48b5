"""Sampling: draws named by what they are for, and tokens by inverting the distribution."""

import math

import pytest
import torch

from nanogpt.sampling import check_temperature, sample_tokens, uniform


def test_a_draw_depends_on_its_four_names_only():
    assert uniform(1, 2, 3, "sample") == uniform(1, 2, 3, "sample")
    names = [
        (1, 2, 3, "sample"), (9, 2, 3, "sample"), (1, 9, 3, "sample"),
        (1, 2, 9, "sample"), (1, 2, 3, "accept"), (12, 3, 3, "sample"), (1, 23, 3, "sample"),
    ]  # fmt: skip
    assert len({uniform(*name) for name in names}) == len(names)


def test_draws_are_the_same_on_every_machine():
    assert uniform(0, 0, 0, "sample") == 0.4267365724679901


def test_draws_are_uniform_on_the_unit_interval():
    draws = [uniform(0, i, 7, "sample") for i in range(4000)]
    assert 0 <= min(draws) < max(draws) < 1
    assert abs(sum(draws) / 4000 - 0.5) < 0.02  # 4 standard errors
    tenths = [sum(int(draw * 10) == tenth for draw in draws) for tenth in range(10)]
    assert min(tenths) > 320
    assert max(tenths) < 480


def test_temperature_zero_takes_the_most_likely_and_ignores_the_draw():
    logits = torch.tensor([[1.0, 5.0, 2.0], [7.0, 5.0, 2.0]])
    assert sample_tokens(logits, 0.0, [0.999, 0.999]) == [1, 0]


def test_a_draw_picks_the_token_whose_share_of_the_interval_holds_it():
    logits = torch.tensor([[0.5, 0.25, 0.25]]).log()
    draws = [0.0, 0.49, 0.51, 0.74, 0.76, 0.9999]
    assert [sample_tokens(logits, 1.0, [draw])[0] for draw in draws] == [0, 0, 1, 1, 2, 2]


def test_a_token_of_probability_zero_is_never_drawn():
    logits = torch.tensor([[-math.inf, 0.0, -math.inf]])
    for draw in (0.0, 0.5, 1 - 2**-53):
        assert sample_tokens(logits, 1.0, [draw]) == [1]


def test_temperature_flattens_and_sharpens():
    logits = torch.tensor([[2.0, 0.0]])
    draws = [i / 200 for i in range(200)]
    share = {
        temperature: sample_tokens(logits.expand(200, 2), temperature, draws).count(0) / 200
        for temperature in (0.5, 1.0, 4.0)
    }
    for temperature, measured in share.items():
        assert measured == pytest.approx(1 / (1 + math.exp(-2 / temperature)), abs=0.01)


def test_a_vanishing_temperature_is_greedy_and_not_the_last_token():
    assert sample_tokens(torch.tensor([[1.0, 5.0, 2.0]]), 1e-310, [0.3]) == [1]


def test_rows_are_drawn_independently_of_each_other():
    torch.manual_seed(0)
    logits, draws = torch.randn(5, 65), [0.1, 0.9, 0.5, 0.3, 0.7]
    together = sample_tokens(logits, 0.8, draws)
    alone = [sample_tokens(logits[i : i + 1], 0.8, draws[i : i + 1])[0] for i in range(5)]
    assert together == alone


def test_no_rows_are_no_tokens():
    assert sample_tokens(torch.empty(0, 65), 0.8, []) == []


@pytest.mark.parametrize("temperature", [-0.1, math.nan, math.inf, -math.inf])
def test_a_temperature_that_is_no_temperature_is_refused(temperature: float):
    with pytest.raises(ValueError, match=f"temperature is {temperature}"):
        check_temperature(temperature)


@pytest.mark.parametrize("temperature", ["hot", None, [1.0]])
def test_a_temperature_that_is_no_number_is_refused_in_words(temperature: object):
    with pytest.raises(ValueError, match="temperature is"):
        check_temperature(temperature)  # pyright: ignore


@pytest.mark.parametrize("temperature", [0, 0.0, 1, 0.7, 100.0])
def test_numbers_from_zero_up_are_temperatures(temperature: float):
    check_temperature(temperature)
