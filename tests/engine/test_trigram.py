"""The draft of counts: its law, its file, and that it never says never."""

import math
from fractions import Fraction
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from nanogpt import encode
from nanogpt.speculative.trigram import TrigramDraft, count_trigrams, save_counts


def by_hand(tokens: list[int], vocab_size: int, context: list[int]) -> list[Fraction]:
    """The law with dictionaries and fractions, from its definition."""
    triples = [tuple(tokens[i : i + 3]) for i in range(len(tokens) - 2)]
    singles = [triple[2] for triple in triples]
    law = [Fraction(singles.count(t) + 1, len(singles) + vocab_size) for t in range(vocab_size)]
    for order in range(1, 1 + min(2, len(context))):
        wanted = tuple(context[-order:])
        after = [triple[2] for triple in triples if triple[2 - order : 2] == wanted]
        if after:
            seen, kinds = len(after), len(set(after))
            law = [
                (after.count(t) + kinds * law[t]) / Fraction(seen + kinds)
                for t in range(vocab_size)
            ]
    return law


@given(
    st.lists(st.integers(0, 3), min_size=3, max_size=40),
    st.lists(st.integers(0, 3), max_size=4),
)
def test_the_law_is_the_one_counted_by_hand_and_every_token_keeps_some_chance(tokens, context):
    law = TrigramDraft(count_trigrams(torch.tensor(tokens), 4))(context)
    assert list(law) == pytest.approx([float(p) for p in by_hand(tokens, 4, context)])
    assert min(law) > 0
    assert math.isclose(sum(law), 1, abs_tol=1e-12)


def test_what_is_counted_and_saved_is_loaded_again(tmp_path: Path):
    counts = count_trigrams(torch.tensor([0, 1, 2, 0, 1, 2, 1]), 3)
    assert counts.sum() == 5
    assert counts[0, 1, 2] == 2 and counts[1, 2, 0] == 1 and counts[1, 2, 1] == 1
    save_counts(counts, tmp_path / "counts.safetensors")
    loaded, fresh = TrigramDraft.load(tmp_path / "counts.safetensors"), TrigramDraft(counts)
    for context in ([], [1], [0, 1], [2, 2], [1, 0, 1]):
        assert list(loaded(context)) == list(fresh(context))
    assert [path.name for path in tmp_path.iterdir()] == ["counts.safetensors"]


def test_the_shipped_counts_know_the_training_text():
    law = TrigramDraft.load()(encode("th"))
    assert len(law) == 65 and law.index(max(law)) == encode("e")[0]


@pytest.mark.parametrize("content", [None, b"no safetensors", b"\x02\0\0\0\0\0\0\0{}"])
def test_a_file_that_is_missing_or_broken_is_refused_by_name(tmp_path: Path, content):
    path = tmp_path / "counts.safetensors"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ValueError, match=r"counts\.safetensors"):
        TrigramDraft.load(path)
