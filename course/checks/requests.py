"""Requests as the scheduler's decisions see them, in numbers small enough to read.

They are drawn with the fields that matter.
"""

from collections.abc import Sequence
from typing import Any

from nanogpt.views.request_view import RequestView


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
