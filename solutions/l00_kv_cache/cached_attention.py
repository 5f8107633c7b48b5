"""Exercise 0.2: attention from one new token, with a cache."""

import math
import random
from collections.abc import Callable
from typing import TypeAlias

import torch
import torch.nn.functional as F
from torch import Tensor

from course.checks.fusing import Fusing, Look, dtype
from course.exercise import Exercise, Misconception
from course.format_values import show
from course.harness import Rows
from course.task import Task

Tensors: TypeAlias = tuple[Tensor, ...]

# --- right answers ------------------------------------------------------------------------------


def cached_attention(
    q: Tensor, k_cache: Tensor, v_cache: Tensor, k: Tensor, v: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Attend from one new token to every token so far, itself included, in one head."""
    # Append first, then attend: a token sees itself. No mask is needed, because everything in
    # the cache came before the one query.
    k_all = torch.cat([k_cache, k])  # (S + 1, D)
    v_all = torch.cat([v_cache, v])  # (S + 1, D)
    scores = q @ k_all.T / math.sqrt(q.shape[-1])  # (1, S + 1)
    return scores.softmax(dim=-1) @ v_all, k_all, v_all


def with_sdpa(q: Tensor, k_cache: Tensor, v_cache: Tensor, k: Tensor, v: Tensor) -> Tensors:
    k_all = torch.vstack((k_cache, k))  # (S + 1, D)
    v_all = torch.vstack((v_cache, v))  # (S + 1, D)
    out = F.scaled_dot_product_attention(q[None], k_all[None], v_all[None])  # (1, 1, D)
    return out[0], k_all, v_all


def by_hand(q: Tensor, k_cache: Tensor, v_cache: Tensor, k: Tensor, v: Tensor) -> Tensors:
    k_all = torch.stack([*k_cache, k[0]])  # (S + 1, D)
    v_all = torch.stack([*v_cache, v[0]])  # (S + 1, D)
    scores = (k_all * q).sum(1) / q.shape[1] ** 0.5  # (S + 1,)
    weights = torch.exp(scores - scores.max())  # (S + 1,)
    out = sum(w * row for w, row in zip(weights / weights.sum(), v_all, strict=True))  # (D,)
    return torch.as_tensor(out)[None], k_all, v_all


# --- wrong ideas --------------------------------------------------------------------------------


def attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Of q (1, D) over k and v (S, D)."""
    return (q @ k.T / q.shape[-1] ** 0.5).softmax(-1) @ v  # (1, D)


def attending(out: Callable[[Tensor, Tensor, Tensor], Tensor]) -> Callable[..., Tensors]:
    """Right caches, and such an output of the query and both caches as they have grown."""

    def answer(q: Tensor, k_cache: Tensor, v_cache: Tensor, k: Tensor, v: Tensor) -> Tensors:
        k_all, v_all = torch.cat([k_cache, k]), torch.cat([v_cache, v])  # (S + 1, D)
        return out(q, k_all, v_all), k_all, v_all

    return answer


def keeping(caches: Callable[[Tensor, Tensor, Tensor, Tensor], Tensors]) -> Callable[..., Tensors]:
    """A right output, and such caches."""
    return lambda q, k_cache, v_cache, k, v: (
        cached_attention(q, k_cache, v_cache, k, v)[0],
        *caches(k_cache, v_cache, k, v),
    )


def exponentials_as_they_are(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    weights = torch.exp(q @ k.T / q.shape[-1] ** 0.5)
    return weights / weights.sum() @ v


def with_the_causal_flag(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q[None], k[None], v[None], is_causal=True)[0]


def grows_in_place(q: Tensor, k_cache: Tensor, v_cache: Tensor, k: Tensor, v: Tensor) -> Tensors:
    for cache, new in ((k_cache, k), (v_cache, v)):
        cache.resize_(len(cache) + 1, cache.shape[1])
        cache[-1:] = new
    return attention(q, k_cache, v_cache), k_cache, v_cache


FORMS = (
    Misconception(
        "not_three",
        "What attention gives is one tensor.",
        "Return three tensors: `return out, k_all, v_all`.",
        matches=lambda got, wanted: (
            not isinstance(got, tuple) or [isinstance(part, Tensor) for part in got] != [True] * 3
        ),
        examples=(lambda *args: cached_attention(*args)[0],),
    ),
    Misconception(
        "dtype",
        "Attention is always computed in float32.",
        lambda got, wanted: (
            f"The inputs are {dtype(wanted[0])} and the results {', '.join(map(dtype, got))}: keep "
            "the type of the inputs."
        ),
        matches=lambda got, wanted: any(part.dtype != wanted[0].dtype for part in got),
        examples=(attending(lambda q, k, v: attention(q.float(), k.float(), v.float())),),
    ),
    Misconception(
        "shape",
        "One token needs no row dimension.",
        lambda got, wanted: (
            f"out has shape {tuple(got[0].shape)}; one token goes in, so (1, D) comes out."
        ),
        matches=lambda got, wanted: got[0].shape != wanted[0].shape,
        examples=(attending(lambda q, k, v: attention(q, k, v)[0]),),
    ),
)
CACHES = (
    Misconception(
        "not_grown",
        "Attending is all; the caller adds the new token to the cache.",
        "The cache came back as it went in, but the next step needs it grown: (S + 1, D), every "
        "old row and then the new one.",
        keeping(lambda k_cache, v_cache, k, v: (k_cache, v_cache)),
    ),
    Misconception(
        "only_the_new",
        "The caller has the cache and wants the new rows.",
        "Only the new token's row came back, but the next step needs all of them: (S + 1, D), "
        "every old row and then the new one.",
        keeping(lambda k_cache, v_cache, k, v: (k, v)),
    ),
    Misconception(
        "swapped",
        "K and V are interchangeable.",
        "Results changed places: return out, then the keys, then the values.",
        keeping(lambda k_cache, v_cache, k, v: (torch.cat([v_cache, v]), torch.cat([k_cache, k]))),
    ),
)
OUTPUTS = (  # each with the output that it makes
    Misconception(
        "cache_only",
        "The cache is what a query looks at; the new token joins it afterwards.",
        "The new token attends to itself too: append its k and v to the cache first, then attend "
        "over all S + 1 tokens.",
        attending(lambda q, k, v: attention(q, k[:-1], v[:-1])),
    ),
    Misconception(
        "first_only",
        "Attention in a decoder is causal, so the flag has to be set.",
        "The new token attends to the whole text: this output is only the value of the oldest "
        "token, as with is_causal, which takes the only query for the first token.",
        attending(with_the_causal_flag),
    ),
    Misconception(
        "no_scale",
        "Scores go into the softmax as they are.",
        "The scores have to be divided by sqrt(D) before the softmax; without it one token takes "
        "nearly all the weight.",
        attending(lambda q, k, v: (q @ k.T).softmax(-1) @ v),
    ),
    Misconception(
        "overflow",
        "A softmax is exp over the sum of exp.",
        "The exponentials of large scores are infinite: torch's softmax takes the largest score "
        "off all of them first, which changes no weight.",
        attending(exponentials_as_they_are),
    ),
)
IN_PLACE = Misconception(
    "in_place", "The tensors are mine to change.", examples=((grows_in_place),)
)

# --- judging ------------------------------------------------------------------------------------


def close(got: Tensor, wanted: Tensor) -> bool:
    if got.shape != wanted.shape or got.dtype != wanted.dtype:
        return False
    tolerance = {torch.float64: 1e-9, torch.float32: 1e-5}[wanted.dtype]
    return torch.allclose(got, wanted, rtol=tolerance, atol=tolerance, equal_nan=True)


def look_at(index: int, name: str, idea: str) -> Look:
    """The grown caches first, then the output."""
    return Look(
        matters=lambda value, args: value[index],
        mistakes=CACHES if index else OUTPUTS,
        idea=idea,
        rows=lambda args, wanted, got: wanted_and_got(name, wanted[index], got[index]),
        equal=close,
    )


# --- drawing ------------------------------------------------------------------------------------


def draw_tensors(name: str, args: Tensors) -> str:
    """The five tensors, a line each."""
    names = ("q", "k_cache", "v_cache", "k", "v")
    return "\n".join(f"{each} = {written(cells)}" for each, cells in zip(names, args, strict=True))


def wanted_and_got(name: str, wanted: Tensor, got: Tensor) -> Rows:
    """Both, to more digits where few do not tell them apart, else with their types."""
    for digits in (4, 7, 12):
        if (left := written(wanted, digits)) != (right := written(got, digits)):
            return ("expected", f"{name} = {left}"), ("got", f"{name} = {right}")
    left, right = (f"{name} = {written(each)}, {dtype(each)}" for each in (wanted, got))
    return ("expected", left), ("got", right)


def written(tensor: Tensor, digits: int = 4) -> str:
    """A small tensor as nested lists, rounded for reading."""
    if tensor.numel() == 0 or tensor.numel() > 40 or tensor.dim() != 2:
        return show(tensor)
    rows = [", ".join(f"{cell:.{digits}g}" for cell in row) for row in tensor.tolist()]
    return f"[{', '.join(f'[{row}]' for row in rows)}]"


# --- cases --------------------------------------------------------------------------------------


def qkv(rng: random.Random, length: int, size: int, dtype: torch.dtype = torch.float64) -> Tensors:
    """Random q, k_cache, v_cache, k, v with S = `length` and D = `size`."""
    generator = torch.Generator().manual_seed(rng.randrange(2**31))
    return tuple(
        torch.randn(count, size, dtype=dtype, generator=generator)  # (count, D)
        for count in (1, length, length, 1, 1)
    )


# D = 4, so sqrt(D) = 2: scores 0 and ln 3, weights 1/4 and 3/4.
BY_HAND = tuple(
    torch.tensor([row], dtype=torch.float64)
    for row in (
        [2.0, 0.0, 0.0, 0.0],
        [0.0, 1.0, 0.0, 0.0],
        [4.0, 0.0, 8.0, 0.0],
        [math.log(3), 0.0, 0.0, 1.0],
        [0.0, 4.0, 8.0, 0.0],
    )
)


def large_scores(rng: random.Random) -> Tensors:
    q, k_cache, v_cache, k, v = qkv(rng, 3, 2)
    return 70 * q.sign(), 12 * q.sign() + k_cache, v_cache, k, v


def any_qkv(rng: random.Random) -> list[Tensors]:
    return [qkv(rng, length, 1 + length % 8) for length in range(1, 25)]


JUDGE = Fusing(
    cached_attention,
    FORMS,
    looks=(
        look_at(1, "k_all", "k_all is not the old rows of the cache and then the new one."),
        look_at(2, "v_all", "v_all is not the old rows of the cache and then the new one."),
        look_at(
            0, "out", "out is not the softmax-weighted mean of the values of all S + 1 tokens."
        ),
    ),
    evidence=[qkv(random.Random(seed), 3, 4) for seed in (1, 2)],
)
LAST_OF_TWO = "the last of two dimensions is number 1"
ONE_ROW = "there is one new token, so its first row is its last"

EXERCISE = Exercise(
    number=2,
    title="Attention with a cache",
    minutes=10,
    points=3,
    task=Task(
        signature="cached_attention(q: torch.Tensor, k_cache: torch.Tensor, v_cache: torch.Tensor, "
        "k: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]",
        rules=(
            "One head, one new token: `q`, `k` and `v`, each `(1, D)`, are its query, key and "
            "value.",
            "`k_cache` and `v_cache`, each `(S, D)`, are the tokens before it, oldest first. For "
            "the very first token S is 0.",
            "Returns `(out, k_all, v_all)`: `out` `(1, D)` is the new token's attention, "
            "softmax(q · kᵀ / sqrt(D)) · v, and `k_all`, `v_all` `(S + 1, D)` are the caches for "
            "the next step, oldest first.",
            "Keep the type of the numbers (float32 or float64), and leave the five tensors that "
            "came in as they are.",
        ),
        args=tuple(torch.tensor(rows) for rows in ([[2.0]], [[0.0]], [[4.0]], [[0.0]], [[8.0]])),
        result=(torch.tensor([[6.0]]), torch.tensor([[0.0], [0.0]]), torch.tensor([[4.0], [8.0]])),
    ),
    hints=(
        "The new token may look at every token so far. Is it one of them?",
        "Append first, attend afterwards. How many keys does the one query then have, and does any "
        "of them lie in its future?",
        "Three things to compute: the grown caches (torch.cat), one score per key, and the softmax "
        "of the scores as weights on the values. Write down each shape: (S + 1, D), (1, S + 1), "
        "(1, D).",
    ),
    right=(cached_attention, with_sdpa, by_hand),
    misconceptions=(*FORMS, *CACHES, *OUTPUTS, IN_PLACE),
    checks=(
        ("two tokens, worked out by hand", JUDGE.on(BY_HAND)),
        ("the very first token, with an empty cache", JUDGE.on_drawn(lambda rng: [qkv(rng, 0, 2)])),
        ("the same as attention without a cache", JUDGE.on_drawn(any_qkv)),
        ("the same in float32", JUDGE.on_drawn(lambda rng: [qkv(rng, 3, 2, torch.float32)])),
        ("a token that is very sure", JUDGE.on_drawn(lambda rng: [large_scores(rng)])),
    ),
    draw_call=draw_tensors,
    equivalent_mutants={
        "cached_attention(): return (scores.softmax(dim={-1 => 1}) @ v_all, k_all, v_all)": (
            LAST_OF_TWO
        ),
        "cached_attention(): scores = q @ k_all.T / math.sqrt(q.shape[{-1 => 1}])": LAST_OF_TWO,
        "with_sdpa(): return (out[{0 => -1}], k_all, v_all)": "the batch has one entry",
        "by_hand(): k_all = torch.stack([*k_cache, k[{0 => -1}]])": ONE_ROW,
        "by_hand(): v_all = torch.stack([*v_cache, v[{0 => -1}]])": ONE_ROW,
        "by_hand(): out = sum((w * row for w, row in zip(weights / weights.sum(), v_all, "
        "strict={True => False})))": "both are equally long",
    },
)
