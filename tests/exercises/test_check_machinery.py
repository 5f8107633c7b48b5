"""The checks test the engine's own functions, and a law in cells tests a check."""

from fractions import Fraction
from types import ModuleType

import pytest
from answers import IDS, right
from tiers import tier

from course.audit.auditing import SCORED
from course.registry import exercise
from nanogpt import planning
from nanogpt.fleet import decisions, transfers
from nanogpt.policies import acceptance, blocks, fusing, grammars, masks, queueing, sliding_window
from nanogpt.preemption import agreement, cleanup
from nanogpt.server import server_policies
from nanogpt.slo import policy
from solutions.l08_speculation._law import LAW_P, LAW_Q, law_cases

# --- the engine's own functions -------------------------------------------------------------------

OWN: dict[str, tuple[ModuleType, ...]] = {
    "l01": (planning, masks), "l02": (queueing,), "l03": (fusing, queueing),
    "l04": (sliding_window,), "l05": (policy,), "l06": (agreement, cleanup), "l07": (blocks,),
    "l08": (acceptance, grammars), "l09": (decisions, transfers), "l10": (server_policies,),
}  # fmt: skip
NOT_THE_ENGINE_S = {
    "l01.pick_budget", "l02.aged_key", "l03.merge_attention", "l08.propose_ngram", SCORED,
}  # fmt: skip


@pytest.mark.process
@pytest.mark.parametrize("lesson", OWN)
def test_the_engine_s_own_functions_pass_the_checks(lesson: str) -> None:
    for exercise_id in IDS:
        if not exercise_id.startswith(lesson) or exercise_id in NOT_THE_ENGINE_S:
            continue
        item = exercise(exercise_id)
        own = next(getattr(m, item.name) for m in OWN[lesson] if hasattr(m, item.name))
        if item.name == "resume_or_abort":  # whose arguments have to be named
            own = lambda a, b, urgent, short, bound: cleanup.resume_or_abort(  # noqa: E731
                a, b, urgent_waits=urgent, memory_is_short=short, bound=bound
            )
        for seed in range(25 if tier() == "all" else 2):
            report = item.check(own, seed=seed)
            assert report.status == "passed", report.text()


# --- lesson 8: the law of a drafted token ---------------------------------------------------------


def test_the_cells_give_the_exact_law_of_every_right_answer() -> None:
    for rejection_sample in (acceptance.rejection_sample, *right("l08.rejection_sample")):
        mass = dict.fromkeys(range(4), Fraction(0))
        for weight, args in law_cases():
            mass[rejection_sample(*args)[1]] += Fraction(weight, sum(LAW_Q) * 36)
        assert list(mass.values()) == [Fraction(n, 6) for n in LAW_P]
