"""An answer is its text: the cells of a notebook that a function needs.

Everything that judges, saves, replays, grades, updates or plays an answer receives this record.
Nothing is run here.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from course.source.cells import ALLOWED, BUILTIN, Notebook, Statement
from course.source.cutting import CELL_MARK
from course.source.names import is_local


@dataclass(frozen=True, slots=True)
class Answer:
    """The function `name` of a notebook's text, which may be the whole file or less."""

    text: str
    name: str


@dataclass(frozen=True, slots=True)
class Needed:
    """The statements that functions need, in the order in which they run.

    `names` are the names that the functions use, directly or not, with the statements that use
    them; the other statements run because they share a cell.
    """

    statements: tuple[Statement, ...]
    names: dict[str, Statement | None]

    @property
    def imports(self) -> list[tuple[str, Statement]]:
        """Each name that is used and imported, with its import."""
        used = {name for item in self.statements for name in item.uses | item.binds}
        own = {name for item in self.statements if "*" not in item.binds for name in item.binds}
        return [
            (name, item)
            for item in self.statements
            if item.is_shared_import
            for name in sorted(used - own if "*" in item.binds else used)
            if name != "*" and item.module(name) is not None
        ]

    @property
    def cells(self) -> list[list[Statement]]:
        """The other statements, cell by cell."""
        found: dict[int, list[Statement]] = {}
        for item in self.statements:
            if not item.is_shared_import:
                found.setdefault(item.cell, []).append(item)
        return list(found.values())

    def text(self) -> str:
        """Return a text that holds these statements only."""
        future = [item.source for item in self.statements if item.is_future]
        blocks = ["\n".join(dict.fromkeys([*future, *(i.only(n) for n, i in self.imports)]))]
        is_plain = len(self.cells) == 1 and all(
            item.is_definition or item.place == "loose" for item in self.cells[0]
        )
        for items in self.cells:
            sources = "\n\n\n".join(item.source for item in items)
            blocks.append(sources if is_plain else f"{CELL_MARK}\n{sources}")
        return "\n\n\n".join(block for block in blocks if block) + "\n"

    def refused(self) -> dict[str, str]:
        """Return a sentence for each used name that an answer may not import, by name."""
        return {
            name: f"`{name}`{_by(self.names.get(name))} comes from {item.module(name)}: an answer "
            "may import only the standard library, torch and numpy."
            for name, item in self.imports
            if item.module(name) not in ALLOWED
        }


def answer_in(notebook: Notebook, name: str) -> Answer:
    """Return the answer of this name with what it needs of the notebook."""
    return Answer(needed(notebook, [name]).text(), name)


def needed(notebook: Notebook, names: Iterable[str]) -> Needed:
    """Return what these functions need.

    That is every import they use, every cell that binds a name they use, and every cell that
    changes the value of such a name: `TABLE.append(3)`. Cells run in marimo's order.
    """
    used: dict[str, Statement | None] = dict.fromkeys(names)
    waiting = [item for name in used for item in notebook.binding(name)]
    core = _below(notebook, waiting, used)
    taken = dict(core)
    while True:
        cells = {item.cell for item in taken if not item.is_shared_import}
        public = {n for item in taken if not item.is_import for n in item.binds if not is_local(n)}
        found = [
            item
            for item in notebook.statements
            if item not in taken
            and not item.is_shared_import
            and (item.cell in cells or not public.isdisjoint(item.names.changes))
            and (item.place != "loose" or _matters(item, notebook, public))
        ]
        if not found:
            break
        taken |= _below(notebook, found, {})
    future = [item for item in notebook.statements if item.is_future]
    return Needed(tuple(_in_order(notebook, [*future, *taken])), used)


def missing(notebook: Notebook, needs: Needed) -> dict[str, str]:
    """Return a sentence for each name that nothing binds, by name."""
    said: dict[str, str] = {}
    for name, user in needs.names.items():
        if name in BUILTIN or notebook.binding(name, user.cell if user else None):
            continue
        broken = [cell for cell in notebook.broken if name in cell.names()]
        if user is None:  # the answer itself: any cell that cannot be read may hold it
            broken = broken or [cell for cell in notebook.broken if not cell.names()]
        if user is not None and name in user.names.annotations and not broken:
            continue
        if broken or user is not None:
            why = f": {broken[0]}" if broken else ""
            said[name] = f"`{name}`{_by(user)} was not found{why}."
    return said


def loose_lines(notebook: Notebook) -> list[str]:
    """Return a sentence for each statement of a marimo notebook that stands in no cell."""
    return [
        f"Line {item.lines[0]} stands in no cell; the page will drop it: put it into a cell with "
        f"`@app.{'function' if item.is_function else 'cell'}`."
        for item in notebook.dropped
    ]


def _by(user: Statement | None) -> str:
    return "" if user is None else f", which `{user.title}` uses,"


def _below(
    notebook: Notebook, items: Iterable[Statement], used: dict[str, Statement | None]
) -> dict[Statement, None]:
    """These statements and those that bind what they use; notes the names in `used`."""
    taken: dict[Statement, None] = {}
    waiting = list(items)
    while waiting:
        item = waiting.pop()
        if item in taken:
            continue
        taken[item] = None
        for name in sorted(item.uses):
            used.setdefault(name, item)
            waiting += notebook.binding(name, item.cell)
    return taken


def _matters(item: Statement, notebook: Notebook, public: set[str]) -> bool:
    """Whether a statement outside all cells changes a needed name, or acts on a variable."""
    if item.is_definition:
        acting = {  # functions that a decorator or a call may change a needed name with
            name
            for other in notebook.statements
            if other.place == "loose" and other.is_function and other.uses & public
            for name in other.binds
        }
        return not (public | acting).isdisjoint(item.names.changes)
    variables = {
        name
        for other in notebook.statements
        if other.place == "loose" and other.is_assignment
        for name in other.binds
    }
    return not variables.isdisjoint(item.names.needs | item.binds)


def _in_order(notebook: Notebook, items: Iterable[Statement]) -> list[Statement]:
    """Imports first, then each cell after those that it needs, else in the notebook's order."""
    wanted = set(items)
    ordered = [item for item in notebook.statements if item in wanted]
    cells: dict[int, list[Statement]] = {}
    for item in ordered:
        if not item.is_shared_import:
            cells.setdefault(item.cell, []).append(item)
    below = {
        cell: {
            other.cell
            for item in members
            for name in item.uses
            for other in notebook.binding(name, cell)
            if not other.is_shared_import
        }
        for cell, members in cells.items()
    }
    result = [item for item in ordered if item.is_shared_import]
    while cells:
        ready = (cell for cell in cells if cells.keys().isdisjoint(below[cell] - {cell}))
        result += cells.pop(next(ready, next(iter(cells))))  # of a circle, the first
    return result
