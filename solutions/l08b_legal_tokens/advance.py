"""Exercise 8b.2: the automaton's state after the tokens of a step."""

import random

from course.checks.comparing import Args, Comparison
from course.exercise import Exercise, Misconception, Task
from nanogpt.policies import grammars
from nanogpt.views.grammar_state import GrammarState
from solutions.l08b_legal_tokens._automata import at, drawn, no_state

# --- right answers ------------------------------------------------------------------------------


def advance(state: GrammarState, committed: list[str]) -> int | None:
    """Return the number of the state after the committed tokens, None if they are not legal."""
    # Where a token ends makes no difference to an automaton over characters. Rejected drafts are
    # not among the committed tokens, so nothing has to be rolled back.
    at = state.at
    for character in "".join(committed):
        if character not in state.edges[at]:
            return None
        at = state.edges[at][character]
    return at


def token_by_token(state: GrammarState, committed: list[str]) -> int | None:
    at: int | None = state.at
    for text in committed:
        for character in text:
            at = None if at is None else state.edges[at].get(character)
    return at


# --- wrong ideas --------------------------------------------------------------------------------


def on(state: GrammarState, text: str) -> int | None:
    return grammars.advance(state, [text])


def as_far_as_it_goes(state: GrammarState, committed: list[str]) -> int:
    texts = ["".join(committed)[:n] for n in range(len("".join(committed)) + 1)]
    return next(at for text in reversed(texts) if (at := on(state, text)) is not None)


MISCONCEPTIONS = (
    Misconception(
        "no_number", "Return whether the tokens are legal.",
        "Return the number of the next state, or None if the tokens cannot be read.",
        matches=no_state, examples=(
            lambda state, committed: on(state, "".join(committed)) is not None,
            lambda state, committed: GrammarState(state.edges, on(state, "".join(committed)) or 0),
        ),
    ),
    Misconception(
        "last_token", "A step adds one token.",
        "A pass with accepted drafts commits several tokens: read all of them.",
        lambda state, committed: on(state, "".join(committed[-1:])),
        same_result=(lambda state, committed: on(state, "".join(committed[:1])),),
    ),
    Misconception(
        "first_characters", "A token is a character.",
        "A token may have several characters: read each of them.",
        lambda state, committed: on(state, "".join(text[:1] for text in committed)),
    ),
    Misconception(
        "from_the_start", "The automaton begins in state 0.",
        "Earlier tokens have led to `state.at`: begin there.",
        lambda state, committed: on(GrammarState(state.edges, 0), "".join(committed)),
    ),
    Misconception(
        "as_far_as_it_goes", "What cannot be read is ignored.",
        "Return None if a character cannot be read: the text has left the grammar, and no later "
        "state is right.",
        as_far_as_it_goes,
    ),
    Misconception(
        "stays", "Without a way on, the state stays as it was.",
        "Return None if a character cannot be read, not the state from before the step.",
        lambda state, committed: state.at if (to := on(state, "".join(committed))) is None else to,
    ),
)  # fmt: skip


def any_step(rng: random.Random) -> list[Args]:
    return [drawn(rng, rng.randint(0, 4)) for _ in range(60)]


STEPS = (["a", "y"], ["ye", "a"], ["ye"], ["ay."], ["nay", "."])
JUDGE = Comparison(
    grammars.advance, MISCONCEPTIONS,
    "Write the committed texts in a row, and follow the edges from `state.at`, one per character.",
    evidence=[(at(text), texts) for text in ("", "n") for texts in STEPS],
)  # fmt: skip

EXERCISE = Exercise(
    number=2,
    title="Follow the committed tokens",
    minutes=5,
    points=2,
    task=Task(
        rules=(
            "`state` is as in exercise 8b.1. `committed` are the texts of the tokens that a step "
            "adds to the request's text: accepted drafts, and the target's token. It may be empty. "
            "Do not change it.",
            "Returns the number of the state after them; None if the automaton cannot read them.",
        ),
        args=(GrammarState([{"n": 1}, {"a": 2}, {"y": 3}, {}], 0), ["na", "y"]),
        result=3,
        steps=("`n` leads from state 0 to state 1, `a` to state 2, and `y` to state 3.",),
    ),
    hints=(
        "Does the automaton notice where one token ends and the next one begins?",
        "Join the texts, and walk through the characters as in `allowed`.",
        "Begin at `state.at`; for each character take `state.edges[at].get(character)`, and return "
        "None as soon as it is None.",
    ),
    right=(advance, token_by_token),
    misconceptions=MISCONCEPTIONS,
    checks=(
        ("one token", JUDGE.on((at(""), ["n"]), (at("n"), ["a"]), (at("n"), ["ay"]))),
        ("several tokens", JUDGE.on((at(""), ["na", "y"]), (at("yea, n", 2), ["a", "y,"]))),
        ("no tokens", JUDGE.on((at("na"), []))),
        ("illegal tokens", JUDGE.on((at("n"), ["e"]), (at(""), ["ye", "y"]))),
        ("any step", JUDGE.on_drawn(any_step)),
    ),
)
