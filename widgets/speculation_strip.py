"""Speculative decoding over the text that it wrote: what was proposed, kept, rejected and added."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Unpack

import traitlets
from msgspec import Meta, Struct

from widgets.picture import Face, Picture
from widgets.records import Amount, Natural, OneOrMore, Share, read

_Probability = Annotated[float, Meta(ge=0, le=1 + 1e-6)]
"""A sum of floats may have rounded it up a little."""


class _Draft(Struct, omit_defaults=True):
    text: str
    token: Natural
    kept: bool
    p: _Probability
    q: _Probability
    u: Share | None
    state: Natural | None = None

    def __post_init__(self) -> None:
        self.p, self.q = min(self.p, 1), min(self.q, 1)


class _Last(Struct, omit_defaults=True):
    text: str
    token: Natural
    kind: Literal["bonus", "resampled", "plain"]
    state: Natural | None = None


class _Pass(Struct):
    drafts: list[_Draft]
    last: _Last

    def __post_init__(self) -> None:
        kept = [draft.kept for draft in self.drafts]
        if kept != sorted(kept, reverse=True):
            raise ValueError("a draft is kept after one that is rejected")


class _Story(Struct, omit_defaults=True):
    version: Literal[1]
    prompt: str
    num_draft_tokens: Natural
    temperature: Amount
    passes: OneOrMore[_Pass]
    automaton: list[tuple[Natural, Natural, str]] = []


class SpeculationStrip(Picture):
    """A step per verifying pass: its drafts with p, q and u, and the token that the model added.

    `story` is a `story(...)` dict of the lesson's data. `p` and `q` are the probabilities that the
    model and the draft gave the drafted token, `u` the uniform number that decided, None where none
    was drawn. Kept drafts come first in their pass. An `automaton` is drawn too: edges (state, next
    state, characters), and in each token the `state` after it.
    Raises: ValueError for another kind of record, or a draft kept after a rejected one.
    """

    story = traitlets.Dict().tag(sync=True)

    def __init__(self, story: Mapping[str, Any], title: str = "", **face: Unpack[Face]) -> None:
        super().__init__(story=read(story, _Story, "the story"), title=title, **face)
