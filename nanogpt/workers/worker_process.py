"""One engine worker: a process with an engine and blocks of its own.

    python -m nanogpt.workers.worker_process LINK

The worker takes in new orders between two steps, and ends with its parent.
"""

from dataclasses import asdict, replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch

from nanogpt.checkpoints.filling import model_to_fill
from nanogpt.child_process import end_with_parent, parent_link, receive, send
from nanogpt.config import EngineConfig, ModelConfig
from nanogpt.engine import Engine
from nanogpt.kv_cache import KVCache
from nanogpt.llama import Llama, LlamaConfig
from nanogpt.model import GPT
from nanogpt.outputs import NotFiniteError
from nanogpt.request import Request
from nanogpt.workers.worker_messages import Aborted, Crashed, Forget, Load, Ready, Stepped


class Worker:
    """An engine that reports every step. Mutable: the engine, the hashes it has reported."""

    def __init__(self, model: GPT, config: EngineConfig) -> None:
        self.engine = Engine(model, replace(config, keep_steps=1))  # the router keeps the records
        self._reported: frozenset[str] = frozenset()

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing to step for."""
        return self.engine.scheduler.is_done()

    def submit(self, request: Request) -> Aborted | None:
        """Submit a request; report it if the engine refuses it or its policy fails."""
        try:
            self.engine.submit(request)
        except Exception as error:
            return Aborted((request.id,), _said(error))
        return None

    def step(self) -> Stepped | Aborted | None:
        """Run one step and report it, or the requests that the engine aborted.

        None: logits were not finite, and the step will be tried again. Raises: whatever else goes
        wrong in the engine.
        """
        before = tuple(self.engine.requests)
        try:
            record = self.engine.step()
        except ValueError as error:
            aborted = tuple(i for i in before if i not in self.engine.requests)
            if not aborted and not isinstance(error, NotFiniteError):
                raise
            return Aborted(aborted, _said(error)) if aborted else None
        reported, self._reported = self._reported, self.block_hashes()
        return Stepped(
            work=record.work,
            hits=record.prefix_hits,
            preempted=record.preempted,
            finished=record.finished,
            published=self._reported - reported,
            evicted=reported - self._reported,
        )

    def block_hashes(self) -> frozenset[str]:
        """The hashes of the blocks that can be found now; none where K/V lies in slots."""
        cache = self.engine.cache
        return frozenset(cache.pool.block_of if isinstance(cache, KVCache) else ())


KINDS = {"GPT": (GPT, ModelConfig), "Llama": (Llama, LlamaConfig)}
"""The models that workers can serve."""


def write_model(model: GPT, path: Path) -> None:
    """Write a file that several processes can map. Raises: ValueError for another model."""
    kind = type(model).__name__
    if kind not in KINDS:
        raise ValueError(f"the model is a {kind}; worker processes serve {' or '.join(KINDS)}")
    torch.save({"kind": kind, "config": asdict(model.config), "weights": model.state_dict()}, path)


def map_model(path: Path) -> GPT:
    """The model in the file, mapped privately: its weights are in memory once for all workers."""
    file = torch.load(path, mmap=True, weights_only=True)
    kind, sizes = KINDS[file["kind"]]
    model = model_to_fill(sizes(**file["config"]), path, kind)
    model.load_state_dict(file["weights"], assign=True)
    return model.eval().requires_grad_(False)


def serve(model: GPT, config: EngineConfig, pipe: "Connection[Any, Any]") -> None:
    """Take in orders and step, for ever. Raises: EOFError or OSError when the router is gone."""
    worker = Worker(model, config)
    send(pipe, Ready())
    while True:
        while worker.is_idle or pipe.poll():
            order: Request | Forget = receive(pipe)
            if isinstance(order, Forget):
                worker = Worker(model, config)
                send(pipe, Ready())
            elif refused := worker.submit(order):
                send(pipe, refused)
        try:
            report = worker.step()
        except Exception as error:
            report = Aborted(tuple(worker.engine.requests), _said(error), is_certain=False)
            worker = Worker(model, config)
        if report is not None:
            send(pipe, report)


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def main() -> None:
    """Set the process up and serve."""
    pipe: Connection[Any, Any] = Connection(parent_link().detach())
    end_with_parent()
    torch.set_num_threads(1)  # workers share the machine
    try:
        load: Load = receive(pipe)  # pickle raises whatever an import or a class does
        with torch.inference_mode():
            serve(map_model(Path(load.weights)), load.config, pipe)
    except EOFError:
        return  # the parent is gone
    except Exception as error:
        send(pipe, Crashed(_said(error)))


if __name__ == "__main__":
    main()
