"""The exchangeable parts of the engine: their signatures, their references, and the guard.

request_view, cached_block  what policies see of a request, and of a block
protocols, feature_protocols    `Parts`: what may be exchanged, and what each is called with
masks, fusing, sliding_window, acceptance, blocks   references, beside `planning` and `policies`
ranking             the order of the queue under a policy
guard               a learner's function under a time limit
part_checks, layout_checks, block_checks, plain_values  what it returns, checked and converted
"""

from typing import TYPE_CHECKING

from nanogpt import lazy_names

if TYPE_CHECKING:
    from nanogpt.parts.protocols import Accept, ChunkInputs, ChunkMask, Parts, Resume

__all__ = ["Accept", "ChunkInputs", "ChunkMask", "Parts", "Resume"]

# At their first use: the guard alone comes without torch.
__getattr__ = lazy_names(__name__, dict.fromkeys(__all__, "protocols"))
