"""Command lines that say each option's limits and default, and refuse what is outside in words.

The standard library alone, so that a slip is refused before anything slow is imported.
"""

import argparse
import math
from collections.abc import Sequence
from typing import Any


class Parser(argparse.ArgumentParser):
    """A parser that guesses nothing: an option is written out, and its help says what it takes."""

    def __init__(self, prog: str, description: str) -> None:
        super().__init__(prog=prog, description=description, allow_abbrev=False)

    def option(self, name: str, kind: "Limited", default: object, what: str) -> None:
        """An option with a value, its limits and its default in its help."""
        shown = "" if default is None else f"; default {kind.show(default)}"
        self.add_argument(
            name, type=kind, default=default, metavar=kind.metavar,
            help=f"{what} ({kind.limits}{shown})".replace("%", "%%"),
        )  # fmt: skip

    def choice(self, name: str, choices: Sequence[str], default: str, what: str) -> None:
        """An option that is one of a few words."""
        self.add_argument(
            name, choices=choices, default=default, help=f"{what} (default {default})"
        )

    def switch(self, name: str, what: str) -> None:
        """An option without a value."""
        self.add_argument(name, action="store_true", help=what)


class Limited:
    """A kind of value with limits; argparse shows the sentence that refuses another."""

    metavar = "VALUE"
    limits = ""

    def __call__(self, text: str) -> Any:
        """The value that the text stands for. Raises: argparse.ArgumentTypeError."""
        raise NotImplementedError

    def show(self, value: Any) -> str:
        """A value as it is typed."""
        return f"{value:g}" if isinstance(value, float) else str(value)


class Whole(Limited):
    """A whole number from `low` to `high`."""

    metavar = "N"

    def __init__(self, low: int, high: int) -> None:
        self.low, self.high = low, high
        self.limits = f"{low} to {high}"

    def __call__(self, text: str) -> int:
        """Digits alone: no sign, no point, no figures of another script."""
        if not (text.isascii() and text.isdigit()) or not self.low <= int(text) <= self.high:
            raise argparse.ArgumentTypeError(
                f"{text!r} is not a whole number from {self.low} to {self.high}"
            )
        return int(text)


class Number(Limited):
    """A number from `low` to `high`."""

    metavar = "X"

    def __init__(self, low: float, high: float) -> None:
        self.low, self.high = low, high
        self.limits = f"{low:g} to {high:g}"

    def __call__(self, text: str) -> float:
        """Whatever `float` takes, within the limits."""
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not self.low <= value <= self.high:
            raise argparse.ArgumentTypeError(
                f"{text!r} is not a number from {self.low:g} to {self.high:g}"
            )
        return value


class Numbers(Limited):
    """Different numbers from `low` to `high`, with commas between them."""

    metavar = "X,X"

    def __init__(self, low: float, high: float) -> None:
        self.low, self.high = low, high
        self.limits = f"different ones, {low:g} to {high:g}"

    def __call__(self, text: str) -> tuple[float, ...]:
        """The numbers in the order they were given."""
        try:
            values = tuple(float(part) for part in text.split(","))
        except ValueError:
            values = ()
        inside = all(self.low <= value <= self.high for value in values)
        if not values or not inside or len(set(values)) < len(values):
            raise argparse.ArgumentTypeError(
                f"{text!r} is not a list of different rates from {self.low:g} to {self.high:g}, "
                "such as 2,4,6"
            )
        return values

    def show(self, value: Sequence[float]) -> str:
        """With commas again."""
        return ",".join(f"{each:g}" for each in value)
