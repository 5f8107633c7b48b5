"""The engine on ranks: what an abort undoes, who goes next, what a sleeping pass may cost."""

import copy
import random
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise

import pytest
from launching import wait_for
from preempting import HELD, LAYERS, first_hurried, hold_at, meanwhile, prompt, ranks, tiny_model

from nanogpt import EngineConfig, Request, generate
from nanogpt.preemption import preemptive_engine
from nanogpt.preemption.monitor import Snapshot, Target, now_us, slo_gate
from nanogpt.preemption.preemptive_engine import Preemption, PreemptiveEngine
from nanogpt.preemption.shared_state import let_go, wait_until_held
from nanogpt.trace import plain
from nanogpt.views.slo_view import SloRequest

CONFIG = EngineConfig(token_budget=128, max_batch_size=4)
URGENT_US = 10**8


def test_an_immune_request_protects_the_pass_that_it_is_in():
    gate = slo_gate(a=10.0, c=10.0)
    now = now_us()
    easy, immune = (SloRequest(i, 50, 0, now + 10**9, 10**9, i) for i in (0, 1))
    hurried = SloRequest(2, 5, 0, now + 10**6, 10**6, 0)
    assert gate(Snapshot(3, now, now, (hurried,), (easy,))) == Target(3, 2)
    assert gate(Snapshot(3, now, now, (hurried,), (easy, immune))) is None
    assert gate(Snapshot(3, now, now, (), (easy,))) is None


# --- on two ranks ---------------------------------------------------------------------------------


def engine_with(preemption: Preemption, config: EngineConfig = CONFIG) -> PreemptiveEngine:
    return PreemptiveEngine(tiny_model(), ranks(2), preemption, config)


def arrive_in_mid_pass(
    engine: PreemptiveEngine, request: Request, layer: int = 1, slo_us: int = URGENT_US
) -> None:
    """Hold rank 0 at `layer` of the coming pass until the monitor has answered the arrival."""
    shared, step = engine.runner.shared, engine.runner.step + 1
    hold_at(shared, 0, step, layer)

    def work() -> None:
        wait_until_held(shared, 0)
        engine.arrive(request, slo_us)
        wait_for(lambda: shared.target == step, "the monitor's answer")
        let_go(shared, 0)

    with meanwhile(work):
        engine.step()


def assert_served_as_by_the_oracle(engine: PreemptiveEngine, requests: Sequence[Request]) -> None:
    trace = engine.trace()
    for request in requests:
        wanted = generate(tiny_model(), request.prompt_tokens, request.max_new_tokens)
        assert list(trace.generated_tokens(request.id)) == wanted, request.id
    engine.cache.check()
    assert engine.cache.held_tokens() == 0
    assert list(engine.cache.holders()) == []


def work_of(engine: PreemptiveEngine) -> list[dict[int, tuple[int, int]]]:
    """Per step: who computed which range."""
    return [
        {work.request_id: (work.start, work.end) for work in step.work}
        for step in engine.trace().steps
    ]


@pytest.mark.process
@pytest.mark.parametrize("agreement", ["vote", "carried", "epoch"])
def test_an_urgent_arrival_in_mid_pass_aborts_it_and_goes_next(agreement: str):
    long, urgent = Request(0, prompt(90), 3), Request(1, prompt(8, 2), 2)
    preemption = Preemption(first_hurried, agreement=agreement, rank_policies=HELD)
    with engine_with(preemption) as engine:
        engine.arrive(long)
        arrive_in_mid_pass(engine, urgent)
        assert engine.cache.held_tokens() == 0
        assert long.status == "waiting" and long.num_computed_tokens == 0
        assert engine.slos[0].num_preemptions == 1
        engine.serve()
    assert work_of(engine)[:3] == [{}, {1: (0, 8)}, {0: (0, 90), 1: (8, 9)}]
    aborted = engine.trace().steps[0]
    assert aborted.preempted == (0,)
    layer = 1 if agreement == "vote" else 2
    reason = f"its pass was aborted at layer {layer}, for request 1"
    assert aborted.waits[0].reason == reason
    (record,) = engine.preemptions
    assert (record.layer, record.candidate, record.victims) == (layer, 1, (0,))
    assert (record.num_layers, record.resumed_ns) == (LAYERS, None)
    assert record.begun_ns < record.written_ns < record.replied_ns
    assert plain(record)["checks"][1][0]["layer"] == 0
    # It came in mid-pass, and has waited since then.
    arrived_us = engine.trace().request(1).arrival_us
    assert aborted.start_us < arrived_us < aborted.end_us
    assert_served_as_by_the_oracle(engine, [long, urgent])


@pytest.mark.process
def test_an_abort_takes_the_chunks_of_earlier_steps_too_and_keeps_decodes_as_they_are():
    decode, long = Request(0, prompt(6), 9), Request(1, prompt(60, 1), 2)
    urgent = Request(2, prompt(5, 2), 2)
    config = EngineConfig(token_budget=20, max_batch_size=4)
    with engine_with(Preemption(first_hurried, rank_policies=HELD), config) as engine:
        engine.arrive(decode)
        engine.step()
        engine.arrive(long)
        engine.step()
        assert engine.cache.length(1) == 19
        arrive_in_mid_pass(engine, urgent)
        assert (engine.cache.length(1), engine.cache.length(0)) == (0, 7)
        assert decode.status == "active" and decode.num_generated == 2
        engine.serve()
    assert work_of(engine)[3] == {0: (7, 8), 2: (0, 5)}
    assert_served_as_by_the_oracle(engine, [decode, long, urgent])


@pytest.mark.process
@pytest.mark.parametrize("suspend", [False, True])
def test_a_request_whose_logits_are_nan_is_aborted_alone(suspend: bool):
    broken = copy.deepcopy(tiny_model())
    broken.position_embedding.weight[40] = float("nan")
    preemption = Preemption(first_hurried, suspend=suspend, rank_policies=HELD)
    good = [Request(i, prompt(20 + i, i), 5) for i in range(2)]
    bad = [Request(8, prompt(38), 9), Request(9, prompt(60), 2)]  # in a decode, and in its prefill
    with PreemptiveEngine(broken, ranks(2), preemption, CONFIG) as engine:
        for request in (*good, bad[0]):
            engine.arrive(request)
        arrive_in_mid_pass(engine, bad[1])
        assert engine.steps[-1].finished == () and len(engine.steps) == 1
        for _ in range(20):
            with suppress(ValueError):
                engine.serve()
    assert [request.status for request in (*good, *bad)] == ["done"] * 2 + ["aborted"] * 2
    assert_served_as_by_the_oracle(engine, good)


@pytest.mark.process
def test_a_suspended_pass_sleeps_while_the_candidate_gets_its_first_token():
    long, urgent = Request(0, prompt(90), 3), Request(1, prompt(8, 2), 2)
    preemption = Preemption(first_hurried, suspend=True, rank_policies=HELD)
    with engine_with(preemption) as engine:
        engine.arrive(long)
        arrive_in_mid_pass(engine, urgent, layer=2)
        # One call: the urgent step ran inside the long one, and the long one came to its end.
        assert work_of(engine) == [{1: (0, 8)}, {0: (0, 90)}]
        engine.serve()
    assert all(a.kv_after == b.kv_before for a, b in pairwise(engine.trace().steps))
    (record,) = engine.preemptions
    assert record.resumed_ns > record.replied_ns
    assert_served_as_by_the_oracle(engine, [long, urgent])


def raise_key_error() -> str:
    raise KeyError("a defect")


@pytest.mark.process
@pytest.mark.parametrize("end", [lambda: "resume", lambda: "abort", raise_key_error])
def test_once_the_candidate_has_run_a_step_the_sleeping_pass_goes_on(
    end: Callable[[], str], monkeypatch: pytest.MonkeyPatch
):
    """An abort would take back the candidate's step, which has committed."""
    ways = iter([lambda: "stay_suspended", lambda: "stay_suspended", end])
    monkeypatch.setattr(preemptive_engine, "resume_or_abort", lambda *_, **__: next(ways)())
    long, urgent = Request(0, prompt(20), 2), Request(1, prompt(100, 2), 2)
    config = EngineConfig(token_budget=20, max_batch_size=4)
    preemption = Preemption(first_hurried, suspend=True, rank_policies=HELD)
    with engine_with(preemption, config) as engine:
        engine.arrive(long)
        arrive_in_mid_pass(engine, urgent, layer=3)
        assert work_of(engine) == [{1: (0, 20)}, {1: (20, 40)}, {0: (0, 20)}]
        engine.serve()
    assert_served_as_by_the_oracle(engine, [long, urgent])


@pytest.mark.process
def test_a_sleeping_pass_whose_room_is_needed_is_aborted():
    config = EngineConfig(token_budget=128, max_batch_size=4, max_kv_tokens=100)
    long, urgent = Request(0, prompt(90), 3), Request(1, prompt(30, 2), 2)
    with engine_with(Preemption(first_hurried, suspend=True, rank_policies=HELD), config) as engine:
        engine.arrive(long)
        arrive_in_mid_pass(engine, urgent)
        assert work_of(engine) == [{}]
        engine.serve()
    assert work_of(engine)[1] == {1: (0, 30)}
    assert engine.preemptions[0].resumed_ns is None
    assert_served_as_by_the_oracle(engine, [long, urgent])


@pytest.mark.process
def test_a_step_that_fails_for_another_reason_can_be_run_again():
    with engine_with(Preemption()) as engine:
        engine.arrive(Request(0, prompt(5), 1))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(engine.runner, "run", lambda *_, **__: {}["a defect"])
            with pytest.raises(KeyError, match="a defect"):
                engine.step()
        assert list(engine.cache.holders()) == []
        assert engine.step().admitted == (0,)


@pytest.mark.process
def test_an_engine_with_a_gate_needs_its_monitor_and_one_without_has_none():
    engine = engine_with(Preemption(first_hurried))
    engine.arrive(Request(0, prompt(5), 1))
    with pytest.raises(RuntimeError, match="use the engine in a `with`"):
        engine.step()
    votes: list[bool] = []
    with engine_with(Preemption(first_hurried)) as engine:
        begin_pass = engine.begin_pass
        engine.begin_pass = lambda step, rows: votes.append(begin_pass(step, rows)) or votes[-1]
        engine.run([(0, Request(0, prompt(5), 3))])
    assert votes == [True, False, False], "a pass of only decodes is not voted on"
    with engine_with(Preemption()) as engine:
        assert engine.monitor is None
        engine.arrive(Request(0, prompt(5), 3), slo_us=1)
        engine.serve()
    assert not [thread for thread in threading.enumerate() if thread.name == "slo-monitor"]
    with pytest.raises(ValueError, match="there is no agreement 'shout'; choose from"):
        engine_with(Preemption(agreement="shout"))


@pytest.mark.process
def test_a_request_that_the_scheduler_refuses_is_noted_and_the_others_are_served():
    good = Request(0, prompt(5), 3)
    with engine_with(Preemption(), EngineConfig(max_kv_tokens=20)) as engine:
        engine.arrive(Request(1, prompt(30), 3))
        engine.arrive(good)
        engine.arrive(Request(0, prompt(4), 1))
        with pytest.raises(ValueError, match="empty prompt"):
            engine.arrive(Request(2, [], 1))
        with pytest.raises(ValueError, match="request 2: slo_us is None; it must be a whole"):
            engine.arrive(Request(2, prompt(5), 1), None)  # pyright: ignore
        engine.serve()
    assert set(engine.refused) == {0, 1}
    assert "can never hold it" in engine.refused[1]
    assert_served_as_by_the_oracle(engine, [good])


@pytest.mark.process
def test_a_request_is_aborted_in_the_inbox_and_while_it_runs():
    with engine_with(Preemption(), EngineConfig(token_budget=8)) as engine:
        requests = [Request(i, prompt(6 + i, i), 5) for i in range(4)]
        for request in requests[:3]:
            engine.arrive(request)
        engine.step()
        engine.arrive(requests[3])
        engine.abort(3)
        engine.abort(0)
        engine.scheduler.admit_next = 2
        engine.abort(2)
        assert engine.scheduler.admit_next is None
        assert not engine.scheduler.previous_step & {0, 2, 3}
        engine.serve()
    assert [request.status for request in requests] == ["aborted", "done", "aborted", "aborted"]
    assert_served_as_by_the_oracle(engine, requests[1:2])


@pytest.mark.process
def test_an_engine_that_forgets_its_steps_keeps_nothing_of_who_was_in_them():
    """The ids come again, each time with another promise, and once as a request that is refused."""
    config = replace(CONFIG, max_kv_tokens=120, keep_steps=1)
    with engine_with(Preemption(first_hurried, rank_policies=HELD), config) as engine:
        for number in range(2):
            long, urgent = Request(0, prompt(90), 3), Request(1, prompt(8, 2), 2)
            third = Request(2, prompt(5, 4), 2 if number else 119)
            slo_us = 10**10 + number
            engine.arrive(long, slo_us)
            arrive_in_mid_pass(engine, urgent)
            slo = engine.slos[0]
            assert (slo.slo_us, slo.num_preemptions) == (slo_us, 1)
            engine.arrive(third, slo_us)
            held = engine.cache.held_tokens()
            assert engine.step().kv_before == held
            assert (2 in engine.refused) == (not number)
            held = engine.cache.held_tokens()
            assert held and engine.step().kv_before == held
            assert not number or engine.slos[2].slo_us == slo_us
            engine.serve()
            for last in (3, 4):
                engine.arrive(Request(last, prompt(3), 1))
                engine.serve()
            assert (engine.preemptions, engine.refused) == ([], {})
            assert set(engine.slos) == {4}


MANY = [pytest.param(each, 85, marks=pytest.mark.nightly) for each in ("vote", "carried", "epoch")]


@pytest.mark.process
@pytest.mark.parametrize("suspend", [False, True])
@pytest.mark.parametrize(("agreement", "wanted"), [("vote", 12), *MANY])
def test_random_preemptions_lose_nothing(suspend: bool, agreement: str, wanted: int):
    """Half of all looks preempt, until so many passes have been left."""
    seed, layers = 0, list[int]()
    while len(layers) < wanted:
        seed += 1
        rng = random.Random(f"{suspend} {agreement} {seed}")

        def gate(seen: Snapshot, rng: random.Random = rng) -> Target | None:
            waiting = [each.id for each in seen.waiting]
            often = any(runner.num_preemptions > 6 for runner in seen.running)
            if not waiting or often or rng.random() < 0.5:
                return None
            time.sleep(0.002 * rng.random())  # so that passes are left at all their layers
            return Target(seen.step, rng.choice(waiting))

        requests = [
            Request(i, prompt(rng.randint(1, 60), rng.randrange(65)), rng.randint(1, 3))
            for i in range(8)
        ]
        config = EngineConfig(token_budget=rng.choice([16, 48, 128]), max_batch_size=3)
        with engine_with(Preemption(gate, suspend, agreement), config) as engine:
            for request in requests:
                engine.arrive(request)
            engine.serve()
        assert_served_as_by_the_oracle(engine, requests)
        assert [step.step for step in engine.trace().steps] == list(range(engine.step_number))
        layers += [record.layer for record in engine.preemptions]
        assert engine.runner.is_open
    assert len(set(layers)) > 1
