"""Lesson 6: two ranks step by step, a rollback, a suspended pass."""

import contextlib
from collections.abc import Callable
from typing import Any

from course.attempt import Attempt
from course.calling.jobs import RunError, call, run
from course.checks.voting import Votes, play
from course.lesson_data.texts import table
from course.replay import Rerun
from nanogpt.preemption import agreement, cleanup, races
from nanogpt.views.scheduler_state import SchedulerState
from widgets import bar

Board = dict[str, Any]
Rule = Callable[..., Any]

# --- two ranks, step by step --------------------------------------------------------------------

_LAYERS, _WRITTEN_AT, _LATE = 8, 3.5, (0.75, 0.25)
"""Rank 0 reads a little later than rank 1 at every layer, and the write falls between the two."""
_STAGED = "Played move by move; a layer counts as 1 ms."


def boards(vote: Attempt, preemption_point: Attempt) -> list[Board]:
    """Two ranks by the learner's functions, once there are any; with the vote; and without."""
    right = agreement.local_vote
    shown = [
        _board_of("with the vote", f"The reference. {_STAGED}", right, agreement.preemption_point),
        without_vote(),
    ]
    if vote.started or preemption_point.started:
        mine, rule = (
            vote.or_reference(right),
            preemption_point.or_reference(agreement.preemption_point),
        )
        words = f"Your functions, and the reference where you have none yet. {_STAGED}"
        with contextlib.suppress(RunError):
            shown.insert(0, run(_board_of, "yours", words, mine, rule))
    return shown


def without_vote() -> Board:
    """Two ranks of which each leaves as soon as it has read the target."""
    words = f"A rank that has read the target leaves without a vote. {_STAGED}"
    board = _board_of("no vote", words, agreement.local_vote, races.leave_alone)
    return board | {"agreement": "epoch"}


def _votes_of(vote: Rule) -> Votes:
    """What two ranks vote at each layer. Raises: ValueError if a vote is neither 0 nor 1."""
    votes = [
        vote(7 if layer + late > _WRITTEN_AT else -1, 7, layer, _LAYERS)
        for layer in range(_LAYERS)
        for late in _LATE
    ]
    if any(type(each) is not int or each not in (0, 1) for each in votes):
        raise ValueError("a vote is 0 or 1")
    return Votes(tuple(zip(votes[::2], votes[1::2], strict=True)))


def _board_of(label: str, words: str, vote: Rule, rule: Rule) -> Board:
    """The ranks, played by the deterministic scheduler, as a board; a layer counts as 1 ms.

    Raises: ValueError for a wrong vote or move.
    """
    votes = _votes_of(vote)
    played = play(rule, votes)
    if played.problem:
        raise ValueError(played.problem[1])
    ms = 10**6
    checks: list[list[Board]] = []
    endings: list[Board] = []
    for rank, (did, place) in enumerate(zip(played.did, played.places, strict=True)):
        layer = sum(move.startswith("sum") for move in did) - (place == "sum")
        checks.append(
            [
                {
                    "layer": n,
                    "reached_ns": round((n + _LATE[rank]) * ms),
                    "vote": votes.by_layer[n][rank],
                    "agree_ns": ms // 10,
                }
                for n in range(min(layer + 1, _LAYERS))
            ]
        )
        how = {"left": "left", "done": "finished"}.get(place, "hangs")
        waits = {"max": "waits in the vote for ever", "sum": "waits in the sum for ever"}
        endings.append({"how": how, "layer": layer, "words": waits.get(place, "")})
    hangs = any(each["how"] == "hangs" for each in endings)
    last = max(each["layer"] for each in endings)
    record = {
        "step": 7, "pass_number": 7, "layer": last, "num_layers": _LAYERS, "candidate": 1,
        "victims": [0], "begun_ns": 0, "written_ns": round(_WRITTEN_AT * ms),
        "replied_ns": None if hangs else (last + 1) * ms, "resumed_ns": None, "checks": checks,
    }  # fmt: skip
    return {"label": label, "words": words, "record": record, "endings": endings}


# --- the rollback and the suspended pass --------------------------------------------------------


def state_table(undo: Attempt) -> str:
    """One rollback, the state before and after it; Markdown."""
    before = SchedulerState((5, 3), (6, 2, 8), frozenset({6, 2, 8}), frozenset({6, 2, 8}), None)
    rows = [_state_row("before", before)]
    if undo.started and undo.function is not None:
        mine = call(undo.function, (before, [2, 8], 3)).value
        rows.append(_state_row("yours", mine))
        rows.append(_state_row("the reference", cleanup.rollback_step(before, [2, 8], 3)))
    else:
        rows.append("| yours | not written yet | | | | |")
    head = "| state | waiting, in order | running | kv | previous_step | admit_next |"
    return table(head, "llllll", rows)


def _state_row(name: str, state: object) -> str:
    if not isinstance(state, SchedulerState):
        return f"| {name} | not a state | | | | |"

    def ids(found: Any) -> str:
        return " ".join(f"`{each}`" for each in found) or "none"

    try:
        sets = ids(sorted(state.kv)), ids(sorted(state.previous_step))
        queues = ids(state.waiting), ids(state.running)
    except TypeError:
        return f"| {name} | fields that hold no ids | | | | |"
    return f"| {name} | {' | '.join((*queues, *sets))} | {ids([state.admit_next])} |"


PASS_MS, BOUND = 400, 3.0


def suspended_line(attempt: Attempt) -> str:
    """How long a pass stays suspended while urgent requests wait, and what ends that; Markdown."""
    try:
        found = Rerun(_suspended, _resume_or_abort)(attempt.or_reference(_resume_or_abort))
    except RunError:
        found = None
    if found is None:
        return "The results of `resume_or_abort` cannot be drawn; the check above says why."
    waited, decision = found
    words = f"suspended for {waited:,} ms, then: {decision}"
    return bar([0.0, waited / 3600, PASS_MS / 3600], words)


def _suspended(decide: Rule) -> tuple[int, str] | None:
    for waited in range(0, 3200, 200):
        decision = decide(waited * 1000, PASS_MS * 1000, True, False, BOUND)
        if decision is None:
            return None
        if decision != "stay_suspended":
            return waited, str(decision)[:12]
    return 3000, "stay_suspended"


def _resume_or_abort(waited: int, whole: int, urgent: bool, short: bool, bound: float) -> str:
    """The reference, with its arguments by position as in the exercise."""
    return cleanup.resume_or_abort(
        waited, whole, urgent_waits=urgent, memory_is_short=short, bound=bound
    )
