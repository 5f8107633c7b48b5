"""Leaderboards played again: which entries hold, and the same entries under a hidden salt.

Nothing that a line says of its points is believed, and its parts run contained.
"""

from __future__ import annotations

from collections.abc import Sequence

from course.grading.isolation.zygote import Zygote
from course.leaderboard.board import Line, line_of, mark_of, rules
from course.leaderboard.contained import contained
from course.leaderboard.own_parts import entry_of
from nanogpt.contest import NAMES, Round, hidden_seeds, play_round
from nanogpt.validate import PartError


def why_not(line: Line, zygote: Zygote, salt: str | None) -> str:
    """Why an entry does not hold, as the end of a sentence; "" where it does. Raises: JailError."""
    problem = line.problem()
    if problem:
        return problem
    if line.salt is not None and (salt is None or mark_of(salt) != line.salt):
        given = "another one was given" if salt else "--salt gives it"
        return f"was scored under a hidden salt, and {given}"
    try:
        again = _played_again(line, zygote, list(line.points), _seeds(line, salt))
    except PartError as error:
        return f"cannot be played: {error}"
    kept = again.points, again.bounds, again.requests
    if kept == (line.points, line.bounds, line.requests):
        return ""
    other = " (it was scored by another version of the course)" if line.rules != rules() else ""
    for name, points in again.points.items():
        if points != line.points[name]:
            return f"says {line.points[name]} in {name}, and played again it is {points}{other}"
    return f"has other bounds or numbers of requests than the workloads{other}"


def under_salt(line: Line, zygote: Zygote, salt: str, num_seeds: int) -> Line:
    """The same parts, scored under hidden seeds.

    Raises: ValueError for a line that cannot be played, or a short salt; PartError for such parts;
    JailError.
    """
    problem = line.problem()
    if problem:
        raise ValueError(f"the entry {problem}")
    return _played_again(line, zygote, NAMES, hidden_seeds(salt, num_seeds), salt)


def _seeds(line: Line, salt: str | None) -> Sequence[int]:
    if line.first_seed is None:
        return hidden_seeds(salt or "", line.num_seeds)
    return range(line.first_seed, line.first_seed + line.num_seeds)


def _played_again(
    line: Line, zygote: Zygote, names: Sequence[str], seeds: Sequence[int], salt: str | None = None
) -> Line:
    texts = {part: each.text for part, each in line.parts.items()}
    rounds: list[Round] = []
    for name in names:
        for number, seed in enumerate(seeds):
            with contained(zygote, texts) as functions:
                rounds.append(play_round(name, number, seed, [entry_of(functions)]))
    first_seed = None if salt else line.first_seed
    return line_of(line.name, rounds, texts, first_seed=first_seed, salt=salt)
