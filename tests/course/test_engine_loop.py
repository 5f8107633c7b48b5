"""The engine's loop on a lesson's page."""

import html
import re

import pytest

from course import progress
from course.engine_loop import POLICIES, engine_loop, source_lines, yours
from course.registry import exercises
from course.report import Report
from nanogpt.engine import Engine
from nanogpt.scheduler import Scheduler

LINES = [line for method in (Engine.step, Scheduler.schedule) for line in source_lines(method)]


def test_every_policy_of_an_exercise_stands_at_one_line_of_the_loop():
    named = [each for ids in POLICIES.values() for each in ids]
    assert sorted(named) == sorted(each.id for each in exercises() if each.is_policy)
    for piece in POLICIES:
        assert sum(piece in line for line in LINES) == 1, piece


def test_the_loop_is_the_source_with_one_line_lit_and_unfolds():
    def lines_of(text: str) -> list[str]:
        codes = re.findall(r"<code>(.*?)\n?</code>", text, re.DOTALL)
        return [html.unescape(re.sub(r"<.*?>", "", each)).strip("\n") for each in codes]

    excerpt, _, rest = engine_loop("self._plan(")._repr_html_().partition("<details>")
    for shown in (excerpt, rest):
        assert shown.count("<mark>") == 1
        assert lines_of(shown.partition("<mark>")[2])[0] == "    plan = self._plan(candidates)"
    assert len(lines_of(excerpt)) == 11 and lines_of(rest) == LINES
    assert '<span class="sng-k">if</span>' in excerpt
    whole = engine_loop("self._plan(", whole=True)._repr_html_()
    assert "<details>" not in whole and lines_of(whole) == LINES
    with pytest.raises(ValueError, match=r"0 lines of the loop have 'self\.think'"):
        engine_loop("self.think")


def test_a_passed_policy_is_marked_as_yours(tmp_path, monkeypatch):
    monkeypatch.setenv("SERVING_NANOGPT_WORK", str(tmp_path))
    assert yours("    preempted = self.select_victims()") == []
    progress.record(Report("l02.choose_victim", "passed", (), 0, ""))
    progress.record(Report("l02.requeue", "wrong", (), 0, ""))
    assert yours("    preempted = self.select_victims()") == ["choose_victim"]
