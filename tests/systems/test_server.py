"""The server over real sockets: its answers, its refusals, its metrics, and what it outlives."""

import asyncio
import json
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import msgspec
import pytest
import torch
from fakes import sometimes_right, tiny_model
from http_serving import (
    LIMIT_S,
    MODEL,
    PROMPT,
    completion,
    engine,
    events_of,
    long_model,
    oracle,
    read_all,
    serving,
    text_of,
)

from nanogpt import Engine, EngineConfig, decode, encode, generate
from nanogpt.checkpoints.tokenizer import CHARACTERS
from nanogpt.clock import WallClock
from nanogpt.executors.packed import PackedExecutor
from nanogpt.outputs import ModelOutput
from nanogpt.posts.oracle import attend_in_window
from nanogpt.request import Request
from nanogpt.sampling import LogitsParams
from nanogpt.server.admission import Deadlines
from nanogpt.server.server_settings import MOST_RETRY_S, ServerSettings

CHAT = [{"role": "user", "content": "Who is"}]
CHAT_PROMPT = "USER:\nWho is\n\nASSISTANT:\n"
LONG_BODY = completion(max_tokens=4000, stream=True)


@pytest.fixture(scope="module")
def server() -> Any:
    with serving() as running:
        yield running


# --- answers, by the client that people use -------------------------------------------------------


def test_a_completion_is_the_oracles_text_by_its_own_temperature_and_seed(server: Any):
    create = server.client().completions.create
    answer = create(model=MODEL, prompt=PROMPT, max_tokens=20, temperature=0)
    assert answer.object == "text_completion" and answer.model == MODEL
    [choice] = answer.choices
    assert choice.text == oracle(PROMPT, 20) and answer.id.startswith("cmpl-")
    assert (choice.index, choice.finish_reason, choice.logprobs) == (0, "length", None)
    usage = answer.usage
    assert (usage.prompt_tokens, usage.completion_tokens, usage.total_tokens) == (13, 20, 33)
    for degree, seed in ((1.0, 5), (0.5, 5), (1.0, 6), (1.0, -1)):
        answer = create(model=MODEL, prompt=PROMPT, temperature=degree, seed=seed)
        assert answer.choices[0].text == oracle(PROMPT, 16, degree, seed % 2**64)
    of_openai = {"top_p": 0.8, "frequency_penalty": 1.5, "presence_penalty": 0.5}
    of_vllm = {"top_k": 9, "min_p": 0.01, "repetition_penalty": 1.2}
    answer = create(
        model=MODEL, prompt=PROMPT, max_tokens=30, temperature=1.5, seed=4, logit_bias={"43": 2},
        extra_body=of_vllm, **of_openai,
    )  # fmt: skip
    params = LogitsParams(logit_bias=((43, 2),), **of_openai, **of_vllm)
    how = {"temperature": 1.5, "seed": 4, "logits_params": params}
    tokens = generate(tiny_model(), encode(PROMPT), 30, **how)
    assert answer.choices[0].text == decode(tokens) != oracle(PROMPT, 30, 1.5, 4)


def test_a_stream_gives_the_same_text_and_the_usage_that_was_asked_for(server: Any):
    stream = server.client().completions.create(
        model=MODEL, prompt=PROMPT, max_tokens=20, temperature=0, stream=True,
        stream_options={"include_usage": True},
    )  # fmt: skip
    chunks = list(stream)
    assert len({chunk.id for chunk in chunks}) == 1
    assert "".join(c.choices[0].text for c in chunks if c.choices) == oracle(PROMPT, 20)
    reasons = [chunk.choices[0].finish_reason for chunk in chunks[:-1]]
    assert reasons == [None] * (len(chunks) - 2) + ["length"]
    assert chunks[-1].choices == [] and chunks[-1].usage.completion_tokens == 20
    assert all(chunk.usage is None for chunk in chunks[:-1])


def test_a_conversation_is_answered_up_to_the_empty_line(server: Any):
    create = server.client().chat.completions.create
    asked = {"model": MODEL, "messages": CHAT, "temperature": 0}
    answer = create(**asked, max_completion_tokens=20)
    text = oracle(CHAT_PROMPT, 20).partition("\n\n")[0]
    assert answer.object == "chat.completion" and answer.id.startswith("chatcmpl-")
    assert (answer.choices[0].message.role, answer.choices[0].message.content) == (
        "assistant", text,
    )  # fmt: skip
    deltas = [chunk.choices[0].delta for chunk in create(**asked, max_tokens=20, stream=True)]
    assert deltas[0].role == "assistant" and deltas[-1].content is None
    assert "".join(each.content or "" for each in deltas) == text
    whole = oracle(CHAT_PROMPT, 64 + 1 - len(CHAT_PROMPT))  # without a length, all the context
    assert create(**asked).choices[0].message.content == whole.partition("\n\n")[0]


def test_the_model_is_listed_and_a_clients_own_exceptions_are_raised(server: Any):
    import openai

    client = server.client()
    assert [model.id for model in client.models.list()] == [MODEL]
    assert client.models.retrieve(MODEL).owned_by == "serving-nanogpt"
    with pytest.raises(openai.NotFoundError, match="there is no model 'gpt-4'"):
        client.models.retrieve("gpt-4")
    with pytest.raises(openai.BadRequestError) as bad:
        client.completions.create(model=MODEL, prompt="100 %")
    assert bad.value.param == "prompt" and "character '1'" in bad.value.message
    with pytest.raises(openai.NotFoundError) as none:
        client.completions.create(model="gpt-4", prompt="a")
    assert none.value.code == "model_not_found"


# --- several answers, scores, and what else clients count on --------------------------------------


@pytest.mark.parametrize("streams", [False, True])
def test_several_prompts_and_answers_come_in_their_order(server: Any, streams: bool):
    prompts = [PROMPT, "O, "]
    body = completion(prompts, 12, n=2, seed=5, temperature=1.0, stream=streams)
    body["stream_options"] = {"include_usage": True}
    answer = server.post("/v1/completions", body)
    events = events_of(answer.text.splitlines())[:-1] if streams else [answer.json()]
    texts = dict.fromkeys(range(4), "")
    for each in (choice for event in events for choice in event["choices"]):
        texts[each["index"]] += each["text"]
    expected = [oracle(prompt, 12, 1.0, seed) for prompt in prompts for seed in (5, 6)]
    assert [texts[index] for index in range(4)] == expected
    usage = events[-1]["usage"]
    assert (usage["prompt_tokens"], usage["completion_tokens"]) == (13 + 3, 4 * 12)
    server.wait_until_idle()


@pytest.mark.parametrize(
    ("window", "max_tokens"), [({}, 0), ({"sliding_window": 5, "num_sinks": 1}, 1)]
)
def test_a_harness_gets_the_log_probabilities_of_its_prompts(window: Any, max_tokens: int):
    """Asked as lm-evaluation-harness asks for a loglikelihood, and read as it reads it."""
    model = tiny_model()
    prompts = [CHARACTERS.encode(text) for text in ("ROMEO:\nWhat", PROMPT, "a")]
    body = completion(prompts, max_tokens, echo=True, logprobs=1, temperature=0, seed=1234)
    with serving(engine(**window)) as scored:
        answer = scored.post("/v1/completions", body).json()
    for choice, prompt in zip(answer["choices"], prompts, strict=True):
        found, text = choice["logprobs"], choice["text"]
        assert "".join(found["tokens"]) == text and len(text) == len(prompt) + max_tokens
        assert text.encode().startswith(b"".join(map(CHARACTERS.piece, prompt)))
        assert found["text_offset"] == list(range(len(text)))
        assert found["token_logprobs"][0] is found["top_logprobs"][0] is None
        for position in range(1, len(text)):
            known = CHARACTERS.encode(text[:position])
            attend = attend_in_window(position, window.get("sliding_window"), len(window) // 2)
            hidden = model.hidden(torch.tensor([known]), torch.arange(position), attend)
            expected = model.logits(hidden)[0, -1].log_softmax(-1)
            token = CHARACTERS.encode(text[position])[0]
            assert found["token_logprobs"][position] == pytest.approx(expected[token].item())
            likeliest = found["top_logprobs"][position]
            assert max(likeliest.values()) == pytest.approx(expected.max().item())
            assert likeliest[text[position]] == found["token_logprobs"][position]
    assert answer["usage"]["completion_tokens"] == max_tokens * len(prompts)
    assert {choice["finish_reason"] for choice in answer["choices"]} == {"length"}


def test_log_probabilities_of_an_answer_are_those_of_its_tokens(server: Any):
    create = server.client().completions.create
    asked = {"model": MODEL, "prompt": PROMPT, "max_tokens": 9, "temperature": 0}
    alone = create(**asked, logprobs=3).choices[0]
    echoed = create(**asked, logprobs=3, echo=True).choices[0]
    assert echoed.text == PROMPT + alone.text == PROMPT + oracle(PROMPT, 9)
    assert alone.logprobs.tokens == list(alone.text)
    assert alone.logprobs.token_logprobs == echoed.logprobs.token_logprobs[len(PROMPT) :]
    for best in alone.logprobs.top_logprobs:
        assert len(best) == 3 and all(value < 0 for value in best.values())


def test_an_answer_has_the_id_of_its_request_or_one_of_its_own(server: Any):
    named = server.get("/v1/models", headers={"X-Request-Id": "mine-7"})
    assert named.headers["x-request-id"] == "mine-7"
    ids = [server.get(path).headers["x-request-id"] for path in ("/health", "/none", "/metrics")]
    ids.append(server.get("/health", headers={"X-Request-Id": "a" * 129}).headers["x-request-id"])
    assert len({*ids}) == 4 and all(len(each) == 32 for each in ids)


def test_an_idle_connection_is_closed_after_its_time(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("nanogpt.server.serving.KEEP_ALIVE_S", 1)
    with serving() as brief:
        host, port = brief.url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port)), timeout=LIMIT_S) as idle:
            idle.sendall(b"GET /health HTTP/1.1\r\nhost: here\r\n\r\n")
            began_s = time.monotonic()
            while idle.recv(4096):
                pass
            assert 0.9 < time.monotonic() - began_s < 4.5, "uvicorn's own are 5 s"


def test_a_long_text_is_refused_by_its_length_or_read_beside_the_streams():
    class Watched:
        end_tokens, max_token_length, chat_template = (), 2, None
        piece, check_fits = CHARACTERS.piece, CHARACTERS.check_fits

        def encode(self, text: str) -> list[int]:
            read[len(text)] = threading.current_thread()
            return CHARACTERS.encode(text)

    read: dict[int, threading.Thread] = {}
    with serving(engine(long_model()), tokenizer=Watched()) as running:
        for length, status in ((10**6, 400), (8193, 400), (8192, 400), (4090, 200), (5, 200)):
            answer = running.post("/v1/completions", completion("a" * length, 1))
            assert answer.status_code == status
            if status == 400:
                assert answer.json()["error"]["code"] == "context_length_exceeded"
    assert sorted(read) == [5, 4090, 8192]
    loop = read.pop(5)
    assert all(thread is not loop for thread in read.values())


# --- refusals -------------------------------------------------------------------------------------


def test_wrong_places_and_methods_have_the_apis_errors(server: Any):
    for path, status in (("/v1/nothing", 404), ("/v1/completions", 405)):
        answer = server.get(path)
        assert answer.status_code == status
        assert answer.json()["error"]["type"] == "invalid_request_error"
    assert answer.headers["allow"] == "POST"


def test_a_body_beyond_the_limit_is_not_read():
    import httpx

    with serving(max_body_bytes=1000) as small:
        fits = json.dumps(completion(max_tokens=1)).encode().ljust(1000)
        assert httpx.post(f"{small.url}/v1/completions", content=fits).status_code == 200
        answer = httpx.post(f"{small.url}/v1/completions", content=fits + b" ")
        assert answer.status_code == 413
        assert answer.json()["error"]["message"] == "the body is larger than 1000 bytes"


@pytest.mark.parametrize(
    ("settings", "max_tokens"),
    [
        ({}, 65),
        ({"max_kv_tokens": 20}, 21),
        ({"max_kv_tokens": 30, "block_size": 8}, 25),  # three whole blocks
    ],
)
def test_the_longest_request_is_the_one_that_the_engine_can_hold(settings: Any, max_tokens: int):
    from nanogpt.server.openai_api import Limits

    made = engine(**settings)
    found = Limits.of(made, ServerSettings(), CHARACTERS)
    assert (found.max_prompt, found.max_tokens) == (64, max_tokens)
    made.submit(Request(0, [1], found.max_tokens - 1))
    with pytest.raises(ValueError, match="request 1"):
        made.submit(Request(1, [1], found.max_tokens))


def test_only_clients_with_the_key_and_no_pages_of_other_sites_come_in(server: Any):
    with serving(api_key="secret") as guarded:
        key = {"Authorization": "Bearer secret"}
        for more in ({}, {"Host": "models.example.com"}):
            answer = guarded.post("/v1/completions", completion(), **key, **more)
            assert answer.status_code == 200
        for wrong in ({"Authorization": "Bearer secrets"}, {"Authorization": "Basic secret"}, {}):
            answer = guarded.post("/v1/completions", completion(), **wrong)
            assert (answer.status_code, answer.json()["error"]["code"]) == (401, "invalid_api_key")
        assert guarded.get("/v1/models").status_code == 401
        assert guarded.get("/health").status_code == 200
    for headers in ({"Host": "evil.com"}, {"Origin": "https://evil.com"}):
        assert server.post("/v1/completions", completion(), **headers).status_code == 403
        assert server.get("/live/state", headers=headers).status_code == 403


def test_one_request_too_many_is_told_to_come_again_and_gauges_show_the_others():
    import openai

    with serving(engine(long_model(), max_batch_size=2), max_requests=3) as full:
        client = full.client()
        streams = [client.completions.create(**LONG_BODY)]
        refused = full.post("/v1/completions", completion(n=3, max_tokens=4000))
        assert refused.status_code == 429, "of too many in one call none is served"
        full.wait_until(lambda: len(full.thread.admission.unfinished) == 1)
        streams += [client.completions.create(**LONG_BODY) for _ in range(2)]
        full.wait_until(lambda: full.metrics()["vllm:num_requests_running",] == 2)
        seen = full.metrics()
        assert seen["vllm:num_requests_waiting",] == 1
        assert 2 * 12 / (2 * 4096) <= seen["vllm:kv_cache_usage_perc",] <= 1
        with pytest.raises(openai.RateLimitError) as limited:
            client.completions.create(model=MODEL, prompt=PROMPT)
        assert 1 <= int(limited.value.response.headers["retry-after"]) <= MOST_RETRY_S
        assert limited.value.code == "rate_limit_exceeded"
        for stream in streams:
            stream.close()
        full.wait_until_idle()
        assert full.complete(max_tokens=1)
        assert full.metrics()["nanogpt:requests_refused_total", "429"] == 2
        # The three streams, and the two of the refused call that had come in.
        assert full.metrics()["vllm:request_success_total", "abort"] == 3 + 2


# --- metrics --------------------------------------------------------------------------------------


def test_metrics_count_known_traffic_and_salts_keep_requests_apart():
    with serving(engine(block_size=4, share_prefixes=True)) as quiet:
        parts = quiet.thread.engine.policies

        def slow_plan(*offered: Any) -> Any:
            time.sleep(0.002)
            return parts.plan_step(*offered)

        cached: list[int] = []
        hour, late = {"X-SLO-TTFT-MS": "3600000"}, {"X-SLO-TTFT-MS": "1"}
        for salt in (None, "a", "a", None):
            body = completion(max_tokens=10, temperature=0, cache_salt=salt)
            answer = quiet.post("/v1/completions", body, **hour)
            assert answer.json()["choices"][0]["text"] == oracle(PROMPT, 10)
            cached.append(answer.json()["usage"]["prompt_tokens_details"]["cached_tokens"])
        whole = oracle(PROMPT, 10)
        quiet.thread.engine.policies = replace(parts, plan_step=slow_plan)
        stopping = completion(stop=whole[3], temperature=0, cache_salt="b")
        quiet.post("/v1/completions", stopping, **late)
        quiet.post("/v1/completions", completion("é"))
        quiet.wait_until_idle()
        seen = quiet.metrics()
    assert cached == [0, 0, 12, 12]
    generated = 4 * 10 + whole.index(whole[3]) + 1
    expected = {
        ("vllm:request_success_total", "length"): 4,
        ("vllm:request_success_total", "stop"): 1,
        ("vllm:prompt_tokens_total",): 5 * 13,
        ("vllm:generation_tokens_total",): generated,
        ("vllm:time_to_first_token_seconds_count",): 5,
        ("vllm:inter_token_latency_seconds_count",): generated - 5,
        ("vllm:e2e_request_latency_seconds_count",): 5,
        ("vllm:request_generation_tokens_sum",): generated,
        ("vllm:prefix_cache_queries_total",): 5 * 13,
        ("vllm:prefix_cache_hits_total",): 2 * 12,  # each from the first of its own salt
        ("vllm:iteration_tokens_total_sum",): 3 * 13 + 2 * 1 + generated - 5,
        ("nanogpt:slo_ttft_requests_total", "true"): 4,
        ("nanogpt:slo_ttft_requests_total", "false"): 1,
        ("nanogpt:requests_refused_total", "400"): 1,
        ("vllm:num_requests_running",): 0,
        ("vllm:num_requests_waiting",): 0,
        ("vllm:kv_cache_usage_perc",): 0,
    }
    assert {name: seen[name] for name in expected} == expected
    # The whole wait for a first token is queueing or prefill, and a step counts as prefill.
    queue, prefill, ttft = (
        seen[f"vllm:{name}_seconds_sum",]
        for name in ("request_queue_time", "request_prefill_time", "time_to_first_token")
    )
    assert queue + prefill == pytest.approx(ttft) and prefill > 0.002


def test_metrics_say_what_was_found_in_the_host_tier_and_what_was_copied():
    sizes = {"block_size": 4, "share_prefixes": True, "max_kv_tokens": 16, "host_kv_tokens": 64}
    with serving(engine(**sizes)) as quiet:
        for prompt in (PROMPT, PROMPT[::-1], PROMPT):
            answer = quiet.post("/v1/completions", completion(prompt, max_tokens=2, temperature=0))
            assert answer.json()["choices"][0]["text"] == oracle(prompt, 2)
        quiet.wait_until_idle()
        seen, block_bytes = quiet.metrics(), quiet.thread.engine.cache.block_bytes
    expected = {
        "prefix_cache_hits": 0, "external_prefix_cache_queries": 3 * 13,
        "external_prefix_cache_hits": 12, "kv_offload_load_bytes": 3 * block_bytes,
        "kv_offload_store_bytes": 6 * block_bytes,
    }  # fmt: skip
    assert {name: seen[f"vllm:{name}_total",] for name in expected} == expected


def test_metrics_of_clients_that_leave_the_queue():
    """Nothing of their prompts was computed; a promise is missed if its time had passed."""
    hour, late = {"X-SLO-TTFT-MS": "3600000"}, {"X-SLO-TTFT-MS": "1"}
    with serving(engine(long_model(), max_batch_size=1)) as full:
        create = full.client().completions.create
        first = create(**LONG_BODY)
        next(iter(first))
        for headers in (hour, late):
            waiting = create(**LONG_BODY, extra_headers=headers)
            time.sleep(0.002)
            waiting.close()
            full.wait_until(lambda: len(full.thread.admission.unfinished) == 1)
        first.close()
        full.wait_until_idle()
        seen = full.metrics()
    expected = {
        ("vllm:request_success_total", "abort"): 3,
        ("vllm:prompt_tokens_total",): 13,
        ("nanogpt:slo_ttft_requests_total", "false"): 1,
    }
    assert {name: seen[name] for name in expected} == expected
    assert ("nanogpt:slo_ttft_requests_total", "true") not in seen


# --- engines of all kinds -------------------------------------------------------------------------


@pytest.mark.parametrize("header", ["X-Priority", "X-SLO-TTFT-MS"])
def test_the_more_important_and_the_sooner_due_go_first(header: str):
    """With room for one, the others queue; they are ranked by their headers."""
    deadlines = Deadlines()
    policy = "priority" if header == "X-Priority" else deadlines.key
    values = ("5", "2", "0") if header == "X-Priority" else ("60000", "40000", "20000")
    made = engine(long_model(), max_batch_size=1, policy=policy)
    with serving(made, deadlines) as ranked:
        create = ranked.client().completions.create
        first = create(**LONG_BODY)
        short = completion(max_tokens=1, stream=True)
        started = [create(**short, extra_headers={header: value}) for value in values]
        waiting = list(made.scheduler.waiting)
        first.close()
        for stream in started:
            list(stream)
    assert [request.id for request in waiting] == [3, 2, 1]


def test_a_step_that_gives_several_tokens_serves_the_same_texts():
    config = EngineConfig(token_budget=32, max_batch_size=6, num_draft_tokens=3)
    made = Engine(tiny_model(), config, clock=WallClock(), draft=sometimes_right)
    bodies = [completion(PROMPT[: 3 + n], 30, temperature=0, stream=True) for n in range(8)]
    with serving(made) as running:
        answers = asyncio.run(read_all(running, bodies))
        running.wait_until_idle()
        seen = running.metrics()
    assert list(map(text_of, answers)) == [oracle(PROMPT[: 3 + n], 30) for n in range(8)]
    drafted, accepted = (
        seen[f"vllm:spec_decode_num_{name}_tokens_total",] for name in ("draft", "accepted")
    )
    assert 0 < accepted < drafted


# --- what it outlives -----------------------------------------------------------------------------


class Poisoned(PackedExecutor):
    """An executor whose logits for one request are never finite."""

    def execute(self, rows: Any) -> Any:
        result = super().execute(rows)
        ill = torch.tensor([[row.request_id == 1] for row in rows])  # (R, 1)
        return ModelOutput(result.logits.masked_fill(ill, float("nan")), result.forwards)


def test_a_request_whose_logits_are_not_finite_ends_alone():
    config = EngineConfig(token_budget=64)
    made = Engine(tiny_model(), config, clock=WallClock(), make_executor=Poisoned)
    body = completion(temperature=0)
    with serving(made) as ill, ThreadPoolExecutor(3) as pool:
        answers = list(pool.map(lambda _: ill.post("/v1/completions", body), range(3)))
    failed = [each for each in answers if each.status_code != 200]
    assert [each.status_code for each in failed] == [500]
    assert "are not finite" in failed[0].json()["error"]["message"]
    texts = [each.json()["choices"][0]["text"] for each in answers if each not in failed]
    assert texts == [oracle(PROMPT, 20)] * 2


@pytest.mark.parametrize("num_failures", [3, 4])
def test_a_step_may_succeed_at_its_fourth_try_and_no_later(num_failures: int):
    made, left = engine(), [OSError("busy")] * num_failures
    step = made.step

    def step_at_last() -> Any:
        if left:
            raise left.pop()
        return step()

    made.step = step_at_last
    with serving(made) as running:
        answer = running.post("/v1/completions", completion())
        assert answer.status_code == (200 if num_failures < 4 else 500)
        assert running.complete() == oracle(PROMPT, 20)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_an_engine_thread_that_breaks_leaves_no_client_waiting(monkeypatch: pytest.MonkeyPatch):
    from nanogpt.server.continuation import End
    from nanogpt.server.served_request import Asked

    def step(*given: Any) -> None:
        # While this step runs, another request comes in, whose command is never looked at.
        broken.thread._loop.call_soon_threadsafe(late)
        broken.wait_until(lambda: len(streams) == 1)
        raise OSError("a mistake of ours")

    def late() -> None:
        streams.append(broken.thread.submit(Asked([1], 1)))

    streams: list[Any] = []
    with serving() as broken:
        monkeypatch.setattr(broken.thread.metrics, "step", step)
        answer = broken.post("/v1/completions", completion())
        assert answer.status_code == 500
        assert answer.json()["error"]["message"] == "the engine has stopped"
        broken.wait_until(lambda: streams[0].end)
        assert streams[0].end == End("error", 0, "the engine has stopped")
        for refused in (broken.get("/health"), broken.post("/v1/completions", completion())):
            assert refused.status_code == 503
            assert refused.json()["error"]["message"] == "the engine has stopped"


def test_half_a_request_and_no_http_at_all_leave_the_server_as_it_was(server: Any):
    host, port = server.url.removeprefix("http://").split(":")
    for said in (
        b"hello\r\n\r\n",
        b"POST /v1/completions HTTP/1.1\r\ncontent-length: 50\r\n\r\n{",
        b"POST /v1/completions HTTP/1.1\r\nhost: a\r\ncontent-length: -1\r\n\r\n",
        b"\x00\xff" * 100,
    ):
        with socket.create_connection((host, int(port)), timeout=LIMIT_S) as connection:
            connection.sendall(said)
    assert server.complete() == oracle(PROMPT, 20)
    server.wait_until_idle()


def test_when_time_is_over_a_half_sent_body_and_a_scoring_are_answered_by_503(
    monkeypatch: pytest.MonkeyPatch,
):
    is_scoring = threading.Event()

    async def forever(*asked: object) -> None:
        is_scoring.set()
        await asyncio.Event().wait()

    monkeypatch.setattr("nanogpt.server.logprobs.Scorer.logprobs", forever)
    body = json.dumps(completion(max_tokens=1, logprobs=1)).encode()
    with ExitStack() as connections:
        with serving(shutdown_s=0) as closing:
            host, port = closing.url.removeprefix("http://").split(":")
            head = b"POST /v1/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length: %d\r\n\r\n"
            opened = [
                connections.enter_context(socket.create_connection((host, int(port)), LIMIT_S))
                for _ in range(2)
            ]
            opened[1].sendall(head % len(body) + body)
            assert is_scoring.wait(LIMIT_S)
            opened[0].sendall(head % len(body) + body[:9])
            closing.wait_until(lambda: len(closing.thread._shutdown) == 2)
        assert all(each.recv(4096).startswith(b"HTTP/1.1 503 ") for each in opened)


def test_an_answer_is_encoded_choice_by_choice(server: Any, monkeypatch: pytest.MonkeyPatch):
    encode, lengths = msgspec.json.encode, list[int]()

    def spy(value: object) -> bytes:
        lengths.append(len(encode(value)))
        return encode(value)

    monkeypatch.setattr("msgspec.json.encode", spy)
    asked = completion(["KING", "ROMEO"] * 10, 9, logprobs=20)
    answer = server.post("/v1/completions", asked)
    assert len(answer.json()["choices"]) == 20
    assert max(lengths) < len(answer.content) / 15
