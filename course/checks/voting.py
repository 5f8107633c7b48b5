"""Playing the ranks of a pass without processes: their moves, in an order that the check names.

A rank that waits for another one waits in words. Everything is run inside one call of an answer,
so that its limit holds for all ranks together, and what comes out is plain data.
"""

import contextlib
import itertools
from collections.abc import Callable, Coroutine, Generator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, cast

from course.calling.errors import shortened
from course.calling.plain_values import as_items, as_whole
from course.calling.values import plain
from course.checks.comparing import a_kind
from course.exercise import Adapted
from course.format_values import show

Moves = Generator[tuple[Any, ...], int, None]
PreemptionPoint = Callable[[int], Moves]
Place = Literal["computing", "max", "sum", "left", "done"]

_WHEREABOUTS = {
    "left": "which has left",
    "max": "which waits in max",
    "sum": "which waits in sum",
}
_NEVER = "which does not come"
_MOST_MOVES = 8  # of one rank at one preemption_point
_MAX_SHOWN = 60  # characters of something that is not a move


@dataclass(frozen=True, slots=True, repr=False)
class Votes:
    """The votes of the ranks of one pass, `by_layer[layer][rank]`, and whose turn it is.

    `turns` are ranks, over and over; one that waits or has nothing to do is passed over.
    """

    by_layer: tuple[tuple[int, ...], ...]
    turns: tuple[int, ...] = ()

    @property
    def num_ranks(self) -> int:
        """How many ranks there are."""
        return len(self.by_layer[0])

    def __repr__(self) -> str:
        if len(self.by_layer) == 1:
            votes = [f"{vote} on rank {rank}" for rank, vote in enumerate(self.by_layer[0])]
        else:
            votes = [
                f"{' and '.join(map(str, layer))} at layer {number}"
                for number, layer in enumerate(self.by_layer)
            ]
        turns = "".join(f", rank {rank}" for rank in self.turns)
        return f"vote = {', '.join(votes)}{f'; turns{turns[1:]}' if turns else ''}"


@dataclass(frozen=True, slots=True)
class Play:
    """The outcome by rank: its actions in turn, and where it is in the end.

    `problem` is (key, idea) when something was not a move, and nothing could be played after it.
    """

    did: tuple[tuple[str, ...], ...]
    places: tuple[Place, ...]
    problem: tuple[str, str] | None = None

    @property
    def hangs(self) -> bool:
        """Whether a rank waits for ever."""
        return self.problem is None and any(place in ("max", "sum") for place in self.places)

    def __str__(self) -> str:
        return "\n".join(self._line(rank) for rank in range(len(self.did)))

    def _line(self, rank: int) -> str:
        did, here = ", ".join(self.did[rank]), self.places[rank]
        if self.problem is None and here in ("max", "sum"):
            absent = [r for r, place in enumerate(self.places) if place != here]
            others = [f"rank {r}, {_WHEREABOUTS.get(self.places[r], _NEVER)}" for r in absent]
            missing = ", and ".join(others)
            did += f", where it waits for ever for {missing}"
        return f"rank {rank}: {did or 'no move'}"


class _NotAMoveError(Exception):
    """Ends a play because a rank returned something that is not a move."""

    def __init__(self, key: str, what: str, idea: str) -> None:
        super().__init__(idea)
        self.problem = (key, idea)
        self.what = what


@dataclass(slots=True)
class _Rank:
    """One rank on its way through a pass. Mutable: where it is, and what it has done."""

    votes: Sequence[int]
    layer: int = 0
    place: Place = "computing"
    moves: Moves | None = None
    num_moves: int = 0
    brought: int = 0
    answer: int | None = None
    did: list[str] = field(default_factory=list[str])

    def advance(self, preemption_point: PreemptionPoint) -> None:
        """Go on to the next collective or out of the pass."""
        if self.moves is None:
            self.moves = _generator(preemption_point(self.votes[self.layer]))
            self.num_moves, self.answer = 0, None
        try:
            move = next(self.moves) if self.answer is None else self.moves.send(self.answer)
        except StopIteration:
            self.moves, self.place = None, "sum"
            self.did.append("sum")
            return
        self._make(_checked(move))

    def _make(self, move: tuple[Any, ...]) -> None:
        self.num_moves += 1
        if self.num_moves > _MOST_MOVES:
            raise _NotAMoveError(
                "endless",
                "...",
                "A preemption_point is one collective and then perhaps a leave, but this one went "
                f"on and on and was stopped after {_MOST_MOVES} moves.",
            )
        if move[0] == "leave":
            self.place = "left"
            self.did.append("leave")
        else:
            self.place, self.brought = "max", move[1]
            self.did.append(f"max({move[1]})")


def play(preemption_point: PreemptionPoint, votes: Votes) -> Play:
    """Run one pass: at each layer the preemption_point, then the sum of the attention output.

    Raises: whatever the preemption_point raises.
    """
    ranks = [_Rank([layer[r] for layer in votes.by_layer]) for r in range(votes.num_ranks)]
    turns = itertools.cycle(votes.turns or range(votes.num_ranks))
    problem = None
    try:
        while problem is None and any(rank.place == "computing" for rank in ranks):
            rank = ranks[next(turns)]
            if rank.place == "computing":
                try:
                    rank.advance(preemption_point)
                except _NotAMoveError as error:
                    rank.did.append(error.what)
                    problem = error.problem
                _meet(ranks)
    finally:
        for moves in (rank.moves for rank in ranks if rank.moves is not None):
            with contextlib.suppress(Exception):
                moves.close()
    return Play(tuple(tuple(r.did) for r in ranks), tuple(r.place for r in ranks), problem)


def _meet(ranks: Sequence[_Rank]) -> None:
    """Let all ranks go on with the result if they are in the same collective."""
    places = {rank.place for rank in ranks}
    if places == {"max"}:
        agreed = max(rank.brought for rank in ranks)
        for rank in ranks:
            rank.did[-1] += f" = {agreed}"
            rank.place, rank.answer = "computing", agreed
    elif places == {"sum"}:
        for rank in ranks:
            rank.layer += 1
            rank.place = "done" if rank.layer == len(rank.votes) else "computing"


def _generator(value: object) -> Moves:
    if isinstance(value, Generator):
        return cast(Moves, value)
    if isinstance(value, Coroutine):
        value.close()  # it is not awaited, on purpose
    key, why = "not_a_generator", "the moves are what is yielded, so it takes a `yield` for each"
    # By its kind in words, which is all that comes of it from another process.
    what = "nothing" if value is None else a_kind(value)
    if what == "a function":
        why = "it makes no moves until it is called"
    if what in ("an async_generator", "a coroutine"):
        key, why = "is_async", "no rank awaits an `async def`, so write a plain `def`"
    raise _NotAMoveError(
        key, f"returns {_short(value)}", f"A call came back with {what} at once: {why}."
    )


def _checked(move: object) -> tuple[Any, ...]:
    """The move, if it is a valid one."""
    if move == "leave":
        raise _NotAMoveError(
            "no_comma",
            "yields 'leave'",
            'It is the comma that makes a tuple: `yield ("leave",)`, not `yield ("leave")`.',
        )
    if a_kind(move) == "a generator":
        raise _NotAMoveError(
            "no_from",
            f"yields {_short(move)}",
            "What is yielded here is a generator and not its moves: `yield from` makes these one "
            "by one.",
        )
    match as_items(move):
        case ["leave"]:
            return ("leave",)
        case ["max", vote] if as_whole(vote) in (0, 1):
            return "max", as_whole(vote)
        case _:
            pass
    raise _NotAMoveError(
        "not_a_move",
        f"yields {_short(move)}",
        f'A move is ("max", vote), with a vote of 0 or 1, or ("leave",), but this is '
        f"{_short(move)}.",
    )


def _short(value: object) -> str:
    return shortened(show(plain(value)), _MAX_SHOWN)


class Played(Adapted):
    """A preemption_point as a function from votes to plays."""

    def __call__(self, votes: Votes) -> Play:
        """Let all ranks run the function."""
        return play(self._function, votes)
