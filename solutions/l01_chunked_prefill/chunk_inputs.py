"""Exercise 1.3: what the model is fed for one chunk."""

import random
from collections.abc import Callable
from typing import Any

import torch

from course.calling.plain_values import as_items, as_truth, as_whole
from course.checks.comparing import Args, Comparison, a_kind, tokens
from course.exercise import Exercise, Misconception
from course.task import Task

Inputs = tuple[list[int], list[int], bool]

# --- right answers ------------------------------------------------------------------------------


def chunk_inputs(tokens: list[int], cursor: int, n: int) -> tuple[list[int], list[int], bool]:
    """Return `(ids, positions, sample)`: what the model is fed for one chunk of one request."""
    # A chunk is a piece of a text, not a text of its own: its positions go on where the last chunk
    # ended. Its last row predicts the token after it; that is news only at the end of the text.
    end = cursor + n
    return tokens[cursor:end], list(range(cursor, end)), end == len(tokens)


def by_loop(tokens: list[int], cursor: int, n: int) -> Inputs:
    ids: list[int] = []
    positions: list[int] = []
    for offset in range(n):
        ids.append(tokens[cursor + offset])
        positions.append(cursor + offset)
    return ids, positions, positions[-1] + 1 == len(tokens)


def by_enumerating(tokens: list[int], cursor: int, n: int) -> Inputs:
    chunk = list(enumerate(tokens))[cursor:][:n]
    left = tokens[cursor + n :]
    return [token for _, token in chunk], [position for position, _ in chunk], not left


def with_torch(tokens: list[int], cursor: int, n: int) -> Inputs:
    ids = torch.tensor(tokens).narrow(0, cursor, n)  # (n,)
    positions = torch.arange(n) + cursor  # (n,)
    return ids.tolist(), positions.tolist(), bool(positions[-1] == len(tokens) - 1)


# --- wrong ideas --------------------------------------------------------------------------------


def sampling(rule: Callable[[list[int], int, int], Any]) -> Callable[..., Any]:
    """Right ids and positions, and a sampling rule of one's own."""
    return lambda tokens, cursor, n: (
        *chunk_inputs(tokens, cursor, n)[:2],
        rule(tokens, cursor, n),
    )


def placed(rule: Callable[[list[int], int, int], Any]) -> Callable[..., Any]:
    """Right ids and sampling, and positions of one's own."""

    def answer(tokens: list[int], cursor: int, n: int) -> Inputs:
        ids, _, sample = chunk_inputs(tokens, cursor, n)
        return ids, list(rule(tokens, cursor, n)), sample

    return answer


def eats_the_tokens(tokens: list[int], cursor: int, n: int) -> Any:
    sample = cursor + n == len(tokens)
    del tokens[:cursor]
    return [tokens.pop(0) for _ in range(n)], list(range(cursor, cursor + n)), sample


def are_three(value: Any) -> bool:
    return len(as_items(value) or ()) == 3


def wrong_part(value: Any) -> str:
    """What is wrong with the type of one of the three; "" if nothing is."""
    ids, positions, sample = as_items(value) or [None] * 3
    for name, part in (("ids", ids), ("positions", positions)):
        items = as_items(part)
        if items is None:
            return f"{name} is a list; this is {a_kind(part)}."
        for item in items:
            if as_whole(item) is None:
                return f"{name} holds whole numbers; one is {a_kind(item)}."
    if as_truth(sample) is None:
        return f"sample is True or False (a bool); this is {a_kind(sample)}."
    return ""


MISCONCEPTIONS = (
    Misconception(
        "not_three",
        "Ids and positions are all that the model is fed.",
        "Return three things: `return ids, positions, sample`.",
        form=lambda value: not are_three(value),
        also=(lambda tokens, cursor, n: chunk_inputs(tokens, cursor, n)[:2],),
    ),
    Misconception(
        "wrong_type",
        "1 and 0 are as good as True and False.",
        wrong_part,
        form=lambda value: wrong_part(value) != "",
        also=(sampling(lambda tokens, cursor, n: int(cursor + n == len(tokens))),),
    ),
    Misconception(
        "positions_restart",
        "Each chunk is a small text that starts at position 0.",
        "A chunk goes on where the last one ended: its positions count in the whole text, from "
        "cursor on, or the model takes it for a new beginning.",
        placed(lambda tokens, cursor, n: range(n)),
    ),
    Misconception(
        "always_samples",
        "Every forward pass ends with a sampled token.",
        "The token after this chunk is known already (it is the next one of the prompt), so sample "
        "only when the chunk ends with the last known token.",
        sampling(lambda tokens, cursor, n: True),
    ),
    Misconception(
        "never_samples",
        "Prefill fills the cache; sampling is what decodes do.",
        "This chunk ends with the last known token, and what its last row predicts is the next "
        "token of the text: sample it, or the request never gets a token.",
        sampling(lambda tokens, cursor, n: False),
    ),
    Misconception(
        "samples_early",
        "The chunk ends at index cursor + n, and the last index is len - 1.",
        "One known token is still to come after this chunk, so there is nothing to sample yet: the "
        "end is at cursor + n == len(tokens).",
        sampling(lambda tokens, cursor, n: cursor + n >= len(tokens) - 1),
    ),
    Misconception(
        "samples_first",
        "The first chunk samples, because TTFT counts from there.",
        "Where a chunk starts says nothing about sampling; where it ends does: sample when it ends "
        "with the last known token.",
        sampling(lambda tokens, cursor, n: cursor == 0),
    ),
    Misconception(
        "positions_from_one",
        "The first token stands at position 1.",
        "Positions count from 0: the first token of the text stands at position 0.",
        placed(lambda tokens, cursor, n: range(cursor + 1, cursor + n + 1)),
    ),
    Misconception(
        "positions_by_value",
        "A token's position is where the text has it.",
        "A letter comes back in a text: its position is where it stands in this chunk, not where "
        "the text has it for the first time.",
        placed(lambda tokens, cursor, n: map(tokens.index, tokens[cursor : cursor + n])),
        alike=(
            placed(
                lambda tokens, cursor, n: [
                    tokens.index(token, cursor) for token in tokens[cursor : cursor + n]
                ]
            ),
        ),
    ),
    Misconception(
        "ends_by_value",
        "A chunk that ends with the text's last token is the last one.",
        "Whether the chunk ends with the last known token is a matter of its place: the same "
        "letter may come earlier as well.",
        sampling(lambda tokens, cursor, n: tokens[cursor + n - 1] == tokens[-1]),
    ),
    Misconception(
        "n_is_the_end",
        "n says where the chunk ends.",
        "n is how many tokens the chunk takes, not the index where it ends: it ends at cursor + n.",
        lambda tokens, cursor, n: chunk_inputs(tokens, cursor, n - cursor),
    ),
    Misconception(
        "from_the_start",
        "A chunk takes the whole text up to its end.",
        "The tokens before the cursor are computed already; the chunk starts at the cursor.",
        lambda tokens, cursor, n: chunk_inputs(tokens, 0, cursor + n),
    ),
    Misconception(
        "shifted",
        "The chunk starts after the token at the cursor.",
        "The cursor points at the first token that is not computed, and the chunk starts with it; "
        "here it was skipped.",
        lambda tokens, cursor, n: (
            tokens[cursor + 1 : cursor + n + 1],
            list(range(cursor + 1, cursor + n + 1)),
            cursor + n + 1 >= len(tokens),
        ),
    ),
    Misconception("in_place", "Fed tokens may be thrown away.", also=(eats_the_tokens,)),
)

# --- cases --------------------------------------------------------------------------------------


def any_piece(rng: random.Random) -> list[Args]:
    """Of short texts; at the end nearly all of a long one."""
    cases: list[Args] = []
    for length in range(1, 40):
        cursor = rng.randrange(length)
        n = rng.randint(1, length - cursor) if rng.random() < 0.7 else length - cursor
        cases.append((tokens(rng, length), cursor, n))
    long, cursor = 20 * tokens(rng, 30), rng.randrange(9)
    return [*cases, (long, cursor, len(long) - cursor)]


FIVE, SIX = [5, 3, 8, 1, 9], [5, 3, 5, 5, 3, 5]
JUDGE = Comparison(
    chunk_inputs,
    MISCONCEPTIONS,
    "The chunk is the next n tokens after those that are computed, at the places where they stand "
    "in the text, and it samples when no known token comes after it.",
    evidence=[([5, 3, 8, 5, 3, 8, 5], cursor, n) for cursor, n in ((0, 1), (2, 2), (3, 3), (4, 3))],
)

EXERCISE = Exercise(
    number=3,
    title="What a chunk feeds the model",
    minutes=6,
    points=2,
    part="chunk_inputs",
    task=Task(
        signature="chunk_inputs(tokens: list[int], cursor: int, n: int) -> "
        "tuple[list[int], list[int], bool]",
        rules=(
            "`tokens` are the ids of all known tokens of a request. The first `cursor` of them are "
            "computed, and the chunk takes the next `n` (at least 1, and no more than are left).",
            "Returns `(ids, positions, sample)`.",
            "`ids` is the list of the chunk's tokens, `positions` the list of their places in the "
            "text, counted from 0.",
            "`sample` is a bool: whether the logits after this chunk give the text a new token. "
            "After a token whose successor is known they do not.",
            "Leave `tokens` as it is.",
        ),
        args=([18, 47, 56, 57, 53], 0, 2),
        result=([18, 47], [0, 1], False),
    ),
    hints=(
        "At which position of the text does the second chunk begin, and what comes after its last "
        "token?",
        "Ids and positions belong together: they begin at the same place of the text and are "
        "equally long. When is there a known token after the chunk?",
        "A slice for the ids, a range with the same two ends for the positions. For `sample`, "
        "compare the second of these ends with the length of the text.",
    ),
    right=(chunk_inputs, by_loop, by_enumerating, with_torch),
    misconceptions=MISCONCEPTIONS,
    checks=(
        ("a prompt in one chunk", JUDGE.on(([5, 3, 8], 0, 3), ([6], 0, 1))),
        ("a prompt in three chunks", JUDGE.on((FIVE, 0, 2), (FIVE, 2, 2), (FIVE, 4, 1))),
        (
            "a text in which letters come back",
            JUDGE.on((SIX, 2, 2), (SIX, 0, 1), (SIX, 0, 3), (SIX, 4, 2)),
        ),
        ("any piece of any text", JUDGE.on_drawn(any_piece)),
    ),
    still_right={
        "n at least 1": "it is at least 1",
        "with_torch(): ids = torch.tensor(tokens).narrow({0 => -1}, cursor, n)": (
            "there is one dimension"
        ),
    },
)
