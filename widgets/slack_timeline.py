"""Slack on a time axis: arrival, now, the predicted TTFT as a bar from now, and the deadline."""

from collections.abc import Mapping, Sequence
from typing import Any, Unpack

import traitlets

from widgets import checking
from widgets.picture import Face, Picture

_MOMENT = checking.shape(
    now_us=checking.number,
    done_tokens=checking.whole,
    predicted_us=checking.amount,
    whole_us=checking.Optional(checking.maybe(checking.amount), None),
    slack_us=checking.number,
    edf_score=checking.number,
)
_CASE = checking.shape(
    label=checking.words,
    arrival_us=checking.number,
    deadline_us=checking.number,
    total_tokens=checking.positive,
    a=checking.amount,
    c=checking.amount,
    moments=checking.list_of(_MOMENT, at_least=1),
)


class SlackTimeline(Picture):
    """Requests side by side while time passes: whether the predicted bar ends before the deadline.

    Each case is {"label", "arrival_us", "deadline_us", "total_tokens", "a", "c", "moments":
    [{"now_us", "done_tokens", "predicted_us", "slack_us", "edf_score"}]}: `a` microseconds per
    token and `c` per pass, `predicted_us` the time that the remaining tokens take, slack and
    edf_score as the given functions returned them. The cases have equally many moments, and step
    together. A moment may say `whole_us`, the prediction for the whole prompt (else `predicted_us`
    and `a` for every done token): the difference is the hatched part, which need not be paid for
    any more.
    Raises: ValueError for no case, unequal or no moments, or a number out of range.
    """

    cases = traitlets.List(traitlets.Dict()).tag(sync=True)

    def __init__(
        self, cases: Sequence[Mapping[str, Any]], title: str = "", **face: Unpack[Face]
    ) -> None:
        found = checking.list_of(_checked_case, at_least=1)(cases, "cases")
        lengths = sorted({len(case["moments"]) for case in found})
        if len(lengths) > 1:
            raise ValueError(f"the cases have {lengths} moments; all must have equally many")
        super().__init__(cases=found, title=title, **face)


def _checked_case(value: object, what: str) -> dict[str, Any]:
    found = _CASE(value, what)
    times = [moment["now_us"] for moment in found["moments"]]
    if times != sorted(times) or times[0] < found["arrival_us"]:
        raise ValueError(f"the moments of {what} are at {times}; they must follow its arrival")
    for index, moment in enumerate(found["moments"]):
        where = f"of moments[{index}] of {what}"
        done, predicted, total = (
            moment["done_tokens"],
            moment["predicted_us"],
            found["total_tokens"],
        )
        if done > total:
            raise ValueError(f"done_tokens {where} is {done}, but there are {total} tokens")
        if moment["whole_us"] is None:
            moment["whole_us"] = predicted + found["a"] * done
        if moment["whole_us"] < predicted:
            raise ValueError(
                f"whole_us {where} is {moment['whole_us']}, below its predicted_us of {predicted}"
            )
    return found
