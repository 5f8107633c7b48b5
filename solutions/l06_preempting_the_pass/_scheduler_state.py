"""Scheduler states for `rollback_step`: how they are made, drawn, and used by the next step."""

import random
from collections.abc import Sequence
from typing import Any

from course.calling.plain_values import as_whole
from course.checks.comparing import Args, a_kind
from course.format_values import show
from nanogpt.preemption.cleanup import admission_problem, rollback_step
from nanogpt.views.scheduler_state import SchedulerState

FIELDS = ("running", "waiting", "kv", "previous_step", "admit_next")


def make_state(
    waiting: Sequence[int],
    running: Sequence[int],
    *,
    kv: Sequence[int] | None = None,
    previous_step: Sequence[int] | None = None,
    admit_next: int | None = None,
) -> SchedulerState:
    """A state whose running requests hold K/V and were scheduled, unless said otherwise."""
    return SchedulerState(
        tuple(waiting),
        tuple(running),
        frozenset(running if kv is None else kv),
        frozenset(running if previous_step is None else previous_step),
        admit_next,
    )


def any_states(rng: random.Random, count: int) -> list[Args]:
    """Aborted passes in random states, the smallest first."""
    cases: list[Args] = []
    for _ in range(count):
        ids = rng.sample(range(10), rng.randint(2, 8))
        cut = rng.randint(1, len(ids) - 1)
        running, waiting = ids[:cut], ids[cut:]
        aborted = rng.sample(running, rng.randint(1, cut))
        others = [i for i in running if i not in aborted]
        state = make_state(
            waiting,
            running,
            kv=[i for i in running if i in others or rng.random() < 0.8],
            previous_step=[*aborted, *(i for i in others if rng.random() < 0.8)],
            admit_next=rng.choice([None, rng.choice(waiting)]),
        )
        candidate = rng.choice([*waiting, rng.choice(waiting), rng.randrange(10, 13), None])
        cases.append((state, aborted, candidate))
    return sorted(cases, key=lambda case: len(case[0].waiting) + len(case[0].running))


def misfit(state: SchedulerState) -> str:
    """A sentence on the first field with a wrong type; "" if there is none."""
    for name in FIELDS[:-1]:
        found = getattr(state, name)
        kind = tuple if name in ("running", "waiting") else frozenset
        if type(found) is not kind:
            return f"`{name}` is {a_kind(found)}; in the state it is a {kind.__name__}."
        for item in found:
            if as_whole(item) is None:
                return f"`{name}` holds whole numbers, the ids; one entry is {a_kind(item)}."
    if state.admit_next is not None and as_whole(state.admit_next) is None:
        return f"`admit_next` is {a_kind(state.admit_next)}; in the state it is an id or None."
    return ""


def draw_state(value: Any) -> str:
    """The state in two lines, sets in order."""
    if not isinstance(value, SchedulerState) or misfit(value):
        return show(value)
    kv, previous = (
        f"{{{', '.join(map(str, sorted(ids)))}}}" for ids in (value.kv, value.previous_step)
    )
    return (
        f"waiting {show(value.waiting)}, running {show(value.running)}, "
        f"admit_next {value.admit_next}\nkv {kv}, previous_step {previous}"
    )


def next_step(after: SchedulerState, args: Args) -> str | None:
    """What goes wrong with this state in the next step or later; None if nothing does."""
    before, aborted, _ = args
    lost = [i for i in before.running if i not in after.running and i not in after.waiting]
    if lost:
        return f"neither running nor waiting, so never served: {requests(lost)}"
    twice = [i for i in after.waiting if i in after.running]
    if twice:
        return f"both running and waiting, so admitted once more: {requests(twice)}"
    first = after.admit_next if after.admit_next is not None else next(iter(after.waiting), None)
    if first is not None and first not in after.waiting:
        return f"request {first} is to be admitted, but it does not wait"
    stale = [i for i in after.waiting if i in after.previous_step]
    problem = admission_problem(stale, after.previous_step)
    if problem:
        return f"when the next step admits {requests(stale)}, the engine stops: {problem}"
    leaked = sorted(after.kv.difference(after.running))
    if leaked:
        return f"K/V of {requests(leaked)}: never used and never released"
    if first in aborted and rollback_step(*args).admit_next is not None:
        return f"request {first}, whose pass was aborted, is admitted first"
    return None


def requests(ids: Sequence[int]) -> str:
    return f"request{'s' if len(ids) > 1 else ''} {', '.join(map(str, ids))}"
