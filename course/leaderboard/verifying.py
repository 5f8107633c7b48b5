"""Leaderboards played again: which entries hold, and the same entries under a hidden salt.

The parts run in a sandbox; the engine, the clock and the score stay on this side. Nothing that a
line says of its points is believed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from course.calling.answers import load
from course.calling.channel import LostError, TooSlowError
from course.calling.errors import BACKSTOP
from course.calling.processes import ForkServer
from course.leaderboard.board import Line, line_of, mark_of, rules
from course.leaderboard.own_parts import PLAY_S, entry_of
from nanogpt.contest import NAMES, Round, hidden_seeds, play_round
from nanogpt.validate import PartError


def why_not(line: Line, server: ForkServer, salt: str | None) -> str:
    """Why an entry does not hold, as the end of a sentence; "" where it does."""
    problem = line.problem()
    if problem:
        return problem
    if line.salt is not None and (salt is None or mark_of(salt) != line.salt):
        given = "another one was given" if salt else "--salt gives it"
        return f"was scored under a hidden salt, and {given}"
    try:
        again = _played_again(line, server, list(line.points), _seeds(line, salt))
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


def under_salt(line: Line, server: ForkServer, salt: str, num_seeds: int) -> Line:
    """The same parts, scored under hidden seeds.

    Raises: ValueError for a line that cannot be played, or a short salt; PartError for such parts.
    """
    problem = line.problem()
    if problem:
        raise ValueError(f"the entry {problem}")
    return _played_again(line, server, NAMES, hidden_seeds(salt, num_seeds), salt)


def _seeds(line: Line, salt: str | None) -> Sequence[int]:
    if line.first_seed is None:
        return hidden_seeds(salt or "", line.num_seeds)
    return range(line.first_seed, line.first_seed + line.num_seeds)


def _played_again(
    line: Line,
    server: ForkServer,
    names: Sequence[str],
    seeds: Sequence[int],
    salt: str | None = None,
) -> Line:
    texts = {part: each.text for part, each in line.parts.items()}
    rounds: list[Round] = []
    for name in names:
        for number, seed in enumerate(seeds):
            with contained(server, texts) as functions:
                rounds.append(play_round(name, number, seed, [entry_of(functions)]))
    first_seed = None if salt else line.first_seed
    return line_of(line.name, rounds, texts, first_seed=first_seed, salt=salt)


_CALL_S = 1.0  # of computing


@contextmanager
def contained(
    server: ForkServer, texts: Mapping[str, str]
) -> Generator[dict[str, Callable[..., Any]]]:
    """The parts of these texts as functions that run in a process of their own.

    Raises: PartError when a text does not define its part.
    """
    channel = server.start()
    until = time.monotonic() + BACKSTOP * PLAY_S

    def function(part: str) -> Callable[..., Any]:
        loaded = load(channel, texts[part], [part])
        answer = loaded.answers.get(part)
        if answer is None:
            raise PartError(f"`{part}` cannot be had: {' '.join(loaded.problems[part])}")

        def ask(*args: Any) -> Any:
            if time.monotonic() > until or channel.cpu_s() > PLAY_S:
                raise PartError(f"the parts took longer than {PLAY_S:g} s of computing together")
            try:
                result = answer.call(args, limit_s=_CALL_S, wall_s=BACKSTOP * _CALL_S)
            except LostError as lost:
                raise PartError(f"{part} {lost.words}") from None
            if result.timed_out:
                raise PartError(f"{part} took longer than {_CALL_S:g} s of computing")
            if result.error is not None:
                raise PartError(f"{part} {result.error.told}")
            return result.value

        return ask

    try:
        yield {part: function(part) for part in texts}
    except LostError as lost:
        raise PartError(f"reading the parts {lost.words}") from None
    except TooSlowError as slow:
        raise PartError(f"reading the parts took {slow.cpu_s:.0f} s and was stopped") from None
    finally:
        channel.end()
