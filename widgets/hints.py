"""Three hints, each stronger than the one before, shown one at a time on request."""

from collections.abc import Sequence

import traitlets

from widgets import checking
from widgets.picture import Widget


class Hints(Widget):
    """Three rungs: a direction, the idea, almost the answer. `shown` (0 to 3) is synced.

    Hints may hold `code`, **bold** and line breaks.
    Raises: ValueError for another number of hints, an empty one, or `shown` outside 0 to 3.
    """

    key = traitlets.Unicode().tag(sync=True)
    hints = traitlets.List(traitlets.Unicode()).tag(sync=True)
    shown = traitlets.Int().tag(sync=True)

    def __init__(self, key: str, hints: Sequence[str], shown: int = 0) -> None:
        rungs = checking.items(hints, "hints")
        found = [checking.words(hint, "a hint") for hint in rungs]
        if len(found) != 3:
            raise ValueError(f"there are {len(found)} hints; there must be 3")
        if checking.whole(shown, "shown") > 3:
            raise ValueError(f"shown is {shown}; it must be from 0 to 3")
        super().__init__(key=checking.words(key, "the key"), hints=found, shown=shown)
