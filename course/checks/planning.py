"""Judging the plan of a step: the rules, the mistake behind a broken one, workloads, shrinking.

The check holds the state. It shows a snapshot, asks for a decision, judges it and applies it
itself, so that nothing that the answer keeps or changes can move the ground under the check.
"""

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from course.checks.comparing import a_kind
from course.showing import show
from nanogpt.plain_values import as_items, as_whole

Pairs = list[tuple[int, int]]
Ask = Callable[[list[int], Pairs, Pairs, int], Any]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What one step offers: the arguments of plan_step."""

    decodes: tuple[int, ...]
    prefilling: tuple[tuple[int, int], ...]
    waiting: tuple[tuple[int, int], ...]
    budget: int

    @property
    def args(self) -> tuple[list[int], Pairs, Pairs, int]:
        """As plan_step is called."""
        return list(self.decodes), list(self.prefilling), list(self.waiting), self.budget


@dataclass(frozen=True, slots=True)
class Broken:
    """A rule that a plan breaks: the mistake's key and the sentence that explains it."""

    key: str
    idea: str


def best_plan(snapshot: Snapshot) -> Pairs:
    """The plan that the rules lead to, entries in the order in which they are served."""
    queue = [(i, 1) for i in snapshot.decodes] + [*snapshot.prefilling, *snapshot.waiting]
    return _fill(queue, snapshot.budget)


def _fill(queue: Sequence[tuple[int, int]], left: int) -> Pairs:
    plan: Pairs = []
    for request_id, most in queue:
        if left > 0:
            plan.append((request_id, min(most, left)))
            left -= min(most, left)
    return plan


def plain_plan(plan: Any) -> Any:
    """The plan as a list of pairs of ints, where the rule lets it stand for one; else itself."""
    entries = as_items(plan)
    return plan if entries is None else [_pair(entry) for entry in entries]


def _pair(entry: Any) -> Any:
    numbers = [as_whole(number) for number in as_items(entry) or ()]
    return tuple(numbers) if len(numbers) == 2 and None not in numbers else entry


def judge_plan(snapshot: Snapshot, plan: Any) -> Broken | None:
    """The first rule that the plan breaks: entries, budget, decodes, order, nothing unused."""
    plan = plain_plan(plan)
    illegal = _illegal(snapshot, plan)
    if illegal:
        return illegal
    got = dict(plan)
    return (
        _over_budget(snapshot, got)
        or _decodes_first(snapshot, got)
        or _in_order(snapshot, got)
        or _nothing_unused(snapshot, got)
    )


def _illegal(snapshot: Snapshot, plan: Any) -> Broken | None:
    """Entries: pairs of known, different ids and a number of tokens that the request can use."""
    if plan is None:
        return Broken("no_return", "plan_step returned nothing: end it with `return`.")
    form = "A plan is a list of (id, n) pairs of whole numbers"
    if type(plan) is not list:
        return Broken("not_pairs", f"{form}; this is {a_kind(plan)}.")
    limits = dict.fromkeys(snapshot.decodes, 1) | dict(snapshot.prefilling) | dict(snapshot.waiting)
    seen: set[int] = set()
    for entry in plan:
        if type(entry) is not tuple or [type(item) for item in entry] != [int, int]:
            return Broken("not_pairs", f"{form}; this one holds {show(entry)}.")
        request_id, n = entry
        if request_id not in limits:
            return Broken(
                "unknown_id",
                f"Request {request_id} is in none of the three lists: plan from what this call "
                "shows, nothing else.",
            )
        if request_id in seen:
            return Broken(
                "duplicate",
                f"Request {request_id} is listed twice: one entry says how many tokens it gets in "
                "this step, all together.",
            )
        if n < 1:
            return Broken(
                "not_positive",
                f"Request {request_id} gets {n} tokens: whoever gets nothing is left out, and a "
                "budget that is used up cannot go below 0.",
            )
        if n > limits[request_id]:
            return Broken(
                "beyond_remaining",
                f"Request {request_id} gets {n} tokens but can use only {limits[request_id]}: stop "
                "at the end of its prompt.",
            )
        seen.add(request_id)
    return None


def _over_budget(snapshot: Snapshot, got: dict[int, int]) -> Broken | None:
    total, budget = sum(got.values()), snapshot.budget
    if total <= budget:
        return None
    decodes = [i for i in snapshot.decodes if i in got]
    if len(decodes) > budget:
        return Broken(
            "decodes_over_budget",
            f"{len(decodes)} decodes are planned into a budget of {budget}: decodes count like any "
            "other token, so some of them have to wait for the next step.",
        )
    for request_id, remaining in [*snapshot.prefilling, *snapshot.waiting]:
        if got.get(request_id) == remaining > budget - len(decodes):
            return Broken(
                "whole_prompt",
                f"The prompt of request {request_id} runs whole, {remaining} tokens in a step that "
                f"may compute {budget}, and everybody else waits for it: cut it into chunks.",
            )
    return Broken(
        "over_budget",
        f"The plan computes {total} tokens and the budget is {budget}: all tokens count together, "
        "those of the decodes and those of every prompt.",
    )


def _decodes_first(snapshot: Snapshot, got: dict[int, int]) -> Broken | None:
    wanted = snapshot.decodes[: snapshot.budget]
    missing = [i for i in wanted if i not in got]
    if not missing:
        return None
    if not got:
        return Broken(
            "stalls_when_full",
            "Nothing is planned although decodes could run, and the next step would look the same: "
            "serve as many decodes as the budget holds.",
        )
    if not any(i in got for i, _ in [*snapshot.prefilling, *snapshot.waiting]):
        if sum(got.values()) == snapshot.budget:
            return Broken(
                "decode_order",
                f"Request {missing[0]} was served longer ago than others that are served here: "
                "take decodes from the front of the list, or some never get their turn.",
            )
        return Broken(
            "decodes_left_out",
            f"Request {missing[0]} could decode within the budget and is left out.",
        )
    if sum(got.values()) < snapshot.budget:
        return Broken(
            "decodes_sit_out",
            f"Request {missing[0]} does not get its token although the budget has room for it: a "
            "step can prefill and decode at once.",
        )
    return Broken(
        "prefill_first",
        f"Prompt tokens take the place of request {missing[0]}'s next token, so its reader sees "
        "the text stall: decodes go first, prompts get what is left.",
    )


def _in_order(snapshot: Snapshot, got: dict[int, int]) -> Broken | None:
    """No prompt gets a token before everyone ahead of it has all that they can use."""
    prompts = [*snapshot.prefilling, *snapshot.waiting]
    short = next((i for i, most in prompts if got.get(i, 0) < most), None)
    behind = [i for i, _ in prompts]
    behind = behind[behind.index(short) + 1 :] if short is not None else []
    overtaking = next((i for i in behind if i in got), None)
    if short is None or overtaking is None:
        return None
    given = {i: got[i] for i, _ in prompts if i in got}
    left = sum(given.values())
    who = f"Request {overtaking} gets tokens that request {short}, ahead of it, could have used"
    if given == dict(_fill([*snapshot.waiting, *snapshot.prefilling], left)):
        return Broken(
            "waiting_first",
            f"{who}: finish the prompts under way before you start those that wait.",
        )
    if given == dict(_fill(sorted(prompts, key=lambda pair: pair[1]), left)):
        return Broken(
            "shortest_first",
            f"{who}: prompts go in order of arrival, or a long one may starve behind short ones.",
        )
    if given == dict(_fill([*snapshot.prefilling[::-1], *snapshot.waiting[::-1]], left)):
        return Broken(
            "newest_first",
            f"{who}: the list is in order of arrival and the first one goes first.",
        )
    if len(given) == len(prompts) and max(given.values()) - min(given.values()) <= 1:
        return Broken(
            "equal_shares",
            f"{who}: with equal shares every prompt ends late; one after the other, the first ends "
            "early and the last no later.",
        )
    return Broken("out_of_order", f"{who}: each gets as much as it can use before the next.")


def _nothing_unused(snapshot: Snapshot, got: dict[int, int]) -> Broken | None:
    unused = snapshot.budget - sum(got.values())
    prompts = [*snapshot.prefilling, *snapshot.waiting]
    short = [(i, most) for i, most in prompts if got.get(i, 0) < most]
    if unused == 0 or not short:
        return None
    request_id, most = short[0]
    if request_id in got:
        return Broken(
            "fixed_chunk",
            f"Request {request_id} gets {got[request_id]} tokens while {unused} of the budget stay "
            "unused: a chunk has no size of its own, it takes what is left.",
        )
    alone = not any(i in got for i, _ in prompts)
    if most > unused and alone:
        return Broken(
            "whole_or_nothing",
            f"Request {request_id} has {most} tokens left and gets none because only {unused} fit: "
            "let a chunk of it run now, or a prompt longer than the budget never starts.",
        )
    arrived = {i for i, _ in snapshot.waiting}
    none_started = request_id in arrived and not any(i in got for i in arrived)
    if none_started and (snapshot.decodes or snapshot.prefilling):
        return Broken(
            "arrivals_wait",
            f"Request {request_id} waits although {unused} tokens of the budget are free: a new "
            "request starts as soon as there is room, whatever else is running.",
        )
    return Broken(
        "one_prefill",
        f"Request {request_id} gets nothing while {unused} tokens of the budget stay unused: when "
        "one prompt needs less than what is left, the next one gets the rest.",
    )


# --- whole workloads -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Job:
    """A request of a workload: the step it arrives in, and its lengths in tokens.

    `new` is at least 1. `prompt` 0 is a request that was prefilled before the workload begins: with
    decodes first, that is the only way to more decodes than one budget holds.
    """

    arrival: int
    prompt: int
    new: int


@dataclass(frozen=True, slots=True)
class Workload:
    """Requests for one engine; at most `slots` of them run at the same time."""

    budget: int
    slots: int
    jobs: tuple[Job, ...]

    def __str__(self) -> str:
        lines = [f"budget {self.budget}, at most {self.slots} requests at once"]
        for i, job in enumerate(self.jobs):
            prompt = f"prompt {job.prompt}" if job.prompt else "prompt done"
            lines.append(f"request {i}: arrives in step {job.arrival}, {prompt}, new {job.new}")
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class BadStep:
    """The first step of a workload in which the plan broke a rule."""

    workload: Workload
    step: int
    snapshot: Snapshot
    plan: Any
    broken: Broken


class _Running:
    """The state of a workload: what each request has still to do. Held by the check alone."""

    def __init__(self, workload: Workload) -> None:
        self.workload = workload
        self.prompt = [job.prompt for job in workload.jobs]
        self.new = [job.new for job in workload.jobs]
        self.served = [-1] * len(workload.jobs)  # the step of the latest token; -1: not started
        self.step = 0

    def snapshot(self) -> Snapshot:
        jobs = self.workload.jobs
        here = [i for i, job in enumerate(jobs) if job.arrival <= self.step and self.new[i]]
        here.sort(key=lambda i: (jobs[i].arrival, i))
        started = [i for i in here if self.served[i] >= 0 or not jobs[i].prompt]
        decodes = [i for i in started if not self.prompt[i]]
        decodes.sort(key=lambda i: self.served[i])
        fresh = [i for i in here if i not in started]
        fresh = fresh[: max(0, self.workload.slots - len(started))]
        return Snapshot(
            tuple(decodes),
            tuple((i, self.prompt[i]) for i in started if self.prompt[i]),
            tuple((i, self.prompt[i]) for i in fresh),
            self.workload.budget,
        )

    def apply(self, plan: Pairs) -> None:
        """A prompt's last token brings the first new one; every decode brings one more."""
        for request_id, n in plan:
            self.served[request_id] = self.step
            self.prompt[request_id] = max(0, self.prompt[request_id] - n)
            if not self.prompt[request_id]:
                self.new[request_id] -= 1


def run_workload(ask: Ask, workload: Workload) -> BadStep | None:
    """Serve the workload to its last token; the first bad step, or None when all are done.

    Every step that keeps the rules computes a token, so this ends.
    """
    state = _Running(workload)
    while any(state.new):
        snapshot = state.snapshot()
        if snapshot.decodes or snapshot.prefilling or snapshot.waiting:
            plan = plain_plan(ask(*snapshot.args))
            broken = judge_plan(snapshot, plan)
            if broken:
                return BadStep(workload, state.step, snapshot, plan, broken)
            state.apply(plan)
        state.step += 1
    return None


# --- shrinking -------------------------------------------------------------------------------

Case = TypeVar("Case")


def shrink(
    case: Case, smaller: Callable[[Case], Iterator[Case]], still_bad: Callable[[Case], bool]
) -> Case:
    """Take any smaller case that is still bad, again and again; at most 200 tries."""
    tries, found = 200, True
    while found and tries > 0:
        found = False
        for candidate in smaller(case):
            tries -= 1
            if tries < 0:
                break
            if still_bad(candidate):
                case, found = candidate, True
                break
    return case


def smaller_snapshots(snapshot: Snapshot) -> Iterator[Snapshot]:
    """One entry fewer, a prompt or the budget smaller; at least one entry stays."""
    entries = len(snapshot.decodes) + len(snapshot.prefilling) + len(snapshot.waiting)
    for name in ("waiting", "prefilling", "decodes"):
        items = getattr(snapshot, name)
        for i in range(len(items)):
            if entries > 1:
                rest = items[:i] + items[i + 1 :]
                yield dataclasses.replace(snapshot, **{name: rest})
            if name != "decodes":
                request_id, remaining = items[i]
                for less in _less(remaining):
                    changed = (*items[:i], (request_id, less), *items[i + 1 :])
                    yield dataclasses.replace(snapshot, **{name: changed})
    for less in _less(snapshot.budget):
        yield dataclasses.replace(snapshot, budget=less)


def smaller_workloads(workload: Workload) -> Iterator[Workload]:
    """Everything earlier, one request fewer, one of its numbers smaller, or a smaller budget."""
    jobs = workload.jobs
    first = min(job.arrival for job in jobs)
    if first:
        earlier = tuple(dataclasses.replace(job, arrival=job.arrival - first) for job in jobs)
        yield dataclasses.replace(workload, jobs=earlier)
    for i, job in enumerate(jobs):
        if len(jobs) > 1:
            yield dataclasses.replace(workload, jobs=jobs[:i] + jobs[i + 1 :])
        easier = [Job(0, job.prompt, job.new)] if job.arrival else []
        easier += [Job(less, job.prompt, job.new) for less in _less(job.arrival)]
        easier += [Job(job.arrival, less, job.new) for less in _less(job.prompt)]
        easier += [Job(job.arrival, job.prompt, less) for less in _less(job.new)]
        for one in easier:
            yield dataclasses.replace(workload, jobs=(*jobs[:i], one, *jobs[i + 1 :]))
    for less in _less(workload.budget):
        yield dataclasses.replace(workload, budget=less)


def _less(number: int) -> list[int]:
    """1, half of it, one less: smaller numbers to try, the boldest first."""
    return sorted({n for n in (1, number // 2, number - 1) if 1 <= n < number})
