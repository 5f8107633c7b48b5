"""Exercise 10.1: admission control of a server."""

import math
import random

from course.checks.comparing import Args, Comparison
from course.exercise import Exercise, Task
from nanogpt.server.server_policies import AdmissionLimits, NewRequest, QueueView
from solutions.l10_capstone._verdicts import ANOTHER_STATUS, MISCONCEPTIONS, NOTHING_KNOWN

# --- right answers ------------------------------------------------------------------------------


def admission_control(
    queue: "QueueView", limits: "AdmissionLimits", request: "NewRequest"
) -> str | tuple[int, int | None]:
    """Return "accept", or an HTTP status and after how many seconds to retry."""
    # A request that can never fit is refused first, because no later answer would be better. The
    # last sampled token is never computed, so it has no K/V.
    kv_tokens = request.num_prompt_tokens + request.max_new_tokens - 1
    if request.num_prompt_tokens > limits.max_prompt_tokens or kv_tokens > limits.max_kv_tokens:
        return 400, None
    if queue.is_closing:
        return 503, None
    if len(queue.running) + queue.num_waiting < limits.max_requests:
        return "accept"
    if not queue.running or queue.tokens_per_s == 0:
        return 429, 1  # nothing is known yet, but soon will be
    # All running requests share the throughput, so the one with the fewest tokens left ends first.
    seconds = min(queue.running) * len(queue.running) / queue.tokens_per_s
    return 429, min(math.ceil(seconds), limits.max_retry_s)


def by_shares(
    queue: QueueView, limits: AdmissionLimits, request: NewRequest
) -> str | tuple[int, int | None]:
    room = limits.max_kv_tokens - request.num_prompt_tokens
    if limits.max_prompt_tokens < request.num_prompt_tokens or room < request.max_new_tokens - 1:
        return (400, None)
    if queue.is_closing:
        return (503, None)
    free = limits.max_requests - queue.num_waiting - len(queue.running)
    if free > 0:
        return "accept"
    seconds = 1
    if queue.running and queue.tokens_per_s > 0:
        share = queue.tokens_per_s / len(queue.running)
        seconds = math.ceil(sorted(queue.running)[0] / share)
    return (429, sorted([seconds, limits.max_retry_s])[0])


# --- cases --------------------------------------------------------------------------------------


def draw_call(name: str, args: Args) -> str:
    """A call with one record per line."""
    records = zip(("queue", "limits", "request"), args, strict=True)
    return "\n".join([f"{name}(queue, limits, request)", *(f"{k} = {v}" for k, v in records)])


LIMITS = AdmissionLimits(max_requests=4, max_prompt_tokens=64, max_kv_tokens=100, max_retry_s=60)
SMALL = NewRequest(20, 30)


def queue_of(
    *running: int,
    waiting: int = 0,
    per_s: float = 16.0,
    closing: bool = False,
    new: NewRequest = SMALL,
    limits: AdmissionLimits = LIMITS,
) -> Args:
    return QueueView(running, waiting, per_s, closing), limits, new


BUSY = queue_of(40, 12, 30, waiting=1, per_s=8.0)
IDLE = queue_of()
NEVER = (
    queue_of(new=NewRequest(64, 38)),
    queue_of(new=NewRequest(65, 1)),
    queue_of(30, 20, 10, waiting=1, new=NewRequest(20, 82)),
    queue_of(30, closing=True, new=NewRequest(20, 200)),
)
JUST_FITS = queue_of(new=NewRequest(64, 37))


def any_queue(rng: random.Random) -> list[Args]:
    """Mostly full queues, with times to retry that are clearly not whole numbers."""
    cases: list[Args] = []
    while len(cases) < 60:
        running = tuple(rng.randint(1, 90) for _ in range(rng.randint(0, 5)))
        waiting, per_s = rng.choice((0, 1, 3, 12)), rng.choice((0.0, 0.7, 3.3, 11.3, 41.9, 170.3))
        most = max(1, len(running) + waiting + rng.choice((-2, 0, 0, 0, 1, 3)))
        prompt, whole = rng.choice(((64, 100), (64, 100), (30, 60), (200, 150)))
        limits = AdmissionLimits(most, prompt, whole, rng.choice((10, 30, 60)))
        num_prompt = rng.choice((20, 20, 20, min(prompt, whole), prompt + 1))
        room = whole + 1 - num_prompt
        num_new = max(1, rng.choice((1, 30, 30, room, room + 1)))
        new = NewRequest(num_prompt, num_new)
        seconds = min(running, default=0) * len(running) / (per_s or 1)
        if seconds == 0 or 0.01 < seconds % 1 < 0.99:
            closing = rng.random() < 0.15
            cases.append(
                queue_of(
                    *running, waiting=waiting, per_s=per_s, closing=closing, new=new, limits=limits
                )
            )
    return sorted(cases, key=lambda case: len(case[0].running) + case[0].num_waiting)


JUDGE = Comparison(
    admission_control,
    MISCONCEPTIONS,
    "Ask in this order: can the request ever fit, is the server shutting down, is there a place, "
    "and if not, when to retry?",
    evidence=[
        IDLE, BUSY, JUST_FITS, *NEVER,
        queue_of(9, 6, 25, waiting=1, per_s=7.0), queue_of(90, 95, waiting=2, per_s=2.0),
        queue_of(1, 2, waiting=2, per_s=512.0), queue_of(waiting=4, per_s=0.0),
        queue_of(30, closing=True), queue_of(30, 17, 20, waiting=1, closing=True),
        queue_of(5, waiting=2), *any_queue(random.Random(10)),
    ],
    near=(ANOTHER_STATUS,),
)  # fmt: skip
CLOSING = JUDGE.on(queue_of(closing=True), queue_of(30, 17, 20, waiting=1, closing=True))
RETRY = JUDGE.on(
    queue_of(9, 6, 25, waiting=1, per_s=7.0), queue_of(8, 4, waiting=2, per_s=4.0),
    queue_of(7, 9, waiting=2, per_s=2.5), queue_of(4, waiting=3, per_s=4.0),
    queue_of(1, 2, waiting=2, per_s=512.0), queue_of(90, 95, waiting=2, per_s=2.0),
)  # fmt: skip
UNKNOWN = JUDGE.on_raising(
    NOTHING_KNOWN, (ValueError, ZeroDivisionError, IndexError),
    queue_of(40, waiting=3, per_s=0.0), queue_of(waiting=4, per_s=0.0), queue_of(waiting=4),
)  # fmt: skip
POSITIVE = (
    "limits.max_requests", "limits.max_prompt_tokens", "limits.max_kv_tokens",
    "limits.max_retry_s", "request.num_prompt_tokens", "request.max_new_tokens",
)  # fmt: skip

EXERCISE = Exercise(
    number=1,
    title="Admission control",
    minutes=10,
    points=3,
    draw_call=draw_call,
    task=Task(
        rules=(
            'Returns `"accept"`, or a pair: the HTTP status of the refusal, and after how many '
            "whole seconds to retry (`None` if retrying is useless).",
            "400, `None`: the request can never fit. Its `num_prompt_tokens` may be at most "
            "`limits.max_prompt_tokens`. Its prompt and `max_new_tokens` together may need K/V for "
            "at most `limits.max_kv_tokens` tokens; the last generated token needs none. Check "
            "this first, even if the server is shutting down or full.",
            "503, `None`: the server is shutting down (`queue.is_closing`).",
            "429, seconds: `limits.max_requests` requests are unfinished, that is, running or "
            "waiting. `queue.running` has the number of tokens that each running request has still "
            "to generate, and `queue.num_waiting` more requests are waiting.",
            "The seconds are the time to the earliest finish of a running request. The running "
            "requests share `queue.tokens_per_s` evenly. Round up, and return at most "
            "`limits.max_retry_s`. If no request runs, or `tokens_per_s` is still 0, return 1 s.",
        ),
        args=BUSY,
        result=(429, 5),
        call="admission_control(queue, limits, request)\n"
        "queue:   running=(40, 12, 30), num_waiting=1, tokens_per_s=8.0\n"
        "limits:  max_requests=4, max_retry_s=60",
        steps=(
            "The request fits, and the server is not shutting down.",
            "3 running requests and 1 waiting request are 4, and the limit is 4: no place.",
            "The three share 8 tokens per second. The request with 12 tokens left is done first, "
            "after 4.5 s.",
        ),
    ),
    hints=(
        "Ask four questions in this order: can the request ever fit? Is the server shutting down? "
        "Is there a place? If not, when will there be one?",
        "In the example three requests run at 8 tokens per second together. How long does the one "
        "with 12 tokens left take?",
        "Multiply the fewest tokens left by the number of running requests, and divide by "
        "`tokens_per_s`. Round up and apply `max_retry_s`. `running` may be empty, and "
        "`tokens_per_s` may be 0.",
    ),
    right=(admission_control, by_shares),
    misconceptions=(*MISCONCEPTIONS, ANOTHER_STATUS),
    checks=(
        ("a place, or none", JUDGE.on(IDLE, BUSY, queue_of(5, waiting=2), queue_of(5, 5, 5))),
        ("requests that never fit", JUDGE.on(JUST_FITS, *NEVER)),
        ("shutting down", CLOSING),
        ("when to retry", RETRY),
        ("nothing known yet", UNKNOWN),
        ("any queue", JUDGE.on_drawn(any_queue)),
    ),
    equivalent_mutants={
        **{f"{name} at least 1": "it is at least 1" for name in POSITIVE},
        "queue.tokens_per_s rounded to hundredths": "the seconds are whole",
    },
)
