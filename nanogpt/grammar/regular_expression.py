"""A regular expression becomes an automaton over characters, by Thompson's and Rabin's methods.

Literals, escapes, classes, `.`, groups, alternatives and repetitions mean what they mean in
Python's `re`.
Source: Thompson, "Regular expression search algorithm", CACM 11 (1968); Rabin and Scott, "Finite
automata and their decision problems", IBM Journal 3 (1959).
"""

import re
import warnings
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from nanogpt.validate import show

MAX_PLACES = 10_000
"""Of Thompson's states: what repetitions multiply."""
MAX_WORK = 500_000
"""Of one pattern: transitions looked at on the way to its automaton, up to half a second."""
_SET = re.compile(
    r"\[\^?\]?(?:\\.|[^\]\\])*\]|\\(?:x..|u.{4}|[^0-9AbBNuUxZ])|[^\\^$()|*+?\[]", re.DOTALL
)
_OPENING = re.compile(r"\(\?:|\((?!\?)")
_REPEAT = re.compile(r"([*+?])|\{(?!\})(\d*)(,?)(\d*)\}")
_COUNTS = {"*": (0, None), "+": (1, None), "?": (0, 1)}


@dataclass(frozen=True, slots=True)
class Automaton:
    """`edges[n]`: the characters that may follow in state n, and the state after each.

    `distances[n]` is the least number of characters from state n to an end, 0 where a text may end.
    State 0 is the start.
    """

    edges: tuple[dict[str, int], ...]
    distances: tuple[int, ...]


def automaton_of(pattern: str, alphabet: Iterable[str]) -> Automaton:
    """The automaton of the texts over `alphabet` that the whole pattern matches.

    Raises: ValueError for what is no regular expression, or one that this module cannot read; for
    too many states; and where no text over the alphabet matches.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            re.compile(pattern)
        return _Pattern(pattern, "".join(alphabet)).automaton()
    except (re.error, OverflowError, RecursionError) as error:
        raise ValueError(f"{show(pattern)} is no regular expression: {error}") from None


Part = Callable[[int], int]
"""Adds a part of a pattern behind a state; returns the state after it."""


class _Pattern:
    """A pattern on its way to an automaton: its parts, then Thompson's states. Mutable.

    `moves[n]` holds (characters, the state after them), `empty[n]` states reached without any.
    """

    def __init__(self, pattern: str, alphabet: str) -> None:
        self.pattern, self.alphabet, self.at = pattern, alphabet, 0
        self.moves: list[list[tuple[frozenset[str], int]]] = []
        self.empty: list[list[int]] = []

    def automaton(self) -> Automaton:
        """The automaton with a state for each set of Thompson's that a text leads to."""
        whole = self._either()
        end = whole(self._new())
        numbers, edges, work = {self._closure({0}): 0}, list[dict[str, int]](), 0
        for states in (found := list(numbers)):
            targets: dict[str, set[int]] = {}
            work += 20 + len(states)
            for characters, after in (move for n in states for move in self.moves[n]):
                work += len(characters)
                for character in characters:
                    targets.setdefault(character, set()).add(after)
            closures = {each: self._closure(each) for each in {*map(frozenset, targets.values())}}
            edges.append({})
            for character, after in sorted(targets.items()):
                target = closures[frozenset(after)]
                if target not in numbers:
                    numbers[target] = len(numbers)
                    found.append(target)
                edges[-1][character] = numbers[target]
            if work > MAX_WORK:
                raise ValueError(
                    f"{show(self.pattern)} is too large: it needs {len(numbers)} states"
                )
        return self._live(edges, [n for states, n in numbers.items() if end in states])

    def _live(self, edges: list[dict[str, int]], ends: list[int]) -> Automaton:
        """Without the states from which no text leads to an end."""
        before: list[set[int]] = [set() for _ in edges]
        for n, after in enumerate(edges):
            for target in after.values():
                before[target].add(n)
        distances, queue = dict.fromkeys(ends, 0), deque(ends)
        while queue:
            n = queue.popleft()
            new = [each for each in before[n] if each not in distances]
            distances.update(dict.fromkeys(new, distances[n] + 1))
            queue.extend(new)
        if 0 not in distances:
            said = "cannot be written in the characters that are tokens of this vocabulary"
            raise ValueError(f"{show(self.pattern)} {said}")
        number = {n: i for i, n in enumerate(sorted(distances))}
        kept = [{c: number[to] for c, to in edges[n].items() if to in number} for n in number]
        return Automaton(tuple(kept), tuple(distances[n] for n in number))

    # --- the pattern's parts ----------------------------------------------------------------------

    def _either(self) -> Part:
        """Read alternatives, up to a closing bracket or the end."""
        choices = [self._sequence()]
        while self.pattern[self.at : self.at + 1] == "|":
            self.at += 1
            choices.append(self._sequence())

        def add(start: int) -> int:
            end = self._new()
            for each in choices:
                self.empty[each(start)].append(end)
            return end

        return add

    def _sequence(self) -> Part:
        parts: list[Part] = []
        while self.at < len(self.pattern) and self.pattern[self.at] not in "|)":
            parts.append(self._repeated(self._item()))

        def add(start: int) -> int:
            for each in parts:
                start = each(start)
            return start

        return add

    def _item(self) -> Part:
        """Read a group or a set of characters."""
        opening = _OPENING.match(self.pattern, self.at)
        if opening is not None:
            self.at = opening.end()
            group = self._either()
            self.at += 1
            return group
        found = _SET.match(self.pattern, self.at)
        if found is None:
            rest = show(self.pattern[self.at :])
            raise ValueError(f"{show(self.pattern)}: a grammar cannot have {rest}")
        self.at = found.end()
        matches = re.compile(found[0]).fullmatch
        characters = frozenset(each for each in self.alphabet if matches(each))

        def add(start: int) -> int:
            self.moves[start].append((characters, end := self._new()))
            return end

        return add

    def _repeated(self, part: Part) -> Part:
        """Read how often the part comes; a lazy repetition matches the same whole texts."""
        found = _REPEAT.match(self.pattern, self.at)
        if found is None:
            return part
        self.at = found.end() + self.pattern.startswith("?", found.end())
        sign, low, comma, high = found.groups()
        if sign:
            least, most = _COUNTS[sign]
        else:
            least = int(low or 0)
            most = (int(high) if high else None) if comma else least

        def add(start: int) -> int:
            for _ in range(least):
                start = part(start)
            end = self._new()
            self.empty[start].append(end)
            if most is None:
                self.empty[part(end)].append(end)
            for _ in range(least, most or least):
                start = part(start)
                self.empty[start].append(end)
            return end

        return add

    # --- Thompson's states ------------------------------------------------------------------------

    def _new(self) -> int:
        if len(self.moves) == MAX_PLACES:
            raise ValueError(f"{show(self.pattern)} repeats too much: over {MAX_PLACES} places")
        self.moves.append([])
        self.empty.append([])
        return len(self.moves) - 1

    def _closure(self, states: Iterable[int]) -> frozenset[int]:
        """These states, and those reached from them without a character."""
        seen, todo = set(states), list(states)
        while todo:
            new = [each for each in self.empty[todo.pop()] if each not in seen]
            seen.update(new)
            todo += new
        return frozenset(seen)
