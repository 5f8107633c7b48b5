"""Carry a learner's answers from an old copy of a lesson into the new pristine one.

What an answer uses comes along: helpers, classes, constants and imports, wherever they stood.
Works on source text with `ast` only, so that none of the learner's code is run.
"""

import ast
import sys
from collections.abc import Mapping
from dataclasses import dataclass

from course.source.cells import Notebook, Statement
from course.source.cutting import read_notebook
from course.source.luggage import Luggage
from course.source.surroundings import surroundings


@dataclass(frozen=True, slots=True)
class Carried:
    """The new lesson with the learner's answers in it.

    `names` were carried over, and `along` is what they use; `left` holds (name, reason) for
    answers that were not; `notes` are sentences on what could not be taken with them.
    """

    text: str
    names: tuple[str, ...]
    along: tuple[str, ...]
    left: tuple[tuple[str, str], ...]
    notes: tuple[str, ...]

    def sentences(self) -> list[str]:
        """Say what was carried over and what was not."""
        said = [f"Carried over: {', '.join(self.names)}."] if self.names else []
        said += [f"With what they use: {', '.join(self.along)}."] if self.along else []
        said += [f"Not carried over: {name}, because {why}." for name, why in self.left]
        return [*said, *self.notes]


def carry(old: str, new: str, passed: Mapping[str, str] | None = None) -> Carried:
    """Return `new` with the learner's functions of `old` in place of its stubs.

    `passed` maps function names to saved sources of passed answers: they stand in for functions
    that `old` no longer holds in readable form (a cell left with a syntax error, say).
    """
    mine, fresh = read_notebook(old), read_notebook(new)
    saved = {name: read_notebook(source) for name, source in (passed or {}).items()}
    stubs = {min(s.binds): s for s in fresh.statements if s.is_stub and s.place == "top"}
    luggage = Luggage(fresh)
    chosen: dict[str, Notebook] = {}
    left: list[tuple[str, str]] = []
    for name, stub in stubs.items():
        source = next((n for n in (mine, saved.get(name)) if n and answers(n, name)), None)
        if source is None:
            continue
        why = _misfit(source, stub, luggage.theirs)
        if why:
            left.append((name, why))
        else:
            chosen[name] = source
    for source in dict.fromkeys(chosen.values()):
        luggage.add({name: stubs[name] for name, home in chosen.items() if home is source}, source)
    for cell in mine.broken:
        names = dict.fromkeys(cell.names())  # merge markers may leave one twice
        lost = [name for name in names if name in stubs and name not in chosen]
        left += [(name, str(cell)) for name in lost]
        luggage.notes += [] if lost or not cell.text.strip() else [f"Left out: {cell}."]
    notes = tuple(dict.fromkeys(luggage.notes))
    text = luggage.written_into(new)
    return Carried(text, tuple(chosen), tuple(luggage.names_along()), tuple(left), notes)


def answers(notebook: Notebook, name: str) -> bool:
    """Whether the notebook binds `name` to something other than a stub."""
    found = notebook.binding(name)
    return bool(found) and not any(item.is_stub for item in found)


def _misfit(source: Notebook, stub: Statement, theirs: set[str]) -> str:
    """Why the answer cannot take the stub's place, as the end of a sentence; "" if it can."""
    answer = source.binding(min(stub.binds))
    wanted = _num_args(stub.node)[-1]
    if wanted not in _num_args(answer[-1].node):
        return f"the lesson calls it with {wanted} arguments, which yours does not take"
    around = surroundings(source, answer, theirs - stub.binds)
    units = [unit for unit in around.units if any(item in answer for item in unit)]
    others = {name for unit in units for item in unit for name in item.binds} - stub.binds
    shared = sorted(others & theirs)
    return f"`{shared[0]}` is bound together with it, and the lesson has that too" if shared else ""


def _num_args(node: ast.stmt) -> range:
    """The numbers of arguments that it can be called with; any number if that is not known."""
    if not isinstance(node, ast.FunctionDef):
        return range(sys.maxsize)
    args = node.args
    most = len(args.posonlyargs) + len(args.args)
    if None in args.kw_defaults:  # one that has to be named, which a lesson does not do
        return range(0)
    return range(most - len(args.defaults), sys.maxsize if args.vararg else most + 1)
