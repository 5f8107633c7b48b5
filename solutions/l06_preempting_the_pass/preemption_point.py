"""Exercise 6.2: how ranks agree to leave a pass."""
# pyright: reportMissingTypeArgument=false, reportUnknownParameterType=false

import itertools
import random
from collections.abc import Callable, Generator
from dataclasses import replace
from typing import Any

from course.checks.comparing import Args, Comparison
from course.checks.voting import Played, Votes
from course.exercise import Exercise, Misconception, Task

# --- right answers ------------------------------------------------------------------------------


def preemption_point(vote: int) -> Generator[tuple, int, None]:
    """Yield the moves of one rank at one attention op; `vote` is 1 to leave, 0 to go on."""
    # Every rank takes part in the collective, whatever its vote is. Afterwards only the answer
    # counts: it is the same on every rank, and so is the decision.
    agreed = yield ("max", vote)
    if agreed:
        yield ("leave",)


def in_one(vote: int) -> Generator[tuple, int, None]:
    if (yield ("max", vote)):
        yield ("leave",)


def by_another_generator(vote: int) -> Generator[tuple, int, None]:
    def ask() -> Generator[tuple, int, bool]:
        answer = yield ("max", vote)
        return answer == 1

    if (yield from ask()):
        yield ("leave",)


# --- wrong ideas --------------------------------------------------------------------------------

Moves = Generator[Any, int, Any]


def bringing(
    bring: Callable[[int], Any] = lambda vote: vote,
    leaves: Callable[[int, int], Any] = lambda vote, agreed: agreed,
) -> Callable[[int], Moves]:
    """One collective, and then `leave` or not."""

    def moves(vote: int) -> Moves:
        agreed = yield ("max", bring(vote))
        if leaves(vote, agreed):
            yield ("leave",)

    return moves


def leaves_alone(vote: int) -> Moves:
    if vote:
        yield ("leave",)


def leaves_or_asks(vote: int) -> Moves:
    if vote or (yield ("max", vote)):
        yield ("leave",)


def only_voters_join(vote: int) -> Moves:
    if vote and (yield ("max", vote)):
        yield ("leave",)


def returns_the_leave(vote: int) -> Moves:
    return ("leave",) if (yield ("max", vote)) else None


def makes_sure(vote: int) -> Moves:
    agreed = yield ("max", vote)
    if (yield ("max", agreed)):
        yield ("leave",)


def until_none_wants_to(vote: int) -> Moves:
    while (yield ("max", vote)):
        pass


def yields_moves(vote: int) -> Moves:
    yield preemption_point(vote)


MISCONCEPTIONS = (
    Misconception(
        "no_collective",
        "All ranks read the same target.",
        "Another rank may have read too early. It goes on and waits for ever for the rank that "
        "left. So all ranks ask the collective, and do what it answers.",
        leaves_alone,
    ),
    Misconception(
        "leaves_first",
        "No vote is larger than my 1, so I know the answer.",
        "A rank that leaves before the collective is missing in it, and the others wait there. "
        "Give the vote first, and leave after the answer.",
        leaves_or_asks,
    ),
    Misconception(
        "only_voters_join",
        "A rank that wants to go on need not take part in the vote.",
        "A rank with a vote of 0 has to take part in the collective too. The ranks that vote 1 "
        "wait there for it, while it waits for them in the sum.",
        only_voters_join,
    ),
    Misconception(
        "own_vote",
        "After voting, each rank follows its own vote.",
        "After the collective, a rank's own vote decides nothing. A rank that follows it may leave "
        "or stay as the only one, and then another waits for ever.",
        bringing(leaves=lambda vote, agreed: vote),
    ),
    Misconception(
        "never_leaves",
        "The last move is returned.",
        'When the collective answers 1, every rank has to `yield ("leave",)`; here no rank does. '
        "A `return` only ends the generator, and `is True` is false for a number.",
        returns_the_leave,
    ),
    Misconception(
        "inverted",
        "0 means that no rank wants to go on.",
        "The answer 1 means that some rank wants to leave. Leave then, and go on when it is 0.",
        bringing(leaves=lambda vote, agreed: not agreed),
    ),
    Misconception(
        "unanimous",
        "To leave, all ranks must vote for it.",
        "One rank that has seen the target is enough. The others only read a moment too early, so "
        "the largest vote decides for all of them.",
        bringing(lambda vote: 1 - vote, lambda vote, agreed: not agreed),
    ),
    Misconception(
        "twice",
        "A second collective makes sure that all have heard.",
        "One collective is enough, because its answer is the same on every rank. A second one "
        "costs every layer of every pass the same time again.",
        makes_sure,
    ),
    Misconception("endless", "Ask until no rank wants to leave.", examples=(until_none_wants_to,)),
    Misconception("no_from", "A generator may yield a generator.", examples=(yields_moves,)),
    Misconception(
        "not_a_generator", "The move is returned.", examples=((lambda vote: ("max", vote)),)
    ),
)

# --- cases --------------------------------------------------------------------------------------


def played(idea: Misconception) -> Misconception:
    """The idea, with the outcome of its moves when all ranks make them."""
    answers = [Played(each) for each in idea.answers]
    return replace(idea, answer=next(iter(answers), None), same_result=answers[1:])


def plays(*votes: Votes) -> list[Args]:
    return [(each,) for each in votes]


JUDGE = Comparison(
    Played(preemption_point),
    [played(each) for each in MISCONCEPTIONS],
    "All ranks run these moves with votes of their own. Follow a rank that votes 1 and one that "
    "votes 0, move by move, and see where each of them ends.",
    matches=lambda value: value.problem,
    draw=str,
    evidence=plays(
        *(Votes((pair,)) for pair in ((1, 0), (0, 1), (0, 0), (1, 1))),
        Votes(((0, 0), (0, 1), (1, 1))),
    ),
)


def turns(rng: random.Random, num_ranks: int) -> tuple[int, ...]:
    """An order in which the ranks arrive, and one in which they go on."""
    return (*rng.sample(range(num_ranks), num_ranks), *rng.sample(range(num_ranks), num_ranks))


def any_order(rng: random.Random) -> list[Args]:
    """Two ranks in all orders of arriving and going on, three ranks in some of them."""
    two = [
        Votes((votes,), (*come, *go_on))
        for votes in ((1, 0), (0, 1), (0, 0))
        for come in ((0, 1), (1, 0))
        for go_on in ((0, 1), (1, 0))
    ]
    three = [
        Votes((votes,), turns(rng, 3))
        for votes in itertools.product((0, 1), repeat=3)
        for _ in range(2)
    ]
    return plays(*two, *three)


def whole_passes(rng: random.Random) -> list[Args]:
    """One rank after another sees the target, and goes on seeing it."""
    passes: list[Votes] = []
    for num_layers in (2, 2, 3, 3, 3, 4, 4):
        num_ranks = rng.choice((2, 3))
        first = rng.randrange(num_layers)
        seen_from = [first + rng.randrange(2) for _ in range(num_ranks)]
        votes = [tuple(int(layer >= seen) for seen in seen_from) for layer in range(num_layers)]
        passes.append(Votes(tuple(votes), turns(rng, num_ranks)))
    return plays(*passes)


SAME_VOTES = [Votes((votes,)) for votes in ((0, 0), (1, 1), (0,), (1,))]

EXERCISE = Exercise(
    number=2,
    title="All ranks leave, or none",
    minutes=10,
    points=3,
    task=Task(
        rules=(
            "A generator that yields the moves of one rank at one attention op. `vote` is `1` if "
            "this rank wants to leave, else `0`. All ranks run the function at the same time, and "
            "their votes may differ.",
            '`yield ("max", vote)` takes part in a collective. The rank waits until every rank has '
            "given its vote; then the `yield` returns the largest vote, the same on all ranks.",
            '`yield ("leave",)` leaves the pass.',
            "A rank whose moves end without leaving goes on to the sum of the attention output. "
            "That is a collective as well, and it waits for every rank.",
            "If any rank votes 1, all leave at this attention op; otherwise none leaves. No rank "
            "may wait for ever, and no rank may call a collective that is not needed.",
        ),
        args=(1,),
        answers=(1,),
        result=[("max", 1), ("leave",)],
    ),
    hints=(
        "Rank 0 has read the target and votes 1; rank 1 read a moment too early and votes 0. Which "
        "moves does rank 1 have to make so that rank 0 does not wait for ever?",
        "Every rank takes part in the collective once, whatever its vote. Then it decides by the "
        "answer only, which is the same on all ranks.",
        "`name = yield ...` keeps the answer. The rank's own vote goes into the first move and is "
        "not used again; the answer decides whether there is a second move.",
    ),
    right=(preemption_point, in_one, by_another_generator),
    misconceptions=MISCONCEPTIONS,
    checks=(
        ("only one rank has seen the target", JUDGE.on(*plays(Votes(((1, 0),)), Votes(((0, 1),))))),
        ("all ranks with the same vote", JUDGE.on(*plays(*SAME_VOTES))),
        ("in any order", JUDGE.on_drawn(any_order)),
        ("whole passes", JUDGE.on_drawn(whole_passes)),
    ),
    asked_as=Played,
    equivalent_mutants={"vote at most 7": "a vote is never more than 1"},
)
