"""A check in a child process: whatever an answer does, the one that asked goes on."""

import ctypes
import os
import sys
import time
from collections.abc import Iterator

import pytest
import torch
from answers import worked
from preempting import process_is_there, wait_for
from support import processes_below

from course import forking, harness
from course.attempt import attempt
from course.forking import check_apart
from course.registry import exercise

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(sys.platform != "linux", reason="forks are used on Linux alone"),
]
NEXT, MASK = exercise("l00.next_inputs"), exercise("l01.chunk_mask")
say = print  # ruff bars printing here, and learners print


@pytest.fixture(autouse=True)
def no_child_is_left() -> Iterator[None]:
    before = processes_below()
    yield
    assert processes_below(before) == set()


def test_a_report_comes_back_as_it_would_have_been_here(capsys: pytest.CaptureFixture[str]):
    def all_of_them(tokens, num_cached):
        say("looking")
        return tokens

    for answer in (worked("l00.next_inputs"), all_of_them):
        apart, here = check_apart(NEXT, answer), NEXT.check(answer)
        assert apart.runs_here
        assert apart.report.to_json() | {"seconds": 0} == here.to_json() | {"seconds": 0}
    assert (apart.report.misconception, apart.report.stdout) == ("feeds_everything", "looking\n")
    assert capsys.readouterr().out == ""


def keeps_the_lock(tokens, num_cached):
    # the second line below the def
    return sum(range(10**12))


def test_a_call_into_c_that_keeps_the_interpreters_lock_is_stopped_on_its_line():
    checked = check_apart(NEXT, keeps_the_lock)
    assert checked.report.status == "timeout"
    assert checked.report.idea == (
        "Your `next_inputs` was stopped on its line 3 (`return sum(range(10**12))`) after 2 s of "
        "computing inside one operation that Python cannot interrupt."
    )
    assert checked.report.tally == ""
    assert not checked.runs_here


def test_leaving_the_process_and_crashing_are_told_as_that():
    def crashes(tokens, num_cached):
        return ctypes.string_at(0)

    left, crashed = check_apart(NEXT, lambda tokens, n: os._exit(0)), check_apart(NEXT, crashes)
    assert left.report.status == crashed.report.status == "raised"
    assert left.report.idea == (
        "Your `next_inputs` ended the whole Python process (`os._exit`?), so that there is no "
        "answer to check."
    )
    assert crashed.report.idea == (
        "Your `next_inputs` crashed the Python process on its line 2 "
        "(`return ctypes.string_at(0)`) (SIGSEGV)."
    )
    assert not left.runs_here and not crashed.runs_here


def test_a_lesson_goes_on_with_the_reference_where_an_answer_took_its_process_with_it():
    made = attempt("l00.next_inputs", lambda: lambda tokens, n: os._exit(0))
    assert not made.started
    assert made.or_reference(len) is len
    assert "Below, the reference stands in for your `next_inputs`." in made._repr_html_()


def test_an_endless_loop_keeps_the_sentence_of_its_own_limit(monkeypatch):
    monkeypatch.setattr(harness, "BACKSTOP", 100)  # a busy machine would reach the time first

    def endless(tokens, num_cached):
        while True:
            pass

    checked = check_apart(NEXT, endless)
    assert checked.report.status == "timeout"
    assert "took longer than 1 s of computing" in checked.report.idea
    assert not checked.runs_here


def test_a_child_of_the_answers_own_is_ended_with_it(tmp_path):
    note = tmp_path / "pid"

    def forks(tokens, num_cached):
        pid = os.fork()
        if pid == 0:
            time.sleep(600)
            os._exit(0)
        note.write_text(str(pid))
        return tokens[num_cached:]

    assert check_apart(NEXT, forks).report.status == "passed"
    wait_for(lambda: not process_is_there(int(note.read_text())), "the end of the answer's child")


def test_torch_computes_in_the_child_also_when_the_parent_used_several_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    torch.randn(600, 600) @ torch.randn(600, 600)

    def with_a_product(num_past, num_new):
        torch.randn(600, 600) @ torch.randn(600, 600)
        return worked("l01.chunk_mask")(num_past, num_new)

    try:
        assert check_apart(MASK, with_a_product).report.status == "passed"
        assert torch.get_num_threads() == 1
    finally:
        torch.set_num_threads(before)


def test_a_broken_check_is_no_answers_fault(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("course.exercise.run_checks", None)
    with pytest.raises(RuntimeError, match="The check itself went wrong: TypeError"):
        check_apart(NEXT, worked("l00.next_inputs"))


def test_where_a_fork_is_not_safe_the_check_runs_in_place(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(forking.sys, "platform", "darwin")
    calls = []
    assert check_apart(NEXT, lambda tokens, n: calls.append(n) or tokens[n:]).runs_here
    assert calls
