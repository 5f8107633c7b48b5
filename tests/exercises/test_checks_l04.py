"""The checks of lessons 4 and 4b: what they accept beside solutions, and what their cards show."""

import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
from answers import IDS, worked, wrong
from generated import examples
from giveaways import given_away
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from course.registry import exercise
from nanogpt.parts import sliding_window
from solutions.l04_sliding_window import held, live_bytes, visible
from solutions.l04_sliding_window._entries import case, entries
from solutions.l04b_window_quality.judge import judge, readings

MANY = examples(60)
SOME = examples(15)
NAMES = [exercise_id.removeprefix("l04.") for exercise_id in IDS if exercise_id[:4] == "l04."]
POSITION, WINDOW, SINKS = st.integers(0, 60), st.integers(1, 20), st.integers(0, 6)
WRONG = {f"l04.{name} {each.name}": each for name in NAMES for each in wrong(f"l04.{name}")}


def card(name: str) -> dict[str, str]:
    """The example rows that a known wrong answer gets to see."""
    return dict(exercise(WRONG[name].exercise).check(WRONG[name].function).example)


# --- what is accepted ------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_the_engine_s_own_functions_pass(name: str) -> None:
    function = getattr(sliding_window, name)
    reports = [exercise(f"l04.{name}").check(function, seed=seed) for seed in range(12)]
    assert {report.status for report in reports} == {"passed"}, reports[0].text()


@SOME
@given(st.integers(0, 10_000))
def test_any_slots_with_the_properties_pass(seed: int) -> None:
    def shuffled(position: int, window: int, sinks: int) -> int:
        slots = list(range(sinks + window))
        random.Random(f"{seed} {window} {sinks}").shuffle(slots)
        return slots[sliding_window.ring_slot(position, window, sinks)]

    assert exercise("l04.ring_slot").check(shuffled).status == "passed"


@SOME
@given(st.integers(8, 49), st.integers(1, 5))
def test_a_slot_that_goes_wrong_in_the_middle_of_a_text_is_caught(bad: int, by: int) -> None:
    def slips(position: int, window: int, sinks: int) -> int:
        slot = sliding_window.ring_slot(position, window, sinks)
        return (
            slot if position < bad else sinks + (position + by * (position // bad)) % (window + 1)
        )

    assert exercise("l04.ring_slot").check(slips).status == "failed"


def test_a_buffer_of_just_the_right_size_shared_by_k_and_v_passes() -> None:
    def in_one_buffer(k: Tensor, v: Tensor, window: int, sinks: int) -> tuple[Tensor, Tensor]:
        kept_k, kept_v = sliding_window.evict(k, v, window, sinks)
        buffer = torch.empty(2, *kept_k.shape, dtype=k.dtype)
        buffer[0], buffer[1] = kept_k, kept_v
        return buffer[0], buffer[1]

    assert exercise("l04.evict").check(in_one_buffer).status == "passed"


# --- memory ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "key", "trim"),
    [
        ("slice", "view", lambda x, window: x[:, -window:]),
        ("narrow", "view", lambda x, window: x.narrow(1, x.shape[1] - window, window)),
        ("detached", "view", lambda x, window: x[:, -window:].detach()),
        ("made contiguous", "contiguous", lambda x, window: x[:, -window:].contiguous()),
        ("slice of a copy", "oversized", lambda x, window: x.clone()[:, -window:]),
    ],
)
def test_a_result_that_keeps_dropped_entries_alive_fails_by_its_bytes(
    name: str, key: str, trim: Callable[[Tensor, int], Tensor]
) -> None:
    def evict(k: Tensor, v: Tensor, window: int, sinks: int) -> tuple[Tensor, Tensor]:
        if sinks or k.shape[1] <= window:
            return sliding_window.evict(k, v, window, sinks)
        return trim(k, window), trim(v, window)

    report = exercise("l04.evict").check(evict)
    assert (report.misconception, report.passed) == (key, 4), report.text()
    rows = dict(report.example)
    assert rows["expected"].startswith("320 bytes") and rows["got"].startswith("640 bytes")


def test_values_alone_kept_as_a_view_are_caught_too() -> None:
    def evict(k: Tensor, v: Tensor, window: int, sinks: int) -> tuple[Tensor, Tensor]:
        kept, all_of_v = sliding_window.evict(k, v, window, sinks)
        return (kept, v[:, -window:]) if not sinks else (kept, all_of_v)

    report = exercise("l04.evict").check(evict)
    assert report.misconception == "view"
    assert dict(report.example)["got"].startswith("480 bytes")


def test_an_error_in_an_eviction_names_the_answer_s_own_line() -> None:
    def evict(k: Tensor, v: Tensor, window: int, sinks: int) -> Any:
        if k.shape[1] > window:
            return k[:, window // 0 :], v
        return k, v

    report = exercise("l04.evict").check(evict)
    assert report.status == "raised"
    assert "ZeroDivisionError on its line 3" in report.idea, report.idea


# --- what the cards show ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "asked", "expected", "got"),
    [
        (
            "l04.held chunk_not_counted",
            "held(cursor=0, num_tokens=40, window=20, sinks=0)",
            "(40, 20)",
            "(20, 20)",
        ),
        ("l04.visible w_keys", "visible(query=2, key=0, window=2, sinks=0)", "True", "False"),
        (
            "l04.evict first_kept",
            "evict(k, v, window=3, sinks=0), k and v (1, 5, 2)",
            "k: entries 2, 3, 4\nv: entries 2, 3, 4",
            "k: entries 0, 1, 2\nv: entries 0, 1, 2",
        ),
        (
            "l04.ring_slot over_the_sinks",
            "ring_slot(position, window=3, sinks=2) for 0, 1, 3, 4, 5",
            "5 slots: once 5 is computed, all of these are kept",
            "slot 0: position 0 and 5\nslot 1: position 1\nslot 3: position 3\nslot 4: position 4",
        ),
        (
            "l04.live_bytes shapes",
            "live_bytes([...])\n[0] (1, 20, 4) float32, 320 bytes shown of storage A: 640 bytes",
            "640",
            "320",
        ),
    ],
)
def test_a_misconception_is_shown_on_a_case_made_for_it(
    name: str, asked: str, expected: str, got: str
) -> None:
    assert card(name) == {"input": asked, "expected": expected, "got": got}


@pytest.mark.parametrize("how", ["one seed", "one draw after the other", "temperature"])
def test_agreement_of_drawn_tokens_is_named(how: str) -> None:
    def judge(full: Tensor, window: Tensor, targets: Tensor) -> tuple[float, float]:
        drawn: list[Tensor] = []
        for logits in (full, window):
            generator = torch.Generator().manual_seed(3) if how == "one seed" else None
            probs = (logits / (0.8 if how == "temperature" else 1)).softmax(-1)
            drawn.append(torch.multinomial(probs, 1, generator=generator))
        same = (drawn[0] == drawn[1]).float().mean().item()
        return same, sliding_window.judge(full, window, targets)[1]

    assert exercise("l04.judge").check(judge).misconception == "sampled"


def test_numbers_of_the_judge_may_differ_by_a_rounding() -> None:
    def in_double(full: Tensor, window: Tensor, targets: Tensor) -> tuple[float, float]:
        agreement, added = sliding_window.judge(full.double(), window.double(), targets)
        return round(agreement, 6), round(added, 6)

    assert exercise("l04.judge").check(in_double).status == "passed"


@pytest.mark.parametrize("exercise_id", [f"l04.{name}" for name in NAMES])
def test_hints_and_the_sentence_for_an_unknown_mistake_hold_no_code_of_the_answer(
    exercise_id: str,
) -> None:
    item = exercise(exercise_id)
    ideas = {
        "l04.visible": visible.JUDGE.idea,
        "l04.held": held.JUDGE.idea,
        "l04.live_bytes": live_bytes.JUDGE.idea,
    }
    for text in (*item.hints, ideas.get(exercise_id, "")):
        assert given_away(text, worked(exercise_id)) == []


@pytest.mark.parametrize("loss", ["not_finite", "not_finite 2"])
def test_a_loss_that_leaves_the_range_of_float32_is_told_so(loss: str) -> None:
    report = exercise("l04.judge").check(WRONG[f"l04.judge {loss}"].function)
    assert report.misconception == "not_finite"
    assert report.checks[report.passed] == "large logits"


# --- solutions against the engine's own ------------------------------------------------------


@MANY
@given(POSITION, POSITION, st.none() | WINDOW, SINKS)
def test_visible_is_the_engine_s(query: int, key: int, window: int | None, sinks: int) -> None:
    engine_s = sliding_window.visible(query, key, window, sinks)
    assert worked("l04.visible")(query, key, window, sinks) == engine_s


@MANY
@given(st.integers(1, 3), st.integers(1, 30), WINDOW, SINKS)
def test_evict_is_the_engine_s(heads: int, length: int, window: int, sinks: int) -> None:
    args = case(heads, length, window, sinks)
    engine_s = sliding_window.evict(*args)
    for kept, wanted in zip(worked("l04.evict")(*args), engine_s, strict=True):
        assert torch.equal(kept, wanted)
    assert entries(length, window, sinks) == sliding_window.kept_positions(length, window, sinks)


@MANY
@given(POSITION, st.integers(1, 40), st.none() | WINDOW, SINKS)
def test_held_is_the_engine_s(cursor: int, n: int, window: int | None, sinks: int) -> None:
    engine_s = sliding_window.held(cursor, n, window, sinks)
    assert worked("l04.held")(cursor, n, window, sinks) == engine_s


@MANY
@given(POSITION, WINDOW, SINKS)
def test_ring_slot_is_the_engine_s(position: int, window: int, sinks: int) -> None:
    engine_s = sliding_window.ring_slot(position, window, sinks)
    assert worked("l04.ring_slot")(position, window, sinks) == engine_s


@MANY
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 9)), max_size=8))
def test_live_bytes_is_the_engine_s(picks: list[tuple[int, int]]) -> None:
    wholes = [torch.zeros(3, 10), torch.zeros(7, 10), torch.zeros(3, 10, dtype=torch.float64)]
    tensors = [wholes[which][:, start:] for which, start in picks]
    assert worked("l04.live_bytes")(tensors) == sliding_window.live_bytes(tensors)
    expected = sum(
        wholes[which].numel() * wholes[which].element_size() for which in {p[0] for p in picks}
    )
    assert sliding_window.live_bytes(tensors) == expected


@MANY
@given(st.integers(0, 1000), st.integers(1, 20))
def test_judge_is_the_engine_s(seed: int, length: int) -> None:
    full, window, targets = readings(random.Random(seed), length, 7)
    engine_s = sliding_window.judge(full, window, targets)
    assert judge(full, window, targets) == pytest.approx(engine_s)
