"""Our server under other people's load generator, and a peer's server beside it, in turns.

    python -m benchmarks.served --guidellm PATH [--transformers PATH] [--model character]

guidellm keeps 1, 8 and 32 streams open for some seconds each and says what its clients saw: time to
first token, time between tokens, tokens per second. With --transformers the same weights, tokens
and prompts are also served by `transformers serve` with continuous batching; the two servers take
turns, and the one whose turn it is not is stopped. Each computes on one thread, greedily. Neither
program is the course's: both bring a hundred packages along and live in environments of their own.
"""

import json
import os
import shutil
import statistics
import subprocess
import tempfile
import urllib.request
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.gpt2_folder import save_gpt2
from benchmarks.loads import MODELS, of_length
from benchmarks.measure import begin, median_and_range, option
from benchmarks.server import SIZE, START_S, STREAMS, Running, answering, our_server
from nanogpt.checkpoints.tokenizer import decode
from nanogpt.server.server_settings import ServerSettings

PROMPT_TOKENS = 64
NUM_PROMPTS = 400
OURS, PEER = "nanogpt.server", "transformers serve"
PEERS_SETTINGS = (
    "--host", "127.0.0.1", "--device", "cpu", "--dtype", "float32", "--continuous-batching",
    "--cb-max-batch-tokens", "64", "--cb-block-size", "32", "--cb-num-blocks", "160",
    "--port",
)  # fmt: skip
"""Room for 32 streams and little more: it computes every step over all the room that it has, and
with 512 blocks and 256 tokens a step takes ten times as long."""
ALONE = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
"""Nothing is fetched, and each process computes on one thread."""


@dataclass(frozen=True, slots=True)
class Seen:
    """The clients' view of so many streams in one turn. Times in milliseconds."""

    streams: int
    completed: int
    failed: int
    ttft_ms: float
    ttft_p95_ms: float
    itl_ms: float
    itl_p95_ms: float
    tokens_per_s: float


@dataclass(frozen=True, slots=True)
class Target:
    """A server that runs, and the name that it knows the model by."""

    running: Running
    model: str


def turn(guidellm: str, target: Target, tokens: int, seconds: int, number: int) -> list[Seen]:
    """One run of the generator over all numbers of streams; prompts are new in each."""
    streams = ",".join(map(str, STREAMS))
    prompts = of_length(PROMPT_TOKENS, NUM_PROMPTS, tokens, seed=number).prompts
    with tempfile.TemporaryDirectory() as folder:
        data, report = Path(folder) / "prompts.jsonl", Path(folder) / "report.json"
        lines = [json.dumps({"prompt": decode(prompt)}) + "\n" for prompt in prompts]
        data.write_text("".join(lines), encoding="utf-8")
        backend = {
            "kind": "openai_http", "target": f"http://127.0.0.1:{target.running.port}",
            "model": target.model, "request_format": "/v1/completions", "max_tokens": tokens,
            "http2": "false",
        }  # fmt: skip
        options = {
            "--backend": ",".join(f"{name}={value}" for name, value in backend.items()),
            "--profile": f"kind=concurrent,streams={STREAMS[0]}",
            "--constraint": f"kind=max_duration,seconds={seconds}",
            "--data": f"kind=json_file,path={data}",
            "--output": f"kind=json,path={report}",
        }
        words = [word for pair in options.items() for word in pair]
        command = [guidellm, "run", *words, "--override", "profile.streams", streams]
        done = subprocess.run(
            [*command, "--disable-console"],
            env=os.environ | ALONE,
            capture_output=True,
            text=True,
            check=False,
        )
        assert report.is_file(), f"{guidellm} ended with {done.returncode}: {done.stderr[-2000:]}"
        return [seen_in(each) for each in json.loads(report.read_text())["benchmarks"]]


def seen_in(benchmark: dict[str, Any]) -> Seen:
    """One benchmark of guidellm's report, of version 0.8."""
    metrics = benchmark["metrics"]
    ttft = metrics["time_to_first_token_ms"]["successful"]
    itl = metrics["inter_token_latency_ms"]["successful"]
    totals = metrics["request_totals"]
    return Seen(
        streams=benchmark["config"]["strategy"]["streams"],
        completed=totals["successful"],
        failed=totals["errored"],
        ttft_ms=ttft["median"],
        ttft_p95_ms=ttft["percentiles"]["p95"],
        itl_ms=itl["median"],
        itl_p95_ms=itl["percentiles"]["p95"],
        tokens_per_s=metrics["output_tokens_per_second"]["total"]["mean"],
    )


def warm_up(target: Target, prompt: str = "ROMEO:\n" * 9, tokens: int = 32) -> None:
    """A text beforehand, which is not counted."""
    body = {"model": target.model, "prompt": prompt, "max_tokens": tokens, "stream": False}
    url = f"http://127.0.0.1:{target.running.port}/v1/completions"
    headers = {"content-type": "application/json"}
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=START_S) as answer:
        answer.read()


def take_turns(
    guidellm: str, targets: dict[str, Target], tokens: int, seconds: int, repeats: int
) -> dict[str, list[list[Seen]]]:
    """By server, what was seen in each of its turns."""
    seen: dict[str, list[list[Seen]]] = {name: [] for name in targets}
    try:
        for target in targets.values():
            warm_up(target)
            target.running.process.suspend()
        for number in range(repeats):
            for name, target in targets.items():
                target.running.process.resume()
                seen[name].append(turn(guidellm, target, tokens, seconds, number))
                target.running.process.suspend()
                print(f"turn {number + 1} of {repeats}: {name} is done", flush=True)
    finally:
        for target in targets.values():  # what is stopped cannot end
            target.running.process.resume()
    return seen


def line(name: str, turns: Sequence[Seen]) -> str:
    """A line of the table: medians of the turns, and of the tokens per second the spread."""

    def median(field: str) -> float:
        return statistics.median(getattr(each, field) for each in turns)

    spread = median_and_range([each.tokens_per_s for each in turns], 0)
    times = " | ".join(
        f"{median(f'{kind}_ms'):.1f}, {median(f'{kind}_p95_ms'):.1f}" for kind in ("ttft", "itl")
    )
    counts = f"{sum(each.completed for each in turns)} | {sum(each.failed for each in turns)}"
    return f"| {turns[0].streams} | {name} | {times} | {spread} | {counts} |"


def main(arguments: Sequence[str] | None = None) -> None:
    """The command line."""
    own = {
        "--guidellm": option("guidellm", "the program"),
        "--transformers": {"help": "the program; left out, only ours is served"},
        "--model": SIZE,
        "--tokens": option(64, "tokens of each text"),
        "--seconds": option(8, "seconds of each turn"),
    }
    options = begin(__doc__, arguments, own, repeats=3)
    for program in (options.guidellm, options.transformers or options.guidellm):
        if shutil.which(program) is None:
            raise SystemExit(f"there is no program {program!r}; docs/server.md says how to get it")
    print(f"{options.model} size, {options.tokens} tokens each", flush=True)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "model"
        save_gpt2(MODELS[options.model](), folder)
        interval = ServerSettings().stream_interval_ms
        ours = answering(our_server(folder, interval))
        targets = {OURS: Target(stack.enter_context(ours), "nanogpt")}
        if options.transformers:
            command = [options.transformers, "serve", str(folder), *PEERS_SETTINGS]
            peers = answering(command, env=os.environ | ALONE)
            targets[PEER] = Target(stack.enter_context(peers), str(folder))
        seen = take_turns(
            options.guidellm, targets, options.tokens, options.seconds, options.repeats
        )
    print(f"load average {os.getloadavg()[0]:.1f} at the end; medians of {options.repeats} turns\n")
    print("| streams | server | TTFT p50, p95, ms | ITL p50, p95, ms | tokens/s | done | failed |")
    print("|---|---|---|---|---|---|---|")
    for place in range(len(STREAMS)):
        for name, turns in seen.items():
            print(line(name, [each[place] for each in turns]))


if __name__ == "__main__":
    main()
