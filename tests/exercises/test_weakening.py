"""Checks that can fail: whatever a right answer is made to forget is noticed, whatever the seed."""

import pytest

from course.audit.auditing import SCORED, weakened_that_pass
from course.registry import exercise, exercises

pytestmark = [
    pytest.mark.process,
    pytest.mark.filterwarnings("ignore"),  # of what a weaker answer computes
]
IDS = [item.id for item in exercises() if item.id != SCORED]


@pytest.mark.parametrize("exercise_id", IDS)
def test_a_weaker_answer_fails_with_every_seed(exercise_id: str) -> None:
    """But for those that are right all the same: `still_right` says why."""
    item = exercise(exercise_id)
    survivors = {name for name, passes in weakened_that_pass(item) if passes}
    mutants = tuple(f"{answer.__name__}(): " for answer in item.right)
    assert survivors == {name for name in item.still_right if not name.startswith(mutants)}
