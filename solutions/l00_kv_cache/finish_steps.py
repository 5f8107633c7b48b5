"""Exercise 0.3: when requests are done, in static and in continuous batching."""

import heapq
import random

from course.checks.comparing import Args, Comparison, not_a_list
from course.exercise import Exercise, Misconception
from course.task import Task

# --- right answers ------------------------------------------------------------------------------


def finish_steps(lengths: list[int], slots: int, continuous: bool) -> list[int]:
    """Return, for each request, after how many steps it is done."""
    # Think of a slot as a clock that shows when it is free. Each request takes the slot that is
    # free first. Static batching is the same, except that a new batch sets every clock to the
    # latest one: that is the waiting which continuous batching gets rid of.
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


def by_simulation(lengths: list[int], slots: int, continuous: bool) -> list[int]:
    left = list(lengths)
    finished = [0] * len(lengths)
    queue = list(range(len(lengths)))
    running: list[int] = []
    step = 0
    while queue or running:
        if continuous or not running:
            while queue and len(running) < slots:
                running.append(queue.pop(0))
        step += 1
        for i in running:
            left[i] -= 1
            if left[i] == 0:
                finished[i] = step
        running = [i for i in running if left[i] > 0]
    return finished


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


def starts(lengths: list[int], slots: int, continuous: bool) -> list[int]:
    done = finish_steps(lengths, slots, continuous)
    return [end - length for end, length in zip(done, lengths, strict=True)]


MISCONCEPTIONS = (
    not_a_list(
        "What matters is when all of them are done.", lambda *args: max(finish_steps(*args))
    ),
    Misconception(
        "waits_for_longest",
        "A batch is a batch: none starts before the longest is done.",
        "In continuous batching no request waits for the longest of a batch: as soon as one is "
        "done, the next one takes its slot.",
        lambda lengths, slots, continuous: finish_steps(lengths, slots, False),
    ),
    Misconception(
        "static_refills",
        "Any free slot is refilled, whatever the batching is called.",
        "In static batching a slot that falls free stays empty until the longest request of the "
        "batch is done; only then does the next batch start.",
        lambda lengths, slots, continuous: finish_steps(lengths, slots, True),
    ),
    Misconception(
        "all_with_longest",
        "In a static batch all are done when the batch is done.",
        "A short request in a static batch is done when its own last token is; what waits for the "
        "longest is the next batch.",
        with_the_batch,
    ),
    Misconception(
        "no_slots",
        "Every request starts in the first step.",
        "Only as many requests as there are slots run at the same time; the others wait until a "
        "slot is free.",
        lambda lengths, slots, continuous: list(lengths),
    ),
    Misconception(
        "by_turns",
        "Request i belongs to slot i % slots, however long that slot is taken.",
        "A request takes the slot that is free first, not the one whose turn it is: a short "
        "request frees its slot early.",
        by_turns,
    ),
    Misconception(
        "from_zero",
        "The first step is step 0.",
        "The first step is step 1: a request of length 3 that starts at once is done after 3 "
        "steps.",
        lambda *args: [step - 1 for step in finish_steps(*args)],
    ),
    Misconception(
        "sorted",
        "The list says when requests finish, earliest first.",
        "Entry i belongs to request i, so the list is in the order of the requests, not in the "
        "order in which they finish.",
        lambda *args: sorted(finish_steps(*args)),
    ),
    Misconception(
        "wrong_length",
        "Only the requests that fit into the slots are served.",
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
    "A request is done as many steps after its start as it has tokens, and it starts when its slot "
    "is free.",
    evidence=[
        ([3, 1, 4, 1, 5, 9, 2, 6], 3, True),
        ([3, 1, 4, 1, 5, 9, 2, 6], 3, False),
        ([2, 2, 1], 1, False),
        ([1, 4, 4], 5, True),
    ],
    each="request",
)
OVERWRITTEN = "every entry is overwritten"

EXERCISE = Exercise(
    number=3,
    title="Static and continuous batching",
    minutes=12,
    points=2,
    task=Task(
        signature="finish_steps(lengths: list[int], slots: int, continuous: bool) -> list[int]",
        rules=(
            "Request i needs `lengths[i]` tokens (at least 1) and gets one in every step in which "
            "it has one of the `slots` slots.",
            "All requests are there from the beginning and start in the order of the list.",
            "Static batching, `continuous` False: `slots` requests start together, and the next "
            "ones only when all of these are done.",
            "Continuous batching, `continuous` True: when a request is done, the next one has its "
            "slot from the following step on.",
            "Returns, for each request in the order of the list, after how many steps it is done. "
            "A request of 3 tokens that starts at once is done after 3.",
        ),
        args=([2, 4, 1], 2, True),
        result=[2, 4, 3],
    ),
    hints=(
        "When does a slot become free, and which request may use it from then on?",
        "Keep a number for each slot: the step after which it is free. What does a request that "
        "takes the slot do to that number?",
        "In continuous batching a request takes the slot whose number is the smallest. In static "
        "batching it does so too, but before a batch begins all the numbers become the same one. "
        "Which?",
    ),
    right=(finish_steps, with_a_heap, by_simulation),
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
    equivalent_mutants={
        "slots at least 1": "there is at least one slot",
        "by_simulation(): finished = [{0 => 1}] * len(lengths)": OVERWRITTEN,
        "by_simulation(): finished = [{0 => -1}] * len(lengths)": OVERWRITTEN,
    },
)
