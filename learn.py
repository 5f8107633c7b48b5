"""Sets the course up and opens it. Standard library only."""

HELP = """\
Serving NanoGPT: set the course up and open it.

python3 learn.py              open the course in the browser (--port N, --no-browser)
python3 learn.py jupyter      open it in JupyterLab, which is installed then (same options)
python3 learn.py run          open it as an app: no code, nothing to edit (same options)
python3 learn.py check l01    check your answers of one lesson in the terminal
python3 learn.py progress     what is done, and what is next
python3 learn.py reset l01    start a lesson anew; your version is kept, with the date
python3 learn.py update       bring in new and changed lessons; your answers are carried over
python3 learn.py doctor       say what is wrong with this machine's set-up
python3 learn.py test         run the tests, in about 8 minutes; --quick: 2 minutes, --all: 40
                              (--lesson l05: one lesson's; other arguments go to pytest)
python3 learn.py grade CLASS --out RESULTS
                              grade a folder of submissions: marks, feedback, a report (--help)
python3 learn.py demo l03     a lesson as slides, with notes for you (--export OUT.html: one file)
python3 learn.py demo live    one engine, served to the room: phones send prompts, the projector
                              shows the schedule (--host 0.0.0.0, --port N, --no-browser)
python3 learn.py contest      your policies on recorded workloads, beside a bound that no
                              schedule beats (--help: seeds, leaderboard, verifying one)
python3 learn.py site OUT     write the course as a static site, to read (--solutions: with answers)
python3 learn.py audit l01    how good the checks are: which right and wrong answers, and which
                              slips in right ones, they tell apart (--seeds N; all without l01)
"""

import os
import signal
import sys


def stop(*_):
    """End at once, in one line: for Ctrl-C while nothing has been begun."""
    os.write(2, b"learn.py: stopped.\n")
    os._exit(130)


if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # a shell may have it ignored
    signal.signal(signal.SIGINT, stop)

# Nothing newer than Python 3.6 may stand in this file, so that the sentence can be said at all.
if sys.version_info < (3, 11):
    sys.exit(
        "learn.py: the course needs Python 3.11 or newer, and this is Python %d.%d (%s): "
        "install a newer one and run learn.py with it."
        % (sys.version_info[0], sys.version_info[1], sys.executable)
    )

import contextlib
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent
sys.path.insert(0, str(ROOT))  # where python3 -P and -I do not look

from course.files import explain
from course.launcher import doctor
from course.launcher.failure import Failure, exit_on_broken_pipe, learn_command
from course.launcher.install import COURSE, JUPYTER, LIVE, TESTS, Installation
from course.launcher.server import DEFAULT_PORT, end_with_its_own, parse_options, serve
from course.launcher.workspace import Workspace

# What a shell has set for other Pythons, or to put packages elsewhere, is not for .venv's: foreign
# packages would be loaded, the course's installed elsewhere, torch compiled at every start.
for name in (
    *("PYTHONDONTWRITEBYTECODE", "PYTHONOPTIMIZE", "PYTHONPATH", "PYTHONSAFEPATH"),
    *("PYTHONWARNINGS", "PIP_PREFIX", "PIP_ROOT", "PIP_TARGET"),
):
    os.environ.pop(name, None)
os.environ["PIP_USER"] = "0"  # a pip.conf may say it too
INSTALLATION = Installation(ROOT)
WORKSPACE = Workspace(ROOT)


def main(argv: list) -> int:
    """Run one verb; return the exit status."""
    verb, rest = (
        ("open", argv) if argv[:1] == [] or argv[0].startswith("-") else (argv[0], argv[1:])
    )
    if rest[:1] in (["-h"], ["--help"]) and verb not in ("test", "grade", "site", "contest"):
        print(HELP.strip().replace("python3 learn.py", learn_command()))
        return 0
    if signal.getsignal(signal.SIGINT) is stop:
        signal.signal(signal.SIGINT, signal.default_int_handler)  # from here on, there is an end
    try:
        if verb not in VERBS:
            raise Failure(f"there is no verb {verb!r}; the verbs are: {', '.join(VERBS)}.")
        return VERBS[verb](rest)
    except Failure as failure:
        sentence, status = str(failure), 1
    except BrokenPipeError:
        raise
    except OSError as error:
        sentence, status = explain(error), 1
    except KeyboardInterrupt:
        sentence, status = "stopped.", 130
    print(f"learn.py: {sentence}", file=sys.stderr)
    return status


def prepare(*more: str) -> None:
    """Bring in missing lessons, install what is missing, say which have a newer version."""
    WORKSPACE.bring_in()  # first: what is wrong with work/ is said before the long wait
    INSTALLATION.ensure(COURSE, *more)
    newer = WORKSPACE.newer()
    if newer:
        print(f"There is a newer version of {', '.join(newer)}: {learn_command()} update")


def shown_by(mode: str, *more: str):
    """Return the verb that shows the course in one of the server's modes."""

    def show(argv: list) -> int:
        options = parse_options(argv)
        prepare(*more)
        return serve(mode, INSTALLATION.python, ROOT, options)

    return show


class Interrupts:
    """Keeps Ctrl-C, and what is like it, until there is a process to end with it."""

    def __init__(self):
        self.came = False
        self.kept = [
            number
            for number in signal.valid_signals()
            if signal.getsignal(number) is signal.default_int_handler
        ]
        for number in self.kept:
            signal.signal(number, self.keep)

    def keep(self, *_):
        """Remember that one came."""
        self.came = True

    def let_through(self):
        """Raise KeyboardInterrupt if one came, and when one comes."""
        for number in self.kept:
            signal.signal(number, signal.default_int_handler)
        if self.came:
            raise KeyboardInterrupt


def asked_of_course(verb: str, farewell_s: float = 0):
    """Return a verb that `python -m course` carries out.

    Ctrl-C ends it at once, or gives it `farewell_s` seconds to end by itself.
    """

    def ask(argv: list) -> int:
        prepare()
        # -P: a module in the folder that one stands in, with submissions, is none of the course's.
        command = [INSTALLATION.python, "-P", "-m", "course", verb, *argv]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        interrupts = Interrupts()
        # In a session of its own, so that Ctrl-C reaches only this process and is said once.
        with subprocess.Popen(command, env=environment, start_new_session=True) as asked:
            try:
                interrupts.let_through()
                return asked.wait()
            except BaseException:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    if os.name == "nt":  # where Ctrl-C has reached it, and it says so itself
                        return asked.wait(farewell_s or 1)
                    if farewell_s:
                        asked.send_signal(signal.SIGINT)
                        return asked.wait(farewell_s)
                end_with_its_own(asked)
                raise

    return ask


def demo(argv: list) -> int:
    """Show the course to a class."""
    if argv[:1] == ["live"]:
        INSTALLATION.ensure(COURSE, LIVE)
    for name in ("SIGTERM", "SIGHUP"):  # a closed terminal is like Ctrl-C
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.default_int_handler)
    return asked_of_course("demo", farewell_s=8)(argv)


def test(argv: list) -> int:
    """Run a tier of the tests in two processes: --quick, --all, or else the default.

    Any other arguments are pytest's, and its own tests run in one process.
    """
    INSTALLATION.ensure(COURSE, TESTS)
    command = [INSTALLATION.python, "-m", "pytest", *argv]
    if set(argv) <= {"--quick", "--all"}:
        command += ["-n", "2", "--dist", "loadgroup", "--no-loadscope-reorder"]
    environment = {k: v for k, v in os.environ.items() if k != "SERVING_NANOGPT_WORK"}
    return subprocess.call(command, cwd=ROOT, env=environment)


def reset(argv: list) -> int:
    """Bring a lesson in anew."""
    if len(argv) != 1:
        raise Failure(f"reset takes one lesson, as in: {learn_command()} reset l01.")
    kept = WORKSPACE.reset(argv[0])
    print("The lesson is as new; exercises that you have passed stay passed.")
    if kept:
        print(f"Yours is kept: {kept.relative_to(ROOT)}")
    return 0


def update(argv: list) -> int:
    """Bring in what is new in the course's files."""
    if argv:
        raise Failure(f"update takes no arguments, not {argv[0]!r}.")
    print("\n".join(WORKSPACE.update() or ["Everything is up to date."]))
    return 0


def see_doctor(argv: list) -> int:
    """Say what is wrong, in words."""
    return doctor.report(INSTALLATION, port=parse_options(argv).port or DEFAULT_PORT)


VERBS = {
    "open": shown_by("edit"),
    "run": shown_by("run"),
    "jupyter": shown_by("jupyter", JUPYTER),
    "check": asked_of_course("check"),
    "progress": asked_of_course("progress"),
    "reset": reset,
    "update": update,
    "doctor": see_doctor,
    "test": test,
    "demo": demo,
    "audit": asked_of_course("audit"),
    "grade": asked_of_course("grade"),
    "site": asked_of_course("site"),
    "contest": asked_of_course("contest", farewell_s=8),
}

if __name__ == "__main__":
    sys.exit(exit_on_broken_pipe(lambda: main(sys.argv[1:])))
