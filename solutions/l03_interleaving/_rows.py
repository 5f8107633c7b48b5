"""Wrong tokens and positions of a padded step: which part of a text, and how it is laid out."""

from collections.abc import Callable, Iterable
from typing import Any

from course.exercise import Function, Misconception

Lists = list[list[int]]

Piece = Callable[
    [list[int], int, int], Iterable[int]
]  # of a request's tokens, how many are computed, how many scheduled
Layout = Callable[[list[int], int], list[int]]  # of a piece and T


def chunk(mine: list[int], computed: int, n: int) -> list[int]:
    return mine[computed : computed + n]


def places(mine: list[int], computed: int, n: int) -> Iterable[int]:
    return range(computed, computed + n)


def padded_with(value: int) -> Layout:
    return lambda piece, longest: [value] * (longest - len(piece)) + piece


padded = padded_with(0)


def padded_behind(piece: list[int], longest: int) -> list[int]:
    return piece + [0] * (longest - len(piece))


def ragged(piece: list[int], longest: int) -> list[int]:
    return piece


def laid_out(
    tokens: Layout = padded,
    positions: Layout = padded,
    *,
    feeding: Piece = chunk,
    at: Piece = places,
) -> Function:
    """The right answer with other layouts, or with other parts: `feeding` tokens `at` positions."""

    def answer(token_ids: Lists, computed: list[int], scheduled: list[int]) -> tuple[Lists, ...]:
        requests = list(zip(token_ids, computed, scheduled, strict=True))
        return tuple(
            [layout(list(piece(*each)), max(scheduled)) for each in requests]
            for layout, piece in ((tokens, feeding), (positions, at))
        )

    return answer


right = laid_out()


def eats_the_tokens(token_ids: Lists, computed: list[int], scheduled: list[int]) -> Any:
    result = right(token_ids, computed, scheduled)
    for mine, start in zip(token_ids, computed, strict=True):
        del mine[:start]
    return result


def rows_of_ints(rows: Any) -> bool:
    return type(rows) is list and all(
        type(row) is list and all(type(entry) is int for entry in row) for row in rows
    )


FORMS = (
    Misconception(
        "not_two",
        "The model also needs the length of each row.",
        "Return two things: `return tokens, positions`.",
        matches=lambda got, wanted: type(got) is not tuple or len(got) != 2,
        examples=(lambda *args: (*right(*args), args[2]),),
    ),
    Misconception(
        "not_a_list",
        "All rows have the same columns, so one row of positions is enough.",
        "`tokens` and `positions` are lists of rows, and each row is a list of ints.",
        matches=lambda got, wanted: not all(map(rows_of_ints, got)),
        examples=(lambda *args: (right(*args)[0], right(*args)[1][0]),),
    ),
    Misconception(
        "row_count",
        "A step computes one request only.",
        lambda got, wanted: (
            f"Each of the {len(wanted[0])} requests has its own row; `tokens` has {len(got[0])} "
            f"and `positions` {len(got[1])}."
        ),
        matches=lambda got, wanted: [*map(len, got)] != [*map(len, wanted)],
        examples=(lambda *args: tuple(rows[:1] for rows in right(*args)),),
    ),
)
BOTH = (  # in both lists
    Misconception(
        "right_padded",
        "Padding is added at the end.",
        "The padding goes in front, so that the last column holds every row's last token: the "
        "engine samples from that column. Here the padding comes last.",
        laid_out(padded_behind, padded_behind),
    ),
    Misconception(
        "ragged",
        "Rows may differ in length.",
        "A tensor is a rectangle: a row shorter than the longest gets zeros in front. Here the "
        "rows differ in length.",
        laid_out(ragged, ragged),
    ),
    Misconception(
        "padding_value",
        "Padding needs an id that no token has.",
        "Padding is fed as token 0 at position 0; here it has another number. The model looks up "
        "every entry in a table, so no entry may be a number that the table does not have.",
        laid_out(padded_with(-1), padded_with(-1)),
    ),
    Misconception(
        "one_is_a_decode",
        "A row of one token is a decode: it feeds the last token of the text.",
        "A row of one token need not be a decode: a chunk of a prompt can be one token long. Count "
        "from num_computed_tokens[i], not from the end of the text.",
        laid_out(feeding=lambda mine, c, n: mine[-1:] if n == 1 else mine[c : c + n]),
    ),
)
TOKENS = (
    Misconception(
        "one_early",
        "num_computed_tokens is the index of the last computed token, and a row begins there.",
        "num_computed_tokens[i] is a count, and computed tokens are not fed again. Here a row "
        "begins one token early.",
        laid_out(feeding=lambda mine, c, n: mine[max(0, c - 1) :][:n]),
    ),
    Misconception(
        "from_the_start",
        "A chunk is the first n tokens of the prompt.",
        "A chunk continues where the previous one ended. Here the first tokens of the prompt are "
        "fed again.",
        laid_out(feeding=lambda mine, c, n: mine[:n]),
    ),
    Misconception(
        "last_known",
        "The new tokens are the last ones of the text.",
        "The new tokens begin at index num_computed_tokens[i]. They are the last of the text only "
        "if the step computes the request's last known token.",
        laid_out(feeding=lambda mine, c, n: mine[-n:]),
    ),
)
POSITIONS = (
    Misconception(
        "positions_restart",
        "Each chunk starts at position 0.",
        "A chunk is not a text of its own: its positions continue those of the previous chunk. At "
        "position 0 the model would read it as the start of a text.",
        laid_out(at=lambda mine, c, n: range(n)),
    ),
    Misconception(
        "columns",
        "A position is the column in the tensor.",
        "A position is an index into the request's own text, not into the tensor. Here the columns "
        "are numbered.",
        laid_out(positions=lambda piece, longest: list(range(longest))),
    ),
)
MISCONCEPTIONS = (
    *FORMS,
    *BOTH,
    *TOKENS,
    *POSITIONS,
    Misconception("in_place", "Computed tokens may be deleted.", examples=(eats_the_tokens,)),
)
