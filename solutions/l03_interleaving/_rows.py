"""The rows of a padded step as people get them wrong: in pieces of each request, laid out."""

from collections.abc import Callable, Iterable
from typing import Any

from course.checks.comparing import a_kind
from course.exercise import Function, Misconception

Lists = list[list[int]]

Piece = Callable[[list[int], int, int], Iterable[int]]  # of a request's tokens, its cursor and n
Layout = Callable[[list[int], int], list[int]]  # of a piece and T


def chunk(mine: list[int], cursor: int, n: int) -> list[int]:
    return mine[cursor : cursor + n]


def places(mine: list[int], cursor: int, n: int) -> Iterable[int]:
    return range(cursor, cursor + n)


def padded_with(value: int) -> Layout:
    return lambda piece, longest: [value] * (longest - len(piece)) + piece


padded = padded_with(0)


def padded_behind(piece: list[int], longest: int) -> list[int]:
    return piece + [0] * (longest - len(piece))


def ragged(piece: list[int], longest: int) -> list[int]:
    return piece


def running_on(piece: list[int], longest: int) -> list[int]:
    return list(range(piece[-1] + 1 - longest, piece[-1] + 1))


def laid_out(
    tokens: Layout = padded,
    positions: Layout = padded,
    *,
    feeding: Piece = chunk,
    at: Piece = places,
) -> Function:
    """Right tokens and positions laid out like that, or such pieces of each: `feeding`, `at`."""

    def answer(known: Lists, cursors: list[int], num_new: list[int]) -> tuple[Lists, ...]:
        requests = list(zip(known, cursors, num_new, strict=True))
        return tuple(
            [layout(list(piece(*each)), max(num_new)) for each in requests]
            for layout, piece in ((tokens, feeding), (positions, at))
        )

    return answer


right = laid_out()


def sorted_by_length(known: Lists, cursors: list[int], num_new: list[int]) -> Any:
    requests = sorted(zip(known, cursors, num_new, strict=True), key=lambda request: -request[2])
    return right(*zip(*requests, strict=True))


def takes_all_the_rest(known: Lists, cursors: list[int], num_new: list[int]) -> Any:
    rest = [len(mine) - cursor for mine, cursor in zip(known, cursors, strict=True)]
    return right(known, cursors, rest)


def eats_the_tokens(known: Lists, cursors: list[int], num_new: list[int]) -> Any:
    result = right(known, cursors, num_new)
    for mine, cursor in zip(known, cursors, strict=True):
        del mine[:cursor]
    return result


def no_rows_of_ints(got: Any) -> str:
    """What stands in place of two lists of lists of ints; "" if nothing does."""
    for name, rows in zip(("tokens", "positions"), got, strict=True):
        if type(rows) is not list:
            return f"{name} is a list of rows; this is {a_kind(rows)}."
        for row in rows:
            if type(row) is not list:
                return f"Each row of {name} is a list; one of them is {a_kind(row)}."
            for entry in row:
                if type(entry) is not int:
                    return f"The rows of {name} hold ints; here is {a_kind(entry)}."
    return ""


def missing_rows(got: Any, wanted: Any) -> str:
    """Of which of the two there is another number of rows than of requests; "" if of none."""
    requests = len(wanted[0])
    for name, rows in zip(("tokens", "positions"), got, strict=True):
        if len(rows) != requests:
            count = f"{requests} requests but {len(rows)} rows of {name}"
            return f"Every request has its own row; here are {count}."
    return ""


FORMS = (
    Misconception(
        "not_two",
        "The model is told how long each row is.",
        "Return two things: `return tokens, positions`.",
        form=lambda got, wanted: type(got) is not tuple or len(got) != 2,
        also=(lambda *args: (*right(*args), args[2]),),
    ),
    Misconception(
        "not_a_list",
        "The columns of a batch are the same for all, so one row of positions will do.",
        lambda got, wanted: no_rows_of_ints(got),
        form=lambda got, wanted: no_rows_of_ints(got) != "",
        also=(lambda *args: (right(*args)[0], right(*args)[1][0]),),
    ),
    Misconception(
        "row_count",
        "A step computes one request.",
        missing_rows,
        form=lambda got, wanted: missing_rows(got, wanted) != "",
        also=(lambda *args: tuple(rows[:1] for rows in right(*args)),),
    ),
)
BOTH = (  # in tokens as in positions
    Misconception(
        "right_padded",
        "Padding is appended.",
        "The padding goes in front, so that the last column holds every row's last token, where "
        "the engine looks for the next one; here it stands behind.",
        laid_out(padded_behind, padded_behind),
    ),
    Misconception(
        "ragged",
        "Each row is as long as it is.",
        "A batch is a rectangle: a row with fewer tokens than the longest one is filled up with 0 "
        "in front, here the rows differ in length.",
        laid_out(ragged, ragged),
    ),
    Misconception(
        "longest_first",
        "A padded batch wants its longest row first.",
        "Row i belongs to request i: mask, cache and sampling keep the order of the plan, so the "
        "rows may not be sorted by length.",
        sorted_by_length,
    ),
    Misconception(
        "padding_value",
        "Padding gets a number that no token has.",
        "Padding is fed as token 0 at position 0: the model looks every entry up in a table, so it "
        "has to be a number that is there; here it is another.",
        laid_out(padded_with(-1), padded_with(-1)),
        alike=(laid_out(padded_with(1), padded_with(1)),),
    ),
    Misconception(
        "one_is_a_decode",
        "One token means decode: the last one known.",
        "A row of one token need not be a decode: the piece of a prompt can be one token long too, "
        "so count from the cursor, not from the end of what is known.",
        laid_out(feeding=lambda mine, c, n: mine[-1:] if n == 1 else mine[c : c + n]),
        alike=(laid_out(at=lambda mine, c, n: [len(mine) - 1] if n == 1 else range(c, c + n)),),
    ),
)
TOKENS = (
    Misconception(
        "swapped",
        "Positions come first.",
        "Tokens and positions changed places: return tokens, then positions.",
        lambda *args: right(*args)[::-1],
    ),
    Misconception(
        "zipped",
        "A row is a request's tokens and its positions.",
        "Return the rows of tokens, then the rows of positions; here each request's row of tokens "
        "stands beside its positions.",
        lambda *args: list(zip(*right(*args), strict=True)),
    ),
    Misconception(
        "one_early",
        "The cursor is the index of the last computed token, and a row begins there.",
        "The cursor counts the tokens that are computed, and computed tokens are not fed again; "
        "here a row begins one token early.",
        laid_out(feeding=lambda mine, c, n: mine[max(0, c - 1) :][:n]),
        alike=(laid_out(feeding=lambda mine, c, n: [mine[c - 1]] if n == 1 else mine[c : c + n]),),
    ),
    Misconception(
        "one_late",
        "A row begins after the token at the cursor.",
        "The cursor counts from 1 and indices from 0: the first token that is not computed was "
        "skipped here.",
        laid_out(feeding=lambda mine, c, n: mine[c + 1 : c + n + 1]),
    ),
    Misconception(
        "from_the_start",
        "A chunk is the first n tokens of the prompt.",
        "A chunk goes on where the last one ended; here the first tokens of the prompt are fed "
        "again.",
        laid_out(feeding=lambda mine, c, n: mine[:n]),
        alike=(laid_out(feeding=lambda mine, c, n: mine[-1:] if n == 1 else mine[:n]),),
    ),
    Misconception(
        "last_known",
        "The new tokens are the last ones known.",
        "The new tokens begin at the cursor; the last num_new known ones are the same only when "
        "the step reaches the end of the prompt.",
        laid_out(feeding=lambda mine, c, n: mine[-n:]),
    ),
    Misconception(
        "all_the_rest",
        "Whatever is not computed is computed now.",
        "A step computes num_new[i] tokens of request i and no more: what comes after them in the "
        "prompt waits for a later step.",
        takes_all_the_rest,
    ),
)
POSITIONS = (
    Misconception(
        "length_as_position",
        "A request of 22 tokens is at position 22.",
        "A request that knows 22 tokens has its newest at position 21, since positions count from "
        "0: the length is one too many.",
        laid_out(at=lambda mine, c, n: [len(mine)] if n == 1 else range(c, c + n)),
    ),
    Misconception(
        "index_of_a_letter",
        "A token's position is where it is found.",
        "A letter comes more than once in a text: a token's position is its own place, not the "
        "first place that holds the same letter.",
        laid_out(at=lambda mine, c, n: map(mine.index, mine[c : c + n])),
    ),
    Misconception(
        "positions_from_one",
        "The first token stands at position 1.",
        "The first token of a text stands at position 0, not 1: a token's position is how many "
        "tokens stand before it.",
        laid_out(at=lambda mine, c, n: range(c + 1, c + n + 1)),
    ),
    Misconception(
        "positions_restart",
        "A chunk starts at position 0, and so does a row.",
        "A chunk is not a text of its own: its positions go on where the last chunk's ended, or "
        "the model takes it for a new beginning.",
        laid_out(at=lambda mine, c, n: range(n)),
        alike=(laid_out(at=lambda mine, c, n: [c] if n == 1 else range(n)),),
    ),
    Misconception(
        "columns",
        "A position is the column in the tensor.",
        "A position counts in the request's own text and not in the tensor: the columns are "
        "numbered here.",
        laid_out(positions=lambda piece, longest: list(range(longest))),
    ),
    Misconception(
        "padding_places",
        "Positions run through the row up to its last token.",
        "Padding has no place in the text, so its position is just 0; here the positions of the "
        "tokens run on into it.",
        laid_out(positions=running_on),
        alike=(laid_out(positions=lambda *args: [max(0, at) for at in running_on(*args)]),),
    ),
)
MISCONCEPTIONS = (
    *FORMS,
    *BOTH,
    *TOKENS,
    *POSITIONS,
    Misconception(
        "in_place",
        "Computed tokens are not needed any more.",
        also=((eats_the_tokens),),
    ),
)
