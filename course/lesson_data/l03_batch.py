"""Behind lesson 3: one step of four requests as a batch, its masks as pictures, its costs."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from course.attempt import Attempt
from course.calling.jobs import call
from course.lesson_data.l01_chunks import SOLILOQUY
from course.lesson_data.texts import arriving, table
from nanogpt import decode, encode
from nanogpt.clock import LARGE_GPU, SERVER_CPU, CostModel
from nanogpt.policies import fusing
from nanogpt.trace import ForwardRecord

NAMES = ("A", "B", "C", "D")
TOKEN_IDS = [  # every token that each of the four requests knows
    encode("ROMEO:\nBut, soft! what"),
    encode("JULIET:\nO Romeo"),
    encode("HAMLET:\nA"),
    encode(SOLILOQUY),
]
NUM_COMPUTED = [21, 14, 8, 0]  # how many of them are computed: all but the newest; D's none
NUM_SCHEDULED = [1, 1, 1, 8]  # how many this step computes

GPU = replace(LARGE_GPU, prompt_scale=1)  # in lesson 3 a token is a token
MACHINES = {"a large GPU (modelled)": GPU, "a server CPU (modelled)": SERVER_CPU}

six_requests = arriving(
    (0, "ROMEO:\nBut, soft! what light", 24),
    (0, "JULIET:\nO Romeo, Romeo! ", 24),
    (4, "MACBETH:\nTo-morrow, and to-morrow, and to-morrow,\nCreeps in this petty pace ", 16),
    (5, "HAMLET:\nAlas, poor Yorick! ", 20),
    (9, "PORTIA:\nThe quality of mercy is not strain'd,\n", 16),
    (14, "RICHARD:\nA horse! a horse! ", 16),
)


# --- what forwards cost -------------------------------------------------------------------------


def cost_ms(clock: CostModel, *computed: int) -> float:
    """The total cost of forwards over these numbers of tokens, in ms."""
    return sum(clock.forward_us(ForwardRecord(n, 0, n, 0)) for n in computed) / 1000


# --- the batch as a picture ---------------------------------------------------------------------


def batch_rows() -> list[dict[str, Any]]:
    """The four rows as BatchView wants them."""
    return [
        {"id": i, "kind": "decode" if n == 1 else "prefill", "label": name}
        for i, (name, n) in enumerate(zip(NAMES, NUM_SCHEDULED, strict=True))
    ]


def batch(answer: Any = None) -> dict[str, Any]:
    """Tokens, positions and letters of the step: the reference's, or an answer's.

    Raises: TypeError, ValueError, IndexError or KeyError for an answer that cannot be drawn.
    """
    tokens, positions = (
        fusing.prepare_inputs(TOKEN_IDS, NUM_COMPUTED, NUM_SCHEDULED)
        if answer is None
        else (answer[0], answer[1])
    )
    return {"tokens": tokens, "positions": positions, "texts": _letters(tokens)}


def _letters(tokens: Sequence[Sequence[int]]) -> list[list[str]]:
    """The letters to draw in the cells; 0 for padding."""
    return [
        [
            "0" if column < len(row) - n else decode([token]).replace("\n", "⏎").replace(" ", "␣")
            for column, token in enumerate(row)
        ]
        for row, n in zip(tokens, NUM_SCHEDULED, strict=True)
    ]


# --- masks as pictures --------------------------------------------------------------------------


def posts_example() -> list[dict[str, Any]]:
    """The interleaving post's mask in five steps: a past of 4 columns, two chunks of 3 tokens."""
    open_ = torch.ones(3, 7, dtype=torch.bool)
    triangle = torch.ones(3, 3, dtype=torch.bool).tril()
    causal = open_.clone()
    causal[:, 4:] = triangle
    padded = causal.expand(2, -1, -1).clone()
    padded[0, :, :2] = False  # A holds 2 tokens of 4
    rows = [
        _one(f"row {name}", mask, context_len=past, num_scheduled_tokens=3)
        for name, mask, past in zip("AB", padded, (2, 4), strict=True)
    ]
    steps = [
        ("1. all visible", "Every new token sees every column. For a single decode that is right.",
         4, [_one("every row", open_)]),
        ("2. a triangle", "No new token may look ahead: the lower triangle of 3 by 3.",
         0, [_one("the new columns", triangle)]),
        ("3. pasted over the new columns",
         "The whole past comes before the chunk. This is lesson 1's chunk_mask.",
         4, [_one("every row", causal)]),
        ("4. one for each row", "The same mask for both rows: (T, S + T) becomes (B, T, S + T).",
         4, [_one(f"row {name}", causal) for name in "AB"]),
        ("5. hide the padding",
         "A has 2 tokens in the cache, so its first two past columns are padding.", 4, rows),
    ]  # fmt: skip
    names = ("name", "words", "context_columns", "masks")
    return [dict(zip(names, each, strict=True)) for each in steps]


def _one(label: str, mask: Tensor, **lengths: int) -> dict[str, Any]:
    return {"label": label, "mask": mask.tolist(), **lengths}


def full_mask_steps(attempt: Attempt) -> list[dict[str, Any]] | str:
    """The learner's mask of a decode, a chunk and a first chunk, or why it cannot be drawn."""
    if not attempt.started or attempt.function is None:
        return "Once you have written `full_mask`, it is drawn here."
    lengths = [4, 2, 0], [1, 3, 2]
    return compared_masks(
        "ABC", *lengths, call(attempt.function, lengths).value, fusing.full_mask(*lengths)
    )


def compared_masks(
    names: Sequence[str],
    context_lens: Sequence[int],
    num_scheduled_tokens: Sequence[int],
    mine: object,
    right: Tensor,
) -> list[dict[str, Any]] | str:
    """A batch's mask beside the reference's; a sentence if its type or shape is wrong."""
    if not isinstance(mine, Tensor) or mine.dtype != torch.bool or mine.shape != right.shape:
        shape = tuple(right.shape)
        return f"Yours is not a bool tensor of shape {shape}, so it cannot be drawn."
    context_columns = right.shape[2] - right.shape[1]
    right = right.clone()
    for i, n in enumerate(num_scheduled_tokens):  # a padding query may see anything
        for query in range(len(right[i]) - n):
            if context_columns == 0 or mine[i, query].any():
                right[i, query] = mine[i, query]
    masks = [
        _one(f"row {name}", mask, context_len=past, num_scheduled_tokens=new)
        for name, mask, past, new in zip(
            names, mine, context_lens, num_scheduled_tokens, strict=True
        )
    ]
    words = "One matrix per row of the batch, past keys before new keys."
    step = {"name": "The mask", "words": words, "context_columns": context_columns, "masks": masks}
    return [{**step, "compare": right.tolist()}]


def cut_letters(attempt: Attempt) -> str:
    """A table of the pieces that the learner's `split_kv` cuts; letters stand for keys."""
    rows = ["ROME··O", "·PUC··K", "····LEA"]  # past of 4 columns, new of 3
    k = torch.tensor([[[float(ord(c))] for c in row] for row in rows])  # (3, 7, 1)
    mine: Any = None
    if attempt.started and attempt.function is not None:
        mine = call(attempt.function, (k, [4, 3, 0], [1, 1, 3])).value
    lines = (f"| `{row[:4]}` `{row[4:]}` | {_cut(mine, i)} |" for i, row in enumerate(rows))
    return table("| in the tensor (past, new) | what `split_kv` cut out |", "ll", lines)


def _cut(mine: Any, row: int) -> str:
    try:
        return "`" + "".join(chr(int(c)) for c in mine[row].flatten().tolist()) + "`"
    except (TypeError, IndexError, AttributeError, ValueError):
        return "not written yet" if mine is None else "nothing that can be read"
