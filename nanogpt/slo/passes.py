"""A forward pass in the simulation: how far it is, where it may be left, how long it slept.

Its time is spread evenly over its layers.
"""

from dataclasses import dataclass

from nanogpt.slo.policy import slept_enough


@dataclass(slots=True)
class Pass:
    """A pass that has begun: it computes, may be suspended, and computes on.

    `slept_us` is what it slept in all before `suspended_at_us`. Times in microseconds.
    """

    ids: tuple[int, ...]
    tokens: int
    total_us: int
    num_layers: int
    executed_us: int = 0
    slept_us: int = 0
    suspended_at_us: int = 0

    @property
    def remaining_us(self) -> int:
        """The computing time that is left."""
        return self.total_us - self.executed_us

    @property
    def layers_done(self) -> int:
        """How many of its layers are computed."""
        return self.executed_us * self.num_layers // self.total_us

    def way_out(self, executed_us: int) -> tuple[int, int]:
        """The next layer that a vote is taken before, and the computing time until then.

        A pass is never left in the middle of a layer.
        """
        layer = -(-executed_us * self.num_layers // self.total_us)
        return layer, -(-layer * self.total_us // self.num_layers) - executed_us

    def suspend(self, now_us: int, executed_us: int) -> None:
        """Falls asleep, having computed for `executed_us` since it was last awake."""
        self.executed_us += executed_us
        self.suspended_at_us = now_us

    def wake(self, now_us: int) -> None:
        """Computes on from now."""
        self.slept_us += now_us - self.suspended_at_us

    def must_run(self, now_us: int) -> bool:
        """Whether it is asleep and has slept for as long as it may."""
        return slept_enough(self.slept_us + now_us - self.suspended_at_us, self.total_us)

    @property
    def is_protected(self) -> bool:
        """Whether, being awake, it may not be suspended again."""
        return slept_enough(self.slept_us, self.total_us)
