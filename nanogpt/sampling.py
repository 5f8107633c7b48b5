"""From logits to a token, with draws that no schedule can change.

Every draw is a function of (seed, request id, position, purpose) alone: whatever shares the batch,
however often the request was preempted, position 17 of request 3 gets the same random number.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from nanogpt.validate import show

if TYPE_CHECKING:
    from torch import Tensor

MOST_SEED = 2**64 - 1


class SamplingParams(Struct, frozen=True, gc=False):
    """How a request's tokens are drawn: the draws are keyed by `seed` and `stream_id`."""

    temperature: float = 0.0
    seed: int = 0
    stream_id: int = 0


GREEDY = SamplingParams()


def uniform(seed: int, request_id: int, position: int, purpose: str) -> float:
    """A uniform draw in [0, 1) that depends on its four names only.

    `position` is the position of the token being drawn; `purpose` keeps draws for different ends
    (a sample, an acceptance test) independent of each other.
    """
    name = f"{seed}/{request_id}/{position}/{purpose}".encode()
    digest = hashlib.blake2b(name, digest_size=8).digest()
    return (int.from_bytes(digest, "big") >> 11) / 2**53


def sample_tokens(logits: Tensor, temperature: float, draws: Sequence[float]) -> list[int]:
    """Pick a token per row: the most likely at temperature 0, else by inverting the distribution.

    Shapes: logits (R, V), draws R uniform numbers in [0, 1), ignored at temperature 0.
    """
    import torch

    if temperature == 0:
        return logits.argmax(-1).tolist()
    cumulative = probabilities(logits, temperature).cumsum(-1)  # (R, V)
    # The last sum may fall a rounding error short of 1, and the draw must stay below it.
    below_one = torch.tensor(draws, dtype=torch.float64, device=logits.device)  # (R,)
    targets = below_one.unsqueeze(1) * cumulative[:, -1:]  # (R, 1)
    tokens = torch.searchsorted(cumulative, targets, right=True).squeeze(1)  # (R,)
    return tokens.clamp(max=logits.shape[-1] - 1).tolist()


def probabilities(logits: Tensor, temperature: float) -> Tensor:
    """What a token is drawn with; at temperature 0 all of it on the most likely.

    Shapes: logits (R, V) -> (R, V), float64.
    """
    import torch
    import torch.nn.functional as F

    if temperature == 0:
        return F.one_hot(logits.argmax(-1), logits.shape[-1]).double()  # (R, V)
    below_best = logits.double() - logits.max(dim=-1, keepdim=True).values  # (R, V)
    return torch.softmax(below_best / float(temperature), dim=-1)  # (R, V)


def check_temperature(temperature: float) -> None:
    """Raises: ValueError for a temperature that is negative or not a number."""
    number = type(temperature) in (int, float)
    if not (number and 0 <= temperature <= sys.float_info.max):
        raise ValueError(
            f"temperature is {show(temperature)}; it must be a finite int or "
            "float, 0 (greedy) or positive"
        )
