"""A draft that only counts: what followed the last two tokens in the training text, and how often.

Where a pair of tokens was seen seldom, or never, the counts behind the last one token and behind
none have a say (Witten-Bell interpolation: seen n times with t different followers, a context gets
the weight n / (n + t) and leaves t / (n + t) to the next shorter one). So nothing is impossible.

Source: Witten and Bell, "The zero-frequency problem", IEEE Trans. Inf. Theory 37 (1991), method C;
interpolated as in Chen and Goodman, "An Empirical Study of Smoothing Techniques" (1998).
Shapes: V vocabulary.
"""

import json
import os
from collections.abc import Sequence
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor

from nanogpt.checkpoints.filling import read_tensors

SHIPPED_COUNTS = Path(__file__).parent.parent / "checkpoints" / "trigram.safetensors"


class TrigramDraft:
    """The probabilities of the next token, looked up by the last two that are known."""

    def __init__(self, counts: Tensor) -> None:
        """Shapes: counts (V, V, V), how often the third token followed the first two."""
        pairs, singles = counts.sum(0), counts.sum((0, 1))  # (V, V), (V,)
        vocab_size = len(singles)
        flat = (singles.double() + 1) / (singles.sum().double() + vocab_size)  # (V,)
        self._after_none: list[float] = flat.tolist()
        by_one = _interpolate(pairs, flat)  # (V, V)
        self._after_one: list[list[float]] = by_one.tolist()
        self._after_two: list[list[list[float]]] = _interpolate(counts, by_one).tolist()

    @classmethod
    def load(cls, path: Path | str = SHIPPED_COUNTS) -> "TrigramDraft":
        """The shipped counts, or others that `save_counts` wrote.

        Raises: ValueError naming the file and what is wrong with it.
        """
        path = Path(path)
        if not path.is_file():
            raise ValueError(f"there is no file of counts at {path}")
        header, tensors = read_tensors(path)
        try:
            vocab_size = int(json.loads(header["vocab_size"]))
            counts = torch.zeros(vocab_size**3, dtype=torch.int64)
            counts[tensors["places"].long()] = tensors["times"].long()
        except (KeyError, ValueError, IndexError) as error:
            raise ValueError(f"{path} is not a readable file of counts: {error}") from None
        return cls(counts.view(vocab_size, vocab_size, vocab_size))

    def __call__(self, known: Sequence[int], /) -> Sequence[float]:
        """V numbers above 0 that sum to 1; not to be changed."""
        if len(known) > 1:
            return self._after_two[known[-2]][known[-1]]
        return self._after_one[known[-1]] if known else self._after_none


def count_trigrams(tokens: Tensor, vocab_size: int) -> Tensor:
    """How often each token followed each two. Shapes: tokens (N,) -> (V, V, V) int64."""
    first, second, third = tokens[:-2], tokens[1:-1], tokens[2:]  # (N - 2,) each
    places = (first * vocab_size + second) * vocab_size + third  # (N - 2,)
    return places.bincount(minlength=vocab_size**3).view(vocab_size, vocab_size, vocab_size)


def save_counts(counts: Tensor, path: Path) -> None:
    """Write the counts (V, V, V) that are not 0 and where they stand, all or nothing."""
    flat = counts.flatten()
    places = flat.nonzero().squeeze(1)  # (M,)
    partial = path.with_suffix(".partial")
    tensors = {"places": places.int(), "times": flat[places].int()}
    save_file(tensors, partial, {"vocab_size": json.dumps(counts.shape[0])})
    os.replace(partial, path)


def _interpolate(counts: Tensor, shorter: Tensor) -> Tensor:
    """Counts (..., V, V) behind some context, filled up with the `shorter` one's (V, V) or (V,)."""
    seen = counts.sum(-1, keepdim=True).double()  # (..., V, 1)
    kinds = (counts > 0).sum(-1, keepdim=True).double()  # (..., V, 1)
    # A context that never occurred leaves everything to the shorter one.
    kinds = kinds.masked_fill(seen == 0, 1.0)
    return (counts + kinds * shorter) / (seen + kinds)
