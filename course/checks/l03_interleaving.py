"""Checks of lesson 3, interleaving."""

import random
from collections.abc import Callable, Sequence
from typing import Any

import torch

from course.checks.comparing import Args
from course.checks.lengths import any_lengths, some_lengths
from course.checks.new_tokens import SAMPLE
from course.checks.padded_step import FULL, NEW, ROWS, SPLIT, make_kv
from course.judging import Ask, Check, Failure, run_checks
from course.registry import Exercise
from course.report import Report
from course.task import Task

Ints = list[int]


def _text(rng: random.Random, length: int) -> Ints:
    """Token ids of which many come more than once, as letters do; 0 is one of them."""
    return [rng.randint(0, 6) for _ in range(length)]


# --- fused_rows ------------------------------------------------------------------------------


def _decode_and_first_chunk(ask: Ask, rng: random.Random) -> Failure | None:
    known = [[5, 3, 8], [4, 1, 6, 2]]
    return ROWS.judge(ask, [(known, [2, 0], [1, 3])])


def _decodes(ask: Ask, rng: random.Random) -> Failure | None:
    return ROWS.judge(ask, [([[5, 3, 8], [4, 1]], [2, 1], [1, 1]), ([[7]], [0], [1])])


def _middle_of_a_prompt(ask: Ask, rng: random.Random) -> Failure | None:
    known = [[5, 3, 8], [4, 1, 6, 2, 9]]
    twice = [[1, 1, 2, 1], [3, 3, 3]]
    return ROWS.judge(
        ask, [(known, [2, 2], [1, 2]), (known, [0, 2], [2, 1]), (twice, [1, 0], [3, 2])]
    )


def _any_rows(ask: Ask, rng: random.Random) -> Failure | None:
    cases: list[Args] = []
    for cursors, num_new in any_lengths(rng, 20):
        ends = [cursor + n for cursor, n in zip(cursors, num_new, strict=True)]
        known = [_text(rng, end + rng.choice((0, 0, 2))) for end in ends]
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
    return FULL.judge(ask, any_lengths(rng, 20))


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


def _judge_split(
    ask: Ask,
    lengths: Sequence[Args],
    size: int = 2,
    dtype: torch.dtype = torch.float32,
    sign: int = 1,
) -> Failure | None:
    cases = [(make_kv(past, new, size, dtype, sign), past, new) for past, new in lengths]
    return SPLIT.judge(ask, cases)


def _cut_nothing(ask: Ask, rng: random.Random) -> Failure | None:
    return _judge_split(ask, [([2], [1]), ([0], [2]), ([2, 2], [1, 1])], 1)


def _cut_at_two_places(ask: Ask, rng: random.Random) -> Failure | None:
    return _judge_split(ask, [([3, 1], [1, 2]), ([1, 3], [1, 3])])


def _cut_no_past(ask: Ask, rng: random.Random) -> Failure | None:
    return _judge_split(ask, [([2, 0], [1, 2]), ([0, 0], [1, 2]), ([0, 0], [2, 2])])


def _any_cut(ask: Ask, rng: random.Random) -> Failure | None:
    kinds = ((torch.float32, 1), (torch.float64, -1), (torch.float16, 1))
    cases = any_lengths(rng, 20)
    for part, (dtype, sign) in enumerate(kinds):
        failure = _judge_split(ask, cases[part::3], rng.choice((1, 3, 5)), dtype, sign)
        if failure:
            return failure
    return None


_SPLIT_CHECKS: tuple[tuple[str, Check], ...] = (
    ("rows without padding", _cut_nothing),
    ("a decode beside a chunk", _cut_at_two_places),
    ("requests without a past", _cut_no_past),
    ("any mix", _any_cut),
)


def check_split_kv(function: Callable[..., Any], *, seed: int = 0) -> Report:
    """Judge an answer to l03.split_kv."""
    return run_checks("l03.split_kv", function, _SPLIT_CHECKS, seed=seed, draw_call=SPLIT.draw_call)


# --- sample_rows -----------------------------------------------------------------------------


def _decodes_and_a_piece(ask: Ask, rng: random.Random) -> Failure | None:
    return SAMPLE.judge(ask, [([1, 1, 8], [21, 14, 0], [22, 15, 30]), ([4], [0], [9])])


def _last_chunks(ask: Ask, rng: random.Random) -> Failure | None:
    return SAMPLE.judge(ask, [([1, 3], [21, 5], [22, 8]), ([8, 2], [0, 6], [30, 8])])


def _one_token_left(ask: Ask, rng: random.Random) -> Failure | None:
    return SAMPLE.judge(ask, [([1, 1], [9, 4], [10, 7]), ([1, 3], [5, 4], [6, 8])])


def _whole_texts(ask: Ask, rng: random.Random) -> Failure | None:
    return SAMPLE.judge(ask, [([5, 1], [0, 7], [5, 8]), ([1], [0], [1]), ([9, 9], [0, 0], [9, 12])])


def _any_sampling(ask: Ask, rng: random.Random) -> Failure | None:
    cases: list[Args] = []
    for i in range(25):
        cursors, num_new = some_lengths(rng, 1 + i % 5)
        ends = [cursor + new for cursor, new in zip(cursors, num_new, strict=True)]
        cases.append(
            (num_new, cursors, [end + rng.choice((0, 0, 1, rng.randint(2, 40))) for end in ends])
        )
    return SAMPLE.judge(ask, cases)


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


# --- registry --------------------------------------------------------------------------------

EXERCISES = (
    Exercise(
        id="l03.fused_rows",
        lesson="l03_interleaving",
        name="fused_rows",
        title="Rows of unequal length",
        minutes=8,
        points=2,
        part="fused_rows",
        hints=(
            "Is a decode anything else than a chunk of one token? Write down its cursor and the "
            "index of its token.",
            "For each request, cut out the piece of `known[i]` that this step computes, and write "
            "down the place of each of its tokens in the text. How much is missing in front?",
            "The piece begins at the cursor and so do its positions; both go on for num_new[i] "
            "entries. What is missing in front is the same in both lists: as many zeros as the "
            "longest of num_new is longer.",
        ),
        check=check_fused_rows,
        task=Task(
            signature="fused_rows(known: list[list[int]], cursors: list[int], num_new: list[int]) "
            "-> tuple[list[list[int]], list[list[int]]]",
            rules=(
                "`known[i]` are all tokens that request i knows: its prompt, then what it "
                "generated.",
                "The first `cursors[i]` of them are computed already. This step computes the next "
                "`num_new[i]` (at least 1): one for a decode, a chunk for a prefill.",
                "Returns `(tokens, positions)`, what the model is fed: two lists with a row for "
                "each of the B requests, in their order.",
                "A row has T = max(num_new) entries. A request with fewer new tokens is padded on "
                "the left with 0, in `tokens` and in `positions`.",
                "A position counts in the request's own text, from 0.",
                "The lists that come in stay as they are.",
            ),
            args=([[7, 2], [4, 1, 6]], [1, 1], [1, 2]),
            result=([[0, 2], [1, 6]], [[0, 1], [1, 2]]),
        ),
    ),
    Exercise(
        id="l03.new_mask",
        lesson="l03_interleaving",
        name="new_mask",
        title="What the new tokens see of each other",
        minutes=8,
        points=2,
        part=None,
        hints=(
            "Draw the row of a decode beside a chunk of 3: two columns of padding, then its token. "
            "What does a causal mask let that token see?",
            "Two conditions hold at once, one about the order of the columns and one about "
            "padding. In which column does row i have its first token?",
            "Make a tensor of each condition and join them with `&`. With torch.arange(T) as the "
            "columns, the order is a comparison of shape (T, T), the same for all rows; padding "
            "is one of shape (B, 1, T), with each row's first column as a (B, 1, 1).",
        ),
        check=check_new_mask,
        task=Task(
            signature="new_mask(num_new: list[int]) -> torch.Tensor",
            rules=(
                "Row i of the batch holds `num_new[i]` tokens (at least 1) at the right end of its "
                "T = max(num_new) columns, and padding in front of them.",
                "Returns a bool tensor (B, T, T): [i, q, k] is True when the token in column q "
                "may attend to column k.",
                "A token attends to itself and to its row's tokens before it, never to padding.",
                "What a padding column attends to is free: its output is never read.",
            ),
            args=([1, 2],),
            result=torch.tensor([[[0, 0], [0, 1]], [[1, 0], [1, 1]]]).bool(),
        ),
    ),
    Exercise(
        id="l03.full_mask",
        lesson="l03_interleaving",
        name="full_mask",
        title="The whole mask",
        minutes=12,
        points=4,
        part="full_mask",
        hints=(
            "Which columns of the past are padding in row i? And what does the softmax make of a "
            "query that sees nothing?",
            "Two parts side by side: the S columns of the past, where every query of a row sees "
            "the same, and the T new ones as in new_mask. Then look at the padding queries.",
            "The past's part is (B, 1, S): which columns hold a token of row i. Expanded to "
            "(B, T, S), torch.cat joins it with the new part in the last dimension. For the "
            "padding queries, think of a key that is there for every query of every row, and that "
            "a token sees anyway.",
        ),
        check=check_full_mask,
        task=Task(
            signature="full_mask(past_lens: list[int], num_new: list[int]) -> torch.Tensor",
            rules=(
                "The keys are S = max(past_lens) cached columns and behind them T = max(num_new) "
                "new ones; the queries are the T new columns.",
                "Row i has `past_lens[i]` cached tokens (0 or more) at the right end of the S "
                "columns and `num_new[i]` new ones (at least 1) at the right end of the T; all "
                "else is padding.",
                "Returns a bool tensor (B, T, S + T): True where the query may attend to the key.",
                "A token attends to all of its row's past, to itself and to the row's new tokens "
                "before it, never to padding.",
                "What a padding query attends to is free, but it has to attend to at least one "
                "key.",
            ),
            args=([1, 2], [2, 1]),
            result=torch.tensor(
                [[[0, 1, 1, 0], [0, 1, 1, 1]], [[1, 1, 1, 0], [1, 1, 0, 1]]]
            ).bool(),
        ),
    ),
    Exercise(
        id="l03.split_kv",
        lesson="l03_interleaving",
        name="split_kv",
        title="Cutting the batch up again",
        minutes=8,
        points=2,
        part="split_kv",
        hints=(
            "Draw the columns of a row with a short past and few new tokens. In how many places "
            "does it have padding?",
            "The past ends at column S and the new tokens end at the last one: cut each part by "
            "its own end, then join the two. Try a past of 0 tokens.",
            "Work out where each part begins, counted from the left: a part that ends at column e "
            "and holds n tokens begins at e - n. Two slices of the row and torch.cat are enough, "
            "and an empty slice does no harm.",
        ),
        check=check_split_kv,
        task=Task(
            signature="split_kv(k: torch.Tensor, past_lens: list[int], num_new: list[int]) -> "
            "list[torch.Tensor]",
            rules=(
                "`k` is (B, S + T, D), with the columns of the whole mask: S = max(past_lens) "
                "cached ones, then T = max(num_new) new ones.",
                "Row i has `past_lens[i]` tokens (0 or more) at the right end of the S columns and "
                "`num_new[i]` (at least 1) at the right end of the T; all else is padding, with "
                "any numbers in it.",
                "Returns a list of B tensors: the i-th is (past_lens[i] + num_new[i], D), request "
                "i's own keys in the order of the text. Values are cut in the same way.",
                "`k` and the lists stay as they are.",
            ),
            args=(torch.tensor([[[5.0], [0.0], [6.0]], [[0.0], [7.0], [8.0]]]), [1, 0], [1, 2]),
            result=[torch.tensor([[5.0], [6.0]]), torch.tensor([[7.0], [8.0]])],
        ),
    ),
    Exercise(
        id="l03.sample_rows",
        lesson="l03_interleaving",
        name="sample_rows",
        title="Which rows get a token",
        minutes=5,
        points=1,
        part=None,
        hints=(
            "What comes after the last token that a row computes: a token that its request knows "
            "already, or a new one?",
            "How many tokens of request i are computed once this step is done? And how many does "
            "it know?",
            "A row gets a token when nothing that its request knows is left to compute. Go "
            "through the rows in order, add up two of the three numbers, and compare.",
        ),
        check=check_sample_rows,
        task=Task(
            signature="sample_rows(num_new: list[int], cursors: list[int], num_known: list[int]) "
            "-> list[int]",
            rules=(
                "Request i knows `num_known[i]` tokens: its prompt, and what it generated.",
                "The first `cursors[i]` of them were computed before, and this step computes the "
                "next `num_new[i]` (at least 1), never beyond what is known.",
                "After its last column a row predicts the token that comes next in its text. A row "
                "gets a new token only if that one is not known yet.",
                "Returns the numbers of the rows that get a new token, counted from 0, in order.",
            ),
            args=([1, 2, 2], [4, 0, 3], [5, 6, 5]),
            result=[0, 2],
        ),
    ),
)
