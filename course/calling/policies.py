"""A learner's functions as policies of an engine: in a child process, or in their own script."""

import functools
from collections.abc import Callable, Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Policy:
    """A learner's function whose results come as plain data, so that one rule holds for types."""

    function: Callable[..., Any]

    def __call__(self, *args: Any) -> Any:
        """Call it. A generator goes on as it is."""
        from course.calling.values import plain  # and torch, which opening a lesson waits for

        value = self.function(*args)
        return value if isinstance(value, Generator) else plain(value, cloned=False)


@dataclass(frozen=True, slots=True)
class SavedPolicy:
    """A saved answer by its text. Lessons hand it to a job, which unpickles it as a `Policy`."""

    text: str
    name: str

    def __call__(self, *args: Any) -> Any:
        """Call it in this process, which is the learner's own: a script in a terminal."""
        return _load_once(self.text, self.name)(*args)

    def __reduce__(self) -> tuple[Callable[[str, str], Policy], tuple[str, str]]:
        return _load, (self.text, self.name)


def _load(text: str, name: str) -> Policy:
    from course.source.cutting import read_notebook
    from course.source.notebook import load

    return Policy(load(read_notebook(text), Path(f"{name}.py"), [name]).functions[name])


_load_once = functools.cache(_load)
