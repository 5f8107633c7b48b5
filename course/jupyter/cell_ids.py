"""Cells' ids tell a kernel which opening of a notebook they belong to.

Each opening shows a lesson anew, without the outputs of the one before: what ran for that one has
no place on the page that a kernel could bring up to date.
"""

import re

_OURS = re.compile(r"sng-(\w+)-\d+")


def cell_id(page: str, place: int) -> str:
    """Return the id of the cell at a place of a page."""
    return f"sng-{page}-{place}"


def page_of(cell: str) -> str | None:
    """Return the page of a cell; None of one that the learner has added."""
    match = _OURS.fullmatch(cell)
    return match[1] if match else None
