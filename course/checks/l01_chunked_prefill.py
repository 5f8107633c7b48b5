"""Checks of lesson 1, chunked prefill."""

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from course.checks.comparing import Args, Comparison, Mistake, a_kind, tokens, whole_number
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
    ),
    idea="A chunk is the smaller of two things: what the decodes leave of the budget, and what "
    "remains of the prompt.",
    form=whole_number,
)


def _long_prompt(ask: Ask, rng: random.Random) -> Failure | None:
    return _SIZE.judge(ask, [(16, 4, 100), (8, 0, 20), (8, 7, 20)])


def _end_of_prompt(ask: Ask, rng: random.Random) -> Failure | None:
    return _SIZE.judge(ask, [(16, 4, 3), (16, 4, 12), (8, 0, 1)])


def _full_of_decodes(ask: Ask, rng: random.Random) -> Failure | None:
    return _SIZE.judge(ask, [(4, 4, 10), (4, 7, 10), (1, 1, 1)])


def _any_size(ask: Ask, rng: random.Random) -> Failure | None:
    cases = [(rng.randint(1, 40), rng.randint(0, 20), rng.randint(1, 40)) for _ in range(80)]
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
        return "not_a_tensor", f"The mask is a torch tensor, not {a_kind(value)}."
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
        Mistake(
            "all_true",
            "A cache does not replace the mask: the chunk's tokens come in together, so without "
            "one, each of them sees the later tokens of its own chunk.",
            lambda num_past, num_new: _mask(num_past, num_new, num_new),
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
            "whole_square",
            "Only the chunk's tokens ask in this step: a row for each of the num_new, none for "
            "those in the cache.",
            lambda num_past, num_new: _mask(0, num_past + num_new),
        ),
    ),
    idea="Query t stands at position num_past + t of the text and attends to the keys at positions "
    "0 to num_past + t, so the mask is (num_new, num_past + num_new).",
    form=_mask_form,
    draw=_grid,
)


def _no_past(ask: Ask, rng: random.Random) -> Failure | None:
    return _MASK.judge(ask, [(0, 3), (0, 1)])


def _second_chunk(ask: Ask, rng: random.Random) -> Failure | None:
    return _MASK.judge(ask, [(2, 3), (3, 2)])


def _one_token(ask: Ask, rng: random.Random) -> Failure | None:
    return _MASK.judge(ask, [(3, 1), (7, 1)])


def _any_chunk(ask: Ask, rng: random.Random) -> Failure | None:
    cases = [(rng.randint(0, 14), rng.randint(1, 10)) for _ in range(20)]
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
    idea="A chunk is tokens[cursor : cursor + n] at the positions cursor to cursor + n - 1, and it "
    "samples when it ends with the last known token.",
    form=_inputs_form,
)


def _one_chunk(ask: Ask, rng: random.Random) -> Failure | None:
    return _INPUTS.judge(ask, [([5, 3, 8], 0, 3), ([6], 0, 1)])


def _pieces(ask: Ask, rng: random.Random) -> Failure | None:
    text = [5, 3, 8, 1, 9]
    return _INPUTS.judge(ask, [(text, 0, 2), (text, 2, 2), (text, 4, 1)])


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


# --- pick_budget -----------------------------------------------------------------------------

_LARGEST = 4096


@dataclass(frozen=True, slots=True)
class _Case:
    """A step cost in words and as a function, the decodes, and the limit."""

    words: str
    cost: Callable[[int], int]
    num_decodes: int
    limit_us: int

    def answer(self) -> int:
        """By trying every budget."""
        smallest = self.num_decodes + 1
        fitting = [b for b in range(smallest, _LARGEST + 1) if self.cost(b) <= self.limit_us]
        return max(fitting, default=smallest)


def _line(fixed: int, each: int) -> tuple[str, Callable[[int], int]]:
    return f"{fixed} µs + {each} µs per token", lambda n: fixed + each * n


def _floor(least: int, each: int) -> tuple[str, Callable[[int], int]]:
    return f"{each} µs per token, but at least {least} µs", lambda n: max(least, each * n)


def _stairs(fixed: int, each: int, width: int) -> tuple[str, Callable[[int], int]]:
    words = f"{fixed} µs + {each} µs for each block of {width} tokens, begun ones included"
    return words, lambda n: fixed + each * -(-n // width)


def _budget_mistake(case: _Case, got: int) -> tuple[str | None, str]:
    """(key, idea) of a wrong budget."""
    smallest, limit, wanted = case.num_decodes + 1, case.limit_us, case.answer()
    if got < smallest:
        return (
            "no_room_for_prefill",
            f"With {case.num_decodes} decodes, a budget of {got} leaves prompts nothing and they "
            f"never get on: the smallest useful budget is {smallest}.",
        )
    if got > _LARGEST:
        return "above_the_range", f"Consider budgets up to {_LARGEST}; this is {got}."
    for key, idea, mistaken in _known_budgets(case):
        if got == mistaken:
            return key, idea
    if got > wanted:
        took = case.cost(got)
        return None, f"A step of {got} tokens takes {took} µs, more than the limit of {limit} µs."
    took = case.cost(got + 1)
    idea = f"{got + 1} tokens take {took} µs, still within {limit} µs: the largest budget is asked."
    return None, idea


def _known_budgets(case: _Case) -> list[tuple[str, str, int]]:
    """(key, idea, the budget that this mistake gives), for each known mistake."""
    cost, smallest, limit = case.cost, case.num_decodes + 1, case.limit_us
    slope, per_token = (cost(_LARGEST) - cost(1)) / (_LARGEST - 1), cost(2) - cost(1)
    line = (
        "The cost is not a straight line here, so two of its points do not tell where the limit "
        "is: ask step_cost_us about the budgets themselves."
    )
    power = 1
    while power < _LARGEST and cost(2 * power) <= limit:
        power *= 2
    below = max((b for b in range(smallest, _LARGEST + 1) if cost(b) < limit), default=smallest)

    def clamp(budget: int) -> int:
        return min(_LARGEST, max(smallest, budget))

    known = [
        (
            "stays_below",
            "A step may take exactly the limit: within means at most, not less than.",
            below,
        ),
        (
            "decodes_on_top",
            "The decodes are part of the budget: a step computes the budget's tokens, not that "
            "many and the decodes besides.",
            clamp(case.answer() - case.num_decodes),
        ),
        (
            "powers_of_two",
            "A larger budget than this power of two still keeps the limit, and every token of it "
            "saves steps.",
            clamp(power),
        ),
    ]
    if not _is_line(cost):
        known.append(("straight_line", line, clamp(1 + int((limit - cost(1)) / slope))))
        start = _LARGEST if per_token == 0 else 1 + (limit - cost(1)) // per_token
        known.append(("straight_line", line, clamp(start)))
    known += [
        (
            "per_token",
            "A step has a fixed cost besides the cost of its tokens: so many tokens do not cost so "
            "many times what one costs.",
            clamp(limit // cost(1)),
        ),
        (
            "smallest",
            "Smaller is not always better: every step has a fixed cost and small steps pay it more "
            "often, so take the largest budget that keeps the limit.",
            smallest,
        ),
        (
            "largest",
            f"A step of {_LARGEST} tokens takes {cost(_LARGEST)} µs and every reader would wait "
            f"that long: the limit is {limit} µs.",
            _LARGEST,
        ),
    ]
    return known


def _is_line(cost: Callable[[int], int]) -> bool:
    return cost(_LARGEST) - cost(1) == (_LARGEST - 1) * (cost(2) - cost(1))


def _judge_budgets(ask: Ask, *cases: _Case) -> Failure | None:
    for case in cases:
        asked = 0

        def step_cost_us(tokens: int, cost: Callable[[int], int] = case.cost) -> int:
            nonlocal asked
            asked += 1
            return cost(tokens)

        got = ask(step_cost_us, case.num_decodes, case.limit_us)
        wanted = case.answer()
        if type(got) is int and got == wanted:
            continue
        rows: Rows = (
            ("input", f"pick_budget(step_cost_us, {case.num_decodes}, {case.limit_us})"),
            ("step_cost_us", f"{case.words} (you asked it {asked}×)"),
            ("expected", f"{wanted} (a step of {case.cost(wanted)} µs)"),
            ("got", show(got)),
        )
        if got is None:
            return Failure("pick_budget returned nothing: end it with `return`.", rows, "no_return")
        form = whole_number(got)
        key, idea = form if form else _budget_mistake(case, got)
        return Failure(idea, rows, key)
    return None


def _straight_costs(ask: Ask, rng: random.Random) -> Failure | None:
    line = _line(500, 10)
    return _judge_budgets(ask, _Case(*line, 0, 2005), _Case(*line, 4, 1500))


def _edges(ask: Ask, rng: random.Random) -> Failure | None:
    line = _line(500, 10)
    limits = ((30, 700), (4, 100), (4, 540), (4, 560), (4, 1_000_000))
    return _judge_budgets(ask, *(_Case(*line, decodes, limit) for decodes, limit in limits))


def _crooked_costs(ask: Ask, rng: random.Random) -> Failure | None:
    return _judge_budgets(
        ask, _Case(*_floor(900, 20), 4, 1000), _Case(*_stairs(300, 200, 64), 4, 1000)
    )


def _any_costs(ask: Ask, rng: random.Random) -> Failure | None:
    cases: list[_Case] = []
    for _ in range(4):
        shapes = (
            _line(rng.randint(0, 900), rng.randint(1, 30)),
            _floor(rng.randint(100, 2000), rng.randint(1, 30)),
            _stairs(rng.randint(0, 900), rng.randint(50, 400), rng.choice((8, 32, 100))),
        )
        cases += [_Case(*shape, rng.randint(0, 40), rng.randint(50, 4000)) for shape in shapes]
    return _judge_budgets(ask, *cases)


_BUDGET_CHECKS: tuple[tuple[str, Check], ...] = (
    ("a cost that is a straight line", _straight_costs),
    ("limits too tight and too wide", _edges),
    ("costs with a floor and with steps", _crooked_costs),
    ("any cost that never falls", _any_costs),
)


def check_pick_budget(function: Callable[..., Any], *, seed: int = 0) -> Report:
    """Judge an answer to l01.pick_budget."""
    return run_checks("l01.pick_budget", function, _BUDGET_CHECKS, seed=seed)


# --- registry --------------------------------------------------------------------------------

EXERCISES = (
    Exercise(
        id="l01.chunk_size",
        lesson="l01_chunked_prefill",
        name="chunk_size",
        title="How large a chunk",
        minutes=3,
        points=1,
        part=None,
        hints=(
            "Two things limit a chunk. Which, and what if the decodes alone are too many?",
            "What the decodes leave of the budget, and what remains of the prompt: the smaller one "
            "counts. The first of them can be less than nothing.",
            "The minimum of budget - num_decodes and remaining, but at least 0.",
        ),
        check=check_chunk_size,
    ),
    Exercise(
        id="l01.chunk_mask",
        lesson="l01_chunked_prefill",
        name="chunk_mask",
        title="Who may see whom",
        minutes=6,
        points=2,
        part="chunk_mask",
        hints=(
            "Draw the mask for 2 cached tokens and a chunk of 3. Where in the text does row 0 "
            "stand?",
            "Row t is the token at position num_past + t. It may see every column up to that "
            "position: a causal mask with its diagonal moved to the right by num_past.",
            "Compare a row of key positions, torch.arange(num_past + num_new), with a column of "
            "query positions, (num_past + torch.arange(num_new))[:, None], using <=.",
        ),
        check=check_chunk_mask,
    ),
    Exercise(
        id="l01.chunk_inputs",
        lesson="l01_chunked_prefill",
        name="chunk_inputs",
        title="What a chunk feeds the model",
        minutes=5,
        points=2,
        part="chunk_inputs",
        hints=(
            "At which position of the text does the second chunk begin, and what comes after its "
            "last token?",
            "Ids and positions both run from cursor to cursor + n. Sampling is due only when no "
            "known token is left after the chunk.",
            "tokens[cursor : cursor + n], list(range(cursor, cursor + n)), and whether cursor + n "
            "equals len(tokens).",
        ),
        check=check_chunk_inputs,
    ),
    Exercise(
        id="l01.plan_step",
        lesson="l01_chunked_prefill",
        name="plan_step",
        title="Plan a step",
        minutes=12,
        points=4,
        part="plan_step",
        hints=(
            "Who notices first when a step leaves them out: a reader in mid-sentence, or somebody "
            "whose prompt is not done yet?",
            "Serve decodes until the budget or the list ends, and keep count of what is left. Then "
            "walk through prefilling and waiting, in this order, giving each the smaller of what "
            "is left and what remains.",
            "plan = [(i, 1) for i in decodes[:budget]]; left = budget - len(plan); for each "
            "(i, remaining) of prefilling + waiting: n = min(left, remaining), and if n > 0, "
            "append (i, n) and subtract n from left.",
        ),
        check=check_plan_step,
    ),
    Exercise(
        id="l01.pick_budget",
        lesson="l01_chunked_prefill",
        name="pick_budget",
        title="How large a budget",
        minutes=6,
        points=2,
        part=None,
        hints=(
            "A small budget keeps gaps short. What does it cost the prompts?",
            "The best budget is the largest one whose step keeps the limit, and the cost never "
            "falls: try them in order, or halve the range. Which budget is the least that lets "
            "prompts get on?",
            "Start with budget = num_decodes + 1; while budget < 4096 and "
            "step_cost_us(budget + 1) <= itl_limit_us, add 1.",
        ),
        check=check_pick_budget,
    ),
)
