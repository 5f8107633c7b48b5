"""The tokenizer: 65 characters, both ways, with words for what it does not know."""

import pytest

from nanogpt.checkpoints.tokenizer import ALPHABET, decode, encode


def test_the_vocabulary_has_65_distinct_sorted_characters():
    assert len(ALPHABET) == 65
    assert sorted(set(ALPHABET)) == list(ALPHABET)


def test_ids_are_those_of_nanogpt():
    assert encode("\n !Aaz") == [0, 1, 2, 13, 39, 64]


def test_decoding_undoes_encoding():
    assert decode(encode(ALPHABET[::-1])) == ALPHABET[::-1]


def test_the_empty_text_is_no_tokens():
    assert encode("") == []
    assert decode([]) == ""


def test_an_unknown_character_is_named():
    with pytest.raises(ValueError, match="character 'é' is not among the 65"):
        encode("café")


@pytest.mark.parametrize("token", [-1, 65])
def test_a_token_outside_the_vocabulary_is_named_with_the_limit(token: int):
    with pytest.raises(ValueError, match=rf"token {token} .* 0\.\.64"):
        decode([5, token])
