"""GPT-2's tokenizer, token by token: the pieces of any text are what the tokenizer itself says."""

import json
import shutil
from pathlib import Path

import pytest
from byte_pair_folders import END, GOLDEN, TEXTS, VOCAB_SIZE, make_folder, trained
from generated import examples
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer
from tokenizers.decoders import WordPiece

from nanogpt.checkpoints.byte_pairs import BYTE_OF, BytePairs
from nanogpt.checkpoints.pieces import Characters
from nanogpt.checkpoints.tokenizer import ALPHABET

TOKENS = st.lists(st.integers(0, VOCAB_SIZE - 1), max_size=40)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_folder(tmp_path_factory.mktemp("gpt2") / "folder")


@pytest.fixture(scope="module")
def pairs(folder: Path) -> BytePairs:
    return BytePairs(folder)


@pytest.fixture(scope="module")
def theirs(folder: Path) -> Tokenizer:
    return Tokenizer.from_file(str(folder / "tokenizer.json"))


def joined(pairs: BytePairs, tokens: list[int]) -> bytes:
    return b"".join(map(pairs.piece, tokens))


def test_each_byte_has_a_name_of_its_own():
    assert sorted(BYTE_OF.values()) == list(range(256)) and len(BYTE_OF) == 256
    assert (BYTE_OF["Ġ"], BYTE_OF["Ċ"], BYTE_OF["!"], BYTE_OF["Ń"]) == (32, 10, 33, 0xAD)


@examples(400)
@given(tokens=TOKENS)
def test_the_pieces_of_any_tokens_are_what_the_tokenizer_decodes(
    tokens: list[int], pairs: BytePairs, theirs: Tokenizer
):
    assert joined(pairs, tokens).decode(errors="replace") == theirs.decode(tokens)


@examples(300)
@given(text=st.text(max_size=20) | st.sampled_from(TEXTS))
def test_any_text_comes_back_from_its_tokens(text: str, pairs: BytePairs, theirs: Tokenizer):
    tokens = pairs.encode(text)
    assert joined(pairs, tokens) == text.encode()
    assert tokens == theirs.encode(text).ids


def test_a_token_may_be_a_part_of_a_character(pairs: BytePairs):
    tokens = pairs.encode("🙃")
    assert len(tokens) > 1
    with pytest.raises(UnicodeDecodeError):
        pairs.piece(tokens[0]).decode()


def test_the_token_that_ends_a_text_says_nothing(pairs: BytePairs):
    assert pairs.end_token == 0 and pairs.piece(0) == b""
    assert pairs.encode(f"be{END}be") == [*pairs.encode("be"), 0, *pairs.encode("be")]


def test_an_added_token_that_is_not_special_is_its_text(tmp_path: Path):
    folder = make_folder(tmp_path / "more")
    tokenizer = trained()
    tokenizer.add_tokens(["<→ now>"])
    tokenizer.save(str(folder / "tokenizer.json"))
    pairs = BytePairs(folder)
    assert pairs.encode("a<→ now>")[-1] == VOCAB_SIZE
    assert pairs.piece(VOCAB_SIZE) == "<→ now>".encode()
    assert tokenizer.decode([VOCAB_SIZE]) == "<→ now>"
    with pytest.raises(ValueError, match="tokens up to 320; the model's vocabulary ends at 319"):
        pairs.check_fits(VOCAB_SIZE)
    pairs.check_fits(VOCAB_SIZE + 1)


def test_vocab_and_merges_make_the_same_tokenizer(folder: Path, tmp_path: Path, pairs: BytePairs):
    older = tmp_path / "older"
    older.mkdir()
    shutil.copy(folder / "config.json", older)
    trained().model.save(str(older))
    assert sorted(path.name for path in older.iterdir()) == [
        "config.json", "merges.txt", "vocab.json",
    ]  # fmt: skip
    theirs = BytePairs(older)
    for text in [*TEXTS, f"a{END}b", " \n\t x"]:
        assert theirs.encode(text) == pairs.encode(text)
    for token in range(VOCAB_SIZE):
        assert theirs.piece(token) == pairs.piece(token)


def test_a_character_without_a_token_is_named():
    pairs = BytePairs(GOLDEN)  # its tokenizer has 15 letters
    assert pairs.encode(f"To be{END}") == [20, 18, 0]
    for text, unknown in (("To be, X", "X"), ("to é", "é"), ("<", "<")):
        with pytest.raises(ValueError, match=f"^character '{unknown}' has no token"):
            pairs.encode(text)
    assert pairs.piece(47) == b""  # the model has 48 tokens, and the tokenizer 40
    pairs.check_fits(48)


def test_damaged_files_and_other_kinds_are_refused(tmp_path: Path):
    folder = make_folder(tmp_path / "wrong")
    path, config = folder / "tokenizer.json", folder / "config.json"
    other = trained()
    other.decoder = WordPiece()
    other.save(str(path))
    with pytest.raises(ValueError, match="its decoder is WordPiece; only ByteLevel"):
        BytePairs(folder)
    path.unlink()
    with pytest.raises(ValueError, match=r"no tokenizer\.json in .*, nor vocab\.json and merges"):
        BytePairs(folder)
    (folder / "vocab.json").write_text("{")
    with pytest.raises(ValueError, match=r"there is a vocab\.json in .*, and no merges\.txt"):
        BytePairs(folder)
    (folder / "merges.txt").write_text("")
    with pytest.raises(ValueError, match="are no readable tokenizer"):
        BytePairs(folder)
    trained().save(str(path))
    config.write_text(json.dumps({"eos_token_id": [0, 1]}))
    with pytest.raises(ValueError, match=r"eos_token_id is \[0, 1\]; it must be a whole number"):
        BytePairs(folder)
    config.write_text("{}")
    assert BytePairs(folder).end_token is None


def test_the_character_models_pieces_are_its_characters():
    characters = Characters()
    assert characters.encode("To be") == [32, 53, 1, 40, 43]
    assert b"".join(map(characters.piece, range(65))) == ALPHABET.encode()
    assert characters.end_token is None
    for token in (-1, 65):
        with pytest.raises(ValueError, match=f"token {token} is outside the vocabulary 0..64"):
            characters.piece(token)
    with pytest.raises(ValueError, match="has 66 tokens; the tokenizer has 65"):
        characters.check_fits(66)
    characters.check_fits(65)
