"""Checks of lesson 3, interleaving."""

import random
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor

from course.checks.comparing import Args, Comparison, Mistake, list_of_ints, tokens
from course.checks.fusing import Fusing, Look, Problem, grid, mask_form
from course.checks.padded_step import FULL, FUTURE, INVERTED, NEW, NOT_ITSELF, ROWS, SPLIT, make_kv
from course.judging import Ask, Check, Failure, Rows, run_checks
from course.registry import Exercise
from course.report import Report

Ints = list[int]


def _lengths(rng: random.Random, rows: int) -> tuple[Ints, Ints]:
    """Lengths of the past and of the new tokens, decodes and first chunks among them."""
    past = [rng.choice((0, rng.randint(1, 6))) for _ in range(rows)]
    return past, [rng.choice((1, rng.randint(1, 4))) for _ in range(rows)]


def _any_lengths(rng: random.Random, count: int, *, most_rows: int = 4) -> list[Args]:
    cases = [_lengths(rng, 1 + i % most_rows) for i in range(count)]
    return sorted(cases, key=lambda case: sum(case[0]) + 2 * sum(case[1]))


# --- fused_rows ------------------------------------------------------------------------------


def _decode_and_first_chunk(ask: Ask, rng: random.Random) -> Failure | None:
    known = [[5, 3, 8], [4, 1, 6, 2]]
    return ROWS.judge(ask, [(known, [2, 0], [1, 3])])


def _decodes(ask: Ask, rng: random.Random) -> Failure | None:
    return ROWS.judge(ask, [([[5, 3, 8], [4, 1]], [2, 1], [1, 1]), ([[7]], [0], [1])])


def _middle_of_a_prompt(ask: Ask, rng: random.Random) -> Failure | None:
    known = [[5, 3, 8], [4, 1, 6, 2, 9]]
    return ROWS.judge(ask, [(known, [2, 2], [1, 2]), (known, [0, 2], [2, 1])])


def _any_rows(ask: Ask, rng: random.Random) -> Failure | None:
    cases: list[Args] = []
    for cursors, num_new in _any_lengths(rng, 20):
        ends = [cursor + n for cursor, n in zip(cursors, num_new, strict=True)]
        known = [tokens(rng, end + rng.choice((0, 0, 2))) for end in ends]
        cases.append((known, cursors, num_new))
    return ROWS.judge(ask, cases)


_ROWS_CHECKS: tuple[tuple[str, Check], ...] = (
    ("a decode beside a first chunk", _decode_and_first_chunk),
    ("decodes alone", _decodes),
    ("a chunk in the middle of a prompt", _middle_of_a_prompt),
    ("any mix", _any_rows),
)


def check_fused_rows(function: Callable[..., Any], *, seed: int = 0) -> Report:
    """Judge an answer to l03.fused_rows."""
    return run_checks("l03.fused_rows", function, _ROWS_CHECKS, seed=seed)


# --- new_mask --------------------------------------------------------------------------------


def _chunk_alone(ask: Ask, rng: random.Random) -> Failure | None:
    return NEW.judge(ask, [([3],), ([1],)])


def _new_beside_a_chunk(ask: Ask, rng: random.Random) -> Failure | None:
    return NEW.judge(ask, [([1, 3],), ([3, 1],)])


def _several_chunks(ask: Ask, rng: random.Random) -> Failure | None:
    return NEW.judge(ask, [([2, 3],), ([3, 1, 2],), ([1, 1],), ([2, 2],)])


def _any_new(ask: Ask, rng: random.Random) -> Failure | None:
    cases: list[Args] = [([rng.randint(1, 5) for _ in range(1 + i % 4)],) for i in range(20)]
    return NEW.judge(ask, sorted(cases, key=lambda case: sum(case[0])))


_NEW_CHECKS: tuple[tuple[str, Check], ...] = (
    ("a chunk alone, nothing padded", _chunk_alone),
    ("a decode beside a chunk", _new_beside_a_chunk),
    ("chunks of unequal length", _several_chunks),
    ("any mix", _any_new),
)


def check_new_mask(function: Callable[..., Any], *, seed: int = 0) -> Report:
    """Judge an answer to l03.new_mask."""
    return run_checks("l03.new_mask", function, _NEW_CHECKS, seed=seed)


# --- full_mask -------------------------------------------------------------------------------


def _nothing_padded(ask: Ask, rng: random.Random) -> Failure | None:
    return FULL.judge(ask, [([3], [2]), ([0], [2]), ([2], [1])])


def _padding_in_the_past(ask: Ask, rng: random.Random) -> Failure | None:
    return FULL.judge(ask, [([1, 2], [2, 2]), ([2, 4], [3, 3]), ([1, 3], [1, 1])])


def _padding_twice(ask: Ask, rng: random.Random) -> Failure | None:
    return FULL.judge(ask, [([3, 1], [1, 2]), ([1, 3], [1, 3]), ([2, 0], [1, 3])])


def _first_chunks(ask: Ask, rng: random.Random) -> Failure | None:
    return FULL.judge(ask, [([0, 0], [1, 2]), ([0, 0, 0], [2, 3, 1]), ([0, 2], [1, 2])])


def _any_full(ask: Ask, rng: random.Random) -> Failure | None:
    return FULL.judge(ask, _any_lengths(rng, 20))


_FULL_CHECKS: tuple[tuple[str, Check], ...] = (
    ("one request, nothing padded", _nothing_padded),
    ("pasts of unequal length", _padding_in_the_past),
    ("a decode beside a chunk", _padding_twice),
    ("first chunks, no past at all", _first_chunks),
    ("any mix", _any_full),
)


def check_full_mask(function: Callable[..., Any], *, seed: int = 0) -> Report:
    """Judge an answer to l03.full_mask."""
    return run_checks("l03.full_mask", function, _FULL_CHECKS, seed=seed)


# --- split_kv --------------------------------------------------------------------------------


def _judge_split(ask: Ask, lengths: Sequence[Args], size: int = 2) -> Failure | None:
    return SPLIT.judge(ask, [(make_kv(past, new, size), past, new) for past, new in lengths])


def _cut_nothing(ask: Ask, rng: random.Random) -> Failure | None:
    return _judge_split(ask, [([2], [1]), ([0], [2]), ([2, 2], [1, 1])], 1)


def _cut_at_two_places(ask: Ask, rng: random.Random) -> Failure | None:
    return _judge_split(ask, [([3, 1], [1, 2]), ([1, 3], [1, 3])])


def _cut_no_past(ask: Ask, rng: random.Random) -> Failure | None:
    return _judge_split(ask, [([2, 0], [1, 2]), ([0, 0], [1, 2]), ([0, 0], [2, 2])])


def _any_cut(ask: Ask, rng: random.Random) -> Failure | None:
    return _judge_split(ask, _any_lengths(rng, 20), rng.randint(2, 5))


_SPLIT_CHECKS: tuple[tuple[str, Check], ...] = (
    ("rows without padding", _cut_nothing),
    ("a decode beside a chunk", _cut_at_two_places),
    ("requests without a past", _cut_no_past),
    ("any mix", _any_cut),
)


def check_split_kv(function: Callable[..., Any], *, seed: int = 0) -> Report:
    """Judge an answer to l03.split_kv."""
    return run_checks("l03.split_kv", function, _SPLIT_CHECKS, seed=seed)


# --- sample_rows -----------------------------------------------------------------------------


def _rows_where(rule: Callable[[int, int, int], bool]) -> Callable[[Ints, Ints, Ints], Ints]:
    """The rows for which the rule says so, given new, cursor, known."""
    return lambda num_new, cursors, num_known: [
        row for row, each in enumerate(zip(num_new, cursors, num_known, strict=True)) if rule(*each)
    ]


_SAMPLE: Comparison[Callable[[Ints, Ints, Ints], Any]] = Comparison(
    reference=_rows_where(lambda new, cursor, known: cursor + new == known),
    mistakes=(
        Mistake(
            "samples_partial",
            "A chunk that ends inside its prompt predicts a token that is known already, the next "
            "one of the prompt: such a row gets no new token.",
            _rows_where(lambda new, cursor, known: True),
        ),
        Mistake(
            "only_decodes",
            "The last chunk of a prompt gets a new token as well, its first: here only rows of "
            "one token do.",
            _rows_where(lambda new, cursor, known: new == 1 and cursor + new == known),
        ),
        Mistake(
            "only_decodes",
            "The last chunk of a prompt gets a new token as well, its first: here only rows of "
            "one token do.",
            _rows_where(lambda new, cursor, known: new == 1),
        ),
        Mistake(
            "one_is_a_decode",
            "A row of one token need not be a decode: if tokens of its prompt are left after it, "
            "the token that it predicts is known.",
            _rows_where(lambda new, cursor, known: new == 1 or cursor + new == known),
        ),
        Mistake(
            "samples_early",
            "With one known token still to come a row gets nothing new: the end is at cursor + "
            "new == known.",
            _rows_where(lambda new, cursor, known: cursor + new >= known - 1),
        ),
        Mistake(
            "off_by_one",
            "A count of computed tokens is compared with the index of the last one: cursor + new "
            "and known are both counts, so they are equal at the end.",
            _rows_where(lambda new, cursor, known: cursor + new == known - 1),
        ),
        Mistake(
            "cursor_alone",
            "The cursor counts what was computed before this step; the num_new[i] tokens of the "
            "step come on top, and here nobody ever gets a token.",
            _rows_where(lambda new, cursor, known: cursor >= known),
        ),
        Mistake(
            "forgets_the_cursor",
            "The first cursors[i] tokens were computed in earlier steps and count as well: the "
            "end is where cursor + new reaches known.",
            _rows_where(lambda new, cursor, known: new == known),
        ),
        Mistake(
            "not_the_first_chunk",
            "A first chunk that holds all that is known, such as a short prompt or a text that "
            "is computed again, is a last chunk too: it gets a token.",
            _rows_where(lambda new, cursor, known: cursor > 0 and cursor + new == known),
        ),
        Mistake(
            "longest",
            "How wide a row is says nothing about its text: what counts is whether it ends with "
            "the last known token.",
            lambda num_new, cursors, num_known: [
                row for row, new in enumerate(num_new) if new == max(num_new)
            ],
        ),
        Mistake(
            "flags",
            "Return the numbers of the rows, such as [0, 2], not a True or False for each.",
            lambda num_new, cursors, num_known: [
                new + cursor == known
                for new, cursor, known in zip(num_new, cursors, num_known, strict=True)
            ],
        ),
        Mistake(
            "from_one",
            "Rows are counted from 0, as everywhere in Python.",
            lambda num_new, cursors, num_known: [
                row + 1 for row, n in enumerate(num_new) if cursors[row] + n == num_known[row]
            ],
        ),
    ),
    idea="A row gets a token when all that its request knows is computed after this step: when "
    "cursor + new equals known.",
    form=list_of_ints,
    evidence=[([1, 3, 2], [9, 4, 4], [10, 7, 9]), ([3, 1], [0, 2], [3, 4])],
)


def _decodes_and_a_piece(ask: Ask, rng: random.Random) -> Failure | None:
    return _SAMPLE.judge(ask, [([1, 1, 8], [21, 14, 0], [22, 15, 30]), ([4], [0], [9])])


def _last_chunks(ask: Ask, rng: random.Random) -> Failure | None:
    return _SAMPLE.judge(ask, [([1, 3], [21, 5], [22, 8]), ([8, 2], [0, 6], [30, 8])])


def _one_token_left(ask: Ask, rng: random.Random) -> Failure | None:
    return _SAMPLE.judge(ask, [([1, 1], [9, 4], [10, 7]), ([1, 3], [5, 4], [6, 8])])


def _whole_texts(ask: Ask, rng: random.Random) -> Failure | None:
    return _SAMPLE.judge(
        ask, [([5, 1], [0, 7], [5, 8]), ([1], [0], [1]), ([9, 9], [0, 0], [9, 12])]
    )


def _any_sampling(ask: Ask, rng: random.Random) -> Failure | None:
    cases: list[Args] = []
    for i in range(25):
        cursors, num_new = _lengths(rng, 1 + i % 5)
        ends = [cursor + new for cursor, new in zip(cursors, num_new, strict=True)]
        cases.append((num_new, cursors, [end + rng.choice((0, 0, 1, 4)) for end in ends]))
    return _SAMPLE.judge(ask, cases)


_SAMPLE_CHECKS: tuple[tuple[str, Check], ...] = (
    ("decodes, and a chunk inside its prompt", _decodes_and_a_piece),
    ("last chunks", _last_chunks),
    ("chunks with one token to go", _one_token_left),
    ("whole texts in one chunk", _whole_texts),
    ("any mix", _any_sampling),
)


def check_sample_rows(function: Callable[..., Any], *, seed: int = 0) -> Report:
    """Judge an answer to l03.sample_rows."""
    return run_checks("l03.sample_rows", function, _SAMPLE_CHECKS, seed=seed)


# --- pack ------------------------------------------------------------------------------------

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
    "The flat row holds several texts, and here a request sees keys of another: True only in the "
    "block of its own queries and its own keys."
)
_NO_ZERO = (
    "Request 0 begins at 0: a list of borders begins with a 0 and has one entry more than there "
    "are requests."
)
_NO_END = "The last border is missing: request B - 1 ends at entry B, the total."
_NOT_TOTALS = (
    "These are the lengths; borders are their running totals, where each request begins when "
    "those before it are laid down."
)


def _cu_look(
    index: int, name: str, lengths: Callable[[Ints, Ints], Ints], mistakes: Sequence[Mistake[_Of]]
) -> Look[_Of]:
    """A look at one of the two lists of borders."""
    return Look(
        matters=lambda value, args: value[index],
        mistakes=(
            Mistake("no_leading_zero", _NO_ZERO, lambda past, new: _totals(lengths(past, new))[1:]),
            Mistake("no_end", _NO_END, lambda past, new: _totals(lengths(past, new))[:-1]),
            Mistake("not_totals", _NOT_TOTALS, lengths),
            Mistake("not_totals", _NOT_TOTALS, lambda past, new: [0, *lengths(past, new)]),
            *mistakes,
        ),
        idea=f"{name}[i + 1] is {name}[i] plus what request i has of its own, and {name}[0] is 0.",
        rows=lambda args, wanted, got: (
            ("expected", f"{name} = {wanted[index]}"),
            ("got", f"{name} = {got[index]}"),
        ),
    )


_CU_Q = _cu_look(
    0,
    "cu_q",
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
    "cu_k",
    _both,
    (
        Mistake(
            "only_past",
            "A new token is a key as well, for itself and for those after it: request i has "
            "past_lens[i] + num_new[i] keys.",
            lambda past_lens, num_new: _totals(past_lens),
        ),
        Mistake(
            "only_new",
            "The cached tokens are what the new ones attend to: request i has past_lens[i] + "
            "num_new[i] keys.",
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
            "A block's diagonal ends in its bottom right corner, since the last query sees all of "
            "its keys: move it to the right by the past.",
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
    idea="A query sees a key when both are of one request and the key is not later in its text.",
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


_PACK = Fusing(
    reference=_reference_pack,
    form=_pack_form,
    looks=(_CU_Q, _CU_K, _STRIP),
    evidence=[([3, 1], [1, 2]), ([1, 2], [3, 1])],
)


def _two_packed(ask: Ask, rng: random.Random) -> Failure | None:
    return _PACK.judge(ask, [([3, 1], [1, 2]), ([2, 1], [1, 1]), ([1, 2], [2, 1])])


def _one_packed(ask: Ask, rng: random.Random) -> Failure | None:
    return _PACK.judge(ask, [([3], [2]), ([2], [1]), ([0], [3])])


def _packed_first_chunks(ask: Ask, rng: random.Random) -> Failure | None:
    return _PACK.judge(ask, [([0, 0], [1, 2]), ([0, 2], [2, 2]), ([1, 0, 2], [1, 1, 1])])


def _any_packed(ask: Ask, rng: random.Random) -> Failure | None:
    return _PACK.judge(ask, _any_lengths(rng, 20, most_rows=3))


_PACK_CHECKS: tuple[tuple[str, Check], ...] = (
    ("a decode and a chunk", _two_packed),
    ("one request alone", _one_packed),
    ("first chunks, no past at all", _packed_first_chunks),
    ("any mix", _any_packed),
)


def check_pack(function: Callable[..., Any], *, seed: int = 0) -> Report:
    """Judge an answer to l03.pack."""
    return run_checks("l03.pack", function, _PACK_CHECKS, seed=seed)


# --- registry --------------------------------------------------------------------------------

EXERCISES = (
    Exercise(
        id="l03.fused_rows",
        lesson="l03_interleaving",
        name="fused_rows",
        title="Rows of unequal length",
        minutes=6,
        points=2,
        part="fused_rows",
        hints=(
            "Is a decode anything else than a chunk of one token? Write down its cursor and the "
            "index of its token.",
            "Row i holds known[i][cursor : cursor + n] at the positions cursor to cursor + n - 1. "
            "How many zeros does it need in front to be as long as the longest?",
            "longest = max(num_new); for each request padding = [0] * (longest - n), then "
            "padding + mine[cursor : cursor + n] and padding + list(range(cursor, cursor + n)).",
        ),
        check=check_fused_rows,
    ),
    Exercise(
        id="l03.new_mask",
        lesson="l03_interleaving",
        name="new_mask",
        title="Who may see whom among the new tokens",
        minutes=6,
        points=2,
        part=None,
        hints=(
            "Draw the row of a decode beside a chunk of 3: two columns of padding, then its token. "
            "What does a causal mask let that token see?",
            "Two conditions hold at once: k is not later than q, and column k is not padding. In "
            "row i the first real column is T - num_new[i].",
            "column = torch.arange(T); causal = column <= column[:, None]; real = column >= (T - "
            "torch.tensor(num_new))[:, None, None]; return causal & real.",
        ),
        check=check_new_mask,
    ),
    Exercise(
        id="l03.full_mask",
        lesson="l03_interleaving",
        name="full_mask",
        title="The whole mask",
        minutes=10,
        points=4,
        part="full_mask",
        hints=(
            "Which columns of the past are padding in row i? And what does the softmax make of a "
            "query that sees nothing?",
            "Side by side: the S columns of the past, where everybody sees what is real (from "
            "column S - past_lens[i] on), and the T new ones as in new_mask. Then give each "
            "padding query something to see.",
            "past = (torch.arange(S) >= (S - torch.tensor(past_lens))[:, None, None]).expand(-1, "
            "T, -1); new = new_mask(num_new) | torch.eye(T, dtype=torch.bool); torch.cat([past, "
            "new], dim=2).",
        ),
        check=check_full_mask,
    ),
    Exercise(
        id="l03.split_kv",
        lesson="l03_interleaving",
        name="split_kv",
        title="Whose keys are whose",
        minutes=6,
        points=2,
        part="split_kv",
        hints=(
            "Draw the columns of a row with a short past and few new tokens. In how many places "
            "does it have padding?",
            "The past ends at column S and the new tokens end at the last one: cut each part by "
            "its own end, then join the two. Try a past of 0 tokens.",
            "For each row: torch.cat([row[S - past : S], row[S + T - new :]]), S being "
            "max(past_lens) and T max(num_new).",
        ),
        check=check_split_kv,
    ),
    Exercise(
        id="l03.sample_rows",
        lesson="l03_interleaving",
        name="sample_rows",
        title="Who gets a token",
        minutes=4,
        points=1,
        part=None,
        hints=(
            "What comes after the last token that a row computes: a token that somebody typed, or "
            "one that nobody knows?",
            "After this step cursors[i] + num_new[i] tokens of request i are computed. Compare "
            "that with what it knows.",
            "[i for i in range(len(num_new)) if cursors[i] + num_new[i] == num_known[i]]",
        ),
        check=check_sample_rows,
    ),
    Exercise(
        id="l03.pack",
        lesson="l03_interleaving",
        name="pack",
        title="Nothing padded",
        minutes=8,
        points=3,
        part="pack",
        hints=(
            "Write the keys of two requests on one line, past and new. Where does the second one "
            "begin, and which cells of the mask are its own?",
            "Borders are running totals that begin with 0: of num_new for the queries, of past + "
            "new for the keys. The mask is False but for a block per request, and that block is "
            "the mask of a chunk behind its past.",
            "Start with mask = torch.zeros(N, K, dtype=torch.bool), then for each i: "
            "mask[cu_q[i] : cu_q[i + 1], cu_k[i] : cu_k[i + 1]] = torch.ones(new, past + new, "
            "dtype=torch.bool).tril(past).",
        ),
        check=check_pack,
    ),
)
