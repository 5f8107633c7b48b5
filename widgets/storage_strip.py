"""Real storage as a strip of cells, and who holds on to which part of it, step by step."""

from collections.abc import Mapping, Sequence
from typing import Any, Unpack

import traitlets

from widgets import assets, checking
from widgets.picture import Face, Picture

_BYTE_FIELDS = ("words", "storages", "views", "live_bytes", "counted_bytes")


class StorageStrip(Picture):
    """Bytes of buffers with a bracket for every tensor into them, or the slots of ring storage.

    A step of bytes is {"words", "storages": [{"label", "nbytes"}], "views": [{"label", "storage":
    index into storages, "offset_bytes", "nbytes"}], "live_bytes", "counted_bytes"}; what is held
    stands beside what is counted. A storage that a later step leaves out is drawn as freed.
    A step of slots is {"words", "slots": [{"position": int or None, "new": bool}], "sinks": int,
    "window": int}: the positions whose K/V lies in each slot. All steps are of one kind.
    `cell_bytes` is what one cell stands for; by default a round number that fits the widest buffer.
    Raises: ValueError for no step, a view outside its storage, or other than window + sinks slots.
    """

    _esm = assets.esm("storage_strip")
    _css = assets.css("storage_strip")
    steps = traitlets.List(traitlets.Dict()).tag(sync=True)
    title = traitlets.Unicode().tag(sync=True)
    cell_bytes = traitlets.Int(default_value=None, allow_none=True).tag(sync=True)

    def __init__(
        self,
        steps: Sequence[Mapping[str, Any]],
        title: str = "",
        *,
        cell_bytes: int | None = None,
        **face: Unpack[Face],
    ) -> None:
        given = checking.items(steps, "steps", at_least=1)
        is_ring = isinstance(given[0], Mapping) and "slots" in given[0]
        checked = _checked_slots if is_ring else _checked_bytes
        if cell_bytes is not None:
            checking.whole(cell_bytes, "cell_bytes", least=1)
        super().__init__(
            steps=[checked(step, f"step {index}") for index, step in enumerate(given)],
            title=checking.text(title, "the title"),
            cell_bytes=cell_bytes,
            **face,
        )


def _checked_bytes(value: object, what: str) -> dict[str, Any]:
    found = checking.record(value, what, _BYTE_FIELDS)
    storages: list[dict[str, Any]] = []
    for each in checking.items(found["storages"], f"the storages of {what}"):
        storage = checking.record(each, f"a storage of {what}", ("label", "nbytes"))
        label = checking.text(storage["label"], f"the label of a storage of {what}", empty=False)
        if any(other["label"] == label for other in storages):
            raise ValueError(f"two storages of {what} are called {label!r}; labels must differ")
        size = checking.whole(storage["nbytes"], f"nbytes of storage {label!r} of {what}", least=1)
        storages.append({"label": label, "nbytes": size})
    views = checking.items(found["views"], f"the views of {what}")
    return {
        "words": checking.text(found["words"], f"the words of {what}", empty=False),
        "storages": storages,
        "views": [_checked_view(view, what, storages) for view in views],
        "live_bytes": checking.whole(found["live_bytes"], f"live_bytes of {what}"),
        "counted_bytes": checking.whole(found["counted_bytes"], f"counted_bytes of {what}"),
    }


def _checked_view(value: object, what: str, storages: list[dict[str, Any]]) -> dict[str, Any]:
    view = checking.record(
        value, f"a view of {what}", ("label", "storage", "offset_bytes", "nbytes")
    )
    label = checking.text(view["label"], f"the label of a view of {what}", empty=False)
    index = checking.whole(view["storage"], f"the storage of view {label!r} of {what}")
    if index >= len(storages):
        raise ValueError(
            f"view {label!r} of {what} lies in storage {index}, but there are {len(storages)}"
        )
    offset = checking.whole(view["offset_bytes"], f"offset_bytes of view {label!r} of {what}")
    size = checking.whole(view["nbytes"], f"nbytes of view {label!r} of {what}", least=1)
    if offset + size > storages[index]["nbytes"]:
        raise ValueError(
            f"view {label!r} of {what} ends at byte {offset + size}, "
            f"but its storage has {storages[index]['nbytes']}"
        )
    return {"label": label, "storage": index, "offset_bytes": offset, "nbytes": size}


def _checked_slots(value: object, what: str) -> dict[str, Any]:
    found = checking.record(value, what, ("words", "slots", "sinks", "window"))
    slots: list[dict[str, Any]] = []
    for each in checking.items(found["slots"], f"the slots of {what}"):
        slot = checking.record(each, f"a slot of {what}", ("position",))
        if slot["position"] is not None:
            checking.whole(slot["position"], f"the position of a slot of {what}")
        slots.append({"position": slot["position"], "new": bool(slot.get("new", False))})
    sinks = checking.whole(found["sinks"], f"sinks of {what}")
    window = checking.whole(found["window"], f"window of {what}", least=1)
    if len(slots) != sinks + window:
        raise ValueError(
            f"{what} has {len(slots)} slots; a window of {window} and {sinks} sinks have "
            f"{sinks + window}"
        )
    return {
        "words": checking.text(found["words"], f"the words of {what}", empty=False),
        "slots": slots,
        "sinks": sinks,
        "window": window,
    }
