"""Samples of every widget, in pages of what belongs together; made when they are asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import samples

if TYPE_CHECKING:
    from widgets.picture import Widget

# The widgets of each page, and changes to their sample's arguments.
_PAGES: dict[str, list[tuple[str, Any]]] = {
    "basics": [
        ("Timeline", lambda: {"trace": samples.chunked_run(24, "your plan_step raised KeyError")}),
        ("MaskStepper", dict),
        ("Batching", dict),
        ("Prediction", dict),
        ("Prediction", lambda: {"key": "q", "options": (), "answer": 69, "reveal": "50 + 19."}),
        ("Prediction", lambda: {"key": "r", "choice": 1, "committed": True}),
        ("Hints", dict),
    ],
    "blocks": [
        ("BlockPool", dict),
        ("BlockPool", lambda: compared_pools(evict_order=samples.beginnings_first)),
        ("BlockPool", lambda: compared_pools(free_table=lambda counts, table: table)),
        ("PrefixTree", dict),
    ],
    "drafts": [
        ("AcceptBars", dict),
        ("AcceptBars", lambda: {**samples.accept_bars(from_p=True), "name": "drawing from p"}),
    ],
    "fleet": [
        ("FleetView", lambda: {"trace": samples.simulated_fleet()}),
        ("FleetView", lambda: {"trace": samples.simulated_fleet(fifo=True), "zoom": 3}),
        ("FleetView", dict),
        ("LazyHeap", dict),
        ("LazyHeap", lambda: {"story": {"version": 1, "steps": [], "error": "it raised."}}),
        ("SpeculationStrip", dict),
    ],
    "fusing": [
        ("BatchView", dict),
        ("BatchView", samples.wrong_batch),
        ("BatchView", lambda: {"packed": None}),
        ("MaskBuild", dict),
        ("MaskBuild", samples.compared_mask),
    ],
    "preemption": [
        ("VoteBoard", dict),
        ("VoteBoard", lambda: {"boards": [many_layers()]}),
        ("SloCycle", dict),
        ("SloCycle", lambda: samples.slo_cycle(resumed_ns=samples.BEGUN_NS + 270 * samples.MS)),
    ],
    "scheduling": [
        ("HeapStepper", dict),
        ("KVBudget", dict),
        ("KVBudget", lambda: stopped_beside_whole()),
        ("KVBudget", lambda: {"trace": samples.preempting_run(max_kv_tokens=None)}),
        ("KVBudget", lambda: {"trace": samples.preempting_run(0)}),
    ],
    "slo": [
        ("SlackTimeline", dict),
        ("SlackTimeline", samples.running_slack),
        ("GatePicture", dict),
    ],
    "window": [
        ("KVGrowth", dict),
        ("KVGrowth", lambda: {"runs": [miscounted_run()]}),
        ("StorageStrip", dict),
        ("StorageStrip", samples.ring),
        ("AttentionByDistance", lambda: {"sink_weights": [[[0.2, 0.1]] * 3] * 2}),
        ("ReceptiveField", dict),
        ("ReceptiveField", lambda: {"window": 4, "num_layers": 3, "probe": 5}),
    ],
}
GALLERIES = list(_PAGES)
NUM_KINDS = len({kind for page in _PAGES.values() for kind, _ in page})


def gallery(name: str) -> list[Widget]:
    """The widgets of a page, each with a title."""
    return [
        make(kind, **{"title": f"{kind} {at}", **changes()})
        for at, (kind, changes) in enumerate(_PAGES[name])
    ]


def make(kind: str, title: str = "", **changes: Any) -> Widget:
    """A widget of this kind from its sample, with these arguments in the place of its own."""
    import widgets

    named = {"title": title} if title and kind not in ("Prediction", "Hints") else {}
    return getattr(widgets, kind)(**{**samples.of(kind), **named, **changes})


def compared_pools(**parts: Any) -> samples.Record:
    """A pool's run with these parts beside the reference's."""
    return {"trace": samples.pool_run(**parts), "other": samples.pool_run(), "yours": True}


def stopped_beside_whole() -> samples.Record:
    stopped = samples.preempting_run(4, error="your choose_victim raised KeyError")
    return {"trace": stopped, "other": samples.preempting_run(), "yours": True}


def miscounted_run() -> samples.Record:
    run = samples.windowed_run(6, counted=3, error="your evict raised KeyError")
    return {**run, "label": "miscounted"}


def many_layers() -> samples.Record:
    return {"label": "many", "words": "", "record": samples.preemption(24, 700, 32)}
