"""Exercise 2.4: what a preempted request takes back to the queue."""

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from course.calling.plain_values import as_items
from course.checks.comparing import Args, Comparison
from course.checks.requests import draw_request, make_request
from course.exercise import Exercise, Misconception, Task
from course.harness import Ask, Failure
from nanogpt.views.request_view import RequestView
from solutions.l02_scheduling._requests import last_admitted
from solutions.l02_scheduling._serving import (
    TWO_EQUAL,
    Way,
    draw_run,
    first_wrong,
    judged,
    serve,
    start_over,
)

# --- right answers ------------------------------------------------------------------------------


def requeue(request: RequestView) -> tuple[list[int], int, int, int]:
    """Return `(tokens, num_computed_tokens, arrival, num_generated)` of a preempted request."""
    # Only the K/V is gone. Prompt and generated tokens are known, and recomputing them gives the
    # same K/V, so the request continues where it stopped and keeps its place in the queue.
    tokens = [*request.prompt_tokens, *request.generated_tokens]
    return tokens, 0, request.arrival_time, len(request.generated_tokens)


def by_adding(request: RequestView) -> Way:
    text = request.prompt_tokens + request.generated_tokens
    return list(text), 0, request.arrival_time, len(text) - len(request.prompt_tokens)


# --- wrong ideas --------------------------------------------------------------------------------


def text(request: RequestView) -> list[int]:
    return [*request.prompt_tokens, *request.generated_tokens]


def resuming(
    tokens: Callable[[RequestView], Any] = text,
    num_computed_tokens: Callable[[RequestView], int] = lambda r: 0,
    arrival: Callable[[RequestView], Any] = lambda r: r.arrival_time,
    num_generated: Callable[[RequestView], int] = lambda r: len(r.generated_tokens),
) -> Callable[[RequestView], Any]:
    """The right answer, with one of its four values replaced."""
    return lambda r: (tokens(r), num_computed_tokens(r), arrival(r), num_generated(r))


def not_four(value: Any) -> bool:
    four = as_items(value)
    return four is None or len(four) != 4 or as_items(four[0]) is None


MISCONCEPTIONS = (
    Misconception(
        "not_four",
        "The queue needs only the tokens and where to start.",
        "Return a list of tokens and three numbers: `return tokens, num_computed_tokens, arrival, "
        "num_generated`.",
        matches=not_four,
        examples=(lambda r: (text(r), 0), resuming(tokens=lambda r: r.num_tokens)),
    ),
    Misconception(
        "keeps_computed",
        "Computed tokens stay computed.",
        "The K/V has been released, the prompt's too, so no token counts as computed: "
        "num_computed_tokens goes back to 0.",
        resuming(num_computed_tokens=lambda r: r.kv_tokens),
        same_result=(
            resuming(num_computed_tokens=lambda r: min(r.kv_tokens, len(r.prompt_tokens))),
            resuming(num_computed_tokens=lambda r: len(r.prompt_tokens)),
        ),
    ),
    Misconception(
        "loses_its_place",
        "A preempted request arrived when it was last admitted.",
        "A request queues with its own arrival_time. With its admission time it would queue behind "
        "every request that arrived in the meantime.",
        resuming(arrival=lambda r: r.admitted_at),
    ),
    Misconception(
        "to_the_front",
        "A preempted request goes to the front of the queue.",
        "A preempted request goes back to its own place. Under FCFS that place is at the front, "
        "but under another policy it would overtake requests that go before it.",
        resuming(arrival=lambda r: 0),
    ),
    Misconception(
        "restarts",
        "Recompute means that the text starts over.",
        "Only the K/V is gone. The user has seen the text, so it is kept. And a request that "
        "starts over makes no progress if it is preempted again and again.",
        start_over,
    ),
    Misconception(
        "orphans",
        "A prefill computes only the prompt.",
        "The generated tokens lost their K/V too. If they are missing from `tokens`, they stay in "
        "the text without K/V, and the model never attends to them.",
        resuming(tokens=lambda r: r.prompt_tokens),
    ),
    Misconception(
        "forgets_count",
        "The generated tokens are part of the prompt now.",
        "The generated tokens still count: with num_generated 0 the request would generate "
        "max_new_tokens more.",
        resuming(num_generated=lambda r: 0),
    ),
    Misconception(
        "counts_everything",
        "num_generated counts all tokens.",
        "num_generated counts only the generated tokens, not the prompt.",
        resuming(num_generated=lambda r: r.num_tokens),
    ),
    Misconception(
        "drops_the_newest",
        "The newest token has no K/V yet, so it does not count.",
        "The newest token has no K/V yet, but it is part of the text: keep it and compute it.",
        resuming(
            tokens=lambda r: r.prompt_tokens + r.generated_tokens[:-1],
            num_generated=lambda r: max(0, len(r.generated_tokens) - 1),
        ),
        same_result=(resuming(tokens=lambda r: r.prompt_tokens + r.generated_tokens[:-1]),),
    ),
)

# --- cases --------------------------------------------------------------------------------------


def draw_resume(name: str, args: Args) -> str:
    fields = (
        "prompt_tokens", "generated_tokens", "max_new_tokens", "arrival_time", "admitted_at",
        "kv_tokens",
    )  # fmt: skip
    return f"{name}({draw_request(args[0], fields, count_tokens=False)})"


def any_resumed(rng: random.Random, count: int) -> list[Args]:
    """Requests preempted at any moment, short ones first."""
    cases: list[Args] = []
    for _ in range(count):
        new = rng.randint(1, 8)
        request = make_request(
            rng.randrange(6),
            arrival_time=rng.randrange(9),
            max_new_tokens=new,
            prompt_tokens=tuple(rng.choices(range(20, 25), k=rng.randint(1, 8))),
            generated_tokens=tuple(rng.choices(range(20, 30), k=rng.randrange(new))),
        )
        kv_tokens = rng.randrange(request.num_tokens)
        admitted_at = request.arrival_time + rng.randrange(9)
        cases.append((replace(request, admitted_at=admitted_at, kv_tokens=kv_tokens),))
    return sorted(cases, key=lambda case: case[0].num_tokens)


def two_equal(ask: Ask, rng: random.Random) -> Failure | None:
    """Each text must be kept even under a bad rule: the first admitted request is the victim."""

    def unlucky(active: list[RequestView]) -> int:
        return min(active, key=lambda request: (last_admitted(request), request.id)).id

    failure = first_wrong(TWO_EQUAL, choose_victim=unlucky, requeue=judged(JUDGE, ask))
    if failure is None or failure.misconception != "restarts":
        return failure
    restarting = serve(TWO_EQUAL, 59, choose_victim=unlucky, requeue=start_over)
    rows = draw_run(TWO_EQUAL, restarting) + failure.example
    return Failure(failure.idea, rows, failure.misconception)


JUDGE = Comparison(
    requeue,
    MISCONCEPTIONS,
    "Only the K/V is gone: say which tokens must be computed again, and keep everything else.",
    evidence=any_resumed(random.Random(0), 20),
)

EXERCISE = Exercise(
    number=4,
    title="Requeueing a preempted request",
    minutes=8,
    points=2,
    task=Task(
        rules=(
            "`request` is being preempted: all of its K/V is released. Return `(tokens, "
            "num_computed_tokens, arrival, num_generated)`, the state with which it waits.",
            "`tokens` are the tokens that it knows and will compute from `num_computed_tokens` on "
            "when it is admitted again. It queues with `arrival`, and its text goes on after its "
            "first `num_generated` generated tokens.",
            "`request` has `prompt_tokens` and `generated_tokens` (tuples), `arrival_time`, "
            "`admitted_at` and `kv_tokens`. Its user has already seen the generated tokens.",
        ),
        args=(make_request(0, 3, arrival_time=2, admitted_at=4, kv_tokens=2),),
        call="requeue(request)\n# prompt_tokens=(1, 2, 3), generated_tokens=(), arrival_time=2,\n"
        "# admitted_at=4, kv_tokens=2: preempted in the middle of its prefill",
        steps=("It has lost the K/V of its first two tokens, and none of its text.",),
        result=([1, 2, 3], 0, 2, 0),
    ),
    hints=(
        "What is lost when the K/V is released, and what is still known?",
        "The text is known, and the user has seen it. How many of its tokens have K/V now? So "
        "from which token on must it be computed?",
        "Work out the four values for a request with prompt [1, 2] and generated [7] that arrived "
        "at step 5 and was admitted at step 9. Which of them did preemption change?",
    ),
    right=(requeue, by_adding),
    misconceptions=MISCONCEPTIONS,
    checks=(
        (
            "preempted before its first token",
            JUDGE.on(
                (make_request(0, 5, arrival_time=2, admitted_at=3, kv_tokens=4),),
                (make_request(0, 3, arrival_time=40, admitted_at=70, kv_tokens=0),),
            ),
        ),
        ("two equal requests, to the last token", two_equal),
        ("any preempted request", JUDGE.on_drawn(lambda rng: any_resumed(rng, 40))),
    ),
    draw_call=draw_resume,
)
