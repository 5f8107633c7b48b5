"""Each exercise's audit finds nothing: the test of an exercise, its check and its answers.

Right answers pass, also in other types; wrong ones are told their own misconception; slips in right
answers and weaker forms of them fail, but for those whose reason to pass is written down.
"""

from typing import Any

import pytest
from answers import IDS
from tiers import some, tier

from course.audit.auditing import audit
from course.registry import exercise


@pytest.mark.process
@pytest.mark.parametrize("exercise_id", IDS)
def test_the_audit_of_an_exercise_finds_nothing(exercise_id: str) -> None:
    num_seeds = 5 if tier() == "all" else 1

    def choose(made: list[Any]) -> list[Any]:
        return some(made, 3)

    assert audit(exercise(exercise_id), num_seeds, choose=choose).findings == ()
