"""Exercise 1.3: the ids, positions and sampling of one chunk."""

import random
from collections.abc import Callable
from typing import Any

from course.calling.plain_values import as_items, as_truth, as_whole
from course.checks.comparing import Args, Comparison, a_kind, tokens
from course.exercise import Exercise, Misconception, Task

Inputs = tuple[list[int], list[int], bool]

# --- right answers ------------------------------------------------------------------------------


def chunk_inputs(
    tokens: list[int], num_computed_tokens: int, num_scheduled_tokens: int
) -> tuple[list[int], list[int], bool]:
    """Return `(ids, positions, sample)`: a chunk's inputs, and whether to sample after it."""
    # A chunk continues a text, so its positions go on where the last chunk ended. Its last row
    # predicts the next token, which is new only if the chunk ends where the known text ends.
    start, end = num_computed_tokens, num_computed_tokens + num_scheduled_tokens
    return tokens[start:end], list(range(start, end)), end == len(tokens)


def by_loop(tokens: list[int], computed: int, scheduled: int) -> Inputs:
    ids: list[int] = []
    positions: list[int] = []
    for offset in range(scheduled):
        ids.append(tokens[computed + offset])
        positions.append(computed + offset)
    return ids, positions, positions[-1] + 1 == len(tokens)


# --- wrong ideas --------------------------------------------------------------------------------


def sampling(rule: Callable[[list[int], int, int], Any]) -> Callable[..., Any]:
    """Right ids and positions, and another sampling rule."""
    return lambda tokens, computed, new: (
        *chunk_inputs(tokens, computed, new)[:2],
        rule(tokens, computed, new),
    )


def placed(rule: Callable[[list[int], int, int], Any]) -> Callable[..., Any]:
    """Right ids and sampling, and other positions."""

    def answer(tokens: list[int], computed: int, new: int) -> Inputs:
        ids, _, sample = chunk_inputs(tokens, computed, new)
        return ids, list(rule(tokens, computed, new)), sample

    return answer


def ending(end: Callable[[int, int], int], both: bool = False) -> Callable[..., Any]:
    """The ids up to another end, and perhaps the positions too."""
    return lambda tokens, computed, new: (
        tokens[computed : end(computed, new)],
        list(range(computed, end(computed, new) if both else computed + new)),
        computed + new == len(tokens),
    )


def eats_the_tokens(tokens: list[int], computed: int, new: int) -> Any:
    sample = computed + new == len(tokens)
    del tokens[:computed]
    return [tokens.pop(0) for _ in range(new)], list(range(computed, computed + new)), sample


def are_three(value: Any) -> bool:
    return len(as_items(value) or ()) == 3


def wrong_part(value: Any) -> str:
    """Why one of the three has a wrong type; "" if none has."""
    ids, positions, sample = as_items(value) or [None] * 3
    for name, part in (("ids", ids), ("positions", positions)):
        items = as_items(part)
        if items is None:
            return f"`{name}` must be a list; this is {a_kind(part)}."
        for item in items:
            if as_whole(item) is None:
                return f"`{name}` must contain whole numbers; one is {a_kind(item)}."
    if as_truth(sample) is None:
        return f"`sample` must be True or False (a bool); this is {a_kind(sample)}."
    return ""


MISCONCEPTIONS = (
    Misconception(
        "not_three",
        "The model needs only ids and positions.",
        "Return three things: `return ids, positions, sample`.",
        matches=lambda value: not are_three(value),
        examples=(lambda tokens, computed, new: chunk_inputs(tokens, computed, new)[:2],),
    ),
    Misconception(
        "wrong_type",
        "1 and 0 can stand for True and False.",
        wrong_part,
        matches=lambda value: wrong_part(value) != "",
        examples=(sampling(lambda tokens, computed, new: int(computed + new == len(tokens))),),
    ),
    Misconception(
        "positions_restart",
        "Each chunk is a short text that starts at position 0.",
        "A chunk continues the text: its positions start at num_computed_tokens. With positions "
        "from 0, the model would take the chunk for the beginning of the text.",
        placed(lambda tokens, computed, new: range(new)),
    ),
    Misconception(
        "always_samples",
        "Every forward pass ends with a sampled token.",
        "The token after this chunk is known: it is the next one of the prompt. Sample only when "
        "the chunk ends with the last known token.",
        sampling(lambda tokens, computed, new: True),
    ),
    Misconception(
        "never_samples",
        "Prefills fill the cache, and only decodes sample.",
        "This chunk ends with the last known token, so its last row predicts a new token of the "
        "text. Sample it, or the request never gets a token.",
        sampling(lambda tokens, computed, new: False),
    ),
    Misconception(
        "samples_early",
        "The chunk ends at index computed + scheduled, and the last index is len - 1.",
        "One known token comes after this chunk, so there is nothing to sample yet. The chunk ends "
        "the text when num_computed_tokens + num_scheduled_tokens == len(tokens).",
        sampling(lambda tokens, computed, new: computed + new >= len(tokens) - 1),
    ),
    Misconception(
        "positions_from_one",
        "The first token has position 1.",
        "Positions count from 0: the first token of the text has position 0.",
        placed(lambda tokens, computed, new: range(computed + 1, computed + new + 1)),
    ),
    Misconception(
        "n_is_the_end",
        "The chunk ends at index num_scheduled_tokens.",
        "num_scheduled_tokens is the number of tokens in the chunk, not the index at which it "
        "ends. It ends at num_computed_tokens + num_scheduled_tokens.",
        lambda tokens, computed, new: chunk_inputs(tokens, computed, new - computed),
        same_result=(ending(lambda computed, new: new),),
    ),
    Misconception(
        "slice_end",
        "The end of a slice is its last index.",
        "The chunk has num_scheduled_tokens tokens. A slice leaves out its end, so it ends at "
        "num_computed_tokens + num_scheduled_tokens, without 1 more or less.",
        ending(lambda computed, new: computed + new - 1),
        same_result=(
            ending(lambda computed, new: computed + new + 1),
            ending(lambda computed, new: computed + new - 1, both=True),
            ending(lambda computed, new: computed + new + 1, both=True),
        ),
    ),
    Misconception(
        "in_place",
        "The fed tokens are no longer needed, so I delete them.",
        examples=(eats_the_tokens,),
    ),
)

# --- cases --------------------------------------------------------------------------------------


def any_piece(rng: random.Random) -> list[Args]:
    """Chunks of short texts; the last one takes nearly all of a long text."""
    cases: list[Args] = []
    for length in range(1, 40):
        computed = rng.randrange(length)
        new = rng.randint(1, length - computed) if rng.random() < 0.7 else length - computed
        cases.append((tokens(rng, length), computed, new))
    long, computed = 20 * tokens(rng, 30), rng.randrange(9)
    return [*cases, (long, computed, len(long) - computed)]


FIVE, SIX = [5, 3, 8, 1, 9], [5, 3, 5, 5, 3, 5]
JUDGE = Comparison(
    chunk_inputs,
    MISCONCEPTIONS,
    "The chunk is the num_scheduled_tokens tokens after the computed ones, at their positions in "
    "the text. It samples if no known token comes after it.",
    evidence=[
        ([5, 3, 8, 5, 3, 8, 5], computed, new) for computed, new in ((0, 1), (2, 2), (3, 3), (4, 3))
    ],
)

EXERCISE = Exercise(
    number=3,
    title="The inputs of a chunk",
    minutes=6,
    points=2,
    task=Task(
        rules=(
            "`tokens` are the ids of all known tokens of a request. The first "
            "`num_computed_tokens` are computed, and the chunk is the next "
            "`num_scheduled_tokens` (at least 1, and no more than are left).",
            "Returns `(ids, positions, sample)`.",
            "`ids` is the list of the chunk's tokens, and `positions` the list of their positions "
            "in the text, counted from 0.",
            "`sample` is a bool: whether the engine samples a token from the logits of the chunk's "
            "last token. It does not if the next token is known.",
            "Do not change `tokens`.",
        ),
        args=([18, 47, 56, 57, 53], 0, 2),
        result=([18, 47], [0, 1], False),
        steps=(
            "The chunk is the first two of five tokens.",
            "The token after 47 is known: it is 56. So there is nothing to sample.",
        ),
    ),
    hints=(
        "At which position of the text does the second chunk begin? Which token comes after it?",
        "Ids and positions begin at the same place in the text and have the same length. When is "
        "there a known token after the chunk?",
        "Use a slice for the ids and a range with the same two ends for the positions. For "
        "`sample`, compare the second end with the length of the text.",
    ),
    right=(chunk_inputs, by_loop),
    misconceptions=MISCONCEPTIONS,
    checks=(
        ("a prompt in one chunk", JUDGE.on(([5, 3, 8], 0, 3), ([6], 0, 1))),
        ("a prompt in three chunks", JUDGE.on((FIVE, 0, 2), (FIVE, 2, 2), (FIVE, 4, 1))),
        (
            "a text with repeated letters",
            JUDGE.on((SIX, 2, 2), (SIX, 0, 1), (SIX, 0, 3), (SIX, 4, 2)),
        ),
        ("any piece of any text", JUDGE.on_drawn(any_piece)),
    ),
    equivalent_mutants={"num_scheduled_tokens at least 1": "it is at least 1"},
)
