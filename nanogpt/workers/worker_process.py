"""One engine worker: a process with an engine and blocks of its own.

    python -m nanogpt.workers.worker_process LINK

The worker takes in new orders between two steps, and ends with its parent.
"""

from dataclasses import asdict
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
from nanogpt.workers.kv_frames import FrameError, read_frame, write_frame
from nanogpt.workers.worker_messages import (
    Abort,
    Aborted,
    Crashed,
    Decode,
    Forget,
    Load,
    Prefill,
    Ready,
    Received,
    Sent,
    Stepped,
)


class Worker:
    """An engine that reports every step. Mutable: the engine, the hashes it has reported."""

    def __init__(self, model: GPT, config: EngineConfig) -> None:
        self.engine = Engine(model, config)
        self._reported: frozenset[str] = frozenset()
        self._sending: dict[int, Prefill] = {}

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

    def carry_out(self, order: "Request | Prefill | Decode | Abort") -> list[object]:
        """Carry out an order; return what to report at once."""
        match order:
            case Prefill(request):
                self._sending[request.id] = order
                reports = [self.submit(request)]
            case Decode(request, path):
                reports = [self.receive_blocks(request, path), self.submit(request)]
            case Abort(request_id) if request_id in self.engine.requests:
                self.engine.abort(request_id)
                self._sending.pop(request_id, None)
                reports = [Aborted((request_id,), "aborted")]
            case Abort():
                reports = []
            case _:
                reports = [self.submit(order)]
        return [report for report in reports if report is not None]

    def receive_blocks(self, request: Request, path: str) -> Received:
        """Let the request find the K/V of a frame. Whatever it cannot find it computes itself."""
        cache = self.engine.cache
        assert isinstance(cache, KVCache)
        try:
            frame = read_frame(Path(path), cache.storage.dtype)
            hashes = cache.hashes(request, request.prompt_tokens)
            first, end = frame.first_block, frame.first_block + len(frame.hashes)
            if hashes[first:end] != list(frame.hashes):
                raise FrameError("the frame holds the blocks of another text")
            num_blocks = cache.import_blocks(hashes[:end], first, frame.kv)
        except FrameError as error:
            return Received(request.id, 0, str(error))
        return Received(request.id, num_blocks)

    def send_blocks(self, request_id: int) -> Sent | None:
        """Write the frame of a request that has finished, if it is one to send."""
        order, cache = self._sending.pop(request_id, None), self.engine.cache
        if order is None:
            return None
        assert isinstance(cache, KVCache)
        tokens = order.request.prompt_tokens
        hashes = cache.hashes(Request(0, tokens, 1, cache_salt=order.request.cache_salt), tokens)
        hashes = [hashes[block] for block in order.blocks]
        try:
            kv = cache.export_blocks(hashes)
            num_bytes = write_frame(Path(order.path), order.blocks[0], hashes, kv)
        except (OSError, KeyError):  # no room for the frame, or a block was evicted already
            num_bytes = 0
        return Sent(request_id, num_bytes)

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
        self.engine.forget_step()  # a request whose prompt was computed here may come back whole
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
            order: Request | Prefill | Decode | Abort | Forget = receive(pipe)
            if isinstance(order, Forget):
                worker = Worker(model, config)
                send(pipe, Ready())
                continue
            for report in worker.carry_out(order):
                send(pipe, report)
        try:
            report = worker.step()
        except Exception as error:
            report = Aborted(tuple(worker.engine.requests), _said(error), is_certain=False)
            worker = Worker(model, config)
        if report is not None:
            send(pipe, report)
        for request_id in report.finished if isinstance(report, Stepped) else ():
            if sent := worker.send_blocks(request_id):
                send(pipe, sent)


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
