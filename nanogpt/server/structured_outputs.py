"""The grammar that a body asks for: OpenAI's `response_format`, vLLM's `structured_outputs`.

Source: OpenAI's API reference and vLLM's documentation, structured outputs, November 2026.
"""

import functools
import re
from collections.abc import Mapping
from typing import Any

from nanogpt.checkpoints.tokenizer import Characters, Tokenizer
from nanogpt.grammar.matchers import RegexGrammar
from nanogpt.server.api_errors import bad_request
from nanogpt.validate import show

MAX_PATTERN = 4096


def grammar_of(
    asked: Mapping[str, dict[str, Any] | None], tokenizer: Tokenizer, vocab_size: int
) -> Any:
    """The grammar for these fields of a body, or None. Raises: ApiError."""
    for name, value in asked.items():
        try:
            match name, value:
                case _, None | {"type": "text"}:
                    continue
                case "structured_outputs", {"regex": str(pattern)} if len(value) == 1:
                    return _regex_grammar(pattern, tokenizer, vocab_size)
                case "structured_outputs", {"choice": [_, *_] as texts} if len(value) == 1:
                    pattern = "|".join(re.escape(str(text)) for text in texts)
                    return _regex_grammar(pattern, tokenizer, vocab_size)
                case "response_format", {"type": "json_object"}:
                    return _schema_grammar({"type": "object"}, tokenizer, vocab_size)
                case _, {"type": "json_schema", "json_schema": {"schema": dict(schema)}}:
                    return _schema_grammar(schema, tokenizer, vocab_size)
                case "response_format", _:
                    one = "type 'text', 'json_object', or 'json_schema' with a schema"
                case _:
                    one = "one regex, or one choice of texts"
            raise ValueError(f"it is {show(value)}; it must have {one}")
        except ValueError as error:
            raise bad_request(name, f"{name}: {error}") from None
        except ImportError:
            said = "needs the package llguidance: pip install -e .[grammar]"
            raise bad_request(name, f"{name} {said}", "unsupported_value") from None
    return None


@functools.lru_cache(maxsize=64)
def _regex_grammar(pattern: str, tokenizer: Tokenizer, vocab_size: int) -> RegexGrammar:
    """One grammar for all requests with the pattern, so that they share its masks."""
    if len(pattern) > MAX_PATTERN:
        raise ValueError(f"the pattern has {len(pattern)} characters; at most {MAX_PATTERN}")
    pieces = map(tokenizer.piece, range(vocab_size))
    # A token with a part of a character has no text of its own.
    texts = [
        text if "\ufffd" not in (text := piece.decode(errors="replace")) else "" for piece in pieces
    ]
    return RegexGrammar(pattern, tuple(texts), tokenizer.end_tokens)


def _schema_grammar(schema: dict[str, Any], tokenizer: Tokenizer, vocab_size: int) -> Any:
    from nanogpt.grammar.schema_grammar import SchemaGrammar

    if isinstance(tokenizer, Characters):
        raise ValueError("this model's vocabulary has no braces, so it cannot write JSON")
    return SchemaGrammar(schema, tokenizer.source(), vocab_size, tokenizer.end_tokens)
