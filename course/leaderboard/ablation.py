"""The report card: what each of one's parts brought, alone and among the others."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any

from course.calling.jobs import RunError, run
from course.leaderboard.own_parts import PLAY_S, PLAYED, entry_of
from nanogpt.contest import Workload, play, workload


@dataclass(frozen=True, slots=True)
class Brought:
    """What a part brought in one workload, in points.

    `alone`: the reference with this one part, less the reference. `among`: all of one's parts,
    less all but this one. `problem` is why a run with it failed, if one did.
    """

    part: str
    workload: str
    alone: int
    among: int
    problem: str


def report_card(
    functions: Mapping[str, Callable[..., Any]], names: Sequence[str], seed: int
) -> list[Brought]:
    """One entry for each part and workload, part by part; under one seed.

    Call it in a child process: see `card_of`.
    """
    plays = {name: _Plays(workload(name, seed), functions) for name in names}
    parts = [part for part in PLAYED if part in functions]
    return [plays[name].brought(part) for part in parts for name in names]


def card_of(
    functions: Mapping[str, Callable[..., Any]], names: Sequence[str], seed: int
) -> list[Brought]:
    """The report card of functions that run in child processes, one for each workload."""
    card: list[Brought] = []
    for name in names:
        try:
            limit_s = PLAY_S * len(functions)
            card += run(report_card, functions, [name], seed, limit_s=limit_s)
        except RunError as error:
            card += [Brought(part, name, 0, 0, str(error)) for part in PLAYED if part in functions]
    return sorted(card, key=lambda each: PLAYED.index(each.part))


class _Plays:
    """One workload, and what has been played of it already: the same parts score the same."""

    def __init__(self, made: Workload, functions: Mapping[str, Callable[..., Any]]) -> None:
        self._workload = made
        self._functions = functions
        self._points: dict[frozenset[str], tuple[int, str]] = {}

    def brought(self, part: str) -> Brought:
        all_mine = set(self._functions)
        nothing, _ = self._played(set())
        alone, problem = self._played({part})
        together, problem_together = self._played(all_mine)
        without, _ = self._played(all_mine - {part})
        why = problem or problem_together
        return Brought(part, self._workload.name, alone - nothing, together - without, why)

    def _played(self, mine: AbstractSet[str]) -> tuple[int, str]:
        key = frozenset(mine)
        if key not in self._points:
            score = play(self._workload, entry_of({part: self._functions[part] for part in mine}))
            self._points[key] = score.points, score.problem
        return self._points[key]
