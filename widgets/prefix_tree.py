"""The blocks that can be found, as a tree: each behind the block that its hash names."""

from collections.abc import Mapping
from typing import Any, Unpack

import traitlets

from widgets.block_pool import checked_blocks
from widgets.picture import Face, Picture
from widgets.timeline import SHAKESPEARE


class PrefixTree(Picture):
    """Published blocks with their text, step by step, and which requests' tables name them.

    `trace` is the `Trace.to_json()` dict of a run with a `block_size` and `share_prefixes`.
    It opens where a request first finds something.
    Raises: ValueError for a dict that is no trace, without a step, or without blocks.
    """

    trace = traitlets.Dict().tag(sync=True)
    alphabet = traitlets.List(traitlets.Unicode(), [*SHAKESPEARE]).tag(sync=True)

    def __init__(self, trace: Mapping[str, Any], title: str = "", **face: Unpack[Face]) -> None:
        super().__init__(trace=checked_blocks(trace, "the trace"), title=title, **face)
