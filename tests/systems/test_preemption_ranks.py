"""Real rank processes: the same numbers on 1, 2 and 4 of them, and passes that they all leave."""

from dataclasses import replace

import pytest
import torch
from preempting import (
    CONFIG,
    HELD,
    LAYERS,
    hold_at,
    let_go,
    logits_after,
    meanwhile,
    pass_row,
    prompt,
    ranks,
    tiny_model,
    wait_until_held,
)

from nanogpt import Engine, EngineConfig, Request, generate, load_model
from nanogpt.preemption.agreement import RANK_PARTS
from nanogpt.preemption.pass_outcome import Abandoned, Complete
from nanogpt.preemption.preemptive_engine import PreemptiveEngine
from nanogpt.preemption.runner import Runner
from nanogpt.preemption.shared_state import NOTHING
from nanogpt.preemption.tensor_parallel import tensor_parallel

AGREEMENTS = ("vote", "carried", "epoch")
LATER = {"vote": 0, "carried": 1, "epoch": 1}
"""How many layers after a rank has read the target all of them leave."""


@pytest.mark.parametrize("num_ranks", [1, 2, 4])
def test_shipped_weights_give_the_same_logits_on_every_number_of_ranks(num_ranks: int):
    model = load_model(dtype=torch.float64)
    tokens = prompt(100)
    runner = ranks(num_ranks)
    runner.load(model, num_slots=2)
    outcome = runner.run(runner.new_step(), [pass_row(tokens)])
    assert isinstance(outcome, Complete)
    assert (outcome.logits[0] - logits_after(model, tokens)).abs().max() < 1e-10


@pytest.mark.parametrize("num_ranks", [1, 2, 4])
def test_an_engine_on_ranks_gives_the_tokens_of_the_oracle(num_ranks: int):
    model = tiny_model()
    prompts = [prompt(20), prompt(33, 5), prompt(7, 9)]
    arrivals = [(step, Request(step, tokens, 6)) for step, tokens in enumerate(prompts)]
    engine = Engine(
        model, EngineConfig(token_budget=16), make_executor=tensor_parallel(ranks(num_ranks))
    )
    trace = engine.run(arrivals)
    for request_id, tokens in enumerate(prompts):
        assert list(trace.generated_tokens(request_id)) == generate(model, tokens, 6)
    assert trace.executor == f"tensor parallel, {num_ranks} ranks"


def test_rows_of_one_pass_do_not_see_each_other():
    runner = ranks(2)
    model = tiny_model()
    runner.load(model, num_slots=3)
    first, second = prompt(30), prompt(11, 3)
    runner.run(runner.new_step(), [pass_row(first[:20], slot=2)])
    rows = [pass_row(second, slot=0), pass_row(first[20:], slot=2, num_past=20)]
    outcome = runner.run(runner.new_step(), rows)
    assert isinstance(outcome, Complete)
    assert (outcome.logits[0] - logits_after(model, second)).abs().max() < 1e-10
    assert (outcome.logits[1] - logits_after(model, first)).abs().max() < 1e-10


def test_without_a_monitor_nobody_votes():
    runner = ranks(2)
    runner.load(tiny_model(), num_slots=1)
    step = runner.new_step()
    runner.shared.target = step
    outcome = runner.run(step, [pass_row(prompt(9))])
    assert isinstance(outcome, Complete)
    for reply in outcome.replies:
        assert reply.num_collectives == 2 * LAYERS  # the two sums of every layer
        assert [check.vote for check in reply.checks] == [0] * LAYERS


@pytest.mark.parametrize(("agreement", "extra"), [("vote", LAYERS), ("carried", 0), ("epoch", 0)])
def test_only_the_plain_vote_costs_a_collective_per_attention_op(agreement: str, extra: int):
    runner = ranks(2)
    runner.load(tiny_model(), 1, agreement)
    outcome = runner.run(runner.new_step(), [pass_row(prompt(9))], vote=True)
    assert isinstance(outcome, Complete)
    assert [reply.num_collectives for reply in outcome.replies] == [2 * LAYERS + extra] * 2


@pytest.mark.parametrize("num_ranks", [1, 2, 4])
@pytest.mark.parametrize("agreement", AGREEMENTS)
def test_ranks_that_read_the_target_at_different_times_leave_at_the_same_layer(
    num_ranks: int, agreement: str
):
    """Rank 0 has not yet read it at layer 1 when it is written; all others have."""
    runner = ranks(num_ranks)
    runner.load(tiny_model(), 1, agreement, HELD)
    step, shared = runner.new_step(), runner.shared
    hold_at(shared, 0, step, 1, "read")
    for rank in range(1, num_ranks):
        hold_at(shared, rank, step, 1, "agree")

    def write_between() -> None:
        for rank in range(num_ranks):
            wait_until_held(shared, rank)
        shared.target = step
        for rank in range(num_ranks):
            let_go(shared, rank)

    with meanwhile(write_between):
        outcome = runner.run(step, [pass_row(prompt(30))], vote=True)
    assert isinstance(outcome, Abandoned)
    assert outcome.layer == 1 + LATER[agreement]
    votes = {reply.rank: [check.vote for check in reply.checks] for reply in outcome.replies}
    assert votes[0][:2] == [0, 1]
    assert all(votes[rank][:2] == [0, 0] for rank in range(1, num_ranks))


@pytest.mark.parametrize("agreement", AGREEMENTS)
@pytest.mark.parametrize("layer", range(LAYERS))
def test_a_pass_is_left_at_any_layer_and_run_again_from_the_start(agreement: str, layer: int):
    runner = ranks(2)
    model = tiny_model()
    runner.load(model, 1, agreement, HELD)
    tokens = prompt(40)
    step, shared = runner.new_step(), runner.shared
    hold_at(shared, 0, step, layer)

    def write() -> None:
        wait_until_held(shared, 0)
        shared.target = step
        let_go(shared, 0)

    with meanwhile(write):
        outcome = runner.run(step, [pass_row(tokens)], vote=True)
    if layer + LATER[agreement] < LAYERS:
        assert isinstance(outcome, Abandoned)
        assert outcome.layer == layer + LATER[agreement]
    again = runner.run(runner.new_step(), [pass_row(tokens)], vote=True)
    assert isinstance(again, Complete)
    assert (again.logits[0] - logits_after(model, tokens)).abs().max() < 1e-10


@pytest.mark.parametrize("num_ranks", [1, 2])
@pytest.mark.parametrize("layer", range(LAYERS))
def test_a_suspended_pass_goes_on_where_it_slept_while_others_ran(num_ranks: int, layer: int):
    runner = ranks(num_ranks)
    model = tiny_model()
    runner.load(model, 3, "vote", HELD)
    long, short = prompt(60), prompt(8, 4)
    step, shared = runner.new_step(), runner.shared
    hold_at(shared, 0, step, layer)

    def write() -> None:
        wait_until_held(shared, 0)
        shared.target = step
        let_go(shared, 0)

    with meanwhile(write):
        left = runner.run(step, [pass_row(long, slot=1)], vote=True, suspend=True)
    assert isinstance(left, Abandoned)
    assert (left.layer, left.suspended) == (layer, True)
    for slot in (0, 2):
        between = runner.run(runner.new_step(), [pass_row(short, slot)], vote=True)
        assert isinstance(between, Complete)
        assert (between.logits[0] - logits_after(model, short)).abs().max() < 1e-10
    # The target still names the pass's old number, and the ranks look at it again.
    assert shared.target == step
    outcome = runner.resume(runner.new_step(), step, vote=True, suspend=True)
    assert isinstance(outcome, Complete)
    assert (outcome.logits[0] - logits_after(model, long)).abs().max() < 1e-10
    assert [check.layer for check in outcome.replies[0].checks] == list(range(layer + 1, LAYERS))


def test_a_suspended_pass_can_be_dropped_and_its_slot_used_again():
    runner = ranks(2)
    model = tiny_model()
    runner.load(model, 1)
    step = runner.new_step()
    runner.shared.target = step
    left = runner.run(step, [pass_row(prompt(50))], vote=True, suspend=True)
    assert isinstance(left, Abandoned)
    runner.drop(step)
    again = runner.run(runner.new_step(), [pass_row(prompt(12, 2))], vote=True)
    assert isinstance(again, Complete)
    assert (again.logits[0] - logits_after(model, prompt(12, 2))).abs().max() < 1e-10


def test_an_aborted_chunk_leaves_what_earlier_steps_committed_as_it_was():
    runner = ranks(2)
    model = tiny_model()
    runner.load(model, 1)
    tokens = prompt(60)
    runner.run(runner.new_step(), [pass_row(tokens[:25])])
    step = runner.new_step()
    runner.shared.target = step
    garbage = prompt(35, 11)
    left = runner.run(step, [pass_row(garbage, num_past=25)], vote=True)
    assert isinstance(left, Abandoned)
    outcome = runner.run(runner.new_step(), [pass_row(tokens[25:], num_past=25)])
    assert isinstance(outcome, Complete)
    assert (outcome.logits[0] - logits_after(model, tokens)).abs().max() < 1e-10


def test_a_target_for_another_step_stops_nobody():
    runner = ranks(2)
    runner.load(tiny_model(), 1)
    for ahead in (-1, 1, 1000):
        step = runner.new_step()
        runner.shared.target = step + ahead
        assert isinstance(runner.run(step, [pass_row(prompt(9))], vote=True), Complete)
        runner.shared.target = NOTHING


def test_times_of_a_pass_are_on_one_clock_for_all_processes():
    runner = ranks(2)
    runner.load(tiny_model(), 1)
    outcome = runner.run(runner.new_step(), [pass_row(prompt(30))], vote=True)
    for reply in outcome.replies:
        times = [check.reached_ns for check in reply.checks]
        assert times == sorted(times)
        assert times[-1] + reply.checks[-1].agree_ns < runner.replied_ns


def test_numbers_of_ranks_that_make_no_sense_are_refused_with_the_reason():
    with pytest.raises(ValueError, match="the number of ranks is 0"):
        Runner(0)
    runner = ranks(4)
    odd = type(tiny_model())(type(CONFIG)(num_layers=1, num_heads=6, num_channels=12))
    with pytest.raises(ValueError, match="6 heads do not split evenly over 4 ranks"):
        runner.load(odd, 1)
    with pytest.raises(ValueError, match="there is no agreement 'shout'"):
        runner.load(tiny_model(), 1, "shout")


def test_a_rank_part_that_no_other_process_could_import_is_refused_and_the_ranks_live_on():
    runner = ranks(2)
    for part in (lambda vote: iter(()), lambda_free_inner()):
        with pytest.raises(ValueError, match="must be a function of a module that they can import"):
            runner.load(tiny_model(), 1, parts=replace(RANK_PARTS, checkpoint=part))
    assert runner.is_open


def lambda_free_inner():
    def inner(vote: int):
        yield ("max", vote)

    return inner


@pytest.mark.parametrize("settings", [{"sliding_window": 8}, {"block_size": 8}])
def test_ranks_refuse_a_sliding_window_and_blocks(settings: dict[str, int]):
    config = EngineConfig(**settings)
    with pytest.raises(ValueError, match="no sliding window"):
        Engine(tiny_model(), config, make_executor=tensor_parallel(ranks(2)))
    with pytest.raises(ValueError, match="no sliding window"):
        PreemptiveEngine(tiny_model(), ranks(2), config=config)
