"""Trains the shipped model: `python -m nanogpt.checkpoints.train --corpus input.txt`.

The whole state, random generator included, is written every few hundred steps, and the same command
resumes from it. The corpus is verified by its hash, so a validation loss is always of one text.
"""

import argparse
import dataclasses
import hashlib
import math
import os
import pickle
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from nanogpt.checkpoints.tokenizer import encode
from nanogpt.checkpoints.weights import SHAKESPEARE, save_model
from nanogpt.config import ModelConfig
from nanogpt.model import GPT

CORPUS_URL = (
    "https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare/input.txt"
)
CORPUS_SHA256 = "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed"
CORPUS_HELP = "Tiny Shakespeare's input.txt (default: it is downloaded)"


@dataclasses.dataclass(frozen=True, slots=True)
class TrainConfig:
    """How to train. Units: `batch_size` rows of a full context per step; rates per step."""

    steps: int = 8000
    batch_size: int = 8
    peak_rate: float = 2e-3
    final_rate: float = 1e-4
    warmup_steps: int = 200
    weight_decay: float = 0.1
    evaluate_every: int = 500
    seed: int = 1337

    def rate(self, step: int) -> float:
        """Learning rate of `step`: a linear warm-up, then half a cosine."""
        if step < self.warmup_steps:
            return self.peak_rate * (step + 1) / self.warmup_steps
        progress = (step - self.warmup_steps) / max(1, self.steps - self.warmup_steps)
        cosine = 0.5 * (1 + math.cos(math.pi * min(1.0, progress)))
        return self.final_rate + (self.peak_rate - self.final_rate) * cosine


def read_corpus(path: Path | None) -> str:
    """Read the corpus from `path`, or download it, and verify that it is Tiny Shakespeare.

    Raises: ValueError when there is nothing to read or the text has another hash.
    """
    source = str(path) if path else CORPUS_URL
    try:
        if path:
            raw = path.read_bytes()
        else:
            with urllib.request.urlopen(CORPUS_URL, timeout=30) as reply:
                raw = reply.read()
    except (OSError, urllib.error.URLError) as error:
        raise ValueError(f"cannot read the corpus from {source}: {error}") from None
    digest = hashlib.sha256(raw).hexdigest()
    if digest != CORPUS_SHA256:
        raise ValueError(f"{source} has sha256 {digest}, but Tiny Shakespeare has {CORPUS_SHA256}")
    return raw.decode()


def split(tokens: Tensor) -> tuple[Tensor, Tensor]:
    """Cut tokens (N,) into the first 90 % for training and the last 10 % for validation."""
    cut = int(0.9 * len(tokens))
    return tokens[:cut], tokens[cut:]


@torch.no_grad()
def validation_loss(model: GPT, tokens: Tensor) -> float:
    """Mean cross-entropy, nats per character, over full windows. Shapes: tokens (N,)."""
    window = model.config.max_model_len
    count = (len(tokens) - 1) // window
    inputs = tokens[: count * window].view(count, window)  # (count, max_model_len)
    targets = tokens[1 : count * window + 1].view(count, window)  # (count, max_model_len)
    total = 0.0
    for start in range(0, count, 16):
        rows = slice(start, start + 16)
        _, loss = model(inputs[rows], targets[rows])
        total += loss.item() * len(inputs[rows])
    return total / count


class Trainer:
    """A training run that can be saved and resumed. Mutable."""

    def __init__(
        self, tokens: Tensor, sizes: ModelConfig, config: TrainConfig, device: str
    ) -> None:
        torch.manual_seed(config.seed)
        self.config = config
        self.device = device
        train_tokens, val_tokens = split(tokens.to(device))
        self.train_tokens, self.val_tokens = train_tokens, val_tokens
        self.model = GPT(sizes).to(device)
        matrices = [p for p in self.model.parameters() if p.dim() == 2]
        gains = [p for p in self.model.parameters() if p.dim() < 2]
        groups = [
            {"params": matrices, "weight_decay": config.weight_decay},
            {"params": gains, "weight_decay": 0.0},
        ]
        self.optimizer = torch.optim.AdamW(groups, lr=config.peak_rate, betas=(0.9, 0.95))
        self.generator = torch.Generator().manual_seed(config.seed)
        self.step = 0
        self.seconds = 0.0
        self.best_loss = math.inf

    def train_step(self) -> float:
        """Take one optimisation step on random windows; return its training loss."""
        started = time.perf_counter()
        length = self.model.config.max_model_len
        last = len(self.train_tokens) - length - 1
        starts = torch.randint(last, (self.config.batch_size, 1), generator=self.generator)
        index = (starts + torch.arange(length)).to(self.device)  # (B, T)
        for group in self.optimizer.param_groups:
            group["lr"] = self.config.rate(self.step)
        with torch.autocast(self.device, torch.bfloat16):
            _, loss = self.model(self.train_tokens[index], self.train_tokens[index + 1])
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.step += 1
        self.seconds += time.perf_counter() - started
        return loss.item()

    @property
    def settings(self) -> dict[str, dict[str, Any]]:
        """The settings that a run shares with the saved state from which it goes on."""
        configs = {"config": self.config, "sizes": self.model.config}
        return {name: dataclasses.asdict(config) for name, config in configs.items()}

    def save(self, path: Path) -> None:
        """Write the whole state; a crash in the middle leaves the previous file in place."""
        state = {
            **self.settings,
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "generator": self.generator.get_state(),
            "progress": (self.step, self.seconds, self.best_loss),
        }
        partial = path.with_suffix(".state-partial")
        torch.save(state, partial)
        os.replace(partial, path)

    def resume(self, path: Path) -> None:
        """Load the state written by `save`. Raises: ValueError for a run with other settings."""
        try:
            state: dict[str, Any] = torch.load(path, map_location=self.device, weights_only=True)
        except (OSError, RuntimeError, EOFError, pickle.UnpicklingError) as error:
            raise ValueError(f"{path} is not a readable training state: {error}") from None
        for name, settings in self.settings.items():
            if state[name] != settings:
                raise ValueError(f"{path} was trained with {state[name]}, not with {settings}")
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.generator.set_state(state["generator"].cpu())
        self.step, self.seconds, self.best_loss = state["progress"]


def train(
    trainer: Trainer, state_path: Path, weights_path: Path, say: Callable[[str], None]
) -> None:
    """Train to the configured step, saving the state and the best weights along the way."""
    config = trainer.config
    while trainer.step < config.steps:
        loss = trainer.train_step()
        if trainer.step % config.evaluate_every == 0 or trainer.step == config.steps:
            val = validation_loss(trainer.model, trainer.val_tokens)
            say(f"step {trainer.step}: train {loss:.4f}, val {val:.4f}, {trainer.seconds:.0f} s")
            if val < trainer.best_loss:
                trainer.best_loss = val
                save_model(trainer.model, weights_path)
            trainer.save(state_path)


def main() -> None:
    """Parse the command line and train, resuming when a state file is there."""
    usual, out = TrainConfig(), Path("shakespeare.safetensors")
    device = "cuda" if torch.cuda.is_available() else "cpu"
    parser = argparse.ArgumentParser(
        "python -m nanogpt.checkpoints.train",
        description="Trains the shipped nanoGPT on Tiny Shakespeare.",
        allow_abbrev=False,
    )
    parser.add_argument("--corpus", type=Path, help=CORPUS_HELP)
    for option, default, text in (
        ("--out", out, "file for the weights"),
        ("--steps", usual.steps, "training steps"),
        ("--seed", usual.seed, "seed of the weights and batches"),
        ("--device", device, "torch device"),
    ):
        text = f"{text} (default: %(default)s)"
        parser.add_argument(option, type=type(default), default=default, help=text)
    options = parser.parse_args()
    if not options.out.parent.is_dir():
        parser.error(f"--out is {options.out}; there is no folder {options.out.parent}")
    try:
        torch.empty(0, device=options.device)
    except (RuntimeError, AssertionError):
        parser.error(f"--device is {options.device!r}; torch finds no such device here")
    try:
        tokens = torch.tensor(encode(read_corpus(options.corpus)))  # (N,)
        config = TrainConfig(steps=options.steps, seed=options.seed)
        trainer = Trainer(tokens, SHAKESPEARE, config, options.device)
        state_path = options.out.with_suffix(".state")
        if state_path.exists():
            trainer.resume(state_path)
    except ValueError as error:
        parser.error(str(error))
    train(trainer, state_path, options.out, lambda line: print(line, flush=True))


if __name__ == "__main__":
    main()
