"""Lesson 3b, nothing padded: worked answers, other right ones, known wrong ones."""

from collections.abc import Callable
from itertools import accumulate
from typing import Any

import numpy as np
import torch
from torch import Tensor

from solutions.wrong import WrongAnswer


def pack(past_lens: list[int], num_new: list[int]) -> tuple[list[int], list[int], Tensor]:
    """Return `(cu_q, cu_k, mask)`: whose is what in a packed step, where nothing is padded.

    The new tokens of all B requests stand in one row of N queries, request after request. Their
    keys stand in one row of K: for each request those of its `past_lens[i]` cached tokens (0 or
    more), then those of its `num_new[i]` new ones (at least 1).
    Request i owns the queries from cu_q[i] up to, not including, cu_q[i + 1], and the keys from
    cu_k[i] up to, not including, cu_k[i + 1]: two lists of B + 1 whole numbers.
    `mask` is a bool tensor (N, K), True where the query may attend to the key: keys of its own
    request only, and none that comes after it in the text.
    """
    # Padding is gone because nothing has to be rectangular any more: who owns what is written down
    # in running totals instead. Each request's block is the mask of a chunk behind its past, so its
    # diagonal ends in the bottom right corner: the last query sees all its keys.
    cu_q = [0, *accumulate(num_new)]
    cu_k = [0, *accumulate(past + new for past, new in zip(past_lens, num_new, strict=True))]
    mask = torch.zeros(cu_q[-1], cu_k[-1], dtype=torch.bool)  # (N, K)
    for i, (past, new) in enumerate(zip(past_lens, num_new, strict=True)):
        block = torch.ones(new, past + new, dtype=torch.bool).tril(past)  # (T, S) of this request
        mask[cu_q[i] : cu_q[i + 1], cu_k[i] : cu_k[i + 1]] = block
    return cu_q, cu_k, mask


def pack_by_owner(past_lens: list[int], num_new: list[int]) -> tuple[list[int], list[int], Tensor]:
    query_owner: list[int] = []
    query_place: list[int] = []
    key_owner: list[int] = []
    key_place: list[int] = []
    cu_q, cu_k = [0], [0]
    for i, new in enumerate(num_new):
        past = past_lens[i]
        query_owner += [i] * new
        query_place += range(past, past + new)
        key_owner += [i] * (past + new)
        key_place += range(past + new)
        cu_q.append(len(query_owner))
        cu_k.append(len(key_owner))
    mine = torch.tensor(query_owner)[:, None] == torch.tensor(key_owner)  # (N, K)
    not_later = torch.tensor(query_place)[:, None] >= torch.tensor(key_place)  # (N, K)
    return cu_q, cu_k, mine & not_later


def pack_with_block_diag(
    past_lens: list[int], num_new: list[int]
) -> tuple[list[int], list[int], Tensor]:
    blocks = [torch.ones(n, past_lens[i] + n).tril(past_lens[i]) for i, n in enumerate(num_new)]
    cu_q = [sum(num_new[:i]) for i in range(len(num_new) + 1)]
    cu_k = [cu_q[i] + sum(past_lens[:i]) for i in range(len(cu_q))]
    return cu_q, cu_k, torch.block_diag(*blocks).bool()


def pack_line_by_line(
    past_lens: list[int], num_new: list[int]
) -> tuple[list[int], list[int], Tensor]:
    total = sum(past_lens) + sum(num_new)
    cu_q, cu_k = [0], [0]
    lines: list[list[bool]] = []
    for i, new in enumerate(num_new):
        begin, past = cu_k[-1], past_lens[i]
        for t in range(new):
            end = begin + past + t
            lines.append([begin <= key <= end for key in range(total)])
        cu_q.append(cu_q[-1] + new)
        cu_k.append(begin + past + new)
    return cu_q, cu_k, torch.tensor(lines)


def pack_by_borders(
    past_lens: list[int], num_new: list[int]
) -> tuple[list[int], list[int], Tensor]:
    q, k = [0], [0]
    for i, new in enumerate(num_new):
        q.append(q[i] + new)
        k.append(k[i] + past_lens[i] + new)
    query, key = torch.arange(q[-1])[:, None], torch.arange(k[-1])  # (N, 1), (K,)
    mask = torch.zeros(len(query), len(key), dtype=torch.bool)  # (N, K)
    for i in range(len(num_new)):
        last = query - q[i + 1] + k[i + 1]  # (N, 1), the last key that each query may see
        mask |= (query >= q[i]) & (query < q[i + 1]) & (key >= k[i]) & (key <= last)
    return q, k, mask


def pack_with_numpy(past_lens: list[int], num_new: list[int]) -> list[Any]:
    cu_q, cu_k = np.cumsum([0, *num_new]), np.cumsum([0, *np.add(past_lens, num_new)])
    owner = torch.tensor(np.repeat(np.arange(len(num_new)), np.diff(cu_k)))  # (K,)
    key = torch.arange(int(cu_k[-1]))  # (K,)
    last = torch.cat([torch.arange(cu_k[i + 1] - n, cu_k[i + 1]) for i, n in enumerate(num_new)])
    asks = torch.tensor(np.repeat(np.arange(len(num_new)), num_new))  # (N,)
    return [cu_q, cu_k, (owner == asks[:, None]) & (key <= last[:, None])]


def _adds_to_the_pasts(past_lens: list[int], num_new: list[int]) -> Any:
    result = pack(past_lens, num_new)
    for i, new in enumerate(num_new):
        past_lens[i] += new
    return result


def _pack_with(
    *,
    cu_q: Callable[[list[int], list[int]], Any] | None = None,
    cu_k: Callable[[list[int], list[int]], Any] | None = None,
    mask: Callable[[list[int], list[int]], Any] | None = None,
) -> Callable[[list[int], list[int]], Any]:
    """The right answer with one of its parts replaced."""

    def answer(past_lens: list[int], num_new: list[int]) -> Any:
        parts = zip((cu_q, cu_k, mask), pack(past_lens, num_new), strict=True)
        return tuple(part(past_lens, num_new) if part else right for part, right in parts)

    return answer


def _blocks(block: Callable[[int, int], Tensor]) -> Callable[[list[int], list[int]], Tensor]:
    """A mask of blocks, each made from its past and new."""
    return lambda past_lens, num_new: torch.block_diag(
        *[block(past, new) for past, new in zip(past_lens, num_new, strict=True)]
    ).bool()


def _without_past(past: int, new: int) -> Tensor:
    return torch.cat([torch.zeros(new, past), torch.ones(new, new).tril()], dim=1)


def _flat(past_lens: list[int], num_new: list[int]) -> Tensor:
    return torch.ones(sum(num_new), sum(past_lens) + sum(num_new), dtype=torch.bool)


def _sees_earlier_requests(past_lens: list[int], num_new: list[int]) -> Tensor:
    cu_q, cu_k, mask = pack(past_lens, num_new)
    for i in range(len(num_new)):
        mask[cu_q[i] : cu_q[i + 1], : cu_k[i]] = True
    return mask


def _all_pasts_first(past_lens: list[int], num_new: list[int]) -> Tensor:
    pasts = _blocks(lambda past, new: torch.ones(new, past))(past_lens, num_new)
    news = _blocks(lambda past, new: torch.ones(new, new).tril())(past_lens, num_new)
    return torch.cat([pasts, news], dim=1)


RIGHT = {
    "l03.pack": (
        pack,
        pack_by_owner,
        pack_with_block_diag,
        pack_line_by_line,
        pack_by_borders,
        pack_with_numpy,
    ),
}


def _wrong(
    exercise: str, key: str, misconception: str, function: Callable[..., Any], name: str = ""
) -> WrongAnswer:
    return WrongAnswer(
        f"l03.{exercise}", name or key.replace("_", " "), key, misconception, function
    )


WRONG = (
    _wrong(
        "pack",
        "leaks",
        "The flat row is one text, and a causal mask is a tril.",
        _pack_with(mask=lambda past_lens, num_new: _flat(past_lens, num_new).tril()),
        "leaks by tril",
    ),
    _wrong(
        "pack",
        "leaks",
        "The flat row is one text whose past is all pasts.",
        _pack_with(mask=lambda past_lens, num_new: _flat(past_lens, num_new).tril(sum(past_lens))),
        "leaks by shifted tril",
    ),
    _wrong(
        "pack",
        "leaks",
        "Without padding no mask is needed.",
        _pack_with(mask=_flat),
        "leaks everything",
    ),
    _wrong(
        "pack",
        "leaks",
        "Whatever stands earlier in the flat row may be seen.",
        _pack_with(mask=_sees_earlier_requests),
        "leaks earlier requests",
    ),
    _wrong(
        "pack",
        "top_left",
        "A block is a tril.",
        _pack_with(mask=_blocks(lambda past, new: torch.ones(new, past + new).tril())),
    ),
    _wrong(
        "pack",
        "not_causal",
        "A block of ones per request keeps them apart.",
        _pack_with(mask=_blocks(lambda past, new: torch.ones(new, past + new))),
    ),
    _wrong(
        "pack",
        "hides_the_past",
        "A block is as wide as its new tokens.",
        _pack_with(mask=_blocks(_without_past)),
    ),
    _wrong(
        "pack",
        "pasts_first",
        "The cache comes first, then the new tokens.",
        _pack_with(mask=_all_pasts_first),
    ),
    _wrong(
        "pack",
        "not_itself",
        "A token looks at what came before it.",
        _pack_with(mask=_blocks(lambda past, new: torch.ones(new, past + new).tril(past - 1))),
    ),
    _wrong(
        "pack",
        "one_future_key",
        "The diagonal of tril is one too low.",
        _pack_with(mask=_blocks(lambda past, new: torch.ones(new, past + new).tril(past + 1))),
    ),
    _wrong(
        "pack",
        "inverted",
        "True marks what is hidden.",
        _pack_with(mask=lambda past_lens, num_new: ~pack(past_lens, num_new)[2]),
    ),
    _wrong(
        "pack",
        "no_leading_zero",
        "Running totals are what accumulate gives.",
        _pack_with(cu_q=lambda past_lens, num_new: list(accumulate(num_new))),
        "no leading zero in cu q",
    ),
    _wrong(
        "pack",
        "no_leading_zero",
        "Running totals are what accumulate gives, for the keys too.",
        _pack_with(cu_k=lambda past_lens, num_new: pack(past_lens, num_new)[1][1:]),
        "no leading zero in cu k",
    ),
    _wrong("pack", "in_place", "After the step the pasts are longer.", _adds_to_the_pasts),
    _wrong(
        "pack",
        "no_end",
        "A border is where a request begins.",
        _pack_with(cu_q=lambda past_lens, num_new: pack(past_lens, num_new)[0][:-1]),
    ),
    _wrong(
        "pack",
        "not_totals",
        "The lengths say whose is what.",
        _pack_with(cu_q=lambda past_lens, num_new: list(num_new)),
    ),
    _wrong(
        "pack",
        "queries_have_no_past",
        "The past belongs to its request, so it counts in both lists.",
        _pack_with(cu_q=lambda past_lens, num_new: pack(past_lens, num_new)[1]),
    ),
    _wrong(
        "pack",
        "only_past",
        "Keys are what is in the cache.",
        _pack_with(cu_k=lambda past_lens, num_new: [0, *accumulate(past_lens)]),
    ),
    _wrong(
        "pack",
        "only_new",
        "Both lists count the new tokens.",
        _pack_with(cu_k=lambda past_lens, num_new: [0, *accumulate(num_new)]),
    ),
    _wrong(
        "pack",
        "past_missing",
        "The mask concerns the new tokens: N by N.",
        _pack_with(mask=_blocks(lambda past, new: torch.ones(new, new).tril())),
    ),
    _wrong(
        "pack",
        "past_asks",
        "A causal mask is square.",
        _pack_with(mask=_blocks(lambda past, new: torch.ones(past + new, past + new).tril())),
    ),
    _wrong(
        "pack",
        "transposed",
        "Keys are rows, queries are columns.",
        _pack_with(mask=lambda past_lens, num_new: pack(past_lens, num_new)[2].T),
    ),
)

STILL_RIGHT: dict[str, dict[str, str]] = {}
"""Weaker answers that no check can tell from right ones, and why."""
