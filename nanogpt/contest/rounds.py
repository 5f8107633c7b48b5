"""A round: one workload under one seed, what each entry scored in it, and what none can exceed."""

from collections.abc import Sequence
from dataclasses import dataclass

from nanogpt.contest.scoring import Entry, Score, play
from nanogpt.contest.upper_bound import bound
from nanogpt.contest.workloads import workload


@dataclass(frozen=True, slots=True)
class Round:
    """`most` is the bound, `scores` are by the entries' names, in the order in which they played.

    `number` is the seed's place among those that are played, from 0.
    """

    workload: str
    number: int
    num_calls: int
    most: int
    scores: tuple[tuple[str, Score], ...]

    def points(self, name: str) -> int:
        """What the entry of this name scored. Raises: KeyError."""
        return dict(self.scores)[name].points


def play_round(name: str, number: int, seed: int, entries: Sequence[Entry]) -> Round:
    """Let the entries play one workload, each on an engine of its own."""
    made = workload(name, seed)
    scores = tuple((entry.name, play(made, entry)) for entry in entries)
    return Round(name, number, len(made.calls), bound(made), scores)
