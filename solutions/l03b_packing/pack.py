"""Exercise 3b.1: whose queries and keys are whose in a packed step, and which see which."""

from collections.abc import Callable
from itertools import accumulate, pairwise
from typing import Any

import torch
from torch import Tensor

from course.checks.fusing import Fusing, Look, diagonal_ideas, mask_forms
from course.checks.lengths import any_lengths
from course.exercise import Exercise, Function, Misconception
from course.task import Task
from solutions.l03b_packing._tokens import Packed, Rule, drawn, keys, mask_by, queries, sees

# --- right answers ------------------------------------------------------------------------------


def pack(
    context_lens: list[int], num_scheduled_tokens: list[int]
) -> tuple[list[int], list[int], Tensor]:
    """Return `(cu_seqlens_q, cu_seqlens_k, mask)` of a packed step, in which nothing is padded."""
    # Padding is gone because nothing has to be rectangular any more: which row is whose is written
    # down in running totals instead. Each request's block is the mask of a chunk behind its past,
    # so its diagonal ends in the bottom right corner: the last query sees all its keys.
    lengths = list(zip(context_lens, num_scheduled_tokens, strict=True))
    cu_seqlens_q = [0, *accumulate(num_scheduled_tokens)]
    cu_seqlens_k = [0, *accumulate(past + new for past, new in lengths)]
    mask = torch.zeros(cu_seqlens_q[-1], cu_seqlens_k[-1], dtype=torch.bool)  # (N, K)
    for i, (past, new) in enumerate(lengths):
        block = torch.ones(new, past + new, dtype=torch.bool).tril(past)  # (T, S) of this request
        mask[cu_seqlens_q[i] : cu_seqlens_q[i + 1], cu_seqlens_k[i] : cu_seqlens_k[i + 1]] = block
    return cu_seqlens_q, cu_seqlens_k, mask


def by_owner(contexts: list[int], scheduled: list[int]) -> Packed:
    query_owner: list[int] = []
    query_place: list[int] = []
    key_owner: list[int] = []
    key_place: list[int] = []
    cu_seqlens_q, cu_seqlens_k = [0], [0]
    for i, new in enumerate(scheduled):
        past = contexts[i]
        query_owner += [i] * new
        query_place += range(past, past + new)
        key_owner += [i] * (past + new)
        key_place += range(past + new)
        cu_seqlens_q.append(len(query_owner))
        cu_seqlens_k.append(len(key_owner))
    mine = torch.tensor(query_owner)[:, None] == torch.tensor(key_owner)  # (N, K)
    not_later = torch.tensor(query_place)[:, None] >= torch.tensor(key_place)  # (N, K)
    return cu_seqlens_q, cu_seqlens_k, mine & not_later


def with_block_diag(contexts: list[int], scheduled: list[int]) -> Packed:
    lengths = list(zip(contexts, scheduled, strict=True))
    ends = range(len(lengths) + 1)
    cu_seqlens_q = [sum(new for _, new in lengths[:i]) for i in ends]
    cu_seqlens_k = [sum(past + new for past, new in lengths[:i]) for i in ends]
    blocks = [torch.ones(new, past + new).tril(past) for past, new in lengths]
    return cu_seqlens_q, cu_seqlens_k, torch.block_diag(*blocks).bool()


# --- wrong ideas --------------------------------------------------------------------------------


def seeing(rule: Rule, keys: Function = keys) -> Function:
    """The right borders, and a mask in which a query sees the keys that the rule says."""
    return lambda *lengths: (*pack(*lengths)[:2], mask_by(rule, queries(*lengths), keys(*lengths)))


def having(**changes: Callable[..., Any]) -> Function:
    """The right answer with one of its three parts made another, out of all three."""
    return lambda *lengths: tuple(
        changes[name](*pack(*lengths)) if name in changes else part
        for name, part in zip(("cu_seqlens_q", "cu_seqlens_k", "mask"), pack(*lengths), strict=True)
    )


def changed(change: Callable[[Tensor], Any]) -> Function:
    """The right answer with its mask made another."""
    return having(mask=lambda q, k, mask: change(mask))


def lengths_of(borders: list[int]) -> list[int]:
    return [end - begin for begin, end in pairwise(borders)]


def adds_to_the_pasts(context_lens: list[int], num_scheduled_tokens: list[int]) -> Any:
    result = pack(context_lens, num_scheduled_tokens)
    for i, new in enumerate(num_scheduled_tokens):
        context_lens[i] += new
    return result


def no_list_of_ints(got: Any) -> str:
    """Which of the two lists of borders is none; "" if both are."""
    for name, borders in zip(("cu_seqlens_q", "cu_seqlens_k"), got[:2], strict=True):
        if type(borders) is not list or any(type(border) is not int for border in borders):
            return f"{name} has to be a list of whole numbers, and this is none."
    return ""


MISCONCEPTIONS = (
    Misconception(
        "not_three",
        "The mask says which keys are whose.",
        "Return three things: `return cu_seqlens_q, cu_seqlens_k, mask`.",
        matches=lambda got, wanted: type(got) is not tuple or len(got) != 3,
        examples=(lambda *lengths: pack(*lengths)[2],),
    ),
    Misconception(
        "not_a_list",
        "How many queries there are is one number.",
        lambda got, wanted: no_list_of_ints(got),
        matches=lambda got, wanted: no_list_of_ints(got) != "",
        examples=(having(cu_seqlens_q=lambda q, k, mask: q[-1]),),
    ),
    Misconception(
        "changed_places",
        "The keys' borders, then the queries'.",
        "The two lists changed places: first `cu_seqlens_q`, the borders of the queries, then "
        "`cu_seqlens_k`.",
        matches=lambda got, wanted: [*got[:2]] == [*wanted[1::-1]] != [*wanted[:2]],
        examples=(lambda *lengths: (*pack(*lengths)[1::-1], pack(*lengths)[2]),),
    ),
    *mask_forms(
        changed,
        Misconception(
            "past_missing",
            "The mask concerns the new tokens: N by N.",
            "The keys are those of the cached tokens too: the mask is (N, K), not (N, N).",
            matches=lambda got, wanted: (
                got[2].shape == (len(wanted[2]), len(wanted[2])) != wanted[2].shape
            ),
            examples=(seeing(sees, keys=queries),),
        ),
        mask_of=lambda value: value[2],
    ),
    Misconception(
        "no_leading_zero",
        "Running totals are what accumulate gives.",
        "Request 0 begins at 0: a list of borders begins with a 0 and has one entry more than "
        "there are requests.",
        having(cu_seqlens_q=lambda q, k, mask: q[1:]),
        same_result=(having(cu_seqlens_k=lambda q, k, mask: k[1:]),),
    ),
    Misconception(
        "not_totals",
        "The lengths say which entries are whose.",
        "These are lengths; a border says where a request begins, behind all those that were laid "
        "down before it.",
        having(cu_seqlens_q=lambda q, k, mask: lengths_of(q)),
        same_result=(having(cu_seqlens_q=lambda q, k, mask: [0, *lengths_of(q)]),),
    ),
    Misconception(
        "queries_have_no_past",
        "The past belongs to its request, so it counts in both lists.",
        "Only new tokens ask in this step: the past has keys but no queries, so it does not count "
        "in cu_seqlens_q.",
        having(cu_seqlens_q=lambda q, k, mask: k),
    ),
    Misconception(
        "only_new",
        "Both lists count the new tokens.",
        "The cached tokens are what the new ones attend to: they have keys as well, and here only "
        "the new ones count.",
        having(cu_seqlens_k=lambda q, k, mask: q),
    ),
    Misconception(
        "leaks",
        "The flat row is one text, and a causal mask is a tril.",
        "The flat row holds several texts, and here a request sees keys of another: a mask that "
        "knows no borders mixes the texts up.",
        changed(lambda mask: torch.ones_like(mask).tril()),
        same_result=(
            changed(lambda mask: torch.ones_like(mask).tril(mask.shape[1] - len(mask))),
            changed(torch.ones_like),
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
    *diagonal_ideas(changed, lambda by: seeing(lambda query, key: sees(query, key, by))),
    Misconception(
        "in_place", "After the step the pasts are longer.", examples=(adds_to_the_pasts,)
    ),
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
        look_at_borders(0, "cu_seqlens_q", "queries"),
        look_at_borders(1, "cu_seqlens_k", "keys"),
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

EXERCISE = Exercise(
    number=1,
    title="Nothing padded",
    minutes=10,
    points=3,
    part="pack",
    task=Task(
        signature="pack(context_lens: list[int], num_scheduled_tokens: list[int]) -> "
        "tuple[list[int], list[int], torch.Tensor]",
        rules=(
            "The new tokens of all B requests stand in one row of N queries, request after "
            "request: `num_scheduled_tokens[i]` of request i (at least 1).",
            "Their keys stand in one row of K, request after request: those of its "
            "`context_lens[i]` cached tokens (0 or more), then those of its new ones.",
            "Returns `(cu_seqlens_q, cu_seqlens_k, mask)`. `cu_seqlens_q` and `cu_seqlens_k` are "
            "lists of B + 1 whole numbers: request i owns the queries from cu_seqlens_q[i] up to, "
            "not including, cu_seqlens_q[i + 1], and the keys from cu_seqlens_k[i] up to, not "
            "including, cu_seqlens_k[i + 1].",
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
    right=(pack, by_owner, with_block_diag),
    misconceptions=MISCONCEPTIONS,
    checks=(
        ("a decode and a chunk", JUDGE.on(([3, 1], [1, 2]), ([2, 1], [1, 1]), ([1, 2], [2, 1]))),
        ("one request alone", JUDGE.on(([3], [2]), ([2], [1]), ([0], [3]))),
        (
            "first chunks, no past at all",
            JUDGE.on(([0, 0], [1, 2]), ([0, 2], [2, 2]), ([1, 0, 2], [1, 1, 1])),
        ),
        ("any mix", JUDGE.on_drawn(lambda rng: any_lengths(rng, 20, most_rows=5))),
    ),
    equivalent_mutants={
        "pack(): lengths = list(zip(context_lens, num_scheduled_tokens, strict={True => False}))": (
            "both are equally long"
        ),
        "with_block_diag(): lengths = list(zip(contexts, scheduled, strict={True => False}))": (
            "both are equally long"
        ),
    },
)
