"""Judging how a fused step is laid out: padded rows, masks drawn as grids, cut tensors.

An answer here is judged by what matters in it: a mask by the rows of real tokens, since what
padding attends to is free; a triple by its parts, one after the other.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic

import torch
from torch import Tensor

from course.checks.comparing import Answer, Args, Mistake, Result, a_kind, explaining
from course.judging import Ask, Failure, Rows
from course.sameness import like, same
from course.showing import show, show_call

Problem = tuple[str, str]  # key of a misconception, sentence
Explain = Callable[[Args, Any, Any], Rows]  # arguments, wanted, got -> what to show

# --- judging ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Look(Generic[Answer]):
    """One thing to look at in an answer.

    `matters` takes out of a result what counts here, given the arguments; a mistake answers with
    just that. `idea` is said when no known mistake explains it, and `key` names it where it is a
    mistake all the same; `rows` show wanted beside got.
    """

    matters: Callable[[Any, Args], Any]
    mistakes: Sequence[Mistake[Answer]]
    idea: str
    rows: Explain
    key: str | None = None


@dataclass(frozen=True, slots=True)
class Fusing:
    """How to judge an exercise of which one look is not enough.

    `form` says what is wrong with a result that is not the kind of value that was asked for;
    `looks` follow each other, and each may rely on those before it. `evidence` are cases to ask
    about after a failure, for what they tell about its cause.
    """

    reference: Callable[..., Any]
    form: Callable[[Any, Args], Problem | None]
    looks: Sequence[Look[Any]]
    draw_call: Callable[[str, Args], str] = show_call
    evidence: Sequence[Args] = ()

    def judge(self, ask: Ask, cases: Sequence[Args]) -> Failure | None:
        """Ask about each case; the first wrong result becomes the failure, smallest case first."""
        results: list[Result] = []
        for args in cases:
            wanted = self.reference(*args)
            got = like(ask(*args), wanted)
            results.insert(0, (args, got))
            given: Rows = (("input", self.draw_call(ask.name, args)),)
            broken = self._broken(ask.name, args, got)
            if broken:
                rows = (*given, ("expected", brief(wanted)), ("got", brief(got)))
                return Failure(broken[1], rows, broken[0])
            for look in self.looks:
                if not same(look.matters(got, args), look.matters(wanted, args)):
                    results += self._more(ask, cases[len(results) :])
                    return self._explain(look, results, given + look.rows(args, wanted, got))
        return None

    def _broken(self, name: str, args: Args, got: Any) -> Problem | None:
        if got is None:
            return "no_return", f"{name} returned nothing: end it with `return`."
        return self.form(got, args)

    def _more(self, ask: Ask, cases: Sequence[Args]) -> list[Result]:
        """More results of the right form; an answer that breaks off has said enough."""
        results: list[Result] = []
        try:
            for args in [*cases[:20], *self.evidence]:
                got = like(ask(*args), self.reference(*args))
                if self._broken(ask.name, args, got) is None:
                    results.append((args, got))
        except Exception:
            return results
        return results

    def _explain(self, look: Look[Any], results: Sequence[Result], rows: Rows) -> Failure:
        """Explain the first result in the light of the others."""
        mattering = [(args, look.matters(got, args)) for args, got in results]
        mistake = explaining(
            look.mistakes, lambda *args: look.matters(self.reference(*args), args), mattering
        )
        if mistake:
            return Failure(mistake.idea, rows, mistake.key)
        return Failure(look.idea, rows, look.key)


def brief(value: Any) -> str:
    """The value as text; of a tensor what kind it is, with the cells of a small mask."""
    if isinstance(value, Tensor):
        kind = f"tensor of shape {tuple(value.shape)}, {_dtype(value)}"
        if value.dtype != torch.bool or value.dim() != 2 or value.numel() > 64:
            return kind
        lines = [" ".join(_cell(cell) for cell in line) for line in value.tolist()]
        return "\n".join([f"{kind}:", *lines])
    if isinstance(value, list | tuple) and any(isinstance(item, Tensor) for item in value):
        return "\n".join([f"{type(value).__name__} of {len(value)}:", *map(brief, value)])
    text = show(value)
    return text if len(text) <= 320 else f"{text[:160]} ... {text[-160:]}"


def _dtype(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


# --- padded rows -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PaddedRow:
    """Where one row of a padded step has its tokens: S columns of past, then T new ones."""

    past: int
    new: int
    longest_past: int
    longest_new: int

    def key(self, column: int) -> int | None:
        """The position in the text of the key in one of the S + T columns, None for padding."""
        if column >= self.longest_past:
            return self.query(column - self.longest_past)
        index = column - (self.longest_past - self.past)
        return index if index >= 0 else None

    def query(self, column: int) -> int | None:
        """The position in the text of the query in one of the T columns, None for padding."""
        index = column - (self.longest_new - self.new)
        return self.past + index if index >= 0 else None


Rule = Callable[[PaddedRow, int, int], bool]  # row, query column, key column -> may attend


def padded_rows(past_lens: Sequence[int], num_new: Sequence[int]) -> list[PaddedRow]:
    """The rows of a step."""
    longest = max(past_lens), max(num_new)
    return [PaddedRow(p, n, *longest) for p, n in zip(past_lens, num_new, strict=True)]


def mask_by(rule: Rule, past_lens: Sequence[int], num_new: Sequence[int]) -> Tensor:
    """The mask (B, T, S + T) in which each cell is what the rule says."""
    queries, keys = range(max(num_new)), range(max(past_lens) + max(num_new))
    rows = padded_rows(past_lens, num_new)
    cells = [[[rule(row, q, k) for k in keys] for q in queries] for row in rows]
    return torch.tensor(cells, dtype=torch.bool)


def right_mask(row: PaddedRow, query: int, key: int) -> bool:
    """The rule: no padding, nothing later than the query; and a padding query sees itself."""
    at, by = row.key(key), row.query(query)
    if by is None:
        return key == row.longest_past + query
    return at is not None and at <= by


def real_rows(mask: Tensor, num_new: Sequence[int]) -> Tensor:
    """The mask's rows of real queries, one below the other: (N, S + T)."""
    longest = mask.shape[1]
    return torch.cat([mask[i, longest - new :] for i, new in enumerate(num_new)])


def mask_form(
    value: Any, shape: tuple[int, ...], others: dict[tuple[int, ...], Problem]
) -> Problem | None:
    """What is wrong with a mask as a value: no bool tensor, or of another shape than wanted.

    `others` are shapes that tell of a mistake, and what to say about them.
    """
    if not isinstance(value, Tensor):
        return "not_a_tensor", f"The mask is a torch tensor, not {a_kind(value)}."
    if value.dtype != torch.bool and value.isinf().any():
        return (
            "additive",
            "This is a mask to be added to the scores; return the decision itself, a tensor of "
            "True (may attend) and False.",
        )
    if value.dtype != torch.bool:
        kind = _dtype(value)
        return "not_bool", f"The mask holds True and False (torch.bool); this one is {kind}."
    if value.shape == shape:
        return None
    got = tuple(value.shape)
    return others.get(got, ("shape", f"The mask has the shape {got}; it has to be {shape}."))


# --- drawing ---------------------------------------------------------------------------------

LEGEND = "numbers are positions in the text, - is padding, ? is free"


def explain_mask(
    past_lens: Sequence[int], num_new: Sequence[int], wanted: Tensor, got: Tensor
) -> Rows:
    """The first row of the batch in which a real query sees something else than it should."""
    for i, row in enumerate(padded_rows(past_lens, num_new)):
        real = slice(row.longest_new - row.new, None)
        if not torch.equal(wanted[i, real], got[i, real]):
            return draw_padded(i, row, wanted[i], got[i])
    raise AssertionError("asked to explain a mask that is right")


def draw_padded(i: int, row: PaddedRow, wanted: Tensor, got: Tensor) -> Rows:
    """One row of the batch as two grids (T, S + T), a line per query, a column per key."""
    columns = range(wanted.shape[1])
    keys = [_position(row.key(column)) for column in columns]
    queries = [_position(row.query(column)) for column in range(row.longest_new)]
    bars = {row.longest_past} if row.longest_past else set[int]()
    free = [row.query(column) is None for column in range(row.longest_new)]
    cells = [["?" if free[q] else _cell(c) for c in line] for q, line in enumerate(wanted.tolist())]
    theirs = [[_cell(c) for c in line] for line in got.tolist()]
    return (
        ("expected", grid(cells, keys, queries, bars)),
        ("got", grid(theirs, keys, queries, bars)),
        ("drawn", f"row {i} of the batch, a line per query, a column per key:\n{LEGEND}"),
    )


def grid(
    cells: Sequence[Sequence[str]],
    columns: Sequence[str],
    lines: Sequence[str],
    bars: set[int],
    breaks: frozenset[int] = frozenset(),
) -> str:
    """Cells with their labels; a bar before the columns in `bars`, a rule before `breaks`."""
    width = max(len(label) for label in [*columns, *lines])

    def line(label: str, items: Sequence[str]) -> str:
        shown = [f"| {x:>{width}}" if i in bars else f"{x:>{width}}" for i, x in enumerate(items)]
        return f"{label:>{width}}  {' '.join(shown)}"

    drawn = [line("", columns)]
    for index, (label, items) in enumerate(zip(lines, cells, strict=True)):
        if index in breaks:
            drawn.append("-" * len(drawn[0]))
        drawn.append(line(label, items))
    return "\n".join(drawn)


def _position(position: int | None) -> str:
    return "-" if position is None else str(position)


def _cell(may_attend: bool) -> str:
    return "1" if may_attend else "."
