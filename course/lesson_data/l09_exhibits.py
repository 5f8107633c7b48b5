"""Behind lesson 9's exhibits: a forgotten counter, a task that dies unheard, a baseline."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from course.calling.jobs import RunError, run
from course.lesson_data.l09_fleet import A_MORNING, ms
from course.lesson_data.l09_lazy_heap import heap_story, told
from nanogpt.experiments.fleet_comparison import compare
from nanogpt.fleet import decisions
from nanogpt.fleet.costs import SOURCE_COST
from nanogpt.fleet.dispatching import Dispatcher
from nanogpt.fleet.fleet_config import ADAPTIVE, FIFO, FleetConfig
from nanogpt.fleet.fleet_record import FleetRun
from nanogpt.fleet.metrics import Metrics
from nanogpt.fleet.simulation import Simulation, simulate
from nanogpt.fleet.workload import Workload, make_workload

Test = Callable[..., Any]


def verdict(ok: bool, repaired: str, broken: str) -> str:
    """What stands below an exhibit without an exercise; Markdown."""
    return f"**Repaired.** {repaired}" if ok else f"**Still broken.** {broken}"


# --- A: out of turn -----------------------------------------------------------------------------


def second_morning(forget: Callable[..., Any]) -> dict[str, Any]:
    """A queue in which `forget(generations, id)` says what a removal leaves of the counters."""
    events = (*A_MORNING[:3], ("remove", 5), ("push", 5, (6, 999)), *[("pop",)] * 4)

    def story(forget: Callable[..., Any]) -> dict[str, Any]:
        def apply_event(heap: Any, generations: Any, event: Any) -> Any:
            if event[0] == "remove":
                return heap, forget(dict(generations), event[1]), None
            return _tolerant(heap, generations, event)

        return heap_story(apply_event, events)

    return told(story, forget)


def _tolerant(heap: Any, generations: Any, event: Any) -> Any:
    """The reference, for counters of which one may be missing."""
    known = dict.fromkeys((request_id for _, request_id, _ in heap), 0)
    entries, latest, popped = decisions.apply_event(heap, {**known, **generations}, event)
    return entries, {id_: count for id_, count in latest.items() if count}, popped


def in_turn(story: dict[str, Any]) -> bool:
    """Whether the queue of `second_morning` gives its requests in the right order."""
    popped = [step["popped"] for step in story["steps"] if step["event"][0] == "pop"]
    return popped == [7, 3, 5, None]


# --- B: a green test ----------------------------------------------------------------------------


class TaskDispatcher(Dispatcher):
    """A dispatcher that runs in a task of its own: what it raises reaches no one. Mutable."""

    raised: AttributeError | None = None

    def run_round(self, queue: Any, now_us: int) -> bool:
        """A round as ever, until it has raised."""
        return self.raised is None and super().run_round(queue, now_us)

    def hand_over(self, worker: Any, now_us: int) -> None:
        """The end of a preemption, in which the source touches a set that was never made."""
        if self.raised is not None or worker.claimant is None:
            return
        try:
            self._in_flight_ids.discard(worker.claimant.id)  # type: ignore
        except AttributeError as error:
            self.raised = error


def dead_and_living() -> tuple[FleetRun, AttributeError | None, FleetRun]:
    """The rush for 3 s: with the dispatcher in a task, what it raised, and as it should be."""
    unaged = replace(ADAPTIVE, name="by priority", order="priority", ageing_us=None)
    load = make_workload("steady", 300, 3, seed=42)
    dead, error = _in_a_task(unaged, load)
    return dead, error, simulate(unaged, load)


def _in_a_task(config: FleetConfig, load: Workload) -> tuple[FleetRun, AttributeError | None]:
    simulation = Simulation(config, load, make_dispatcher=TaskDispatcher)
    simulation.advance(30_000_000)
    assert isinstance(simulation.dispatcher, TaskDispatcher)
    return simulation.result(), simulation.dispatcher.raised


def dead_table(dead: FleetRun, living: FleetRun) -> str:
    """What both schedulers did, and what was seen of it; Markdown."""
    return "\n".join(
        [
            "| scheduler | requests | completed | preemptions | errors seen |",
            "|:--|--:|--:|--:|:--|",
            *(
                f"| {name} | {totals.arrived} | **{totals.completed}** | {totals.preemptions} | "
                "none |"
                for name, totals in (("this one", dead.totals), ("the reference", living.totals))
            ),
        ]
    )


def judged_test(test: Test, dead: FleetRun, living: FleetRun) -> str:
    """Whether a test fails for the dead scheduler and passes for the living one; Markdown."""

    def outcome(totals: Metrics) -> str:
        try:
            return run(_outcome, test, totals)
        except RunError as error:
            return f"gives no verdict ({error})"

    found = outcome(dead.totals), outcome(living.totals)
    return verdict(
        found == ("fails", "passes"),
        "The test fails for the dead scheduler and passes for the living one.",
        f"The test of the dead scheduler {found[0]}, that of the living one {found[1]}.",
    )


def _outcome(test: Test, totals: Metrics) -> str:
    try:
        test(totals)
    except AssertionError:
        return "fails"
    return "passes"


# --- C: no better than FIFO ---------------------------------------------------------------------


def baseline_of(exhibit: Callable[..., Any]) -> Any:
    """The configuration that an exhibit makes of the adaptive fleet; None if it makes none."""
    try:
        return run(exhibit, ADAPTIVE)
    except RunError:
        return None


def baselines_table(suspect: object) -> str:
    """The adaptive fleet against a suspect baseline and against the naive FIFO; Markdown."""
    head = (
        "| adaptive minus baseline, modelled | TTFT, median | TTFT, 99th percentile | mean ITL | "
        "the baseline's prefix hits, as printed |\n|:--|--:|--:|--:|--:|\n"
    )
    rows = (_against("this baseline", suspect), _against("`nanogpt.fleet.fleet_config.FIFO`", FIFO))
    return head + "\n".join(rows)


def _against(name: str, baseline: object) -> str:
    if not isinstance(baseline, FleetConfig):
        return f"| {name} | it gives no fleet | | | |"
    found = compare((baseline, ADAPTIVE), "steady", 30, 5, range(42, 47), SOURCE_COST)
    rows = {row.metric: row for row in found.rows}
    cells = [
        f"{ms(rows[metric].mean)} ms, {rows[metric].verdict}"
        for metric in ("ttft_p50_ms", "ttft_p99_ms")
    ]
    of_itl = rows["itl_mean_ms"]
    cells.append(f"{1000 * of_itl.mean:+.0f} µs, {of_itl.verdict}")
    return f"| {name} | {' | '.join(cells)} | 0.0 % |"


def hits_of(suspect: object) -> str:
    """The hit rate that is printed as 0.0 %, measured; "" for what is no fleet."""
    if not isinstance(suspect, FleetConfig):
        return ""
    share = simulate(suspect, make_workload("steady", 30, 5, 42)).totals.kv_hit_share
    return f"Its hit rate is not 0.0 %: measured, it is **{share:.1%}**. "


def judged_baseline(suspect: object) -> str:
    """Whether the baseline is as naive as it says; Markdown."""
    naive = isinstance(suspect, FleetConfig) and (
        suspect.prefix_cache,
        suspect.speculation,
        suspect.order,
        suspect.routing,
    ) == ("none", False, "fifo", "round_robin")
    return verdict(
        naive,
        "It shares nothing and drafts nothing.",
        "What is compared with it is compared with a part of itself.",
    )
