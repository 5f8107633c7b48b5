"""The waits in each step of a trace, and why: the records that a step writes, and the others.

A step names what waits for a reason of its own. Everything else in the queue waits for one and the
same, which it says once; which requests these are follows from the trace, and is worked out here.
"""

from collections import deque

from nanogpt.trace import Trace, WaitRecord


def wait_reasons(trace: Trace) -> list[tuple[WaitRecord, ...]]:
    """For each step, all that had something to do and got nothing, in the order of arrival."""
    to_come, unfinished = deque(trace.requests), dict[int, None]()
    waits: list[tuple[WaitRecord, ...]] = []
    now = 0
    for step in trace.steps:
        # A step that slept stands behind those that ran meanwhile, which have later numbers.
        now = max(now, step.step)
        while to_come and to_come[0].arrival_step <= now:
            unfinished[to_come.popleft().id] = None
        for request_id in step.aborted:
            del unfinished[request_id]
        own = {wait.request_id: wait for wait in step.waits}
        if step.blocked is not None:
            others = unfinished.keys() - own.keys() - {work.request_id for work in step.work}
            own |= {i: WaitRecord(i, "waiting", step.blocked) for i in others}
        waits.append(tuple(own[i] for i in unfinished if i in own))
        for request_id in step.finished:
            del unfinished[request_id]
    return waits
