"""Exercise 12.3: the text stops in mid-sentence."""

from solutions.l12_on_call._tickets import Exercise, fields


def ticket_3() -> dict[str, object]:
    # 15,459 - 12,304 tokens were computed again. 16 requests of about 50 KV tokens fit into 1,000.
    return {"cause": "preemption_thrash", "number": 20.4, "fix": {"max_batch_size": 16}}


EXERCISE = Exercise(number=3, title="The text stops in mid-sentence", minutes=5, **fields(ticket_3))
