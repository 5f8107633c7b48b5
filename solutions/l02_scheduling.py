"""Lesson 2, the scheduler: worked answers, other right ones, known wrong ones."""

import functools
import heapq
import itertools
from collections.abc import Callable
from typing import Any

from nanogpt.policies import RequestView
from solutions.wrong import WrongAnswer

Way = tuple[list[int], int, int, int]

# --- sort_key --------------------------------------------------------------------------------


def sort_key(policy: str, request: RequestView) -> tuple[float, ...]:
    """Return the request's rank in the queue: a tuple of numbers, the smallest goes first.

    Under "fcfs" requests go in order of arrival. Under "priority" they go by `request.priority`,
    0 before 1 before 2, and among equals in order of arrival. For any other policy, raise a
    ValueError.
    `request.arrival_time` is the step that the request arrived in, `request.admitted_at` the step
    in which it last left the queue (None: never).
    """
    # Tuples compare from the left, so the first number decides and the next one breaks ties. The
    # arrival never changes, also not when the request comes back to the queue a second time.
    if policy == "fcfs":
        return (request.arrival_time,)
    if policy == "priority":
        return (request.priority, request.arrival_time)
    raise ValueError(f"there is no policy {policy!r}; choose 'fcfs' or 'priority'")


def sort_key_with_match(policy: str, request: RequestView) -> tuple[float, ...]:
    match policy:
        case "fcfs":
            return request.arrival_time, request.id
        case "priority":
            return request.priority, request.arrival_time, request.id
        case _:
            raise ValueError(policy)


def sort_key_from_a_table(policy: str, request: RequestView) -> tuple[float, ...]:
    levels = {"fcfs": 0, "priority": request.priority}
    if policy not in levels:
        raise ValueError(f"unknown policy: {policy}")
    return (float(levels[policy]), float(request.arrival_time))


def sort_key_by_field_names(policy: str, request: RequestView) -> tuple[float, ...]:
    fields = {"fcfs": ("arrival_time",), "priority": ("priority", "arrival_time")}
    try:
        return tuple(getattr(request, field) for field in fields[policy])
    except KeyError:
        raise ValueError(f"{policy} is neither fcfs nor priority") from None


# --- admit -----------------------------------------------------------------------------------


def admit(
    candidate: RequestView,
    held: int,
    kv_budget: int | None,
    num_running: int,
    max_batch_size: int,
) -> str:
    """Return whether the head of the queue may start: "admit", "wait" or "refuse".

    All requests together may hold `kv_budget` KV tokens (None: no limit), and `max_batch_size` of
    them may run at once. Now `num_running` run, with `held` KV tokens in use or promised to them.
    "refuse": the budget could never hold `candidate`, not even alone and at its longest, with all
    of its `max_new_tokens` generated. The last token that it generates needs no K/V.
    "wait": it could run, but not now. Either the batch is full, or the K/V of all that is known
    of it, which it computes first, does not fit beside what is held.
    "admit": it can start. A budget may be used to its last token, a batch to its last place.
    `candidate` has `prompt_tokens`, `generated_tokens` (empty unless it was preempted) and
    `max_new_tokens`.
    """
    # Never comes before not now: a head that waits for what cannot happen blocks everybody behind
    # it. On the way back after a preemption, the generated tokens have to be computed again too.
    longest = len(candidate.prompt_tokens) + candidate.max_new_tokens - 1
    known = len(candidate.prompt_tokens) + len(candidate.generated_tokens)
    if kv_budget is not None and longest > kv_budget:
        return "refuse"
    if num_running >= max_batch_size:
        return "wait"
    if kv_budget is not None and held + known > kv_budget:
        return "wait"
    return "admit"


def admit_without_a_limit_is_infinite(
    candidate: RequestView, held: int, kv_budget: int | None, num_running: int, max_batch_size: int
) -> str:
    budget = float("inf") if kv_budget is None else kv_budget
    if candidate.kv_tokens_needed > budget:
        return "refuse"
    fits = held + candidate.num_known <= budget and num_running < max_batch_size
    return "admit" if fits else "wait"


def admit_by_counting_what_is_free(
    candidate: RequestView, held: int, kv_budget: int | None, num_running: int, max_batch_size: int
) -> str:
    places = max_batch_size - num_running
    if kv_budget is None:
        return "admit" if places > 0 else "wait"
    free = kv_budget - held
    known = [*candidate.prompt_tokens, *candidate.generated_tokens]
    still_to_come = candidate.max_new_tokens - len(candidate.generated_tokens)
    if len(known) + still_to_come > kv_budget + 1:
        return "refuse"
    return "wait" if places == 0 or len(known) > free else "admit"


def admit_by_reasons(
    candidate: RequestView, held: int, kv_budget: int | None, num_running: int, max_batch_size: int
) -> str:
    reasons: list[str] = []
    if kv_budget is not None:
        prompt = len(candidate.prompt_tokens)
        if prompt + candidate.max_new_tokens > kv_budget + 1:
            reasons.append("refuse")
        if held + prompt + len(candidate.generated_tokens) > kv_budget:
            reasons.append("wait")
    if not num_running < max_batch_size:
        reasons.append("wait")
    return (reasons or ["admit"])[0]


# --- choose_victim ---------------------------------------------------------------------------


def choose_victim(active: list[RequestView]) -> int:
    """Return the id of the running request that gives way when the KV budget is short.

    `active` are the running requests, at least one, in any order. The victim is the one that comes
    last in the order of the queue: the one with the largest `key`, its rank under whatever policy
    is in force (the smallest goes first); among equal keys the one with the latest `arrival_time`;
    and among those the one with the largest `id`.
    """
    # The least important pays. Among equals the newest does, since it has the least to recompute,
    # and since somebody must never be chosen: the first in this order keeps running, so it gets
    # done, and then the next one is first.
    last = max(active, key=lambda request: (request.key, request.arrival_time, request.id))
    return last.id


def choose_victim_by_sorting(active: list[RequestView]) -> int:
    queue = sorted(active, key=lambda request: request.id)
    queue.sort(key=lambda request: request.arrival_time)
    queue.sort(key=lambda request: request.key)
    return queue[-1].id


def choose_victim_by_loop(active: list[RequestView]) -> int:
    victim = active[0]
    for request in active[1:]:
        if request.key != victim.key:
            later = request.key > victim.key
        elif request.arrival_time != victim.arrival_time:
            later = request.arrival_time > victim.arrival_time
        else:
            later = request.id > victim.id
        if later:
            victim = request
    return victim.id


def choose_victim_by_narrowing(active: list[RequestView]) -> int:
    for rank in (lambda r: r.key, lambda r: r.arrival_time, lambda r: r.id):
        highest = max(rank(request) for request in active)
        active = [request for request in active if rank(request) == highest]
    return active[0].id


def choose_victim_from_a_heap(active: list[RequestView]) -> int:
    order = [(request.key, request.arrival_time, request.id) for request in active]
    return heapq.nlargest(1, order)[0][2]


# --- resume ----------------------------------------------------------------------------------


def resume(request: RequestView) -> tuple[list[int], int, int, int]:
    """Return `(tokens, cursor, arrival, num_generated)`: how a preempted request goes back to wait.

    All of its K/V has been released. `tokens` is the list of tokens whose K/V it computes when it
    is admitted again, in the order of the text; `cursor` says how many of them are computed
    already; `arrival` is the arrival time that it queues with; and `num_generated` says how many
    of its generated tokens it keeps, so that its text goes on after them.
    `request` has `prompt_tokens` and `generated_tokens` (tuples), `arrival_time`, `admitted_at`
    and `kv_tokens` (how many it held until now). Its reader has seen the generated tokens.
    """
    # Only the K/V is gone. The text is known, prompt and generated alike, and computing it again
    # gives the same K/V; so the request goes on where it stopped, from the place it always had.
    tokens = [*request.prompt_tokens, *request.generated_tokens]
    return tokens, 0, request.arrival_time, len(request.generated_tokens)


def resume_by_adding(request: RequestView) -> tuple[list[int], int, int, int]:
    text = request.prompt_tokens + request.generated_tokens
    return list(text), 0, request.arrival_time, len(text) - len(request.prompt_tokens)


def resume_by_chaining(request: RequestView) -> tuple[list[int], int, int, int]:
    tokens = list(itertools.chain(request.prompt_tokens, request.generated_tokens))
    num_generated = sum(1 for _ in request.generated_tokens)
    return (tokens, 0, request.arrival_time, num_generated)


def resume_by_appending(request: RequestView) -> tuple[list[int], int, int, int]:
    tokens = list(request.prompt_tokens)
    num_generated = 0
    for token in request.generated_tokens:
        tokens.append(token)
        num_generated += 1
    return tokens, 0, request.arrival_time, num_generated


# --- record ----------------------------------------------------------------------------------


def record(forwarded: list[int], active_now: list[int], sampled: list[int]) -> dict[int, int]:
    """Return whose token is whose: a dict {id: token}.

    Row i of the forward pass was fed by request `forwarded[i]`, and `sampled[i]` is the token that
    was sampled from it. `active_now` are the ids of the requests that are active by now: since the
    batch was built, some may have joined, some may be done, and their order may be another.
    Everybody who was forwarded gets the token of their own row, and nobody else gets one.
    """
    # The list that was forwarded is the only one whose order the rows have. A token that goes to
    # anybody else makes two texts wrong: one that gets it and one that misses it.
    return dict(zip(forwarded, sampled, strict=True))


def record_by_index(
    forwarded: list[int], active_now: list[int], sampled: list[int]
) -> dict[int, int]:
    return {forwarded[row]: sampled[row] for row in range(len(forwarded))}


def record_by_loop(
    forwarded: list[int], active_now: list[int], sampled: list[int]
) -> dict[int, int]:
    tokens: dict[int, int] = {}
    for row, token in enumerate(sampled):
        tokens[forwarded[row]] = token
    return tokens


def record_by_popping(
    forwarded: list[int], active_now: list[int], sampled: list[int]
) -> dict[int, int]:
    tokens: dict[int, int] = {}
    rows, new = list(forwarded), list(sampled)  # the lists stay as they are
    while rows:
        tokens[rows.pop()] = new.pop()
    return tokens


# --- wrong answers that need more than a line ------------------------------------------------


def _unknown_is_none(policy: str, request: RequestView) -> Any:
    return sort_key(policy, request) if policy in ("fcfs", "priority") else None


def _unknown_is_fcfs(policy: str, request: RequestView) -> Any:
    return sort_key("priority" if policy == "priority" else "fcfs", request)


def _unknown_is_a_key_error(policy: str, request: RequestView) -> Any:
    return {"fcfs": sort_key("fcfs", request), "priority": sort_key("priority", request)}[policy]


def _under_priority(key: Callable[[RequestView], Any]) -> Callable[[str, RequestView], Any]:
    """Right but for the rank under "priority"."""

    def answer(policy: str, request: RequestView) -> Any:
        return key(request) if policy == "priority" else sort_key(policy, request)

    return answer


def _with_arrival(arrival: Callable[[RequestView], Any]) -> Callable[[str, RequestView], Any]:
    """Right but for what is taken as the arrival."""

    def answer(policy: str, request: RequestView) -> Any:
        return (*sort_key(policy, request)[:-1], arrival(request))

    return answer


def _admitted_or_arrived(request: RequestView) -> int:
    return request.arrival_time if request.admitted_at is None else request.admitted_at


def _longest(candidate: RequestView) -> int:
    return len(candidate.prompt_tokens) + candidate.max_new_tokens - 1


def _known(candidate: RequestView) -> int:
    return len(candidate.prompt_tokens) + len(candidate.generated_tokens)


def _admitting(
    never: Callable[[RequestView, int], bool] = lambda candidate, budget: (
        _longest(candidate) > budget
    ),
    full: Callable[[int, int], bool] = lambda running, most: running >= most,
    short: Callable[[RequestView, int, int], bool] = lambda candidate, held, budget: (
        held + _known(candidate) > budget
    ),
    not_now: str = "wait",
) -> Callable[..., str]:
    """Right but for the tests that are given."""

    def answer(
        candidate: RequestView, held: int, budget: int | None, running: int, most: int
    ) -> str:
        if budget is not None and never(candidate, budget):
            return "refuse"
        if full(running, most) or (budget is not None and short(candidate, held, budget)):
            return not_now
        return "admit"

    return answer


def _waits_first(candidate: RequestView, held: int, budget: Any, running: int, most: int) -> str:
    if running >= most or (budget is not None and held + _known(candidate) > budget):
        return "wait"
    return admit(candidate, held, budget, running, most)


def _full_first(candidate: RequestView, held: int, budget: Any, running: int, most: int) -> str:
    return "wait" if running >= most else admit(candidate, held, budget, running, most)


def _one_test_of_two(
    candidate: RequestView, held: int, budget: Any, running: int, most: int
) -> str:
    verdict = admit(candidate, held, budget, running, most)
    return admit(candidate, held, None, running, most) if verdict == "wait" else verdict


def _true_or_false(candidate: RequestView, held: int, budget: Any, running: int, most: int) -> Any:
    return admit(candidate, held, budget, running, most) == "admit"


def _none_is_zero(candidate: RequestView, held: int, budget: Any, running: int, most: int) -> str:
    return admit(candidate, held, budget or 0, running, most)


def _sorts_in_place(active: list[RequestView]) -> int:
    active.sort(key=lambda r: (r.key, r.arrival_time, r.id))
    return active[-1].id


def _pops_in_place(
    forwarded: list[int], active_now: list[int], sampled: list[int]
) -> dict[int, int]:
    return {forwarded.pop(): sampled.pop() for _ in range(len(forwarded))}


def _victim(rank: Callable[[RequestView], Any]) -> Callable[[list[RequestView]], int]:
    return lambda active: max(active, key=rank).id


def _resuming(
    tokens: Callable[[RequestView], list[int]] = lambda r: [*r.prompt_tokens, *r.generated_tokens],
    cursor: Callable[[RequestView], Any] = lambda r: 0,
    arrival: Callable[[RequestView], Any] = lambda r: r.arrival_time,
    num_generated: Callable[[RequestView], int] = lambda r: len(r.generated_tokens),
) -> Callable[[RequestView], Any]:
    """Right but for the things that are given."""
    return lambda r: (tokens(r), cursor(r), arrival(r), num_generated(r))


# --- the lists that tests read ---------------------------------------------------------------

RIGHT = {
    "l02.sort_key": (
        sort_key,
        sort_key_with_match,
        sort_key_from_a_table,
        sort_key_by_field_names,
    ),
    "l02.admit": (
        admit,
        admit_without_a_limit_is_infinite,
        admit_by_counting_what_is_free,
        admit_by_reasons,
    ),
    "l02.choose_victim": (
        choose_victim,
        choose_victim_by_sorting,
        choose_victim_by_loop,
        choose_victim_by_narrowing,
        choose_victim_from_a_heap,
    ),
    "l02.resume": (resume, resume_by_adding, resume_by_chaining, resume_by_appending),
    "l02.record": (record, record_by_index, record_by_loop, record_by_popping),
}


def _wrong(
    exercise: str,
    key: str,
    misconception: str,
    function: Callable[..., Any],
    name: str = "",
) -> WrongAnswer:
    return WrongAnswer(
        f"l02.{exercise}", name or key.replace("_", " "), key, misconception, function
    )


_sort_key = functools.partial(_wrong, "sort_key")
_admit = functools.partial(_wrong, "admit")
_choose_victim = functools.partial(_wrong, "choose_victim")
_resume = functools.partial(_wrong, "resume")
_record = functools.partial(_wrong, "record")

WRONG = (
    _sort_key(
        "weighed",
        "A level of priority is worth ten steps.",
        _under_priority(lambda r: (10 * r.priority + r.arrival_time,)),
    ),
    _sort_key(
        "weighed",
        "A large weight makes sure that the priority wins.",
        _under_priority(lambda r: (1000 * r.priority + r.arrival_time,)),
        "weighed by a thousand",
    ),
    _sort_key(
        "by_id",
        "Who came first has the smaller id.",
        _under_priority(lambda r: (r.priority, r.id)),
    ),
    _admit(
        "zero_is_none",
        "Without a budget there is no limit.",
        lambda candidate, held, budget, running, most: admit(
            candidate, held, budget or None, running, most
        ),
    ),
    _choose_victim(
        "first_number_alone",
        "A key is a number and something to break ties.",
        _victim(lambda r: (r.key[0], r.arrival_time, r.id)),
    ),
    _choose_victim(
        "skips_the_arrival",
        "Ids are given out in order of arrival.",
        _victim(lambda r: (r.key, r.id)),
    ),
    _choose_victim(
        "in_place",
        "The list is mine to sort.",
        _sorts_in_place,
    ),
    _resume(
        "each_letter_once",
        "A token that is there twice needs its K/V once.",
        _resuming(tokens=lambda r: list(dict.fromkeys([*r.prompt_tokens, *r.generated_tokens]))),
    ),
    _resume(
        "text_without_prompt",
        "What was prefilled counts as generated.",
        _resuming(num_generated=lambda r: len(r.prompt_tokens)),
    ),
    _resume(
        "wrong_type",
        "A place in the queue may be a word.",
        _resuming(arrival=lambda r: str(r.arrival_time)),
    ),
    _record(
        "backwards",
        "The last row comes out first.",
        lambda forwarded, active_now, sampled: dict(zip(forwarded[::-1], sampled, strict=True)),
    ),
    _record(
        "same_token_once",
        "A token is somebody's, so it cannot be two people's.",
        lambda forwarded, active_now, sampled: dict(
            zip(forwarded, dict.fromkeys(sampled), strict=False)
        ),
    ),
    _record(
        "in_place",
        "The lists are mine to empty.",
        _pops_in_place,
    ),
    _sort_key(
        "priority_sign",
        "A high priority is a large number.",
        _under_priority(lambda r: (-r.priority, r.arrival_time)),
    ),
    _sort_key(
        "last_admission",
        "Somebody who comes back queues as of the last admission.",
        _with_arrival(_admitted_or_arrived),
    ),
    _sort_key(
        "last_admission",
        "A request arrives when it is admitted.",
        _with_arrival(lambda r: r.admitted_at),
        "admission alone",
    ),
    _sort_key("unknown_policy", "An unknown policy has no rank: None.", _unknown_is_none),
    _sort_key(
        "unknown_policy",
        "What is not priority is FCFS.",
        _unknown_is_fcfs,
        "anything else is fcfs",
    ),
    _sort_key("wrong_error", "Any error will do for an unknown policy.", _unknown_is_a_key_error),
    _sort_key(
        "newest_first", "The smallest rank goes last.", _with_arrival(lambda r: -r.arrival_time)
    ),
    _sort_key(
        "no_tie_break",
        "The priority is the whole rank.",
        _under_priority(lambda r: (r.priority,)),
    ),
    _sort_key(
        "arrival_first",
        "Order of arrival, and priority among those that arrive together.",
        _under_priority(lambda r: (r.arrival_time, r.priority)),
    ),
    _sort_key(
        "shortest_first",
        "Among equals, whoever is done soonest.",
        _under_priority(lambda r: (r.priority, r.max_new_tokens - len(r.generated_tokens))),
    ),
    _sort_key(
        "ignores_policy",
        "Priorities count under every policy.",
        lambda policy, r: sort_key("priority" if policy == "fcfs" else policy, r),
        "always priority",
    ),
    _sort_key(
        "ignores_policy",
        "Arrival decides under every policy.",
        _under_priority(lambda r: (r.arrival_time,)),
        "always fcfs",
    ),
    _sort_key(
        "not_a_tuple",
        "A rank is a number.",
        lambda policy, r: sum(sort_key(policy, r)),
    ),
    _sort_key(
        "not_numbers",
        "The rank says what it is.",
        lambda policy, r: (policy, *sort_key(policy, r)),
    ),
    _admit(
        "never_refuses",
        "What does not fit now waits until it does.",
        _admitting(never=lambda candidate, budget: False),
    ),
    _admit(
        "refuses_not_now",
        "What does not fit now is refused.",
        _admitting(not_now="refuse"),
    ),
    _admit(
        "forgets_generated",
        "A request computes its prompt when it starts.",
        _admitting(short=lambda r, held, budget: held + len(r.prompt_tokens) > budget),
    ),
    _admit(
        "batch_one_too_many",
        "A batch is full when it holds more than its size.",
        _admitting(full=lambda running, most: running > most),
    ),
    _admit(
        "batch_one_too_few",
        "One place of the batch stays free.",
        _admitting(full=lambda running, most: running + 1 >= most),
    ),
    _admit(
        "batch_one_too_many",
        "Only memory limits how many run.",
        _admitting(full=lambda running, most: False),
        "ignores the batch",
    ),
    _admit(
        "last_token_counted",
        "Every generated token needs K/V.",
        _admitting(never=lambda r, budget: _longest(r) + 1 > budget),
    ),
    _admit(
        "prompt_alone",
        "What has a prompt that fits can run.",
        _admitting(never=lambda r, budget: len(r.prompt_tokens) > budget),
    ),
    _admit(
        "generated_twice",
        "The longest is what is known and max_new_tokens more.",
        _admitting(never=lambda r, budget: _known(r) + r.max_new_tokens - 1 > budget),
    ),
    _admit(
        "ignores_held",
        "A request that fits the budget may start.",
        _admitting(short=lambda r, held, budget: _known(r) > budget),
    ),
    _admit(
        "reserves_longest",
        "Start only what can run to its end beside the others.",
        _admitting(short=lambda r, held, budget: held + _longest(r) > budget),
    ),
    _admit(
        "keeps_one_back",
        "Stay below the budget.",
        _admitting(short=lambda r, held, budget: held + _known(r) >= budget),
    ),
    _admit(
        "waits_first",
        "First see whether there is room, then whether there ever is.",
        _waits_first,
    ),
    _admit(
        "waits_first",
        "A full batch comes before everything.",
        _full_first,
        "full first",
    ),
    _admit(
        "ignores_held",
        "A free place in the batch is enough to start.",
        _one_test_of_two,
        "one test of two",
    ),
    _admit("none_is_zero", "No limit is a limit of 0.", _none_is_zero),
    _admit("not_a_verdict", "Either it may start or not.", _true_or_false),
    _choose_victim(
        "oldest",
        "Whoever was admitted longest ago has had their share.",
        _victim(lambda r: (-(r.admitted_at or 0), -r.id)),
        "admitted longest ago",
    ),
    _choose_victim(
        "oldest",
        "The most recent has the largest negative arrival.",
        _victim(lambda r: (r.priority, -r.arrival_time)),
        "minus arrival",
    ),
    _choose_victim(
        "oldest",
        "Among equals the oldest goes.",
        _victim(lambda r: (r.key, -r.arrival_time, -r.id)),
        "oldest among equals",
    ),
    _choose_victim(
        "oldest",
        "First in, first out.",
        _victim(lambda r: (-r.arrival_time, -r.id)),
        "first come first out",
    ),
    _choose_victim(
        "most_important",
        "The first in the order is the one to take.",
        lambda active: min(active, key=lambda r: (r.key, r.arrival_time, r.id)).id,
    ),
    _choose_victim(
        "ignores_key",
        "The most recent gives way.",
        _victim(lambda r: (r.arrival_time, r.id)),
    ),
    _choose_victim(
        "priority_not_key",
        "Importance is the priority, whatever the policy.",
        _victim(lambda r: (r.priority, r.arrival_time, r.id)),
    ),
    _choose_victim(
        "tie_to_first",
        "Equal is equal: max decides.",
        _victim(lambda r: (r.key, r.arrival_time)),
    ),
    _choose_victim(
        "key_alone",
        "The key says it all.",
        _victim(lambda r: r.key),
    ),
    _choose_victim(
        "last_admission",
        "The most recent is the one admitted last.",
        _victim(lambda r: (r.key, r.admitted_at or 0, r.id)),
    ),
    _choose_victim("list_order", "The list is in order.", lambda active: active[0].id, "first one"),
    _choose_victim(
        "list_order", "The newest is at the end.", lambda active: active[-1].id, "last one"
    ),
    _choose_victim(
        "largest",
        "Whoever holds the most frees the most.",
        _victim(lambda r: (r.kv_tokens, r.id)),
    ),
    _choose_victim(
        "smallest",
        "Whoever holds the least loses the least.",
        _victim(lambda r: (-r.kv_tokens, r.id)),
    ),
    _choose_victim(
        "most_left",
        "Whoever has the most left to generate.",
        _victim(lambda r: (r.max_new_tokens - len(r.generated_tokens), r.id)),
    ),
    _choose_victim(
        "not_an_id",
        "The victim is a request.",
        lambda active: max(active, key=lambda r: (r.key, r.arrival_time, r.id)),
        "the record",
    ),
    _choose_victim(
        "not_an_id",
        "Several may give way.",
        lambda active: [choose_victim(active)],
        "a list",
    ),
    _choose_victim(
        "index",
        "The victim is a place in the list.",
        lambda active: [r.id for r in active].index(choose_victim(active)),
    ),
    _resume(
        "restarts",
        "Recompute means to start over.",
        _resuming(tokens=lambda r: [*r.prompt_tokens], num_generated=lambda r: 0),
    ),
    _resume(
        "orphans",
        "A prefill computes the prompt; generated tokens are there already.",
        _resuming(tokens=lambda r: [*r.prompt_tokens]),
    ),
    _resume(
        "forgets_count",
        "The generated tokens are part of the prompt now.",
        _resuming(num_generated=lambda r: 0),
    ),
    _resume(
        "loses_its_place",
        "Arrival is when it was last admitted.",
        _resuming(arrival=lambda r: r.admitted_at),
    ),
    _resume(
        "to_the_front",
        "Whoever was preempted goes to the front.",
        _resuming(arrival=lambda r: 0),
    ),
    _resume(
        "keeps_cursor",
        "What was computed is computed.",
        _resuming(cursor=lambda r: r.kv_tokens),
    ),
    _resume(
        "prompt_is_computed",
        "The prompt was prefilled already.",
        _resuming(cursor=lambda r: min(r.kv_tokens, len(r.prompt_tokens))),
    ),
    _resume(
        "only_what_was_held",
        "What it lost is what it has to compute.",
        _resuming(tokens=lambda r: [*r.prompt_tokens, *r.generated_tokens][: r.kv_tokens]),
    ),
    _resume(
        "only_generated",
        "The text goes on from the generated tokens.",
        _resuming(tokens=lambda r: [*r.generated_tokens]),
    ),
    _resume(
        "counts_everything",
        "num_generated is how many tokens it has.",
        _resuming(num_generated=lambda r: len(r.prompt_tokens) + len(r.generated_tokens)),
    ),
    _resume(
        "counts_what_is_left",
        "num_generated is how many are still to generate.",
        _resuming(num_generated=lambda r: r.max_new_tokens - len(r.generated_tokens)),
    ),
    _resume(
        "drops_the_newest",
        "The newest token has no K/V, so it does not count yet.",
        _resuming(
            tokens=lambda r: [*r.prompt_tokens, *r.generated_tokens[:-1]],
            num_generated=lambda r: max(0, len(r.generated_tokens) - 1),
        ),
    ),
    _resume(
        "generated_first",
        "The newest text matters most.",
        _resuming(tokens=lambda r: [*r.generated_tokens, *r.prompt_tokens]),
    ),
    _resume(
        "tokens_not_a_list",
        "How many tokens there are is all that the scheduler has to know.",
        lambda r: (r.num_known, 0, r.arrival_time, len(r.generated_tokens)),
    ),
    _resume(
        "not_four",
        "What it computes and from where.",
        lambda r: ([*r.prompt_tokens, *r.generated_tokens], 0),
    ),
    _record(
        "records_active",
        "Tokens go to the active requests, row by row.",
        lambda forwarded, active_now, sampled: dict(zip(active_now, sampled, strict=False)),
    ),
    _record(
        "drops_the_absent",
        "Who is not active any more needs no token.",
        lambda forwarded, active_now, sampled: {
            i: token for i, token in zip(forwarded, sampled, strict=True) if i in active_now
        },
    ),
    _record(
        "by_row",
        "Row i is request i.",
        lambda forwarded, active_now, sampled: dict(enumerate(sampled)),
    ),
    _record(
        "in_order_of_id",
        "Rows are in the order of the ids.",
        lambda forwarded, active_now, sampled: dict(zip(sorted(forwarded), sampled, strict=True)),
    ),
    _record(
        "token_to_id",
        "Which request each token has.",
        lambda forwarded, active_now, sampled: dict(zip(sampled, forwarded, strict=True)),
    ),
    _record(
        "not_a_dict",
        "Pairs are as good.",
        lambda forwarded, active_now, sampled: list(zip(forwarded, sampled, strict=True)),
    ),
)

_FROM_ONE = "it is at least 1"
_NOT_NEEDED = "who is active by now has no say, which is what the exercise is about"
STILL_RIGHT = {
    "l02.admit": {
        "candidate.max_new_tokens at least 1": _FROM_ONE,
        "max_batch_size at least 1": _FROM_ONE,
    },
    "l02.choose_victim": {"active: reversed": "the order of the list has no say"},
    "l02.record": {
        "forwarded: without repeats": "an id is there once",
        "active_now: only the first": _NOT_NEEDED,
        "active_now: not the last": _NOT_NEEDED,
        "active_now: reversed": _NOT_NEEDED,
        "active_now: sorted": _NOT_NEEDED,
        "active_now: without repeats": _NOT_NEEDED,
    },
}
"""Weaker answers that no check can tell from right ones, and why."""
