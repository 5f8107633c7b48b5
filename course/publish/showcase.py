"""What the home page and the README's picture show: real answers to lesson 1, checked and run."""

from collections.abc import Sequence
from functools import cache
from typing import Any

from course.lesson_data.l01_chunks import six_requests
from course.prediction import predict
from course.registry import exercise
from course.report import Report
from nanogpt import Engine, EngineConfig, Policies, Trace, load_model
from nanogpt.clock import LARGE_GPU, CostClock
from widgets import Prediction, Timeline

FORGETFUL = '''def chunk_size(budget, num_decodes, remaining):
    """How many prompt tokens fit into this step."""
    return min(budget, remaining)
'''
"""An answer that forgets the decodes."""


def newest_first(
    decodes: Sequence[int],
    prefilling: Sequence[tuple[int, int]],
    waiting: Sequence[tuple[int, int]],
    budget: int,
) -> list[tuple[int, int]]:
    """A learner's plan: legal, and the last to come is served first."""
    plan = [(request_id, 1) for request_id in decodes[:budget]]
    for request_id, remaining in [*waiting, *prefilling]:
        n = min(budget - sum(tokens for _, tokens in plan), remaining)
        plan += [(request_id, n)] if n > 0 else []
    return plan


@cache
def runs() -> tuple[Trace, Trace]:
    """Six requests on the trained model by that plan, and by the reference."""
    model = load_model().double()  # in float64 rounding can flip no token
    limits = EngineConfig(token_budget=32, temperature=0.8, seed=1)
    yours, reference = (
        Engine(model, limits, policies, clock=CostClock(LARGE_GPU)).run(six_requests())
        for policies in (Policies(plan_step=newest_first), Policies())
    )
    return yours, reference


def first_difference(yours: Trace, reference: Trace) -> int:
    """The first step in which the two did not do the same work."""
    pairs = zip(yours.steps, reference.steps, strict=False)
    return next(at for at, (mine, theirs) in enumerate(pairs) if mine.work != theirs.work)


def report() -> Report:
    """What the check says of the forgetful answer."""
    names: dict[str, Any] = {}
    exec(FORGETFUL, names)
    return exercise("l01.chunk_size").check(names["chunk_size"])


def timeline() -> Timeline:
    """The two runs, as a lesson shows them."""
    yours, reference = runs()
    return Timeline(
        yours.to_json(),
        reference.to_json(),
        yours=True,
        title="Six requests, times modelled on a large GPU",
        question="Which request computes how many tokens in which step?",
    )


def prediction() -> Prediction:
    """A question that anyone who has met a transformer can think about."""
    return predict(
        "home.masked",
        "A prompt is computed in two chunks. In the second, all 8 rows see **all** keys, those of "
        "later tokens too. Only the last row's logits are used, and it may see everything anyway. "
        "Are they right?",
        (
            "Yes: its own view is exactly what it should be",
            "Yes in a model with one layer, no from two layers on",
            "No, whatever the number of layers",
        ),
        1,
        "The other 7 rows looked into their future, so what they hand to layer two is wrong, and "
        "layer two's **keys and values** are made of it. The last row reads those.",
    )
