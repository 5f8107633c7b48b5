"""Behind lesson 6: what a pass costs, two ranks on a stage, the books, a pass that sleeps."""

import contextlib
from collections.abc import Callable
from statistics import median
from typing import Any

from course.attempt import Attempt
from course.calling.jobs import RunError, call, run
from course.checks.voting import Votes, play
from course.replay import Rerun
from course.stories.l06_ranks import recording
from nanogpt.preemption import agreement, cleanup, races, suspended
from nanogpt.preemption.scheduler_books import Books
from nanogpt.slo.load import POST_COST

Board = dict[str, Any]
Rule = Callable[..., Any]

# --- what a pass costs --------------------------------------------------------------------------


def pass_ms(tokens: int) -> float:
    """A prefill pass by the post's line, in ms."""
    return (POST_COST.a_us * tokens + POST_COST.c_us) / 1000


def passes_table() -> str:
    """Three prompts whole and in chunks of 512, by the post's line; Markdown."""
    rows: list[str] = []
    for tokens in (242, 2000, 7986):
        sizes = [min(512, tokens - start) for start in range(0, tokens, 512)]
        chunks = list(map(pass_ms, sizes))
        whole = pass_ms(tokens)
        rows.append(
            f"| {tokens:,} | {whole:,.0f} ms | {whole / POST_COST.num_layers:.1f} ms | "
            f"{sum(chunks):,.0f} ms | {max(chunks):.0f} ms |"
        )
    head = "| prompt, tokens | one pass | one of its 80 layers | in chunks of 512 | longest chunk |"
    return f"{head}\n|--:|--:|--:|--:|--:|\n" + "\n".join(rows)


def lost_at_70() -> str:
    """What an abort after layer 70 of 80 throws away, and what it saves, in words."""
    done = 70 / POST_COST.num_layers
    return (
        f"70 of 80 layers are {done:.1%}, which is not more than 90 %. The K/V that these layers "
        "wrote is of no use: the next pass starts with the embeddings and computes every layer "
        "again, since what goes from layer to layer was thrown away. On the post's line that is "
        f"{done * pass_ms(7986):,.0f} ms of work, to save the urgent request the "
        f"{(1 - done) * pass_ms(7986):,.0f} ms that were left. There is another way back, in 6.4."
    )


def hangs_said() -> str:
    """How often ranks hung that left without a vote, in words."""
    found = recording()["hangs"]

    def line(name: str, words: str) -> str:
        how = {
            start: sum(each.startswith(start) for each in found[name])
            for start in ("hung", "together", "too late")
        }
        return (
            f"{words}: {how['hung']} of {len(found[name])} hung, {how['together']} left together, "
            f"{how['too late']} came too late."
        )

    return (
        "It hangs when the number is written after one rank's glance and before the other's. "
        "Recorded on two cores, with a target written in every pass:\n"
        f"{line('quiet', 'Nothing else started by us')}\n"
        f"{line('busy', 'Beside two threads that compute')}\n"
        + line("busy, vote", "Beside the same two threads, but with the vote that you write next")
        + "\nA prototype of this lesson, with other code, hung in 3 of 11. **A test that runs ten "
        "times and is green says nothing about it.** That is what makes it a race."
    )


# --- two ranks on a stage -----------------------------------------------------------------------

_LAYERS, _WRITTEN_AT, _LATE = 8, 3.5, (0.75, 0.25)
"""Rank 0 comes to every layer a little later than rank 1, and the write falls between the two."""
_STAGED = "Played move by move, a layer drawn as 1 ms."


def boards(vote: Attempt, checkpoint: Attempt) -> list[Board]:
    """The learner's ranks on the stage, once there are any; with the vote; and without."""
    right = agreement.local_vote
    shown = [
        _board_of("with the vote", f"The reference. {_STAGED}", right, agreement.checkpoint),
        _board_of(
            "no vote",
            f"A rank that has read the target leaves, and asks none. {_STAGED}",
            right,
            races.leave_alone,
        )
        | {"agreement": "epoch"},
    ]
    if vote.started or checkpoint.started:
        mine, rule = vote.or_reference(right), checkpoint.or_reference(agreement.checkpoint)
        words = f"What you have written; where you have not, the reference. {_STAGED}"
        with contextlib.suppress(RunError):
            shown.insert(0, run(_board_of, "yours", words, mine, rule))
    return shown


def _votes_of(vote: Rule) -> Votes:
    """What two ranks vote at each layer. Raises: ValueError if one of them has no vote."""
    votes = [
        vote(7 if layer + late > _WRITTEN_AT else -1, 7, layer, _LAYERS)
        for layer in range(_LAYERS)
        for late in _LATE
    ]
    if any(type(each) is not int or each not in (0, 1) for each in votes):
        raise ValueError("a vote is 0 or 1")
    return Votes(tuple(zip(votes[::2], votes[1::2], strict=True)))


def _board_of(label: str, words: str, vote: Rule, rule: Rule) -> Board:
    """The ranks played by the deterministic scheduler, as a board; a layer counts as 1 ms.

    Raises: ValueError for what is no vote or no move.
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
        "step": 7, "pass_number": 7, "layer": last, "num_layers": _LAYERS, "waiter": 1,
        "victims": [0], "begun_ns": 0, "written_ns": round(_WRITTEN_AT * ms),
        "replied_ns": None if hangs else (last + 1) * ms, "resumed_ns": None, "checks": checks,
    }  # fmt: skip
    return {"label": label, "words": words, "record": record, "endings": endings}


def agreements_table() -> str:
    """What the three ways to agree cost, as recorded; Markdown."""
    found = recording()["experiment"]

    def row(how: str | None) -> str:
        passes = [each for each in found["passes"] if each["agreement"] == how]
        took = [each["pass_us"] / 1000 for each in passes]
        stops = [
            each["stop_us"] / 1000
            for each in found["tried"]
            if each["arm"] == f"{how}, abort" and "stop_us" in each
        ]
        cost = median([us for each in passes for us in each["agree_us"]] or [0])
        stop = f"{median(stops):.0f} ms ({min(stops):.0f} to {max(stops):.0f})" if stops else ""
        return (
            f"| {how or 'no monitor, no vote'} | {f'{cost:,.0f} µs' if how else 'nothing'} | "
            f"{median(took):.0f} ms ({min(took):.0f} to {max(took):.0f}) | {stop} |"
        )

    head = (
        f"| recorded, median of {found['repeats']} | agreeing, per layer | the whole pass | "
        "from the write to both replies |\n|:--|--:|--:|--:|\n"
    )
    return head + "\n".join(map(row, (None, "vote", "carried", "epoch")))


# --- the books and the sleeper ------------------------------------------------------------------


def books_table(undo: Attempt) -> str:
    """One clean-up as queues, before and after; Markdown."""
    before = Books((5, 3), (6, 2, 8), frozenset({6, 2, 8}), frozenset({6, 2, 8}), None)
    rows = [_books_row("before", before)]
    if undo.started and undo.function is not None:
        mine = call(undo.function, (before, [2, 8], 3)).value
        rows.append(_books_row("yours", mine))
        rows.append(_books_row("the reference", cleanup.clean_up(before, [2, 8], 3)))
    else:
        rows.append("| yours | not written yet | | | | |")
    head = "| books | waiting, the first in front | running | K/V held | scheduled last | next up |"
    return f"{head}\n|:--|:--|:--|:--|:--|:--|\n" + "\n".join(rows)


def _books_row(name: str, books: object) -> str:
    if not isinstance(books, Books):
        return f"| {name} | no books | | | | |"

    def ids(found: Any) -> str:
        return " ".join(f"`{each}`" for each in found) or "none"

    try:
        sets = ids(sorted(books.kv)), ids(sorted(books.previous_step))
        queues = ids(books.waiting), ids(books.running)
    except TypeError:
        return f"| {name} | not lists of ids | | | | |"
    return f"| {name} | {' | '.join((*queues, *sets))} | {ids([books.next_up])} |"


PASS_MS, BOUND = 400, 3.0


def slept_ms(fate: Attempt) -> tuple[int, str] | None:
    """(ms that a pass slept, what ended it), asked every 200 ms while urgent requests keep coming.

    After 3 s it has not come back, which is "sleep"; None where there is no answer.
    """
    try:
        return Rerun(_slept, _reference_fate)(fate.or_reference(_reference_fate))
    except RunError:
        return None


def _slept(decide: Rule) -> tuple[int, str] | None:
    for slept in range(0, 3200, 200):
        way = decide(slept * 1000, PASS_MS * 1000, True, False, BOUND)
        if way is None:
            return None
        if way != "sleep":
            return slept, str(way)[:12]
    return 3000, "sleep"


def _reference_fate(slept: int, whole: int, urgent: bool, short: bool, bound: float) -> str:
    """The reference's answer, its arguments by position as in the exercise."""
    return suspended.resume_or_abort(
        slept, whole, urgent_waits=urgent, memory_is_short=short, bound=bound
    )
