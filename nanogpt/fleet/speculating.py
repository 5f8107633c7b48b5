"""Speculation in the simulation: which drafts are accepted, and when drafting stops.

Whether the draft of a position is accepted is drawn once per request and position, from the
request's own stream: it belongs to the load, whatever the policy drafts and when.
"""

import random
from bisect import bisect_left

from nanogpt.fleet.costs import DRAFT_COST, NUM_DRAFT_TOKENS
from nanogpt.fleet.workload import FleetRequest
from nanogpt.policies.acceptance import expected_tokens

MIN_LEFT_TOKENS = 4
MAX_LOAD = 0.8
MIN_TIME_LEFT_US = 50_000
HIGHEST_PRIORITY = 3
"""The source's gates: a request with fewer tokens left, in a fuller batch, with less time left or a
more urgent priority (its 7 to 9) does not speculate."""

BACKOFF_DRAFTS = 16
"""Drafts to verify before a request's own acceptance counts."""


def may_speculate(left_tokens: int, load: float, time_left_us: int, priority: int) -> bool:
    """The source's gates; `load` is the share of the batch in use, not how full the cache is."""
    return (
        left_tokens >= MIN_LEFT_TOKENS
        and load < MAX_LOAD
        and time_left_us > MIN_TIME_LEFT_US
        and priority >= HIGHEST_PRIORITY
    )


def break_even(num_drafts: int, draft_cost: float) -> float:
    """The acceptance below which drafting makes a request slower: 1 when it never pays.

    There 1 + p + ... + p^K tokens cost 1 + K * draft_cost passes.
    """
    low, high = 0.0, 1.0
    for _ in range(40):
        middle = (low + high) / 2
        if expected_tokens(middle, num_drafts) < 1 + num_drafts * draft_cost:
            low = middle
        else:
            high = middle
    return high


MIN_ACCEPTANCE = break_even(NUM_DRAFT_TOKENS, DRAFT_COST)


class Drafts:
    """One request's speculation: where each of its passes ends. Mutable: how far it has come.

    Below `min_acceptance`, a share of the verified drafts, it stops for good; None: never.
    """

    def __init__(self, request: FleetRequest, seed: int, min_acceptance: float | None) -> None:
        self._rejected = _rejected(request, seed)
        self._min_acceptance = min_acceptance
        # (generated tokens, accepted drafts, verified drafts) before its first pass, after each.
        self._path: list[tuple[int, int, int]] = []
        self._at = 0

    def passes(self, generated: int) -> int:
        """The number of passes in a row that it will speculate; 0 when it has stopped."""
        if not self._path:
            self._path = self._path_from(generated, 0, 0)
        elif self._path[self._at][0] != generated:  # it decoded without drafts in the meantime
            _, accepted, verified = self._path[self._at]
            self._path, self._at = self._path_from(generated, accepted, verified), 0
        return len(self._path) - 1 - self._at

    def advance(self, num_passes: int) -> int:
        """Go on by some of these passes; return the number of generated tokens."""
        self._at += num_passes
        return self._path[self._at][0]

    def _path_from(
        self, generated: int, accepted: int, verified: int
    ) -> list[tuple[int, int, int]]:
        path = [(generated, accepted, verified)]
        end, least = self._rejected[-1], self._min_acceptance
        while end - generated >= MIN_LEFT_TOKENS:
            if least is not None and verified >= BACKOFF_DRAFTS and accepted < least * verified:
                break
            right = self._rejected[bisect_left(self._rejected, generated)] - generated
            kept = min(right, NUM_DRAFT_TOKENS)
            accepted += kept
            verified += min(kept + 1, NUM_DRAFT_TOKENS)
            generated = min(generated + kept + 1, end)
            path.append((generated, accepted, verified))
        return path


def _rejected(request: FleetRequest, seed: int) -> list[int]:
    """The positions whose draft is rejected, and the end of the request."""
    draw = random.Random(f"drafts, seed {seed}, request {request.id}").random
    acceptance, end = request.acceptance, request.max_new_tokens
    return [*[at for at in range(end) if draw() >= acceptance], end]
