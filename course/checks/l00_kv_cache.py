"""Checks of lesson 0, the KV cache and batching."""

import math
import random
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from course.checks.comparing import Args, Comparison, Mistake, a_kind, list_of_ints, tokens
from course.judging import Ask, Check, Failure, Rows, run_checks
from course.registry import Exercise
from course.report import Report
from course.showing import show

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
        Mistake(
            "feeds_the_cached",
            "These are the tokens that are cached already; the model needs the others.",
            lambda tokens, num_cached: tokens[:num_cached],
        ),
    ),
    idea="Feed exactly the tokens whose K and V are not in the cache, in the order of the text.",
    form=list_of_ints,
)


def _first_step(ask: Ask, rng: random.Random) -> Failure | None:
    return _NEXT.judge(ask, [([5, 3, 8], 0), ([6], 0)])


def _decode_step(ask: Ask, rng: random.Random) -> Failure | None:
    return _NEXT.judge(ask, [([5, 3, 8, 1], 3), ([5, 3, 8, 1, 9], 4)])


def _any_step(ask: Ask, rng: random.Random) -> Failure | None:
    cases: list[Args] = []
    for length in range(2, 30):
        cases.append((tokens(rng, length), rng.randrange(length)))
    return _NEXT.judge(ask, cases)


_NEXT_CHECKS: tuple[tuple[str, Check], ...] = (
    ("the first step, nothing cached", _first_step),
    ("one new token", _decode_step),
    ("any text, any part of it cached", _any_step),
)


def check_next_inputs(function: Callable[..., Any], *, seed: int = 0) -> Report:
    """Judge an answer to l00.next_inputs."""
    return run_checks("l00.next_inputs", function, _NEXT_CHECKS, seed=seed)


# --- cached_attention ------------------------------------------------------------------------

_NAMES = ("q", "k_cache", "v_cache", "k", "v")
_TOLERANCE = {torch.float64: 1e-9, torch.float32: 1e-5}


def _attention(q: Tensor, k: Tensor, v: Tensor, scale: float) -> Tensor:
    """Plain attention of q (1, D) over k, v (S, D)."""
    return torch.softmax((q @ k.T) * scale, dim=1) @ v  # (1, D)


def _output_mistakes(
    q: Tensor, k_cache: Tensor, v_cache: Tensor, k: Tensor, v: Tensor
) -> list[tuple[str, str, Tensor]]:
    """(key, idea, the output that this mistake gives), for each known mistake."""
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
            "no_scale",
            "The scores have to be divided by sqrt(D) before the softmax; without it one token "
            "takes nearly all the weight.",
            _attention(q, k_all, v_all, 1.0),
        ),
        (
            "scaled_by_d",
            "The scores are divided by D here; attention divides them by its square root.",
            _attention(q, k_all, v_all, 1 / q.shape[1]),
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
    ]


def _judge_attention(ask: Ask, args: tuple[Tensor, ...]) -> Failure | None:
    """One call: form, grown caches, output, and the arguments left alone, in this order."""
    called = ask.call(*args)
    got = called.value
    given = _inputs(args)
    if got is None:
        return Failure(
            "cached_attention returned nothing: end it with `return`.", given, "no_return"
        )
    if not isinstance(got, tuple | list) or len(got) != 3:
        idea = f"Return three tensors, out, k and v; this is {a_kind(got)}."
        return Failure(idea, (*given, ("got", show(got))), "not_three")
    for name, tensor in zip(("out", "k", "v"), got, strict=True):
        if not isinstance(tensor, Tensor):
            idea = f"Return three tensors, out, k and v; {name} is {a_kind(tensor)}."
            return Failure(idea, (*given, (name, show(tensor))), "not_three")
    out, k_all, v_all = got
    failure = _judge_caches(args, k_all, v_all) or _judge_output(args, out)
    if failure:
        return failure
    for name, before, after in zip(_NAMES, args, called.args_after, strict=True):
        if before.shape != after.shape or not torch.equal(before, after):
            idea = (
                f"The result is right, but {name} was changed in place, and whoever passed it in "
                "may still need it: build new tensors."
            )
            rows = (("before", _plain(name, before)), ("after", _plain(name, after)))
            return Failure(idea, rows, "in_place")
    return None


def _judge_caches(args: tuple[Tensor, ...], k_got: Tensor, v_got: Tensor) -> Failure | None:
    """The grown caches: the old rows in their order, then the new one."""
    _, k_cache, v_cache, k, v = args
    wanted = {"k": torch.cat([k_cache, k]), "v": torch.cat([v_cache, v])}  # (S + 1, D)
    for name, got, old, new in (("k", k_got, k_cache, k), ("v", v_got, v_cache, v)):
        if _close(got, wanted[name]):
            continue
        rows = (
            *_inputs(args),
            ("expected", _plain(name, wanted[name])),
            ("got", _plain(name, got)),
        )
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


def _judge_output(args: tuple[Tensor, ...], out: Tensor) -> Failure | None:
    """The output against plain attention over all S + 1 tokens."""
    q, k_cache, v_cache, k, v = args
    scale = 1 / math.sqrt(q.shape[1])
    wanted = _attention(q, torch.cat([k_cache, k]), torch.cat([v_cache, v]), scale)  # (1, D)
    if _close(out, wanted):
        return None
    rows = (*_inputs(args), ("expected", _plain("out", wanted)), ("got", _plain("out", out)))
    if out.shape != wanted.shape:
        idea = f"out has shape {tuple(out.shape)}; one token goes in, so (1, D) comes out."
        return Failure(idea, rows, "shape")
    if out.dtype != wanted.dtype:
        idea = f"out is {_dtype(out)} although the inputs are {_dtype(wanted)}: keep their type."
        return Failure(idea, rows, "dtype")
    for key, idea, mistaken in _output_mistakes(*args):
        if _close(out, mistaken):
            return Failure(idea, rows, key)
    idea = "out is not the softmax-weighted mean of the values of all S + 1 tokens."
    return Failure(idea, rows)


def _close(got: Tensor, wanted: Tensor) -> bool:
    if got.shape != wanted.shape or got.dtype != wanted.dtype:
        return False
    tolerance = _TOLERANCE[wanted.dtype]
    return torch.allclose(got, wanted, rtol=tolerance, atol=tolerance)


def _dtype(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def _inputs(args: tuple[Tensor, ...]) -> Rows:
    """The five tensors in one row of the example."""
    lines = [_plain(name, tensor) for name, tensor in zip(_NAMES, args, strict=True)]
    return (("input", "\n".join(lines)),)


def _plain(name: str, tensor: Tensor) -> str:
    """A small tensor as nested lists, rounded for reading."""
    if tensor.numel() == 0 or tensor.numel() > 40 or tensor.dim() != 2:
        return f"{name} = {show(tensor)}"
    rows = [", ".join(f"{cell:.4g}" for cell in row) for row in tensor.tolist()]
    return f"{name} = [{', '.join(f'[{row}]' for row in rows)}]"


def _qkv(rng: random.Random, length: int, size: int, dtype: torch.dtype) -> tuple[Tensor, ...]:
    """Random q, k_cache, v_cache, k, v with S = `length` and D = `size`."""
    generator = torch.Generator().manual_seed(rng.randrange(2**31))

    def rows(count: int) -> Tensor:
        return torch.randn(count, size, dtype=dtype, generator=generator)  # (count, D)

    return rows(1), rows(length), rows(length), rows(1), rows(1)


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


def _single_precision(ask: Ask, rng: random.Random) -> Failure | None:
    return _judge_attention(ask, _qkv(rng, 3, 2, torch.float32))


_ATTENTION_CHECKS: tuple[tuple[str, Check], ...] = (
    ("two tokens, worked out by hand", _by_hand),
    ("the very first token, with an empty cache", _first_token),
    ("the same as attention without a cache", _as_plain_attention),
    ("the same in float32", _single_precision),
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
            "sorted",
            "Entry i belongs to request i, so the list is in the order of the requests, not in the "
            "order in which they finish.",
            lambda lengths, slots, continuous: sorted(_finish(lengths, slots, continuous)),
        ),
    ),
    idea="A request is done as many steps after its start as it has tokens, and it starts when its "
    "slot is free.",
    form=list_of_ints,
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
        lengths = [rng.randint(1, 9) for _ in range(count)]
        cases.append((lengths, rng.randint(1, 5), rng.random() < 0.6))
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
            "The cached tokens are the first num_cached of the list, so the answer is everything "
            "behind them: one token in a decode, the whole prompt in the first step.",
            "A slice that starts at num_cached and runs to the end.",
        ),
        check=check_next_inputs,
    ),
    Exercise(
        id="l00.cached_attention",
        lesson="l00_kv_cache",
        name="cached_attention",
        title="Attention with a cache",
        minutes=8,
        points=3,
        part=None,
        hints=(
            "The new token may look at every token so far. Is it one of them?",
            "Put the new k and v behind the cached ones first. Then it is plain attention of one "
            "query over S + 1 keys, and no mask is needed.",
            "k_all = torch.cat([k_cache, k]), the same for v; scores = q @ k_all.T / sqrt(D); a "
            "softmax over the last dimension, times v_all.",
        ),
        check=check_cached_attention,
    ),
    Exercise(
        id="l00.finish_steps",
        lesson="l00_kv_cache",
        name="finish_steps",
        title="Static and continuous batching",
        minutes=8,
        points=2,
        part=None,
        hints=(
            "When does a slot become free, and who may use it from then on?",
            "Keep, for each slot, the step after which it is free. A request takes the slot that "
            "is free first; a new static batch starts when all of them are.",
            "free_at = [0] * slots. For each request: in static batching, at every multiple of "
            "slots, set all of free_at to its maximum; then add the length to the smallest entry "
            "and note the result.",
        ),
        check=check_finish_steps,
    ),
)
