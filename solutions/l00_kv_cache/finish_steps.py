"""Exercise 0.3: when each request is done, with static and with continuous batching."""

import heapq
import random
from collections.abc import Callable

from course.checks.comparing import Args, Comparison, not_a_list
from course.exercise import Exercise, Function, Misconception, Task

# --- right answers ------------------------------------------------------------------------------


def finish_steps(lengths: list[int], slots: int, continuous: bool) -> list[int]:
    """Return, for each request, the number of steps after which it is done."""
    # Keep the step at which each slot becomes free. A request takes the slot that is free first.
    # Static batching differs in one thing: a new batch waits until every slot is free.
    free_at = [0] * slots
    finished: list[int] = []
    for i, length in enumerate(lengths):
        if not continuous and i % slots == 0:
            free_at = [max(free_at)] * slots
        slot = free_at.index(min(free_at))
        free_at[slot] += length
        finished.append(free_at[slot])
    return finished


def with_a_heap(lengths: list[int], slots: int, continuous: bool) -> list[int]:
    if continuous:
        free_at = [0] * slots
        return [take_slot(free_at, length) for length in lengths]
    finished: list[int] = []
    start = 0
    for first in range(0, len(lengths), slots):
        batch = lengths[first : first + slots]
        finished += [start + length for length in batch]
        start += max(batch)
    return finished


def take_slot(free_at: list[int], length: int) -> int:
    done = heapq.heappop(free_at) + length
    heapq.heappush(free_at, done)
    return done


# --- wrong ideas --------------------------------------------------------------------------------


def with_the_batch(lengths: list[int], slots: int, continuous: bool) -> list[int]:
    done = finish_steps(lengths, slots, continuous)
    if continuous:
        return done
    return [max(done[i - i % slots : i - i % slots + slots]) for i in range(len(done))]


def by_turns(lengths: list[int], slots: int, continuous: bool) -> list[int]:
    if not continuous:
        return finish_steps(lengths, slots, False)
    return [sum(lengths[i % slots : i + 1 : slots]) for i in range(len(lengths))]


def in_modes(change: Callable[[list[int]], list[int]]) -> tuple[Function, list[Function]]:
    """Answers whose steps are changed: in both modes, and in one of them."""

    def changed(*modes: bool) -> Function:
        return lambda lengths, slots, continuous: (change if continuous in modes else list)(
            finish_steps(lengths, slots, continuous)
        )

    return changed(False, True), [changed(False), changed(True)]


MISCONCEPTIONS = (
    not_a_list(
        "What counts is when all requests are done.", lambda *args: max(finish_steps(*args))
    ),
    Misconception(
        "waits_for_longest",
        "A batch is a batch: no request starts before the longest one is done.",
        "In continuous batching no request waits for the longest one: as soon as a request is "
        "done, the next request takes its slot.",
        lambda lengths, slots, continuous: finish_steps(lengths, slots, False),
    ),
    Misconception(
        "static_refills",
        "A free slot is refilled at once, in static batching too.",
        "In static batching a free slot stays empty until the longest request of the batch is "
        "done. Only then does the next batch start.",
        lambda lengths, slots, continuous: finish_steps(lengths, slots, True),
    ),
    Misconception(
        "all_with_longest",
        "In a static batch all requests are done when the batch is done.",
        "A short request in a static batch is done after its own last token. Only the next batch "
        "waits for the longest request.",
        with_the_batch,
    ),
    Misconception(
        "no_slots",
        "Every request starts in the first step.",
        "At most `slots` requests run at the same time. The others wait until a slot is free.",
        lambda lengths, slots, continuous: list(lengths),
    ),
    Misconception(
        "by_turns",
        "Request i runs in slot i % slots.",
        "A request takes the slot that is free first, because a short request frees its slot "
        "early. Slots do not take turns.",
        by_turns,
    ),
    Misconception(
        "from_zero",
        "The first step is step 0.",
        "Count steps from 1: a request of 3 tokens that starts at once is done after 3 steps.",
        *in_modes(lambda steps: [step - 1 for step in steps]),
    ),
    Misconception(
        "sorted",
        "The list has the finish times, earliest first.",
        "Entry i belongs to request i, and requests start in the order of the list: sort neither "
        "the lengths nor the result.",
        *in_modes(sorted),
    ),
    Misconception(
        "one_step_late",
        "The next request starts in the step after the one in which a slot became free.",
        "A request of n tokens takes n steps. It is done after its start plus n, without a step "
        "before or behind it.",
        *in_modes(lambda steps: [step + 1 for step in steps]),
    ),
    Misconception(
        "wrong_length",
        "Only the requests that fit into the slots run.",
        examples=(
            lambda lengths, slots, continuous: finish_steps(lengths[:slots], slots, continuous),
        ),
    ),
)

# --- cases --------------------------------------------------------------------------------------


def any_batches(rng: random.Random) -> list[Args]:
    cases: list[Args] = []
    for count in [0, *range(1, 13)] * 4:
        longest = rng.choice((1, 3, 9, 40))  # equal lengths too, and a few very long ones
        lengths = [rng.randint(1, longest) for _ in range(count)]
        cases.append((lengths, rng.randint(1, 5), rng.random() < 0.6))
    for continuous in (False, True):
        lengths = [rng.randint(1, 9) for _ in range(20)]
        cases += [(lengths, 8, continuous), (lengths, 9, continuous), (lengths[:3], 7, continuous)]
    return sorted(cases, key=lambda case: len(case[0]))


JUDGE = Comparison(
    finish_steps,
    MISCONCEPTIONS,
    "A request starts when it gets a slot, and is done `lengths[i]` steps later.",
    evidence=[
        ([3, 1, 4, 1, 5, 9, 2, 6], 3, True),
        ([3, 1, 4, 1, 5, 9, 2, 6], 3, False),
        ([2, 2, 1], 1, False),
        ([1, 4, 4], 5, True),
    ],
    each="request",
)

EXERCISE = Exercise(
    number=3,
    title="Static and continuous batching",
    minutes=8,
    points=2,
    task=Task(
        rules=(
            "There are `slots` slots. Request i generates `lengths[i]` tokens (at least 1), one in "
            "each step in which it has a slot.",
            "All requests wait from the beginning and start in the order of the list.",
            "Static batching (`continuous` is False): `slots` requests start together. The next "
            "ones start when all of them are done.",
            "Continuous batching (`continuous` is True): when a request is done, the next one has "
            "its slot from the following step on.",
            "Returns a list in the order of the requests: the number of steps after which each "
            "one is done. Do not change `lengths`.",
        ),
        args=([2, 4, 1], 2, True),
        result=[2, 4, 3],
        steps=(
            "Requests 0 and 1 start in step 1. They are done after 2 and 4 steps.",
            "Request 2 takes request 0's slot in step 3 and is done after that step.",
        ),
    ),
    hints=(
        "When does a slot become free, and which request takes it then?",
        "Keep one number per slot: the step after which it is free. How does a request that takes "
        "the slot change that number?",
        "In continuous batching a request takes the slot with the smallest number. Static batching "
        "does the same, but before a batch begins, all numbers become equal. Equal to "
        "which of them?",
    ),
    right=(finish_steps, with_a_heap),
    misconceptions=MISCONCEPTIONS,
    checks=(
        (
            "one slot: one after the other",
            JUDGE.on(([3], 1, False), ([3, 2], 1, False), ([4, 1, 2], 1, True)),
        ),
        ("static batches of two", JUDGE.on(([2, 5, 3], 2, False), ([5, 1, 2, 4, 1], 2, False))),
        (
            "two slots, refilled at once",
            JUDGE.on(([2, 5, 3], 2, True), ([5, 2, 1, 3], 2, True), ([6, 1, 1, 1, 1], 2, True)),
        ),
        ("any lengths, any number of slots", JUDGE.on_drawn(any_batches)),
    ),
    equivalent_mutants={"slots at least 1": "there is at least one slot"},
)
