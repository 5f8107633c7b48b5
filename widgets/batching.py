"""Slots over time: static batching beside continuous batching on one axis."""

from collections.abc import Mapping
from typing import Any, Unpack

import traitlets

from widgets import checking
from widgets.picture import Face, Picture

_SPAN_FIELDS = ("request", "start", "end")
_SPAN = checking.shape(**dict.fromkeys((*_SPAN_FIELDS, "slot"), checking.whole))


class Batching(Picture):
    """Two ways to fill the same slots, with idle slots hatched and one time cursor.

    Each side is {"name": str, "slots": int, "spans": [{"request", "slot", "start", "end"}],
    "length": int}: a request holds its slot in steps start to end - 1 of `length` steps. Spans
    without a "slot" take the lowest that is free, in the order of their start and request.
    Raises: ValueError for spans outside the slots or the length, or two in one place.
    """

    sides = traitlets.List(traitlets.Dict()).tag(sync=True)

    def __init__(
        self,
        static: Mapping[str, Any],
        continuous: Mapping[str, Any],
        title: str = "",
        **face: Unpack[Face],
    ) -> None:
        super().__init__(
            sides=[_checked_side(static), _checked_side(continuous)], title=title, **face
        )


def _checked_side(value: object) -> dict[str, Any]:
    found = checking.record(value, "a side", ("name", "slots", "spans", "length"))
    name = checking.words(found["name"], "the name of a side")
    slots = checking.whole(found["slots"], f"slots of {name!r}", least=1)
    length = checking.whole(found["length"], f"length of {name!r}", least=1)
    given = checking.items(found["spans"], f"the spans of {name!r}")
    spans = [_checked_span(span, name, slots, length) for span in _with_slots(given, name)]
    taken: dict[tuple[int, int], int] = {}
    for span in spans:
        for step in range(span["start"], span["end"]):
            other = taken.setdefault((span["slot"], step), span["request"])
            if other != span["request"]:
                raise ValueError(
                    f"{name!r} puts requests {other} and {span['request']} "
                    f"into slot {span['slot']} at step {step}"
                )
    return {"name": name, "slots": slots, "spans": spans, "length": length}


def _with_slots(spans: list[Any], name: str) -> list[dict[str, Any]]:
    found = [checking.record(span, f"a span of {name!r}", _SPAN_FIELDS) for span in spans]
    if all("slot" in span for span in found):
        return found
    free_at: list[int] = []
    for span in sorted(found, key=lambda span: (span["start"], span["request"])):
        free = [slot for slot, end in enumerate(free_at) if end <= span["start"]]
        span["slot"] = free[0] if free else len(free_at)
        free_at[span["slot"] : span["slot"] + 1] = [span["end"]]
    return found


def _checked_span(value: object, name: str, slots: int, length: int) -> dict[str, int]:
    span = _SPAN(value, f"a span of {name!r}")
    request, start, end = span["request"], span["start"], span["end"]
    if span["slot"] >= slots:
        raise ValueError(
            f"{name!r} puts request {request} into slot {span['slot']}; "
            f"its slots are 0 to {slots - 1}"
        )
    if not start < end <= length:
        raise ValueError(
            f"{name!r} runs request {request} in steps {start} to {end}, "
            f"which is not within 0 to {length}"
        )
    return span
