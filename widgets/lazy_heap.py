"""A heap with lazy deletion, event by event: its stale entries, and the counter that tells them."""

from collections.abc import Mapping
from typing import Any, Unpack

import traitlets

from widgets import assets, checking, signed
from widgets.picture import Face, Picture

STORY_VERSION = 1
_ENTRY_FIELDS = ("id", "key", "generation", "live")
_STEP_FIELDS = ("event", "entries", "generations", "popped", "words")
_EVENTS = {"push": 3, "remove": 2, "pop": 1}
"""How many parts each event has."""


class LazyHeap(Picture):
    """The heap after each event as a tree and an array, beside it every request's generation.

    `story` is a `heap_story(...)` dict: {"version": 1, "steps": [{"event": ["push", id, key],
    ["remove", id] or ["pop"], "entries": [{"id", "key", "generation", "live"}] in the array's
    order, "generations": {"id": generation}, "popped": None or an id, "words"}], "error": None or
    a sentence}. "live" says whether an entry rightly counts: one that counts and is not live was
    revived, and is drawn in alarm.
    Raises: ValueError for another kind of record, or a story without a step and without an error.
    """

    _esm = assets.esm("lazy_heap")
    _css = assets.css("heap_stepper", "lazy_heap")
    story = traitlets.Dict().tag(sync=True)
    title = traitlets.Unicode().tag(sync=True)

    def __init__(self, story: Mapping[str, Any], title: str = "", **face: Unpack[Face]) -> None:
        super().__init__(
            story=_checked_story(story),
            title=checking.text(title, "the title"),
            **face,
        )


def _checked_story(value: object) -> dict[str, Any]:
    found = checking.record(value, "the story", ("version", "steps", "error"))
    if found["version"] != STORY_VERSION:
        raise ValueError(
            f"the story has version {found['version']!r}; this widget reads version {STORY_VERSION}"
        )
    error = found["error"]
    steps = checking.items(found["steps"], "the steps of the story", 0 if error else 1)
    return {
        "steps": [_checked_step(each, f"step {index}") for index, each in enumerate(steps)],
        "error": None if error is None else checking.text(error, "the error of the story"),
    }


def _checked_step(value: object, what: str) -> dict[str, Any]:
    found = checking.record(value, what, _STEP_FIELDS)
    generations = checking.record(found["generations"], f"the generations of {what}", ())
    popped = found["popped"]
    return {
        "event": _checked_event(found["event"], f"the event of {what}"),
        "entries": [
            _checked_entry(each, f"entry {index} of {what}")
            for index, each in enumerate(checking.items(found["entries"], f"entries of {what}"))
        ],
        "generations": {
            str(name): checking.whole(count, f"the generation of request {name} in {what}")
            for name, count in generations.items()
        },
        "popped": None if popped is None else checking.whole(popped, f"popped of {what}"),
        "words": checking.text(found["words"], f"the words of {what}", empty=False),
    }


def _checked_event(value: object, what: str) -> dict[str, Any]:
    parts = checking.items(value, what, at_least=1)
    kind = signed.one_of(parts[0], f"the kind of {what}", tuple(_EVENTS))
    if len(parts) != _EVENTS[kind]:
        raise ValueError(f"{what} has {len(parts)} parts; a {kind} has {_EVENTS[kind]}")
    return {
        "kind": kind,
        "id": None if kind == "pop" else checking.whole(parts[1], f"the id of {what}"),
        "key": _checked_key(parts[2], f"the key of {what}") if kind == "push" else None,
    }


def _checked_entry(value: object, what: str) -> dict[str, Any]:
    found = checking.record(value, what, _ENTRY_FIELDS)
    return {
        "id": checking.whole(found["id"], f"the id of {what}"),
        "key": _checked_key(found["key"], f"the key of {what}"),
        "generation": checking.whole(found["generation"], f"the generation of {what}"),
        "live": signed.flag(found["live"], f"live of {what}"),
    }


def _checked_key(value: object, what: str) -> list[float]:
    return [
        signed.number(part, f"a part of {what}") for part in checking.items(value, what, at_least=1)
    ]
