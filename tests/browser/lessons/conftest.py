"""One learner's way through the course: each lesson is opened once, after the one before it.

pytest brings together what asks for the same lesson: test_arriving.py, where it is untouched, what
its learner does, and test_worked_through.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from serving import CourseServer, first_page, open_lesson, serve

if TYPE_CHECKING:
    from driving import Lesson
    from playwright.sync_api import Browser, Page


@pytest.fixture(scope="session")
def course_server(chromium: Browser) -> Iterator[CourseServer]:
    """The learner's course."""
    with serve("open") as course:
        yield course


@pytest.fixture(scope="session")
def complaints() -> list[str]:
    """What the page complained of."""
    return []


@pytest.fixture(scope="session")
def page(chromium: Browser, course_server: CourseServer, complaints: list[str]) -> Iterator[Page]:
    """The learner's page."""
    with first_page(chromium, course_server, complaints) as page:
        yield page


@pytest.fixture(scope="session")
def lesson(request: pytest.FixtureRequest, page: Page, course_server: CourseServer) -> Lesson:
    """A lesson, reached by its link on the first page; tests ask for it with `in_lesson`."""
    if page.url != course_server.address:
        page.goto(course_server.address)
    return open_lesson(page, request.param)
