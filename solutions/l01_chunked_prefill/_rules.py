"""Judging the plan of a step by the rules of the task."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from course.calling.errors import shortened
from course.calling.plain_values import as_items, as_whole
from course.checks.comparing import a_kind
from course.format_values import show
from course.harness import Ask, Failure, returned_nothing

Pairs = list[tuple[int, int]]
Broken: TypeAlias = tuple[str, str]
"""The key of a misconception, "" if a broken rule has none, and the sentence that explains it."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The arguments of plan_step in one step."""

    decodes: tuple[int, ...]
    prefilling: tuple[tuple[int, int], ...]
    waiting: tuple[tuple[int, int], ...]
    budget: int

    @property
    def args(self) -> tuple[list[int], Pairs, Pairs, int]:
        """As plan_step is called."""
        return list(self.decodes), list(self.prefilling), list(self.waiting), self.budget

    @property
    def prompts(self) -> Pairs:
        """The requests of `prefilling`, then those of `waiting`."""
        return [*self.prefilling, *self.waiting]

    @property
    def limits(self) -> dict[int, int]:
        """The most tokens that each request can use."""
        return dict.fromkeys(self.decodes, 1) | dict(self.prompts)


def fill(queue: Sequence[tuple[int, int]], left: int) -> Pairs:
    """Serve (id, most tokens) pairs in order from `left` tokens."""
    plan: Pairs = []
    for request_id, most in queue:
        if left > 0:
            plan.append((request_id, min(most, left)))
            left -= min(most, left)
    return plan


def best(decodes: list[int], prefilling: Pairs, waiting: Pairs, budget: int) -> Pairs:
    """The plan that follows from the rules."""
    return fill([(request_id, 1) for request_id in decodes] + prefilling + waiting, budget)


def judge_step(ask: Ask, snapshot: Snapshot) -> tuple[Any, Failure | None]:
    """Ask for the plan of this step. Returns the plan, and the first broken rule as a failure."""
    plan = plain_plan(ask(*snapshot.args))
    broken = broken_rule(snapshot, plan)
    if broken is None:
        return plan, None
    key, sentence = broken
    rows = ask.example(f"{best(*snapshot.args)} (in any order)", plan)
    return plan, Failure(sentence, rows, key or None)


def broken_rule(snapshot: Snapshot, plan: Any) -> Broken | None:
    """The first rule that the plan breaks: entries, budget, decodes, order, nothing unused."""
    broken = bad_entry(snapshot, plan)
    if broken:
        return broken
    rules = (over_budget, decodes_first, in_order, nothing_unused)
    return next(filter(None, (rule(snapshot, dict(plan)) for rule in rules)), None)


def plain_plan(plan: Any) -> Any:
    """The plan as a list of pairs of ints, where its values can be read as such."""
    entries = as_items(plan)
    return plan if entries is None else [plain_entry(entry) for entry in entries]


def plain_entry(entry: Any) -> Any:
    numbers = [as_whole(number) for number in as_items(entry) or ()]
    return tuple(numbers) if len(numbers) == 2 and None not in numbers else entry


def is_pair(entry: Any) -> bool:
    return type(entry) is tuple and [type(item) for item in entry] == [int, int]


def tokens(number: int) -> str:
    return "1 token" if number == 1 else f"{number} tokens"


# --- the rules -----------------------------------------------------------------------------------


def bad_entry(snapshot: Snapshot, plan: Any) -> Broken | None:
    """Entries are pairs of a known id, at most one per id, and a number that it can use."""
    pairs = "A plan is a list of (id, n) pairs of whole numbers"
    if plan is None:
        return "", returned_nothing("plan_step")
    if type(plan) is not list:
        return "", f"{pairs}; this is {a_kind(plan)}."
    seen: set[int] = set()
    for entry in plan:
        if not is_pair(entry):
            return "", f"{pairs}; one entry is {shortened(show(entry), 60)}."
        request_id, n = entry
        most = snapshot.limits.get(request_id)
        if most is None:
            return "", f"Request {request_id} is in none of the three lists of this call."
        if request_id in seen:
            return "", f"Request {request_id} is listed twice: give it all its tokens in one entry."
        if n < 1:
            return "", f"Request {request_id} gets {n} tokens: leave out a request that gets none."
        if n > most:
            return "beyond_remaining", (
                f"Request {request_id} gets {tokens(n)} but can use only {most}: "
                "stop at the end of its prompt."
            )
        seen.add(request_id)
    return None


def over_budget(snapshot: Snapshot, got: dict[int, int]) -> Broken | None:
    total, budget = sum(got.values()), snapshot.budget
    if total <= budget:
        return None
    decodes = [i for i in snapshot.decodes if i in got]
    if len(decodes) > budget:
        return "over_budget", (
            f"{len(decodes)} decodes are planned into a budget of {budget}: decodes count like "
            "other tokens, so some of them wait for the next step."
        )
    for request_id, remaining in snapshot.prompts:
        if got.get(request_id) == remaining > budget - len(decodes):
            return "whole_prompt", (
                f"All {tokens(remaining)} of request {request_id}'s prompt are in one step with a "
                f"budget of {budget}, and every other request waits: cut the prompt into chunks."
            )
    return "over_budget", (
        f"The plan computes {tokens(total)} and the budget is {budget}: the tokens of all decodes "
        "and all prompts count together."
    )


def decodes_first(snapshot: Snapshot, got: dict[int, int]) -> Broken | None:
    missing = [i for i in snapshot.decodes[: snapshot.budget] if i not in got]
    if not missing:
        return None
    if sum(got.values()) < snapshot.budget:
        return "decodes_sit_out", (
            f"Request {missing[0]} does not get its token although it fits into the budget: one "
            "step can compute prompts and decodes."
        )
    if any(i in got for i, _ in snapshot.prompts):
        return "prefill_first", (
            f"Prompt tokens take the place of request {missing[0]}'s next token, so its text "
            "stalls: decodes go first, and prompts get the rest."
        )
    return "", (
        f"Request {missing[0]} was served longer ago than other decodes in the plan: take decodes "
        "from the front of the list, or some of them are never served."
    )


def in_order(snapshot: Snapshot, got: dict[int, int]) -> Broken | None:
    """No prompt gets a token before all prompts ahead of it have all that they can use."""
    prompts = snapshot.prompts
    short = next((i for i, most in prompts if got.get(i, 0) < most), None)
    behind = [i for i, _ in prompts]
    behind = behind[behind.index(short) + 1 :] if short is not None else []
    overtaking = next((i for i in behind if i in got), None)
    if short is None or overtaking is None:
        return None
    key, rule = order_of(snapshot, {i: got[i] for i, _ in prompts if i in got})
    return key, (
        f"Request {overtaking} gets tokens that request {short}, which is ahead of it, could have "
        f"used: {rule}."
    )


def order_of(snapshot: Snapshot, given: dict[int, int]) -> tuple[str, str]:
    """The key of the order in which the prompts were served instead, and the rule that holds."""
    prompts, total = snapshot.prompts, sum(given.values())
    if given == dict(fill([*snapshot.waiting, *snapshot.prefilling], total)):
        return "waiting_first", "finish the prompts that have started before you start others"
    if given == dict(fill(sorted(prompts, key=lambda pair: pair[1]), total)):
        return "shortest_first", (
            "prompts go in order of arrival, or a long one may starve behind short ones"
        )
    if len(given) == len(prompts) and max(given.values()) - min(given.values()) <= 1:
        return "", (
            "with equal shares every prompt finishes late; served one after the other, the first "
            "prompt finishes early and the last one no later"
        )
    return "", "each prompt gets as much as it can use before the next one gets anything"


def nothing_unused(snapshot: Snapshot, got: dict[int, int]) -> Broken | None:
    unused = snapshot.budget - sum(got.values())
    short = [(i, most) for i, most in snapshot.prompts if got.get(i, 0) < most]
    if unused == 0 or not short:
        return None
    request_id, most = short[0]
    if request_id in got:
        return "fixed_chunk", (
            f"Request {request_id} gets {tokens(got[request_id])} while the budget has {unused} "
            "left: a chunk has no fixed size, it takes what is left."
        )
    if most > unused and not any(i in got for i, _ in snapshot.prompts):
        return "whole_or_nothing", (
            f"Request {request_id} has {tokens(most)} left and gets none because only {unused} "
            "fit: compute a chunk now, or a prompt longer than the budget never starts."
        )
    arrived = [i for i, _ in snapshot.waiting]
    none_started = request_id in arrived and not any(i in got for i in arrived)
    if none_started and (snapshot.decodes or snapshot.prefilling):
        return "arrivals_wait", (
            f"Request {request_id} waits although the budget has {tokens(unused)} left: a waiting "
            "request starts as soon as there is room, whatever else is running."
        )
    return "one_prefill", (
        f"Request {request_id} gets nothing while the budget has {tokens(unused)} left: when one "
        "prompt needs less than what is left, the next one gets the rest."
    )
