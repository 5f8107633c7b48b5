"""Exercise 9.2: the priority of a request that is about to be late."""

import random
from collections.abc import Callable

from course.calling.plain_values import as_whole
from course.checks.comparing import Args, Comparison, a_kind
from course.exercise import Exercise, Misconception
from course.format_values import named
from course.harness import Ask, Check, Failure
from course.task import Task

# --- right answers ------------------------------------------------------------------------------


def boosted_priority(priority: int, now: int, deadline: int, remaining: int) -> int:
    """Return the priority that a request has at the moment `now`: urgent ones are lifted."""
    # A deadline alone does not say what is about to be late: the work that is left does. Below 0
    # the race is lost, and a lift would be paid for by a request that can still win its own.
    slack = deadline - now - remaining
    if 0 <= slack <= 50_000:
        return max(0, priority - 2)
    return priority


def by_the_latest_start(priority: int, now: int, deadline: int, remaining: int) -> int:
    latest_start = deadline - remaining
    if latest_start < now or latest_start - 50_000 > now:
        return priority
    return max(priority, 2) - 2


def by_cases(priority: int, now: int, deadline: int, remaining: int) -> int:
    slack = deadline - (now + remaining)
    if slack < 0:
        return priority
    if slack > 50_000:
        return priority
    return 0 if priority < 2 else priority - 2


# --- wrong ideas --------------------------------------------------------------------------------


def boosting(
    is_urgent: Callable[[int], bool] = lambda slack: 0 <= slack <= 50_000,
    slack: Callable[[int, int, int], int] = lambda now, deadline, remaining: (
        deadline - now - remaining
    ),
    lifted: Callable[[int, int], int] = lambda priority, slack: max(0, priority - 2),
    other: Callable[[int, int], int] = lambda priority, slack: priority,
) -> Callable[..., int]:
    """The rules but for what is given: when, by which slack, to where, and where otherwise."""

    def answer(priority: int, now: int, deadline: int, remaining: int) -> int:
        left = slack(now, deadline, remaining)
        return lifted(priority, left) if is_urgent(left) else other(priority, left)

    return answer


def without_the_work(now: int, deadline: int, remaining: int) -> int:
    return deadline - now


def at_every_tick(tick_us: int) -> Callable[..., int]:
    """Two levels for every tick since it became urgent."""
    return boosting(
        lifted=lambda priority, slack: max(0, priority - 2 * (1 + (50_000 - slack) // tick_us))
    )


COMPOUNDS = Misconception(
    "compounds",
    "The longer, the more urgent.",
    "Urgent lifts a request by two levels in all, not by two at every tick that asks: start from "
    "`priority` each time, which is its own.",
    at_every_tick(1_000),
)
MISCONCEPTIONS = (
    Misconception(
        "not_int",
        "Urgency is between two levels.",
        lambda value: f"A priority is a whole number, not {a_kind(value)}.",
        matches=lambda value: as_whole(value) is None,
        examples=(lambda *args: boosted_priority(*args) + 0.5,),
    ),
    Misconception(
        "bumps_the_dead",
        "The later, the more urgent.",
        "With a slack below 0 it misses its deadline whatever happens, and lifted, it only takes "
        "the time of one that can still make it: leave its priority as it is.",
        boosting(lambda slack: slack <= 50_000),
    ),
    Misconception(
        "ignores_the_work",
        "50 ms before the deadline it gets urgent.",
        "It still needs `remaining` microseconds: being about to be late is a matter of the slack, "
        "deadline - now - remaining, not of the deadline alone.",
        boosting(slack=without_the_work),
    ),
    Misconception(
        "wrong_direction",
        "More urgent is more.",
        "0 is the highest priority, so two levels up is a smaller number: priority - 2.",
        boosting(lifted=lambda priority, slack: priority + 2),
    ),
    Misconception(
        "below_zero",
        "Two levels are two levels.",
        "There is no priority above 0, the highest: stop there, or an urgent request outranks all "
        "others for good.",
        boosting(lifted=lambda priority, slack: priority - 2),
    ),
    Misconception(
        "wrong_levels",
        "One up.",
        "Urgency lifts a request by 2 levels, no more and no less.",
        boosting(lifted=lambda priority, slack: max(0, priority - 1)),
    ),
    COMPOUNDS,
    Misconception(
        "wrong_unit",
        "Times are in milliseconds.",
        "All times are in microseconds: 50 ms are 50,000 of them.",
        boosting(lambda slack: 0 <= slack <= 50),
    ),
    Misconception(
        "edge_of_50_ms",
        "Less than 50 ms.",
        "A slack of exactly 50 ms is urgent already: at most 50 ms, and not below 0.",
        boosting(lambda slack: 0 <= slack < 50_000),
    ),
    Misconception(
        "slack_of_0",
        "No slack is too late.",
        "With a slack of exactly 0 it still makes it, if it starts now: only below 0 it is lost.",
        boosting(lambda slack: 0 < slack <= 50_000),
    ),
    Misconception("no_return", "Lifted in place.", examples=(lambda *args: None,)),
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
    "Ask how much time the request has to spare, whether going first still helps it, and how far "
    "up it goes.",
    evidence=[
        *any_requests(random.Random(0), 60),
        # Past the deadline by less than the work that is left, and by more.
        *((6, 300_000 + 10_000 * late, 300_000, 80_000) for late in range(1, 12)),
    ],
)


def judge(ask: Ask, cases: list[Args]) -> Failure | None:
    """The first wrong priority; one that changes when it is asked for again has a reason."""
    for args in cases:
        failure = JUDGE.judge(ask, [args])
        if failure is None:
            continue
        again = JUDGE.draw(ask(*args))
        if again == dict(failure.example)["got"]:
            return failure
        idea = (
            "Asked again it gives another answer: urgent lifts a request by two levels in all, not "
            "by two at every tick, so start from `priority` each time and remember nothing."
        )
        return Failure(idea, (*failure.example, ("asked again", again)), COMPOUNDS.key)
    return None


def on(*cases: Args) -> Check:
    """The check that asks about these cases, one after the other."""
    return lambda ask, rng: judge(ask, list(cases))


BOTH_SAY_0 = "at 2 both branches say 0"

EXERCISE = Exercise(
    number=2,
    title="About to be late",
    minutes=5,
    points=2,
    task=Task(
        signature="boosted_priority(priority: int, now: int, deadline: int, remaining: int) -> int",
        rules=(
            "The result is the priority that a request has at the moment `now`. 0 is the highest.",
            "A request that is about to be late is lifted by 2 levels, but never above 0: one "
            "that can afford to lose at most 50 ms before its deadline is missed.",
            "Going first has to help it: one that misses its deadline in any case keeps its "
            "priority, and so does every other.",
            "`priority` is the request's own. The queue asks again and again, always with this "
            "one, and the result depends on nothing but the arguments.",
            "`remaining` is the least time that it still needs. All times are in microseconds.",
        ),
        args=(6, 100_000, 200_000, 80_000),
        result=4,
    ),
    hints=(
        "Two requests have 60 ms to their deadlines. One still needs 20 ms, the other 100. "
        "Which of them is helped by going first?",
        "Take the slack: deadline - now - remaining. Only between 0 and 50 ms is the request "
        "lifted, and two levels up means a smaller number that stops at 0.",
        "One name for the slack, one comparison with both of its edges, in microseconds, and "
        "two results: `priority` as it came, or two less, which `max` keeps from going below "
        "0.",
    ),
    right=(boosted_priority, by_the_latest_start, by_cases),
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
        ("any request", lambda ask, rng: judge(ask, any_requests(rng))),
    ),
    draw_call=named("priority", "now", "deadline", "remaining"),
    equivalent_mutants={
        "by_cases(): return 0 if priority {< => <=} 2 else priority - 2": BOTH_SAY_0,
        "by_cases(): return 0 if priority < {2 => 3} else priority - 2": BOTH_SAY_0,
    },
)
