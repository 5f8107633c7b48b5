"""Whose work a picture shows: the learner's, or the reference's until there is any."""

from collections.abc import Sequence

from widgets.records import Words, read

YOURS = "yours"
REFERENCE = "the reference"


def whose(yours: bool) -> str:
    """The name of what stands where the learner's goes: "yours" once its function is in it."""
    return YOURS if yours else f"{REFERENCE} (yours is not written yet)"


def compared_names(names: Sequence[str] | None, yours: bool) -> list[str]:
    """The names of a comparison's two sides; one name where the second would repeat the first.

    `names` are two of the author's own. Without them the upper side is the learner's if `yours`,
    and otherwise the reference, which is not compared with itself.
    Raises: ValueError for other than two names, or for names beside `yours`.
    """
    if names is None:
        return [YOURS, REFERENCE] if yours else [whose(yours)]
    if yours:
        raise ValueError("names are given, so yours must be False; name the learner's side yours")
    return list(read(names, tuple[Words, Words], "the names"))
