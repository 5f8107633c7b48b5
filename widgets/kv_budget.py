"""KV tokens of a run against their budget: who holds them, loses them, computes them twice."""

from collections.abc import Mapping
from typing import Any, Unpack

import traitlets
from msgspec import Struct

from widgets.comparing import compared_names
from widgets.picture import Face, Picture
from widgets.records import Natural, Positive, read
from widgets.timeline import checked_trace


class _Held(Struct):
    request_id: int
    kv_tokens: Natural


class _Step(Struct):
    admitted: list[Any]
    kv: list[_Held]
    kv_after: Any


class _Trace(Struct):
    steps: list[_Step]
    max_kv_tokens: Positive | None = None


class KVBudget(Picture):
    """Every request's lifecycle, its KV tokens on top of the others', and the waiting queue.

    `trace` and `other` are `Trace.to_json()` dicts, drawn one below the other on the same axes.
    `yours` and `names` are the timeline's: until the learner's function is in `trace`, it is drawn
    alone. Preempted requests' released tokens are marked, recomputed tokens hatched. It opens at
    the first preemption. Widgets of one page with the same `group` (not "") share the step.
    Raises: ValueError for a dict that is no trace, or of another version; for `names` and `yours`.
    """

    trace = traitlets.Dict().tag(sync=True)
    other = traitlets.Dict(default_value=None, allow_none=True).tag(sync=True)
    names = traitlets.List(traitlets.Unicode()).tag(sync=True)
    group = traitlets.Unicode().tag(sync=True)

    def __init__(
        self,
        trace: Mapping[str, Any],
        title: str = "",
        *,
        yours: bool = False,
        names: tuple[str, str] | None = None,
        other: Mapping[str, Any] | None = None,
        group: str = "",
        **face: Unpack[Face],
    ) -> None:
        second = None if other is None else checked_kv_trace(other, "the other trace")
        found = [] if second is None else compared_names(names, yours)
        super().__init__(
            trace=checked_kv_trace(trace, "the trace"),
            other=second if len(found) == 2 else None,
            title=title,
            names=found,
            group=read(group, str, "the group"),
            **face,
        )


def checked_kv_trace(value: Mapping[str, Any], what: str) -> dict[str, Any]:
    """`value` as a trace whose steps say who holds how many KV tokens.

    Raises: ValueError saying why it cannot be drawn.
    """
    trace: dict[str, Any] = {"max_kv_tokens": None, **checked_trace(value, what)}
    found = read(trace, _Trace, what)
    known = {request["id"] for request in trace["requests"]}
    for index, step in enumerate(found["steps"]):
        for held in step["kv"]:
            if held["request_id"] not in known:
                raise ValueError(
                    f"the kv of step {index} of {what} names request {held['request_id']}, "
                    "which never arrived"
                )
    return trace
