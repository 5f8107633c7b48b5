"""The exchangeable parts of the engine: their signatures, their references, what they may answer.

request_view, cached_block  what policies see of a request, and of a block
protocols, feature_protocols    `Parts`: what may be exchanged, and what each is called with
masks, fusing, sliding_window, acceptance, blocks   references, beside `planning` and `policies`
ranking             the order of the queue under a policy
validate_policies   the answers that would corrupt the engine's state, refused
"""

from typing import TYPE_CHECKING

from nanogpt import lazy_names

if TYPE_CHECKING:
    from nanogpt.parts.protocols import ChunkInputs, ChunkMask, Parts, Resume

__all__ = ["ChunkInputs", "ChunkMask", "Parts", "Resume"]

# At their first use: `planning` and `policies`, from which `Parts` is made, import from here.
__getattr__ = lazy_names(__name__, dict.fromkeys(__all__, "protocols"))
