"""Speculative decoding's arithmetic: which drafted token stays, what is gained, what to roll back.

Source: Leviathan, Kalman, Matias, "Fast Inference from Transformers via Speculative Decoding",
arXiv 2211.17192: Algorithm 1, Equation 1, Theorem 3.8.
"""

from collections.abc import Sequence


def rejection_sample(
    target_probs: Sequence[float],
    draft_probs: Sequence[float],
    draft_token: int,
    u: float,
    v: float,
) -> tuple[bool, int]:
    """Whether a drafted token is kept, and the token that stands at its position either way.

    Both distributions are V numbers; `draft_token` was drawn from `draft_probs`; `u` and `v` are
    uniform in [0, 1). The token is kept with probability min(1, target / draft); else one is drawn,
    by `v`, from the positive part of target - draft. The result is then distributed as the target,
    whatever the draft is.
    """
    if u * draft_probs[draft_token] < target_probs[draft_token]:
        return True, draft_token
    pairs = zip(target_probs, draft_probs, strict=True)
    rest = [max(0.0, target - draft) for target, draft in pairs]
    if not any(rest):  # the two are equal up to rounding, and u as close to 1
        return True, draft_token
    return False, draw(rest, v)


def draw(weights: Sequence[float], v: float) -> int:
    """The index that the uniform `v` picks in proportion to `weights`, which need not sum to 1.

    The first index whose cumulative weight exceeds v times the total.
    """
    target = v * sum(weights)
    cumulative = 0.0
    last = 0
    for index, weight in enumerate(weights):
        if weight > 0:
            cumulative += weight
            last = index
            if cumulative > target:
                return index
    return last  # the sum was a rounding error short


def expected_tokens(acceptance_rate: float, num_draft_tokens: int) -> float:
    """Tokens per verifying pass, each draft being accepted with the same probability p.

    1 + p + ... + p^k for k drafts: the bonus or the resampled token counts.
    """
    return sum(acceptance_rate**i for i in range(num_draft_tokens + 1))


def speedup(acceptance_rate: float, num_draft_tokens: int, draft_cost: float) -> float:
    """Tokens per unit of time against plain decoding; a draft token costs `draft_cost` passes.

    The draft runs once for each draft token; a verifying pass is taken to cost what a decode costs.
    """
    tokens = expected_tokens(acceptance_rate, num_draft_tokens)
    return tokens / (1 + num_draft_tokens * draft_cost)


def roll_back_kv(kv_tokens_used: int, num_drafted: int, num_accepted: int) -> int:
    """How many KV tokens stay after a verifying pass that left `kv_tokens_used`.

    The pass computed K/V of the last known token and of every draft. Rejected drafts go; the
    token drawn in the place of the first of them, or after the last, has no K/V yet.
    """
    return kv_tokens_used - (num_drafted - num_accepted)
