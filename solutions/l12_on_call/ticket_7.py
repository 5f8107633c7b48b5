"""Exercise 12.7: four workers and a queue."""

from solutions.l12_on_call._tickets import Exercise, fields


def ticket_7() -> dict[str, object]:
    # One worker gets 13 in a row: until the next report, its load looks the least.
    return {"cause": "router_herds", "number": 13, "fix": {"router": "least_load_and_sent"}}


EXERCISE = Exercise(number=7, title="Four workers and a queue", minutes=5, **fields(ticket_7))
