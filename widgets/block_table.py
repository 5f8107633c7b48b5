"""Block tables: which physical block holds which part of a request, step by step."""

from collections.abc import Mapping, Sequence
from typing import Any, Unpack

import traitlets

from widgets import assets, checking
from widgets.picture import Face, Picture

_BLOCK = checking.shape(
    owner=checking.maybe(checking.whole),
    filled=checking.whole,
    outside=checking.Optional(checking.list_of(checking.whole), ()),
)


class BlockTable(Picture):
    """A pool of physical blocks, and per request the table from logical to physical blocks.

    `steps` is `BlockPool.record`: each step {"words", "blocks": [{"owner": int or None, "filled":
    int, "outside": [int]}], "tables": {"<id>": [physical ids, None where a block was given back]},
    "block_size"}. "filled" counts a block's entries, "outside" (may be left out) lists those that
    no query will see again.
    Raises: ValueError for no step, or a table and a block that disagree about who owns what.
    """

    _esm = assets.esm("block_table")
    _css = assets.css("block_table")
    steps = traitlets.List(traitlets.Dict()).tag(sync=True)

    def __init__(
        self, steps: Sequence[Mapping[str, Any]], title: str = "", **face: Unpack[Face]
    ) -> None:
        found = checking.list_of(_checked_step, at_least=1)(steps, "steps")
        for name, sizes in (
            ("block sizes", {step["block_size"] for step in found}),
            ("numbers of blocks", {len(step["blocks"]) for step in found}),
        ):
            if len(sizes) > 1:
                raise ValueError(f"the steps have {name} {sorted(sizes)}; all must be equal")
        super().__init__(steps=found, title=title, **face)


def _checked_step(value: object, what: str) -> dict[str, Any]:
    step = checking.record(value, what, ("words", "blocks", "tables", "block_size"))
    size = checking.positive(step["block_size"], f"block_size of {what}")
    blocks = checking.list_of(_BLOCK, at_least=1)(step["blocks"], f"blocks of {what}")
    for index, block in enumerate(blocks):
        _check_filled(block, f"blocks[{index}] of {what}", size)
    tables: dict[str, list[int | None]] = {}
    for name, given in checking.record(step["tables"], f"the tables of {what}").items():
        where = f"the table of request {name} in {what}"
        tables[str(name)] = checking.list_of(checking.maybe(checking.whole))(given, where)
        for index in tables[str(name)]:
            if index is not None and index >= len(blocks):
                raise ValueError(
                    f"{where} names block {index}; the blocks end at {len(blocks) - 1}"
                )
            if index is not None and str(owner := blocks[index]["owner"]) != str(name):
                whose = "no request" if owner is None else f"request {owner}"
                raise ValueError(f"{where} names block {index}, which belongs to {whose}")
    for index, block in enumerate(blocks):
        if block["owner"] is not None and index not in tables.get(str(block["owner"]), []):
            raise ValueError(
                f"blocks[{index}] of {what} belongs to request {block['owner']}, "
                "whose table does not name it"
            )
    said = checking.words(step["words"], f"words of {what}")
    return {"words": said, "blocks": blocks, "tables": tables, "block_size": size}


def _check_filled(found: dict[str, Any], what: str, size: int) -> None:
    filled = found["filled"]
    if filled > size:
        raise ValueError(f"{what} is filled with {filled} entries; a block holds {size}")
    for entry in found["outside"]:
        if entry >= filled:
            raise ValueError(f"{what} has entry {entry} outside, but only {filled} in all")
