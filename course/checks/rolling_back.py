"""Judging how much K/V stays after a verifying pass, drawn and played out over a real text."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from course.checks.comparing import Comparison, Mistake, whole_number
from course.judging import Ask, Failure, Rows
from course.showing import named
from nanogpt.parts import acceptance
from nanogpt.parts.plain_values import as_whole

_RollBack = Callable[[int, int, int], int]


@dataclass(frozen=True, slots=True)
class Pass:
    """One verifying pass over letters: what was drafted, how much of it stays, what is drawn.

    `drawn` stands in the place of the first rejected draft, or after the last one.
    """

    drafts: str
    num_accepted: int
    drawn: str


# --- mistakes --------------------------------------------------------------------------------

_REJECTED = (
    "K/V of a rejected draft is K/V of a token that is not in the text: left there, every later "
    "token would attend to it."
)
_DRAWN = (
    "The token drawn at the end has never been in a pass, so there is no K/V of it yet: the next "
    "pass computes that."
)
_LAST_KNOWN = (
    "The pass began with the last token known before it, and that stays in the text: its K/V stays "
    "too."
)
_ACCEPTED = (
    "The K/V of an accepted draft is right, since everything in front of it is in the text: only "
    "that of the rejected ones goes."
)

ROLL_BACK: Comparison[_RollBack] = Comparison(
    reference=acceptance.roll_back_kv,
    mistakes=(
        *(
            Mistake(
                "num_drafted_is_no_constant",
                "How many are drafted differs from pass to pass: take it from `num_drafted`.",
                lambda held, drafted, accepted, fixed=fixed: held - fixed + accepted,
            )
            for fixed in (1, 2, 3, 4, 5, 8)
        ),
        Mistake("keeps_rejected", _REJECTED, lambda held, drafted, accepted: held),
        Mistake(
            "drawn_in_place",
            "The token drawn in the place of the first rejected draft is another one, so the K/V "
            "computed there is not its own.",
            lambda held, drafted, accepted: held - max(0, drafted - accepted - 1),
        ),
        Mistake(
            "counts_the_drawn",
            _DRAWN,
            lambda held, drafted, accepted: held - drafted + accepted + 1,
        ),
        Mistake(
            "counts_the_drawn",
            _DRAWN,
            lambda held, drafted, accepted: held - drafted + accepted + (drafted == accepted),
        ),
        Mistake(
            "drops_the_last_known",
            _LAST_KNOWN,
            lambda held, drafted, accepted: held - drafted + accepted - 1,
        ),
        Mistake(
            "drops_the_last_known",
            _LAST_KNOWN,
            lambda held, drafted, accepted: (
                held - drafted + accepted - (1 if accepted < drafted else 0)
            ),
        ),
        Mistake(
            "drops_all_drafts",
            _ACCEPTED,
            lambda held, drafted, accepted: held - drafted,
        ),
        Mistake(
            "drops_all_drafts",
            _ACCEPTED,
            lambda held, drafted, accepted: held if accepted == drafted else held - drafted,
        ),
        Mistake(
            "drops_the_pass",
            "Not everything of the pass is in vain: the K/V of the last known token and of the "
            "accepted drafts is right and stays.",
            lambda held, drafted, accepted: held - drafted - 1,
        ),
        Mistake(
            "drops_accepted",
            "It is the other way round: the accepted drafts stay, and the others go.",
            lambda held, drafted, accepted: held - accepted,
        ),
        Mistake(
            "accepted_only",
            "What was held before the pass stays as well: take the rejected drafts from all that "
            "is held.",
            lambda held, drafted, accepted: accepted,
        ),
        Mistake(
            "accepted_only",
            "What was held before the pass stays as well: take the rejected drafts from all that "
            "is held.",
            lambda held, drafted, accepted: accepted + 1,
        ),
        Mistake(
            "how_many_go",
            "This is how many go; the engine asks how many stay.",
            lambda held, drafted, accepted: drafted - accepted,
        ),
        Mistake(
            "held_before",
            "`held` is what the pass has left, its own tokens included: nothing is added to it.",
            lambda held, drafted, accepted: held + accepted + 1,
        ),
        Mistake(
            "held_before",
            "`held` is what the pass has left, its own tokens included: nothing is added to it.",
            lambda held, drafted, accepted: held + accepted,
        ),
        Mistake(
            "one_rejected",
            "The drafts behind the first rejected one were made for a text that is not there: all "
            "of them go, not that one alone.",
            lambda held, drafted, accepted: held - (accepted < drafted),
        ),
    ),
    idea="Write the tokens whose K/V is held in a row: which of them are in the text, at the same "
    "place?",
    form=whole_number,
    draw_call=named("held", "num_drafted", "num_accepted"),
    evidence=[
        (held, drafted, accepted)
        for held, drafted in ((9, 4), (13, 3), (30, 6))
        for accepted in range(drafted + 1)
    ],
)


# --- the story -------------------------------------------------------------------------------


def judge_story(ask: Ask, text: str, passes: Sequence[Pass]) -> Failure | None:
    """Ask after each pass over a text that begins as `text`; a wrong answer is shown at its place.

    The K/V of every known token but the last is held when a pass begins.
    """
    for each in passes:
        held, num_drafted = len(text) + len(each.drafts), len(each.drafts)
        stays = text + each.drafts[: each.num_accepted]
        called = ask.call(held, num_drafted, each.num_accepted)
        failure = ROLL_BACK.judge(ask, [(held, num_drafted, each.num_accepted)])
        if failure:
            rows: Rows = (
                *failure.example,
                ("K/V held", " ".join(text + each.drafts)),
                ("the text", " ".join(stays + each.drawn)),
            )
            then = _then(called.value, text + each.drafts, stays, each.drawn)
            rows = (*rows, ("then", then)) if then else rows
            return Failure(failure.idea, rows, failure.misconception)
        text = stays + each.drawn
    return None


def _then(value: object, computed: str, stays: str, drawn: str) -> str | None:
    """What comes of keeping so much; None where it is not even a number."""
    kept = as_whole(value)
    if kept is None:
        return None
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
