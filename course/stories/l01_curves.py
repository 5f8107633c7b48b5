"""Behind lesson 1's figures: how waits are spread, what budgets cost, and which keeps a promise."""

from collections.abc import Callable, Mapping

from nanogpt.experiments.trace_metrics import Summary
from nanogpt.figures import Chart, Line, Mark, Panel, throughput_against_latency

_WHOLE = "whole prompts"


def bill_chart(machines: Mapping[str, Mapping[str, Summary]]) -> Chart:
    """Throughput against the longest ITL on each machine: whole prompts, and chunks by budget."""
    kinds = {
        machine: {
            _WHOLE: {"": runs[_WHOLE]},
            "chunks, by budget": {
                name.rpartition(" ")[2]: run for name, run in runs.items() if name != _WHOLE
            },
        }
        for machine, runs in machines.items()
    }
    return throughput_against_latency(kinds, "What a smaller gap costs in throughput", "modelled")


def promise_chart(
    step_us: Callable[[int], int], runs: Mapping[str, Summary], picked: int | None, limit_us: int
) -> Chart:
    """A step's cost by its tokens, the longest ITL by budget, the promise, the learner's budget.

    `picked` is that budget, None where there is none.
    """
    budgets = [int(name.rpartition(" ")[2]) for name in runs if name != _WHOLE]
    gaps = [run.worst_itl_us for name, run in runs.items() if name != _WHOLE]
    steps = tuple((n, step_us(n) / 1000) for n in range(4, max(budgets) + 1, 4))
    longest = tuple((n, us / 1000) for n, us in zip(budgets, gaps, strict=True) if us is not None)
    marks = [Mark("y", limit_us / 1000, "the promise")]
    if picked is not None and picked <= max(budgets):
        marks.append(Mark("x", picked, "your budget"))
    panel = Panel(
        ("token budget", "tokens"),
        ("a step, and the longest ITL", "ms"),
        (Line("a full step", steps, "curve"), Line("longest ITL", longest, "points")),
        tuple(marks),
    )
    return Chart("Which budget keeps the promise?", (panel,), "modelled: a large GPU")
