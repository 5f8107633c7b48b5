"""Checks of lesson 6, preempting the pass."""

import itertools
import math
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from course.checks.comparing import Args, Comparison, Mistake, a_kind, alike
from course.checks.tidying import any_books, books, judge_books
from course.checks.voting import CHECKPOINT, Played, Votes
from course.judging import Ask, Check, Failure, run_checks
from course.registry import Exercise
from course.report import Report
from course.showing import named
from course.task import Task
from nanogpt.parts.plain_values import as_whole
from nanogpt.preemption.suspended import resume_or_abort

# --- local_vote ------------------------------------------------------------------------------

_Vote = Callable[[int, int, int, int], Any]
_NOTHING = -1  # the target as long as no step was ever wanted preempted


def _is_early(layer: int, num_layers: int) -> bool:
    return 10 * layer <= 9 * num_layers


def _voting(
    meant: Callable[[int, int], bool] = lambda target, step: target == step,
    early: Callable[[int, int], bool] = _is_early,
) -> _Vote:
    """The rules but for those that are given."""
    return lambda target, step, layer, num_layers: int(
        meant(target, step) and early(layer, num_layers)
    )


def _vote_form(value: Any) -> tuple[str, str] | None:
    if type(value) is bool:
        return (
            "bool",
            f"A vote is a number, 1 or 0, since the ranks take the largest: this is {value}, and "
            "`int(...)` makes a number of it.",
        )
    if as_whole(value) not in (0, 1):
        return "not_a_vote", f"A vote is 1, to leave, or 0, to go on, and not {a_kind(value)}."
    return None


def _any_votes(rng: random.Random, count: int) -> list[Args]:
    """Around the step that runs and around the 90 %, where the rules differ."""
    cases: list[Args] = []
    for _ in range(count):
        step = rng.choice((0, 1, rng.randint(2, 40), rng.randint(1_000, 100_000)))
        num_layers = rng.choice((1, 10, 20, rng.randint(2, 40), rng.randint(41, 130)))
        target = rng.choice([step, step, step, step - 1, step + 1, rng.randint(0, 50), _NOTHING])
        edge = 9 * num_layers // 10
        layer = rng.choice([0, edge - 1, edge, edge + 1, rng.randrange(num_layers)])
        cases.append((target, step, min(max(layer, 0), num_layers - 1), num_layers))
    return cases


_Meant = Callable[[int, int], bool]


def _meaning(key: str, idea: str, meant: _Meant) -> tuple[Mistake[_Vote], ...]:
    """A wrong idea of which step is meant, also where nothing is asked about the layers."""
    return alike(key, idea, _voting(meant), _voting(meant, early=lambda layer, num_layers: True))


_FLAG = (
    "That a preemption is wanted does not say of which step: this target was written for "
    "another one, so leave only when it is the number of the step that runs."
)
_EDGE = (
    "With exactly 90 % of the layers done a pass may still be left: it is let finish when there "
    "are more (mind that 1 - 0.9 is not quite 0.1 in floats)."
)
_STALE = (
    "A target of an older step is stale: the step that it meant is over, and the one that runs now "
    "must not pay for it."
)
_VERY_STEP = (
    "The monitor writes the number of the very step that it wants gone, not of the one before or "
    "behind it."
)
_PROTECTED = "A pass is let finish with more than 90 % of its layers done, "

_VOTE: Comparison[_Vote] = Comparison(
    reference=_voting(),
    mistakes=(
        *_meaning("flag", _FLAG, lambda target, step: target >= 0),
        *_meaning("flag", _FLAG, lambda target, step: target != 0),
        *_meaning(
            "flag",
            "The target is no flag but the number of a step: leave when it is that of the step "
            "that runs.",
            lambda target, step: target == 1,
        ),
        *_meaning("older_steps", _STALE, lambda target, step: 0 <= target <= step),
        *_meaning("older_steps", _STALE, lambda target, step: target <= step),
        *_meaning(
            "newer_steps",
            "A target of a later step does not mean this one: leave when the two are equal.",
            lambda target, step: target >= step,
        ),
        *_meaning("next_step", _VERY_STEP, lambda target, step: target == step + 1),
        *_meaning("next_step", _VERY_STEP, lambda target, step: target == step - 1),
        Mistake(
            "never_too_late",
            f"{_PROTECTED}since nearly all of it would be computed again; here it is left however "
            "many are done.",
            _voting(early=lambda layer, num_layers: True),
        ),
        Mistake(
            "edge_too_early",
            _EDGE,
            _voting(early=lambda layer, num_layers: 10 * layer < 9 * num_layers),
        ),
        Mistake(
            "counts_this_layer",
            "`layer` layers are done: the one whose attention op the rank has come to is not, "
            "and it does not count.",
            _voting(early=lambda layer, num_layers: 10 * (layer + 1) <= 9 * num_layers),
        ),
        Mistake(
            "last_layer_is_all",
            "The share is that of all `num_layers` layers: at the last one, num_layers - 1 are "
            "done, not all.",
            _voting(early=lambda layer, num_layers: 10 * layer <= 9 * (num_layers - 1)),
        ),
        Mistake(
            "one_layer_more",
            "`layer` layers are done, not one fewer: past 90 % of all layers a pass is let finish.",
            _voting(early=lambda layer, num_layers: 10 * (layer - 1) <= 9 * num_layers),
        ),
        Mistake(
            "rounded",
            "9 tenths of the layers need not be a whole number: compare without rounding it up.",
            _voting(early=lambda layer, num_layers: layer <= round(0.9 * num_layers)),
        ),
        Mistake(
            "rounded",
            "9 tenths of the layers need not be a whole number: compare without rounding it up.",
            _voting(early=lambda layer, num_layers: layer <= -(-9 * num_layers // 10)),
        ),
        Mistake(
            "rounded",
            "Passes with 91 to 95 % of their layers done are left here too: compare the share with "
            "90 % as it is, without rounding.",
            _voting(early=lambda layer, num_layers: round(layer / num_layers, 1) <= 0.9),
        ),
        Mistake(
            "no_target_is_0",
            "0 is a step like any other: only a negative target says that none is meant.",
            _voting(lambda target, step: target == step and target > 0),
        ),
        Mistake(
            "ten_per_cent",
            f"{_PROTECTED}not with 10 %: most of this one is still to come.",
            _voting(early=lambda layer, num_layers: 10 * layer <= num_layers),
        ),
        Mistake(
            "late_only",
            "It is the other way round: early in a pass little is lost, and past 90 % it is let "
            "finish.",
            _voting(early=lambda layer, num_layers: not _is_early(layer, num_layers)),
        ),
        Mistake(
            "ignores_target",
            "This pass is not wanted gone: leave when the target names its step.",
            _voting(lambda target, step: True),
        ),
        Mistake(
            "inverted",
            "1 is the vote to leave, 0 the one to go on.",
            lambda target, step, layer, num_layers: 1 - _voting()(target, step, layer, num_layers),
        ),
    ),
    idea="Two things decide: which step was meant, and how much of this pass is done.",
    form=_vote_form,
    draw_call=named("target", "step", "layer", "num_layers"),
    evidence=[
        *((5, 5, layer, layers) for layer, layers in ((9, 11), (18, 21), (29, 30), (39, 40))),
        *((5, 5, layer, 100) for layer in (10, 11, 89, 90, 91, 92, 93, 94, 95)),
        *((0, 0, 1, 4), (0, 5, 1, 4), (1, 5, 1, 4)),
        *_any_votes(random.Random(0), 40),
    ],
)


def _named_step(ask: Ask, rng: random.Random) -> Failure | None:
    passes = ((7, 0, 4), (7, 2, 4), (12, 5, 12), (1, 0, 2), (0, 1, 4))
    return _VOTE.judge(ask, [(step, step, layer, num_layers) for step, layer, num_layers in passes])


def _other_steps(ask: Ask, rng: random.Random) -> Failure | None:
    targets = ((6, 7), (1, 7), (8, 7), (19, 7), (_NOTHING, 7), (_NOTHING, 1), (0, 7), (_NOTHING, 0))
    return _VOTE.judge(ask, [(target, step, 1, 4) for target, step in targets])


def _nearly_done(ask: Ask, rng: random.Random) -> Failure | None:
    layers = (
        (11, 12), (9, 10), (18, 20), (19, 20), (28, 32), (29, 32), (10, 12), (7, 8), (3, 4),
        (0, 1), (72, 80), (73, 80), (90, 100), (91, 100),
    )  # fmt: skip
    return _VOTE.judge(ask, [(5, 5, layer, num_layers) for layer, num_layers in layers])


def _any_attention_op(ask: Ask, rng: random.Random) -> Failure | None:
    return _VOTE.judge(ask, _any_votes(rng, 60))


_VOTE_CHECKS: tuple[tuple[str, Check], ...] = (
    ("the step that is meant", _named_step),
    ("other steps", _other_steps),
    ("a pass that is nearly done", _nearly_done),
    ("any attention op", _any_attention_op),
)


def check_local_vote(function: Callable[..., Any], *, seed: int = 0) -> Report:
    """Judge an answer to l06.local_vote."""
    return run_checks("l06.local_vote", function, _VOTE_CHECKS, seed=seed)


# --- checkpoint ------------------------------------------------------------------------------


def _judge_plays(ask: Ask, plays: Sequence[Votes]) -> Failure | None:
    return CHECKPOINT.judge(ask, [(votes,) for votes in plays])


def _one_has_seen_it(ask: Ask, rng: random.Random) -> Failure | None:
    return _judge_plays(ask, [Votes(((1, 0),)), Votes(((0, 1),))])


def _all_of_one_mind(ask: Ask, rng: random.Random) -> Failure | None:
    return _judge_plays(ask, [Votes((votes,)) for votes in ((0, 0), (1, 1), (0,), (1,))])


def _any_order(ask: Ask, rng: random.Random) -> Failure | None:
    """Two ranks in all orders of coming and going on, three in some of them."""
    plays = [
        Votes((votes,), (*come, *go_on))
        for votes in ((1, 0), (0, 1), (0, 0))
        for come in ((0, 1), (1, 0))
        for go_on in ((0, 1), (1, 0))
    ]
    for votes in itertools.product((0, 1), repeat=3):
        plays += [Votes((votes,), _turns(rng, 3)) for _ in range(2)]
    return _judge_plays(ask, plays)


def _turns(rng: random.Random, num_ranks: int) -> tuple[int, ...]:
    """Every rank's turn to come, and then again to go on."""
    return (*rng.sample(range(num_ranks), num_ranks), *rng.sample(range(num_ranks), num_ranks))


def _whole_passes(ask: Ask, rng: random.Random) -> Failure | None:
    """A target comes into sight of one rank after the other, and stays in sight."""
    plays: list[Votes] = []
    for num_layers in (2, 2, 3, 3, 3, 4, 4):
        num_ranks = rng.choice((2, 3))
        first = rng.randrange(num_layers)
        seen_from = [first + rng.randrange(2) for _ in range(num_ranks)]
        votes = [tuple(int(layer >= seen) for seen in seen_from) for layer in range(num_layers)]
        plays.append(Votes(tuple(votes), _turns(rng, num_ranks)))
    return _judge_plays(ask, plays)


_CHECKPOINT_CHECKS: tuple[tuple[str, Check], ...] = (
    ("only one rank has seen the target", _one_has_seen_it),
    ("all of one mind", _all_of_one_mind),
    ("in any order", _any_order),
    ("whole passes", _whole_passes),
)


def check_checkpoint(function: Callable[..., Any], *, seed: int = 0) -> Report:
    """Judge an answer to l06.checkpoint."""
    return run_checks("l06.checkpoint", Played(function), _CHECKPOINT_CHECKS, seed=seed)


# --- clean_up --------------------------------------------------------------------------------


def _one_prefill(ask: Ask, rng: random.Random) -> Failure | None:
    return judge_books(ask, [(books([2], [1]), [1], 2)])


def _beside_others(ask: Ask, rng: random.Random) -> Failure | None:
    waiting = books([5, 3], [4, 1])
    return judge_books(
        ask, [(waiting, [1], 3), (waiting, [4], 5), (replace(waiting, next_up=5), [1], 3)]
    )


def _several(ask: Ask, rng: random.Random) -> Failure | None:
    running = [6, 2, 8, 4]
    return judge_books(
        ask,
        [
            (books([3, 1], running), [2, 8], 3),
            (books([3, 1], running), [8, 2], 1),
            (books([3, 1], running, kv=[6, 8], previous_step=[6, 2, 8]), [8, 6, 2], 1),
        ],
    )


def _none_to_admit(ask: Ask, rng: random.Random) -> Failure | None:
    return judge_books(
        ask,
        [
            (books([2], [1]), [1], 9),
            (books([2], [1]), [1], None),
            (books([], [1, 4]), [4], 9),
            (books([2, 3], [1], next_up=3), [1], 9),
            (books([2, 3], [1], next_up=3), [1], None),
            (books([2], [1, 5], next_up=2), [1], 5),
        ],
    )


def _any_aborted_pass(ask: Ask, rng: random.Random) -> Failure | None:
    return judge_books(ask, any_books(rng, 40))


_CLEAN_UP_CHECKS: tuple[tuple[str, Check], ...] = (
    ("one prefill", _one_prefill),
    ("beside others", _beside_others),
    ("several at once", _several),
    ("none to admit", _none_to_admit),
    ("any aborted pass", _any_aborted_pass),
)


def check_clean_up(function: Callable[..., Any], *, seed: int = 0) -> Report:
    """Judge an answer to l06.clean_up."""
    return run_checks("l06.clean_up", function, _CLEAN_UP_CHECKS, seed=seed)


# --- resume_or_abort -------------------------------------------------------------------------

_Fate = Callable[[int, int, bool, bool, float], Any]
_WAYS = ("sleep", "resume", "abort")


def _fate(suspended: int, whole: int, urgent: bool, short: bool, bound: float) -> str:
    return resume_or_abort(
        suspended, whole, urgent_waits=urgent, memory_is_short=short, bound=bound
    )


def _slept_enough(suspended: int, whole: int, bound: float) -> bool:
    return suspended >= bound * whole


def _deciding(
    *,
    enough: Callable[[int, int, float], bool] = _slept_enough,
    calm: str = "resume",
    over: str = "resume",
    short: str = "abort",
    room: str = "sleep",
) -> _Fate:
    """The rules but for the bound or the words that are given."""

    def answer(
        suspended: int, whole: int, urgent_waits: bool, memory_is_short: bool, bound: float
    ) -> str:
        if not urgent_waits:
            return calm
        if enough(suspended, whole, bound):
            return over
        return short if memory_is_short else room

    return answer


def _sleeping(
    key: str, idea: str, *enough: Callable[[int, int, float], bool]
) -> tuple[Mistake[_Fate], ...]:
    """A wrong idea of when a pass has slept enough, and the ways to write it down."""
    return alike(key, idea, *(_deciding(enough=each) for each in enough))


def _memory_first(suspended: int, whole: int, urgent: bool, short: bool, bound: float) -> str:
    return "abort" if short else _fate(suspended, whole, urgent, short, bound)


def _memory_before_time(suspended: int, whole: int, urgent: bool, short: bool, bound: float) -> str:
    return "abort" if urgent and short else _fate(suspended, whole, urgent, short, bound)


def _sleeps_it_out(suspended: int, whole: int, urgent: bool, short: bool, bound: float) -> str:
    if _slept_enough(suspended, whole, bound):
        return "resume"
    return "abort" if short and urgent else "sleep"


def _any_fates(rng: random.Random, count: int) -> list[Args]:
    """Around the bound, and far from it; passes short and long."""
    cases: list[Args] = []
    for _ in range(count):
        whole = rng.choice((rng.randint(2, 90), rng.randint(500, 9_000), rng.randint(1, 9) * 10**6))
        bound = rng.choice((3.0, 3.0, 1.0, 0.5, 2.5, 2.125, 10.0))
        edge = math.ceil(bound * whole)
        slept = rng.choice((0, whole, 3 * whole, edge - 1, edge, edge + 1, 2 * edge, 30 * edge))
        cases.append((slept, whole, rng.random() < 0.8, rng.random() < 0.5, bound))
    return cases


_FIXED = (
    "How long a pass may sleep goes with its own length, so that a short one comes back soon and "
    "a long one makes way for long."
)

_FATE: Comparison[_Fate] = Comparison(
    reference=_fate,
    mistakes=(
        Mistake(
            "sleeps_for_ever",
            "An urgent request may always wait, and then the pass never comes back: once it has "
            "slept `bound` times its own length, it goes on, whatever waits.",
            _deciding(enough=lambda suspended, whole, bound: False),
        ),
        Mistake(
            "aborts_when_time_is_up",
            "Once it has slept long enough it is its turn to compute, and what it has computed "
            "already still counts: resume it.",
            _deciding(over="abort"),
        ),
        Mistake(
            "memory_first",
            "Short memory alone is no reason to throw work away: when no urgent request waits, the "
            "pass goes on and uses what it holds.",
            _memory_first,
        ),
        Mistake(
            "memory_before_time",
            "Look at the time first: a pass that has slept its share goes on even if memory is "
            "short, or it could be aborted again and again and never end.",
            _memory_before_time,
        ),
        Mistake(
            "keeps_its_memory",
            "As long as it holds its K/V there is no room for the request that waits: asleep, it "
            "would keep that waiting as if it ran, so abort it.",
            _deciding(short="sleep"),
        ),
        Mistake(
            "resumes_in_the_way",
            "Computing on makes no room and takes the time as well: what stands in the way of "
            "an urgent request, and has not slept its share, is aborted.",
            _deciding(short="resume"),
        ),
        Mistake(
            "always_aborts",
            "There is room for both, so its work need not be lost: let it sleep.",
            _deciding(room="abort"),
        ),
        Mistake(
            "never_sleeps",
            "It was suspended to let an urgent request through, which still waits: let it sleep a "
            "little longer.",
            _deciding(room="resume"),
        ),
        Mistake(
            "sleeps_it_out",
            "The one it slept for is served, so there is nothing to wait for: resume at once.",
            _sleeps_it_out,
        ),
        Mistake(
            "aborts_at_last",
            "No urgent request waits any more, so it can go on with what it has computed: that is "
            "what it was suspended for.",
            _deciding(calm="abort"),
        ),
        Mistake(
            "urgent_upside_down",
            "It sleeps while an urgent request waits, and goes on when none does.",
            lambda suspended, whole, urgent, short, bound: _fate(
                suspended, whole, not urgent, short, bound
            ),
        ),
        Mistake(
            "one_moment_late",
            "When it has slept exactly `bound` times its own length, that is enough.",
            _deciding(enough=lambda suspended, whole, bound: suspended > bound * whole),
        ),
        Mistake(
            "bound_upside_down",
            "It is the time that it has slept which must not reach the bound: what has just "
            "fallen asleep has not slept enough.",
            _deciding(enough=lambda suspended, whole, bound: suspended <= bound * whole),
        ),
        *_sleeping(
            "bound_is_no_constant",
            "3 is one bound of many: take the one that comes in as `bound`.",
            lambda suspended, whole, bound: suspended >= 3 * whole,
            lambda suspended, whole, bound: suspended > 3 * whole,
        ),
        *_sleeping(
            "rounded",
            "A bound need not be whole, nor how often the pass has slept its own length: "
            "compare without rounding.",
            lambda suspended, whole, bound: round(suspended / whole) >= bound,
            lambda suspended, whole, bound: suspended // whole >= bound,
            lambda suspended, whole, bound: suspended >= int(bound) * whole,
            lambda suspended, whole, bound: suspended >= round(bound) * whole,
            lambda suspended, whole, bound: -(-suspended // whole) >= bound,
        ),
        *_sleeping(
            "counts_the_pass",
            "What counts is how long it has slept, `suspended_us`: the length of the pass is "
            "what that is measured by, and is not added to it.",
            lambda suspended, whole, bound: suspended + whole >= bound * whole,
            lambda suspended, whole, bound: suspended >= (bound + 1) * whole,
        ),
        Mistake(
            "ignores_bound",
            "The pass may sleep `bound` times its own length, not just once.",
            _deciding(enough=lambda suspended, whole, bound: suspended >= whole),
        ),
        Mistake(
            "bound_divides",
            "The pass may sleep `bound` times its own length: multiply, do not divide.",
            _deciding(enough=lambda suspended, whole, bound: suspended >= whole / bound),
        ),
        Mistake(
            "bound_is_a_time",
            "`bound` is no time but a number of passes: multiply it by the length of this one.",
            _deciding(enough=lambda suspended, whole, bound: suspended >= bound),
        ),
        *(
            Mistake(
                "fixed_bound",
                _FIXED,
                _deciding(enough=lambda suspended, whole, bound, fixed=fixed: suspended >= fixed),
            )
            for fixed in (1_000, 10_000, 100_000, 1_000_000, 10_000_000)
        ),
    ),
    idea="Ask of each way when it is the right one: what does a pass sleep for, how long may that "
    "last, and what is won by an abort?",
    form=lambda value: (
        None
        if isinstance(value, str) and value in _WAYS
        else ("not_a_way", 'There are three answers, "sleep", "resume" and "abort".')
    ),
    draw_call=named("suspended_us", "pass_us", "urgent_waits", "memory_is_short", "bound"),
    evidence=_any_fates(random.Random(0), 40),
)


def _just_asleep(ask: Ask, rng: random.Random) -> Failure | None:
    return _FATE.judge(
        ask,
        [
            (100, 900, True, False, 3.0),
            (100, 900, False, False, 3.0),
            (100, 900, True, True, 3.0),
            (100, 900, False, True, 3.0),
        ],
    )


def _one_after_the_other(ask: Ask, rng: random.Random) -> Failure | None:
    """Urgent requests come for ever, and every 300 us the question is asked anew."""
    whole, bound, every, most = 900, 3.0, 300, 30
    for slept in range(0, round(bound * whole) + 1, every):
        failure = _FATE.judge(ask, [(slept, whole, True, False, bound)])
        if failure is None:
            continue
        ways = [ask(every * asked, whole, True, False, bound) for asked in range(most)]
        if ways != ["sleep"] * most:
            return failure
        then = f"asked {most} times, every {every} us, it has slept {most} times"
        return replace(failure, example=(*failure.example, ("then", then)))
    return None


def _to_the_moment(ask: Ask, rng: random.Random) -> Failure | None:
    times = (
        (2_699, 900, 3.0), (2_701, 900, 3.0), (2_700, 900, 3.0), (40, 40, 1.0), (20, 40, 0.5),
        (19, 40, 0.5), (9_000, 500, 3.0), (900_000, 2_000_000, 1.0), (7_000_000, 2_500_000, 3.0),
        (2_250, 900, 2.5), (2_249, 900, 2.5), (1_800, 900, 3.0), (4_000, 900, 10.0), (1, 1, 1.75),
        (0, 1, 0.5), (1_700, 800, 2.125), (1_699, 800, 2.125),
    )  # fmt: skip
    return _FATE.judge(
        ask,
        [
            (slept, whole, True, short, bound)
            for slept, whole, bound in times
            for short in (False, True)
        ],
    )


def _any_question(ask: Ask, rng: random.Random) -> Failure | None:
    return _FATE.judge(ask, _any_fates(rng, 50))


_FATE_CHECKS: tuple[tuple[str, Check], ...] = (
    ("just asleep", _just_asleep),
    ("one urgent request after the other", _one_after_the_other),
    ("to the moment", _to_the_moment),
    ("any question", _any_question),
)


def check_resume_or_abort(function: Callable[..., Any], *, seed: int = 0) -> Report:
    """Judge an answer to l06.resume_or_abort."""
    return run_checks("l06.resume_or_abort", function, _FATE_CHECKS, seed=seed)


# --- registry --------------------------------------------------------------------------------

EXERCISES = (
    Exercise(
        id="l06.local_vote",
        lesson="l06_preempting_the_pass",
        name="local_vote",
        title="Is it me that is meant?",
        minutes=5,
        points=2,
        part=None,
        hints=(
            "The target was written while step 7 ran, and step 8 reads it. Which of the two was "
            "meant? And what is lost if a pass is left at its last layer?",
            "Two conditions for a 1: the target is the number of the step that runs, and at most "
            "90 % of the layers are done. Exactly 90 % is not more than 90 %.",
            "Of 10 layers 9 may be done, of 20 layers 18: ten times the one is compared with nine "
            "times the other, without a float. `int` makes 1 or 0 of whether both conditions hold.",
        ),
        check=check_local_vote,
        task=Task(
            signature="local_vote(target: int, step: int, layer: int, num_layers: int) -> int",
            rules=(
                "The result is this rank's vote at one attention op: `1` to leave the pass, `0` to "
                "go on.",
                "`target` is what the rank has just read in shared memory: the number of the step "
                "that the monitor wants preempted, or `-1` if it has never wanted any. It is never "
                "taken back, and may have been written early or late.",
                "`step` is the number of the step that runs here and now.",
                "`layer` of the `num_layers` layers are done: the rank stands at the attention op "
                "of the next one, and the first has number 0.",
                "A pass with more than 90 % of its layers done is let finish.",
            ),
            args=(7, 7, 2, 4),
            result=1,
        ),
    ),
    Exercise(
        id="l06.checkpoint",
        lesson="l06_preempting_the_pass",
        name="checkpoint",
        title="All of them or none",
        minutes=10,
        points=3,
        part=None,
        hints=(
            "Rank 0 has read the target and wants to leave; rank 1 read a moment too early and "
            "does not. Which moves does rank 1 have to make so that rank 0 is not left waiting?",
            "Every rank comes to the collective once, whatever its vote. Only then it decides, "
            "and it decides by the answer alone, which is the same on all of them.",
            "The value of a `yield` is what comes back: `name = yield ...` keeps it. The rank's "
            "own vote goes into the first move and is not looked at again; the second move is made "
            "or not made by that name.",
        ),
        check=check_checkpoint,
        task=Task(
            signature="checkpoint(vote: int) -> Generator[tuple, int, None]",
            rules=(
                "A generator: what it yields are the moves of one rank at one attention op. `vote` "
                "is what this rank wants: `1` to leave, `0` to go on. All ranks run the same "
                "function at the same time, and their votes may differ.",
                '`yield ("max", vote)` takes part in a collective: the rank waits until every rank '
                "has come with a vote, and then the `yield` returns the largest, the same to all.",
                '`yield ("leave",)` leaves the pass.',
                "A rank whose moves end without it goes on to the sum of the attention output, a "
                "collective as well, and waits there until every rank has come.",
                "If any rank wants to leave, all leave at this attention op; if none does, none "
                "leaves; no rank waits for ever; and no collective is held that is not needed.",
            ),
            args=(1,),
            answers=(1,),
            result=[("max", 1), ("leave",)],
        ),
    ),
    Exercise(
        id="l06.clean_up",
        lesson="l06_preempting_the_pass",
        name="clean_up",
        title="A step that never was",
        minutes=8,
        points=3,
        part=None,
        hints=(
            "Go through the five fields: where is an aborted request named, and where should it "
            "be? Which ids must stay where they are?",
            "Filter `running` twice: those in `aborted` go in front of `waiting`, the others stay. "
            "Take the aborted ones out of both sets. Then the waiter, if it is in `waiting`.",
            "Two tuples from one walk through `books.running`, since `aborted` has an order of its "
            "own; `books.kv.difference(ids)` is a set without those ids; and one `replace` with "
            "all five fields at the end.",
        ),
        check=check_clean_up,
        task=Task(
            signature="clean_up(books: Books, aborted: list[int], waiter: int | None) -> Books",
            rules=(
                "`books` says where each request is, by id: the tuples `waiting` and `running`, in "
                "order; the frozensets `kv`, which hold K/V, and `previous_step`, which the newest "
                "step was scheduled with; and `next_up`, which is admitted before all others, or "
                "`None`.",
                "Books are frozen. `replace(books, waiting=..., running=...)` makes new ones.",
                "`aborted` are the ids, in any order, of the requests whose prefill was in the "
                "pass. They stop running, their K/V is released, and they wait again, in front of "
                "those that wait and in the order they ran in.",
                "The step they were scheduled with never was, and the engine admits none that it "
                "finds in `previous_step`. Every other request keeps what it has.",
                "`waiter` is the id of the request that the pass was aborted for, or `None`. If it "
                "still waits, it keeps its place in the queue and is named in `next_up`; otherwise "
                "none is.",
            ),
            args=(books([3], [1, 2]), [2], 3),
            result=books([2, 3], [1], next_up=3),
        ),
    ),
    Exercise(
        id="l06.resume_or_abort",
        lesson="l06_preempting_the_pass",
        name="resume_or_abort",
        title="No pass sleeps for ever",
        minutes=6,
        points=2,
        part=None,
        hints=(
            "Urgent requests come one after the other, without end. What becomes of the pass that "
            "sleeps? When is its work worth throwing away?",
            "First ask whether it may compute on: no urgent request waits, or it has slept `bound` "
            "times its length. Only if neither is so does memory decide between the other two.",
            "Two reasons to resume make one condition with `or`. In the second reason `bound` is "
            "multiplied by `pass_us`, and equal is enough. Two answers are left for what comes "
            "below it.",
        ),
        check=check_resume_or_abort,
        task=Task(
            signature="resume_or_abort(suspended_us: int, pass_us: int, urgent_waits: bool, "
            "memory_is_short: bool, bound: float) -> str",
            rules=(
                'The result is what becomes of a suspended pass now: `"sleep"`, until the question '
                'is asked again; `"resume"`, it computes on; or `"abort"`, its K/V is released and '
                "its work is lost.",
                "It has slept for `suspended_us`, and the whole pass takes `pass_us` to compute, "
                "both in microseconds.",
                "`urgent_waits`: whether a request that is urgent is still without a first token. "
                "That is what the pass was suspended for.",
                "`memory_is_short`: whether there is no room for that request as long as the pass "
                "holds its K/V. Work is lost for nothing less.",
                "`bound`: a pass that has slept this many times its own length, or longer, has "
                "slept enough, whatever waits, since urgent requests may come for ever.",
            ),
            args=(100, 900, True, False, 3.0),
            result="sleep",
        ),
    ),
)
