"""Running a lesson's workload so that a failing part ends in a picture, not in a traceback."""

from collections.abc import Callable
from typing import TypeVar

from course.known_run import KnownRun
from course.observed_call import Shown
from nanogpt.engine import Arrivals, Engine
from nanogpt.parts import Parts
from nanogpt.parts.limits import run_watched
from nanogpt.trace import Trace
from nanogpt.validate import PartError

Value = TypeVar("Value")


def replay(engine: Engine, arrivals: Arrivals, max_steps: int | None = None) -> Trace:
    """Run `arrivals` on `engine`; when a part or a request fails, the trace says so at its end.

    The steps up to the failure are kept, so that a timeline can show what led to it. `max_steps`
    ends a run that would go on for ever.
    """
    try:
        return run_shown(lambda: engine.run(arrivals, max_steps))
    except (PartError, ValueError) as error:
        return engine.trace(error=str(error))


def replays(
    engine: Callable[[Parts], Engine],
    arrivals: Callable[[], Arrivals],
    max_steps: int | None = None,
) -> KnownRun[Parts, Trace]:
    """`replay` of fresh requests on an engine with the parts it is called with.

    It computes only where they answer otherwise than the reference's.
    """
    return KnownRun(lambda parts: replay(engine(parts), arrivals(), max_steps), Parts())


def run_shown(run: Callable[[], Value]) -> Value:
    """A run with a learner's parts, `run_watched`; what they print is shown, up to a limit."""

    def within() -> Value:
        with Shown():
            return run()

    return run_watched(within)
