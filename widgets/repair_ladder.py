"""The repair ladder: how many requests get their first token in time after each fix."""

from collections.abc import Mapping, Sequence
from typing import Any, Unpack

import traitlets

from widgets import assets, checking, signed
from widgets.picture import Face, Picture

_CELL_FIELDS = ("urgent", "generous", "wasted_share", "preemptions")


class RepairLadder(Picture):
    """SLO attainment of two tiers, variant by variant, one fix at a time, at a load to choose.

    Each row is {"variant", "words", "loads": {"4": {"urgent": [mean, low, high], "generous": [mean,
    low, high], "wasted_share", "preemptions"}}}. Attainment is in percent, with the ends of its
    confidence interval (None where there is none; they are cut to 0 and 100); `wasted_share`, from
    0 to 1, is the share of the computing time that went into passes thrown away; `preemptions`
    counts them per run. Loads are named by requests per second, in all rows the same. `load` is
    the one to begin with, None the first.
    Raises: ValueError for no row, rows of unequal loads, two variants of one name, or a load that
    is not there.
    """

    _esm = assets.esm("repair_ladder")
    _css = assets.css("repair_ladder")
    rows = traitlets.List(traitlets.Dict()).tag(sync=True)
    title = traitlets.Unicode().tag(sync=True)
    load = traitlets.Unicode().tag(sync=True)

    def __init__(
        self,
        rows: Sequence[Mapping[str, Any]],
        title: str = "",
        *,
        load: str | None = None,
        **face: Unpack[Face],
    ) -> None:
        found = [
            _checked_row(each, f"row {index}")
            for index, each in enumerate(checking.items(rows, "rows", at_least=1))
        ]
        names = [row["variant"] for row in found]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"two variants are called {name!r}; names must differ")
        loads = [*found[0]["loads"]]
        for row in found:
            if sorted(row["loads"]) != sorted(loads):
                raise ValueError(
                    f"{row['variant']!r} has loads {sorted(row['loads'])}; "
                    f"the first row has {sorted(loads)}"
                )
        chosen = loads[0] if load is None else load
        if chosen not in loads:
            raise ValueError(f"load is {chosen!r}; it must be one of {', '.join(loads)}")
        super().__init__(
            rows=found,
            title=checking.text(title, "the title"),
            load=chosen,
            **face,
        )


def _checked_row(value: object, what: str) -> dict[str, Any]:
    found = checking.record(value, what, ("variant", "words", "loads"))
    loads = checking.record(found["loads"], f"the loads of {what}", ())
    if not loads:
        raise ValueError(f"{what} has no load; it needs at least 1")
    return {
        "variant": checking.text(found["variant"], f"the variant of {what}", empty=False),
        "words": checking.text(found["words"], f"the words of {what}"),
        "loads": {
            str(name): _checked_cell(loads[name], f"load {name} of {what}") for name in loads
        },
    }


def _checked_cell(value: object, what: str) -> dict[str, Any]:
    found = checking.record(value, what, _CELL_FIELDS)
    return {
        "urgent": _checked_interval(found["urgent"], f"urgent of {what}"),
        "generous": _checked_interval(found["generous"], f"generous of {what}"),
        "wasted_share": signed.share(found["wasted_share"], f"wasted_share of {what}"),
        "preemptions": checking.amount(found["preemptions"], f"preemptions of {what}"),
    }


def _checked_interval(value: object, what: str) -> list[float | None]:
    """[mean, low, high] in percent, the ends cut to 0 and 100."""
    found = checking.items(value, what)
    if len(found) != 3:
        raise ValueError(f"{what} has {len(found)} entries; it must be mean, low and high")
    mean, low, high = found
    if checking.amount(mean, f"the mean of {what}") > 100:
        raise ValueError(f"the mean of {what} is {mean}; it must be a percentage up to 100")
    if low is None or high is None:
        return [mean, None, None]
    signed.number(low, f"the low end of {what}")
    signed.number(high, f"the high end of {what}")
    if not low <= mean <= high:
        raise ValueError(f"the mean of {what} is {mean}, outside its interval {low} to {high}")
    return [mean, max(0, low), min(100, high)]
