"""Exercise 0.2: attention from one new token, with a cache."""

import math
import random
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import torch
import torch.nn.functional as F
from torch import Tensor

from course.calling.plain_values import as_items
from course.checks.comparing import a_kind
from course.exercise import Exercise, Misconception
from course.format_values import show
from course.harness import Ask, Check, Failure, Rows, returned_nothing
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


def preallocated(q: Tensor, k_cache: Tensor, v_cache: Tensor, k: Tensor, v: Tensor) -> Tensors:
    length, size = k_cache.shape
    k_all = k_cache.new_empty(length + 1, size)
    v_all = v_cache.new_empty(length + 1, size)
    k_all[:length], k_all[length:] = k_cache, k
    v_all[:length], v_all[length:] = v_cache, v
    weights = torch.softmax(torch.einsum("td,sd->ts", q * size**-0.5, k_all), 1)  # (1, S + 1)
    return torch.einsum("ts,sd->td", weights, v_all), k_all, v_all


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


def dtype(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


NOT_THREE = Misconception(
    "not_three",
    "What attention gives is one tensor.",
    lambda what: f"Return three {what}.",
    also=(lambda *args: cached_attention(*args)[0],),
)
SHAPE = Misconception(
    "shape",
    "One token needs no row dimension.",
    lambda name, shape, wanted: f"{name} has shape {tuple(shape)}; {wanted}.",
    also=(attending(lambda q, k, v: attention(q, k, v)[0]),),
)
DTYPE = Misconception(
    "dtype",
    "Attention is always computed in float32.",
    lambda name, got, why: f"{name} is {dtype(got)} although the {why} type.",
    also=((attending(lambda q, k, v: attention(q.float(), k.float(), v.float()))),),
)
CACHES = (  # each with the caches that it makes
    Misconception(
        "not_grown",
        "Attending is all; the caller adds the new token to the cache.",
        lambda name, grown: (
            f"{name} came back as it went in, but the next step needs it grown: {grown}."
        ),
        keeping(lambda k_cache, v_cache, k, v: (k_cache, v_cache)),
    ),
    Misconception(
        "only_the_new",
        "The caller has the cache and wants the new rows.",
        lambda name, grown: (
            f"Only the new token's {name} came back, but the next step needs all: {grown}."
        ),
        keeping(lambda k_cache, v_cache, k, v: (k, v)),
    ),
    Misconception(
        "front",
        "Newest first: the order in the cache is a matter of taste.",
        lambda name, grown: (
            f"The new token stands at the front of {name}, but row i of a cache belongs to "
            "position i of the text, so it goes to the end."
        ),
        keeping(lambda k_cache, v_cache, k, v: (torch.cat([k, k_cache]), torch.cat([v, v_cache]))),
    ),
    Misconception(
        "swapped",
        "K and V are interchangeable.",
        "Results changed places: return out, then the keys, then the values.",
        keeping(lambda k_cache, v_cache, k, v: (torch.cat([v_cache, v]), torch.cat([k_cache, k]))),
    ),
)
PRECISION = Misconception(
    "precision",
    "Single precision is enough for attention.",
    lambda kind: f"out is right to a few digits only: use {kind} throughout and add no epsilon.",
    also=(attending(lambda q, k, v: attention(q.float(), k.float(), v.float()).to(q.dtype)),),
)
OVERFLOW = Misconception(
    "overflow",
    "A softmax is exp over the sum of exp.",
    "The exponentials of large scores are infinite: torch's softmax takes the largest score off "
    "all of them first, which changes no weight.",
    also=(attending(exponentials_as_they_are),),
)
OUTPUTS = (  # each with the output that it makes
    Misconception(
        "residual",
        "The residual connection belongs to attention.",
        "out is what attention adds to the token; here the query itself was added.",
        attending(lambda q, k, v: q + attention(q, k, v)),
    ),
    Misconception(
        "cache_only",
        "The cache is what a query looks at; the new token joins it afterwards.",
        "The new token attends to itself too: append its k and v to the cache first, then attend "
        "over all S + 1 tokens.",
        attending(lambda q, k, v: attention(q, k[:-1], v[:-1])),
    ),
    Misconception(
        "itself_only",
        "One token goes in, so attention has one key.",
        "The new token attends to the whole text: this output is its own value alone, so the cache "
        "was not looked at.",
        attending(lambda q, k, v: attention(q, k[-1:], v[-1:])),
    ),
    Misconception(
        "first_only",
        "Attention in a decoder is causal, so the flag has to be set.",
        "The new token attends to the whole text: this output is the value of the oldest token "
        "alone, as with is_causal, which takes the only query for the first token.",
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
        "scaled_by_d",
        "Scores are divided by the head size.",
        "The scores are divided by D here, or twice by its square root; attention divides them by "
        "the square root, once.",
        attending(lambda q, k, v: (q @ k.T / q.shape[-1]).softmax(-1) @ v),
    ),
    Misconception(
        "scaled_by_length",
        "The more tokens there are, the smaller the scores have to be.",
        "D is the head size, so the scores are divided by sqrt(D), and not by the root of how many "
        "tokens there are.",
        attending(lambda q, k, v: (q @ k.T / len(k) ** 0.5).softmax(-1) @ v),
    ),
    Misconception(
        "softmax_dim",
        "The first dimension is the one to normalise.",
        "The weights over the keys have to add up to 1: take the softmax along the last dimension "
        "of the (1, S + 1) scores, not along the first.",
        attending(lambda q, k, v: (q @ k.T / q.shape[-1] ** 0.5).softmax(0) @ v),
    ),
    Misconception(
        "no_softmax",
        "Scores are the weights.",
        "The scores were used as weights; the softmax that makes them add up to 1 is missing.",
        attending(lambda q, k, v: (q @ k.T / q.shape[-1] ** 0.5) @ v),
    ),
    Misconception(
        "keys_for_values",
        "What a token looks at is what it takes.",
        "The weights come from the keys and fall on the values; here the keys were added up.",
        attending(lambda q, k, v: attention(q, k, k)),
    ),
)
IN_PLACE = Misconception(
    "in_place",
    "The tensors are mine to change.",
    also=((grows_in_place),),
)

# --- judging ------------------------------------------------------------------------------------


def judge(ask: Ask, args: Tensors) -> Failure | None:
    """One call: form, grown caches, output, in this order."""
    got, given = ask(*args), (("input", draw_tensors(ask.name, args)),)
    if got is None:
        return Failure(returned_nothing(ask.name), given, "no_return")
    parts = as_items(got)
    if parts is None or len(parts) != 3:
        size = "" if parts is None else f" of {len(parts)}"
        what = f"tensors, out, k and v; this is {a_kind(got)}{size}"
        rows = (("expected", "out, k and v, three tensors"), ("got", show(got)))
        return NOT_THREE.failure(given + rows, what)
    for name, tensor in zip(("out", "k", "v"), parts, strict=True):
        if not isinstance(tensor, Tensor):
            what = f"ordinary tensors, out, k and v; {name} is {a_kind(tensor)}"
            rows = (("expected", f"{name}, a tensor"), ("got", f"{name} = {show(tensor)}"))
            return NOT_THREE.failure(given + rows, what)
    return judge_caches(ask, args, parts) or judge_output(ask, args, parts[0])


def judge_caches(ask: Ask, args: Tensors, parts: Sequence[Tensor]) -> Failure | None:
    """The grown caches: the old rows in their order, then the new one."""
    for index, name in ((1, "k"), (2, "v")):
        got, wanted, old = parts[index], cached_attention(*args)[index], args[index]
        if close(got, wanted):
            continue
        rows = (("input", draw_tensors(ask.name, args)), *wanted_and_got(name, wanted, got))
        grown = f"({len(wanted)}, {old.shape[1]}), every old row and then the new one"
        for each in CACHES:
            if any(close(got, answer(*args)[index]) for answer in each.answers):
                return each.failure(rows, name, grown)
        if got.dtype != wanted.dtype:
            return DTYPE.failure(rows, name, got, f"cache is {dtype(old)}: keep its")
        if got.shape != wanted.shape:
            return SHAPE.failure(rows, name, got.shape, f"it has to be {grown}")
        return Failure(f"The grown {name} is not the old rows and then the new one.", rows)
    return None


def judge_output(ask: Ask, args: Tensors, out: Tensor) -> Failure | None:
    """The output, and the mistake that gives this one and two more."""
    wanted = cached_attention(*args)[0]
    if close(out, wanted):
        return None
    rows = (("input", draw_tensors(ask.name, args)), *wanted_and_got("out", wanted, out))
    if out.shape != wanted.shape:
        return SHAPE.failure(rows, "out", out.shape, "one token goes in, so (1, D) comes out")
    if out.dtype != wanted.dtype:
        return DTYPE.failure(rows, "out", out, f"inputs are {dtype(wanted)}: keep their")
    if torch.allclose(out, wanted, rtol=1e-3, atol=1e-3):
        return PRECISION.failure(rows, dtype(out))
    scores = args[0] @ args[1].T / math.sqrt(out.shape[1])
    if not out.isfinite().all() and scores.exp().isinf().any():
        return OVERFLOW.failure(rows)
    results = [(args, out), *((case, output(ask, case)) for case in EVIDENCE)]
    for each in OUTPUTS:
        for answer in each.answers:
            if all(isinstance(o, Tensor) and close(o, answer(*case)[0]) for case, o in results):
                return each.failure(rows)
    return Failure("out is not the softmax-weighted mean of the values of all S + 1 tokens.", rows)


def output(ask: Ask, args: Tensors) -> Any:
    """The first of what comes back, whatever that is."""
    return next(iter(as_items(ask(*args)) or ()), None)


def close(got: Tensor, wanted: Tensor) -> bool:
    if got.shape != wanted.shape or got.dtype != wanted.dtype:
        return False
    tolerance = {torch.float64: 1e-9, torch.float32: 1e-5}[wanted.dtype]
    return torch.allclose(got, wanted, rtol=tolerance, atol=tolerance)


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


EVIDENCE = tuple(qkv(random.Random(seed), 3, 4) for seed in (1, 2))
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


def on(draw: Callable[[random.Random], Tensors]) -> Check:
    """The check that asks about one such case."""
    return lambda ask, rng: judge(ask, draw(rng))


def as_plain_attention(ask: Ask, rng: random.Random) -> Failure | None:
    judged = (judge(ask, qkv(rng, length, 1 + length % 8)) for length in range(1, 25))
    return next(filter(None, judged), None)


def large_scores(rng: random.Random) -> Tensors:
    q, k_cache, v_cache, k, v = qkv(rng, 3, 2)
    return 70 * q.sign(), 12 * q.sign() + k_cache, v_cache, k, v


LAST_OF_TWO = "the last of two dimensions is number 1"
ONE_ROW = "there is one new token, so its first row is its last"

EXERCISE = Exercise(
    number=2,
    title="Attention with a cache",
    minutes=10,
    points=3,
    task=Task(
        signature="cached_attention(q: torch.Tensor, k_cache: torch.Tensor, "
        "v_cache: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> "
        "tuple[torch.Tensor, torch.Tensor, torch.Tensor]",
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
        result=(
            torch.tensor([[6.0]]),
            torch.tensor([[0.0], [0.0]]),
            torch.tensor([[4.0], [8.0]]),
        ),
    ),
    hints=(
        "The new token may look at every token so far. Is it one of them?",
        "Append first, attend afterwards. How many keys does the one query then have, and does any "
        "of them lie in its future?",
        "Three things to compute: the grown caches (torch.cat), one score per key, and the softmax "
        "of the scores as weights on the values. Write down each shape: (S + 1, D), (1, S + 1), "
        "(1, D).",
    ),
    right=(cached_attention, with_sdpa, preallocated, by_hand),
    misconceptions=(NOT_THREE, SHAPE, DTYPE, *CACHES, PRECISION, OVERFLOW, *OUTPUTS, IN_PLACE),
    checks=(
        ("two tokens, worked out by hand", on(lambda rng: BY_HAND)),
        ("the very first token, with an empty cache", on(lambda rng: qkv(rng, 0, 2))),
        ("the same as attention without a cache", as_plain_attention),
        ("the same in float32", on(lambda rng: qkv(rng, 3, 2, torch.float32))),
        ("a token that is very sure", on(large_scores)),
    ),
    draw_call=draw_tensors,
    still_right={
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
