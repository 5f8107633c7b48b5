"""What the scheduler refuses, in words: limits, a request that never fits, counts, stalls."""

from nanogpt.parts.guard import PartError
from nanogpt.policies import RequestView
from nanogpt.request import Request
from nanogpt.validate import check_int


def check_limits(**limits: int | None) -> None:
    """Raises: ValueError for a limit that is neither None nor a whole number from 1 up."""
    for name, limit in limits.items():
        if limit is not None:
            check_int(name, limit, 1)


def never_fits(view: RequestView, max_kv_tokens: int | None, window: int | None) -> ValueError:
    """The error for a request that needs more KV tokens than the budget will ever have."""
    needs, under = f"{len(view.prompt_tokens)} + {view.max_new_tokens} - 1 = ", ""
    if window is not None:
        needs, under = "", f" under a window of {window}"
    return ValueError(
        f"request {view.id} needs {needs}{view.kv_tokens_needed} KV tokens{under}; the KV budget "
        f"of {max_kv_tokens} can never hold it"
    )


def check_count(view: RequestView, counted: int, max_kv_tokens: int | None) -> None:
    """Raises: PartError when a request alone is over the budget because it is counted wrong."""
    if counted > view.kv_tokens_to_start:
        raise PartError(
            f"your held counts request {view.id} with {counted} KV tokens, more than the KV "
            f"budget of {max_kv_tokens}; it holds {view.kv_tokens_to_start}"
        )


def check_moves(step: int, prefill: Request, was_at: tuple[int, int] | None) -> None:
    """Refuse a loop that computes a preempted request's prompt again and nothing behind it.

    `was_at` is the id and the cursor of what was prefilled in the step before. Raises: ValueError.
    """
    stuck = was_at == (prefill.id, prefill.prefill_cursor)
    if stuck and prefill.remaining and prefill.prefill_cursor >= len(prefill.prompt_tokens):
        raise ValueError(
            f"step {step}: request {prefill.id} was preempted, and {prefill.remaining} of the "
            "tokens that it generated are still to be computed again; cut its chunks from "
            "`remaining`, not from the prompt alone"
        )
