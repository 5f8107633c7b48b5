"""Tables for a terminal: the first column to the left, the others to the right."""

from collections.abc import Sequence


def text_table(rows: Sequence[Sequence[str]]) -> str:
    """The rows with their columns aligned.

    >>> print(text_table([["", "FIFO"], ["Completed", "7"]]))
               FIFO
    Completed     7
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]).rstrip()
        for row in rows
    )


def short_number(value: float | None, sign: str = "") -> str:
    """At least three digits, or a dash."""
    if value is None:
        return "-"
    return f"{value:{sign},.{0 if abs(value) >= 1000 else 1 if abs(value) >= 10 else 2}f}"
