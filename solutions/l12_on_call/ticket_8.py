"""Exercise 12.8: the load test has passed."""

from solutions.l12_on_call._tickets import Exercise, fields


def ticket_8() -> dict[str, object]:
    # 38.8 / 60.4: 8 clients that wait for answers send as fast as the server answers.
    return {"cause": "closed_loop_load_test", "number": 0.642, "fix": {"load_test": "open"}}


EXERCISE = Exercise(number=8, title="The load test has passed", minutes=5, **fields(ticket_8))
