"""Exercise 11.2: what scheduling one step ahead saves."""

import random
from collections.abc import Callable

from course.calling.plain_values import as_number
from course.checks.comparing import Args, Comparison, a_kind
from course.exercise import Exercise, Misconception, Task
from course.format_values import named

# --- right answers ------------------------------------------------------------------------------


def overlap(schedule_us: int, execute_us: int, num_steps: int, async_scheduling: bool) -> int:
    """Return how many microseconds the steps take."""
    if num_steps == 0:
        return 0
    if not async_scheduling:
        return num_steps * (schedule_us + execute_us)
    # Nothing runs beside the first schedule and nothing beside the last execution. Between them
    # each execution has the next schedule beside it, and the longer of the two counts.
    return schedule_us + (num_steps - 1) * max(schedule_us, execute_us) + execute_us


def by_simulation(schedule_us: int, execute_us: int, num_steps: int, async_scheduling: bool) -> int:
    scheduled = executed = 0  # when the scheduler and the GPU are free again
    for _ in range(num_steps):
        start = scheduled if async_scheduling else executed
        scheduled = start + schedule_us
        executed = max(scheduled, executed) + execute_us
    return executed


def by_what_is_hidden(
    schedule_us: int, execute_us: int, num_steps: int, async_scheduling: bool
) -> int:
    hidden = min(schedule_us, execute_us) * max(0, num_steps - 1) if async_scheduling else 0
    return (schedule_us + execute_us) * num_steps - hidden


# --- wrong ideas --------------------------------------------------------------------------------

Rule = Callable[[int, int, int], int]


def if_async(rule: Rule) -> Callable[..., int]:
    """This rule with async scheduling, and the right sum without."""
    return lambda s, e, n, ahead: rule(s, e, n) if ahead else n * (s + e)


def mistaken(key: str, belief: str, idea: str, *rules: Rule) -> Misconception:
    """A wrong idea of asynchronous steps."""
    answer, *others = map(if_async, rules)
    return Misconception(key, belief, idea, answer, same_result=others)


MISCONCEPTIONS = (
    Misconception(
        "not_a_number",
        "The answer is the time of each step.",
        lambda value: f"The answer is one number of microseconds, not {a_kind(value)}.",
        matches=lambda value: as_number(value) is None,
        examples=(lambda s, e, n, ahead: [s + e] * n,),
    ),
    mistaken(
        "still_the_sum",
        "The next schedule needs the last token, so nothing overlaps.",
        "With async scheduling the next step is scheduled while this one executes: only the token "
        "itself is unknown, and a placeholder stands for it.",
        lambda s, e, n: n * (s + e),
    ),
    mistaken(
        "all_hidden",
        "The schedule is hidden, so only execution takes time.",
        "The first schedule has no execution to hide behind, so nothing executes before it ends.",
        lambda s, e, n: n * e,
        lambda s, e, n: n * max(s, e),
    ),
    mistaken(
        "execution_is_longer",
        "Execution takes longer than scheduling.",
        "Scheduling may take longer than execution. Then the executor waits for each schedule.",
        lambda s, e, n: s + n * e if n else 0,
    ),
    mistaken(
        "last_step_is_longest",
        "Every step takes the longer of the two times, after the first schedule.",
        "Beside the last execution nothing is scheduled, so the last step ends after `execute_us`, "
        "even where scheduling takes longer.",
        lambda s, e, n: s + n * max(s, e) if n else 0,
        lambda s, e, n: s + n * max(s, e),
    ),
    mistaken(
        "last_execution_forgotten",
        "The steps are done with the last schedule.",
        "The last step still has to execute once it is scheduled.",
        lambda s, e, n: s + (n - 1) * max(s, e) if n else 0,
    ),
    mistaken(
        "shorter_counts",
        "The shorter of the two times counts.",
        "Two things at the same time take as long as the longer of them.",
        lambda s, e, n: s + (n - 1) * min(s, e) + e if n else 0,
    ),
    mistaken(
        "starts_at_zero",
        "There is always a first schedule.",
        "Where there are no steps, nothing is scheduled: the answer is 0.",
        lambda s, e, n: s + (n - 1) * max(s, e) + e,
        lambda s, e, n: s + max(0, n - 1) * max(s, e) + e,
    ),
    Misconception(
        "turned_around",
        "Synchronous scheduling overlaps.",
        "It is the other way around: with `async_scheduling` the times overlap.",
        lambda s, e, n, ahead: overlap(s, e, n, not ahead),
    ),
)

# --- cases --------------------------------------------------------------------------------------


def any_times(rng: random.Random) -> list[Args]:
    return [
        (rng.randint(1, 30), rng.randint(1, 30), rng.randint(0, 8), rng.random() < 0.7)
        for _ in range(40)
    ]


JUDGE = Comparison(
    overlap,
    MISCONCEPTIONS,
    "Draw two lines, one for schedules and one for executions. Which schedule runs beside which "
    "execution?",
    evidence=[(s, e, n, ahead) for s, e in ((2, 5), (5, 2)) for n in (0, 1, 4)
              for ahead in (True, False)],
)  # fmt: skip

EXERCISE = Exercise(
    number=2,
    title="Scheduling one step ahead",
    minutes=8,
    points=2,
    task=Task(
        rules=(
            "An engine runs `num_steps` steps, which may be 0. Each is scheduled on the CPU in "
            "`schedule_us` and then executed on the GPU in `execute_us`, at least 1 µs each.",
            "Without async scheduling, the engine schedules a step when the one before it has been "
            "executed.",
            "With `async_scheduling`, the CPU schedules one step ahead: while the GPU executes a "
            "step, it schedules the next one, and no further. The GPU executes steps in order. It "
            "begins a step when the step is scheduled and the one before it has been executed.",
            "Returns the microseconds from the first schedule to the end of the last execution.",
        ),
        args=(2, 5, 3, True),
        result=17,
        steps=(
            "From 0 to 2 µs the CPU schedules step 0. The GPU has nothing to do.",
            "From 2 to 7 µs the GPU executes step 0, and step 1 is scheduled by 4 µs.",
            "From 7 to 12 µs the GPU executes step 1, and from 12 to 17 µs step 2.",
        ),
    ),
    hints=(
        "Draw three steps on two lines, CPU and GPU, once with the longer schedule and once with "
        "the longer execution. What waits for what?",
        "Nothing is executed during the first schedule, and nothing has to be scheduled during the "
        "last execution. What lies between them?",
        "Between the first schedule and the last execution there are `num_steps - 1` pairs of one "
        "execution and one schedule, side by side. Each takes the longer of the two times.",
    ),
    right=(overlap, by_simulation, by_what_is_hidden),
    misconceptions=MISCONCEPTIONS,
    checks=(
        ("one after the other", JUDGE.on((2, 5, 3, False), (5, 2, 4, False))),
        ("execution takes longer", JUDGE.on((2, 5, 3, True), (1, 9, 10, True))),
        ("scheduling takes longer", JUDGE.on((5, 2, 3, True), (9, 1, 10, True))),
        ("one step, or none", JUDGE.on((2, 5, 1, True), (5, 2, 0, True), (5, 2, 0, False))),
        ("any times", JUDGE.on_drawn(any_times)),
    ),
    draw_call=named("schedule_us", "execute_us", "num_steps", "async_scheduling"),
    equivalent_mutants={
        "schedule_us at least 1": "it is at least 1",
        "execute_us at least 1": "it is at least 1",
    },
)
