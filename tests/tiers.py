"""The tiers of the tests, and what a tier leaves out of tables and of generated cases.

quick     pure units: no process, notebook or browser; one exercise of each lesson
default   every behaviour at least once; of each long table, this week's part
all       everything: tables whole, Hypothesis with new seeds each time
"""

import datetime
import os
import random
from collections.abc import Iterable
from typing import TypeVar

from hypothesis import settings
from hypothesis.database import DirectoryBasedExampleDatabase

T = TypeVar("T")
TIER = "SERVING_NANOGPT_TIER"  # also read by the workers, which are processes of their own
WEEK = "SERVING_NANOGPT_WEEK"  # said once, so that a run over midnight has one week
MINUTES = {"quick": 2, "default": 9, "all": 60}  # at most, on two quiet cores

_REPEATABLE = {"deadline": None, "derandomize": True, "database": None}
_PROFILES = {
    "quick": {**_REPEATABLE, "max_examples": 10},
    "default": {**_REPEATABLE, "max_examples": 40},
    "all": {
        "deadline": None,
        "derandomize": False,
        "database": DirectoryBasedExampleDatabase(".hypothesis/examples"),
        "max_examples": 500,
        "print_blob": True,
    },
}
left_out = 0  # cases of tables that this tier does not run


def start(tier: str) -> None:
    """Make this the tier of this process and of those that it starts."""
    os.environ[TIER] = tier
    os.environ.setdefault(WEEK, datetime.date.today().strftime("%G-W%V"))
    for name, profile in _PROFILES.items():
        settings.register_profile(name, **profile)
    settings.load_profile(tier)


def tier() -> str:
    """The tier that runs."""
    return os.environ[TIER]


def week() -> str:
    """The ISO week that chooses the parts of tables, such as 2026-W48."""
    return os.environ[WEEK]


def some(cases: Iterable[T], k: int) -> list[T]:
    """At most `k` of these cases, a quarter of them in a quick run, all of them with --all.

    The part is the same for a week; the next week takes the next part, so that a table is seen
    whole in `len(cases) / k` weeks.
    """
    global left_out
    table = list(cases)
    if tier() == "quick":
        k = max(1, k // 4)
    if tier() == "all" or len(table) <= k:
        return table
    order = random.Random(len(table)).sample(range(len(table)), len(table))
    monday = datetime.date.fromisocalendar(*map(int, week().split("-W")), 1)
    first = monday.toordinal() // 7 * k
    left_out += len(table) - k
    return [table[i] for i in sorted(order[(first + i) % len(table)] for i in range(k))]


def examples(share: float) -> settings:
    """Settings for a property whose cases are costly: only this share of the tier's examples."""
    return settings(max_examples=max(2, round(settings.default.max_examples * share)))
