"""Sampling a step's logits: one token for each row that samples, accepted drafts before it.

Shapes: R logits, V vocabulary.
"""

from collections.abc import Sequence
from math import isfinite
from typing import TYPE_CHECKING

from nanogpt.outputs import (
    ModelOutput,
    NotFiniteError,
    Row,
    Sampled,
    SchedulerOutput,
    logits_starts,
)
from nanogpt.policies import Policies
from nanogpt.sampling import Filters, masked, penalized, sample_tokens, uniform

if TYPE_CHECKING:
    from torch import Tensor

    from nanogpt.speculative.drafting import Drafter


class Sampler:
    """Draws tokens, and returns each to its request by `assign_tokens`."""

    def __init__(self, policies: Policies, drafter: "Drafter | None") -> None:
        self.policies = policies
        self.drafter = drafter

    def sample(self, scheduled: SchedulerOutput, output: ModelOutput) -> dict[int, Sampled]:
        """The sampled token of each request, by id, in the order of the rows.

        `assign_tokens` is also given the requests that decoded before this step, with those that
        sample in it; the reference does not need them.

        Raises: NotFiniteError for logits that are not finite.
        """
        if not scheduled.rows:
            return {}
        starts = logits_starts(scheduled.rows)
        _check_finite(scheduled, output, starts)
        sampled = self._draw(scheduled.rows, output, starts)
        active_ids = list(dict.fromkeys((*scheduled.active_ids, *sampled)))
        tokens = [each.token for each in sampled.values()]
        owned = self.policies.assign_tokens(list(sampled), active_ids, tokens)
        return {
            i: each if owned[i] == each.token else Sampled(owned[i], each.num_accepted)
            for i, each in sampled.items()
        }

    def _draw(
        self, rows: Sequence[Row], output: ModelOutput, starts: Sequence[int]
    ) -> dict[int, Sampled]:
        logits, best = output.logits, output.best
        drawn: dict[int, Sampled] = {}
        alike: dict[tuple[float, Filters | None], list[int]] = {}
        for i, row in enumerate(rows):
            params = row.sampling
            if not row.samples:
                continue
            if row.drafted and self.drafter is not None:
                drawn[i] = self.drafter.judge(row, logits[starts[i] : starts[i + 1]])
            elif best is not None and (
                logits is None  # pyright: ignore[reportUnnecessaryComparison] (of recorded texts)
                or (params.temperature == 0 and params.filters is None)
            ):
                drawn[i] = Sampled(best[starts[i]])
            else:
                alike.setdefault((params.temperature, params.filters), []).append(i)
        for (temperature, filters), same in alike.items():
            draws = [draw_for(rows[i]) for i in same] if temperature else []
            own = logits if len(same) == len(logits) else logits[[starts[i] for i in same]]
            if filters is not None:
                own = penalized_rows(own, [rows[i] for i in same])
            tokens = sample_tokens(own, temperature, draws, filters)
            drawn |= {i: Sampled(token) for i, token in zip(same, tokens, strict=True)}
        return {row.request_id: drawn[i] for i, row in enumerate(rows) if row.samples}


def penalized_rows(logits: "Tensor", rows: Sequence[Row]) -> "Tensor":
    """The logits of rows with a grammar or `LogitsParams`. Shapes: (R, V) -> (R, V), float64."""
    import torch

    changed = list(logits.double())
    for i, row in enumerate(rows):
        if row.sampling.matcher is not None:
            changed[i] = masked(changed[i], row.sampling.matcher.masks()[0])
        if row.sampling.logits is not None:
            params, known = row.sampling.logits, row.token_ids
            changed[i] = penalized(changed[i], params, known, row.num_prompt_tokens)
    return torch.stack(changed)


def draw_for(row: Row) -> float:
    """The uniform number by which the row's next token is drawn."""
    params = row.sampling
    return uniform(params.seed, params.stream_id, len(row.token_ids), "sample")


def _check_finite(scheduled: SchedulerOutput, output: ModelOutput, starts: Sequence[int]) -> None:
    logits, best = output.logits, output.best
    if best is not None and min(best) >= 0:
        return
    if isfinite(logits.sum()) or logits.isfinite().all():  # a sum may overflow where none did
        return
    fine: list[bool] = logits.isfinite().all(dim=-1).tolist()  # (R,)
    own = zip(scheduled.rows, starts, starts[1:], strict=False)
    bad = [row.request_id for row, start, end in own if not all(fine[start:end])]
    raise NotFiniteError(scheduled.step, bad)
