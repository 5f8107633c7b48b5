"""Who waits in each step of a trace: a step names those with a reason of their own, and no others.

All others in the queue wait because of the step's `blocked`. The pictures draw every request in
every step, so these are filled in here, at their edge; in a trace there would be no end of them.
"""

from collections import deque
from collections.abc import Sequence
from typing import Any

Record = dict[str, Any]


def with_all_waits(requests: Sequence[Record], steps: Sequence[Record]) -> list[Record]:
    """A trace's steps, each with everything that waited in it, in the order of arrival."""
    to_come, unfinished = deque(requests), dict[int, None]()
    found: list[Record] = []
    now = 0
    for step in steps:
        # A step that slept stands behind those that ran meanwhile, which have later numbers.
        now = max(now, step["step"])
        while to_come and to_come[0]["arrival_step"] <= now:
            unfinished[to_come.popleft()["id"]] = None
        for request_id in step.get("given_up", ()):
            unfinished.pop(request_id, None)
        own: dict[int, Record] = {wait["request_id"]: wait for wait in step["waits"]}
        reason = step.get("blocked")
        if reason is not None:
            others = unfinished.keys() - own - {work["request_id"] for work in step["work"]}
            own |= {i: {"request_id": i, "status": "waiting", "reason": reason} for i in others}
        found.append({**step, "waits": [own[i] for i in unfinished if i in own]})
        for request_id in step["finished"]:
            unfinished.pop(request_id, None)
    return found
