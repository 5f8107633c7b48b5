"""Tokenizers: 65 characters, and GPT-2's byte pairs, whose pieces are what it decodes itself."""

import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from byte_pair_folders import END, GOLDEN, TEXTS, VOCAB_SIZE, make_folder, trained
from hypothesis import given
from hypothesis import strategies as st

from nanogpt import decode, encode
from nanogpt.checkpoints.byte_pairs import BytePairs, load_tokenizer
from nanogpt.checkpoints.tokenizer import ALPHABET, Characters


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_folder(tmp_path_factory.mktemp("gpt2") / "folder")


@pytest.fixture(scope="module")
def pairs(folder: Path) -> BytePairs:
    return BytePairs(folder)


@pytest.fixture(scope="module")
def theirs(folder: Path) -> Any:
    return load_tokenizer(folder)


def joined(pairs: BytePairs, tokens: list[int]) -> bytes:
    return b"".join(map(pairs.piece, tokens))


# ---------------------------------------------------------------- characters


def test_the_65_characters_are_encoded_as_nanogpts_and_decoded_again():
    assert len(ALPHABET) == 65 and sorted(set(ALPHABET)) == list(ALPHABET)
    assert encode("\n !Aaz") == [0, 1, 2, 13, 39, 64]
    assert decode(encode(ALPHABET[::-1])) == ALPHABET[::-1]
    assert (encode(""), decode([])) == ([], "")


def test_a_character_or_a_token_that_is_none_is_named():
    characters = Characters()
    assert b"".join(map(characters.piece, characters.encode("To be"))) == b"To be"
    assert characters.end_tokens == ()
    characters.check_fits(65)
    with pytest.raises(ValueError, match="has 66 tokens; the tokenizer has 65"):
        characters.check_fits(66)
    with pytest.raises(ValueError, match="character 'é' is not among the 65"):
        characters.encode("café")
    for token in (-1, 65):
        with pytest.raises(ValueError, match=rf"token {token} .* 0\.\.64"):
            characters.piece(token)


# ---------------------------------------------------------------- byte pairs


@given(tokens=st.lists(st.integers(0, VOCAB_SIZE - 1), max_size=40))
def test_the_pieces_of_any_tokens_are_what_the_tokenizer_decodes(tokens, pairs, theirs):
    assert joined(pairs, tokens).decode(errors="replace") == theirs.decode(tokens)


@given(text=st.text(max_size=20) | st.sampled_from(TEXTS))
def test_any_text_comes_back_from_its_tokens(text, pairs, theirs):
    tokens = pairs.encode(text)
    assert joined(pairs, tokens) == text.encode()
    assert tokens == theirs.encode(text).ids


def test_a_token_may_be_a_part_of_a_character_or_end_the_text(pairs: BytePairs):
    tokens = pairs.encode("🙃")
    assert len(tokens) > 1
    with pytest.raises(UnicodeDecodeError):
        pairs.piece(tokens[0]).decode()
    assert pairs.end_tokens == (0,) and pairs.piece(0) == b""
    assert pairs.encode(f"be{END}be") == [*pairs.encode("be"), 0, *pairs.encode("be")]


def test_an_added_token_that_is_not_special_is_its_text(tmp_path: Path):
    folder = make_folder(tmp_path / "more")
    tokenizer = trained()
    tokenizer.add_tokens(["<→ now>"])
    tokenizer.save(str(folder / "tokenizer.json"))
    pairs = BytePairs(folder)
    assert pairs.encode("a<→ now>")[-1] == VOCAB_SIZE
    assert pairs.piece(VOCAB_SIZE) == "<→ now>".encode()
    with pytest.raises(ValueError, match="tokens up to 320; the model's vocabulary ends at 319"):
        pairs.check_fits(VOCAB_SIZE)
    pairs.check_fits(VOCAB_SIZE + 1)


def test_settings_for_training_change_no_prompt(tmp_path: Path, pairs: BytePairs):
    folder = make_folder(tmp_path / "training")
    for set_up in (
        lambda tokenizer: tokenizer.enable_truncation(3),
        lambda tokenizer: tokenizer.enable_padding(length=200),
        lambda tokenizer: setattr(tokenizer.model, "dropout", 0.5),
    ):
        tokenizer = trained()
        set_up(tokenizer)
        tokenizer.save(str(folder / "tokenizer.json"))
        served, loaded = BytePairs(folder), load_tokenizer(folder)
        for text in TEXTS:
            assert served.encode(text) == loaded.encode(text).ids == pairs.encode(text)


def test_vocab_and_merges_make_the_same_tokenizer(folder: Path, tmp_path: Path, pairs: BytePairs):
    shutil.copy(folder / "config.json", tmp_path)
    trained().model.save(str(tmp_path))
    assert {path.name for path in tmp_path.iterdir()} >= {"merges.txt", "vocab.json"}
    older = BytePairs(tmp_path)
    for text in [*TEXTS, f"a{END}b", " \n\t x"]:
        assert older.encode(text) == pairs.encode(text)
    assert [older.piece(t) for t in range(VOCAB_SIZE)] == [
        pairs.piece(t) for t in range(VOCAB_SIZE)
    ]


def test_a_character_without_a_token_is_named():
    pairs = BytePairs(GOLDEN)  # its tokenizer has 15 letters
    assert pairs.encode(f"To be{END}") == [20, 18, 0]
    for text, unknown in (("To be, X", "X"), ("to é", "é")):
        with pytest.raises(ValueError, match=f"^character '{unknown}' has no token"):
            pairs.encode(text)
    assert pairs.piece(47) == b""  # the model has 48 tokens, and the tokenizer 40
    pairs.check_fits(48)


def test_damaged_files_and_other_kinds_are_refused(tmp_path: Path):
    from tokenizers.decoders import WordPiece

    folder = make_folder(tmp_path / "wrong")
    path, config = folder / "tokenizer.json", folder / "config.json"
    other = trained()
    other.decoder = WordPiece()
    other.save(str(path))
    with pytest.raises(ValueError, match="its decoder is WordPiece; only ByteLevel"):
        BytePairs(folder)
    path.write_text("{}")
    with pytest.raises(ValueError, match="is not a readable tokenizer"):
        BytePairs(folder)
    path.unlink()
    (folder / "vocab.json").write_text("{")
    with pytest.raises(ValueError, match=r"no tokenizer\.json in .*, nor vocab\.json and merges"):
        BytePairs(folder)
    trained().save(str(path))
    (folder / "generation_config.json").unlink()
    ends = {"1.5": "a whole number", "-1": "at least 0", "4294967296": "at most 4294967295"}
    for end, said in ends.items():
        config.write_text(f'{{"eos_token_id": {end}}}')
        with pytest.raises(ValueError, match=rf"eos_token_id is {re.escape(end)}; .* be {said}"):
            BytePairs(folder)
    config.write_text("{}")
    assert BytePairs(folder).end_tokens == ()
