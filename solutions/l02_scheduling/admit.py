"""Exercise 2.2: whether the first waiting request may start."""

import random
from collections.abc import Callable

from course.checks.comparing import Args, Comparison
from course.checks.requests import draw_request, make_request
from course.exercise import Exercise, Misconception, Task
from nanogpt.views.request_view import RequestView

# --- right answers ------------------------------------------------------------------------------


def admit(
    candidate: RequestView,
    kv_tokens_used: int,
    max_kv_tokens: int | None,
    num_running: int,
    max_batch_size: int,
) -> str:
    """Return whether the first waiting request may start: "admit", "wait" or "refuse"."""
    # "Never" comes before "not now": a request that can never run would block the queue for ever.
    # After a preemption the generated tokens are computed again, so they need room too.
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


# --- wrong ideas --------------------------------------------------------------------------------


def admitting(
    never: Callable[[RequestView, int], bool] = lambda r, budget: r.kv_tokens_needed > budget,
    full: Callable[[int, int], bool] = lambda running, most: running >= most,
    short: Callable[[RequestView, int, int], bool] = lambda r, used, budget: (
        used + r.num_tokens > budget
    ),
    not_now: str = "wait",
) -> Callable[..., str]:
    """The right answer, with one of its tests replaced."""

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
        "The result says whether the request may start.",
        'Return one of three words: "admit", "wait" or "refuse".',
        matches=lambda value: (
            not isinstance(value, str) or value not in ("admit", "wait", "refuse")
        ),
        examples=(lambda *args: admit(*args) == "admit",),
    ),
    Misconception(
        "never_refuses",
        "A request that does not fit waits until it does.",
        "This request can never run, not even alone. It would wait at the front of the queue for "
        "ever, and every request behind it would wait too.",
        never_refuses,
    ),
    Misconception(
        "refuses_not_now",
        "A request that does not fit now is refused.",
        'It does not fit now, but it will when others have finished: answer "wait". "refuse" means '
        "that it can never run.",
        admitting(not_now="refuse"),
    ),
    Misconception(
        "forgets_generated",
        "A request computes only its prompt when it starts.",
        "This request was preempted after it generated tokens. Their K/V must be computed again "
        "like the prompt's, so they need room too.",
        admitting(short=lambda r, used, budget: used + len(r.prompt_tokens) > budget),
    ),
    Misconception(
        "batch_one_too_many",
        "The batch is full only when more than max_batch_size requests run.",
        "When max_batch_size requests run, the batch is full: one more is one too many.",
        admitting(full=lambda running, most: running > most),
    ),
    Misconception(
        "last_token_counted",
        "Every generated token needs K/V.",
        "The last generated token is never fed to the model, so a request needs at most prompt + "
        "max_new_tokens - 1 KV tokens, and they may fill the budget exactly.",
        admitting(never=lambda r, budget: r.kv_tokens_needed + 1 > budget),
    ),
    Misconception(
        "exact_fit_waits",
        "A full budget is too full.",
        "The KV tokens in use and those of the request may fill the budget exactly: it waits only "
        "if they are more than `max_kv_tokens`.",
        admitting(short=lambda r, used, budget: used + r.num_tokens >= budget),
    ),
    Misconception(
        "generated_twice",
        "After a preemption max_new_tokens more are generated.",
        "`max_new_tokens` includes the tokens that were generated before the preemption: the "
        "longest text stays prompt + max_new_tokens - 1.",
        admitting(never=lambda r, budget: r.kv_tokens_needed + len(r.generated_tokens) > budget),
    ),
    Misconception(
        "prompt_alone",
        "A request whose prompt fits can run.",
        "The prompt fits, but the text grows: at its longest the request needs prompt + "
        "max_new_tokens - 1 KV tokens, more than the budget.",
        admitting(never=lambda r, budget: len(r.prompt_tokens) > budget),
    ),
    Misconception(
        "reserves_longest",
        "A request may start only if its longest text fits beside the others.",
        "It may start as soon as its known tokens fit. Room reserved for future tokens stays "
        "empty; if memory runs short later, the engine preempts.",
        admitting(short=lambda r, used, budget: used + r.kv_tokens_needed > budget),
    ),
    Misconception(
        "waits_first",
        "First ask whether there is room now, then whether there will ever be.",
        "A request that can never run is refused even while the batch or the memory is full. "
        "Otherwise it waits only to be refused later, and holds up the requests behind it.",
        lambda *args: "wait" if never_refuses(*args) == "wait" else admit(*args),
        same_result=(
            lambda r, used, budget, running, most: (
                "wait" if running >= most else admit(r, used, budget, running, most)
            ),
        ),
    ),
    Misconception(
        "zero_is_none",
        "A budget of 0 means no limit.",
        "No limit is None. A budget of 0 is a limit, and `if max_kv_tokens` confuses the two.",
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
    """Candidates near the limits, where the rules differ; short requests first."""
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


JUDGE = Comparison(
    admit,
    MISCONCEPTIONS,
    "Ask two questions in turn. Could the request ever run, alone and at its longest? And is there "
    "a free slot in the batch and room for its known tokens now?",
    evidence=any_candidates(random.Random(0), 30),
)

NEW = make_request(1, 10, max_new_tokens=6)
BACK = make_request(1, 10, 3, max_new_tokens=6)
ONE_TOKEN = make_request(1, 1, max_new_tokens=1)
LONG_TEXT = make_request(1, 10, max_new_tokens=14)

EXERCISE = Exercise(
    number=2,
    title="Admitting the first waiting request",
    minutes=10,
    points=3,
    task=Task(
        rules=(
            'Return whether `candidate`, the first waiting request, may start: "admit", "wait" or '
            '"refuse".',
            "All requests together may use `max_kv_tokens` KV tokens (None: no limit), and "
            "`max_batch_size` of them may run at once. Now `num_running` requests run, prefilling "
            "or decoding, and use `kv_tokens_used` KV tokens: one for each of their known tokens, "
            "computed or not. Both limits may be reached exactly.",
            "`candidate` has `prompt_tokens`, `generated_tokens` (empty unless it was preempted) "
            "and `max_new_tokens`. The last token it generates is never fed to the model, so that "
            "token needs no K/V.",
            '"refuse": its longest text would not fit even if the engine were empty.',
            '"wait": it can run, but not now. To start, it needs a free slot in the batch and '
            "room for the K/V of all its known tokens.",
        ),
        args=(make_request(1, 3, max_new_tokens=4), 5, 8, 1, 4),
        call="admit(candidate, kv_tokens_used=5, max_kv_tokens=8, num_running=1, "
        "max_batch_size=4)\n# candidate: 3 prompt tokens, none generated, max_new_tokens=4",
        steps=(
            "Can it ever run? At most it needs 3 + 4 - 1 = 6 KV tokens, and the budget is 8: yes.",
            "Is a slot free now? 1 request runs, of at most 4: yes.",
            "Is there room now? 3 known tokens and 5 in use make 8, exactly the budget: yes.",
        ),
        result="admit",
    ),
    hints=(
        "What happens to the queue if its first request can never run and is told to wait?",
        'Ask about "never" first: how long does the text of the request get at most, and which of '
        "those tokens needs no K/V? Then ask about now: is there a free slot in the batch, and "
        "room for its known tokens?",
        "Three questions in turn, each with its own return. If `max_kv_tokens` is None, only the "
        "question about the batch remains. Priorities play no part.",
    ),
    right=(admit, without_a_limit_is_infinite),
    misconceptions=MISCONCEPTIONS,
    checks=(
        (
            "now or later",
            JUDGE.on(
                (NEW, 0, 22, 0, 4), (NEW, 8, 22, 1, 4), (NEW, 15, 22, 1, 4), (NEW, 4, 22, 4, 4)
            ),
        ),
        (
            "limits reached exactly",
            JUDGE.on(
                *((NEW, used, 22, running, 4) for used, running in ((8, 3), (12, 1), (13, 1))),
                (NEW, 0, 15, 0, 4),
                (ONE_TOKEN, 0, 1, 0, 1),
                *((NEW, 60, 100, running, 64) for running in (63, 64)),
            ),
        ),
        (
            "after a preemption",
            JUDGE.on(*((BACK, used, 22, 1, 4) for used in (11, 9, 10)), (BACK, 0, 15, 0, 4)),
        ),
        (
            "a request that can never run",
            JUDGE.on(
                (make_request(1, 23, max_new_tokens=4), 0, 22, 0, 4),
                *((LONG_TEXT, used, 22, running, 4) for used, running in ((0, 0), (20, 2), (4, 4))),
                (make_request(1, 10, max_new_tokens=13), 0, 22, 0, 4),
                (ONE_TOKEN, 0, 0, 0, 4),
            ),
        ),
        ("no limit", JUDGE.on((NEW, 10**6, None, 1, 4), (NEW, 500, None, 4, 4))),
        ("any candidate", JUDGE.on_drawn(lambda rng: any_candidates(rng, 60))),
    ),
    draw_call=draw_admit,
    equivalent_mutants={
        "candidate.max_new_tokens at least 1": "it is at least 1",
        "max_batch_size at least 1": "it is at least 1",
    },
)
