"""What `/metrics` shows: vLLM's names where they mean the same, `nanogpt:` where they do not.

Source: vLLM, docs/design/metrics.md and vllm/v1/metrics/loggers.py. Intervals are of the clock
of the engine's thread, as vLLM's are of its engine core's: a token counts when its step ends.
"""

import itertools
from collections.abc import Sequence
from typing import Any

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.samples import Sample

from nanogpt.blocks import BlockKVCache
from nanogpt.engine import Engine
from nanogpt.trace import StepRecord

SECONDS = (
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0,
)  # fmt: skip
TOKENS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000)
FINISHED = {"stop": "stop", "length": "length", "cancelled": "abort", "shutdown": "abort"}
"""vLLM's `finished_reason` of each end; any other is an "error"."""


class ServerMetrics:
    """Counters, gauges and histograms of one server, in a registry of its own.

    Mutable. Written by the engine's thread, but for `refused`; read by a scrape in any thread.
    """

    def __init__(self, model_name: str) -> None:
        self._preempted: set[int] = set()
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self._model_name = model_name
        gauge, counter = self._gauge, self._counter
        self._running = gauge("vllm:num_requests_running", "Requests that hold K/V.")
        self._waiting = gauge("vllm:num_requests_waiting", "Requests that wait to be admitted.")
        self._kv_usage = gauge("vllm:kv_cache_usage_perc", "Share of the KV tokens in use, 0 to 1.")
        self._preemptions = counter("vllm:num_preemptions", "Preemptions.")
        self._prompt_tokens = counter("vllm:prompt_tokens", "Prompt tokens of begun requests.")
        self._tokens = counter("vllm:generation_tokens", "Generated tokens.")
        self._queries = counter("vllm:prefix_cache_queries", "Tokens looked up in shared blocks.")
        self._hits = counter("vllm:prefix_cache_hits", "Tokens found in shared blocks.")
        self._drafted = counter("vllm:spec_decode_num_draft_tokens", "Drafted tokens.")
        self._accepted = counter("vllm:spec_decode_num_accepted_tokens", "Accepted drafts.")
        self._finished = self._family(
            "vllm:request_success", "Requests that ended, by how.", "finished_reason"
        )
        self._slo = self._family(
            "nanogpt:slo_ttft_requests", "First tokens that were promised, by kept.", "met"
        )
        self._refused = self._family(
            "nanogpt:requests_refused", "Requests answered by an error, by status.", "code"
        )
        self._per_step = self._histogram("vllm:iteration_tokens_total", "Tokens of a step.", TOKENS)
        self._make_request_histograms()

    def _make_request_histograms(self) -> None:
        def seconds(name: str, what: str) -> Histogram:
            return self._histogram(f"vllm:{name}_seconds", what, SECONDS)

        self._ttft = seconds("time_to_first_token", "From arrival to the first token.")
        self._itl = seconds("inter_token_latency", "From one step's tokens to the next one's.")
        self._e2e = seconds("e2e_request_latency", "From arrival to the end.")
        self._queue = seconds("request_queue_time", "From arrival to the start of its first step.")
        self._prefill = seconds("request_prefill_time", "From that start to the first token.")
        self._decode = seconds("request_decode_time", "From the first token to the last.")
        prompt, generated = "vllm:request_prompt_tokens", "vllm:request_generation_tokens"
        self._prompt_length = self._histogram(prompt, "Prompt tokens of a request.", TOKENS)
        self._length = self._histogram(generated, "Generated tokens of a request.", TOKENS)

    def text(self) -> bytes:
        """All of it in Prometheus' text format."""
        return generate_latest(self.registry)

    def numbers(self) -> dict[str, Any]:
        """What the live page shows, as plain data; a histogram is its bounds and their counts."""
        named = {
            "running": self._running, "waiting": self._waiting, "kv_usage": self._kv_usage,
            "tokens": self._tokens, "prompt_tokens": self._prompt_tokens,
            "preemptions": self._preemptions,
        }  # fmt: skip
        plain = {name: _samples(one)[0].value for name, one in named.items()}
        return {**plain, "ttft": _buckets(self._ttft), "itl": _buckets(self._itl)}

    def started(self, num_prompt_tokens: int) -> None:
        """A request's first step has ended."""
        self._prompt_tokens.inc(num_prompt_tokens)

    def refused(self, status: int) -> None:
        """A request was answered by this status."""
        self._refused.labels(self._model_name, str(status)).inc()

    def state(self, engine: Engine) -> None:
        """How many requests run and wait, and how full the cache is."""
        scheduler = engine.scheduler
        self._running.set(len(scheduler.active) + len(scheduler.prefilling))
        self._waiting.set(len(scheduler.waiting))
        self._kv_usage.set(_kv_usage(engine))

    def step(self, record: StepRecord, engine: Engine) -> None:
        """A step of the engine has been committed."""
        self._per_step.observe(record.used_tokens)
        self._tokens.inc(sum(len(work.tokens) for work in record.work))
        self._preemptions.inc(len(record.preempted))
        drafted = sum(len(work.drafted) for work in record.work)
        if drafted:
            self._drafted.inc(drafted)
            self._accepted.inc(sum(work.num_accepted for work in record.work))
        if engine.config.share_prefixes:
            self._look_up(record, engine)

    def _look_up(self, record: StepRecord, engine: Engine) -> None:
        """Count what was looked up and found, not again where a preempted request comes back."""
        new = set(record.admitted) - self._preempted
        self._queries.inc(sum(len(engine.arrived[i].prompt_tokens) for i in new))
        self._hits.inc(sum(hit.num_tokens for hit in record.prefix_hits if hit.request_id in new))
        self._preempted.update(record.preempted)
        self._preempted.difference_update(record.finished, record.given_up)

    def first_token(self, ttft_s: float, slo_s: float | None) -> None:
        """A request has its first token, after so long."""
        self._ttft.observe(ttft_s)
        if slo_s is not None:
            self.promised(kept=ttft_s <= slo_s)

    def promised(self, *, kept: bool) -> None:
        """A first token came within the promised time, or it did not and no longer can."""
        self._slo.labels(self._model_name, str(kept).lower()).inc()

    def gap(self, seconds: float) -> None:
        """A request has its next token."""
        self._itl.observe(seconds)

    def ended(
        self,
        reason: str,
        num_prompt_tokens: int,
        num_tokens: int,
        arrived_s: float,
        started_s: float,
        first_s: float,
        last_s: float,
    ) -> None:
        """A request has left. Times of one clock, 0 for what never came."""
        self._finished.labels(self._model_name, FINISHED.get(reason, "error")).inc()
        if reason not in ("stop", "length"):
            return
        self._e2e.observe(last_s - arrived_s)
        self._queue.observe(started_s - arrived_s)
        self._prefill.observe(first_s - started_s)
        self._decode.observe(last_s - first_s)
        self._prompt_length.observe(num_prompt_tokens)
        self._length.observe(num_tokens)

    def _family(self, name: str, what: str, *labels: str) -> Counter:
        return Counter(name, what, ("model_name", *labels), registry=self.registry)

    def _counter(self, name: str, what: str) -> Counter:
        return self._family(name, what).labels(self._model_name)

    def _gauge(self, name: str, what: str) -> Gauge:
        return Gauge(name, what, ("model_name",), registry=self.registry).labels(self._model_name)

    def _histogram(self, name: str, what: str, buckets: Sequence[float]) -> Histogram:
        return Histogram(
            name, what, ("model_name",), registry=self.registry, buckets=buckets
        ).labels(self._model_name)


def _kv_usage(engine: Engine) -> float:
    """The share of the KV cache in use. A shared block counts once, a cached one is free."""
    cache, config = engine.cache, engine.config
    if isinstance(cache, BlockKVCache):
        return 1 - cache.pool.num_free / len(cache.pool.counts)
    slots = config.max_batch_size * engine.model.config.context_len
    return cache.held_tokens() / (config.max_kv_tokens or slots)


def _samples(one: Counter | Gauge | Histogram) -> list[Sample]:
    """What a metric with its label shows now."""
    return [each for family in one.collect() for each in family.samples]


def _buckets(one: Histogram) -> dict[str, list[float]]:
    """How many observations are in each bucket; the last has no upper bound, and none is named."""
    upto = [each for each in _samples(one) if each.name.endswith("_bucket")]
    values = [0.0, *(each.value for each in upto)]
    counts = [high - low for low, high in itertools.pairwise(values)]
    return {"bounds": [float(each.labels["le"]) for each in upto[:-1]], "counts": counts}
