"""Prefill in one pool, decode in another: the oracle's texts, whatever is lost or damaged."""

import copy
import os
import signal
import sys
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from preempting import assert_gone, prompt, tiny_model

from nanogpt import GPT, EngineConfig, generate
from nanogpt.fleet import transfers
from nanogpt.request import Request
from nanogpt.validate import PolicyError
from nanogpt.workers.router_state import Result
from nanogpt.workers.split_fleet import SplitFleet
from nanogpt.workers.worker_messages import Sent

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(sys.platform != "linux", reason="ends processes by signals"),
]
SETTINGS = EngineConfig(token_budget=32, max_batch_size=4, block_size=4, share_prefixes=True)
LENGTHS = [1, 4, 5, 8, 9, 30, 32, 33, 90]


def exact_model() -> GPT:
    return copy.deepcopy(tiny_model()).double()


@pytest.fixture(scope="module")
def started() -> Iterator[SplitFleet]:
    with SplitFleet(exact_model(), 1, 1, SETTINGS) as fleet:
        yield fleet


@pytest.fixture
def fleet(started: SplitFleet) -> SplitFleet:
    started.forget()
    started.blocks_to_send, started.may_free = transfers.blocks_to_send, transfers.may_free
    return started


def load(lengths: Collection[int], new: int = 6) -> list[Request]:
    return [Request(i, prompt(n, start=i), new) for i, n in enumerate(lengths)]


def check(results: Collection[Result], requests: Collection[Request]) -> None:
    for result, request in zip(results, requests, strict=True):
        text = generate(exact_model(), request.prompt_tokens, request.max_new_tokens)
        assert (list(result.tokens), result.error) == (text, "")


def check_empty(fleet: SplitFleet) -> None:
    assert not fleet.kept
    assert not list(Path(fleet._frames.name).iterdir())


def test_every_prompt_gets_the_oracles_text_and_no_block_is_sent_twice(fleet: SplitFleet):
    requests = load(LENGTHS)
    results = fleet.serve(requests)
    check(results, requests)
    assert {result.worker_ids for result in results} == {(1,)}
    sent = {each.request_id: len(each.blocks) for each in fleet.transfers}
    assert sent == {2: 1, 3: 1, 4: 2, 5: 7, 6: 7, 7: 8, 8: 22}
    for each in fleet.transfers:
        assert (each.source, each.target, each.ended) == (0, 1, "acknowledged")
        times = each.start_us, each.sent_us or 0, each.ordered_us or 0, each.freed_us or 0
        assert list(times) == sorted(times) and times[1]
        assert results[each.request_id].hit_tokens == 4 * len(each.blocks)
    longer = Request(9, prompt(120, start=8), 4)  # its first 90 tokens are request 8's
    check(fleet.serve([longer]), [longer])
    assert [each.blocks for each in fleet.transfers] == [tuple(range(22, 29))]
    check_empty(fleet)


def test_a_corrupted_frame_is_refused_and_its_blocks_are_computed_again(
    fleet: SplitFleet, monkeypatch: pytest.MonkeyPatch
):
    hear = fleet._hear

    def damaging(worker: Any, message: object) -> None:
        match message:
            case Sent(0):
                path = fleet._held[0].path
                path.write_bytes(path.read_bytes()[:-7] + b"damaged")
            case Sent(1):
                fleet._held[1].path.unlink()
            case _:
                pass
        hear(worker, message)

    monkeypatch.setattr(fleet, "_hear", damaging)
    requests = load([30, 31, 32])
    results = fleet.serve(requests)
    check(results, requests)
    ended = {record.request_id: (record.ended, record.error) for record in fleet.transfers}
    assert ended[0] == ("refused", "the frame's bytes are not those that were written")
    assert ended[1][0] == "refused" and "No such file" in ended[1][1]
    assert ended[2][0] == "acknowledged"
    assert [result.computed_prefill_tokens for result in results] == [30, 31, 4]
    check_empty(fleet)


@pytest.mark.parametrize("when", ["prefill", "sent"])
def test_an_abort_in_mid_transfer_frees_the_kv_and_spares_the_others(
    fleet: SplitFleet, monkeypatch: pytest.MonkeyPatch, when: str
):
    if when == "prefill":
        fleet.blocks_to_send = acting(transfers.blocks_to_send, lambda: fleet.abort(0))
    else:
        hear = fleet._hear

        def aborting(worker: Any, message: object) -> None:
            hear(worker, message)
            if isinstance(message, Sent):
                fleet.abort(0)

        monkeypatch.setattr(fleet, "_hear", aborting)
    requests = load([90, 30])
    aborted, other = fleet.serve(requests)
    assert aborted.error == "aborted"
    check([other], requests[1:])
    assert {each.request_id: each.ended for each in fleet.transfers}[0] == "aborted"
    check_empty(fleet)


def acting(answer: Callable[..., Any], act: Callable[[], object]) -> Callable[..., Any]:
    """A policy that acts when it is first called, and then answers as another."""
    todo = [act]

    def policy(*given: Any) -> Any:
        if todo:
            todo.pop()()
        return answer(*given)

    return policy


@pytest.mark.parametrize(
    ("victim", "when"),
    [pytest.param(0, "prefill", marks=pytest.mark.nightly), (0, "sent"), (1, "ordered")],
)
def test_killing_either_side_of_a_transfer_loses_nothing(
    monkeypatch: pytest.MonkeyPatch, victim: int, when: str
):
    with SplitFleet(exact_model(), 1, 1, SETTINGS) as fleet:
        ids = fleet.process_ids

        def kill() -> None:
            os.kill(ids[victim], signal.SIGKILL)

        if when == "prefill":
            fleet.blocks_to_send = acting(transfers.blocks_to_send, kill)
        else:
            dispatch, once = fleet._dispatch, [kill]

            def killing() -> None:
                if when == "sent" and any(held.record.sent_us for held in fleet._held.values()):
                    once and once.pop()()
                dispatch()
                if any(held.record.ordered_us for held in fleet._held.values()):
                    once and once.pop()()

            monkeypatch.setattr(fleet, "_dispatch", killing)
        requests = load([60, 30, 31])
        check(fleet.serve(requests), requests)
        assert [text.split(" ")[1] for text in fleet.lost] == [str(victim)]
        check_empty(fleet)
        more = [Request(9, prompt(40), 3)]
        check(fleet.serve(more), more)  # the rest of the fleet goes on, whole
        assert not fleet.transfers
    assert_gone(ids.values())


def test_wrong_decisions_cost_time_or_memory_and_never_the_text(fleet: SplitFleet):
    requests = load([30, 33])
    fleet.may_free = lambda state, event: False
    check(fleet.serve(requests), requests)
    assert [each.request_id for each in fleet.kept] == [0, 1]
    fleet.forget()
    fleet.blocks_to_send = lambda num_tokens, size, hit: [1, 2]  # not from the first on
    check(fleet.serve(requests), requests)


def test_settings_and_answers_that_cannot_be_carried_out_are_refused():
    with pytest.raises(ValueError, match="share_prefixes"):
        SplitFleet(tiny_model(), 1, 1, replace(SETTINGS, share_prefixes=False))
    for answer, said in (([7], "7 full blocks of 4"), ([0, 2], "consecutive"), (3, "list of ints")):
        with pytest.raises(PolicyError, match=said):
            transfers.sent(answer, 30, 4)
