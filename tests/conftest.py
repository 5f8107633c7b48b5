"""Settings of every test: no test writes to the learner's own folder."""

import itertools
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from generated import QUICK
from hypothesis import settings
from launching import LESSON, write_lesson
from notebooks import Notebooks
from selection import of_lesson, quick
from support import REQUIREMENTS, copy_course, lend_python

# What it asserts for the browser tests is told as fully as what they assert themselves.
pytest.register_assert_rewrite("driving")
# A busy machine is no failure.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")
# A shell that runs tests in the background has them, and what they start, ignore Ctrl-C.
signal.signal(signal.SIGINT, signal.default_int_handler)
# What tests start would compile torch anew each time.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
# Small tensors: two threads would spend their time waiting for each other.
torch.set_num_threads(1)


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("the course")
    group.addoption("--quick", action="store_true", help="a part of everything, in minutes")
    group.addoption("--lesson", help="what one lesson touches, such as l05")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("quick"):
        os.environ[QUICK] = "1"


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    kept = list(items)
    if lesson := config.getoption("lesson"):
        kept = of_lesson(kept, lesson)
    if config.getoption("quick"):
        kept = quick(kept)
    config.hook.pytest_deselected(items=[item for item in items if item not in set(kept)])
    # Those that wait for a notebook come last, and wait for little.
    items[:] = sorted(kept, key=waits_for_notebooks)


def waits_for_notebooks(item: pytest.Item) -> bool:
    return "notebooks" in getattr(item, "fixturenames", ())


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
def notebooks(request: pytest.FixtureRequest, tmp_path_factory) -> Iterator[Notebooks]:
    """The lessons' notebooks, each run once for all tests that ask for it, beside them."""
    notebooks = Notebooks(tmp_path_factory.mktemp("notebooks"))
    notebooks.start_for(filter(waits_for_notebooks, request.session.items))
    yield notebooks
    notebooks.close()


@pytest.fixture(scope="session", autouse=True)
def ahead(request: pytest.FixtureRequest) -> None:
    """Start them with the first test, where one process runs all that ask for them."""
    alone = not hasattr(request.config, "workerinput")
    if alone and any(map(waits_for_notebooks, request.session.items)):
        request.getfixturevalue("notebooks")


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    """A course of two small lessons, with nothing to install and no .venv."""
    course = copy_course(tmp_path / "course")
    for lesson in (course / "lessons").glob("*.py"):
        lesson.unlink()
    for stem, title in (("index", "The course"), ("l01_chunks", "Chunks")):
        write_lesson(course, stem, LESSON.format(title=title))
    for name in REQUIREMENTS:
        (course / name).write_text("# nothing\n")
    (course / "course" / "__main__.py").write_text("import sys\nprint('asked', *sys.argv[1:])\n")
    return course


@pytest.fixture
def course(bare: Path) -> Path:
    """The same course, whose .venv borrows this Python and only pretends to install."""
    lend_python(bare, sys.executable)
    return bare
