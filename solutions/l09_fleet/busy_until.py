"""Exercise 9.3: when a worker has computed its backlog, by a report that is old."""

import random

from course.calling.plain_values import as_whole
from course.checks.comparing import Args, Comparison, a_kind
from course.exercise import Exercise, Misconception, Task
from course.format_values import named

Sent = list[tuple[int, int]]

# --- right answers ------------------------------------------------------------------------------


def busy_until(reported_us: int, backlog: int, sent: Sent, us_per_token: int) -> int:
    """Return the moment at which a worker has computed all prompt tokens that it was sent."""
    # A request begins when the worker is done with the earlier ones, but not before it was sent:
    # time in which the worker had nothing to compute is gone.
    done_us = reported_us + backlog * us_per_token
    for sent_us, tokens in sent:
        done_us = max(done_us, sent_us) + tokens * us_per_token
    return done_us


def by_the_latest_end(reported_us: int, backlog: int, sent: Sent, us_per_token: int) -> int:
    ends = [reported_us + (backlog + sum(tokens for _, tokens in sent)) * us_per_token]
    for index, (sent_us, _) in enumerate(sent):
        ends.append(sent_us + sum(tokens for _, tokens in sent[index:]) * us_per_token)
    return max(ends)


# --- wrong ideas --------------------------------------------------------------------------------


def with_time_saved(reported_us: int, backlog: int, sent: Sent, us_per_token: int) -> int:
    return reported_us + (backlog + sum(tokens for _, tokens in sent)) * us_per_token


def one_after_the_sending(reported_us: int, backlog: int, sent: Sent, us_per_token: int) -> int:
    done_us = reported_us + backlog * us_per_token
    for sent_us, tokens in sent:
        done_us = max(done_us, sent_us + tokens * us_per_token)
    return done_us


def only_the_last(reported_us: int, backlog: int, sent: Sent, us_per_token: int) -> int:
    return busy_until(reported_us, backlog, sent[-1:], us_per_token)


def after_the_last(reported_us: int, backlog: int, sent: Sent, us_per_token: int) -> int:
    begin_us = sent[-1][0] if sent else reported_us
    return with_time_saved(max(begin_us, reported_us), backlog, sent, us_per_token)


MISCONCEPTIONS = (
    Misconception(
        "not_int",
        "A moment may have a fraction.",
        lambda value: f"A moment is a whole number of microseconds, not {a_kind(value)}.",
        matches=lambda value: as_whole(value) is None,
        examples=(lambda *args: busy_until(*args) + 0.5,),
    ),
    Misconception(
        "trusts_the_report",
        "The report says what the worker has to compute.",
        "The report is old: the worker also computes what was sent to it since. Without that, all "
        "requests between two reports go to one worker.",
        lambda reported_us, backlog, sent, us_per_token: reported_us + backlog * us_per_token,
    ),
    Misconception(
        "saves_idle_time",
        "Only the sum of the tokens counts.",
        "Between the report and a later request the worker may have had nothing to compute. A "
        "request cannot begin before it is sent: take the later of the two moments.",
        with_time_saved,
    ),
    Misconception(
        "all_at_once",
        "A request begins when it is sent.",
        "A request waits for the earlier ones. It begins when they are done or when it is sent, "
        "whichever is later, and only then its own tokens are computed.",
        one_after_the_sending,
    ),
    Misconception(
        "only_the_last",
        "Only the newest request counts.",
        "Go through all requests in `sent`: each one moves the end.",
        only_the_last,
    ),
    Misconception(
        "begins_with_the_last",
        "The worker begins when the newest request is sent.",
        "The worker computes its backlog from the moment of the report on, and each request as "
        "soon as it can. It does not wait for the newest one.",
        after_the_last,
    ),
    Misconception(
        "forgets_the_backlog",
        "Only what was sent since counts.",
        "At the moment of the report the worker still had `backlog` tokens to compute. They come "
        "first.",
        lambda reported_us, backlog, sent, us_per_token: busy_until(
            reported_us, 0, sent, us_per_token
        ),
    ),
    Misconception(
        "a_span",
        "The result is how long the worker is busy.",
        "Return a moment, like `reported_us`, and not the time since the report.",
        lambda reported_us, backlog, sent, us_per_token: (
            busy_until(reported_us, backlog, sent, us_per_token) - reported_us
        ),
    ),
    Misconception(
        "tokens_are_time",
        "A token takes a microsecond.",
        "Tokens are no microseconds: each takes `us_per_token` of them.",
        lambda reported_us, backlog, sent, us_per_token: busy_until(reported_us, backlog, sent, 1),
    ),
    Misconception(
        "no_return",
        "Computing the moment is enough, without a return.",
        examples=(lambda *args: None,),
    ),
)

# --- cases --------------------------------------------------------------------------------------


def any_reports(rng: random.Random, count: int = 80) -> list[Args]:
    """Busy and idle workers; few requests first."""
    cases: list[Args] = []
    for _ in range(count):
        reported_us = now_us = rng.randint(0, 10**6)
        sent: Sent = []
        for _ in range(rng.choice((0, 1, 1, 2, 3, 5))):
            now_us += rng.choice((0, 500, rng.randint(1, 9_000)))
            sent.append((now_us, rng.randint(1, 700)))
        backlog = rng.choice((0, 100, rng.randint(1, 1_500)))
        cases.append((reported_us, backlog, sent, rng.choice((10, 13, 20))))
    return sorted(cases, key=lambda args: len(args[2]))


JUDGE = Comparison(
    busy_until,
    MISCONCEPTIONS,
    "Follow the worker from the report on: when is it done with its backlog, and when does each "
    "request begin and end?",
    evidence=any_reports(random.Random(5), 60),
)
on = JUDGE.on

EXERCISE = Exercise(
    number=3,
    title="When is a worker done, by an old report?",
    minutes=5,
    points=3,
    task=Task(
        rules=(
            "A worker reported at the moment `reported_us` that it still has to compute `backlog` "
            "prompt tokens. `sent` holds what the router has sent to it since: `(sent_us, tokens)` "
            "for each request, the oldest first. `tokens` is the prompt without the hit. Do not "
            "change `sent`.",
            "Return the moment, in microseconds, at which the worker has computed all of them.",
            "The worker computes one prompt after the other, in this order, and never pauses while "
            "it has one. Each token takes `us_per_token` microseconds.",
        ),
        args=(50_000, 200, [(51_000, 300), (60_000, 100)], 10),
        steps=(
            "The backlog takes 200 × 10 = 2,000 microseconds, until 52,000.",
            "The first request was sent at 51,000 and waits until 52,000. It ends at 55,000.",
            "The second is sent at 60,000, when the worker has been idle for 5,000 microseconds. "
            "It ends at 61,000.",
        ),
        result=61_000,
    ),
    hints=(
        "A worker is done at 55,000. The next request is sent at 54,000, or at 60,000. When does "
        "it begin in each case?",
        "Keep one moment, the end of the work so far. It starts with the report and its backlog, "
        "and each request in `sent` moves it.",
        "`done_us = max(done_us, sent_us) + tokens * us_per_token`, for each request in `sent`.",
    ),
    right=(busy_until, by_the_latest_end),
    misconceptions=MISCONCEPTIONS,
    checks=(
        ("no request since", on((50_000, 200, [], 10), (50_000, 0, [], 10), (0, 70, [], 13))),
        (
            "a busy worker",
            on(
                (50_000, 200, [(51_000, 300)], 10),
                (50_000, 200, [(50_000, 300), (51_000, 100)], 10),
                (0, 900, [(1_000, 50), (2_000, 60), (2_000, 70)], 13),
            ),
        ),
        (
            "an idle worker",
            on(
                (50_000, 0, [(51_000, 300)], 10),
                (50_000, 200, [(52_000, 300)], 10),
                (50_000, 200, [(52_001, 300)], 10),
                (50_000, 200, [(51_000, 300), (60_000, 100)], 10),
                (50_000, 0, [(51_000, 300), (53_000, 500), (70_000, 10)], 10),
            ),
        ),
        ("any report", JUDGE.on_drawn(any_reports)),
    ),
    draw_call=named("reported_us", "backlog", "sent", "us_per_token"),
    equivalent_mutants={
        "us_per_token at least 1": "a token takes time",
        "result at least 1": "the worker is done after the moment 0",
    },
)
