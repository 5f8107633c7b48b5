"""Judging a packed step: the borders between its requests, and the one mask over all of them.

Every mistake is kept as what an answer that makes it would be.
"""

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor

from course.checks.comparing import Args, Mistake
from course.checks.fusing import Fusing, Look, Problem, grid, mask_form
from course.checks.padded_step import FUTURE, INVERTED, NOT_ITSELF
from course.judging import Rows

Ints = list[int]
Token = tuple[int, int]  # request, position in its text
_Of = Callable[[Ints, Ints], Any]  # past_lens, num_new -> one part of the answer


def _queries(past_lens: Ints, num_new: Ints) -> list[Token]:
    lengths = enumerate(zip(past_lens, num_new, strict=True))
    return [(i, past + t) for i, (past, new) in lengths for t in range(new)]


def _keys(past_lens: Ints, num_new: Ints) -> list[Token]:
    lengths = enumerate(zip(past_lens, num_new, strict=True))
    return [(i, s) for i, (past, new) in lengths for s in range(past + new)]


def _pasts_first(past_lens: Ints, num_new: Ints) -> list[Token]:
    """The keys if all pasts stood in front of all new tokens."""
    pasts = [(i, s) for i, past in enumerate(past_lens) for s in range(past)]
    return pasts + _queries(past_lens, num_new)


def _strip(
    rule: Callable[[Token, Token], bool], keys: Callable[[Ints, Ints], list[Token]] = _keys
) -> Callable[[Ints, Ints], Tensor]:
    """The mask (N, K) in which a query sees the keys that the rule says, given (request, pos)."""
    return lambda past_lens, num_new: torch.tensor(
        [
            [rule(query, key) for key in keys(past_lens, num_new)]
            for query in _queries(past_lens, num_new)
        ]
    )


def _causal(query: Token, key: Token) -> bool:
    return query[0] == key[0] and key[1] <= query[1]


def _one_diagonal(past_lens: Ints, num_new: Ints, shift: int) -> Tensor:
    total = sum(past_lens) + sum(num_new)
    return torch.ones(sum(num_new), total, dtype=torch.bool).tril(shift)


def _top_left(past_lens: Ints, num_new: Ints) -> Tensor:
    blocks = zip(past_lens, num_new, strict=True)
    return torch.block_diag(*[torch.ones(new, past + new).tril() for past, new in blocks]).bool()


def _totals(lengths: Sequence[int]) -> Ints:
    return [0, *accumulate(lengths)]


def _both(past_lens: Ints, num_new: Ints) -> Ints:
    return [past + new for past, new in zip(past_lens, num_new, strict=True)]


def _reference_pack(past_lens: Ints, num_new: Ints) -> tuple[Ints, Ints, Tensor]:
    mask = _strip(_causal)(past_lens, num_new)
    return _totals(num_new), _totals(_both(past_lens, num_new)), mask


_LEAKS = (
    "The flat row holds several texts, and here a request sees keys of another: a mask that knows "
    "no borders mixes the texts up."
)
_NO_ZERO = (
    "Request 0 begins at 0: a list of borders begins with a 0 and has one entry more than there "
    "are requests."
)
_NO_END = "The last border is missing: request B - 1 ends at entry B, the total."
_NOT_TOTALS = (
    "These are lengths; a border says where a request begins, behind all those that were laid down "
    "before it."
)


def _cu_look(
    index: int, lengths: Callable[[Ints, Ints], Ints], mistakes: Sequence[Mistake[_Of]]
) -> Look[_Of]:
    """A look at one of the two lists of borders."""
    name, what = (("cu_q", "queries"), ("cu_k", "keys"))[index]
    return Look(
        matters=lambda value, args: value[index],
        mistakes=(
            Mistake("no_leading_zero", _NO_ZERO, lambda past, new: _totals(lengths(past, new))[1:]),
            Mistake("no_end", _NO_END, lambda past, new: _totals(lengths(past, new))[:-1]),
            Mistake("not_totals", _NOT_TOTALS, lengths),
            Mistake("not_totals", _NOT_TOTALS, lambda past, new: [0, *lengths(past, new)]),
            *mistakes,
        ),
        idea=f"`{name}` says for each request where its {what} begin in their row, and at its end "
        "where the last request's end.",
        rows=lambda args, wanted, got: (
            ("expected", f"{name} = {wanted[index]}"),
            ("got", f"{name} = {got[index]}"),
        ),
    )


_CU_Q = _cu_look(
    0,
    lambda past_lens, num_new: num_new,
    (
        Mistake(
            "queries_have_no_past",
            "Only new tokens ask in this step: the past has keys but no queries, so it does not "
            "count in cu_q.",
            lambda past_lens, num_new: _totals(_both(past_lens, num_new)),
        ),
    ),
)
_CU_K = _cu_look(
    1,
    _both,
    (
        Mistake(
            "only_past",
            "A new token is a key as well, for itself and for those after it; here only the cached "
            "ones count.",
            lambda past_lens, num_new: _totals(past_lens),
        ),
        Mistake(
            "only_new",
            "The cached tokens are what the new ones attend to: they have keys as well, and here "
            "only the new ones count.",
            lambda past_lens, num_new: _totals(num_new),
        ),
    ),
)
_STRIP: Look[_Of] = Look(
    matters=lambda value, args: value[2],
    mistakes=(
        Mistake("leaks", _LEAKS, lambda past, new: _one_diagonal(past, new, 0)),
        Mistake("leaks", _LEAKS, lambda past, new: _one_diagonal(past, new, sum(past))),
        Mistake("leaks", _LEAKS, lambda past, new: _one_diagonal(past, new, sum(past + new))),
        Mistake("leaks", _LEAKS, _strip(lambda q, k: k[0] < q[0] or _causal(q, k))),
        Mistake("leaks", _LEAKS, _strip(lambda query, key: key[1] <= query[1])),
        Mistake(
            "top_left",
            "The last query of a block sees all of its keys, so the diagonal ends in the block's "
            "bottom right corner; here it begins in the top left one.",
            _top_left,
        ),
        Mistake(
            "not_causal",
            "Each block is the mask of a chunk: its tokens come in together, and none may see the "
            "later ones.",
            _strip(lambda query, key: query[0] == key[0]),
        ),
        Mistake(
            "hides_the_past",
            "A request's cached keys stand in its block as well; here the new tokens see none of "
            "them.",
            lambda past_lens, num_new: _strip(
                lambda query, key: _causal(query, key) and key[1] >= past_lens[key[0]]
            )(past_lens, num_new),
        ),
        Mistake(
            "pasts_first",
            "Request after request: the keys of a request stand together, its past and then its "
            "new ones, here all pasts stand in front of all new ones.",
            _strip(_causal, _pasts_first),
        ),
        Mistake("not_itself", NOT_ITSELF, _strip(lambda q, k: q[0] == k[0] and k[1] < q[1])),
        Mistake("one_future_key", FUTURE, _strip(lambda q, k: q[0] == k[0] and k[1] <= q[1] + 1)),
        Mistake("inverted", INVERTED, _strip(lambda query, key: not _causal(query, key))),
    ),
    idea="A query sees the keys of its own request that are not later in the text, and no others.",
    rows=lambda args, wanted, got: _strips(args[0], args[1], wanted[2], got[2]),
)


def _pack_form(value: Any, args: Args) -> Problem | None:
    if type(value) is not tuple or len(value) != 3:
        return "not_three", "Return three things: `return cu_q, cu_k, mask`."
    for name, borders in zip(("cu_q", "cu_k"), value[:2], strict=True):
        if type(borders) is not list or any(type(border) is not int for border in borders):
            return "not_a_list", f"{name} is a list of whole numbers."
    shape = (sum(args[1]), sum(args[0]) + sum(args[1]))
    others = {
        (sum(args[1]),) * 2: (
            "past_missing",
            "The keys are those of the cached tokens too: the mask is (N, K), not (N, N).",
        ),
        (shape[1],) * 2: (
            "past_asks",
            "Only new tokens ask in this step: the mask is (N, K), not (K, K).",
        ),
        shape[::-1]: ("transposed", "Rows are queries and columns are keys: (N, K), not (K, N)."),
    }
    return mask_form(value[2], shape, others)


def _strips(past_lens: Ints, num_new: Ints, wanted: Tensor, got: Tensor) -> Rows:
    """Both masks as grids, with bars and rules between the requests."""
    bars = set(_totals(_both(past_lens, num_new))[1:-1])
    rules = frozenset(_totals(num_new)[1:-1])
    keys = [str(position) for _, position in _keys(past_lens, num_new)]
    queries = [str(position) for _, position in _queries(past_lens, num_new)]

    def drawn(mask: Tensor) -> str:
        cells = [["1" if cell else "." for cell in line] for line in mask.tolist()]
        return grid(cells, keys, queries, bars, rules)

    return (
        ("expected", drawn(wanted)),
        ("got", drawn(got)),
        ("drawn", "a line per query, a column per key, numbers are positions in each text"),
    )


PACK = Fusing(
    reference=_reference_pack,
    form=_pack_form,
    looks=(_CU_Q, _CU_K, _STRIP),
    evidence=[([3, 1], [1, 2]), ([1, 2], [3, 1])],
)
