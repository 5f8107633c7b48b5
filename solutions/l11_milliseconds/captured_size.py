"""Exercise 11.2: which captured graph a batch replays."""

import bisect
import random

from course.calling.plain_values import as_whole
from course.checks.comparing import Args, Comparison
from course.exercise import Exercise, Misconception
from course.task import Task

# --- right answers ------------------------------------------------------------------------------


def captured_size(num_tokens: int, captured: list[int]) -> int | None:
    """Return the captured size that the step is padded to, or None for an eager step."""
    # A graph computes a fixed number of rows: fewer tokens leave rows unused, more have no row.
    return min((size for size in captured if size >= num_tokens), default=None)


def by_loop(num_tokens: int, captured: list[int]) -> int | None:
    for size in sorted(captured):
        if num_tokens <= size:
            return size
    return None


def by_bisection(num_tokens: int, captured: list[int]) -> int | None:
    ordered = sorted(captured)
    place = bisect.bisect_left(ordered, num_tokens)
    return ordered[place] if place < len(ordered) else None


# --- wrong ideas --------------------------------------------------------------------------------


def below(n: int, captured: list[int]) -> int | None:
    return max((size for size in captured if size <= n), default=None)


def nearest(n: int, captured: list[int]) -> int | None:
    return min(captured, key=lambda size: (abs(size - n), size), default=None)


def or_beyond(n: int, captured: list[int], beyond: int | None) -> int | None:
    found = captured_size(n, captured)
    return beyond if found is None else found


MISCONCEPTIONS = (
    Misconception(
        "no_size",
        "The answer is whether a graph fits.",
        "Return one of the captured sizes, an int, or None.",
        matches=lambda value: value is not None and as_whole(value) is None,
        examples=(
            lambda n, captured: captured_size(n, captured) is not None,
            lambda n, captured: [size for size in captured if size >= n],
        ),
    ),
    Misconception(
        "rounds_down",
        "A smaller graph is the quicker one.",
        "A graph of fewer rows than the step has tokens leaves tokens out. Pad up, to a size that "
        "holds them all.",
        below,
        examples=(lambda n, captured: below(n, captured) or min(captured, default=None),),
    ),
    Misconception(
        "nearest",
        "The nearest size wastes least.",
        "The nearest size may be too small, and then some tokens have no row. Only sizes that hold "
        "all tokens count.",
        nearest,
        same_result=(
            lambda n, captured: min(
                captured, key=lambda size: (abs(size - n), -size), default=None
            ),
            lambda n, captured: nearest(n, captured) if n <= max(captured, default=0) else None,
        ),
    ),
    Misconception(
        "largest_beyond",
        "Beyond the largest size the largest graph has to do.",
        "Even the largest graph has too few rows for these tokens, so the step runs eagerly: None.",
        lambda n, captured: or_beyond(n, captured, max(captured, default=None)),
    ),
    Misconception(
        "itself_beyond",
        "Beyond the largest size a graph of this size is captured.",
        "No graph of this size was captured, and a step does not wait for a capture: return None.",
        lambda n, captured: or_beyond(n, captured, n),
    ),
    Misconception(
        "zero_beyond",
        "Size 0 stands for no graph.",
        "Return None where no graph fits: 0 or -1 would be taken for a size.",
        lambda n, captured: or_beyond(n, captured, 0),
        same_result=(lambda n, captured: or_beyond(n, captured, -1),),
    ),
    Misconception(
        "strictly_larger",
        "The graph has to be larger than the step.",
        "A graph of exactly `num_tokens` rows fits without padding.",
        lambda n, captured: captured_size(n + 1, captured),
    ),
    Misconception(
        "always_largest",
        "The largest graph holds every batch.",
        "The largest graph holds them, but computes padding that a smaller one would not. Take the "
        "smallest that holds all tokens.",
        lambda n, captured: max(captured) if captured and n <= max(captured) else None,
    ),
    Misconception(
        "exact_only",
        "A graph fits only a step of its own size.",
        "A smaller step can be padded up to the size of a graph: its unused rows are thrown away.",
        lambda n, captured: n if n in captured else None,
    ),
    Misconception(
        "first_in_the_list",
        "The list is in order.",
        "`captured` comes in any order, so the first size that fits need not be the smallest.",
        lambda n, captured: next((size for size in captured if size >= n), None),
        same_result=(
            lambda n, captured: next(iter(captured[bisect.bisect_left(captured, n) :]), None),
        ),
    ),
)

# --- cases --------------------------------------------------------------------------------------


def any_sizes(rng: random.Random) -> list[Args]:
    cases: list[Args] = []
    for _ in range(40):
        captured = rng.sample(range(1, 70), rng.randint(0, 8))
        cases.append((rng.choice([*captured, rng.randint(1, 80)]), captured))
    return cases


JUDGE = Comparison(
    captured_size,
    MISCONCEPTIONS,
    "Which captured sizes hold all tokens of the step, and which of them computes least padding?",
    evidence=[(n, [8, 2, 1, 24, 4, 16]) for n in (1, 3, 5, 8, 9, 13, 17, 24, 25, 60)],
)

EXERCISE = Exercise(
    number=2,
    title="Padding to a captured size",
    minutes=4,
    points=2,
    task=Task(
        signature="captured_size(num_tokens: int, captured: list[int]) -> int | None",
        rules=(
            "A step has `num_tokens` tokens, at least 1. `captured` has the sizes for which there "
            "is a graph, in any order; it may be empty.",
            "A graph of size n computes exactly n rows. Where the step has fewer tokens, the other "
            "rows are padding, which takes time and is thrown away.",
            "Returns the captured size that the step is padded to, with as little padding as "
            "possible, or None if no graph fits and the step runs eagerly. Do not change "
            "`captured`.",
        ),
        args=(5, [1, 2, 4, 8, 16]),
        result=8,
        steps=(
            "Graphs of 1, 2 and 4 rows cannot hold 5 tokens.",
            "8 rows leave 3 of padding, and 16 would leave 11.",
        ),
    ),
    hints=(
        "Which sizes could hold all the tokens? Which of these is best?",
        "Keep the sizes that are at least `num_tokens`, and take the smallest of them. What if "
        "there is none?",
        "`min(...)` of a generator finds the size; its argument `default` is the answer where no "
        "size is left.",
    ),
    right=(captured_size, by_loop, by_bisection),
    misconceptions=MISCONCEPTIONS,
    checks=(
        ("between two sizes", JUDGE.on((5, [1, 2, 4, 8, 16]), (3, [1, 2, 4, 8]))),
        ("exactly a size", JUDGE.on((4, [1, 2, 4, 8]), (1, [1, 2]), (8, [1, 2, 4, 8]))),
        ("beyond the largest", JUDGE.on((9, [1, 2, 4, 8]), (1, []), (600, [256, 512]))),
        ("other sizes, in any order", JUDGE.on((13, [24, 8, 12, 16, 4]), (9, [64, 8, 40]))),
        ("any sizes", JUDGE.on_drawn(any_sizes)),
    ),
    equivalent_mutants={
        "num_tokens at least 1": "it is at least 1",
        "captured: reversed": "its order does not matter",
        "captured: sorted": "its order does not matter",
        "captured: without repeats": "no size is there twice",
        "result at least 1": "every size is at least 1",
    },
)
