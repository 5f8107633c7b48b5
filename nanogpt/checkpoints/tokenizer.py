"""Characters to token ids and back. Knows the 65 characters of Tiny Shakespeare, nothing else."""

from collections.abc import Iterable

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
