"""Behind lesson 5's gate, its runs under load, the repair ladder, and its two exhibits."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from course.attempt import Attempt
from course.calling.jobs import RunError
from course.calling.plain_values import as_whole
from course.replay import Rerun
from course.stories import recorded
from course.stories.l05_policy import Gate, simulated
from course.stories.texts import whose_parts
from nanogpt.slo import POST_COST, Arrival, Run, SloView, policy, simulate
from nanogpt.slo.variants import BATCHED, LADDER, SUSPENDED, UNPREEMPTED, starved

Outranks = Callable[[float, float, float], bool]

_WORDS = {  # of a variant: what the repair is, and the exercise that it hangs on
    "control": "Arrival order, and all that fit 9,000 tokens share the pass. No preemption.",
    "order": "The queue in the order of urgency (5.3). It is nearly always empty: all are batched "
    "along.",
    "fork": "The post's preemption as published (5.4). The monitor cannot see what arrives in "
    "mid-pass.",
    "seen": "The monitor sees arrivals. Every preempted pass is packed full again, with the urgent "
    "request in it.",
    "progress": "The slack of a runner counts what it has computed (5.2), so that fewer are taken "
    "for doomed.",
    "batched": "Only what the head can bear comes along (5.5). The urgent request at last runs "
    "alone, or nearly.",
    "suspended": "A pass is suspended instead of thrown away. No Rule 1, but a bound on sleep.",
    "unpreempted": "The batches alone (5.5), without any preemption.",
}

# --- the gate -----------------------------------------------------------------------------------


def moment(request_id: int, spare_ms: int, left_ms: int, preempted: int = 0) -> SloView:
    """A request with so much slack and so much time to its deadline, as the gate sees it."""
    spare, left = 1000 * spare_ms, 1000 * left_ms
    tokens = max(1, 10 * (left_ms - spare_ms) - 100)
    return SloView(request_id, tokens, spare, left, policy.urgency(spare, left), 500_000, preempted)


def _scenes() -> list[tuple[SloView, list[SloView], str, str]]:
    """Waiter, runners, mode, and what is to be seen."""
    calm, two = [moment(1, 300, 400)], [moment(1, 30, 65), moment(2, 700, 900)]
    usual = "conservative"
    return [
        (moment(9, 20, 50), calm, usual, "Both can make it, and the waiter is far more urgent."),
        (
            moment(9, 20, 50),
            [moment(1, 20, 55)],
            usual,
            "More urgent, but not 1.2 times: 0.0200 against 1.2 × 0.0182 = 0.0218.",
        ),
        (moment(9, -10, 50), calm, usual, "The waiter is doomed. Nothing is given up for it."),
        (moment(9, 200, 400), [moment(1, -30, 50)], usual, "The runner is doomed, and in the way."),
        (
            moment(9, -10, 91),
            [moment(1, -30, 100)],
            usual,
            "Both are doomed: -0.0110 against -0.0100.",
        ),
        (moment(9, 20, 60), two, usual, "Measured by the most urgent of two runners."),
        (moment(9, 20, 60), two, "aggressive", "The same moment, measured by the least urgent."),
        (
            moment(9, 20, 50),
            [moment(1, 300, 400, 1)],
            usual,
            "The only runner was preempted before: Rule 1.",
        ),
    ]


def gate_decisions(attempt: Attempt) -> list[dict[str, Any]] | None:
    """Eight moments for a GatePicture, by the learner's gate; None while it gives no answer."""
    try:
        return Rerun(_decisions, policy.gate)(attempt.or_reference(policy.gate))
    except RunError:
        return None


def _decisions(gate: Gate) -> list[dict[str, Any]]:
    return [_decision(gate, *scene) for scene in _scenes()]


def _decision(
    gate: Gate, waiter: SloView, runners: list[SloView], mode: str, words: str
) -> dict[str, Any]:
    order = policy.by_urgency(each for each in runners if not each.num_preemptions)
    reference = None if not order else order[0] if mode == "conservative" else order[-1]
    named = gate(waiter, [*runners], policy.MARGIN, mode)
    victim = as_whole(named)
    if named is not None and victim not in [each.id for each in runners]:
        raise ValueError("gate named what does not run")

    def scored(view: SloView) -> dict[str, Any]:
        return {"id": view.id, "slack_us": view.slack_us, "urgency": view.urgency}

    return {
        "waiter": scored(waiter),
        "runners": [{**scored(each), "immune": each.num_preemptions > 0} for each in runners],
        "reference": reference and reference.id,
        "victim": victim,
        "margin": policy.MARGIN,
        "mode": mode,
        "words": words,
    }


# --- under load ---------------------------------------------------------------------------------


def under_load(load: Sequence[Arrival], attempts: Mapping[str, Attempt]) -> str:
    """Half a minute by the learner's functions beside the reference, in three variants."""
    parts: Any = {n: each.or_reference(getattr(policy, n)) for n, each in attempts.items()}
    rows = [
        f"{whose_parts(attempts, 'these runs')} {len(load)} requests, modelled:",
        "",
        "| policy | in time: urgent / generous | preemptions, computed in vain | pass by pass |",
        "|:--|--:|--:|:--|",
    ]
    for variant in (UNPREEMPTED, BATCHED, SUSPENDED):
        mine = simulated(load, variant, POST_COST, **parts)
        if isinstance(mine, str):
            rows.append(f"| {variant.title} | | | {mine} |")
            continue
        numbers = (
            f"{mine.attainment(urgent=True):.0%} / {mine.attainment(urgent=False):.0%} "
            f"| {mine.num_preemptions}, {mine.wasted_share:.0%}"
        )
        difference = _difference(mine, simulate(tuple(load), variant))
        rows.append(f"| {variant.title} | {numbers} | {difference} |")
    return "\n".join(rows)


def _difference(mine: Run, right: Run) -> str:
    """The first pass in which two runs part, in words."""
    for number, (one, other) in enumerate(zip(mine.passes, right.passes, strict=False)):
        if one != other:
            return (
                f"differs first in pass {number}, at {one.start_us / 1000:,.0f} ms: "
                f"yours ran {list(one.ids)} and {one.ending}, "
                f"the reference's {list(other.ids)} and {other.ending}"
            )
    same = mine.passes == right.passes
    return "like the reference" if same else "one stops earlier than the other"


# --- the ladder ---------------------------------------------------------------------------------


class Ladder:
    """The recorded table of `python -m nanogpt.slo`: attainment by variant and load."""

    def __init__(self) -> None:
        table = recorded("slo_ladder")
        self.seconds: float = table["seconds"]
        self._cells = {(each["variant"], each["requests_per_s"]): each for each in table["cells"]}
        self.rates: list[float] = sorted({rate for _, rate in self._cells})

    def cell(self, variant: str, rate: float = 4) -> dict[str, Any]:
        """What is known of a variant at a load of so many requests per second."""
        return self._cells[variant, rate]

    def percent(self, variant: str, tier: str, rate: float = 4) -> str:
        """Mean attainment of a tier, rounded."""
        return f"{self.cell(variant, rate)[tier]['mean']:.0f} %"

    def of_all(self, variant: str, rate: float) -> float:
        """Attainment of all requests in percent: one in five is urgent."""
        each = self.cell(variant, rate)
        return 0.2 * each["urgent"]["mean"] + 0.8 * each["generous"]["mean"]

    def rows(self) -> list[dict[str, Any]]:
        """The ladder as a RepairLadder takes it."""
        return [
            {
                "variant": variant.title,
                "words": _WORDS[variant.name],
                "loads": {f"{rate:g}": self._drawn(variant.name, rate) for rate in self.rates},
            }
            for variant in LADDER
        ]

    def _drawn(self, variant: str, rate: float) -> dict[str, Any]:
        each = self.cell(variant, rate)

        def interval(tier: str) -> list[float]:
            mean, half = each[tier]["mean"], each[tier]["half_width"]
            return [mean, mean - half, mean + half]

        return {
            "urgent": interval("urgent"),
            "generous": interval("generous"),
            "wasted_share": each["wasted_percent"] / 100,
            "preemptions": each["num_preemptions"],
        }

    def table(self, variants: Sequence[str]) -> str:
        """Urgent / generous and all together, at every load, in percent."""
        head = " | ".join(f"{rate:g} per s" for rate in self.rates)
        rows = [f"| urgent / generous, **all** (in %) | {head} |"]
        rows.append(f"|:--|{'--:|' * len(self.rates)}")
        for name in variants:
            cells = " | ".join(
                f"{self.cell(name, rate)['urgent']['mean']:.0f} / "
                f"{self.cell(name, rate)['generous']['mean']:.0f}, "
                f"**{self.of_all(name, rate):.0f}**"
                for rate in self.rates
            )
            rows.append(f"| {self.cell(name)['title']} | {cells} |")
        return "\n".join(rows)


# --- exhibits -----------------------------------------------------------------------------------


def gate_by(outranks: Outranks) -> Gate:
    """A gate that has exhibit A decide whether the waiter outranks the reference."""

    def gate(waiter: SloView, runners: Sequence[SloView], margin: float, mode: str) -> int | None:
        order = policy.by_urgency(each for each in runners if not each.num_preemptions)
        if not order:
            return None
        reference = order[0] if mode == "conservative" else order[-1]
        return order[-1].id if outranks(waiter.urgency, reference.urgency, margin) else None

    return gate


def without_rule_1(
    waiter: SloView, runners: Sequence[SloView], margin: float, mode: policy.Mode
) -> int | None:
    """Exhibit B: a gate for which no runner is immune."""
    mortal = [replace(each, num_preemptions=0) for each in runners]
    return policy.gate(waiter, mortal, margin, mode)


def starving() -> tuple[Run, Run]:
    """A report and an urgent request every 300 ms: under exhibit B, and as it should be."""
    wrong = simulated(starved(12), BATCHED, gate=without_rule_1)
    right = simulated(starved(12), BATCHED)
    assert isinstance(wrong, Run) and isinstance(right, Run)
    return wrong, right
