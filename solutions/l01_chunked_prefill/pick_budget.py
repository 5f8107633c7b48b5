"""Exercise 1.5: the largest token budget whose steps stay within an ITL limit."""

import bisect
import random
from collections.abc import Callable
from typing import TypeAlias

from course.calling.plain_values import as_whole
from course.checks.comparing import Args, Comparison, not_whole
from course.exercise import Exercise, Misconception, Task
from nanogpt.views.step_cost import StepCost

Cost: TypeAlias = Callable[[int], int]

# --- right answers ------------------------------------------------------------------------------


def pick_budget(step_cost_us: Callable[[int], int], num_decodes: int, itl_limit_us: int) -> int:
    """Return the largest token budget with which a step stays within the ITL limit."""
    # Large budgets finish prompts in fewer steps, so the best budget is the largest one that the
    # limit allows. The cost never falls as tokens are added, so halving the range finds it in 12
    # calls.
    smallest, largest = num_decodes + 1, 4096
    while smallest < largest:
        middle = (smallest + largest + 1) // 2
        if step_cost_us(middle) <= itl_limit_us:
            smallest = middle
        else:
            largest = middle - 1
    return smallest


def step_by_step(step_cost_us: Cost, num_decodes: int, itl_limit_us: int) -> int:
    budget = num_decodes + 1
    while budget < 4096 and step_cost_us(budget + 1) <= itl_limit_us:
        budget += 1
    return budget


def with_bisect(step_cost_us: Cost, num_decodes: int, itl_limit_us: int) -> int:
    fitting = bisect.bisect_right(range(1, 4097), itl_limit_us, key=step_cost_us)
    return max(fitting, num_decodes + 1)


# --- wrong ideas --------------------------------------------------------------------------------


def clamped(budget: Callable[[Cost, int, int], int]) -> Callable[[Cost, int, int], int]:
    """The same budget, clamped to the allowed range."""
    return lambda cost, num_decodes, limit: min(
        4096, max(num_decodes + 1, budget(cost, num_decodes, limit))
    )


@clamped
def line_through_both_ends(cost: Cost, num_decodes: int, limit: int) -> int:
    slope = (cost(4096) - cost(1)) / 4095
    return 1 + int((limit - cost(1)) / slope)


MISCONCEPTIONS = (
    not_whole(
        "The budget is the point at which the cost reaches the limit.",
        lambda *args: pick_budget(*args) + 0.5,
    ),
    Misconception(
        "no_room_for_prefill",
        "The limit always holds, even if no prompt gets a token.",
        "If the budget is no larger than the number of decodes, no prompt gets a token and none "
        "finishes. The smallest useful budget is num_decodes + 1.",
        lambda cost, num_decodes, limit: pick_budget(cost, 0, limit),
        same_result=(
            lambda cost, num_decodes, limit: bisect.bisect(range(1, 4097), limit, key=cost),
            lambda cost, num_decodes, limit: pick_budget(cost, num_decodes - 1, limit),
        ),
    ),
    Misconception(
        "one_off",
        "The search ends at the first budget above the limit.",
        "This is the budget beside the right one. Return the largest budget whose own cost is at "
        "most the limit.",
        clamped(lambda *args: pick_budget(*args) + 1),
        same_result=(clamped(lambda *args: pick_budget(*args) - 1),),
    ),
    Misconception(
        "above_the_range",
        "Every budget within the limit is allowed.",
        lambda budget: f"The largest allowed budget is 4096; this is {budget}.",
        matches=lambda value: (as_whole(value) or 0) > 4096,
        examples=(
            lambda cost, num_decodes, limit: max(
                num_decodes + 1, bisect.bisect_right(range(1, 10**7), limit, key=cost)
            ),
        ),
    ),
    Misconception(
        "stays_below",
        "A step must take less than the limit.",
        "A step may take exactly itl_limit_us: within the limit means at most the limit.",
        lambda cost, num_decodes, limit: pick_budget(cost, num_decodes, limit - 1),
    ),
    Misconception(
        "decodes_on_top",
        "The budget counts only the prompt's tokens.",
        "The budget includes the decodes. A full step computes exactly as many tokens as the "
        "budget, not the decodes on top of it.",
        clamped(
            lambda cost, num_decodes, limit: pick_budget(cost, num_decodes, limit) - num_decodes
        ),
    ),
    Misconception(
        "straight_line",
        "The cost is a straight line: a fixed part plus a part per token.",
        "The cost is not a straight line here, so two points do not determine where it reaches "
        "the limit. Call step_cost_us for the budgets themselves.",
        line_through_both_ends,
    ),
    Misconception(
        "per_token",
        "A step of n tokens costs n times a step of one token.",
        "A step has a fixed cost in addition to the cost of its tokens, so n tokens cost less than "
        "n times one token.",
        clamped(lambda cost, num_decodes, limit: limit // cost(1)),
    ),
)

# --- cases --------------------------------------------------------------------------------------


def any_costs(rng: random.Random) -> list[Args]:
    """Straight lines, lines with a floor, and stairs of several widths."""
    cases: list[Args] = []
    for _ in range(4):
        costs = (
            StepCost(rng.randint(0, 900), rng.randint(1, 30)),
            StepCost(0, rng.randint(1, 30), least=rng.randint(100, 2000)),
            StepCost(rng.randint(0, 900), rng.randint(50, 400), rng.choice((8, 32, 100))),
        )
        cases += [(cost, rng.randint(0, 40), rng.randint(50, 4000)) for cost in costs]
    return cases


STRAIGHT = StepCost(500, 10)
JUDGE = Comparison(
    pick_budget,
    MISCONCEPTIONS,
    "Return the largest budget from num_decodes + 1 to 4096 whose full step takes at most "
    "itl_limit_us, or num_decodes + 1 if there is none.",
    evidence=[
        (STRAIGHT, 5, 1777),
        (StepCost(100, 150, 32), 3, 1300),
        (StepCost(0, 15, least=700), 7, 900),
    ],
)
LIMITS = ((30, 700), (4, 100), (4, 540), (4, 560), (4, 1_000_000), (0, 100), (0, 0))
NO_SUCH_STEP = "a step of one token takes longer, so the smallest budget is returned either way"

EXERCISE = Exercise(
    number=5,
    title="The largest budget within an ITL limit",
    minutes=8,
    points=2,
    task=Task(
        rules=(
            "`step_cost_us(tokens)` returns how long a step of that many tokens takes, in "
            "microseconds. The cost never falls as tokens are added, but it need not be a straight "
            "line. Calls are cheap.",
            "Every step computes `num_decodes` decodes (0 or more), which count towards its "
            "budget.",
            "Returns the largest token budget, at most 4096, for which a full step takes at most "
            "`itl_limit_us`.",
            "Never return less than `num_decodes + 1`, even if a step of so many tokens takes too "
            "long: with less, no prompt would get a token.",
        ),
        args=(StepCost(500, 10), 4, 600),
        result=10,
        steps=(
            "A step of 10 tokens takes 500 + 10 * 10 = 600 µs, which is within the limit.",
            "A step of 11 tokens takes 610 µs. 10 is also at least `num_decodes + 1`, which is 5.",
        ),
    ),
    hints=(
        "A small budget keeps ITLs short. What does it cost the prompts?",
        "The cost never falls as tokens are added. So do all budgets below a certain one stay "
        "within the limit, or only some of them?",
        "Start at the smallest allowed budget and go up one by one, as long as the next budget "
        "stays within the limit. Or halve the range of budgets until one is left.",
    ),
    right=(pick_budget, step_by_step, with_bisect),
    misconceptions=MISCONCEPTIONS,
    checks=(
        ("a cost that is a straight line", JUDGE.on((STRAIGHT, 0, 2005), (STRAIGHT, 4, 1500))),
        (
            "limits that are too tight or too wide",
            JUDGE.on(*((STRAIGHT, *limit) for limit in LIMITS)),
        ),
        (
            "costs with a floor and with steps",
            JUDGE.on(
                (StepCost(0, 20, least=900), 4, 1000),
                (StepCost(300, 200, 64), 4, 1000),
                (StepCost(0, 50, 100), 4, 4000),  # the last of these stairs is a short one
            ),
        ),
        ("any cost that never falls", JUDGE.on_drawn(any_costs)),
    ),
    equivalent_mutants={
        "itl_limit_us at least 1": NO_SUCH_STEP,
        "result at least 1": "the smallest budget is num_decodes + 1",
        "pick_budget(): middle = (smallest + largest + {1 => 2}) // 2": (
            "any middle above smallest and up to largest works"
        ),
    },
)
