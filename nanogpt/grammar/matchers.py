"""Matchers: how far a request's tokens have come in its grammar, and which may follow.

A matcher is never changed, so a step that is dropped, a rejected draft and a preemption need no
rollback: the request keeps the matcher that its committed tokens led to.
Shapes: V vocabulary, K drafts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from nanogpt.grammar.regular_expression import Automaton, automaton_of
from nanogpt.policies import Policies
from nanogpt.validate import PolicyError, show
from nanogpt.views.grammar_state import GrammarState

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, eq=False)
class RegexGrammar:
    """The texts that a whole regular expression matches, in the texts of a vocabulary's tokens.

    A token without text is never allowed; one of the `end_tokens` is where the text may end. A text
    without end tokens goes on as long as the pattern lets it. Only characters that are tokens by
    themselves are used, so that every text that was begun can be closed.
    Raises: ValueError as `automaton_of`, and for a pattern that only the empty text matches.
    """

    pattern: str
    token_texts: tuple[str, ...]
    end_tokens: tuple[int, ...] = ()
    automaton: Automaton = field(init=False, repr=False)
    legal: dict[Policies, LegalTokens] = field(
        default_factory=dict[Policies, "LegalTokens"], init=False, repr=False
    )

    def __post_init__(self) -> None:
        alphabet = sorted({text for text in self.token_texts if len(text) == 1})
        object.__setattr__(self, "automaton", automaton_of(self.pattern, alphabet))
        if not self.automaton.edges[0]:
            raise ValueError(f"{show(self.pattern)} matches only the empty text")

    def check(self, max_new_tokens: int, vocab_size: int) -> None:
        """Raises: ValueError for another vocabulary, and for too few tokens."""
        if len(self.token_texts) != vocab_size:
            texts = f"the grammar has the texts of {len(self.token_texts)} tokens"
            raise ValueError(f"{texts}; the model's vocabulary has {vocab_size}")
        if self.automaton.distances[0] > max_new_tokens:
            least = f"the grammar's shortest text has {self.automaton.distances[0]} characters"
            raise ValueError(f"{least}; max_new_tokens is {max_new_tokens}")

    def matcher(self, policies: Policies, max_new_tokens: int) -> RegexMatcher:
        """The start; masks of earlier requests with these policies are used again."""
        if policies not in self.legal:
            self.legal[policies] = LegalTokens(self, policies)
        return RegexMatcher(self.legal[policies], max_new_tokens)


@dataclass(frozen=True)
class RegexMatcher:
    """A state of a grammar's automaton; None where the tokens left it, and nothing is masked."""

    legal: LegalTokens
    tokens_left: int
    state: int | None = 0
    has_ended: bool = False
    num_tokens: int = 0

    @property
    def is_complete(self) -> bool:
        """Whether the text has ended, or nothing may follow but its end."""
        return self.has_ended or not self.legal.open_distances(self.state, self.tokens_left)

    def after(self, tokens: Sequence[int]) -> RegexMatcher:
        """The state that these tokens lead to."""
        count = len(tokens)
        return replace(
            self,
            state=self.legal.advance(self.state, tokens),
            has_ended=self.has_ended or not self.legal.end_tokens.isdisjoint(tokens),
            tokens_left=self.tokens_left - count,
            num_tokens=self.num_tokens + count,
        )

    def restarted(self, tokens: Sequence[int]) -> RegexMatcher:
        """The state after only these tokens."""
        return RegexMatcher(self.legal, self.tokens_left + self.num_tokens).after(tokens)

    def masks(self, drafts: Sequence[int] = ()) -> Tensor:
        """The tokens that may follow: here, and after each of the drafts. (K + 1, V) bool."""
        import torch

        states = self.legal.draft_masks(self.state, drafts)
        masks = [self.legal.mask(at, self.tokens_left - i) for i, at in enumerate(states)]
        return torch.stack(masks)


class LegalTokens:
    """A grammar's masks by an engine's policies. Mutable: those that were made, by state."""

    def __init__(self, grammar: RegexGrammar, policies: Policies) -> None:
        self.policies = policies
        self.texts, self.end_tokens = list(grammar.token_texts), frozenset(grammar.end_tokens)
        self.edges = grammar.automaton.edges
        self.distances = grammar.automaton.distances
        self._tokens: dict[int | None, dict[int, list[int]]] = {}
        self._masks: dict[tuple[int | None, tuple[int, ...]], Tensor] = {}

    def advance(self, at: int | None, tokens: Sequence[int]) -> int | None:
        """The state after these tokens."""
        texts = [self.texts[token] for token in tokens if token not in self.end_tokens]
        return at if at is None or not texts else self.policies.advance(self._view(at), texts)

    def draft_masks(self, at: int | None, drafts: Sequence[int]) -> Sequence[int | None]:
        """The states that mask the logits of a row with these drafts."""
        if at is None or not drafts:
            return [at] * (1 + len(drafts))
        return self.policies.draft_masks(self._view(at), [self.texts[each] for each in drafts])

    def open_distances(self, at: int | None, tokens_left: int) -> tuple[int, ...]:
        """How far from an end the tokens that may follow lead."""
        must_close = self.policies.must_close
        return tuple([each for each in self._by_distance(at) if not must_close(each, tokens_left)])

    def mask(self, at: int | None, tokens_left: int) -> Tensor:
        """The tokens that may follow, (V,) bool. Raises: PolicyError where there are none."""
        key = at, self.open_distances(at, tokens_left)
        if key not in self._masks:
            self._masks[key] = self._mask(*key)
        return self._masks[key]

    def _mask(self, at: int | None, distances: Sequence[int]) -> Tensor:
        import torch

        tokens = [token for each in distances for token in self._by_distance(at)[each]]
        if at is not None and not self.distances[at]:
            tokens += self.end_tokens
        if not tokens:
            raise PolicyError(
                f"allowed and must_close leave no token that may follow in state {at}"
            )
        mask = torch.zeros(len(self.texts), dtype=torch.bool)
        mask[tokens] = True
        return mask

    def _by_distance(self, at: int | None) -> dict[int, list[int]]:
        """The legal tokens in a state, by how far from an end they lead."""
        if at not in self._tokens:
            found: dict[int, list[int]] = {} if at is not None else {0: [*range(len(self.texts))]}
            if at is not None:
                state = self._view(at)
                for token, is_legal in enumerate(self.policies.allowed(state, self.texts)):
                    if is_legal:
                        after = self.policies.advance(state, [self.texts[token]])
                        distance = 0 if after is None else self.distances[after]
                        found.setdefault(distance, []).append(token)
            self._tokens[at] = found
        return self._tokens[at]

    def _view(self, at: int) -> GrammarState:
        return GrammarState(self.edges, at)
