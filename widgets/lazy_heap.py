"""A heap with lazy deletion, event by event: its stale entries, and the counter that tells them."""

from collections.abc import Mapping
from typing import Any, Literal, Unpack

import traitlets
from msgspec import Struct

from widgets.picture import Face, Picture
from widgets.records import Natural, Number, OneOrMore, Words, read

_Key = OneOrMore[Number]
_EVENTS = {"push": tuple[str, Natural, _Key], "remove": tuple[str, Natural], "pop": tuple[str]}
"""The parts of each kind of event."""


class _Entry(Struct):
    id: Natural
    key: _Key
    generation: Natural
    live: bool


class _Step(Struct):
    event: list[Any]
    entries: list[_Entry]
    generations: dict[int | str, Natural]
    popped: Natural | None
    words: Words


class _Story(Struct):
    version: Literal[1]
    steps: list[_Step]
    error: str | None

    def __post_init__(self) -> None:
        if not self.steps and not self.error:
            raise ValueError("there is neither a step nor an error; there is nothing to show")


class LazyHeap(Picture, styles=("heap_stepper",)):
    """The heap after each event as a tree and an array, beside it every request's generation.

    `story` is a `heap_story(...)` dict. An entry that counts and is not `live` was revived, and is
    drawn in alarm.
    Raises: ValueError for another kind of record, or a story without a step and without an error.
    """

    story = traitlets.Dict().tag(sync=True)

    def __init__(self, story: Mapping[str, Any], title: str = "", **face: Unpack[Face]) -> None:
        super().__init__(story=_checked_story(story), title=title, **face)


def _checked_story(value: object) -> dict[str, Any]:
    found = read(value, _Story, "the story")
    for step in found["steps"]:
        step["event"] = _checked_event(step["event"])
    return {"steps": found["steps"], "error": found["error"]}


def _checked_event(parts: list[Any]) -> dict[str, Any]:
    kind = parts[0] if parts else None
    if kind not in _EVENTS:
        raise ValueError(f"an event is {parts}; it must begin with push, remove or pop")
    found = read(parts, _EVENTS[kind], f"a {kind}")
    return dict(zip(("kind", "id", "key"), (*found, None, None), strict=False))
