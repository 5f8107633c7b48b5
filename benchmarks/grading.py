"""How long a class takes to grade: 300 submissions, the same with endless loops, and beside load.

    python -m benchmarks.grading [--lesson l01] [--submissions 300] [--workers N] [--right 1000]
                                 [--busy 8] [--json] [--plot FILE]

Each submission answers every exercise of the lesson: rightly, wrongly, or with code that breaks,
in turns by a seed, from the exercises' own records. Wall seconds from the first submission to the
last record, processes started anew for each row. Then submissions that are right all through are
graded while processes count beside them: none may be timed out.
"""

import ast
import inspect
import json
import os
import random
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.measure import busy, describe, machine
from course.exercise import Exercise, Function
from course.grading.batch import Batch, Local
from course.grading.handed_in.submissions import Submission
from course.grading.record import Record
from course.lesson_map import find_lesson
from course.registry import lesson_exercises
from nanogpt.experiments.command_line import Parser, Whole
from nanogpt.figures import Chart, Panel, cumulative
from nanogpt.figures.plot_option import PLOT_HELP, PlotFile, write_plot

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
    """What grading so many submissions came to; `each_s` has the seconds of every one, sorted."""

    name: str
    seconds: float
    each_s: tuple[float, ...]
    statuses: dict[str, int]

    @property
    def submissions(self) -> int:
        """How many there were."""
        return len(self.each_s)

    @property
    def per_s(self) -> float:
        """Submissions in a second."""
        return self.submissions / self.seconds

    @property
    def p50_s(self) -> float:
        """The median of one submission's seconds."""
        return statistics.median(self.each_s)

    @property
    def p95_s(self) -> float:
        """Their 95th percentile."""
        return self.each_s[min(self.submissions - 1, int(0.95 * self.submissions))]

    @property
    def timed_out(self) -> int:
        """Marks of answers that took too long."""
        return self.statuses.get("timeout", 0)


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line."""
    cores = len(os.sched_getaffinity(0))
    parser = Parser("python -m benchmarks.grading", str(__doc__))
    parser.add_argument("--lesson", default="l01", help="such as l01")
    parser.option("--submissions", Whole(1, 100_000), 300, "submissions of a class")
    parser.option("--workers", Whole(1, 64), cores, "processes that grade")
    parser.option("--right", Whole(0, 100_000), 1000, "right submissions graded beside load")
    parser.option("--busy", Whole(0, 64), 8, "processes that count beside them")
    parser.switch("--json", "print the figures as JSON")
    parser.option("--plot", PlotFile(), None, PLOT_HELP)
    options = parser.parse_args(arguments)
    stem = find_lesson(options.lesson).stem
    facts = machine()
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
    write_plot(options.plot, lambda: chart(rows, stem, str(facts["cpu"])))
    if options.json:
        shown = {"machine": facts, "lesson": stem, "rows": [as_json(row) for row in rows]}
        print(json.dumps(shown))
        return
    print(describe(facts))
    print(f"{stem}, {len(lesson_exercises(stem))} exercises; {options.workers} workers\n")
    show(rows)


def show(rows: Sequence[Row]) -> None:
    """The table, as text; below it what the answers came to."""
    print(f"{'':16} {'files':>6} {'seconds':>8} {'per s':>6} {'p50 s':>7} {'p95 s':>7} "
          f"{'timed out':>10}")  # fmt: skip
    for row in rows:
        print(f"{row.name:16} {row.submissions:6} {row.seconds:8.1f} {row.per_s:6.1f} "
              f"{row.p50_s:7.3f} {row.p95_s:7.3f} {row.timed_out:10}")  # fmt: skip
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
    return row_of(name, records, seconds)


def row_of(name: str, records: Sequence[Record], seconds: float) -> Row:
    """The figures of these records."""
    each_s = tuple(sorted(record.seconds for record in records))
    statuses = Counter(mark.status for record in records for mark in record.marks)
    return Row(name, seconds, each_s, dict(statuses.most_common()))


def as_json(row: Row) -> dict[str, object]:
    """A row with what follows from it."""
    derived = ("submissions", "per_s", "p50_s", "p95_s", "timed_out")
    return {name: getattr(row, name) for name in (*Row.__dataclass_fields__, *derived)}


def chart(rows: Sequence[Row], stem: str, where: str) -> Chart:
    """How long one submission takes, a curve for each class."""
    panel = Panel(
        ("one submission", "s"),
        ("submissions that take at most that", "%"),
        tuple(cumulative(row.name, row.each_s) for row in rows),
        log_x=True,
    )
    return Chart(f"Grading {stem}", (panel,), where)


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
    text = "\n\n".join([f"# student {number}", *functions])
    name = f"student {number:04}"
    return Submission(name, stem, f"{name}/{stem}.py", text, "", "")


def answers(item: Exercise, kind: str) -> list[str]:
    """Sources of an exercise's answers of a kind: those of them that stand by themselves."""
    if kind == "broken":
        return [text.format(name=item.name) for text in BROKEN]
    written = [way for each in item.misconceptions for way in each.written]
    functions = item.right if kind == "right" else written
    sources = [source for each in functions if (source := own_source(each, item.name))]
    return sources or [worked_module(item) if kind == "right" else BROKEN[1].format(name=item.name)]


def own_source(function: Function, name: str) -> str | None:
    """A function's source under the exercise's name, None unless it needs nothing around it."""
    found = definition(function)
    if found is None:
        return None
    needed = inspect.getclosurevars(function)
    around = {**needed.globals, **needed.nonlocals}
    if not all(inspect.ismodule(value) for value in around.values()):
        return None
    imports = [f"import {module.__name__} as {each}" for each, module in sorted(around.items())]
    found.name = name
    return "\n".join([*imports, without_annotations(found)])


def definition(function: Function) -> ast.FunctionDef | None:
    """What defines the function in its module, a lambda as a function; None for what is made."""
    module = inspect.getmodule(function)
    code = getattr(function, "__code__", None)
    if module is None or code is None or function.__closure__:
        return None
    names = list(inspect.signature(function).parameters)
    found: list[ast.FunctionDef] = []
    for node in ast.walk(ast.parse(inspect.getsource(module))):
        if not isinstance(node, ast.FunctionDef | ast.Lambda) or node.lineno != code.co_firstlineno:
            continue
        if [argument.arg for argument in node.args.args] != names:
            continue
        if isinstance(node, ast.Lambda):
            returned = ast.Return(node.body)
            node = ast.FunctionDef("answer", node.args, [returned], [])
        found.append(ast.fix_missing_locations(node))
    return found[0] if len(found) == 1 else None


def worked_module(item: Exercise) -> str:
    """The worked answer with what it needs of its module: other functions, constants, imports."""
    module = inspect.getmodule(item.right[0])
    assert module is not None
    defined: dict[str, ast.stmt] = {}
    for node in ast.parse(inspect.getsource(module)).body:
        for name in names_of(node):
            defined[name] = node
    wanted, found = [item.name], list[ast.stmt]()
    for name in wanted:  # which grows
        node = defined.get(name)
        if node is not None and node not in found:
            found.append(node)
            wanted += [each.id for each in ast.walk(node) if isinstance(each, ast.Name)]
    ordered = sorted(found, key=lambda node: node.lineno)
    lines = ["from __future__ import annotations", *map(ast.unparse, ordered)]
    return "\n".join(lines)


def names_of(node: ast.stmt) -> list[str]:
    """The names that a statement of a module defines, but for those from the course itself."""
    match node:
        case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
            return [name]
        case ast.ImportFrom(module=str(module)) if module.split(".")[0] in ("course", "nanogpt"):
            return []
        case ast.Import(names=names) | ast.ImportFrom(names=names):
            return [each.asname or each.name for each in names]
        case ast.Assign(targets=targets):
            return [each.id for each in targets if isinstance(each, ast.Name)]
        case _:
            return []


def without_annotations(function: ast.FunctionDef) -> str:
    """Its source; the names in annotations may not be there."""
    function.returns = None
    for argument in ast.walk(function.args):
        if isinstance(argument, ast.arg):
            argument.annotation = None
    return ast.unparse(function) + "\n"


if __name__ == "__main__":
    main()
