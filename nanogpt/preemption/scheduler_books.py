"""Who is where when a pass is aborted: plain data, and nothing that decides."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Books:
    """Who is where, by request id. `kv` are those that hold K/V, `previous_step` those that the
    newest step was scheduled with; `next_up` goes before all others that wait.

    Lists become tuples and sets frozensets, so that books stay as they were made.
    """

    waiting: tuple[int, ...]
    running: tuple[int, ...]
    kv: frozenset[int]
    previous_step: frozenset[int]
    next_up: int | None

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
