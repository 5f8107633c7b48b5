"""The waiting queue's heap, one sift move at a time: a tree, and below it the array that it is."""

from collections.abc import Mapping, Sequence
from typing import Any, Unpack

import traitlets

from widgets import assets, checking
from widgets.picture import Face, Picture

_OPS = ("push", "pop", "look")
_KINDS = ("append", "swap", "take", "settle")
_VERDICTS = ("admit", "wait", "refuse")
_OPERATION_FIELDS = ("op", "entry", "states", "moves", "admission")


class HeapStepper(Picture):
    """What pushes and pops do to a heap that starts empty, with the admission test in words.

    Each operation is {"op": "push" | "pop" | "look", "entry": {"id", "key": numbers, "label"},
    "moves": [{"kind": "append" | "swap" | "take" | "settle", "from", "to", "words"}], "states":
    the ids in the array's order after each move, "admission": None or {"held", "candidate",
    "budget" (or None), "batch", "max_batch", "verdict": "admit" | "wait" | "refuse"}}. Token
    counts are KV tokens. A test comes before the moves of a push or a pop, and after a look.
    Raises: ValueError for no operation, another kind of record, or an id that was never pushed.
    """

    _esm = assets.esm("heap_stepper")
    _css = assets.css("heap_stepper")
    operations = traitlets.List(traitlets.Dict()).tag(sync=True)
    title = traitlets.Unicode().tag(sync=True)

    def __init__(
        self, operations: Sequence[Mapping[str, Any]], title: str = "", **face: Unpack[Face]
    ) -> None:
        known: set[int] = set()
        found = checking.items(operations, "operations", at_least=1)
        super().__init__(
            operations=[
                _checked_operation(each, f"operation {index}", known)
                for index, each in enumerate(found)
            ],
            title=checking.text(title, "the title"),
            **face,
        )


def _checked_operation(value: object, what: str, known: set[int]) -> dict[str, Any]:
    """One operation; the id of a push is added to `known`."""
    found = checking.record(value, what, _OPERATION_FIELDS)
    op = _one_of(found["op"], f"the op of {what}", _OPS)
    entry = _checked_entry(found["entry"], f"the entry of {what}")
    if op == "push":
        known.add(entry["id"])
    moves = [_checked_move(move, what) for move in checking.items(found["moves"], what)]
    states = [
        [_known(each, what, known) for each in checking.items(state, f"a state of {what}")]
        for state in checking.items(found["states"], f"the states of {what}")
    ]
    _known(entry["id"], what, known)
    if len(states) != len(moves):
        raise ValueError(f"{what} has {len(states)} states for {len(moves)} moves")
    admission = found["admission"]
    if admission is not None:
        admission = _checked_admission(admission, f"the admission of {what}")
    if not moves and admission is None:
        raise ValueError(f"{what} has neither a move nor an admission; there is nothing to show")
    return {"op": op, "entry": entry, "states": states, "moves": moves, "admission": admission}


def _checked_entry(value: object, what: str) -> dict[str, Any]:
    found = checking.record(value, what, ("id", "key", "label"))
    key = checking.items(found["key"], f"the key of {what}", at_least=1)
    for part in key:
        if not checking.is_number(part):
            raise ValueError(f"the key of {what} holds {part!r}; it must hold numbers")
    label = checking.text(found["label"], f"the label of {what}", empty=False)
    return {"id": checking.whole(found["id"], f"the id of {what}"), "key": key, "label": label}


def _checked_move(value: object, what: str) -> dict[str, Any]:
    found = checking.record(value, f"a move of {what}", ("kind", "from", "to", "words"))
    return {
        "kind": _one_of(found["kind"], f"the kind of a move of {what}", _KINDS),
        "from": checking.whole(found["from"], f"from of a move of {what}"),
        "to": checking.whole(found["to"], f"to of a move of {what}"),
        "words": checking.text(found["words"], f"the words of a move of {what}", empty=False),
    }


def _checked_admission(value: object, what: str) -> dict[str, Any]:
    fields = ("held", "candidate", "batch", "max_batch")
    found = checking.record(value, what, (*fields, "budget", "verdict"))
    budget = found["budget"]
    return {
        **{field: checking.whole(found[field], f"{field} of {what}") for field in fields},
        "budget": None if budget is None else checking.whole(budget, f"budget of {what}", least=1),
        "verdict": _one_of(found["verdict"], f"the verdict of {what}", _VERDICTS),
    }


def _one_of(value: object, what: str, choices: Sequence[str]) -> str:
    if value not in choices:
        raise ValueError(f"{what} is {value!r}; it must be one of {', '.join(choices)}")
    return str(value)


def _known(value: object, what: str, known: set[int]) -> int:
    if not checking.is_whole(value) or value not in known:
        raise ValueError(f"{what} names entry {value!r}, which was never pushed")
    return value
