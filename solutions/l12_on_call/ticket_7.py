"""Exercise 12.7: four workers and a queue."""

from solutions.l12_on_call._tickets import Exercise, fields


def ticket_7() -> dict[str, object]:
    # In the log one worker gets 13 requests in a row, and three are idle: until the next report,
    # its load looks the least. A router that counts what it has sent knows better, at no cost.
    return {"cause": "router_herds", "number": 13, "fix": {"router": "least_load_and_sent"}}


EXERCISE = Exercise(number=7, title="Four workers and a queue", minutes=5, **fields(ticket_7))
