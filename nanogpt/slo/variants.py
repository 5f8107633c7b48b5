"""The repair ladder: one change after the other. And small loads that show a rule's purpose."""

import dataclasses

from nanogpt.clock import CostModel
from nanogpt.slo.load import Arrival, PrefillCost
from nanogpt.slo.slo_record import Variant

CONTROL = Variant("control", "arrival order, everyone batched along", "fcfs", preemption="none")
ORDER = Variant("order", "most urgent first", preemption="none")
FORK = Variant("fork", "+ preemption, arrivals unseen")
SEEN = Variant("seen", "+ arrivals seen in mid-pass", sees_arrivals=True)
PROGRESS = Variant(
    "progress", "+ slack of the remaining work", sees_arrivals=True, counts_progress=True
)
BATCHED = dataclasses.replace(
    PROGRESS, name="batched", title="+ SLO-aware batches (abort)", batching="slo"
)
# Suspension throws no work away; the bound on sleep takes the place of Rule 1.
SUSPENDED = dataclasses.replace(
    BATCHED, name="suspended", title="+ suspend and resume", preemption="suspend", rule_1=False
)
UNPREEMPTED = Variant(
    "unpreempted", "SLO-aware batches, no preemption", batching="slo", preemption="none"
)

LADDER = (CONTROL, ORDER, FORK, SEEN, PROGRESS, BATCHED, SUSPENDED, UNPREEMPTED)

BATCHED_WITHOUT_RULE_1 = dataclasses.replace(
    BATCHED, name="batched-no-rule-1", title="SLO-aware batches, Rule 1 off", rule_1=False
)

ROUND_COST = PrefillCost(
    CostModel(
        "round numbers", modelled=True,
        fixed_us=10_000, floor_us=0, token_us=100, context_us=0, prompt_scale=1,
    ),
    num_layers=10,
)  # fmt: skip
"""0.1 ms per token, 10 ms per pass, 10 layers."""


def starved(num_urgent: int) -> tuple[Arrival, ...]:
    """A long prompt, and an urgent short one every 300 ms; run it at `ROUND_COST`.

    The long prompt takes 410 ms. Without Rule 1 every urgent request throws it back to the start;
    with Rule 1 the second one waits, and the long prompt gets through.
    """
    urgent = (
        Arrival(number, 300_000 * number, 200, urgent=True, slo_us=100_000)
        for number in range(1, num_urgent + 1)
    )
    return Arrival(0, 0, 4000, urgent=False, slo_us=5_000_000), *urgent


def doomed_pair() -> tuple[Arrival, ...]:
    """Two doomed requests, and ten seconds until the next one; run it at `ROUND_COST`.

    A policy that multiplies negative scores by its margin finds each of them more urgent than the
    other: without Rule 1 they preempt each other until another request comes.
    """
    return (
        Arrival(0, 0, 1000, urgent=True, slo_us=50_000),
        Arrival(1, 0, 1000, urgent=True, slo_us=50_000),
        Arrival(2, 10_000_000, 100, urgent=False, slo_us=200_000),
    )
