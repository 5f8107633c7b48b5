"""The server over real sockets, by the clients that people use: its answers and its refusals."""

import asyncio
import json
import socket
import threading
import time
from dataclasses import replace
from typing import Any

import httpx
import openai
import pytest
import torch
from fakes import prompt_of, tiny_model
from http_serving import (
    LIMIT_S,
    MODEL,
    PROMPT,
    Running,
    completion,
    engine,
    events_of,
    long_model,
    oracle,
    serving,
    text_of,
)
from preempting import ranks
from preempting import tiny_model as ranks_model

from nanogpt.checkpoints.tokenizer import decode, encode
from nanogpt.clock import WallClock
from nanogpt.config import EngineConfig
from nanogpt.engine import Engine
from nanogpt.executors.packed import PackedExecutor
from nanogpt.parts import Parts
from nanogpt.posts.oracle import generate
from nanogpt.preemption.preemptive_engine import PreemptiveEngine
from nanogpt.request import Request
from nanogpt.server.deadlines import Deadlines
from nanogpt.server.engine_thread import Asked
from nanogpt.server.server_metrics import ServerMetrics
from nanogpt.server.server_settings import MOST_RETRY_S
from nanogpt.server.token_stream import End, TokenStream

CHAT = [{"role": "user", "content": "Who is"}]
CHAT_PROMPT = "USER:\nWho is\n\nASSISTANT:\n"


@pytest.fixture(scope="module")
def server() -> Any:
    with serving() as running:
        yield running


def test_a_completion_is_the_oracles_text(server: Running) -> None:
    client = server.client()
    answer = client.completions.create(model=MODEL, prompt=PROMPT, max_tokens=20, temperature=0)
    assert answer.object == "text_completion" and answer.model == MODEL
    assert answer.id.startswith("cmpl-")
    [choice] = answer.choices
    assert choice.text == oracle(PROMPT, 20)
    assert (choice.index, choice.finish_reason, choice.logprobs) == (0, "length", None)
    assert answer.usage is not None
    usage = answer.usage
    assert (usage.prompt_tokens, usage.completion_tokens, usage.total_tokens) == (13, 20, 33)


def test_a_temperature_and_a_seed_are_the_requests_own(server: Running) -> None:
    client = server.client()
    texts = [
        client.completions.create(
            model=MODEL, prompt=PROMPT, max_tokens=20, temperature=degree, seed=seed
        ).choices[0].text
        for degree, seed in ((1.0, 5), (0.5, 5), (1.0, 6), (1.0, 5))
    ]  # fmt: skip
    assert texts == [oracle(PROMPT, 20, *each) for each in ((1, 5), (0.5, 5), (1, 6), (1, 5))]
    negative = client.completions.create(model=MODEL, prompt=PROMPT, temperature=1, seed=-1)
    assert negative.choices[0].text == oracle(PROMPT, 16, 1.0, 2**64 - 1)


def test_a_stream_gives_the_same_text_and_the_usage_that_was_asked_for(server: Running) -> None:
    stream = server.client().completions.create(
        model=MODEL, prompt=PROMPT, max_tokens=20, temperature=0, stream=True,
        stream_options={"include_usage": True},
    )  # fmt: skip
    chunks = list(stream)
    assert len({chunk.id for chunk in chunks}) == 1
    assert "".join(c.choices[0].text for c in chunks if c.choices) == oracle(PROMPT, 20)
    assert [c.choices[0].finish_reason for c in chunks[:-1]] == [None] * (len(chunks) - 2) + [
        "length"
    ]
    assert chunks[-1].choices == [] and chunks[-1].usage is not None
    assert chunks[-1].usage.completion_tokens == 20
    assert all(chunk.usage is None for chunk in chunks[:-1])


def test_a_conversation_is_answered_up_to_the_empty_line(server: Running) -> None:
    client = server.client()
    answer = client.chat.completions.create(
        model=MODEL, messages=CHAT, temperature=0, max_completion_tokens=20
    )
    whole = oracle(CHAT_PROMPT, 20)
    assert answer.object == "chat.completion" and answer.id.startswith("chatcmpl-")
    assert answer.choices[0].message.content == whole.partition("\n\n")[0]
    assert answer.choices[0].message.role == "assistant"
    stream = client.chat.completions.create(
        model=MODEL, messages=CHAT, temperature=0, max_tokens=20, stream=True
    )
    deltas = [chunk.choices[0].delta for chunk in stream]
    assert deltas[0].role == "assistant" and deltas[-1].content is None
    assert "".join(each.content or "" for each in deltas) == whole.partition("\n\n")[0]


def test_a_conversation_without_a_length_may_use_the_whole_context(server: Running) -> None:
    answer = server.client().chat.completions.create(model=MODEL, messages=CHAT, temperature=0)
    num_prompt = len(CHAT_PROMPT)
    text = oracle(CHAT_PROMPT, 64 + 1 - num_prompt)
    assert answer.choices[0].message.content == text.partition("\n\n")[0]


@pytest.mark.parametrize("streams", [False, True])
def test_a_stop_string_ends_the_text_and_is_not_in_it(server: Running, streams: bool) -> None:
    whole = oracle(PROMPT, 40)
    stop = whole[17:20]
    expected = whole[: whole.index(stop)]
    body = completion(max_tokens=40, temperature=0, stop=["zzzz", stop], stream=streams)
    answer = server.post("/v1/completions", body | {"stream_options": {"include_usage": True}})
    if streams:
        events = events_of(answer.text.splitlines())
        assert text_of(events) == expected
        assert events[-3]["choices"][0]["finish_reason"] == "stop"
        usage = events[-2]["usage"]
    else:
        assert answer.json()["choices"][0]["text"] == expected
        assert answer.json()["choices"][0]["finish_reason"] == "stop"
        usage = answer.json()["usage"]
    assert usage["completion_tokens"] == len(expected) + len(stop)
    server.wait_until_idle()


def test_the_beginning_of_a_stop_string_at_the_end_is_text(server: Running) -> None:
    whole = oracle(PROMPT, 20)
    body = completion(temperature=0, stop=whole[-3:] + "&&&")
    for streams in (False, True):
        answer = server.post("/v1/completions", body | {"stream": streams})
        if streams:
            assert text_of(events_of(answer.text.splitlines())) == whole
        else:
            assert answer.json()["choices"][0]["text"] == whole


def test_async_clients_are_answered_side_by_side(server: Running) -> None:
    async def ask() -> list[str]:
        async with server.async_client() as client:
            answers = await asyncio.gather(
                *(
                    client.completions.create(
                        model=MODEL, prompt=PROMPT, max_tokens=12, temperature=1, seed=seed
                    )
                    for seed in range(6)
                )
            )
        return [answer.choices[0].text for answer in answers]

    assert asyncio.run(ask()) == [oracle(PROMPT, 12, 1.0, seed) for seed in range(6)]


def test_the_model_is_listed_and_found_by_its_name(server: Running) -> None:
    client = server.client()
    assert [model.id for model in client.models.list()] == [MODEL]
    assert client.models.retrieve(MODEL).owned_by == "serving-nanogpt"
    with pytest.raises(openai.NotFoundError, match="there is no model 'gpt-4'"):
        client.models.retrieve("gpt-4")


def test_a_prompt_may_be_tokens_or_a_list_of_one(server: Running) -> None:
    for prompt in ([32, 53], [[32, 53]], ["To"]):
        answer = server.post("/v1/completions", completion(prompt, 8, temperature=0))
        assert answer.json()["choices"][0]["text"] == oracle("To", 8)


def test_what_clients_send_by_default_is_passed_over(server: Running) -> None:
    fields = {
        "n": 1, "best_of": None, "top_p": 1.0, "presence_penalty": 0, "frequency_penalty": 0.0,
        "user": "me", "logit_bias": {}, "echo": False, "logprobs": None, "suffix": None,
        "store": True, "metadata": {"a": "b"}, "unheard_of": [1, 2],
    }  # fmt: skip
    answer = server.post("/v1/completions", completion(max_tokens=4, temperature=0, **fields))
    assert answer.json()["choices"][0]["text"] == oracle(PROMPT, 4)


@pytest.mark.parametrize(
    ("fields", "param", "said"),
    [
        ({"prompt": "To bé"}, "prompt", "character 'é' is not among the 65 characters"),
        ({"prompt": ""}, None, "has an empty prompt"),
        ({"prompt": ["a", "b"]}, "prompt", "it must be one text or one list of tokens"),
        ({"prompt": [1, 65]}, None, "holds token 65, outside the vocabulary 0..64"),
        ({"prompt": None}, "prompt", "prompt: Expected `str | array`, got `null`"),
        ({"max_tokens": 0}, "max_tokens", "max_tokens is 0; it must be at least 1"),
        ({"max_tokens": "9"}, "max_tokens", "max_tokens: Expected `int | null`, got `str`"),
        ({"max_tokens": 52}, "prompt", "together they may be at most 64"),
        ({"max_tokens": 53}, "prompt", "13 tokens and 53 more are wanted"),
        ({"temperature": 2.5}, "temperature", "temperature is 2.5; it must be from 0 to 2"),
        ({"temperature": True}, "temperature", "temperature: Expected"),
        ({"stop": ["a"] * 5}, "stop", "stop has 5 strings; there may be at most 4"),
        ({"stop": [""]}, "stop", "stop has an empty string"),
        ({"logprobs": 2}, "logprobs", "logprobs is 2, which this server does not support; it"),
        ({"logprobs": 0}, "logprobs", "it may be false or null"),
        ({"n": 2}, "n", "n is 2, which this server does not support; it may be 1 or null"),
        ({"top_p": 0.5}, "top_p", "top_p is 0.5"),
        ({"echo": True}, "echo", "echo is True"),
        ({"stream": "yes"}, "stream", "stream: Expected `bool | null`, got `str`"),
        ({"cache_salt": 7}, "cache_salt", "cache_salt: Expected `str | null`, got `int`"),
        ({"cache_salt": ""}, "cache_salt", "cache_salt has 0 characters; it must have 1 to 128"),
        ({"cache_salt": "a" * 129}, "cache_salt", "cache_salt has 129 characters"),
    ],
)
def test_a_bad_request_is_told_what_is_wrong(
    server: Running, fields: dict[str, Any], param: str | None, said: str
) -> None:
    if fields == {"max_tokens": 52}:  # exactly what fits: 13 + 52 - 1 positions
        assert server.post("/v1/completions", completion(**fields)).status_code == 200
        return
    answer = server.post("/v1/completions", completion(**fields))
    error = answer.json()["error"]
    assert answer.status_code == 400 and error.keys() == {"message", "type", "param", "code"}
    assert error["type"] == "invalid_request_error" and error["param"] == param
    assert said in error["message"]


@pytest.mark.parametrize(
    ("messages", "said"),
    [
        ([], "messages is empty; it must have at least 1 message"),
        ([{"role": "tool", "content": "a"}], "messages[0].role"),
        ([{"role": "user"}], "missing required field `content`"),
        ([{"role": "user", "content": [{"type": "image_url"}]}], "messages[0].content[0]"),
        ([{"role": "user", "content": "5"}], "character '5'"),
    ],
)
def test_a_bad_conversation_is_told_what_is_wrong(
    server: Running, messages: list[Any], said: str
) -> None:
    body = {"model": MODEL, "messages": messages}
    answer = server.post("/v1/chat/completions", body)
    assert answer.status_code == 400 and said in answer.json()["error"]["message"]


def test_a_clients_own_exceptions_are_raised(server: Running) -> None:
    client = server.client()
    with pytest.raises(openai.BadRequestError) as bad:
        client.completions.create(model=MODEL, prompt="100 %")
    assert bad.value.param == "prompt" and "character '1'" in bad.value.message
    with pytest.raises(openai.NotFoundError) as none:
        client.completions.create(model="gpt-4", prompt="a")
    assert none.value.code == "model_not_found"


def test_wrong_places_methods_and_bodies_have_the_apis_errors(server: Running) -> None:
    url = server.url
    answers = {
        404: httpx.get(f"{url}/v1/nothing"),
        405: httpx.get(f"{url}/v1/completions"),
        400: httpx.post(f"{url}/v1/completions", content=b'{"model": '),
    }
    for status, answer in answers.items():
        assert answer.status_code == status
        assert answer.json()["error"]["type"] == "invalid_request_error"
    assert answers[405].headers["allow"] == "POST"
    assert httpx.post(f"{url}/v1/completions", content=b"[]").status_code == 400
    assert "the body is [" in httpx.post(f"{url}/v1/completions", content=b"[]").text


@pytest.mark.parametrize(
    ("header", "value"),
    [("X-Priority", "10"), ("X-Priority", "-1"), ("X-SLO-TTFT-MS", "0"), ("X-SLO-TTFT-MS", "1e3")],
)
def test_a_header_that_is_none_is_refused(server: Running, header: str, value: str) -> None:
    answer = server.post("/v1/completions", completion(), **{header: value})
    assert answer.status_code == 400
    error = answer.json()["error"]
    assert error["param"] == header
    assert error["message"].startswith(f"{header} is '{value}'; it must be a whole number")


def test_a_body_beyond_the_limit_is_not_read(server: Running) -> None:
    with serving(max_body_bytes=1000) as small:
        fits = json.dumps(completion(max_tokens=1)).encode().ljust(1000)
        assert httpx.post(f"{small.url}/v1/completions", content=fits).status_code == 200
        answer = httpx.post(f"{small.url}/v1/completions", content=fits + b" ")
        assert answer.status_code == 413
        assert answer.json()["error"]["message"] == "the body is larger than 1000 bytes"


def test_a_prompt_beyond_the_limit_is_refused() -> None:
    with serving(max_prompt_tokens=5) as small:
        assert small.post("/v1/completions", completion("abcde", 1)).status_code == 200
        answer = small.post("/v1/completions", completion("abcdef", 1))
        assert answer.status_code == 400
        assert answer.json()["error"] == {
            "message": "the prompt has 6 tokens; it may have at most 5",
            "type": "invalid_request_error",
            "param": "prompt",
            "code": "context_length_exceeded",
        }


def test_a_request_that_the_kv_budget_can_never_hold_is_refused() -> None:
    with serving(engine(max_kv_tokens=20)) as small:
        assert small.post("/v1/completions", completion("abcde", 16)).status_code == 200
        answer = small.post("/v1/completions", completion("abcde", 17))
        assert "together they may be at most 21" in answer.json()["error"]["message"]


def test_only_clients_with_the_key_come_in() -> None:
    with serving(api_key="secret") as guarded:
        right = guarded.client("secret")
        assert right.completions.create(model=MODEL, prompt=PROMPT, temperature=0).choices[
            0
        ].text == oracle(PROMPT, 16)
        with pytest.raises(openai.AuthenticationError) as wrong:
            guarded.client("secrets").models.list()
        assert wrong.value.code == "invalid_api_key"
        assert guarded.post("/v1/completions", completion()).status_code == 401
        basic = {"Authorization": "Basic secret"}
        assert guarded.post("/v1/completions", completion(), **basic).status_code == 401
        assert httpx.get(f"{guarded.url}/health").status_code == 200


def test_one_request_too_many_is_told_to_come_again() -> None:
    with serving(engine(long_model()), max_requests=2) as full:
        client = full.client()
        body = {"model": MODEL, "prompt": PROMPT, "max_tokens": 4000}
        streams = [client.completions.create(**body, stream=True) for _ in range(2)]
        with pytest.raises(openai.RateLimitError) as refused:
            client.completions.create(**body)
        assert 1 <= int(refused.value.response.headers["retry-after"]) <= MOST_RETRY_S
        assert refused.value.code == "rate_limit_exceeded"
        for stream in streams:
            stream.close()
        full.wait_until_idle()
        assert client.completions.create(model=MODEL, prompt=PROMPT, max_tokens=1).choices
        assert full.metrics()["nanogpt:requests_refused_total", "429"] == 1


def test_metrics_count_known_traffic() -> None:
    with serving(engine(block_size=4, share_prefixes=True)) as quiet:
        slo = {"X-SLO-TTFT-MS": str(3_600_000)}
        for _ in range(2):
            quiet.post("/v1/completions", completion(max_tokens=10, temperature=0), **slo)
        whole = oracle(PROMPT, 10)
        late = {"X-SLO-TTFT-MS": "1"}
        quiet.thread.engine.parts = slow_parts(quiet.thread.engine.parts)
        quiet.post("/v1/completions", completion(stop=whole[3], temperature=0), **late)
        quiet.post("/v1/completions", completion("é"))
        quiet.wait_until_idle()
        seen = quiet.metrics()
    generated = 10 + 10 + whole.index(whole[3]) + 1
    assert seen["vllm:request_success_total", "length"] == 2
    assert seen["vllm:request_success_total", "stop"] == 1
    assert seen["vllm:prompt_tokens_total",] == 3 * 13
    assert seen["vllm:generation_tokens_total",] == generated
    assert seen["vllm:time_to_first_token_seconds_count",] == 3
    assert seen["vllm:inter_token_latency_seconds_count",] == generated - 3
    assert seen["vllm:e2e_request_latency_seconds_count",] == 3
    assert seen["vllm:request_generation_tokens_sum",] == generated
    assert seen["vllm:prefix_cache_queries_total",] == 3 * 13
    assert seen["vllm:prefix_cache_hits_total",] == 2 * 12
    assert seen["vllm:iteration_tokens_total_sum",] == 13 + 1 + 1 + generated - 3
    assert seen["nanogpt:slo_ttft_requests_total", "true"] == 2
    assert seen["nanogpt:slo_ttft_requests_total", "false"] == 1
    assert seen["nanogpt:requests_refused_total", "400"] == 1
    for gauge in ("num_requests_running", "num_requests_waiting", "kv_cache_usage_perc"):
        assert seen[f"vllm:{gauge}",] == 0


def test_salts_keep_requests_apart_and_change_no_text() -> None:
    """The counters are of tokens, and of a request that was preempted of its first start alone."""
    with serving(engine(block_size=4, share_prefixes=True)) as quiet:
        texts = [
            quiet.post("/v1/completions", completion(temperature=0, cache_salt=salt)).json()[
                "choices"
            ][0]["text"]
            for salt in (None, "a", "b", "a", None)
        ]
        chat = {"model": MODEL, "messages": [{"role": "user", "content": "Hm"}], "cache_salt": "a"}
        assert quiet.post("/v1/chat/completions", chat).status_code == 200
        quiet.wait_until_idle()
        seen = quiet.metrics()
    assert texts == [oracle(PROMPT, 20)] * 5
    assert seen["vllm:prefix_cache_hits_total",] == 12 + 12


def test_a_request_that_comes_back_is_not_looked_up_again_and_a_shared_block_counts_once() -> None:
    config = EngineConfig(token_budget=64, max_kv_tokens=40, block_size=4, share_prefixes=True)
    made, metrics = Engine(tiny_model(), config), ServerMetrics(MODEL)

    def figure(name: str) -> float:
        return metrics.registry.get_sample_value(name, {"model_name": MODEL}) or 0

    for number in range(2):
        made.submit(Request(number, prompt_of(number, 15), 12))
    num_preempted = 0
    while not made.scheduler.is_done():
        record = made.step()
        num_preempted += len(record.preempted)
        metrics.step(record, made)
        metrics.state(made)
        tables = [block for _, table in made.steps[-1].blocks.tables for block in table]
        in_use = 0 if not made.cache.holders() else len(set(tables))
        if not record.finished:
            assert figure("vllm:kv_cache_usage_perc") == pytest.approx(in_use / 10)
    assert num_preempted == 1 and record.prefix_hits == ()
    assert figure("vllm:prefix_cache_queries_total") == 30
    assert figure("vllm:prefix_cache_hits_total") == 0
    assert figure("vllm:kv_cache_usage_perc") == 0


def test_the_longest_request_fills_whole_blocks() -> None:
    with serving(engine(max_kv_tokens=30, block_size=8)) as small:
        card = small.client().models.retrieve(MODEL)
        assert card.max_model_len == 24
        assert small.post("/v1/completions", completion(max_tokens=12)).status_code == 200
        refused = small.post("/v1/completions", completion(max_tokens=13))
        assert refused.json()["error"]["code"] == "context_length_exceeded"


def slow_parts(parts: Parts) -> Parts:
    """Parts whose plan takes longer than a millisecond."""

    def plan_step(*offered: Any) -> Any:
        time.sleep(0.002)
        return parts.plan_step(*offered)

    return replace(parts, plan_step=plan_step)


def test_gauges_show_who_runs_who_waits_and_what_is_held() -> None:
    with serving(engine(long_model(), max_batch_size=2)) as busy:
        client = busy.client()
        body = {"model": MODEL, "prompt": PROMPT, "max_tokens": 4000, "stream": True}
        streams = [client.completions.create(**body) for _ in range(3)]
        busy.wait_until(lambda: busy.metrics()["vllm:num_requests_running",] == 2)
        seen = busy.metrics()
        assert seen["vllm:num_requests_waiting",] == 1
        assert 2 * 12 / (2 * 4096) <= seen["vllm:kv_cache_usage_perc",] <= 1
        for stream in streams:
            stream.close()
        busy.wait_until_idle()
        assert busy.metrics()["vllm:request_success_total", "abort"] == 3


def test_the_more_important_and_the_sooner_due_go_first() -> None:
    """With room for one, the others queue; they are ranked by their headers."""
    deadlines = Deadlines()
    for policy, header, values in (
        ("priority", "X-Priority", ("5", "2", "0")),
        (deadlines.key, "X-SLO-TTFT-MS", ("60000", "40000", "20000")),
    ):
        made = engine(long_model(), max_batch_size=1, policy=policy)
        order: list[int] = []
        with serving(made, deadlines) as ranked:
            client = ranked.client()
            first = client.completions.create(
                model=MODEL, prompt=PROMPT, max_tokens=4000, stream=True
            )
            started = [
                client.completions.create(
                    model=MODEL, prompt=PROMPT, max_tokens=1, stream=True,
                    extra_headers={header: value},
                )
                for value in values
            ]  # fmt: skip
            waiting = sorted(made.scheduler.waiting, key=lambda entry: entry[:3])
            order = [entry[3].id for entry in waiting]
            first.close()
            for stream in started:
                list(stream)
        assert order == [3, 2, 1]


def test_a_learners_part_that_fails_is_an_error_of_the_servers_and_names_the_part() -> None:
    def plan_step(*offered: Any) -> Any:
        raise KeyError("oh")

    with serving(engine(parts=Parts(plan_step=plan_step))) as broken:
        for streams in (False, True):
            answer = broken.post("/v1/completions", completion(stream=streams))
            text = answer.text.removeprefix("data: ").partition("\n")[0]
            assert "your plan_step raised KeyError" in json.loads(text)["error"]["message"]
        broken.wait_until_idle()
        assert httpx.get(f"{broken.url}/health").status_code == 200


FEATURES = {
    "drafts": {"num_draft_tokens": 3},
    "blocks": {"block_size": 4, "share_prefixes": True},
    "a tight KV budget": {"max_kv_tokens": 60, "policy": "priority", "preempt_to_admit": True},
    "textbook executor": {"executor": "padded"},
}


@pytest.mark.parametrize("feature", FEATURES)
def test_every_feature_of_the_engine_serves_the_same_texts(feature: str) -> None:
    """Also where a step gives several tokens, and where a request computes what it knew again."""
    settings = FEATURES[feature]
    config = EngineConfig(**{"token_budget": 32, "max_batch_size": 6, **settings})
    draft = (lambda known: [1 / 65] * 65) if "num_draft_tokens" in settings else None
    made = Engine(tiny_model(), config, clock=WallClock(), draft=draft)

    async def ask(running: Running) -> list[str]:
        async with running.async_client() as client:
            answers = await asyncio.gather(
                *(
                    client.completions.create(
                        model=MODEL, prompt=PROMPT[: 3 + n], max_tokens=30, temperature=0,
                        extra_headers={"X-Priority": str(9 - n)},
                    )
                    for n in range(8)
                )
            )  # fmt: skip
        return [answer.choices[0].text for answer in answers]

    with serving(made) as running:
        assert asyncio.run(ask(running)) == [oracle(PROMPT[: 3 + n], 30) for n in range(8)]
        running.wait_until_idle()


def test_an_engine_of_another_class_is_served_by_the_same_code() -> None:
    """The preemptible one, whose model lies with its ranks, and one of its requests cancelled."""
    config = EngineConfig(token_budget=16)
    with PreemptiveEngine(ranks_model(), ranks(1), config=config) as made, serving(made) as running:
        stream = running.client().completions.create(
            model=MODEL, prompt=PROMPT, max_tokens=100, stream=True
        )
        next(iter(stream))
        stream.close()
        body = completion(max_tokens=12, temperature=0)
        text = running.post("/v1/completions", body).json()["choices"][0]["text"]
        assert text == decode(generate(ranks_model(), encode(PROMPT), 12))
        running.wait_until_idle()


@pytest.mark.skipif(not hasattr(time, "pthread_getcpuclockid"), reason="no clock for a thread")
def test_an_idle_server_sleeps(server: Running) -> None:
    server.wait_until_idle()
    [thread] = [each for each in threading.enumerate() if each is server.thread._thread]
    assert thread.ident is not None
    clock = time.pthread_getcpuclockid(thread.ident)

    def sleeps() -> bool:
        before = time.clock_gettime_ns(clock)
        time.sleep(0.2)
        return time.clock_gettime_ns(clock) == before

    server.wait_until(sleeps)  # it may be on its way back to the queue at first


class Poisoned(PackedExecutor):
    """An executor whose logits for one request are never finite."""

    def run(self, rows: Any) -> Any:
        result = super().run(rows)
        ill = torch.tensor([[row.request_id == 1] for row in rows])  # (R, 1)
        return replace(result, logits=result.logits.masked_fill(ill, float("nan")))


def test_a_request_whose_logits_are_not_finite_ends_alone() -> None:
    made = Engine(
        tiny_model(), EngineConfig(token_budget=64), clock=WallClock(), make_executor=Poisoned
    )

    async def ask(running: Running) -> list[Any]:
        async with running.async_client() as client:
            asked = [
                client.completions.create(model=MODEL, prompt=PROMPT, max_tokens=20, temperature=0)
                for _ in range(3)
            ]
            return await asyncio.gather(*asked, return_exceptions=True)

    with serving(made) as ill:
        answers = asyncio.run(ask(ill))
        failed = [each for each in answers if isinstance(each, Exception)]
        assert len(failed) == 1 and isinstance(failed[0], openai.InternalServerError)
        assert "are not finite" in str(failed[0])
        texts = [each.choices[0].text for each in answers if each not in failed]
        assert texts == [oracle(PROMPT, 20)] * 2


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_an_engine_thread_that_breaks_leaves_no_client_waiting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def step(*given: Any) -> None:
        # While this step runs, another request comes in, whose command is never looked at.
        broken.thread._loop.call_soon_threadsafe(late)
        broken.wait_until(lambda: len(streams) == 1)
        raise OSError("a mistake of ours")

    def late() -> None:
        streams.append(broken.thread.submit(Asked([1], 1)))

    streams: list[TokenStream] = []
    with serving() as broken:
        monkeypatch.setattr(broken.thread.metrics, "step", step)
        answer = broken.post("/v1/completions", completion())
        assert answer.status_code == 500
        assert answer.json()["error"]["message"] == "the engine has stopped"
        broken.wait_until(lambda: streams[0].end)
        assert streams[0].end == End("failed", 0, "the engine has stopped")
        assert httpx.get(f"{broken.url}/health").status_code == 503
        assert broken.post("/v1/completions", completion()).status_code == 503


def test_half_a_request_and_no_http_at_all_leave_the_server_as_it_was(server: Running) -> None:
    host, port = server.url.removeprefix("http://").split(":")
    for said in (
        b"hello\r\n\r\n",
        b"POST /v1/completions HTTP/1.1\r\ncontent-length: 50\r\n\r\n{",
        b"POST /v1/completions HTTP/1.1\r\nhost: a\r\ncontent-length: -1\r\n\r\n",
        b"\x00\xff" * 100,
    ):
        with socket.create_connection((host, int(port)), timeout=LIMIT_S) as connection:
            connection.sendall(said)
    answer = server.post("/v1/completions", completion(temperature=0))
    assert answer.json()["choices"][0]["text"] == oracle(PROMPT, 20)
    server.wait_until_idle()
