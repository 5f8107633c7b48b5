"""Parts of another person as functions: they run where a grader's answers do, and are asked there.

Needs Linux. The engine, the clock and the score stay on this side.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from typing import Any

from course.answering import LostError
from course.grading.isolation.channel import TooSlowError
from course.grading.isolation.remote import There, load
from course.grading.isolation.zygote import Zygote
from nanogpt.validate import PartError

_CALL_S = 1.0
_WALL_S = 4.0


@contextmanager
def contained(zygote: Zygote, texts: Mapping[str, str]) -> Generator[dict[str, Callable[..., Any]]]:
    """The parts of these texts, in a process of their own that ends afterwards.

    Raises: PartError when a text does not define its part; JailError.
    """
    channel = zygote.start()
    try:
        yield {part: _function(load(channel, texts[part], [part]), part) for part in texts}
    except LostError as lost:
        raise PartError(f"reading the parts {lost.words}") from None
    except TooSlowError as slow:
        raise PartError(f"reading the parts took {slow.cpu_s:.0f} s and was stopped") from None
    finally:
        channel.end()


def _function(loaded: Any, part: str) -> Callable[..., Any]:
    there: There | None = loaded.answers.get(part)
    if there is None:
        raise PartError(f"`{part}` cannot be had: {' '.join(loaded.problems[part])}")

    def ask(*args: Any) -> Any:
        called = there.call(args, limit_s=_CALL_S, wall_s=_WALL_S, seed=0)
        if called.timed_out:
            raise PartError(f"took longer than {_CALL_S:g} s of computing")
        if called.error is not None:
            raise PartError(called.error.told)
        return called.value

    return ask
