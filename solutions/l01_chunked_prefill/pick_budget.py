"""Exercise 1.5: the largest token budget whose step keeps a limit."""

import bisect
import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from course.calling.plain_values import as_whole
from course.checks.comparing import Args, explaining, not_whole
from course.checks.step_cost import StepCost
from course.exercise import Exercise, Misconception
from course.format_values import show
from course.harness import Ask, Check, Failure, Rows, returned_nothing
from course.task import Task

Cost: TypeAlias = Callable[[int], int]

# --- right answers ------------------------------------------------------------------------------


def pick_budget(step_cost_us: Callable[[int], int], num_decodes: int, itl_limit_us: int) -> int:
    """Return the largest token budget with which a step stays within the ITL limit."""
    # Large budgets finish prompts in fewer steps, and each step has a fixed cost. So the best
    # budget is the largest one that the limit allows, and because the cost never falls, halving the
    # range finds it in 12 questions.
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


def from_above(step_cost_us: Cost, num_decodes: int, itl_limit_us: int) -> int:
    for budget in range(4096, num_decodes + 1, -1):
        if step_cost_us(budget) <= itl_limit_us:
            return budget
    return num_decodes + 1


# --- wrong ideas --------------------------------------------------------------------------------


def clamped(budget: Callable[[Cost, int, int], int]) -> Callable[[Cost, int, int], int]:
    """The same budget, but never one that is out of the question."""
    return lambda cost, num_decodes, limit: min(
        4096, max(num_decodes + 1, budget(cost, num_decodes, limit))
    )


@clamped
def line_through_both_ends(cost: Cost, num_decodes: int, limit: int) -> int:
    slope = (cost(4096) - cost(1)) / 4095
    return 1 + int((limit - cost(1)) / slope)


@clamped
def line_from_the_start(cost: Cost, num_decodes: int, limit: int) -> int:
    slope = cost(2) - cost(1)
    return 4096 if slope == 0 else 1 + (limit - cost(1)) // slope


@clamped
def line_from_an_empty_step(cost: Cost, num_decodes: int, limit: int) -> int:
    slope = cost(1) - cost(0)
    return 4096 if slope == 0 else (limit - cost(0)) // slope


@clamped
def powers_of_two(cost: Cost, num_decodes: int, limit: int) -> int:
    budget = 1
    while budget < 4096 and cost(2 * budget) <= limit:
        budget *= 2
    return budget


NO_ROOM_FOR_PREFILL = Misconception(
    "no_room_for_prefill",
    "The limit is the limit, even when decodes alone fill it.",
    lambda num_decodes, budget: (
        f"With {num_decodes} decodes, a budget of {budget} leaves prompts nothing and they never "
        f"get on: the smallest useful budget is {num_decodes + 1}."
    ),
    also=(lambda cost, num_decodes, limit: pick_budget(cost, 0, limit),),
)
ABOVE_THE_RANGE = Misconception(
    "above_the_range",
    "Whatever the limit allows is a budget.",
    lambda budget: f"Consider budgets up to 4096; this is {budget}.",
    also=(
        lambda cost, num_decodes, limit: max(
            num_decodes + 1, bisect.bisect_right(range(1, 10**7), limit, key=cost)
        ),
    ),
)
MISCONCEPTIONS = (
    not_whole(
        "Where the cost reaches the limit, there is the budget.",
        lambda *args: pick_budget(*args) + 0.5,
    ),
    NO_ROOM_FOR_PREFILL,
    ABOVE_THE_RANGE,
    Misconception(
        "stays_below",
        "A step must take less than the limit.",
        "A step may take exactly the limit: within means at most, not less than.",
        lambda cost, num_decodes, limit: pick_budget(cost, num_decodes, limit - 1),
    ),
    Misconception(
        "decodes_on_top",
        "The budget is the prompt's share; decodes come on top.",
        "The decodes are part of the budget: a step computes the budget's tokens, not that many "
        "and the decodes besides.",
        clamped(
            lambda cost, num_decodes, limit: pick_budget(cost, num_decodes, limit) - num_decodes
        ),
    ),
    Misconception(
        "powers_of_two",
        "Budgets are powers of two.",
        "A larger budget than this power of two still keeps the limit, and every token of it saves "
        "steps.",
        powers_of_two,
    ),
    Misconception(
        "straight_line",
        "A step's cost is a fixed part plus so much per token.",
        "The cost is not a straight line here, so two of its points do not tell where the limit "
        "is: ask step_cost_us about the budgets themselves.",
        line_through_both_ends,
        alike=(line_from_the_start, line_from_an_empty_step),
    ),
    Misconception(
        "per_token",
        "Every token costs what one token costs.",
        "A step has a fixed cost besides the cost of its tokens: so many tokens do not cost so "
        "many times what one costs.",
        clamped(lambda cost, num_decodes, limit: limit // cost(1)),
    ),
    Misconception(
        "smallest",
        "Smaller is always better for the gaps between tokens.",
        "Smaller is not always better: every step has a fixed cost and small steps pay it more "
        "often, so take the largest budget that keeps the limit.",
        lambda cost, num_decodes, limit: num_decodes + 1,
    ),
    Misconception(
        "largest",
        "Larger is always better for throughput.",
        lambda case: (
            f"A step of 4096 tokens takes {case.cost(4096)} µs and every reader would wait that "
            f"long: the limit is {case.limit_us} µs."
        ),
        lambda cost, num_decodes, limit: 4096,
    ),
)

# --- cases --------------------------------------------------------------------------------------


def line(fixed: int, each: int) -> tuple[str, StepCost]:
    return f"{fixed} µs + {each} µs per token", StepCost(fixed, each)


def floor(least: int, each: int) -> tuple[str, StepCost]:
    return f"{each} µs per token, but at least {least} µs", StepCost(0, each, least=least)


def stairs(fixed: int, each: int, width: int) -> tuple[str, StepCost]:
    words = f"{fixed} µs + {each} µs for each block of {width} tokens, begun ones included"
    return words, StepCost(fixed, each, width)


@dataclass(frozen=True, slots=True)
class Case:
    """A step cost in words and as a function, the decodes, and the limit."""

    words: str
    cost: StepCost
    num_decodes: int
    limit_us: int

    @property
    def args(self) -> Args:
        """As pick_budget is called."""
        return self.cost, self.num_decodes, self.limit_us

    def asked(self, ask: Ask) -> tuple[Any, int]:
        """The answer, and how often it asked what a step costs."""
        called = ask.call(replace(self.cost, asked=0), self.num_decodes, self.limit_us)
        after = called.args_after[0]
        return called.value, after.asked if isinstance(after, StepCost) else 0


EVIDENCE = (
    Case(*line(500, 10), 5, 1777),
    Case(*stairs(100, 150, 32), 3, 1300),
    Case(*floor(700, 15), 7, 900),
)


def judge(ask: Ask, cases: list[Case]) -> Failure | None:
    results: list[tuple[Args, int]] = []
    for case in cases:
        got, asked = case.asked(ask)
        whole, wanted = as_whole(got), pick_budget(*case.args)
        if whole is not None:
            results.insert(0, (case.args, whole))
        if whole == wanted:
            continue
        rows: Rows = (
            ("input", f"pick_budget(step_cost_us, {case.num_decodes}, {case.limit_us})"),
            ("step_cost_us", f"{case.words} (you asked it {asked}×)"),
            ("expected", f"{wanted} (a step of {case.cost(wanted)} µs)"),
            ("got", show(got)),
        )
        if got is None:
            return Failure(returned_nothing(ask.name), rows, "no_return")
        if whole is None:
            return MISCONCEPTIONS[0].failure(rows, got)
        return wrong_budget(case, whole, rows, results + more(ask))
    return None


def wrong_budget(case: Case, got: int, rows: Rows, results: list[tuple[Args, int]]) -> Failure:
    """What is wrong with the budget that the case got, in the light of all results."""
    if got <= case.num_decodes:
        return NO_ROOM_FOR_PREFILL.failure(rows, case.num_decodes, got)
    if got > 4096:
        return ABOVE_THE_RANGE.failure(rows, got)
    mistake = explaining(MISCONCEPTIONS, pick_budget, results)
    if mistake:
        return Failure(mistake.sentence(case), rows, mistake.key)
    limit = f"{case.limit_us} µs"
    if case.cost(got) > case.limit_us:
        took = case.cost(got)
        idea = f"A step of {got} tokens takes {took} µs, more than the limit of {limit}."
    else:
        took = case.cost(got + 1)
        idea = (
            f"{got + 1} tokens take {took} µs, still within {limit}: the largest budget is asked."
        )
    return Failure(idea, rows)


def more(ask: Ask) -> list[tuple[Args, int]]:
    """More results tell more about the mistake; an answer that breaks off has said enough."""
    results: list[tuple[Args, int]] = []
    try:
        for case in EVIDENCE:
            whole = as_whole(case.asked(ask)[0])
            results += [] if whole is None else [(case.args, whole)]
    except Exception:
        return results
    return results


def on(*cases: Case) -> Check:
    """The check that asks about these cases."""
    return lambda ask, rng: judge(ask, list(cases))


def any_costs(ask: Ask, rng: random.Random) -> Failure | None:
    cases: list[Case] = []
    for _ in range(4):
        shapes = (
            line(rng.randint(0, 900), rng.randint(1, 30)),
            floor(rng.randint(100, 2000), rng.randint(1, 30)),
            stairs(rng.randint(0, 900), rng.randint(50, 400), rng.choice((8, 32, 100))),
        )
        cases += [Case(*shape, rng.randint(0, 40), rng.randint(50, 4000)) for shape in shapes]
    return judge(ask, cases)


STRAIGHT = line(500, 10)
LIMITS = ((30, 700), (4, 100), (4, 540), (4, 560), (4, 1_000_000), (0, 100), (0, 0))
NO_SUCH_STEP = "a step of one token takes longer, so the smallest budget comes out either way"

EXERCISE = Exercise(
    number=5,
    title="How large a budget",
    minutes=8,
    points=2,
    task=Task(
        signature="pick_budget(step_cost_us: Callable[[int], int], num_decodes: int, "
        "itl_limit_us: int) -> int",
        rules=(
            "`step_cost_us(tokens)` is how long a step of that many tokens takes, in microseconds. "
            "It never falls as the tokens grow, but it need not be a straight line: ask it, it is "
            "cheap.",
            "Every step serves `num_decodes` decodes (0 or more), which are part of its budget.",
            "Returns the largest token budget up to 4096 with which a full step takes at most "
            "`itl_limit_us`.",
            "Never return less than `num_decodes + 1`, even if that takes too long: with less, no "
            "prompt would get on.",
        ),
        args=(StepCost(500, 10), 4, 600),
        result=10,
    ),
    hints=(
        "A small budget keeps gaps short. What does it cost the prompts?",
        "The cost never falls as the tokens grow. So which budgets keep the limit, all those below "
        "one of them or a few here and there?",
        "Start from the smallest budget that lets prompts get on and go up, one by one or by "
        "halving the range, as long as the next one still keeps the limit. Where do you end?",
    ),
    right=(pick_budget, step_by_step, with_bisect, from_above),
    misconceptions=MISCONCEPTIONS,
    checks=(
        (
            "a cost that is a straight line",
            on(Case(*STRAIGHT, 0, 2005), Case(*STRAIGHT, 4, 1500)),
        ),
        ("limits too tight and too wide", on(*(Case(*STRAIGHT, *limit) for limit in LIMITS))),
        (
            "costs with a floor and with steps",
            on(
                Case(*floor(900, 20), 4, 1000),
                Case(*stairs(300, 200, 64), 4, 1000),
                Case(*stairs(0, 50, 100), 4, 4000),  # the last step of these stairs is a short one
            ),
        ),
        ("any cost that never falls", any_costs),
    ),
    still_right={
        "itl_limit_us at least 1": NO_SUCH_STEP,
        "result at least 1": "the smallest budget is num_decodes + 1",
        "pick_budget(): middle = (smallest + largest + {1 => 2}) // 2": (
            "any middle above smallest and up to largest will do"
        ),
        "from_above(): for budget in range(4096, num_decodes + {1 => 0}, -1):": (
            "num_decodes + 1 comes out anyway"
        ),
    },
)
