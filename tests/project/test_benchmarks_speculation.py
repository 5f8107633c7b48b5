"""The speculation benchmark: what it counts, what it predicts, and that drafts change no text."""

import dataclasses
import json

import pytest
import torch

from benchmarks import speculation
from benchmarks.loads import Load
from benchmarks.speculation import accepted_of_judged, break_even, compare, full_steps
from nanogpt.config import EngineConfig, ModelConfig
from nanogpt.engine import Engine
from nanogpt.model import GPT
from nanogpt.parts.acceptance import expected_tokens, speedup
from nanogpt.request import Request

LOAD = Load("small", ((3, 1, 4), (1, 5, 9, 2)), 12, token_budget=32)


@pytest.fixture(scope="module")
def model() -> GPT:
    torch.manual_seed(1)
    gpt = GPT(
        ModelConfig(num_layers=1, num_heads=2, num_channels=16, context_len=32, vocab_size=11)
    )
    return gpt.double().eval().requires_grad_(False)


def uniform_draft(known: object) -> list[float]:
    return [1 / 11] * 11


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_row_per_number_of_drafts_with_the_same_greedy_text(
    model: GPT, temperature: float
) -> None:
    rows = compare(model, uniform_draft, LOAD, temperature, repeats=2)
    assert [(row.num_drafts, row.batch) for row in rows] == [(k, 2) for k in range(7)]
    assert {row.same_text for row in rows} == ({True} if temperature == 0 else {None})
    plain, *drafted = rows
    assert (plain.measured, plain.tokens_per_pass, plain.verifying) == (1, 1, 1)
    assert (plain.p, plain.alpha, plain.predicted, plain.break_even) == (None,) * 4
    for row in drafted:
        assert row.p is not None and row.alpha is not None and row.alpha > 0
        assert 1 <= row.tokens_per_pass <= row.num_drafts + 1
        assert row.predicted == speedup(row.p, row.num_drafts, row.alpha)
        assert row.slowest <= row.tokens_per_s <= row.fastest
        json.dumps(speculation.as_json(row))
        assert speculation.table_line(row).count("\n") == 0
    [line] = speculation.chart(rows, "a CPU").panels[0].lines
    assert line.name == f"temperature {temperature:g}, 2 at once"
    assert line.points == tuple((row.num_drafts, row.measured) for row in rows)


def test_only_drafts_that_were_looked_at_count_as_judged(model: GPT) -> None:
    config = EngineConfig(token_budget=32, num_draft_tokens=3)
    trace = Engine(model, config, draft=uniform_draft).run([(0, Request(0, [3, 1, 4], 12))])
    steps = full_steps([trace], 1, 3)
    works = [work for step in steps for work in step.work]
    assert works and all(len(work.drafted) == 3 for work in works)
    by_hand = sum(3 if work.num_accepted == 3 else work.num_accepted + 1 for work in works)
    assert accepted_of_judged(steps) == (sum(work.num_accepted for work in works), by_hand)
    three = [dataclasses.replace(works[0], num_accepted=n) for n in (0, 2, 3)]
    assert accepted_of_judged([dataclasses.replace(steps[0], work=tuple(three))]) == (5, 7)


def test_at_its_break_even_a_round_yields_what_it_costs() -> None:
    for num_drafts, time in ((1, 1.3), (4, 1.4), (6, 3.0)):
        p = break_even(num_drafts, time)
        assert p is not None and expected_tokens(p, num_drafts) == pytest.approx(time)
    assert break_even(4, 5.01) is None


def test_the_source_s_numbers_stand_beside_the_right_ones() -> None:
    text = "\n".join(speculation.source_lines())
    for number in ("3.709", "2.71", "2.65", "4.0", "0.29"):
        assert number in text


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--new-tokens", "8"], "--new-tokens: '8' is not a whole number from 32 to 400"),
        (["--repeats", "0"], "--repeats: '0' is not a whole number from 1 to 1000"),
        (["--rep", "3"], "unrecognized arguments: --rep 3"),
    ],
)
def test_a_bad_argument_is_named(
    arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        speculation.main(arguments)
    assert sentence in capsys.readouterr().err
