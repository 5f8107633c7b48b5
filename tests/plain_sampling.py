"""`LogitsParams` once more, with lists and one token at a time, and parameters of every kind."""

import math
import random
from collections.abc import Sequence

from nanogpt.sampling import LogitsParams


def plain_probabilities(
    logits: Sequence[float],
    params: LogitsParams,
    prompt: Sequence[int],
    output: Sequence[int],
    temperature: float,
) -> list[float]:
    """What each token is drawn with, step by step as vLLM documents its sampler."""
    scores = list(logits)
    for token in range(len(scores)):
        if len(output) < params.min_tokens and token in params.stop_token_ids:
            scores[token] = -math.inf
        scores[token] += sum(bias for each, bias in params.logit_bias if each == token)
        if token in prompt or token in output:
            penalty = params.repetition_penalty
            scores[token] *= 1 / penalty if scores[token] > 0 else penalty
        scores[token] -= params.frequency_penalty * output.count(token)
        scores[token] -= params.presence_penalty * (token in output)
    if temperature == 0:
        best = scores.index(max(scores))
        return [float(token == best) for token in range(len(scores))]
    weights = [math.exp((score - max(scores)) / temperature) for score in scores]
    kept = [token for token, weight in enumerate(weights) if weight >= params.min_p]
    kept.sort(key=lambda token: -weights[token])
    if params.top_k > 0:
        kept = kept[: params.top_k]
    mass = sum(weights[token] for token in kept)
    nucleus: list[int] = []
    for token in kept:
        likelier = sum(weights[each] for each in nucleus)
        if params.top_p == 1 or likelier < params.top_p * mass:
            nucleus.append(token)
    total = sum(weights[token] for token in nucleus)
    return [w / total if token in nucleus else 0.0 for token, w in enumerate(weights)]


def any_params(chance: random.Random, vocab_size: int, max_new_tokens: int) -> LogitsParams:
    """About half of the parameters, at any values."""

    def maybe(value: float, usual: float) -> float:
        return value if chance.random() < 0.5 else usual

    tokens = chance.sample(range(vocab_size), 2)
    return LogitsParams(
        min_tokens=chance.randint(0, max_new_tokens),
        stop_token_ids=(tokens[0],) if chance.random() < 0.5 else (),
        logit_bias=((tokens[0], chance.randint(-36, 36) / 4), (tokens[1], 3))[
            : chance.randint(0, 2)
        ],
        repetition_penalty=maybe(chance.uniform(0.5, 2), 1.0),
        frequency_penalty=maybe(chance.uniform(-2, 2), 0.0),
        presence_penalty=maybe(chance.uniform(-2, 2), 0.0),
        min_p=maybe(chance.uniform(0, 0.3), 0.0),
        top_k=chance.choice([-1, 0, 1, 3, vocab_size, vocab_size + 9]),
        top_p=maybe(chance.uniform(0.01, 1), 1.0),
    )
