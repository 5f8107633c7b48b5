"""A serving engine for nanoGPT, small enough to read in an evening.

    the modules at the root         one serving step; README.md has the loop and a reading order
    policies, executors             the decisions that can be replaced; layouts of a forward pass
    window, speculative             features that are imported when the settings ask for them
    posts                           the posts' run functions and calls
    slo, preemption                 passes that can be preempted, and the SLO policy for it
    fleet, workers                  many engines: simulated, and in processes
    server                          one engine over HTTP
    contest, figures                scored workloads; measured curves
    experiments, checkpoints        comparisons; the weights and the tokenizers

Shapes, everywhere: B rows, T new tokens, S visible context, H heads, D head size, C = H * D
channels, L layers, V vocabulary, N tokens in a flat row, P slots.
"""

import ast
import importlib
import sys
from collections.abc import Callable, Mapping
from pathlib import Path


def lazy_names(package: str, homes: Mapping[str, str]) -> Callable[[str], object]:
    """The `__getattr__` of a package whose names are at home in these modules of it.

    A module is imported when one of its names is first asked for, so that a face costs nothing.
    """

    def get(name: str) -> object:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(f"{package}.{homes[name]}"), name)
        setattr(sys.modules[package], name, value)
        return value

    return get


_HOMES = {
    alias.name: node.module.removeprefix("nanogpt.")
    for node in ast.parse(Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8")).body
    if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("nanogpt.")
    for alias in node.names
}
__all__ = sorted(_HOMES)  # pyright: ignore[reportUnsupportedDunderAll]
__getattr__ = lazy_names(__name__, _HOMES)
__dir__ = __all__.copy
