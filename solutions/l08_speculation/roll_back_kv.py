"""Exercise 8.4: how many KV tokens a request keeps after a verifying pass."""

import random
from dataclasses import dataclass

from course.calling.plain_values import as_whole
from course.checks.comparing import Args, Comparison, not_whole
from course.exercise import Exercise, Misconception, Task
from course.format_values import named
from course.harness import Ask, Check, Failure, Rows

# --- right answers ------------------------------------------------------------------------------


def roll_back_kv(kv_tokens_used: int, num_drafted: int, num_accepted: int) -> int:
    """Return how many KV tokens a request keeps after a verifying pass, counted from the front."""
    # K/V is in the order of the text, so the K/V of rejected draft tokens is at the end. The token
    # that the target added has no K/V yet: the next pass begins with it.
    return kv_tokens_used - (num_drafted - num_accepted)


def from_before_the_pass(kv_tokens_used: int, num_drafted: int, num_accepted: int) -> int:
    before = kv_tokens_used - 1 - num_drafted
    return before + 1 + num_accepted


# --- wrong ideas --------------------------------------------------------------------------------

MISCONCEPTIONS = (
    not_whole(
        "The cache shrinks by the share of rejected draft tokens.",
        lambda kv_tokens_used, drafted, accepted: kv_tokens_used * (accepted + 1) / (drafted + 1),
    ),
    Misconception(
        "num_drafted_is_no_constant",
        "Every pass has four draft tokens.",
        "The number of draft tokens differs from pass to pass: take it from `num_drafted`.",
        lambda kv_tokens_used, drafted, accepted: kv_tokens_used - 4 + accepted,
    ),
    Misconception(
        "keeps_rejected",
        "Computed K/V need not be computed again, so keep all K/V.",
        "The K/V of a rejected draft token belongs to a token that is not in the text; if you keep "
        "it, every later token attends to it.",
        lambda kv_tokens_used, drafted, accepted: kv_tokens_used,
    ),
    Misconception(
        "drawn_in_place",
        "The target's token replaces the first rejected one, so its K/V is already there.",
        "The target's token differs from the draft token that it replaces, so the K/V at that "
        "position is not its own.",
        lambda kv_tokens_used, drafted, accepted: kv_tokens_used - max(0, drafted - accepted - 1),
    ),
    Misconception(
        "counts_the_drawn",
        "The text grows by the accepted draft tokens and one more token, and so does the cache.",
        "The token that the target added was in no pass yet, so it has no K/V: the next pass "
        "computes its K/V.",
        lambda kv_tokens_used, drafted, accepted: kv_tokens_used - drafted + accepted + 1,
    ),
    Misconception(
        "drops_the_last_known",
        "The next pass computes the last known token again.",
        "The last known token, with which the pass began, stays in the text, so its K/V stays too.",
        lambda kv_tokens_used, drafted, accepted: kv_tokens_used - drafted + accepted - 1,
    ),
    Misconception(
        "accepted_only",
        "Only the accepted draft tokens stay.",
        "The K/V from before the pass stays as well: subtract the rejected draft tokens from "
        "`kv_tokens_used`.",
        lambda kv_tokens_used, drafted, accepted: accepted,
    ),
    Misconception(
        "how_many_go",
        "The function returns how many KV tokens to drop.",
        "This is the number of KV tokens that are dropped. Return how many stay.",
        lambda kv_tokens_used, drafted, accepted: drafted - accepted,
    ),
    Misconception(
        "no_return", "The function shortens the cache itself.", examples=(lambda *args: None,)
    ),
)

# --- cases --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Pass:
    """One verifying pass over letters: the draft tokens, how many are accepted, and `drawn`.

    `drawn` is the target's token, in place of the first rejected draft token or after the last one.
    """

    drafts: str
    num_accepted: int
    drawn: str


JUDGE = Comparison(
    roll_back_kv,
    MISCONCEPTIONS,
    "Write the tokens of the KV cache in a row: which of them are in the text, at the same "
    "position?",
    evidence=[
        (kv_tokens_used, drafted, accepted)
        for kv_tokens_used, drafted in ((9, 4), (13, 3), (30, 6))
        for accepted in range(drafted + 1)
    ],
)


def after(text: str, *passes: Pass) -> Check:
    """The check that asks about these passes, each over the same text."""
    return lambda ask, rng: next(
        filter(None, (judge_pass(ask, text, each) for each in passes)), None
    )


def judge_pass(ask: Ask, text: str, each: Pass) -> Failure | None:
    """Ask about a pass over `text`; the cache holds K/V of every known token but the last."""
    computed, stays = text + each.drafts, text + each.drafts[: each.num_accepted]
    args = len(computed), len(each.drafts), each.num_accepted
    value = ask(*args)
    failure = JUDGE.judge(ask, [args])
    if failure is None:
        return None
    rows: Rows = (
        *failure.example,
        ("K/V held", " ".join(computed)),
        ("the text", " ".join(stays + each.drawn)),
    )
    if (kept := as_whole(value)) is not None:
        rows += (("then", outcome(kept, computed, stays, each.drawn)),)
    return Failure(failure.idea, rows, failure.misconception)


def outcome(kept: int, computed: str, stays: str, drawn: str) -> str:
    """The consequence of keeping so many KV tokens."""
    if kept < 0:
        return "a cache cannot keep fewer than 0 KV tokens"
    if kept > len(computed):
        return f"the cache holds {len(computed)} KV tokens and cannot keep more"
    right = len(stays)
    if kept > right:
        return (
            f"position {right} keeps the K/V of {computed[right]}, which was rejected, and the "
            f"text has {drawn} there"
        )
    return (
        f"position {kept}, {stays[kept]}, has lost its K/V, and no pass computes it again: the "
        f"next one begins with the {drawn} at position {right}"
    )


def any_pass(rng: random.Random) -> list[Args]:
    cases: list[Args] = []
    for _ in range(40):
        drafted = rng.choice((0, 1, 2, 4, 8, 20))
        cases.append((drafted + rng.randint(1, 200), drafted, rng.randint(0, drafted)))
    return cases


LAST_KNOWN = "the last known token always has K/V, and it stays"

EXERCISE = Exercise(
    number=4,
    title="Roll back the KV cache",
    minutes=5,
    points=2,
    task=Task(
        rules=(
            "Returns how many KV tokens a request keeps after a verifying pass, counted from the "
            "front: those of all computed tokens that are in the text, and no others.",
            "The pass computed the last known token and `num_drafted` draft tokens. After the "
            "pass the request has `kv_tokens_used` KV tokens, including those of the pass.",
            "The first `num_accepted` draft tokens stay in the text. After them comes a token that "
            "the target added after the pass.",
        ),
        args=(7, 4, 1),
        result=4,
        steps=(
            "The 7 KV tokens are those of 3 known tokens and of the draft tokens d1 to d4.",
            "d1 was accepted. d2, d3 and d4 are not in the text.",
            "The target's token in place of d2 has no K/V yet.",
        ),
    ),
    hints=(
        "Write the tokens of the pass in a row: the last known one, then the draft tokens. Which "
        "of them are in the text afterwards, at the same position?",
        "Everything up to the last accepted draft token is in the text and keeps its K/V. The "
        "target's token was in no pass yet. How many draft tokens come after the accepted ones?",
        "The K/V of the rejected draft tokens is at the end. Count these tokens and subtract their "
        "number from `kv_tokens_used`.",
    ),
    right=(roll_back_kv, from_before_the_pass),
    misconceptions=MISCONCEPTIONS,
    checks=(
        ("some are accepted", after("ROM", Pass("EXYZ", 1, "O"), Pass("IAX", 2, "S"))),
        ("all are accepted", after("ROM", Pass("EOS", 3, "A"), Pass("E", 1, "O"))),
        ("none is accepted", after("ROM", Pass("AXY", 0, "E"), Pass("A", 0, "E"))),
        ("nothing drafted", after("ROM", Pass("", 0, "E"))),
        ("any pass", JUDGE.on_drawn(any_pass)),
    ),
    draw_call=named("kv_tokens_used", "num_drafted", "num_accepted"),
    equivalent_mutants={"kv_tokens_used at least 1": LAST_KNOWN, "result at least 1": LAST_KNOWN},
)
