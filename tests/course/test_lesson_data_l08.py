"""Behind lesson 8: the numbers that its prose states, as its own runs give them."""

import pytest
import torch

from course.lesson_data import l08_drafts as drafts
from course.lesson_data.l08_measured import (
    OPENINGS,
    acceptance_rate,
    accepted_drafts,
    by_place,
)
from nanogpt import Engine, EngineConfig, Request, decode, encode, generate, load_model
from nanogpt.fleet.speculating import Drafts, break_even
from nanogpt.fleet.workload import FleetRequest
from nanogpt.sampling import probabilities
from nanogpt.speculative.trigram import TrigramDraft


def test_the_first_run_takes_34_passes_and_leaves_the_cache_of_the_table():
    model, draft = load_model(), TrigramDraft.load()
    prompt = encode(drafts.OPENING)
    trace = Engine(model, drafts.FOUR_AHEAD, draft=draft).run([(0, Request(0, prompt, 60))])
    works = [work for step in trace.steps for work in step.work]
    assert drafts.tally(trace) == {
        "passes": 34, "tokens": 60, "drafted": 130, "checked": 54, "accepted": 26
    }  # fmt: skip
    text = list(trace.generated_tokens(0))
    assert text == generate(model, prompt, 60)
    [first] = [i for i, w in enumerate(works) if 0 < w.num_accepted < len(w.drafted)][:1]
    known = prompt + [token for work in works[:first] for token in work.tokens]
    assert (works[first].num_accepted, len(known) + 4) == (1, 46)
    assert decode([*known, *works[first].drafted])[39:] == "ngthe t"
    assert decode([*known, *works[first].tokens])[39:] == "ngth "


@pytest.mark.process
def test_the_acceptance_rate_differs_by_place_and_hardly_by_temperature():
    found = accepted_drafts(load_model(), TrigramDraft.load())
    rates = {temperature: f"{acceptance_rate(each):.2f}" for temperature, each in found.items()}
    assert rates == {0.0: "0.54", 1.0: "0.60", 2.0: "0.58"}
    first, _, third, _ = by_place(found[0.0])
    assert (f"{first:.0%}", f"{third:.0%}") == ("48%", "63%")


@pytest.mark.process
def test_shared_random_numbers_accept_fewer_drafts_than_rejection_sampling():
    """Each rule's tokens per pass, exactly, over texts of the target: all three leave its law."""
    model, draft = load_model(), TrigramDraft.load()
    prompts = [encode(text) for text in OPENINGS * 3]
    config = EngineConfig(token_budget=1024, temperature=1.0, seed=1)
    trace = Engine(model, config).run([(0, Request(i, p, 64)) for i, p in enumerate(prompts)])
    num_passes = dict.fromkeys(("one number", "Gumbel noise", "yours"), 0.0)
    for i, prompt in enumerate(prompts):
        text = [*prompt, *trace.generated_tokens(i)]
        accepted: dict[str, list[float]] = {rule: [] for rule in num_passes}  # by position
        with torch.inference_mode():
            targets = probabilities(model(torch.tensor([text]))[0][0], 1.0).double()
        for at in range(len(prompt), len(text)):
            p, q, x = targets[at - 1], torch.tensor(draft(text[:at])).double(), text[at]
            ends, draft_ends = p[: x + 1].sum(), q[: x + 1].sum()
            overlap = min(ends, draft_ends) - max(ends - p[x], draft_ends - q[x])
            both_draw_x = {
                "one number": max(0.0, overlap),
                "Gumbel noise": 1 / torch.maximum(p / p[x], q / q[x]).sum(),
                "yours": min(p[x], q[x]),
            }
            for rule, chance in both_draw_x.items():
                accepted[rule].append(float(chance / p[x]))
        for rule, chances in accepted.items():
            num_passes[rule] += expected_passes(chances)
    per_pass = {rule: f"{64 * len(prompts) / n:.1f}" for rule, n in num_passes.items()}
    assert per_pass == {"one number": "1.7", "Gumbel noise": "2.1", "yours": "2.2"}


def expected_passes(accepted: list[float], k: int = 4) -> float:
    """The mean number of passes over a text whose draft tokens are accepted with these chances."""
    begins = [1.0] + [0.0] * (len(accepted) + k)  # the chance that a pass begins at each position
    for at in range(len(accepted)):
        going_on = begins[at]
        for place, chance in enumerate(accepted[at : at + k], at):
            begins[place + 1] += going_on * (1 - chance)
            going_on *= chance
        begins[at + k + 1] += going_on
    return sum(begins[: len(accepted)])


def test_backing_off_below_break_even_costs_5_percent_instead_of_28():
    assert [f"{break_even(k, 0.1):.2f}" for k in (1, 2, 4, 8)] == ["0.10", "0.17", "0.29", "0.44"]

    def lost(least: float | None) -> float:
        """The lost share of the speed if no draft token is ever accepted."""
        requests = [FleetRequest(i, 0, (0,), 128, 5, 10**9, 0.0) for i in range(60)]
        passes = [Drafts(request, 8, least).passes(0) for request in requests]
        return 1 - 128 * 60 / sum(128 + 0.4 * each for each in passes)

    assert (f"{lost(break_even(4, 0.1)):.0%}", f"{lost(None):.0%}") == ("5%", "28%")
