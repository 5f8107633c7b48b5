"""Drawing a step's tokens from its logits, row by row: plainly, or by verifying drafts."""

from collections.abc import Sequence
from itertools import accumulate

from torch import Tensor

from nanogpt.executors.base import Row
from nanogpt.parts import Accept
from nanogpt.sampling import sample_tokens, uniform
from nanogpt.speculative.verify import Drawn, verify


class NotFiniteError(ValueError):
    """Logits with NaN or infinity in them; `request_ids` says whose."""

    def __init__(self, step: int, request_ids: list[int]) -> None:
        super().__init__(
            f"step {step}: the logits of request {request_ids[0]} are not finite (NaN or "
            "infinity); the step was dropped"
        )
        self.request_ids = request_ids


def draw_tokens(
    step: int,
    rows: Sequence[Row],
    sampling: Sequence[bool],
    logits: Tensor,
    temperature: float,
    seed: int,
    accept: Accept,
) -> dict[int, Drawn]:
    """What each sampling row gives its request, by request id, in the rows' order.

    Shapes: logits (R, V), one per row and one more per draft.
    Raises: NotFiniteError naming a request whose logits are not finite.
    """
    starts = list(accumulate((row.num_logits for row in rows), initial=0))
    _check_finite(step, logits, rows, starts)
    chosen = [i for i, samples in enumerate(sampling) if samples]
    plain = [i for i in chosen if not rows[i].drafted]
    draws = [uniform(seed, rows[i].request_id, len(rows[i].known), "sample") for i in plain]
    tokens = sample_tokens(logits[[starts[i] for i in plain]], temperature, draws)
    drawn = {i: Drawn(token) for i, token in zip(plain, tokens, strict=True)}
    for i in chosen:
        if rows[i].drafted:
            row, own = rows[i], logits[starts[i] : starts[i + 1]]  # (K + 1, V)
            place = (len(row.known), temperature, seed, row.request_id)
            drawn[i] = verify(own, row.proposal, *place, accept)
    return {rows[i].request_id: drawn[i] for i in chosen}


def _check_finite(step: int, logits: Tensor, rows: Sequence[Row], starts: Sequence[int]) -> None:
    if logits.isfinite().all():
        return
    fine: list[bool] = logits.isfinite().all(dim=-1).tolist()  # (R,)
    own = zip(rows, starts, starts[1:], strict=False)
    raise NotFiniteError(step, [row.request_id for row, a, b in own if not all(fine[a:b])])
