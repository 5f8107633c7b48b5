"""A prompt of the room and what becomes of it, and the guest who sent it."""

from dataclasses import dataclass, field
from typing import Literal

from course.live import prompts
from course.live.prompts import Rate

State = Literal["waiting", "prefilling", "active", "preempted", "lost", "done", "refused"]


@dataclass(slots=True)
class Asked:
    """A prompt and what has become of it. Mutable.

    `tokens` are those given so far; `redone` of them were given again after a worker was lost.
    `window` is the one that it is served under, once it has started.
    """

    id: int
    guest: "Guest | None"
    prompt_tokens: list[int]
    max_new_tokens: int
    priority: int
    slo_steps: int
    arrival_step: int
    arrived_s: float
    state: State = "waiting"
    words: str = "It is on its way to the engine."
    tokens: list[int] = field(default_factory=list[int])
    redone: int = 0
    first_step: int | None = None
    first_s: float | None = None
    window: int = 0

    @property
    def is_over(self) -> bool:
        """Whether nothing more will become of it."""
        return self.state in ("done", "refused")

    @property
    def kept_slo(self) -> bool | None:
        """Whether its first token came in time; None as long as that is open."""
        if self.first_step is None:
            return None
        return self.first_step - self.arrival_step < self.slo_steps


@dataclass(slots=True, eq=False)
class Guest:
    """A phone in the room. Mutable: whether it is there, and its rate."""

    key: str
    rate: Rate = field(default_factory=lambda: Rate(1, prompts.GAP_S))
    pages: int = 0
