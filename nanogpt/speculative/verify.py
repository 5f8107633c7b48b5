"""Verifying: from the logits of one pass to the drafts that stay and the token after them.

    tokens of the row      last known   d1   d2   d3
    what its logits judge      d1       d2   d3   (bonus)

Shapes: K drafts, V vocabulary.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torch import Tensor

from nanogpt.outputs import Sampled
from nanogpt.sampling import probabilities, sample_tokens, uniform

RejectionSample = Callable[[Sequence[float], Sequence[float], int, float, float], tuple[bool, int]]
"""See `policies.acceptance.rejection_sample`."""


@dataclass(frozen=True, slots=True)
class Proposal:
    """Drafted tokens, and for each the distribution that it was drawn from, V numbers."""

    tokens: tuple[int, ...] = ()
    probabilities: tuple[Sequence[float], ...] = ()


def verify(
    logits: Tensor,
    proposal: Proposal,
    position: int,
    temperature: float,
    seed: int,
    request_id: int,
    rejection_sample: RejectionSample,
) -> Sampled:
    """Judge the drafts from the first on; the first rejected one is replaced, and ends it.

    `position` is that of the first draft. Draws are keyed by position and purpose, so one that
    was not used is as good as new in the next pass. With all K accepted, the last logits give one
    more token for nothing: the bonus. A position that has a draft is not drawn as one without, so
    at a temperature above 0 a seed fixes the distribution of a text and not the text.
    Shapes: logits (K + 1, V).
    """
    target = probabilities(logits, temperature).tolist()  # K + 1 lists of V
    for i, (token, q) in enumerate(zip(proposal.tokens, proposal.probabilities, strict=True)):
        u = uniform(seed, request_id, position + i, "accept")
        v = uniform(seed, request_id, position + i, "resample")
        kept, stands = rejection_sample(target[i], q, token, u, v)
        if not kept:
            return Sampled(stands, i)
    num_drafts = len(proposal.tokens)
    draw = uniform(seed, request_id, position + num_drafts, "sample")
    return Sampled(sample_tokens(logits[-1:], temperature, [draw])[0], num_drafts)
