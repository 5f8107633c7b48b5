"""How long a class takes to grade: 300 submissions, the same with endless loops, and beside load.

    python -m benchmarks.grading [--lesson l01] [--submissions 300] [--workers N] [--right 1000]
                                 [--busy 8]

Each submission answers every exercise of the lesson: rightly, wrongly, or with code that breaks,
in turns by a seed, from the exercises' own records. Wall seconds from the first submission to the
last record, processes started anew for each row. Then submissions that are right all through are
graded while processes count beside them: none may be timed out.
"""

import ast
import os
import random
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.measure import Table, begin, busy, option, p95
from course.exercise import Exercise, Function
from course.grading.batch import Batch, Local
from course.grading.handed_in.submissions import Submission
from course.lesson_map import find_lesson
from course.registry import lesson_exercises
from course.running_text import text_in_file

KINDS = {"right": 60, "wrong": 30, "broken": 10}
"""Of a hundred answers, about so many."""
BROKEN = (
    "def {name}(*given):\n    raise ValueError(given)\n",
    "def {name}(*given):\n    return None\n",
    "def {name}(*given):\n    import os\n    os._exit(0)\n",
    "def {name}(*given:\n",
    "",
)
ENDLESS = "def {name}(*given):\n    while True:\n        pass\n"
ENDLESS_SHARE = 0.05


@dataclass(frozen=True, slots=True)
class Row:
    """The times of grading so many submissions; `each_s` has the seconds of every one."""

    name: str
    seconds: float
    each_s: tuple[float, ...]
    statuses: dict[str, int]


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line."""
    cores = len(os.sched_getaffinity(0))
    own = {
        "--lesson": option("l01", "graded lesson"),
        "--submissions": option(300, "answers of a class"),
        "--workers": option(cores, "grading processes"),
        "--right": option(1000, "right answers graded beside load"),
    }
    options = begin(__doc__, arguments, own, busy=8)
    stem = find_lesson(options.lesson).stem
    typical = a_class(stem, options.submissions)
    slow = with_endless_loops(stem, typical)
    rows = [
        timed("typical", typical, options.workers),
        timed(f"{ENDLESS_SHARE:.0%} endless", slow, options.workers),
    ]
    if options.right:
        with busy(options.busy):
            right = a_class(stem, options.right, {"right": 1})
            rows.append(timed(f"right, {options.busy} busy", right, options.workers))
    print(f"{stem}, {len(lesson_exercises(stem))} exercises; {options.workers} workers\n")
    show(rows)


def show(rows: Sequence[Row]) -> None:
    """The table, as text; below it what the answers came to."""
    table = Table(":<16", "files:>6", "seconds:>8.1f", "per s:>6.1f", "p50 s:>7.3f",
                  "p95 s:>7.3f", "timed out:>10")  # fmt: skip
    for row in rows:
        count, p50_s = len(row.each_s), statistics.median(row.each_s)
        table.add(row.name, count, row.seconds, count / row.seconds, p50_s, p95(row.each_s),
                  row.statuses.get("timeout", 0))  # fmt: skip
    for row in rows:
        counts = ", ".join(f"{count} {status}" for status, count in row.statuses.items())
        print(f"\n{row.name}: {counts}", end="")
    print()


def timed(name: str, submissions: Sequence[Submission], workers: int) -> Row:
    """Grade them all, into a folder of their own."""
    with tempfile.TemporaryDirectory() as folder:
        batch = Batch(Path(folder), True, 1)
        began = time.perf_counter()
        records = list(batch.grade(submissions, Local(workers)))
        seconds = time.perf_counter() - began
    each_s = tuple(record.seconds for record in records)
    statuses = Counter(mark.status for record in records for mark in record.marks)
    return Row(name, seconds, each_s, dict(statuses.most_common()))


# ---- submissions ---------------------------------------------------------------------------------


def a_class(stem: str, count: int, kinds: dict[str, int] = KINDS) -> list[Submission]:
    """So many submissions, each with an answer to every exercise; the same at every call."""
    draw = random.Random(f"{stem} {count}")
    items = lesson_exercises(stem)
    sources = {item.name: {kind: answers(item, kind) for kind in kinds} for item in items}
    texts = [
        [draw.choice(sources[item.name][kind]) for item, kind in zip(items, drawn, strict=True)]
        for drawn in (draw.choices([*kinds], [*kinds.values()], k=len(items)) for _ in range(count))
    ]
    return [submission(stem, number, functions) for number, functions in enumerate(texts)]


def with_endless_loops(stem: str, typical: Sequence[Submission]) -> list[Submission]:
    """The same class, in which some files have an endless loop in the first exercise's place."""
    first = lesson_exercises(stem)[0].name
    every = round(1 / ENDLESS_SHARE)
    return [
        submission(stem, number, [each.text, ENDLESS.format(name=first)])
        if number % every == 0
        else each
        for number, each in enumerate(typical)
    ]


def submission(stem: str, number: int, functions: Sequence[str]) -> Submission:
    """A student's file; no two are the same."""
    head = f"# student {number}\nfrom __future__ import annotations"
    text = "\n\n".join([head, *functions])
    name = f"student {number:04}"
    return Submission(name, stem, f"{name}/{stem}.py", text, "", "")


def answers(item: Exercise, kind: str) -> list[str]:
    """Sources of an exercise's answers of a kind, those that work on their own."""
    if kind == "broken":
        return [text.format(name=item.name) for text in BROKEN]
    written = [way for each in item.misconceptions for way in each.written]
    functions = item.right if kind == "right" else written
    sources = [source for each in functions if (source := own_source(each, item.name))]
    return sources or [BROKEN[1].format(name=item.name)]


def own_source(function: Function, name: str) -> str | None:
    """A function with all that it uses, under the exercise's name; None where that is not found."""
    found = text_in_file(function, function.__name__)
    if found is None:
        return None
    kept = [node for node in ast.parse(found.text).body if not _is_ours(node)]
    return "\n".join([*map(ast.unparse, kept), f"{name} = {function.__name__}"])


def _is_ours(node: ast.stmt) -> bool:
    """Whether a statement imports from the course: such names stand in annotations only."""
    module = node.module if isinstance(node, ast.ImportFrom) else None
    return module is not None and module.split(".")[0] in ("__future__", "course", "nanogpt")


if __name__ == "__main__":
    main()
