"""The gate's four cases of slack signs, and the scores of a waiter and of runners on one axis."""

from collections.abc import Mapping, Sequence
from typing import Any, Unpack

import traitlets

from widgets import assets, checking
from widgets.picture import Face, Picture

_SCORED = {"id": checking.whole, "slack_us": checking.number, "edf_score": checking.number}
_DECISION = checking.shape(
    waiter=checking.shape(**_SCORED),
    runners=checking.list_of(checking.shape(**_SCORED, immune=checking.flag)),
    reference=checking.maybe(checking.whole),
    victim=checking.maybe(checking.whole),
    margin=checking.amount,
    mode=checking.one_of("conservative", "aggressive"),
    words=checking.words,
)


class GatePicture(Picture):
    """Decisions of a gate, one after the other: which of the four cases, which one goes.

    Each decision is {"waiter": {"id", "slack_us", "edf_score"}, "runners": [{"id", "slack_us",
    "edf_score", "immune": bool}], "reference": id or None, "victim": id or None, "margin", "mode":
    "conservative" or "aggressive", "words"}. `reference` is the runner that the waiter is measured
    by, None when all are immune; `victim` is what the gate answered; `words` says why.
    Raises: ValueError for no decision, two requests of one id, a reference or victim that does not
    run, or an immune reference.
    """

    _esm = assets.esm("gate_picture")
    _css = assets.css("gate_picture")
    decisions = traitlets.List(traitlets.Dict()).tag(sync=True)

    def __init__(
        self, decisions: Sequence[Mapping[str, Any]], title: str = "", **face: Unpack[Face]
    ) -> None:
        super().__init__(
            decisions=checking.list_of(_checked_decision, at_least=1)(decisions, "decisions"),
            title=title,
            **face,
        )


def _checked_decision(value: object, what: str) -> dict[str, Any]:
    """The decision with `bar`: the score that the margin asks for, None without a reference."""
    found = _DECISION(value, what)
    runners = {each["id"]: each for each in found["runners"]}
    ids = [found["waiter"]["id"], *(each["id"] for each in found["runners"])]
    checking.differ(ids, f"requests of {what} have the id")
    for name in ("reference", "victim"):
        if found[name] not in (None, *runners):
            raise ValueError(f"{name} of {what} is {found[name]}, which does not run")
    reference = runners.get(found["reference"])
    if reference is not None and reference["immune"]:
        raise ValueError(f"reference of {what} is {reference['id']}, which is immune")
    bar = None if reference is None else reference["edf_score"] * found["margin"]
    return {**found, "bar": bar}
