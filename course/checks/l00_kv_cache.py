"""Checks of lesson 0, the KV cache and batching."""

import math
import random
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from course.checks.comparing import (
    Args,
    Comparison,
    Mistake,
    a_kind,
    alike,
    list_of_ints,
    tokens,
)
from course.judging import Ask, Check, Failure, Rows, run_checks
from course.registry import Exercise
from course.report import Report
from course.showing import show
from course.task import Task
from nanogpt.plain_values import as_items

# --- next_inputs -----------------------------------------------------------------------------

_NEXT: Comparison[Callable[[list[int], int], list[int]]] = Comparison(
    reference=lambda tokens, num_cached: tokens[num_cached:],
    mistakes=(
        Mistake(
            "feeds_everything",
            "A cached token's K and V never change, so the model need not see it again: feed only "
            "the tokens after the cached ones.",
            lambda tokens, num_cached: tokens,
        ),
        Mistake(
            "last_token_only",
            "One token is right once all the others are cached; before that, every token that is "
            "not cached has to be fed, or its K and V will be missing for good.",
            lambda tokens, num_cached: tokens[-1:],
        ),
        Mistake(
            "one_too_many",
            "The last cached token has its K and V already; fed once more, it would be in the "
            "cache twice.",
            lambda tokens, num_cached: tokens[max(0, num_cached - 1) :],
        ),
        Mistake(
            "one_too_few",
            "The first token that is not cached has index num_cached, because indices count from "
            "0; here it was skipped.",
            lambda tokens, num_cached: tokens[num_cached + 1 :],
        ),
        *alike(
            "by_value",
            "A letter comes back in a text: whether a token is cached is a matter of its place, "
            "not of its value, so a token is fed however often it was there before.",
            lambda tokens, num_cached: [t for t in tokens if t not in tokens[:num_cached]],
            lambda tokens, num_cached: [
                t for t in tokens[num_cached:] if t not in tokens[:num_cached]
            ],
            lambda tokens, num_cached: list(dict.fromkeys(tokens[num_cached:])),
            lambda tokens, num_cached: tokens[tokens.index(tokens[num_cached]) :],
        ),
        Mistake(
            "backwards",
            "The tokens are fed in the order of the text; here the last one comes first.",
            lambda tokens, num_cached: tokens[num_cached:][::-1],
        ),
        Mistake(
            "feeds_the_cached",
            "These are the tokens that are cached already; the model needs the others.",
            lambda tokens, num_cached: tokens[:num_cached],
        ),
    ),
    idea="Feed exactly the tokens whose K and V are not in the cache, in the order of the text.",
    form=list_of_ints,
    evidence=[([5, 3, 8, 1, 9, 5], 2), ([2, 2, 7, 2], 1), ([4, 6, 4], 0), ([9, 8, 7, 6], 3)],
)


def _first_step(ask: Ask, rng: random.Random) -> Failure | None:
    return _NEXT.judge(ask, [([5, 3, 8], 0), ([6], 0)])


def _decode_step(ask: Ask, rng: random.Random) -> Failure | None:
    return _NEXT.judge(ask, [([5, 3, 8, 1], 3), ([5, 3, 8, 1, 9], 4)])


def _letters_that_return(ask: Ask, rng: random.Random) -> Failure | None:
    return _NEXT.judge(
        ask, [([5, 3, 5], 2), ([4, 4, 4, 4], 1), ([7, 2, 7, 2, 2], 3), ([1, 2, 3, 3, 1], 1)]
    )


def _any_step(ask: Ask, rng: random.Random) -> Failure | None:
    cases: list[Args] = []
    for length in range(2, 30):
        cases.append((tokens(rng, length), rng.randrange(length)))
    return _NEXT.judge(ask, cases)


_NEXT_CHECKS: tuple[tuple[str, Check], ...] = (
    ("the first step, nothing cached", _first_step),
    ("one new token", _decode_step),
    ("a text in which letters come back", _letters_that_return),
    ("any text, any part of it cached", _any_step),
)


def check_next_inputs(function: Callable[..., Any], *, seed: int = 0) -> Report:
    """Judge an answer to l00.next_inputs."""
    return run_checks("l00.next_inputs", function, _NEXT_CHECKS, seed=seed)


# --- cached_attention ------------------------------------------------------------------------

_NAMES = ("q", "k_cache", "v_cache", "k", "v")
Tensors = tuple[Tensor, ...]
_TOLERANCE = {torch.float64: 1e-9, torch.float32: 1e-5}


def _attention(q: Tensor, k: Tensor, v: Tensor, scale: float) -> Tensor:
    """Plain attention of q (1, D) over k, v (S, D)."""
    return torch.softmax((q @ k.T) * scale, dim=1) @ v  # (1, D)


def _output_mistakes(args: Tensors) -> list[tuple[str, str, Tensor]]:
    """(key, idea, the output that this mistake gives), for each known mistake."""
    q, k_cache, v_cache, k, v = args
    scale = 1 / math.sqrt(q.shape[1])
    k_all, v_all = torch.cat([k_cache, k]), torch.cat([v_cache, v])  # (S + 1, D)
    return [
        (
            "cache_only",
            "The new token attends to itself too: append its k and v to the cache first, then "
            "attend over all S + 1 tokens.",
            _attention(q, k_cache, v_cache, scale),
        ),
        (
            "itself_only",
            "The new token attends to the whole text: this output is its own value alone, so the "
            "cache was not looked at.",
            _attention(q, k, v, scale),
        ),
        (
            "first_only",
            "The new token attends to the whole text: this output is the value of the oldest token "
            "alone, as with is_causal, which takes the only query for the first token.",
            v_all[:1],
        ),
        (
            "no_scale",
            "The scores have to be divided by sqrt(D) before the softmax; without it one token "
            "takes nearly all the weight.",
            _attention(q, k_all, v_all, 1.0),
        ),
        (
            "scaled_by_d",
            "The scores are divided by D here, or twice by its square root; attention divides them "
            "by the square root, once.",
            _attention(q, k_all, v_all, 1 / q.shape[1]),
        ),
        (
            "scaled_by_length",
            "D is the head size, so the scores are divided by sqrt(D), and not by the root of how "
            "many tokens there are.",
            _attention(q, k_all, v_all, 1 / math.sqrt(len(k_all))),
        ),
        (
            "softmax_dim",
            "The weights over the keys have to add up to 1: take the softmax along the last "
            "dimension of the (1, S + 1) scores, not along the first.",
            v_all.sum(0, keepdim=True),
        ),
        (
            "no_softmax",
            "The scores were used as weights; the softmax that makes them add up to 1 is missing.",
            (q @ k_all.T) * scale @ v_all,
        ),
        (
            "keys_for_values",
            "The weights come from the keys and fall on the values; here the keys were added up.",
            _attention(q, k_all, k_all, scale) if k_all.shape == v_all.shape else v_all[:0],
        ),
    ]


def _judge_attention(ask: Ask, args: Tensors) -> Failure | None:
    """One call: form, grown caches, output, in this order."""
    got = ask(*args)
    given = _inputs(args)
    if got is None:
        return Failure(
            "cached_attention returned nothing: end it with `return`.", given, "no_return"
        )
    parts = as_items(got)
    if parts is None or len(parts) != 3:
        idea = f"Return three tensors, out, k and v; this is {a_kind(got)}."
        return Failure(idea, (*given, ("got", show(got))), "not_three")
    for name, tensor in zip(("out", "k", "v"), parts, strict=True):
        if not isinstance(tensor, Tensor):
            idea = f"Return three ordinary tensors, out, k and v; {name} is {a_kind(tensor)}."
            return Failure(idea, (*given, (name, show(tensor))), "not_three")
    out, k_all, v_all = parts
    return _judge_caches(args, k_all, v_all) or _judge_output(ask, args, out)


def _judge_caches(args: Tensors, k_got: Tensor, v_got: Tensor) -> Failure | None:
    """The grown caches: the old rows in their order, then the new one."""
    _, k_cache, v_cache, k, v = args
    wanted = {"k": torch.cat([k_cache, k]), "v": torch.cat([v_cache, v])}  # (S + 1, D)
    for name, got, old, new in (("k", k_got, k_cache, k), ("v", v_got, v_cache, v)):
        if _close(got, wanted[name]):
            continue
        rows = (*_inputs(args), *_wanted_and_got(name, wanted[name], got))
        grown = f"({len(old) + 1}, {old.shape[1]}), every old row and then the new one"
        if _close(got, old):
            idea = f"{name} came back as it went in, but the next step needs it grown: {grown}."
            return Failure(idea, rows, "not_grown")
        if _close(got, new):
            idea = f"Only the new token's {name} came back, but the next step needs all: {grown}."
            return Failure(idea, rows, "only_the_new")
        if _close(got, torch.cat([new, old])):
            idea = (
                f"The new token stands at the front of {name}, but row i of a cache belongs to "
                "position i of the text, so it goes to the end."
            )
            return Failure(idea, rows, "front")
        if _close(got, wanted["v" if name == "k" else "k"]):
            idea = "K and V changed places: return out, then the keys, then the values."
            return Failure(idea, rows, "swapped")
        if got.dtype != wanted[name].dtype:
            idea = f"{name} is {_dtype(got)} although the cache is {_dtype(old)}: keep its type."
            return Failure(idea, rows, "dtype")
        if got.shape != wanted[name].shape:
            idea = f"{name} has shape {tuple(got.shape)}; it has to be {grown}."
            return Failure(idea, rows, "shape")
        return Failure(f"The grown {name} is not the old rows and then the new one.", rows)
    return None


def _right_output(args: Tensors) -> Tensor:
    """Plain attention over all S + 1 tokens."""
    q, k_cache, v_cache, k, v = args
    scale = 1 / math.sqrt(q.shape[1])
    return _attention(q, torch.cat([k_cache, k]), torch.cat([v_cache, v]), scale)  # (1, D)


def _judge_output(ask: Ask, args: Tensors, out: Tensor) -> Failure | None:
    """The output, and the mistake that gives this one and two more."""
    wanted = _right_output(args)
    if _close(out, wanted):
        return None
    rows = (*_inputs(args), *_wanted_and_got("out", wanted, out))
    if out.shape != wanted.shape:
        idea = f"out has shape {tuple(out.shape)}; one token goes in, so (1, D) comes out."
        return Failure(idea, rows, "shape")
    if out.dtype != wanted.dtype:
        idea = f"out is {_dtype(out)} although the inputs are {_dtype(wanted)}: keep their type."
        return Failure(idea, rows, "dtype")
    if torch.allclose(out, wanted, rtol=1e-3, atol=1e-3):
        idea = f"out is right to a few digits only: compute all of it in {_dtype(out)}."
        return Failure(idea, rows, "precision")
    if (
        not out.isfinite().all()
        and ((args[0] @ args[1].T) / math.sqrt(out.shape[1])).exp().isinf().any()
    ):
        idea = (
            "The exponentials of large scores are infinite: torch's softmax takes the largest "
            "score off all of them first, which changes no weight."
        )
        return Failure(idea, rows, "overflow")
    if _close(out, wanted + args[0]):
        idea = "out is what attention adds to the token; here the query itself was added."
        return Failure(idea, rows, "residual")
    key, idea = _cause(ask, [(args, out), *((case, _output(ask, case)) for case in _EVIDENCE)])
    return Failure(idea, rows, key)


def _output(ask: Ask, args: Tensors) -> Any:
    """The first of what comes back, whatever that is."""
    return next(iter(as_items(ask(*args)) or ()), None)


def _cause(ask: Ask, results: list[tuple[Tensors, Any]]) -> tuple[str | None, str]:
    """(key, idea) of the first mistake that gives all of these outputs."""
    known = [_output_mistakes(args) for args, _ in results]
    for mistakes in zip(*known, strict=True):
        outs = [out for _, out in results]
        if all(
            isinstance(out, Tensor) and _close(out, mistaken)
            for out, (_, _, mistaken) in zip(outs, mistakes, strict=True)
        ):
            key, idea, _ = mistakes[0]
            return key, idea
    return None, "out is not the softmax-weighted mean of the values of all S + 1 tokens."


def _close(got: Tensor, wanted: Tensor) -> bool:
    if got.shape != wanted.shape or got.dtype != wanted.dtype:
        return False
    tolerance = _TOLERANCE[wanted.dtype]
    return torch.allclose(got, wanted, rtol=tolerance, atol=tolerance)


def _dtype(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def _inputs(args: Tensors) -> Rows:
    """The five tensors in one row of the example."""
    lines = [f"{name} = {_rows(tensor)}" for name, tensor in zip(_NAMES, args, strict=True)]
    return (("input", "\n".join(lines)),)


def _wanted_and_got(name: str, wanted: Tensor, got: Tensor) -> Rows:
    """Both, to more digits where few do not tell them apart, else with their types."""
    for digits in (4, 7, 12):
        if (left := _rows(wanted, digits)) != (right := _rows(got, digits)):
            return ("expected", f"{name} = {left}"), ("got", f"{name} = {right}")
    both = ((_dtype(each), _rows(each)) for each in (wanted, got))
    (kind, left), (other, right) = both
    return ("expected", f"{name} = {left}, {kind}"), ("got", f"{name} = {right}, {other}")


def _rows(tensor: Tensor, digits: int = 4) -> str:
    """A small tensor as nested lists, rounded for reading."""
    if tensor.numel() == 0 or tensor.numel() > 40 or tensor.dim() != 2:
        return show(tensor)
    rows = [", ".join(f"{cell:.{digits}g}" for cell in row) for row in tensor.tolist()]
    return f"[{', '.join(f'[{row}]' for row in rows)}]"


def _qkv(rng: random.Random, length: int, size: int, dtype: torch.dtype) -> Tensors:
    """Random q, k_cache, v_cache, k, v with S = `length` and D = `size`."""
    generator = torch.Generator().manual_seed(rng.randrange(2**31))

    def rows(count: int) -> Tensor:
        return torch.randn(count, size, dtype=dtype, generator=generator)  # (count, D)

    return rows(1), rows(length), rows(length), rows(1), rows(1)


_EVIDENCE = tuple(_qkv(random.Random(seed), 3, 4, torch.float64) for seed in (1, 2))


def _by_hand(ask: Ask, rng: random.Random) -> Failure | None:
    """D = 4, so sqrt(D) = 2: scores 0 and ln 3, weights 1/4 and 3/4."""
    q = [[2.0, 0.0, 0.0, 0.0]]
    k_cache, k = [[0.0, 1.0, 0.0, 0.0]], [[math.log(3), 0.0, 0.0, 1.0]]
    v_cache, v = [[4.0, 0.0, 8.0, 0.0]], [[0.0, 4.0, 8.0, 0.0]]
    args = tuple(torch.tensor(t, dtype=torch.float64) for t in (q, k_cache, v_cache, k, v))
    return _judge_attention(ask, args)


def _first_token(ask: Ask, rng: random.Random) -> Failure | None:
    return _judge_attention(ask, _qkv(rng, 0, 2, torch.float64))


def _as_plain_attention(ask: Ask, rng: random.Random) -> Failure | None:
    for length in range(1, 25):
        failure = _judge_attention(ask, _qkv(rng, length, 1 + length % 8, torch.float64))
        if failure:
            return failure
    return None


def _large_scores(ask: Ask, rng: random.Random) -> Failure | None:
    q, k_cache, v_cache, k, v = _qkv(rng, 3, 2, torch.float64)
    return _judge_attention(ask, (70 * q.sign(), 12 * q.sign() + k_cache, v_cache, k, v))


def _single_precision(ask: Ask, rng: random.Random) -> Failure | None:
    return _judge_attention(ask, _qkv(rng, 3, 2, torch.float32))


_ATTENTION_CHECKS: tuple[tuple[str, Check], ...] = (
    ("two tokens, worked out by hand", _by_hand),
    ("the very first token, with an empty cache", _first_token),
    ("the same as attention without a cache", _as_plain_attention),
    ("the same in float32", _single_precision),
    ("a token that is very sure", _large_scores),
)


def check_cached_attention(function: Callable[..., Any], *, seed: int = 0) -> Report:
    """Judge an answer to l00.cached_attention."""
    return run_checks("l00.cached_attention", function, _ATTENTION_CHECKS, seed=seed)


# --- finish_steps ----------------------------------------------------------------------------


def _finish(lengths: list[int], slots: int, continuous: bool) -> list[int]:
    """When each request is done: simulated step by step, as the definition reads."""
    left, finished = list(lengths), [0] * len(lengths)
    running: list[int] = []
    next_one = step = 0
    while next_one < len(lengths) or running:
        if continuous or not running:
            while next_one < len(lengths) and len(running) < slots:
                running.append(next_one)
                next_one += 1
        step += 1
        for i in running:
            left[i] -= 1
            finished[i] = step
        running = [i for i in running if left[i]]
    return finished


def _with_their_batch(lengths: list[int], slots: int, continuous: bool) -> list[int]:
    done = _finish(lengths, slots, continuous)
    if continuous:
        return done
    batch = [i - i % slots for i in range(len(done))]
    return [max(done[first : first + slots]) for first in batch]


def _by_turns(lengths: list[int], slots: int, continuous: bool) -> list[int]:
    if not continuous:
        return _finish(lengths, slots, False)
    return [sum(lengths[i % slots : i + 1 : slots]) for i in range(len(lengths))]


def _late(lengths: list[int], slots: int, continuous: bool) -> list[int]:
    if not continuous:
        return _finish(lengths, slots, False)
    return [step - 1 for step in _finish([length + 1 for length in lengths], slots, True)]


def _shortest(lengths: list[int], slots: int, continuous: bool) -> list[int]:
    order = sorted(range(len(lengths)), key=lambda i: lengths[i])
    done = _finish([lengths[i] for i in order], slots, continuous)
    return [done[order.index(i)] for i in range(len(lengths))]


_FINISH: Comparison[Callable[[list[int], int, bool], list[int]]] = Comparison(
    reference=_finish,
    mistakes=(
        Mistake(
            "waits_for_longest",
            "In continuous batching nobody waits for the longest of a batch: as soon as one "
            "request is done, the next one takes its slot.",
            lambda lengths, slots, continuous: _finish(lengths, slots, False),
        ),
        Mistake(
            "static_refills",
            "In static batching a slot that falls free stays empty until the longest request of "
            "the batch is done; only then does the next batch start.",
            lambda lengths, slots, continuous: _finish(lengths, slots, True),
        ),
        Mistake(
            "all_with_longest",
            "A short request in a static batch is done when its own last token is; what waits for "
            "the longest is the next batch.",
            _with_their_batch,
        ),
        Mistake(
            "no_slots",
            "Only as many requests as there are slots run at the same time; the others wait until "
            "a slot is free.",
            lambda lengths, slots, continuous: list(lengths),
        ),
        Mistake(
            "one_at_a_time",
            "Each slot gives its request one token in every step, so as many requests as there "
            "are slots get on side by side.",
            lambda lengths, slots, continuous: _finish(lengths, 1, continuous),
        ),
        Mistake(
            "by_turns",
            "A request takes the slot that is free first, not the one whose turn it is: a short "
            "request frees its slot early.",
            _by_turns,
        ),
        Mistake(
            "late_refill",
            "A freed slot works again in the very next step; here it rests for one step.",
            _late,
        ),
        Mistake(
            "from_zero",
            "The first step is step 1: a request of length 3 that starts at once is done after 3 "
            "steps.",
            lambda lengths, slots, continuous: [
                step - 1 for step in _finish(lengths, slots, continuous)
            ],
        ),
        Mistake(
            "shortest_first",
            "First come, first served: requests start in the order of the list, however short the "
            "later ones are.",
            _shortest,
        ),
        Mistake(
            "how_long",
            "The step is counted from the very first one: a request that had to wait for its slot "
            "is done that much later.",
            lambda lengths, slots, continuous: (
                list(lengths) if not continuous else _finish(lengths, slots, True)
            ),
        ),
        Mistake(
            "starts",
            "This is the step after which each request starts; it is done as many steps later as "
            "it has tokens.",
            lambda lengths, slots, continuous: [
                done - length
                for done, length in zip(_finish(lengths, slots, continuous), lengths, strict=True)
            ],
        ),
        Mistake(
            "sorted",
            "Entry i belongs to request i, so the list is in the order of the requests, not in the "
            "order in which they finish.",
            lambda lengths, slots, continuous: sorted(_finish(lengths, slots, continuous)),
        ),
    ),
    idea="A request is done as many steps after its start as it has tokens, and it starts when its "
    "slot is free.",
    form=list_of_ints,
    evidence=[
        ([3, 1, 4, 1, 5, 9, 2, 6], 3, True),
        ([3, 1, 4, 1, 5, 9, 2, 6], 3, False),
        ([2, 2, 1], 1, False),
        ([1, 4, 4], 5, True),
    ],
    each="request",
)


def _one_slot(ask: Ask, rng: random.Random) -> Failure | None:
    return _FINISH.judge(ask, [([3], 1, False), ([3, 2], 1, False), ([4, 1, 2], 1, True)])


def _static_batches(ask: Ask, rng: random.Random) -> Failure | None:
    return _FINISH.judge(ask, [([2, 5, 3], 2, False), ([5, 1, 2, 4, 1], 2, False)])


def _continuous_batches(ask: Ask, rng: random.Random) -> Failure | None:
    return _FINISH.judge(
        ask, [([2, 5, 3], 2, True), ([5, 2, 1, 3], 2, True), ([6, 1, 1, 1, 1], 2, True)]
    )


def _any_batches(ask: Ask, rng: random.Random) -> Failure | None:
    cases: list[Args] = []
    for count in [0, *range(1, 13)] * 4:
        longest = rng.choice((1, 3, 9, 40))  # equal lengths too, and a few very long ones
        lengths = [rng.randint(1, longest) for _ in range(count)]
        cases.append((lengths, rng.randint(1, 5), rng.random() < 0.6))
    for continuous in (False, True):
        lengths = [rng.randint(1, 9) for _ in range(20)]
        cases += [(lengths, 8, continuous), (lengths, 9, continuous), (lengths[:3], 7, continuous)]
    return _FINISH.judge(ask, sorted(cases, key=lambda case: len(case[0])))


_FINISH_CHECKS: tuple[tuple[str, Check], ...] = (
    ("one slot: one after the other", _one_slot),
    ("static batches of two", _static_batches),
    ("two slots, refilled at once", _continuous_batches),
    ("any lengths, any number of slots", _any_batches),
)


def check_finish_steps(function: Callable[..., Any], *, seed: int = 0) -> Report:
    """Judge an answer to l00.finish_steps."""
    return run_checks("l00.finish_steps", function, _FINISH_CHECKS, seed=seed)


# --- registry --------------------------------------------------------------------------------

EXERCISES = (
    Exercise(
        id="l00.next_inputs",
        lesson="l00_kv_cache",
        name="next_inputs",
        title="What the model still has to see",
        minutes=3,
        points=1,
        part=None,
        hints=(
            "K and V of which tokens does the model not have yet?",
            "The cached tokens are the first num_cached of the list. At which index does the first "
            "token without K and V stand?",
            "A slice gives everything from an index on. Try yours for a prompt of which nothing is "
            "cached, and for a text of which all but the last token are.",
        ),
        check=check_next_inputs,
        task=Task(
            signature="next_inputs(tokens: list[int], num_cached: int) -> list[int]",
            rules=(
                "`tokens` are the ids of all known tokens of one request: its prompt, then what "
                "was generated so far.",
                "K and V of the first `num_cached` of them are in the cache. That may be 0, and at "
                "least one token is not cached.",
                "Return the tokens that the model must be fed in this step, as a list, and leave "
                "`tokens` as it is.",
            ),
            args=([18, 47, 56, 18, 53], 3),
            result=[18, 53],
        ),
    ),
    Exercise(
        id="l00.cached_attention",
        lesson="l00_kv_cache",
        name="cached_attention",
        title="Attention with a cache",
        minutes=10,
        points=3,
        part=None,
        hints=(
            "The new token may look at every token so far. Is it one of them?",
            "Append first, attend afterwards. How many keys does the one query then have, and does "
            "any of them lie in its future?",
            "Three things to compute: the grown caches (torch.cat), one score per key, and the "
            "softmax of the scores as weights on the values. Write down each shape: (S + 1, D), "
            "(1, S + 1), (1, D).",
        ),
        check=check_cached_attention,
        task=Task(
            signature="cached_attention(q: torch.Tensor, k_cache: torch.Tensor, "
            "v_cache: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> "
            "tuple[torch.Tensor, torch.Tensor, torch.Tensor]",
            rules=(
                "One head, one new token: `q`, `k` and `v`, each `(1, D)`, are its query, key and "
                "value.",
                "`k_cache` and `v_cache`, each `(S, D)`, are the tokens before it, oldest first. "
                "For the very first token S is 0.",
                "Return `(out, k_all, v_all)`: `out` `(1, D)` is the new token's attention, "
                "softmax(q · kᵀ / sqrt(D)) · v, and `k_all`, `v_all` `(S + 1, D)` are the caches "
                "for the next step, oldest first.",
                "Keep the type of the numbers (float32 or float64), and leave the five tensors "
                "that came in as they are.",
            ),
            args=tuple(
                torch.tensor(rows) for rows in ([[2.0]], [[0.0]], [[4.0]], [[0.0]], [[8.0]])
            ),
            result=(
                torch.tensor([[6.0]]),
                torch.tensor([[0.0], [0.0]]),
                torch.tensor([[4.0], [8.0]]),
            ),
        ),
    ),
    Exercise(
        id="l00.finish_steps",
        lesson="l00_kv_cache",
        name="finish_steps",
        title="Static and continuous batching",
        minutes=12,
        points=2,
        part=None,
        hints=(
            "When does a slot become free, and who may use it from then on?",
            "Keep a number for each slot: the step after which it is free. What does a request "
            "that takes the slot do to that number?",
            "In continuous batching a request takes the slot whose number is the smallest. In "
            "static batching it does so too, but before a batch begins all the numbers become the "
            "same one. Which?",
        ),
        check=check_finish_steps,
        task=Task(
            signature="finish_steps(lengths: list[int], slots: int, continuous: bool) -> list[int]",
            rules=(
                "Request i needs `lengths[i]` tokens (at least 1) and gets one in every step in "
                "which it has one of the `slots` slots.",
                "All requests are there from the beginning and start in the order of the list.",
                "Static batching, `continuous` False: `slots` requests start together, and the "
                "next ones only when all of these are done.",
                "Continuous batching, `continuous` True: when a request is done, the next one has "
                "its slot from the following step on.",
                "Return, for each request in the order of the list, after how many steps it is "
                "done. A request of 3 tokens that starts at once is done after 3.",
            ),
            args=([2, 4, 1], 2, True),
            result=[2, 4, 3],
        ),
    ),
)
