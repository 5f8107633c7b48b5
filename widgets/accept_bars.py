"""Whether a draft stays: the target's chances beside the draft's, and what two numbers decide."""

from collections.abc import Sequence
from typing import Annotated, Any, Unpack

import traitlets
from msgspec import Meta

from widgets.picture import Face, Picture
from widgets.records import Amount, Natural, OneOrMore, Words, read

MOST_PARTS = 40


class AcceptBars(Picture):
    """p and q as bars, a draft to choose, and sliders for the two random numbers u and v.

    `p` are the target's chances and `q` the draft's, one for each of the `tokens`. `outcomes` is
    what a function answers: outcomes[draft][i][j] is [kept, token] at u = (i + 0.5) / n and
    v = (j + 0.5) / n, with the token's index; from all of them the picture finds how often each
    token stands there in the end. `name` says whose function it is.
    Raises: ValueError for chances that do not sum to 1, or outcomes of another shape.
    """

    p = traitlets.List(traitlets.Float()).tag(sync=True)
    q = traitlets.List(traitlets.Float()).tag(sync=True)
    outcomes = traitlets.List().tag(sync=True)
    tokens = traitlets.List(traitlets.Unicode()).tag(sync=True)
    name = traitlets.Unicode().tag(sync=True)

    def __init__(
        self,
        p: Sequence[float],
        q: Sequence[float],
        outcomes: Sequence[Sequence[Sequence[Sequence[Any]]]],
        tokens: Sequence[str],
        title: str = "",
        *,
        name: str = "the rule",
        **face: Unpack[Face],
    ) -> None:
        words = read(tokens, Annotated[list[Words], Meta(min_length=2)], "tokens")
        super().__init__(
            p=_checked_chances(p, "p", len(words)),
            q=_checked_chances(q, "q", len(words)),
            outcomes=_checked_outcomes(outcomes, len(words)),
            tokens=words,
            title=title,
            name=read(name, Words, "the name"),
            **face,
        )


def _checked_chances(value: object, what: str, length: int) -> list[float]:
    found: list[float] = read(value, list[Amount], what)
    if len(found) != length:
        raise ValueError(f"{what} has {len(found)} chances for {length} tokens")
    if abs(sum(found) - 1) > 1e-6:
        raise ValueError(f"{what} sums to {sum(found):.6g}; chances must sum to 1")
    return found


def _checked_outcomes(value: object, length: int) -> list[Any]:
    found = read(value, list[OneOrMore[list[tuple[bool, Natural]]]], "outcomes")
    if len(found) != length:
        raise ValueError(f"there are outcomes for {len(found)} drafts and {length} tokens")
    parts = len(found[0])
    if parts > MOST_PARTS:
        raise ValueError(f"u has {parts} values; it may have at most {MOST_PARTS}")
    for draft, rows in enumerate(found):
        if [len(row) for row in rows] != [parts] * parts:
            raise ValueError(f"the outcomes of draft {draft} are not {parts} by {parts}")
        if any(token >= length for row in rows for _, token in row):
            raise ValueError(f"an outcome of draft {draft} has a token beyond {length - 1}")
    return [[[list(pair) for pair in row] for row in rows] for rows in found]
