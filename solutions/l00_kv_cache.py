"""Lesson 0, the KV cache and batching: worked answers, other right ones, known wrong ones."""

import heapq
import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from solutions.wrong import WrongAnswer

# --- next_inputs -----------------------------------------------------------------------------


def next_inputs(tokens: list[int], num_cached: int) -> list[int]:
    """Return the tokens that the model must be fed in this step.

    `tokens` are all known tokens of one request: its prompt, then what was generated so far.
    The keys and values of the first `num_cached` of them are in the cache already, and at least
    one token is not (0 <= num_cached < len(tokens)). Leave `tokens` as it is.
    """
    # A token's K and V depend on it and the tokens before it, all of which are settled. So they
    # never change, and whatever is cached need not go through the model again.
    return tokens[num_cached:]


def next_inputs_by_loop(tokens: list[int], num_cached: int) -> list[int]:
    fed: list[int] = []
    for position, token in enumerate(tokens):
        if position >= num_cached:
            fed.append(token)
    return fed


def next_inputs_from_the_end(tokens: list[int], num_cached: int) -> list[int]:
    num_new = len(tokens) - num_cached
    return list(tokens)[-num_new:]


def next_inputs_on_a_copy(tokens: list[int], num_cached: int) -> list[int]:
    fed = list(tokens)
    for _ in range(num_cached):
        fed.pop(0)
    return fed


def _eats_the_tokens(tokens: list[int], num_cached: int) -> list[int]:
    del tokens[:num_cached]
    return tokens


# --- cached_attention ------------------------------------------------------------------------


def cached_attention(
    q: Tensor, k_cache: Tensor, v_cache: Tensor, k: Tensor, v: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Attend from one new token to every token so far, itself included, in one head.

    `q`, `k`, `v` are (1, D): the new token's query, key and value. `k_cache` and `v_cache` are
    (S, D): the tokens before it, oldest first; S is 0 for the very first token.
    Return `(out, k_all, v_all)`: `out` (1, D) is softmax(q · kᵀ / sqrt(D)) · v over all S + 1
    tokens, and `k_all`, `v_all` (S + 1, D) are the caches with the new token added, oldest first.
    Leave the five tensors that you were given as they are.
    """
    # Append first, then attend: a token sees itself. No mask is needed, because everything in
    # the cache came before the one query.
    k_all = torch.cat([k_cache, k])  # (S + 1, D)
    v_all = torch.cat([v_cache, v])  # (S + 1, D)
    scores = q @ k_all.T / math.sqrt(q.shape[-1])  # (1, S + 1)
    return scores.softmax(dim=-1) @ v_all, k_all, v_all


def cached_attention_with_sdpa(
    q: Tensor, k_cache: Tensor, v_cache: Tensor, k: Tensor, v: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    k_all = torch.vstack((k_cache, k))  # (S + 1, D)
    v_all = torch.vstack((v_cache, v))  # (S + 1, D)
    out = F.scaled_dot_product_attention(q[None], k_all[None], v_all[None])  # (1, 1, D)
    return out[0], k_all, v_all


def cached_attention_preallocated(
    q: Tensor, k_cache: Tensor, v_cache: Tensor, k: Tensor, v: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    length, size = k_cache.shape
    k_all = k_cache.new_empty(length + 1, size)
    v_all = v_cache.new_empty(length + 1, size)
    k_all[:length], k_all[length:] = k_cache, k
    v_all[:length], v_all[length:] = v_cache, v
    weights = torch.softmax(torch.einsum("td,sd->ts", q * size**-0.5, k_all), 1)  # (1, S + 1)
    return torch.einsum("ts,sd->td", weights, v_all), k_all, v_all


def cached_attention_by_hand(
    q: Tensor, k_cache: Tensor, v_cache: Tensor, k: Tensor, v: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    k_all = torch.stack([*k_cache, k[0]])  # (S + 1, D)
    v_all = torch.stack([*v_cache, v[0]])  # (S + 1, D)
    scores = (k_all * q).sum(1) / q.shape[1] ** 0.5  # (S + 1,)
    weights = torch.exp(scores - scores.max())  # (S + 1,)
    out = sum(w * row for w, row in zip(weights / weights.sum(), v_all, strict=True))  # (D,)
    return torch.as_tensor(out)[None], k_all, v_all


def _attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return (q @ k.T / q.shape[-1] ** 0.5).softmax(-1) @ v


def _attends_before_appending(
    q: Tensor, k_cache: Tensor, v_cache: Tensor, k: Tensor, v: Tensor
) -> Any:
    out = _attention(q, k_cache, v_cache)
    return out, torch.cat([k_cache, k]), torch.cat([v_cache, v])


def _attends_to_itself_alone(
    q: Tensor, k_cache: Tensor, v_cache: Tensor, k: Tensor, v: Tensor
) -> Any:
    return _attention(q, k, v), torch.cat([k_cache, k]), torch.cat([v_cache, v])


def _with_the_causal_flag(q: Tensor, k_cache: Tensor, v_cache: Tensor, k: Tensor, v: Tensor) -> Any:
    k, v = torch.cat([k_cache, k]), torch.cat([v_cache, v])
    return F.scaled_dot_product_attention(q[None], k[None], v[None], is_causal=True)[0], k, v


def _exponentials_as_they_are(
    q: Tensor, k_cache: Tensor, v_cache: Tensor, k: Tensor, v: Tensor
) -> Any:
    k, v = torch.cat([k_cache, k]), torch.cat([v_cache, v])
    weights = torch.exp(q @ k.T / q.shape[-1] ** 0.5)
    return weights / weights.sum() @ v, k, v


def _divides_by_the_length(
    q: Tensor, k_cache: Tensor, v_cache: Tensor, k: Tensor, v: Tensor
) -> Any:
    k, v = torch.cat([k_cache, k]), torch.cat([v_cache, v])
    return (q @ k.T / len(k) ** 0.5).softmax(-1) @ v, k, v


def _scales_on_top_of_sdpa(
    q: Tensor, k_cache: Tensor, v_cache: Tensor, k: Tensor, v: Tensor
) -> Any:
    k, v = torch.cat([k_cache, k]), torch.cat([v_cache, v])
    scaled = q / q.shape[-1] ** 0.5
    return F.scaled_dot_product_attention(scaled[None], k[None], v[None])[0], k, v


def _adds_up_keys(q: Tensor, k_cache: Tensor, v_cache: Tensor, k: Tensor, v: Tensor) -> Any:
    k, v = torch.cat([k_cache, k]), torch.cat([v_cache, v])
    return _attention(q, k, k), k, v


def _adds_the_query(q: Tensor, k_cache: Tensor, v_cache: Tensor, k: Tensor, v: Tensor) -> Any:
    k, v = torch.cat([k_cache, k]), torch.cat([v_cache, v])
    return q + _attention(q, k, v), k, v


def _rounds_on_the_way(q: Tensor, k_cache: Tensor, v_cache: Tensor, k: Tensor, v: Tensor) -> Any:
    k, v = torch.cat([k_cache, k]), torch.cat([v_cache, v])
    return _attention(q.float(), k.float(), v.float()).to(q.dtype), k, v


def _forgets_the_scale(q: Tensor, k_cache: Tensor, v_cache: Tensor, k: Tensor, v: Tensor) -> Any:
    k, v = torch.cat([k_cache, k]), torch.cat([v_cache, v])
    return (q @ k.T).softmax(-1) @ v, k, v


def _divides_by_d(q: Tensor, k_cache: Tensor, v_cache: Tensor, k: Tensor, v: Tensor) -> Any:
    k, v = torch.cat([k_cache, k]), torch.cat([v_cache, v])
    return (q @ k.T / q.shape[-1]).softmax(-1) @ v, k, v


def _softmax_over_queries(q: Tensor, k_cache: Tensor, v_cache: Tensor, k: Tensor, v: Tensor) -> Any:
    k, v = torch.cat([k_cache, k]), torch.cat([v_cache, v])
    return (q @ k.T / q.shape[-1] ** 0.5).softmax(0) @ v, k, v


def _no_softmax(q: Tensor, k_cache: Tensor, v_cache: Tensor, k: Tensor, v: Tensor) -> Any:
    k, v = torch.cat([k_cache, k]), torch.cat([v_cache, v])
    return (q @ k.T / q.shape[-1] ** 0.5) @ v, k, v


def _appends_at_the_front(q: Tensor, k_cache: Tensor, v_cache: Tensor, k: Tensor, v: Tensor) -> Any:
    k, v = torch.cat([k, k_cache]), torch.cat([v, v_cache])
    return _attention(q, k, v), k, v


def _returns_the_old_caches(
    q: Tensor, k_cache: Tensor, v_cache: Tensor, k: Tensor, v: Tensor
) -> Any:
    out = _attention(q, torch.cat([k_cache, k]), torch.cat([v_cache, v]))
    return out, k_cache, v_cache


def _returns_only_the_new(q: Tensor, k_cache: Tensor, v_cache: Tensor, k: Tensor, v: Tensor) -> Any:
    return _attention(q, torch.cat([k_cache, k]), torch.cat([v_cache, v])), k, v


def _swaps_k_and_v(q: Tensor, k_cache: Tensor, v_cache: Tensor, k: Tensor, v: Tensor) -> Any:
    k, v = torch.cat([k_cache, k]), torch.cat([v_cache, v])
    return _attention(q, k, v), v, k


def _grows_in_place(q: Tensor, k_cache: Tensor, v_cache: Tensor, k: Tensor, v: Tensor) -> Any:
    for cache, new in ((k_cache, k), (v_cache, v)):
        cache.resize_(len(cache) + 1, cache.shape[1])
        cache[-1:] = new
    return _attention(q, k_cache, v_cache), k_cache, v_cache


def _scales_q_in_place(q: Tensor, k_cache: Tensor, v_cache: Tensor, k: Tensor, v: Tensor) -> Any:
    k, v = torch.cat([k_cache, k]), torch.cat([v_cache, v])
    q /= q.shape[-1] ** 0.5
    return (q @ k.T).softmax(-1) @ v, k, v


def _drops_a_dimension(q: Tensor, k_cache: Tensor, v_cache: Tensor, k: Tensor, v: Tensor) -> Any:
    k, v = torch.cat([k_cache, k]), torch.cat([v_cache, v])
    return _attention(q, k, v)[0], k, v


def _computes_in_single_precision(
    q: Tensor, k_cache: Tensor, v_cache: Tensor, k: Tensor, v: Tensor
) -> Any:
    k, v = torch.cat([k_cache, k]), torch.cat([v_cache, v])
    return _attention(q.float(), k.float(), v.float()), k, v


def _stores_single_precision(
    q: Tensor, k_cache: Tensor, v_cache: Tensor, k: Tensor, v: Tensor
) -> Any:
    k, v = torch.cat([k_cache, k]), torch.cat([v_cache, v])
    return _attention(q, k, v), k.float(), v.float()


# --- finish_steps ----------------------------------------------------------------------------


def finish_steps(lengths: list[int], slots: int, continuous: bool) -> list[int]:
    """Return, for each request, after how many steps it is done.

    Request i needs `lengths[i]` tokens and gets one in every step in which it has a slot. There
    are `slots` slots. Requests start in the order of the list; all are there from the beginning.
    - Static batching (`continuous` is False): the next `slots` requests start together, and the
      following batch starts only when the longest of them is done. A short request is done when
      its own last token is, but its slot stays empty until then.
    - Continuous batching (`continuous` is True): when a request is done, the next one has its
      slot from the following step on.
    The first step is step 1, so a request of length 3 that starts at once is done after 3.
    """
    # Think of a slot as a clock that shows when it is free. Each request takes the slot that is
    # free first. Static batching is the same, except that a new batch sets every clock to the
    # latest one: that is the waiting which continuous batching gets rid of.
    free_at = [0] * slots
    finished: list[int] = []
    for i, length in enumerate(lengths):
        if not continuous and i % slots == 0:
            free_at = [max(free_at)] * slots
        slot = free_at.index(min(free_at))
        free_at[slot] += length
        finished.append(free_at[slot])
    return finished


def finish_steps_with_a_heap(lengths: list[int], slots: int, continuous: bool) -> list[int]:
    if continuous:
        free_at = [0] * slots
        return [_take_slot(free_at, length) for length in lengths]
    finished: list[int] = []
    start = 0
    for first in range(0, len(lengths), slots):
        batch = lengths[first : first + slots]
        finished += [start + length for length in batch]
        start += max(batch)
    return finished


def _take_slot(free_at: list[int], length: int) -> int:
    done = heapq.heappop(free_at) + length
    heapq.heappush(free_at, done)
    return done


def finish_steps_by_simulation(lengths: list[int], slots: int, continuous: bool) -> list[int]:
    left = list(lengths)
    finished = [0] * len(lengths)
    queue = list(range(len(lengths)))
    running: list[int] = []
    step = 0
    while queue or running:
        if continuous or not running:
            while queue and len(running) < slots:
                running.append(queue.pop(0))
        step += 1
        for i in running:
            left[i] -= 1
            if left[i] == 0:
                finished[i] = step
        running = [i for i in running if left[i] > 0]
    return finished


def finish_steps_recursive(lengths: list[int], slots: int, continuous: bool) -> list[int]:
    def place(todo: list[int], free_at: list[int]) -> list[int]:
        if not todo:
            return []
        if continuous:
            done = free_at[0] + todo[0]
            return [done, *place(todo[1:], sorted([*free_at[1:], done]))]
        batch = [free_at[0] + length for length in todo[:slots]]
        return batch + place(todo[slots:], [max(batch)])

    return place(list(lengths), [0] * slots)


def _static(lengths: list[int], slots: int) -> list[int]:
    return finish_steps(lengths, slots, False)


def _all_wait_for_the_longest(lengths: list[int], slots: int, continuous: bool) -> list[int]:
    done = finish_steps(lengths, slots, continuous)
    if continuous:
        return done
    return [max(done[i - i % slots : i - i % slots + slots]) for i in range(len(done))]


def _slots_by_turns(lengths: list[int], slots: int, continuous: bool) -> list[int]:
    if not continuous:
        return _static(lengths, slots)
    return [sum(lengths[i % slots : i + 1 : slots]) for i in range(len(lengths))]


def _one_step_to_refill(lengths: list[int], slots: int, continuous: bool) -> list[int]:
    if not continuous:
        return _static(lengths, slots)
    done = finish_steps([length + 1 for length in lengths], slots, True)
    return [step - 1 for step in done]


def _shortest_first(lengths: list[int], slots: int, continuous: bool) -> list[int]:
    order = sorted(range(len(lengths)), key=lambda i: lengths[i])
    done = finish_steps([lengths[i] for i in order], slots, continuous)
    return [done[order.index(i)] for i in range(len(lengths))]


# --- the lists that tests read ---------------------------------------------------------------

RIGHT = {
    "l00.next_inputs": (
        next_inputs,
        next_inputs_by_loop,
        next_inputs_from_the_end,
        next_inputs_on_a_copy,
    ),
    "l00.cached_attention": (
        cached_attention,
        cached_attention_with_sdpa,
        cached_attention_preallocated,
        cached_attention_by_hand,
    ),
    "l00.finish_steps": (
        finish_steps,
        finish_steps_with_a_heap,
        finish_steps_by_simulation,
        finish_steps_recursive,
    ),
}

_NEXT = "l00.next_inputs"
_ATTEND = "l00.cached_attention"
_FINISH = "l00.finish_steps"

WRONG = (
    WrongAnswer(
        _NEXT,
        "feeds everything",
        "feeds_everything",
        "The model needs the whole text every time, cache or not.",
        lambda tokens, num_cached: tokens,
    ),
    WrongAnswer(
        _NEXT,
        "feeds the last token only",
        "last_token_only",
        "With a cache, a step always feeds one token, the prompt's first step included.",
        lambda tokens, num_cached: tokens[-1:],
    ),
    WrongAnswer(
        _NEXT,
        "feeds the last cached token again",
        "one_too_many",
        "The newest cached token has to be fed so that the model can go on from it.",
        lambda tokens, num_cached: tokens[max(0, num_cached - 1) :],
    ),
    WrongAnswer(
        _NEXT,
        "skips one",
        "one_too_few",
        "Counting starts at 1, so the first token without K/V has index num_cached + 1.",
        lambda tokens, num_cached: tokens[num_cached + 1 :],
    ),
    WrongAnswer(
        _NEXT,
        "feeds what is cached",
        "feeds_the_cached",
        "The cached tokens are the ones that the model reads.",
        lambda tokens, num_cached: tokens[:num_cached],
    ),
    WrongAnswer(
        _NEXT,
        "leaves out what was there before",
        "by_value",
        "A token that is in the cache need not be fed.",
        lambda tokens, num_cached: [t for t in tokens if t not in tokens[:num_cached]],
    ),
    WrongAnswer(
        _NEXT,
        "feeds each letter once",
        "by_value",
        "The same letter has the same K and V.",
        lambda tokens, num_cached: list(dict.fromkeys(tokens[num_cached:])),
    ),
    WrongAnswer(
        _NEXT,
        "looks for the first new letter",
        "by_value",
        "A token's place is where the list has it.",
        lambda tokens, num_cached: tokens[tokens.index(tokens[num_cached]) :],
    ),
    WrongAnswer(
        _NEXT,
        "newest first",
        "backwards",
        "The newest token matters most.",
        lambda tokens, num_cached: tokens[: num_cached - 1 : -1] if num_cached else tokens[::-1],
    ),
    WrongAnswer(
        _NEXT,
        "returns a number",
        "not_a_list",
        "One token is fed, so a number will do.",
        lambda tokens, num_cached: tokens[-1],
    ),
    WrongAnswer(
        _NEXT,
        "eats the tokens",
        "in_place",
        "What has been fed may be thrown away.",
        _eats_the_tokens,
    ),
    WrongAnswer(
        _ATTEND,
        "attends before appending",
        "cache_only",
        "The cache is what a query looks at; the new token joins it afterwards.",
        _attends_before_appending,
    ),
    WrongAnswer(
        _ATTEND,
        "attends to itself alone",
        "itself_only",
        "One token goes in, so attention has one key.",
        _attends_to_itself_alone,
    ),
    WrongAnswer(
        _ATTEND,
        "with the causal flag",
        "first_only",
        "Attention in a decoder is causal, so the flag has to be set.",
        _with_the_causal_flag,
    ),
    WrongAnswer(
        _ATTEND,
        "exponentials as they are",
        "overflow",
        "A softmax is exp over the sum of exp.",
        _exponentials_as_they_are,
    ),
    WrongAnswer(
        _ATTEND,
        "divides by the length",
        "scaled_by_length",
        "The more tokens there are, the smaller the scores have to be.",
        _divides_by_the_length,
    ),
    WrongAnswer(
        _ATTEND,
        "scales on top of SDPA",
        "scaled_by_d",
        "The library leaves the scale to its caller.",
        _scales_on_top_of_sdpa,
    ),
    WrongAnswer(
        _ATTEND,
        "adds up keys",
        "keys_for_values",
        "What a token looks at is what it takes.",
        _adds_up_keys,
    ),
    WrongAnswer(
        _ATTEND,
        "adds the query",
        "residual",
        "The residual connection belongs to attention.",
        _adds_the_query,
    ),
    WrongAnswer(
        _ATTEND,
        "rounds on the way",
        "precision",
        "Single precision is enough for attention.",
        _rounds_on_the_way,
    ),
    WrongAnswer(
        _ATTEND,
        "forgets the scale",
        "no_scale",
        "Scores go into the softmax as they are.",
        _forgets_the_scale,
    ),
    WrongAnswer(
        _ATTEND,
        "divides by D",
        "scaled_by_d",
        "Scores are divided by the head size.",
        _divides_by_d,
    ),
    WrongAnswer(
        _ATTEND,
        "softmax over queries",
        "softmax_dim",
        "The first dimension is the one to normalise.",
        _softmax_over_queries,
    ),
    WrongAnswer(
        _ATTEND,
        "no softmax",
        "no_softmax",
        "Scores are the weights.",
        _no_softmax,
    ),
    WrongAnswer(
        _ATTEND,
        "appends at the front",
        "front",
        "Newest first: the order in the cache is a matter of taste.",
        _appends_at_the_front,
    ),
    WrongAnswer(
        _ATTEND,
        "returns the old caches",
        "not_grown",
        "Attending is all; someone else adds the new token to the cache.",
        _returns_the_old_caches,
    ),
    WrongAnswer(
        _ATTEND,
        "returns only the new",
        "only_the_new",
        "The caller has the cache and wants the new rows.",
        _returns_only_the_new,
    ),
    WrongAnswer(
        _ATTEND,
        "swaps K and V",
        "swapped",
        "K and V are interchangeable.",
        _swaps_k_and_v,
    ),
    WrongAnswer(
        _ATTEND,
        "grows in place",
        "in_place",
        "The caches are mine to change.",
        _grows_in_place,
    ),
    WrongAnswer(
        _ATTEND,
        "scales q in place",
        "in_place",
        "q is needed only once, so it can be scaled where it lies.",
        _scales_q_in_place,
    ),
    WrongAnswer(
        _ATTEND,
        "drops a dimension",
        "shape",
        "One token needs no row dimension.",
        _drops_a_dimension,
    ),
    WrongAnswer(
        _ATTEND,
        "computes in single precision",
        "dtype",
        "Attention is always computed in float32.",
        _computes_in_single_precision,
    ),
    WrongAnswer(
        _ATTEND,
        "stores single precision",
        "dtype",
        "A cache may be rounded.",
        _stores_single_precision,
    ),
    WrongAnswer(
        _FINISH,
        "waits for the longest",
        "waits_for_longest",
        "A batch is a batch: nobody starts before the longest is done.",
        lambda lengths, slots, continuous: _static(lengths, slots),
    ),
    WrongAnswer(
        _FINISH,
        "static refills",
        "static_refills",
        "Any free slot is refilled, whatever the batching is called.",
        lambda lengths, slots, continuous: finish_steps(lengths, slots, True),
    ),
    WrongAnswer(
        _FINISH,
        "all finish with the longest",
        "all_with_longest",
        "In a static batch everyone is done when the batch is done.",
        _all_wait_for_the_longest,
    ),
    WrongAnswer(
        _FINISH,
        "all at once",
        "no_slots",
        "Every request starts in the first step.",
        lambda lengths, slots, continuous: list(lengths),
    ),
    WrongAnswer(
        _FINISH,
        "one at a time",
        "one_at_a_time",
        "A request has the model to itself.",
        lambda lengths, slots, continuous: finish_steps(lengths, 1, continuous),
    ),
    WrongAnswer(
        _FINISH,
        "slots by turns",
        "by_turns",
        "Request i belongs to slot i % slots, however long that slot is taken.",
        _slots_by_turns,
    ),
    WrongAnswer(
        _FINISH,
        "one step to refill",
        "late_refill",
        "A slot rests for a step between two requests.",
        _one_step_to_refill,
    ),
    WrongAnswer(
        _FINISH,
        "counts from 0",
        "from_zero",
        "The first step is step 0.",
        lambda lengths, slots, continuous: [
            step - 1 for step in finish_steps(lengths, slots, continuous)
        ],
    ),
    WrongAnswer(
        _FINISH,
        "shortest first",
        "shortest_first",
        "Short requests may overtake.",
        _shortest_first,
    ),
    WrongAnswer(
        _FINISH,
        "drops those that had to wait",
        "wrong_length",
        "Only the requests that fit into the slots are served.",
        lambda lengths, slots, continuous: finish_steps(lengths[:slots], slots, continuous),
    ),
    WrongAnswer(
        _FINISH,
        "when each one starts",
        "starts",
        "What matters is when a request gets its slot.",
        lambda lengths, slots, continuous: [
            done - length
            for done, length in zip(finish_steps(lengths, slots, continuous), lengths, strict=True)
        ],
    ),
    WrongAnswer(
        _FINISH,
        "in order of finishing",
        "sorted",
        "The list says when requests finish, earliest first.",
        lambda lengths, slots, continuous: sorted(finish_steps(lengths, slots, continuous)),
    ),
)

STILL_RIGHT = {"l00.finish_steps": {"slots at least 1": "there is at least one slot"}}
"""Weaker answers that no check can tell from right ones, and why."""
