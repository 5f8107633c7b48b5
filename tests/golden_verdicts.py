"""What the checks say of every right and every wrong answer, to compare while code moves.

    PYTHONPATH=tests python -m golden_verdicts > verdicts.jsonl

prints status, sentence, example, misconception, checks and tally of each with two seeds, a line of
JSON each; tests/golden/verdicts.json holds a digest of each.
"""

import json
import sys
from collections.abc import Callable, Iterator
from typing import Any

from answers import IDS, right, wrong

from course.registry import exercise
from course.report import Report

SEEDS = (0, 1)
UNLIKE_ITSELF = {("l02.aged_key", "by the clock")}  # its counterexample shows the time of day
SAID = ("status", "idea", "example", "misconception", "checks", "passed", "stdout")


def answers() -> Iterator[tuple[str, str, Callable[..., Any]]]:
    """(exercise id, name of the answer, the answer), of all lessons."""
    for exercise_id in IDS:
        for function in right(exercise_id):
            yield exercise_id, function.__name__, function
        for each in wrong(exercise_id):
            yield exercise_id, each.name, each.function


def key_of(exercise_id: str, name: str, seed: int) -> str:
    """Under which the digest of a verdict is written down."""
    return f"{exercise_id}, {name}, {seed}"


def said(report: Report) -> str:
    """What a report says, without how long it took."""
    return json.dumps({name: report.to_json()[name] for name in SAID}, sort_keys=True)


if __name__ == "__main__":
    for exercise_id, name, function in answers():
        for seed in SEEDS:
            report = exercise(exercise_id).check(function, seed=seed)
            line = json.dumps([exercise_id, name, seed, json.loads(said(report))])
            sys.stdout.write(f"{line}\n")
