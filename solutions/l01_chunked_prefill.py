"""Lesson 1, chunked prefill: worked answers, other right ones, known wrong ones."""

import bisect
from collections import deque
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from solutions.wrong import WrongAnswer

Pairs = list[tuple[int, int]]

# --- chunk_size ------------------------------------------------------------------------------


def chunk_size(budget: int, num_decodes: int, remaining: int) -> int:
    """Return how many prompt tokens one request may prefill in this step.

    A step computes at most `budget` tokens. `num_decodes` decodes take one token each and go
    first; there may be more of them than the budget holds. The request has `remaining` prompt
    tokens left to compute (at least 1). The answer is 0 when nothing fits.
    """
    # Two limits, what is left of the budget and what is left of the prompt: the smaller one rules.
    # The decodes can leave less than nothing, hence the 0.
    return max(0, min(budget - num_decodes, remaining))


def chunk_size_by_cases(budget: int, num_decodes: int, remaining: int) -> int:
    if num_decodes >= budget:
        return 0
    left = budget - num_decodes
    return remaining if remaining < left else left


def chunk_size_by_counting(budget: int, num_decodes: int, remaining: int) -> int:
    n = 0
    while n < remaining and num_decodes + n < budget:
        n += 1
    return n


def chunk_size_by_sorting(budget: int, num_decodes: int, remaining: int) -> int:
    served = min(num_decodes, budget)
    return sorted((remaining, budget - served))[0]


# --- chunk_mask ------------------------------------------------------------------------------


def chunk_mask(num_past: int, num_new: int) -> Tensor:
    """Return which keys each token of a chunk may attend to: a bool tensor (T, S).

    The K/V of the first `num_past` tokens are in the cache; the chunk holds the next `num_new`
    tokens. So T = num_new queries and S = num_past + num_new keys, both in the order of the text.
    True means "may attend". A token may attend to itself and to everything before it.
    """
    # Query t of the chunk stands at position num_past + t of the text. Once both sides are counted
    # in positions of the text, the rule is the old one: no key later than the query.
    query = num_past + torch.arange(num_new)  # (T,)
    key = torch.arange(num_past + num_new)  # (S,)
    return key <= query[:, None]  # (T, S)


def chunk_mask_with_tril(num_past: int, num_new: int) -> Tensor:
    return torch.ones(num_new, num_past + num_new, dtype=torch.bool).tril(diagonal=num_past)


def chunk_mask_in_two_blocks(num_past: int, num_new: int) -> Tensor:
    past = torch.ones(num_new, num_past, dtype=torch.bool)  # (T, num_past)
    chunk = torch.ones(num_new, num_new).tril().bool()  # (T, T)
    return torch.cat([past, chunk], dim=1)  # (T, S)


def chunk_mask_cut_from_the_whole(num_past: int, num_new: int) -> Tensor:
    total = num_past + num_new
    hidden = torch.triu(torch.ones(total, total), diagonal=1) > 0  # (S, S)
    return ~hidden[num_past:]  # (T, S)


def chunk_mask_row_by_row(num_past: int, num_new: int) -> Tensor:
    mask = torch.zeros(num_new, num_past + num_new, dtype=torch.bool)
    for t in range(num_new):
        mask[t, : num_past + t + 1] = True
    return mask


def _tril(num_past: int, num_new: int, diagonal: int) -> Tensor:
    return torch.ones(num_new, num_past + num_new, dtype=torch.bool).tril(diagonal)


def _hides_the_past(num_past: int, num_new: int) -> Tensor:
    mask = chunk_mask(num_past, num_new)
    mask[:, :num_past] = False
    return mask


# --- chunk_inputs ----------------------------------------------------------------------------


def chunk_inputs(tokens: list[int], cursor: int, n: int) -> tuple[list[int], list[int], bool]:
    """Return `(ids, positions, sample)`: what the model is fed for one chunk of one request.

    `tokens` are all known tokens of the request. The first `cursor` of them are computed already
    and the chunk takes the next `n` (n >= 1, cursor + n <= len(tokens)).
    `ids` is the list of the chunk's tokens, `positions` the list of their positions in the text,
    counted from 0, and `sample` is True when a new token may be sampled after this chunk: when
    it ends with the last known token. Leave `tokens` as it is.
    """
    # A chunk is a piece of a text, not a text of its own: its positions go on where the last chunk
    # ended. Its last row predicts the token after it; that is news only at the end of the text.
    end = cursor + n
    return tokens[cursor:end], list(range(cursor, end)), end == len(tokens)


def chunk_inputs_by_loop(
    tokens: list[int], cursor: int, n: int
) -> tuple[list[int], list[int], bool]:
    ids: list[int] = []
    positions: list[int] = []
    for offset in range(n):
        ids.append(tokens[cursor + offset])
        positions.append(cursor + offset)
    return ids, positions, positions[-1] + 1 == len(tokens)


def chunk_inputs_by_enumerating(
    tokens: list[int], cursor: int, n: int
) -> tuple[list[int], list[int], bool]:
    chunk = list(enumerate(tokens))[cursor:][:n]
    left = tokens[cursor + n :]
    return [token for _, token in chunk], [position for position, _ in chunk], not left


def chunk_inputs_with_torch(
    tokens: list[int], cursor: int, n: int
) -> tuple[list[int], list[int], bool]:
    ids = torch.tensor(tokens).narrow(0, cursor, n)  # (n,)
    positions = torch.arange(n) + cursor  # (n,)
    return ids.tolist(), positions.tolist(), bool(positions[-1] == len(tokens) - 1)


def _eats_the_tokens(tokens: list[int], cursor: int, n: int) -> Any:
    sample = cursor + n == len(tokens)
    del tokens[:cursor]
    return [tokens.pop(0) for _ in range(n)], list(range(cursor, cursor + n)), sample


# --- plan_step -------------------------------------------------------------------------------


def plan_step(
    decodes: list[int],
    prefilling: list[tuple[int, int]],
    waiting: list[tuple[int, int]],
    budget: int,
) -> list[tuple[int, int]]:
    """Return the plan of one step: a list of (id, n), request `id` computes `n` tokens.

    `decodes` are ids of requests that generate, least recently served first; each can use exactly
    1 token. `prefilling` and `waiting` are lists of (id, remaining): prompts under way, and
    requests that have not started, both in their order; each can use up to `remaining` tokens.
    The rules:
    1. The plan's tokens together are at most `budget` (at least 1). Every id appears at most
       once, with 1 <= n <= what it can use; whoever gets nothing is left out.
    2. Decodes go first. When the budget cannot hold them all, the first in the list go.
    3. What is left goes to `prefilling` in order, then to `waiting` in order. Each gets as much
       as it can use before the next one gets anything.
    4. Nothing of the budget stays unused while somebody could use it.
    The order of the entries in your list does not matter.
    """
    # Decodes cost one token each and keep everybody's text flowing, so they are never made to wait
    # for a prompt. Prompts fill up what is left: first come, first served, because finishing one
    # prompt gives somebody a first token, and two halves give nobody any.
    plan = [(request_id, 1) for request_id in decodes[:budget]]
    left = budget - len(plan)
    for request_id, remaining in prefilling + waiting:
        n = min(left, remaining)
        if n > 0:
            plan.append((request_id, n))
            left -= n
    return plan


def plan_step_token_by_token(
    decodes: list[int], prefilling: Pairs, waiting: Pairs, budget: int
) -> Pairs:
    wishes = list(decodes)
    for request_id, remaining in [*prefilling, *waiting]:
        wishes += [request_id] * remaining
    counts: dict[int, int] = {}
    for request_id in wishes[:budget]:
        counts[request_id] = counts.get(request_id, 0) + 1
    return list(counts.items())


def plan_step_with_queues(
    decodes: list[int], prefilling: Pairs, waiting: Pairs, budget: int
) -> Pairs:
    plan: Pairs = []
    decoding, prompts = deque(decodes), deque(prefilling + waiting)  # the lists stay as they are
    while budget > 0 and (decoding or prompts):
        if decoding:
            request_id, n = decoding.popleft(), 1
        else:
            request_id, n = prompts.popleft()
        plan.append((request_id, min(n, budget)))
        budget -= n
    return plan


def plan_step_prompts_listed_first(
    decodes: list[int], prefilling: Pairs, waiting: Pairs, budget: int
) -> Pairs:
    served = decodes[:budget]
    end = budget - len(served)
    prompts: Pairs = []
    start = 0
    for request_id, remaining in prefilling + waiting:
        if start >= end:
            break
        prompts.append((request_id, min(remaining, end - start)))
        start += remaining
    return prompts + [(request_id, 1) for request_id in reversed(served)]


def _fill(queue: Pairs, left: int) -> Pairs:
    """Serve (id, most tokens) pairs in order from `left` tokens; the wrong plans are made of it."""
    plan: Pairs = []
    for request_id, most in queue:
        n = min(most, left)
        if n > 0:
            plan.append((request_id, n))
            left -= n
    return plan


def _eats_the_queue(decodes: list[int], prefilling: Pairs, waiting: Pairs, budget: int) -> Pairs:
    plan: Pairs = []
    while budget > 0 and (decodes or prefilling or waiting):
        queue = prefilling or waiting
        request_id, n = (decodes.pop(0), 1) if decodes else queue.pop(0)
        plan.append((request_id, min(n, budget)))
        budget -= n
    return plan


def _ones(decodes: list[int]) -> Pairs:
    return [(request_id, 1) for request_id in decodes]


def _prefill_first(decodes: list[int], prefilling: Pairs, waiting: Pairs, budget: int) -> Pairs:
    return _fill(prefilling + waiting + _ones(decodes), budget)


def _decodes_sit_out(decodes: list[int], prefilling: Pairs, waiting: Pairs, budget: int) -> Pairs:
    return _fill(prefilling + waiting or _ones(decodes), budget)


def _newest_decodes(decodes: list[int], prefilling: Pairs, waiting: Pairs, budget: int) -> Pairs:
    return _fill(_ones(decodes[::-1]) + prefilling + waiting, budget)


def _arrivals_wait_for_idle(
    decodes: list[int], prefilling: Pairs, waiting: Pairs, budget: int
) -> Pairs:
    busy = _ones(decodes) + prefilling
    return _fill(busy or waiting, budget)


def _arrivals_wait_for_prefills(
    decodes: list[int], prefilling: Pairs, waiting: Pairs, budget: int
) -> Pairs:
    return _fill(_ones(decodes) + (prefilling or waiting), budget)


def _waiting_before_prefilling(
    decodes: list[int], prefilling: Pairs, waiting: Pairs, budget: int
) -> Pairs:
    return _fill(_ones(decodes) + waiting + prefilling, budget)


def _newest_prompt_first(
    decodes: list[int], prefilling: Pairs, waiting: Pairs, budget: int
) -> Pairs:
    return _fill(_ones(decodes) + prefilling[::-1] + waiting[::-1], budget)


def _shortest_prompt_first(
    decodes: list[int], prefilling: Pairs, waiting: Pairs, budget: int
) -> Pairs:
    prompts = sorted(prefilling + waiting, key=lambda pair: pair[1])
    return _fill(_ones(decodes) + prompts, budget)


def _equal_shares(decodes: list[int], prefilling: Pairs, waiting: Pairs, budget: int) -> Pairs:
    plan = _fill(_ones(decodes), budget)
    left = budget - len(plan)
    prompts = prefilling + waiting
    shares = [0] * len(prompts)
    while left > 0 and any(s < r for s, (_, r) in zip(shares, prompts, strict=True)):
        for i, (_, remaining) in enumerate(prompts):
            if left > 0 and shares[i] < remaining:
                shares[i] += 1
                left -= 1
    return plan + [(i, n) for (i, _), n in zip(prompts, shares, strict=True) if n]


def _one_prefill(decodes: list[int], prefilling: Pairs, waiting: Pairs, budget: int) -> Pairs:
    return _fill(_ones(decodes) + (prefilling + waiting)[:1], budget)


def _fixed_chunk(decodes: list[int], prefilling: Pairs, waiting: Pairs, budget: int) -> Pairs:
    prompts = [(request_id, min(remaining, 4)) for request_id, remaining in prefilling + waiting]
    return _fill(_ones(decodes) + prompts, budget)


def _whole_prompts(decodes: list[int], prefilling: Pairs, waiting: Pairs, budget: int) -> Pairs:
    return _fill(_ones(decodes), budget) + (prefilling + waiting)[:1]


def _whole_or_nothing(decodes: list[int], prefilling: Pairs, waiting: Pairs, budget: int) -> Pairs:
    plan = _fill(_ones(decodes), budget)
    left = budget - len(plan)
    for request_id, remaining in prefilling + waiting:
        if remaining <= left:
            plan.append((request_id, remaining))
            left -= remaining
    return plan


def _budget_for_prefill_alone(
    decodes: list[int], prefilling: Pairs, waiting: Pairs, budget: int
) -> Pairs:
    return _fill(_ones(decodes), budget) + _fill(prefilling + waiting, budget)


def _budget_for_each(decodes: list[int], prefilling: Pairs, waiting: Pairs, budget: int) -> Pairs:
    plan = _fill(_ones(decodes), budget)
    left = budget - len(plan)
    return plan + [(i, min(remaining, left)) for i, remaining in prefilling + waiting if left]


def _every_decode(decodes: list[int], prefilling: Pairs, waiting: Pairs, budget: int) -> Pairs:
    return _ones(decodes) + _fill(prefilling + waiting, budget - len(decodes))


def _stalls_when_full(decodes: list[int], prefilling: Pairs, waiting: Pairs, budget: int) -> Pairs:
    if len(decodes) >= budget:
        return []
    return plan_step(decodes, prefilling, waiting, budget)


def _half_for_prefill(decodes: list[int], prefilling: Pairs, waiting: Pairs, budget: int) -> Pairs:
    most = budget if not prefilling + waiting else max(1, budget // 2)
    plan = _fill(_ones(decodes), most)
    return plan + _fill(prefilling + waiting, budget - len(plan))


def _negative_chunks(decodes: list[int], prefilling: Pairs, waiting: Pairs, budget: int) -> Pairs:
    plan, left = _ones(decodes), budget - len(decodes)
    for request_id, remaining in prefilling + waiting:
        plan.append((request_id, min(remaining, left)))
        left -= min(remaining, left)
    return plan


def _lists_the_idle(decodes: list[int], prefilling: Pairs, waiting: Pairs, budget: int) -> Pairs:
    plan = _fill(_ones(decodes), budget)
    left = budget - len(plan)
    for request_id, remaining in prefilling + waiting:
        plan.append((request_id, min(remaining, left)))
        left -= min(remaining, left)
    return plan


def _beyond_the_prompt(decodes: list[int], prefilling: Pairs, waiting: Pairs, budget: int) -> Pairs:
    plan = _fill(_ones(decodes), budget)
    left = budget - len(plan)
    return plan + [(request_id, left) for request_id, _ in (prefilling + waiting)[:1] if left]


def _one_entry_per_token(
    decodes: list[int], prefilling: Pairs, waiting: Pairs, budget: int
) -> Pairs:
    plan = plan_step(decodes, prefilling, waiting, budget)
    return [(request_id, 1) for request_id, n in plan for _ in range(n)]


def _bare_ids(decodes: list[int], prefilling: Pairs, waiting: Pairs, budget: int) -> Any:
    plan = plan_step(decodes, prefilling, waiting, budget)
    return [request_id for request_id, _ in plan]


def _remembers(
    decodes: list[int],
    prefilling: Pairs,
    waiting: Pairs,
    budget: int,
    known: list[int] = [],  # noqa: B006 (that is the mistake)
) -> Pairs:
    known += [request_id for request_id in decodes if request_id not in known]
    return _fill(_ones(known) + prefilling + waiting, budget)


# --- pick_budget -----------------------------------------------------------------------------


def pick_budget(step_cost_us: Callable[[int], int], num_decodes: int, itl_limit_us: int) -> int:
    """Return the largest token budget with which a step stays within the ITL limit.

    `step_cost_us(tokens)` is how long a step of that many tokens takes, in microseconds. It never
    falls as the tokens grow, but it need not be a straight line: ask it, it is cheap.
    Every step serves `num_decodes` decodes, which are part of the budget. A step with a full
    budget has to take at most `itl_limit_us`. Consider budgets up to 4096. When even
    num_decodes + 1 takes too long, return num_decodes + 1 all the same: with less, prompts would
    never get on.
    """
    # Large budgets finish prompts in fewer steps, and each step has a fixed cost. So the best
    # budget is the largest one that the limit allows, and because the cost never falls, halving the
    # range finds it in 12 questions.
    smallest, largest = num_decodes + 1, 4096
    while smallest < largest:
        middle = (smallest + largest + 1) // 2
        if step_cost_us(middle) <= itl_limit_us:
            smallest = middle
        else:
            largest = middle - 1
    return smallest


def pick_budget_step_by_step(
    step_cost_us: Callable[[int], int], num_decodes: int, itl_limit_us: int
) -> int:
    budget = num_decodes + 1
    while budget < 4096 and step_cost_us(budget + 1) <= itl_limit_us:
        budget += 1
    return budget


def pick_budget_with_bisect(
    step_cost_us: Callable[[int], int], num_decodes: int, itl_limit_us: int
) -> int:
    fitting = bisect.bisect_right(range(1, 4097), itl_limit_us, key=step_cost_us)
    return max(fitting, num_decodes + 1)


def pick_budget_from_above(
    step_cost_us: Callable[[int], int], num_decodes: int, itl_limit_us: int
) -> int:
    for budget in range(4096, num_decodes + 1, -1):
        if step_cost_us(budget) <= itl_limit_us:
            return budget
    return num_decodes + 1


def _straight_line(cost: Callable[[int], int], num_decodes: int, limit: int) -> int:
    slope = (cost(4096) - cost(1)) / 4095
    fitting = 1 + int((limit - cost(1)) / slope)
    return min(4096, max(num_decodes + 1, fitting))


def _line_from_the_start(cost: Callable[[int], int], num_decodes: int, limit: int) -> int:
    slope = cost(2) - cost(1)
    fitting = 4096 if slope == 0 else 1 + (limit - cost(1)) // slope
    return min(4096, max(num_decodes + 1, fitting))


def _powers_of_two(cost: Callable[[int], int], num_decodes: int, limit: int) -> int:
    budget = 1
    while budget < 4096 and cost(2 * budget) <= limit:
        budget *= 2
    return max(budget, num_decodes + 1)


def _stays_below(cost: Callable[[int], int], num_decodes: int, limit: int) -> int:
    return pick_budget(cost, num_decodes, limit - 1)


# --- the lists that tests read ---------------------------------------------------------------

RIGHT = {
    "l01.chunk_size": (
        chunk_size,
        chunk_size_by_cases,
        chunk_size_by_counting,
        chunk_size_by_sorting,
    ),
    "l01.chunk_mask": (
        chunk_mask,
        chunk_mask_with_tril,
        chunk_mask_in_two_blocks,
        chunk_mask_cut_from_the_whole,
        chunk_mask_row_by_row,
    ),
    "l01.chunk_inputs": (
        chunk_inputs,
        chunk_inputs_by_loop,
        chunk_inputs_by_enumerating,
        chunk_inputs_with_torch,
    ),
    "l01.plan_step": (
        plan_step,
        plan_step_token_by_token,
        plan_step_with_queues,
        plan_step_prompts_listed_first,
    ),
    "l01.pick_budget": (
        pick_budget,
        pick_budget_step_by_step,
        pick_budget_with_bisect,
        pick_budget_from_above,
    ),
}


def _wrong(
    exercise: str, key: str, misconception: str, function: Callable[..., Any], name: str = ""
) -> WrongAnswer:
    return WrongAnswer(
        f"l01.{exercise}", name or key.replace("_", " "), key, misconception, function
    )


WRONG = (
    _wrong(
        "chunk_size",
        "whole_or_nothing",
        "A prompt runs when it fits.",
        lambda budget, num_decodes, remaining: (
            remaining if remaining <= budget - num_decodes else 0
        ),
    ),
    _wrong(
        "chunk_size",
        "equal_shares",
        "Everybody in a step gets an equal share.",
        lambda budget, num_decodes, remaining: min(budget // (num_decodes + 1), remaining),
    ),
    _wrong(
        "chunk_size",
        "decodes_off_the_chunk",
        "The chunk is the smaller of budget and prompt, less the decodes.",
        lambda budget, num_decodes, remaining: max(0, min(budget, remaining) - num_decodes),
    ),
    _wrong(
        "chunk_size",
        "the_other_way",
        "The room is the difference between budget and decodes.",
        lambda budget, num_decodes, remaining: min(abs(budget - num_decodes), remaining),
    ),
    _wrong(
        "chunk_size",
        "not_int",
        "Half a token is better than none.",
        lambda budget, num_decodes, remaining: max(0, min(budget - num_decodes, remaining)) + 0.5,
    ),
    _wrong(
        "chunk_mask",
        "moved_by_the_chunk",
        "tril moves its diagonal by the number of new tokens.",
        lambda num_past, num_new: _tril(num_past, num_new, num_new),
    ),
    _wrong(
        "chunk_mask",
        "no_chunk_mates",
        "The tokens of a chunk are computed at the same time, so none is there for another.",
        lambda num_past, num_new: torch.cat(
            [
                torch.ones(num_new, num_past, dtype=torch.bool),
                torch.eye(num_new, dtype=torch.bool),
            ],
            dim=1,
        ),
    ),
    _wrong(
        "chunk_mask",
        "upside_down",
        "triu is the causal one.",
        lambda num_past, num_new: torch.ones(num_new, num_past + num_new, dtype=torch.bool).triu(
            num_past
        ),
    ),
    _wrong(
        "chunk_mask",
        "not_a_tensor",
        "Nested lists are a mask too.",
        lambda num_past, num_new: _tril(num_past, num_new, num_past).tolist(),
    ),
    _wrong(
        "chunk_mask",
        "not_a_tensor",
        "A mask is mostly empty, so it is stored sparsely.",
        lambda num_past, num_new: _tril(num_past, num_new, num_past).to_sparse(),
        "sparse",
    ),
    _wrong(
        "chunk_inputs",
        "positions_by_value",
        "A token's position is where the text has it.",
        lambda tokens, cursor, n: (
            tokens[cursor : cursor + n],
            [tokens.index(token) for token in tokens[cursor : cursor + n]],
            cursor + n == len(tokens),
        ),
    ),
    _wrong(
        "chunk_inputs",
        "positions_by_value",
        "A token's position is where the text has it next.",
        lambda tokens, cursor, n: (
            tokens[cursor : cursor + n],
            [tokens.index(token, cursor) for token in tokens[cursor : cursor + n]],
            cursor + n == len(tokens),
        ),
        "positions by value from the cursor on",
    ),
    _wrong(
        "chunk_inputs",
        "ends_by_value",
        "A chunk that ends with the text's last token is the last one.",
        lambda tokens, cursor, n: (
            tokens[cursor : cursor + n],
            list(range(cursor, cursor + n)),
            tokens[cursor + n - 1] == tokens[-1],
        ),
    ),
    _wrong(
        "chunk_inputs",
        "wrong_type",
        "1 and 0 are as good as True and False.",
        lambda tokens, cursor, n: (
            tokens[cursor : cursor + n],
            list(range(cursor, cursor + n)),
            int(cursor + n == len(tokens)),
        ),
        "a number for a bool",
    ),
    _wrong(
        "plan_step",
        "in_place",
        "The lists are mine to work through.",
        _eats_the_queue,
    ),
    _wrong(
        "plan_step",
        "one_prefill",
        "One new request starts in a step.",
        lambda decodes, prefilling, waiting, budget: _fill(
            [*_ones(decodes), *prefilling, *waiting[:1]], budget
        ),
        "one new request per step",
    ),
    _wrong(
        "chunk_size",
        "negative",
        "The budget minus the decodes is what is left.",
        lambda budget, num_decodes, remaining: min(budget - num_decodes, remaining),
    ),
    _wrong(
        "chunk_size",
        "ignores_decodes",
        "The budget is for prompt tokens; decodes come on top.",
        lambda budget, num_decodes, remaining: min(budget, remaining),
    ),
    _wrong(
        "chunk_size",
        "ignores_remaining",
        "A chunk fills the step, whatever the prompt's length.",
        lambda budget, num_decodes, remaining: max(0, budget - num_decodes),
    ),
    _wrong(
        "chunk_size",
        "at_least_one",
        "A prompt must get on by a token in every step.",
        lambda budget, num_decodes, remaining: max(1, min(budget - num_decodes, remaining)),
    ),
    _wrong(
        "chunk_size",
        "keeps_one_back",
        "A step has to stay below its budget.",
        lambda budget, num_decodes, remaining: max(0, min(budget - num_decodes - 1, remaining)),
    ),
    _wrong(
        "chunk_mask",
        "all_true",
        "With a cache no mask is needed: everything in it is the past.",
        lambda num_past, num_new: _tril(num_past, num_new, num_past + num_new),
    ),
    _wrong(
        "chunk_mask",
        "no_offset",
        "tril is the causal mask, whatever the shape.",
        lambda num_past, num_new: _tril(num_past, num_new, 0),
    ),
    _wrong(
        "chunk_mask",
        "inverted",
        "True marks what is masked out.",
        lambda num_past, num_new: ~_tril(num_past, num_new, num_past),
    ),
    _wrong(
        "chunk_mask",
        "not_bool",
        "Ones and zeros are as good as True and False.",
        lambda num_past, num_new: _tril(num_past, num_new, num_past).float(),
    ),
    _wrong(
        "chunk_mask",
        "additive",
        "A mask is what is added to the scores: 0 or minus infinity.",
        lambda num_past, num_new: torch.zeros(num_new, num_past + num_new).masked_fill(
            ~_tril(num_past, num_new, num_past), float("-inf")
        ),
    ),
    _wrong(
        "chunk_mask",
        "transposed",
        "Keys are rows, queries are columns.",
        lambda num_past, num_new: _tril(num_past, num_new, num_past).T,
    ),
    _wrong(
        "chunk_mask",
        "one_future_key",
        "Query t sees num_past + t + 1 keys, and the one at that index.",
        lambda num_past, num_new: _tril(num_past, num_new, num_past + 1),
    ),
    _wrong(
        "chunk_mask",
        "not_itself",
        "A token looks at the tokens before it.",
        lambda num_past, num_new: _tril(num_past, num_new, num_past - 1),
    ),
    _wrong(
        "chunk_mask",
        "only_the_chunk",
        "The mask concerns the new tokens: T by T.",
        lambda num_past, num_new: _tril(0, num_new, 0),
    ),
    _wrong(
        "chunk_mask",
        "hides_the_past",
        "A chunk attends within itself.",
        _hides_the_past,
    ),
    _wrong(
        "chunk_mask",
        "whole_square",
        "The causal mask of the whole text will do.",
        lambda num_past, num_new: _tril(0, num_past + num_new, 0),
    ),
    _wrong(
        "chunk_inputs",
        "positions_restart",
        "Each chunk is a small text that starts at position 0.",
        lambda tokens, cursor, n: (
            tokens[cursor : cursor + n],
            list(range(n)),
            cursor + n == len(tokens),
        ),
    ),
    _wrong(
        "chunk_inputs",
        "always_samples",
        "Every forward pass ends with a sampled token.",
        lambda tokens, cursor, n: (
            tokens[cursor : cursor + n],
            list(range(cursor, cursor + n)),
            True,
        ),
    ),
    _wrong(
        "chunk_inputs",
        "never_samples",
        "Prefill fills the cache; sampling is what decodes do.",
        lambda tokens, cursor, n: (
            tokens[cursor : cursor + n],
            list(range(cursor, cursor + n)),
            False,
        ),
    ),
    _wrong(
        "chunk_inputs",
        "samples_early",
        "The chunk ends at index cursor + n, and the last index is len - 1.",
        lambda tokens, cursor, n: (
            tokens[cursor : cursor + n],
            list(range(cursor, cursor + n)),
            cursor + n >= len(tokens) - 1,
        ),
    ),
    _wrong(
        "chunk_inputs",
        "samples_first",
        "The first chunk samples, because TTFT counts from there.",
        lambda tokens, cursor, n: (
            tokens[cursor : cursor + n],
            list(range(cursor, cursor + n)),
            cursor == 0,
        ),
    ),
    _wrong(
        "chunk_inputs",
        "positions_from_one",
        "The first token stands at position 1.",
        lambda tokens, cursor, n: (
            tokens[cursor : cursor + n],
            list(range(cursor + 1, cursor + n + 1)),
            cursor + n == len(tokens),
        ),
    ),
    _wrong(
        "chunk_inputs",
        "n_is_the_end",
        "n says where the chunk ends.",
        lambda tokens, cursor, n: (
            tokens[cursor:n],
            list(range(cursor, n)),
            n == len(tokens),
        ),
    ),
    _wrong(
        "chunk_inputs",
        "from_the_start",
        "A chunk takes the whole text up to its end.",
        lambda tokens, cursor, n: (
            tokens[: cursor + n],
            list(range(cursor + n)),
            cursor + n == len(tokens),
        ),
    ),
    _wrong(
        "chunk_inputs",
        "shifted",
        "The chunk starts after the token at the cursor.",
        lambda tokens, cursor, n: (
            tokens[cursor + 1 : cursor + n + 1],
            list(range(cursor + 1, cursor + n + 1)),
            cursor + n + 1 >= len(tokens),
        ),
    ),
    _wrong("chunk_inputs", "in_place", "Fed tokens may be thrown away.", _eats_the_tokens),
    _wrong("plan_step", "prefill_first", "New users first: a prompt in.", _prefill_first),
    _wrong("plan_step", "decodes_sit_out", "A step is prefill or decode.", _decodes_sit_out),
    _wrong("plan_step", "decode_order", "Any decodes will do.", _newest_decodes),
    _wrong(
        "plan_step",
        "arrivals_wait",
        "A new request starts when the engine is idle.",
        _arrivals_wait_for_idle,
        "arrivals wait for idle",
    ),
    _wrong(
        "plan_step",
        "arrivals_wait",
        "A new request starts when no prompt is under way.",
        _arrivals_wait_for_prefills,
        "arrivals wait for prefills",
    ),
    _wrong(
        "plan_step",
        "waiting_first",
        "The waiting have waited longest, so they go before the prefilling.",
        _waiting_before_prefilling,
    ),
    _wrong("plan_step", "newest_first", "The newest prompt goes first.", _newest_prompt_first),
    _wrong(
        "plan_step",
        "shortest_first",
        "Short prompts first: more first tokens sooner.",
        _shortest_prompt_first,
    ),
    _wrong("plan_step", "equal_shares", "Fair is: everybody gets the same.", _equal_shares),
    _wrong("plan_step", "one_prefill", "One prompt per step is prefilled.", _one_prefill),
    _wrong("plan_step", "fixed_chunk", "A chunk has a fixed size.", _fixed_chunk),
    _wrong("plan_step", "whole_prompt", "A prompt runs whole, at once.", _whole_prompts),
    _wrong(
        "plan_step",
        "whole_or_nothing",
        "A prompt starts when it fits into the budget.",
        _whole_or_nothing,
    ),
    _wrong(
        "plan_step",
        "over_budget",
        "The budget limits prefill; decodes come on top.",
        _budget_for_prefill_alone,
        "decodes on top",
    ),
    _wrong(
        "plan_step",
        "over_budget",
        "Each prompt may use what the decodes leave.",
        _budget_for_each,
        "the same rest for each",
    ),
    _wrong(
        "plan_step",
        "decodes_over_budget",
        "Decodes are cheap: they all run, whatever the budget.",
        _every_decode,
    ),
    _wrong(
        "plan_step",
        "stalls_when_full",
        "When decodes fill the budget there is nothing to plan.",
        _stalls_when_full,
    ),
    _wrong(
        "plan_step",
        "prefill_first",
        "Half of the budget belongs to prefill.",
        _half_for_prefill,
        "half for prefill",
    ),
    _wrong(
        "plan_step",
        "not_positive",
        "The budget minus the decodes is what is left.",
        _negative_chunks,
        "negative chunks",
    ),
    _wrong(
        "plan_step",
        "not_positive",
        "Every request is listed, with 0 for those that get nothing.",
        _lists_the_idle,
        "lists the idle",
    ),
    _wrong(
        "plan_step",
        "beyond_remaining",
        "A prompt takes all that is left of the budget.",
        _beyond_the_prompt,
    ),
    _wrong("plan_step", "duplicate", "One entry is one token.", _one_entry_per_token),
    _wrong("plan_step", "not_pairs", "A plan says who runs.", _bare_ids),
    _wrong(
        "plan_step",
        "unknown_id",
        "The plan is mine to remember from step to step.",
        _remembers,
        "remembers",
    ),
    _wrong(
        "pick_budget",
        "smallest",
        "Smaller is always better for the gaps between tokens.",
        lambda cost, num_decodes, limit: num_decodes + 1,
    ),
    _wrong(
        "pick_budget",
        "largest",
        "Larger is always better for throughput.",
        lambda cost, num_decodes, limit: 4096,
    ),
    _wrong(
        "pick_budget",
        "no_room_for_prefill",
        "The limit is the limit, even when decodes alone fill it.",
        lambda cost, num_decodes, limit: pick_budget(cost, 0, limit),
    ),
    _wrong(
        "pick_budget",
        "decodes_on_top",
        "The budget is the prompt's share; decodes come on top.",
        lambda cost, num_decodes, limit: max(
            num_decodes + 1, pick_budget(cost, num_decodes, limit) - num_decodes
        ),
    ),
    _wrong(
        "pick_budget",
        "straight_line",
        "A step's cost is a fixed part plus so much per token.",
        _straight_line,
        "line through both ends",
    ),
    _wrong(
        "pick_budget",
        "straight_line",
        "The second token's price is every token's price.",
        _line_from_the_start,
        "line from the start",
    ),
    _wrong(
        "pick_budget",
        "powers_of_two",
        "Budgets are powers of two.",
        _powers_of_two,
    ),
    _wrong(
        "pick_budget",
        "stays_below",
        "A step must take less than the limit.",
        _stays_below,
    ),
    _wrong(
        "pick_budget",
        "per_token",
        "Every token costs what one token costs.",
        lambda cost, num_decodes, limit: min(4096, max(num_decodes + 1, limit // cost(1))),
    ),
)

_FROM_ONE = "it is at least 1"
_NO_SUCH_STEP = "a step of one token takes longer, so the smallest budget comes out either way"
STILL_RIGHT = {
    "l01.chunk_size": {"budget at least 1": _FROM_ONE, "remaining at least 1": _FROM_ONE},
    "l01.chunk_mask": {"num_new at least 1": _FROM_ONE},
    "l01.chunk_inputs": {"n at least 1": _FROM_ONE},
    "l01.plan_step": {
        "decodes: without repeats": "an id is there once",
        "budget at least 1": _FROM_ONE,
        "result: reversed": "the order of the entries does not matter",
    },
    "l01.pick_budget": {
        "itl_limit_us at least 1": _NO_SUCH_STEP,
        "result at least 1": "the smallest budget is num_decodes + 1",
    },
}
"""Weaker answers that no check can tell from right ones, and why."""
