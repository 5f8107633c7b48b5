"""What an answer depends on: its surroundings, in the order in which they run.

Everything that runs an answer outside its notebook, or moves it, takes its surroundings from here:
the terminal's check, the grader, saved answers in later lessons, updates, the contest. Nothing is
run; `course.source.notebook` runs them.
"""

import ast
import itertools
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import TypeAlias

from course.source.cells import ALLOWED, BUILTIN, Notebook, Statement
from course.source.cutting import CELL_MARK
from course.source.names import is_constant, is_local, only_shows

_ANY_NAME = frozenset({"exec", "globals", "vars"})
"""Functions of Python's own that may change any name of the notebook."""

Unit: TypeAlias = tuple[Statement, ...]
"""Statements that stay together: in one cell of marimo, in their order."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """An answer with all that it depends on.

    `imports` are names with the statements that import them, and `units` the other statements,
    each unit after those that it needs. `unknown` holds (name, user) for each name that neither
    the notebook nor Python binds; `clashing` are statements left out because they bind a name that
    is given.
    """

    imports: tuple[tuple[str, Statement], ...]
    units: tuple[Unit, ...]
    unknown: tuple[tuple[str, str], ...]
    clashing: tuple[Statement, ...]

    @property
    def statements(self) -> list[Statement]:
        """All statements, in the order in which they run."""
        imported = dict.fromkeys(item for _, item in self.imports)
        return [*imported, *(item for unit in self.units for item in unit)]

    def refused(self) -> list[tuple[str, Statement, str]]:
        """Return (name, user, package) for what is imported and answers may not import."""
        return [
            (name, user, package)
            for user in self.statements
            for name in sorted(user.names.needs)
            for imported, item in self.imports
            if imported == name and (package := item.module(name)) not in ALLOWED and package
        ]

    def text(self) -> str:
        """Return a source that works on its own, without stubs and what may not be imported."""
        allowed = [item.only(name) for name, item in self.imports if item.module(name) in ALLOWED]
        shared = {n for n, cells in _private_names(self.units).items() if len(cells) > 1}
        blocks = ["\n".join(dict.fromkeys(allowed))]
        for unit in self.units:
            sources = [item.source for item in unit if not item.is_stub]
            if shared and sources:
                sources[0] = f"{CELL_MARK}\n{sources[0]}"
            blocks += sources
        return "\n\n\n".join(block for block in blocks if block) + "\n"


def surroundings(
    notebook: Notebook, bound: Iterable[Statement], given: Collection[str] = ()
) -> Surroundings:
    """Return what the statements `bound` depend on, with themselves.

    That is every statement that binds a name they need, directly or not, and every one that may
    change what such a name stands for when it runs: a loop that fills a table, a call, a decorator
    that registers. `given` are names that others bind.
    """
    web = _Web(notebook)
    taken = web.below(bound, given)
    clashing: dict[Statement, None] = {}
    while True:
        found = [item for item in notebook.statements if web.acts_on(item, taken)]
        clashing |= dict.fromkeys(item for item in found if not item.binds.isdisjoint(given))
        found = [item for item in found if item not in clashing and item not in taken]
        if not found:
            break
        taken |= web.below(found, given)
    return Surroundings(
        imports=web.imports(taken, given),
        units=web.units(taken, given),
        unknown=web.unknown(taken, given),
        clashing=tuple(clashing),
    )


def reused_private_names(notebook: Notebook) -> set[str]:
    """Return the private names that more than one cell binds, each for itself."""
    found = _private_names([(item,) for item in notebook.statements])
    return {name for name, cells in found.items() if len(cells) > 1}


def _private_names(units: Iterable[Unit]) -> dict[str, set[int]]:
    """The cells that bind each private name."""
    found: dict[str, set[int]] = {}
    for item in (item for unit in units for item in unit):
        for name in filter(is_local, item.binds):
            found.setdefault(name, set()).add(item.cell)
    return found


class _Web:
    """Which statements bind and need which names in one notebook, each found once."""

    def __init__(self, notebook: Notebook) -> None:
        self.notebook = notebook
        self.place = {item: n for n, item in enumerate(notebook.statements)}
        self._bound: dict[tuple[str, int | None], tuple[Statement, ...]] = {}
        self._acting: dict[Statement, bool] = {}
        self._reached: dict[Statement, dict[Statement, None]] = {}
        self._usable: dict[Statement, bool] = {}

    def bound(self, name: str, cell: int) -> tuple[Statement, ...]:
        """What binds the name as the cell sees it."""
        key = (name, cell if is_local(name) else None)
        if key not in self._bound:
            self._bound[key] = self.notebook.binding(name, cell)
        return self._bound[key]

    def binders(self, item: Statement, names: Iterable[str]) -> list[Statement]:
        return [other for name in sorted(names) for other in self.bound(name, item.cell)]

    def below(
        self, items: Iterable[Statement], given: Collection[str] = ()
    ) -> dict[Statement, None]:
        """These and all that they need, directly or not."""
        taken: dict[Statement, None] = {}
        waiting = list(items)
        while waiting:
            item = waiting.pop()
            if item not in taken:
                taken[item] = None
                waiting += self.binders(item, item.uses.difference(given))
                bound = self.binders(item, item.binds)  # `f = cached(f)` needs the first `f`
                waiting += [other for other in bound if other.cell == item.cell]
        return taken

    def acts_on(self, item: Statement, taken: Collection[Statement]) -> bool:
        """Whether running it may change what these statements have bound, and it can run."""
        if not self.acts(item) or only_shows(item.node):
            return False
        if item not in self._reached:
            self._reached[item] = self.below(self.binders(item, item.names.runs))
        changed = any(self.can_change(other) and other in taken for other in self._reached[item])
        rooted = [other for name in item.names.changes for other in self.bound(name, item.cell)]
        changed = changed or any(other in taken for other in rooted if not other.is_import)
        if not changed and self.sets_up(item):
            changed = any(other.cell == item.cell for other in taken)
        return changed and self.usable(item)

    def sets_up(self, item: Statement) -> bool:
        """Whether it may change what its cell does, and names none of it: a seed, `exec`."""
        roots = self.binders(item, item.names.sets_up)
        return any(other.is_import for other in roots) or bool(_ANY_NAME & item.names.sets_up)

    def acts(self, item: Statement) -> bool:
        """Whether it matters when it runs: more than a definition or a constant."""
        if item not in self._acting:
            self._acting[item] = self._acts(item)
        return self._acting[item]

    def _acts(self, item: Statement) -> bool:
        if item.is_import:
            return False
        if any(len(self.bound(name, item.cell)) > 1 for name in item.binds):
            return True
        if is_constant(item.node):
            return False
        if not isinstance(item.node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            return True
        if len(item.binds) > 1:  # `global` within it
            return True
        found = self.binders(item, item.names.runs)
        return any(not other.is_import and not is_constant(other.node) for other in found)

    def can_change(self, item: Statement) -> bool:
        """Whether what it binds has a state that others may change."""
        if isinstance(item.node, ast.FunctionDef | ast.AsyncFunctionDef):
            defaults = [*item.node.args.defaults, *item.node.args.kw_defaults]
            known = all(each is None or isinstance(each, ast.Constant) for each in defaults)
            return not known or self.acts(item)
        return isinstance(item.node, ast.ClassDef) or self.acts(item)

    def usable(self, item: Statement) -> bool:
        """Whether an answer may have all that the statement needs."""
        if item not in self._usable:
            needed = self.below([item])
            modules = {
                other.module(name)
                for user in needed
                for name in user.names.needs
                for other in self.bound(name, user.cell)
                if other.is_import
            }
            whole = not any(other.is_stub for other in needed) and not self.unknown(needed)
            self._usable[item] = whole and modules <= ALLOWED
        return self._usable[item]

    def unknown(
        self, taken: Iterable[Statement], given: Collection[str] = ()
    ) -> tuple[tuple[str, str], ...]:
        found = {
            (name, item.title): None
            for item in taken
            for name in sorted(item.names.needs - BUILTIN)
            if name not in given and not self.bound(name, item.cell)
        }
        return tuple(found)

    def imports(
        self, taken: Iterable[Statement], given: Collection[str]
    ) -> tuple[tuple[str, Statement], ...]:
        """The public names that these statements need of imports; the answer may be one itself."""
        found = {
            (name, other): None
            for item in taken
            for name in sorted((item.uses | item.binds).difference(given))
            for other in self.bound(name, item.cell)
            if other.is_import and not is_local(name) and other in taken
        }
        order = sorted(found, key=lambda pair: self.place[pair[1]])
        return tuple((name, item) for name, item in order if name != "*")

    def units(self, taken: Collection[Statement], given: Collection[str]) -> tuple[Unit, ...]:
        """The statements that are no public imports, where what needs each other is one unit.

        What acts in one cell stays in its order, and what a cell keeps to itself in that cell.
        """
        items = [
            item
            for item in sorted(taken, key=self.place.__getitem__)
            if not item.is_import or any(is_local(name) for name in item.binds)
        ]
        edges = {item: set(self.binders(item, item.uses.difference(given))) for item in items}
        for group in self._together(items):
            for item, other in itertools.pairwise(group):
                edges[item].add(other)
                edges[other].add(item)
        back: dict[Statement, set[Statement]] = {}
        for item in items:
            for other in edges[item]:
                back.setdefault(other, set()).add(item)
        firsts: dict[Statement, Statement] = {}  # of each statement's unit
        reach: dict[Statement, set[Statement]] = {}
        made: dict[Statement, Unit] = {}
        for item in items:
            if item not in firsts:
                reach[item] = _reach(item, edges)
                unit = reach[item] & _reach(item, back)
                made[item] = tuple(other for other in items if other in unit)
                firsts |= dict.fromkeys(unit, item)
        order: dict[Statement, None] = {}
        for first in made:
            below = {firsts[other] for other in reach[first] if other in firsts}
            order |= dict.fromkeys(
                sorted(below, key=lambda each: (len(reach[each]), self.place[each]))
            )
        return tuple(made[first] for first in order)

    def _together(self, items: Iterable[Statement]) -> Iterable[list[Statement]]:
        """Statements of one cell that depend on their order, or share a private name."""
        groups: dict[tuple[int, str], list[Statement]] = {}
        setting = {item.cell for item in items if self.sets_up(item)}
        for item in items:
            if self.acts(item) or item.cell in setting:
                groups.setdefault((item.cell, ""), []).append(item)
            for name in filter(is_local, item.binds | item.uses):
                if any(other.cell == item.cell for other in self.bound(name, item.cell)):
                    groups.setdefault((item.cell, name), []).append(item)
        return groups.values()


def _reach(item: Statement, edges: dict[Statement, set[Statement]]) -> set[Statement]:
    reached = {item}
    waiting = [item]
    while waiting:
        for other in edges.get(waiting.pop(), set()) - reached:
            reached.add(other)
            waiting.append(other)
    return reached
