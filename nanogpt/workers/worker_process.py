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
from nanogpt.model import GPT
from nanogpt.request import Request
from nanogpt.workers.worker_messages import Crashed, Forget, Load, Ready, Stepped


class Worker:
    """An engine that reports every step. Mutable: the engine, the hashes it has reported."""

    def __init__(self, model: GPT, config: EngineConfig) -> None:
        self.engine = Engine(model, replace(config, keep_steps=1))  # the router keeps the records
        self._reported: frozenset[str] = frozenset()

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing to step for."""
        return self.engine.scheduler.is_done()

    def step(self) -> Stepped:
        """Run one step and report it. Raises: whatever goes wrong in the engine."""
        record = self.engine.step()
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


def write_model(model: GPT, path: Path) -> None:
    """Write sizes and weights to a file that several processes can map."""
    torch.save({"config": asdict(model.config), "weights": model.state_dict()}, path)


def map_model(path: Path) -> GPT:
    """The model in the file, mapped privately: its weights are in memory once for all workers."""
    file = torch.load(path, mmap=True, weights_only=True)
    model = model_to_fill(ModelConfig(**file["config"]), path)
    model.load_state_dict(file["weights"], assign=True)
    return model.eval().requires_grad_(False)


def serve(model: GPT, config: EngineConfig, pipe: "Connection[Any, Any]") -> None:
    """Take in orders and step, for ever. Raises: whatever goes wrong in the engine."""
    worker = Worker(model, config)
    send(pipe, Ready())
    while True:
        while worker.is_idle or pipe.poll():
            order: Request | Forget = receive(pipe)
            if isinstance(order, Forget):
                worker = Worker(model, config)
                send(pipe, Ready())
            else:
                worker.engine.submit(order)
        send(pipe, worker.step())


def main() -> None:
    """Set the process up and serve."""
    pipe: Connection[Any, Any] = Connection(parent_link().detach())
    end_with_parent()
    torch.set_num_threads(1)  # workers share the machine
    try:
        load: Load = receive(pipe)
        with torch.inference_mode():
            serve(map_model(Path(load.weights)), load.config, pipe)
    except EOFError:
        return  # the parent is gone
    except Exception as error:
        send(pipe, Crashed(f"{type(error).__name__}: {error}"))


if __name__ == "__main__":
    main()
