"""Constrained decoding's decisions: which tokens are legal, and when a text must come to its end.

Source: Willard and Louf, "Efficient guided generation for large language models", arXiv 2307.09702.
"""

from collections.abc import Sequence

from nanogpt.views.grammar_state import GrammarState


def allowed(state: GrammarState, token_texts: Sequence[str]) -> list[bool]:
    """For each token: whether the automaton can read all its characters from here.

    A token without text, such as one that ends texts, is not allowed here.
    """
    return [bool(text) and read(state, text) is not None for text in token_texts]


def advance(state: GrammarState, committed: Sequence[str]) -> int | None:
    """The state's number after these tokens' texts; None where the automaton cannot read them."""
    return read(state, "".join(committed))


def draft_masks(state: GrammarState, drafts: Sequence[str]) -> list[int | None]:
    """The state that masks each of a row's logits: those before each draft, and the last ones.

    None after a draft that is not legal: these logits decide nothing.
    """
    return [advance(state, drafts[:i]) for i in range(len(drafts) + 1)]


def must_close(distance: int, tokens_left: int) -> bool:
    """Whether a token is too late: not all of the `distance` characters to an end fit behind it.

    `tokens_left` counts the token itself; a character takes at most one token.
    """
    return distance >= tokens_left


def read(state: GrammarState, text: str) -> int | None:
    """The number of the state after `text`; None where the automaton cannot read it."""
    at: int | None = state.at
    for character in text:
        at = state.edges[at].get(character)
        if at is None:
            return None
    return at
