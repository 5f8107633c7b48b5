"""Grammars: automata equal Python's `re`, and a masked text is the same however it is served."""

import random
import re
from collections.abc import Sequence

import pytest
import torch
from fakes import prompt_of, tiny_model
from hypothesis import example, given
from hypothesis import strategies as st
from lockstep import steps_of
from tiers import some

from nanogpt import Engine, EngineConfig, Policies, Request
from nanogpt.grammar.matchers import RegexGrammar
from nanogpt.grammar.regular_expression import automaton_of
from nanogpt.policies.queueing import ResumeState
from nanogpt.sampling import LogitsParams, masked, penalized, sample_tokens, uniform
from nanogpt.validate import PolicyError
from nanogpt.views.grammar_state import GrammarState

REPEATS = ("*", "+", "?", "{2}", "{1,3}?", "{,2}")
PATTERNS = st.recursive(
    st.sampled_from(["a", "b", "[ab]", "[^c]", ".", r"\w", r"\.", r"[]\-c]", "-", "{", "]"]),
    lambda inner: st.one_of(
        st.builds("{}{}".format, inner, inner),
        st.builds("({}|{})".format, inner, inner),
        st.builds("(?:{}){}".format, inner, st.sampled_from(REPEATS)),
    ),
    max_leaves=6,
)
FORMS = ("(ab|c){2,9}", "a+b*c", "(a|bc)*d", "(ab?c|d)+", "[ab]{3}(cd)*", ".+c", "d(abc)*a?")


@example("(?:a*)*", ["", "aa", "b"], random.Random(0))
@given(PATTERNS, st.lists(st.text("abc.-]{", max_size=6), max_size=30), st.randoms())
def test_an_automaton_reads_what_the_pattern_matches(
    pattern: str, texts: list[str], rng: random.Random
):
    made = automaton_of(pattern, "abc.-]{")
    for _ in range(20):
        text, at = "", 0
        while made.edges[at] and len(text) < 8 and rng.random() < 0.8:
            character = rng.choice(list(made.edges[at]))
            text, at = text + character, made.edges[at][character]
        texts.append(text)
    for text in texts:
        state: int | None = 0
        for character in text:
            state = None if state is None else made.edges[state].get(character)
        is_read = state is not None and made.distances[state] == 0
        assert is_read == bool(re.fullmatch(pattern, text)), text


def one_at_a_time(request: Request, grammar: RegexGrammar, config: EngineConfig) -> list[int]:
    """The text of a request, sampled one token after the other with a mask made anew."""
    edges, distances = grammar.automaton.edges, grammar.automaton.distances
    known, at, params = list(request.prompt_tokens), 0, request.sampling(config)
    for left in range(request.max_new_tokens, 0, -1):
        after: dict[int, int] = {}
        for token, text in enumerate(grammar.token_texts):
            to: int | None = at if text else None
            for character in text:
                to = None if to is None else edges[to].get(character)
            if to is not None and distances[to] < left:
                after[token] = to
        if not after:
            break
        ends = grammar.end_tokens if distances[at] == 0 else ()
        legal = torch.tensor([token in after or token in ends for token in range(65)])
        with torch.inference_mode():
            logits = masked(tiny_model()(torch.tensor([known]))[0][0, -1], legal)
        if params.logits is not None:
            logits = penalized(logits, params.logits, known, len(request.prompt_tokens))
        draw = uniform(params.seed, params.stream_id, len(known), "sample")
        known += sample_tokens(logits[None], params.temperature, [draw], params.filters)
        if known[-1] in ends:
            break
        at = after[known[-1]]
    return known[len(request.prompt_tokens) :]


def forgetful(view: Request) -> ResumeState:
    """A preempted request keeps half of its generated tokens."""
    kept = len(view.generated_tokens) // 2
    known = [*view.prompt_tokens, *view.generated_tokens[:kept]]
    return ResumeState(known, 0, view.arrival_time, kept)


def draft_by(known: Sequence[int]) -> list[float]:
    """A draft that knows a little about nothing."""
    weights = [1 + (known[-1] * token * 7) % 11 for token in range(65)]
    return [each / sum(weights) for each in weights]


def serve(rng: random.Random, seed: int) -> tuple[list[Request], EngineConfig, int]:
    """Requests with and without a grammar, served by an engine of any form; its preemptions."""
    pieces = ["".join(rng.choices("abcd", k=rng.randint(2, 3))) for _ in range(50)]
    texts = rng.sample([*"abcd", *pieces, *[""] * 11], 65)
    ends = (texts.index(""),) if rng.random() < 0.5 else ()
    grammars = [RegexGrammar(form, tuple(texts), ends) for form in rng.sample(FORMS, 3)]
    drafts, size = rng.choice((0, 0, 1, 3)), rng.choice((None, 2, 5))
    share = size is not None and rng.random() < 0.7
    config = EngineConfig(
        token_budget=rng.randint(2, 20), max_kv_tokens=rng.randint(30, 60), block_size=size,
        share_prefixes=share, num_draft_tokens=drafts,
        host_kv_tokens=rng.choice((None, 20, 80)) if share else None,
        temperature=rng.choice((0.0, 1.0)), seed=seed, max_batch_size=4,
        preempt_to_admit=rng.random() < 0.5, policy=rng.choice(("fcfs", "priority")),
        executor="packed" if drafts else rng.choice(("packed", "packed", "padded", "fused")),
    )  # fmt: skip
    requests = [
        Request(
            i, prompt_of(i % 3, rng.randint(1, 9)), rng.randint(9, 18), rng.randint(0, 2),
            grammar=rng.choice((None, *grammars)),
            logits_params=rng.choice((None, None, LogitsParams(frequency_penalty=1.0, top_k=5))),
        )
        for i in range(rng.randint(1, 6))
    ]  # fmt: skip
    policies = Policies(requeue=forgetful) if rng.random() < 0.3 else Policies()
    engine = Engine(tiny_model(), config, policies, draft=draft_by if drafts else None)
    arrivals = [(rng.randint(0, 6), request) for request in requests]
    return requests, config, sum(len(step.preempted) for step in steps_of(engine, arrivals))


def test_a_masked_text_is_the_same_however_it_is_served_and_matches_its_pattern():
    preempted = 0
    for seed in some(range(2000), 40):
        requests, config, times = serve(random.Random(seed), seed)
        preempted += times
        for request in [each for each in requests if each.grammar]:
            grammar, tokens = request.grammar, request.generated_tokens
            if not (config.num_draft_tokens and config.temperature):  # drawn by other keys
                assert tokens == one_at_a_time(request, grammar, config), (seed, request.id)
            text = "".join(grammar.token_texts[token] for token in tokens)
            assert re.fullmatch(grammar.pattern, text), (seed, text)
    assert preempted


def test_what_cannot_be_used_is_refused_and_the_engine_goes_on():
    letters = ("a", "b", *[""] * 63)
    grammar, engine = RegexGrammar("a{3}b", letters), Engine(tiny_model())
    for request, said in (
        (Request(0, [1], 3, grammar=grammar), "has 4 characters; max_new_tokens is 3"),
        (Request(0, [1], 9, grammar="a"), "grammar is 'a'; it must be a grammar"),
        (Request(0, [1], 9, grammar=RegexGrammar("a", letters[:9])), "the texts of 9 tokens"),
    ):
        with pytest.raises(ValueError, match=said):
            engine.submit(request)
    assert engine.run([(0, Request(0, [1], 9, grammar=grammar))]).generated_tokens(0) == (
        0,
        0,
        0,
        1,
    )
    never = Policies(must_close=lambda *_: True)
    with pytest.raises(PolicyError, match="leave no token in state 0"):
        Engine(tiny_model(), policies=never).run([(0, Request(0, [1], 9, grammar=grammar))])


def test_a_policy_cannot_change_the_automaton():
    def clears(state: GrammarState, committed: list[str]) -> int:
        state.edges[state.at].clear()  # type: ignore[attr-defined]
        return state.at

    request = Request(0, [1], 9, grammar=RegexGrammar("a+", ("a", *[""] * 64)))
    with pytest.raises(AttributeError, match="clear"):
        Engine(tiny_model(), policies=Policies(advance=clears)).run([(0, request)])
