"""Requests as the scheduler's decisions see them, in numbers small enough to read.

They are drawn with the fields that matter.
"""

import random
from collections.abc import Sequence
from typing import Any

from nanogpt.policies import RequestView


def make_request(id: int = 0, prompt: int = 4, generated: int = 0, **fields: Any) -> RequestView:
    """A record with tokens of its own; whatever is not said is as small as it can be."""
    known: dict[str, Any] = {
        "priority": 0,
        "arrival_time": 0,
        "admitted_at": None,
        "prompt_tokens": tuple(range(10 * id + 1, 10 * id + 1 + prompt)),
        "generated_tokens": tuple(range(70, 70 + generated)),
        "max_new_tokens": 8,
        "kv_tokens": 0,
    }
    return RequestView(id=id, **(known | fields))


def draw_request(request: RequestView, fields: Sequence[str], *, count_tokens: bool = True) -> str:
    """The record with the fields that matter; tokens, where only their number does, as that."""
    parts: list[str] = []
    for field in fields:
        value = getattr(request, field)
        is_counted = count_tokens and isinstance(value, tuple) and field.endswith("_tokens")
        parts.append(f"{field}={_count(len(value)) if is_counted else repr(value)}")
    return f"RequestView({', '.join(parts)}, ...)"


def _count(tokens: int) -> str:
    return "<1 token>" if tokens == 1 else f"<{tokens} tokens>"


def any_requests(rng: random.Random, count: int) -> list[RequestView]:
    """Ties in priority and arrival, and distances between them too large for any fixed weight.

    Some were admitted before; ids say nothing about the arrival.
    """
    ids = rng.sample(range(60), count)
    steps = [rng.choice((rng.randrange(4), rng.randrange(40), rng.randrange(10**6))) for _ in "abc"]
    levels = [0, 1, 2, rng.randrange(3, 30)]
    requests: list[RequestView] = []
    for id in ids:
        arrival = rng.choice(steps)
        admitted_at = arrival + rng.randrange(9) if rng.random() < 0.5 else None
        generated = rng.randrange(5) if admitted_at is not None else 0
        requests.append(
            make_request(
                id,
                rng.randint(1, 6),
                generated,
                priority=rng.choice(levels),
                arrival_time=arrival,
                admitted_at=admitted_at,
                max_new_tokens=generated + rng.randint(1, 9),
            )
        )
    return requests


def last_admitted(request: RequestView) -> int:
    """The step of its last admission; of its arrival, if it was never admitted."""
    return request.arrival_time if request.admitted_at is None else request.admitted_at
