"""The state of the scheduler when a pass is aborted: plain data, without any decision."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SchedulerState:
    """The requests in each place, by id.

    `kv` hold K/V, `previous_step` were scheduled in the newest step, and `admit_next` goes before
    all other waiting requests. Lists become tuples, and sets frozensets.
    """

    waiting: tuple[int, ...]
    running: tuple[int, ...]
    kv: frozenset[int]
    previous_step: frozenset[int]
    admit_next: int | None

    def __post_init__(self) -> None:
        for name, kind, frozen in _FROZEN:
            value = getattr(self, name)
            if isinstance(value, kind):
                object.__setattr__(self, name, frozen(value))


_FROZEN = (
    ("waiting", list, tuple),
    ("running", list, tuple),
    ("kv", set, frozenset),
    ("previous_step", set, frozenset),
)
