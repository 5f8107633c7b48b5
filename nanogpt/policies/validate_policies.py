"""The answers that a policy may give: invariants of the engine's state, no opinion on the best.

A policy that is not the reference is called on copies of the engine's lists. An answer that would
corrupt the engine is refused: unknown or repeated ids, other shapes or types, more K/V than there
is, blocks that are not free. Everything else acts, however bad it is. A list stands for a tuple
here, and 3.0 for 3. The scheduler validates plans, by `plan_problem`, and that rows fit the
model, by `Row.check_embeddings`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from nanogpt.policies.blocks import free_table, num_lacking
from nanogpt.policies.queueing import ResumeState
from nanogpt.validate import MOST_INT, PolicyError, is_tensor, refused, show

if TYPE_CHECKING:
    import torch
    from torch import Tensor

Ints = Sequence[int]


def items(value: Any) -> list[Any]:
    """The items of a list, a tuple or a 1-d tensor; [None] for anything else, which is no item."""
    if is_tensor(value) and value.dim() == 1:
        return value.tolist()
    return [*value] if isinstance(value, list | tuple) else [None]  # pyright: ignore[reportUnknownVariableType]


def as_natural(value: Any) -> int | None:
    """The whole number from 0 to `MOST_INT` that `value` equals; None for anything else."""
    if type(value) is float and value.is_integer():
        value = int(value)
    return value if type(value) is int and 0 <= value <= MOST_INT else None


def wholes(value: Any) -> list[int] | None:
    """The whole numbers from 0 that the items of `value` are; None if one of them is none."""
    numbers: list[Any] = [as_natural(each) for each in items(value)]
    return None if None in numbers else numbers


def different(value: Any, known: Ints) -> list[int] | None:
    """The ids that `value` lists, if they are known and none is there twice."""
    ids = wholes(value)
    return None if ids is None or len({*ids} & {*known}) != len(ids) else ids


def tensor(what: str, value: Any, dtype: torch.dtype, *shape: int) -> Tensor:
    """A tensor as it must be. Raises: PolicyError."""
    if is_tensor(value) and value.dtype == dtype and tuple(value.shape) == shape:
        return value
    got = f"a {value.dtype} tensor of {tuple(value.shape)}" if is_tensor(value) else show(value)
    raise PolicyError(f"{what} returned {got}; it must be a {dtype} tensor of {shape}")


# --- a step's plan and its tokens -----------------------------------------------------------------


def _plan(plan: Any, *_: Any) -> Any:
    """Pairs of whole numbers as such; `plan_problem` describes everything else."""
    pairs = [(wholes(entry), entry) for entry in items(plan)]
    as_pairs = [tuple(pair) if pair and len(pair) == 2 else entry for pair, entry in pairs]
    return as_pairs if isinstance(plan, list | tuple) else plan


def _inputs(answer: Any, token_ids: Ints, num_computed: int, num_tokens: int) -> Any:
    what = f"chunk_inputs(token_ids, {num_computed}, {num_tokens})"
    ids, positions, sample = (*items(answer), None, None)[:3]
    ids, positions = wholes(ids), wholes(positions)
    if not (ids and positions and len(ids) == len(positions) == num_tokens):
        wanted = f"({num_tokens} ids, {num_tokens} positions, sample), whole numbers from 0"
        raise refused(what, answer, wanted)
    if type(sample) is not bool or (num_computed + num_tokens == len(token_ids) and not sample):
        raise refused(f"{what}'s sample", sample, "a bool, and True at the last known token")
    return ids, positions, sample


def _mask(mask: Any, context_len: int, num_scheduled_tokens: int) -> Tensor:
    import torch

    what = f"chunk_mask({context_len}, {num_scheduled_tokens})"
    seen = tensor(
        what, mask, torch.bool, num_scheduled_tokens, context_len + num_scheduled_tokens
    ).any(dim=1)  # (T,)
    if not seen.all():
        blind = seen.tolist().index(False)
        raise PolicyError(f"{what} lets query {blind} see no key; it must see one, or it is NaN")
    return mask


def _assigned(answer: Any, batch_ids: Ints, _: Ints, sampled: Ints) -> dict[int, int]:
    pairs: Any = answer.items() if isinstance(answer, dict) else ()
    tokens: dict[Any, Any] = {as_natural(i): as_natural(token) for i, token in pairs}
    if tokens.keys() != {*batch_ids} or not {*tokens.values()} <= {*sampled}:
        wanted = f"a token out of {show(sampled)} for each of the requests {show(batch_ids)}"
        raise refused("assign_tokens", answer, wanted)
    return tokens


def _accepted(answer: Any, p: Sequence[float], _: Any, token: int, *draws: float) -> Any:
    kept, stands = (*items(answer), None)[:2]
    stands = as_natural(stands)
    if type(kept) is not bool or stands not in range(len(p)) or (kept and stands != token):
        wanted = f"(True, {token}) or (False, a token of 0..{len(p) - 1})"
        raise refused(f"rejection_sample for token {token}", answer, wanted)
    return kept, stands


def _rolled_back(answer: Any, held: int, num_drafted: int, num_accepted: int) -> int:
    kept, drafted_from = as_natural(answer), held - num_drafted
    least, most = drafted_from - 1, drafted_from + num_accepted
    if kept is None or not least <= kept <= most:
        wanted = f"a whole number of {least}..{most}: K/V from before the pass stays, and K/V of "
        what = f"roll_back_kv({held}, {num_drafted}, {num_accepted})"
        raise refused(what, answer, f"{wanted}rejected drafts goes")
    return kept


# --- the scheduler's decisions --------------------------------------------------------------------


def checked_key(name: str, answer: Any, request: Any) -> tuple[float, ...]:
    """A key by which a heap can order. Raises: PolicyError."""
    key = tuple(items(answer))
    if any(type(number) not in (int, float) or number != number for number in key):
        raise refused(f"{name} for request {request.id}", answer, "a tuple of numbers")
    return key


def _admitted(
    answer: Any, view: Any, held: int, budget: int | None, running: int, most: int
) -> str:
    what, start = f"admit for request {view.id}", view.kv_tokens_to_start
    if not isinstance(answer, str) or answer not in ("admit", "wait", "refuse"):
        raise refused(what, answer, "'admit', 'wait' or 'refuse'")
    if answer == "admit" and running >= most:
        raise refused(what, answer, f"'wait': the batch is full ({running} of {most})")
    if answer == "admit" and budget is not None and held + start > budget:
        used = f"{held} KV tokens in use + {start} to compute > {budget}"
        raise refused(what, answer, f"'wait': {used}")
    return answer


def _victim(answer: Any, active: Sequence[Any]) -> int:
    chosen, ids = as_natural(answer), [request.id for request in active]
    if chosen is None or chosen not in ids:
        raise refused("choose_victim", answer, f"one of the running requests {show(ids)}")
    return chosen


def _resumed(answer: Any, view: Any) -> ResumeState:
    what, (tokens, *rest) = f"requeue for request {view.id}", items(answer)
    known, numbers = wholes(tokens), wholes(rest)
    if known is None or numbers is None or len(numbers) != 3:
        raise refused(what, answer, "(token_ids, num_computed_tokens, arrival_time, num_generated)")
    num_computed, arrival, kept = numbers
    if num_computed or kept > len(view.generated_tokens):
        most = f"at most {len(view.generated_tokens)} generated tokens"
        raise refused(what, answer, f"0 computed tokens, since its K/V goes, and {most}")
    if known != [*view.prompt_tokens, *view.generated_tokens[:kept]]:
        wanted = f"its prompt and the {kept} generated tokens that it keeps, or some get no K/V"
        raise refused(what, answer, wanted)
    return ResumeState(known, num_computed, arrival, kept)


# --- layouts and windows --------------------------------------------------------------------------


def _rows(answer: Any, token_ids: Any, num_computed: Ints, num_scheduled_tokens: Ints) -> Any:
    size, longest = len(num_scheduled_tokens), max(num_scheduled_tokens)
    tables = [[wholes(row) or () for row in items(table)] for table in items(answer)]
    if len(tables) != 2 or any([*map(len, table)] != [longest] * size for table in tables):
        wanted = f"(tokens, positions), each {size} rows of {longest} whole numbers from 0"
        raise refused("prepare_inputs", answer, wanted)
    return tables


def _full_mask(mask: Any, context_lens: Ints, num_scheduled_tokens: Ints) -> Tensor:
    import torch

    longest = max(num_scheduled_tokens)
    shape = len(num_scheduled_tokens), longest, max(context_lens) + longest
    return tensor("full_mask", mask, torch.bool, *shape)


def _split(answer: Any, k: Tensor, context_lens: Ints, num_scheduled_tokens: Ints) -> list[Tensor]:
    own = items(answer)
    if len(own) != len(num_scheduled_tokens):
        raise refused("split_kv", answer, f"{len(num_scheduled_tokens)} tensors, one per row")
    rows = enumerate(zip(own, context_lens, num_scheduled_tokens, strict=True))
    return [
        tensor(f"split_kv of row {i}", kv, k.dtype, s + t, k.shape[2]) for i, (kv, s, t) in rows
    ]


def _packed(answer: Any, context_lens: Ints, num_scheduled_tokens: Ints) -> Any:
    import torch

    cu_seqlens_q, cu_seqlens_k, mask = (*items(answer), None, None)[:3]
    total = sum(num_scheduled_tokens), sum(context_lens) + sum(num_scheduled_tokens)
    both = [wholes(cu_seqlens_q) or [], wholes(cu_seqlens_k) or []]
    for name, ends, last in zip(("cu_seqlens_q", "cu_seqlens_k"), both, total, strict=True):
        if sorted({*ends, 0, last}) != ends or len(ends) != len(num_scheduled_tokens) + 1:
            wanted = f"{len(num_scheduled_tokens) + 1} ascending whole numbers from 0 to {last}"
            raise refused(f"pack's {name}", ends or answer, wanted)
    return *both, tensor("pack's mask", mask, torch.bool, *total)


def _evicted(answer: Any, k: Tensor, v: Tensor, *_: int) -> tuple[Tensor, Tensor]:
    kept, other = (*items(answer), None)[:2]
    length = kept.shape[1] if is_tensor(kept) and kept.dim() == 3 else -1
    if not 0 <= length <= k.shape[1]:
        raise refused("evict", answer, f"(k, v) of at most {k.shape[1]} entries each")
    shape = k.shape[0], length, k.shape[2]
    return tensor("evict's k", kept, k.dtype, *shape), tensor("evict's v", other, v.dtype, *shape)


def _usage(answer: Any, *args: int | None) -> Any:
    two = wholes(answer)
    if two is None or len(two) != 2:
        raise refused(f"kv_usage{args}", answer, "(peak, end), whole numbers from 0")
    return tuple(two)


# --- blocks ---------------------------------------------------------------------------------------


def _allocated(answer: Any, have: int, num_tokens: int, size: int, free: Ints) -> list[int] | None:
    lacking = num_lacking(have, num_tokens, size)
    if answer is None and lacking > len(free):
        return None
    blocks = different(answer, free)
    if blocks is None or len(blocks) != lacking:
        wanted = f"{lacking} different blocks out of {show(free)}, or None if these are too few"
        raise refused(f"allocate({have}, {num_tokens}, {size}, free)", answer, wanted)
    return blocks


def _freed(answer: Any, counts: Ints, table: Ints) -> list[int]:
    own = free_table(counts, table)
    if (freed := different(answer, own)) is None:
        wanted = f"different blocks out of {show(own)}, which no other table names"
        raise refused("free_table", answer, wanted)
    return freed


def _hashes(answer: Any, tokens: Ints, size: int, salt: str) -> list[str]:
    hashes, num_full = items(answer), len(tokens) // size
    if len(hashes) != num_full or any(type(each) is not str for each in hashes):
        raise refused("block_hashes", answer, f"{num_full} strings, one per full block")
    return hashes


def _matched(answer: Any, hashes: Any, cached: Mapping[str, int], known: int, size: int) -> Any:
    blocks, found = (*items(answer), None)[:2]
    blocks, found = different(blocks, [*cached.values()]), as_natural(found)
    if blocks is None or found is None or found != len(blocks) * size or found >= known:
        wanted = f"(different cached blocks, their tokens: {size} each, fewer than {known} in all)"
        raise refused("longest_match", answer, wanted)
    return blocks, found


def _ordered(answer: Any, blocks: Sequence[Any]) -> list[int]:
    free = [block.id for block in blocks if not block.count]
    if (order := different(answer, free)) is None:
        raise refused("evict_order", answer, f"blocks of {show(free)}, which no table names")
    return order


def _matched_tiers(answer: Any, hashes: Any, device: Any, host: Any, known: int, size: int) -> Any:
    blocks, found = (*items(answer), None)[:2]
    listed, found = items(blocks), as_natural(found)
    in_pool = different([each for each in listed if each is not None], [*device.values()])
    pairs = zip(listed, hashes, strict=False)
    lacking = [name for block, name in pairs if block is None and name not in host]
    fits = len(listed) * size < known and len(listed) <= len(hashes)
    if in_pool is None or lacking or not fits or found != len(listed) * size:
        blocks = "different blocks of the pool, None for those of the host"
        wanted = f"({blocks}; their tokens: {size} each, fewer than {known} in all)"
        raise refused("match_tiers", answer, wanted)
    return [None if each is None else as_natural(each) for each in listed], found


def _loaded(answer: Any, *_: Any) -> str:
    if isinstance(answer, str) and answer in ("load", "compute"):
        return answer
    raise refused("load_or_compute", answer, "'load' or 'compute'")


def _spilled(answer: Any, published: Sequence[str], host: Sequence[str], capacity: int) -> Any:
    kept = items(answer)
    known = {each for each in kept if type(each) is str} & {*published, *host}
    if len(known) != len(kept):
        raise refused("spill", answer, "different hashes out of published and host")
    if len(kept) > capacity:
        raise refused("spill", answer, f"at most {capacity} hashes; it has {len(kept)}")
    return kept


def _legal(answer: Any, state: Any, token_texts: Sequence[str]) -> list[bool]:
    legal = items(answer)
    if len(legal) != len(token_texts) or any(type(each) is not bool for each in legal):
        wanted = f"{len(token_texts)} bools, one for each token"
        raise refused(f"allowed in state {state.at}", answer, wanted)
    return legal


def _state(what: str, answer: Any, state: Any) -> int | None:
    at = as_natural(answer)
    if answer is not None and (at is None or at >= len(state.edges)):
        raise refused(what, answer, f"a state of 0..{len(state.edges) - 1}, or None for no state")
    return at


def _drafted(answer: Any, state: Any, drafts: Sequence[str]) -> list[int | None]:
    what = f"draft_masks from state {state.at}"
    if len(items(answer)) != len(drafts) + 1:
        raise refused(what, answer, f"{len(drafts) + 1} states, one for each row of logits")
    return [_state(what, each, state) for each in items(answer)]


def _closing(answer: Any, distance: int, tokens_left: int) -> bool:
    if type(answer) is not bool:
        raise refused(f"must_close({distance}, {tokens_left})", answer, "True or False")
    return answer


ANSWERS: dict[str, Callable[..., Any] | None] = {
    "plan_step": _plan, "chunk_inputs": _inputs, "chunk_mask": _mask, "assign_tokens": _assigned,
    "rejection_sample": _accepted, "roll_back_kv": _rolled_back, "admit": _admitted,
    "sort_key": lambda key, policy, request: checked_key("sort_key", key, request),
    "choose_victim": _victim, "requeue": _resumed, "prepare_inputs": _rows, "full_mask": _full_mask,
    "split_kv": _split, "pack": _packed, "evict": _evicted, "kv_usage": _usage,
    "allocate": _allocated, "free_table": _freed, "block_hashes": _hashes,
    "longest_match": _matched, "evict_order": _ordered,
    "match_tiers": _matched_tiers, "load_or_compute": _loaded, "spill": _spilled,
    "advance": lambda at, state, _: _state(f"advance from state {state.at}", at, state),
    "allowed": _legal, "draft_masks": _drafted, "must_close": _closing,
    "visible": None, "rolling_buffer_index": None,  # `window` asks about many tokens at once
}  # fmt: skip
"""By a policy's name: its answer and what it was asked -> the answer. Raises: PolicyError."""
