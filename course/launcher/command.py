"""The commands of learn.py."""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from course.files import explain
from course.launcher import doctor
from course.launcher.failure import Failure, learn_command
from course.launcher.install import Installation
from course.launcher.server import add_options, serve
from course.launcher.workspace import Workspace
from course.lesson_map import find_lesson

ROOT = Path(__file__).resolve().parents[2]
COMMANDS = {
    "open": "open the course in the browser; what learn.py alone does",
    "jupyter": "open it in JupyterLab, which is installed then",
    "run": "open it as an app: no code, nothing to edit",
    "check": "check your answers in the terminal: check l01, or check l01.chunk_size",
    "task": "show an exercise's task in the terminal: task l01.chunk_size",
    "hint": "show an exercise's next hint in the terminal: hint l01.chunk_size",
    "progress": "what is done, and what is next",
    "reset": "start a lesson anew: reset l01; your version is kept, with the date",
    "update": "bring in new and changed lessons; your answers are carried over",
    "import": "put answers from the site into your lessons: import FILE; yours are kept",
    "contest": "play your policies on recorded workloads, beside a bound that no schedule beats",
    "demo": "a lesson as slides (demo l03), or one engine served to the room (demo live)",
    "grade": "grade a folder of submissions: grade CLASS --out RESULTS",
    "site": "write the course as a static site: site OUT",
    "audit": "measure how good the checks of a lesson are: audit l01",
    "doctor": "say what is wrong with this machine's set-up",
    "test": "run the tests in about 9 minutes (--quick: 2, --all: 60), or with pytest's options",
}
OF_THE_COURSE = (
    *("check", "task", "hint", "progress", "import", "contest", "demo", "grade", "site", "audit"),
)
MODES = {"open": "edit", "run": "run", "jupyter": "jupyter"}
# A shell may set these for other Pythons. With them, .venv would load foreign packages, the course
# would be installed elsewhere, or torch would be compiled at every start.
FOR_OTHERS = (
    *("PYTHONDONTWRITEBYTECODE", "PYTHONOPTIMIZE", "PYTHONPATH", "PYTHONSAFEPATH"),
    *("PYTHONWARNINGS", "PIP_PREFIX", "PIP_ROOT", "PIP_TARGET"),
)


def script() -> int:
    """Run `learn`, the script of an environment with the course, such as `uv run` makes."""
    return main(Path(sys.prefix) if sys.prefix != sys.base_prefix else None)


def main(venv: Path | None = None) -> int:
    """Run the command of the command line; return the exit status."""
    if not (ROOT / "learn.py").exists():
        sys.exit("learn: the course opens in a clone of its repository, as its README says.")
    for name in FOR_OTHERS:
        os.environ.pop(name, None)
    os.environ["PIP_USER"] = "0"  # a pip.conf may say it too
    return Launcher(ROOT, venv).run(sys.argv[1:])


class Launcher:
    """The course in the folder `root`, set up in `venv` and opened."""

    def __init__(self, root: Path, venv: Path | None = None) -> None:
        self.root = root
        self.workspace = Workspace(root)
        self.installation = Installation(root, venv)

    def run(self, argv: Sequence[str]) -> int:
        """Run one command; return the exit status."""
        if not argv or (argv[0].startswith("-") and argv[0] not in ("-h", "--help")):
            argv = ["open", *argv]
        try:
            return self._run(argv[0], argv[1:])
        except Failure as failure:
            sentence, status = str(failure), 1
        except OSError as error:
            sentence, status = explain(error), 1
        except KeyboardInterrupt:
            sentence, status = "stopped.", 130
        print(f"learn.py: {sentence}", file=sys.stderr)
        return status

    def _run(self, command: str, rest: Sequence[str]) -> int:
        if command == "test":
            return self.test(rest)
        if command in OF_THE_COURSE and (self.installation.holds() or "--help" not in rest):
            return self.ask_course(command, rest)
        options = parser().parse_args([command, *rest])
        if command in MODES:
            self.prepare(*(["jupyter"] if command == "jupyter" else []))
            return serve(MODES[command], self.installation.python, self.root, options)
        if command == "doctor":
            return doctor.report(self.installation)
        if command == "reset":
            kept = self.workspace.reset(find_lesson(options.lesson).short)
            print("The lesson is as new; exercises that you have passed stay passed.")
            if kept:
                print(f"Yours is kept: {kept.relative_to(self.root)}")
        else:
            print("\n".join(self.workspace.update() or ["Everything is up to date."]))
        return 0

    def prepare(self, *extras: str) -> None:
        """Bring in missing lessons, install what is missing, say which have a newer version."""
        self.workspace.bring_in()  # first, so that a problem with work/ shows before the long wait
        self.install(*extras)
        newer = self.workspace.newer()
        if newer:
            print(f"There is a newer version of {', '.join(newer)}: {learn_command()} update")

    def install(self, *extras: str) -> None:
        """Install what is missing, after a sentence on each thing to know about this machine."""
        if not self.installation.holds(*extras):
            for sentence in doctor.notes(self.root):
                print(f"learn.py: note: {sentence}", flush=True)
        self.installation.ensure(*extras)

    def ask_course(self, command: str, rest: Sequence[str]) -> int:
        """Have `python -m course` carry a command out."""
        self.prepare(*(["live"] if [command, *rest][:2] == ["demo", "live"] else []))
        os.environ["PYTHONPATH"] = str(self.root)
        # -P: modules in the current folder, which may hold submissions, are not imported.
        return become([self.installation.python, "-P", "-m", "course", command, *rest])

    def test(self, rest: Sequence[str]) -> int:
        """Run a tier of the tests in two processes: --quick, --all, or else the default.

        Any other arguments are pytest's, and its own tests run in one process.
        """
        self.install("dev")
        command = [self.installation.python, "-m", "pytest", *rest]
        if set(rest) <= {"--quick", "--all"}:
            command += ["-n", "2", "--dist", "loadgroup", "--no-loadscope-reorder"]
        os.environ.pop("SERVING_NANOGPT_WORK", None)
        os.chdir(self.root)
        return become(command)


def parser() -> argparse.ArgumentParser:
    """Return the parser of the commands that the launcher carries out itself."""
    made = argparse.ArgumentParser(
        prog=learn_command(),
        description="Serving NanoGPT: set it up and open it.",
        epilog="COMMAND --help says more about a command, once the course is installed.",
    )
    commands = made.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, text in COMMANDS.items():
        each = commands.add_parser(name, help=text, description=text, allow_abbrev=False)
        if name in MODES:
            add_options(each)
        elif name == "reset":
            each.add_argument("lesson", metavar="LESSON", help="such as l01")
    return made


def become(command: Sequence[str | Path]) -> int:
    """Run a program in place of this one, so that Ctrl-C reaches only the program.

    Windows cannot replace a process. There this process waits, ignores Ctrl-C, which the console
    sends to both, and returns the program's exit status.
    """
    sys.stdout.flush()
    if os.name != "nt":
        os.execv(command[0], list(command))
    signal.signal(signal.SIGINT, lambda *_: None)
    return subprocess.call(command)
