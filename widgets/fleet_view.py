"""A fleet of workers over virtual time: their batches and K/V, the queue, every request's way."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Unpack

import traitlets

from widgets import assets, checking, signed
from widgets.picture import Face, Picture

TRACE_VERSION = 1
_FIELDS = (
    "version", "name", "cost", "num_workers", "batch_size", "kv_tokens", "end_us",
    "requests", "visits", "runs", "decisions", "error",
)  # fmt: skip
_REQUEST_FIELDS = (
    "id", "arrival_us", "deadline_us", "priority", "prompt_tokens", "max_new_tokens",
    "first_token_us", "finished_us", "refused",
)  # fmt: skip
_VISIT_FIELDS = (
    "request_id", "worker", "dispatched_us", "start_us", "end_us",
    "hit_tokens", "computed_tokens", "generated_tokens", "ended",
)  # fmt: skip
_RUN_FIELDS = (
    "worker", "start_us", "end_us", "kind", "num_steps", "request_ids",
    "reserved_tokens", "cached_tokens",
)  # fmt: skip
_DECISION_FIELDS = ("at_us", "kind", "request_id", "worker")
_ENDS = ("finished", "preempted", "running")
_DECISIONS = ("dispatch", "preempt", "bump", "refuse")

Columns = dict[str, list[Any]]


class FleetView(Picture):
    """Workers as lanes over virtual time, the queue above them, one event of a request per step.

    `trace` is what `FleetTrace.to_json()` returns. The picture shows a window of it, which
    zooms in and out and follows the event; a press goes to the nearest event. `zoom` is how many
    times the window is first halved.
    Raises: ValueError for something that is no such trace, of another version, or that names a
    request or a worker that is not there.
    """

    _esm = assets.esm("fleet_view")
    _css = assets.css("fleet_view")
    trace = traitlets.Dict().tag(sync=True)
    title = traitlets.Unicode().tag(sync=True)
    zoom = traitlets.Int().tag(sync=True)

    def __init__(
        self, trace: Mapping[str, Any], title: str = "", *, zoom: int = 0, **face: Unpack[Face]
    ) -> None:
        super().__init__(
            trace=_checked_trace(trace),
            title=checking.text(title, "the title"),
            zoom=checking.whole(zoom, "zoom"),
            **face,
        )


def _checked_trace(value: object) -> dict[str, Any]:
    """The trace with its records as columns: a long one would send every name a thousand times."""
    found = checking.record(value, "the trace", _FIELDS)
    if found["version"] != TRACE_VERSION:
        raise ValueError(
            f"the trace has version {found['version']!r}; this widget reads version {TRACE_VERSION}"
        )
    cost = checking.record(found["cost"], "the cost of the trace", ("name", "modelled"))
    error = found["error"]
    workers = checking.whole(found["num_workers"], "num_workers of the trace", least=1)
    requests = _records(found["requests"], "request", _REQUEST_FIELDS, _check_request)
    known = {each["id"] for each in requests}
    if len(known) != len(requests):
        raise ValueError("two requests of the trace have the same id; ids must differ")

    visits = _records(found["visits"], "visit", _VISIT_FIELDS, _check_visit)
    runs = _records(found["runs"], "run", _RUN_FIELDS, _check_run)
    decisions = _records(found["decisions"], "decision", _DECISION_FIELDS, _check_decision)
    _check_names(workers, known, visits, runs, decisions)
    return {
        "name": checking.text(found["name"], "the name of the trace", empty=False),
        "cost": {
            "name": checking.text(cost["name"], "the name of the cost"),
            "modelled": signed.flag(cost["modelled"], "modelled of the cost"),
        },
        "num_workers": workers,
        "batch_size": checking.whole(found["batch_size"], "batch_size of the trace", least=1),
        "kv_tokens": checking.whole(found["kv_tokens"], "kv_tokens of the trace", least=1),
        "end_us": checking.whole(found["end_us"], "end_us of the trace"),
        "error": None if error is None else checking.text(error, "the error of the trace"),
        "requests": _columns(requests, _REQUEST_FIELDS),
        "visits": _columns(visits, _VISIT_FIELDS),
        "runs": {
            **_columns(runs, [each for each in _RUN_FIELDS if each != "request_ids"]),
            "num_requests": [len(each["request_ids"]) for each in runs],
        },
        "decisions": _columns(decisions, _DECISION_FIELDS),
    }


def _check_names(
    workers: int,
    known: set[Any],
    visits: list[dict[str, Any]],
    runs: list[dict[str, Any]],
    decisions: list[dict[str, Any]],
) -> None:
    """Raises: ValueError for a worker or a request that the trace does not have."""

    def worker(number: object, what: str) -> None:
        if checking.whole(number, f"the worker of {what}") >= workers:
            raise ValueError(f"{what} names worker {number}, but there are {workers} workers")

    def request(number: object, what: str) -> None:
        if number not in known:
            raise ValueError(f"{what} names request {number!r}, which never arrived")

    for index, each in enumerate(visits):
        worker(each["worker"], f"visit {index}")
        request(each["request_id"], f"visit {index}")
    for index, each in enumerate(runs):
        worker(each["worker"], f"run {index}")
        for number in each["request_ids"]:
            request(number, f"run {index}")
    for index, each in enumerate(decisions):
        request(each["request_id"], f"decision {index}")
        if each["worker"] is not None:
            worker(each["worker"], f"decision {index}")


def _records(
    value: object, noun: str, fields: Sequence[str], check: Callable[[dict[str, Any], str], None]
) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for index, each in enumerate(checking.items(value, f"the {noun}s of the trace")):
        what = f"{noun} {index}"
        found.append(checking.record(each, what, fields))
        check(found[-1], what)
    return found


def _columns(records: Sequence[dict[str, Any]], fields: Sequence[str]) -> Columns:
    return {field: [each[field] for each in records] for field in fields}


def _whole_fields(found: dict[str, Any], what: str, fields: Sequence[str]) -> None:
    for field in fields:
        checking.whole(found[field], f"{field} of {what}")


def _check_request(found: dict[str, Any], what: str) -> None:
    _whole_fields(
        found,
        what,
        ("id", "arrival_us", "deadline_us", "priority", "prompt_tokens", "max_new_tokens"),
    )
    signed.flag(found["refused"], f"refused of {what}")
    for field in ("first_token_us", "finished_us"):
        when = found[field]
        if when is not None and checking.whole(when, f"{field} of {what}") < found["arrival_us"]:
            raise ValueError(f"{field} of {what} is {when}, before it arrives")


def _check_visit(found: dict[str, Any], what: str) -> None:
    times = ("dispatched_us", "start_us", "end_us")
    _whole_fields(found, what, (*times, "hit_tokens", "computed_tokens", "generated_tokens"))
    _in_order([found[each] for each in times], what)
    signed.one_of(found["ended"], f"ended of {what}", _ENDS)


def _check_run(found: dict[str, Any], what: str) -> None:
    numbers = ("start_us", "end_us", "num_steps", "reserved_tokens", "cached_tokens")
    _whole_fields(found, what, numbers)
    _in_order([found["start_us"], found["end_us"]], what)
    signed.one_of(found["kind"], f"the kind of {what}", ("prefill", "decode"))
    checking.items(found["request_ids"], f"the request_ids of {what}", at_least=1)


def _check_decision(found: dict[str, Any], what: str) -> None:
    _whole_fields(found, what, ("at_us",))
    signed.one_of(found["kind"], f"the kind of {what}", _DECISIONS)


def _in_order(times: list[int], what: str) -> None:
    if times != sorted(times):
        raise ValueError(f"the times of {what} are {times}; they must not fall")
