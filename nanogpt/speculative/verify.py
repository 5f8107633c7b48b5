"""Verifying: from the logits of one pass to the drafts that stay and the token after them.

    tokens of the row      last known   d1   d2   d3
    what its logits judge      d1       d2   d3   (bonus)

Shapes: K drafts, V vocabulary.
"""

from torch import Tensor

from nanogpt.parts.feature_protocols import Accept
from nanogpt.parts.seams import Drawn
from nanogpt.sampling import probabilities, sample_tokens, uniform
from nanogpt.speculative.proposal import Proposal


def verify(
    logits: Tensor,
    proposal: Proposal,
    position: int,
    temperature: float,
    seed: int,
    request_id: int,
    accept: Accept,
) -> Drawn:
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
        kept, stands = accept(target[i], q, token, u, v)
        if not kept:
            return Drawn(stands, i)
    num_drafts = len(proposal.tokens)
    draw = uniform(seed, request_id, position + num_drafts, "sample")
    return Drawn(sample_tokens(logits[-1:], temperature, [draw])[0], num_drafts)
