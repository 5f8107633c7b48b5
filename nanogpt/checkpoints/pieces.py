"""Tokenizers as a server uses them: text to tokens, and each token's bytes.

A byte-level token may be half a character, so a token has bytes and no text. Whoever shows a text
joins its pieces, and waits until a character is whole.
"""

from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from nanogpt.checkpoints.tokenizer import ALPHABET, decode, encode

if TYPE_CHECKING:
    from nanogpt.checkpoints.byte_pairs import BytePairs

Tokenizer: TypeAlias = "Characters | BytePairs"


class Characters:
    """The character model's tokenizer: a token is one of 65 characters.

    `end_token` ends a text, if there is one; a token stands for `max_token_length` characters at
    most.

    >>> Characters().piece(32)
    b'T'
    """

    end_token: int | None = None
    max_token_length = 1

    def encode(self, text: str) -> list[int]:
        """The text's tokens. Raises: ValueError naming a character that has none."""
        return encode(text)

    def piece(self, token: int) -> bytes:
        """The character's UTF-8. Raises: ValueError for an unknown token."""
        return decode([token]).encode()

    def check_fits(self, vocab_size: int) -> None:
        """Raises: ValueError for a model with tokens that are no characters."""
        if vocab_size > len(ALPHABET):
            raise ValueError(
                f"the model's vocabulary has {vocab_size} tokens; the tokenizer has {len(ALPHABET)}"
            )


CHARACTERS = Characters()


def tokenizer_for(path: Path | str) -> Tokenizer:
    """The tokenizer of a file with the character model, or of a folder with a GPT-2.

    Raises: ValueError for a folder without a usable tokenizer, or without the package `tokenizers`.
    """
    if not Path(path).is_dir():
        return CHARACTERS
    from nanogpt.checkpoints.byte_pairs import BytePairs

    try:
        return BytePairs(path)
    except ImportError:
        raise ValueError(
            "the package tokenizers is not installed; GPT-2's text needs it: pip install -r "
            "requirements-gpt2.txt"
        ) from None
