"""Compiled code on the disk, and compiling before the first call."""

# pyright: basic

import atexit
import os
import sys
from contextlib import suppress
from tempfile import TemporaryDirectory
from threading import Timer
from typing import Any

from numba import config, njit, typeof


def kept_on_disk(function: Any) -> Any:
    """Compiled code that later processes load from the disk.

    Where neither this file's folder nor the user's cache can be written, it is kept in a temporary
    folder for this process and its children.
    """
    compiled = njit(nogil=True)(function)
    try:
        compiled.enable_caching()
    except RuntimeError:
        folder = TemporaryDirectory(prefix="nanogpt-kernel-", ignore_cleanup_errors=True)
        atexit.register(folder.cleanup)
        os.environ["NUMBA_CACHE_DIR"] = folder.name
        config.reload_config()
        with suppress(RuntimeError):
            compiled.enable_caching()
    return compiled


def compile_for(function: Any, *arguments: Any) -> None:
    """Compile a function, or load it from the disk, for arguments of these types."""
    line = "Compiling the forward pass takes about 15 s, once on a machine.\n"
    progress = Timer(2.0, sys.stderr.write, [line])
    progress.start()
    with suppress(OSError):  # a full disk keeps nothing
        function.compile(tuple(map(typeof, arguments)))
    progress.cancel()
