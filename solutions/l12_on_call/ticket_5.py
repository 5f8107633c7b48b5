"""Exercise 12.5: evenings are slow."""

from solutions.l12_on_call._tickets import Exercise, fields


def ticket_5() -> dict[str, object]:
    # 5.71 / 2.38 / 1.93. In a batch of one the same quotient is 0.72, and drafts pay.
    return {"cause": "drafts_in_full_batch", "number": 1.24, "fix": {"num_draft_tokens": 0}}


EXERCISE = Exercise(number=5, title="Evenings are slow", minutes=5, **fields(ticket_5))
