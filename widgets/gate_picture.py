"""The gate's four cases of slack signs, and the scores of all requests on one axis."""

from collections.abc import Mapping, Sequence
from typing import Any, Unpack

import traitlets

from widgets import checking
from widgets.picture import Face, Picture

_SCORED = {"id": checking.whole, "slack_us": checking.number, "edf_score": checking.number}
_DECISION = checking.shape(
    candidate=checking.shape(**_SCORED),
    running=checking.list_of(checking.shape(**_SCORED, immune=checking.flag)),
    incumbent=checking.maybe(checking.whole),
    victim=checking.maybe(checking.whole),
    margin=checking.amount,
    mode=checking.one_of("conservative", "aggressive"),
    words=checking.words,
)


class GatePicture(Picture):
    """Decisions of a gate, one after the other: which of the four cases, which one goes.

    Each decision is {"candidate": {"id", "slack_us", "edf_score"}, "running": [{"id", "slack_us",
    "edf_score", "immune": bool}], "incumbent": id or None, "victim": id or None, "margin", "mode":
    "conservative" or "aggressive", "words"}. `incumbent` is the running request that the candidate
    is compared with, None when all are immune; `victim` is what the gate answered; `words` says
    why.
    Raises: ValueError for no decision, two requests of one id, an incumbent or victim that does not
    run, or an immune incumbent.
    """

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
    """The decision with `bar`: the score that the margin asks for, None without an incumbent."""
    found = _DECISION(value, what)
    running = {each["id"]: each for each in found["running"]}
    ids = [found["candidate"]["id"], *(each["id"] for each in found["running"])]
    checking.differ(ids, f"requests of {what} have the id")
    for name in ("incumbent", "victim"):
        if found[name] not in (None, *running):
            raise ValueError(f"{name} of {what} is {found[name]}, which does not run")
    incumbent = running.get(found["incumbent"])
    if incumbent is not None and incumbent["immune"]:
        raise ValueError(f"incumbent of {what} is {incumbent['id']}, which is immune")
    bar = None if incumbent is None else incumbent["edf_score"] * found["margin"]
    return {**found, "bar": bar}
