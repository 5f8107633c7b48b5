"""The vote board of a pass: what each rank voted at each layer, and where each of them left."""

from collections.abc import Mapping, Sequence
from typing import Any, Unpack

import traitlets

from widgets import assets, checking, signed
from widgets.picture import Face, Picture

AGREEMENTS = ("vote", "carried", "epoch")
ENDINGS = ("left", "finished", "hangs", "crashed")
_RECORD_FIELDS = (
    "step", "pass_number", "layer", "num_layers", "waiter", "victims",
    "begun_ns", "written_ns", "replied_ns", "resumed_ns", "checks",
)  # fmt: skip
_CHECK_FIELDS = ("layer", "reached_ns", "vote", "agree_ns")


class VoteBoard(Picture):
    """Ranks by layers: each rank's vote, the collective's result, the write, where all left.

    Each board is {"label", "words", "record"}: `record` has the fields of a preemption's record as
    JSON (step, pass_number, layer, num_layers, waiter, victims, begun_ns, written_ns, replied_ns,
    resumed_ns, and checks: per rank the list of {"layer", "reached_ns", "vote", "agree_ns"}), with
    `layer` = `num_layers` for a pass that was finished. A board may say `agreement` ("vote",
    "carried" or "epoch"; without it "vote"), `mark` (what was written, such as "the flag"; without
    it "target N") and `endings`, per rank {"how": "left", "finished", "hangs" or "crashed",
    "layer", "words"}; without them all ranks ended at the record's layer.
    `replied_ns` is None when the replies never came. `shown` is the board to begin with.
    Raises: ValueError for no board, two of one label, a vote other than 0 and 1, checks that are
    out of order or beyond where their rank ended, or not one ending per rank.
    """

    _esm = assets.esm("vote_board")
    _css = assets.css("vote_board")
    boards = traitlets.List(traitlets.Dict()).tag(sync=True)
    title = traitlets.Unicode().tag(sync=True)
    shown = traitlets.Int().tag(sync=True)

    def __init__(
        self,
        boards: Sequence[Mapping[str, Any]],
        title: str = "",
        *,
        shown: int = 0,
        **face: Unpack[Face],
    ) -> None:
        found = [
            _checked_board(each, f"board {index}")
            for index, each in enumerate(checking.items(boards, "boards", at_least=1))
        ]
        labels = [board["label"] for board in found]
        for label in labels:
            if labels.count(label) > 1:
                raise ValueError(f"two boards are called {label!r}; labels must differ")
        if checking.whole(shown, "shown") >= len(found):
            raise ValueError(f"shown is {shown}, but there are {len(found)} boards")
        super().__init__(
            boards=found,
            title=checking.text(title, "the title"),
            shown=shown,
            **face,
        )


def checked_record(value: object, what: str) -> dict[str, Any]:
    """A preemption's record, its times as microseconds from the beginning of the pass."""
    found = checking.record(value, what, _RECORD_FIELDS)
    num_layers = checking.whole(found["num_layers"], f"num_layers of {what}", least=1)
    layer = checking.whole(found["layer"], f"layer of {what}")
    if layer > num_layers:
        raise ValueError(f"layer of {what} is {layer}, but there are {num_layers} layers")
    begun = checking.whole(found["begun_ns"], f"begun_ns of {what}")

    def since(name: str) -> float | None:
        if found[name] is None:
            return None
        return (checking.whole(found[name], f"{name} of {what}") - begun) / 1000

    return {
        "step": checking.whole(found["step"], f"step of {what}"),
        "pass_number": checking.whole(found["pass_number"], f"pass_number of {what}"),
        "layer": layer,
        "num_layers": num_layers,
        "waiter": None if found["waiter"] is None
        else checking.whole(found["waiter"], f"the waiter of {what}"),
        "victims": [checking.whole(each, f"a victim of {what}")
                    for each in checking.items(found["victims"], f"the victims of {what}")],
        "begun_us": begun / 1000,
        "written_us": since("written_ns"),
        "replied_us": since("replied_ns"),
        "resumed_us": since("resumed_ns"),
        "checks": [
            _checked_checks(each, f"the checks of rank {rank} of {what}", begun, num_layers)
            for rank, each in enumerate(
                checking.items(found["checks"], f"the checks of {what}", at_least=1)
            )
        ],
    }  # fmt: skip


def _checked_checks(value: object, what: str, begun: int, num_layers: int) -> list[dict[str, Any]]:
    checks = [
        checking.record(each, f"one of {what}", _CHECK_FIELDS)
        for each in checking.items(value, what)
    ]
    layers = [checking.whole(check["layer"], f"a layer of {what}") for check in checks]
    if layers != sorted(set(layers)) or (layers and layers[-1] >= num_layers):
        raise ValueError(
            f"{what} are at layers {layers}; they must rise and end below {num_layers}"
        )
    for check in checks:
        if check["vote"] not in (0, 1) or not checking.is_whole(check["vote"]):
            raise ValueError(f"a vote of {what} is {check['vote']!r}; it must be 0 or 1")
    return [
        {
            "layer": check["layer"],
            "vote": check["vote"],
            "reached_us": (checking.whole(check["reached_ns"], f"reached_ns of {what}") - begun)
            / 1000,
            "agree_us": checking.whole(check["agree_ns"], f"agree_ns of {what}") / 1000,
        }
        for check in checks
    ]


def _checked_board(value: object, what: str) -> dict[str, Any]:
    found = checking.record(value, what, ("label", "words", "record"))
    record = checked_record(found["record"], f"the record of {what}")
    mark = checking.text(
        found.get("mark", f"target {record['pass_number']}"), f"the mark of {what}", empty=False
    )
    agreement = signed.one_of(
        found.get("agreement", "vote"), f"the agreement of {what}", AGREEMENTS
    )
    endings = _checked_endings(found.get("endings"), what, record)
    return {
        "label": checking.text(found["label"], f"the label of {what}", empty=False),
        "words": checking.text(found["words"], f"the words of {what}"),
        "mark": mark,
        "agreement": agreement,
        "record": record,
        "endings": endings,
        "results": [] if agreement == "epoch" else _results(record, endings, agreement),
        "wasted_share": _wasted_share(record, endings),
    }


def _checked_endings(value: object, what: str, record: dict[str, Any]) -> list[dict[str, Any]]:
    num_ranks, layer, num_layers = len(record["checks"]), record["layer"], record["num_layers"]
    if value is None:
        how = "finished" if layer == num_layers else "left"
        value = [{"how": how, "layer": layer, "words": ""}] * num_ranks
    found = checking.items(value, f"the endings of {what}")
    if len(found) != num_ranks:
        raise ValueError(f"{what} has {len(found)} endings for {num_ranks} ranks")
    endings: list[dict[str, Any]] = []
    for rank, each in enumerate(found):
        where = f"the ending of rank {rank} of {what}"
        ending = checking.record(each, where, ("how", "layer", "words"))
        last = checking.whole(ending["layer"], f"the layer of {where}")
        if last > num_layers:
            raise ValueError(f"the layer of {where} is {last}, but there are {num_layers} layers")
        checks = record["checks"][rank]
        if checks and checks[-1]["layer"] > last:
            raise ValueError(f"rank {rank} of {what} ended at layer {last}, yet it voted later")
        endings.append({
            "how": signed.one_of(ending["how"], f"how of {where}", ENDINGS),
            "layer": last,
            "words": checking.text(ending["words"], f"the words of {where}"),
        })  # fmt: skip
    return endings


def _results(
    record: dict[str, Any], endings: list[dict[str, Any]], agreement: str
) -> list[int | None]:
    """What the collective said at each layer: MAX, or None where it never came to an answer."""
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
    """How much of the pass was computed for nothing; None for a pass that never ends."""
    if any(each["how"] in ("hangs", "crashed") for each in endings):
        return None
    if record["resumed_us"] is not None or record["layer"] == record["num_layers"]:
        return 0.0
    return record["layer"] / record["num_layers"]
