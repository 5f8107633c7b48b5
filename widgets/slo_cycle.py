"""The SLO cycle replayed, lane by lane: from an urgent arrival through the vote to its start."""

from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Any, Unpack

import traitlets
from msgspec import Struct

from widgets.picture import Face, Picture
from widgets.records import Amount, read
from widgets.vote_board import Record, in_microseconds

_ORDER = (
    "arrived_us", "looked_us", "written_us", "replied_us", "cleaned_us", "readmitted_us",
    "first_token_us", "resumed_us",
)  # fmt: skip
_CLOCK_US = 1.0
"""Clocks that are read in whole microseconds may be so much behind one of nanoseconds."""

INBOX, ENGINE, MONITOR, RANKS = range(4)
"""Lanes; the ranks' begin at RANKS."""


class _Cycle(Struct):
    record: Record
    arrived_us: Amount
    looked_us: Amount | None = None
    cleaned_us: Amount | None = None
    readmitted_us: Amount | None = None
    first_token_us: Amount | None = None

    def __post_init__(self) -> None:
        record = self.record
        for found, what in (
            (record.written_ns, "a target that was written"),
            (record.replied_ns, "replies"),
            (record.candidate, "a candidate"),
            (record.victims or None, "a preempted prefill"),
        ):
            if found is None:
                raise ValueError(f"the record lacks {what}; a cycle needs it")
        if not all(record.checks):
            raise ValueError("a rank came to no check; a cycle needs at least one each")


class SloCycle(Picture):
    """One preemption over time: arrival, inbox, monitor, shared memory, vote, leave, clean-up,
    re-admission, each in the lane of the thread or rank that it happened in.

    Times are microseconds of the same clock as the record's nanoseconds, None where they are not
    known: the monitor took the look that it decided on, the engine had undone the pass, the
    candidate's pass began, and it had its first token. `source` says where the numbers come from,
    such as "measured here" or "recorded".
    Raises: ValueError for a record without a write or a candidate, or times out of order.
    """

    lanes = traitlets.List(traitlets.Unicode()).tag(sync=True)
    spans = traitlets.List(traitlets.Dict()).tag(sync=True)
    marks = traitlets.List(traitlets.Dict()).tag(sync=True)
    events = traitlets.List(traitlets.Dict()).tag(sync=True)
    source = traitlets.Unicode().tag(sync=True)

    def __init__(
        self, cycle: Mapping[str, Any], title: str = "", *, source: str = "", **face: Unpack[Face]
    ) -> None:
        super().__init__(
            **_story(cycle), title=title, source=read(source, str, "the source"), **face
        )


def _story(cycle: Mapping[str, Any]) -> dict[str, Any]:
    """{"lanes", "spans", "marks", "events"}; see `SloCycle` for `cycle` and its errors."""
    record, times = _checked(cycle)
    lanes = ["inbox", "engine thread", "monitor thread"]
    lanes += [f"rank {rank}" for rank in range(len(record["checks"]))]
    return {
        "lanes": lanes,
        "spans": _spans(record, times),
        "marks": [
            {"lane": RANKS + rank, "at_us": check["reached_us"], "layer": check["layer"],
             "vote": check["vote"]}
            for rank, checks in enumerate(record["checks"])
            for check in checks
        ],
        "events": list(_events(record, times)),
    }  # fmt: skip


def _checked(cycle: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, float]]:
    """The record, and all known times of the cycle since the beginning of the pass, in order."""
    found = read(cycle, _Cycle, "the cycle")
    record = in_microseconds(found.pop("record"))
    times: dict[str, float] = {
        name: record[name]
        for name in ("written_us", "replied_us", "resumed_us")
        if record[name] is not None
    }
    times |= {name: us - record["begun_us"] for name, us in found.items() if us is not None}
    known = [name for name in _ORDER if name in times]
    for before, after in pairwise(known):
        if times[after] < times[before] - _CLOCK_US:
            early = times[before] - times[after]
            raise ValueError(f"{after} is {early:g} us before {before}; it must come after it")
        times[after] = max(times[after], times[before])
    return record, times


def _spans(record: dict[str, Any], times: dict[str, float]) -> list[dict[str, Any]]:
    """Lasting events: {"lane", "from_us", "to_us", "kind", "words"}."""
    number = record["pass_number"]
    spans = [_span(ENGINE, 0, times["replied_us"], "waits", f"waits for pass {number}")]
    if "looked_us" in times:
        spans.append(_span(MONITOR, times["looked_us"], times["written_us"], "decides", "decides"))
    if "cleaned_us" in times and "resumed_us" not in times:
        spans.append(_span(ENGINE, times["replied_us"], times["cleaned_us"], "undoes", "cleans up"))
    for rank, checks in enumerate(record["checks"]):
        spans.append(_span(RANKS + rank, 0, _left_us(checks), "pass", f"pass {number}"))
    if "readmitted_us" in times and "first_token_us" in times:
        start, end, who = times["readmitted_us"], times["first_token_us"], record["candidate"]
        for lane in range(RANKS, RANKS + len(record["checks"])):
            spans.append(_span(lane, start, end, "candidate", f"request {who}"))
        spans.append(_span(ENGINE, start, end, "waits", "waits"))
    return spans


def _span(lane: int, start: float, end: float, kind: str, words: str) -> dict[str, Any]:
    return {"lane": lane, "from_us": start, "to_us": end, "kind": kind, "words": words}


def _left_us(checks: list[dict[str, Any]]) -> float:
    """The time at which a rank had the answer of its last collective."""
    return checks[-1]["reached_us"] + checks[-1]["agree_us"]


def _events(record: dict[str, Any], times: dict[str, float]) -> Iterable[dict[str, Any]]:
    yield from _until_the_write(record, times)
    yield from _in_the_ranks(record)
    yield from _back_in_the_engine(record, times)


def _event(
    stage: str, points: list[tuple[int, float]], words: str, reach: int | None = None
) -> dict[str, Any]:
    """`points` are (lane, time); `reach` is the lane that it has an effect in."""
    return {
        "stage": stage,
        "at_us": max(time for _, time in points),
        "points": [{"lane": lane, "at_us": time} for lane, time in points],
        "reach": reach,
        "words": words,
    }


def _until_the_write(record: dict[str, Any], times: dict[str, float]) -> Iterable[dict[str, Any]]:
    candidate, number = record["candidate"], record["pass_number"]
    arrived, written = times["arrived_us"], times["written_us"]
    running = _names(record["victims"])
    when = (
        f"{_ms(arrived)} into pass {number}, which computes the prefill of {running}"
        if arrived >= 0
        else f"{_ms(-arrived)} before pass {number} begins, which computes the prefill of {running}"
    )
    yield _event("arrival", [(INBOX, arrived)], f"Request {candidate} arrives, {when}.")
    yield _event(
        "inbox", [(INBOX, arrived)],
        "It lies in the inbox, and the monitor is woken. The engine thread takes it in only "
        "between passes: until then it waits for the replies of this one.", MONITOR,
    )  # fmt: skip
    looked = times.get("looked_us")
    if looked is not None:
        yield _event(
            "monitor", [(MONITOR, looked)],
            f"The monitor looks, {_ms(looked - arrived)} after the arrival: at the snapshot of "
            f"this pass and into the inbox. Its gate finds request {candidate} urgent enough.",
        )  # fmt: skip
    yield _event(
        "shared memory", [(MONITOR, written)],
        f"It writes target {number}, the number of this pass, into shared memory, "
        f"{_ms(written - arrived)} after the arrival. What each rank makes of it is its own vote.",
        RANKS + len(record["checks"]) - 1,
    )  # fmt: skip


def _in_the_ranks(record: dict[str, Any]) -> Iterable[dict[str, Any]]:
    last = [checks[-1] for checks in record["checks"]]
    votes = "; ".join(
        f"rank {rank} comes to the attention op of layer {check['layer']} "
        f"{_after(check['reached_us'] - record['written_us'])} the write and votes {check['vote']}"
        for rank, check in enumerate(last)
    )
    reached = [(RANKS + rank, check["reached_us"]) for rank, check in enumerate(last)]
    yield _event("vote", reached, f"{votes[0].upper()}{votes[1:]}.")
    left = [(RANKS + rank, _left_us(checks)) for rank, checks in enumerate(record["checks"])]
    share = 100 * record["layer"] / record["num_layers"]
    lost = "Kept for later" if record["resumed_us"] is not None else "Computed for nothing"
    yield _event(
        "leave", left,
        f"All ranks leave at layer {record['layer']}, no rank by itself, and reply. {lost}: "
        f"{record['layer']} of {record['num_layers']} layers ({share:.0f} percent).",
        ENGINE,
    )  # fmt: skip


def _back_in_the_engine(
    record: dict[str, Any], times: dict[str, float]
) -> Iterable[dict[str, Any]]:
    candidate, victims = record["candidate"], _names(record["victims"])
    replied = times["replied_us"]
    after = f"{_ms(replied - times['written_us'])} after the write"
    if "resumed_us" in times:
        words = f"The engine has every reply, {after}. The pass is suspended: its K/V stays."
        yield _event("suspend", [(ENGINE, replied)], words)
    else:
        gives = "gives up its" if len(record["victims"]) == 1 else "give up their"
        waits = "waits" if len(record["victims"]) == 1 else "wait"
        yield _event(
            "clean-up", [(ENGINE, times.get("cleaned_us", replied))],
            f"The engine has every reply, {after}, and undoes the pass: {victims} {gives} K/V and "
            f"{waits} again, request {candidate} is next.",
        )  # fmt: skip
    bottom = RANKS + len(record["checks"]) - 1
    who, slept = f"Request {candidate}", f"The pass that slept goes on at layer {record['layer']}"
    for name, stage, since, words, reach in (
        ("readmitted_us", "re-admission", "arrived_us",
         f"{who} is admitted, {{}} after it arrived: the cycle is closed.", bottom),
        ("first_token_us", "first token", "arrived_us",
         f"{who} has its first token, {{}} after it arrived.", None),
        ("resumed_us", "resume", "replied_us", f"{slept}, {{}} after its ranks left.", bottom),
    ):  # fmt: skip
        if name in times:
            late = _ms(times[name] - times[since])
            yield _event(stage, [(ENGINE, times[name])], words.format(late), reach)


def _names(ids: list[int]) -> str:
    words = ", ".join(map(str, ids[:-1])) + " and " + str(ids[-1]) if len(ids) > 1 else str(ids[0])
    return f"request{'s' if len(ids) > 1 else ''} {words}"


def _ms(us: float) -> str:
    """Microseconds in words: "0.85 ms", "61.2 ms"."""
    ms = us / 1000
    return f"{ms:.{0 if ms >= 100 else 1 if ms >= 1 else 2}f} ms"


def _after(us: float) -> str:
    """A rank may have come to its look just before the write, and looked after it."""
    return f"{_ms(us)} after" if us >= 0 else f"{_ms(-us)} before"
