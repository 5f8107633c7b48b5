"""Behind lesson 3b's last section: a request's logits in company, compared bit by bit."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from nanogpt import GPT, Engine, EngineConfig, Policies, Request, Trace, encode
from nanogpt.clock import WallClock
from nanogpt.features import executor_type

_OTHERS = (
    "JULIET:\nO Romeo, ",
    "HAMLET:\nAlas, poor ",
    "A",
    "MACBETH:\nTo-morrow, and to-morrow, " * 3,
)
_COMPANIES = {
    "one other": (64, _OTHERS[:1]),
    "four others": (64, _OTHERS),
    "four others, chunks of at most 7": (7, _OTHERS),
}


def bits_table(model: GPT) -> str:
    """How many of Romeo's logits keep their last bit in company, plainly and batch-invariantly."""
    configs = [
        EngineConfig(token_budget=64, executor=each) for each in ("packed", "batch_invariant")
    ]
    by_oneself = [_listen(model, config, ())[0] for config in configs]
    rows: list[str] = []
    for name, (budget, texts) in _COMPANIES.items():
        cells: list[str] = []
        spent: list[int] = []
        for config, alone in zip(configs, by_oneself, strict=True):
            heard, trace = _listen(model, replace(config, token_budget=budget), texts)
            both = alone.keys() & heard.keys()
            equal = sum(torch.equal(alone[n], heard[n]) for n in both)
            spent.append(trace.steps[-1].end_us - trace.steps[0].start_us)
            cells.append(f"{equal} of {len(both)}")
        plain, same = cells
        rows.append(f"| {name} | {plain} | **{same}** | ×{spent[1] / spent[0]:.1f} |")
    head = "| Romeo and | packed: equal to the last bit | batch-invariant | its time |"
    return "\n".join([head, "|:--|--:|--:|--:|", *rows])


def _listen(
    model: GPT, config: EngineConfig, company: Sequence[str]
) -> tuple[dict[int, Tensor], Trace]:
    """Romeo's logits by the number of tokens computed, in some company; and the run."""
    heard: dict[int, Tensor] = {}

    def listening(model: GPT, cache: Any, policies: Policies) -> Any:
        executor = executor_type(config)(model, cache, policies)

        class Listener:
            name = executor.name

            def execute(self, rows: Any) -> Any:
                result = executor.execute(rows)
                for row, logits in zip(rows, result.logits, strict=True):
                    if row.request_id == 0:
                        heard[row.seq_len] = logits.clone()
                return result

        return Listener()

    romeo = (0, Request(0, encode("ROMEO:\nBut, soft! "), 40))
    others = [(2 * i, Request(1 + i, encode(text), 30)) for i, text in enumerate(company)]
    engine = Engine(model, config, clock=WallClock(), make_executor=listening)
    return heard, engine.run([romeo, *others])
