"""KV tokens growing over the steps of several runs of one workload: without a window, and with."""

from collections.abc import Mapping, Sequence
from typing import Any, Unpack

import traitlets

from widgets import assets, checking
from widgets.kv_budget import checked_kv_trace
from widgets.picture import Face, Picture


class KVGrowth(Picture):
    """Each request's KV tokens on top of the others' against the KV budget, run above run.

    Each run is {"label": str, "window": int or None, "trace": Trace.to_json()}. A run without a
    window stays in view; of the others a slider shows one at a time below it, on the same axes.
    Marked are preemptions, the height within a step (`kv_peak`), what is counted where it differs
    from what is held (`counted_tokens`), and padding (computed minus useful tokens). With
    `bytes_per_token` a button turns tokens into bytes, held as `live_bytes` says. `shown` is the
    index, among the runs with a window, of the one to begin with. Widgets of one page with the same
    `group` (not "") share the step.
    Raises: ValueError for no run, two runs without a window, two of one label, or a dict that is
    no trace.
    """

    _esm = assets.esm("kv_growth")
    _css = assets.css("kv_growth")
    runs = traitlets.List(traitlets.Dict()).tag(sync=True)
    title = traitlets.Unicode().tag(sync=True)
    bytes_per_token = traitlets.Int(default_value=None, allow_none=True).tag(sync=True)
    shown = traitlets.Int().tag(sync=True)
    group = traitlets.Unicode().tag(sync=True)

    def __init__(
        self,
        runs: Sequence[Mapping[str, Any]],
        title: str = "",
        *,
        bytes_per_token: int | None = None,
        shown: int = 0,
        group: str = "",
        **face: Unpack[Face],
    ) -> None:
        found = [_checked_run(each) for each in checking.items(runs, "runs", at_least=1)]
        windowed = [run["window"] is not None for run in found]
        if windowed.count(False) > 1:
            raise ValueError(f"{windowed.count(False)} runs have no window; at most one may")
        labels = [run["label"] for run in found]
        for label in labels:
            if labels.count(label) > 1:
                raise ValueError(f"two runs are called {label!r}; labels must differ")
        checking.whole(shown, "shown")
        if shown >= max(1, sum(windowed)):
            raise ValueError(f"shown is {shown}, but {sum(windowed)} runs have a window")
        if bytes_per_token is not None:
            checking.whole(bytes_per_token, "bytes_per_token", least=1)
        super().__init__(
            runs=found,
            title=checking.text(title, "the title"),
            bytes_per_token=bytes_per_token,
            shown=shown,
            group=checking.text(group, "the group"),
            **face,
        )


def _checked_run(value: object) -> dict[str, Any]:
    """A run whose trace has every field that is drawn; what older traces lack is filled in."""
    found = checking.record(value, "a run", ("label", "window", "trace"))
    label = checking.text(found["label"], "the label of a run", empty=False)
    what = f"the trace of {label!r}"
    window = found["window"]
    if window is not None:
        checking.whole(window, f"the window of {label!r}", least=1)
    trace = checked_kv_trace(found["trace"], what)
    if trace.get("sliding_window", window) != window:
        raise ValueError(
            f"the window of {label!r} is {window}, and its trace's is {trace['sliding_window']}"
        )
    trace["steps"] = [
        _checked_step(step, f"step {index} of {what}") for index, step in enumerate(trace["steps"])
    ]
    return {"label": label, "window": window, "trace": trace}


def _checked_step(value: object, what: str) -> dict[str, Any]:
    """A step with the padding, the height within it, and what is counted beside what is held."""
    step = checking.record(value, what, ("kv", "forwards"))
    for each in checking.items(step["forwards"], f"the forwards of {what}"):
        forward = checking.record(
            each, f"a forward of {what}", ("useful_tokens", "computed_tokens")
        )
        useful = checking.whole(forward["useful_tokens"], f"useful_tokens of {what}")
        checking.whole(forward["computed_tokens"], f"computed_tokens of {what}", least=useful)
    peak = step.get("kv_peak")
    if peak is not None:
        checking.whole(peak, f"kv_peak of {what}")
    return {**step, "kv": [_counted(held, what) for held in step["kv"]], "kv_peak": peak}


def _counted(held: dict[str, Any], what: str) -> dict[str, Any]:
    """A request's KV tokens with what counts against the budget, and its live bytes if known."""
    counted = held.get("counted_tokens", held["kv_tokens"])
    checking.whole(counted, f"counted_tokens of {what}")
    live = held.get("live_bytes")
    if live is not None:
        checking.whole(live, f"live_bytes of {what}")
    return {**held, "counted_tokens": counted, "live_bytes": live}
