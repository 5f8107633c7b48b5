"""`/metrics`: vLLM's names where they mean the same, otherwise names with `nanogpt:`.

Source: vLLM, docs/design/metrics.md and vllm/v1/metrics/loggers.py. Intervals are on the clock of
the engine's thread, as vLLM's are on its engine core's: a token counts when its step ends.
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

from nanogpt.engine import Engine
from nanogpt.kv_cache import KVCache
from nanogpt.trace import BlockStepRecord, StepRecord

SECONDS = (
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0,
)  # fmt: skip
TOKENS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000)

GAUGES = {
    "num_requests_running": "Requests that hold K/V.",
    "num_requests_waiting": "Requests that wait to be admitted.",
    "kv_cache_usage_perc": "Share of the KV tokens in use, 0 to 1.",
}
COUNTERS = {
    "num_preemptions": "Preemptions.",
    "prompt_tokens": "Prompt tokens of begun requests.",
    "generation_tokens": "Generated tokens.",
    "prefix_cache_queries": "Tokens looked up in shared blocks.",
    "prefix_cache_hits": "Tokens found in shared blocks.",
    "external_prefix_cache_queries": "Tokens looked up in the host tier.",
    "external_prefix_cache_hits": "Tokens found only in the host tier.",
    "kv_offload_load_bytes": "Bytes of K/V copied from the host tier.",
    "kv_offload_store_bytes": "Bytes of K/V copied to the host tier.",
    "spec_decode_num_draft_tokens": "Drafted tokens.",
    "spec_decode_num_accepted_tokens": "Accepted drafts.",
}
TOKEN_HISTOGRAMS = {
    "iteration_tokens_total": "Tokens of a step.",
    "request_prompt_tokens": "Prompt tokens of a request.",
    "request_generation_tokens": "Generated tokens of a request.",
}
SECOND_HISTOGRAMS = {
    "time_to_first_token_seconds": "From arrival to the first token.",
    "inter_token_latency_seconds": "From one step's tokens to the next one's.",
    "e2e_request_latency_seconds": "From arrival to the end.",
    "request_queue_time_seconds": "From arrival to the start of its first step.",
    "request_prefill_time_seconds": "From that start to the first token.",
    "request_decode_time_seconds": "From the first token to the last.",
}


class ServerMetrics:
    """Counters, gauges and histograms of one server, in a registry of its own.

    Mutable: written by the engine's thread, except for `refused`, and read in any thread.
    """

    def __init__(self, model_name: str) -> None:
        self._model_name = model_name
        self._preempted: set[int] = set()
        self.registry = registry = CollectorRegistry()
        ProcessCollector(registry=registry)

        def labelled(kind: Any, texts: dict[str, str], **more: Any) -> dict[str, Any]:
            names = ("model_name",)
            return {
                key: kind(f"vllm:{key}", text, names, registry=registry, **more).labels(model_name)
                for key, text in texts.items()
            }

        self._gauges: dict[str, Gauge] = labelled(Gauge, GAUGES)
        self._counters: dict[str, Counter] = labelled(Counter, COUNTERS)
        self._histograms: dict[str, Histogram] = {
            **labelled(Histogram, TOKEN_HISTOGRAMS, buckets=TOKENS),
            **labelled(Histogram, SECOND_HISTOGRAMS, buckets=SECONDS),
        }
        finished = "vllm:request_success", "Requests that ended, by how.", "finished_reason"
        slo = "nanogpt:slo_ttft_requests", "First tokens that were promised, by kept.", "met"
        refused = "nanogpt:requests_refused", "Requests answered by an error, by status.", "code"
        self._finished, self._slo, self._refused = (
            Counter(key, text, ("model_name", label), registry=registry)
            for key, text, label in (finished, slo, refused)
        )

    def text(self) -> bytes:
        """In Prometheus' text format."""
        return generate_latest(self.registry)

    def numbers(self) -> dict[str, Any]:
        """The live page's numbers; a histogram is its bounds and their counts."""
        labels = {"model_name": self._model_name}
        names = {
            "running": "num_requests_running", "waiting": "num_requests_waiting",
            "kv_usage": "kv_cache_usage_perc", "tokens": "generation_tokens_total",
            "preemptions": "num_preemptions_total",
        }  # fmt: skip
        value = self.registry.get_sample_value
        return {
            **{name: value(f"vllm:{key}", labels) for name, key in names.items()},
            "ttft": _buckets(self._histograms["time_to_first_token_seconds"]),
            "itl": _buckets(self._histograms["inter_token_latency_seconds"]),
        }

    def state(self, engine: Engine) -> None:
        """How many requests run and wait, and how full the cache is."""
        scheduler = engine.scheduler
        num_running = len(scheduler.active) + len(scheduler.prefilling)
        self._gauges["num_requests_running"].set(num_running)
        self._gauges["num_requests_waiting"].set(len(scheduler.waiting))
        self._gauges["kv_cache_usage_perc"].set(_kv_usage(engine))

    def step(self, record: StepRecord, engine: Engine) -> None:
        """A step of the engine has been committed."""
        self.observe("iteration_tokens_total", record.used_tokens)
        self._count("generation_tokens", sum(len(work.tokens) for work in record.work))
        self._count("num_preemptions", len(record.preempted))
        self._count("spec_decode_num_draft_tokens", sum(len(w.drafted) for w in record.work))
        self._count("spec_decode_num_accepted_tokens", sum(w.num_accepted for w in record.work))
        if engine.config.share_prefixes:
            # A preempted request that is admitted again is not counted twice.
            new = set(record.admitted) - self._preempted
            hits = sum(hit.num_tokens for hit in record.prefix_hits if hit.request_id in new)
            queried = sum(len(engine.arrived[i].prompt_tokens) for i in new)
            if isinstance(record, BlockStepRecord) and (host := record.host):
                found = sum(i in new for i, *_ in host.loaded) * record.blocks.block_size
                hits -= found
                self._count("external_prefix_cache_queries", queried - hits)
                self._count("external_prefix_cache_hits", found)
                self._count("kv_offload_load_bytes", len(host.loaded) * host.block_bytes)
                self._count("kv_offload_store_bytes", len(host.stored) * host.block_bytes)
            self._count("prefix_cache_queries", queried)
            self._count("prefix_cache_hits", hits)
            self._preempted.update(record.preempted)
            self._preempted.difference_update(record.finished, record.aborted)

    def started(self, num_prompt_tokens: int) -> None:
        """A request's first step has ended."""
        self._count("prompt_tokens", num_prompt_tokens)

    def refused(self, status: int) -> None:
        """A request was answered by this status."""
        self._refused.labels(self._model_name, str(status)).inc()

    def promised(self, *, kept: bool) -> None:
        """A first token came within its SLO, or no longer can."""
        self._slo.labels(self._model_name, str(kept).lower()).inc()

    def ended(
        self, reason: str, num_prompt: int, num_tokens: int, times_s: Sequence[float]
    ) -> None:
        """A request has ended; `times_s` are of its arrival, start, first and last token."""
        self._finished.labels(self._model_name, reason).inc()
        if reason in ("stop", "length"):
            arrived_s, started_s, first_s, last_s = times_s
            self.observe("e2e_request_latency_seconds", last_s - arrived_s)
            self.observe("request_queue_time_seconds", started_s - arrived_s)
            self.observe("request_prefill_time_seconds", first_s - started_s)
            self.observe("request_decode_time_seconds", last_s - first_s)
            self.observe("request_prompt_tokens", num_prompt)
            self.observe("request_generation_tokens", num_tokens)

    def observe(self, name: str, value: float) -> None:
        """Add a value to the histogram `vllm:{name}`."""
        self._histograms[name].observe(value)

    def _count(self, name: str, number: int) -> None:
        self._counters[name].inc(number)


def _kv_usage(engine: Engine) -> float:
    """The share of the KV cache in use. A shared block counts once, a cached one is free."""
    cache = engine.cache
    if isinstance(cache, KVCache) and cache.records_blocks:
        return 1 - cache.pool.num_free / len(cache.pool.ref_counts)
    return cache.held_tokens() / kv_capacity(engine)


def kv_capacity(engine: Engine) -> int:
    """The KV budget; without one, a context for each place in the batch."""
    config = engine.config
    return config.max_kv_tokens or config.max_batch_size * engine.model.config.max_model_len


def _buckets(one: Histogram) -> dict[str, list[float]]:
    """The number of observations in each bucket; the last bucket has no upper bound."""
    samples = [each for family in one.collect() for each in family.samples]
    upto = [each for each in samples if each.name.endswith("_bucket")]
    values = [0.0, *(each.value for each in upto)]
    counts = [high - low for low, high in itertools.pairwise(values)]
    return {"bounds": [float(each.labels["le"]) for each in upto[:-1]], "counts": counts}
