"""A tokenizer of byte pairs, read by the package `tokenizers` from the folder of the weights.

The folder holds tokenizer.json, or vocab.json and merges.txt of GPT-2's first release;
generation_config.json or config.json names the tokens that end a text. Source of the bytes' names:
`bytes_to_unicode` in the code of Radford et al., "Language models are unsupervised multitask
learners", 2019.
"""

from pathlib import Path
from typing import TYPE_CHECKING

from nanogpt.checkpoints.gpt2 import read_json
from nanogpt.validate import check_int

if TYPE_CHECKING:
    from tokenizers import Tokenizer

PRINTED = (*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100))
"""Bytes named by the character of that number; the others are named from 256 on."""
UNPRINTED = [byte for byte in range(256) if byte not in PRINTED]
BYTE_OF = {chr(byte): byte for byte in PRINTED} | {
    chr(256 + number): byte for number, byte in enumerate(UNPRINTED)
}
"""The byte that each character of a token's name stands for."""


def load_tokenizer(folder: Path | str) -> "Tokenizer":
    """The tokenizer beside the weights: `encode(text).ids` and `decode(ids)`.

    Truncation, padding and BPE dropout, which are for training, are switched off.
    Raises: ValueError for a missing or damaged file, or another kind of tokenizer than GPT-2's;
    ImportError where the package `tokenizers` is not installed.
    """
    from tokenizers import Tokenizer
    from tokenizers.decoders import ByteLevel
    from tokenizers.models import BPE

    folder = Path(folder)
    path = folder / "tokenizer.json"
    if not path.is_file():
        return _from_vocab_and_merges(folder)
    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # the package raises bare Exceptions
        raise ValueError(f"{path} is not a readable tokenizer: {error}") from None
    if not isinstance(tokenizer.decoder, ByteLevel):
        kind = type(tokenizer.decoder).__name__
        raise ValueError(f"{path}: its decoder is {kind}; only ByteLevel, GPT-2's, can be served")
    tokenizer.no_truncation()
    tokenizer.no_padding()
    if isinstance(tokenizer.model, BPE):
        tokenizer.model.dropout = None
    return tokenizer


def _from_vocab_and_merges(folder: Path) -> "Tokenizer":
    from tokenizers import AddedToken, Tokenizer
    from tokenizers.decoders import ByteLevel as Bytes
    from tokenizers.models import BPE
    from tokenizers.pre_tokenizers import ByteLevel

    vocab, merges = folder / "vocab.json", folder / "merges.txt"
    if not (vocab.is_file() and merges.is_file()):
        raise ValueError(f"there is no tokenizer.json in {folder}, nor vocab.json and merges.txt")
    try:
        tokenizer = Tokenizer(BPE.from_file(str(vocab), str(merges)))
    except Exception as error:
        raise ValueError(f"{vocab} and {merges} are no readable tokenizer: {error}") from None
    tokenizer.pre_tokenizer = ByteLevel(add_prefix_space=False)
    tokenizer.decoder = Bytes()
    for end in end_tokens_of(folder):
        name = tokenizer.id_to_token(end)
        if name is not None:
            tokenizer.add_special_tokens([AddedToken(name, special=True)])
    return tokenizer


def end_tokens_of(folder: Path | str) -> tuple[int, ...]:
    """The tokens that end a text. Raises: ValueError for an impossible value."""
    for name in ("generation_config.json", "config.json"):
        path = Path(folder) / name
        said = read_json(path).get("eos_token_id") if path.is_file() else None
        if said is not None:
            tokens = tuple(said) if isinstance(said, list) else (said,)
            for token in tokens:
                check_int(f"{path}: eos_token_id", token, 0, 2**32 - 1)
            return tokens
    return ()


def chat_template_of(folder: Path | str) -> tuple[str | None, dict[str, str]]:
    """The source of the chat template, and the names of the tokens that it may write."""
    folder = Path(folder)
    path, template = folder / "tokenizer_config.json", folder / "chat_template.jinja"
    said = read_json(path) if path.is_file() else {}
    source = template.read_text("utf-8") if template.is_file() else said.get("chat_template")
    if isinstance(source, list):  # several, by their names
        source = {each["name"]: each["template"] for each in source}.get("default")
    names = {name: said.get(name) for name in ("bos_token", "eos_token")}
    names = {name: x.get("content") if isinstance(x, dict) else x for name, x in names.items()}
    return source, {name: x or "" for name, x in names.items()}


class BytePairs:
    """The tokenizer of a folder in Hugging Face's form. Raises: as `load_tokenizer`.

    A special token has no text, and neither has a token beyond the tokenizer's.
    """

    def __init__(self, folder: Path | str) -> None:
        self._tokenizer = load_tokenizer(folder)
        self.end_tokens = end_tokens_of(folder)
        self.chat_template, self.template_names = chat_template_of(folder)
        self._begin: list[int] = self._tokenizer.encode("").ids  # Llama 3's texts begin with it
        added = self._tokenizer.get_added_tokens_decoder()
        self._added = tuple(each.content for each in added.values())
        vocab = self._tokenizer.get_vocab(with_added_tokens=True)
        self._num_ids = max(vocab.values(), default=-1) + 1
        special = {token for token, each in added.items() if each.special}
        self._pieces = {t: _bytes(name) for name, t in vocab.items() if t not in special}
        self.max_token_length = max(map(len, (*self._pieces.values(), *self._added)), default=1)
        self._unknown = {byte for name, byte in BYTE_OF.items() if name not in vocab}

    def encode(self, text: str) -> list[int]:
        """The text's tokens; the name of a special token is that token.

        Where the model's texts begin with a token, it comes first, once.

        Raises: ValueError naming a character that has no token.
        """
        if self._unknown:  # the published GPT-2 has a token for every byte
            rest = text
            for content in self._added:
                rest = rest.replace(content, "")
            for character in rest:
                if not self._unknown.isdisjoint(character.encode()):
                    raise ValueError(f"character {character!r} has no token in the tokenizer")
        # `encode_batch` lets other threads run meanwhile; `encode` does not.
        tokens: list[int] = self._tokenizer.encode_batch([text], add_special_tokens=False)[0].ids
        return tokens if tokens[: len(self._begin)] == self._begin else [*self._begin, *tokens]

    def source(self) -> str:
        """The tokenizer as the JSON that the package reads."""
        return self._tokenizer.to_str()

    def piece(self, token: int) -> bytes:
        """The token's bytes; none for a token that only the model has."""
        return self._pieces.get(token, b"")

    def name(self, token: int) -> str:
        """As the vocabulary has it, such as "Ġto"; empty for a token that only the model has."""
        return self._tokenizer.id_to_token(token) or ""

    def check_fits(self, vocab_size: int) -> None:
        """Raises: ValueError for a model with fewer tokens. More of them are padding."""
        if self._num_ids > vocab_size:
            raise ValueError(
                f"the tokenizer has tokens up to {self._num_ids - 1}; the model's vocabulary ends "
                f"at {vocab_size - 1}"
            )


def _bytes(name: str) -> bytes:
    """A token's bytes by its name; an added token is named by its text.

    >>> _bytes("Ġto"), _bytes("<€>")
    (b' to', b'<\\xe2\\x82\\xac>')
    """
    if all(character in BYTE_OF for character in name):
        return bytes(BYTE_OF[character] for character in name)
    return name.encode()
