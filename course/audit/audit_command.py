"""`learn.py audit`: the audits of all exercises of some lessons, spread over processes, as a table.

A process is given one exercise at a time; what it finds comes back as plain data.
"""

import os
from collections import Counter
from collections.abc import Iterable, Sequence

from rich import box
from rich.console import Console
from rich.table import Table

from course.audit.auditing import Audit, Count, audit
from course.lesson_map import Lesson
from course.registry import exercise, lesson_exercises
from nanogpt.experiments.pool import run_jobs

_MOST_PROCESSES = 4
_WIDE = 120  # columns, where no terminal says how many there are
_COLUMNS = ("right", "wrong", "mutants", "weakened", "types", "explained", "unexplained", "s")


def audit_lessons(lessons: Sequence[Lesson], num_seeds: int) -> int:
    """Audits the lessons' exercises and shows what it found; returns the exit status."""
    jobs = [(each.id, num_seeds) for lesson in lessons for each in lesson_exercises(lesson.stem)]
    num_processes = min(_MOST_PROCESSES, os.cpu_count() or 1, len(jobs))
    console = _console()
    audits = list(_told(run_jobs(audit_one, jobs, num_processes), lessons, console))
    order = [exercise_id for exercise_id, _ in jobs]
    show(sorted(audits, key=lambda each: order.index(each.exercise)), console)
    return 1 if any(each.findings for each in audits) else 0


def audit_one(exercise_id: str, num_seeds: int) -> Audit:
    """One job, in a process of its own; torch has one thread there."""
    return audit(exercise(exercise_id), num_seeds)


def _console() -> Console:
    console = Console(markup=False, highlight=False, emoji=False)
    if not console.is_terminal:
        console.width = _WIDE
    return console


def _told(audits: Iterable[Audit], lessons: Sequence[Lesson], console: Console) -> Iterable[Audit]:
    """The same; says meanwhile how far it is, on one line in a terminal, else lesson by lesson."""
    left = {each.id: lesson.stem for lesson in lessons for each in lesson_exercises(lesson.stem)}
    total, seconds = len(left), Counter[str]()
    with console.status(f"0 of {total} exercises") as status:
        for each in audits:
            stem = left.pop(each.exercise)
            seconds[stem] += round(each.seconds)
            status.update(f"{total - len(left)} of {total} exercises; {each.exercise} is done")
            if not console.is_terminal and stem not in left.values():
                console.print(f"{stem}: {seconds[stem]} s")
            yield each


def show(audits: Sequence[Audit], console: Console) -> None:
    """Prints the table, and below it every finding."""
    table = Table(box=box.ROUNDED if console.is_terminal else None)
    table.add_column("exercise", no_wrap=True)
    for name in _COLUMNS:
        table.add_column(name, justify="right")
    for each in audits:
        table.add_row(each.exercise, *_cells([each]))
    if len(audits) > 1:
        table.add_section()
        table.add_row("all", *_cells(audits))
    console.print(table)
    findings = [(each.exercise, what) for each in audits for what in each.findings]
    for exercise_id, what in findings:
        console.print(f"{exercise_id}: {what}", soft_wrap=True)
    count = f"{len(findings)} finding{'s' * (len(findings) > 1)}."
    console.print(count if findings else "Nothing is unexplained.")


def _cells(audits: Sequence[Audit]) -> list[str]:
    """The cells of a row, for one exercise or for several together."""
    counts = [
        (each.right, each.wrong, each.mutants, each.weakened, each.variants) for each in audits
    ]
    return [
        *(_together(column) for column in zip(*counts, strict=True)),
        str(sum(each.explained for each in audits)),
        str(sum(each.unexplained for each in audits)),
        f"{sum(each.seconds for each in audits):.0f}",
    ]


def _together(counts: Iterable[Count | None]) -> str:
    """The sum of the counts; a dash if there is none."""
    known = [count for count in counts if count is not None]
    good, total = sum(count.good for count in known), sum(count.all for count in known)
    return f"{good}/{total}" if known else "-"
