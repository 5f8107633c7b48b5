"""What stands between a learner's part and the engine: a time limit, and a look at its answer.

Every refusal is one sentence that names the call, what came back and what was wanted. Values in
another type are converted (`plain_values`). The plan is looked at elsewhere
(`planning.plan_problem`), because it needs to know what was on offer.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from nanogpt.parts import block_checks, layout_checks
from nanogpt.parts.feature_protocols import Accept, RollBackKV
from nanogpt.parts.guard import guard_fields
from nanogpt.parts.plain_values import (
    as_items,
    as_mapping,
    as_number,
    as_tensor,
    as_truth,
    as_whole,
    as_wholes,
    kind_of,
)
from nanogpt.parts.protocols import (
    Admit,
    ChooseVictim,
    ChunkInputs,
    ChunkMask,
    Parts,
    PlanStep,
    Record,
    Resume,
    SortKey,
)
from nanogpt.parts.request_view import RequestView
from nanogpt.policies import Resumed, Verdict
from nanogpt.validate import PartError

REFERENCE = Parts()
ASKED_FOR_MANY = ("visible", "ring_slot")
"""Parts that are guarded where they are used, many calls at once; see `layout_checks`."""


def guard_parts(parts: Parts) -> Parts:
    """The same parts, those that are not the reference wrapped in a time limit and checks."""
    return guard_fields(parts, REFERENCE, CHECKS, ASKED_FOR_MANY)


def _plain_plan(plan_of: Callable[..., Any]) -> PlanStep:
    """The plan in plain pairs, as far as it is made of pairs; the rest is judged with the offer."""

    def plan_step(*offer: Any) -> Any:
        answer = plan_of(*offer)
        entries = as_items(answer)
        return answer if entries is None else [_plain_pair(entry) for entry in entries]

    return plan_step


def _plain_pair(entry: Any) -> Any:
    pair = as_wholes(entry) or ()
    return tuple(pair) if len(pair) == 2 else entry


def _checked_mask(mask_of: Callable[[int, int], Any]) -> ChunkMask:
    def chunk_mask(num_past: int, num_new: int, /) -> Tensor:
        answer = mask_of(num_past, num_new)
        mask, wanted = as_tensor(answer), (num_new, num_past + num_new)
        if mask is None or mask.dtype != torch.bool or mask.shape != wanted:
            got = kind_of(answer) if mask is None else f"{mask.dtype} {tuple(mask.shape)}"
            raise PartError(
                f"your chunk_mask({num_past}, {num_new}) returned {got}; "
                f"it must be a torch.bool tensor of shape {wanted}"
            )
        if not mask.any(dim=1).all():
            blind = int((~mask.any(dim=1)).nonzero()[0, 0])
            raise PartError(
                f"your chunk_mask({num_past}, {num_new}) lets query {blind} see no key at all; "
                "its softmax would be NaN"
            )
        return mask

    return chunk_mask


def _checked_inputs(inputs_of: Callable[..., Any]) -> ChunkInputs:
    def chunk_inputs(
        tokens: Sequence[int], cursor: int, num_tokens: int, /
    ) -> tuple[list[int], list[int], bool]:
        what = f"your chunk_inputs(tokens, {cursor}, {num_tokens})"
        answer = inputs_of(list(tokens), cursor, num_tokens)
        three = as_items(answer) or []
        ids, positions = [as_items(part) for part in three[:2]] if len(three) == 3 else (None, None)
        sample = as_truth(three[-1]) if three else None
        if ids is None or positions is None or sample is None:
            raise PartError(f"{what} returned {answer!r}; it must be (ids, positions, sample)")
        if not len(ids) == len(positions) == num_tokens:
            raise PartError(
                f"{what} returned {len(ids)} ids and {len(positions)} positions; "
                f"both must be {num_tokens} long"
            )
        whole = as_wholes((*ids, *positions))
        if whole is None or min(whole, default=0) < 0:
            raise PartError(
                f"{what} returned {[*ids, *positions]}; ids and positions are integers from 0 up"
            )
        if cursor + num_tokens == len(tokens) and not sample:
            raise PartError(f"{what} does not sample although it ends at the last known token")
        return whole[:num_tokens], whole[num_tokens:], sample

    return chunk_inputs


def _checked_key(key_of: Callable[..., Any]) -> SortKey:
    def sort_key(policy: str, request: RequestView, /) -> tuple[float, ...]:
        return checked_key("sort_key", key_of(policy, request), request.id)

    return sort_key


def checked_key(name: str, key: Any, request_id: int) -> tuple[float, ...]:
    """A rank that a heap can use. Raises: PartError for anything but a tuple of numbers."""
    parts = as_items(key)
    numbers = [as_number(part) for part in parts or ()]
    rank = tuple(number for number in numbers if number is not None)
    if parts is None or len(rank) != len(parts) or any(number != number for number in rank):
        raise PartError(
            f"your {name} returned {key!r} for request {request_id}; it must be a tuple of numbers"
        )
    return rank


def _checked_admit(verdict_of: Callable[..., Any]) -> Admit:
    def admit(
        candidate: RequestView,
        held: int,
        kv_budget: int | None,
        num_running: int,
        max_batch_size: int,
        /,
    ) -> Verdict:
        verdict = verdict_of(candidate, held, kv_budget, num_running, max_batch_size)
        if not isinstance(verdict, str) or verdict not in ("admit", "wait", "refuse"):
            raise PartError(
                f"your admit returned {verdict!r} for request {candidate.id}; "
                "it must be 'admit', 'wait' or 'refuse'"
            )
        alone_it_fits = kv_budget is None or candidate.kv_tokens_needed <= kv_budget
        if verdict == "refuse" and alone_it_fits:
            raise PartError(
                f"your admit refused request {candidate.id} for good; it needs at most "
                f"{candidate.kv_tokens_needed} KV tokens, and alone it fits into {kv_budget}"
            )
        if verdict == "admit" and num_running >= max_batch_size:
            raise PartError(
                f"your admit let request {candidate.id} into a full batch "
                f"({num_running} of {max_batch_size})"
            )
        start = candidate.kv_tokens_to_start
        if verdict == "admit" and kv_budget is not None and held + start > kv_budget:
            raise PartError(
                f"your admit let request {candidate.id} in although {held} KV tokens in use + "
                f"{start} to compute > {kv_budget}"
            )
        return verdict

    return admit


def _checked_victim(victim_of: Callable[..., Any]) -> ChooseVictim:
    def choose_victim(active: Sequence[RequestView], /) -> int:
        answer = victim_of(list(active))
        chosen, ids = as_whole(answer), [request.id for request in active]
        if chosen is None or chosen not in ids:
            raise PartError(f"your choose_victim named {answer!r}; only {ids} are running")
        return chosen

    return choose_victim


def _checked_resume(resumed_of: Callable[..., Any]) -> Resume:
    def resume(request: RequestView, /) -> Resumed:
        who = f"your resume of request {request.id}"
        answer = resumed_of(request)
        four = as_items(answer) or []
        tokens = as_items(four[0]) if len(four) == 4 else None
        if tokens is None:
            raise PartError(
                f"{who} returned {answer!r}; it must be (tokens, cursor, arrival, "
                "num_generated) with a list of tokens"
            )
        cursor, arrival, kept = map(as_whole, four[1:])
        if cursor is None or arrival is None or kept is None or arrival < 0:
            raise PartError(f"{who} returned {answer!r}; the last three are whole numbers from 0")
        if cursor != 0:
            raise PartError(
                f"{who} starts at token {cursor}; its K/V was released, so it has to start at 0"
            )
        if not 0 <= kept <= len(request.generated_tokens):
            raise PartError(
                f"{who} keeps {kept} generated tokens; it has {len(request.generated_tokens)}"
            )
        known = [*request.prompt_tokens, *request.generated_tokens[:kept]]
        if as_wholes(tokens) != known:
            raise PartError(
                f"{who} recomputes {len(tokens)} tokens and keeps {kept} generated ones; the "
                f"K/V of all {len(known)} known tokens has to be computed again, or some have none"
            )
        return Resumed(known, cursor, arrival, kept)

    return resume


def _checked_record(record_of: Callable[..., Any]) -> Record:
    def record(
        forwarded: Sequence[int], active_now: Sequence[int], sampled: Sequence[int], /
    ) -> dict[int, int]:
        answer = record_of(list(forwarded), list(active_now), list(sampled))
        pairs = [(as_whole(i), as_whole(token)) for i, token in (as_mapping(answer) or {}).items()]
        tokens = {i: token for i, token in pairs if i is not None and token is not None}
        if as_mapping(answer) is None or len(tokens) != len(pairs) or set(tokens) != {*forwarded}:
            raise PartError(
                f"your record returned {answer!r}; requests {list(forwarded)} were forwarded and "
                "each of them needs its token"
            )
        if sorted(tokens.values()) != sorted(sampled):
            raise PartError(f"your record returned {answer!r}; the tokens were {list(sampled)}")
        return tokens

    return record


def _checked_accept(verdict_of: Callable[..., Any]) -> Accept:
    def accept(
        p: Sequence[float], q: Sequence[float], token: int, u: float, v: float, /
    ) -> tuple[bool, int]:
        what = f"your accept(p, q, {token}, {u:.3f}, {v:.3f})"
        answer = verdict_of(list(p), list(q), token, u, v)
        two = as_items(answer) or []
        kept, stands = (as_truth(two[0]), as_whole(two[1])) if len(two) == 2 else (None, None)
        if kept is None or stands is None or not 0 <= stands < len(p):
            raise PartError(
                f"{what} returned {answer!r}; it must be (kept, token) with a token of "
                f"0..{len(p) - 1}"
            )
        if kept and stands != token:
            raise PartError(f"{what} keeps the draft and puts token {stands} in its place")
        return kept, stands

    return accept


def _checked_roll_back(kept_of: Callable[..., Any]) -> RollBackKV:
    def roll_back_kv(held: int, num_drafted: int, num_accepted: int, /) -> int:
        what = f"your roll_back_kv({held}, {num_drafted}, {num_accepted})"
        answer = kept_of(held, num_drafted, num_accepted)
        kept = as_whole(answer)
        if kept is None or not 0 <= kept <= held:
            raise PartError(f"{what} returned {answer!r}; it must be a whole number of 0..{held}")
        wanted = held - (num_drafted - num_accepted)
        if kept > wanted:
            raise PartError(
                f"{what} keeps {kept} KV tokens; the last {kept - wanted} belong to rejected "
                "drafts and would be attended to as if they stood in the text"
            )
        if kept < wanted:
            raise PartError(
                f"{what} keeps {kept} KV tokens; the last {wanted - kept} that it drops belong to "
                "tokens that stand in the text, and nothing would compute them again"
            )
        return kept

    return roll_back_kv


CHECKS: dict[str, Callable[[Callable[..., Any]], Callable[..., Any]]] = {
    "plan_step": _plain_plan,
    "chunk_mask": _checked_mask,
    "chunk_inputs": _checked_inputs,
    "sort_key": _checked_key,
    "admit": _checked_admit,
    "choose_victim": _checked_victim,
    "resume": _checked_resume,
    "record": _checked_record,
    "fused_rows": layout_checks.checked_rows,
    "full_mask": layout_checks.checked_full_mask,
    "split_kv": layout_checks.checked_split,
    "pack": layout_checks.checked_pack,
    "evict": layout_checks.checked_evict,
    "held": layout_checks.checked_held,
    "accept": _checked_accept,
    "roll_back_kv": _checked_roll_back,
    "allocate": block_checks.checked_allocate,
    "release": block_checks.checked_release,
    "block_hashes": block_checks.checked_hashes,
    "longest_match": block_checks.checked_match,
    "writable": block_checks.checked_writable,
    "evict_order": block_checks.checked_order,
}
