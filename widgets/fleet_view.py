"""A fleet of workers over virtual time: their batches and K/V, the queue, every request's way."""

from collections.abc import Mapping
from typing import Any, Literal, Unpack

import traitlets
from msgspec import Struct

from widgets.picture import Face, Picture
from widgets.records import Natural, OneOrMore, Positive, Words, read


class _Request(Struct):
    id: Natural
    arrival_us: Natural
    deadline_us: Natural
    priority: Natural
    prompt_tokens: Natural
    max_new_tokens: Natural
    first_token_us: Natural | None
    finished_us: Natural | None
    refused: bool


class _Visit(Struct):
    request_id: Natural
    worker: Natural
    dispatched_us: Natural
    start_us: Natural
    end_us: Natural
    hit_tokens: Natural
    computed_tokens: Natural
    generated_tokens: Natural
    ended: Literal["finished", "preempted", "sent", "running"]


class _Run(Struct):
    worker: Natural
    start_us: Natural
    end_us: Natural
    num_steps: Natural
    reserved_tokens: Natural
    cached_tokens: Natural
    kind: Literal["prefill", "decode"]
    request_ids: OneOrMore[Natural]


class _Decision(Struct):
    at_us: Natural
    request_id: Natural
    kind: Literal["dispatch", "preempt", "bump", "refuse"]
    worker: Natural | None


class _Cost(Struct):
    name: str
    modelled: bool


class _Trace(Struct):
    version: Literal[1]
    name: Words
    cost: _Cost
    num_workers: Positive
    batch_size: Positive
    kv_tokens: Positive
    end_us: Natural
    error: str | None
    requests: list[_Request]
    visits: list[_Visit]
    runs: list[_Run]
    decisions: list[_Decision]


class FleetView(Picture):
    """Workers as lanes over virtual time, the queue above them, one event of a request per step.

    `trace` is what `FleetRun.to_json()` returns. The picture shows a window of it, which
    zooms in and out and follows the event; a press goes to the nearest event. `zoom` is how many
    times the window is first halved.
    Raises: ValueError for something that is no such trace, or of another version.
    """

    trace = traitlets.Dict().tag(sync=True)
    zoom = traitlets.Int().tag(sync=True)

    def __init__(
        self, trace: Mapping[str, Any], title: str = "", *, zoom: int = 0, **face: Unpack[Face]
    ) -> None:
        found, halved = _checked_trace(trace), read(zoom, Natural, "zoom")
        super().__init__(trace=found, title=title, zoom=halved, **face)


def _checked_trace(value: object) -> dict[str, Any]:
    """The trace with its records as columns: a long one would send every name a thousand times."""
    trace = read(value, _Trace, "the trace")
    for run in trace["runs"]:
        run["num_requests"] = len(run.pop("request_ids"))
    fields = {
        "requests": _Request.__struct_fields__,
        "visits": _Visit.__struct_fields__,
        "runs": (*_Run.__struct_fields__[:-1], "num_requests"),
        "decisions": _Decision.__struct_fields__,
    }
    return trace | {
        name: {field: [each[field] for each in trace[name]] for field in names}
        for name, names in fields.items()
    }
