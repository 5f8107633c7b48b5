"""Exercise 8b.1: which tokens of a vocabulary may follow."""

import random

from course.checks.comparing import Args, Comparison
from course.exercise import Exercise, Misconception, Task
from nanogpt.policies import grammars
from nanogpt.views.grammar_state import GrammarState
from solutions.l08b_legal_tokens._automata import LETTERS, at, drawn, not_bools

# --- right answers ------------------------------------------------------------------------------


def allowed(state: GrammarState, token_texts: list[str]) -> list[bool]:
    """Return, for each token, whether its text may follow in this state."""
    # A token is legal if the automaton can read all its characters, one after the other. A token
    # without text moves nothing: a sampler that may draw it could draw it for ever.
    legal: list[bool] = []
    for text in token_texts:
        at = state.at
        for character in text:
            at = state.edges[at].get(character) if at is not None else None
        legal.append(text != "" and at is not None)
    return legal


def by_recursion(state: GrammarState, token_texts: list[str]) -> list[bool]:
    def reads(at: int, text: str) -> bool:
        return not text or (
            text[0] in state.edges[at] and reads(state.edges[at][text[0]], text[1:])
        )

    return [bool(text) and reads(state.at, text) for text in token_texts]


# --- wrong ideas --------------------------------------------------------------------------------

MISCONCEPTIONS = (
    Misconception(
        "not_bools", "Return the tokens that are legal.",
        "Return a list with True or False for each token, in the order of `token_texts`.",
        matches=not_bools, examples=(
            lambda state, texts: [text for text in texts if allowed(state, [text])[0]],
        ),
    ),
    Misconception(
        "first_character", "The next character decides.",
        "The whole text of a token is written at once, so each of its characters has to be legal "
        "where it stands.",
        lambda state, texts: [text[:1] in state.edges[state.at] for text in texts],
    ),
    Misconception(
        "one_character", "The characters that may follow are the tokens that may follow.",
        "A token may have several characters: read them one by one, from state to state.",
        lambda state, texts: [text in state.edges[state.at] for text in texts],
    ),
    Misconception(
        "one_state", "Every character of a token has to be legal in this state.",
        "Each character leads to another state, and the next one is read from there.",
        lambda state, texts: [
            text != "" and all(c in state.edges[state.at] for c in text) for text in texts
        ],
    ),
    Misconception(
        "empty_text", "A token without text breaks no rule.",
        "A token without text is not allowed: it brings the text no nearer to an end.",
        lambda state, texts: [
            not text or grammars.allowed(state, [text])[0] for text in texts
        ],
    ),
    Misconception(
        "from_the_start", "The automaton begins in state 0.",
        "Some of the text is already written: begin in `state.at`.",
        lambda state, texts: grammars.allowed(GrammarState(state.edges, 0), texts),
    ),
)  # fmt: skip


def any_state(rng: random.Random) -> list[Args]:
    cases = [drawn(rng, 6) for _ in range(40)]
    return [
        (state, ["", *texts, *map("".join, zip(texts, LETTERS, strict=False))])
        for state, texts in cases
    ]


TEXTS = ["y", "ye", "yea", "a", "ay", "a.", "ay.", "yy", "e", "", ".", "nay.", "n", "an"]
JUDGE = Comparison(
    grammars.allowed, MISCONCEPTIONS,
    "Read the token's text with a finger on the automaton: is there an edge for each character?",
    each="token", evidence=[(at("", 0), TEXTS), (at("n"), TEXTS), (at("ye", 1), TEXTS)],
)  # fmt: skip

EXERCISE = Exercise(
    number=1,
    title="Legal tokens",
    minutes=8,
    points=3,
    task=Task(
        rules=(
            "`state.edges[n]` is a dict: the characters that may follow in state n, each with the "
            "number of the next state. `state.at` is the number of the current state.",
            "Returns a bool for each token: whether the automaton can read all characters of its "
            "text, beginning in the current state.",
            "A token without text is not allowed. Do not change the arguments.",
        ),
        args=(GrammarState([{"n": 1}, {"a": 2}, {"y": 3}, {}], 1), ["a", "ay", "n", "an"]),
        result=[True, True, False, False],
        steps=(
            "The text so far is `n`, and in state 1 only an `a` may follow.",
            "`a` leads to state 2, and there `ay` goes on with `y`.",
            "`an` goes on with `n`, which state 2 does not have.",
        ),
    ),
    hints=(
        "Which state do you stand in after the first character of a token?",
        "Keep the number of the state in a variable, and look up each character in its edges.",
        "For each text, start at `state.at`; `state.edges[at].get(character)` is the next state, "
        "or None, and then the token is not legal.",
    ),
    right=(allowed, by_recursion),
    misconceptions=MISCONCEPTIONS,
    checks=(
        ("one character", JUDGE.on((at("n"), ["a", "y", "n"]))),
        ("several characters", JUDGE.on((at("n"), TEXTS), (at(""), TEXTS))),
        ("loops and ends", JUDGE.on((at("ye", 1), TEXTS), (at("yea, nay", 2), [",", ", y"]))),
        ("any state", JUDGE.on_drawn(any_state)),
    ),
)
