"""KV tokens growing over the steps of several runs of one workload: without a window, and with."""

from collections.abc import Mapping, Sequence
from typing import Any, Unpack

import traitlets

from widgets import checking
from widgets.kv_budget import checked_kv_trace
from widgets.picture import Face, Picture

_FORWARD = checking.shape(**dict.fromkeys(("useful_tokens", "computed_tokens"), checking.whole))


class KVGrowth(Picture):
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
        found = checking.list_of(_checked_run, at_least=1)(runs, "runs")
        windowed = [run["window"] is not None for run in found]
        if windowed.count(False) > 1:
            raise ValueError(f"{windowed.count(False)} runs have no window; at most one may")
        checking.differ([run["label"] for run in found], "runs are called")
        if checking.whole(shown, "shown") >= max(1, sum(windowed)):
            raise ValueError(f"shown is {shown}, but {sum(windowed)} runs have a window")
        super().__init__(
            runs=found,
            title=title,
            bytes_per_token=checking.maybe(checking.positive)(bytes_per_token, "bytes_per_token"),
            shown=shown,
            **face,
        )


def _checked_run(value: object, where: str) -> dict[str, Any]:
    """A run whose trace has every field that is drawn; what it lacks is filled in."""
    found = checking.record(value, where, ("label", "window", "trace"))
    label = checking.words(found["label"], f"label of {where}")
    what = f"the trace of {label!r}"
    window = checking.maybe(checking.positive)(found["window"], f"the window of {label!r}")
    trace = checked_kv_trace(found["trace"], what)
    if trace.get("sliding_window", window) != window:
        raise ValueError(
            f"the window of {label!r} is {window}, and its trace's is {trace['sliding_window']}"
        )
    steps = checking.list_of(_checked_step)(trace["steps"], f"steps of {what}")
    return {"label": label, "window": window, "trace": {**trace, "steps": steps}}


def _checked_step(value: object, what: str) -> dict[str, Any]:
    """A step with the padding, the height within it, and what is charged beside what is held."""
    step = checking.record(value, what, ("kv", "forwards"))
    for forward in checking.items(step["forwards"], f"the forwards of {what}"):
        found = _FORWARD(forward, what)
        checking.whole(
            found["computed_tokens"], f"computed_tokens of {what}", found["useful_tokens"]
        )
    peak = checking.maybe(checking.whole)(step.get("kv_peak"), f"kv_peak of {what}")
    return {**step, "kv": [_charged(held, what) for held in step["kv"]], "kv_peak": peak}


def _charged(held: dict[str, Any], what: str) -> dict[str, Any]:
    """A request's KV tokens with those charged against the budget, and its live bytes if known."""
    charged = held.get("kv_tokens_charged", held["kv_tokens"])
    return {
        **held,
        "kv_tokens_charged": checking.whole(charged, f"kv_tokens_charged of {what}"),
        "live_bytes": checking.maybe(checking.whole)(
            held.get("live_bytes"), f"live_bytes of {what}"
        ),
    }
