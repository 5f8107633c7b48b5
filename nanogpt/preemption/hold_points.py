"""Named points at which a rank can be held, so that a race happens in the order that one wants.

A rank calls `at_point` where it reads the target, where it has read it and is about to agree, and
where it is about to reply. In service that is `pass_by`, which does nothing; `wait_if_held` stops
there when the engine's side says so.
"""

import time
from dataclasses import dataclass
from typing import Literal, TypeAlias

from nanogpt.preemption.shared_state import NOTHING, SharedState

PointName: TypeAlias = Literal["read", "agree", "reply"]
POINT_NAMES: tuple[PointName, ...] = ("read", "agree", "reply")

LONGEST_HOLD_S = 30.0
"""After so long a rank goes on by itself: what held it may be gone."""

_LOOK_EVERY_S = 0.0005


@dataclass(frozen=True, slots=True)
class Place:
    """Where a rank is: at the point `name` of the attention op with this checkpoint number."""

    shared: SharedState
    rank: int
    name: PointName
    checkpoint: int


def point_number(name: PointName, checkpoint: int) -> int:
    """A point of a checkpoint as one number."""
    return checkpoint * len(POINT_NAMES) + POINT_NAMES.index(name)


def pass_by(place: Place) -> None:
    """Do nothing."""


def wait_if_held(place: Place) -> None:
    """Wait here for as long as this is where the rank is to be held."""
    here = point_number(place.name, place.checkpoint)
    shared, rank = place.shared, place.rank
    if shared.hold(rank) != here:
        return
    shared.set_held(rank, here)
    deadline = time.monotonic() + LONGEST_HOLD_S
    while shared.hold(rank) == here and time.monotonic() < deadline:
        time.sleep(_LOOK_EVERY_S)
    shared.set_held(rank, NOTHING)


def hold(shared: SharedState, rank: int, name: PointName, checkpoint: int) -> None:
    """Let the rank wait when it comes there. It must not be there yet."""
    shared.set_hold(rank, point_number(name, checkpoint))


def wait_until_held(shared: SharedState, rank: int, timeout_s: float = LONGEST_HOLD_S) -> None:
    """Return once the rank waits where it is held. Raises: TimeoutError when it never comes."""
    deadline = time.monotonic() + timeout_s
    while shared.held(rank) == NOTHING:
        if time.monotonic() > deadline:
            raise TimeoutError(f"rank {rank} did not come to where it was to be held")
        time.sleep(_LOOK_EVERY_S)


def let_go(shared: SharedState, rank: int) -> None:
    """Let a held rank go on."""
    shared.set_hold(rank, NOTHING)
