"""Matchers: how far a request's tokens have come in its grammar, and which may follow.

A matcher is never changed, so a step that is dropped, a rejected draft and a preemption need no
rollback: the request keeps the matcher that its committed tokens led to. Shapes: V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from nanogpt.grammar.regular_expression import Automaton, automaton_of
from nanogpt.policies import Policies
from nanogpt.validate import PolicyError, show
from nanogpt.views.grammar_state import GrammarState

if TYPE_CHECKING:
    from torch import Tensor


def check_vocabulary(size: int, vocab_size: int) -> None:
    """Raises: ValueError where a grammar is for another vocabulary."""
    if size != vocab_size:
        said = f"the grammar has the texts of {size} tokens"
        raise ValueError(f"{said}; the model's vocabulary has {vocab_size}")


@dataclass(frozen=True, eq=False)
class RegexGrammar:
    """The texts that a whole regular expression matches, in the texts of a vocabulary's tokens.

    A token without text is never allowed; an end token is, where the text may end. Without one, a
    text goes on as long as the pattern lets it. Only characters that are tokens by themselves are
    used, so every text that was begun can be closed. `legal` has the masks so far, by policies.
    Raises: ValueError as `automaton_of`, and for a pattern that only the empty text matches.
    """

    pattern: str
    token_texts: tuple[str, ...]
    end_tokens: tuple[int, ...] = ()
    automaton: Automaton = field(init=False, repr=False)
    legal: dict[Policies, LegalTokens] = field(default_factory=dict, init=False, repr=False)  # pyright: ignore

    def __post_init__(self) -> None:
        alphabet = sorted({text for text in self.token_texts if len(text) == 1})
        object.__setattr__(self, "automaton", automaton_of(self.pattern, alphabet))
        if not self.automaton.edges[0]:
            raise ValueError(f"{show(self.pattern)} matches only the empty text")

    def check(self, max_new_tokens: int, vocab_size: int) -> None:
        """Raises: ValueError for another vocabulary, and for too few tokens."""
        check_vocabulary(len(self.token_texts), vocab_size)
        if (least := self.automaton.distances[0]) > max_new_tokens:
            said = f"the grammar's shortest text has {least} characters"
            raise ValueError(f"{said}; max_new_tokens is {max_new_tokens}")

    def matcher(self, policies: Policies, max_new_tokens: int) -> RegexMatcher:
        """The matcher of a request without tokens; it uses the masks of earlier requests again."""
        if policies not in self.legal:
            self.legal[policies] = LegalTokens(self, policies)
        return RegexMatcher(self.legal[policies], max_new_tokens)


@dataclass(frozen=True)
class RegexMatcher:
    """A state of a grammar's automaton; None where the tokens left it, and nothing is masked."""

    legal: LegalTokens
    max_tokens: int
    state: int | None = 0
    num_tokens: int = 0
    has_ended: bool = False

    @property
    def is_complete(self) -> bool:
        """Whether the text has ended, or nothing may follow but its end."""
        tokens_left = self.max_tokens - self.num_tokens
        return self.has_ended or not self.legal.open_distances(self.state, tokens_left)

    def after(self, tokens: Sequence[int]) -> RegexMatcher:
        """The state that these tokens lead to."""
        texts = [self.legal.texts[each] for each in tokens if each not in self.legal.end_tokens]
        state = self.state
        if texts and state is not None:
            state = self.legal.policies.advance(self.legal.view(state), texts)
        has_ended = self.has_ended or len(texts) < len(tokens)
        num_tokens = self.num_tokens + len(tokens)
        return replace(self, state=state, num_tokens=num_tokens, has_ended=has_ended)

    def restarted(self, tokens: Sequence[int]) -> RegexMatcher:
        """The state after only these tokens."""
        return RegexMatcher(self.legal, self.max_tokens).after(tokens)

    def masks(self, drafts: Sequence[int] = ()) -> Tensor:
        """The tokens that may follow: here, and after each of K drafts. (K + 1, V) bool."""
        import torch

        at, states = self.state, [self.state] * (1 + len(drafts))
        if at is not None and drafts:
            texts = [self.legal.texts[each] for each in drafts]
            states = self.legal.policies.draft_masks(self.legal.view(at), texts)
        tokens_left = self.max_tokens - self.num_tokens
        masks = [self.legal.mask(each, tokens_left - i) for i, each in enumerate(states)]
        return torch.stack(masks)


class LegalTokens:
    """A grammar's masks by an engine's policies. Mutable: those that were made, by state."""

    def __init__(self, grammar: RegexGrammar, policies: Policies) -> None:
        self.policies = policies
        self.texts, self.end_tokens = list(grammar.token_texts), grammar.end_tokens
        self.automaton = grammar.automaton
        self.edges = tuple(map(MappingProxyType, grammar.automaton.edges))  # not to be changed
        every = {0: [*range(len(self.texts))]}
        self._tokens: dict[int | None, dict[int, list[int]]] = {None: every}
        self._masks: dict[tuple[int | None, tuple[int, ...]], Tensor] = {}

    def view(self, at: int) -> GrammarState:
        """A state as policies see it."""
        return GrammarState(self.edges, at)

    def open_distances(self, at: int | None, tokens_left: int) -> tuple[int, ...]:
        """How far from an end the tokens lead that may follow."""
        must_close = self.policies.must_close
        return tuple([each for each in self._by_distance(at) if not must_close(each, tokens_left)])

    def mask(self, at: int | None, tokens_left: int) -> Tensor:
        """The tokens that may follow, (V,) bool. Raises: PolicyError where there are none."""
        import torch

        key = at, self.open_distances(at, tokens_left)
        if key not in self._masks:
            tokens = [token for each in key[1] for token in self._by_distance(at)[each]]
            if at is not None and not self.automaton.distances[at]:
                tokens += self.end_tokens
            if not tokens:
                raise PolicyError(f"allowed and must_close leave no token in state {at}")
            self._masks[key] = torch.zeros(len(self.texts), dtype=torch.bool)
            self._masks[key][tokens] = True
        return self._masks[key]

    def _by_distance(self, at: int | None) -> dict[int, list[int]]:
        """The legal tokens in a state, by how far from an end they lead."""
        if at is None or at in self._tokens:
            return self._tokens[at]
        found, state = dict[int, list[int]](), self.view(at)
        for token, is_legal in enumerate(self.policies.allowed(state, self.texts)):
            if is_legal:
                after = self.policies.advance(state, [self.texts[token]])
                distance = 0 if after is None else self.automaton.distances[after]
                found.setdefault(distance, []).append(token)
        self._tokens[at] = found
        return found
