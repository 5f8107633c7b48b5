"""Checks that can fail: whatever a right answer is made to forget is noticed, whatever the seed."""

import copy
from typing import Any

import pytest
from answers import still_right, worked
from weakening import weakenings

from course import harness
from course.registry import exercise, exercises

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore"),  # of what a weaker answer computes
]
SEEDS = (0, 1, 2)
# Judged by its score over whole loads, which a weaker policy may leave as good as it was.
IDS = [item.id for item in exercises() if item.id != "l07.my_policy"]


@pytest.mark.parametrize("exercise_id", IDS)
def test_a_weaker_answer_fails_with_every_seed(
    exercise_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """But for those that are right all the same: `still_right` says why."""
    item, calls = exercise(exercise_id), list[Any]()
    answer = worked(exercise_id)

    def noting(*args: Any) -> Any:
        calls.append(copy.deepcopy(args))
        return answer(*args)

    assert item.check(noting).status == "passed"
    monkeypatch.setattr(harness, "_CALL_LIMIT_S", 0.2)  # an endless one need not be waited for
    survivors = {
        name
        for name, weaker in weakenings(answer, calls)
        if any(item.check(weaker, seed=seed).status == "passed" for seed in SEEDS)
    }
    assert survivors == still_right(exercise_id).keys()
