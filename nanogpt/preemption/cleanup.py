"""What an aborted pass leaves to be undone, as a pure function from state to state.

A preemption for lack of memory happens inside scheduling, before it is noted what runs in
this step. This one happens after: the victims are in the books of a step that never was, and a
request that comes back from there must not look as if it had never left.
"""

from collections.abc import Iterable, Sequence

from nanogpt.preemption.scheduler_books import Books


def clean_up(books: Books, aborted: Sequence[int], waiter: int | None) -> Books:
    """Undo an aborted pass: its prefills lose their K/V and wait again, in front and in order.

    `waiter` is the request that the pass was aborted for, None if it is unknown or gone.
    """
    back = tuple(request_id for request_id in books.running if request_id in aborted)
    return Books(
        waiting=(*back, *books.waiting),
        running=tuple(request_id for request_id in books.running if request_id not in aborted),
        kv=books.kv.difference(aborted),
        previous_step=books.previous_step.difference(aborted),
        next_up=waiter if waiter in books.waiting else None,
    )


def admission_problem(newcomers: Iterable[int], previous_step: Iterable[int]) -> str | None:
    """Why these may not be admitted now: what was scheduled in the last step runs already."""
    twice = sorted(set(newcomers).intersection(previous_step))
    if twice:
        return f"requests {twice} are admitted, yet the last step was scheduled with them"
    return None
