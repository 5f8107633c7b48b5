"""KV tokens growing over the steps of several runs of one workload: without a window, and with."""

from collections.abc import Mapping, Sequence
from typing import Any, Unpack

import traitlets
from msgspec import Struct

from widgets.kv_budget import checked_kv_trace
from widgets.picture import Face, Picture
from widgets.records import Natural, OneOrMore, Positive, Words, all_differ, read


class _Run(Struct):
    label: Words
    window: Positive | None
    trace: dict[str, Any]


class _Forward(Struct):
    useful_tokens: Natural
    computed_tokens: Natural

    def __post_init__(self) -> None:
        if self.computed_tokens < self.useful_tokens:
            raise ValueError(
                f"computed_tokens is {self.computed_tokens}, below {self.useful_tokens} useful ones"
            )


class _Held(Struct):
    request_id: int
    kv_tokens: Natural
    kv_tokens_charged: Natural | None = None
    live_bytes: Natural | None = None

    def __post_init__(self) -> None:
        if self.kv_tokens_charged is None:
            self.kv_tokens_charged = self.kv_tokens


class _Step(Struct):
    """A step with the padding, the peak within it, and what is charged beside what is held."""

    kv: list[_Held]
    forwards: list[_Forward]
    kv_peak: Natural | None = None


class KVGrowth(Picture, styles=("kv_budget",)):
    """Each request's KV tokens on top of the others' against the KV budget, run above run.

    Each run is {"label": str, "window": int or None, "trace": Trace.to_json()}. A run without a
    window stays in view; of the others a slider shows one at a time below it, on the same axes.
    Marked are preemptions, the peak within a step (`kv_peak`), what is counted where it differs
    from what is held (`kv_tokens_charged`), and padding (computed minus useful tokens). With
    `bytes_per_token` a button turns tokens into bytes, held as `live_bytes` says. `shown` is the
    index, among the runs with a window, of the one to begin with.
    Raises: ValueError for no run, two runs without a window, two of one label, or a dict that is
    no trace.
    """

    runs = traitlets.List(traitlets.Dict()).tag(sync=True)
    bytes_per_token = traitlets.Int(default_value=None, allow_none=True).tag(sync=True)
    shown = traitlets.Int().tag(sync=True)

    def __init__(
        self,
        runs: Sequence[Mapping[str, Any]],
        title: str = "",
        *,
        bytes_per_token: int | None = None,
        shown: int = 0,
        **face: Unpack[Face],
    ) -> None:
        found = [_checked_run(run) for run in read(runs, OneOrMore[_Run], "the runs")]
        windowed = [run["window"] is not None for run in found]
        if windowed.count(False) > 1:
            raise ValueError(f"{windowed.count(False)} runs have no window; at most one may")
        all_differ([run["label"] for run in found], "labels of runs")
        if read(shown, Natural, "shown") >= max(1, sum(windowed)):
            raise ValueError(f"shown is {shown}, but {sum(windowed)} runs have a window")
        super().__init__(
            runs=found,
            title=title,
            bytes_per_token=read(bytes_per_token, Positive | None, "bytes_per_token"),
            shown=shown,
            **face,
        )


def _checked_run(run: dict[str, Any]) -> dict[str, Any]:
    """A run whose trace has every field that is drawn; what it lacks is filled in."""
    label, window, what = run["label"], run["window"], f"the trace of {run['label']!r}"
    trace = checked_kv_trace(run["trace"], what)
    if trace.get("sliding_window", window) != window:
        raise ValueError(
            f"the window of {label!r} is {window}, and its trace's is {trace['sliding_window']}"
        )
    steps = read(trace["steps"], list[_Step], f"the steps of {what}")
    filled = [
        {
            **step,
            "kv_peak": found["kv_peak"],
            "kv": [held | own for held, own in zip(step["kv"], found["kv"], strict=True)],
        }
        for step, found in zip(trace["steps"], steps, strict=True)
    ]
    return {"label": label, "window": window, "trace": {**trace, "steps": filled}}
