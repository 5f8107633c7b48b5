"""Messages between the router and its workers: frozen data, pickled.

The first order is `Load`; the others are a `Request` to serve, `Prefill`, `Decode`, `Abort` and
`Forget`. A worker sends `Stepped` after every committed step: its tokens, its progress, and the
blocks that can be found from then on. `Aborted` reports requests that it gave up; `Sent` and
`Received` are the two ends of a transfer of K/V.
"""

from dataclasses import dataclass

from nanogpt.config import EngineConfig
from nanogpt.request import Request
from nanogpt.trace import PrefixHitRecord, WorkRecord


@dataclass(frozen=True, slots=True)
class Load:
    """Serve the model in the file `weights` with these settings; the first order."""

    weights: str
    config: EngineConfig


@dataclass(frozen=True, slots=True)
class Prefill:
    """Compute these tokens, and write the K/V of some of their blocks, by index, into a frame."""

    request: Request
    blocks: tuple[int, ...]
    path: str


@dataclass(frozen=True, slots=True)
class Decode:
    """Take K/V out of the frame at `path`, and serve the request."""

    request: Request
    path: str


@dataclass(frozen=True, slots=True)
class Abort:
    """Abort a request if it is unfinished."""

    request_id: int


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
class Sent:
    """The frame of a `Prefill` is written; `num_bytes` is 0 where it could not be."""

    request_id: int
    num_bytes: int


@dataclass(frozen=True, slots=True)
class Received:
    """The acknowledgement: the worker needs the frame no longer.

    `num_blocks` were taken out of it; `error` says why the frame was refused, if it was.
    """

    request_id: int
    num_blocks: int
    error: str = ""


@dataclass(frozen=True, slots=True)
class Crashed:
    """The worker cannot start, or go on, and ends."""

    error: str
