"""Messages between the router and its workers: frozen data, pickled.

The first order is `Load`, each other a `Request` to serve, or `Forget`. A worker sends `Stepped`
after every committed step: its tokens, its progress, and the blocks that can be found from then on.
`Aborted` reports requests that it gave up.
"""

from dataclasses import dataclass

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
class Aborted:
    """The engine refused or aborted these requests, and goes on with the others.

    Without `is_certain` a step failed with them, and the worker goes on with empty blocks.
    """

    request_ids: tuple[int, ...]
    error: str
    is_certain: bool = True


@dataclass(frozen=True, slots=True)
class Crashed:
    """The worker cannot start, or go on, and ends."""

    error: str
