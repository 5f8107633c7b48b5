"""Judging a padded step: what its rows hold, what sees what in it, and how it is cut up again.

Every mistake is kept as what an answer that makes it would be.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from course.checks.comparing import Args, Mistake, a_kind, alike
from course.checks.fusing import (
    Fusing,
    Look,
    PaddedRow,
    Problem,
    Rule,
    draw_padded,
    explain_mask,
    mask_by,
    mask_form,
    padded_rows,
    real_rows,
    right_mask,
)
from course.judging import Rows

Ints = list[int]
Lists = list[list[int]]

# --- fused_rows ------------------------------------------------------------------------------

_RowsAnswer = Callable[[Lists, Ints, Ints], Lists]
_Pieces = Callable[[Ints, int, int], list[int]]  # tokens of a request, cursor, n -> its entries


def _rows_of(piece: _Pieces, known: Lists, cursors: Ints, num_new: Ints, padding: int = 0) -> Lists:
    """Each request's piece, padded on the left to the longest of num_new."""
    pieces = _unpadded(piece, known, cursors, num_new)
    return [[padding] * (max(num_new) - len(entries)) + entries for entries in pieces]


def _unpadded(piece: _Pieces, known: Lists, cursors: Ints, num_new: Ints) -> Lists:
    return [piece(*each) for each in zip(known, cursors, num_new, strict=True)]


def _right_padded(piece: _Pieces, known: Lists, cursors: Ints, num_new: Ints) -> Lists:
    longest = max(num_new)
    rows = _unpadded(piece, known, cursors, num_new)
    return [row + [0] * (longest - len(row)) for row in rows]


def _full_rows(piece: Callable[[int, int], range], cursors: Ints, num_new: Ints) -> Lists:
    """Positions of T columns, given the cursor and how many of them are padding."""
    longest = max(num_new)
    return [list(piece(cursor, longest - n)) for cursor, n in zip(cursors, num_new, strict=True)]


def _chunk(mine: Ints, cursor: int, n: int) -> Ints:
    return mine[cursor : cursor + n]


def _places(mine: Ints, cursor: int, n: int) -> Ints:
    return list(range(cursor, cursor + n))


def _reference_rows(known: Lists, cursors: Ints, num_new: Ints) -> tuple[Lists, Lists]:
    return (
        _rows_of(_chunk, known, cursors, num_new),
        _rows_of(_places, known, cursors, num_new),
    )


def _longest_first(piece: _Pieces) -> _RowsAnswer:
    """The right rows in another order."""

    def rows(known: Lists, cursors: Ints, num_new: Ints) -> Lists:
        ordered = sorted(zip(known, cursors, num_new, strict=True), key=lambda row: -row[2])
        return _rows_of(piece, *map(list, zip(*ordered, strict=True)))

    return rows


def _in_shape(piece: _Pieces) -> tuple[Mistake[_RowsAnswer], ...]:
    """The right entries in rows of the wrong shape or order: the same for tokens and positions."""
    return (
        Mistake(
            "right_padded",
            _RIGHT_PADDED,
            lambda known, cursors, n: _right_padded(piece, known, cursors, n),
        ),
        Mistake("ragged", _RAGGED, lambda known, cursors, n: _unpadded(piece, known, cursors, n)),
        Mistake("longest_first", _LONGEST_FIRST, _longest_first(piece)),
        *(
            Mistake("padding_value", _PADDING_VALUE, _padded_with(piece, value))
            for value in (-1, 1)
        ),
    )


def _padded_with(piece: _Pieces, value: int) -> _RowsAnswer:
    return lambda known, cursors, n: _rows_of(piece, known, cursors, n, value)


def _piece(key: str, idea: str, piece: _Pieces) -> Mistake[_RowsAnswer]:
    """A mistake in what a row holds, its padding right."""
    return Mistake(key, idea, lambda known, cursors, n: _rows_of(piece, known, cursors, n))


_RIGHT_PADDED = (
    "The padding goes in front, so that the last column holds every row's last token, where the "
    "engine looks for the next one; here it stands behind."
)
_RAGGED = (
    "A batch is a rectangle: a row with fewer tokens than the longest one is filled up with 0 in "
    "front, here the rows differ in length."
)
_ONE_IS_A_DECODE = (
    "A row of one token need not be a decode: the piece of a prompt can be one token long too, so "
    "count from the cursor, not from the end of what is known."
)
_FROM_THE_START = (
    "A chunk goes on where the last one ended; here the first tokens of the prompt are fed again."
)
_ONE_EARLY = (
    "The cursor counts the tokens that are computed, and computed tokens are not fed again; here "
    "a row begins one token early."
)
_RESTART = (
    "A chunk is not a text of its own: its positions go on where the last chunk's ended, or the "
    "model takes it for a new beginning."
)
_LENGTH = (
    "A request that knows 22 tokens has its newest at position 21, since positions count from 0: "
    "the length is one too many."
)
_LONGEST_FIRST = (
    "Row i belongs to request i: mask, cache and sampling keep the order of the plan, so the rows "
    "may not be sorted by length."
)
_PADDING_PLACES = (
    "Padding has no place in the text, so its position is just 0; here the positions of the tokens "
    "run on into it."
)
_PADDING_VALUE = (
    "Padding is fed as token 0 at position 0: the model looks every entry up in a table, so it has "
    "to be a number that is there; here it is another."
)
_INDEX = (
    "A letter comes more than once in a text: a token's position is its own place, not the first "
    "place that holds the same letter."
)

_TOKENS: Look[_RowsAnswer] = Look(
    matters=lambda value, args: value[0],
    mistakes=(
        *_in_shape(_chunk),
        Mistake(
            "swapped",
            "Tokens and positions changed places: return tokens, then positions.",
            lambda known, cursors, n: _rows_of(_places, known, cursors, n),
        ),
        Mistake(
            "zipped",
            "Return the rows of tokens, then the rows of positions; here each request's row of "
            "tokens stands beside its positions.",
            lambda known, cursors, n: [
                _rows_of(piece, known, cursors, n)[0] for piece in (_chunk, _places)
            ],
        ),
        _piece("one_early", _ONE_EARLY, lambda mine, c, n: mine[max(0, c - 1) : max(0, c - 1) + n]),
        _piece("one_early", _ONE_EARLY, lambda m, c, n: [m[c - 1]] if n == 1 else m[c : c + n]),
        _piece(
            "one_late",
            "The cursor counts from 1 and indices from 0: the first token that is not computed "
            "was skipped here.",
            lambda mine, c, n: mine[c + 1 : c + n + 1],
        ),
        _piece("from_the_start", _FROM_THE_START, lambda mine, c, n: mine[:n]),
        _piece("from_the_start", _FROM_THE_START, lambda m, c, n: m[-1:] if n == 1 else m[:n]),
        _piece(
            "one_is_a_decode",
            _ONE_IS_A_DECODE,
            lambda mine, c, n: mine[-1:] if n == 1 else mine[c : c + n],
        ),
        _piece(
            "last_known",
            "The new tokens begin at the cursor; the last num_new known ones are the same only "
            "when the step reaches the end of the prompt.",
            lambda mine, c, n: mine[-n:],
        ),
        Mistake(
            "all_the_rest",
            "A step computes num_new[i] tokens of request i and no more: what comes after them in "
            "the prompt waits for a later step.",
            lambda known, cursors, num_new: _rows_of(
                lambda mine, c, n: mine[c:],
                known,
                cursors,
                [len(mine) - c for mine, c in zip(known, cursors, strict=True)],
            ),
        ),
    ),
    idea="Row i feeds those tokens of request i that this step computes, in the order of the text, "
    "with zeros in front of a short row.",
    rows=lambda args, wanted, got: _side_by_side(wanted, got),
)

_POSITIONS: Look[_RowsAnswer] = Look(
    matters=lambda value, args: value[1],
    mistakes=(
        *_in_shape(_places),
        _piece(
            "length_as_position",
            _LENGTH,
            lambda mine, c, n: [len(mine)] if n == 1 else [*range(c, c + n)],
        ),
        _piece("index_of_a_letter", _INDEX, lambda m, c, n: [m.index(x) for x in m[c : c + n]]),
        _piece(
            "positions_from_one",
            "The first token of a text stands at position 0, not 1: a token's position is how "
            "many tokens stand before it.",
            lambda mine, c, n: [*range(c + 1, c + n + 1)],
        ),
        _piece("positions_restart", _RESTART, lambda mine, c, n: [*range(n)]),
        _piece("positions_restart", _RESTART, lambda m, c, n: [c] if n == 1 else [*range(n)]),
        _piece(
            "one_is_a_decode",
            _ONE_IS_A_DECODE,
            lambda mine, c, n: [len(mine) - 1] if n == 1 else [*range(c, c + n)],
        ),
        Mistake(
            "columns",
            "A position counts in the request's own text and not in the tensor: the columns are "
            "numbered here.",
            lambda known, cursors, num_new: [[*range(max(num_new))] for _ in cursors],
        ),
        Mistake(
            "padding_places",
            _PADDING_PLACES,
            lambda known, cursors, num_new: _full_rows(
                lambda cursor, pad: range(cursor - pad, cursor - pad + max(num_new)),
                cursors,
                num_new,
            ),
        ),
        Mistake(
            "padding_places",
            _PADDING_PLACES,
            lambda known, cursors, num_new: [
                [max(0, place) for place in range(c + n - max(num_new), c + n)]
                for c, n in zip(cursors, num_new, strict=True)
            ],
        ),
    ),
    idea="The position of a token is its place in the whole text of its own request, counted from "
    "0; padding has position 0.",
    rows=lambda args, wanted, got: _side_by_side(wanted, got),
)


def _rows_form(value: Any, args: Args) -> Problem | None:
    if type(value) is not tuple or len(value) != 2:
        return "not_two", "Return two things: `return tokens, positions`."
    for name, rows in zip(("tokens", "positions"), value, strict=True):
        if type(rows) is not list:
            return "not_a_list", f"{name} is a list of rows; this is {a_kind(rows)}."
        for row in rows:
            if type(row) is not list:
                return "not_a_list", f"Each row of {name} is a list; one of them is {a_kind(row)}."
            for entry in row:
                if type(entry) is not int:
                    return "not_a_list", f"The rows of {name} hold ints; here is {a_kind(entry)}."
        if len(rows) != len(args[0]):
            count = f"{len(args[0])} requests but {len(rows)} rows of {name}"
            return "row_count", f"Every request has its own row; here are {count}."
    return None


def _side_by_side(wanted: tuple[Lists, Lists], got: tuple[Lists, Lists]) -> Rows:
    return (("expected", _tokens_and_positions(*wanted)), ("got", _tokens_and_positions(*got)))


def _tokens_and_positions(ids: Lists, positions: Lists) -> str:
    left = [" ".join(f"{entry:>2}" for entry in row) for row in ids]
    width = max([len("tokens"), *map(len, left)])
    lines = [f"{'tokens':<{width}}   positions"]
    for start, row in zip(left, positions, strict=True):
        lines.append(f"{start:<{width}}   {' '.join(f'{entry:>2}' for entry in row)}")
    return "\n".join(lines)


ROWS = Fusing(
    reference=_reference_rows,
    form=_rows_form,
    looks=(_TOKENS, _POSITIONS),
    evidence=[
        ([[5, 3, 8, 2, 6], [4, 1, 6, 2, 9]], [4, 2], [1, 2]),
        ([[5, 3, 8], [4, 1, 6, 2, 9]], [0, 2], [2, 1]),
    ],
)


# --- new_mask --------------------------------------------------------------------------------


def _new_by(rule: Rule) -> Callable[[Ints], Tensor]:
    """A mask of the new columns alone, its real rows."""
    return lambda num_new: real_rows(mask_by(rule, [0] * len(num_new), num_new), num_new)


def _inverted(row: PaddedRow, query: int, key: int) -> bool:
    return not right_mask(row, query, key)


def _later(row: PaddedRow, query: int, key: int, by: int) -> bool:
    """The rule with its diagonal moved to the right by `by`."""
    at, end = row.key(key), row.query(query)
    return at is not None and end is not None and at <= end + by


def _new_causal(row: PaddedRow, query: int, key: int) -> bool:
    """Causal among the new columns, their padding forgotten; the past as it should be."""
    if key < row.longest_past:
        return row.key(key) is not None
    return key - row.longest_past <= query


def _new_on_the_left(row: PaddedRow, query: int, key: int) -> bool:
    """As if the new tokens stood at the left end of their columns."""
    column = key - row.longest_past
    return row.key(key) is not None if column < 0 else column < row.new and column <= query


NOT_ITSELF = "A token attends to itself as well; here it sees only what came before it."
INVERTED = 'True means "may attend"; this mask has True where it should have False.'
_NOT_CAUSAL = (
    "Padding is hidden, but the tokens of a chunk come in together, so each of them also sees the "
    "later ones of its own chunk."
)
_NEW_PADDING = (
    "Padding among the new tokens is fed as token 0 at position 0 and gets a key and a value like "
    "any other: a token that is not kept from it attends to it."
)
_RIGHT_ALIGNED = (
    "The tokens stand at the right end of a row and the padding in front of them; here the mask "
    "takes the first columns for the tokens."
)
FUTURE = "Each token sees one key too many: the token right after it, which it is to predict."
_EVERYTHING = "Every token sees everything: padding, and tokens that come later in the text."


def _right_new_mask(num_new: Ints) -> Tensor:
    return mask_by(right_mask, [0] * len(num_new), num_new)


NEW = Fusing(
    reference=_right_new_mask,
    form=lambda value, args: _new_form(value, len(args[0]), max(args[0])),
    looks=(
        Look(
            matters=lambda value, args: real_rows(value, args[0]),
            mistakes=(
                Mistake("padding_visible", _NEW_PADDING, _new_by(_new_causal)),
                Mistake("not_causal", _NOT_CAUSAL, _new_by(lambda r, q, k: r.key(k) is not None)),
                Mistake("right_padded", _RIGHT_ALIGNED, _new_by(_new_on_the_left)),
                Mistake("everything", _EVERYTHING, _new_by(lambda row, query, key: True)),
                Mistake("inverted", INVERTED, _new_by(_inverted)),
                Mistake(
                    "transposed",
                    "Rows are queries and columns are keys; here they changed places, so each "
                    "token sees itself and what comes after it.",
                    _new_by(lambda r, q, k: r.key(k) is not None and k >= q),
                ),
                Mistake("not_itself", NOT_ITSELF, _new_by(lambda r, q, k: _later(r, q, k, -1))),
                Mistake("one_future_key", FUTURE, _new_by(lambda r, q, k: _later(r, q, k, 1))),
            ),
            idea="A token attends to itself and to the tokens of its own row that stand before "
            "it, and nothing attends to padding.",
            rows=lambda args, wanted, got: explain_mask([0] * len(args[0]), args[0], wanted, got),
        ),
    ),
    evidence=[([1, 3],), ([3, 1, 2],)],
)


def _new_form(value: Any, rows: int, longest: int) -> Problem | None:
    others = {
        (longest, longest): (
            "no_batch",
            "This is one mask (T, T) for the whole batch, but each row has padding of its own: "
            "the mask is (B, T, T).",
        ),
        (rows, 1, longest): (
            "padding_alone",
            "This says which columns are padding, and that is the same for every query; what a "
            "token sees also depends on the query, so the mask is (B, T, T).",
        ),
    }
    return mask_form(value, (rows, longest, longest), others)


# --- full_mask -------------------------------------------------------------------------------


def _full_by(rule: Rule) -> Callable[[Ints, Ints], Tensor]:
    return lambda past_lens, num_new: real_rows(mask_by(rule, past_lens, num_new), num_new)


def _past_or(rule: Rule) -> Rule:
    """All of the past columns are seen, padding too; among the new the rule decides."""
    return lambda row, query, key: key < row.longest_past or rule(row, query, key)


def _or_itself(rule: Rule) -> Rule:
    """The rule, and every query sees itself."""
    return lambda row, query, key: key == row.longest_past + query or rule(row, query, key)


def _past_on_the_left(row: PaddedRow, query: int, key: int) -> bool:
    return key < row.past if key < row.longest_past else right_mask(row, query, key)


def _no_past_sees_all(row: PaddedRow, query: int, key: int) -> bool:
    """As a slice [-past:] has it, which takes everything for a past of 0."""
    return right_mask(row, query, key) or (row.past == 0 and key < row.longest_past)


def _no_offset(row: PaddedRow, query: int, key: int) -> bool:
    return row.key(key) is not None and key <= query


def _padding_at_one_end(row: PaddedRow, query: int, key: int) -> bool:
    """As if the row were its padding, then its past, then its new tokens."""
    pad = row.longest_past + row.longest_new - row.past - row.new
    return pad <= key <= row.longest_past + query


_FullAnswer = Callable[[Ints, Ints], Any]

_MINUS_ZERO = "With a past of 0 tokens a slice such as [-0:] takes everything, because -0 is 0."

_SEES: Look[_FullAnswer] = Look(
    matters=lambda value, args: real_rows(value, args[1]),
    mistakes=(
        Mistake("new_padding_visible", _NEW_PADDING, _full_by(_new_causal)),
        Mistake(
            "past_padding_visible",
            "A short past has padding in front of it, and keys of zeros are not harmless: a score "
            "of 0 weighs e^0 = 1 in the softmax, as much as a token might.",
            _full_by(_past_or(right_mask)),
        ),
        Mistake(
            "padding_visible",
            "This mask is causal, but it hides no padding: neither that in front of the past nor "
            "that in front of the new tokens.",
            _full_by(_past_or(_new_causal)),
        ),
        Mistake("minus_zero", _MINUS_ZERO, _full_by(_no_past_sees_all)),
        Mistake(
            "past_on_the_left",
            "The past stands at the right end of its S columns, next to the new ones; here the "
            "mask takes the first columns for it.",
            _full_by(_past_on_the_left),
        ),
        Mistake("right_padded", _RIGHT_ALIGNED, _full_by(_new_on_the_left)),
        Mistake("right_padded", _RIGHT_ALIGNED, _full_by(_or_itself(_new_on_the_left))),
        Mistake(
            "padding_at_one_end",
            "A row has padding in two places, in front of its past and again in front of its new "
            "tokens; here it is hidden as if all of it stood at the front.",
            _full_by(_padding_at_one_end),
        ),
        Mistake(
            "no_offset",
            "The new columns begin behind the S columns of past: a diagonal that starts at column "
            "0 hides the tokens' own past from them.",
            _full_by(_no_offset),
        ),
        Mistake(
            "hides_the_past",
            "The new tokens see each other but none of the cached ones, as if every text began "
            "with this step.",
            _full_by(lambda r, q, k: k >= r.longest_past and right_mask(r, q, k)),
        ),
        Mistake("not_causal", _NOT_CAUSAL, _full_by(lambda r, q, k: r.key(k) is not None)),
        Mistake("everything", _EVERYTHING, _full_by(lambda row, query, key: True)),
        Mistake("inverted", INVERTED, _full_by(_inverted)),
        Mistake("not_itself", NOT_ITSELF, _full_by(lambda r, q, k: _later(r, q, k, -1))),
        Mistake("one_future_key", FUTURE, _full_by(lambda r, q, k: _later(r, q, k, 1))),
    ),
    idea="A real token attends to its row's whole past, and among the new columns to itself and to "
    "the real ones before it.",
    rows=lambda args, wanted, got: explain_mask(args[0], args[1], wanted, got),
)

_ALL_MASKED = (
    "A padding query that sees no key becomes NaN, and so do its K and V in the next layer, where "
    "even a weight of 0 spoils the tokens beside it (0 * NaN is NaN): let it see at least itself."
)

_SEES_SOMETHING: Look[_FullAnswer] = Look(
    matters=lambda value, args: bool(value.any(dim=2).all()),
    mistakes=(),
    idea=_ALL_MASKED,
    key="all_masked",
    rows=lambda args, wanted, got: _explain_blind(args[0], args[1], wanted, got),
)


def _explain_blind(past_lens: Ints, num_new: Ints, wanted: Tensor, got: Tensor) -> Rows:
    """The first row with a query that sees nothing, and what attention makes of it, computed."""
    i, query = (~got.any(dim=2)).nonzero()[0].tolist()
    row = padded_rows(past_lens, num_new)[i]
    scores = torch.zeros(got.shape[1:]).masked_fill(~got[i], float("-inf"))  # (T, S + T)
    weights = scores.softmax(dim=1)  # (T, S + T)
    values = torch.ones(got.shape[2])  # (S + T,)
    values[row.longest_past + query] = weights[query, 0]  # NaN, from the layer below
    shown = ", ".join(f"{weight:g}" for weight in weights[query].tolist()[:8])
    return (
        *draw_padded(i, row, wanted[i], got[i]),
        ("softmax", f"of query {query} of row {i}: [{shown}]"),
        (
            "next layer",
            f"the last token, too: {weights[-1, row.longest_past + query]:g} * nan + ... = "
            f"{weights[-1] @ values:g}",
        ),
    )


def _full_form(value: Any, args: Args) -> Problem | None:
    rows, past, new = len(args[0]), max(args[0]), max(args[1])
    others = {
        (new, past + new): (
            "no_batch",
            "This is one mask (T, S + T) for the whole batch, but each row has padding of its "
            "own: the mask is (B, T, S + T).",
        ),
        (rows, new, new): (
            "past_missing",
            "The keys are all columns, cached and new: the S columns of the past are missing.",
        ),
        (rows, new, past): (
            "new_missing",
            "The keys are all columns, cached and new: the T columns of the new tokens are "
            "missing, and each of them sees at least itself.",
        ),
        (rows, 1, past + new): (
            "padding_alone",
            "This says which columns are padding, and that is the same for every query; what a "
            "token sees also depends on the query, so the mask is (B, T, S + T).",
        ),
    }
    return mask_form(value, (rows, new, past + new), others)


def _right_full_mask(past_lens: Ints, num_new: Ints) -> Tensor:
    return mask_by(right_mask, past_lens, num_new)


FULL = Fusing(
    reference=_right_full_mask,
    form=_full_form,
    looks=(_SEES, _SEES_SOMETHING),
    evidence=[([3, 1], [1, 2]), ([1, 3], [1, 3]), ([2, 4], [3, 3])],
)


# --- split_kv --------------------------------------------------------------------------------


_PADDING = 256  # in size at least this, so that a drawing can tell it; no token is as large


def make_kv(
    past_lens: Ints, num_new: Ints, size: int, dtype: torch.dtype = torch.float32, sign: int = 1
) -> Tensor:
    """A padded tensor (B, S + T, D): sign * (20 * (i + 1) + position) for tokens.

    Padding is larger, above and below 0, so that no look at the numbers finds it: only at lengths.
    """
    columns = max(past_lens) + max(num_new)
    cells: list[list[list[float]]] = []
    for i, row in enumerate(padded_rows(past_lens, num_new)):
        places = [row.key(column) for column in range(columns)]
        first = [
            (-1) ** column * (_PADDING + column) if place is None else sign * (20 * (i + 1) + place)
            for column, place in enumerate(places)
        ]
        cells.append([[number + channel / 4 for channel in range(size)] for number in first])
    return torch.tensor(cells, dtype=dtype)


_Cut = Callable[[Tensor, PaddedRow], Tensor]  # a row (S + T, D) and where its tokens are -> a part


def _cut_by(cut: _Cut) -> Callable[[Tensor, Ints, Ints], list[Tensor]]:
    return lambda k, past_lens, num_new: [
        cut(line, row) for line, row in zip(k, padded_rows(past_lens, num_new), strict=True)
    ]


def _past_of(line: Tensor, row: PaddedRow) -> Tensor:
    return line[row.longest_past - row.past : row.longest_past]


def _new_of(line: Tensor, row: PaddedRow) -> Tensor:
    return line[len(line) - row.new :]


def _first_of_new(line: Tensor, row: PaddedRow) -> Tensor:
    return line[row.longest_past : row.longest_past + row.new]


def _own(line: Tensor, row: PaddedRow) -> Tensor:
    return torch.cat([_past_of(line, row), _new_of(line, row)])


def _minus_zero(line: Tensor, row: PaddedRow) -> Tensor:
    return torch.cat([line[: row.longest_past][-row.past :], _new_of(line, row)])


_SPLIT_LOOK = Look(
    matters=lambda value, args: value,
    mistakes=(
        Mistake(
            "one_end",
            "The last past + new columns are not the request's own: between its past and its new "
            "tokens there is padding.",
            _cut_by(lambda line, row: line[len(line) - row.past - row.new :]),
        ),
        Mistake(
            "one_pad_at_front",
            "Padding was taken off the front alone, but a row has it in two places: in front of "
            "its past and again in front of its new tokens.",
            _cut_by(lambda line, row: line[row.longest_past - row.past :]),
        ),
        Mistake(
            "past_padding_kept",
            "Padding was taken off the new tokens alone, but a row has it in two places: in front "
            "of its past as well.",
            _cut_by(lambda line, row: torch.cat([line[: row.longest_past], _new_of(line, row)])),
        ),
        *alike(
            "right_padded",
            "Padding stands in front of the tokens, in both parts: a part's own columns are its "
            "last ones, here the first were taken.",
            _cut_by(lambda line, row: torch.cat([line[: row.past], _first_of_new(line, row)])),
            _cut_by(lambda line, row: torch.cat([line[: row.past], _new_of(line, row)])),
            _cut_by(lambda line, row: torch.cat([_past_of(line, row), _first_of_new(line, row)])),
        ),
        Mistake(
            "new_only",
            "The cached tokens are missing: each tensor holds a request's past and then its new "
            "tokens.",
            _cut_by(_new_of),
        ),
        Mistake(
            "past_only",
            "The new tokens are missing: each tensor holds a request's past and then its new "
            "tokens.",
            _cut_by(_past_of),
        ),
        Mistake(
            "new_first",
            "The order is that of the text: first the past, then the new tokens.",
            _cut_by(lambda line, row: torch.cat([_new_of(line, row), _past_of(line, row)])),
        ),
        Mistake(
            "nothing_cut",
            "These are whole rows of the batch, padding and all: cut out each request's own "
            "columns.",
            _cut_by(lambda line, row: line),
        ),
        Mistake(
            "minus_zero",
            _MINUS_ZERO,
            _cut_by(_minus_zero),
        ),
    ),
    idea="Tensor i holds the columns of request i's own tokens, in the order of the text, and none "
    "that is padding.",
    rows=lambda args, wanted, got: (("expected", _lines(wanted)), ("got", _lines(got))),
)


def _split_form(value: Any, args: Args) -> Problem | None:
    k, past_lens, _ = args
    if isinstance(value, Tensor):
        return (
            "one_tensor",
            "The requests differ in length, so no tensor holds them all: return a list of B "
            "tensors.",
        )
    if type(value) is not list:
        return "not_a_list", f"The answer is a list of B tensors; this is {a_kind(value)}."
    for item in value:
        if not isinstance(item, Tensor):
            return "not_a_list", f"The list holds a tensor per request; here is {a_kind(item)}."
    if len(value) != len(past_lens):
        return "count", f"{len(past_lens)} requests need as many tensors; here are {len(value)}."
    for item in value:
        if item.dim() == 3 and item.shape[0] == 1:
            return (
                "keeps_batch",
                "Each tensor belongs to one request and has no batch dimension: (past + new, D), "
                f"not {tuple(item.shape)}.",
            )
        if item.dim() != 2 or item.shape[1] != k.shape[2]:
            wanted = f"(past + new, {k.shape[2]})"
            return "shape", f"Each tensor is {wanted}; here is one of shape {tuple(item.shape)}."
        if item.dtype != k.dtype:
            kinds = [str(tensor.dtype).removeprefix("torch.") for tensor in (k, item)]
            return "dtype", f"What is cut stays as it is: k is {kinds[0]}, here is {kinds[1]}."
    return None


def _number(number: float) -> str:
    return f"{'.':>3}" if abs(number) >= _PADDING else f"{number:3.0f}"


def _lines(parts: Sequence[Tensor]) -> str:
    """The first channel of each tensor on a line of its own, padding as a dot."""
    lines = [" ".join(_number(x) for x in part[:, 0].tolist()) for part in parts]
    return "\n".join(f"[{i}]  {line}" for i, line in enumerate(lines))


def _draw_split(name: str, args: Args) -> str:
    k, past_lens, num_new = args
    lines: list[str] = []
    for row in k[:, :, 0].tolist():
        cells = [_number(x) for x in row]
        past = " ".join(cells[: max(past_lens)])
        lines.append(f"{past} | {' '.join(cells[max(past_lens) :])}")
    return "\n".join([f"{name}(k, {past_lens}, {num_new}), k[:, :, 0] with . for padding:", *lines])


SPLIT = Fusing(
    reference=_cut_by(_own),
    form=_split_form,
    looks=(_SPLIT_LOOK,),
    draw_call=_draw_split,
    evidence=[
        (make_kv(past, new, 2), past, new)
        for past, new in (([1, 3], [1, 2]), ([3, 1], [1, 2]), ([0, 2], [3, 1]))
    ],
)
