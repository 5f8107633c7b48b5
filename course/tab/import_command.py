"""`learn.py import FILE`: the answers and predictions of a browser in the learner's own copies."""

import contextlib
from pathlib import Path
from typing import Any, cast

from course import progress
from course.files import read_json
from course.launcher.failure import Failure, learn_command
from course.launcher.workspace import Workspace
from course.lesson_map import LESSONS, entries
from course.source.cutting import CELL_MARK

_ROOT = Path(__file__).parents[2]


def import_answers(file: Path) -> int:
    """Put the answers of a file that the site saved into the learner's lessons.

    What is there already is kept. Returns the exit status. Raises: Failure, OSError.
    """
    answers, predictions = _read(file)
    workspace = Workspace(_ROOT)
    workspace.work = progress.work_folder()
    for lesson in LESSONS:
        texts = [answers.pop(item.id) for item in entries(lesson) if item.id in answers]
        if texts:
            whole = f"\n\n\n{CELL_MARK}\n".join(["", *texts])
            for sentence in workspace.take_in(f"{lesson.stem}.py", whole):
                print(f"{lesson.stem}: {sentence}")
    for left in answers:
        print(f"{left} was left out: the course has no such exercise.")
    for key, choice in predictions.items():
        with contextlib.suppress(ValueError):  # no key of a prediction
            if progress.load_prediction(key) is None:
                progress.save_prediction(key, choice)
    print(f"{learn_command()} check l01 says whether the answers to lesson 1 are right.")
    return 0


def _read(file: Path) -> tuple[dict[str, str], dict[str, float]]:
    """The texts by exercise, and committed choices by prediction. Raises: Failure, OSError."""
    try:
        said = read_json(file)
        answers, predictions = (_records(said, each) for each in ("answers", "predictions"))
    except (ValueError, TypeError):
        raise Failure(f"{file} is no file that the site's Take along has saved.") from None
    texts = {key: each.get("best") or each.get("text") for key, each in answers.items()}
    choices: dict[str, Any] = {
        key: each.get("choice") for key, each in predictions.items() if each["committed"]
    }
    return (
        {key: text for key, text in texts.items() if isinstance(text, str)},
        {key: made for key, made in choices.items() if type(made) in (int, float)},
    )


def _records(said: Any, kind: str) -> dict[str, dict[str, Any]]:
    found = cast("dict[str, Any]", said[kind])
    return {str(key): each for key, each in found.items() if isinstance(each, dict)}
