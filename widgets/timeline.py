"""The timeline of a run: rows of requests, columns of steps, drawn from a trace's JSON."""

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Unpack

import traitlets
from msgspec import Struct

from widgets.comparing import compared_names
from widgets.picture import Face, Picture
from widgets.records import Number, Positive, read

SHAKESPEARE = "\n !$&',-.3:;?ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
"""The character of each token id of the course's tokenizer."""

_Record = dict[str, Any]


class _Clock(Struct):
    name: str
    modelled: bool


class _Request(Struct):
    id: int
    prompt_tokens: Any
    arrival_step: int
    arrival_us: Number


class _Share(Struct):
    request_id: int


class _Step(Struct):
    step: int
    start_us: Number
    end_us: Number
    token_budget: Any
    work: list[_Share]
    waits: list[_Share]
    preempted: list[Any]
    finished: list[Any]

    def __post_init__(self) -> None:
        if self.end_us < self.start_us:
            raise ValueError(
                f"step {self.step} ends at {self.end_us:g} us, before {self.start_us:g} us"
            )


class _Trace(Struct):
    version: Literal[2]
    clock: _Clock
    token_budget: Positive
    requests: list[_Request]
    steps: list[_Step]

    def __post_init__(self) -> None:
        known = {request.id for request in self.requests}
        for step in self.steps:
            for share in (*step.work, *step.waits):
                if share.request_id not in known:
                    raise ValueError(
                        f"step {step.step} names request {share.request_id}, which never arrived"
                    )


class Timeline(Picture):
    """A run step by step, and optionally a reference run under it with the same cursor.

    `trace` and `reference` are `Trace.to_json()` dicts. `yours` says that the learner's function is
    in `trace`; until it is, `trace` is drawn alone, as the reference that it is. Two runs of which
    none is the learner's have `names` instead. `axis` is what width shows at first, "steps" or
    "time". It opens at the first step that differs, else at the first preemption, else where a
    request first finds K/V that is there already. Steps and play live in the browser: nothing is
    synced back.
    Widgets of one page with the same `group` (not "") share the step.
    Raises: ValueError for a dict that is no trace, or of another version; for `names` and `yours`.
    """

    trace = traitlets.Dict().tag(sync=True)
    reference = traitlets.Dict(default_value=None, allow_none=True).tag(sync=True)
    alphabet = traitlets.List(traitlets.Unicode(), [*SHAKESPEARE]).tag(sync=True)
    axis = traitlets.Unicode("steps").tag(sync=True)
    names = traitlets.List(traitlets.Unicode()).tag(sync=True)
    group = traitlets.Unicode().tag(sync=True)

    def __init__(
        self,
        trace: Mapping[str, Any],
        reference: Mapping[str, Any] | None = None,
        title: str = "",
        *,
        axis: str = "steps",
        yours: bool = False,
        names: tuple[str, str] | None = None,
        group: str = "",
        **face: Unpack[Face],
    ) -> None:
        if axis not in ("steps", "time"):
            raise ValueError(f"the axis is {axis!r}; it must be 'steps' or 'time'")
        other = None if reference is None else checked_trace(reference, "the reference")
        found = [] if other is None else compared_names(names, yours)
        super().__init__(
            trace=checked_trace(trace, "the trace"),
            reference=other if len(found) == 2 else None,
            title=title,
            axis=axis,
            names=found,
            group=read(group, str, "the group"),
            **face,
        )


def checked_trace(value: Mapping[str, Any], what: str) -> dict[str, Any]:
    """`value` as a `Trace.to_json()` dict that can be drawn, with all that waits in its steps.

    Raises: ValueError saying why it cannot be drawn.
    """
    read(value, _Trace, what)
    steps = _with_all_waits(value["requests"], value["steps"])
    return {"executor": "", "error": None, **value, "steps": steps}


def _with_all_waits(requests: Sequence[_Record], steps: Sequence[_Record]) -> list[_Record]:
    """A trace's steps, each with all requests that waited in it, in the order of arrival.

    A step of a trace names those with a reason of their own only. All others in the queue wait
    because of its `blocked`.
    """
    to_come, unfinished = deque(requests), dict[int, None]()
    found: list[_Record] = []
    now = 0
    for step in steps:
        # A step that slept stands behind those that ran meanwhile, which have later numbers.
        now = max(now, step["step"])
        while to_come and to_come[0]["arrival_step"] <= now:
            unfinished[to_come.popleft()["id"]] = None
        for request_id in step.get("aborted", ()):
            unfinished.pop(request_id, None)
        own: dict[int, _Record] = {wait["request_id"]: wait for wait in step["waits"]}
        reason = step.get("blocked")
        if reason is not None:
            others = unfinished.keys() - own - {work["request_id"] for work in step["work"]}
            own |= {i: {"request_id": i, "status": "waiting", "reason": reason} for i in others}
        found.append({**step, "waits": [own[i] for i in unfinished if i in own]})
        for request_id in step["finished"]:
            unfinished.pop(request_id, None)
    return found
