"""Settings of every test: the tiers, and a learner's folder of each test's own."""

import itertools
import os
import signal
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import tiers
import torch
from launching import LESSON, NOTHING_TO_INSTALL, write_lesson
from notebooks import Notebooks
from support import copy_course, lend_python, of_lesson

# What it asserts for the browser tests is told as fully as what they assert themselves.
pytest.register_assert_rewrite("driving")
# A shell that runs tests in the background has them, and what they start, ignore Ctrl-C.
signal.signal(signal.SIGINT, signal.default_int_handler)
# What tests start would compile torch anew each time.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
# Small tensors: two threads would spend their time waiting for each other.
torch.set_num_threads(1)

# The tiers that run the tests with a marker; those without one run in every tier.
RUN_BY = {
    "process": ("default", "all"),
    "browser": ("default", "all"),
    "nightly": ("all",),
}
LEFT_OUT = pytest.StashKey[dict[str, int]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("the course")
    group.addoption("--quick", action="store_true", help="pure units, in two minutes")
    group.addoption("--all", action="store_true", help="everything, in an hour")
    group.addoption("--lesson", help="only the tests that name one lesson, such as l05")


def pytest_configure(config: pytest.Config) -> None:
    tier = "quick" if config.getoption("quick") else "all" if config.getoption("all") else "default"
    tiers.start(tier)
    config.stash[LEFT_OUT] = {"tests": 0, "cases": 0}
    if tier == "quick":
        sys.addaudithook(refuse_processes)


def refuse_processes(event: str, args: tuple[Any, ...]) -> None:
    """In a quick run, a test that starts a process fails: it lacks its marker."""
    test = os.environ.get("PYTEST_CURRENT_TEST", "")
    if event in ("subprocess.Popen", "os.fork", "os.posix_spawn") and test and "ruff" not in test:
        raise RuntimeError(f"{test} starts a process: mark it with pytest.mark.process")


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Any:
    chosen = [item for item in items if in_tier(item)]
    left_out = config.stash[LEFT_OUT]
    left_out["tests"], left_out["cases"] = len(items) - len(chosen), tiers.left_out
    if lesson := config.getoption("lesson"):
        chosen = of_lesson(chosen, lesson)
    kept = set(chosen)
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = chosen
    for item in items:
        item.add_marker(pytest.mark.xdist_group(group(item)))
    collected = {id(item): number for number, item in enumerate(items)}  # xdist renames them
    yield  # xdist reads the groups, and pytest puts tests together that share a fixture
    process = {group(item) for item in items if item.get_closest_marker("process")}

    def order(item: pytest.Item) -> tuple[Any, ...]:
        """Sort key: what takes longest comes first, so that both workers end at about one time.

        The browser's tests come last: Playwright's event loop runs to the end of a worker, and no
        test that needs a loop of its own may follow. pytest takes the third lesson of one test
        for the third of another; one learner's way is through the lessons by name.
        """
        in_browser = group(item) == "browser"
        stem = getattr(item, "callspec", None) and item.callspec.params.get("lesson")
        way = (stem, collected[id(item)]) if in_browser and stem else ("", 0)
        return in_browser, group(item) not in process, way

    items.sort(key=order)


def in_tier(item: pytest.Item) -> bool:
    return all(
        tiers.tier() in tiers_of
        for name, tiers_of in RUN_BY.items()
        if item.get_closest_marker(name)
    )


def group(item: pytest.Item) -> str:
    """The tests that one worker runs: of one file, of all notebooks, or of the browser."""
    if item.get_closest_marker("browser"):
        return "browser"  # one Chromium and one course at a time
    return "notebooks" if "notebooks" in getattr(item, "fixturenames", ()) else str(item.path)


def pytest_report_header() -> str:
    table = (
        "every table whole" if tiers.tier() == "all" else f"of tables, the part of {tiers.week()}"
    )
    most = tiers.MINUTES[tiers.tier()]
    return f"tier: {tiers.tier()}, at most {most} minutes on two quiet cores; {table}"


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """What a worker did not run is known to the worker only."""
    node.config.stash[LEFT_OUT].update(getattr(node, "workeroutput", {}).get("left_out", {}))


def pytest_sessionfinish(session: pytest.Session) -> None:
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["left_out"] = session.config.stash[LEFT_OUT]


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    skipped = Counter(report.longrepr[2] for report in terminalreporter.getreports("skipped"))
    for reason, number in skipped.items():
        tests = f"{number} test{'s' * (number > 1)}"
        terminalreporter.line(f"not run here: {tests} ({reason.removeprefix('Skipped: ')})")
    left_out = config.stash[LEFT_OUT]
    if tiers.tier() != "all":
        terminalreporter.line(
            f"--all would add {left_out['tests']} tests and {left_out['cases']} cases of tables, "
            f"and take up to {tiers.MINUTES['all']} minutes"
        )


@pytest.fixture(scope="session")
def learner_folders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Folders that are not there yet: pytest's own takes longer the more tests have had one."""
    learners = tmp_path_factory.mktemp("learners")
    return (learners / str(number) for number in itertools.count())


@pytest.fixture(autouse=True)
def learner_folder(learner_folders: Iterator[Path], monkeypatch) -> Path:
    """Point the course's machinery at a folder of this test's own."""
    folder = next(learner_folders)
    monkeypatch.setenv("SERVING_NANOGPT_WORK", str(folder))
    return folder


@pytest.fixture(scope="session")
def notebooks(tmp_path_factory) -> Iterator[Notebooks]:
    """The lessons' notebooks, each run once for all tests that ask for it."""
    notebooks = Notebooks(tmp_path_factory.mktemp("notebooks"))
    yield notebooks
    notebooks.close()


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    """A course of two small lessons, with nothing to install and no .venv."""
    course = copy_course(tmp_path / "course")
    for lesson in (course / "lessons").glob("*.py"):
        lesson.unlink()
    for stem, title in (("index", "The course"), ("l01_chunks", "Chunks")):
        write_lesson(course, stem, LESSON.format(title=title))
    (course / "pyproject.toml").write_text(NOTHING_TO_INSTALL)
    (course / "course" / "__main__.py").write_text("import sys\nprint('asked', *sys.argv[1:])\n")
    return course


@pytest.fixture
def course(bare: Path) -> Path:
    """The same course, whose .venv borrows this Python and only pretends to install."""
    lend_python(bare, sys.executable)
    return bare
