"""Speculative decoding over the text that it wrote: what was proposed, kept, rejected and added."""

from collections.abc import Mapping
from typing import Any, Unpack

import traitlets

from widgets import assets, checking, signed
from widgets.picture import Face, Picture

STORY_VERSION = 1
LAST_KINDS = ("bonus", "resampled", "plain")
_FIELDS = ("version", "prompt", "passes", "num_draft_tokens", "temperature")
_DRAFT_FIELDS = ("text", "token", "kept", "p", "q", "u")


class SpeculationStrip(Picture):
    """A step per verifying pass: its drafts with p, q and u, and the token that the model added.

    `story` is a `story(...)` dict of nanogpt.speculative: {"version": 1, "prompt", "passes":
    [{"drafts": [{"text", "token", "kept", "p", "q", "u"}], "last": {"text", "token", "kind":
    "bonus", "resampled" or "plain"}}], "num_draft_tokens", "temperature"}. `p` and `q` are what the
    model and the draft gave the drafted token, `u` the uniform number that decided, None where
    none was drawn. Kept drafts come first in their pass.
    Raises: ValueError for no pass, more drafts than num_draft_tokens, a draft kept after a
    rejected one, a last token of the wrong kind, or a probability beyond 0 to 1.
    """

    _esm = assets.esm("speculation_strip")
    _css = assets.css("speculation_strip")
    story = traitlets.Dict().tag(sync=True)
    title = traitlets.Unicode().tag(sync=True)

    def __init__(self, story: Mapping[str, Any], title: str = "", **face: Unpack[Face]) -> None:
        super().__init__(
            story=_checked_story(story),
            title=checking.text(title, "the title"),
            **face,
        )


def _checked_story(value: object) -> dict[str, Any]:
    found = checking.record(value, "the story", _FIELDS)
    if found["version"] != STORY_VERSION:
        raise ValueError(
            f"the story has version {found['version']!r}; this widget reads version {STORY_VERSION}"
        )
    most = checking.whole(found["num_draft_tokens"], "num_draft_tokens of the story")
    return {
        "prompt": checking.text(found["prompt"], "the prompt of the story"),
        "num_draft_tokens": most,
        "temperature": checking.amount(found["temperature"], "the temperature of the story"),
        "passes": [
            _checked_pass(each, f"pass {index}", most)
            for index, each in enumerate(
                checking.items(found["passes"], "the passes of the story", at_least=1)
            )
        ],
    }


def _checked_pass(value: object, what: str, most: int) -> dict[str, Any]:
    found = checking.record(value, what, ("drafts", "last"))
    drafts = [
        _checked_draft(each, f"draft {index} of {what}")
        for index, each in enumerate(checking.items(found["drafts"], f"the drafts of {what}"))
    ]
    if len(drafts) > most:
        raise ValueError(f"{what} has {len(drafts)} drafts; num_draft_tokens is {most}")
    kept = [draft["kept"] for draft in drafts]
    if kept != sorted(kept, reverse=True):
        raise ValueError(f"{what} keeps a draft after one that it rejects")
    last = checking.record(found["last"], f"the last token of {what}", ("text", "token", "kind"))
    kind = signed.one_of(last["kind"], f"the kind of the last token of {what}", LAST_KINDS)
    right = "plain" if not drafts else "bonus" if all(kept) else "resampled"
    if kind != right:
        raise ValueError(
            f"the last token of {what} is {kind}; with {sum(kept)} of {len(drafts)} drafts kept "
            f"it must be {right}"
        )
    return {"drafts": drafts, "last": {**_token(last, f"the last token of {what}"), "kind": kind}}


def _checked_draft(value: object, what: str) -> dict[str, Any]:
    found = checking.record(value, what, _DRAFT_FIELDS)
    u = found["u"]
    return {
        **_token(found, what),
        "kept": signed.flag(found["kept"], f"kept of {what}"),
        "p": _probability(found["p"], f"p of {what}"),
        "q": _probability(found["q"], f"q of {what}"),
        "u": None if u is None else signed.share(u, f"u of {what}"),
    }


def _probability(value: object, what: str) -> float:
    """A share of 1; a sum of floats may have rounded it up a little."""
    if checking.is_number(value) and 1 < value < 1 + 1e-6:
        return 1.0
    return signed.share(value, what)


def _token(found: dict[str, Any], what: str) -> dict[str, Any]:
    return {
        "text": checking.text(found["text"], f"the text of {what}"),
        "token": checking.whole(found["token"], f"token of {what}"),
    }
