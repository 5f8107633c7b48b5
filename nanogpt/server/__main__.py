"""`python -m nanogpt.server` serves the shipped model over HTTP, as the OpenAI API has it."""

import argparse
import os
import socket
import sys
from collections.abc import Sequence
from pathlib import Path

import psutil
import torch

from nanogpt.checkpoints.tokenizer import CHARACTERS, Tokenizer, tokenizer_for
from nanogpt.checkpoints.weights import SHIPPED_WEIGHTS, load_model
from nanogpt.clock import WallClock
from nanogpt.config import EngineConfig
from nanogpt.engine import Engine
from nanogpt.model import GPT
from nanogpt.server.admission import Deadlines
from nanogpt.server.openai_api import template_of
from nanogpt.server.server_settings import ServerSettings
from nanogpt.server.serving import serve
from nanogpt.speculative.trigram import TrigramDraft
from nanogpt.validate import check_int

KEY = "NANOGPT_API_KEY"
INTERRUPTED = 130
MOST_THREADS = 256
"""The limit of `--threads`, or the number of processors if that is larger.

OpenMP crashes where it cannot start all of them.
"""


def main(argv: Sequence[str]) -> int:
    """Runs the command; returns the exit status."""
    parser = _parser()
    options = parser.parse_args(argv)
    deadlines = Deadlines()
    try:
        settings = ServerSettings(
            model_name=options.model_name,
            api_key=os.environ.get(KEY),
            max_requests=options.max_requests,
            max_body_bytes=options.max_body_kib * 1024,
            stream_interval_ms=options.stream_interval_ms,
            shutdown_s=options.shutdown_s,
        )
        engine, tokenizer = _engine(options, deadlines)
    except ValueError as error:
        parser.error(str(error))

    def announce(url: str) -> None:
        sys.stderr.write(f"{settings.model_name} is served at {url}\n")

    try:
        serve(
            lambda: engine, settings, host=options.host, port=options.port, deadlines=deadlines,
            tokenizer=tokenizer, announce=announce,
        )  # fmt: skip
    except KeyboardInterrupt:
        return INTERRUPTED
    return 0


def _engine(options: argparse.Namespace, deadlines: Deadlines) -> tuple[Engine, Tokenizer]:
    """The engine and its tokenizer. Raises: ValueError for options that do not fit together."""
    check_int("--threads", options.threads, 1, max(MOST_THREADS, os.cpu_count() or 1))
    check_int("--port", options.port, 1, 65535)
    try:
        socket.getaddrinfo(options.host or None, options.port)
    except OSError as error:
        raise ValueError(f"--host is {options.host!r}: {error.strerror}") from None
    torch.set_num_threads(options.threads)
    path = options.model or SHIPPED_WEIGHTS
    model, tokenizer = load_model(path, getattr(torch, options.dtype)), tokenizer_for(path)
    tokenizer.check_fits(model.config.vocab_size)
    template_of(tokenizer)  # refuses one that is no Jinja
    config = EngineConfig(
        token_budget=options.token_budget,
        max_kv_tokens=options.max_kv_tokens or _kv_tokens(model, options),
        max_batch_size=options.max_batch_size,
        policy=deadlines.key if options.policy == "deadline" else options.policy,
        temperature=options.temperature,
        num_draft_tokens=options.num_draft_tokens,
        block_size=options.block_size or None,
        share_prefixes=options.block_size > 0 and options.share_prefixes == "yes",
        host_kv_tokens=options.host_kv_tokens or None,
    )
    if config.num_draft_tokens and tokenizer is not CHARACTERS:
        raise ValueError("--num-draft-tokens: the draft's tokens are the character model's")
    draft = TrigramDraft.load() if config.num_draft_tokens else None
    return Engine(model, config, clock=WallClock(), draft=draft), tokenizer


def _kv_tokens(model: GPT, options: argparse.Namespace) -> int | None:
    """KV tokens in half of the free memory; None where that is enough for a context each."""
    config, itemsize = model.config, model.token_embedding.weight.itemsize
    bytes_each = 2 * config.num_layers * config.num_kv_heads * config.head_size * itemsize
    most = psutil.virtual_memory().available // 2 // bytes_each
    return most if most < options.max_batch_size * config.max_model_len else None


def _parser() -> argparse.ArgumentParser:
    usual = ServerSettings()
    parser = argparse.ArgumentParser(
        "python -m nanogpt.server",
        description="Serves a model over HTTP; its page /live shows it at work. If the variable "
        f"{KEY} is set, clients have to send that key.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("--host", default="127.0.0.1", help="address to listen on; 127.0.0.1 is only this machine")
    add("--port", type=int, default=8000, help="port to listen on")
    add("--model", type=Path, help="safetensors of a character model, or a folder with a GPT-2, "
        "Llama 3, Qwen2.5 or Qwen3 in Hugging Face's form; None is the shipped model")  # fmt: skip
    add("--dtype", choices=("float32", "bfloat16"), default="float32", help="what the model "
        "computes in; bfloat16 is for a folder, and takes half the memory")  # fmt: skip
    add("--model-name", default=usual.model_name, help="the name that clients give")
    add("--threads", type=int, default=1, help="threads that torch computes with")
    add("--token-budget", type=int, default=64, help="most tokens computed in a step")
    add("--max-batch-size", type=int, default=32, help="most requests in a step")
    add("--max-kv-tokens", type=int, help="KV tokens of all requests; None: a context for "
        "each, if half of the free memory holds them")  # fmt: skip
    add("--policy", choices=("fcfs", "priority", "deadline"), default="fcfs", help="order: by "
        "arrival, by X-Priority (smallest first), by X-SLO-TTFT-MS (earliest first)")  # fmt: skip
    add("--temperature", type=float, default=1.0, help="temperature of requests that name none")
    add("--num-draft-tokens", type=int, default=0, help="draft tokens for each decode; above "
        "temperature 0 a seed then fixes the distribution of a text and not the text")  # fmt: skip
    add("--block-size", type=int, default=16, help="tokens in a block of K/V; 0: a slot for each "
        "request")  # fmt: skip
    add("--share-prefixes", choices=("yes", "no"), default="yes", help="whether requests with the "
        "same beginning share blocks")  # fmt: skip
    add("--host-kv-tokens", type=int, default=0, help="KV tokens of shared blocks that host "
        "memory keeps when the pool evicts them; 0: none")  # fmt: skip
    add("--max-requests", type=int, default=usual.max_requests, help="most unfinished requests; "
        "one more is answered with 429")  # fmt: skip
    add("--max-body-kib", type=int, default=usual.max_body_bytes // 1024, help="largest "
        "body of a request, in KiB")  # fmt: skip
    add("--stream-interval-ms", type=int, default=usual.stream_interval_ms, help="least ms "
        "between two events of a stream; 0: an event for each step")  # fmt: skip
    add("--shutdown-s", type=int, default=usual.shutdown_s, help="seconds that unfinished "
        "requests have after SIGTERM")  # fmt: skip
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
