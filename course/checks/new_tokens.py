"""Judging which rows of a fused step get a new token: the rule, and mistakes about it."""

from collections.abc import Callable
from typing import Any

from course.checks.comparing import Comparison, Mistake, alike, list_of_ints
from nanogpt.parts.plain_values import as_truth

Ints = list[int]


def _rows_where(rule: Callable[[int, int, int], bool]) -> Callable[[Ints, Ints, Ints], Ints]:
    """The rows for which the rule says so, given new, cursor, known."""
    return lambda num_new, cursors, num_known: [
        row for row, each in enumerate(zip(num_new, cursors, num_known, strict=True)) if rule(*each)
    ]


_FLAGS = "Return the numbers of the rows, such as [0, 2], not a True or False for each."


def _row_numbers(value: Any) -> tuple[str, str] | None:
    if isinstance(value, list) and value and all(as_truth(each) is not None for each in value):
        return "flags", _FLAGS
    return list_of_ints(value)


_RIGHT = _rows_where(lambda new, cursor, known: cursor + new == known)

SAMPLE: Comparison[Callable[[Ints, Ints, Ints], Ints]] = Comparison(
    reference=_RIGHT,
    mistakes=(
        Mistake(
            "samples_partial",
            "A chunk that ends inside its prompt predicts a token that is known already, the next "
            "one of the prompt: such a row gets no new token.",
            _rows_where(lambda new, cursor, known: True),
        ),
        *alike(
            "only_decodes",
            "The last chunk of a prompt gets a new token as well, its first: here only rows of "
            "one token do.",
            _rows_where(lambda new, cursor, known: new == 1 and cursor + new == known),
            _rows_where(lambda new, cursor, known: new == 1),
        ),
        Mistake(
            "one_is_a_decode",
            "A row of one token need not be a decode: if tokens of its prompt are left after it, "
            "the token that it predicts is known.",
            _rows_where(lambda new, cursor, known: new == 1 or cursor + new == known),
        ),
        Mistake(
            "samples_early",
            "With one known token still to come, a row predicts just that token, so it gets "
            "nothing new.",
            _rows_where(lambda new, cursor, known: cursor + new >= known - 1),
        ),
        Mistake(
            "off_by_one",
            "A number of computed tokens is compared with the index of the last known one here; "
            "compare numbers with numbers.",
            _rows_where(lambda new, cursor, known: cursor + new == known - 1),
        ),
        Mistake(
            "cursor_alone",
            "No row ever gets a token here: the cursor counts what was computed before this step, "
            "and what the step computes comes on top.",
            _rows_where(lambda new, cursor, known: cursor >= known),
        ),
        Mistake(
            "forgets_the_cursor",
            "The first cursors[i] tokens were computed in earlier steps, and they count as well.",
            _rows_where(lambda new, cursor, known: new == known),
        ),
        Mistake(
            "not_the_first_chunk",
            "A first chunk that holds all that is known, such as a short prompt or a text that "
            "is computed again, is a last chunk too: it gets a token.",
            _rows_where(lambda new, cursor, known: cursor > 0 and cursor + new == known),
        ),
        *alike(
            "longest",
            "How wide a row is says nothing about its text: what counts is whether it ends with "
            "the last known token.",
            lambda num_new, cursors, num_known: [
                row for row, new in enumerate(num_new) if new == max(num_new)
            ],
            _rows_where(lambda new, cursor, known: new > 1),
        ),
        Mistake(
            "inverted",
            "These are the rows that get no new token: known tokens are left after them.",
            _rows_where(lambda new, cursor, known: cursor + new < known),
        ),
        Mistake(
            "order",
            "These are the right rows in another order: give them as they stand in the batch, the "
            "lowest number first.",
            lambda num_new, cursors, num_known: _RIGHT(num_new, cursors, num_known)[::-1],
        ),
        Mistake(
            "first_only",
            "Each row is a request of its own: more than one of them may get a token in a step.",
            lambda num_new, cursors, num_known: _RIGHT(num_new, cursors, num_known)[:1],
        ),
        Mistake(
            "flags",
            _FLAGS,
            lambda num_new, cursors, num_known: [
                int(new + cursor == known)
                for new, cursor, known in zip(num_new, cursors, num_known, strict=True)
            ],
        ),
        Mistake(
            "from_one",
            "Rows are counted from 0, as everywhere in Python.",
            lambda num_new, cursors, num_known: [
                row + 1 for row in _RIGHT(num_new, cursors, num_known)
            ],
        ),
    ),
    idea="A row gets a token when what it predicts after its last column is a token that is not "
    "known yet.",
    form=_row_numbers,
    evidence=[
        ([1, 3, 2], [9, 4, 4], [10, 7, 9]), ([3, 1], [0, 2], [3, 4]),
        ([2, 2, 1, 4], [3, 0, 6, 1], [5, 2, 7, 9]),
    ],
)  # fmt: skip
