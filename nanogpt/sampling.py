"""From logits to a token, with draws that no schedule can change.

Every draw is a function of (seed, request id, position, purpose) alone: whoever shares the batch,
however often the request was preempted, position 17 of request 3 gets the same random number.
"""

import hashlib

import torch
from torch import Tensor


def uniform(seed: int, request_id: int, position: int, purpose: str) -> float:
    """A uniform draw in [0, 1) that depends on its four names only.

    `position` is the position of the token being drawn; `purpose` keeps draws for different ends
    (a sample, an acceptance test) independent of each other.
    """
    name = f"{seed}/{request_id}/{position}/{purpose}".encode()
    digest = hashlib.blake2b(name, digest_size=8).digest()
    return (int.from_bytes(digest, "big") >> 11) / 2**53


def sample_token(logits: Tensor, temperature: float, draw: float) -> int:
    """Pick the token: the most likely one at temperature 0, else by inverting the distribution.

    Shapes: logits (V,). `draw` is uniform in [0, 1) and ignored at temperature 0.
    """
    if temperature == 0:
        return int(logits.argmax())
    weights = torch.softmax(logits.double() / temperature, dim=-1)  # (V,)
    cumulative = weights.cumsum(-1)  # (V,)
    token = int(torch.searchsorted(cumulative, draw * cumulative[-1], right=True))
    return min(token, len(logits) - 1)


def check_temperature(temperature: float) -> None:
    """Raises: ValueError for a temperature that is negative or not a number."""
    if not 0 <= temperature < float("inf"):
        raise ValueError(
            f"temperature is {temperature}; it must be 0 (greedy) or a positive number"
        )
