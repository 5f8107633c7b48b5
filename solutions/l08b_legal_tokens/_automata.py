"""Small automata, texts for them, and what the four exercises say of an answer's form."""

import random
from typing import Any

from course.calling.plain_values import as_items, as_truth, as_whole
from nanogpt.grammar.regular_expression import automaton_of
from nanogpt.views.grammar_state import GrammarState

LETTERS = "yea, n."
PATTERNS = r"(yea|nay)\.", "(ye|n)+a?", r"(yea, nay, )*yea\.", "(an|e){2}"
MADE = [automaton_of(pattern, LETTERS) for pattern in PATTERNS]


def at(text: str, which: int = 0) -> GrammarState:
    """The state of an automaton after a text that it can read."""
    state = 0
    for character in text:
        state = MADE[which].edges[state][character]
    return GrammarState(list(MADE[which].edges), state)


def drawn(rng: random.Random, num_texts: int) -> tuple[GrammarState, list[str]]:
    """Any state of any automaton, and texts that it can often read, one after the other."""
    edges = list(rng.choice(MADE).edges)
    first = place = rng.randrange(len(edges))
    texts: list[str] = []
    for _ in range(num_texts):
        text = ""
        for _ in range(rng.randint(1, 3)):
            known = [*edges[place]] if rng.random() < 0.9 else [*LETTERS]
            text += rng.choice(known or [*LETTERS])
            place = edges[place].get(text[-1], place)
        texts.append(text)
    return GrammarState(edges, first), texts


def not_bools(value: Any) -> bool:
    """Whether a value is no list of bools."""
    return as_items(value) is None or any(as_truth(each) is None for each in as_items(value) or ())


def no_state(value: Any) -> bool:
    """Whether a value is neither None nor the number of a state."""
    return value is not None and as_whole(value) is None
