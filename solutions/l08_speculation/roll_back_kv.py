"""Exercise 8.4: how much K/V stays after a verifying pass."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from course.calling.plain_values import as_whole
from course.checks.comparing import Args, Comparison, not_whole
from course.exercise import Exercise, Misconception
from course.format_values import named
from course.harness import Ask, Check, Failure, Rows
from course.task import Task

# --- right answers ------------------------------------------------------------------------------


def roll_back_kv(kv_tokens_used: int, num_drafted: int, num_accepted: int) -> int:
    """Return how many KV tokens a request keeps after a verifying pass, counted from the front."""
    # The K/V is in the order of the text, so what is wrong is all at the end: the rejected drafts.
    # The token that was drawn has none yet; with it, the next pass begins.
    return kv_tokens_used - (num_drafted - num_accepted)


def from_before_the_pass(kv_tokens_used: int, num_drafted: int, num_accepted: int) -> int:
    before = kv_tokens_used - 1 - num_drafted
    return before + 1 + num_accepted


def by_marks(kv_tokens_used: int, num_drafted: int, num_accepted: int) -> int:
    marks = [True] * (kv_tokens_used - num_drafted)
    for draft in range(num_drafted):
        marks.append(draft < num_accepted)
    return marks.count(True)


# --- wrong ideas --------------------------------------------------------------------------------


def drafting_always(fixed: int) -> Callable[[int, int, int], int]:
    return lambda kv_tokens_used, drafted, accepted: kv_tokens_used - fixed + accepted


MISCONCEPTIONS = (
    not_whole(
        "The cache shrinks by the share that was rejected.",
        lambda kv_tokens_used, drafted, accepted: kv_tokens_used * (accepted + 1) / (drafted + 1),
    ),
    Misconception(
        "num_drafted_is_no_constant",
        "Four are drafted.",
        "How many are drafted differs from pass to pass: take it from `num_drafted`.",
        drafting_always(4),
    ),
    Misconception(
        "keeps_rejected",
        "Computed is computed.",
        "K/V of a rejected draft is K/V of a token that is not in the text: left there, every "
        "later token would attend to it.",
        lambda kv_tokens_used, drafted, accepted: kv_tokens_used,
    ),
    Misconception(
        "drawn_in_place",
        "Something stands at the place of the first rejected one.",
        "The token drawn in the place of the first rejected draft is another one, so the K/V "
        "computed there is not its own.",
        lambda kv_tokens_used, drafted, accepted: kv_tokens_used - max(0, drafted - accepted - 1),
    ),
    Misconception(
        "counts_the_drawn",
        "A pass yields one more than is accepted.",
        "The token drawn at the end has never been in a pass, so there is no K/V of it yet: the "
        "next pass computes that.",
        lambda kv_tokens_used, drafted, accepted: kv_tokens_used - drafted + accepted + 1,
    ),
    Misconception(
        "drops_the_last_known",
        "The last known token is computed again.",
        "The pass began with the last token known before it, and that stays in the text: its K/V "
        "stays too.",
        lambda kv_tokens_used, drafted, accepted: kv_tokens_used - drafted + accepted - 1,
    ),
    Misconception(
        "accepted_only",
        "What is accepted stays.",
        "The K/V from before the pass stays as well: take the rejected drafts off "
        "`kv_tokens_used`.",
        lambda kv_tokens_used, drafted, accepted: accepted,
    ),
    Misconception(
        "how_many_go",
        "How far to go back.",
        "This is how many go; the engine asks how many stay.",
        lambda kv_tokens_used, drafted, accepted: drafted - accepted,
    ),
    Misconception("no_return", "The cache is cut.", examples=(lambda *args: None,)),
)

# --- cases --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Pass:
    """One verifying pass over letters: what was drafted, how much of it stays, what is drawn.

    `drawn` stands in the place of the first rejected draft, or after the last one.
    """

    drafts: str
    num_accepted: int
    drawn: str


JUDGE = Comparison(
    roll_back_kv,
    MISCONCEPTIONS,
    "Write the tokens whose K/V is held in a row: which of them are in the text, at the same "
    "place?",
    evidence=[
        (kv_tokens_used, drafted, accepted)
        for kv_tokens_used, drafted in ((9, 4), (13, 3), (30, 6))
        for accepted in range(drafted + 1)
    ],
)


def judge_story(ask: Ask, text: str, passes: Sequence[Pass]) -> Failure | None:
    """Ask after each pass over a text that begins as `text`; a wrong answer is shown at its place.

    The K/V of every known token but the last is held when a pass begins.
    """
    for each in passes:
        computed, stays = text + each.drafts, text + each.drafts[: each.num_accepted]
        args = len(computed), len(each.drafts), each.num_accepted
        value = ask(*args)
        failure = JUDGE.judge(ask, [args])
        if failure:
            rows: Rows = (
                *failure.example,
                ("K/V held", " ".join(computed)),
                ("the text", " ".join(stays + each.drawn)),
            )
            if (kept := as_whole(value)) is not None:
                rows += (("then", outcome(kept, computed, stays, each.drawn)),)
            return Failure(failure.idea, rows, failure.misconception)
        text = stays + each.drawn
    return None


def outcome(kept: int, computed: str, stays: str, drawn: str) -> str:
    """What comes of keeping so much."""
    if kept < 0:
        return "there is no keeping fewer than none"
    if kept > len(computed):
        return f"K/V of {len(computed)} tokens is held, and more than that cannot be kept"
    right = len(stays)
    if kept > right:
        return (
            f"position {right} keeps the K/V of {computed[right]}, which was rejected, and the "
            f"text has {drawn} there"
        )
    return (
        f"position {kept}, {stays[kept]}, has lost its K/V, and the next pass, which begins with "
        f"the {drawn} at position {right}, does not compute it"
    )


def each_behind(text: str, *passes: Pass) -> Check:
    """The check that asks about these passes, each over the same text."""
    return lambda ask, rng: next(
        filter(None, (judge_story(ask, text, [each]) for each in passes)), None
    )


def a_whole_text(ask: Ask, rng: random.Random) -> Failure | None:
    text, goal, passes = "WH", "WHEREFOREARTTHOUROMEO", list[Pass]()
    end = len(text)
    while end < len(goal):
        wanted = min(rng.randint(0, 4), len(goal) - end - 1)
        num_accepted = rng.randint(0, wanted)
        wrong = "X" * (wanted - num_accepted)
        drawn = goal[end + num_accepted]
        passes.append(Pass(goal[end : end + num_accepted] + wrong, num_accepted, drawn))
        end += num_accepted + 1
    return judge_story(ask, text, passes)


def any_pass(rng: random.Random) -> list[Args]:
    cases: list[Args] = []
    for _ in range(40):
        drafted = rng.choice((0, 1, 2, 4, 8, 20))
        cases.append((drafted + rng.randint(1, 200), drafted, rng.randint(0, drafted)))
    return cases


LAST_KNOWN = "the last known token is always held, and stays"

EXERCISE = Exercise(
    number=4,
    title="What the cache forgets",
    minutes=5,
    points=2,
    part="roll_back_kv",
    task=Task(
        signature="roll_back_kv(kv_tokens_used: int, num_drafted: int, num_accepted: int) -> int",
        rules=(
            "The result is how many KV tokens a request keeps after a verifying pass, counted from "
            "the front: those of every token of the text that has been computed, and of no other.",
            "The pass was over the last token known before it and `num_drafted` drafts. It has "
            "left the request with K/V of `kv_tokens_used` tokens, all of these included.",
            "The first `num_accepted` drafts stay in the text. Behind them stands a token that was "
            "drawn after the pass, in the place of the first rejected draft or after the last one.",
        ),
        args=(7, 4, 1),
        result=4,
    ),
    hints=(
        "Write the tokens of a pass in a row: the last known one, then the drafts. Which of them "
        "are in the text afterwards, at the same place?",
        "Everything up to the last accepted draft is in the text and keeps its K/V. The token "
        "drawn at the end was in no pass yet. How many are there behind the accepted ones?",
        "The rejected drafts lie at the end of the request's K/V. Count those, and take them off.",
    ),
    right=(roll_back_kv, from_before_the_pass, by_marks),
    misconceptions=MISCONCEPTIONS,
    checks=(
        ("some are accepted", each_behind("ROM", Pass("EXYZ", 1, "O"), Pass("IAX", 2, "S"))),
        (
            "all or none",
            each_behind(
                "ROM",
                Pass("EOS", 3, "A"),
                Pass("AXY", 0, "E"),
                Pass("E", 1, "O"),
                Pass("A", 0, "E"),
            ),
        ),
        (
            "nothing drafted",
            lambda ask, rng: judge_story(ask, "ROM", [Pass("", 0, "E"), Pass("", 0, "O")]),
        ),
        ("a whole text", a_whole_text),
        ("any pass", JUDGE.on_drawn(any_pass)),
    ),
    draw_call=named("kv_tokens_used", "num_drafted", "num_accepted"),
    equivalent_mutants={"kv_tokens_used at least 1": LAST_KNOWN, "result at least 1": LAST_KNOWN},
)
