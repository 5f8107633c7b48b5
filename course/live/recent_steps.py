"""The newest steps of a run without end, as a trace that the pictures draw.

Older steps are folded into a few numbers per request (`before`), so that a picture can begin in the
middle of a run.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from nanogpt.trace import SCHEMA_VERSION

Step = dict[str, Any]


@dataclass(slots=True)
class Before:
    """A request's token counts before the shown steps. Mutable.

    `held` KV tokens, at most `reached` computed, `lost` of them by preemption or with a worker, and
    `generated` since it was last given to a worker.
    """

    held: int = 0
    reached: int = 0
    lost: int = 0
    generated: int = 0


class RecentSteps:
    """The newest `most` steps of an endless run. Mutable: the steps, and the counts before them."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._steps: deque[Step] = deque()
        self._before: dict[int, Before] = {}

    def add(self, step: Step) -> None:
        """Add the newest step, in place of the oldest."""
        self._steps.append(step)
        if len(self._steps) > self._most:
            self._fold(self._steps.popleft())

    def ids(self) -> set[int]:
        """The requests that computed in these steps, held K/V or lost it."""
        return {
            found
            for step in self._steps
            for found in (
                *(share["request_id"] for share in (*step["work"], *step["kv"])),
                *step["preempted"],
                *step["lost"],
            )
        }

    def trace(
        self, requests: Sequence[Mapping[str, Any]], token_budget: int, max_kv_tokens: int
    ) -> dict[str, Any]:
        """The steps as a trace's JSON, with the waits of only these plain `requests`."""
        first_us = self._steps[0]["start_us"] if self._steps else 0
        ids = {request["id"] for request in requests}
        return {
            "version": SCHEMA_VERSION,
            "clock": {"name": "this machine", "modelled": False},
            "executor": "packed",
            "token_budget": token_budget,
            "max_kv_tokens": max_kv_tokens,
            "error": None,
            "requests": [
                {
                    **request,
                    "arrival_us": first_us,
                    "before": asdict(self._before.get(request["id"], Before())),
                }
                for request in requests
            ],
            "steps": [
                {**step, "waits": [each for each in step["waits"] if each["request_id"] in ids]}
                for step in self._steps
            ],
        }

    def _fold(self, step: Step) -> None:
        book = self._before
        for request_id in (*step["preempted"], *step["lost"]):
            before = book.setdefault(request_id, Before())
            before.lost = before.reached
        for request_id in step["lost"]:
            book[request_id].generated = 0
        for work in step["work"]:
            before = book.setdefault(work["request_id"], Before())
            before.reached = max(before.reached, work["end"])
            before.generated += work["sampled"] is not None
        held = {each["request_id"]: each["kv_tokens"] for each in step["kv"]}
        for request_id, before in book.items():
            before.held = held.get(request_id, 0)
        for request_id in step["finished"]:
            book.pop(request_id, None)
