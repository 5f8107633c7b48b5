"""`learn.py grade`: a folder of submissions in, a folder of results out."""

from argparse import Namespace
from collections import Counter
from collections.abc import Sequence
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)

from course.calling.sandbox import sandboxed
from course.grading.batch import Batch, Graders, Local
from course.grading.handed_in.submissions import Found, Submission, find_submissions
from course.grading.record import Record
from course.grading.results.exports import gradebook_csv, gradescope_json, nbgrader_csv
from course.grading.results.pages import class_report, write_feedback, write_text
from course.grading.results.scheme import Scheme, read_scheme
from course.grading.spread import Dask
from course.launcher.failure import Failure
from course.lesson_map import LESSONS, find_lesson
from course.registry import lesson_exercises

_MOST_WORKERS = 64


def grade_class(arguments: Namespace) -> int:
    """Grade what is new or changed and write all results; returns the exit status.

    Raises: Failure, OSError.
    """
    try:
        return _grade_class(arguments, Console(markup=False, highlight=False, emoji=False))
    except ValueError as error:
        raise Failure(str(error)) from None


def _grade_class(arguments: Namespace, console: Console) -> int:
    if not 1 <= arguments.workers <= _MOST_WORKERS:
        raise Failure(f"--workers is 1 to {_MOST_WORKERS}, and this is {arguments.workers}.")
    scheme = read_scheme(arguments.points)
    wanted = [find_lesson(each).stem for each in arguments.lesson]
    stems = [each.stem for each in LESSONS if lesson_exercises(each.stem)]
    stems = [stem for stem in stems if not wanted or stem in wanted]
    found = find_submissions(arguments.submissions, stems, arguments.layout, arguments.out)
    if not found.submissions:
        _tell_left_out(found, arguments.out, console)
        raise Failure(found.misfit or "no student's file can be graded: see above.")
    if arguments.unsafe:
        console.print("Without a sandbox: use a machine that you throw away afterwards.")
    else:
        sandboxed().close()  # where there is none, before anything is written
    batch = Batch(arguments.out, not arguments.unsafe, arguments.seed)
    try:
        graders = Dask(arguments.dask) if arguments.dask else Local(arguments.workers)
        graded = _graded(batch, found.submissions, graders, console)
    except BrokenProcessPool:
        raise Failure(
            "the processes that grade were killed again and again (by a lack of memory?): what is "
            "done is kept, so give the same command again, perhaps with --workers 1."
        ) from None
    records = [record for each in found.submissions if (record := batch.record_of(each))]
    internal = [each for each in graded if each.is_internal]
    _write_results(arguments.out, [*records, *internal], scheme)
    _tell(graded, len(records) + len(internal) - len(graded), arguments.out, console)
    _tell_left_out(found, arguments.out, console)
    return 1 if internal or found.doubts else 0


def _graded(
    batch: Batch,
    submissions: Sequence[Submission],
    graders: Graders,
    console: Console,
) -> list[Record]:
    """Grade what is new, showing progress; returns its records."""
    new = [each for each in submissions if batch.record_of(each) is None]
    show = _Shown(console, len(new))
    with show.progress:
        return [show.after(record) for record in batch.grade(new, graders)]


class _Shown:
    """A progress bar with live counts; outside a terminal a line now and then."""

    def __init__(self, console: Console, total: int) -> None:
        self._console = console
        self._total = total
        self._counts = Counter[str]()
        self._done = 0
        self.progress = Progress(
            TextColumn("Grading"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.description}"),
            console=console,
            disable=not console.is_terminal,
        )
        self._bar: TaskID = self.progress.add_task("", total=total)

    def after(self, record: Record) -> Record:
        """Count a record, and return it."""
        self._done += 1
        self._counts.update(mark.status for mark in record.marks)
        words = _counted(self._counts)
        self.progress.update(self._bar, completed=self._done, description=words)
        if not self._console.is_terminal and 10 * self._done // self._total > (
            10 * (self._done - 1) // self._total
        ):
            self._console.print(f"{self._done} of {self._total} graded: {words}", soft_wrap=True)
        return record


def _counted(counts: Counter[str]) -> str:
    passed = counts["passed"]
    broken = sum(counts[each] for each in ("timeout", "crashed", "memory", "protocol"))
    wrong = counts["failed"] + counts["raised"]
    return f"{passed} passed, {wrong} not yet, {broken} broken off, {counts['internal']} internal"


def _write_results(folder: Path, records: Sequence[Record], scheme: Scheme) -> None:
    """Write all files that are made of the records."""
    write_text(folder / "gradebook.csv", gradebook_csv(records, scheme))
    write_text(folder / "nbgrader.csv", nbgrader_csv(records, scheme))
    for record in records:
        path = folder / "gradescope" / record.file_name
        write_text(path, gradescope_json(record, scheme))
    write_feedback(folder / "feedback", records, scheme)
    write_text(folder / "report.html", class_report(records, scheme))


def _tell(graded: Sequence[Record], num_before: int, folder: Path, console: Console) -> None:
    before = f", {num_before} as they were before" if num_before else ""
    console.print(f"{_files(len(graded))} graded{before}. The report: {folder / 'report.html'}")
    for record in graded:
        if record.is_internal:
            why = next(mark.idea for mark in record.marks if mark.status == "internal")
            console.print(f"{record.source}: {why}", soft_wrap=True)
        elif record.problem:
            console.print(record.problem, soft_wrap=True)


def _tell_left_out(found: Found, folder: Path, console: Console) -> None:
    """List in a file what was not graded, and say so."""
    lines = [f"{each.source}: {each.why}" for each in found.skipped]
    write_text(folder / "left_out.txt", "".join(f"{line}\n" for line in lines))
    for sentence in found.doubts:
        console.print(sentence, soft_wrap=True)
    if lines:
        path = folder / "left_out.txt"
        console.print(f"{_files(len(lines))} left out, with why: {path}", soft_wrap=True)


def _files(count: int) -> str:
    return f"{count} file{'' if count == 1 else 's'}"
