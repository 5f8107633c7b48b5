"""Speculative decoding's arithmetic: which drafted token stays, what is gained, what to roll back.

Source: Leviathan, Kalman, Matias, "Fast Inference from Transformers via Speculative Decoding",
arXiv 2211.17192: Algorithm 1, Equation 1, Theorem 3.8.
"""

from collections.abc import Sequence


def accept(
    p: Sequence[float], q: Sequence[float], token: int, u: float, v: float
) -> tuple[bool, int]:
    """Whether the drafted token stays, and the token that stands at its position either way.

    `p` and `q` are the target's and the draft's probabilities (V numbers each), `token` was drawn
    from q, `u` and `v` are uniform in [0, 1). The token stays with probability min(1, p / q);
    else one is drawn, by `v`, from the positive part of p - q. What stands is then distributed
    as p, whatever q is.
    """
    if u * q[token] < p[token]:
        return True, token
    rest = [max(0.0, p_i - q_i) for p_i, q_i in zip(p, q, strict=True)]
    if not any(rest):  # p is q up to rounding, and u as close to 1
        return True, token
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


def expected_tokens(p: float, k: int) -> float:
    """Tokens per verifying pass when each of `k` drafts is accepted with probability `p`.

    1 + p + ... + p^k: the bonus or the resampled token counts. (1 - p^(k+1)) / (1 - p) for p < 1.
    """
    return sum(p**i for i in range(k + 1))


def speedup(p: float, k: int, alpha: float) -> float:
    """Tokens per unit of time against plain decoding, a draft token costing `alpha` target passes.

    The draft runs `k` times for every verifying pass, which is taken to cost what a decode costs.
    """
    return expected_tokens(p, k) / (1 + k * alpha)


def roll_back_kv(held: int, num_drafted: int, num_accepted: int) -> int:
    """How many KV tokens stay after a verifying pass that left `held` of them.

    The pass computed K/V of the last known token and of every draft. Rejected drafts go; the
    token drawn in the place of the first of them, or after the last, has no K/V yet.
    """
    return held - (num_drafted - num_accepted)
