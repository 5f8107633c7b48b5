"""Exercise 12.6: slower by the hour."""

from solutions.l12_on_call._tickets import Exercise, fields


def ticket_6() -> dict[str, object]:
    # With all requests gone, 88 % are in use: the K/V of those whose clients have left.
    return {"cause": "kv_leak", "number": 88.0, "fix": {"on_disconnect": "abort"}}


EXERCISE = Exercise(number=6, title="Slower by the hour", minutes=5, **fields(ticket_6))
