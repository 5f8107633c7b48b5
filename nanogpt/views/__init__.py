"""The frozen records that may travel between a check and an answer: plain data, no decisions.

A module here is found by `records`, and seen from inside the sandbox.
"""

import importlib
import pkgutil
from dataclasses import is_dataclass


def records() -> dict[str, type]:
    """Every record of this folder, by its name."""
    names = [f"{__name__}.{module.name}" for module in pkgutil.iter_modules(__path__)]
    return {
        kind.__name__: kind
        for name in names
        for kind in vars(importlib.import_module(name)).values()
        if is_dataclass(kind) and isinstance(kind, type)
    }
