"""JSON schemas as grammars, by the package `llguidance`, which vLLM and SGLang use too.

Texts nest, so no automaton can read all of them: the library parses, and walks the vocabulary as a
trie of bytes. It has no distance to an end, so a text may be cut by its length.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from nanogpt.validate import PolicyError

if TYPE_CHECKING:
    from llguidance import LLMatcher
    from torch import Tensor


class SchemaVocabulary:
    """A vocabulary as the library reads it: each token's bytes, and the end of a text.

    One without an end gets one behind its last token, which no mask shows. A token without bytes
    is a special one. Raises: ImportError without the package `llguidance`.
    """

    bos_token_id = None

    def __init__(self, pieces: Sequence[bytes], end_tokens: tuple[int, ...]) -> None:
        from llguidance import LLTokenizer, TokenizerWrapper

        self.size, self.end_tokens = len(pieces), end_tokens
        self.tokens = [piece or b"\xff<%d>" % i for i, piece in enumerate(pieces)]
        self.tokens += [] if end_tokens else [b"\xff<end>"]
        self.special_token_ids = [i for i, each in enumerate(self.tokens) if each[:2] == b"\xff<"]
        self.eos_token_id = end_tokens[0] if end_tokens else len(pieces)
        self._numbers = {piece: i for i, piece in enumerate(pieces) if piece}
        self.tokenizer = LLTokenizer(TokenizerWrapper(self), eos_token=list(end_tokens) or None)

    def __call__(self, text: bytes) -> list[int]:
        """The longest token that fits, then the next: the library asks for texts it is sure of."""
        tokens: list[int] = []
        while end := next((n for n in range(len(text), 0, -1) if text[:n] in self._numbers), 0):
            tokens.append(self._numbers[text[:end]])
            text = text[end:]
        return tokens


class SchemaGrammar:
    """The texts that a JSON schema describes. Raises: ValueError where the library refuses it."""

    def __init__(self, schema: dict[str, Any], vocabulary: SchemaVocabulary) -> None:
        from llguidance import LLMatcher

        self.end_tokens, self.vocab_size = vocabulary.end_tokens, vocabulary.size
        compact: Any = {"whitespace_flexible": False}
        grammar = LLMatcher.grammar_from_json_schema(schema, overrides=compact)
        self.start = LLMatcher(vocabulary.tokenizer, grammar, log_level=0)
        if self.start.is_error():
            said = " ".join(self.start.get_error().split())
            raise ValueError(f"the JSON schema is refused: {said[:200]}")
        if not self.mask(self.start).any():
            raise ValueError("the JSON schema cannot be written in the tokens of this vocabulary")

    def check(self, max_new_tokens: int, vocab_size: int) -> None:
        """Raises: ValueError for another vocabulary."""
        if self.vocab_size != vocab_size:
            texts = f"the grammar has the texts of {self.vocab_size} tokens"
            raise ValueError(f"{texts}; the model's vocabulary has {vocab_size}")

    def matcher(self, policies: Any, max_new_tokens: int) -> SchemaMatcher:
        """The start, in a parser of the request's own; policies have no say in it."""
        return SchemaMatcher(self, Parser(self.start.deep_copy()))

    def mask(self, parser: LLMatcher) -> Tensor:
        """The tokens that may follow, (V,) bool."""
        import torch

        bits = torch.frombuffer(bytearray(parser.compute_bitmask()), dtype=torch.uint8)
        unpacked = bits.unsqueeze(1) >> torch.arange(8) & 1  # (bytes, 8)
        return unpacked.flatten()[: self.vocab_size].bool()


@dataclass
class Parser:
    """A request's parser, and the tokens that it has read. Mutable."""

    parser: LLMatcher
    tokens: list[int] = field(default_factory=list[int])

    def at(self, tokens: Sequence[int]) -> LLMatcher | None:
        """The parser after these tokens, rolled back to what it has in common with them.

        None where it cannot read them.
        """
        pairs = enumerate(zip(self.tokens, tokens, strict=False))
        shorter = min(len(self.tokens), len(tokens))
        common = next((i for i, (old, new) in pairs if old != new), shorter)
        self.parser.rollback(len(self.tokens) - common)
        num_read = self.parser.try_consume_tokens(list(tokens[common:]))
        self.tokens = [*tokens[: common + num_read]]
        return self.parser if len(self.tokens) == len(tokens) else None


@dataclass(frozen=True)
class SchemaMatcher:
    """A place in a JSON text, after these tokens."""

    grammar: SchemaGrammar
    parser: Parser
    tokens: tuple[int, ...] = ()
    has_ended: bool = False

    @property
    def is_complete(self) -> bool:
        """Whether the text has ended, or nothing may follow but its end."""
        parser = None if self.has_ended else self.parser.at(self.tokens)
        return parser is None or parser.is_stopped()

    def after(self, tokens: Sequence[int]) -> SchemaMatcher:
        """The place that these tokens lead to."""
        ends = self.has_ended or not set(self.grammar.end_tokens).isdisjoint(tokens)
        return replace(self, tokens=(*self.tokens, *tokens), has_ended=ends)

    def restarted(self, tokens: Sequence[int]) -> SchemaMatcher:
        """The place after only these tokens."""
        return SchemaMatcher(self.grammar, self.parser).after(tokens)

    def masks(self, drafts: Sequence[int] = ()) -> Tensor:
        """The tokens that may follow: here, and after each of the drafts. (K + 1, V) bool."""
        import torch

        masks: list[Tensor] = []
        for i in range(len(drafts) + 1):
            parser = self.parser.at((*self.tokens, *drafts[:i]))
            every = torch.ones(self.grammar.vocab_size, dtype=torch.bool)
            masks.append(every if parser is None else self.grammar.mask(parser))
        if not all(mask.any() for mask in masks):
            raise PolicyError("no token of the vocabulary may follow in the JSON text")
        return torch.stack(masks)
