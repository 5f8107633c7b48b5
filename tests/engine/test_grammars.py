"""Grammars: automata equal Python's `re`, and a masked text is the same however it is served."""

import random
import re
from collections.abc import Sequence

import pytest
import torch
from fakes import prompt_of, tiny_model
from hypothesis import given
from hypothesis import strategies as st
from lockstep import steps_of
from tiers import some

from nanogpt import Engine, EngineConfig, Request
from nanogpt.grammar.matchers import RegexGrammar
from nanogpt.grammar.regular_expression import automaton_of
from nanogpt.policies import Policies
from nanogpt.policies.queueing import ResumeState
from nanogpt.recorded_texts import RecordedTexts
from nanogpt.sampling import LogitsParams, masked, penalized, sample_tokens, uniform
from nanogpt.validate import PolicyError

ATOMS = ("a", "b", "[ab]", "[^c]", ".", r"\w", r"\.", r"[]\-c]", "-", "{", "]")
REPEATS = ("*", "+", "?", "{2}", "{1,3}?", "{,2}")
PATTERNS = st.recursive(
    st.sampled_from(ATOMS),
    lambda inner: st.one_of(
        st.builds("{}{}".format, inner, inner),
        st.builds("({}|{})".format, inner, inner),
        st.builds("(?:{}){}".format, inner, st.sampled_from(REPEATS)),
    ),
    max_leaves=6,
)  # fmt: skip
ALPHABET = "abc.-]{"


@given(PATTERNS, st.lists(st.text(ALPHABET, max_size=6), max_size=30))
def test_an_automaton_reads_what_the_pattern_matches(pattern: str, texts: list[str]):
    made = automaton_of(pattern, ALPHABET)
    rng = random.Random(pattern)
    for text in (*texts, *(walked(made.edges, rng) for _ in range(20))):
        at: int | None = 0
        for character in text:
            at = None if at is None else made.edges[at].get(character)
        is_read = at is not None and made.distances[at] == 0
        assert is_read == bool(re.fullmatch(pattern, text)), text


def walked(edges: Sequence[dict[str, int]], rng: random.Random) -> str:
    at, text = 0, ""
    while edges[at] and len(text) < 8 and rng.random() < 0.8:
        character = rng.choice(list(edges[at]))
        text, at = text + character, edges[at][character]
    return text


# --- texts never differ ---------------------------------------------------------------------------

FORMS = ("(ab|c){2,9}", "a+b*c", "(a|bc)*d", "(ab?c|d)+", "[ab]{3}(cd)*", ".+c", "d(abc)*a?")


def vocabulary(rng: random.Random) -> tuple[str, ...]:
    """65 tokens: the letters, pieces of them, and some without any text."""
    pieces = ["".join(rng.choices("abcd", k=rng.randint(2, 3))) for _ in range(50)]
    texts = [*"abcd", *pieces, *[""] * 11]
    rng.shuffle(texts)
    return tuple(texts)


def one_at_a_time(request: Request, grammar: RegexGrammar, config: EngineConfig) -> list[int]:
    """The text of a request, sampled one token after the other with a mask made anew."""
    edges, distances = grammar.automaton.edges, grammar.automaton.distances
    known, at = list(request.prompt_tokens), 0
    params = request.sampling(config)
    filters = (params.logits or LogitsParams()).min_p, (params.logits or LogitsParams()).top_k, 1.0
    for left in range(request.max_new_tokens, 0, -1):
        after: dict[int, int] = {}
        for token, text in enumerate(grammar.token_texts):
            to: int | None = at
            for character in text:
                to = None if to is None else edges[to].get(character)
            if text and to is not None and distances[to] < left:
                after[token] = to
        ends = grammar.end_tokens if distances[at] == 0 else ()
        if not after:
            break
        legal = torch.tensor([t in after or t in ends for t in range(65)])
        with torch.inference_mode():
            logits = masked(tiny_model()(torch.tensor([known]))[0][0, -1], legal)
        if params.logits is not None:
            logits = penalized(logits, params.logits, known, len(request.prompt_tokens))
        draw = uniform(params.seed, params.stream_id, len(known), "sample")
        [token] = sample_tokens(logits[None], params.temperature, [draw], filters)
        known.append(token)
        if token in ends:
            break
        at = after[token]
    return known[len(request.prompt_tokens) :]


def forgetful(view: object) -> ResumeState:
    """A preempted request keeps half of its generated tokens."""
    kept = len(view.generated_tokens) // 2  # type: ignore[attr-defined]
    known = [*view.prompt_tokens, *view.generated_tokens[:kept]]  # type: ignore[attr-defined]
    return ResumeState(known, 0, view.arrival_time, kept)  # type: ignore[attr-defined]


def draft_by(known: Sequence[int]) -> list[float]:
    """A draft that knows a little about nothing."""
    weights = [1 + (known[-1] * token * 7) % 11 for token in range(65)]
    return [each / sum(weights) for each in weights]


def serve(seed: int) -> tuple[list[Request], EngineConfig, int]:
    """Requests with and without a grammar, served by an engine of any form; its preemptions."""
    rng = random.Random(seed)
    texts = vocabulary(rng)
    ends = (texts.index(""),) if rng.random() < 0.5 else ()
    grammars = [RegexGrammar(form, texts, ends) for form in rng.sample(FORMS, 3)]
    drafts = rng.choice((0, 0, 1, 3))
    size = rng.choice((None, 2, 5))
    config = EngineConfig(
        token_budget=rng.randint(2, 20), max_kv_tokens=rng.randint(30, 60), block_size=size,
        share_prefixes=bool(size) and rng.random() < 0.5, num_draft_tokens=drafts,
        temperature=rng.choice((0.0, 1.0)), seed=seed, max_batch_size=4,
        preempt_to_admit=rng.random() < 0.5, policy=rng.choice(("fcfs", "priority")),
        executor=rng.choice(("packed", "packed", "padded", "fused")) if not drafts else "packed",
    )  # fmt: skip
    arrivals: list[tuple[int, Request]] = []
    for i in range(rng.randint(1, 6)):
        params = LogitsParams(frequency_penalty=1.0, top_k=5) if rng.random() < 0.3 else None
        arrivals.append((rng.randint(0, 6), Request(
            i, prompt_of(i, rng.randint(1, 9)), rng.randint(9, 18), rng.randint(0, 2),
            grammar=rng.choice((None, *grammars)), logits_params=params,
        )))  # fmt: skip
    policies = Policies(requeue=forgetful) if rng.random() < 0.3 else Policies()
    engine = Engine(tiny_model(), config, policies, draft=draft_by if drafts else None)
    preempted = sum(len(record.preempted) for record in steps_of(engine, arrivals))
    return [request for _, request in arrivals], config, preempted


def test_a_masked_text_is_the_same_however_it_is_served_and_matches_its_pattern():
    preempted = 0
    for seed in some(range(2000), 60):
        requests, config, times = serve(seed)
        preempted += times
        for request in requests:
            if isinstance(request.grammar, RegexGrammar):
                if not (config.num_draft_tokens and config.temperature):  # draws by other keys
                    wanted = one_at_a_time(request, request.grammar, config)
                    assert request.generated_tokens == wanted, (seed, request.id)
                texts = request.grammar.token_texts
                text = "".join(texts[token] for token in request.generated_tokens)
                assert re.fullmatch(request.grammar.pattern, text), (seed, text)
    assert preempted


def test_a_grammar_that_cannot_be_used_is_refused_on_arrival_and_the_engine_goes_on():
    letters = ("a", "b", *[""] * 63)
    grammar = RegexGrammar("a{3}b", letters)
    engine = Engine(tiny_model())
    for made, request, said in (
        (engine, Request(0, [1], 3, grammar=grammar), "has 4 characters; max_new_tokens is 3"),
        (engine, Request(0, [1], 9, grammar="a"), "its grammar is 'a'; it must be a grammar"),
        (engine, Request(0, [1], 9, grammar=RegexGrammar("a", letters[:9])), "the texts of 9 toke"),
        (Engine(RecordedTexts()), Request(0, [1], 9, grammar=grammar), "recorded texts do not ha"),
    ):
        with pytest.raises(ValueError, match=said):
            made.submit(request)
    with pytest.raises(ValueError, match=r"'a\?' matches only the empty text"):
        RegexGrammar("a?", ("b", *letters[2:]))
    trace = engine.run([(0, Request(0, [1], 9, grammar=grammar))])
    assert trace.generated_tokens(0) == (0, 0, 0, 1)


def test_policies_that_leave_no_token_or_answer_in_another_form_are_refused():
    grammar = RegexGrammar("[ab]+", ("a", "b", *[""] * 63))
    nothing = Policies(must_close=lambda distance, tokens_left: True)
    short = Policies(draft_masks=lambda state, drafts: [state.at])
    text = Policies(advance=lambda state, committed: "".join(committed))
    for policies, said in (
        (nothing, "leave no token that may follow in state 0"),
        (Policies(allowed=lambda state, texts: [True]), "must be 65 bools"),
        (short, "draft_masks in state 1 returned .1.; it must be 3 numbers of states"),
        (text, "advance from state 0 returned"),
    ):
        config = EngineConfig(num_draft_tokens=2)
        with pytest.raises(PolicyError, match=said):
            Engine(tiny_model(), config, policies, draft=draft_by).run(
                [(0, Request(0, [1], 9, grammar=grammar))]
            )
