"""On how many generated cases a property is tried: said here, so that a quick run tries fewer."""

import os

from hypothesis import settings

QUICK = "SERVING_NANOGPT_QUICK"


def examples(number: int) -> settings:
    """Try so many cases, the same everywhere and on no clock; in a quick run an eighth of them."""
    number = max(4, number // 8) if os.environ.get(QUICK) else number
    return settings(max_examples=number, deadline=None, derandomize=True, database=None)
