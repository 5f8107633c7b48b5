"""Exercise 6.2: how ranks agree to leave a pass."""
# pyright: reportMissingTypeArgument=false, reportUnknownParameterType=false
# A learner need not write what is in the tuples.

import itertools
import random
from collections.abc import Callable, Generator
from dataclasses import replace
from typing import Any

from course.checks.comparing import Args, Comparison
from course.checks.voting import Played, Votes
from course.exercise import Exercise, Misconception
from course.task import Task

# --- right answers ------------------------------------------------------------------------------


def preemption_point(vote: int) -> Generator[tuple, int, None]:
    """Yield what one rank does at one attention op, move by move; `vote` is what it wants."""
    # Every rank comes to the collective, whatever its own vote is; after it, that does not matter
    # any more. The same answer on every rank makes the same decision on every rank.
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
    """One collective, and then a leave or not."""

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
        "All read the same target.",
        "What a rank wants is only its vote: another may want to go on, and would wait for ever "
        "for the one that left, so all ask the collective, and do what it answers.",
        leaves_alone,
    ),
    Misconception(
        "leaves_first",
        "My own 1 is the largest vote there can be, so I know the answer.",
        "A rank that leaves before the collective is missing in it, and the others wait there: "
        "bring the vote first, leave after the answer.",
        leaves_or_asks,
    ),
    Misconception(
        "only_voters_join",
        "Without a wish there is nothing to say.",
        "A rank with a vote of 0 has to come to the collective too: those that vote 1 wait there "
        "for it, while it waits for them in the sum.",
        only_voters_join,
    ),
    Misconception(
        "own_vote",
        "Having told the others I may go.",
        "After the collective the own vote decides nothing any more: a rank that leaves or stays "
        "by it does so alone, and then another waits for ever.",
        bringing(leaves=lambda vote, agreed: vote),
    ),
    Misconception(
        "never_leaves",
        "The last move is returned.",
        'When the collective answers the number 1, every rank has to `yield ("leave",)`, and none '
        "does here: a `return` only ends the generator, and `is True` is false of a number.",
        returns_the_leave,
    ),
    Misconception(
        "inverted",
        "0 means: none wants to go on.",
        "The answer 1 means that a rank wants to leave: leave then, and go on when it is 0.",
        bringing(leaves=lambda vote, agreed: not agreed),
    ),
    Misconception(
        "unanimous",
        "To agree, all must want it.",
        "One rank that has seen the target is enough: the others only read a moment too early, and "
        "the largest vote decides for all of them.",
        bringing(lambda vote: 1 - vote, lambda vote, agreed: not agreed),
    ),
    Misconception(
        "twice",
        "Once to vote, once to make sure that all have heard.",
        "One collective is enough, since its answer is the same on every rank: a second one costs "
        "every layer of every pass the same time again.",
        makes_sure,
    ),
    # What is no move, the stage says.
    Misconception("endless", "Wait until the wish is over.", examples=((until_none_wants_to),)),
    Misconception("no_from", "A generator yields what it is made of.", examples=(yields_moves,)),
    Misconception(
        "not_a_generator", "The move is returned.", examples=((lambda vote: ("max", vote)),)
    ),
)

# --- cases --------------------------------------------------------------------------------------


def played(idea: Misconception) -> Misconception:
    """The idea, with what comes of its moves when all ranks make them."""
    answers = [Played(each) for each in idea.answers]
    return replace(idea, answer=next(iter(answers), None), same_result=answers[1:])


def plays(*votes: Votes) -> list[Args]:
    return [(each,) for each in votes]


JUDGE = Comparison(
    Played(preemption_point),
    [played(each) for each in MISCONCEPTIONS],
    "All ranks run these moves with votes of their own: follow one that has a 1 and one that has a "
    "0, move by move, and see where each of them ends.",
    matches=lambda value: value.problem,
    draw=str,
    evidence=plays(
        *(Votes((pair,)) for pair in ((1, 0), (0, 1), (0, 0), (1, 1))),
        Votes(((0, 0), (0, 1), (1, 1))),
    ),
)


def turns(rng: random.Random, num_ranks: int) -> tuple[int, ...]:
    """Every rank's turn to come, and then again to go on."""
    return (*rng.sample(range(num_ranks), num_ranks), *rng.sample(range(num_ranks), num_ranks))


def any_order(rng: random.Random) -> list[Args]:
    """Two ranks in all orders of coming and going on, three in some of them."""
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
    """A target comes into sight of one rank after the other, and stays in sight."""
    passes: list[Votes] = []
    for num_layers in (2, 2, 3, 3, 3, 4, 4):
        num_ranks = rng.choice((2, 3))
        first = rng.randrange(num_layers)
        seen_from = [first + rng.randrange(2) for _ in range(num_ranks)]
        votes = [tuple(int(layer >= seen) for seen in seen_from) for layer in range(num_layers)]
        passes.append(Votes(tuple(votes), turns(rng, num_ranks)))
    return plays(*passes)


EXERCISE = Exercise(
    number=2,
    title="All of them or none",
    minutes=10,
    points=3,
    task=Task(
        signature="preemption_point(vote: int) -> Generator[tuple, int, None]",
        rules=(
            "A generator: what it yields are the moves of one rank at one attention op. `vote` is "
            "what this rank wants: `1` to leave, `0` to go on. All ranks run the same function at "
            "the same time, and their votes may differ.",
            '`yield ("max", vote)` takes part in a collective: the rank waits until every rank has '
            "come with a vote, and then the `yield` returns the largest, the same to all.",
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
    hints=(
        "Rank 0 has read the target and wants to leave; rank 1 read a moment too early and does "
        "not. Which moves does rank 1 have to make so that rank 0 is not left waiting?",
        "Every rank comes to the collective once, whatever its vote. Only then it decides, and it "
        "decides by the answer alone, which is the same on all of them.",
        "The value of a `yield` is what comes back: `name = yield ...` keeps it. The rank's own "
        "vote goes into the first move and is not looked at again; the second move is made or not "
        "made by that name.",
    ),
    right=(preemption_point, in_one, by_another_generator),
    misconceptions=MISCONCEPTIONS,
    checks=(
        ("only one rank has seen the target", JUDGE.on(*plays(Votes(((1, 0),)), Votes(((0, 1),))))),
        (
            "all of one mind",
            JUDGE.on(*plays(*(Votes((votes,)) for votes in ((0, 0), (1, 1), (0,), (1,))))),
        ),
        ("in any order", JUDGE.on_drawn(any_order)),
        ("whole passes", JUDGE.on_drawn(whole_passes)),
    ),
    asked_as=Played,
    equivalent_mutants={"vote at most 7": "a vote is never more than 1"},
)
