"""Messages between the router and its workers: frozen data, pickled.

An order is a `Request` to serve, or `Forget`. A worker sends `Stepped` after every committed step:
its tokens, its progress, and the blocks that can be found from then on.
"""

import pickle
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

from nanogpt.config import EngineConfig
from nanogpt.trace import PrefixHitRecord, WorkRecord


@dataclass(frozen=True, slots=True)
class Load:
    """Serve the model in the file `weights` with these settings; the first order."""

    weights: str
    config: EngineConfig


@dataclass(frozen=True, slots=True)
class Forget:
    """Start again with empty blocks; only between requests."""


@dataclass(frozen=True, slots=True)
class Ready:
    """`Load` or `Forget` is carried out: the blocks are empty."""


@dataclass(frozen=True, slots=True)
class Stepped:
    """A committed step.

    `published`: hashes of blocks that can be found from now on; `evicted`: of those that no longer
    can.
    """

    work: tuple[WorkRecord, ...]
    hits: tuple[PrefixHitRecord, ...]
    preempted: tuple[int, ...]
    finished: tuple[int, ...]
    published: frozenset[str]
    evicted: frozenset[str]


@dataclass(frozen=True, slots=True)
class Crashed:
    """The worker cannot go on, and ends."""

    error: str


# `Connection.send` would send tensors through shared memory once torch is imported.
def send(pipe: "Connection[Any, Any]", message: object) -> None:
    """Raises: OSError when the other end is closed."""
    pipe.send_bytes(pickle.dumps(message))


def receive(pipe: "Connection[Any, Any]") -> Any:
    """Wait for one message. Raises: EOFError or OSError when the other end is closed."""
    return pickle.loads(pipe.recv_bytes())
