"""Exercise 2.2: whether the head of the queue may start."""

import random
from collections.abc import Callable
from dataclasses import replace

from course.checks.comparing import Args, Comparison
from course.checks.requests import draw_request, make_request
from course.exercise import Exercise, Misconception
from course.harness import Ask, Failure
from course.task import Task
from nanogpt.policy_views import RequestView
from solutions.l02_scheduling._serving import Decisions, Job
from solutions.l02_scheduling._workloads import any_workloads, judge_workloads, judged

# --- right answers ------------------------------------------------------------------------------


def admit(
    candidate: RequestView,
    kv_tokens_used: int,
    max_kv_tokens: int | None,
    num_running: int,
    max_batch_size: int,
) -> str:
    """Return whether the head of the queue may start: "admit", "wait" or "refuse"."""
    # Never comes before not now: a head that waits for what cannot happen blocks all behind it.
    # On the way back after a preemption, the generated tokens have to be computed again too.
    longest = len(candidate.prompt_tokens) + candidate.max_new_tokens - 1
    known = len(candidate.prompt_tokens) + len(candidate.generated_tokens)
    if max_kv_tokens is not None and longest > max_kv_tokens:
        return "refuse"
    if num_running >= max_batch_size:
        return "wait"
    if max_kv_tokens is not None and kv_tokens_used + known > max_kv_tokens:
        return "wait"
    return "admit"


def without_a_limit_is_infinite(
    candidate: RequestView, used: int, limit: int | None, running: int, most: int
) -> str:
    budget = float("inf") if limit is None else limit
    if candidate.kv_tokens_needed > budget:
        return "refuse"
    fits = used + candidate.num_tokens <= budget and running < most
    return "admit" if fits else "wait"


def by_counting_what_is_free(
    candidate: RequestView, used: int, limit: int | None, running: int, most: int
) -> str:
    places = most - running
    if limit is None:
        return "admit" if places > 0 else "wait"
    free = limit - used
    known = [*candidate.prompt_tokens, *candidate.generated_tokens]
    still_to_come = candidate.max_new_tokens - len(candidate.generated_tokens)
    if len(known) + still_to_come > limit + 1:
        return "refuse"
    return "wait" if places == 0 or len(known) > free else "admit"


# --- wrong ideas --------------------------------------------------------------------------------


def admitting(
    never: Callable[[RequestView, int], bool] = lambda r, budget: r.kv_tokens_needed > budget,
    full: Callable[[int, int], bool] = lambda running, most: running >= most,
    short: Callable[[RequestView, int, int], bool] = lambda r, used, budget: (
        used + r.num_tokens > budget
    ),
    not_now: str = "wait",
) -> Callable[..., str]:
    """Right but for the tests that are given."""

    def answer(r: RequestView, used: int, budget: int | None, running: int, most: int) -> str:
        if budget is not None and never(r, budget):
            return "refuse"
        if full(running, most) or (budget is not None and short(r, used, budget)):
            return not_now
        return "admit"

    return answer


never_refuses = admitting(never=lambda r, budget: False)

MISCONCEPTIONS = (
    Misconception(
        "not_a_verdict",
        "Either it may start or not.",
        'There are three answers, "admit", "wait" and "refuse": not now is not the same as never.',
        matches=lambda value: (
            not isinstance(value, str) or value not in ("admit", "wait", "refuse")
        ),
        examples=(lambda *args: admit(*args) == "admit",),
    ),
    Misconception(
        "never_refuses",
        "What does not fit now waits until it does.",
        "This request can never run, not even alone: told to wait, it waits for ever at the head "
        "of the queue and all behind it with it.",
        never_refuses,
    ),
    Misconception(
        "refuses_not_now",
        "What does not fit now is refused.",
        "It does not fit now, but it will when others are done: not now is wait, refuse is for "
        "never.",
        admitting(not_now="refuse"),
    ),
    Misconception(
        "forgets_generated",
        "A request computes its prompt when it starts.",
        "It comes back from a preemption with tokens that it generated, and their K/V has to be "
        "computed again like the prompt's: they need room too.",
        admitting(short=lambda r, used, budget: used + len(r.prompt_tokens) > budget),
    ),
    Misconception(
        "batch_one_too_many",
        "A batch is full when it has more requests than its size.",
        "When max_batch_size requests run, the batch is full: one more is one too many.",
        admitting(full=lambda running, most: running > most),
    ),
    Misconception(
        "last_token_counted",
        "Every generated token needs K/V.",
        "At its longest a request holds prompt + max_new_tokens - 1, since the last token is never "
        "fed to the model and has no K/V, and that may use the budget up exactly.",
        admitting(never=lambda r, budget: r.kv_tokens_needed + 1 > budget),
    ),
    Misconception(
        "prompt_alone",
        "What has a prompt that fits can run.",
        "The prompt fits, but the text grows: at its longest it holds prompt + max_new_tokens - 1 "
        "KV tokens, more than the budget has.",
        admitting(never=lambda r, budget: len(r.prompt_tokens) > budget),
    ),
    Misconception(
        "ignores_used",
        "A request that fits the budget may start.",
        "Other requests hold KV tokens already: what counts is whether the candidate fits beside "
        "them.",
        admitting(short=lambda r, used, budget: r.num_tokens > budget),
    ),
    Misconception(
        "reserves_longest",
        "Start only what can run to its end beside the others.",
        "It can start as soon as its known tokens fit: room kept for a text that is not written "
        "yet stands empty, and preemption is there for when it gets tight.",
        admitting(short=lambda r, used, budget: used + r.kv_tokens_needed > budget),
    ),
    Misconception(
        "waits_first",
        "First see whether there is room, then whether there ever is.",
        "What can never run has to be refused even when the batch or the memory is full: it would "
        "only wait for that answer and hold up those behind it.",
        lambda *args: "wait" if never_refuses(*args) == "wait" else admit(*args),
        same_result=(
            lambda r, used, budget, running, most: (
                "wait" if running >= most else admit(r, used, budget, running, most)
            ),
        ),
    ),
    Misconception(
        "zero_is_none",
        "Without a budget there is no limit.",
        "A KV budget of 0 is a limit like any other; no limit is None, and `if max_kv_tokens` "
        "takes the two for the same.",
        lambda r, used, budget, running, most: admit(r, used, budget or None, running, most),
    ),
)

# --- cases --------------------------------------------------------------------------------------


def draw_admit(name: str, args: Args) -> str:
    candidate, used, max_kv_tokens, num_running, max_batch_size = args
    request = draw_request(candidate, ("prompt_tokens", "generated_tokens", "max_new_tokens"))
    return (
        f"{name}({request}, kv_tokens_used={used}, max_kv_tokens={max_kv_tokens}, "
        f"num_running={num_running}, max_batch_size={max_batch_size})"
    )


def any_candidates(rng: random.Random, count: int) -> list[Args]:
    """Around the limits, where the rules differ; short requests first."""
    cases: list[Args] = []
    for _ in range(count):
        new = rng.randint(1, 9)
        candidate = make_request(1, rng.randint(1, 10), rng.randrange(new), max_new_tokens=new)
        budget = candidate.kv_tokens_needed + rng.choice((-1, 0, 1, 4, 9))
        used = max(0, budget - candidate.num_tokens + rng.choice((-6, -1, 0, 1, 6)))
        most = rng.choice((1, 2, 3, 4, 64))
        limit = None if rng.random() < 0.1 else budget
        running = max(0, most - rng.randrange(4))
        cases.append((candidate, used, limit, running, most))
    return sorted(cases, key=lambda case: case[0].kv_tokens_needed)


def whole_workloads(ask: Ask, rng: random.Random) -> Failure | None:
    workloads = any_workloads(rng, (2, 3, 5), slack=3)
    never = Job(1, 0, workloads[-1].max_kv_tokens, 2)
    workloads[-1] = replace(workloads[-1], slots=2, jobs=(*workloads[-1].jobs, never))
    return judge_workloads(Decisions(admit=judged(JUDGE, ask)), workloads)


JUDGE = Comparison(
    admit,
    MISCONCEPTIONS,
    "Ask two things in turn: could it ever run, alone and at its longest, and is there a place and "
    "room for what it needs at the start?",
    evidence=any_candidates(random.Random(0), 30),
)

NEW = make_request(1, 10, max_new_tokens=6)
BACK = make_request(1, 10, 3, max_new_tokens=6)
ONE_TOKEN = make_request(1, 1, max_new_tokens=1)
LONG_TEXT = make_request(1, 10, max_new_tokens=14)

EXERCISE = Exercise(
    number=2,
    title="The gatekeeper",
    minutes=10,
    points=3,
    part="admit",
    task=Task(
        signature="admit(candidate: RequestView, kv_tokens_used: int, max_kv_tokens: int | None, "
        "num_running: int, max_batch_size: int) -> str",
        rules=(
            'Return whether the head of the queue may start: "admit", "wait" or "refuse".',
            "All requests together may hold `max_kv_tokens` KV tokens (None: no limit), and "
            "`max_batch_size` of them may run at once. Now `num_running` run, with "
            "`kv_tokens_used` KV tokens in use or promised to them. Both limits may be used up "
            "exactly.",
            "`candidate` has `prompt_tokens`, `generated_tokens` (empty unless it was preempted) "
            "and `max_new_tokens`. The last token that it generates is never fed to the model, so "
            "it has no K/V.",
            '"refuse": the budget could never hold it, not even alone and at its longest.',
            '"wait": it could run, but not now. When it starts it computes the K/V of all that '
            "is known of it.",
        ),
        args=(make_request(1, 3, max_new_tokens=4), 5, 8, 1, 4),
        result="admit",
    ),
    hints=(
        "What would happen to the queue if its head could never run and were told to wait?",
        "Ask about never first: how long does its text get at most, and which of those tokens has "
        "no K/V? Then about now: is there a place in the batch, and room for what it computes "
        "first?",
        "Three questions in turn, each with a return of its own. Only one of them is asked when "
        "`max_kv_tokens` is None, and none of them is about priorities.",
    ),
    right=(admit, without_a_limit_is_infinite, by_counting_what_is_free),
    misconceptions=MISCONCEPTIONS,
    checks=(
        (
            "now or later",
            JUDGE.on(
                (NEW, 0, 22, 0, 4), (NEW, 8, 22, 1, 4), (NEW, 15, 22, 1, 4), (NEW, 4, 22, 4, 4)
            ),
        ),
        (
            "to the last token and the last place",
            JUDGE.on(
                (NEW, 8, 22, 3, 4),
                (NEW, 12, 22, 1, 4),
                (NEW, 13, 22, 1, 4),
                (NEW, 0, 15, 0, 4),
                (ONE_TOKEN, 0, 1, 0, 1),
                (NEW, 60, 100, 63, 64),
                (NEW, 60, 100, 64, 64),
            ),
        ),
        (
            "on the way back from a preemption",
            JUDGE.on(
                (BACK, 11, 22, 1, 4), (BACK, 9, 22, 1, 4), (BACK, 10, 22, 1, 4), (BACK, 0, 15, 0, 4)
            ),
        ),
        (
            "what can never run",
            JUDGE.on(
                (make_request(1, 23, max_new_tokens=4), 0, 22, 0, 4),
                (LONG_TEXT, 0, 22, 0, 4),
                (LONG_TEXT, 20, 22, 2, 4),
                (LONG_TEXT, 4, 22, 4, 4),
                (make_request(1, 10, max_new_tokens=13), 0, 22, 0, 4),
                (ONE_TOKEN, 0, 0, 0, 4),
            ),
        ),
        ("no limit", JUDGE.on((NEW, 10**6, None, 1, 4), (NEW, 500, None, 4, 4))),
        ("any candidate", JUDGE.on_drawn(lambda rng: any_candidates(rng, 60))),
        ("whole workloads, to the last token", whole_workloads),
    ),
    draw_call=draw_admit,
    equivalent_mutants={
        "candidate.max_new_tokens at least 1": "it is at least 1",
        "max_batch_size at least 1": "it is at least 1",
    },
)
