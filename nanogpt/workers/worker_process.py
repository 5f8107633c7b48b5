"""One engine worker: a process with an engine and blocks of its own, stepping on and on.

    python -m nanogpt.workers.worker_process LINK

Orders come in over the socket while steps run; between two steps the worker takes in what has
arrived. Once the parent is gone, nothing is left to serve, and the process ends at once.
"""

import os
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import IO

import torch

from nanogpt.blocks import BlockKVCache
from nanogpt.child_process import parent_link
from nanogpt.config import EngineConfig
from nanogpt.engine import Engine
from nanogpt.executors.base import Executor, ForwardResult, Row
from nanogpt.model import GPT
from nanogpt.request import Request
from nanogpt.workers import worker_messages
from nanogpt.workers.shared_model import map_model
from nanogpt.workers.worker_messages import Crashed, Forget, Load, Order, Ready, Serve, Stepped


class ListeningExecutor:
    """An executor that remembers its newest result. Mutable: `logits` (R, V)."""

    def __init__(self, executor: Executor) -> None:
        self.executor = executor
        self.name = executor.name
        self.verifies_drafts, self.reads_cache = executor.verifies_drafts, executor.reads_cache
        self.logits = torch.empty(0, 0)

    def run(self, rows: Sequence[Row]) -> ForwardResult:
        """What the executor says. Shapes: logits (R, V)."""
        result = self.executor.run(rows)
        self.logits = result.logits
        return result


class Worker:
    """An engine that carries out orders, and what it has to tell of every step.

    Mutable: the engine; `wanted`, the requests, by id, whose first logits are asked for; the
    hashes that it has told of.
    """

    def __init__(self, model: GPT, config: EngineConfig) -> None:
        self.engine = Engine(model, replace(config, keep_steps=1))  # the fleet keeps the records
        self.executor = ListeningExecutor(self.engine.executor)
        self.engine.executor = self.executor
        self.wanted: set[int] = set()
        self._told: frozenset[str] = frozenset()

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing to step for."""
        return self.engine.scheduler.is_done()

    def take(self, order: Serve) -> None:
        """Accept a request. Raises: ValueError for one that the engine refuses."""
        request = Request(
            id=order.request_id,
            prompt_tokens=list(order.prompt_tokens),
            max_new_tokens=order.max_new_tokens,
            priority=order.priority,
            temperature=order.temperature,
            seed=order.seed,
            cache_salt=order.cache_salt,
        )
        self.engine.submit(request)
        if order.want_logits:
            self.wanted.add(order.request_id)

    def step(self) -> Stepped:
        """Run one step; what it returns may be told, since the step has committed.

        Raises: whatever goes wrong in the engine.
        """
        record = self.engine.step()
        sampled = {work.request_id: i for i, work in enumerate(record.work) if work.tokens}
        # Row i has logits i, as no worker has drafts. Cloned: a pickled view would carry all rows.
        logits = {i: self.executor.logits[sampled[i]].clone() for i in self.wanted & sampled.keys()}
        self.wanted -= logits.keys()
        told, self._told = self._told, self.found()
        return Stepped(
            work=record.work,
            hits=record.prefix_hits,
            preempted=record.preempted,
            finished=record.finished,
            published=self._told - told,
            evicted=told - self._told,
            logits=logits,
        )

    def found(self) -> frozenset[str]:
        """By which hashes blocks can be found now; none where K/V lies in slots."""
        cache = self.engine.cache
        return frozenset(cache.pool.block_of if isinstance(cache, BlockKVCache) else ())


def serve(model: GPT, config: EngineConfig, inbox: "SimpleQueue[Order]", out: IO[bytes]) -> None:
    """Take in orders and step, for ever. Raises: whatever goes wrong in the engine."""
    worker = Worker(model, config)
    worker_messages.send(out, Ready())
    while True:
        while order := _next_order(inbox, wait=worker.is_idle):
            if isinstance(order, Forget):
                worker = Worker(model, config)
                worker_messages.send(out, Ready())
            else:
                worker.take(order)
        worker_messages.send(out, worker.step())


def _next_order(inbox: "SimpleQueue[Order]", *, wait: bool) -> Order | None:
    """The next order, waited for if so wanted; None when there is none."""
    try:
        return inbox.get(block=wait)
    except Empty:
        return None


def read_orders(stream: IO[bytes], inbox: "SimpleQueue[Order]") -> None:
    """Hand on orders until they end, which they do with the parent; then end this process."""
    try:
        while True:
            inbox.put(worker_messages.receive(stream))
    except EOFError:
        os._exit(0)  # whatever the main thread is doing
    except BaseException:
        os._exit(1)


def main() -> None:
    """Set the process up and serve."""
    link = parent_link()
    orders, out = link.makefile("rb"), link.makefile("wb")
    torch.set_num_threads(1)  # workers share the machine; more would only get in each other's way
    try:
        load: Load = worker_messages.receive(orders)
        inbox: SimpleQueue[Order] = SimpleQueue()
        threading.Thread(target=read_orders, args=(orders, inbox), daemon=True).start()
        with torch.inference_mode():
            serve(map_model(Path(load.weights)), load.config, inbox, out)
    except EOFError:
        return  # the parent is gone before there was anything to do
    except Exception as error:
        worker_messages.send(out, Crashed(f"{type(error).__name__}: {error}"))
        os._exit(1)  # the thread that waits for input would get in the way of an orderly end


if __name__ == "__main__":
    main()
