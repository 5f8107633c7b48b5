"""Lesson 3, interleaving: worked answers, other right ones, known wrong ones."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from solutions.wrong import WrongAnswer

# --- fused_rows ------------------------------------------------------------------------------


def fused_rows(
    known: list[list[int]], cursors: list[int], num_new: list[int]
) -> tuple[list[list[int]], list[list[int]]]:
    """Return `(tokens, positions)`: what the model is fed in one fused step, a row per request.

    `known[i]` are all tokens that request i knows, those of its prompt and those it generated. The
    first `cursors[i]` of them are computed already, and this step computes the next `num_new[i]`
    (at least 1): one for a decode, a chunk for a prefill.
    Both results are lists of B rows with T = max(num_new) entries each. A row that has fewer is
    padded on the left with 0, in `tokens` and in `positions`. A position counts in the request's
    own text, from 0. Leave the arguments as they are.
    """
    # A decode is a chunk of one token, so one rule serves all rows: the tokens and the positions
    # from the cursor on. The padding stands in front, so that whatever a row has ends in the last
    # column, and one look at that column finds everybody's next token.
    longest = max(num_new)
    tokens: list[list[int]] = []
    positions: list[list[int]] = []
    for mine, cursor, n in zip(known, cursors, num_new, strict=True):
        padding = [0] * (longest - n)
        tokens.append(padding + mine[cursor : cursor + n])
        positions.append(padding + list(range(cursor, cursor + n)))
    return tokens, positions


def fused_rows_padded_afterwards(
    known: list[list[int]], cursors: list[int], num_new: list[int]
) -> tuple[list[list[int]], list[list[int]]]:
    places = [list(range(cursors[i], cursors[i] + n)) for i, n in enumerate(num_new)]
    tokens = [[known[i][place] for place in row] for i, row in enumerate(places)]
    for row in tokens + places:
        while len(row) < max(num_new):
            row.insert(0, 0)
    return tokens, places


def fused_rows_with_torch(
    known: list[list[int]], cursors: list[int], num_new: list[int]
) -> tuple[list[list[int]], list[list[int]]]:
    tokens = torch.zeros(len(known), max(num_new), dtype=torch.long)  # (B, T)
    positions = torch.zeros_like(tokens)  # (B, T)
    for i, n in enumerate(num_new):
        place = torch.arange(n) + cursors[i]  # (n,)
        positions[i, -n:] = place
        tokens[i, -n:] = torch.tensor(known[i])[place]
    return tokens.tolist(), positions.tolist()


def fused_rows_cell_by_cell(
    known: list[list[int]], cursors: list[int], num_new: list[int]
) -> tuple[list[list[int]], list[list[int]]]:
    tokens: list[list[int]] = []
    positions: list[list[int]] = []
    for i in range(len(known)):
        tokens.append([])
        positions.append([])
        for back in reversed(range(max(num_new))):
            place = cursors[i] + num_new[i] - back - 1
            real = back < num_new[i]
            tokens[i].append(known[i][place] if real else 0)
            positions[i].append(place if real else 0)
    return tokens, positions


def fused_rows_as_rows_of_numpy(
    known: list[list[int]], cursors: list[int], num_new: list[int]
) -> list[Any]:
    # Its numbers, tuples for lists and a list for the tuple are right by what they say.
    width = max(num_new)
    tokens: list[Any] = []
    positions: list[Any] = []
    for i, n in enumerate(num_new):
        piece = slice(cursors[i], cursors[i] + n)
        for rows, entries in ((tokens, known[i]), (positions, range(len(known[i])))):
            rows.append(tuple(np.pad(np.array(entries, dtype=int)[piece], (width - n, 0))))
    return [tuple(tokens), tuple(positions)]


Rows = list[list[int]]


def _padded(pieces: Rows, longest: int) -> Rows:
    return [[0] * (longest - len(piece)) + piece for piece in pieces]


def _chunks(known: Rows, cursors: list[int], num_new: list[int]) -> Rows:
    return [known[i][cursors[i] : cursors[i] + n] for i, n in enumerate(num_new)]


def _places(cursors: list[int], num_new: list[int]) -> Rows:
    return [list(range(cursors[i], cursors[i] + n)) for i, n in enumerate(num_new)]


def _with_tokens(piece: Callable[[list[int], int, int], list[int]]) -> Callable[..., Any]:
    """Right positions, and pieces of the text of one's own."""

    def answer(known: Rows, cursors: list[int], num_new: list[int]) -> Any:
        pieces = [piece(known[i], cursors[i], n) for i, n in enumerate(num_new)]
        return _padded(pieces, max(num_new)), _padded(_places(cursors, num_new), max(num_new))

    return answer


def _with_positions(piece: Callable[[list[int], int, int], Any]) -> Callable[..., Any]:
    """Right tokens, and positions of one's own."""

    def answer(known: Rows, cursors: list[int], num_new: list[int]) -> Any:
        places = [list(piece(known[i], cursors[i], n)) for i, n in enumerate(num_new)]
        tokens = _padded(_chunks(known, cursors, num_new), max(num_new))
        return tokens, _padded(places, max(num_new))

    return answer


def _longest_first(known: Rows, cursors: list[int], num_new: list[int]) -> Any:
    rows = sorted(zip(known, cursors, num_new, strict=True), key=lambda row: -row[2])
    return fused_rows(*([row[i] for row in rows] for i in range(3)))


def _pads_on_the_right(known: Rows, cursors: list[int], num_new: list[int]) -> Any:
    pieces = _chunks(known, cursors, num_new), _places(cursors, num_new)
    return tuple([row + [0] * (max(num_new) - len(row)) for row in rows] for rows in pieces)


def _pads_positions_on_the_right(known: Rows, cursors: list[int], num_new: list[int]) -> Any:
    tokens = _padded(_chunks(known, cursors, num_new), max(num_new))
    return tokens, _pads_on_the_right(known, cursors, num_new)[1]


def _as_the_old_decode(mine: list[int], cursor: int, n: int) -> list[int]:
    return [len(mine)] if n == 1 else list(range(cursor, cursor + n))


def _positions_through_the_padding(known: Rows, cursors: list[int], num_new: list[int]) -> Any:
    tokens = _padded(_chunks(known, cursors, num_new), max(num_new))
    ends = [cursor + n for cursor, n in zip(cursors, num_new, strict=True)]
    return tokens, [list(range(end - max(num_new), end)) for end in ends]


def _positions_not_below_zero(known: Rows, cursors: list[int], num_new: list[int]) -> Any:
    tokens, positions = _positions_through_the_padding(known, cursors, num_new)
    return tokens, [[max(0, place) for place in row] for row in positions]


def _takes_all_the_rest(known: Rows, cursors: list[int], num_new: list[int]) -> Any:
    rest = [len(mine) - cursor for mine, cursor in zip(known, cursors, strict=True)]
    return fused_rows(known, cursors, rest)


def _first_place_of_each_letter(mine: list[int], cursor: int, n: int) -> list[int]:
    return [mine.index(token) for token in mine[cursor : cursor + n]]


def _pads_with(value: int, part: int) -> Callable[..., Any]:
    """Right but for the padding in `tokens` (part 0) or `positions` (1)."""

    def answer(known: Rows, cursors: list[int], num_new: list[int]) -> Any:
        parts = list(fused_rows(known, cursors, num_new))
        longest = max(num_new)
        parts[part] = [
            [value] * (longest - n) + row[longest - n :]
            for row, n in zip(parts[part], num_new, strict=True)
        ]
        return tuple(parts)

    return answer


def _changing(index: int, function: Callable[..., Any]) -> Callable[..., Any]:
    """The right answer of `function`, which turns its argument number `index` round in passing."""

    def answer(*args: Any) -> Any:
        result = function(*args)
        args[index].reverse()
        return result

    return answer


def _eats_the_tokens(known: Rows, cursors: list[int], num_new: list[int]) -> Any:
    for mine, cursor in zip(known, cursors, strict=True):
        del mine[:cursor]
    pieces = [mine[:n] for mine, n in zip(known, num_new, strict=True)]
    return _padded(pieces, max(num_new)), _padded(_places(cursors, num_new), max(num_new))


# --- new_mask --------------------------------------------------------------------------------


def new_mask(num_new: list[int]) -> Tensor:
    """Return who may attend to whom among the new columns of a fused step: bool (B, T, T).

    Row i of the batch holds `num_new[i]` tokens (at least 1) at its right end and padding in front
    of them; T = max(num_new). Entry [i, q, k] is True when the token in column q may attend to
    column k: to itself and to the row's tokens before it, never to padding.
    What a padding column attends to does not matter here, since nobody reads its output.
    """
    # Two conditions, both needed: causal (k <= q) is about the order of columns, and knows nothing
    # of padding; real (k >= T - n) is about padding, and knows nothing of order.
    longest = max(num_new)
    column = torch.arange(longest)  # (T,)
    causal = column <= column[:, None]  # (T, T)
    first = longest - torch.tensor(num_new)  # (B,)
    real = column >= first[:, None, None]  # (B, 1, T)
    return causal & real  # (B, T, T)


def new_mask_with_tril(num_new: list[int]) -> Tensor:
    longest = max(num_new)
    mask = torch.ones(len(num_new), longest, longest, dtype=torch.bool).tril()
    for i, n in enumerate(num_new):
        mask[i, :, : longest - n] = False
    return mask


def new_mask_by_blocks(num_new: list[int]) -> Tensor:
    mask = torch.zeros(len(num_new), max(num_new), max(num_new), dtype=torch.bool)
    for i, n in enumerate(num_new):
        mask[i, -n:, -n:] = torch.ones(n, n).tril()
    return mask


def new_mask_cell_by_cell(num_new: list[int]) -> Tensor:
    longest = max(num_new)
    cells: list[list[list[bool]]] = []
    for n in num_new:
        padding = longest - n
        cells.append([[padding <= k <= q for k in range(longest)] for q in range(longest)])
    return torch.tensor(cells)


def new_mask_by_places(num_new: list[int]) -> Tensor:
    place = torch.arange(max(num_new)) - max(num_new) + torch.tensor(num_new)[:, None]  # (B, T)
    query, key = place.unsqueeze(2), place.unsqueeze(1)  # (B, T, 1), (B, 1, T)
    return (key >= 0) & (query >= key)


def new_mask_padding_sees_all(num_new: list[int]) -> Tensor:
    order = torch.arange(max(num_new), 0, -1)  # (T,), counted from the right end
    real = order <= torch.tensor(num_new)[:, None]  # (B, T)
    sees = (order >= order[:, None]) & real[:, None, :]  # (B, T, T)
    return sees | ~real[:, :, None]


def new_mask_counted_from_the_end(num_new: list[int]) -> Tensor:
    longest = max(num_new)
    mask = torch.ones(len(num_new), longest, longest, dtype=torch.bool).tril()
    for i, n in enumerate(num_new):
        mask[i, :, :-n] = False  # n is never 0
    return mask


def _causal(longest: int) -> Tensor:
    return torch.ones(longest, longest, dtype=torch.bool).tril()


def _real(num_new: list[int]) -> Tensor:
    """Which of the new columns are tokens: (B, T)."""
    return torch.tensor([[k >= max(num_new) - n for k in range(max(num_new))] for n in num_new])


def _left(num_new: list[int]) -> Tensor:
    return torch.tensor([[k < n for k in range(max(num_new))] for n in num_new])


# --- full_mask -------------------------------------------------------------------------------


def full_mask(past_lens: list[int], num_new: list[int]) -> Tensor:
    """Return who may attend to whom in a fused step: bool (B, T, S + T).

    The keys are S = max(past_lens) cached columns and then T = max(num_new) new ones. Row i of the
    batch has `past_lens[i]` cached tokens (0 or more) at the right end of the S columns and
    `num_new[i]` new tokens (at least 1) at the right end of the T; everything else is padding.
    A token may attend to all of its own row's past, to itself, and to the row's new tokens before
    it, never to padding. Nobody reads the output of a padding query, so it may attend to anything,
    but to at least one key.
    """
    # The past needs no causal rule, since all of it lies before the chunk, only its padding hidden.
    # A padding query of a row without a past would see nothing, and the softmax of nothing is NaN;
    # the next layer makes keys and values of it, and 0 times NaN is NaN for whoever is near. Seeing
    # itself is enough to keep it a number.
    longest_past, longest_new = max(past_lens), max(num_new)
    first_held = longest_past - torch.tensor(past_lens)  # (B,)
    held = torch.arange(longest_past) >= first_held[:, None, None]  # (B, 1, S)
    past = held.expand(-1, longest_new, -1)  # (B, T, S)
    column = torch.arange(longest_new)  # (T,)
    first_new = longest_new - torch.tensor(num_new)  # (B,)
    real = column >= first_new[:, None, None]  # (B, 1, T)
    itself = column == column[:, None]  # (T, T)
    new = (column <= column[:, None]) & real | itself  # (B, T, T)
    return torch.cat([past, new], dim=2)  # (B, T, S + T)


def full_mask_from_new_mask(past_lens: list[int], num_new: list[int]) -> Tensor:
    new = new_mask(num_new)
    held = torch.zeros(len(past_lens), max(num_new), max(past_lens), dtype=torch.bool)
    for i, past in enumerate(past_lens):
        held[i, :, max(past_lens) - past :] = True
    return torch.cat([held, new | torch.eye(max(num_new), dtype=torch.bool)], dim=-1)


def full_mask_with_tril(past_lens: list[int], num_new: list[int]) -> Tensor:
    cached, longest = max(past_lens), max(num_new)
    mask = torch.ones(len(past_lens), longest, cached + longest, dtype=torch.bool).tril(cached)
    for i, row in enumerate(mask):
        row[:, : cached - past_lens[i]] = False
        row[:, cached : cached + longest - num_new[i]] = False
        row[: longest - num_new[i]] = True
    return mask


def full_mask_by_places(past_lens: list[int], num_new: list[int]) -> Tensor:
    cached, past = max(past_lens), torch.tensor(past_lens)[:, None]  # (B, 1)
    of_past = torch.arange(cached) - cached + past  # (B, S), below 0 for padding
    of_new = torch.arange(max(num_new)) - max(num_new) + torch.tensor(num_new)[:, None]  # (B, T)
    of_new = torch.where(of_new < 0, of_new, of_new + past)  # (B, T)
    key, query = torch.cat([of_past, of_new], 1)[:, None], of_new[:, :, None]
    return (key >= 0) & (key <= query) | (query < 0)  # (B, T, S + T)


def full_mask_cell_by_cell(past_lens: list[int], num_new: list[int]) -> Tensor:
    mask: list[list[list[bool]]] = []
    for i, new in enumerate(num_new):
        past = past_lens[i]
        padding = [False] * (max(past_lens) - past)
        gap = [False] * (max(num_new) - new)
        blind = [True] * (max(past_lens) + max(num_new))
        rows = [blind for _ in gap]
        for t in range(new):
            seen = [True] * (t + 1) + [False] * (new - t - 1)
            rows.append(padding + [True] * past + gap + seen)
        mask.append(rows)
    return torch.tensor(mask)


def full_mask_mended_afterwards(past_lens: list[int], num_new: list[int]) -> Tensor:
    real = torch.zeros(len(num_new), max(past_lens) + max(num_new), dtype=torch.bool)  # (B, S + T)
    for i, new in enumerate(num_new):
        real[i, max(past_lens) - past_lens[i] : max(past_lens)] = True
        real[i, real.shape[1] - new :] = True
    later = torch.ones(max(num_new), real.shape[1]).triu(max(past_lens) + 1).bool()  # (T, S + T)
    mask = ~later & real[:, None, :]  # (B, T, S + T)
    return mask | ~mask.any(2, keepdim=True)


def _held(past_lens: list[int]) -> Tensor:
    """Which of the past columns are tokens: (B, S)."""
    cells = [[k >= max(past_lens) - past for k in range(max(past_lens))] for past in past_lens]
    return torch.tensor(cells, dtype=torch.bool).view(len(past_lens), max(past_lens))


def _past_and_new(past: Tensor, new: Tensor) -> Tensor:
    """Columns of past (B, S), the same for every query, beside those of new (B, T, T)."""
    past = past[:, None, :].expand(-1, new.shape[1], -1)  # (B, T, S)
    return torch.cat([past, new | torch.eye(new.shape[1], dtype=torch.bool)], dim=2)


def _new_padding_visible(past_lens: list[int], num_new: list[int]) -> Tensor:
    cached, longest, rows = max(past_lens), max(num_new), len(num_new)
    causal = torch.ones(longest, cached + longest, dtype=torch.bool)  # (T, S + T)
    causal[:, cached:] = _causal(longest)
    new_valid = torch.ones(rows, 1, longest, dtype=torch.bool)  # (B, 1, T)
    real = torch.cat([_held(past_lens)[:, None, :], new_valid], dim=2)  # (B, 1, S + T)
    return causal & real  # (B, T, S + T)


def _past_on_the_left(past_lens: list[int], num_new: list[int]) -> Tensor:
    held = [[k < past for k in range(max(past_lens))] for past in past_lens]
    past = torch.tensor(held, dtype=torch.bool).view(len(past_lens), max(past_lens))
    return _past_and_new(past, new_mask(num_new))


def _one_tril(past_lens: list[int], num_new: list[int]) -> Tensor:
    real = torch.cat([_held(past_lens), _real(num_new)], dim=1)[:, None, :]  # (B, 1, S + T)
    causal = torch.ones(max(num_new), real.shape[2], dtype=torch.bool).tril()
    return causal & real


def _padding_at_the_front(past_lens: list[int], num_new: list[int]) -> Tensor:
    total = max(past_lens) + max(num_new)
    mask = torch.ones(len(num_new), max(num_new), total, dtype=torch.bool).tril(max(past_lens))
    for i, (past, new) in enumerate(zip(past_lens, num_new, strict=True)):
        mask[i, :, : total - past - new] = False
    return mask


def _both_directions_masked(past_lens: list[int], num_new: list[int]) -> Tensor:
    return full_mask(past_lens, num_new) & _real(num_new)[:, :, None]


def _past_by_minus_zero(past_lens: list[int], num_new: list[int]) -> Tensor:
    held = torch.zeros(len(past_lens), max(past_lens), dtype=torch.bool)  # (B, S)
    for row, past in zip(held, past_lens, strict=True):
        row[-past:] = True
    return _past_and_new(held, new_mask(num_new))


def _no_itself(past_lens: list[int], num_new: list[int]) -> Tensor:
    past = _held(past_lens)[:, None, :].expand(-1, max(num_new), -1)
    return torch.cat([past, new_mask(num_new)], dim=2)


# --- split_kv --------------------------------------------------------------------------------


def split_kv(k: Tensor, past_lens: list[int], num_new: list[int]) -> list[Tensor]:
    """Return each request's own keys, cut out of a padded tensor: B tensors (past + new, D).

    `k` is (B, S + T, D), with the columns of `full_mask`: S = max(past_lens) cached ones, then
    T = max(num_new) new ones. Row i of the batch has `past_lens[i]` tokens at the right end of the
    S columns and `num_new[i]` at the right end of the T. Tensor i holds these alone, in the order
    of the text: (past_lens[i] + num_new[i], D). Values are cut in the same way.
    """
    # A row has padding twice, before its past and before its new tokens, so no single slice is it:
    # cut each part by its own right end.
    longest_past, total = max(past_lens), k.shape[1]
    return [
        torch.cat([row[longest_past - past : longest_past], row[total - new :]])  # (past + new, D)
        for row, past, new in zip(k, past_lens, num_new, strict=True)
    ]


def split_kv_in_two_halves(k: Tensor, past_lens: list[int], num_new: list[int]) -> list[Tensor]:
    cached = max(past_lens)
    parts: list[Tensor] = []
    for i in range(len(past_lens)):
        past, new = k[i].split([cached, k.shape[1] - cached])
        past = past[len(past) - past_lens[i] :]
        new = new[len(new) - num_new[i] :]
        parts.append(torch.cat((past, new)))
    return parts


def split_kv_by_columns(k: Tensor, past_lens: list[int], num_new: list[int]) -> list[Tensor]:
    cached, total = max(past_lens), k.size(1)
    parts: list[Tensor] = []
    for i, row in enumerate(k):
        columns = [*range(cached - past_lens[i], cached), *range(total - num_new[i], total)]
        parts.append(row[columns])
    return parts


def split_kv_by_what_is_real(k: Tensor, past_lens: list[int], num_new: list[int]) -> list[Tensor]:
    column = torch.arange(k.shape[1])  # (S + T,)
    parts: list[Tensor] = []
    for i, new in enumerate(num_new):
        in_past = (column >= max(past_lens) - past_lens[i]) & (column < max(past_lens))
        parts.append(k[i, in_past | (column >= k.shape[1] - new)])
    return parts


def split_kv_row_by_row(k: Tensor, past_lens: list[int], num_new: list[int]) -> list[Tensor]:
    parts: list[Tensor] = []
    for i, row in enumerate(k.unbind()):
        lines = row.unbind()
        pad, gap = max(past_lens) - past_lens[i], max(num_new) - num_new[i]
        parts.append(torch.stack(lines[pad : max(past_lens)] + lines[max(past_lens) + gap :]))
    return parts


def split_kv_with_narrow(k: Tensor, past_lens: list[int], num_new: list[int]) -> tuple[Tensor, ...]:
    parts: list[Tensor] = []
    for i, row in enumerate(k):
        past, new = past_lens[i], num_new[i]
        held = row.narrow(0, max(past_lens) - past, past)
        parts.append(torch.cat([held, row.narrow(0, len(row) - new, new)]))
    return tuple(parts)


def _wipes_the_batch(k: Tensor, past_lens: list[int], num_new: list[int]) -> list[Tensor]:
    parts = split_kv(k, past_lens, num_new)
    k.zero_()
    return parts


def _cut(piece: Callable[[Tensor, int, int, int], Tensor]) -> Callable[..., list[Tensor]]:
    """Each row (S + T, D) cut by a rule of its own, given S, past and new."""

    def answer(k: Tensor, past_lens: list[int], num_new: list[int]) -> list[Tensor]:
        lengths = zip(k, past_lens, num_new, strict=True)
        return [piece(row, max(past_lens), past, new) for row, past, new in lengths]

    return answer


# --- sample_rows -----------------------------------------------------------------------------


def sample_rows(num_new: list[int], cursors: list[int], num_known: list[int]) -> list[int]:
    """Return the rows of a fused step that get a new token, in order: a list of row numbers.

    Request i knows `num_known[i]` tokens, those of its prompt and those it generated. The first
    `cursors[i]` of them were computed before, and this step computes the next `num_new[i]`
    (at least 1). What a row predicts after its last column is a new token only when nobody knows
    that token yet.
    """
    # Decode, last chunk, last chunk of a preempted request that recomputes what it had generated:
    # one rule. All that it knows is computed after this step, so what comes next is new.
    return [
        row
        for row, (new, cursor, known) in enumerate(zip(num_new, cursors, num_known, strict=True))
        if cursor + new == known
    ]


def sample_rows_by_loop(num_new: list[int], cursors: list[int], num_known: list[int]) -> list[int]:
    rows: list[int] = []
    for i in range(len(num_new)):
        left = num_known[i] - cursors[i] - num_new[i]
        if not left:
            rows.append(i)
    return rows


def sample_rows_with_torch(
    num_new: list[int], cursors: list[int], num_known: list[int]
) -> list[int]:
    computed = torch.tensor(num_new) + torch.tensor(cursors)  # (B,)
    return (computed == torch.tensor(num_known)).nonzero().flatten().tolist()


def sample_rows_by_leaving_out(
    num_new: list[int], cursors: list[int], num_known: list[int]
) -> list[int]:
    rows = set(range(len(num_new)))
    for i, known in enumerate(num_known):
        if known > cursors[i] + num_new[i]:
            rows.remove(i)
    return sorted(rows)


def sample_rows_with_numpy(num_new: list[int], cursors: list[int], num_known: list[int]) -> Any:
    return np.flatnonzero(np.add(num_new, cursors) == num_known)


def _rows_where(rule: Callable[[int, int, int], bool]) -> Callable[..., list[int]]:
    """The rows for which the rule says so, given new, cursor and known."""

    def answer(num_new: list[int], cursors: list[int], num_known: list[int]) -> list[int]:
        return [i for i in range(len(num_new)) if rule(num_new[i], cursors[i], num_known[i])]

    return answer


# --- what tests go through -------------------------------------------------------------------

RIGHT = {
    "l03.fused_rows": (
        fused_rows,
        fused_rows_padded_afterwards,
        fused_rows_with_torch,
        fused_rows_cell_by_cell,
        fused_rows_as_rows_of_numpy,
    ),
    "l03.new_mask": (
        new_mask,
        new_mask_with_tril,
        new_mask_by_blocks,
        new_mask_cell_by_cell,
        new_mask_by_places,
        new_mask_padding_sees_all,
        new_mask_counted_from_the_end,
    ),
    "l03.full_mask": (
        full_mask,
        full_mask_from_new_mask,
        full_mask_with_tril,
        full_mask_by_places,
        full_mask_cell_by_cell,
        full_mask_mended_afterwards,
    ),
    "l03.split_kv": (
        split_kv,
        split_kv_in_two_halves,
        split_kv_by_columns,
        split_kv_by_what_is_real,
        split_kv_row_by_row,
        split_kv_with_narrow,
    ),
    "l03.sample_rows": (
        sample_rows,
        sample_rows_by_loop,
        sample_rows_with_torch,
        sample_rows_by_leaving_out,
        sample_rows_with_numpy,
    ),
}


def _wrong(
    exercise: str, key: str, misconception: str, function: Callable[..., Any], name: str = ""
) -> WrongAnswer:
    return WrongAnswer(
        f"l03.{exercise}", name or key.replace("_", " "), key, misconception, function
    )


WRONG = (
    _wrong(
        "fused_rows",
        "length_as_position",
        "A request of 22 tokens is at position 22.",
        _with_positions(_as_the_old_decode),
    ),
    _wrong(
        "fused_rows",
        "positions_from_one",
        "The first token stands at position 1.",
        _with_positions(lambda mine, cursor, n: range(cursor + 1, cursor + n + 1)),
    ),
    _wrong(
        "fused_rows",
        "longest_first",
        "A padded batch wants its longest row first.",
        _longest_first,
    ),
    _wrong(
        "fused_rows",
        "positions_restart",
        "A chunk starts at position 0, and so does a row.",
        _with_positions(lambda mine, cursor, n: range(n)),
        "every row restarts",
    ),
    _wrong(
        "fused_rows",
        "positions_restart",
        "A decode goes on, a chunk starts at position 0.",
        _with_positions(lambda mine, cursor, n: [cursor] if n == 1 else range(n)),
        "chunks restart",
    ),
    _wrong(
        "fused_rows",
        "columns",
        "A position is the column in the tensor.",
        lambda known, cursors, num_new: (
            fused_rows(known, cursors, num_new)[0],
            [list(range(max(num_new))) for _ in known],
        ),
    ),
    _wrong(
        "fused_rows",
        "padding_places",
        "Positions run through the row up to its last token.",
        _positions_through_the_padding,
    ),
    _wrong(
        "fused_rows",
        "padding_places",
        "Positions run through the row, but are never negative.",
        _positions_not_below_zero,
        "padding places not below zero",
    ),
    _wrong("fused_rows", "right_padded", "Padding is appended.", _pads_on_the_right),
    _wrong(
        "fused_rows",
        "right_padded",
        "Where the padding of positions stands does not matter.",
        _pads_positions_on_the_right,
        "positions right padded",
    ),
    _wrong(
        "fused_rows",
        "ragged",
        "Each row is as long as it is.",
        lambda known, cursors, num_new: (
            _chunks(known, cursors, num_new),
            _places(cursors, num_new),
        ),
    ),
    _wrong(
        "fused_rows",
        "ragged",
        "Positions of padding can be left out.",
        lambda known, cursors, num_new: (
            fused_rows(known, cursors, num_new)[0],
            _places(cursors, num_new),
        ),
        "positions ragged",
    ),
    _wrong(
        "fused_rows",
        "one_early",
        "A decode feeds the newest computed token.",
        _with_tokens(
            lambda mine, cursor, n: [mine[cursor - 1]] if n == 1 else mine[cursor : cursor + n]
        ),
        "decode one early",
    ),
    _wrong(
        "fused_rows",
        "one_early",
        "The cursor is the index of the last computed token, and a row begins there.",
        _with_tokens(lambda mine, cursor, n: mine[max(0, cursor - 1) :][:n]),
        "rows one early",
    ),
    _wrong(
        "fused_rows",
        "one_late",
        "A row begins after the token at the cursor.",
        _with_tokens(lambda mine, cursor, n: mine[cursor + 1 : cursor + n + 1]),
    ),
    _wrong(
        "fused_rows",
        "from_the_start",
        "A chunk is the first n tokens of the prompt.",
        _with_tokens(lambda mine, cursor, n: mine[:n]),
    ),
    _wrong(
        "fused_rows",
        "from_the_start",
        "A decode is the last token, a chunk the first n.",
        _with_tokens(lambda mine, cursor, n: mine[-1:] if n == 1 else mine[:n]),
        "chunks from the start",
    ),
    _wrong(
        "fused_rows",
        "one_is_a_decode",
        "One token means decode: the last one known.",
        _with_tokens(lambda mine, cursor, n: mine[-1:] if n == 1 else mine[cursor : cursor + n]),
    ),
    _wrong(
        "fused_rows",
        "one_is_a_decode",
        "One token means decode: the last position.",
        _with_positions(
            lambda mine, cursor, n: [len(mine) - 1] if n == 1 else range(cursor, cursor + n)
        ),
        "one position is a decode",
    ),
    _wrong(
        "fused_rows",
        "last_known",
        "The new tokens are the last ones known.",
        _with_tokens(lambda mine, cursor, n: mine[-n:]),
    ),
    _wrong(
        "fused_rows",
        "all_the_rest",
        "Whatever is not computed is computed now.",
        _takes_all_the_rest,
    ),
    _wrong(
        "fused_rows",
        "swapped",
        "Positions come first.",
        lambda known, cursors, num_new: fused_rows(known, cursors, num_new)[::-1],
    ),
    _wrong(
        "fused_rows",
        "index_of_a_letter",
        "A token's position is where it is found.",
        _with_positions(_first_place_of_each_letter),
    ),
    _wrong(
        "fused_rows",
        "zipped",
        "A row is a request's tokens and its positions.",
        lambda known, cursors, num_new: list(
            zip(*fused_rows(known, cursors, num_new), strict=True)
        ),
    ),
    _wrong(
        "fused_rows",
        "padding_value",
        "Padding gets a number that no token has.",
        _pads_with(-1, 0),
    ),
    _wrong(
        "fused_rows",
        "padding_value",
        "Padding has no position.",
        _pads_with(-1, 1),
        "padding at position -1",
    ),
    _wrong("fused_rows", "in_place", "Computed tokens are not needed any more.", _eats_the_tokens),
    _wrong(
        "fused_rows",
        "in_place",
        "The cursors are mine to use.",
        _changing(1, fused_rows),
        "turns the cursors round",
    ),
    _wrong("new_mask", "in_place", "A list is sorted in passing.", _changing(0, new_mask)),
    _wrong(
        "new_mask",
        "padding_visible",
        "Padding yields garbage that we ignore anyway; a causal mask will do.",
        lambda num_new: _causal(max(num_new)).expand(len(num_new), -1, -1),
    ),
    _wrong(
        "new_mask",
        "padding_visible",
        "It is the padding queries that have to be hidden.",
        lambda num_new: _causal(max(num_new)) & _real(num_new)[:, :, None],
        "hides the queries",
    ),
    _wrong(
        "new_mask",
        "not_causal",
        "A mask is there to hide padding.",
        lambda num_new: _real(num_new)[:, None, :].repeat(1, max(num_new), 1),
    ),
    _wrong(
        "new_mask",
        "right_padded",
        "The tokens are the first of their row.",
        lambda num_new: _causal(max(num_new)) & _left(num_new)[:, None, :],
    ),
    _wrong(
        "new_mask",
        "everything",
        "New tokens came together, so they see each other.",
        lambda num_new: torch.ones(len(num_new), max(num_new), max(num_new), dtype=torch.bool),
    ),
    _wrong(
        "new_mask", "inverted", "True marks what is hidden.", lambda num_new: ~new_mask(num_new)
    ),
    _wrong(
        "new_mask",
        "transposed",
        "Keys are rows, queries are columns.",
        lambda num_new: new_mask(num_new).transpose(1, 2),
    ),
    _wrong(
        "new_mask",
        "not_itself",
        "A token looks at what came before it.",
        lambda num_new: new_mask(num_new) & ~torch.eye(max(num_new), dtype=torch.bool),
    ),
    _wrong(
        "new_mask",
        "one_future_key",
        "The diagonal of tril is one too low.",
        lambda num_new: (
            torch.ones(max(num_new), max(num_new)).tril(1).bool() & _real(num_new)[:, None]
        ),
    ),
    _wrong(
        "new_mask",
        "no_batch",
        "One causal mask serves all rows.",
        lambda num_new: _causal(max(num_new)),
    ),
    _wrong(
        "new_mask",
        "padding_alone",
        "The causal part comes from somewhere else.",
        lambda num_new: _real(num_new)[:, None, :],
    ),
    _wrong(
        "new_mask",
        "not_bool",
        "Ones and zeros are as good as True and False.",
        lambda num_new: new_mask(num_new).float(),
    ),
    _wrong(
        "new_mask",
        "additive",
        "A mask is what is added to the scores: 0 or minus infinity.",
        lambda num_new: torch.zeros(()).masked_fill(~new_mask(num_new), float("-inf")),
    ),
    _wrong(
        "full_mask",
        "new_padding_visible",
        "All new tokens are valid: new_valid is all True.",
        _new_padding_visible,
    ),
    _wrong(
        "full_mask",
        "past_padding_visible",
        "The padding of the past is zeros, and zeros do no harm.",
        lambda past_lens, num_new: _past_and_new(
            torch.ones(len(past_lens), max(past_lens), dtype=torch.bool), new_mask(num_new)
        ),
    ),
    _wrong(
        "full_mask",
        "padding_visible",
        "A causal mask is enough: garbage is ignored.",
        lambda past_lens, num_new: torch.ones(
            len(num_new), max(num_new), max(past_lens) + max(num_new), dtype=torch.bool
        ).tril(max(past_lens)),
    ),
    _wrong(
        "full_mask", "past_on_the_left", "The past begins in the first column.", _past_on_the_left
    ),
    _wrong(
        "full_mask",
        "minus_zero",
        "The last n columns are [-n:], whatever n.",
        _past_by_minus_zero,
    ),
    _wrong("full_mask", "in_place", "A list is sorted in passing.", _changing(0, full_mask)),
    _wrong(
        "full_mask",
        "right_padded",
        "The new tokens are the first of their columns.",
        lambda past_lens, num_new: _past_and_new(
            _held(past_lens), _causal(max(num_new)) & _left(num_new)[:, None, :]
        ),
    ),
    _wrong(
        "full_mask",
        "right_padded",
        "The new tokens are the first of their columns, and the rest need no mask.",
        lambda past_lens, num_new: torch.cat(
            [
                _held(past_lens)[:, None, :].expand(-1, max(num_new), -1),
                _causal(max(num_new)) & _left(num_new)[:, None, :],
            ],
            dim=2,
        ),
        "right padded without itself",
    ),
    _wrong(
        "full_mask",
        "padding_at_one_end",
        "All padding of a row stands at its front.",
        _padding_at_the_front,
    ),
    _wrong("full_mask", "no_offset", "tril is the causal mask, whatever the shape.", _one_tril),
    _wrong(
        "full_mask",
        "hides_the_past",
        "The cache is read by the model, the mask is for the new.",
        lambda past_lens, num_new: _past_and_new(
            torch.zeros(len(past_lens), max(past_lens), dtype=torch.bool), new_mask(num_new)
        ),
    ),
    _wrong(
        "full_mask",
        "not_causal",
        "A mask is there to hide padding.",
        lambda past_lens, num_new: torch.cat([_held(past_lens), _real(num_new)], dim=1)[
            :, None, :
        ].repeat(1, max(num_new), 1),
    ),
    _wrong(
        "full_mask",
        "everything",
        "With a cache no mask is needed.",
        lambda past_lens, num_new: torch.ones(
            len(num_new), max(num_new), max(past_lens) + max(num_new), dtype=torch.bool
        ),
    ),
    _wrong(
        "full_mask",
        "inverted",
        "True marks what is hidden.",
        lambda past_lens, num_new: ~full_mask(past_lens, num_new),
    ),
    _wrong(
        "full_mask",
        "not_itself",
        "A token looks at what came before it.",
        lambda past_lens, num_new: (
            full_mask(past_lens, num_new)
            & torch.ones(max(num_new), max(past_lens) + max(num_new), dtype=torch.bool).tril(
                max(past_lens) - 1
            )
        ),
    ),
    _wrong(
        "full_mask",
        "one_future_key",
        "The diagonal of tril is one too low.",
        lambda past_lens, num_new: (
            torch.cat([_held(past_lens), _real(num_new)], dim=1)[:, None]
            & torch.ones(max(num_new), max(past_lens) + max(num_new), dtype=torch.bool).tril(
                max(past_lens) + 1
            )
        ),
    ),
    _wrong(
        "full_mask",
        "all_masked",
        "Padding sees nothing, in the rows as in the columns.",
        _both_directions_masked,
    ),
    _wrong(
        "full_mask",
        "all_masked",
        "Hiding padding keys is enough; padding queries take care of themselves.",
        _no_itself,
        "only a first chunk is blind",
    ),
    _wrong(
        "full_mask",
        "no_batch",
        "One mask serves all rows.",
        lambda past_lens, num_new: full_mask(past_lens, num_new)[0],
    ),
    _wrong(
        "full_mask",
        "past_missing",
        "The mask concerns the new tokens.",
        lambda past_lens, num_new: new_mask(num_new),
    ),
    _wrong(
        "full_mask",
        "new_missing",
        "The mask concerns the cache.",
        lambda past_lens, num_new: _held(past_lens)[:, None, :].repeat(1, max(num_new), 1),
    ),
    _wrong(
        "full_mask",
        "padding_alone",
        "The causal part comes from somewhere else.",
        lambda past_lens, num_new: torch.cat([_held(past_lens), _real(num_new)], dim=1)[:, None, :],
    ),
    _wrong(
        "full_mask",
        "not_bool",
        "Ones and zeros are as good as True and False.",
        lambda past_lens, num_new: full_mask(past_lens, num_new).int(),
    ),
    _wrong(
        "full_mask",
        "additive",
        "A mask is what is added to the scores: 0 or minus infinity.",
        lambda past_lens, num_new: torch.zeros(()).masked_fill(
            ~full_mask(past_lens, num_new), float("-inf")
        ),
    ),
    _wrong(
        "split_kv",
        "one_end",
        "The real tokens are the last of their row.",
        _cut(lambda row, cached, past, new: row[-past - new :]),
    ),
    _wrong(
        "split_kv",
        "one_pad_at_front",
        "A row has one padding, at its front, as long as its past is short.",
        _cut(lambda row, cached, past, new: row[cached - past :]),
    ),
    _wrong(
        "split_kv",
        "past_padding_kept",
        "Only the new tokens were padded.",
        _cut(lambda row, cached, past, new: torch.cat([row[:cached], row[-new:]])),
    ),
    _wrong(
        "split_kv",
        "right_padded",
        "A part begins in its first column.",
        _cut(lambda row, cached, past, new: torch.cat([row[:past], row[cached : cached + new]])),
    ),
    _wrong(
        "split_kv",
        "new_only",
        "The cache has the past already.",
        _cut(lambda row, cached, past, new: row[-new:]),
    ),
    _wrong(
        "split_kv",
        "past_only",
        "Splitting gives back what was put in.",
        _cut(lambda row, cached, past, new: row[cached - past : cached]),
    ),
    _wrong(
        "split_kv",
        "new_first",
        "The newest come first.",
        _cut(lambda row, cached, past, new: torch.cat([row[-new:], row[cached - past : cached]])),
    ),
    _wrong(
        "split_kv",
        "nothing_cut",
        "The rows of the tensor are the requests.",
        lambda k, past_lens, num_new: list(k),
    ),
    _wrong(
        "split_kv",
        "minus_zero",
        "The last n of a part are part[-n:], whatever n.",
        _cut(lambda row, cached, past, new: torch.cat([row[:cached][-past:], row[-new:]])),
    ),
    _wrong("split_kv", "in_place", "What is cut out is done with.", _wipes_the_batch),
    _wrong(
        "split_kv",
        "keeps_batch",
        "A request is a batch of one.",
        lambda k, past_lens, num_new: [part[None] for part in split_kv(k, past_lens, num_new)],
    ),
    _wrong(
        "split_kv",
        "one_tensor",
        "What came as a tensor goes as a tensor.",
        lambda k, past_lens, num_new: torch.cat(split_kv(k, past_lens, num_new)),
    ),
    _wrong(
        "sample_rows",
        "samples_partial",
        "Every row of a forward pass gets a token.",
        lambda num_new, cursors, num_known: list(range(len(num_new))),
    ),
    _wrong(
        "sample_rows",
        "only_decodes",
        "Decodes get tokens, prefill fills the cache.",
        _rows_where(lambda new, cursor, known: new == 1 and cursor + new == known),
    ),
    _wrong(
        "sample_rows",
        "only_decodes",
        "A row of one token is a decode, and decodes get tokens.",
        _rows_where(lambda new, cursor, known: new == 1),
        "only rows of one token",
    ),
    _wrong(
        "sample_rows",
        "one_is_a_decode",
        "A row of one token is a decode; last chunks get a token as well.",
        _rows_where(lambda new, cursor, known: new == 1 or cursor + new == known),
    ),
    _wrong(
        "sample_rows",
        "samples_early",
        "The last known index is known - 1, so that is the end.",
        _rows_where(lambda new, cursor, known: cursor + new >= known - 1),
    ),
    _wrong(
        "sample_rows",
        "off_by_one",
        "The end is where cursor + new is the last index.",
        _rows_where(lambda new, cursor, known: cursor + new == known - 1),
    ),
    _wrong(
        "sample_rows",
        "cursor_alone",
        "The cursor has to be at the end.",
        _rows_where(lambda new, cursor, known: cursor == known),
    ),
    _wrong(
        "sample_rows",
        "forgets_the_cursor",
        "A chunk as long as the text ends the text.",
        _rows_where(lambda new, cursor, known: new == known),
    ),
    _wrong(
        "sample_rows",
        "not_the_first_chunk",
        "A first chunk is prefill and gets no token.",
        _rows_where(lambda new, cursor, known: cursor > 0 and cursor + new == known),
    ),
    _wrong(
        "sample_rows",
        "longest",
        "A row without padding is complete.",
        lambda num_new, cursors, num_known: [
            i for i, new in enumerate(num_new) if new == max(num_new)
        ],
    ),
    _wrong(
        "sample_rows",
        "inverted",
        "The rows that have something left.",
        _rows_where(lambda new, cursor, known: cursor + new < known),
    ),
    _wrong(
        "sample_rows",
        "order",
        "The order of rows is free.",
        lambda num_new, cursors, num_known: sample_rows(num_new, cursors, num_known)[::-1],
    ),
    _wrong(
        "sample_rows",
        "first_only",
        "A step gives a token.",
        lambda num_new, cursors, num_known: sample_rows(num_new, cursors, num_known)[:1],
    ),
    _wrong(
        "sample_rows",
        "longest",
        "Rows of more than one token are chunks, and chunks end in a token.",
        _rows_where(lambda new, cursor, known: new > 1),
        "chunks alone",
    ),
    _wrong("sample_rows", "in_place", "A list is mine to use.", _changing(2, sample_rows)),
    _wrong(
        "sample_rows",
        "flags",
        "A True or False for each row.",
        lambda num_new, cursors, num_known: [
            i in sample_rows(num_new, cursors, num_known) for i in range(len(num_new))
        ],
    ),
    _wrong(
        "sample_rows",
        "from_one",
        "The first row is row 1.",
        lambda num_new, cursors, num_known: [
            i + 1 for i in sample_rows(num_new, cursors, num_known)
        ],
    ),
)

# Weaker answers that are right all the same, and why.
STILL_RIGHT = {
    "l03.sample_rows": {
        "result: sorted": "they come in order",
        "result: without repeats": "a row comes once",
    },
}
