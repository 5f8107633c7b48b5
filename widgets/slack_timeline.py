"""Slack on a time axis: arrival, now, the predicted TTFT as a bar from now, and the deadline."""

from collections.abc import Mapping, Sequence
from typing import Any, Unpack

import traitlets

from widgets import assets, checking, signed
from widgets.picture import Face, Picture

_CASE_FIELDS = ("label", "arrival_us", "deadline_us", "total_tokens", "a", "c", "moments")
_MOMENT_FIELDS = ("now_us", "done_tokens", "predicted_us", "slack_us", "urgency")


class SlackTimeline(Picture):
    """Requests side by side while time passes: whether the predicted bar ends before the deadline.

    Each case is {"label", "arrival_us", "deadline_us", "total_tokens", "a", "c", "moments":
    [{"now_us", "done_tokens", "predicted_us", "slack_us", "urgency"}]}: `a` microseconds per token
    and `c` per pass, `predicted_us` the time that the remaining tokens take, slack and urgency as
    the given functions returned them. The cases have equally many moments, and step together. A
    moment may say `whole_us`, the prediction for the whole prompt (else `predicted_us` and `a` for
    every done token): the difference is the hatched part, which need not be paid for any more.
    Raises: ValueError for no case, unequal or no moments, or a number out of range.
    """

    _esm = assets.esm("slack_timeline")
    _css = assets.css("slack_timeline")
    cases = traitlets.List(traitlets.Dict()).tag(sync=True)
    title = traitlets.Unicode().tag(sync=True)

    def __init__(
        self, cases: Sequence[Mapping[str, Any]], title: str = "", **face: Unpack[Face]
    ) -> None:
        found = [
            _checked_case(each, f"case {index}")
            for index, each in enumerate(checking.items(cases, "cases", at_least=1))
        ]
        lengths = sorted({len(case["moments"]) for case in found})
        if len(lengths) > 1:
            raise ValueError(f"the cases have {lengths} moments; all must have equally many")
        super().__init__(
            cases=found,
            title=checking.text(title, "the title"),
            **face,
        )


def _checked_case(value: object, what: str) -> dict[str, Any]:
    found = checking.record(value, what, _CASE_FIELDS)
    arrival = signed.number(found["arrival_us"], f"arrival_us of {what}")
    total = checking.whole(found["total_tokens"], f"total_tokens of {what}", least=1)
    a = checking.amount(found["a"], f"a of {what}")
    moments = checking.items(found["moments"], f"the moments of {what}", at_least=1)
    checked = [
        _checked_moment(each, f"moment {index} of {what}", total, a)
        for index, each in enumerate(moments)
    ]
    times = [moment["now_us"] for moment in checked]
    if times != sorted(times) or times[0] < arrival:
        raise ValueError(f"the moments of {what} are at {times}; they must follow its arrival")
    return {
        "label": checking.text(found["label"], f"the label of {what}", empty=False),
        "arrival_us": arrival,
        "deadline_us": signed.number(found["deadline_us"], f"deadline_us of {what}"),
        "total_tokens": total,
        "a": a,
        "c": checking.amount(found["c"], f"c of {what}"),
        "moments": checked,
    }


def _checked_moment(value: object, what: str, total: int, a: float) -> dict[str, Any]:
    found = checking.record(value, what, _MOMENT_FIELDS)
    done = checking.whole(found["done_tokens"], f"done_tokens of {what}")
    if done > total:
        raise ValueError(f"done_tokens of {what} is {done}, but there are {total} tokens")
    predicted = checking.amount(found["predicted_us"], f"predicted_us of {what}")
    whole = checking.amount(found.get("whole_us", predicted + a * done), f"whole_us of {what}")
    if whole < predicted:
        raise ValueError(f"whole_us of {what} is {whole}, below its predicted_us of {predicted}")
    return {
        "now_us": signed.number(found["now_us"], f"now_us of {what}"),
        "done_tokens": done,
        "predicted_us": predicted,
        "whole_us": whole,
        "slack_us": signed.number(found["slack_us"], f"slack_us of {what}"),
        "urgency": signed.number(found["urgency"], f"urgency of {what}"),
    }
