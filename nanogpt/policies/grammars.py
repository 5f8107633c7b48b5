"""Constrained decoding's decisions: which tokens are legal, and when a text must come to its end.

Source: Willard and Louf, "Efficient guided generation for large language models", arXiv 2307.09702.
"""

from collections.abc import Sequence

from nanogpt.views.grammar_state import GrammarState


def allowed(state: GrammarState, token_texts: Sequence[str]) -> list[bool]:
    """For each token: whether it has a text, and the automaton can read all of it from here."""
    return [bool(text) and advance(state, [text]) is not None for text in token_texts]


def advance(state: GrammarState, committed: Sequence[str]) -> int | None:
    """The state's number after these tokens' texts; None where the automaton cannot read them."""
    at: int | None = state.at
    for character in "".join(committed):
        at = state.edges[at].get(character)
        if at is None:
            return None
    return at


def draft_masks(state: GrammarState, drafts: Sequence[str]) -> list[int | None]:
    """The state that masks each of a row's logits: before each draft, and after the last one.

    None after a draft that is not legal: these logits decide nothing.
    """
    return [advance(state, drafts[:i]) for i in range(len(drafts) + 1)]


def must_close(distance: int, tokens_left: int) -> bool:
    """Whether a token is too late: the `distance` characters from it to an end do not fit.

    `tokens_left` counts the token itself; a character takes at most one token.
    """
    return distance >= tokens_left
