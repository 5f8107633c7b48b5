"""Behind lesson 9: what its prose, its predictions and its tables say of runs on blocks."""

import hashlib
import re
from dataclasses import replace

import pytest
import torch
from support import ROOT

from course.answers import LoadedParts
from course.attempt import Attempt
from course.registry import exercise
from course.stories import l09_measured as measured
from course.stories import l09_pool as pool
from course.stories.l02_scheduler import recomputed
from nanogpt import Engine, Parts, Request, Trace, encode, load_model

LESSON = (ROOT / "lessons" / "l09_blocks.py").read_text()
BENCHMARKS = (ROOT / "docs" / "benchmarks.md").read_text()
EARLIER = LoadedParts(Parts(), {}, "0 of 18 parts are yours; the others are the reference.")


@pytest.fixture(scope="module")
def model():
    return load_model(dtype=torch.float64)


@pytest.fixture(scope="module")
def reference(model) -> Trace:
    return served(model, Parts())


def served(model, parts) -> Trace:
    return Engine(model, pool.SETTINGS, parts).run(pool.six_requests())


def attempted(**answers):
    return {
        name: Attempt(exercise(f"l09.{name}").check(answer), answer)
        for name, answer in answers.items()
    }


def without_parents(tokens, size, salt):
    ends = range(size, len(tokens) + 1, size)
    return [hashlib.sha256(repr((salt, tokens[e - size : e])).encode()).hexdigest() for e in ends]


def spelled_out(tokens, size, salt):
    """As right as the reference, by other names."""
    return [f"{salt}|{tokens[:end]}" for end in range(size, len(tokens) + 1, size)]


# ---- the recorded run ----------------------------------------------------------------------------


def test_four_of_the_six_requests_begin_alike_and_the_others_do_not():
    prompts = [request.prompt_tokens for _, request in pool.six_requests()]
    alike = encode("JULIET:\nO Romeo, Romeo! Where is")
    assert [i for i, prompt in enumerate(prompts) if prompt[:32] == alike] == [0, 1, 3, 5]
    assert "*JULIET: O Romeo, Romeo!\n    Where is*" in LESSON


def test_the_run_has_what_the_lesson_says_of_it(reference):
    """Nineteen blocks; request 3 comes four steps after request 0 has left and finds 48 tokens."""
    hits = {
        hit.request_id: (step.step, hit.num_tokens)
        for step in reference.steps
        for hit in step.prefix_hits
    }
    [left] = [step.step for step in reference.steps if 0 in step.finished]
    assert hits == {1: (3, 32), 3: (left + 4, 48), 5: (29, 32)}
    assert reference.steps[0].blocks.num_blocks == 19
    assert any(step.blocks.evicted for step in reference.steps)
    assert reference.error is None


def test_two_blocks_of_the_run_hold_the_same_letters_behind_different_ones():
    love = encode(" my love")
    found = [
        (request.id, at)
        for _, request in pool.six_requests()
        for at in range(0, len(request.prompt_tokens) - 7, 8)
        if request.prompt_tokens[at : at + 8] == love
    ]
    assert found == [(2, 16), (5, 32)]


def test_a_hash_without_its_parent_finds_them_and_writes_another_text(model, reference):
    trace = served(model, Parts(block_hashes=without_parents))
    said = pool.run_said(attempted(block_hashes=without_parents), EARLIER, model, trace, reference)
    assert "In this run `block_hashes` came from you" in said
    assert "**Not what the oracle `generate()` says: the text of request 5.**" in said
    assert "120 more were found in blocks" in said


def test_an_answer_that_is_right_by_other_names_is_the_reference_s_run(model, reference):
    trace = served(model, Parts(block_hashes=spelled_out))
    assert trace.steps != reference.steps
    assert pool.by_number(trace).steps == pool.by_number(reference).steps
    said = pool.run_said(attempted(block_hashes=spelled_out), EARLIER, model, trace, reference)
    assert "**All six texts equal those of the oracle `generate()`, token for token**" in said
    assert "the plan is the reference's too" in said
    assert "Prefills computed 180 tokens; 112 more were found in blocks." in said


def test_a_run_that_stops_before_its_first_step_says_so_in_the_pool_s_place(model):
    trace = replace(served(model, Parts()), steps=(), error="your allocate raised KeyError")
    assert pool.nothing_ran(trace) == (
        "No step was run, so there is no pool to draw. your allocate raised KeyError"
    )


# ---- predictions ---------------------------------------------------------------------------------


def computed_behind(first, second, size=16):
    """Tokens that the second of two prompts finds and computes, once the first is computed."""
    arrivals = [(0, Request(0, first, 2)), (3, Request(1, second, 2))]
    trace = measured.run(arrivals, size, share=True)
    return pool.found_tokens(trace), pool.computed_tokens(trace) - len(first)


def test_two_prompts_that_share_100_tokens_share_six_blocks_of_sixteen():
    alike = measured.drawn_tokens("alike", 100)
    prompts = [[*alike, i, *measured.drawn_tokens(f"own {i}", 49)] for i in range(2)]
    assert computed_behind(*prompts) == (96, 54)
    assert '"6 blocks, and it computes 54 tokens"' in LESSON


@pytest.mark.parametrize(("length", "computed"), [(160, 16), (161, 1)])
def test_a_prompt_that_is_there_whole_gives_its_last_block_up(length, computed):
    prompt = measured.drawn_tokens("whole", length)
    assert computed_behind(prompt, prompt) == (length - computed, computed)


def test_slots_hold_what_the_prediction_says():
    ends = [len(r.prompt_tokens) + r.max_new_tokens for _, r in measured.short_chats()]
    assert len(ends) == 24
    assert round(sum(ends) / len(ends)) == 64
    assert measured.shares_of_memory()[None] == pytest.approx(0.105, abs=5e-4)
    assert measured.reserved_revealed().startswith(
        "Counted over a run of 24 requests on this engine: **11%**."
    )


# ---- counted -------------------------------------------------------------------------------------


def test_smaller_blocks_leave_less_empty_and_find_more():
    shares = [measured.shares_of_memory()[size] for size in (64, 16, 8, 1)]
    assert shares == sorted(shares)
    assert shares[-1] == 1
    for series in measured.size_series():
        values = [y for _, y in series["points"]]
        assert values == sorted(values, reverse=True), series["name"]


def test_what_is_held_is_counted_once_however_many_tables_name_it():
    prompt = measured.drawn_tokens("twice", 40)
    trace = measured.run([(0, Request(0, prompt, 6)), (2, Request(1, prompt, 3))], 16, share=True)
    step = trace.steps[2]
    assert [kv.kv_tokens for kv in step.kv] == [42, 40]
    assert measured.tokens_taken(step, 16) == (2 + 1 + 1) * 16
    assert measured.tokens_held(step, 16) == 32 + 10 + 8


def rows_of(table):
    return [
        [cell.strip() for cell in line.strip("| ").split("|")] for line in table.splitlines()[2:]
    ]


def test_sixteen_requests_compute_their_system_prompt_once_or_as_often_as_they_start_together():
    assert rows_of(measured.sixteen_table(Parts(), "the reference")) == [
        ["slots", "5,120", "7,680"],
        ["blocks of 16, the reference", "800", "992"],
        ["the same, all sixteen at once", "1,088", "1,344"],
    ]


def test_a_part_that_fails_is_said_in_place_of_a_table():
    def fails(*_):
        raise KeyError("oops")

    for table in (measured.sixteen_table, measured.preempted):
        said = table(Parts(allocate=fails), "yours")
        assert said.startswith("**The run stopped early:** your allocate raised KeyError")


def test_a_preempted_request_finds_its_blocks_again():
    """Both runs preempt as often; the one that shares computes less than half of it again."""
    rows = rows_of(measured.preempted(Parts(), "the reference"))
    assert [row[0] for row in rows] == [
        "slots", "blocks of 8, not shared", "blocks of 8 that are found, the reference",
    ]  # fmt: skip
    assert [row[1] for row in rows] == ["4", "4", "4"]
    slots, unshared, found = (int(row[2]) for row in rows)
    assert found < 0.5 * unshared <= 0.5 * slots


def test_recomputed_counts_no_token_that_was_found():
    prompt = measured.drawn_tokens("again", 40)
    trace = measured.run([(0, Request(0, prompt, 3)), (1, Request(1, prompt, 3))], 8, share=True)
    assert recomputed(trace) == 0


# ---- quoted --------------------------------------------------------------------------------------


def test_the_shares_that_lesson_9_quotes_are_those_of_the_benchmarks():
    assert (
        "60 requests that end with 217 tokens on average fill **38.9 %** of their slots" in LESSON
    )
    assert "**94.9 %** of their blocks of 16" in LESSON
    assert "| slots | 38.9 % |" in BENCHMARKS
    assert "| blocks of 16 | 94.9 % |" in BENCHMARKS
    assert "these hold 217 tokens on average when they end" in BENCHMARKS


def test_the_first_tokens_that_lesson_9_quotes_are_those_of_the_benchmarks():
    quoted = re.findall(r"\| (\d+) \| (\d+) \| ([\d.]+) \| ([\d.]+) \|\n", LESSON)
    row = r"\| (\d+) \| (\d+) \| \d+ \| ([\d.]+) \| [\d.]+ to [\d.]+ \| ([\d.]+) \|"
    measured_there = re.findall(row, BENCHMARKS)
    assert len(measured_there) == 6
    assert quoted == measured_there


def test_the_cost_of_tables_that_lesson_9_quotes_is_that_of_the_benchmarks():
    quoted = re.findall(
        r"\| (blocks of \d+(?:, scattered)?) \| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \|", LESSON
    )
    row = (
        r"\| (blocks of \d+(?:, scattered)?) \| ([\d.]+) \(.*?\) \| ([\d.]+) \(.*?\) \| ([\d.]+) \("
    )
    measured_there = re.findall(row, BENCHMARKS)
    assert len(measured_there) == 5
    assert quoted == measured_there


def test_the_spread_that_lesson_9_quotes_is_that_of_the_benchmarks():
    table = BENCHMARKS.partition("What the tables cost where nothing is shared")[2].split("\n\n")[1]
    ends = [float(end) for pair in re.findall(r"\(([\d.]+) to ([\d.]+)\)", table) for end in pair]
    assert len(ends) == 30
    assert f"({min(ends):.1f} to {max(ends):.1f};" in LESSON
    medians = [float(each) for each in re.findall(r"\| ([\d.]+) \(", table.splitlines()[-1])]
    assert all(1 / 6 < each - 1 < 1 / 3 for each in medians), "a fifth to a third"
