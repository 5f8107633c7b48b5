"""The waiting queue's heap, one sift move at a time: a tree, and below it the array that it is."""

from collections.abc import Mapping, Sequence
from typing import Any, Unpack

import traitlets

from widgets import checking
from widgets.picture import Face, Picture

_ENTRY = checking.shape(
    id=checking.whole,
    key=checking.list_of(checking.number, at_least=1),
    label=checking.words,
)
_MOVE = checking.shape(
    kind=checking.one_of("append", "swap", "take", "settle"),
    **{"from": checking.whole},
    to=checking.whole,
    words=checking.words,
)
_ADMISSION = checking.shape(
    **dict.fromkeys(("held", "candidate", "batch", "max_batch"), checking.whole),
    budget=checking.maybe(checking.positive),
    verdict=checking.one_of("admit", "wait", "refuse"),
)
_OPERATION = checking.shape(
    op=checking.one_of("push", "pop", "look"),
    entry=_ENTRY,
    states=checking.list_of(checking.items),
    moves=checking.list_of(_MOVE),
    admission=checking.maybe(_ADMISSION),
)


class HeapStepper(Picture):
    """What pushes and pops do to a heap that starts empty, with the admission test in words.

    Each operation is {"op": "push" | "pop" | "look", "entry": {"id", "key": numbers, "label"},
    "moves": [{"kind": "append" | "swap" | "take" | "settle", "from", "to", "words"}], "states":
    the ids in the array's order after each move, "admission": None or {"held", "candidate",
    "budget" (or None), "batch", "max_batch", "verdict": "admit" | "wait" | "refuse"}}. Token
    counts are KV tokens. A test comes before the moves of a push or a pop, and after a look.
    Raises: ValueError for no operation, another kind of record, or an id that was never pushed.
    """

    operations = traitlets.List(traitlets.Dict()).tag(sync=True)

    def __init__(
        self, operations: Sequence[Mapping[str, Any]], title: str = "", **face: Unpack[Face]
    ) -> None:
        found = checking.list_of(_OPERATION, at_least=1)(operations, "operations")
        _check_heap(found)
        super().__init__(operations=found, title=title, **face)


def _check_heap(operations: list[dict[str, Any]]) -> None:
    """Raises: ValueError for ids that were never pushed, or an operation that shows nothing."""
    known: set[int] = set()
    for index, found in enumerate(operations):
        what = f"operations[{index}]"
        if found["op"] == "push":
            known.add(found["entry"]["id"])
        for number in (
            found["entry"]["id"],
            *(each for state in found["states"] for each in state),
        ):
            if not checking.is_whole(number) or number not in known:
                raise ValueError(f"{what} names entry {number!r}, which was never pushed")
        num_states, num_moves = len(found["states"]), len(found["moves"])
        if num_states != num_moves:
            raise ValueError(f"{what} has {num_states} states for {num_moves} moves")
        if not num_moves and found["admission"] is None:
            raise ValueError(
                f"{what} has neither a move nor an admission; there is nothing to show"
            )
