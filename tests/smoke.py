"""Does the course install, check, save, open, measure and stop on this machine? In ten minutes.

    python tests/smoke.py                        every step, in a copy below the home folder,
                                                 which stays if one fails
    python tests/smoke.py --in FOLDER STEP ...   these steps, in a copy that is there

Standard library only. A step is a function, and what it runs is a plain command; the steps that
follow a failed one run too. Exits with 1 when one has failed.
"""

import argparse
import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WINDOWS, MAC = os.name == "nt", sys.platform == "darwin"
STUB = b'raise NotImplementedError("Exercise 0.1: which tokens does the model have to compute?")'
WINDOW = {"creationflags": subprocess.CREATE_NEW_CONSOLE} if WINDOWS else {}  # to be interrupted in


class Course:
    """A copy of the course in a folder, and ways to run it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        venv_python = "Scripts/python.exe" if WINDOWS else "bin/python"
        self.venv_python = str(folder / ".venv" / venv_python)

    def learn(self, *arguments: str, **how: object) -> str:
        """What `python learn.py ARGUMENTS` says."""
        return self.run([sys.executable, "learn.py", *arguments], **how)

    def python(self, code: str, *arguments: str, **how: object) -> str:
        """What the code says, run by the Python of .venv."""
        return self.run([self.venv_python, "-c", code, *arguments], **how)

    def run(self, command: list[str], *, status: int = 0, limit_s: int = 60, **more: str) -> str:
        """What a command says. Raises: AssertionError for another status; TimeoutExpired."""
        done = subprocess.run(
            command, cwd=self.folder, env={**os.environ, **more}, timeout=limit_s,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        said = done.stdout.decode(errors="replace")
        assert done.returncode == status, f"exit status {done.returncode}, not {status}: {said}"
        return said

    @contextlib.contextmanager
    def opened(self, *arguments: str) -> Iterator[tuple["subprocess.Popen[str]", str]]:
        """The launcher with the course open, and its address. In the end, no process is left."""
        command = [sys.executable, "learn.py", *arguments, "--no-browser"]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "encoding": "utf-8"}
        pipes["errors"] = "replace"
        with subprocess.Popen(command, cwd=self.folder, **pipes, **WINDOW) as launcher:
            watch = threading.Timer(240, launcher.kill)
            watch.start()
            said = ""
            try:
                while not (address := re.search(r"http://\S+", said)):
                    line = launcher.stdout.readline()
                    assert line, f"the course did not open: {said}"
                    said += line
                yield launcher, address[0]
                launcher.wait(30)
            finally:
                watch.cancel()
                launcher.kill()
        end = time.monotonic() + 10
        while left := self.python(LEFT):
            assert time.monotonic() < end, f"still there after 10 s: {left}"


LEFT = """
import os, psutil
here = os.getcwd()
for each in psutil.process_iter(["pid", "exe", "cwd", "cmdline"]):
    about = [each.info["exe"] or "", each.info["cwd"] or ""]
    if each.pid not in (os.getpid(), os.getppid()) and any(a.startswith(here) for a in about):
        print(each.info)
"""
INTERRUPT = """
import ctypes, sys
console = ctypes.windll.kernel32
console.FreeConsole()
assert console.AttachConsole(int(sys.argv[1]))
console.SetConsoleCtrlHandler(None, True)
assert console.GenerateConsoleCtrlEvent(0, 0)
"""


def interrupt(course: Course, launcher: "subprocess.Popen[str]") -> None:
    """Press Ctrl-C in the launcher's window."""
    if WINDOWS:
        course.python(INTERRUPT, str(launcher.pid))
    else:
        launcher.send_signal(signal.SIGINT)


# --- the steps ------------------------------------------------------------------------------------


def first_run(course: Course) -> None:
    """It installs, finds nothing wrong, and torch can be imported."""
    assert "Passed" in course.learn("progress", limit_s=400)
    course.learn("doctor")
    course.python("import torch, nanogpt")


def encodings(course: Course) -> None:
    """What is written to a pipe in a Western Windows' encoding can be encoded."""
    western = {"PYTHONIOENCODING": "cp1252", "PYTHONUTF8": "0"}
    course.learn("progress", **western)
    course.learn("check", "l03", status=1, limit_s=120, **western)


def answers(course: Course) -> None:
    """A right answer passes; an endless one is stopped."""
    lesson = (course.folder / "lessons" / "l00_kv_cache.py").read_bytes()
    right = (
        b"n = 0\n    while n < min(len(cached), len(tokens) - 1) and tokens[n] == cached[n]:\n"
        b"        n += 1\n    return tokens[n:]"
    )
    bodies = {right: "passed", b"while True: pass": "took too long"}
    if hasattr(os, "fork") and not MAC:  # elsewhere such an answer keeps the process that checks it
        bodies[b"return sum(range(10**12))"] = "took too long"
    for body, verdict in bodies.items():
        (course.folder / "work" / "l00_kv_cache.py").write_bytes(lesson.replace(STUB, body))
        status = int(verdict != "passed")
        said = course.learn("check", "l00", "next_inputs", status=status)
        assert verdict in said, said


RECORD = """
from course import progress
from course.report import Report
for number in range(170):
    progress.record(Report("l00.next_inputs", "passed", (), 0, ""))
    assert progress.load("l00.next_inputs").ever_passed
"""


def progress_files(course: Course) -> None:
    """Three processes that save and read one exercise's progress lose nothing."""
    work = course.folder / "work of three"
    command = [course.venv_python, "-c", RECORD]
    environment = {**os.environ, "SERVING_NANOGPT_WORK": str(work)}
    writers = [subprocess.Popen(command, cwd=course.folder, env=environment) for _ in range(3)]
    assert [writer.wait(120) for writer in writers] == [0, 0, 0]
    assert [path.name for path in work.rglob("*") if path.is_file()] == ["l00.next_inputs.json"]


LESSONS = """
import sys
from websockets.sync.client import connect
port, token = sys.argv[1:]
for number, file in enumerate(["l00_kv_cache.py", "l01_chunked_prefill.py"]):
    query = f"session_id=s_smoke{number}&file={file}&access_token={token}"
    with connect(f"ws://127.0.0.1:{port}/ws?{query}", max_size=None) as socket:
        assert "kernel-ready" in socket.recv(60)
"""


def notebooks(course: Course) -> None:
    """Two lessons are open, then Ctrl-C or the launcher's end ends every process."""
    for way in ("Ctrl-C", "killed"):
        with course.opened() as (launcher, address):
            port, token = re.search(r":(\d+)/.*access_token=(\S+)", address).groups()
            course.python(LESSONS, port, token, limit_s=120)
            assert course.python(LEFT).count("\n") >= 4, "the look for what is left is blind"
            launcher.kill() if way == "killed" else interrupt(course, launcher)


def jupyter(course: Course) -> None:
    """JupyterLab is installed and shows its page; Ctrl-C ends it."""
    with course.opened("jupyter") as (launcher, address):
        address = re.sub(r"//[^:/]+", "//127.0.0.1", address)
        direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        assert direct.open(address, timeout=60).status == 200
        interrupt(course, launcher)


WORKERS = """
from course.lesson_data.l09_recording import real_workers
from nanogpt.fleet import decisions
times_ms = [row["ttft_ms"] for row in real_workers(decisions.route, 1)["by_hit"]]
assert min(times_ms) > 0 and len(set(times_ms)) == len(times_ms), times_ms
"""
RANKS = """
from course.lesson_data.l06_ranks import random_model, whole_pass
from nanogpt.preemption.runner import Runner
with Runner(2) as runner:
    runner.load(random_model(2, 64), 1)
    assert whole_pass(runner, 100)[0] > 0
"""
EXHIBIT = """
from course.lesson_data.l10_exhibits import sent_twice
from nanogpt.server.server_policies import stream_delta
said = sent_twice(lambda *args: stream_delta(*args))
assert said.count("the oracle's") == 4, said
"""


def processes(course: Course) -> None:
    """Lesson 9's workers, lesson 6's ranks and an exhibit of lesson 10 run and are measured."""
    course.python(WORKERS, limit_s=120)
    course.python(EXHIBIT)
    if not WINDOWS:  # where lesson 6 shows its recording
        course.python(RANKS, limit_s=120)


def quick_tests(course: Course) -> None:
    """The quick tests of the engine, the exercises, the systems and the widgets pass."""
    folders = [f"tests/{name}" for name in ("course", "engine", "exercises", "systems", "widgets")]
    course.learn(
        "test", "--quick", "-n", "3", "--dist", "loadgroup", *folders, limit_s=400, CI=""
    )  # may skip some


FOCUS = """
import pathlib, sys
sys.path.insert(0, "tests")
from galleries import make
from playwright.sync_api import sync_playwright
from widgets.standalone import page as html_page
file = pathlib.Path("work", "widgets.html").resolve()
file.write_text(html_page([make("WorkBars")], "Widgets"), encoding="utf-8")
with sync_playwright() as playwright:
    for name in sys.argv[1:]:
        page = getattr(playwright, name).launch().new_page()
        page.goto(file.as_uri())
        page.wait_for_selector("html[data-ready]")
        page.get_by_role("button", name="First step").click()
        page.get_by_role("button", name="Step forward").click()
        before = page.locator(".sn-live").text_content()
        page.keyboard.press("ArrowRight")
        assert page.locator(".sn-live").text_content() != before, name
"""


def browsers(course: Course) -> None:
    """In Safari's engine and in Firefox, the arrow keys step a picture whose button was clicked."""
    engines = ("webkit", "firefox")
    course.run([course.venv_python, "-m", "playwright", "install", *engines], limit_s=180)
    course.python(FOCUS, *engines)


def long_path(course: Course) -> None:
    """It installs where the longest path of a package goes beyond 260 characters."""
    deep = Course(course.folder.with_name("a long name " * 7 + "é"))
    copy_course(deep.folder)
    deep.learn("progress", limit_s=400)
    deep.python("import torch, nanogpt")
    shutil.rmtree(deep.folder, ignore_errors=True)


STEPS = [first_run, encodings, answers, progress_files, notebooks, jupyter, processes, quick_tests]
STEPS += [browsers] if MAC else [long_path] if WINDOWS else []


def copy_course(to: Path) -> None:
    """Copy everything but a learner's work and what is installed."""
    left_out = shutil.ignore_patterns(".git", ".venv", "work", ".browser-test", "__pycache__")
    shutil.rmtree(to, ignore_errors=True)
    shutil.copytree(ROOT, to, ignore=left_out)


def main() -> int:
    """Run the steps; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--in", dest="folder", type=Path)
    parser.add_argument("steps", nargs="*", metavar="STEP", help=", ".join(names := [*by_name()]))
    asked = parser.parse_args()
    if unknown := set(asked.steps) - set(names):
        parser.error(f"no step {sorted(unknown)}; the steps are {', '.join(names)}")
    os.environ.pop("SERVING_NANOGPT_WORK", None)  # the copy has a work folder of its own
    folder = asked.folder or Path.home() / "serving nanogpt smoke é"
    if not asked.folder:
        copy_course(folder)
    course, failed = Course(folder.resolve()), 0
    for name in asked.steps or names:
        began, outcome = time.perf_counter(), "ok"
        try:
            by_name()[name](course)
        except Exception as error:  # the other steps tell more
            failed, outcome = failed + 1, f"FAILED: {type(error).__name__}: {error}"
        sys.stdout.write(f"{name} ({time.perf_counter() - began:.1f} s): {ascii_only(outcome)}\n")
        sys.stdout.flush()
    if not asked.folder and not failed:
        shutil.rmtree(folder, ignore_errors=True)
    return int(failed > 0)


def by_name() -> dict[str, object]:
    """The steps of this system."""
    return {step.__name__: step for step in STEPS}


def ascii_only(text: str) -> str:
    """Text that every console can show."""
    return text.encode("ascii", "backslashreplace").decode()


if __name__ == "__main__":
    sys.exit(main())
