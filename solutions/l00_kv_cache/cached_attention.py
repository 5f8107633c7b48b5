"""Exercise 0.2: attention from one new token, with a cache."""

import math
import random
from collections.abc import Callable
from typing import TypeAlias

import torch
import torch.nn.functional as F
from torch import Tensor

from course.checks.fusing import Fusing, Look, dtype
from course.exercise import Exercise, Misconception, Task
from course.format_values import show
from course.harness import Rows

Tensors: TypeAlias = tuple[Tensor, ...]

# --- right answers ------------------------------------------------------------------------------


def cached_attention(
    q: Tensor, k_cache: Tensor, v_cache: Tensor, k: Tensor, v: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Attend from one new token to every token so far, itself included, in one head."""
    # Append first, then attend, because a token attends to itself. No mask is needed: every cached
    # token came before the one query.
    k_all = torch.cat([k_cache, k])  # (S + 1, D)
    v_all = torch.cat([v_cache, v])  # (S + 1, D)
    scores = q @ k_all.T / math.sqrt(q.shape[1])  # (1, S + 1)
    return scores.softmax(dim=1) @ v_all, k_all, v_all


def with_sdpa(q: Tensor, k_cache: Tensor, v_cache: Tensor, k: Tensor, v: Tensor) -> Tensors:
    k_all = torch.vstack((k_cache, k))  # (S + 1, D)
    v_all = torch.vstack((v_cache, v))  # (S + 1, D)
    out = F.scaled_dot_product_attention(q[None], k_all[None], v_all[None])  # (1, 1, D)
    return out.reshape(q.shape), k_all, v_all


# --- wrong ideas --------------------------------------------------------------------------------


def attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """The attention of q (1, D) over k and v (S, D)."""
    return (q @ k.T / q.shape[-1] ** 0.5).softmax(-1) @ v  # (1, D)


def attending(out: Callable[[Tensor, Tensor, Tensor], Tensor]) -> Callable[..., Tensors]:
    """The right caches, and another output, computed from the query and the grown caches."""

    def answer(q: Tensor, k_cache: Tensor, v_cache: Tensor, k: Tensor, v: Tensor) -> Tensors:
        k_all, v_all = torch.cat([k_cache, k]), torch.cat([v_cache, v])  # (S + 1, D)
        return out(q, k_all, v_all), k_all, v_all

    return answer


def keeping(caches: Callable[[Tensor, Tensor, Tensor, Tensor], Tensors]) -> Callable[..., Tensors]:
    """The right output, and other caches."""
    return lambda q, k_cache, v_cache, k, v: (
        cached_attention(q, k_cache, v_cache, k, v)[0],
        *caches(k_cache, v_cache, k, v),
    )


def grows_in_place(q: Tensor, k_cache: Tensor, v_cache: Tensor, k: Tensor, v: Tensor) -> Tensors:
    for cache, new in ((k_cache, k), (v_cache, v)):
        cache.resize_(len(cache) + 1, cache.shape[1])
        cache[-1:] = new
    return attention(q, k_cache, v_cache), k_cache, v_cache


FORMS = (
    Misconception(
        "not_three",
        "Attention returns one tensor.",
        "Return three tensors: `return out, k_all, v_all`.",
        matches=lambda got, wanted: (
            not isinstance(got, tuple) or [isinstance(part, Tensor) for part in got] != [True] * 3
        ),
        examples=(lambda *args: cached_attention(*args)[0],),
    ),
    Misconception(
        "dtype",
        "Attention is always computed in float32.",
        lambda got, wanted: f"Keep the type of the inputs, {dtype(wanted[0])}.",
        matches=lambda got, wanted: any(part.dtype != wanted[0].dtype for part in got),
        examples=(attending(lambda q, k, v: attention(q.float(), k.float(), v.float())),),
    ),
    Misconception(
        "shape",
        "One token needs no row dimension.",
        lambda got, wanted: f"out must be (1, D); here it is {tuple(got[0].shape)}.",
        matches=lambda got, wanted: got[0].shape != wanted[0].shape,
        examples=(attending(lambda q, k, v: attention(q, k, v)[0]),),
    ),
)
CACHES = (
    Misconception(
        "not_grown",
        "The caller adds the new token to the cache.",
        "The next step needs the whole cache: return every old row and then the new one.",
        keeping(lambda k_cache, v_cache, k, v: (k_cache, v_cache)),
        same_result=(keeping(lambda k_cache, v_cache, k, v: (k, v)),),
    ),
    Misconception(
        "swapped",
        "K and V are interchangeable.",
        "Keys and values changed places: return out, then the keys, then the values.",
        keeping(lambda k_cache, v_cache, k, v: (torch.cat([v_cache, v]), torch.cat([k_cache, k]))),
    ),
)
OUTPUTS = (
    Misconception(
        "cache_only",
        "A query attends to the cache; the new token joins it afterwards.",
        "The new token attends to itself too: append its k and v to the cache first, then attend "
        "over all S + 1 tokens.",
        attending(lambda q, k, v: attention(q, k[:-1], v[:-1])),
    ),
    Misconception(
        "first_only",
        "Attention in a decoder is causal, so is_causal must be set.",
        "This output is the value of the oldest token: is_causal treats the only query as the "
        "first token, which may attend only to itself. The new token is the last one, and attends "
        "to the whole text.",
        attending(
            lambda q, k, v: F.scaled_dot_product_attention(
                q[None], k[None], v[None], is_causal=True
            )[0]
        ),
    ),
    Misconception(
        "softmax_over_queries",
        "Dimension 0 of the scores holds the keys.",
        "The scores are (1, S + 1), so the softmax goes over dimension 1, the keys. Over "
        "dimension 0, the only query, every weight is 1.",
        attending(lambda q, k, v: (q @ k.T / q.shape[-1] ** 0.5).softmax(0) @ v),
    ),
    Misconception(
        "no_scale",
        "The scores go into the softmax unscaled.",
        "Divide the scores by sqrt(D) before the softmax; otherwise a large D gives one token "
        "nearly all the weight.",
        attending(lambda q, k, v: (q @ k.T).softmax(-1) @ v),
    ),
)
IN_PLACE = Misconception("in_place", "The tensors are mine to change.", examples=(grows_in_place,))

# --- judging and drawing ------------------------------------------------------------------------


def close(got: Tensor, wanted: Tensor) -> bool:
    tolerance = 1e-9 if wanted.dtype == torch.float64 else 1e-5
    return got.shape == wanted.shape and torch.allclose(got, wanted, tolerance, tolerance)


def look_at(index: int, name: str, idea: str) -> Look:
    """Judge one of the three tensors."""
    return Look(
        matters=lambda value, args: value[index],
        mistakes=CACHES if index else OUTPUTS,
        idea=idea,
        rows=lambda args, wanted, got: wanted_and_got(name, wanted[index], got[index]),
        equal=close,
    )


def draw_tensors(name: str, args: Tensors) -> str:
    """The five tensors, one line each."""
    names = ("q", "k_cache", "v_cache", "k", "v")
    return "\n".join(f"{each} = {written(cells)}" for each, cells in zip(names, args, strict=True))


def wanted_and_got(name: str, wanted: Tensor, got: Tensor) -> Rows:
    """Both tensors, with more digits if four do not tell them apart."""
    digits = 4 if written(wanted) != written(got) else 12
    rows = (("expected", wanted), ("got", got))
    return tuple((row, f"{name} = {written(each, digits)}") for row, each in rows)


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
    counts = (1, length, length, 1, 1)
    return tuple(torch.randn(n, size, dtype=dtype, generator=generator) for n in counts)


JUDGE = Fusing(
    cached_attention,
    FORMS,
    looks=(
        look_at(1, "k_all", "k_all must be the old rows of the cache, then the new one."),
        look_at(2, "v_all", "v_all must be the old rows of the cache, then the new one."),
        look_at(0, "out", "out must be the softmax-weighted mean of all S + 1 values."),
    ),
    evidence=[qkv(random.Random(seed), 3, 4) for seed in (1, 2)],
)
EXERCISE = Exercise(
    number=2,
    title="Attention with a cache",
    minutes=9,
    points=3,
    task=Task(
        rules=(
            "One head, one new token: `q`, `k` and `v`, each `(1, D)`, are its query, key and "
            "value.",
            "`k_cache` and `v_cache`, each `(S, D)`, hold the keys and values of the tokens before "
            "it, oldest first. For the very first token S is 0.",
            "Returns `(out, k_all, v_all)`. `out` `(1, D)` is the new token's attention, "
            "softmax(q · k_allᵀ / sqrt(D)) · v_all. `k_all` and `v_all`, each `(S + 1, D)`, are "
            "the caches for the next step, oldest first.",
            "Keep the type of the numbers, float32 or float64, and do not change the five "
            "arguments.",
        ),
        args=tuple(torch.tensor(rows) for rows in ([[2.0]], [[0.0]], [[4.0]], [[0.0]], [[8.0]])),
        result=(torch.tensor([[6.0]]), torch.tensor([[0.0], [0.0]]), torch.tensor([[4.0], [8.0]])),
        call="cached_attention(q=[[2.]], k_cache=[[0.]], v_cache=[[4.]], k=[[0.]], v=[[8.]])",
        steps=(
            "The query meets two keys, 0 and 0. Both scores are 0, so each weight is 1/2.",
            "`out` is 4 / 2 + 8 / 2 = 6.",
        ),
    ),
    hints=(
        "The new token may attend to every token so far. Is it one of them?",
        "Append first, attend afterwards. How many keys does the query then have, and does any of "
        "them lie in its future?",
        "Compute three things: the grown caches (torch.cat), one score per key, and the softmax of "
        "the scores as weights on the values. Write down each shape: (S + 1, D), (1, S + 1), "
        "(1, D).",
    ),
    right=(cached_attention, with_sdpa),
    misconceptions=(*FORMS, *CACHES, *OUTPUTS, IN_PLACE),
    checks=(
        ("two tokens", JUDGE.on(qkv(random.Random(0), 1, 4))),
        ("the very first token, with an empty cache", JUDGE.on_drawn(lambda rng: [qkv(rng, 0, 2)])),
        (
            "the same as attention without a cache",
            JUDGE.on_drawn(lambda rng: [qkv(rng, n, 1 + n % 8) for n in range(1, 25)]),
        ),
        ("the same in float32", JUDGE.on_drawn(lambda rng: [qkv(rng, 3, 2, torch.float32)])),
    ),
    draw_call=draw_tensors,
)
