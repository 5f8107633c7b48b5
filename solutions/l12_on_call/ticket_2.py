"""Exercise 12.2: slower since Tuesday."""

from solutions.l12_on_call._tickets import Exercise, fields


def ticket_2() -> dict[str, object]:
    # 64 of 84.6 tokens, four whole blocks, are the same in all prompts, and none is found.
    return {"cause": "prefix_salted", "number": 75.6, "fix": {"cache_salt": "tenant"}}


EXERCISE = Exercise(number=2, title="Slower since Tuesday", minutes=5, **fields(ticket_2))
