"""What the checks say of every right and every wrong answer, to compare while code moves.

    PYTHONPATH=tests python -m golden_verdicts > verdicts.jsonl

prints status, sentence, example, misconception, checks and tally of each with two seeds, a line of
JSON each; tests/golden/verdicts.json holds a digest of each. With ids of exercises, as in

    PYTHONPATH=tests python -m golden_verdicts l01.plan_step

it writes the digests of these anew.
"""

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from answers import IDS, right, wrong
from golden_runs import digest

from course.registry import exercise
from course.report import Report

WRITTEN = Path(__file__).with_name("golden") / "verdicts.json"
SEEDS = (0, 1)
UNLIKE_ITSELF = {("l02.aged_key", "changes")}  # its counterexample shows the time of day
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


def write_anew(exercise_ids: list[str]) -> None:
    """Write these exercises' digests anew, at the end of tests/golden/verdicts.json."""
    known: dict[str, str] = json.loads(WRITTEN.read_text(encoding="utf-8"))
    digests = {key: known[key] for key in known if key.split(",")[0] not in exercise_ids}
    for exercise_id, name, function in answers():
        if exercise_id in exercise_ids and (exercise_id, name) not in UNLIKE_ITSELF:
            for seed in SEEDS:
                verdict = said(exercise(exercise_id).check(function, seed=seed))
                digests[key_of(exercise_id, name, seed)] = digest(verdict)
    text = json.dumps(digests, ensure_ascii=False, indent=0)
    WRITTEN.write_text(f"{text}\n", encoding="utf-8")


def print_all() -> None:
    """A line of JSON for each verdict."""
    for exercise_id, name, function in answers():
        for seed in SEEDS:
            report = exercise(exercise_id).check(function, seed=seed)
            line = json.dumps([exercise_id, name, seed, json.loads(said(report))])
            sys.stdout.write(f"{line}\n")


if __name__ == "__main__":
    if sys.argv[1:]:
        write_anew(sys.argv[1:])
    else:
        print_all()
