"""The blocks that can be found, as a tree: each behind the block that its hash names."""

from collections.abc import Mapping, Sequence
from typing import Any, Unpack

import traitlets

from widgets import checking
from widgets.block_pool import checked_blocks
from widgets.comparing import compared_names
from widgets.picture import Face, Picture
from widgets.timeline import SHAKESPEARE


class PrefixTree(Picture):
    """Published blocks with their text, step by step, and which requests' tables name them.

    `trace` is the `Trace.to_json()` dict of a run with a `block_size` and `share_prefixes`.
    `yours` says whether the learner's function is in it, and if not, so does the picture; None,
    that none could be. `alphabet` holds
    the character of each token id. It opens where a request first finds something. Widgets of one
    page with the same `group` (not "") share the step.
    Raises: ValueError for a dict that is no trace, without a step, or without blocks.
    """

    trace = traitlets.Dict().tag(sync=True)
    alphabet = traitlets.List(traitlets.Unicode()).tag(sync=True)
    names = traitlets.List(traitlets.Unicode()).tag(sync=True)
    group = traitlets.Unicode().tag(sync=True)

    def __init__(
        self,
        trace: Mapping[str, Any],
        alphabet: Sequence[str] = SHAKESPEARE,
        title: str = "",
        *,
        yours: bool | None = None,
        group: str = "",
        **face: Unpack[Face],
    ) -> None:
        super().__init__(
            trace=checked_blocks(trace, "the trace"),
            alphabet=[checking.text(mark, "a character of the alphabet") for mark in alphabet],
            title=title,
            names=[] if yours is None else compared_names(None, yours),
            group=checking.text(group, "the group"),
            **face,
        )
