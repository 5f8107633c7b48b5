"""A heap with lazy deletion, event by event: its stale entries, and the counter that tells them."""

from collections.abc import Mapping
from typing import Any, Unpack

import traitlets

from widgets import checking
from widgets.picture import Face, Picture

STORY_VERSION = 1
_EVENTS = {"push": 3, "remove": 2, "pop": 1}
"""How many parts each event has."""


class LazyHeap(Picture, styles=("heap_stepper",)):
    """The heap after each event as a tree and an array, beside it every request's generation.

    `story` is a `heap_story(...)` dict: {"version": 1, "steps": [{"event": ["push", id, key],
    ["remove", id] or ["pop"], "entries": [{"id", "key", "generation", "live"}] in the array's
    order, "generations": {"id": generation}, "popped": None or an id, "words"}], "error": None or
    a sentence}. "live" says whether an entry rightly counts: one that counts and is not live was
    revived, and is drawn in alarm.
    Raises: ValueError for another kind of record, or a story without a step and without an error.
    """

    story = traitlets.Dict().tag(sync=True)

    def __init__(self, story: Mapping[str, Any], title: str = "", **face: Unpack[Face]) -> None:
        super().__init__(story=_checked_story(story), title=title, **face)


def _checked_story(value: object) -> dict[str, Any]:
    checking.version(value, "the story", STORY_VERSION)
    found = checking.record(value, "the story", ("steps", "error"))
    error = checking.maybe(checking.text)(found["error"], "error of the story")
    steps = checking.list_of(_STEP, at_least=0 if error else 1)
    return {"steps": steps(found["steps"], "steps of the story"), "error": error}


def _checked_event(value: object, what: str) -> dict[str, Any]:
    parts = checking.items(value, what, at_least=1)
    kind = checking.one_of(*_EVENTS)(parts[0], f"kind of {what}")
    if len(parts) != _EVENTS[kind]:
        raise ValueError(f"{what} has {len(parts)} parts; a {kind} has {_EVENTS[kind]}")
    return {
        "kind": kind,
        "id": None if kind == "pop" else checking.whole(parts[1], f"id of {what}"),
        "key": _KEY(parts[2], f"key of {what}") if kind == "push" else None,
    }


def _generations(value: object, what: str) -> dict[str, int]:
    return {
        str(name): checking.whole(count, f"request {name} in {what}")
        for name, count in checking.record(value, what).items()
    }


_KEY = checking.list_of(checking.number, at_least=1)
_ENTRY = checking.shape(id=checking.whole, key=_KEY, generation=checking.whole, live=checking.flag)
_STEP = checking.shape(
    event=_checked_event,
    entries=checking.list_of(_ENTRY),
    generations=_generations,
    popped=checking.maybe(checking.whole),
    words=checking.words,
)
