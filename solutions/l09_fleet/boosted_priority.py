"""Exercise 9.2: the priority of a request that is about to be late."""

import random
from collections.abc import Callable

from course.calling.plain_values import as_whole
from course.checks.comparing import Args, Comparison, a_kind
from course.exercise import Exercise, Misconception
from course.format_values import named
from course.task import Task

# --- right answers ------------------------------------------------------------------------------


def boosted_priority(priority: int, now: int, deadline: int, remaining: int) -> int:
    """Return the request's priority at the moment `now`: urgent requests are boosted."""
    # Whether a request is about to be late depends on its deadline and on its remaining work. If
    # its slack is below 0, a boost cannot help it, and would delay one that can still be in time.
    slack = deadline - now - remaining
    if 0 <= slack <= 50_000:
        return max(0, priority - 2)
    return priority


def by_the_latest_start(priority: int, now: int, deadline: int, remaining: int) -> int:
    latest_start = deadline - remaining
    if latest_start < now or latest_start - 50_000 > now:
        return priority
    return max(priority, 2) - 2


# --- wrong ideas --------------------------------------------------------------------------------


def boosting(
    is_urgent: Callable[[int], bool] = lambda slack: 0 <= slack <= 50_000,
    slack: Callable[[int, int, int], int] = lambda now, deadline, remaining: (
        deadline - now - remaining
    ),
    lifted: Callable[[int, int], int] = lambda priority, slack: max(0, priority - 2),
) -> Callable[..., int]:
    """The right rule with another condition, another slack or another boosted priority."""

    def answer(priority: int, now: int, deadline: int, remaining: int) -> int:
        left = slack(now, deadline, remaining)
        return lifted(priority, left) if is_urgent(left) else priority

    return answer


MISCONCEPTIONS = (
    Misconception(
        "not_int",
        "A boost may end between two levels.",
        lambda value: f"A priority is a whole number, not {a_kind(value)}.",
        matches=lambda value: as_whole(value) is None,
        examples=(lambda *args: boosted_priority(*args) + 0.5,),
    ),
    Misconception(
        "bumps_the_dead",
        "The later a request is, the more urgent it is.",
        "With a slack below 0 the request misses its deadline whatever happens. A boost would only "
        "take time from one that can still meet its own, so leave the priority as it is.",
        boosting(lambda slack: slack <= 50_000),
    ),
    Misconception(
        "ignores_the_work",
        "A request becomes urgent 50 ms before its deadline.",
        "The request still needs `remaining` microseconds. It is about to be late when its slack, "
        "deadline - now - remaining, is small, and not when only the deadline is near.",
        boosting(slack=lambda now, deadline, remaining: deadline - now),
    ),
    Misconception(
        "wrong_direction",
        "A higher number is a higher priority.",
        "0 is the highest priority, so two levels up is a smaller number: priority - 2.",
        boosting(lifted=lambda priority, slack: priority + 2),
    ),
    Misconception(
        "below_zero",
        "A boost is always two levels.",
        "No priority is above 0. Stop there, or an urgent request outranks all others for good.",
        boosting(lifted=lambda priority, slack: priority - 2),
    ),
    Misconception(
        "wrong_levels",
        "A boost is one level.",
        "A boost is exactly 2 levels.",
        boosting(lifted=lambda priority, slack: max(0, priority - 1)),
    ),
    Misconception(
        "compounds",
        "The longer a request is urgent, the higher it goes.",
        "A boost is two levels in all, and not two for every time that the queue asks. Start from "
        "`priority` each time, which is the request's own.",
        boosting(
            lifted=lambda priority, slack: max(0, priority - 2 * (1 + (50_000 - slack) // 1_000))
        ),
    ),
    Misconception(
        "wrong_unit",
        "Times are in milliseconds.",
        "All times are in microseconds: 50 ms are 50,000 of them.",
        boosting(lambda slack: 0 <= slack <= 50),
    ),
    Misconception(
        "edge_of_50_ms",
        "Urgent means less than 50 ms.",
        "A slack of exactly 50 ms is already urgent: at most 50 ms, and not below 0.",
        boosting(lambda slack: 0 <= slack < 50_000),
    ),
    Misconception(
        "slack_of_0",
        "Without slack it is too late.",
        "With a slack of exactly 0 the request still meets its deadline if it starts now. It is "
        "lost only below 0.",
        boosting(lambda slack: 0 < slack <= 50_000),
    ),
    Misconception(
        "no_return",
        "Computing the priority is enough, without a return.",
        examples=(lambda *args: None,),
    ),
)

# --- cases --------------------------------------------------------------------------------------


def any_requests(rng: random.Random, count: int = 80) -> list[Args]:
    """Around the two edges and far from them, in all priorities."""
    cases: list[Args] = []
    for _ in range(count):
        edge = rng.choice((0, 0, 50_000, 50_000, -50_000, 25_000, 400_000))
        slack = edge + rng.choice((-1, 0, 1, rng.randint(-30_000, 30_000)))
        now, remaining = rng.randint(0, 10**7), rng.choice((0, rng.randint(1, 300_000)))
        cases.append((rng.randrange(10), now, now + slack + remaining, remaining))
    return cases


JUDGE = Comparison(
    boosted_priority,
    MISCONCEPTIONS,
    "Work out how much time the request has to spare, whether a boost still helps it, and how far "
    "up it goes.",
    evidence=[
        *any_requests(random.Random(0), 60),
        # Past the deadline by less than the work that is left, and by more.
        *((6, 300_000 + 10_000 * late, 300_000, 80_000) for late in range(1, 12)),
    ],
)
on = JUDGE.on

EXERCISE = Exercise(
    number=2,
    title="Boost a request that is about to be late",
    minutes=5,
    points=2,
    task=Task(
        signature="boosted_priority(priority: int, now: int, deadline: int, remaining: int) -> int",
        rules=(
            "Return the priority of a waiting request at the moment `now`. 0 is the highest.",
            "`deadline` is the moment by which its last token is due, and `remaining` is the least "
            "time that it still needs. All times are in microseconds.",
            "Boost a request that still meets its deadline if it starts now, and misses it if it "
            "starts more than 50 ms later. A boost is 2 levels, but does not go above 0.",
            "Every other request keeps its priority, even one that can no longer meet its "
            "deadline.",
            "`priority` is the request's own, without earlier boosts. The queue calls this "
            "function again and again with the same `priority`.",
        ),
        args=(6, 100_000, 200_000, 80_000),
        steps=(
            "The deadline is 200,000 - 100,000 = 100,000 microseconds away, and the request needs "
            "80,000 of them.",
            "So it can wait 20,000 microseconds, which is 20 ms: at most 50 ms, and not below 0.",
            "Two levels above priority 6 is priority 4.",
        ),
        result=4,
    ),
    hints=(
        "Two requests have 60 ms until their deadlines. One still needs 20 ms, the other 100 ms. "
        "Which of them does a boost help?",
        "Compute the slack: deadline - now - remaining. Boost the request only if the slack is "
        "between 0 and 50 ms. Two levels up is a smaller number, which stops at 0.",
        "Store the slack in a variable and compare it with both limits at once, in microseconds. "
        "Then return `priority` unchanged, or two less, which `max` keeps from going below 0.",
    ),
    right=(boosted_priority, by_the_latest_start),
    misconceptions=MISCONCEPTIONS,
    checks=(
        (
            "little time and much",
            on(
                (6, 100_000, 200_000, 80_000),
                (6, 100_000, 900_000, 80_000),
                (6, 100_000, 130_000, 0),
                (6, 100_000, 400_000, 280_000),
                (9, 0, 40_000, 39_000),
            ),
        ),
        (
            "at every tick",  # one request, asked about again and again, as the queue does
            on(*((8, now, 230_000, 80_000) for now in range(91_000, 150_000, 4_000))),
        ),
        (
            "too late",
            on(
                (6, 300_000, 200_000, 80_000),
                (6, 100_000, 120_000, 80_000),
                (6, 100_000, 900_000, 805_000),
                (6, 300_000, 200_000, 0),
            ),
        ),
        ("near the top", on(*((level, 100_000, 200_000, 80_000) for level in (1, 0, 2, 3, 9)))),
        (
            "at the edges",
            on(
                *(
                    (6, 70_000, 150_000 + slack, 80_000)
                    for slack in (50_000, 50_001, 0, -1, 49_999, 1)
                ),
                (6, 0, 50_001, 0),
                (6, 0, 0, 1),
                (6, 0, 0, 0),
            ),
        ),
        ("any request", JUDGE.on_drawn(any_requests)),
    ),
    draw_call=named("priority", "now", "deadline", "remaining"),
)
