"""The chunk mask: past visible, future not."""

import pytest
import torch

from nanogpt.parts.masks import chunk_mask


def test_a_chunk_sees_its_past_and_itself_up_to_the_diagonal():
    assert chunk_mask(2, 3).int().tolist() == [[1, 1, 1, 0, 0], [1, 1, 1, 1, 0], [1, 1, 1, 1, 1]]


def test_a_first_chunk_is_plainly_causal():
    assert torch.equal(chunk_mask(0, 4), torch.ones(4, 4).tril().bool())


def test_a_single_token_sees_everything():
    assert chunk_mask(5, 1).tolist() == [[True] * 6]


@pytest.mark.parametrize("cut", [1, 3, 6])
def test_two_chunks_make_the_mask_of_the_whole(cut: int):
    whole = chunk_mask(0, 7)
    assert torch.equal(whole[:cut, :cut], chunk_mask(0, cut))
    assert torch.equal(whole[cut:], chunk_mask(cut, 7 - cut))
    assert not whole[:cut, cut:].any()
