"""Judging the scheduler's decisions: the rules, and the mistake behind a wrong one."""

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from course.checks.comparing import Args, Comparison, Mistake, a_kind, alike
from course.checks.requests import any_requests, draw_request, last_admitted, make_request
from nanogpt import policies
from nanogpt.parts.plain_values import as_items, as_mapping, as_whole
from nanogpt.policies import RequestView

# --- admit -----------------------------------------------------------------------------------

_ADMIT_FIELDS = ("prompt_tokens", "generated_tokens", "max_new_tokens")


def _draw_admit(name: str, args: Args) -> str:
    candidate, held, kv_budget, num_running, max_batch_size = args
    return (
        f"{name}({draw_request(candidate, _ADMIT_FIELDS)}, held={held}, kv_budget={kv_budget}, "
        f"num_running={num_running}, max_batch_size={max_batch_size})"
    )


def _verdict_form(value: Any) -> tuple[str, str] | None:
    if isinstance(value, str) and value in ("admit", "wait", "refuse"):
        return None
    return (
        "not_a_verdict",
        'There are three answers, "admit", "wait" and "refuse": not now is not the same as never.',
    )


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
    """The rules but for the tests that are given."""

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
    now = _admitting(never=lambda candidate, budget: False)(candidate, held, budget, running, most)
    return now if now == "wait" else policies.admit(candidate, held, budget, running, most)


def _full_first(candidate: RequestView, held: int, budget: Any, running: int, most: int) -> str:
    return "wait" if running >= most else policies.admit(candidate, held, budget, running, most)


def any_candidates(rng: random.Random, count: int) -> list[Args]:
    """Around the limits, where the rules differ; short requests first."""
    cases: list[Args] = []
    for _ in range(count):
        new = rng.randint(1, 9)
        candidate = make_request(1, rng.randint(1, 10), rng.randrange(new), max_new_tokens=new)
        budget = _longest(candidate) + rng.choice((-1, 0, 1, 4, 9))
        held = max(0, budget - _known(candidate) + rng.choice((-6, -1, 0, 1, 6)))
        most = rng.choice((1, 2, 3, 4, 64))
        limit = None if rng.random() < 0.1 else budget
        running = max(0, most - rng.randrange(4))
        cases.append((candidate, held, limit, running, most))
    return sorted(cases, key=lambda case: _longest(case[0]))


_WAITS_FIRST = (
    "What can never run has to be refused even when the batch or the memory is full: it would only "
    "wait for that answer and hold up those behind it."
)

ADMIT: Comparison[Callable[[RequestView, int, int | None, int, int], str]] = Comparison(
    reference=policies.admit,
    mistakes=(
        Mistake(
            "never_refuses",
            "This request can never run, not even alone: told to wait, it waits for ever at the "
            "head of the queue and everybody behind it with it.",
            _admitting(never=lambda candidate, budget: False),
        ),
        Mistake(
            "refuses_not_now",
            "It does not fit now, but it will when others are done: not now is wait, refuse is for "
            "never.",
            _admitting(not_now="refuse"),
        ),
        Mistake(
            "forgets_generated",
            "It comes back from a preemption with tokens that it generated, and their K/V has to "
            "be computed again like the prompt's: they need room too.",
            _admitting(short=lambda r, held, budget: held + len(r.prompt_tokens) > budget),
        ),
        Mistake(
            "batch_one_too_many",
            "When max_batch_size requests run, the batch is full: one more is one too many.",
            _admitting(full=lambda running, most: running > most),
        ),
        Mistake(
            "batch_one_too_few",
            "A batch has max_batch_size places and the last one may be used.",
            _admitting(full=lambda running, most: running + 1 >= most),
        ),
        Mistake(
            "last_token_counted",
            "The last token is never fed to the model, so it has no K/V: at its longest a request "
            "holds prompt + max_new_tokens - 1.",
            _admitting(never=lambda r, budget: _longest(r) + 1 > budget),
        ),
        Mistake(
            "prompt_alone",
            "The prompt fits, but the text grows: at its longest it holds prompt + max_new_tokens "
            "- 1 KV tokens, more than the budget has.",
            _admitting(never=lambda r, budget: len(r.prompt_tokens) > budget),
        ),
        Mistake(
            "generated_twice",
            "max_new_tokens counts the generated tokens from the first one on: those that are "
            "there already do not come on top.",
            _admitting(never=lambda r, budget: _known(r) + r.max_new_tokens - 1 > budget),
        ),
        Mistake(
            "ignores_held",
            "Others hold KV tokens already: what counts is whether the candidate fits beside them.",
            _admitting(short=lambda r, held, budget: _known(r) > budget),
        ),
        Mistake(
            "reserves_longest",
            "It can start as soon as its known tokens fit: room kept for a text that is not "
            "written yet stands empty, and preemption is there for when it gets tight.",
            _admitting(short=lambda r, held, budget: held + _longest(r) > budget),
        ),
        Mistake(
            "keeps_one_back",
            "The KV budget may be used to its last token: it is short only when more is needed.",
            _admitting(short=lambda r, held, budget: held + _known(r) >= budget),
        ),
        Mistake(
            "keeps_one_back",
            "The KV budget may be used to its last token: what needs exactly as much can run.",
            _admitting(never=lambda r, budget: _longest(r) >= budget),
        ),
        Mistake("waits_first", _WAITS_FIRST, _waits_first),
        Mistake("waits_first", _WAITS_FIRST, _full_first),
        Mistake(
            "zero_is_none",
            "A KV budget of 0 is a limit like any other; no limit is None, and `if kv_budget` "
            "takes the two for the same.",
            lambda r, held, budget, running, most: policies.admit(
                r, held, budget or None, running, most
            ),
        ),
        Mistake(
            "none_is_zero",
            "A KV budget of None is no limit at all: then only the batch can be full.",
            lambda r, held, budget, running, most: policies.admit(
                r, held, budget or 0, running, most
            ),
        ),
    ),
    idea="Ask two things in turn: could it ever run, alone and at its longest, and is there a "
    "place and room for what it needs at the start?",
    form=_verdict_form,
    draw_call=_draw_admit,
    evidence=any_candidates(random.Random(0), 30),
)


# --- choose_victim ---------------------------------------------------------------------------

_VICTIM_FIELDS = ("id", "key", "priority", "arrival_time", "admitted_at")


def _draw_victims(name: str, args: Args) -> str:
    lines = [f"  {draw_request(request, _VICTIM_FIELDS)}," for request in args[0]]
    return "\n".join([f"{name}([", *lines, "])"])


def _victim_form(value: Any) -> tuple[str, str] | None:
    if as_whole(value) is not None:
        return None
    return "not_an_id", f"The answer is the `id` of one request, not {a_kind(value)}."


def _victim_by(*fields: str) -> Callable[[Sequence[RequestView]], int]:
    """Whoever comes last by these fields in turn; a field with a minus counts the other way."""

    def rank(request: RequestView) -> tuple[Any, ...]:
        return tuple(
            -(getattr(request, field[1:]) or 0)
            if field.startswith("-")
            else getattr(request, field) or 0
            for field in fields
        )

    return lambda active: max(active, key=rank).id


def any_running(rng: random.Random) -> list[Args]:
    """Sets in which every part of the order decides somewhere; from few to many requests.

    Keys are of one number or of several, which need not be the priority and the arrival.
    """
    cases: list[Args] = []
    for index, count in enumerate((2, 2, 2, 2, 3, 3, 3, 3, 3, 3, *[4] * 15)):
        requests = any_requests(rng, count)
        rng.shuffle(requests)
        active: list[RequestView] = []
        for request in requests:
            keys = (
                (request.arrival_time,),
                (request.priority, request.arrival_time),
                (float(request.priority % 2),),
                (rng.randrange(2), rng.randrange(2)),
                (request.max_new_tokens % 2, 0, rng.randrange(2)),
            )
            active.append(
                replace(
                    request,
                    key=keys[index % len(keys)],
                    admitted_at=last_admitted(request),
                    kv_tokens=request.num_known - rng.randrange(2),
                )
            )
        cases.append((active,))
    return cases


_OLDEST = (
    "The oldest has the most to compute again, and when it comes back the others are older, so "
    "all of them may go in turn and nobody gets done: among equals the newest gives way."
)
_LIST_ORDER = (
    "The order of the list says nothing about importance: the queue's order is that of key, "
    "arrival_time and id."
)
_SIZE = (
    "How much somebody holds or has left says nothing about importance, and it changes at every "
    "step, so all may go in turn and nobody gets done: the queue's order decides."
)

CHOOSE_VICTIM: Comparison[Callable[[Sequence[RequestView]], int]] = Comparison(
    reference=policies.choose_victim,
    mistakes=(
        Mistake("oldest", _OLDEST, _victim_by("-admitted_at", "-id")),
        Mistake("oldest", _OLDEST, _victim_by("-arrival_time", "-id")),
        Mistake("oldest", _OLDEST, _victim_by("priority", "-arrival_time")),
        Mistake("oldest", _OLDEST, _victim_by("key", "-arrival_time", "-id")),
        Mistake("oldest", _OLDEST, _victim_by("key", "-admitted_at", "-id")),
        Mistake(
            "most_important",
            "This is the most important request, the first in the order: the smallest key goes "
            "first, so the largest one gives way.",
            lambda active: min(active, key=lambda r: (r.key, r.arrival_time, r.id)).id,
        ),
        Mistake(
            "ignores_key",
            "The key comes first: a newcomer may be the most important of all, and arrival only "
            "decides among equal keys.",
            _victim_by("arrival_time", "id"),
        ),
        Mistake(
            "priority_not_key",
            "The key is the rank under the policy in force; the priority counts only as far as the "
            "policy has put it there.",
            _victim_by("priority", "arrival_time", "id"),
        ),
        Mistake(
            "tie_to_first",
            "Key and arrival are equal, and then `max` takes the first in the list, which is the "
            "oldest: let the larger id decide.",
            _victim_by("key", "arrival_time"),
        ),
        Mistake(
            "key_alone",
            "Among equal keys `max` takes the first in the list, which is the oldest: the latest "
            "arrival_time gives way, and then the larger id.",
            _victim_by("key"),
        ),
        Mistake(
            "last_admission",
            "Among equal keys the arrival_time decides, which never changes: who was admitted last "
            "is an accident of how full the memory was.",
            _victim_by("key", "admitted_at", "id"),
        ),
        *alike(
            "first_number_alone",
            "A key may hold several numbers, and which those are is the policy's affair: compare "
            "whole keys, as Python compares tuples.",
            lambda active: max(active, key=lambda r: (r.key[0], r.arrival_time, r.id)).id,
            lambda active: max(active, key=lambda r: (r.key[0], r.id)).id,
            lambda active: max(active, key=lambda r: r.key[0]).id,
            lambda active: max(active, key=lambda r: (sum(r.key), r.arrival_time, r.id)).id,
        ),
        *alike(
            "skips_the_arrival",
            "Among equal keys the arrival_time comes before the id: ids are names, and a late "
            "arrival may well have a small one.",
            _victim_by("key", "id"),
            _victim_by("key", "-id"),
            _victim_by("id"),
        ),
        Mistake("list_order", _LIST_ORDER, lambda active: active[0].id),
        Mistake("list_order", _LIST_ORDER, lambda active: active[-1].id),
        Mistake("largest", _SIZE, _victim_by("kv_tokens", "id")),
        Mistake("smallest", _SIZE, _victim_by("-kv_tokens", "id")),
        Mistake(
            "most_left",
            _SIZE,
            lambda active: (
                max(active, key=lambda r: (r.max_new_tokens - len(r.generated_tokens), r.id)).id
            ),
        ),
        Mistake(
            "index",
            "This is a place in the list; the answer is the request's own `id`.",
            lambda active: [r.id for r in active].index(policies.choose_victim(active)),
        ),
    ),
    idea="No request may give way to one that stands behind it in the queue's order of key, "
    "arrival_time and id.",
    form=_victim_form,
    draw_call=_draw_victims,
    evidence=any_running(random.Random(0)),
)


# --- resume ----------------------------------------------------------------------------------

_RESUME_FIELDS = (
    "prompt_tokens", "generated_tokens", "max_new_tokens", "arrival_time", "admitted_at",
    "kv_tokens",
)  # fmt: skip


def _draw_resume(name: str, args: Args) -> str:
    return f"{name}({draw_request(args[0], _RESUME_FIELDS, count_tokens=False)})"


def _resume_form(value: Any) -> tuple[str, str] | None:
    four = as_items(value)
    if four is None or len(four) != 4:
        return "not_four", "Return four things: `return tokens, cursor, arrival, num_generated`."
    tokens = as_items(four[0])
    if tokens is None:
        return "tokens_not_a_list", f"tokens is a list of token ids; this is {a_kind(four[0])}."
    for token in tokens:
        if as_whole(token) is None:
            return "wrong_type", f"tokens holds whole numbers; one of these is {a_kind(token)}."
    for name, part in zip(("cursor", "arrival", "num_generated"), four[1:], strict=True):
        if as_whole(part) is None:
            return "wrong_type", f"{name} is a whole number (an int); this is {a_kind(part)}."
    return None


def _text(request: RequestView) -> list[int]:
    return [*request.prompt_tokens, *request.generated_tokens]


def _resuming(
    tokens: Callable[[RequestView], list[int]] = _text,
    cursor: Callable[[RequestView], int] = lambda r: 0,
    arrival: Callable[[RequestView], Any] = lambda r: r.arrival_time,
    num_generated: Callable[[RequestView], int] = lambda r: len(r.generated_tokens),
) -> Callable[[RequestView], Any]:
    """The rules but for the things that are given."""
    return lambda r: (tokens(r), cursor(r), arrival(r), num_generated(r))


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
        held = rng.randrange(request.num_known)
        admitted_at = request.arrival_time + rng.randrange(9)
        cases.append((replace(request, admitted_at=admitted_at, kv_tokens=held),))
    return sorted(cases, key=lambda case: case[0].num_known)


_CURSOR = (
    "The K/V has been released, that of the prompt too, so nothing is computed any more: the "
    "cursor goes back to 0."
)

RESUME: Comparison[Callable[[RequestView], Any]] = Comparison(
    reference=_resuming(),
    mistakes=(
        Mistake(
            "keeps_cursor",
            _CURSOR,
            _resuming(cursor=lambda r: r.kv_tokens),
        ),
        Mistake(
            "prompt_is_computed",
            _CURSOR,
            _resuming(cursor=lambda r: min(r.kv_tokens, len(r.prompt_tokens))),
        ),
        Mistake("prompt_is_computed", _CURSOR, _resuming(cursor=lambda r: len(r.prompt_tokens))),
        Mistake("prompt_is_computed", _CURSOR, _resuming(cursor=lambda r: len(_text(r)))),
        Mistake(
            "loses_its_place",
            "It queues with the arrival_time that it always had: whoever takes its admission for "
            "its arrival sends it behind everybody who came in the meantime.",
            _resuming(arrival=lambda r: r.admitted_at),
        ),
        Mistake(
            "to_the_front",
            "It goes back to its own place, not to the front: nobody who arrived before it should "
            "be overtaken.",
            _resuming(arrival=lambda r: 0),
        ),
        Mistake(
            "only_what_was_held",
            "It computes everything that is known of it, also what it had not computed yet when it "
            "was preempted.",
            _resuming(tokens=lambda r: _text(r)[: r.kv_tokens]),
        ),
        Mistake(
            "restarts",
            "Only the K/V is gone: the text is kept, since its reader has seen it, and "
            "whoever starts over gets no further when the memory is short again.",
            _resuming(tokens=lambda r: [*r.prompt_tokens], num_generated=lambda r: 0),
        ),
        Mistake(
            "orphans",
            "The generated tokens lost their K/V as well: left out of `tokens`, they would be part "
            "of the text and the model would never see them.",
            _resuming(tokens=lambda r: [*r.prompt_tokens]),
        ),
        Mistake(
            "forgets_count",
            "The generated tokens still count: with num_generated 0 it would generate all of "
            "max_new_tokens once more.",
            _resuming(num_generated=lambda r: 0),
        ),
        Mistake(
            "only_generated",
            "The prompt lost its K/V too: the text is computed from its first token on.",
            _resuming(tokens=lambda r: [*r.generated_tokens]),
        ),
        Mistake(
            "counts_everything",
            "num_generated counts the generated tokens alone, without the prompt.",
            _resuming(num_generated=lambda r: len(_text(r))),
        ),
        Mistake(
            "counts_what_is_left",
            "num_generated says how many generated tokens it keeps, not how many are still to "
            "come.",
            _resuming(num_generated=lambda r: r.max_new_tokens - len(r.generated_tokens)),
        ),
        Mistake(
            "drops_the_newest",
            "The newest token has no K/V yet, but it is part of the text: keep it and compute it.",
            _resuming(
                tokens=lambda r: [*r.prompt_tokens, *r.generated_tokens[:-1]],
                num_generated=lambda r: max(0, len(r.generated_tokens) - 1),
            ),
        ),
        Mistake(
            "drops_the_newest",
            "The newest token has no K/V yet, but it is part of the text: keep it and compute it.",
            _resuming(tokens=lambda r: [*r.prompt_tokens, *r.generated_tokens[:-1]]),
        ),
        Mistake(
            "each_letter_once",
            "A letter may come back: every token of the text has a K/V of its own, also one that "
            "was there before.",
            _resuming(tokens=lambda r: list(dict.fromkeys(_text(r)))),
        ),
        Mistake(
            "text_without_prompt",
            "The text is the prompt and what was generated; here the prompt counts as generated.",
            _resuming(num_generated=lambda r: len(r.prompt_tokens)),
        ),
        Mistake(
            "generated_first",
            "The text is the prompt and then what was generated, in this order.",
            _resuming(tokens=lambda r: [*r.generated_tokens, *r.prompt_tokens]),
        ),
    ),
    idea="Only the K/V is gone: say what has to be computed again for it, and keep everything else "
    "as it was.",
    form=_resume_form,
    draw_call=_draw_resume,
    evidence=any_resumed(random.Random(0), 20),
)


# --- record ----------------------------------------------------------------------------------


def _record_form(value: Any) -> tuple[str, str] | None:
    entries = as_mapping(value)
    if entries is None:
        return "not_a_dict", f"The answer is a dict {{id: token}}, not {a_kind(value)}."
    for item in (*entries.keys(), *entries.values()):
        if as_whole(item) is None:
            return "not_a_dict", f"The dict holds whole numbers; one of these is {a_kind(item)}."
    return None


RECORD: Comparison[Callable[[list[int], list[int], list[int]], dict[int, int]]] = Comparison(
    reference=lambda forwarded, active_now, sampled: dict(zip(forwarded, sampled, strict=True)),
    mistakes=(
        Mistake(
            "records_active",
            "The rows are those of the list that was forwarded: the active list has changed since, "
            "and by its order tokens end up in other people's texts.",
            lambda forwarded, active_now, sampled: dict(zip(active_now, sampled, strict=False)),
        ),
        Mistake(
            "drops_the_absent",
            "A request that was forwarded gets its token even if it is not active any more: "
            "dropped, the token is missing from its text although its K/V was computed.",
            lambda forwarded, active_now, sampled: {
                i: token for i, token in zip(forwarded, sampled, strict=True) if i in active_now
            },
        ),
        Mistake(
            "by_row",
            "Row i belongs to request forwarded[i], whose id is not i.",
            lambda forwarded, active_now, sampled: dict(enumerate(sampled)),
        ),
        Mistake(
            "in_order_of_id",
            "The rows are in the order of `forwarded`, which need not be that of the ids.",
            lambda forwarded, active_now, sampled: dict(
                zip(sorted(forwarded), sampled, strict=True)
            ),
        ),
        *alike(
            "backwards",
            "The first row belongs to the first id that was forwarded; here the last one got the "
            "first row's token.",
            lambda forwarded, active_now, sampled: dict(zip(forwarded[::-1], sampled, strict=True)),
        ),
        Mistake(
            "same_token_once",
            "Two requests may well get the same token: each row is one request's, whatever was "
            "sampled from it.",
            lambda forwarded, active_now, sampled: dict(
                zip(forwarded, dict.fromkeys(sampled), strict=False)
            ),
        ),
        Mistake(
            "token_to_id",
            "The ids are the keys and the tokens the values: two requests may well get the same "
            "token.",
            lambda forwarded, active_now, sampled: dict(zip(sampled, forwarded, strict=True)),
        ),
    ),
    idea="Everybody who was forwarded gets the token of their own row, and nobody else gets one.",
    form=_record_form,
    evidence=[
        ([2, 9, 4], [9, 4, 2], [7, 7, 3]),
        ([11, 3], [3], [5, 6]),
        ([0, 1], [1, 0, 5], [8, 2]),
        ([4, 6, 1], [], [30, 10, 20]),
    ],
)
