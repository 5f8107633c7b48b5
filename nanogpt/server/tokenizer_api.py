"""vLLM's routes for the tokenizer: bodies of `/tokenize` and `/detokenize`, and their answers.

Source: vLLM's request and response fields, `vllm/entrypoints/serve/tokenize/protocol.py`.
"""

from typing import Any

from nanogpt.server.api_errors import bad_request
from nanogpt.server.openai_api import Limits, check_tokens
from nanogpt.server.openai_bodies import DetokenizeBody, TokenizeBody, convert


def tokenize(body: bytes, limits: Limits) -> dict[str, Any]:
    """The tokens of a text or of a conversation, however long. Raises: ApiError."""
    sent = convert(body, TokenizeBody)
    limits.check_model(sent.model or limits.model_name)
    where, text = ("messages" if sent.messages else "prompt"), sent.prompt
    if sent.messages and text is None:
        text = limits.prompt(sent.messages)
    elif sent.messages or text is None:
        raise bad_request("prompt", "the body must have either a prompt or messages")
    try:
        tokens = limits.tokenizer.encode(text)
    except ValueError as error:
        raise bad_request(where, str(error)) from None
    names = [*map(limits.tokenizer.name, tokens)] if sent.return_token_strs else None
    most = limits.max_tokens - 1
    return {"count": len(tokens), "max_model_len": most, "tokens": tokens, "token_strs": names}


def detokenize(body: bytes, limits: Limits) -> dict[str, Any]:
    """The text of tokens, special ones by their names. Raises: ApiError."""
    sent, tokenizer = convert(body, DetokenizeBody), limits.tokenizer
    limits.check_model(sent.model or limits.model_name)
    check_tokens(sent.tokens, "tokens", limits)
    pieces = [tokenizer.piece(token) or tokenizer.name(token).encode() for token in sent.tokens]
    return {"prompt": b"".join(pieces).decode(errors="replace")}


def tokenizer_info(limits: Limits) -> dict[str, Any]:
    """The tokenizer's properties, under the names of Hugging Face's tokenizer_config.json."""
    tokenizer = limits.tokenizer
    end = next(map(tokenizer.name, tokenizer.end_tokens), None)
    kind, most = type(tokenizer).__name__, limits.max_tokens - 1
    return {"tokenizer_class": kind, "model_max_length": most, "bos_token": end, "eos_token": end}
