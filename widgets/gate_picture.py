"""The gate's four cases of slack signs, and the scores of a waiter and of runners on one axis."""

from collections.abc import Mapping, Sequence
from typing import Any, Unpack

import traitlets

from widgets import assets, checking, signed
from widgets.picture import Face, Picture

MODES = ("conservative", "aggressive")
_FIELDS = ("waiter", "runners", "reference", "victim", "margin", "mode", "words")
_SCORED = ("id", "slack_us", "urgency")


class GatePicture(Picture):
    """Decisions of a gate, one after the other: which of the four cases, which one goes.

    Each decision is {"waiter": {"id", "slack_us", "urgency"}, "runners": [{"id", "slack_us",
    "urgency", "immune": bool}], "reference": id or None, "victim": id or None, "margin", "mode":
    "conservative" or "aggressive", "words"}. `reference` is the runner that the waiter is measured
    by, None when all are immune; `victim` is what the gate answered; `words` says why.
    Raises: ValueError for no decision, two requests of one id, a reference or victim that does not
    run, or an immune reference.
    """

    _esm = assets.esm("gate_picture")
    _css = assets.css("gate_picture")
    decisions = traitlets.List(traitlets.Dict()).tag(sync=True)
    title = traitlets.Unicode().tag(sync=True)

    def __init__(
        self, decisions: Sequence[Mapping[str, Any]], title: str = "", **face: Unpack[Face]
    ) -> None:
        found = checking.items(decisions, "decisions", at_least=1)
        super().__init__(
            decisions=[
                _checked_decision(each, f"decision {index}") for index, each in enumerate(found)
            ],
            title=checking.text(title, "the title"),
            **face,
        )


def _checked_decision(value: object, what: str) -> dict[str, Any]:
    """The decision with `bar`: the score that the margin asks for, None without a reference."""
    found = checking.record(value, what, _FIELDS)
    waiter = _checked_request(found["waiter"], f"the waiter of {what}")
    runners = [
        _checked_runner(each, f"a runner of {what}")
        for each in checking.items(found["runners"], f"the runners of {what}")
    ]
    ids = [each["id"] for each in (waiter, *runners)]
    for each in ids:
        if ids.count(each) > 1:
            raise ValueError(f"{what} has request {each} twice; ids must differ")
    reference = _running(found["reference"], f"the reference of {what}", runners)
    if reference is not None and reference["immune"]:
        raise ValueError(f"the reference of {what} is {reference['id']}, which is immune")
    victim = _running(found["victim"], f"the victim of {what}", runners)
    margin = checking.amount(found["margin"], f"the margin of {what}")
    return {
        "waiter": waiter,
        "runners": runners,
        "reference": reference and reference["id"],
        "victim": victim and victim["id"],
        "margin": margin,
        "bar": None if reference is None else reference["urgency"] * margin,
        "mode": signed.one_of(found["mode"], f"the mode of {what}", MODES),
        "words": checking.text(found["words"], f"the words of {what}", empty=False),
    }


def _checked_request(value: object, what: str) -> dict[str, Any]:
    found = checking.record(value, what, _SCORED)
    return {
        "id": checking.whole(found["id"], f"the id of {what}"),
        "slack_us": signed.number(found["slack_us"], f"slack_us of {what}"),
        "urgency": signed.number(found["urgency"], f"urgency of {what}"),
    }


def _checked_runner(value: object, what: str) -> dict[str, Any]:
    found = checking.record(value, what, (*_SCORED, "immune"))
    immune = signed.flag(found["immune"], f"immune of {what}")
    return {**_checked_request(found, what), "immune": immune}


def _running(value: object, what: str, runners: Sequence[dict[str, Any]]) -> dict[str, Any] | None:
    if value is None:
        return None
    for runner in runners:
        if runner["id"] == value:
            return runner
    raise ValueError(f"{what} is {value!r}, which does not run")
