"""The vote board of a pass: what each rank voted at each layer, and where each of them left."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Unpack

import traitlets
from msgspec import Struct

from widgets.picture import Face, Picture
from widgets.records import Natural, OneOrMore, Positive, Words, all_differ, read


class _Check(Struct):
    layer: Natural
    reached_ns: Natural
    agree_ns: Natural
    vote: Literal[0, 1]


class Record(Struct):
    """A preemption's record as JSON."""

    step: Natural
    pass_number: Natural
    layer: Natural
    num_layers: Positive
    begun_ns: Natural
    written_ns: Natural | None
    replied_ns: Natural | None
    resumed_ns: Natural | None
    candidate: Natural | None
    victims: list[Natural]
    checks: OneOrMore[list[_Check]]


class _Ending(Struct):
    how: Literal["left", "finished", "hangs", "crashed"]
    layer: Natural
    words: str


class _Board(Struct):
    label: Words
    words: str
    record: Record
    mark: Words | None = None
    agreement: Literal["vote", "carried", "epoch"] = "vote"
    endings: list[_Ending] | None = None

    def __post_init__(self) -> None:
        record = self.record
        if self.mark is None:
            self.mark = f"target {record.pass_number}"
        if self.endings is None:
            how = "finished" if record.layer == record.num_layers else "left"
            self.endings = [_Ending(how, record.layer, "")] * len(record.checks)


class VoteBoard(Picture):
    """Ranks by layers: each rank's vote, the collective's result, the write, where all left.

    A record with `layer` = `num_layers` is of a pass that was finished; `replied_ns` is None when
    the replies never came. `mark` is the thing written, such as "the flag", without it "target N".
    `endings` say per rank how it ended; without them all ranks ended at the record's layer.
    Raises: ValueError for no board, two of one label, or another kind of record.
    """

    boards = traitlets.List(traitlets.Dict()).tag(sync=True)

    def __init__(
        self, boards: Sequence[Mapping[str, Any]], title: str = "", **face: Unpack[Face]
    ) -> None:
        found = read(boards, OneOrMore[_Board], "the boards")
        all_differ([board["label"] for board in found], "labels of boards")
        super().__init__(boards=[_drawn(board) for board in found], title=title, **face)


def in_microseconds(record: dict[str, Any]) -> dict[str, Any]:
    """A record with its times as microseconds from the beginning of the pass."""
    begun = record["begun_ns"]

    def since(time_ns: int | None) -> float | None:
        return None if time_ns is None else (time_ns - begun) / 1000

    checks = [
        [
            {
                "layer": each["layer"],
                "vote": each["vote"],
                "reached_us": since(each["reached_ns"]),
                "agree_us": each["agree_ns"] / 1000,
            }
            for each in rank
        ]
        for rank in record["checks"]
    ]
    times = {
        f"{name}_us": since(record[f"{name}_ns"]) for name in ("written", "replied", "resumed")
    }
    rest = {name: value for name, value in record.items() if not name.endswith("_ns")}
    return {**rest, **times, "checks": checks, "begun_us": begun / 1000}


def _drawn(board: dict[str, Any]) -> dict[str, Any]:
    """A board with the collective's results and the share of the pass that was wasted."""
    record, endings = in_microseconds(board["record"]), board["endings"]
    is_epoch = board["agreement"] == "epoch"
    return {
        **board,
        "record": record,
        "results": [] if is_epoch else _results(record, endings, board["agreement"]),
        "wasted_share": _wasted_share(record, endings),
    }


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
