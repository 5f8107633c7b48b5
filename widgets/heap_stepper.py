"""The waiting queue's heap, one sift move at a time: a tree, and below it the array that it is."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Unpack

import traitlets
from msgspec import Struct

from widgets.picture import Face, Picture
from widgets.records import Natural, Number, OneOrMore, Positive, Words, read


class _Entry(Struct):
    id: Natural
    key: OneOrMore[Number]
    label: Words


class _Move(Struct, rename={"source": "from"}):
    kind: Literal["append", "swap", "take", "settle"]
    source: Natural
    to: Natural
    words: Words


class _Admission(Struct):
    held: Natural
    candidate: Natural
    batch: Natural
    max_batch: Natural
    budget: Positive | None
    verdict: Literal["admit", "wait", "refuse"]


class _Operation(Struct):
    op: Literal["push", "pop", "look"]
    entry: _Entry
    states: list[list[Natural]]
    moves: list[_Move]
    admission: _Admission | None

    def __post_init__(self) -> None:
        if len(self.states) != len(self.moves):
            raise ValueError(f"there are {len(self.states)} states for {len(self.moves)} moves")
        if not self.moves and self.admission is None:
            raise ValueError("there is neither a move nor an admission; there is nothing to show")


class HeapStepper(Picture):
    """Pushes and pops on a heap that starts empty, with the admission test in words.

    A test comes before the moves of a push or a pop, and after a look. Token counts are KV tokens.
    Raises: ValueError for no operation, another kind of record, or an id that was never pushed.
    """

    operations = traitlets.List(traitlets.Dict()).tag(sync=True)

    def __init__(
        self, operations: Sequence[Mapping[str, Any]], title: str = "", **face: Unpack[Face]
    ) -> None:
        found = read(operations, OneOrMore[_Operation], "the operations")
        _check_heap(found)
        super().__init__(operations=found, title=title, **face)


def _check_heap(operations: list[dict[str, Any]]) -> None:
    """Raises: ValueError for ids that were never pushed."""
    known: set[int] = set()
    for index, found in enumerate(operations):
        if found["op"] == "push":
            known.add(found["entry"]["id"])
        unknown = {found["entry"]["id"]}.union(*found["states"]) - known
        if unknown:
            raise ValueError(
                f"operations[{index}] names entry {min(unknown)}, which was never pushed"
            )
