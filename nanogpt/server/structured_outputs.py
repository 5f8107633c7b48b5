"""The grammar that a body asks for: OpenAI's `response_format`, vLLM's `structured_outputs`.

Source: OpenAI's API reference, structured outputs; vLLM 0.33.0, `StructuredOutputsParams`.
"""

import functools
import re
from collections.abc import Sequence
from typing import Any

from nanogpt.checkpoints.tokenizer import Tokenizer
from nanogpt.grammar.matchers import RegexGrammar
from nanogpt.sampling import Grammar
from nanogpt.server.api_errors import bad_request
from nanogpt.server.openai_bodies import Body
from nanogpt.validate import show

MAX_PATTERN = 4096


def grammar_of(sent: Body, tokenizer: Tokenizer, vocab_size: int) -> Grammar | None:
    """The grammar of a body's answers. Raises: ApiError for one that cannot be used."""
    for name, read in (("structured_outputs", _outputs), ("response_format", _response_format)):
        if getattr(sent, name) is not None:
            try:
                return read(getattr(sent, name), tokenizer, vocab_size)
            except ValueError as error:
                raise bad_request(name, f"{name}: {error}") from None
            except ImportError:
                said = "needs the package llguidance: pip install -e .[grammar]"
                raise bad_request(name, f"{name} {said}", "unsupported_value") from None
    return None


def _outputs(asked: dict[str, Any], tokenizer: Tokenizer, vocab_size: int) -> Grammar:
    match asked:
        case {"regex": str(pattern)} if len(asked) == 1:
            pass
        case {"choice": [str(), *_] as texts} if len(asked) == 1 and _are_texts(texts):
            pattern = "|".join(map(re.escape, texts))
        case _:
            said = "it must be one regex, or one choice of texts"
            raise ValueError(f"it is {show(asked)}; {said}")
    if len(pattern) > MAX_PATTERN:
        raise ValueError(f"its pattern has {len(pattern)} characters; at most {MAX_PATTERN}")
    return _regex_grammar(pattern, tokenizer, vocab_size)


def _are_texts(texts: Sequence[Any]) -> bool:
    return all(isinstance(text, str) and text for text in texts)


def _response_format(
    asked: dict[str, Any], tokenizer: Tokenizer, vocab_size: int
) -> Grammar | None:
    match asked:
        case {"type": "text"}:
            return None
        case {"type": "json_object"}:
            schema: dict[str, Any] = {"type": "object"}
        case {"type": "json_schema", "json_schema": {"schema": dict(schema)}}:
            pass
        case _:
            said = "type 'text', 'json_object' or 'json_schema', the last with its schema"
            raise ValueError(f"it is {show(asked)}; it must have {said}")
    from nanogpt.grammar.schema_grammar import SchemaGrammar

    return SchemaGrammar(schema, _schema_vocabulary(tokenizer, vocab_size))


@functools.lru_cache(maxsize=64)
def _regex_grammar(pattern: str, tokenizer: Tokenizer, vocab_size: int) -> Grammar:
    """One grammar for all requests with the pattern, so that they share its masks."""
    texts = [_text(tokenizer.piece(token)) for token in range(vocab_size)]
    return RegexGrammar(pattern, tuple(texts), tokenizer.end_tokens)


@functools.lru_cache(maxsize=2)
def _schema_vocabulary(tokenizer: Tokenizer, vocab_size: int) -> Any:
    from nanogpt.grammar.schema_grammar import SchemaVocabulary

    pieces = [tokenizer.piece(token) for token in range(vocab_size)]
    return SchemaVocabulary(pieces, tokenizer.end_tokens)


def _text(piece: bytes) -> str:
    """A token's characters; none where it is a part of one."""
    try:
        return piece.decode()
    except UnicodeDecodeError:
        return ""
