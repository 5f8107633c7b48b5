"""`python -m nanogpt.server` serves the shipped model over HTTP, as the OpenAI API has it."""

import os
import sys
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from nanogpt.experiments.command_line import Number, Parser, Whole
from nanogpt.server.server_settings import MOST_MS, MOST_REQUESTS, ServerSettings

if TYPE_CHECKING:
    from nanogpt.checkpoints.pieces import Tokenizer
    from nanogpt.engine import Engine
    from nanogpt.server.deadlines import Deadlines

KEY = "NANOGPT_API_KEY"
INTERRUPTED = 130
MOST_TOKENS = 10**6


def main(argv: Sequence[str]) -> int:
    """Runs the command; returns the exit status."""
    parser = _parser()
    options = parser.parse_args(argv)
    try:
        settings = ServerSettings(
            model_name=options.model_name,
            api_key=os.environ.get(KEY),
            max_requests=options.max_requests,
            max_prompt_tokens=options.max_prompt_tokens,
            max_body_bytes=options.max_body_kib * 1024,
            stream_interval_ms=options.stream_interval_ms,
            shutdown_s=options.shutdown_s,
            keep_alive_s=options.keep_alive_s,
        )
        from nanogpt.server.deadlines import Deadlines

        deadlines = Deadlines()
        engine, tokenizer = _engine(options, deadlines)
    except ValueError as error:
        parser.error(str(error))
    from nanogpt.server.serving import serve  # slow to import

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


def _engine(options: Namespace, deadlines: "Deadlines") -> "tuple[Engine, Tokenizer]":
    """What is asked for. Raises: ValueError for what there is not, or does not fit together."""
    # Only now what is slow to import.
    import torch

    from nanogpt.checkpoints.pieces import CHARACTERS, tokenizer_for
    from nanogpt.checkpoints.weights import SHIPPED_WEIGHTS, load_model
    from nanogpt.clock import WallClock
    from nanogpt.config import EngineConfig
    from nanogpt.engine import Engine
    from nanogpt.speculative.trigram import TrigramDraft

    torch.set_num_threads(options.threads)
    path = options.model or SHIPPED_WEIGHTS
    model, tokenizer = load_model(path), tokenizer_for(path)
    tokenizer.check_fits(model.config.vocab_size)
    config = EngineConfig(
        token_budget=options.token_budget,
        max_kv_tokens=options.max_kv_tokens,
        max_batch_size=options.max_batch_size,
        policy=deadlines.key if options.policy == "deadline" else options.policy,
        temperature=options.temperature,
        num_draft_tokens=options.num_draft_tokens,
        block_size=options.block_size or None,
        share_prefixes=options.block_size > 0 and options.share_prefixes == "yes",
    )
    if config.num_draft_tokens and tokenizer is not CHARACTERS:
        raise ValueError("--num-draft-tokens: the draft's tokens are the character model's")
    draft = TrigramDraft.load() if config.num_draft_tokens else None
    return Engine(model, config, clock=WallClock(), draft=draft), tokenizer


def _parser() -> Parser:
    usual = ServerSettings()
    parser = Parser(
        "python -m nanogpt.server",
        "Serves a model over HTTP; its page /live shows it at work. Clients have to send the key "
        f"in {KEY}, if it is set.",
    )
    parser.add_argument(
        "--host", default="127.0.0.1", help="where to listen (default 127.0.0.1: this machine)"
    )
    parser.option("--port", Whole(1, 65535), 8000, "where to listen")
    parser.add_argument(
        "--model", type=Path, help="safetensors of a character model, or a folder with a GPT-2 in "
        "Hugging Face's form and its tokenizer (left out: the shipped model)",
    )  # fmt: skip
    parser.add_argument(
        "--model-name", default=usual.model_name, help=f"its name (default {usual.model_name})"
    )
    parser.option("--threads", Whole(1, 256), 1, "threads that torch computes with")
    _engine_options(parser)
    parser.option(
        "--max-requests", Whole(1, MOST_REQUESTS), usual.max_requests,
        "requests that may be unfinished at once; one more is answered by 429",
    )  # fmt: skip
    parser.option(
        "--max-prompt-tokens", Whole(1, MOST_TOKENS), None, "of a prompt; left out, the context"
    )
    parser.option("--max-body-kib", Whole(1, 10**6), usual.max_body_bytes // 1024, "of a request")
    parser.option(
        "--stream-interval-ms", Whole(0, MOST_MS), usual.stream_interval_ms,
        "least time between two events of a stream; 0 sends what each step gives",
    )  # fmt: skip
    parser.option(
        "--shutdown-s", Whole(0, 3600), usual.shutdown_s, "for the unfinished, once told to stop"
    )
    parser.option(
        "--keep-alive-s", Whole(1, 3600), usual.keep_alive_s, "until an idle connection is closed"
    )
    return parser


def _engine_options(parser: Parser) -> None:
    parser.option("--token-budget", Whole(1, MOST_TOKENS), 64, "tokens that a step may compute")
    parser.option("--max-batch-size", Whole(1, 1024), 32, "requests that run at once")
    parser.option(
        "--max-kv-tokens", Whole(1, 10**9), None, "KV tokens of all; left out, a context for each"
    )
    parser.choice(
        "--policy", ("fcfs", "priority", "deadline"), "fcfs",
        "what goes first: the first to come, the smallest X-Priority, the earliest X-SLO-TTFT-MS",
    )  # fmt: skip
    parser.option("--temperature", Number(0, 2), 1.0, "of requests that name none")
    parser.option(
        "--num-draft-tokens", Whole(0, 64), 0,
        "drafts for each decode; above temperature 0 a seed then fixes the distribution of a text "
        "and not the text",
    )  # fmt: skip
    parser.option(
        "--block-size", Whole(0, MOST_TOKENS), 16, "tokens of a block of K/V; 0: a slot for each"
    )
    parser.choice(
        "--share-prefixes", ("yes", "no"), "yes", "whether requests that begin alike share blocks"
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
