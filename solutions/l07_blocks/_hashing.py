"""Judging hashes by which of them are equal, whatever they are made of.

A wrong idea is kept as a function that makes such hashes; it is named when it makes the same ones
equal.
"""

import itertools
import math
import re
from collections.abc import Hashable, Sequence
from typing import Any

from course.calling.plain_values import as_items
from course.checks.comparing import Args, Judge, those_of
from course.exercise import Misconception
from course.format_values import named, show
from course.harness import Ask, Failure, Rows

Group = Sequence[Args]
"""Texts in blocks of one size, each (tokens, size, salt), whose hashes are compared."""

_draw_short = named("tokens", "size", "salt")


def draw_call(name: str, args: Args) -> str:
    """The call; a long text is drawn as a range, with the tokens that differ from it."""
    tokens, size, salt = args
    if len(tokens) <= 100:
        return _draw_short(name, args)
    odd = "".join(f" but for [{i}] = {token}" for i, token in enumerate(tokens) if token != i)
    return f"{name}(tokens=[*range({len(tokens)})]{odd}, size={size}, salt={salt!r})"


def ends(tokens: Sequence[int], size: int) -> range:
    """The ends of the full blocks."""
    return range(size, len(tokens) + 1, size)


def right_labels(tokens: list[int], size: int, salt: str) -> list[Hashable]:
    """The salt and all tokens up to the end of each full block."""
    return [(salt, *tokens[:end]) for end in ends(tokens, size)]


def pattern(hashes: Sequence[Sequence[Hashable]]) -> list[list[int]]:
    """Each hash as the number of the first one that equals it."""
    seen: dict[Hashable, int] = {}
    return [[seen.setdefault(each, len(seen)) for each in one] for one in hashes]


class SameAndOther(Judge):
    """The judge. `ideas` are misconceptions whose answers are hashes.

    `forms` are known by one result, `changes` by hashes that differ when the same call is made
    again, and `weak` by hashes that are too short. `evidence` are groups to ask about after a
    failure.
    """

    def __init__(
        self,
        forms: Sequence[Misconception],
        ideas: Sequence[Misconception],
        changes: Misconception,
        weak: Misconception,
        evidence: Sequence[Group],
    ) -> None:
        self.forms, self.ideas = forms, ideas
        self.changes, self.weak = changes, weak
        self.evidence = evidence

    def judge(self, ask: Ask, cases: Sequence[Group]) -> Failure | None:
        """Ask about each group; show the first two hashes that are wrongly equal or different."""
        for group in cases:
            found = [ask(*args) for args in group]
            for args, value in zip(group, found, strict=True):
                if self._form_of(value) or len(value) != len(right_labels(*args)):
                    return self._malformed(ask, args, value)
            again = ask(*group[0])
            if as_items(again) != as_items(found[0]):
                return self.changes.failure(
                    _rows(
                        ask.draw_call(ask.name, group[0]),
                        "the same when it is asked again",
                        "different strings the second time",
                    )
                )
            pair = _wrong_pair(group, found)
            if pair:
                return self._failure(ask, group, found, pair)
        return None

    def strong(self, ask: Ask, cases: Sequence[Args]) -> Failure | None:
        """Check that the hashes of many texts can have 128 bits."""
        hashes: list[str] = []
        for args in cases:
            value = ask(*args)
            if self._form_of(value) or len(value) != len(right_labels(*args)):
                return self._malformed(ask, args, value)
            hashes += value
        bits = _most_bits(hashes)
        if bits >= 128:
            return None
        rows = _rows(
            f"{ask.draw_call(ask.name, cases[0])}, and {len(cases) - 1} other texts",
            "at least 128 bits in each string",
            f"a number of at most {bits} bits in each",
        )
        return self.weak.failure(rows, bits)

    def _form_of(self, value: Any) -> Misconception | None:
        return next((each for each in self.forms if each.matches and each.matches(value)), None)

    def _malformed(self, ask: Ask, args: Args, value: Any) -> Failure:
        wanted = len(right_labels(*args))
        expected = f"{wanted} string{'s' * (wanted != 1)}, one for each full block"
        rows = _rows(ask.draw_call(ask.name, args), expected, show(value))
        matches = self._form_of(value)
        if matches:
            return matches.failure(rows, value)
        results = [([args], [value]), *self._more(ask)]
        return self._named(results, rows) or Failure(
            f"There is one hash for each full block, so {wanted} here, not {len(value)}.",
            rows,
            "wrong_length",
        )

    def _failure(self, ask: Ask, group: Group, found: list[Any], pair: "_Pair") -> Failure:
        (i, a), (j, b), are_equal = pair
        names = ("a", "b") if i != j else ("a", "a")
        calls = dict(zip(names, (group[i], group[j]), strict=True))
        first, second = f"{names[0]}[{a}]", f"{names[1]}[{b}]"
        rows = _rows(
            "\n".join(f"{name} = {ask.draw_call(ask.name, args)}" for name, args in calls.items()),
            f"{first} {'!=' if are_equal else '=='} {second}",
            f"{first} = {_brief(found[i][a])}, {second} = {_brief(found[j][b])}",
        )
        told = (
            "The salt or the tokens up to the end of the block differ here, so the K/V does too, "
            "and the hashes have to differ."
            if are_equal
            else "The salt and the tokens up to the end of the block are equal here, so the K/V is "
            "the same, and the hashes have to be equal."
        )
        return self._named([(group, found), *self._more(ask)], rows) or Failure(told, rows)

    def _more(self, ask: Ask) -> list[tuple[Group, list[Any]]]:
        """Results for the evidence, which tell more about the mistake."""
        found = [(group, [got for _, got in those_of(ask, group)]) for group in self.evidence]
        return [
            (group, hashes)
            for group, hashes in found
            if len(hashes) == len(group) and not any(map(self._form_of, hashes))
        ]

    def _named(self, results: Sequence[tuple[Group, list[Any]]], rows: Rows) -> Failure | None:
        """The idea that makes the same hashes equal in all results."""
        for idea in self.ideas:
            for answer in idea.answers:
                if all(
                    pattern(found) == pattern([answer(*args) for args in group])
                    for group, found in results
                ):
                    return idea.failure(rows)
        return None


_Pair = tuple[tuple[int, int], tuple[int, int], bool]
_WORD = re.compile(r"-?(0x)?([0-9]{1,20}|[0-9a-fA-F]{1,16})")
_HEX = re.compile(r"[0-9a-fA-F]{1,30}")  # a number of 128 bits has 31 where it begins with a 0


def _most_bits(hashes: Sequence[str]) -> int:
    """At most how many bits the longest of these has; 128 stands for 128 or more."""
    if all(_WORD.fullmatch(each) for each in hashes):
        return 64
    if all(_HEX.fullmatch(each) for each in hashes):
        return 4 * max(map(len, hashes))
    return _bits_of_columns(hashes)


def _bits_of_columns(hashes: Sequence[str]) -> int:
    """96 or 128: at most how many bits the characters at each place have; a copied place has none.

    It is not exact, since a few hashes do not show every character that can be at a place.
    """
    columns = {
        tuple(pattern([column])[0]) for column in itertools.zip_longest(*hashes, fillvalue="")
    }
    bits = sum(math.log2(max(column) + 1) for column in columns)
    return 96 if bits < 112 else 128


def _wrong_pair(group: Group, found: Sequence[Sequence[str]]) -> _Pair | None:
    """The first two hashes that are wrongly equal (True) or wrongly different (False)."""
    seen: list[tuple[tuple[int, int], str, Hashable]] = []
    for i, (args, hashes) in enumerate(zip(group, found, strict=True)):
        for a, (value, label) in enumerate(zip(hashes, right_labels(*args), strict=True)):
            for place, other, right in seen:
                if (value == other) != (label == right):
                    return place, (i, a), value == other
            seen.append(((i, a), value, label))
    return None


def _rows(asked: str, expected: str, got: str) -> Rows:
    return ("input", asked), ("expected", expected), ("got", got)


def _brief(value: Any) -> str:
    """A hash, cut after its first 16 characters."""
    return show(value if len(str(value)) <= 20 else f"{str(value)[:16]}...")
