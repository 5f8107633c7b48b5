"""Exercises that compute no tensors are checked where torch and its like are not installed."""

import sys

import pytest
from support import ROOT, run

from course.registry import exercises

TENSORS = {
    "l00.cached_attention", "l01.chunk_mask", "l03.full_mask", "l03.split_kv", "l03.pack",
    "l03.merge_attention", "l04.evict", "l04.compare_logits",
}  # fmt: skip
CODE = '''import copy, sys
sys.modules |= dict.fromkeys(("torch", "numpy", "psutil", "cloudpickle"))
from course.calling.errors import raised
from course.calling.results import CallResult
from course.calling.values import plain
from course.registry import exercises

class Here:
    """A function in this process, asked as an answer is."""
    def __init__(self, function, wrap=None):
        self.function, self.wrap = function, wrap
        self.plain_result = getattr(wrap, "plain_result", lambda value: value)
        self.argument, self.changed_result, self.callees = str, lambda: None, lambda names: []

    def call(self, args, **limits):
        args, value, error = copy.deepcopy(args), None, None
        try:
            value = plain((self.wrap or (lambda same: same))(self.function)(*args))
        except Exception as caught:
            error = raised(caught, self.function)
        return CallResult(value, tuple(map(plain, args)), error, False, "", 0.0)

    def asked_as(self, wrap):
        return Here(self.function, wrap)

for each in exercises():
    print(each.id, each.judge(Here(each.right[0])).status)'''


@pytest.mark.process
def test_right_answers_pass_where_nothing_that_computes_with_tensors_can_be_imported():
    done = run([sys.executable, "-c", CODE], cwd=ROOT)
    judged = dict(line.split() for line in done.stdout.splitlines())
    assert judged.keys() == {each.id for each in exercises()} - TENSORS, done.stderr
    assert set(judged.values()) == {"passed"}
