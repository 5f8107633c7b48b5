"""Tokenizers: text to token ids and back, and each token's bytes, as a server uses them.

A byte-level token may be half a character, so a token has bytes and no text. Whoever shows a text
joins its pieces, and waits until a character is whole. The shipped model's tokens are the 65
characters of Tiny Shakespeare.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from nanogpt.checkpoints.byte_pairs import BytePairs

Tokenizer: TypeAlias = "Characters | BytePairs"

ALPHABET = "\n !$&',-.3:;?ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
"""Every character of Tiny Shakespeare, sorted: the character at index i has token id i."""

_ID_OF = {character: token for token, character in enumerate(ALPHABET)}


def encode(text: str) -> list[int]:
    """Turn `text` into token ids, one per character.

    Raises: ValueError naming the first character that the model has never seen.

    >>> encode("To be")
    [32, 53, 1, 40, 43]
    """
    try:
        return [_ID_OF[character] for character in text]
    except KeyError as unknown:
        raise ValueError(
            f"character {unknown.args[0]!r} is not among the {len(ALPHABET)} characters "
            "of the vocabulary"
        ) from None


def decode(tokens: Iterable[int]) -> str:
    """Turn token ids back into text.

    Raises: ValueError naming the first id outside 0 to 64.

    >>> decode([32, 53, 1, 40, 43])
    'To be'
    """
    characters: list[str] = []
    for token in tokens:
        if not 0 <= token < len(ALPHABET):
            raise ValueError(f"token {token} is outside the vocabulary 0..{len(ALPHABET) - 1}")
        characters.append(ALPHABET[token])
    return "".join(characters)


class Characters:
    """The character model's tokenizer: a token is one of 65 characters.

    Any of `end_tokens` ends a text; a token stands for `max_token_length` characters at most.
    `chat_template` is the source of the model's own, if it has one.

    >>> Characters().piece(32)
    b'T'
    """

    end_tokens: tuple[int, ...] = ()
    chat_template: str | None = None
    max_token_length = 1

    def encode(self, text: str) -> list[int]:
        """The text's tokens. Raises: ValueError naming a character that has none."""
        return encode(text)

    def piece(self, token: int) -> bytes:
        """The character's UTF-8. Raises: ValueError for an unknown token."""
        return decode([token]).encode()

    def name(self, token: int) -> str:
        """The character. Raises: ValueError for an unknown token."""
        return decode([token])

    def check_fits(self, vocab_size: int) -> None:
        """Raises: ValueError for a model with tokens that are no characters."""
        if vocab_size > len(ALPHABET):
            raise ValueError(
                f"the model's vocabulary has {vocab_size} tokens; the tokenizer has {len(ALPHABET)}"
            )


CHARACTERS = Characters()


def tokenizer_for(path: Path | str) -> Tokenizer:
    """The tokenizer of a file with the character model, or of a folder in Hugging Face's form.

    Raises: ValueError for a folder without a usable tokenizer, or without the package `tokenizers`.
    """
    if not Path(path).is_dir():
        return CHARACTERS
    from nanogpt.checkpoints.byte_pairs import BytePairs

    try:
        return BytePairs(path)
    except ImportError:
        raise ValueError(
            "the package tokenizers is not installed; a folder's text needs it: "
            "pip install -e .[gpt2]"
        ) from None
