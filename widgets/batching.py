"""Slots over time: static batching beside continuous batching on one axis."""

from collections.abc import Mapping
from typing import Any, Unpack

import traitlets
from msgspec import Struct

from widgets.picture import Face, Picture
from widgets.records import Natural, Positive, Words, read


class _Span(Struct):
    request: Natural
    start: Natural
    end: Natural
    slot: Natural | None = None


class _Side(Struct):
    name: Words
    slots: Positive
    spans: list[_Span]
    length: Positive

    def __post_init__(self) -> None:
        """Give spans without a slot the lowest that is free, and look where all of them lie."""
        if any(span.slot is None for span in self.spans):
            free_at: list[int] = []
            for span in sorted(self.spans, key=lambda span: (span.start, span.request)):
                free = [slot for slot, end in enumerate(free_at) if end <= span.start]
                span.slot = free[0] if free else len(free_at)
                free_at[span.slot : span.slot + 1] = [span.end]
        taken: dict[tuple[int | None, int], int] = {}
        for span in self.spans:
            self._check(span)
            for step in range(span.start, span.end):
                other = taken.setdefault((span.slot, step), span.request)
                if other != span.request:
                    raise ValueError(
                        f"{self.name!r} puts requests {other} and {span.request} "
                        f"into slot {span.slot} at step {step}"
                    )

    def _check(self, span: _Span) -> None:
        if span.slot not in range(self.slots):
            raise ValueError(
                f"{self.name!r} puts request {span.request} into slot {span.slot}; "
                f"its slots are 0 to {self.slots - 1}"
            )
        if not span.start < span.end <= self.length:
            raise ValueError(
                f"{self.name!r} runs request {span.request} in steps {span.start} to {span.end}, "
                f"which is not within 0 to {self.length}"
            )


class Batching(Picture):
    """Two ways to fill the same slots, with idle slots hatched and one time cursor.

    A request holds its slot in steps start to end - 1 of `length` steps. Spans without a slot take
    the lowest that is free, in the order of their start and request.
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
        sides = read([static, continuous], list[_Side], "the sides")
        super().__init__(sides=sides, title=title, **face)
