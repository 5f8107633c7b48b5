"""The repair ladder: how many requests get their first token in time after each fix."""

from collections.abc import Mapping, Sequence
from typing import Any, Unpack

import traitlets

from widgets import checking
from widgets.picture import Face, Picture


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

    rows = traitlets.List(traitlets.Dict()).tag(sync=True)
    load = traitlets.Unicode().tag(sync=True)

    def __init__(
        self,
        rows: Sequence[Mapping[str, Any]],
        title: str = "",
        *,
        load: str | None = None,
        **face: Unpack[Face],
    ) -> None:
        found = _ROWS(rows, "rows")
        checking.differ([row["variant"] for row in found], "variants are called")
        loads = [*found[0]["loads"]]
        for row in found:
            if sorted(row["loads"]) != sorted(loads):
                raise ValueError(
                    f"{row['variant']!r} has loads {sorted(row['loads'])}; "
                    f"the first row has {sorted(loads)}"
                )
        super().__init__(
            rows=found,
            title=title,
            load=loads[0] if load is None else checking.one_of(*loads)(load, "load"),
            **face,
        )


def _checked_loads(value: object, what: str) -> dict[str, Any]:
    loads = checking.record(value, what)
    if not loads:
        raise ValueError(f"{what} has 0 entries; it needs at least 1")
    return {str(name): _LOAD(load, f"{name} in {what}") for name, load in loads.items()}


def _checked_interval(value: object, what: str) -> list[float | None]:
    """[mean, low, high] in percent, the ends cut to 0 and 100."""
    found = checking.items(value, what)
    if len(found) != 3:
        raise ValueError(f"{what} has {len(found)} entries; it must be mean, low and high")
    mean, low, high = found
    if checking.amount(mean, f"the mean of {what}") > 100:
        raise ValueError(f"the mean of {what} is {mean}; it must be a percentage up to 100")
    checking.interval(mean, low, high, what)
    return [mean, None, None] if None in found else [mean, max(0, low), min(100, high)]


_LOAD = checking.shape(
    urgent=_checked_interval,
    generous=_checked_interval,
    wasted_share=checking.share,
    preemptions=checking.amount,
)
_ROWS = checking.list_of(
    checking.shape(variant=checking.words, words=checking.text, loads=_checked_loads),
    at_least=1,
)
