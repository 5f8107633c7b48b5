"""How far back a trained model's heads really look, and what a window would cut off."""

from collections.abc import Sequence
from typing import Unpack

import traitlets

from widgets.picture import Face, Picture
from widgets.records import Amount, OneOrMore, Positive, read


class AttentionByDistance(Picture):
    """Mean attention weight by distance for one head at a time, a window's cut, a map of all heads.

    `weights[layer][head][d]` is the mean attention weight on the key d positions back, d = 0 being
    the query itself. `sink_weights[layer][head][s]` is the mean weight on position s, which
    `weights` then leaves out; the queries averaged over lie beyond every window, so sinks that are
    not kept count as cut. `window` is where the cut stands at first: distances above it are cut.
    Raises: ValueError for no layer, unequal layers or heads, a weight below 0, or no weight.
    """

    weights = traitlets.List().tag(sync=True)
    sink_weights = traitlets.List(default_value=None, allow_none=True).tag(sync=True)
    window = traitlets.Int().tag(sync=True)

    def __init__(
        self,
        weights: Sequence[Sequence[Sequence[float]]],
        window: int,
        title: str = "",
        *,
        sink_weights: Sequence[Sequence[Sequence[float]]] | None = None,
        **face: Unpack[Face],
    ) -> None:
        found = _checked_weights(weights, "weights")
        sinks = None if sink_weights is None else _checked_weights(sink_weights, "sink_weights")
        if sinks is not None and (len(sinks), len(sinks[0])) != (len(found), len(found[0])):
            raise ValueError(
                f"sink_weights has {len(sinks)} layers of {len(sinks[0])} heads; "
                f"weights has {len(found)} of {len(found[0])}"
            )
        for layer, heads in enumerate(found):
            for head, row in enumerate(heads):
                if not sum(row) + (sum(sinks[layer][head]) if sinks else 0) > 0:
                    raise ValueError(f"layer {layer}, head {head} has no weight at any distance")
        farthest = len(found[0][0]) - 1
        if read(window, Positive, "the window") > max(1, farthest):
            raise ValueError(f"the window is {window}, but the weights end {farthest} back")
        super().__init__(weights=found, sink_weights=sinks, window=window, title=title, **face)


def _checked_weights(value: object, what: str) -> list[list[list[float]]]:
    """Layers of heads of numbers, all layers and all heads equally long."""
    layers: list[list[list[float]]] = read(value, OneOrMore[OneOrMore[OneOrMore[Amount]]], what)
    for name, sizes in (
        ("layers", {len(heads) for heads in layers}),
        ("heads", {len(row) for heads in layers for row in heads}),
    ):
        if len(sizes) > 1:
            raise ValueError(f"{what} has {name} of {sorted(sizes)} entries; all must be equal")
    return layers
