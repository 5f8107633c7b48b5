"""Checks of lesson 1, chunked prefill."""

import random
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from course.checks.budgeting import Line, check_pick_budget
from course.checks.comparing import (
    Args,
    Comparison,
    Mistake,
    a_kind,
    alike,
    tokens,
    whole_number,
)
from course.checks.planning import (
    Broken,
    Job,
    Snapshot,
    Workload,
    best_plan,
    judge_plan,
    run_workload,
    shrink,
    smaller_snapshots,
    smaller_workloads,
)
from course.judging import Ask, Check, Failure, Rows, run_checks
from course.registry import Exercise
from course.report import Report
from course.showing import show, show_call
from course.task import Task
from nanogpt.plain_values import as_items, as_truth, as_whole

# --- chunk_size ------------------------------------------------------------------------------

_SIZE: Comparison[Callable[[int, int, int], int]] = Comparison(
    reference=lambda budget, num_decodes, remaining: max(0, min(budget - num_decodes, remaining)),
    mistakes=(
        Mistake(
            "negative",
            "When the decodes fill the budget, or need more than it has, nothing is left for the "
            "prompt: the chunk is 0 tokens, never a negative number.",
            lambda budget, num_decodes, remaining: min(budget - num_decodes, remaining),
        ),
        Mistake(
            "ignores_decodes",
            "Each decode takes one token of the budget first; the chunk gets what they leave.",
            lambda budget, num_decodes, remaining: min(budget, remaining),
        ),
        Mistake(
            "ignores_remaining",
            "The prompt ends before the budget does: a chunk cannot be longer than the tokens that "
            "remain.",
            lambda budget, num_decodes, remaining: max(0, budget - num_decodes),
        ),
        Mistake(
            "at_least_one",
            "A step that the decodes fill has no room for even one prompt token: the chunk is 0 "
            "and the prompt waits.",
            lambda budget, num_decodes, remaining: max(1, min(budget - num_decodes, remaining)),
        ),
        Mistake(
            "keeps_one_back",
            "The budget may be used to the last token; here one is kept back.",
            lambda budget, num_decodes, remaining: max(0, min(budget - num_decodes - 1, remaining)),
        ),
        Mistake(
            "whole_or_nothing",
            "The prompt need not fit whole: a chunk of it runs now, or a prompt longer than the "
            "budget never starts.",
            lambda budget, num_decodes, remaining: (
                remaining if remaining <= budget - num_decodes else 0
            ),
        ),
        Mistake(
            "equal_shares",
            "A decode takes one token and not a share: all that the decodes leave goes to the "
            "prompt.",
            lambda budget, num_decodes, remaining: min(budget // (num_decodes + 1), remaining),
        ),
        Mistake(
            "decodes_off_the_chunk",
            "The decodes come off the budget, not off what remains of the prompt.",
            lambda budget, num_decodes, remaining: max(0, min(budget, remaining) - num_decodes),
        ),
        Mistake(
            "the_other_way",
            "More decodes than the budget holds leave nothing: the difference has a sign.",
            lambda budget, num_decodes, remaining: min(abs(budget - num_decodes), remaining),
        ),
    ),
    idea="The chunk is as large as the step's budget and the prompt itself allow, once every "
    "decode has its token.",
    form=whole_number,
    evidence=[(16, 4, 100), (16, 4, 5), (4, 9, 3), (6, 6, 1), (9, 2, 7), (8, 0, 8), (20, 7, 30)],
)


def _long_prompt(ask: Ask, rng: random.Random) -> Failure | None:
    return _SIZE.judge(ask, [(16, 4, 100), (8, 0, 20), (8, 7, 20)])


def _end_of_prompt(ask: Ask, rng: random.Random) -> Failure | None:
    return _SIZE.judge(ask, [(16, 4, 3), (16, 4, 12), (8, 0, 1)])


def _full_of_decodes(ask: Ask, rng: random.Random) -> Failure | None:
    return _SIZE.judge(ask, [(4, 4, 10), (4, 7, 10), (1, 1, 1)])


def _any_size(ask: Ask, rng: random.Random) -> Failure | None:
    cases = [(rng.randint(1, 40), rng.randint(0, 20), rng.randint(1, 40)) for _ in range(80)]
    cases += [(rng.randint(100, 5000), rng.randint(0, 300), rng.randint(1, 9000)) for _ in range(9)]
    return _SIZE.judge(ask, sorted(cases, key=sum))


_SIZE_CHECKS: tuple[tuple[str, Check], ...] = (
    ("a long prompt beside decodes", _long_prompt),
    ("the end of a prompt", _end_of_prompt),
    ("decodes that fill the budget", _full_of_decodes),
    ("any numbers", _any_size),
)


def check_chunk_size(function: Callable[..., Any], *, seed: int = 0) -> Report:
    """Judge an answer to l01.chunk_size."""
    return run_checks("l01.chunk_size", function, _SIZE_CHECKS, seed=seed)


# --- chunk_mask ------------------------------------------------------------------------------


def _mask(num_past: int, num_new: int, shift: int = 0) -> Tensor:
    """The causal mask (T, S), its diagonal moved to the right by `shift`."""
    cells = [
        [key <= num_past + query + shift for key in range(num_past + num_new)]
        for query in range(num_new)
    ]
    return torch.tensor(cells, dtype=torch.bool)


def _blind_to_the_past(num_past: int, num_new: int) -> Tensor:
    mask = _mask(num_past, num_new)
    mask[:, :num_past] = False
    return mask


def _grid(mask: Any) -> str:
    """A mask as rows of 1 (may attend) and . (may not), one row per query."""
    if not isinstance(mask, Tensor) or mask.dtype != torch.bool or mask.dim() != 2:
        return show(mask)
    rows = [" ".join("1" if cell else "." for cell in row) for row in mask.tolist()]
    return "\n".join([f"{tuple(mask.shape)}", *rows])


def _mask_form(value: Any) -> tuple[str, str] | None:
    if not isinstance(value, Tensor):
        return "not_a_tensor", f"The mask is an ordinary torch tensor, not {a_kind(value)}."
    if value.dtype == torch.bool:
        return None
    if value.isinf().any():
        return (
            "additive",
            "This is a mask to be added to the scores; return the decision itself, a tensor of "
            "True (may attend) and False.",
        )
    name = str(value.dtype).removeprefix("torch.")
    return "not_bool", f"The mask holds True and False (torch.bool); this one is {name}."


_MASK: Comparison[Callable[[int, int], Tensor]] = Comparison(
    reference=_mask,
    mistakes=(
        *alike(
            "all_true",
            "A cache does not replace the mask: the chunk's tokens come in together, so without "
            "one, each of them sees the later tokens of its own chunk.",
            lambda num_past, num_new: _mask(num_past, num_new, num_new),
            lambda num_past, num_new: _mask(num_past, num_new, num_new if num_past else 0),
        ),
        Mistake(
            "no_offset",
            "Row t is not token t of the text but token num_past + t: the diagonal has to move to "
            "the right by num_past, or the chunk does not see the past that is in the cache.",
            lambda num_past, num_new: _mask(0, num_past + num_new)[:num_new],
        ),
        Mistake(
            "inverted",
            'True means "may attend"; this mask has True where the others have False.',
            lambda num_past, num_new: ~_mask(num_past, num_new),
        ),
        Mistake(
            "transposed",
            "Rows are queries (the chunk's tokens) and columns are keys (all tokens so far); here "
            "they changed places.",
            lambda num_past, num_new: _mask(num_past, num_new).T,
        ),
        Mistake(
            "one_future_key",
            "Each token sees one key too many: the token right after it, which it is about to "
            "predict.",
            lambda num_past, num_new: _mask(num_past, num_new, 1),
        ),
        Mistake(
            "not_itself",
            "A token attends to itself as well; here it sees only what came before it.",
            lambda num_past, num_new: _mask(num_past, num_new, -1),
        ),
        Mistake(
            "only_the_chunk",
            "The keys are all tokens so far: the num_past columns of the cached ones are missing.",
            lambda num_past, num_new: _mask(0, num_new),
        ),
        Mistake(
            "hides_the_past",
            "The chunk's tokens see each other but none of the cached tokens, as if the text began "
            "with this chunk.",
            _blind_to_the_past,
        ),
        Mistake(
            "moved_by_the_chunk",
            "The diagonal moves by what lies before the chunk, which is num_past, and not by the "
            "chunk's own length.",
            lambda num_past, num_new: _mask(num_past, num_new, num_new - num_past),
        ),
        Mistake(
            "no_chunk_mates",
            "The chunk's tokens come in together but they stand in a row: each also sees those of "
            "its own chunk that come before it.",
            lambda num_past, num_new: (
                _mask(num_past, num_new, -1) & (torch.arange(num_past + num_new) < num_past)
                | torch.eye(num_past + num_new, dtype=torch.bool)[num_past:]
            ),
        ),
        Mistake(
            "upside_down",
            "Here each token sees itself and what comes after it; it is what came before that it "
            "may see.",
            lambda num_past, num_new: ~_mask(num_past, num_new, -1),
        ),
        Mistake(
            "whole_square",
            "Only the chunk's tokens ask in this step: a row for each of the num_new, none for "
            "those in the cache.",
            lambda num_past, num_new: _mask(0, num_past + num_new),
        ),
    ),
    idea="A row is a token of the chunk, a column a token of the text so far, and True stands "
    "where the row's token may look: at itself and at what came before it.",
    form=_mask_form,
    draw=_grid,
    evidence=[(2, 3), (4, 2), (0, 3), (3, 1), (1, 4)],
)


def _no_past(ask: Ask, rng: random.Random) -> Failure | None:
    return _MASK.judge(ask, [(0, 3), (0, 1)])


def _second_chunk(ask: Ask, rng: random.Random) -> Failure | None:
    return _MASK.judge(ask, [(2, 3), (3, 2)])


def _one_token(ask: Ask, rng: random.Random) -> Failure | None:
    return _MASK.judge(ask, [(3, 1), (7, 1)])


def _any_chunk(ask: Ask, rng: random.Random) -> Failure | None:
    cases = [(rng.randint(0, 14), rng.randint(1, 10)) for _ in range(20)] + [(40, 2), (2, 40)]
    return _MASK.judge(ask, sorted(cases, key=sum))


_MASK_CHECKS: tuple[tuple[str, Check], ...] = (
    ("the first chunk of a prompt", _no_past),
    ("a chunk behind cached tokens", _second_chunk),
    ("a chunk of one token, as in a decode", _one_token),
    ("any chunk", _any_chunk),
)


def check_chunk_mask(function: Callable[..., Any], *, seed: int = 0) -> Report:
    """Judge an answer to l01.chunk_mask."""
    return run_checks("l01.chunk_mask", function, _MASK_CHECKS, seed=seed)


# --- chunk_inputs ----------------------------------------------------------------------------


_Inputs = Callable[[list[int], int, int], tuple[list[int], list[int], bool]]


def _inputs(tokens: list[int], cursor: int, n: int) -> tuple[list[int], list[int], bool]:
    return tokens[cursor : cursor + n], list(range(cursor, cursor + n)), cursor + n == len(tokens)


def _with_sample(rule: Callable[[list[int], int, int], bool]) -> _Inputs:
    """Right ids and positions, and a sampling rule of one's own."""

    def answer(tokens: list[int], cursor: int, n: int) -> tuple[list[int], list[int], bool]:
        ids, positions, _ = _inputs(tokens, cursor, n)
        return ids, positions, rule(tokens, cursor, n)

    return answer


def _with_positions(rule: Callable[[int, int], range]) -> _Inputs:
    """Right ids and sampling, and positions of one's own."""

    def answer(tokens: list[int], cursor: int, n: int) -> tuple[list[int], list[int], bool]:
        ids, _, sample = _inputs(tokens, cursor, n)
        return ids, list(rule(cursor, n)), sample

    return answer


def _inputs_form(value: Any) -> tuple[str, str] | None:
    three = as_items(value)
    if three is None or len(three) != 3:
        return "not_three", "Return three things: `return ids, positions, sample`."
    for name, part in zip(("ids", "positions"), three, strict=False):
        items = as_items(part)
        if items is None:
            return "wrong_type", f"{name} is a list; this is {a_kind(part)}."
        for item in items:
            if as_whole(item) is None:
                return "wrong_type", f"{name} holds whole numbers; one is {a_kind(item)}."
    if as_truth(three[2]) is None:
        return "wrong_type", f"sample is True or False (a bool); this is {a_kind(three[2])}."
    return None


_INPUTS: Comparison[_Inputs] = Comparison(
    reference=_inputs,
    mistakes=(
        Mistake(
            "positions_restart",
            "A chunk goes on where the last one ended: its positions count in the whole text, from "
            "cursor on, or the model takes it for a new beginning.",
            _with_positions(lambda cursor, n: range(n)),
        ),
        Mistake(
            "always_samples",
            "The token after this chunk is known already (it is the next one of the prompt), so "
            "sample only when the chunk ends with the last known token.",
            _with_sample(lambda tokens, cursor, n: True),
        ),
        Mistake(
            "never_samples",
            "This chunk ends with the last known token, and what its last row predicts is the next "
            "token of the text: sample it, or the request never gets a token.",
            _with_sample(lambda tokens, cursor, n: False),
        ),
        Mistake(
            "samples_early",
            "One known token is still to come after this chunk, so there is nothing to sample yet: "
            "the end is at cursor + n == len(tokens).",
            _with_sample(lambda tokens, cursor, n: cursor + n >= len(tokens) - 1),
        ),
        Mistake(
            "samples_first",
            "Where a chunk starts says nothing about sampling; where it ends does: sample when it "
            "ends with the last known token.",
            _with_sample(lambda tokens, cursor, n: cursor == 0),
        ),
        Mistake(
            "positions_from_one",
            "Positions count from 0: the first token of the text stands at position 0.",
            _with_positions(lambda cursor, n: range(cursor + 1, cursor + n + 1)),
        ),
        *alike(
            "positions_by_value",
            "A letter comes back in a text: its position is where it stands in this chunk, not "
            "where the text has it for the first time.",
            lambda tokens, cursor, n: (
                tokens[cursor : cursor + n],
                [tokens.index(token) for token in tokens[cursor : cursor + n]],
                cursor + n == len(tokens),
            ),
            lambda tokens, cursor, n: (
                tokens[cursor : cursor + n],
                [tokens.index(token, cursor) for token in tokens[cursor : cursor + n]],
                cursor + n == len(tokens),
            ),
        ),
        Mistake(
            "ends_by_value",
            "Whether the chunk ends with the last known token is a matter of its place: the same "
            "letter may come earlier as well.",
            _with_sample(lambda tokens, cursor, n: tokens[cursor + n - 1] == tokens[-1]),
        ),
        Mistake(
            "n_is_the_end",
            "n is how many tokens the chunk takes, not the index where it ends: it ends at "
            "cursor + n.",
            lambda tokens, cursor, n: (tokens[cursor:n], list(range(cursor, n)), n == len(tokens)),
        ),
        Mistake(
            "from_the_start",
            "The tokens before the cursor are computed already; the chunk starts at the cursor.",
            lambda tokens, cursor, n: (
                tokens[: cursor + n],
                list(range(cursor + n)),
                cursor + n == len(tokens),
            ),
        ),
        Mistake(
            "shifted",
            "The cursor points at the first token that is not computed, and the chunk starts with "
            "it; here it was skipped.",
            lambda tokens, cursor, n: (
                tokens[cursor + 1 : cursor + n + 1],
                list(range(cursor + 1, cursor + n + 1)),
                cursor + n + 1 >= len(tokens),
            ),
        ),
    ),
    idea="The chunk is the next n tokens after those that are computed, at the places where they "
    "stand in the text, and it samples when no known token comes after it.",
    form=_inputs_form,
    evidence=[([5, 3, 8, 5, 3, 8, 5], cursor, n) for cursor, n in ((0, 1), (2, 2), (3, 3), (4, 3))],
)


def _one_chunk(ask: Ask, rng: random.Random) -> Failure | None:
    return _INPUTS.judge(ask, [([5, 3, 8], 0, 3), ([6], 0, 1)])


def _pieces(ask: Ask, rng: random.Random) -> Failure | None:
    text = [5, 3, 8, 1, 9]
    return _INPUTS.judge(ask, [(text, 0, 2), (text, 2, 2), (text, 4, 1)])


def _letters_that_return(ask: Ask, rng: random.Random) -> Failure | None:
    text = [5, 3, 5, 5, 3, 5]
    return _INPUTS.judge(ask, [(text, 2, 2), (text, 0, 1), (text, 0, 3), (text, 4, 2)])


def _any_piece(ask: Ask, rng: random.Random) -> Failure | None:
    cases: list[Args] = []
    for length in range(1, 40):
        cursor = rng.randrange(length)
        n = rng.randint(1, length - cursor) if rng.random() < 0.7 else length - cursor
        cases.append((tokens(rng, length), cursor, n))
    return _INPUTS.judge(ask, cases)


_INPUTS_CHECKS: tuple[tuple[str, Check], ...] = (
    ("a prompt in one chunk", _one_chunk),
    ("a prompt in three chunks", _pieces),
    ("a text in which letters come back", _letters_that_return),
    ("any piece of any text", _any_piece),
)


def check_chunk_inputs(function: Callable[..., Any], *, seed: int = 0) -> Report:
    """Judge an answer to l01.chunk_inputs."""
    return run_checks("l01.chunk_inputs", function, _INPUTS_CHECKS, seed=seed)


# --- plan_step -------------------------------------------------------------------------------


def _plan_rows(snapshot: Snapshot, plan: Any) -> Rows:
    return (
        ("input", show_call("plan_step", snapshot.args)),
        ("expected", f"{best_plan(snapshot)} (in any order)"),
        ("got", show(plan)),
    )


def _judge_snapshots(ask: Ask, *snapshots: Snapshot) -> Failure | None:
    for snapshot in snapshots:
        plan = ask(*snapshot.args)
        broken = judge_plan(snapshot, plan)
        if broken:
            return Failure(broken.idea, _plan_rows(snapshot, plan), broken.key)
    return None


def _room_for_all(ask: Ask, rng: random.Random) -> Failure | None:
    return _judge_snapshots(ask, Snapshot((0,), ((1, 3),), (), 8), Snapshot((4, 2), (), (), 8))


def _long_prompts(ask: Ask, rng: random.Random) -> Failure | None:
    return _judge_snapshots(ask, Snapshot((0,), ((1, 20),), (), 8), Snapshot((), ((1, 20),), (), 8))


def _several_prompts(ask: Ask, rng: random.Random) -> Failure | None:
    return _judge_snapshots(
        ask,
        Snapshot((), ((1, 3), (2, 2)), (), 8),
        Snapshot((), ((1, 6), (2, 3), (3, 4)), (), 4),
        Snapshot((0,), ((1, 20), (2, 5)), (), 8),
    )


def _arrivals(ask: Ask, rng: random.Random) -> Failure | None:
    return _judge_snapshots(
        ask,
        Snapshot((0,), (), ((1, 4),), 8),
        Snapshot((), ((1, 3),), ((2, 4),), 8),
        Snapshot((0,), ((1, 5),), ((2, 3),), 4),
    )


def _many_decodes(ask: Ask, rng: random.Random) -> Failure | None:
    return _judge_snapshots(
        ask, Snapshot((3, 1, 2), ((4, 5),), (), 3), Snapshot((3, 1, 2, 0), ((4, 5),), ((5, 2),), 2)
    )


def _any_snapshot(ask: Ask, rng: random.Random) -> Failure | None:
    for _ in range(60):
        snapshot = _random_snapshot(rng)
        broken = judge_plan(snapshot, ask(*snapshot.args))
        if broken:
            return _smallest_snapshot(ask, snapshot, broken)
    return None


def _random_snapshot(rng: random.Random) -> Snapshot:
    counts = [rng.randint(0, 5), rng.randint(0, 4), rng.randint(0, 4)]
    counts[rng.randrange(3)] += 1
    ids = rng.sample(range(30), sum(counts))
    queue = [(i, rng.randint(1, 12)) for i in ids[counts[0] :]]
    return Snapshot(
        tuple(ids[: counts[0]]),
        tuple(queue[: counts[1]]),
        tuple(queue[counts[1] :]),
        rng.randint(1, 24),
    )


def _smallest_snapshot(ask: Ask, snapshot: Snapshot, broken: Broken) -> Failure:
    """Shrink as long as the same rule is broken, so that the sentence stays true."""

    def breaks(candidate: Snapshot) -> bool:
        found = judge_plan(candidate, ask(*candidate.args))
        return found is not None and found.key == broken.key

    smallest = shrink(snapshot, smaller_snapshots, breaks)
    plan = ask(*smallest.args)
    found = judge_plan(smallest, plan) or broken
    return Failure(found.idea, _plan_rows(smallest, plan), found.key)


def _any_workload(ask: Ask, rng: random.Random) -> Failure | None:
    for size in (2, 3, 5, 7):
        bad = run_workload(ask, _random_workload(rng, size))
        if bad is None:
            continue

        def breaks(candidate: Workload) -> bool:
            nonlocal bad
            found = run_workload(ask, candidate)
            if found is None or bad is None or found.broken.key != bad.broken.key:
                return False
            bad = found
            return True

        shrink(bad.workload, smaller_workloads, breaks)
        rows: Rows = (("workload", str(bad.workload)), ("step", str(bad.step)))
        return Failure(bad.broken.idea, rows + _plan_rows(bad.snapshot, bad.plan), bad.broken.key)
    return None


def _random_workload(rng: random.Random, size: int) -> Workload:
    """Long prompts that need several steps, or more decodes than a small budget holds."""
    if rng.random() < 0.5:
        jobs = [Job(rng.randint(0, 6), rng.randint(1, 20), rng.randint(1, 6)) for _ in range(size)]
        return Workload(rng.randint(3, 12), rng.randint(1, 6), tuple(jobs))
    jobs = [Job(0, 0, rng.randint(2, 5)) for _ in range(size)]
    jobs += [Job(rng.randint(0, 3), rng.randint(1, 6), rng.randint(1, 3)) for _ in range(2)]
    return Workload(rng.randint(1, 3), size + 2, tuple(jobs))


_PLAN_CHECKS: tuple[tuple[str, Check], ...] = (
    ("room for everybody", _room_for_all),
    ("a prompt longer than the budget", _long_prompts),
    ("several prompts", _several_prompts),
    ("new arrivals", _arrivals),
    ("more decodes than the budget holds", _many_decodes),
    ("any step", _any_snapshot),
    ("whole workloads, to the last token", _any_workload),
)


def check_plan_step(function: Callable[..., Any], *, seed: int = 0) -> Report:
    """Judge an answer to l01.plan_step."""
    return run_checks("l01.plan_step", function, _PLAN_CHECKS, seed=seed)


# --- registry --------------------------------------------------------------------------------

EXERCISES = (
    Exercise(
        id="l01.chunk_size",
        lesson="l01_chunked_prefill",
        name="chunk_size",
        title="How large a chunk",
        minutes=4,
        points=1,
        part=None,
        hints=(
            "Two things limit a chunk. Which, and what if the decodes alone are too many?",
            "The decodes go first, so the prompt gets what they leave, and never more than it "
            "needs. What do they leave when there are more of them than the budget holds?",
            "Work out three steps by hand: budget 8 with 3 decodes and 20 tokens left, then with 2 "
            "tokens left, then with 9 decodes. Which built-in function gives all three?",
        ),
        check=check_chunk_size,
        task=Task(
            signature="chunk_size(budget: int, num_decodes: int, remaining: int) -> int",
            rules=(
                "A step computes at most `budget` tokens (at least 1).",
                "`num_decodes` decodes go first and take one token each. There may be none, and "
                "there may be more of them than the budget holds.",
                "`remaining` prompt tokens of one request are still to compute (at least 1).",
                "Return how many of them this step computes. When nothing fits that is 0.",
            ),
            args=(16, 4, 100),
            result=12,
        ),
    ),
    Exercise(
        id="l01.chunk_mask",
        lesson="l01_chunked_prefill",
        name="chunk_mask",
        title="Who may see whom",
        minutes=8,
        points=2,
        part="chunk_mask",
        hints=(
            "Draw the mask for 2 cached tokens and a chunk of 3. Where in the text does row 0 "
            "stand?",
            "Row t is a token of the chunk and has a position in the text. It may see every column "
            "up to that position, itself included.",
            "Two ways lead there: compare a column of the queries' positions with a row of the "
            "keys' positions, or move the diagonal of torch.tril. How far is it from the corner?",
        ),
        check=check_chunk_mask,
        task=Task(
            signature="chunk_mask(num_past: int, num_new: int) -> Tensor",
            rules=(
                "K and V of the first `num_past` tokens of a text are in the cache (0 or more). "
                "The chunk holds the next `num_new` tokens (at least 1).",
                "Return a `torch.bool` tensor of shape `(T, S)`: a row for each of the "
                "T = `num_new` queries, a column for each of the S = `num_past + num_new` keys, "
                "both in the order of the text.",
                'True means "may attend". A token may attend to itself and to everything before '
                "it in the text.",
            ),
            args=(1, 2),
            result=torch.tensor([[True, True, False], [True, True, True]]),
        ),
    ),
    Exercise(
        id="l01.chunk_inputs",
        lesson="l01_chunked_prefill",
        name="chunk_inputs",
        title="What a chunk feeds the model",
        minutes=6,
        points=2,
        part="chunk_inputs",
        hints=(
            "At which position of the text does the second chunk begin, and what comes after its "
            "last token?",
            "Ids and positions belong together: they begin at the same place of the text and are "
            "equally long. When is there a known token after the chunk?",
            "A slice for the ids, a range with the same two ends for the positions. For `sample`, "
            "compare the second of these ends with the length of the text.",
        ),
        check=check_chunk_inputs,
        task=Task(
            signature="chunk_inputs(tokens: list[int], cursor: int, n: int) -> "
            "tuple[list[int], list[int], bool]",
            rules=(
                "`tokens` are the ids of all known tokens of a request. The first `cursor` of them "
                "are computed, and the chunk takes the next `n` (at least 1, and no more than are "
                "left).",
                "Return `(ids, positions, sample)`.",
                "`ids` is the list of the chunk's tokens, `positions` the list of their places in "
                "the text, counted from 0.",
                "`sample` is a bool: whether the logits after this chunk give the text a new "
                "token. After a token whose successor is known they do not.",
                "Leave `tokens` as it is.",
            ),
            args=([18, 47, 56, 57, 53], 0, 2),
            result=([18, 47], [0, 1], False),
        ),
    ),
    Exercise(
        id="l01.plan_step",
        lesson="l01_chunked_prefill",
        name="plan_step",
        title="Plan a step",
        minutes=15,
        points=4,
        part="plan_step",
        hints=(
            "Who notices first when a step leaves them out: a reader in mid-sentence, or somebody "
            "whose prompt is not done yet?",
            "Keep one number, what is left of the budget, and go through the three lists one after "
            "the other. What may each entry use at most, and when do you stop?",
            "A decode and a prompt differ in one thing only: how much they can use. Give each the "
            "smaller of that and what is left, take it off, and list nobody who gets nothing.",
        ),
        check=check_plan_step,
        task=Task(
            signature="plan_step(decodes: list[int], prefilling: list[tuple[int, int]], "
            "waiting: list[tuple[int, int]], budget: int) -> list[tuple[int, int]]",
            rules=(
                "`decodes` are the ids of the requests that generate, least recently served first. "
                "Each can use exactly 1 token.",
                "`prefilling` (prompts under way) and `waiting` (not started yet) are lists of "
                "`(id, remaining)`, each in its order. A request can use up to `remaining` tokens.",
                "Return the plan as a list of `(id, n)`: request `id` computes `n` tokens. Every "
                "id stands in it at most once, with n from 1 to what it can use, and the order of "
                "the entries does not matter.",
                "All together get at most `budget` tokens (at least 1), and none of it stays "
                "unused while a request could use it.",
                "Decodes are served before `prefilling`, and that before `waiting`. Within a list "
                "the first in it go first: each gets all that it can use before the next one gets "
                "anything.",
                "Leave the three lists as they are.",
            ),
            args=([0, 3], [(1, 4)], [(2, 9)], 8),
            result=[(0, 1), (3, 1), (1, 4), (2, 2)],
        ),
    ),
    Exercise(
        id="l01.pick_budget",
        lesson="l01_chunked_prefill",
        name="pick_budget",
        title="How large a budget",
        minutes=8,
        points=2,
        part=None,
        hints=(
            "A small budget keeps gaps short. What does it cost the prompts?",
            "The cost never falls as the tokens grow. So which budgets keep the limit, all those "
            "below one of them or a few here and there?",
            "Start from the smallest budget that lets prompts get on and go up, one by one or by "
            "halving the range, as long as the next one still keeps the limit. Where do you end?",
        ),
        check=check_pick_budget,
        task=Task(
            signature="pick_budget(step_cost_us: Callable[[int], int], num_decodes: int, "
            "itl_limit_us: int) -> int",
            rules=(
                "`step_cost_us(tokens)` is how long a step of that many tokens takes, in "
                "microseconds. It never falls as the tokens grow, but it need not be a straight "
                "line: ask it, it is cheap.",
                "Every step serves `num_decodes` decodes (0 or more), which are part of its "
                "budget.",
                "Return the largest token budget up to 4096 with which a full step takes at most "
                "`itl_limit_us`.",
                "Never return less than `num_decodes + 1`, even if that takes too long: with less, "
                "no prompt would get on.",
            ),
            args=(Line(500, 10), 4, 600),
            result=10,
        ),
    ),
)
