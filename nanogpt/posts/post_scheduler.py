"""The scheduler as the posts' own loops drive it: one call makes room, admits and answers."""

from nanogpt import scheduler
from nanogpt.request import Request


class Scheduler(scheduler.Scheduler):
    """The engine's scheduler with the post's `schedule`. Mutable: what it prefilled last."""

    _prefill_at: tuple[int, int] | None = None

    def schedule(self, step: int) -> tuple[Request | None, list[Request]]:
        """Make room, admit, and say who prefills and who decodes in this step.

        Raises: ValueError for a loop that computes a preempted request's prompt and no more.
        """
        self.begin_step(step)
        victims = self.victims()
        startable, _ = self.admissible(victims)
        for victim in victims:
            self.preempt(victim)
        for request in startable:
            self.admit(request)
        prefill = self.prefilling[0] if self.prefilling else None
        if prefill is not None and not self.active:
            _check_moves(step, prefill, self._prefill_at)
        self._prefill_at = (prefill.id, prefill.prefill_cursor) if prefill else None
        return prefill, list(self.active)


def _check_moves(step: int, prefill: Request, was_at: tuple[int, int] | None) -> None:
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
