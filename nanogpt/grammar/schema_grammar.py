"""JSON schemas as grammars, by the package `llguidance`, which vLLM and SGLang use too.

JSON nests, so no automaton reads all of it: the library parses, and walks the vocabulary as a trie
of bytes. It knows no distance to an end, so a text may be cut by its length.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from nanogpt.grammar.matchers import check_vocabulary

if TYPE_CHECKING:
    from llguidance import LLMatcher
    from torch import Tensor


class SchemaGrammar:
    """The texts that a JSON schema describes, without spaces between their parts.

    `tokenizer` is one of the package `tokenizers`, as JSON. Raises: ValueError where the library
    refuses the schema; ImportError without the library.
    """

    def __init__(
        self, schema: dict[str, Any], tokenizer: str, vocab_size: int, end_tokens: tuple[int, ...]
    ) -> None:
        from llguidance import LLMatcher, LLTokenizer

        self.vocab_size, self.end_tokens = vocab_size, end_tokens
        known = LLTokenizer(tokenizer, n_vocab=vocab_size, eos_token=list(end_tokens))
        compact: Any = {"whitespace_flexible": False}
        grammar = LLMatcher.grammar_from_json_schema(schema, overrides=compact)
        self.start = LLMatcher(known, grammar, log_level=0)
        if self.start.is_error():
            said = " ".join(self.start.get_error().split())
            raise ValueError(f"the JSON schema is refused: {said[:200]}")

    def check(self, max_new_tokens: int, vocab_size: int) -> None:
        """Raises: ValueError for another vocabulary."""
        check_vocabulary(self.vocab_size, vocab_size)

    def matcher(self, policies: object, max_new_tokens: int) -> SchemaMatcher:
        """The matcher of a request without tokens; no policy is called."""
        return SchemaMatcher(self, self.start)


@dataclass(frozen=True)
class SchemaMatcher:
    """A place in a JSON text: a parser that is copied before it goes on."""

    grammar: SchemaGrammar
    parser: LLMatcher

    @property
    def is_complete(self) -> bool:
        """Whether the text has ended, or nothing may follow but its end."""
        return self.parser.is_stopped()

    def after(self, tokens: Sequence[int]) -> SchemaMatcher:
        """The place that these tokens lead to."""
        parser = self.parser.deep_copy()
        parser.consume_tokens(list(tokens))
        return SchemaMatcher(self.grammar, parser)

    def restarted(self, tokens: Sequence[int]) -> SchemaMatcher:
        """The place after only these tokens."""
        return SchemaMatcher(self.grammar, self.grammar.start).after(tokens)

    def masks(self, drafts: Sequence[int] = ()) -> Tensor:
        """The tokens that may follow: here, and after each of K drafts. (K + 1, V) bool."""
        import torch

        places = [self.after(drafts[:i]) for i in range(len(drafts) + 1)]
        bits = bytearray(b"".join(each.parser.compute_bitmask() for each in places))
        packed = torch.frombuffer(bits, dtype=torch.uint8).unsqueeze(1)  # (bytes, 1)
        unpacked = (packed >> torch.arange(8) & 1).bool()  # (bytes, 8)
        return unpacked.view(len(places), -1)[:, : self.grammar.vocab_size]
