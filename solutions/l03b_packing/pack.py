"""Exercise 3b.1: where each request begins in a packed step, and which keys its queries see."""

from collections.abc import Callable
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor

from course.checks.fusing import Fusing, Look, any_lengths, diagonal_ideas, mask_forms
from course.exercise import Exercise, Function, Misconception, Task
from solutions.l03b_packing._tokens import Packed, Rule, drawn, keys, mask_by, queries, sees

# --- right answers ------------------------------------------------------------------------------


def pack(
    context_lens: list[int], num_scheduled_tokens: list[int]
) -> tuple[list[int], list[int], Tensor]:
    """Return `(cu_seqlens_q, cu_seqlens_k, mask)` of a step that is packed into one flat row."""
    # Running totals say where each request begins, so no rectangle and no padding is needed. Each
    # request's block is the mask of a chunk after its cached tokens: its diagonal ends in the
    # bottom right corner, because the last query sees all of the request's keys.
    lengths = list(zip(context_lens, num_scheduled_tokens, strict=True))
    cu_seqlens_q = [0, *accumulate(num_scheduled_tokens)]
    cu_seqlens_k = [0, *accumulate(past + new for past, new in lengths)]
    mask = torch.zeros(cu_seqlens_q[-1], cu_seqlens_k[-1], dtype=torch.bool)  # (N, K)
    for i, (past, new) in enumerate(lengths):
        block = torch.ones(new, past + new, dtype=torch.bool).tril(past)  # (T, S) of this request
        mask[cu_seqlens_q[i] : cu_seqlens_q[i + 1], cu_seqlens_k[i] : cu_seqlens_k[i + 1]] = block
    return cu_seqlens_q, cu_seqlens_k, mask


def with_block_diag(contexts: list[int], scheduled: list[int]) -> Packed:
    ends = range(len(scheduled) + 1)
    cu_seqlens_q = [sum(scheduled[:i]) for i in ends]
    cu_seqlens_k = [sum(scheduled[:i]) + sum(contexts[:i]) for i in ends]
    blocks = map(lambda past, new: torch.ones(new, past + new).tril(past), contexts, scheduled)
    return cu_seqlens_q, cu_seqlens_k, torch.block_diag(*blocks).bool()


# --- wrong ideas --------------------------------------------------------------------------------


def seeing(rule: Rule, keys: Function = keys) -> Function:
    """The right totals, and a mask in which a query sees the keys that the rule says."""
    return lambda *lengths: (*pack(*lengths)[:2], mask_by(rule, queries(*lengths), keys(*lengths)))


def having(**changes: Callable[..., Any]) -> Function:
    """The right answer with one of its three parts computed otherwise, from all three."""
    return lambda *lengths: tuple(
        changes[name](*pack(*lengths)) if name in changes else part
        for name, part in zip(("cu_seqlens_q", "cu_seqlens_k", "mask"), pack(*lengths), strict=True)
    )


def changed(change: Callable[[Tensor], Any]) -> Function:
    """The right answer with its mask changed."""
    return having(mask=lambda q, k, mask: change(mask))


def is_totals(value: Any) -> bool:
    return type(value) is list and all(type(each) is int for each in value)


MISCONCEPTIONS = (
    Misconception(
        "not_three",
        "The mask already says which keys belong to which request.",
        "Return three values: `return cu_seqlens_q, cu_seqlens_k, mask`.",
        matches=lambda got, wanted: type(got) is not tuple or len(got) != 3,
        examples=(lambda *lengths: pack(*lengths)[2],),
    ),
    Misconception(
        "not_a_list",
        "The number of queries is one number.",
        "`cu_seqlens_q` and `cu_seqlens_k` are lists of whole numbers.",
        matches=lambda got, wanted: not all(map(is_totals, got[:2])),
        examples=(having(cu_seqlens_q=lambda q, k, mask: q[-1]),),
    ),
    Misconception(
        "changed_places",
        "The totals of the keys come first, then those of the queries.",
        "The two lists are swapped: return `cu_seqlens_q`, the totals of the queries, first.",
        matches=lambda got, wanted: [*got[:2]] == [*wanted[1::-1]] != [*wanted[:2]],
        examples=(lambda *lengths: (*pack(*lengths)[1::-1], pack(*lengths)[2]),),
    ),
    *mask_forms(
        changed,
        Misconception(
            "past_missing",
            "The mask covers the new tokens: N by N.",
            "The new tokens also attend to cached tokens, so the mask is (N, K), not (N, N).",
            matches=lambda got, wanted: (
                got[2].shape == (len(wanted[2]), len(wanted[2])) != wanted[2].shape
            ),
            examples=(seeing(sees, keys=queries),),
        ),
        mask_of=lambda value: value[2],
    ),
    Misconception(
        "no_leading_zero",
        "One running total per request is enough.",
        "Request 0 begins at 0, so each list starts with a 0 and has one entry more than there "
        "are requests.",
        having(cu_seqlens_q=lambda q, k, mask: q[1:]),
        same_result=(having(cu_seqlens_k=lambda q, k, mask: k[1:]),),
    ),
    Misconception(
        "no_end",
        "The list says where each request begins.",
        "The last entry is the total, where the last request ends: each list has one entry more "
        "than there are requests.",
        having(cu_seqlens_q=lambda q, k, mask: q[:-1]),
        same_result=(having(cu_seqlens_k=lambda q, k, mask: k[:-1]),),
    ),
    Misconception(
        "queries_have_no_past",
        "Cached tokens belong to their request, so they count in both lists.",
        "Cached tokens have no queries in this step: they do not count in `cu_seqlens_q`.",
        having(cu_seqlens_q=lambda q, k, mask: k),
    ),
    Misconception(
        "only_new",
        "Both lists count the new tokens.",
        "The new tokens attend to the cached ones too, so cached tokens count in `cu_seqlens_k`.",
        having(cu_seqlens_k=lambda q, k, mask: q),
    ),
    Misconception(
        "leaks",
        "The flat row is one text, so one causal mask covers it.",
        "The flat row holds several texts. Here a request sees keys of another request.",
        changed(lambda mask: torch.ones_like(mask).tril()),
        same_result=(changed(torch.ones_like),),
    ),
    Misconception(
        "top_left",
        "`tril` makes each block.",
        "The last query of a request sees all of its keys: the diagonal ends bottom right.",
        seeing(lambda query, key: sees(query, key, -query.past)),
    ),
    Misconception(
        "not_causal",
        "A block of ones per request separates the requests.",
        "Within a block the mask is causal: the tokens of a chunk are computed together, and a "
        "token must not see a later one.",
        seeing(lambda query, key: query.request == key.request),
    ),
    *diagonal_ideas(changed, lambda by: seeing(lambda query, key: sees(query, key, by))),
)

# --- cases --------------------------------------------------------------------------------------


def look_at_totals(index: int, name: str, what: str) -> Look:
    return Look(
        matters=lambda value, args: value[index],
        mistakes=MISCONCEPTIONS,
        idea=f"`{name}` says where the {what} of each request begin in the flat row. Its last "
        "entry is the end of the row.",
        rows=lambda args, wanted, got: (
            ("expected", f"{name} = {wanted[index]}"),
            ("got", f"{name} = {got[index]}"),
        ),
    )


JUDGE = Fusing(
    pack,
    MISCONCEPTIONS,
    looks=(
        look_at_totals(0, "cu_seqlens_q", "queries"),
        look_at_totals(1, "cu_seqlens_k", "keys"),
        Look(
            matters=lambda value, args: value[2],
            mistakes=MISCONCEPTIONS,
            idea="A query sees the keys of its own request that are not later in the text, and no "
            "other keys.",
            rows=drawn,
        ),
    ),
    evidence=[([3, 1], [1, 2]), ([1, 2], [3, 1])],
)

EXERCISE = Exercise(
    number=1,
    title="A step in one flat row",
    minutes=10,
    points=3,
    task=Task(
        rules=(
            "Request i has `context_lens[i]` cached tokens (0 or more) and computes "
            "`num_scheduled_tokens[i]` new ones (at least 1).",
            "The N queries of the step are the new tokens, request after request. The K keys are "
            "the cached and then the new tokens of request 0, then those of request 1, and so on.",
            "Returns `(cu_seqlens_q, cu_seqlens_k, mask)`. The first two are lists of whole "
            "numbers with one entry more than there are requests: request i has the queries "
            "`cu_seqlens_q[i]` to `cu_seqlens_q[i + 1] - 1` and the keys `cu_seqlens_k[i]` to "
            "`cu_seqlens_k[i + 1] - 1`.",
            "`mask` is a bool tensor (N, K): True where the query may attend to the key, that is, "
            "to a key of its own request that is not later in the text. Do not change the lists.",
        ),
        args=([1, 0], [1, 2]),
        result=(
            [0, 1, 3],
            [0, 2, 4],
            torch.tensor([[1, 1, 0, 0], [0, 0, 1, 0], [0, 0, 1, 1]]).bool(),
        ),
        call="pack(context_lens=[1, 0], num_scheduled_tokens=[1, 2])",
        steps=(
            "Request 0 is a decode: 1 query, 2 keys. Request 1 is a chunk: 2 queries, 2 keys.",
            "Request 1's queries therefore begin at 1 and its keys at 2.",
            "Row 0 of the mask is request 0's query. It sees both of its keys.",
            "Row 1 is the first token of the chunk. It sees only itself.",
        ),
    ),
    hints=(
        "Write the keys of two requests on one line, cached and new. Where does the second request "
        "begin, and which cells of the mask belong to it?",
        "Which lengths does each list add up? The mask is False except for one block per request, "
        "which is the mask of a chunk after its cached tokens.",
        "`itertools.accumulate` makes running totals; put the 0 in front. Fill a mask of False "
        "block by block, with the rows and columns that the totals give. Which diagonal does "
        "`tril` need so that a block's last row is all True?",
    ),
    right=(pack, with_block_diag),
    misconceptions=MISCONCEPTIONS,
    checks=(
        ("a decode and a chunk", JUDGE.on(([3, 1], [1, 2]), ([2, 1], [1, 1]), ([1, 2], [2, 1]))),
        ("a single request", JUDGE.on(([3], [2]), ([2], [1]), ([0], [3]))),
        (
            "first chunks, nothing cached",
            JUDGE.on(([0, 0], [1, 2]), ([0, 2], [2, 2]), ([1, 0, 2], [1, 1, 1])),
        ),
        ("any mix", JUDGE.on_drawn(lambda rng: any_lengths(rng, 20, most_rows=5))),
    ),
    equivalent_mutants={
        "pack(): lengths = list(zip(context_lens, num_scheduled_tokens, strict={True => False}))": (
            "the lists are equally long"
        ),
    },
)
