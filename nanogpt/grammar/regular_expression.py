"""A regular expression becomes an automaton over characters, by Thompson's and Rabin's methods.

Python's own parser reads the pattern, so it means what it means in `re`: literals, escapes,
classes, `.`, groups, alternatives and repetitions.
Source: Thompson, "Regular expression search algorithm", CACM 11 (1968); Rabin and Scott, "Finite
automata and their decision problems", IBM Journal 3 (1959).
"""

import re._compiler as re_compiler  # pyright: ignore
import re._parser as re_parser  # pyright: ignore
import warnings
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from nanogpt.validate import show

MAX_PLACES = 10_000
MAX_WORK = 500_000
"""Of one pattern: transitions looked at on the way to its automaton, up to half a second."""


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

    Raises: ValueError for what is no regular expression, or has parts that no automaton can read;
    for one that is too large; and where no text over the alphabet matches.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            places = _Places("".join(alphabet))
            parsed = re_parser.parse(pattern)
            if parsed.state.flags != re_parser.SRE_FLAG_UNICODE:
                raise ValueError("no automaton here has flags")
            last, end = places.sequence(parsed, places.new()), places.new()
            places.empty[last].append(end)  # a repeat's last place leads back as well
        edges, ends = places.determined(end)
    except (re_parser.error, OverflowError, RecursionError) as error:
        raise ValueError(f"{show(pattern)} is no regular expression: {error}") from None
    except ValueError as error:
        raise ValueError(f"{show(pattern)} is no grammar: {error}") from None
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
        raise ValueError(f"{show(pattern)} cannot be written in the characters that are tokens")
    number = {n: i for i, n in enumerate(sorted(distances))}  # from the others, nothing ends
    kept = [{c: number[to] for c, to in edges[n].items() if to in number} for n in number]
    return Automaton(tuple(kept), tuple(distances[n] for n in number))


class _Places:
    """Thompson's automaton: the places in a pattern. Mutable while it is built, from place 0 on.

    `moves[n]` holds (characters, the place after them), `empty[n]` places reached without any.
    """

    def __init__(self, alphabet: str) -> None:
        self.alphabet = alphabet
        self.moves: list[list[tuple[frozenset[str], int]]] = []
        self.empty: list[list[int]] = []

    def new(self) -> int:
        """A further place."""
        if len(self.moves) == MAX_PLACES:
            raise ValueError(f"it repeats too much, over {MAX_PLACES} characters in all")
        self.moves.append([])
        self.empty.append([])
        return len(self.moves) - 1

    def sequence(self, items: Any, start: int) -> int:
        """Add what the parser has read behind a place; returns the place after it."""
        for kind, value in items:
            start = self._add(str(kind), value, start)
        return start

    def _add(self, kind: str, value: Any, start: int) -> int:
        end = self.new()
        match kind, value:
            case ("MAX_REPEAT" | "MIN_REPEAT", (least, most, items)):  # the same whole texts
                for _ in range(least):
                    start = self.sequence(items, start)
                self.empty[start].append(end)
                if most == re_parser.MAXREPEAT:
                    self.empty[self.sequence(items, end)].append(end)
                    return end
                for _ in range(least, most):
                    start = self.sequence(items, start)
                    self.empty[start].append(end)
            case ("SUBPATTERN", (_, 0, 0, items)):
                self.empty[self.sequence(items, start)].append(end)
            case ("BRANCH", (_, choices)):
                for items in choices:
                    self.empty[self.sequence(items, start)].append(end)
            case ("LITERAL" | "NOT_LITERAL" | "ANY" | "IN", _):
                items = [(getattr(re_parser, kind), value)]
                one = re_compiler.compile(re_parser.SubPattern(re_parser.State(), items))
                self.moves[start].append((frozenset(filter(one.fullmatch, self.alphabet)), end))
            case _:
                raise ValueError(f"no automaton has a part of the kind {kind.lower()!r}")
        return end

    def determined(self, end: int) -> tuple[list[dict[str, int]], list[int]]:
        """An automaton with a state for each set of places, and the states where a text may end."""
        states, edges, work = [self._closure({0})], list[dict[str, int]](), 0
        numbers = {states[0]: 0}
        for state in states:
            targets: dict[str, set[int]] = {}
            for characters, after in (move for n in state for move in self.moves[n]):
                for character in characters:
                    targets.setdefault(character, set()).add(after)
                work += len(characters)
            closures = {each: self._closure(each) for each in {*map(frozenset, targets.values())}}
            edges.append({})
            for character, after in sorted(targets.items()):
                target = closures[frozenset(after)]
                if target not in numbers:
                    numbers[target] = len(numbers)
                    states.append(target)
                edges[-1][character] = numbers[target]
            work += 20 + len(state)
            if work > MAX_WORK:
                raise ValueError(f"it is too large, it has over {len(states)} states")
        return edges, [n for n, state in enumerate(states) if end in state]

    def _closure(self, places: Iterable[int]) -> frozenset[int]:
        """The places reached from these without a character, but those that only lead on."""
        seen, todo = set(places), list(places)
        while todo:
            new = [each for each in self.empty[todo.pop()] if each not in seen]
            seen.update(new)
            todo += new
        return frozenset(n for n in seen if self.moves[n] or not self.empty[n])
