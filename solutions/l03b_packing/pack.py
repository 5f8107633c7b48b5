"""Exercise 3b.1: whose queries and keys are whose in a packed step, and which see which."""

from collections.abc import Callable
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor

from course.checks.fusing import Fusing, Look, diagonal_ideas, mask_forms
from course.checks.lengths import any_lengths
from course.exercise import Exercise, Function, Misconception
from course.task import Task
from solutions.l03b_packing._tokens import (
    Packed,
    Rule,
    drawn,
    keys,
    mask_by,
    pasts_first,
    queries,
    sees,
)

# --- right answers ------------------------------------------------------------------------------


def pack(past_lens: list[int], num_new: list[int]) -> tuple[list[int], list[int], Tensor]:
    """Return `(cu_q, cu_k, mask)`: whose is what in a packed step, where nothing is padded."""
    # Padding is gone because nothing has to be rectangular any more: which row is whose is written
    # down in running totals instead. Each request's block is the mask of a chunk behind its past,
    # so its diagonal ends in the bottom right corner: the last query sees all its keys.
    cu_q = [0, *accumulate(num_new)]
    cu_k = [0, *accumulate(past + new for past, new in zip(past_lens, num_new, strict=True))]
    mask = torch.zeros(cu_q[-1], cu_k[-1], dtype=torch.bool)  # (N, K)
    for i, (past, new) in enumerate(zip(past_lens, num_new, strict=True)):
        block = torch.ones(new, past + new, dtype=torch.bool).tril(past)  # (T, S) of this request
        mask[cu_q[i] : cu_q[i + 1], cu_k[i] : cu_k[i + 1]] = block
    return cu_q, cu_k, mask


def by_owner(past_lens: list[int], num_new: list[int]) -> Packed:
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


def with_block_diag(past_lens: list[int], num_new: list[int]) -> Packed:
    blocks = [torch.ones(n, past_lens[i] + n).tril(past_lens[i]) for i, n in enumerate(num_new)]
    cu_q = [sum(num_new[:i]) for i in range(len(num_new) + 1)]
    cu_k = [cu_q[i] + sum(past_lens[:i]) for i in range(len(cu_q))]
    return cu_q, cu_k, torch.block_diag(*blocks).bool()


def line_by_line(past_lens: list[int], num_new: list[int]) -> Packed:
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


def by_borders(past_lens: list[int], num_new: list[int]) -> Packed:
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


def with_numpy(past_lens: list[int], num_new: list[int]) -> list[Any]:
    cu_q, cu_k = np.cumsum([0, *num_new]), np.cumsum([0, *np.add(past_lens, num_new)])
    owner = torch.tensor(np.repeat(np.arange(len(num_new)), np.diff(cu_k)))  # (K,)
    key = torch.arange(int(cu_k[-1]))  # (K,)
    last = torch.cat([torch.arange(cu_k[i + 1] - n, cu_k[i + 1]) for i, n in enumerate(num_new)])
    asks = torch.tensor(np.repeat(np.arange(len(num_new)), num_new))  # (N,)
    return [cu_q, cu_k, (owner == asks[:, None]) & (key <= last[:, None])]


# --- wrong ideas --------------------------------------------------------------------------------


def seeing(rule: Rule, keys: Function = keys) -> Function:
    """The right borders, and a mask in which a query sees the keys that the rule says."""
    return lambda *lengths: (*pack(*lengths)[:2], mask_by(rule, queries(*lengths), keys(*lengths)))


def having(**changes: Callable[..., Any]) -> Function:
    """The right answer with its cu_q, its cu_k or its mask made another, out of all three."""
    return lambda *lengths: tuple(
        changes[name](*pack(*lengths)) if name in changes else part
        for name, part in zip(("cu_q", "cu_k", "mask"), pack(*lengths), strict=True)
    )


def changed(change: Callable[[Tensor], Any]) -> Function:
    """The right answer with its mask made another."""
    return having(mask=lambda q, k, mask: change(mask))


def lengths_of(borders: list[int]) -> list[int]:
    return [end - begin for begin, end in pairwise(borders)]


def adds_to_the_pasts(past_lens: list[int], num_new: list[int]) -> Any:
    result = pack(past_lens, num_new)
    for i, new in enumerate(num_new):
        past_lens[i] += new
    return result


def no_list_of_ints(got: Any) -> str:
    """Which of the two lists of borders is none; "" if both are."""
    for name, borders in zip(("cu_q", "cu_k"), got[:2], strict=True):
        if type(borders) is not list or any(type(border) is not int for border in borders):
            return f"{name} has to be a list of whole numbers, and this is none."
    return ""


def of_shape(
    key: str, belief: str, idea: str, shape: Callable[[int, int], tuple[int, int]], way: Function
) -> Misconception:
    """One that the mask's shape tells of, where (N, K) is right."""
    return Misconception(
        key,
        belief,
        idea,
        form=lambda got, wanted: got[2].shape == shape(*wanted[2].shape) != wanted[2].shape,
        also=(way,),
    )


MISCONCEPTIONS = (
    Misconception(
        "not_three",
        "The mask says whose is what.",
        "Return three things: `return cu_q, cu_k, mask`.",
        form=lambda got, wanted: type(got) is not tuple or len(got) != 3,
        also=(lambda *lengths: pack(*lengths)[2],),
    ),
    Misconception(
        "not_a_list",
        "How many queries there are is one number.",
        lambda got, wanted: no_list_of_ints(got),
        form=lambda got, wanted: no_list_of_ints(got) != "",
        also=(having(cu_q=lambda q, k, mask: q[-1]),),
    ),
    Misconception(
        "changed_places",
        "The keys' borders, then the queries'.",
        "The two lists changed places: first `cu_q`, the borders of the queries, then `cu_k`.",
        form=lambda got, wanted: [*got[:2]] == [*wanted[1::-1]] != [*wanted[:2]],
        also=(lambda *lengths: (*pack(*lengths)[1::-1], pack(*lengths)[2]),),
    ),
    *mask_forms(
        changed,
        of_shape(
            "past_missing",
            "The mask concerns the new tokens: N by N.",
            "The keys are those of the cached tokens too: the mask is (N, K), not (N, N).",
            lambda n, k: (n, n),
            seeing(sees, keys=queries),
        ),
        of_shape(
            "past_asks",
            "A causal mask is square.",
            "Only new tokens ask in this step: the mask is (N, K), not (K, K).",
            lambda n, k: (k, k),
            lambda *args: (*pack(*args)[:2], mask_by(sees, keys(*args), keys(*args))),
        ),
        of_shape(
            "transposed",
            "Keys are rows, queries are columns.",
            "Rows are queries and columns are keys: (N, K), not (K, N).",
            lambda n, k: (k, n),
            changed(lambda mask: mask.T),
        ),
        mask_of=lambda value: value[2],
    ),
    Misconception(
        "no_leading_zero",
        "Running totals are what accumulate gives.",
        "Request 0 begins at 0: a list of borders begins with a 0 and has one entry more than "
        "there are requests.",
        having(cu_q=lambda q, k, mask: q[1:]),
        alike=(having(cu_k=lambda q, k, mask: k[1:]),),
    ),
    Misconception(
        "no_end",
        "A border is where a request begins.",
        "The last border is missing: request B - 1 ends at entry B, the total.",
        having(cu_q=lambda q, k, mask: q[:-1]),
        alike=(having(cu_k=lambda q, k, mask: k[:-1]),),
    ),
    Misconception(
        "not_totals",
        "The lengths say whose is what.",
        "These are lengths; a border says where a request begins, behind all those that were laid "
        "down before it.",
        having(cu_q=lambda q, k, mask: lengths_of(q)),
        alike=(
            having(cu_q=lambda q, k, mask: [0, *lengths_of(q)]),
            having(cu_k=lambda q, k, mask: lengths_of(k)),
            having(cu_k=lambda q, k, mask: [0, *lengths_of(k)]),
        ),
    ),
    Misconception(
        "queries_have_no_past",
        "The past belongs to its request, so it counts in both lists.",
        "Only new tokens ask in this step: the past has keys but no queries, so it does not count "
        "in cu_q.",
        having(cu_q=lambda q, k, mask: k),
    ),
    Misconception(
        "only_past",
        "Keys are what is in the cache.",
        "A new token is a key as well, for itself and for those after it; here only the cached "
        "ones count.",
        having(
            cu_k=lambda q, k, mask: [all_keys - new for new, all_keys in zip(q, k, strict=True)]
        ),
    ),
    Misconception(
        "only_new",
        "Both lists count the new tokens.",
        "The cached tokens are what the new ones attend to: they have keys as well, and here only "
        "the new ones count.",
        having(cu_k=lambda q, k, mask: q),
    ),
    Misconception(
        "leaks",
        "The flat row is one text, and a causal mask is a tril.",
        "The flat row holds several texts, and here a request sees keys of another: a mask that "
        "knows no borders mixes the texts up.",
        changed(lambda mask: torch.ones_like(mask).tril()),
        alike=(
            changed(lambda mask: torch.ones_like(mask).tril(mask.shape[1] - len(mask))),
            changed(torch.ones_like),
            seeing(lambda query, key: key.request < query.request or sees(query, key)),
            seeing(lambda query, key: key.position <= query.position),
        ),
    ),
    Misconception(
        "top_left",
        "A block is a tril.",
        "The last query of a block sees all of its keys, so the diagonal ends in the block's "
        "bottom right corner; here it begins in the top left one.",
        seeing(lambda query, key: sees(query, key, -query.past)),
    ),
    Misconception(
        "not_causal",
        "A block of ones per request keeps them apart.",
        "Each block is the mask of a chunk: its tokens come in together, and none may see the "
        "later ones.",
        seeing(lambda query, key: query.request == key.request),
    ),
    Misconception(
        "hides_the_past",
        "A block is as wide as its new tokens.",
        "A request's cached keys stand in its block as well; here the new tokens see none of them.",
        seeing(lambda query, key: sees(query, key) and key.position >= key.past),
    ),
    Misconception(
        "pasts_first",
        "The cache comes first, then the new tokens.",
        "Request after request: the keys of a request stand together, its past and then its new "
        "ones, here all pasts stand in front of all new ones.",
        seeing(sees, keys=pasts_first),
    ),
    *diagonal_ideas(changed, lambda by: seeing(lambda query, key: sees(query, key, by))),
    Misconception("in_place", "After the step the pasts are longer.", also=(adds_to_the_pasts,)),
)

# --- cases --------------------------------------------------------------------------------------


def look_at_borders(index: int, name: str, what: str) -> Look:
    return Look(
        matters=lambda value, args: value[index],
        mistakes=MISCONCEPTIONS,
        idea=f"`{name}` says for each request where its {what} begin in their row, and at its end "
        "where the last request's end.",
        rows=lambda args, wanted, got: (
            ("expected", f"{name} = {wanted[index]}"),
            ("got", f"{name} = {got[index]}"),
        ),
    )


JUDGE = Fusing(
    pack,
    MISCONCEPTIONS,
    looks=(
        look_at_borders(0, "cu_q", "queries"),
        look_at_borders(1, "cu_k", "keys"),
        Look(
            matters=lambda value, args: value[2],
            mistakes=MISCONCEPTIONS,
            idea="A query sees the keys of its own request that are not later in the text, and no "
            "others.",
            rows=drawn,
        ),
    ),
    evidence=[([3, 1], [1, 2]), ([1, 2], [3, 1])],
)
EQUAL_LENGTHS = "all are equally long"

EXERCISE = Exercise(
    number=1,
    title="Nothing padded",
    minutes=10,
    points=3,
    part="pack",
    task=Task(
        signature="pack(past_lens: list[int], num_new: list[int]) -> "
        "tuple[list[int], list[int], torch.Tensor]",
        rules=(
            "The new tokens of all B requests stand in one row of N queries, request after "
            "request: `num_new[i]` of request i (at least 1).",
            "Their keys stand in one row of K, request after request: those of its `past_lens[i]` "
            "cached tokens (0 or more), then those of its new ones.",
            "Returns `(cu_q, cu_k, mask)`. `cu_q` and `cu_k` are lists of B + 1 whole numbers: "
            "request i owns the queries from cu_q[i] up to, not including, cu_q[i + 1], and the "
            "keys from cu_k[i] up to, not including, cu_k[i + 1].",
            "`mask` is a bool tensor (N, K): True where the query may attend to the key, one of "
            "its own request that does not come after it in the text.",
        ),
        args=([1, 0], [1, 2]),
        result=(
            [0, 1, 3],
            [0, 2, 4],
            torch.tensor([[1, 1, 0, 0], [0, 0, 1, 0], [0, 0, 1, 1]]).bool(),
        ),
    ),
    hints=(
        "Write the keys of two requests on one line, past and new. Where does the second one "
        "begin, and which cells of the mask are its own?",
        "Borders are running totals: of what for the queries, and of what for the keys? The mask "
        "is False but for a block per request, and that block is the mask of a chunk behind its "
        "past.",
        "itertools.accumulate makes the running totals; mind the entry in front. Fill a mask of "
        "False block by block: the borders say which rows and columns are request i's. What does "
        "`tril` have to know for a block's last row to be all True?",
    ),
    right=(pack, by_owner, with_block_diag, line_by_line, by_borders, with_numpy),
    misconceptions=MISCONCEPTIONS,
    checks=(
        (
            "a decode and a chunk",
            JUDGE.on(([3, 1], [1, 2]), ([2, 1], [1, 1]), ([1, 2], [2, 1])),
        ),
        ("one request alone", JUDGE.on(([3], [2]), ([2], [1]), ([0], [3]))),
        (
            "first chunks, no past at all",
            JUDGE.on(([0, 0], [1, 2]), ([0, 2], [2, 2]), ([1, 0, 2], [1, 1, 1])),
        ),
        ("any mix", JUDGE.on_drawn(lambda rng: any_lengths(rng, 20, most_rows=5))),
    ),
    still_right={
        "pack(): for i, (past, new) in enumerate(zip(past_lens, num_new, strict={True => "
        "False})):": EQUAL_LENGTHS,
        "pack(): cu_k = [0, *accumulate((past + new for past, new in zip(past_lens, num_new, "
        "strict={True => False})))]": EQUAL_LENGTHS,
    },
)
