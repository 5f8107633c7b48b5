"""The vote board of a pass: what each rank voted at each layer, and where each of them left."""

from collections.abc import Mapping, Sequence
from typing import Any, Unpack

import traitlets

from widgets import checking
from widgets.picture import Face, Picture


class VoteBoard(Picture):
    """Ranks by layers: each rank's vote, the collective's result, the write, where all left.

    Each board is {"label", "words", "record"}: `record` has the fields of a preemption's record as
    JSON (step, pass_number, layer, num_layers, candidate, victims, begun_ns, written_ns,
    replied_ns, resumed_ns, and checks: per rank the list of {"layer", "reached_ns", "vote",
    "agree_ns"}), with
    `layer` = `num_layers` for a pass that was finished. A board may say `agreement` ("vote",
    "carried" or "epoch"; without it "vote"), `mark` (what was written, such as "the flag"; without
    it "target N") and `endings`, per rank {"how": "left", "finished", "hangs" or "crashed",
    "layer", "words"}; without them all ranks ended at the record's layer.
    `replied_ns` is None when the replies never came.
    Raises: ValueError for no board, two of one label, a vote other than 0 and 1, checks that are
    out of order or beyond where their rank ended, or not one ending per rank.
    """

    boards = traitlets.List(traitlets.Dict()).tag(sync=True)

    def __init__(
        self, boards: Sequence[Mapping[str, Any]], title: str = "", **face: Unpack[Face]
    ) -> None:
        found = checking.list_of(_checked_board, at_least=1)(boards, "boards")
        checking.differ([board["label"] for board in found], "boards are called")
        super().__init__(boards=found, title=title, **face)


def _vote(value: object, what: str) -> int:
    if value not in (0, 1) or not checking.is_whole(value):
        raise ValueError(f"{what} is {value!r}; it must be 0 or 1")
    return value


_CHECK = checking.shape(
    **dict.fromkeys(("layer", "reached_ns", "agree_ns"), checking.whole), vote=_vote
)
_TIMES = ("written_ns", "replied_ns", "resumed_ns")
_RECORD = checking.shape(
    **dict.fromkeys(("step", "pass_number", "layer", "begun_ns"), checking.whole),
    num_layers=checking.positive,
    **dict.fromkeys(("candidate", *_TIMES), checking.maybe(checking.whole)),
    victims=checking.list_of(checking.whole),
    checks=checking.list_of(checking.list_of(_CHECK), at_least=1),
)
_BOARD = checking.shape(
    label=checking.words,
    words=checking.text,
    mark=checking.words,
    agreement=checking.one_of("vote", "carried", "epoch"),
)
_ENDINGS = checking.list_of(
    checking.shape(
        how=checking.one_of("left", "finished", "hangs", "crashed"),
        layer=checking.whole,
        words=checking.text,
    )
)


def checked_record(value: object, what: str) -> dict[str, Any]:
    """A preemption's record, its times as microseconds from the beginning of the pass."""
    found = _RECORD(value, what)
    layer, num_layers, begun = found["layer"], found["num_layers"], found["begun_ns"]
    if layer > num_layers:
        raise ValueError(f"layer of {what} is {layer}, but there are {num_layers} layers")
    for rank, checks in enumerate(found["checks"]):
        layers = [check["layer"] for check in checks]
        if layers != sorted(set(layers)) or (layers and layers[-1] >= num_layers):
            raise ValueError(
                f"the checks of rank {rank} of {what} are at layers {layers}; they must rise and "
                f"end below {num_layers}"
            )
        for check in checks:
            check["reached_us"] = (check.pop("reached_ns") - begun) / 1000
            check["agree_us"] = check.pop("agree_ns") / 1000
    for name in _TIMES:
        time_ns = found.pop(name)
        us = None if time_ns is None else (time_ns - begun) / 1000
        found[name.replace("_ns", "_us")] = us
    return {**found, "begun_us": found.pop("begun_ns") / 1000}


def _checked_board(value: object, what: str) -> dict[str, Any]:
    given = checking.record(value, what, ("label", "words", "record"))
    record = checked_record(given["record"], f"record of {what}")
    given = {"mark": f"target {record['pass_number']}", "agreement": "vote", **given}
    found = _BOARD(given, what)
    endings = _checked_endings(given.get("endings"), what, record)
    is_epoch = found["agreement"] == "epoch"
    return {
        **found,
        "record": record,
        "endings": endings,
        "results": [] if is_epoch else _results(record, endings, found["agreement"]),
        "wasted_share": _wasted_share(record, endings),
    }


def _checked_endings(value: object, what: str, record: dict[str, Any]) -> list[dict[str, Any]]:
    num_ranks, layer, num_layers = len(record["checks"]), record["layer"], record["num_layers"]
    if value is None:
        how = "finished" if layer == num_layers else "left"
        value = [{"how": how, "layer": layer, "words": ""}] * num_ranks
    endings = _ENDINGS(value, f"endings of {what}")
    if len(endings) != num_ranks:
        raise ValueError(f"{what} has {len(endings)} endings for {num_ranks} ranks")
    for rank, (ending, checks) in enumerate(zip(endings, record["checks"], strict=True)):
        last = ending["layer"]
        if last > num_layers:
            raise ValueError(
                f"rank {rank} of {what} ended at layer {last}, but there are {num_layers} layers"
            )
        if checks and checks[-1]["layer"] > last:
            raise ValueError(f"rank {rank} of {what} ended at layer {last}, yet it voted later")
    return endings


def _results(
    record: dict[str, Any], endings: list[dict[str, Any]], agreement: str
) -> list[int | None]:
    """The collective's result at each layer: MAX, or None where it was never complete."""
    # A vote that is carried is summed behind its checkpoint, which who leaves there never reaches.
    unanswered = ("hangs", "crashed", "left") if agreement == "carried" else ("hangs", "crashed")
    stuck = [each["layer"] for each in endings if each["how"] in unanswered]
    answered = min(stuck, default=record["num_layers"])
    votes = [{check["layer"]: check["vote"] for check in rank} for rank in record["checks"]]
    return [
        max(rank[layer] for rank in votes)
        if layer < answered and all(layer in rank for rank in votes)
        else None
        for layer in range(record["num_layers"])
    ]


def _wasted_share(record: dict[str, Any], endings: list[dict[str, Any]]) -> float | None:
    """The share of the pass that was computed for nothing; None for a pass that never ends."""
    if any(each["how"] in ("hangs", "crashed") for each in endings):
        return None
    if record["resumed_us"] is not None or record["layer"] == record["num_layers"]:
        return 0.0
    return record["layer"] / record["num_layers"]
