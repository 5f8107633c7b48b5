"""`--plot FILE` of a command: refused before the run where it could not be written after it."""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from nanogpt.experiments.command_line import Limited
from nanogpt.figures.chart import Chart
from nanogpt.figures.drawing import SUFFIXES, save, suffix_of

PLOT_HELP = "draw what was measured into this file, beside the text"


class PlotFile(Limited):
    """A file to draw into, in a folder that there is."""

    metavar = "FILE"
    limits = " or ".join(SUFFIXES)

    def __call__(self, text: str) -> Path:
        """The path."""
        path = Path(text)
        try:
            suffix_of(path)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error)) from None
        if not path.parent.is_dir():
            raise argparse.ArgumentTypeError(f"there is no folder {str(path.parent)!r}")
        return path


def write_plot(path: Path | None, make: Callable[[], Chart]) -> bool:
    """Draws into `path` if there is one; False, with a sentence on standard error, if it failed."""
    if path is None:
        return True
    try:
        save(make(), path)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        sys.stderr.write(f"{path} was not drawn: {why}.\n")
        return False
    return True
