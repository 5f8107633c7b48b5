"""Which cells of a running notebook use the names that another cell defines."""

from collections.abc import Collection, Iterator

from course.source.cutting import read_cells
from course.source.names import is_local


class Dependencies:
    """The cells of a notebook by their ids, and the names that each defines and uses.

    A name with a leading underscore is its cell's own. A cell that Python cannot read has no names.
    """

    def __init__(self) -> None:
        self.defines: dict[str, frozenset[str]] = {}
        self._uses: dict[str, frozenset[str]] = {}

    def add(self, cell: str, source: str) -> set[str]:
        """Add a cell, or give it another source; return the cells that depended on it, or do."""
        before = self.dependents(cell)
        statements = read_cells([source]).statements
        bound = {name for item in statements for name in item.binds if not is_local(name)}
        used = {name for item in statements for name in item.uses}
        self.defines[cell] = frozenset(bound)
        self._uses[cell] = frozenset(used - bound)
        return before | self.dependents(cell)

    def dependents(self, cell: str) -> set[str]:
        """Return the cells that use a name of this cell, or of another of its dependents."""
        found: set[str] = set()
        new = {cell} & self.defines.keys()
        while new:
            new = {each for each in self._uses if any(self._needs(each, one) for one in new)}
            new -= found
            found |= new
        return found

    def in_order(self, cells: Collection[str]) -> Iterator[str]:
        """Yield cells after those that they need, else as they were added; none of a cycle."""
        left = [cell for cell in self._uses if cell in cells]
        while ready := [each for each in left if not any(self._needs(each, one) for one in left)]:
            left.remove(ready[0])
            yield ready[0]

    def _needs(self, cell: str, other: str) -> bool:
        return not self._uses[cell].isdisjoint(self.defines[other])
