"""What the router orders and what its workers say: frozen data through pipes, pickled.

A worker says `Stepped` after every step, once the step has committed, and never before. That one
message carries the tokens, the progress, and the blocks that may be counted on from now on.

Shapes: V vocabulary.
"""

import pickle
from dataclasses import dataclass
from typing import IO, Any, TypeAlias

from torch import Tensor

from nanogpt.config import EngineConfig
from nanogpt.trace import PrefixHitRecord, WorkRecord


@dataclass(frozen=True, slots=True)
class Load:
    """Serve the model in the file `weights`, by these settings; the first order of all."""

    weights: str
    config: EngineConfig


@dataclass(frozen=True, slots=True)
class Serve:
    """Continue a prompt. With `want_logits`, the first token's logits come back with it."""

    request_id: int
    prompt_tokens: tuple[int, ...]
    max_new_tokens: int
    priority: int
    want_logits: bool
    temperature: float | None = None
    seed: int | None = None
    cache_salt: str | None = None


@dataclass(frozen=True, slots=True)
class Forget:
    """Start again with empty blocks; only between requests."""


Order: TypeAlias = Serve | Forget


@dataclass(frozen=True, slots=True)
class Ready:
    """The worker has done what `Load` or `Forget` asked, and its blocks are empty."""


@dataclass(frozen=True, slots=True)
class Stepped:
    """A step has committed: what it computed, what it found, and which requests left.

    `published` are the hashes of blocks that can be found from now on, `evicted` of those that no
    longer can. `logits` (V,) are those of first tokens, by request, where they were wanted.
    """

    work: tuple[WorkRecord, ...]
    hits: tuple[PrefixHitRecord, ...]
    preempted: tuple[int, ...]
    finished: tuple[int, ...]
    published: frozenset[str]
    evicted: frozenset[str]
    logits: dict[int, Tensor]


@dataclass(frozen=True, slots=True)
class Crashed:
    """The worker cannot go on, and ends."""

    error: str


Reply: TypeAlias = Ready | Stepped | Crashed


def send(stream: IO[bytes], message: Reply) -> None:
    """Write one message. Raises: OSError when the other end is closed."""
    stream.write(pickle.dumps(message))
    stream.flush()


def receive(stream: IO[bytes]) -> Any:
    """Wait for one message. Raises: EOFError, OSError or UnpicklingError when no whole one comes.

    A pickle says itself where it ends, so messages need no frame around them.
    """
    return pickle.load(stream)
