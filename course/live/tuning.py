"""The settings of the live engine, and their limits."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from nanogpt.validate import show

NUM_SINKS = 4
"""The first tokens that stay visible under any window."""

POLICIES = {
    "fcfs": "first come, first served",
    "priority": "urgent first",
    "slack": "least slack first",
}


class Range(NamedTuple):
    """The whole numbers that a slider gives: from `least` to `most`, `step` apart."""

    least: int
    most: int
    step: int


SLIDERS = {
    "token_budget": Range(4, 64, 4),
    "max_kv_tokens": Range(320, 1024, 32),
    "sliding_window": Range(0, 128, 16),
    "slo_steps": Range(4, 96, 4),
    "pace_ms": Range(0, 2000, 50),
}
"""The limits of each number. The smallest KV budget holds the longest request that there can be."""


@dataclass(frozen=True, slots=True)
class Tuning:
    """The settings of a running engine.

    `sliding_window` 0 is none. A request should have its first token within `slo_steps` steps of
    its arrival. `pace_ms` is the least time from one step to the next.
    Raises: ValueError naming the value and the limit.
    """

    token_budget: int = 32
    max_kv_tokens: int = 640
    policy: str = "fcfs"
    sliding_window: int = 0
    slo_steps: int = 24
    pace_ms: int = 300

    def __post_init__(self) -> None:
        for name, (least, most, _) in SLIDERS.items():
            value = getattr(self, name)
            if type(value) is not int or not least <= value <= most:
                raise ValueError(
                    f"{name} is {show(value)}; it must be a whole number from {least} to {most}"
                )
        if str(self.policy) not in POLICIES:
            raise ValueError(
                f"there is no policy {show(self.policy)}; choose from {sorted(POLICIES)}"
            )

    def changed(self, values: Mapping[str, Any]) -> "Tuning":
        """These settings with some of them changed. Raises: ValueError for an unknown name."""
        mine = asdict(self)
        for name in values:
            if name not in mine:
                raise ValueError(f"there is no setting {name!r}; there are {', '.join(mine)}")
        return Tuning(**{**mine, **values})
