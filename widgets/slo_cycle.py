"""The SLO cycle replayed, lane by lane: from an urgent arrival through the vote to its start."""

from collections.abc import Mapping
from typing import Any, Unpack

import traitlets

from widgets import assets, checking
from widgets.picture import Face, Picture
from widgets.slo_cycle_story import story


class SloCycle(Picture):
    """One preemption over time: arrival, inbox, monitor, shared memory, vote, leave, clean-up,
    re-admission, each in the lane of the thread or rank that it happened in.

    `cycle` is {"record", "arrived_us"} and, where they are known, "looked_us" (the monitor took the
    look that it decided on), "cleaned_us" (the engine had undone the pass), "readmitted_us" (the
    waiter's pass began) and "first_token_us". `record` is a preemption's record as JSON, see
    `VoteBoard`; the times are microseconds of the same clock as its nanoseconds. `source` says
    where the numbers come from, such as "measured here" or "recorded".
    Raises: ValueError for a record without a write or a waiter, or times that are out of order.
    """

    _esm = assets.esm("slo_cycle")
    _css = assets.css("slo_cycle")
    lanes = traitlets.List(traitlets.Unicode()).tag(sync=True)
    spans = traitlets.List(traitlets.Dict()).tag(sync=True)
    marks = traitlets.List(traitlets.Dict()).tag(sync=True)
    events = traitlets.List(traitlets.Dict()).tag(sync=True)
    title = traitlets.Unicode().tag(sync=True)
    source = traitlets.Unicode().tag(sync=True)

    def __init__(
        self, cycle: Mapping[str, Any], title: str = "", *, source: str = "", **face: Unpack[Face]
    ) -> None:
        super().__init__(
            **story(cycle),
            title=checking.text(title, "the title"),
            source=checking.text(source, "the source"),
            **face,
        )
