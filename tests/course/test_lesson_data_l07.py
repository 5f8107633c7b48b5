"""Lesson 7: the numbers in its prose, predictions and tables are those of runs on blocks."""

import hashlib

import pytest
import torch
from answers import attempted
from notebooks import Notebooks
from support import ROOT

from course.lesson_data import l07_measured as measured
from course.lesson_data import l07_pool as pool
from course.lesson_data import l07b_agents
from course.lesson_data.l02_scheduler import recomputed
from course.saved_answers import LoadedPolicies
from nanogpt import Engine, Policies, Request, Trace, load_model

EARLIER = LoadedPolicies(Policies(), {}, "0 of 18 policies are yours.")


@pytest.fixture(scope="module")
def model():
    return load_model(dtype=torch.float64)


@pytest.fixture(scope="module")
def reference(model) -> Trace:
    return served(model, Policies())


def served(model, policies) -> Trace:
    return Engine(model, pool.SETTINGS, policies).run(pool.six_requests())


def without_parents(tokens, size, salt):
    ends = range(size, len(tokens) + 1, size)
    return [hashlib.sha256(repr((salt, tokens[e - size : e])).encode()).hexdigest() for e in ends]


def test_the_recorded_run_has_the_hits_that_the_lesson_tells_of(reference):
    """Nineteen blocks; request 3 comes four steps after request 0 has left and finds 48 tokens."""
    hits = {
        hit.request_id: (step.step, hit.num_tokens)
        for step in reference.steps
        for hit in step.prefix_hits
    }
    [left] = [step.step for step in reference.steps if 0 in step.finished]
    assert hits == {1: (3, 32), 3: (left + 4, 48), 5: (29, 32)}
    assert reference.steps[0].blocks.num_blocks == 19
    assert any(step.blocks.evicted for step in reference.steps)
    assert reference.error is None


@pytest.mark.process
def test_a_hash_without_its_parent_is_told_of_the_text_that_it_spoils(model, reference):
    trace = served(model, Policies(block_hashes=without_parents))
    attempts = {"block_hashes": attempted("l07.block_hashes", without_parents)}
    said = pool.run_report(attempts, EARLIER, model, trace, reference)
    assert "In this run `block_hashes` came from you" in said
    assert "**Not what the oracle `generate()` says: the text of request 5.**" in said
    assert "120 more were found in cached blocks" in said


# ---- counted -------------------------------------------------------------------------------------


def test_the_lesson_s_shares_of_memory_are_those_of_the_run():
    text = (ROOT / "lessons" / "l07_blocks.py").read_text(encoding="utf-8")
    shares, at_the_end = measured.shares_of_memory(), measured.mean_at_the_end()
    for size, share in shares.items():
        name = f"blocks of {size}" if size else "a slot for each request"
        assert f'| {name} | {{bar({round(share, 3)}, "{100 * share:.1f} %")}} |' in text
    assert f"**{100 * shares[None]:.0f} %**" in text
    assert f"They finish with {at_the_end:.0f} tokens in" in text
    assert f"only {100 * at_the_end / measured.CONTEXT:.0f} % of its" in text


def test_what_is_held_is_counted_once_however_many_tables_name_it():
    prompt = measured.drawn_tokens("twice", 40)
    trace = measured.run([(0, Request(0, prompt, 6)), (2, Request(1, prompt, 3))], 16, share=True)
    step = trace.steps[2]
    assert [kv.kv_tokens for kv in step.kv] == [42, 40]
    assert measured.tokens_taken(step, 16) == (2 + 1 + 1) * 16
    assert measured.tokens_held(step, 16) == 32 + 10 + 8
    assert recomputed(trace) == 0, "a token that was found is not computed again"


@pytest.mark.process
def test_a_preempted_request_finds_its_blocks_again(notebooks: Notebooks):
    """All runs preempt as often; the one that shares computes less than half of it again."""
    rows = notebooks.solved("l07_blocks").table("blocks of 8, not shared")
    assert [preempted for preempted, _ in rows.values()] == ["4", "4", "4"]
    slots, unshared, found = (int(computed) for _, computed in rows.values())
    assert found < 0.5 * unshared <= 0.5 * slots


# ---- lesson 7b -----------------------------------------------------------------------------------


def test_the_lesson_s_table_is_measured_and_a_pool_of_seven_eighths_finds_nothing():
    text = (ROOT / "lessons" / "l07b_spilling.py").read_text(encoding="utf-8")
    for pool_tokens in (1024, 960, 896, 768):
        cells = [l07b_agents.measured(pool_tokens, host) for host in (None, 1280)]
        said = " | ".join(f"{found:.1f} % | {ttft:.1f} ms" for found, ttft in cells)
        assert f"| {pool_tokens:,} | {said} |" in text
    full = [[*measured.drawn_tokens(f"agent {i}", 192), 7] for i in range(8)]
    for blocks, hits in ((84, 0), (97, 8)):
        turns = [(4 * i, Request(i, full[i % 8], 1)) for i in range(16)]
        trace = measured.run(turns, 16, share=True, max_kv_tokens=16 * blocks)
        assert sum(len(step.prefix_hits) for step in trace.steps) == hits
