"""Slack on a time axis: arrival, now, the predicted TTFT as a bar from now, and the deadline."""

from collections.abc import Mapping, Sequence
from typing import Any, Unpack

import traitlets
from msgspec import Struct

from widgets.picture import Face, Picture
from widgets.records import Amount, Natural, Number, OneOrMore, Positive, Words, read


class _Moment(Struct):
    now_us: Number
    done_tokens: Natural
    predicted_us: Amount
    slack_us: Number
    edf_score: Number
    whole_us: Amount | None = None


class _Case(Struct):
    label: Words
    arrival_us: Number
    deadline_us: Number
    total_tokens: Positive
    a: Amount
    c: Amount
    moments: OneOrMore[_Moment]

    def __post_init__(self) -> None:
        times = [moment.now_us for moment in self.moments]
        if times != sorted(times) or times[0] < self.arrival_us:
            raise ValueError(f"the moments are at {times}; they must follow the arrival")
        for moment in self.moments:
            done, predicted = moment.done_tokens, moment.predicted_us
            if done > self.total_tokens:
                raise ValueError(f"done_tokens is {done}, but there are {self.total_tokens} tokens")
            if moment.whole_us is None:
                moment.whole_us = predicted + self.a * done
            if moment.whole_us < predicted:
                raise ValueError(
                    f"whole_us is {moment.whole_us}, below predicted_us of {predicted}"
                )


class SlackTimeline(Picture):
    """Requests side by side while time passes: whether the predicted bar ends before the deadline.

    Times are microseconds. The cases have equally many moments, and step together.
    Raises: ValueError for no case, unequal or no moments, or a number out of range.
    """

    cases = traitlets.List(traitlets.Dict()).tag(sync=True)

    def __init__(
        self, cases: Sequence[Mapping[str, Any]], title: str = "", **face: Unpack[Face]
    ) -> None:
        found = read(cases, OneOrMore[_Case], "the cases")
        lengths = sorted({len(case["moments"]) for case in found})
        if len(lengths) > 1:
            raise ValueError(f"the cases have {lengths} moments; all must have equally many")
        super().__init__(cases=found, title=title, **face)
