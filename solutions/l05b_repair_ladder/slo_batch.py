"""Exercise 5b.1: which waiting requests share the candidate's pass."""

import itertools
import random
from dataclasses import replace

from course.checks.comparing import Args, Comparison
from course.exercise import Exercise, Task
from nanogpt.slo.slo_policies import REFERENCE
from nanogpt.views.slo_view import SloRequest, SloView
from solutions.l05_slo_policy._views import seen
from solutions.l05b_repair_ladder._batches import MISCONCEPTIONS

# --- right answers ------------------------------------------------------------------------------


def slo_batch(
    candidate: SloView,
    waiting: list[SloView],
    a: float,
    c: float,
    max_batch_tokens: int,
    slack_reserve: float,
) -> list[int]:
    """Return the ids of the next pass: `candidate`, then requests that do not endanger it."""
    # Each request that joins makes the pass longer for all of them. The candidate is the most
    # urgent, so its deadline and its SLO decide which requests may join.
    ids, tokens = [candidate.id], candidate.tokens
    for request in waiting:
        tokens += request.tokens
        spare_us = candidate.time_to_deadline_us - (a * tokens + c)
        if tokens > max_batch_tokens or spare_us < slack_reserve * candidate.slo_us:
            break
        ids.append(request.id)
    return ids


def by_adding_up(candidate: SloView, waiting: list[SloView], *limits: float) -> list[int]:
    a, c, max_batch_tokens, slack_reserve = limits
    requests = [candidate, *waiting]
    totals = list(itertools.accumulate(request.tokens for request in requests))
    latest = candidate.time_to_deadline_us - slack_reserve * candidate.slo_us
    fits = [total <= max_batch_tokens and a * total + c <= latest for total in totals]
    count = ([True, *fits[1:], False]).index(False)
    return [request.id for request in requests[:count]]


def from_the_longest(candidate: SloView, waiting: list[SloView], *limits: float) -> list[int]:
    a, c, max_batch_tokens, slack_reserve = limits
    latest = candidate.time_to_deadline_us - slack_reserve * candidate.slo_us
    while waiting:
        tokens = candidate.tokens + sum(request.tokens for request in waiting)
        if tokens <= max_batch_tokens and a * tokens + c <= latest:
            break
        waiting = waiting[:-1]
    return [candidate.id, *(request.id for request in waiting)]


# --- cases --------------------------------------------------------------------------------------


def draw_batch(name: str, args: Args) -> str:
    candidate, waiting, a, c, max_batch_tokens, slack_reserve = args
    lines = [
        f"{name}(candidate, waiting, a={a}, c={c}, max_batch_tokens={max_batch_tokens}, "
        f"slack_reserve={slack_reserve})"
    ]
    for role, view in (("candidate", candidate), *(("waiting", each) for each in waiting)):
        lines.append(
            f"{role} id={view.id}: tokens={view.tokens}, slo_us={view.slo_us}, "
            f"time_to_deadline_us={view.time_to_deadline_us}"
        )
    return "\n".join(lines)


def any_queues(rng: random.Random, count: int) -> list[Args]:
    """Candidates and waiting requests near the limits, few requests first. Products are exact."""
    queues: list[Args] = []
    for _ in range(count):
        a, c = rng.choice(((100.0, 10_000.0), (0.5, 0.0), (172.625, 34_000.0)))
        slack_reserve = rng.choice((0.125, 0.25, 0.5))
        sizes = [8 * rng.randint(1, 60) for _ in range(rng.randint(2, 5))]
        reach = sum(sizes[: rng.randint(1, len(sizes))])
        max_batch_tokens = reach + rng.choice((-1, 0, 0, 1, 60, 60))
        slo_us = 8 * rng.randint(100, 900)
        spare_us = slack_reserve * slo_us + a * reach + c
        left_us = round(spare_us + rng.choice((-a, -1, 0, 0, a, 40 * a, 40 * a)))
        ids = rng.sample(range(10), len(sizes))
        candidate, *waiting = map(lambda id, tokens: queued(rng, id, tokens, a, c), ids, sizes)
        slack_us = round(left_us - a * candidate.tokens - c)
        candidate = replace(
            candidate, time_to_deadline_us=left_us, slo_us=slo_us, slack_us=slack_us
        )
        queues.append((candidate, waiting, a, c, max_batch_tokens, slack_reserve))
    return sorted(queues, key=lambda args: len(args[1]))


def queued(rng: random.Random, id: int, tokens: int, a: float, c: float) -> SloView:
    slo_us, left_us = 8 * rng.randint(100, 900), rng.randint(200, 40_000)
    request = SloRequest(id, tokens, 0, left_us, slo_us, 0)
    return REFERENCE.view(request, 0, a, c)


JUDGE = Comparison(
    slo_batch,
    MISCONCEPTIONS,
    "The batch with the next request in it has two limits: its tokens, and the candidate's time to "
    "spare. The first request that breaks one of them ends the batch.",
    evidence=any_queues(random.Random(6), 30),
)


def brings(id: int, tokens: int, left_ms: float, slo_ms: int = 200) -> SloView:
    """A request whose slack is that of a pass at 0.1 ms per token and 10 ms."""
    return seen(id, left_ms, left_ms - 10 - tokens / 10, tokens=tokens, slo_us=1000 * slo_ms)


def queue(
    candidate: SloView,
    *waiting: SloView,
    max_batch_tokens: int = 2048,
    slack_reserve: float = 0.125,
) -> Args:
    return candidate, list(waiting), 100.0, 10_000.0, max_batch_tokens, slack_reserve


SHORT = brings(2, 100, 900)
ONE, OTHER = brings(2, 200, 400, 400), brings(7, 200, 900, 2000)
ROOM_FOR_ALL = (
    queue(brings(4, 300, 150), brings(2, 200, 160), brings(7, 100, 900)),
    queue(brings(4, 300, 150)),
)
CANDIDATE_IN_DANGER = (
    queue(brings(4, 300, 90), ONE, OTHER),
    queue(brings(4, 300, 70), ONE, OTHER),
    queue(brings(4, 300, 105), OTHER, ONE, slack_reserve=0.25),
    queue(brings(4, 300, 110), OTHER, ONE, slack_reserve=0.25),
    queue(brings(4, 300, 135), OTHER, ONE, slack_reserve=0.375),
    queue(brings(4, 300, 175), brings(2, 500, 176), OTHER),
    queue(brings(4, 300, 115), brings(2, 300, 80), OTHER),
)
UP_TO_THE_LIMIT = [
    queue(
        *(brings(4, 300, 900), brings(2, 200, 950), brings(7, 100, 960), brings(1, 100, 970)),
        max_batch_tokens=max_batch_tokens,
    )
    for max_batch_tokens in (600, 599, 500, 400, 601)
]
DOES_NOT_FIT = (
    queue(brings(4, 300, 200), brings(7, 2000, 300), SHORT),
    queue(
        brings(4, 300, 200), brings(7, 200, 300), brings(1, 900, 400), SHORT, max_batch_tokens=1000
    ),
)
CANDIDATE_ALONE = (
    queue(brings(4, 3000, 900), SHORT),
    queue(brings(4, 300, 30), SHORT),
    queue(brings(4, 300, -20)),
)
# Short by 1 us with this a, but not with its first two digits behind the point.
CLOSE: Args = (
    *(seen(4, 198.099, 119.049, tokens=400), [brings(2, 400, 900)]),
    *(172.625, 10_000.0, 1000, 0.25),
)
AT_LEAST_1 = "it is at least 1"
CANDIDATE_S = "the rules look at the candidate's own"

EXERCISE = Exercise(
    number=1,
    title="Which requests share the candidate's pass",
    minutes=9,
    points=3,
    task=Task(
        rules=(
            "A pass over n tokens is predicted to take a * n + c microseconds, and all its "
            "requests finish when it ends. n is the sum of the requests' `tokens`, which they "
            "still have to compute.",
            "`candidate` is the most urgent waiting request, and `waiting` are the others, most "
            "urgent first. Add them one by one while the batch keeps two limits:",
            "The sum of `tokens`, the candidate's included, is at most `max_batch_tokens`.",
            "When the pass ends, the candidate still has at least `slack_reserve` times its SLO "
            "(`slo_us`) until its deadline, which is `time_to_deadline_us` away now.",
            "Stop at the first request that does not fit, so that no later one overtakes it.",
            "The candidate always runs, by itself if it has to.",
            "Returns the ids of the batch, the candidate's first. `waiting` must not be changed.",
        ),
        args=(
            brings(4, 300, 90),
            [brings(2, 200, 400), brings(7, 100, 900)],
            100.0,
            10_000.0,
            2048,
            0.125,
        ),
        call="slo_batch(candidate, waiting, a=100, c=10_000, max_batch_tokens=2048, "
        "slack_reserve=0.125)\n"
        "candidate: id 4, 300 tokens, deadline in 90 ms, SLO 200 ms\n"
        "waiting:   id 2, 200 tokens\n"
        "           id 7, 100 tokens",
        steps=(
            "The candidate has to keep 0.125 * 200 ms = 25 ms, so the pass may take 65 ms.",
            "With request 2 the pass has 500 tokens and takes 60 ms, so request 2 joins.",
            "With request 7 it would take 70 ms, so request 7 does not join.",
        ),
        result=[4, 2],
    ),
    hints=(
        "When does the candidate get its first token if three others share its pass, and when if "
        "it runs by itself?",
        "Keep the ids and the number of tokens of the batch so far, beginning with the "
        "candidate's. Then look at the batch as it would be with the next request.",
        "Add the request's tokens first, then test two numbers: the tokens of the whole batch, and "
        "the candidate's time to its deadline minus the time of a pass over them. The first "
        "request that breaks one of the limits ends the loop.",
    ),
    right=(slo_batch, by_adding_up, from_the_longest),
    misconceptions=MISCONCEPTIONS,
    draw_call=draw_batch,
    checks=(
        ("room for all", JUDGE.on(*ROOM_FOR_ALL)),
        ("a candidate that others endanger", JUDGE.on(*CANDIDATE_IN_DANGER)),
        ("up to exactly max_batch_tokens", JUDGE.on(*UP_TO_THE_LIMIT)),
        ("a request that does not fit", JUDGE.on(*DOES_NOT_FIT)),
        ("a candidate that has no room itself", JUDGE.on(*CANDIDATE_ALONE)),
        ("any queue", JUDGE.on_drawn(lambda rng: [CLOSE, *any_queues(rng, 60)])),
    ),
    equivalent_mutants={
        "candidate.tokens at least 1": AT_LEAST_1,
        "candidate.time_to_deadline_us at least 1": "too little for a pass either way",
        "candidate.slo_us at least 1": AT_LEAST_1,
        "waiting.tokens at least 1": AT_LEAST_1,
        "waiting.time_to_deadline_us always 160000": CANDIDATE_S,
        "waiting.time_to_deadline_us at most 7": CANDIDATE_S,
        "waiting.time_to_deadline_us at least 1": CANDIDATE_S,
        "waiting.slo_us always 200000": CANDIDATE_S,
        "waiting.slo_us at most 7": CANDIDATE_S,
        "waiting.slo_us at least 1": CANDIDATE_S,
        "max_batch_tokens at least 1": AT_LEAST_1,
        "result: without repeats": "ids are unique",
    },
)
