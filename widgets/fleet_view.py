"""A fleet of workers over virtual time: their batches and K/V, the queue, every request's way."""

from collections.abc import Mapping
from typing import Any, Unpack

import traitlets

from widgets import checking
from widgets.picture import Face, Picture

TRACE_VERSION = 1
_REQUEST = {
    **dict.fromkeys(("id", "arrival_us", "deadline_us", "priority"), checking.whole),
    **dict.fromkeys(("prompt_tokens", "max_new_tokens"), checking.whole),
    **dict.fromkeys(("first_token_us", "finished_us"), checking.maybe(checking.whole)),
    "refused": checking.flag,
}
_VISIT = {
    **dict.fromkeys(("request_id", "worker"), checking.whole),
    **dict.fromkeys(("dispatched_us", "start_us", "end_us"), checking.whole),
    **dict.fromkeys(("hit_tokens", "computed_tokens", "generated_tokens"), checking.whole),
    "ended": checking.one_of("finished", "preempted", "running"),
}
_RUN = {
    **dict.fromkeys(("worker", "start_us", "end_us", "num_steps"), checking.whole),
    **dict.fromkeys(("reserved_tokens", "cached_tokens"), checking.whole),
    "kind": checking.one_of("prefill", "decode"),
    "request_ids": checking.list_of(checking.whole, at_least=1),
}
_DECISION = {
    **dict.fromkeys(("at_us", "request_id"), checking.whole),
    "kind": checking.one_of("dispatch", "preempt", "bump", "refuse"),
    "worker": checking.maybe(checking.whole),
}
_RECORDS = {"requests": _REQUEST, "visits": _VISIT, "runs": _RUN, "decisions": _DECISION}
_TRACE = checking.shape(
    name=checking.words,
    cost=checking.shape(name=checking.text, modelled=checking.flag),
    **dict.fromkeys(("num_workers", "batch_size", "kv_tokens"), checking.positive),
    end_us=checking.whole,
    error=checking.maybe(checking.text),
    **{name: checking.list_of(checking.shape(**fields)) for name, fields in _RECORDS.items()},
)


class FleetView(Picture):
    """Workers as lanes over virtual time, the queue above them, one event of a request per step.

    `trace` is what `FleetRun.to_json()` returns. The picture shows a window of it, which
    zooms in and out and follows the event; a press goes to the nearest event. `zoom` is how many
    times the window is first halved.
    Raises: ValueError for something that is no such trace, of another version, or that names a
    request or a worker that is not there.
    """

    trace = traitlets.Dict().tag(sync=True)
    zoom = traitlets.Int().tag(sync=True)

    def __init__(
        self, trace: Mapping[str, Any], title: str = "", *, zoom: int = 0, **face: Unpack[Face]
    ) -> None:
        super().__init__(
            trace=_checked_trace(trace), title=title, zoom=checking.whole(zoom, "zoom"), **face
        )


def _checked_trace(value: object) -> dict[str, Any]:
    """The trace with its records as columns: a long one would send every name a thousand times."""
    checking.version(value, "the trace", TRACE_VERSION)
    trace = _TRACE(value, "the trace")
    known = {request["id"] for request in trace["requests"]}
    if len(known) != len(trace["requests"]):
        raise ValueError("two requests of the trace have the same id; ids must differ")
    for index, request in enumerate(trace["requests"]):
        for field in ("first_token_us", "finished_us"):
            if request[field] is not None and request[field] < request["arrival_us"]:
                raise ValueError(
                    f"{field} of requests[{index}] is {request[field]}, before it arrives"
                )
    for noun in ("visits", "runs", "decisions"):
        for index, found in enumerate(trace[noun]):
            _check_names(found, f"{noun}[{index}]", known, trace["num_workers"])
    for run in trace["runs"]:
        run["num_requests"] = len(run.pop("request_ids"))
    columns = {
        name: {field: [each[field] for each in trace[name]] for field in fields}
        for name, fields in _RECORDS.items()
        if name != "runs"
    }
    fields = [*(field for field in _RUN if field != "request_ids"), "num_requests"]
    columns["runs"] = {field: [each[field] for each in trace["runs"]] for field in fields}
    return trace | columns


def _check_names(found: dict[str, Any], what: str, known: set[int], num_workers: int) -> None:
    """Raises: ValueError for a worker or a request that is not there, or times that fall."""
    worker = found["worker"]
    if worker is not None and worker >= num_workers:
        raise ValueError(f"{what} names worker {worker}, but there are {num_workers} workers")
    for number in found.get("request_ids") or [found["request_id"]]:
        if number not in known:
            raise ValueError(f"{what} names request {number!r}, which never arrived")
    names = ("dispatched_us", "start_us", "end_us")
    times = [found[name] for name in names if name in found]
    if times != sorted(times):
        raise ValueError(f"the times of {what} are {times}; they must not fall")
