"""Speculative decoding over the text that it wrote: what was proposed, kept, rejected and added."""

from collections.abc import Mapping
from typing import Any, Unpack

import traitlets

from widgets import checking
from widgets.picture import Face, Picture

STORY_VERSION = 1
LAST_KINDS = ("bonus", "resampled", "plain")


class SpeculationStrip(Picture):
    """A step per verifying pass: its drafts with p, q and u, and the token that the model added.

    `story` is a `story(...)` dict of the lesson's data: {"version": 1, "prompt", "passes":
    [{"drafts": [{"text", "token", "kept", "p", "q", "u"}], "last": {"text", "token", "kind":
    "bonus", "resampled" or "plain"}}], "num_draft_tokens", "temperature"}. `p` and `q` are what the
    model and the draft gave the drafted token, `u` the uniform number that decided, None where
    none was drawn. Kept drafts come first in their pass.
    Raises: ValueError for no pass, more drafts than num_draft_tokens, a draft kept after a
    rejected one, a last token of the wrong kind, or a probability beyond 0 to 1.
    """

    story = traitlets.Dict().tag(sync=True)

    def __init__(self, story: Mapping[str, Any], title: str = "", **face: Unpack[Face]) -> None:
        super().__init__(story=_checked_story(story), title=title, **face)


def _checked_story(value: object) -> dict[str, Any]:
    checking.version(value, "the story", STORY_VERSION)
    found = _STORY(value, "the story")
    most = found["num_draft_tokens"]
    for index, each in enumerate(found["passes"]):
        if len(each["drafts"]) > most:
            raise ValueError(
                f"passes[{index}] has {len(each['drafts'])} drafts; num_draft_tokens is {most}"
            )
    return found


def _checked_pass(value: object, what: str) -> dict[str, Any]:
    drafts, last = _PASS(value, what).values()
    kept = [draft["kept"] for draft in drafts]
    if kept != sorted(kept, reverse=True):
        raise ValueError(f"{what} keeps a draft after one that it rejects")
    right = "plain" if not drafts else "bonus" if all(kept) else "resampled"
    if last["kind"] != right:
        raise ValueError(
            f"the last token of {what} is {last['kind']}; with {sum(kept)} of {len(drafts)} drafts "
            f"kept it must be {right}"
        )
    return {"drafts": drafts, "last": last}


def _probability(value: object, what: str) -> float:
    """A share of 1; a sum of floats may have rounded it up a little."""
    if checking.is_number(value) and 1 < value < 1 + 1e-6:
        return 1.0
    return checking.share(value, what)


_TOKEN: dict[str, checking.Check[Any]] = {"text": checking.text, "token": checking.whole}
_DRAFT = checking.shape(
    **_TOKEN,
    kept=checking.flag,
    p=_probability,
    q=_probability,
    u=checking.maybe(checking.share),
)
_PASS = checking.shape(
    drafts=checking.list_of(_DRAFT),
    last=checking.shape(**_TOKEN, kind=checking.one_of(*LAST_KINDS)),
)
_STORY = checking.shape(
    prompt=checking.text,
    num_draft_tokens=checking.whole,
    temperature=checking.amount,
    passes=checking.list_of(_checked_pass, at_least=1),
)
