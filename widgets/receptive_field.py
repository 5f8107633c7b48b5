"""The cone of positions that can act on one token's logits, layer by layer, under a window."""

from typing import Unpack

import traitlets

from widgets.picture import Face, Picture
from widgets.records import Natural, Positive, read


class ReceptiveField(Picture):
    """Positions by layers: what `query` sees, what those saw, down to the tokens.

    With a window W, each layer sees the last W + 1 positions, so that after L layers the logits of
    `query` (by default the last position) can depend on tokens as far back as L x W. `probe` is the
    token that is chosen at first, by default the oldest that the query itself sees; a slider moves
    it, and its way up is drawn when asked for.
    Raises: ValueError for a query or a probe outside the positions.
    """

    window = traitlets.Int().tag(sync=True)
    num_layers = traitlets.Int().tag(sync=True)
    num_positions = traitlets.Int().tag(sync=True)
    query = traitlets.Int().tag(sync=True)
    probe = traitlets.Int().tag(sync=True)

    def __init__(
        self,
        window: int,
        num_layers: int,
        num_positions: int,
        title: str = "",
        *,
        query: int | None = None,
        probe: int | None = None,
        **face: Unpack[Face],
    ) -> None:
        read([window, num_layers, num_positions], list[Positive], "window, layers and positions")
        read([query, probe], list[Natural | None], "query and probe")
        last = num_positions - 1 if query is None else query
        if last >= num_positions:
            raise ValueError(f"the query is {last}; positions end at {num_positions - 1}")
        first = max(0, last - window) if probe is None else probe
        if first > last:
            raise ValueError(f"the probe is {first}, behind the query at {last}")
        super().__init__(
            window=window,
            num_layers=num_layers,
            num_positions=num_positions,
            query=last,
            probe=first,
            title=title,
            **face,
        )
