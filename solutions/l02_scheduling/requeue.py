"""Exercise 2.4: how a preempted request goes back to wait."""

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from course.calling.plain_values import as_items, as_whole
from course.checks.comparing import Args, Comparison, a_kind
from course.checks.requests import draw_request, make_request
from course.exercise import Exercise, Misconception
from course.harness import Ask, Failure, Rows
from course.task import Task
from nanogpt.policy_views import RequestView
from solutions.l02_scheduling._requests import last_admitted
from solutions.l02_scheduling._serving import (
    Decisions,
    Job,
    Serving,
    Way,
    Workload,
    sawtooth,
    start_over,
)
from solutions.l02_scheduling._workloads import any_workloads, first_wrong, judge_workloads, judged

# --- right answers ------------------------------------------------------------------------------


def requeue(request: RequestView) -> tuple[list[int], int, int, int]:
    """Return `(tokens, num_computed_tokens, arrival, num_generated)` of a preempted request."""
    # Only the K/V is gone. The text is known, prompt and generated alike, and computing it again
    # gives the same K/V; so the request goes on where it stopped, from the place it always had.
    tokens = [*request.prompt_tokens, *request.generated_tokens]
    return tokens, 0, request.arrival_time, len(request.generated_tokens)


def by_adding(request: RequestView) -> Way:
    text = request.prompt_tokens + request.generated_tokens
    return list(text), 0, request.arrival_time, len(text) - len(request.prompt_tokens)


def by_appending(request: RequestView) -> Way:
    tokens = list(request.prompt_tokens)
    num_generated = 0
    for token in request.generated_tokens:
        tokens.append(token)
        num_generated += 1
    return tokens, 0, request.arrival_time, num_generated


# --- wrong ideas --------------------------------------------------------------------------------


def text(request: RequestView) -> list[int]:
    return [*request.prompt_tokens, *request.generated_tokens]


def resuming(
    tokens: Callable[[RequestView], Any] = text,
    num_computed_tokens: Callable[[RequestView], int] = lambda r: 0,
    arrival: Callable[[RequestView], Any] = lambda r: r.arrival_time,
    num_generated: Callable[[RequestView], int] = lambda r: len(r.generated_tokens),
) -> Callable[[RequestView], Any]:
    """Right but for the things that are given."""
    return lambda r: (tokens(r), num_computed_tokens(r), arrival(r), num_generated(r))


def not_four(value: Any) -> bool:
    four = as_items(value)
    return four is None or len(four) != 4


def wrong_type(four: Any) -> str:
    """What is said of the first of the four that holds no whole numbers; "" if all of them do."""
    for token in four[0]:
        if as_whole(token) is None:
            return f"tokens holds whole numbers; one of these is {a_kind(token)}."
    for name, part in zip(
        ("num_computed_tokens", "arrival", "num_generated"), four[1:], strict=True
    ):
        if as_whole(part) is None:
            return f"{name} is a whole number (an int); this is {a_kind(part)}."
    return ""


MISCONCEPTIONS = (
    Misconception(
        "not_four",
        "What it computes and from where.",
        "Return four things: `return tokens, num_computed_tokens, arrival, num_generated`.",
        matches=not_four,
        examples=(lambda r: (text(r), 0),),
    ),
    Misconception(
        "tokens_not_a_list",
        "How many tokens there are is all that the scheduler has to know.",
        lambda four: f"tokens is a list of token ids; this is {a_kind(four[0])}.",
        matches=lambda four: as_items(four[0]) is None,
        examples=(resuming(tokens=lambda r: r.num_tokens),),
    ),
    Misconception(
        "wrong_type",
        "A place in the queue may be a word.",
        wrong_type,
        matches=lambda four: wrong_type(four) != "",
        examples=(resuming(arrival=lambda r: str(r.arrival_time)),),
    ),
    Misconception(
        "keeps_computed",
        "What was computed is computed.",
        "The K/V has been released, that of the prompt too, so no token is computed any more: "
        "num_computed_tokens goes back to 0.",
        resuming(num_computed_tokens=lambda r: r.kv_tokens),
        same_result=(
            resuming(num_computed_tokens=lambda r: min(r.kv_tokens, len(r.prompt_tokens))),
            resuming(num_computed_tokens=lambda r: len(r.prompt_tokens)),
        ),
    ),
    Misconception(
        "loses_its_place",
        "Arrival is when it was last admitted.",
        "It queues with the arrival_time that it always had: to take its admission for its "
        "arrival sends it behind all that came in the meantime.",
        resuming(arrival=lambda r: r.admitted_at),
    ),
    Misconception(
        "to_the_front",
        "What was preempted goes to the front.",
        "It goes back to its own place, not to the front: nothing that arrived before it should be "
        "overtaken.",
        resuming(arrival=lambda r: 0),
    ),
    Misconception(
        "restarts",
        "Recompute means to start over.",
        "Only the K/V is gone: the text is kept, since its reader has seen it, and a request that "
        "starts over gets no further when the memory is short again.",
        start_over,
    ),
    Misconception(
        "orphans",
        "A prefill computes the prompt; generated tokens are there already.",
        "The generated tokens lost their K/V as well: left out of `tokens`, they would be part of "
        "the text and the model would never see them.",
        resuming(tokens=lambda r: r.prompt_tokens),
    ),
    Misconception(
        "forgets_count",
        "The generated tokens are part of the prompt now.",
        "The generated tokens still count: with num_generated 0 it would generate all of "
        "max_new_tokens once more.",
        resuming(num_generated=lambda r: 0),
    ),
    Misconception(
        "counts_everything",
        "num_generated is how many tokens it has.",
        "num_generated counts only the generated tokens, not the prompt.",
        resuming(num_generated=lambda r: r.num_tokens),
    ),
    Misconception(
        "drops_the_newest",
        "The newest token has no K/V, so it does not count yet.",
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
    """Requests preempted at any moment, those with few tokens first."""
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
    """The victim is the one that was admitted first, which is bad luck and no excuse."""

    def unlucky(active: list[RequestView]) -> int:
        return min(active, key=lambda request: (last_admitted(request), request.id)).id

    workload = Workload("fcfs", 22, 8, (Job(1, 0, 10, 5), Job(2, 0, 10, 5)))
    found = first_wrong(workload, Decisions(choose_victim=unlucky, requeue=judged(JUDGE, ask)))
    if found is None:
        return None
    failure = found[1]
    rows: Rows = ()
    if failure.misconception == "restarts":
        restarting = Serving(workload, Decisions(choose_victim=unlucky, requeue=start_over))
        restarting.run(60)
        rows = (("workload", str(workload)), ("generated", sawtooth(restarting)))
    return Failure(failure.idea, rows + failure.example, failure.misconception)


def whole_workloads(ask: Ask, rng: random.Random) -> Failure | None:
    decisions = Decisions(requeue=judged(JUDGE, ask))
    return judge_workloads(decisions, any_workloads(rng, (2, 3, 4, 6), slack=5))


JUDGE = Comparison(
    requeue,
    MISCONCEPTIONS,
    "Only the K/V is gone: say what has to be computed again for it, and keep everything else as "
    "it was.",
    evidence=any_resumed(random.Random(0), 20),
)

EXERCISE = Exercise(
    number=4,
    title="Preemption back to waiting",
    minutes=8,
    points=2,
    part="requeue",
    task=Task(
        signature="requeue(request: RequestView) -> tuple[list[int], int, int, int]",
        rules=(
            "`request` was preempted: all of its K/V has been released. Return `(tokens, "
            "num_computed_tokens, arrival, num_generated)`, with which it goes back to wait.",
            "`tokens` is the list of the tokens whose K/V it computes when it is admitted again, "
            "in the order of the text, and `num_computed_tokens` says how many of them are "
            "computed already.",
            "`arrival` is the arrival time that it queues with. `num_generated` says how many of "
            "its generated tokens it keeps, so that its text goes on after them.",
            "`request` has `prompt_tokens` and `generated_tokens` (tuples), `arrival_time`, "
            "`admitted_at` and `kv_tokens` (how many it held until now). Its reader has seen the "
            "generated tokens.",
        ),
        args=(make_request(0, 3, arrival_time=2, admitted_at=4, kv_tokens=2),),
        result=([1, 2, 3], 0, 2, 0),
    ),
    hints=(
        "What is lost when the K/V is released, and what is still known?",
        "The text is known, and its reader has seen it. Of how many of its tokens is there any "
        "K/V now, and so from which one on must it be computed?",
        "Go through the four values for a request with prompt [1, 2] and generated [7] that "
        "arrived in step 5 and was admitted in step 9. Which of them did preemption change?",
    ),
    right=(requeue, by_adding, by_appending),
    misconceptions=MISCONCEPTIONS,
    checks=(
        (
            "preempted before its first token",
            JUDGE.on(
                (make_request(0, 5, arrival_time=2, admitted_at=3, kv_tokens=4),),
                (make_request(0, 3, arrival_time=4, admitted_at=7, kv_tokens=0),),
            ),
        ),
        ("two equal requests, to the last token", two_equal),
        ("preempted at any moment", JUDGE.on_drawn(lambda rng: any_resumed(rng, 40))),
        ("whole workloads, to the last token", whole_workloads),
    ),
    draw_call=draw_resume,
)
