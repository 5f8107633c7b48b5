"""Exercise 6.1: a rank's vote on leaving the pass."""

import random
from collections.abc import Callable
from fractions import Fraction

from course.calling.plain_values import as_whole
from course.checks.comparing import Args, Comparison, a_kind
from course.exercise import Exercise, Misconception, Task
from course.format_values import named

# --- right answers ------------------------------------------------------------------------------


def local_vote(target: int, step: int, layers_done: int, num_layers: int) -> int:
    """Return this rank's vote at one attention op: 1 to leave the pass, 0 to go on."""
    # The target names its step, so a target for another step does nothing, however late it is read.
    # Whole numbers make the limit of 90 % exact.
    if target == step and 10 * layers_done <= 9 * num_layers:
        return 1
    return 0


def by_share(target: int, step: int, layers_done: int, num_layers: int) -> int:
    is_protected = layers_done / num_layers > 0.9
    return 0 if target != step or is_protected else 1


def with_fractions(target: int, step: int, layers_done: int, num_layers: int) -> int:
    done = Fraction(layers_done, num_layers)
    return int(done <= Fraction(9, 10)) if target == step else 0


# --- wrong ideas --------------------------------------------------------------------------------


def voting(
    meant: Callable[[int, int], bool] = lambda target, step: target == step,
    early: Callable[[int, int], bool] = lambda layers_done, num_layers: (
        10 * layers_done <= 9 * num_layers
    ),
) -> Callable[[int, int, int, int], int]:
    """The rules, with the given ones replaced."""
    return lambda target, step, layers_done, num_layers: int(
        meant(target, step) and early(layers_done, num_layers)
    )


def meaning(key: str, belief: str, idea: str, *meant: Callable[[int, int], bool]) -> Misconception:
    """A wrong idea of which step is meant, with the layers tested or not."""
    answer, *same_result = [
        voting(each, **early)
        for early in ({}, {"early": lambda layers_done, num_layers: True})
        for each in meant
    ]
    return Misconception(key, belief, idea, answer, same_result=same_result)


def stopping(key: str, belief: str, idea: str, *early: Callable[[int, int], bool]) -> Misconception:
    """A wrong idea of which passes run to their end."""
    answer, *same_result = [voting(early=each) for each in early]
    return Misconception(key, belief, idea, answer, same_result=same_result)


PROTECTED = "A pass with more than 90 % of its layers done runs to its end"

MISCONCEPTIONS = (
    Misconception(
        "bool",
        "A vote is yes or no.",
        lambda value: (
            "A vote is the number 1 or 0, because the ranks take the largest vote. This is "
            f"{value}; `int(...)` makes it a number."
        ),
        matches=lambda value: type(value) is bool,
        examples=(lambda *args: local_vote(*args) == 1,),
    ),
    Misconception(
        "not_a_vote",
        "A vote is a word.",
        lambda value: f"A vote is 1, to leave, or 0, to go on; this is {a_kind(value)}.",
        matches=lambda value: as_whole(value) not in (0, 1),
        examples=((lambda *args: "leave" if local_vote(*args) else "stay"),),
    ),
    meaning(
        "flag",
        "Any target means that this step is to be preempted.",
        "This target was written for another step. Leave only when the target is the number of the "
        "step that runs.",
        lambda target, step: target >= 0,
    ),
    meaning(
        "flag",
        "1 means preempt.",
        "The target is the number of a step and not a flag. Leave when it is the number of the "
        "step that runs.",
        lambda target, step: target == 1,
    ),
    meaning(
        "older_steps",
        "An older request for a preemption is still open.",
        "The step of an older target is over. The step that runs now must not be preempted for it.",
        lambda target, step: target <= step,
    ),
    meaning(
        "newer_steps",
        "All steps up to the target have to be left.",
        "A target of a later step does not mean this one. Leave when the two are equal.",
        lambda target, step: target >= step,
    ),
    stopping(
        "never_too_late",
        "Urgent is urgent, at any layer.",
        f"{PROTECTED}, because nearly all of it would be computed again. Your function leaves it "
        "however many layers are done.",
        lambda layers_done, num_layers: True,
    ),
    Misconception(
        "edge_too_early",
        "90 % is already too late.",
        "With exactly 90 % of the layers done, a pass may still be left. It runs to its end only "
        "with more. (If you computed 1 - 0.9 in floats: it is not exactly 0.1.)",
        voting(early=lambda layers_done, num_layers: 10 * layers_done < 9 * num_layers),
    ),
    stopping(
        "counts_this_layer",
        "The current layer counts as done.",
        "`layers_done` layers are computed. The layer whose attention op the rank has reached is "
        "not, so it does not count.",
        lambda layers_done, num_layers: 10 * (layers_done + 1) <= 9 * num_layers,
    ),
    stopping(
        "rounded",
        "90 % of the layers is a whole number.",
        "9 tenths of the layers need not be a whole number. Compare without rounding.",
        lambda layers_done, num_layers: layers_done <= round(0.9 * num_layers),
    ),
    Misconception(
        "ignores_target",
        "A vote depends only on the layers.",
        "No preemption of this step is wanted. Leave when the target names this step.",
        voting(lambda target, step: True),
    ),
    Misconception(
        "inverted",
        "1 means go on.",
        "1 is the vote to leave, 0 the vote to go on.",
        lambda *args: 1 - local_vote(*args),
    ),
)

# --- cases --------------------------------------------------------------------------------------

NOTHING = -1  # the target before the first preemption


def any_votes(rng: random.Random, count: int) -> list[Args]:
    """Targets near the step that runs, and layers near 90 %, where the rules differ."""
    cases: list[Args] = []
    for _ in range(count):
        step = rng.choice((0, 1, rng.randint(2, 40), rng.randint(1_000, 100_000)))
        num_layers = rng.choice((1, 10, 20, rng.randint(2, 40), rng.randint(41, 130)))
        target = rng.choice([step, step, step, step - 1, step + 1, rng.randint(0, 50), NOTHING])
        edge = 9 * num_layers // 10
        layers_done = rng.choice([0, edge - 1, edge, edge + 1, rng.randrange(num_layers)])
        target = int(str(target))  # another object than `step`, so that `is` is no `==`
        cases.append((target, step, min(max(layers_done, 0), num_layers - 1), num_layers))
    return cases


JUDGE = Comparison(
    local_vote,
    MISCONCEPTIONS,
    "Two things decide: which step is meant, and how much of this pass is done.",
    evidence=[
        *(
            (5, 5, layers_done, layers)
            for layers_done, layers in ((9, 11), (18, 21), (19, 21), (29, 30), (39, 40))
        ),
        *((5, 5, layers_done, 100) for layers_done in (10, 11, 89, 90, 91, 92, 93, 94, 95)),
        *((0, 0, 1, 4), (0, 5, 1, 4), (1, 5, 1, 4)),
        *any_votes(random.Random(0), 40),
    ],
)
NAMED = ((7, 0, 4), (7, 2, 4), (12, 5, 12), (1, 0, 2), (0, 1, 4))
OTHERS = ((6, 7), (1, 7), (8, 7), (19, 7), (NOTHING, 7), (NOTHING, 1), (0, 7), (NOTHING, 0))
NEARLY_DONE = (
    (11, 12), (9, 10), (18, 20), (19, 20), (28, 32), (29, 32), (10, 12), (7, 8), (3, 4), (0, 1),
    (72, 80), (73, 80), (90, 100), (91, 100), (19, 21),
)  # fmt: skip

EXERCISE = Exercise(
    number=1,
    title="Which step should be preempted",
    minutes=5,
    points=2,
    task=Task(
        rules=(
            "Returns the vote of this rank at one attention op: `1` to leave the pass, `0` to go "
            "on.",
            "`target` is the number that the rank has just read in shared memory: the step that "
            "the monitor wants to preempt, or `-1` if there was none yet. It is never reset, "
            "and it may have been written for another step.",
            "`step` is the number of the step that runs.",
            "`layers_done` of `num_layers` layers are computed. The rank has reached the attention "
            "op of the next one.",
            "A pass with more than 90 % of its layers done runs to its end.",
        ),
        args=(7, 7, 2, 4),
        steps=("The target names step 7, which runs.", "2 of 4 layers are done, which is 50 %."),
        result=1,
    ),
    hints=(
        "The target was written while step 7 ran, and step 8 reads it. Which step is meant? And "
        "what is lost if a pass is left at its last layer?",
        "Two conditions for a 1: the target is the number of the step that runs, and at most 90 % "
        "of the layers are done. Exactly 90 % is not more than 90 %.",
        "Compare ten times `layers_done` with nine times `num_layers`, which needs no float. "
        "`int` turns a condition into 1 or 0.",
    ),
    right=(local_vote, by_share, with_fractions),
    misconceptions=MISCONCEPTIONS,
    checks=(
        (
            "the step that is meant",
            JUDGE.on(*((step, step, layers_done, layers) for step, layers_done, layers in NAMED)),
        ),
        ("other steps", JUDGE.on(*((target, step, 1, 4) for target, step in OTHERS))),
        (
            "a pass that is nearly done",
            JUDGE.on(*((5, 5, layers_done, layers) for layers_done, layers in NEARLY_DONE)),
        ),
        ("any attention op", JUDGE.on_drawn(lambda rng: any_votes(rng, 60))),
    ),
    draw_call=named("target", "step", "layers_done", "num_layers"),
    equivalent_mutants={
        "num_layers at least 1": "a model has a layer",
        "result at most 7": "a vote is never more than 1",
    },
)
