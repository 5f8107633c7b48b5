"""The course in the terminal: `python -m course`, and check, progress, grade, site or audit.

Exits with 0 only when everything that was checked passes.
"""

import argparse
import os
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from course import progress
from course.files import explain
from course.launcher.failure import Failure, cannot_load
from course.lesson_map import LESSONS, entries, find_exercise, find_id, find_lesson
from course.moved_records import carry_records
from course.overview import Standing, next_standing, standings

if TYPE_CHECKING:
    from course.report import Report
    from course.source.answer import Answer


def main(argv: Sequence[str]) -> int:
    """Runs one command; returns the exit status."""
    try:
        arguments = _parser().parse_args(argv)
        if arguments.command in ("progress", "check", "contest"):
            for sentence in carry_records(progress.work_folder()):
                print(sentence)
        if arguments.command == "progress":
            return show_progress()
        if arguments.command == "grade":
            return grade(arguments)
        if arguments.command == "site":
            return write_site(arguments)
        if arguments.command == "import":
            from course.tab.import_command import import_answers

            return import_answers(arguments.file)
        if arguments.command == "audit":
            return audit(arguments.lessons, arguments.seeds)
        if arguments.command == "contest":
            return play_contest(arguments)
        if arguments.command == "demo":
            _end_like_ctrl_c()
            return demo_live(arguments) if arguments.what == "live" else demo(arguments)
        if arguments.command in ("task", "hint"):
            return {"task": show_task, "hint": show_hint}[arguments.command](arguments.exercise)
        return check(arguments.lesson, arguments.exercise, arguments.file)
    except Failure as error:
        sentence, status = str(error), 2
    except ImportError as error:
        sentence, status = cannot_load(str(error)), 2
    except BrokenPipeError:
        raise
    except OSError as error:
        sentence = explain(error) if error.errno else cannot_load(str(error))
        status = 2
    except KeyboardInterrupt:
        sentence, status = "stopped.", 130
    print(f"course: {sentence}", file=sys.stderr)
    return status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m course", description="Checks, grades, shows and plays the course."
    )
    commands = parser.add_subparsers(dest="command", required=True)

    def add(name: str, help: str) -> argparse.ArgumentParser:
        return commands.add_parser(name, help=help, description=f"{help.capitalize()}.")

    checking = add("check", "check your answers of one lesson, or one answer")
    checking.add_argument("lesson", help="such as l01, or l01.plan_step")
    checking.add_argument("exercise", nargs="?", help="such as plan_step (default: all)")
    checking.add_argument("--file", type=Path, help="a .py or .ipynb file (default: your copy)")
    for name, what in (("task", "task"), ("hint", "next hint")):
        showing = add(name, f"show an exercise's {what}")
        showing.add_argument("exercise", help="such as l01.plan_step")
    add("progress", "show what is done, and what is next")
    taking = add("import", "put answers from the site into your copies of the lessons")
    taking.add_argument("file", type=Path, help="the file that the site's Take along saved")
    _add_grade(add("grade", "grade a class's submissions"))
    writing = add("site", "write the course as a static site")
    writing.add_argument("out", type=Path, help="folder for the site; replaces an older site")
    writing.add_argument(
        "--pyodide", type=Path, metavar="FOLDER", help="with editors: the unpacked npm package"
    )
    writing.add_argument("--solutions", action="store_true", help="add every worked answer")
    auditing = add("audit", "measure how good the checks are")
    auditing.add_argument("lessons", nargs="*", help="such as l01 (default: all)")
    seeds = "seeds for each right answer (default: %(default)s)"
    auditing.add_argument("--seeds", type=_at_least_1, default=25, help=seeds)
    _add_contest(add("contest", "score your policies beside a bound that none beats"))
    _add_demo(add("demo", "show a lesson as slides, or one engine live"))
    return parser


def _add_demo(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("what", help="a lesson, such as l03; or live")
    add("--export", type=Path, metavar="FILE", help="write the slides to this file instead")
    host = "address for live; 0.0.0.0 lets other machines in (default: %(default)s)"
    add("--host", default="127.0.0.1", help=host)
    add("--port", type=_port, default=2720, help="port to serve at (default: %(default)s)")
    add("--no-browser", action="store_true", help="open no browser")
    add("--model", type=Path, metavar="FOLDER", help="a model of the hub's for live, in its folder")


def _add_grade(parser: argparse.ArgumentParser) -> None:
    from course.grading.handed_in.layouts import LAYOUTS

    cores = len(os.sched_getaffinity(0)) if sys.platform == "linux" else 1
    add = parser.add_argument
    add("submissions", type=Path, help="a folder of lesson files, or a zip file of one")
    add("--out", type=Path, required=True, help="the folder for the results")
    layout = "how the submissions lie in it (default: %(default)s, a folder for each student)"
    add("--layout", choices=LAYOUTS, default="folder", help=layout)
    add("--lesson", action="append", default=[], help="such as l01; again for more (default: all)")
    add("--points", type=Path, help="a TOML file with points and late days")
    add("--seed", type=int, help="seed of the cases (default: drawn, and kept with the results)")
    processes = "processes that grade (default: one for each core, %(default)s)"
    add("--workers", type=_at_least_1, default=cores, help=processes)
    add("--dask", metavar="ADDRESS", help="Dask scheduler whose workers grade instead")
    add("--container", action="store_true", help="grade inside Docker or Podman")
    unsafe = "go on without a sandbox; the records say so"
    add("--unsafe", action="store_true", help=unsafe)


def _add_contest(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--file", type=Path, help="your policies (default: contest.py in the work folder)")
    add("--workload", action="append", help="a workload's name; again for more (default: all)")
    add("--seeds", type=_at_least_1, default=2, help="number of seeds (default: %(default)s)")
    add("--seed", type=_at_least_0, default=0, help="the first seed (default: %(default)s)")
    add("--plot", help="draw the points and the bound into this file, .png or .svg")
    add("--json", action="store_true", help="write JSON instead of text")


def _at_least_0(text: str, least: int = 0) -> int:
    if not text.isdecimal() or int(text) < least:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least {least}")
    return int(text)


def _at_least_1(text: str) -> int:
    return _at_least_0(text, 1)


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 0 to 65535")
    return int(text)


def check(wanted: str, only: str | None, file: Path | None) -> int:
    """Checks a lesson's answers and prints a report each. Answers in the work folder are saved."""
    lesson, item = find_id(f"{wanted}.{only.rpartition('.')[2]}" if only else wanted)
    path = file or progress.work_folder() / f"{lesson.stem}.py"
    if not path.is_file():
        where = "name a file that is there" if file else "open the course once to get your copy"
        raise Failure(f"There is no file {path}; {where}.")

    from course.calling.processes import own_starter
    from course.registry import exercise
    from course.source.answer import Answer, answer_in, loose_lines
    from course.source.cutting import read_notebook
    from course.source.texts import notebook_text

    try:
        text = notebook_text(path)
    except ValueError as error:
        raise Failure(f"{path} {error}.") from None
    notebook = read_notebook(text)
    found = [item] if item else entries(lesson)
    answers = {each.id: answer_in(notebook, each.name) for each in found}
    needs = "torch" in "".join(each.text for each in answers.values())
    own_starter("tensors" if needs else "numbers")  # which starts while the exercises are imported
    items = [exercise(each) for each in answers]
    starter = own_starter("tensors" if needs or "torch" in sys.modules else "numbers")
    passed: list[bool] = []
    for each in items:
        report = each.check_answer(Answer(text, each.name), starter=starter)
        passed.append(_show(report, answers[each.id], path, saving=file is None))
    for sentence in loose_lines(notebook):
        print(sentence)
    if len(items) > 1:
        print(f"{lesson.stem}: {sum(passed)} of {len(items)} exercises pass.")
    return 0 if all(passed) else 1


def show_task(wanted: str) -> int:
    """Prints an exercise's task."""
    from course.task import task

    print(task(find_exercise(wanted).id).text())
    return 0


def show_hint(wanted: str) -> int:
    """Prints an exercise's open hints and the next one, which is open from now on."""
    from course.task import hints_text

    item = find_exercise(wanted)
    shown = min(3, progress.load_hints(item.id) + 1)
    print(hints_text(item.id, shown))
    progress.save_hints(item.id, shown)
    return 0


def _show(report: "Report", answer: "Answer", path: Path, *, saving: bool) -> bool:
    """Prints a report and saves it; returns whether the answer passed."""
    from course.saved_answers import save_attempt

    if report.status == "missing" and not report.idea:
        idea = f"{path.name} defines no function `{answer.name}`: keep its name."
        report = replace(report, idea=idea)
    if report.status == "not_started":
        idea = f"Write `{answer.name}` in {path} in place of `raise NotImplementedError`"
        report = replace(report, idea=f"{idea}, save the file and check again.")
    print(report.text())
    note = save_attempt(report, answer) if saving else ""
    if note:
        print(f"  {note}")
    print()
    return report.status == "passed"


def audit(wanted: Sequence[str], num_seeds: int) -> int:
    """Shows how good the checks of these lessons are, or of all."""
    asked_for = [find_lesson(each) for each in wanted]

    from course.audit.audit_command import audit_lessons

    lessons = [each for each in LESSONS if not asked_for or each in asked_for]
    return audit_lessons(lessons, num_seeds)


def _end_like_ctrl_c() -> None:
    """Have a closed terminal and a kill end a server as Ctrl-C does."""
    for name in ("SIGTERM", "SIGHUP"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), lambda *_: signal.raise_signal(signal.SIGINT))


def demo(arguments: argparse.Namespace) -> int:
    """Shows a lesson as slides, until Ctrl-C, or writes them to a file."""
    lesson = find_lesson(arguments.what)

    from course.publish.slide_show import export_slides, serve_slides

    if arguments.export is None:
        return serve_slides(lesson, arguments.port, browser=not arguments.no_browser)
    return export_slides(lesson, arguments.export)


def demo_live(arguments: argparse.Namespace) -> int:
    """Serves one engine to the room, until Ctrl-C."""
    if arguments.export is not None:
        raise Failure("--export writes a lesson's slides; name a lesson instead of live.")

    from course.live.live_command import serve_room

    browser = not arguments.no_browser
    return serve_room(arguments.host, arguments.port, arguments.model, browser=browser)


def grade(arguments: argparse.Namespace) -> int:
    """Grades a class's submissions."""
    if arguments.container:
        from course.grading.container import grade_in_container

        return grade_in_container(arguments)
    if sys.platform != "linux":  # which the sandbox is for
        raise Failure(
            "grading needs Linux: add --container where there is Docker or Podman, or take a Linux "
            "machine or a virtual one (WSL 2)."
        )

    from course.grading.grade_command import grade_class

    return grade_class(arguments)


def play_contest(arguments: argparse.Namespace) -> int:
    """Plays the contest with the learner's policies."""
    os.environ["OMP_NUM_THREADS"] = "1"  # the model is so small that two would wait for each other

    from course.leaderboard.contest_command import contest

    return contest(arguments)


def write_site(arguments: argparse.Namespace) -> int:
    """Writes the course as a static site."""
    os.environ["OMP_NUM_THREADS"] = "1"  # as in the notebooks: two would wait for each other

    from course.publish.site_files import write_site as write

    return write(arguments.out, solutions=arguments.solutions, pyodide=arguments.pyodide)


def show_progress() -> int:
    """Prints done and total of each lesson, the minutes left, and the next step."""
    everything = standings()
    width = max(len(standing.lesson.title) for standing in everything)
    print(f"{'Lesson'.ljust(width + 6)}  Passed  Minutes left")
    for standing in everything:
        name = f"{standing.lesson.short:<4}  {standing.lesson.title}"
        done = f"{len(standing.passed)}/{len(standing.exercises)}"
        print(f"{name.ljust(width + 6)}  {done:>6}  {standing.minutes_left:>12}")
    print(f"\n{next_step(next_standing(everything))}")
    for sentence in (*progress.to_check_again(), *progress.set_aside()):
        print(sentence)
    return 0


def next_step(standing: Standing | None) -> str:
    """The next thing to do, in a sentence."""
    if standing is None or standing.next_exercise is None:
        return "Every exercise is passed."
    item = standing.next_exercise
    return (
        f"Next: {item.name} in {standing.lesson.stem} ({item.title}, about {item.minutes} minutes)."
    )


def exit_on_broken_pipe(command: Callable[[], int]) -> int:
    """Return a command's exit status, or 141, as shells have it, if its reader has gone."""
    try:
        status = command()
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what is left is flushed at the very end
        return 141
    return status


if __name__ == "__main__":
    sys.exit(exit_on_broken_pipe(lambda: main(sys.argv[1:])))
