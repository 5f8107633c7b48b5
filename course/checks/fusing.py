"""Judging how a fused step is laid out: rows, masks drawn as grids, cut tensors.

An answer here is judged by what matters in it: a mask by the rows of real tokens, since what
padding attends to is free; a triple by its parts, one after the other.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from course.checks.comparing import Args, Judge, Result, a_kind, explaining, those_of
from course.exercise import Function, Misconception
from course.format_values import cut, show
from course.harness import Ask, Failure, Rows, returned_nothing
from course.same_values import like, same
from nanogpt.validate import is_tensor

if TYPE_CHECKING:
    from torch import Tensor

# --- judging ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Look:
    """One thing to look at in an answer.

    `matters` takes out of a result what counts here, given the arguments; a mistake explains that
    alone. `idea` is said when none does, and `key` names it where it is a mistake all the same;
    `rows` show wanted beside got, given the arguments. `equal` compares what `matters` takes out.
    """

    matters: Callable[[Any, Args], Any]
    mistakes: Sequence[Misconception]
    idea: str
    rows: Callable[[Args, Any, Any], Rows]
    key: str | None = None
    equal: Callable[[Any, Any], bool] = same


@dataclass(frozen=True, slots=True)
class Fusing(Judge):
    """How to judge an exercise of which one look is not enough.

    The forms among `misconceptions`, of the result and what was wanted, say what is not the kind of
    value that was asked for; `looks` follow each other, and each may rely on those before it.
    `evidence` are cases to ask about after a failure, for what they tell about its cause.
    """

    reference: Function
    misconceptions: Sequence[Misconception]
    looks: Sequence[Look]
    evidence: Sequence[Args] = ()

    def judge(self, ask: Ask, cases: Sequence[Args]) -> Failure | None:
        """Ask about each case; the first wrong result becomes the failure, smallest case first."""
        results: list[Result] = []
        for args in cases:
            wanted = self.reference(*args)
            got = like(ask(*args), wanted)
            results.insert(0, (args, got))
            given: Rows = (("input", ask.draw_call(ask.name, args)),)
            broken = self._broken(ask.name, got, wanted)
            if broken:
                key, idea = broken
                right, wrong = brief(ask.plain_result(wanted)), brief(ask.plain_result(got))
                rows = (*given, ("expected", right), ("got", wrong))
                return Failure(idea, rows, key)
            for look in self.looks:
                if not look.equal(look.matters(got, args), look.matters(wanted, args)):
                    results += self._more(ask, cases[len(results) :])
                    mistake = explaining(
                        look.mistakes, self.reference, results, look.matters, look.equal
                    )
                    rows = (*given, *look.rows(args, wanted, got))
                    return mistake.failure(rows) if mistake else Failure(look.idea, rows, look.key)
        return None

    def _broken(self, name: str, got: Any, wanted: Any) -> tuple[str, str] | None:
        if got is None:
            return "no_return", returned_nothing(name)
        for each in self.misconceptions:
            if each.matches and each.matches(got, wanted):
                return each.key, each.sentence(got, wanted)
        return None

    def _more(self, ask: Ask, cases: Sequence[Args]) -> list[Result]:
        """Further results of the right form."""
        found: list[Result] = []
        for args, returned in those_of(ask, [*cases[:20], *self.evidence]):
            wanted = self.reference(*args)
            got = like(returned, wanted)
            if self._broken(ask.name, got, wanted) is None:
                found.append((args, got))
        return found


def brief(value: Any) -> str:
    """The value as text; of a tensor what kind it is, with the cells of a small mask."""
    if is_tensor(value):
        kind = f"tensor of shape {tuple(value.shape)}, {dtype(value)}"
        if dtype(value) != "bool" or value.dim() != 2 or value.numel() > 64:
            return kind
        lines = [" ".join(cell(each) for each in line) for line in value.tolist()]
        return "\n".join([f"{kind}:", *lines])
    if isinstance(value, list | tuple) and any(map(is_tensor, value)):
        return "\n".join([f"{type(value).__name__} of {len(value)}:", *map(brief, value)])
    return cut(show(value), 320)


def dtype(tensor: "Tensor") -> str:
    """The type of its numbers, as it is called in a sentence."""
    return str(tensor.dtype).removeprefix("torch.")


# --- masks -----------------------------------------------------------------------------------

Changed = Callable[[Callable[["Tensor"], Any]], Function]  # a right answer, its mask made another


def mask_forms(
    changed: Changed, *shapes: Misconception, mask_of: Callable[[Any], Any] = lambda value: value
) -> tuple[Misconception, ...]:
    """Mistakes in a mask as a value: no bool tensor, or of another shape than wanted.

    `shapes` are misconceptions that a certain shape tells of; `mask_of` takes it out of an answer.
    """
    return (
        Misconception(
            "not_a_tensor",
            "Nested lists are a mask too.",
            lambda got, wanted: f"The mask is a torch tensor, not {a_kind(mask_of(got))}.",
            matches=lambda got, wanted: not is_tensor(mask_of(got)),
            examples=(changed(lambda mask: mask.tolist()),),
        ),
        Misconception(
            "additive",
            "A mask is what is added to the scores: 0 or minus infinity.",
            "This is a mask to be added to the scores; return the decision itself, a tensor of "
            "True (may attend) and False.",
            matches=lambda got, wanted: bool(mask_of(got).isinf().any()),
            examples=(changed(lambda mask: mask.float().log()),),
        ),
        Misconception(
            "not_bool",
            "Ones and zeros are as good as True and False.",
            lambda got, wanted: (
                f"The mask holds True and False (torch.bool); this one is {dtype(mask_of(got))}."
            ),
            matches=lambda got, wanted: dtype(mask_of(got)) != "bool",
            examples=(changed(lambda mask: mask.float()),),
        ),
        *shapes,
        Misconception(
            "shape",
            "A mask has a dimension for the heads.",
            lambda got, wanted: (
                f"The mask has the shape {tuple(mask_of(got).shape)}; it has to be "
                f"{tuple(mask_of(wanted).shape)}."
            ),
            matches=lambda got, wanted: mask_of(got).shape != mask_of(wanted).shape,
            examples=(changed(lambda mask: mask.unsqueeze(-3)),),
        ),
    )


def diagonal_ideas(changed: Changed, moved: Callable[[int], Function]) -> tuple[Misconception, ...]:
    """Of a mask that is upside down, or `moved` to the right by so many keys."""
    return (
        Misconception(
            "inverted",
            "True marks what is hidden.",
            'True means "may attend"; this mask has True where it should have False.',
            changed(lambda mask: mask.logical_not()),
        ),
        Misconception(
            "not_itself",
            "A token looks at what came before it.",
            "A token attends to itself as well; here it sees only what came before it.",
            moved(-1),
        ),
        Misconception(
            "one_future_key",
            "The diagonal of tril is one too low.",
            "Each token sees one key too many: the token right after it, which it is to predict.",
            moved(1),
        ),
    )


# --- drawing ---------------------------------------------------------------------------------


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


def cell(may_attend: bool) -> str:
    """As it is drawn in a mask."""
    return "1" if may_attend else "."


# --- cases -----------------------------------------------------------------------------------


def some_lengths(rng: random.Random, rows: int) -> tuple[list[int], list[int]]:
    """Lengths of the past and of the new tokens, decodes and first chunks among them."""
    past = [rng.choice((0, rng.randint(1, 6))) for _ in range(rows)]
    return past, [rng.choice((1, rng.randint(1, 4))) for _ in range(rows)]


def any_lengths(rng: random.Random, count: int, *, most_rows: int = 4) -> list[Args]:
    """Small steps first; at the end a large one, a long text beside a short first chunk."""
    cases = [some_lengths(rng, 1 + i % most_rows) for i in range(count - 1)]
    cases.sort(key=lambda case: sum(case[0]) + 2 * sum(case[1]))
    return [*cases, ([rng.randint(10, 14), 0], [rng.randint(4, 5), rng.randint(1, 5)])]
