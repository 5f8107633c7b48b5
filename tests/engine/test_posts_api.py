"""The posts' own calls, run against this package: names, fields, properties and return values."""

import heapq

import pytest
import torch
from fakes import fake_request, oracle, prompt_of, tiny_model

import nanogpt
from nanogpt import (
    Engine,
    Parts,
    Request,
    Scheduler,
    chunked_prefill_generate,
    decode,
    encode,
    generate,
    load_model,
)


def test_everything_that_readers_expect_imports_from_the_package_itself():
    for name in nanogpt.__all__:
        assert hasattr(nanogpt, name), name
    expected = {"Request", "Scheduler", "chunked_prefill_generate", "load_model", "encode"}
    expected |= {"decode", "generate", "Engine", "Parts"}
    assert expected <= set(nanogpt.__all__)
    assert Engine is not None
    assert Parts() == Parts()


def test_a_request_has_the_posts_fields_with_their_defaults():
    request = Request(id=0, prompt_tokens=encode("To be"), max_new_tokens=10)
    assert request.priority == 0
    assert request.arrival_time == 0
    assert request.generated_tokens == []
    assert request.status == "waiting"
    assert request.prefill_cursor == 0
    assert dict(request.kv_cache) == {}


def test_a_request_has_the_posts_properties():
    request = Request(id=0, prompt_tokens=[5, 6, 7], max_new_tokens=2, priority=2)
    assert request.tokens_so_far == [5, 6, 7]
    assert (request.num_generated, request.is_done, request.is_fully_prefilled) == (0, False, False)
    request.prefill_cursor = 2
    assert not request.is_fully_prefilled
    request.prefill_cursor = 3
    assert request.is_fully_prefilled
    request.generated_tokens.append(9)
    assert request.tokens_so_far == [5, 6, 7, 9]
    assert (request.num_generated, request.is_done, request.is_fully_prefilled) == (1, False, True)
    request.generated_tokens.append(8)
    assert request.is_done
    request.clear_cache()
    assert request.prefill_cursor == 0
    assert request.generated_tokens == [9, 8]
    assert not request.is_fully_prefilled


def test_two_requests_share_no_list():
    first, second = fake_request(0, 3, 2), fake_request(1, 3, 2)
    first.generated_tokens.append(1)
    assert second.generated_tokens == []


def test_the_scheduler_has_the_posts_settings():
    scheduler = Scheduler("priority", token_budget=16, max_kv_tokens=22)
    assert scheduler.policy == "priority"
    assert (scheduler.token_budget, scheduler.max_kv_tokens) == (16, 22)
    assert scheduler.max_batch_size >= 4
    assert scheduler.is_done()


def test_the_waiting_are_a_heap_of_tuples_with_the_request_last():
    scheduler = Scheduler("priority")
    for i, priority in enumerate([2, 0, 1]):
        scheduler.add_request(fake_request(i, 3, 2, priority))
    heap = list(scheduler.waiting)
    assert [heapq.heappop(heap)[3].id for _ in range(3)] == [1, 2, 0]


@pytest.mark.parametrize("executor", ["packed", "padded"])
@pytest.mark.parametrize("token_budget", [3, 16])
def test_chunked_prefill_generate_serves_a_queue_and_returns_the_completed(
    executor: str, token_budget: int
):
    asks = [(0, 5, 8), (0, 20, 3), (2, 3, 1), (4, 9, 5)]
    queue = [(step, Request(i, prompt_of(i, n), new)) for i, (step, n, new) in enumerate(asks)]
    completed = chunked_prefill_generate(
        tiny_model(), queue, token_budget=token_budget, executor=executor
    )
    assert sorted(request.id for request in completed) == [0, 1, 2, 3]
    assert all(request.is_done for request in completed)
    for request in completed:
        prompt = tuple(request.prompt_tokens)
        assert tuple(request.generated_tokens) == oracle(prompt, request.max_new_tokens)


def test_chunked_prefill_generate_has_one_prefill_at_a_time_and_starts_arrivals_at_once():
    queue = [(0, Request(0, prompt_of(0, 4), 12)), (3, Request(1, prompt_of(1, 4), 2))]
    completed = chunked_prefill_generate(tiny_model(), queue, 16)
    assert [request.id for request in completed] == [1, 0]
    assert [request.arrival_time for _, request in queue] == [0, 3]


def test_chunked_prefill_generate_takes_temperature_and_seed():
    texts: set[tuple[int, ...]] = set()
    for seed in (0, 0, 1):
        request = Request(3, prompt_of(3, 6), 12)
        chunked_prefill_generate(tiny_model(), [(0, request)], temperature=5.0, seed=seed)
        expected = generate(
            tiny_model(), request.prompt_tokens, 12, temperature=5.0, seed=seed, request_id=3
        )
        assert request.generated_tokens == expected
        texts.add(tuple(expected))
    assert len(texts) == 2


def test_an_empty_queue_completes_nothing():
    assert chunked_prefill_generate(tiny_model(), []) == []


@pytest.mark.parametrize(
    ("request_", "budget", "words"),
    [
        (Request(0, [], 3), 16, "empty prompt"),
        (Request(0, [70], 3), 16, "token 70"),
        (Request(0, [1], 0), 16, "max_new_tokens"),
        (Request(0, [1], 3), 0, "token_budget is 0"),
    ],
)
def test_a_refused_request_or_limit_raises_a_value_error(
    request_: Request, budget: int, words: str
):
    with pytest.raises(ValueError, match=words):
        chunked_prefill_generate(tiny_model(), [(0, request_)], budget)


def test_two_requests_of_one_id_are_refused():
    queue = [(0, Request(4, [1, 2], 3)), (1, Request(4, [3], 3))]
    with pytest.raises(ValueError, match="there are two requests 4; ids must be unique"):
        chunked_prefill_generate(tiny_model(), queue)


def test_the_shipped_model_continues_a_text():
    model = load_model(dtype=torch.float64)
    request = Request(id=0, prompt_tokens=encode("O Romeo, "), max_new_tokens=8)
    (completed,) = chunked_prefill_generate(model, [(0, request)], token_budget=4)
    assert completed.generated_tokens == generate(model, encode("O Romeo, "), 8)
    assert len(decode(completed.tokens_so_far)) == 17
