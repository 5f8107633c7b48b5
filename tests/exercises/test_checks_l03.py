"""The checks of lesson 3: what is free in a mask, what the cards show, what the engine does."""

import random
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from answers import IDS, Wrong, worked, wrong
from generated import examples
from giveaways import given_away
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from course import harness
from course.answering import Here
from course.checks.lengths import any_lengths
from course.harness import run_checks
from course.registry import exercise
from course.report import Report
from nanogpt.parts import fusing
from solutions.l03_interleaving import full_mask, fused_rows, new_mask, sample_rows, split_kv
from solutions.l03_interleaving._padded import padded_rows
from solutions.l03b_packing import pack

MANY = examples(80)
ANSWERS = {item: worked(item) for item in IDS if item.startswith("l03.")}
WRONG = {f"{each.exercise} {each.name}": each for item in ANSWERS for each in wrong(item)}


def any_mix(exercise_id: str, function: Any, seed: int) -> Report:
    """What the last check says, that of the drawn mixes, without those before it."""
    item: Any = exercise(exercise_id)
    return run_checks(exercise_id, Here(function), item.checks[-1:], seed=seed)


@pytest.fixture(scope="module", autouse=True)
def one_torch_thread() -> Iterator[None]:
    """Tiny tensors spend their time waiting for other threads on a busy machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def report_of(name: str) -> Report:
    answer = WRONG[name]
    return exercise(answer.exercise).check(answer.function)


def row(name: str, label: str) -> str:
    return dict(report_of(name).example)[label]


# --- what a step may look like ---------------------------------------------------------------


@st.composite
def lengths(draw: st.DrawFn) -> tuple[list[int], list[int]]:
    rows = draw(st.integers(1, 4))
    past = draw(st.lists(st.integers(0, 6), min_size=rows, max_size=rows))
    return past, draw(st.lists(st.integers(1, 5), min_size=rows, max_size=rows))


def real(mask: Tensor, num_new: list[int]) -> Tensor:
    return torch.cat([mask[i, mask.shape[1] - n :] for i, n in enumerate(num_new)])


@MANY
@given(lengths(), st.data())
def test_fused_rows_is_the_engine_s(step: tuple[list[int], list[int]], data: st.DataObject) -> None:
    cursors, num_new = step
    more = data.draw(st.lists(st.integers(0, 3), min_size=len(cursors), max_size=len(cursors)))
    sizes = [sum(each) for each in zip(cursors, num_new, more, strict=True)]
    known = [[10 + i * 20 + place for place in range(size)] for i, size in enumerate(sizes)]
    wanted = fusing.fused_rows(known, cursors, num_new)
    assert fused_rows.fused_rows(known, cursors, num_new) == wanted


@MANY
@given(lengths())
def test_masks_are_the_engine_s_in_every_real_row(step: tuple[list[int], list[int]]) -> None:
    past_lens, num_new = step
    wanted = real(fusing.full_mask(past_lens, num_new), num_new)
    mask = full_mask.full_mask(past_lens, num_new)
    assert torch.equal(real(mask, num_new), wanted)
    assert mask.any(dim=2).all()
    wanted = real(fusing.new_mask(num_new), num_new)
    assert torch.equal(real(new_mask.new_mask(num_new), num_new), wanted)


@MANY
@given(lengths(), st.integers(1, 4))
def test_split_kv_is_the_engine_s(step: tuple[list[int], list[int]], size: int) -> None:
    past_lens, num_new = step
    k = split_kv.make_kv(past_lens, num_new, size)
    wanted = fusing.split_kv(k, past_lens, num_new)
    parts = split_kv.split_kv(k, past_lens, num_new)
    assert all(torch.equal(a, b) for a, b in zip(parts, wanted, strict=True))
    for i, part in enumerate(wanted):
        places = torch.arange(past_lens[i] + num_new[i])
        assert torch.equal(part[:, 0], 20.0 * (i + 1) + places), "no padding, the text's order"


@MANY
@given(lengths(), st.data())
def test_sample_rows_is_the_engine_s(
    step: tuple[list[int], list[int]], data: st.DataObject
) -> None:
    cursors, num_new = step
    more = data.draw(st.lists(st.integers(0, 2), min_size=len(cursors), max_size=len(cursors)))
    known = [sum(each) for each in zip(cursors, num_new, more, strict=True)]
    wanted = [i for i, left in enumerate(more) if left == 0]
    assert sample_rows.sample_rows(num_new, cursors, known) == wanted
    assert fusing.sample_rows(num_new, cursors, known) == wanted


@MANY
@given(lengths())
def test_pack_is_the_engine_s(step: tuple[list[int], list[int]]) -> None:
    wanted = fusing.pack(*step)
    cu_q, cu_k, mask = pack.pack(*step)
    assert (cu_q, cu_k) == wanted[:2]
    assert torch.equal(mask, wanted[2])


# --- what is free and what is not ------------------------------------------------------------


def fill_padding(mask: Tensor, num_new: list[int], seed: int, *, at_least: int) -> Tensor:
    """Random cells in the rows of padding queries, `at_least` so many of them True in each."""
    rng = random.Random(f"{seed} {num_new} {tuple(mask.shape)}")
    for i, n in enumerate(num_new):
        for query in range(mask.shape[1] - n):
            cells = [rng.random() < 0.3 for _ in range(mask.shape[2])]
            for column in rng.sample(range(mask.shape[2]), at_least):
                cells[column] = True
            mask[i, query] = torch.tensor(cells)
    return mask


@pytest.mark.parametrize("seed", range(3))
def test_padding_queries_of_a_new_mask_are_free(seed: int) -> None:
    def answer(num_new: list[int]) -> Tensor:
        return fill_padding(new_mask.new_mask(num_new), num_new, seed, at_least=0)

    assert exercise("l03.new_mask").check(answer).status == "passed"


@pytest.mark.parametrize("seed", range(3))
def test_padding_queries_of_a_full_mask_are_free_but_for_one_key(seed: int) -> None:
    def answer(past_lens: list[int], num_new: list[int]) -> Tensor:
        return fill_padding(full_mask.full_mask(past_lens, num_new), num_new, seed, at_least=1)

    assert exercise("l03.full_mask").check(answer).status == "passed"


def test_one_blind_padding_query_among_many_is_found() -> None:
    def answer(past_lens: list[int], num_new: list[int]) -> Tensor:
        mask = full_mask.full_mask(past_lens, num_new)
        if max(num_new) - min(num_new) > 1:
            mask[num_new.index(min(num_new)), 1] = False
        return mask

    report = exercise("l03.full_mask").check(answer)
    assert report.misconception == "all_masked"
    assert dict(report.example)["softmax"].startswith("of query 1 of row ")


def test_a_blind_query_makes_real_tokens_nan_one_layer_later_as_the_card_says() -> None:
    past_lens, num_new = [0, 0], [1, 2]

    def two_layers(mask: Tensor) -> Tensor:
        x = torch.arange(1.0, 5.0).view(2, 2, 1)  # (B, T, D)
        for _ in range(2):
            scores = (x @ x.transpose(1, 2)).masked_fill(~mask, float("-inf"))  # (B, T, T)
            x = scores.softmax(dim=2) @ x
        return x

    blind = WRONG["l03.full_mask all_masked 2"].function(past_lens, num_new)
    assert two_layers(blind)[0].isnan().all(), "the token beside the padding as well"
    assert not two_layers(full_mask.full_mask(past_lens, num_new)).isnan().any()
    name = "l03.full_mask all_masked 2"
    assert row(name, "softmax") == "of query 0 of row 0: [nan, nan]"
    assert row(name, "next layer") == "the last token, too: 0 * nan + ... = nan"


def test_values_of_any_size_and_a_past_of_nothing_are_cut() -> None:
    k = split_kv.make_kv([0, 0], [1, 2], 3)
    assert k.shape == (2, 2, 3)
    assert [part.shape for part in split_kv.split_kv(k, [0, 0], [1, 2])] == [(1, 3), (2, 3)]
    padding = split_kv.make_kv([2, 0], [1, 2], 1)[1, :2]
    assert padding.unique().numel() == 2, "so that no padding passes for another"


@pytest.mark.parametrize("index", range(3))
def test_whichever_list_fused_rows_changes_is_named(index: int) -> None:
    def answer(*args: Any) -> Any:
        result = fused_rows.fused_rows(*args)
        args[index].append(args[index][0])
        return result

    report = exercise("l03.fused_rows").check(answer)
    assert report.misconception == "in_place"
    before, after = (dict(report.example)[label] for label in ("before", "after"))
    assert before != after


# --- what the cards show ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "asked"),
    [
        ("fused_rows length_as_position", "fused_rows([[5, 3, 8], [4, 1, 6, 2]], [2, 0], [1, 3])"),
        ("fused_rows right_padded", "fused_rows([[5, 3, 8], [4, 1, 6, 2]], [2, 0], [1, 3])"),
        (
            "fused_rows positions_restart 2",
            "fused_rows([[5, 3, 8], [4, 1, 6, 2, 9]], [2, 2], [1, 2])",
        ),
        ("new_mask padding_visible", "new_mask([1, 3])"),
        ("full_mask new_padding_visible", "full_mask([3, 1], [1, 2])"),
        ("full_mask past_padding_visible", "full_mask([1, 2], [2, 2])"),
        ("full_mask all_masked 2", "full_mask([0, 0], [1, 2])"),
        ("sample_rows samples_partial", "sample_rows([1, 1, 8], [21, 14, 0], [22, 15, 30])"),
        ("pack leaks 4", "pack([3, 1], [1, 2])"),
        ("pack top_left", "pack([3, 1], [1, 2])"),
    ],
)
def test_a_misconception_is_shown_on_a_case_made_for_it(name: str, asked: str) -> None:
    assert row(f"l03.{name}", "input") == asked


def test_a_mask_is_drawn_with_positions_padding_and_what_is_free() -> None:
    expected = ["   0 1 2 | - 3", "-  ? ? ? | ? ?", "3  1 1 1 | . 1"]
    got = ["   0 1 2 | - 3", "-  1 1 1 | 1 .", "3  1 1 1 | 1 1"]
    assert row("l03.full_mask new_padding_visible", "expected").splitlines() == expected
    assert row("l03.full_mask new_padding_visible", "got").splitlines() == got
    assert row("l03.full_mask new_padding_visible", "drawn").startswith("row 0 of the batch")


def test_a_strip_is_drawn_as_a_staircase() -> None:
    assert row("l03.pack top_left", "expected").splitlines() == [
        "   0 1 2 3 | 0 1 2",
        "3  1 1 1 1 | . . .",
        "------------------",
        "1  . . . . | 1 1 .",
        "2  . . . . | 1 1 1",
    ]


def test_a_cut_is_drawn_with_its_padding_as_dots() -> None:
    name = "l03.split_kv one_end"
    assert row(name, "input").splitlines()[1:] == [
        " 20  21  22 |   .  23", "  .   .  40 |  41  42",
    ]  # fmt: skip
    assert row(name, "got").splitlines()[0] == "[0]   21  22   .  23"


def test_rows_are_drawn_side_by_side_with_their_positions() -> None:
    assert row("l03.fused_rows length_as_position", "got").splitlines() == [
        "tokens     positions",
        " 0  0  8    0  0  3",
        " 4  1  6    0  1  2",
    ]


def test_a_mistake_of_one_s_own_gets_the_rule_and_the_grid() -> None:
    def sees_first_key_only(past_lens: list[int], num_new: list[int]) -> Tensor:
        mask = full_mask.full_mask(past_lens, num_new)
        mask[:, :, 1:] = False
        mask[:, :, 0] = True
        return mask

    report = exercise("l03.full_mask").check(sees_first_key_only)
    assert report.misconception is None
    assert report.idea.startswith("A real token attends to its row's whole past")
    assert "| . ." in dict(report.example)["got"]


@pytest.mark.parametrize("exercise_id", ANSWERS)
def test_however_large_the_drawn_case_the_card_stays_small(exercise_id: str) -> None:
    """An answer that is wrong for large steps alone, so that one of these is drawn."""
    item: Any = exercise(exercise_id)
    solution = ANSWERS[exercise_id]
    wrong_one = next(each.answer for each in item.misconceptions if each.answer)

    def tires(*args: Any) -> Any:
        value = solution(*args)
        if sum(args[-1]) < 6:
            return value
        return wrong_one(*args)

    reports = [any_mix(exercise_id, tires, seed) for seed in range(8)]
    texts = [text for report in reports for label, text in report.example if label != "input"]
    assert len(texts) >= 8
    assert max(len(text.splitlines()) for text in texts) <= 16
    assert max(len(line) for text in texts for line in text.splitlines()) <= 84


# --- mixes by themselves ---------------------------------------------------------------------


@pytest.mark.parametrize("name", WRONG)
def test_drawn_mixes_alone_catch_every_wrong_answer(name: str) -> None:
    answer: Wrong = WRONG[name]
    for seed in range(3):
        assert any_mix(answer.exercise, answer.function, seed).status == "failed"


@pytest.mark.parametrize("exercise_id", ANSWERS)
def test_the_solution_passes_with_25_seeds(exercise_id: str) -> None:
    item = exercise(exercise_id)
    reports = [item.check(ANSWERS[exercise_id], seed=seed) for seed in range(5, 30)]
    assert {report.status for report in reports} == {"passed"}


def test_drawn_mixes_hold_decodes_first_chunks_and_padding_of_both_kinds() -> None:
    cases = [case for seed in range(3) for case in any_lengths(random.Random(seed), 20)]
    both = [len(set(past)) > 1 and len(set(new)) > 1 for past, new in cases]
    assert sum(both) >= 15
    assert any(max(past) == 0 for past, _ in cases)
    assert any(set(new) == {1} and len(new) > 1 for _, new in cases)
    blind = [i for past, new in cases for i in range(len(past)) if past[i] == 0 < max(new) - new[i]]
    assert len(blind) >= 5


def test_an_answer_that_raises_later_is_judged_by_what_it_gave_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(harness, "_CALL_LIMIT_S", 0.2)

    def raises_after_the_first(past_lens: list[int], num_new: list[int]) -> Tensor:
        if len(past_lens) > 2:
            raise ValueError("three is too many")
        return WRONG["l03.full_mask new_padding_visible"].function(past_lens, num_new)

    report = exercise("l03.full_mask").check(raises_after_the_first)
    assert (report.status, report.misconception) == ("failed", "new_padding_visible")


def test_positions_of_a_padded_row_are_read_off_its_columns() -> None:
    padded = padded_rows([2, 4], [2, 3])[0]
    assert [padded.key(column) for column in range(7)] == [None, None, 0, 1, None, 2, 3]
    assert [padded.query(column) for column in range(3)] == [None, 2, 3]


# --- nothing is given away ---------------------------------------------------------------------

IDEAS = {
    "l03.sample_rows": [sample_rows.JUDGE.idea],
    **{
        f"l03.{judge.reference.__name__}": [look.idea for look in judge.looks]
        for judge in (fused_rows.JUDGE, new_mask.JUDGE, full_mask.JUDGE, split_kv.JUDGE, pack.JUDGE)
    },
}


@pytest.mark.parametrize("exercise_id", ANSWERS)
def test_hints_and_the_sentence_for_an_unknown_mistake_hold_no_code_of_the_answer(
    exercise_id: str,
) -> None:
    item = exercise(exercise_id)
    for text in (*item.hints, *IDEAS[exercise_id]):
        assert given_away(text, ANSWERS[exercise_id]) == []


# --- cases that can tell -----------------------------------------------------------------------


def test_letters_come_more_than_once_in_the_texts_of_a_step() -> None:
    texts = [fused_rows.text(random.Random(seed), 8) for seed in range(20)]
    assert all(len(set(text)) < len(text) for text in texts)
    assert any(0 in text for text in texts), "the number of padding is a letter, too"


def test_no_look_at_the_numbers_tells_padding_from_tokens() -> None:
    k = split_kv.make_kv([3, 0], [1, 4], 1, sign=-1)
    real = torch.tensor([[True, True, True, False, False, False, True], [False] * 3 + [True] * 4])
    padding = k[:, :, 0][~real]
    assert (padding > 0).any() and (padding < 0).any() and (padding != 0).all()
    assert (k[:, :, 0][real] < 0).all()
