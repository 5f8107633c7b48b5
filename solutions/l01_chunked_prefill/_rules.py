"""Judging the plan of a step: the rules, and the wrong idea behind a broken one."""

from collections.abc import Callable
from typing import Any, TypeAlias

from course.calling.errors import shortened
from course.calling.plain_values import as_items, as_whole
from course.checks.comparing import a_kind
from course.exercise import Misconception
from course.format_values import show
from course.harness import returned_nothing
from solutions.l01_chunked_prefill._plans import (
    Snapshot,
    behind_decodes,
    best,
    eats_the_queue,
    equal_shares,
    fill,
    one_for_the_last,
    ones,
    remembering,
    serving,
    those_that_fit,
    to_the_last,
)

Broken: TypeAlias = tuple[Misconception, *tuple[Any, ...]]  # and what its sentence is made of


def tokens(number: int) -> str:
    return "1 token" if number == 1 else f"{number} tokens"


# --- entries: pairs of known, different ids and a number of tokens that the request can use ------

NO_RETURN = Misconception(
    "no_return",
    "A plan that is made need not be handed over.",
    returned_nothing("plan_step"),
    examples=(lambda decodes, prefilling, waiting, budget: None,),
)
NOT_PAIRS = Misconception(
    "not_pairs",
    "A plan says what runs.",
    lambda what: f"A plan is a list of (id, n) pairs of whole numbers; this {what}.",
    examples=(lambda *args: [request_id for request_id, _ in best(*args)],),
)
UNKNOWN_ID = Misconception(
    "unknown_id",
    "The plan is mine to remember from step to step.",
    lambda request_id: (
        f"Request {request_id} is in none of the three lists: plan from what this call shows, "
        "nothing else."
    ),
    examples=(remembering(),),
)
DUPLICATE = Misconception(
    "duplicate",
    "One entry is one token.",
    lambda request_id: (
        f"Request {request_id} is listed twice: one entry says how many tokens it gets in this "
        "step, all together."
    ),
    examples=(lambda *args: [(request_id, 1) for request_id, n in best(*args) for _ in range(n)],),
)
NOT_POSITIVE = Misconception(
    "not_positive",
    "Every request is listed, with 0 for those that get nothing.",
    lambda request_id, n: (
        f"Request {request_id} gets {n} tokens: what gets nothing is left out, and a budget that "
        "is used up cannot go below 0."
    ),
    examples=((behind_decodes(to_the_last)),),
)
BEYOND_REMAINING = Misconception(
    "beyond_remaining",
    "A prompt takes all that is left of the budget.",
    lambda request_id, n, most: (
        f"Request {request_id} gets {n} tokens but can use only {most}: stop at the end of its "
        "prompt."
    ),
    examples=(behind_decodes(lambda prompts, left: [(i, left) for i, _ in prompts[:1] if left]),),
)


def illegal(snapshot: Snapshot, plan: Any) -> Broken | None:
    if plan is None:
        return (NO_RETURN,)
    if type(plan) is not list:
        return NOT_PAIRS, f"is {a_kind(plan)}"
    limits = dict.fromkeys(snapshot.decodes, 1) | dict(snapshot.prompts)
    seen: set[int] = set()
    for entry in plan:
        if not is_pair(entry):
            return NOT_PAIRS, f"one holds {shortened(show(entry), 60)}"
        request_id, n = entry
        if request_id not in limits:
            return UNKNOWN_ID, request_id
        if request_id in seen:
            return DUPLICATE, request_id
        if n < 1:
            return NOT_POSITIVE, request_id, n
        if n > limits[request_id]:
            return BEYOND_REMAINING, request_id, n, limits[request_id]
        seen.add(request_id)
    return None


# --- the budget ----------------------------------------------------------------------------------

DECODES_OVER_BUDGET = Misconception(
    "decodes_over_budget",
    "Decodes are cheap: they all run, whatever the budget.",
    lambda count, budget: (
        f"{count} decodes are planned into a budget of {budget}: decodes count like any other "
        "token, so some of them have to wait for the next step."
    ),
    examples=(
        lambda decodes, prefilling, waiting, budget: (
            ones(decodes) + fill(prefilling + waiting, budget - len(decodes))
        ),
    ),
)
WHOLE_PROMPT = Misconception(
    "whole_prompt",
    "A prompt runs whole, at once.",
    lambda request_id, remaining, budget: (
        f"The prompt of request {request_id} runs whole, {tokens(remaining)} in a step that may "
        f"compute {budget}, and all others wait for it: cut it into chunks."
    ),
    examples=(behind_decodes(lambda prompts, left: prompts[:1]),),
)
OVER_BUDGET = Misconception(
    "over_budget",
    "Each prompt may use what the decodes leave.",
    lambda total, budget: (
        f"The plan computes {total} tokens and the budget is {budget}: all tokens count together, "
        "those of the decodes and those of every prompt."
    ),
    examples=(
        (behind_decodes(lambda prompts, left: [(i, min(n, left)) for i, n in prompts if left])),
    ),
)


def over_budget(snapshot: Snapshot, got: dict[int, int]) -> Broken | None:
    total, budget = sum(got.values()), snapshot.budget
    if total <= budget:
        return None
    decodes = [i for i in snapshot.decodes if i in got]
    if len(decodes) > budget:
        return DECODES_OVER_BUDGET, len(decodes), budget
    for request_id, remaining in snapshot.prompts:
        if got.get(request_id) == remaining > budget - len(decodes):
            return WHOLE_PROMPT, request_id, remaining, budget
    return OVER_BUDGET, total, budget


# --- decodes first -------------------------------------------------------------------------------

DECODE_ORDER = Misconception(
    "decode_order",
    "Any decodes will do.",
    lambda request_id: (
        f"Request {request_id} was served longer ago than others that are served here: take "
        "decodes from the front of the list, or some never get their turn."
    ),
    examples=(serving(lambda decodes, prefilling, waiting: decodes[::-1] + prefilling + waiting),),
)
DECODES_SIT_OUT = Misconception(
    "decodes_sit_out",
    "A step is prefill or decode.",
    lambda request_id: (
        f"Request {request_id} does not get its token although the budget has room for it: a step "
        "can prefill and decode at once."
    ),
    examples=(serving(lambda decodes, prefilling, waiting: prefilling + waiting or decodes),),
)
PREFILL_FIRST = Misconception(
    "prefill_first",
    "New users first: a prompt in.",
    lambda request_id: (
        f"Prompt tokens take the place of request {request_id}'s next token, so its reader sees "
        "the text stall: decodes go first, prompts get what is left."
    ),
    examples=((serving(lambda decodes, prefilling, waiting: prefilling + waiting + decodes)),),
)


def decodes_first(snapshot: Snapshot, got: dict[int, int]) -> Broken | None:
    missing = [i for i in snapshot.decodes[: snapshot.budget] if i not in got]
    if not missing:
        return None
    if sum(got.values()) < snapshot.budget:
        return DECODES_SIT_OUT, missing[0]
    prompts_run = any(i in got for i, _ in snapshot.prompts)
    return PREFILL_FIRST if prompts_run else DECODE_ORDER, missing[0]


# --- prompts in order ----------------------------------------------------------------------------


def overtaken(rule: str) -> Callable[[int, int], str]:
    """The sentence for a request that gets what one ahead of it could have used."""
    return lambda request_id, ahead: (
        f"Request {request_id} gets tokens that request {ahead}, ahead of it, could have used: "
        f"{rule}."
    )


WAITING_FIRST = Misconception(
    "waiting_first",
    "The waiting have waited longest, so they go before the prefilling.",
    overtaken("finish the prompts under way before you start those that wait"),
    examples=(serving(lambda decodes, prefilling, waiting: decodes + waiting + prefilling),),
)
SHORTEST_FIRST = Misconception(
    "shortest_first",
    "Short prompts first: more first tokens sooner.",
    overtaken("prompts go in order of arrival, or a long one may starve behind short ones"),
    examples=(
        serving(
            lambda decodes, prefilling, waiting: (
                decodes + sorted(prefilling + waiting, key=lambda pair: pair[1])
            )
        ),
    ),
)
EQUAL_SHARES = Misconception(
    "equal_shares",
    "Fair is: all get the same.",
    overtaken(
        "with equal shares every prompt ends late; one after the other, the first ends early and "
        "the last no later"
    ),
    examples=(behind_decodes(equal_shares),),
)
OUT_OF_ORDER = Misconception(
    "out_of_order",
    "The last in line must not go away with nothing.",
    overtaken("each gets as much as it can use before the next"),
    examples=(behind_decodes(one_for_the_last),),
)


def in_order(snapshot: Snapshot, got: dict[int, int]) -> Broken | None:
    """No prompt gets a token before all ahead of it have all that they can use."""
    prompts = snapshot.prompts
    short = next((i for i, most in prompts if got.get(i, 0) < most), None)
    behind = [i for i, _ in prompts]
    behind = behind[behind.index(short) + 1 :] if short is not None else []
    overtaking = next((i for i in behind if i in got), None)
    if short is None or overtaking is None:
        return None
    given = {i: got[i] for i, _ in prompts if i in got}
    for what, queue in (
        (WAITING_FIRST, [*snapshot.waiting, *snapshot.prefilling]),
        (SHORTEST_FIRST, sorted(prompts, key=lambda pair: pair[1])),
    ):
        if given == dict(fill(queue, sum(given.values()))):
            return what, overtaking, short
    if len(given) == len(prompts) and max(given.values()) - min(given.values()) <= 1:
        return EQUAL_SHARES, overtaking, short
    return OUT_OF_ORDER, overtaking, short


# --- nothing unused ------------------------------------------------------------------------------

FIXED_CHUNK = Misconception(
    "fixed_chunk",
    "A chunk has a fixed size.",
    lambda request_id, n, unused: (
        f"Request {request_id} gets {tokens(n)} while the budget has {unused} left: a chunk has no "
        "size of its own, it takes what is left."
    ),
    examples=(
        (
            serving(
                lambda decodes, prefilling, waiting: (
                    decodes + [(i, min(most, 4)) for i, most in prefilling + waiting]
                )
            )
        ),
    ),
)
WHOLE_OR_NOTHING = Misconception(
    "whole_or_nothing",
    "A prompt starts when it fits into the budget.",
    lambda request_id, most, unused: (
        f"Request {request_id} has {most} tokens left and gets none because only {unused} fit: let "
        "a chunk of it run now, or a prompt longer than the budget never starts."
    ),
    examples=((behind_decodes(those_that_fit)),),
)
ARRIVALS_WAIT = Misconception(
    "arrivals_wait",
    "A new request starts when the engine is idle.",
    lambda request_id, unused: (
        f"Request {request_id} waits although the budget has {tokens(unused)} left: a new request "
        "starts as soon as there is room, whatever else is running."
    ),
    examples=((serving(lambda decodes, prefilling, waiting: decodes + prefilling or waiting)),),
)
ONE_PREFILL = Misconception(
    "one_prefill",
    "One prompt per step is prefilled.",
    lambda request_id, unused: (
        f"Request {request_id} gets nothing while the budget has {tokens(unused)} left: when one "
        "prompt needs less than what is left, the next one gets the rest."
    ),
    examples=(
        (serving(lambda decodes, prefilling, waiting: decodes + (prefilling + waiting)[:1])),
    ),
)


def nothing_unused(snapshot: Snapshot, got: dict[int, int]) -> Broken | None:
    unused = snapshot.budget - sum(got.values())
    short = [(i, most) for i, most in snapshot.prompts if got.get(i, 0) < most]
    if unused == 0 or not short:
        return None
    request_id, most = short[0]
    if request_id in got:
        return FIXED_CHUNK, request_id, got[request_id], unused
    if most > unused and not any(i in got for i, _ in snapshot.prompts):
        return WHOLE_OR_NOTHING, request_id, most, unused
    arrived = [i for i, _ in snapshot.waiting]
    none_started = request_id in arrived and not any(i in got for i in arrived)
    if none_started and (snapshot.decodes or snapshot.prefilling):
        return ARRIVALS_WAIT, request_id, unused
    return ONE_PREFILL, request_id, unused


# --- all of it -----------------------------------------------------------------------------------


def judge_plan(snapshot: Snapshot, plan: Any) -> Broken | None:
    """The first rule that the plan breaks: entries, budget, decodes, order, nothing unused."""
    plan = plain_plan(plan)
    broken = illegal(snapshot, plan)
    if broken:
        return broken
    rules = (over_budget, decodes_first, in_order, nothing_unused)
    return next(filter(None, (rule(snapshot, dict(plan)) for rule in rules)), None)


def is_pair(entry: Any) -> bool:
    return type(entry) is tuple and [type(item) for item in entry] == [int, int]


def plain_plan(plan: Any) -> Any:
    """The plan as a list of pairs of ints, where the rule lets it stand for one; else itself."""
    entries = as_items(plan)
    return plan if entries is None else [plain_entry(entry) for entry in entries]


def plain_entry(entry: Any) -> Any:
    numbers = [as_whole(number) for number in as_items(entry) or ()]
    return tuple(numbers) if len(numbers) == 2 and None not in numbers else entry


MISCONCEPTIONS = (
    NO_RETURN,
    NOT_PAIRS,
    UNKNOWN_ID,
    DUPLICATE,
    NOT_POSITIVE,
    BEYOND_REMAINING,
    DECODES_OVER_BUDGET,
    WHOLE_PROMPT,
    OVER_BUDGET,
    DECODE_ORDER,
    DECODES_SIT_OUT,
    PREFILL_FIRST,
    WAITING_FIRST,
    SHORTEST_FIRST,
    EQUAL_SHARES,
    OUT_OF_ORDER,
    FIXED_CHUNK,
    WHOLE_OR_NOTHING,
    ARRIVALS_WAIT,
    ONE_PREFILL,
    Misconception("in_place", "The lists are mine to work through.", examples=(eats_the_queue,)),
)
