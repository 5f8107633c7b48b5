"""Lesson 6's race lab: races about the reply, the rollback and the monitor; all races."""

import threading
from collections.abc import Callable
from typing import Any

from course.lesson_data.l06_ranks import first_tokens_us, random_model, recording
from course.lesson_data.l06_stage_ranks import (
    HELD,
    beside,
    in_words,
    race_late_write,
    race_leave_first,
    race_no_vote,
    short_row,
    small_engine,
    staged,
    urgent_first,
    wait_for,
)
from course.lesson_data.texts import table
from nanogpt import Request
from nanogpt.preemption import cleanup, races
from nanogpt.preemption.monitor import (
    Snapshot,
    Target,
    is_immune,
    slo_gate,
    with_arrivals,
    with_progress,
    write_step,
)
from nanogpt.preemption.preemptive_engine import Preemption
from nanogpt.preemption.rank_messages import Abandoned, RanksFailed, judge
from nanogpt.preemption.runner import Runner
from nanogpt.preemption.shared_state import (
    hold,
    let_go,
    point_number,
    wait_until_held,
)
from nanogpt.slo.slo_policies import SloPolicies

Race = Callable[[Runner, bool], str]

_CARDS = {
    "late_write": "**A flag instead of a step number.** The monitor decides in one step and writes "
    "after that step.",
    "no_vote": "**Leave without a vote.** Rank 1 reads just before the write, rank 0 just after.",
    "leave_first": "**Leave before the collective.** A rank that votes 1 leaves, then the others "
    "vote: two lines in the wrong order.",
    "replies": "**A reply left unread.** The engine stops reading at the first rank that has left.",
    "too_late": "**The target instead of the replies.** It is written after the last layer, and "
    "the engine believes it instead of the ranks' replies.",
    "state": "**No rollback of previous_step.** The victim is admitted again in the next step.",
    "unseen": "**Only the snapshot.** An urgent request arrives during a pass, and the monitor "
    "would learn of it only in the next step.",
    "doomed": "**Progress ignored.** A prefill that is on time is charged for its whole prompt.",
    "nobody_immune": "**No Rule 1.** The policy finds every waiting request more urgent.",
}


def cards() -> str:
    """The nine races, and what was recorded; Markdown."""
    said = recording()["races"]
    rows = (
        f"| `{name}` | {what} | {said[name]['wrong']} | {said[name]['right']} |"
        for name, what in _CARDS.items()
    )
    return table("| `RACE` | the wrong piece | with it | with the reference |", "llll", rows)


def raced(name: str | None) -> str:
    """The result of a race that runs here; Markdown."""
    if name is None:
        return "No race was run here: `RACE` is None."
    if name not in RACES:
        return f"There is no race {name!r}; choose one of {', '.join(RACES)}."
    try:
        said = run_race(RACES[name])
    except (OSError, RuntimeError, TimeoutError) as failed:
        return f"It could not be run here: {failed}"
    return (
        f"`{name}`, just now. With the wrong piece: **{said['wrong']}**. "
        f"With the reference: {said['right']}."
    )


def race_replies(runner: Runner, wrong: bool) -> str:
    """Rank 1 is slow to reply that it has left. Does the engine wait for the reply?"""
    runner.load(random_model(4, 32), 1, policies=HELD)
    if wrong:
        runner.read_replies = races.read_until_preempted
    step = runner.new_step()
    hold(runner.shared, 1, "reply", point_number(step, 4, 4))
    runner.shared.target = step

    def be_slow() -> None:
        wait_until_held(runner.shared, 1)
        threading.Event().wait(0.1)
        let_go(runner.shared, 1)

    left = beside(be_slow, lambda: runner.run(step, short_row(), vote=True))
    try:
        return f"{in_words(left)}; {in_words(runner.run(runner.new_step(), short_row()))}"
    except RanksFailed as mixed_up:
        return f"{in_words(left)}; then the engine ENDS: {mixed_up}"


def race_too_late(runner: Runner, wrong: bool) -> str:
    """The target is written after the last rank has read it for the last time."""
    runner.load(random_model(4, 32), 1, policies=HELD)
    if wrong:
        runner.judge = races.believe_target
    work = staged(runner, 4, lambda step: write_step(runner.shared, step))
    outcome = beside(work, lambda: runner.run(runner.new_step(), short_row(), vote=True))
    runner.judge = judge
    if isinstance(outcome, Abandoned):
        return f"all four layers of step {outcome.step} were computed, and thrown away as preempted"
    return in_words(outcome)


def race_state(runner: Runner, wrong: bool) -> str:
    """The victim is admitted again in the very next step, beside the urgent request."""
    undo = races.keep_previous_step if wrong else cleanup.rollback_step
    preemption = Preemption(
        urgent_first,
        # Without a candidate to admit next, the next step admits both.
        rollback_step=lambda state, aborted, candidate: undo(state, aborted, None),
        rank_policies=HELD,
    )
    with small_engine(runner, preemption) as engine:
        engine.arrive(Request(0, [1] * 60, 2))

        def interrupted(step: int) -> None:
            engine.arrive(Request(1, [2] * 5, 2), 10**8)
            wait_for(lambda: runner.shared.target == step)

        beside(staged(runner, 1, interrupted), engine.step)
        try:
            return f"the next step admitted requests {sorted(engine.step().admitted)}"
        except AssertionError as refused:
            return f"the next step ENDS the engine: {refused}"


def race_unseen(runner: Runner, wrong: bool) -> str:
    """An urgent request arrives while the pass runs. Does the monitor know?"""
    looks: list[int] = []

    def gate(seen: Snapshot) -> Target | None:
        looks.append(len(seen.waiting))
        return urgent_first(seen)

    see = races.only_the_snapshot if wrong else with_arrivals
    preemption = Preemption(gate, rank_policies=HELD, see=see)
    with small_engine(runner, preemption) as engine:
        engine.arrive(Request(0, [1] * 60, 2))

        def arrive(step: int) -> None:
            wait_for(lambda: looks)
            engine.arrive(Request(1, [2] * 5, 2), 10**8)
            before = len(looks)
            wait_for(lambda: runner.shared.target == step or len(looks) > before + 3)

        beside(staged(runner, 1, arrive), engine.step)
        engine.serve()
    first_us = first_tokens_us(engine)
    order = sorted(first_us, key=lambda request_id: first_us[request_id])
    return (
        f"preempted passes: {len(engine.preemptions)}; "
        f"first tokens in the order of requests {order}"
    )


def race_doomed(runner: Runner, wrong: bool) -> str:
    """120 tokens of 1/12 s each by the fit, promised within 10.15 s: on time. Another one waits."""
    elapsed: list[int] = []
    progress = races.without_progress if wrong else with_progress
    judged = slo_gate(1e6 / 12, 0.0, progress=progress)

    def gate(seen: Snapshot) -> Target | None:
        answer = judged(seen)
        elapsed.append(seen.now_us - seen.started_us)
        return answer

    with small_engine(runner, Preemption(gate, rank_policies=HELD)) as engine:
        engine.arrive(Request(0, [1] * 120, 1), 10_150_000)

        def arrive(step: int) -> None:  # a request that is in no hurry at all
            engine.arrive(Request(1, [2] * 5, 1), 10**9)
            wait_for(lambda: runner.shared.target == step or max(elapsed, default=0) > 250_000)

        beside(staged(runner, 1, arrive), engine.step)
        engine.serve()
    return f"preempted passes: {len(engine.preemptions)}"


def race_nobody_immune(runner: Runner, wrong: bool) -> str:
    """Two requests, and a policy that finds what waits more urgent than what runs."""
    immune = races.nobody_is_immune if wrong else is_immune
    jumpy = SloPolicies(select_victim=lambda candidate, running, margin: running[0].id)
    judged = slo_gate(1.0, 1.0, policy=jumpy, immune=immune)
    answers: dict[int, Target | None] = {}

    def gate(seen: Snapshot) -> Target | None:
        answers[seen.step] = judged(seen)
        return answers[seen.step]

    with small_engine(runner, Preemption(gate), max_prefilling=1) as engine:
        begin_pass = engine.begin_pass

        def begin_once_the_monitor_has_looked(step: int, rows: Any) -> Any:
            vote = begin_pass(step, rows)
            if vote:
                wait_for(lambda: step in answers)
                wait_for(lambda: answers[step] is None or runner.shared.target == step)
            return vote

        engine.begin_pass = begin_once_the_monitor_has_looked
        engine.arrive(Request(0, [1] * 60, 1))
        engine.arrive(Request(1, [2] * 50, 1))
        for _ in range(30):
            if engine.inbox or not engine.scheduler.is_done():
                engine.step()
    steps = engine.trace().steps
    wasted = sum(not step.work for step in steps)
    return (
        f"{wasted} of {len(steps)} steps computed nothing; "
        f"{len(first_tokens_us(engine))} of 2 requests got a token"
    )


RACES: dict[str, Race] = {
    "late_write": race_late_write,
    "no_vote": race_no_vote,
    "leave_first": race_leave_first,
    "replies": race_replies,
    "too_late": race_too_late,
    "state": race_state,
    "unseen": race_unseen,
    "doomed": race_doomed,
    "nobody_immune": race_nobody_immune,
}


def run_race(race: Race) -> dict[str, str]:
    """The race with the reference and then with the wrong piece, on one pair of ranks; in words."""
    with Runner(2, timeout_s=2.0) as runner:
        return {"right": race(runner, False), "wrong": race(runner, True)}
