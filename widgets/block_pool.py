"""A run's pool of blocks: tables, shared blocks, cached blocks, and a host tier behind it."""

from collections.abc import Mapping
from typing import Any, Unpack

import traitlets
from msgspec import Struct

from widgets.comparing import compared_names
from widgets.picture import Face, Picture
from widgets.records import Natural, OneOrMore, Positive, read
from widgets.timeline import SHAKESPEARE, checked_trace


class _Blocks(Struct):
    block_size: Positive
    num_blocks: Positive
    tables: list[tuple[int, list[Natural]]]
    idle: list[Any]
    allocated: Any
    freed: Any
    evicted: Any
    published: Any

    def __post_init__(self) -> None:
        for request_id, table in self.tables:
            for block in table:
                if block >= self.num_blocks:
                    raise ValueError(
                        f"the table of request {request_id} names block {block}; the blocks end at "
                        f"{self.num_blocks - 1}"
                    )


class _Host(Struct):
    hashes: list[str]
    loaded: list[tuple[Natural, Natural, str]]
    stored: list[str]


class _Step(Struct):
    blocks: _Blocks
    kv: list[Any]
    admitted: list[Any]
    host: _Host | None = None


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


def checked_blocks(value: Mapping[str, Any], what: str) -> dict[str, Any]:
    """`value` as the trace of a run with blocks. Raises: ValueError saying what it lacks."""
    trace = checked_trace(value, what)
    read(trace["steps"], OneOrMore[_Step], f"the steps of {what}")
    return trace
