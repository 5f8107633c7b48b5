"""A grammar's automaton and one of its states, as policies see them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class GrammarState:
    """The automaton of a grammar, in the state with the number `at`.

    `edges[n]` are the characters that may follow in state n, each with the number of the state
    after it. From every state some text leads to an end.
    """

    edges: Sequence[Mapping[str, int]]
    at: int
