"""The museum of lesson 9: each exhibit spoils a text on the engine, and its repair mends it."""

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from answers import right, worked

from course.registry import exercise
from course.stories import l09_exhibits as exhibits
from course.stories.l09_stores import SETTINGS
from nanogpt import GPT, Engine, Parts, Request, encode, load_model
from nanogpt.validate import PartError

Run = Callable[[GPT, Callable[..., Any]], tuple[str, bool]]


def once_committed(num_committed: int, num_new: int, size: int) -> int:
    """Exhibit D, repaired."""
    return num_committed // size


ROOMS: dict[str, tuple[Run, Callable[..., Any], Callable[..., Any], list[int]]] = {
    "A": (exhibits.behind_another, exhibits.of_its_own_tokens, worked("l09.block_hashes"), [2]),
    "B": (exhibits.two_in_one_block, exhibits.into_the_same, worked("l09.writable"), [0, 1]),
    "C": (exhibits.one_leaves, exhibits.all_of_its_table, worked("l09.release"), [1]),
    "D": (exhibits.a_step_that_fails, exhibits.as_soon_as_written, once_committed, [1]),
    "E": (exhibits.two_adapters, exhibits.of_tokens_alone, worked("l09.block_hashes"), [1]),
}
JUDGED = [
    ("block_hashes", exhibits.of_its_own_tokens, "no_parent"),
    ("writable", exhibits.into_the_same, "in_place_of_others"),
    ("release", exhibits.all_of_its_table, "frees_all"),
    ("block_hashes", exhibits.of_tokens_alone, "no_salt"),
]


@pytest.fixture(scope="module")
def exact() -> GPT:
    return load_model(dtype=torch.float64)


def wrong_texts(said: str) -> list[int]:
    """The requests whose text is said to differ."""
    return [int(number) for number in re.findall(r"^\| (\d+) .*\*\*differs\*\* \|$", said, re.M)]


@pytest.mark.parametrize("room", ROOMS)
def test_an_exhibit_spoils_just_these_texts(room: str, exact: GPT):
    run, broken, _, spoiled = ROOMS[room]
    said, whole = run(exact, broken)
    assert (wrong_texts(said), whole) == (spoiled, False)


@pytest.mark.parametrize("room", ROOMS)
def test_repaired_it_gives_the_oracle_s_texts_and_its_books_agree(room: str, exact: GPT):
    run, _, repaired, _ = ROOMS[room]
    said, whole = run(exact, repaired)
    assert (wrong_texts(said), whole) == ([], True)
    assert "has a count of" not in said


@pytest.mark.parametrize(("name", "function", "misconception"), JUDGED)
def test_a_check_says_what_is_wrong_with_an_exhibit_of_lesson_9(
    name: str, function: Callable[..., Any], misconception: str
):
    for seed in range(3):
        report = exercise(f"l09.{name}").check(function, seed=seed)
        assert (report.status, report.misconception) == ("failed", misconception)


@pytest.mark.parametrize("answer", right("l09.block_hashes"), ids=lambda each: each.__name__)
def test_any_right_hash_repairs_exhibits_a_and_e(answer: Callable[..., Any], exact: GPT):
    assert exhibits.behind_another(exact, answer)[1]
    assert exhibits.two_adapters(exact, answer)[1]


def test_the_books_tell_of_exhibit_c_before_any_text_does_and_of_b_the_texts_alone(exact: GPT):
    freed, _ = exhibits.one_leaves(exact, exhibits.all_of_its_table)
    assert "After step 3 block 0 has a count of 0, and 1 table names it." in freed
    shared, _ = exhibits.two_in_one_block(exact, exhibits.into_the_same)
    assert "has a count of" not in shared


def test_what_is_found_by_a_wrong_hash_is_more_than_there_is(exact: GPT):
    def found(said: str) -> list[int]:
        return [int(number) for number in re.findall(r"^\| \d+ \| (\d+) \|", said, re.M)]

    broken, _ = exhibits.behind_another(exact, exhibits.of_its_own_tokens)
    mended, _ = exhibits.behind_another(exact, worked("l09.block_hashes"))
    assert (found(broken), found(mended)) == ([0, 0, 32], [0, 0, 16])
    lent, _ = exhibits.two_adapters(exact, exhibits.of_tokens_alone)
    kept, _ = exhibits.two_adapters(exact, worked("l09.block_hashes"))
    assert (found(lent), found(kept)) == ([0, 32], [0, 0])


def test_a_request_reads_the_k_v_of_a_step_that_failed_until_exhibit_d_is_repaired(exact: GPT):
    said, _ = exhibits.a_step_that_fails(exact, exhibits.as_soon_as_written)
    assert "Step 1 failed and was done again." in said
    assert "| 1 | 48 |" in said
    mended, _ = exhibits.a_step_that_fails(exact, once_committed)
    assert "Step 1 failed and was done again." in mended
    assert "| 1 | 0 |" in mended


@pytest.mark.parametrize(("name", "function", "_"), JUDGED[1:3])
def test_the_engine_s_own_guard_refuses_an_exhibit(name: str, function: Any, _: str, exact: GPT):
    engine = Engine(exact, SETTINGS, Parts(**{name: function}))
    text = exhibits.KING + exhibits.SAYS
    for number in range(2):
        engine.submit(Request(number, encode(text + "er"), 6 + 20 * number))
        engine.step()
    if name == "writable":  # only a fork shares a block that is not full
        engine.cache.fork(0, 2)  # pyright: ignore[reportAttributeAccessIssue]
        with pytest.raises(PartError, match="your writable returned"):
            engine.cache.place([(2, 1)])  # pyright: ignore[reportAttributeAccessIssue]
        return
    with pytest.raises(PartError, match="your release frees block 0; with this one, 2 tables"):
        engine.run([])


@pytest.mark.parametrize("room", ROOMS)
@pytest.mark.parametrize("answer", [None, 7, [1], "K/V"], ids=str)
def test_an_exhibit_that_answers_nonsense_is_shown_as_broken(room: str, answer: Any, exact: GPT):
    said, whole = ROOMS[room][0](exact, lambda *args: answer)
    assert not whole and said.startswith("| request | tokens found |")
