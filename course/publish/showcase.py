"""The pictures of the home page and the README: two answers to exercise 1.4, and their runs."""

from functools import cache
from typing import Any

from course.lesson_data.l01_chunks import six_requests
from course.prediction import predict
from course.registry import exercise
from course.report import Report
from course.source.answer import Answer
from nanogpt import Engine, EngineConfig, Policies, Trace, load_model
from nanogpt.clock import LARGE_GPU, CostClock
from widgets import Prediction, Timeline

FIX = " - len(plan)"
"""The lines that the wrong answer lacks."""
RIGHT = f"""def plan_step(decodes, prefilling, waiting, token_budget):
    plan = [(request, 1) for request in decodes[:token_budget]]
    left = token_budget{FIX}
    for request, remaining in prefilling + waiting:
        n = min(left, remaining)
        if n > 0:
            plan.append((request, n))
            left -= n
    return plan
"""
WRONG = RIGHT.replace(FIX, "")
"""An answer that forgets that decodes use the budget too."""


def _answer(source: str) -> Any:
    names: dict[str, Any] = {}
    exec(source, names)
    return names["plan_step"]


def report(source: str) -> Report:
    """The check's sentence on an answer."""
    return exercise("l01.plan_step").check_answer(Answer(source, "plan_step"))


@cache
def run(source: str) -> Trace:
    """Six requests on the trained model, planned by an answer."""
    model = load_model().double()  # in float64 rounding can flip no token
    limits = EngineConfig(token_budget=32, temperature=0.8, seed=1)
    policies = Policies(plan_step=_answer(source))
    return Engine(model, limits, policies, clock=CostClock(LARGE_GPU)).run(six_requests())


def timeline() -> Timeline:
    """The wrong answer's run beside the right one's, as a lesson shows them."""
    return Timeline(
        run(WRONG).to_json(),
        run(RIGHT).to_json(),
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
