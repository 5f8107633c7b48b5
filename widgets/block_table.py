"""Block tables: which physical block holds which part of a request, step by step."""

from collections.abc import Mapping, Sequence
from typing import Any, Unpack

import traitlets

from widgets import assets, checking
from widgets.picture import Face, Picture


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
    title = traitlets.Unicode().tag(sync=True)

    def __init__(
        self, steps: Sequence[Mapping[str, Any]], title: str = "", **face: Unpack[Face]
    ) -> None:
        given = checking.items(steps, "steps", at_least=1)
        found = [_checked_step(step, f"step {index}") for index, step in enumerate(given)]
        for name, sizes in (
            ("block sizes", {step["block_size"] for step in found}),
            ("numbers of blocks", {len(step["blocks"]) for step in found}),
        ):
            if len(sizes) > 1:
                raise ValueError(f"the steps have {name} {sorted(sizes)}; all must be equal")
        super().__init__(
            steps=found,
            title=checking.text(title, "the title"),
            **face,
        )


def _checked_step(value: object, what: str) -> dict[str, Any]:
    step = checking.record(value, what, ("words", "blocks", "tables", "block_size"))
    size = checking.whole(step["block_size"], f"block_size of {what}", least=1)
    blocks = [
        _checked_block(each, f"block {index} of {what}", size)
        for index, each in enumerate(checking.items(step["blocks"], f"the blocks of {what}", 1))
    ]
    tables: dict[str, list[int | None]] = {}
    for name, given in checking.record(step["tables"], f"the tables of {what}", ()).items():
        table = checking.items(given, f"the table of request {name} in {what}")
        for physical in table:
            _check_entry(physical, f"the table of request {name} in {what}", str(name), blocks)
        tables[str(name)] = table
    for index, block in enumerate(blocks):
        rows = [table for name, table in tables.items() if name == str(block["owner"])]
        if block["owner"] is not None and not any(index in row for row in rows):
            raise ValueError(
                f"block {index} of {what} belongs to request {block['owner']}, "
                "whose table does not name it"
            )
    words = checking.text(step["words"], f"the words of {what}", empty=False)
    return {"words": words, "blocks": blocks, "tables": tables, "block_size": size}


def _checked_block(value: object, what: str, size: int) -> dict[str, Any]:
    found = checking.record(value, what, ("owner", "filled"))
    if found["owner"] is not None:
        checking.whole(found["owner"], f"the owner of {what}")
    filled = checking.whole(found["filled"], f"filled of {what}")
    if filled > size:
        raise ValueError(f"{what} is filled with {filled} entries; a block holds {size}")
    outside = checking.items(found.get("outside", []), f"outside of {what}")
    for entry in outside:
        if checking.whole(entry, f"an entry outside of {what}") >= filled:
            raise ValueError(f"{what} has entry {entry} outside, but only {filled} in all")
    return {"owner": found["owner"], "filled": filled, "outside": outside}


def _check_entry(physical: object, what: str, name: str, blocks: list[dict[str, Any]]) -> None:
    if physical is None:
        return
    index = checking.whole(physical, f"an entry of {what}")
    if index >= len(blocks):
        raise ValueError(f"{what} names block {index}; the blocks end at {len(blocks) - 1}")
    owner = blocks[index]["owner"]
    if str(owner) != name:
        raise ValueError(
            f"{what} names block {index}, which belongs to "
            f"{'no request' if owner is None else f'request {owner}'}"
        )
