"""Ends a command quietly when what read its output has gone, as `| head -1` does."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable


def quietly(command: Callable[[], int]) -> int:
    """Return a command's exit status; 141, as shells have it, where its reader has gone."""
    try:
        status = command()
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what is left is flushed at the very end
        return 141
    return status
