"""The checks of lesson 9: any order and any hash will do, and what the cards show."""

import functools
import hashlib
import inspect
import os
import random
import subprocess
import sys
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from answers import right, worked, wrong
from fakes import assert_equals_oracle, oracle, prompt_of, tiny_model
from generated import examples
from hypothesis import given
from hypothesis import strategies as st

from course import harness
from course.answering import Here
from course.exercise import Exercise
from course.registry import exercise, lesson_exercises
from nanogpt.config import EngineConfig
from nanogpt.engine import Engine
from nanogpt.parts import Parts, blocks
from nanogpt.parts.cached_block import CachedBlock
from nanogpt.request import Request
from nanogpt.trace import Trace
from nanogpt.validate import PartError
from solutions.l09_blocks import _hashing
from solutions.l09_blocks._any_order import Sorted
from solutions.l09_blocks.block_hashes import any_texts, with_hash
from solutions.l09_blocks.evict_order import any_pool
from solutions.l09_blocks.release import any_tables

MANY = examples(100)
ITEMS: dict[str, Any] = {item.id: item for item in lesson_exercises("l09_blocks")}
NAMES = [item.name for item in ITEMS.values()]
WRONG = {f"{exercise_id} {each.name}": each for exercise_id in ITEMS for each in wrong(exercise_id)}
allocate, release, block_hashes, longest_match, writable, evict_order = map(worked, ITEMS)
TOKENS = st.lists(st.integers(0, 3), max_size=12)


def card(name: str) -> dict[str, str]:
    """The example rows that a known wrong answer gets to see."""
    return dict(exercise(WRONG[name].exercise).check(WRONG[name].function).example)


def checked_alone(name: str, title: str, function: Callable[..., Any], seed: int = 0) -> Any:
    """What one of an exercise's checks says."""
    item = ITEMS[f"l09.{name}"]
    checks = [(words, check) for words, check in item.checks if words == title]
    assert checks, title
    return harness.run_checks(item.id, Here(function), checks, seed=seed)


# --- what is accepted ------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_the_engine_s_own_functions_pass(name: str) -> None:
    function = getattr(blocks, name)
    reports = [exercise(f"l09.{name}").check(function, seed=seed) for seed in range(25)]
    assert {report.status for report in reports} == {"passed"}, reports[0].text()


@pytest.mark.parametrize("turn", [sorted, lambda freed: freed[::-1], tuple, set, frozenset])
def test_blocks_may_be_freed_in_any_order(turn: Callable[..., Any]) -> None:
    report = exercise("l09.release").check(lambda counts, table: turn(release(counts, table)))
    is_list = turn not in (set, frozenset)
    assert report.status == ("passed" if is_list else "failed"), report.text()
    assert report.misconception == (None if is_list else "not_a_list")


def test_numbers_in_another_type_are_sorted_and_the_rest_stays_as_it_is() -> None:
    assert Sorted(lambda: (3.0, 1, 2))() == [1, 2, 3]
    assert Sorted(lambda: [3, "1"])() == [3, "1"]
    assert Sorted(lambda: [True, 0])() == [True, 0]
    assert Sorted(lambda: None)() is None


@pytest.mark.parametrize("algorithm", ["md5", "sha1", "sha256", "sha512", "blake2s", "sha3_224"])
@pytest.mark.parametrize("salted", ["each", "first", "joined"])
def test_any_digest_will_do_that_stands_for_the_same(algorithm: str, salted: str) -> None:
    def hashes(tokens: list[int], size: int, salt: str) -> list[str]:
        found: list[str] = []
        parent = salt if salted == "first" else ""
        for end in range(size, len(tokens) + 1, size):
            said = [parent, salt if salted == "each" else 0, *tokens[end - size : end]]
            text = f"{salt!r} {tokens[:end]}" if salted == "joined" else repr(said)
            parent = hashlib.new(algorithm, text.encode()).hexdigest().upper()
            found.append(parent)
        return found

    for seed in range(5):
        report = exercise("l09.block_hashes").check(hashes, seed=seed)
        assert report.status == "passed", report.text()


def test_half_a_digest_is_enough_and_a_quarter_is_not() -> None:
    def cut(length: int) -> Callable[..., Any]:
        return lambda *args: [each[:length] for each in block_hashes(*args)]

    assert exercise("l09.block_hashes").check(cut(32)).status == "passed"
    assert exercise("l09.block_hashes").check(cut(16)).misconception == "word_sized"


def test_a_right_hash_is_the_same_in_another_process_and_python_s_own_is_not() -> None:
    text, answers = ([5, 6, 7, 8, 9], 2, "adapter"), (*right("l09.block_hashes"), with_hash)
    code = (
        "from solutions.l09_blocks.block_hashes import EXERCISE, with_hash\n"
        f"for answer in (*EXERCISE.right, with_hash): print(list(answer(*{text})))"
    )
    env = {**os.environ, "PYTHONHASHSEED": "random"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True
    )
    same = [
        str(list(answer(*text))) == line
        for answer, line in zip(answers, done.stdout.splitlines(), strict=True)
    ]
    assert same == [True] * 5 + [False]


# --- hashes by what they have in common ---------------------------------------------------------


def test_a_pattern_says_which_hashes_are_equal() -> None:
    assert _hashing.pattern([["a", "b"], ["a", "c", "b"], []]) == [[0, 1], [0, 2, 1], []]


@pytest.mark.parametrize("answer", right("l09.block_hashes"), ids=lambda each: each.__name__)
def test_the_right_pattern_is_that_of_every_right_answer(answer: Any) -> None:
    for seed in range(30):
        for group in any_texts(random.Random(seed)):
            found = [answer(*args) for args in group]
            labels = [_hashing.right_labels(*args) for args in group]
            assert _hashing.pattern(found) == _hashing.pattern(labels), group


def test_drawn_texts_share_beginnings_and_differ_in_salts_and_in_single_tokens() -> None:
    same, salts, sizes = 0, set[str](), set[int]()
    for group in any_texts(random.Random(3)):
        labels = [_hashing.right_labels(*args) for args in group]
        flat = [label for one in labels for label in one]
        same += len(flat) - len(set(flat))
        salts |= {salt for _, _, salt in group}
        sizes |= {size for _, size, _ in group}
    assert same > 20
    assert salts == {"", "adapter", "0"} and sizes >= {1, 2, 3}


def test_the_card_shows_two_texts_and_the_hash_that_they_must_not_share() -> None:
    rows = card("l09.block_hashes no_parent")
    assert rows["input"] == (
        "a = block_hashes(tokens=[1, 2, 7, 8], size=2, salt='')\n"
        "b = block_hashes(tokens=[3, 4, 7, 8], size=2, salt='')"
    )
    assert rows["expected"] == "a[1] != b[1]"
    a, b = rows["got"].split(", ")
    assert a.removeprefix("a[1] = ") == b.removeprefix("b[1] = ")
    whole = card("l09.block_hashes whole_text")
    assert whole["expected"] == "a[0] == b[0]"


def test_one_text_that_repeats_itself_is_shown_alone() -> None:
    def each_by_its_tokens(tokens: list[int], size: int, salt: str) -> list[str]:
        return [f"{salt} {tokens[i : i + size]}" for i in range(0, len(tokens) - size + 1, size)]

    item = ITEMS["l09.block_hashes"]
    judge = _hashing.SameAndOther((), (), item.misconceptions[-2], item.misconceptions[-1], ())
    checks = [("one text", judge.on([([7, 7, 7, 7], 1, "")]))]
    report = harness.run_checks(item.id, Here(each_by_its_tokens), checks)
    rows = dict(report.example)
    assert rows["input"] == "a = block_hashes(tokens=[7, 7, 7, 7], size=1, salt='')"
    assert rows["expected"] == "a[0] != a[1]"
    assert report.idea.endswith("so the K/V does: the hashes have to differ.")


def test_an_unknown_mistake_is_told_what_a_hash_stands_for() -> None:
    def of_every_second_token(tokens: list[int], size: int, salt: str) -> list[str]:
        ends = range(size, len(tokens) + 1, size)
        return [f"{salt!r} {tokens[:end:3]} {end}" for end in ends]

    report = exercise("l09.block_hashes").check(of_every_second_token)
    assert (report.status, report.misconception) == ("failed", None)
    assert report.idea == (
        "The tokens up to the end of the block differ here, or the salt, so the K/V does: the "
        "hashes have to differ."
    )


def test_a_wrong_number_of_hashes_is_told_apart() -> None:
    report = exercise("l09.block_hashes").check(lambda *args: block_hashes(*args)[1:])
    assert (report.misconception, report.idea) == (
        "wrong_length",
        "There is one hash for each full block, so 2 here, not 1.",
    )


def test_an_answer_that_stops_when_asked_for_more_is_judged_by_what_it_said() -> None:
    calls = 0

    def gives_up(tokens: list[int], size: int, salt: str) -> list[str]:
        nonlocal calls
        calls += 1
        if tokens[:1] == [5] and calls > 12:
            raise ValueError("enough")
        return WRONG["l09.block_hashes no_parent"].function(tokens, size, salt)

    report = exercise("l09.block_hashes").check(gives_up)
    assert (report.status, report.misconception) == ("failed", "no_parent")


# --- drawn cases ----------------------------------------------------------------------------------


def test_drawn_tables_share_blocks_anywhere_and_some_share_none() -> None:
    cases = [case for seed in range(5) for case in any_tables(random.Random(seed))]
    num_freed = [len(release(*case)) for case in cases]
    some = [freed for freed, (_, table) in zip(num_freed, cases, strict=True) if freed < len(table)]
    assert len(some) > 50 and any(some) and 0 in some
    assert any(freed == len(table) for freed, (_, table) in zip(num_freed, cases, strict=True))
    assert all(counts[block] >= 1 for counts, table in cases for block in table)


@pytest.mark.parametrize("seed", range(10))
def test_no_two_blocks_of_a_drawn_pool_are_alike(seed: int) -> None:
    for (pool,) in any_pool(random.Random(seed)):
        assert len({(b.last_used, b.depth) for b in pool}) == len({b.id for b in pool}) == len(pool)


def test_every_order_keeps_a_child_in_front_of_its_parent() -> None:
    for seed in range(10):
        for (pool,) in any_pool(random.Random(seed)):
            of = {block.id: block for block in pool}
            for first, then in pairwise(evict_order(pool)):
                if of[first].last_used == of[then].last_used:
                    assert of[first].depth > of[then].depth


@pytest.mark.parametrize(
    ("name", "title"),
    [("allocate", "any table"), ("release", "any tables"), ("longest_match", "any text"),
     ("writable", "any table"), ("evict_order", "any pool")],
)  # fmt: skip
def test_drawn_cases_alone_catch_nearly_every_wrong_answer(name: str, title: str) -> None:
    item = ITEMS[f"l09.{name}"]
    missed = [
        each.name
        for each in wrong(item.id)
        if checked_alone(name, title, each.function).status != "failed"
    ]
    assert set(missed) <= {"looks_first"}


# --- what the cards show --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "asked", "expected", "got"),
    [
        ("l09.allocate partial", "allocate(num_blocks=1, num_tokens=17, size=4, free=[8, 2])",
         "None", "[8, 2]"),
        ("l09.allocate always_one_more",
         "allocate(num_blocks=0, num_tokens=8, size=4, free=[2, 6, 5])", "[2, 6]", "[2, 6, 5]"),
        ("l09.release frees_all", "release(counts=[2, 2, 1, 0, 1], table=[0, 1, 4])", "[4]",
         "[0, 1, 4]"),
        ("l09.longest_match nothing_left",
         "longest_match(hashes=['6b2f', '91ce'], cached={'6b2f': 7, '91ce': 3}, num_tokens=8, "
         "size=4)", "([7], 4)", "([7, 3], 8)"),
        ("l09.longest_match half_a_block",
         "longest_match(hashes=['6b2f', '91ce'], cached={'6b2f': 7, '91ce': 3}, num_tokens=8, "
         "size=4)", "([7], 4)", "([7, 3], 7)"),
        ("l09.writable in_place_of_others",
         "writable(table=[5, 2], counts=[0, 0, 2, 0, 0, 2], index=1, free=[1, 4])",
         "([5, 1], (2, 1))", "([5, 2], None)"),
        ("l09.writable looks_first", "writable(table=[0, 1], counts=[1, 1], index=1, free=[])",
         "([0, 1], None)", "IndexError"),
    ],
)  # fmt: skip
def test_a_misconception_is_shown_on_a_case_made_for_it(
    name: str, asked: str, expected: str, got: str
) -> None:
    assert card(name) == {"input": asked, "expected": expected, "got": got}


def test_a_pool_is_drawn_block_by_block() -> None:
    rows = card("l09.evict_order parents_first")
    assert rows["input"].splitlines()[1] == "  CachedBlock(id=6, count=0, last_used=4, depth=1),"
    assert (rows["expected"], rows["got"]) == ("[9, 6, 2]", "[2, 6, 9]")


# --- solutions against the engine's own ------------------------------------------------------


@MANY
@given(st.integers(0, 6), st.integers(1, 60), st.integers(1, 17), st.permutations(range(7)))
def test_allocate_is_the_engine_s(held: int, tokens: int, size: int, free: list[int]) -> None:
    for num_free in (0, 2, 7):
        args = held, tokens, size, list(free[:num_free])
        assert allocate(*args) == blocks.allocate(*args)


@MANY
@given(st.lists(st.integers(1, 3), min_size=1, max_size=9), st.data())
def test_release_is_the_engine_s(counts: list[int], data: st.DataObject) -> None:
    table = data.draw(st.lists(st.sampled_from(range(len(counts))), unique=True))
    assert release(counts, table) == blocks.release(counts, table)


@MANY
@given(TOKENS, st.integers(1, 5), st.sampled_from(["", "adapter"]))
def test_block_hashes_is_the_engine_s(tokens: list[int], size: int, salt: str) -> None:
    assert block_hashes(tokens, size, salt) == blocks.block_hashes(tokens, size, salt)


@MANY
@given(st.integers(1, 30), st.integers(1, 5), st.sets(st.integers(0, 31)))
def test_longest_match_is_the_engine_s(tokens: int, size: int, there: set[int]) -> None:
    hashes = [f"{i:02x}" for i in range(tokens // size)]
    cached = {f"{i:02x}": 31 - i for i in there}
    args = hashes, cached, tokens, size
    found, num_cached = longest_match(*args)
    assert (found, num_cached) == blocks.longest_match(*args)
    assert num_cached < tokens


@MANY
@given(st.permutations(range(8)), st.lists(st.integers(1, 3), min_size=8, max_size=8), st.data())
def test_writable_is_the_engine_s(
    numbers: list[int], counts: list[int], data: st.DataObject
) -> None:
    table, free = list(numbers[:4]), list(numbers[4:])
    args = table, counts, data.draw(st.integers(0, 3)), free
    assert writable(*args) == blocks.writable(*args)


@MANY
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(1, 4), st.integers(0, 4)), unique=True))
def test_evict_order_is_the_engine_s(worth: list[tuple[int, int, int]]) -> None:
    pool = [CachedBlock(i, *each) for i, each in enumerate(worth)]
    assert evict_order(pool) == blocks.evict_order(pool)


# --- on the engine ----------------------------------------------------------------------------

TIGHT = EngineConfig(
    token_budget=24, max_kv_tokens=44, block_size=4, share_prefixes=True, max_batch_size=3
)


def crowd() -> list[tuple[int, Request]]:
    """Requests that begin alike, more than fit: some are preempted, and blocks give way."""
    shared = prompt_of(3, 14)
    prompts = [shared[: 14 - 3 * (i % 3)] + prompt_of(i % 4, 3 + i) for i in range(8)]
    return [(i, Request(i, prompt, 12)) for i, prompt in enumerate(prompts)]


@functools.cache
def reference_run() -> Trace:
    return Engine(tiny_model(), TIGHT).run(crowd())


def test_the_crowd_shares_is_preempted_and_evicts() -> None:
    steps = reference_run().steps
    assert sum(len(step.prefix_hits) for step in steps) == 14
    assert sum(len(step.preempted) for step in steps) == 7
    assert any(step.blocks.evicted for step in steps)  # pyright: ignore[reportAttributeAccessIssue]


RIGHT = [
    pytest.param(item.name, answer, id=f"{item.name}-{answer.__name__}")
    for item in ITEMS.values()
    for answer in item.right
]


@pytest.mark.parametrize(("name", "answer"), RIGHT)
def test_the_engine_runs_on_every_right_answer_and_writes_the_oracle_s_texts(
    name: str, answer: Any
) -> None:
    arrivals = crowd()
    engine = Engine(tiny_model(), TIGHT, Parts(**{name: answer}))
    trace = engine.run(arrivals)
    assert_equals_oracle(arrivals)
    engine.cache.check()  # pyright: ignore[reportAttributeAccessIssue]
    same = reference_run()
    assert [step.preempted for step in trace.steps] == [step.preempted for step in same.steps]
    assert [step.prefix_hits for step in trace.steps] == [step.prefix_hits for step in same.steps]


@pytest.mark.parametrize("answer", [*ITEMS["l09.writable"].right], ids=lambda each: each.__name__)
def test_a_fork_is_copied_by_every_right_answer_before_it_is_written(answer: Any) -> None:
    engine = Engine(tiny_model(), TIGHT, Parts(writable=answer))
    engine.submit(Request(0, prompt_of(1, 10), 20))
    engine.step()
    cache: Any = engine.cache
    cache.fork(0, 1)
    held = cache.held(0).clone()
    cache.place([(1, 1)])
    assert cache.table(1) == (*cache.table(0)[:-1], 3)
    assert (cache.held(0) == held).all() and (cache.held(1) == held).all()
    cache.commit(1, 1)
    cache.check()


@pytest.mark.parametrize("answer", [lambda *_: None, lambda table, *_: (table, None)])
def test_a_copy_that_is_refused_leaves_the_books_as_they_were(answer: Any) -> None:
    engine = Engine(tiny_model(), TIGHT, Parts(writable=answer))
    engine.submit(Request(0, prompt_of(1, 10), 20))
    engine.step()
    cache: Any = engine.cache
    cache.fork(0, 1)
    before = cache.table(0), cache.table(1), cache.pool.num_free
    with pytest.raises(PartError, match="your writable returned"):
        cache.place([(1, 1)])
    assert (cache.table(0), cache.table(1), cache.pool.num_free) == before
    cache.check()


def test_what_is_free_is_named_by_no_table_when_it_is_offered_for_a_copy() -> None:
    seen: list[int] = []

    def watched(table: Any, counts: Any, index: int, free: Any) -> Any:
        seen.extend(counts[block] for block in free)
        return blocks.writable(table, counts, index, free)

    engine = Engine(tiny_model(), TIGHT, Parts(writable=watched))
    engine.submit(Request(0, prompt_of(1, 10), 20))
    engine.step()
    cache: Any = engine.cache
    cache.fork(0, 1)
    cache.place([(1, 1)])
    assert seen == [0]


def crossed() -> list[tuple[int, Request]]:
    """Three texts of blocks A and C, B and D, and then of B and C."""
    a, b, c, d = (prompt_of(i, 4) for i in range(4))
    texts = (a + c, b + d, b + c)
    return [(12 * i, Request(i, [*text, 5], 9)) for i, text in enumerate(texts)]


def harms(each: Any, arrivals: list[tuple[int, Request]]) -> str | list[int]:
    """What a wrong answer does: the error that ends the run, or the ids of wrong texts."""
    engine = Engine(tiny_model(), TIGHT, Parts(**{exercise(each.exercise).name: each.function}))
    try:
        engine.run(arrivals, 400)
    except (PartError, ValueError) as error:
        return f"{type(error).__name__}: {error}"
    return [
        r.id for _, r in arrivals
        if tuple(r.generated_tokens) != oracle(tuple(r.prompt_tokens), r.max_new_tokens)
    ]  # fmt: skip


@pytest.mark.parametrize("name", [name for name in WRONG if "block_hashes" not in name])
def test_the_guard_refuses_a_wrong_answer_before_it_spoils_a_text(name: str) -> None:
    found = harms(WRONG[name], crowd())
    assert found == [] or str(found).startswith(f"PartError: your {name[4:].split()[0]} "), found


def test_hashes_that_say_too_little_spoil_texts_and_no_guard_can_see_it() -> None:
    found = {
        WRONG[name].key: harms(WRONG[name], crossed()) for name in WRONG if "block_hashes" in name
    }
    assert found["no_parent"] == found["place_for_parent"] == [2]
    assert str(found["partial_block"]).startswith("PartError: your block_hashes returned ")
    assert found["no_salt"] == found["whole_text"] == [], "one engine has one salt; and no hits"


# --- what the page says ----------------------------------------------------------------------


@pytest.mark.parametrize("item", ITEMS.values(), ids=lambda item: item.name)
def test_the_task_s_signature_is_the_answer_s_own(item: Exercise) -> None:
    lines = inspect.getsource(item.right[0]).split(':\n    """')[0].removeprefix("def ")
    signature = " ".join(lines.split()).replace("( ", "(").replace(" )", ")")
    assert item.task.signature == signature
