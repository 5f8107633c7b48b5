"""A run's pool of blocks: tables, shared blocks, cached blocks."""

from collections.abc import Mapping
from typing import Any, Unpack

import traitlets

from widgets import checking
from widgets.comparing import compared_names
from widgets.picture import Face, Picture
from widgets.timeline import SHAKESPEARE, checked_trace

_FIELDS = (
    "block_size", "num_blocks", "tables", "idle", "allocated", "freed", "evicted", "published",
)  # fmt: skip


class BlockPool(Picture):
    """The pool of a run with blocks, step by step, and another run's to draw in its place.

    `trace` and `other` are `Trace.to_json()` dicts of runs with a `block_size`. `yours` says that
    the learner's function is in `trace`; until it is, `trace` is drawn alone, as the reference that
    it is. It opens at the first step in which the pools differ, else where a block is first shared.
    Raises: ValueError for a dict that is no trace, without a step, or without blocks.
    """

    trace = traitlets.Dict().tag(sync=True)
    other = traitlets.Dict(default_value=None, allow_none=True).tag(sync=True)
    alphabet = traitlets.List(traitlets.Unicode(), [*SHAKESPEARE]).tag(sync=True)
    names = traitlets.List(traitlets.Unicode()).tag(sync=True)

    def __init__(
        self,
        trace: Mapping[str, Any],
        other: Mapping[str, Any] | None = None,
        title: str = "",
        *,
        yours: bool = False,
        **face: Unpack[Face],
    ) -> None:
        found = [] if other is None else compared_names(None, yours)
        beside = None if other is None else checked_blocks(other, "the other trace")
        super().__init__(
            trace=checked_blocks(trace, "the trace"),
            other=beside if len(found) == 2 else None,
            title=title,
            names=found,
            **face,
        )


def checked_blocks(value: object, what: str) -> dict[str, Any]:
    """`value` as the trace of a run with blocks. Raises: ValueError saying what it lacks."""
    trace = checked_trace(value, what)
    steps = checking.items(trace["steps"], f"the steps of {what}", at_least=1)
    for index, step in enumerate(steps):
        checking.record(step, f"step {index} of {what}", ("blocks", "kv", "admitted"))
        blocks = checking.record(step["blocks"], f"the blocks of step {index} of {what}", _FIELDS)
        end = checking.whole(blocks["num_blocks"], f"num_blocks of step {index}", least=1)
        checking.whole(blocks["block_size"], f"block_size of step {index}", least=1)
        for request_id, table in blocks["tables"]:
            for block in table:
                if checking.whole(block, f"a block of request {request_id}") >= end:
                    raise ValueError(
                        f"the table of request {request_id} in step {index} of {what} names block "
                        f"{block}; the blocks end at {end - 1}"
                    )
    return trace
