"""An upper bound on the SLOs that any schedule of a workload can meet, with its proof.

A schedule is a sequence of forward passes that do not overlap, and a request meets its SLO
when its token i is there by its due time, for each i. Three facts hold of any plan, priority,
admission, victim or resumption, since they follow from a pass's cost and its limits:

1. **Alone.** A request that arrives at `a` and has the machine to itself is given its token i no
   sooner than a + (one pass over what it must prefill) + i * (one pass over one decode). A pass
   costs fixed + max(floor, work) + context, so that two passes over the parts of a chunk cost at
   least what one over the whole does. Others in a pass add to its cost. So a request that would be
   late alone is late always, and each token has a due time of its own, at which it must be there
   for the later ones to be in time. Of a prompt, what other prompts of the workload begin with
   may be found in shared blocks, and the rest is computed for this request, after it arrived.
2. **Shares.** Of each pass, every row can be charged a share, so that the shares are together no
   more than the pass cost: its tokens' work, its context, and of the fixed cost 1/B (a batch has
   at most B rows) or k/M (of M KV tokens its request holds k that no other can share), or a
   mixture. Since max(floor, work) is at least any mixture of the two, so is each mixture a valid
   charge. What a request must be charged up to its token i, by that token's due time and not
   before it arrived, is a job: release, due time, length. Passes do not overlap, so the jobs of
   requests that meet their SLOs fit one after the other, in pieces, on one machine.
3. **Windows.** In a window [A, D], the jobs that are released and due in it need their lengths
   there. Were they all released at A, the fewest of them to be late is what Moore and Hodgson's
   rule gives (1968); likewise, with time turned round, were they all due at D. Both are relaxations
   of the window, so both counts are of requests that must be late. A request's job lies in one of
   two windows that do not overlap at most, so over such windows the counts add up. The best row
   of windows is found as in weighted interval scheduling.

The bound is the number of requests, less those of fact 1, less those of fact 3. Everything is
computed in whole numbers. It is an upper bound and no promise: no schedule may reach it.
"""

import heapq
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product, takewhile

from nanogpt.contest.workloads import Call, Machine, Workload

Window = tuple[int, int]
Job = tuple[int, int, int]
"""Release and due time in microseconds, and length in microseconds times the scale."""

_HALVES = (0, 1, 2)
"""Of a mixture, how many halves are of the first kind."""
_QUARTERS = (0, 1, 2, 3, 4)
"""Up to which of its tokens a request is charged, in quarters of them."""


def bound(workload: Workload) -> int:
    """An upper bound on the number of requests that meet their SLO under any schedule."""
    needs = [_needs(call, workload) for call in workload.calls]
    hopeful = [each for each in needs if each is not None]
    return len(hopeful) - _most_late(_late_in_windows(hopeful, workload.machine))


def _alike(call: Call, others: Sequence[Call]) -> tuple[int, int]:
    """A request's savings by other requests: (prompt tokens found in blocks, K/V shared).

    Two prompts share blocks up to the token in which they differ. Where one begins with all of the
    other, the other's text may go on as the prompt does, as far as can be known beforehand. The
    last prompt token is always computed.
    """
    length, found, shared = len(call.prompt_tokens), 0, 0
    for other in others:
        pairs = zip(call.prompt_tokens, other.prompt_tokens, strict=False)
        alike = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
        other_length = len(other.prompt_tokens)
        found = max(found, length if alike == other_length else alike)
        is_prefix = alike == min(length, other_length)
        shared = max(shared, length + call.max_new_tokens if is_prefix else alike)
    return min(found, length - 1), shared


@dataclass(frozen=True, slots=True)
class _Needs:
    """The needs of a request, whatever the schedule.

    `due_us`: for each token, when it must be there so that all later ones can be in time.
    `num_prefill` prompt tokens are computed; K/V behind the first `num_shareable` is its own.
    """

    call: Call
    num_prefill: int
    num_shareable: int
    due_us: Sequence[int]


def _needs(call: Call, workload: Workload) -> _Needs | None:
    """The needs of a request; None if it would be late alone."""
    step_us, length = workload.machine.cost.step_us, len(call.prompt_tokens)
    shares = workload.machine.block_size is not None
    others = [each for each in workload.calls if shares and each is not call]
    num_found, num_shareable = _alike(call, others)
    due_us = [call.due_us(call.max_new_tokens - 1)]
    for index in range(call.max_new_tokens - 1, 0, -1):
        due_us.append(min(call.due_us(index - 1), due_us[-1] - step_us(0, 1, length + index)))
    due_us.reverse()
    num_prefill = length - num_found
    if call.arrival_us + step_us(num_prefill, 0, length) > due_us[0]:
        return None
    return _Needs(call, num_prefill, num_shareable, due_us)


def _late_in_windows(needs: Sequence[_Needs], machine: Machine) -> dict[Window, int]:
    """The windows in which requests must be late, each with the most that any charge shows."""
    late: dict[Window, int] = defaultdict(int)
    scale = 4 * machine.max_batch_size * machine.max_kv_tokens
    for charge in product(_HALVES, _HALVES, _QUARTERS):
        jobs = [_job(each, machine, *charge) for each in needs]
        for window, number in _late_by_jobs(jobs, scale):
            late[window] = max(late[window], number)
    return {window: number for window, number in late.items() if number}


def _job(needs: _Needs, machine: Machine, by_batch: int, by_floor: int, quarters: int) -> Job:
    """The charge for a request up to one of its tokens, times 4 * B * M.

    Of the fixed cost `by_batch` halves are shared by rows and the others by KV tokens; of the
    larger of floor and work `by_floor` halves are the floor, shared likewise, the others work.
    """
    cost, batch, kv = machine.cost, machine.max_batch_size, machine.max_kv_tokens
    last = quarters * (needs.call.max_new_tokens - 1) // 4
    length = len(needs.call.prompt_tokens)
    shared_us = 2 * int(cost.fixed_us) + by_floor * int(cost.floor_us)
    contexts = range(length, length + last + 1)  # of the prefill's last row, then of each decode
    held = [max(0, context - needs.num_shareable) for context in contexts]  # its own alone
    slots = sum(by_batch * kv + (2 - by_batch) * own * batch for own in held)
    work = (needs.num_prefill * cost.prompt_scale + last) * int(cost.token_us)
    read = sum(contexts) * int(cost.context_us * cost.prompt_scale)
    charge = shared_us * slots + ((2 - by_floor) * work * 2 + read * 4) * batch * kv
    return needs.call.arrival_us, needs.due_us[last], charge


def _late_by_jobs(jobs: Sequence[Job], scale: int) -> Iterator[tuple[Window, int]]:
    """For each window, how many of the jobs in it must be late."""
    for begin in {release for release, _, _ in jobs}:
        inside = [(due, length) for release, due, length in jobs if release >= begin]
        for due, number in _moore_hodgson(inside, begin, scale):
            yield (begin, due), number
    for end in {due for _, due, _ in jobs}:  # the same with time turned round
        inside = [(-release, length) for release, due, length in jobs if due <= end]
        for release, number in _moore_hodgson(inside, -end, scale):
            yield (-release, end), number


def _moore_hodgson(
    jobs: Sequence[tuple[int, int]], begin: int, scale: int
) -> Iterator[tuple[int, int]]:
    """For each due time, how many of the jobs (due, length) due by then must be late.

    All of them can be begun at `begin`. In order of due times: when the jobs so far take too long,
    the longest of them is given up. Source: Moore (1968), Management Science 15(1).
    """
    taken, total, late = list[int](), 0, 0
    for due, length in sorted(jobs):
        heapq.heappush(taken, -length)
        total += length
        if total > (due - begin) * scale:
            total += heapq.heappop(taken)
            late += 1
        yield due, late


def _most_late(late: dict[Window, int]) -> int:
    """The largest sum over windows that do not overlap."""
    ends = sorted({end for _, end in late})
    most = [0]  # most[i]: of windows that end by ends[i - 1]
    by_end: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for (begin, end), number in late.items():
        by_end[end].append((begin, number))
    for end in ends:
        sums = [most[bisect_right(ends, begin)] + number for begin, number in by_end[end]]
        most.append(max(most[-1], *sums))
    return most[-1]
