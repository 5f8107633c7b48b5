"""Exercise 12.1: the first word comes late."""

from solutions.l12_on_call._tickets import Exercise, fields


def ticket_1() -> dict[str, object]:
    # 44.3 x (8.9 + 78.9) tokens arrive per second; 16 per 5.71 ms can be computed. 64 make gaps.
    return {"cause": "budget_too_small", "number": 1.39, "fix": {"token_budget": 32}}


EXERCISE = Exercise(number=1, title="The first word comes late", minutes=5, **fields(ticket_1))
