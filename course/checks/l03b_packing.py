"""Checks of lesson 3b, nothing padded."""

import random
from collections.abc import Callable
from typing import Any

import torch

from course.checks.lengths import any_lengths
from course.checks.packing import PACK
from course.judging import Ask, Check, Failure, run_checks
from course.registry import Exercise
from course.report import Report
from course.task import Task


def _two_packed(ask: Ask, rng: random.Random) -> Failure | None:
    return PACK.judge(ask, [([3, 1], [1, 2]), ([2, 1], [1, 1]), ([1, 2], [2, 1])])


def _one_packed(ask: Ask, rng: random.Random) -> Failure | None:
    return PACK.judge(ask, [([3], [2]), ([2], [1]), ([0], [3])])


def _packed_first_chunks(ask: Ask, rng: random.Random) -> Failure | None:
    return PACK.judge(ask, [([0, 0], [1, 2]), ([0, 2], [2, 2]), ([1, 0, 2], [1, 1, 1])])


def _any_packed(ask: Ask, rng: random.Random) -> Failure | None:
    return PACK.judge(ask, any_lengths(rng, 20, most_rows=3))


_PACK_CHECKS: tuple[tuple[str, Check], ...] = (
    ("a decode and a chunk", _two_packed),
    ("one request alone", _one_packed),
    ("first chunks, no past at all", _packed_first_chunks),
    ("any mix", _any_packed),
)


def check_pack(function: Callable[..., Any], *, seed: int = 0) -> Report:
    """Judge an answer to l03.pack."""
    return run_checks("l03.pack", function, _PACK_CHECKS, seed=seed)


EXERCISES = (
    Exercise(
        id="l03.pack",
        lesson="l03b_packing",
        name="pack",
        title="Nothing padded",
        minutes=10,
        points=3,
        part="pack",
        hints=(
            "Write the keys of two requests on one line, past and new. Where does the second one "
            "begin, and which cells of the mask are its own?",
            "Borders are running totals: of what for the queries, and of what for the keys? The "
            "mask is False but for a block per request, and that block is the mask of a chunk "
            "behind its past.",
            "itertools.accumulate makes the running totals; mind the entry in front. Fill a mask "
            "of False block by block: the borders say which rows and columns are request i's. "
            "What does `tril` have to know for a block's last row to be all True?",
        ),
        check=check_pack,
        task=Task(
            signature="pack(past_lens: list[int], num_new: list[int]) -> "
            "tuple[list[int], list[int], torch.Tensor]",
            rules=(
                "The new tokens of all B requests stand in one row of N queries, request after "
                "request: `num_new[i]` of request i (at least 1).",
                "Their keys stand in one row of K, request after request: those of its "
                "`past_lens[i]` cached tokens (0 or more), then those of its new ones.",
                "Returns `(cu_q, cu_k, mask)`. `cu_q` and `cu_k` are lists of B + 1 whole "
                "numbers: request i owns the queries from cu_q[i] up to, not including, "
                "cu_q[i + 1], and the keys from cu_k[i] up to, not including, cu_k[i + 1].",
                "`mask` is a bool tensor (N, K): True where the query may attend to the key, one "
                "of its own request that does not come after it in the text.",
            ),
            args=([1, 0], [1, 2]),
            result=(
                [0, 1, 3],
                [0, 2, 4],
                torch.tensor([[1, 1, 0, 0], [0, 0, 1, 0], [0, 0, 1, 1]]).bool(),
            ),
        ),
    ),
)
