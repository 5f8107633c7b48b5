"""How long a learner waits in the browser: for a lesson to open, and for a verdict after an edit.

    python -m benchmarks.pages [--lessons l01,l05] [--edits 20] [--repeats 3] [--busy 0]

Needs the extra `dev` and Chromium. The course's own server shows a copy of the lessons; of
every lesson are measured, from the navigation's start, the heading, the first verdict and the first
picture, and, from the key press that runs the cell, the verdict and the moments at which the last
cell with a picture and the last cell of all have run. `--busy` keeps that many processes counting
beside it.
"""

import ast
import contextlib
import inspect
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, sync_playwright

from benchmarks.measure import begin, busy, option, p95
from course.exercise import Exercise
from course.launcher.doctor import is_temporary
from course.launcher.server import FIRST_PAGE, ONE_THREAD, answers
from course.launcher.workspace import Workspace
from course.registry import lesson_exercises

ROOT = Path(__file__).resolve().parent.parent
CHROMIUM = (
    "chromium-headless-shell", "chromium", "chromium-browser", "google-chrome",
    "google-chrome-stable",
)  # fmt: skip
HOST = "127.0.0.1"

LIMIT_MS = 120_000

# Notes in window.seen when something is first to be seen; a shadow root tells no observer.
WATCH = """() => {
    const seen = window.seen = {};
    const marks = {
        heading: () => document.querySelector("h1"),
        verdict: () => document.querySelector(".sng-report"),
        picture: () => [...document.querySelectorAll("marimo-anywidget")].some((each) =>
            each.shadowRoot?.querySelector(".sn:not(.sn-prediction):not(.sn-hints)")),
    };
    const timer = setInterval(() => {
        for (const [name, found] of Object.entries(marks)) {
            if (!(name in seen) && found()) seen[name] = performance.now();
        }
        if (Object.keys(seen).length === 3) clearInterval(timer);
    }, 10);
}"""
READY = """() => Object.keys(window.seen).length === 3
    && !document.querySelector('[data-status="running"], [data-status="queued"]')"""
# From the key press to the card's new status, and to the end of the last picture's cell and of all.
# What it looks at every 5 ms are collections that the page keeps up to date: to search the document
# so often would take time of the thread whose work is measured.
TIME = """([exercise, status]) => {
    window.edit = {};
    const cards = document.getElementsByClassName("sng-report");
    const cells = [...document.querySelectorAll("[data-status]")]
        .map((cell) => [cell, cell.getElementsByTagName("marimo-anywidget")]);
    const busy = ([cell]) => ["running", "queued"].includes(cell.dataset.status);
    const told = (card) => card.dataset.exercise === exercise && card.dataset.status === status;
    const pressed = (event) => {
        if (event.key !== "Enter" || !event.ctrlKey) return;
        document.removeEventListener("keydown", pressed, true);
        const start = performance.now();
        const timer = setInterval(() => {
            if (!window.edit.verdict && !Array.prototype.some.call(cards, told)) return;
            window.edit.verdict ??= performance.now() - start;
            const waiting = cells.filter(busy);
            if (waiting.some(([, pictures]) => pictures.length)) return;
            window.edit.pictures ??= performance.now() - start;
            if (waiting.length) return;
            clearInterval(timer);
            window.edit.all = performance.now() - start;
        }, 5);
    };
    document.addEventListener("keydown", pressed, true);
}"""


@dataclass(frozen=True, slots=True)
class Opening:
    """Seconds from the navigation to what is first seen of a lesson."""

    heading_s: float
    verdict_s: float
    picture_s: float


@dataclass(frozen=True, slots=True)
class Edit:
    """Milliseconds from the key that runs a cell to its verdict, and to the last cells' ends."""

    verdict_ms: float
    pictures_ms: float
    all_ms: float


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line."""
    stems = [each.stem for each in sorted(ROOT.glob("lessons/l[0-9]*.py"))]
    own = {
        "--lessons": {"default": "", "help": "such as l01,l05 (default: all)"},
        "--edits": option(20, "answers typed in each lesson"),
    }
    options = begin(__doc__, arguments, own, repeats=3, busy=0)
    wanted = tuple(options.lessons.split(","))
    chosen = [each for each in stems if each.startswith(wanted)]
    print(f"{options.busy} busy processes")
    print(f"seconds, slowest of {options.repeats}; ms from the key, median and p95\n")
    print(f"{'lesson':28} {'heading':>8} {'verdict':>8} {'picture':>8}")
    openings: dict[str, list[Opening]] = {stem: [] for stem in chosen}
    edits: dict[str, list[Edit]] = {stem: [] for stem in chosen}
    with busy(options.busy), chromium() as browser:
        for repeat in range(options.repeats):
            with course() as address:
                for stem in chosen:
                    with opened(browser, address, stem) as page:
                        openings[stem].append(opening(page))
                        if repeat == 0 and options.edits:
                            edits[stem] = list(typed(page, stem, options.edits))
    for stem in chosen:
        print(row(stem, openings[stem], edits[stem]))
    all_edits = [edit for each in edits.values() for edit in each]
    if all_edits:
        print(f"{'all lessons':28} {'':26} {percentiles(all_edits)}")


def row(stem: str, openings: Sequence[Opening], edits: Sequence[Edit]) -> str:
    """A lesson's line."""
    times = zip(*map(astuple, openings), strict=True)
    return f"{stem:28} {' '.join(f'{max(each):8.1f}' for each in times)} {percentiles(edits)}"


def percentiles(edits: Sequence[Edit]) -> str:
    """Median and p95 of the verdicts, of the pictures and of everything."""
    columns = zip(*map(astuple, edits), strict=True)
    named = zip(("verdict", "pictures", "all"), columns, strict=False)
    return "   ".join(f"{name} {statistics.median(ms):5.0f} {p95(ms):5.0f}" for name, ms in named)


# ---- a lesson in the browser ---------------------------------------------------------------------


@contextlib.contextmanager
def chromium() -> Iterator[Browser]:
    """The system's Chromium, without a window."""
    program = next(filter(None, map(shutil.which, CHROMIUM)), None)
    if program is None:
        raise SystemExit("Chromium is not installed.")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser
        browser.close()


@contextlib.contextmanager
def course() -> Iterator[str]:
    """The address of a new learner's course, whose work/ lies outside the temporary folders."""
    home = Path.home() / ".cache" if is_temporary(ROOT) else ROOT / ".browser-test"
    home.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(dir=home))
    shutil.copytree(ROOT / "lessons", folder / "lessons")
    workspace = Workspace(folder)
    workspace.bring_in()
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port = probe.getsockname()[1]
    own = {
        "PYTHONPATH": str(ROOT),
        "SERVING_NANOGPT_WORK": str(workspace.work),
        "COURSE_TOKEN": "benchmark",
    }
    server = subprocess.Popen(
        [sys.executable, "-m", "course.launcher.host", "edit", HOST, str(port), HOST],
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, **ONE_THREAD, **own},
    )
    assert server.stdin
    try:
        while not answers(port):
            if server.poll() is not None:
                raise RuntimeError(f"the course's server ended with status {server.returncode}")
            time.sleep(0.05)
        yield f"http://{HOST}:{port}{FIRST_PAGE['edit']}benchmark"
    finally:
        server.stdin.close()  # the end of its input is its own
        server.wait(timeout=30)
        shutil.rmtree(folder)


@contextlib.contextmanager
def opened(browser: Browser, address: str, stem: str) -> Iterator[Page]:
    """A learner's page of a lesson, all of it run; as they do, it came by the course's first page.

    So the browser has marimo's scripts already.
    """
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    page = context.new_page()
    page.goto(address)
    page.wait_for_selector(".sng-map", timeout=LIMIT_MS)
    page.add_init_script(f"({WATCH})()")
    page.goto(address.replace("index.py&view-as=present", f"{stem}.py"))
    page.wait_for_function(READY, timeout=LIMIT_MS)
    yield page
    context.close()


def opening(page: Page) -> Opening:
    """When the page first showed what."""
    seen = page.evaluate("window.seen")
    return Opening(*(seen[name] / 1000 for name in ("heading", "verdict", "picture")))


def typed(page: Page, stem: str, count: int) -> Iterator[Edit]:
    """Type right answers to the lesson's exercises in turn, each `count` over their number times.

    Before each one, its stub is put back and its verdict awaited, untimed.
    """
    exercises = lesson_exercises(stem)
    stubs = stubs_of(stem)
    for number in range(count):
        item = exercises[number % len(exercises)]
        if number >= len(exercises):
            run_cell(page, item, stubs[item.name], "not_started")
        yield run_cell(page, item, answer_to(item), "passed")


def run_cell(page: Page, item: Exercise, source: str, status: str) -> Edit:
    """Write a function over the one of its name, run its cell, and wait for its verdict."""
    page.evaluate(TIME, [item.id, status])
    page.locator(".cm-content", has_text=f"def {item.name}(").click()
    page.keyboard.press("Control+a")
    page.keyboard.insert_text(source)
    page.keyboard.press("Control+Enter")
    page.wait_for_function("window.edit.all !== undefined", timeout=LIMIT_MS, polling=50)
    edit: dict[str, Any] = page.evaluate("window.edit")
    return Edit(edit["verdict"], edit["pictures"], edit["all"])


def stubs_of(stem: str) -> dict[str, str]:
    """The source of every function of a lesson's file, by its name."""
    text = (ROOT / "lessons" / f"{stem}.py").read_text(encoding="utf-8")
    found = [each for each in ast.parse(text).body if isinstance(each, ast.FunctionDef)]
    return {each.name: ast.get_source_segment(text, each) or "" for each in found}


def answer_to(item: Exercise) -> str:
    """The worked answer's source with its imports inside.

    Without annotations: their names may not stand in the lesson.
    """
    module = inspect.getmodule(item.right[0])
    assert module is not None
    tree = ast.parse(inspect.getsource(module))
    [function] = [
        node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == item.name
    ]
    function.returns = None
    for argument in (*function.args.args, *function.args.kwonlyargs):
        argument.annotation = None
    used = {node.id for node in ast.walk(function) if isinstance(node, ast.Name)}
    used -= {argument.arg for argument in ast.walk(function) if isinstance(argument, ast.arg)}
    function.body[1:1] = [
        node
        for node in tree.body
        if isinstance(node, ast.Import | ast.ImportFrom)
        and used & {(name.asname or name.name).split(".")[0] for name in node.names}
    ]
    return ast.unparse(function)


if __name__ == "__main__":
    main()
