"""A question that is answered before its answer is shown."""

from collections.abc import Sequence

import traitlets

from widgets.picture import Widget
from widgets.records import Number, Words, read


class Prediction(Widget):
    """Options (or a number field when there are none), Commit or Show me, and then the reveal.

    `answer` is the index of the right option, the right number, or None when there is none to
    match. `question`, `options` and `reveal` may hold `code`, **bold** and line breaks.
    `choice` (an index or a number), `committed` and `shown` (the answer was asked for without a
    choice) are synced: observe them to save them, and pass saved ones back in to restore them.
    Committed or shown, it adds its key to `data-sn-did` of the page's root, where what waits for
    it looks.
    Raises: ValueError for an answer or a choice outside the options.
    """

    key = traitlets.Unicode().tag(sync=True)
    question = traitlets.Unicode().tag(sync=True)
    options = traitlets.List(traitlets.Unicode()).tag(sync=True)
    answer = traitlets.Float(default_value=None, allow_none=True).tag(sync=True)
    reveal = traitlets.Unicode().tag(sync=True)
    choice = traitlets.Float(default_value=None, allow_none=True).tag(sync=True)
    committed = traitlets.Bool().tag(sync=True)
    shown = traitlets.Bool().tag(sync=True)

    def __init__(
        self,
        key: str,
        question: str,
        options: Sequence[str] = (),
        answer: float | None = None,
        reveal: str = "",
        choice: float | None = None,
        committed: bool = False,
        shown: bool = False,
    ) -> None:
        found = read(options, list[Words], "the options")
        if len(found) == 1:
            raise ValueError(f"the only option is {found[0]!r}; a choice needs at least 2")
        if committed and choice is None:
            raise ValueError("the prediction is committed but has no choice")
        super().__init__(
            key=_checked_key(key),
            question=read(question, Words, "the question"),
            options=found,
            answer=_checked_choice(answer, found, "the answer"),
            reveal=read(reveal, str, "the reveal"),
            choice=_checked_choice(choice, found, "the choice"),
            committed=bool(committed),
            shown=bool(shown),
        )


def _checked_key(value: str) -> str:
    """A word: the page's root keeps the keys of what was answered with spaces between them."""
    key: str = read(value, Words, "the key")
    if any(mark.isspace() or mark in "\"'<>&\\" for mark in key):
        raise ValueError(f"the key is {key!r}; it must be a word of letters, digits and dots")
    return key


def _checked_choice(value: float | None, options: list[str], what: str) -> float | None:
    found = read(value, Number | None, what)
    if found is not None and options and found not in range(len(options)):
        raise ValueError(f"{what} is {value!r}; it must be an index from 0 to {len(options) - 1}")
    return found
