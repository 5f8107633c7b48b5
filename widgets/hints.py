"""Three hints, each stronger than the one before, shown one at a time on request."""

from collections.abc import Sequence
from typing import Annotated

import traitlets
from msgspec import Meta

from widgets.picture import Widget
from widgets.records import Words, read


class Hints(Widget):
    """Three rungs: a direction, the idea, almost the answer. `shown` (0 to 3) is synced.

    Hints may hold `code`, **bold** and line breaks.
    Raises: ValueError for another number of hints, an empty one, or `shown` outside 0 to 3.
    """

    key = traitlets.Unicode().tag(sync=True)
    hints = traitlets.List(traitlets.Unicode()).tag(sync=True)
    shown = traitlets.Int().tag(sync=True)

    def __init__(self, key: str, hints: Sequence[str], shown: int = 0) -> None:
        super().__init__(
            key=read(key, Words, "the key"),
            hints=list(read(hints, tuple[Words, Words, Words], "the hints")),
            shown=read(shown, Annotated[int, Meta(ge=0, le=3)], "shown"),
        )
