"""The look of all figures: colours for light and dark, and a mark and a dash for each curve.

The hues are those of the course's widgets: Okabe and Ito's, darkened for a light page and
lightened for a dark one until they stand out from it 3 to 1. No two curves differ by hue alone.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Theme:
    """What a figure is painted with, as #rrggbb: ground, words, quiet words, grid, curves."""

    card: str
    ink: str
    soft: str
    grid: str
    hues: tuple[str, ...]

    def named(self) -> dict[str, str]:
        """The colours by the name that a page's style knows them by."""
        hues = {f"hue-{index}": colour for index, colour in enumerate(self.hues)}
        return {"card": self.card, "ink": self.ink, "soft": self.soft, "grid": self.grid, **hues}


LIGHT = Theme(
    "#ffffff", "#1b2430", "#55606e", "#d8dee6",
    ("#0b6bb0", "#b04a00", "#00795b", "#96417f", "#7a6200", "#4c4bb5", "#a3293d", "#51606f"),
)  # fmt: skip
DARK = Theme(
    "#171b21", "#e7ebf0", "#a5b0bd", "#343c47",
    ("#63b3f0", "#f0a36b", "#43c9a3", "#e39bcc", "#e0c659", "#a9a8f5", "#f493a2", "#b4c1cd"),
)  # fmt: skip

MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
DASHES: tuple[tuple[float, ...], ...] = (
    (),
    (6, 2),
    (2, 2),
    (8, 2, 2, 2),
    (4, 1.5, 1, 1.5, 1, 1.5),
    (10, 3),
    (1, 1.5),
    (6, 2, 6, 2, 1, 2),
)
"""On and off in points along the curve; none for an unbroken line."""
