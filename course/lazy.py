"""torch and what needs it, imported at first use: a lesson's setup cell takes it from here.

Importing torch takes over a second, which the first words of a page need not wait for.
"""

import importlib
from collections.abc import Callable
from types import ModuleType
from typing import Any


class _Lazy(ModuleType):
    def __getattr__(self, name: str) -> Any:
        return getattr(importlib.import_module(self.__name__), name)

    def __reduce__(self) -> tuple[Callable[[str], ModuleType], tuple[str]]:
        return importlib.import_module, (self.__name__,)


torch = _Lazy("torch")
slo = _Lazy("nanogpt.views.slo_view")  # for the types in signatures
