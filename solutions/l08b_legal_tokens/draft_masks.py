"""Exercise 8b.3: which state masks each row of logits."""

import random

from course.calling.plain_values import as_items
from course.checks.comparing import Args, Comparison
from course.exercise import Exercise, Misconception, Task
from nanogpt.policies import grammars
from nanogpt.views.grammar_state import GrammarState
from solutions.l08b_legal_tokens._automata import at, drawn, no_state

# --- right answers ------------------------------------------------------------------------------


def draft_masks(state: GrammarState, drafts: list[str]) -> list[int | None]:
    """Return the number of the state whose mask each row of logits gets, None for no mask."""
    # The logits after i drafts choose the token behind these drafts, so the state is the one after
    # i drafts. K drafts have K + 1 rows: the last one draws the bonus. Rows are never left out, or
    # the next request's masks would begin in the wrong place.
    at: int | None = state.at
    rows: list[int | None] = [at]
    for text in drafts:
        for character in text:
            at = None if at is None else state.edges[at].get(character)
        rows.append(at)
    return rows


def by_prefixes(state: GrammarState, drafts: list[str]) -> list[int | None]:
    return [grammars.advance(state, drafts[:i]) for i in range(len(drafts) + 1)]


# --- wrong ideas --------------------------------------------------------------------------------


def kept(state: GrammarState, drafts: list[str]) -> list[int]:
    return [row for row in by_prefixes(state, drafts) if row is not None]


MISCONCEPTIONS = (
    Misconception(
        "no_states", "Return the masks themselves.",
        "Return a list of numbers of states, with None for a row without a mask.",
        matches=lambda value: as_items(value) is None or any(map(no_state, as_items(value) or ())),
        examples=(
            lambda state, drafts: [sorted(state.edges[n]) for n in kept(state, drafts)],
            lambda state, drafts: state.at,
        ),
    ),
    Misconception(
        "one_per_draft", "Each draft has a mask.",
        "k drafts have k + 1 rows of logits: without a mask on the last row, the bonus may be "
        "illegal.",
        lambda state, drafts: by_prefixes(state, drafts)[:-1],
    ),
    Misconception(
        "after_the_draft", "A row's mask is that of the state after its draft.",
        "The first row decides about the first draft, so its state is the one before this draft.",
        lambda state, drafts: by_prefixes(state, drafts)[1:],
        same_result=(lambda state, drafts: [*(r := by_prefixes(state, drafts))[1:], r[-1]],),
    ),
    Misconception(
        "one_state", "The step has one state.",
        "Each draft moves the automaton: the row after it needs the state after it.",
        lambda state, drafts: [state.at] * (len(drafts) + 1),
    ),
    Misconception(
        "trimmed", "Rows after an illegal draft are not needed.",
        "Give every row an entry, None after an illegal draft: with fewer entries, the masks of "
        "the next request would begin in the wrong row.",
        kept,
    ),
    Misconception(
        "last_legal", "After an illegal draft, the last legal state stays.",
        "After an illegal draft there is no state: its row will be rejected before, and None says "
        "that later rows decide nothing.",
        lambda state, drafts: (k := kept(state, drafts)) + [k[-1]] * (len(drafts) + 1 - len(k)),
    ),
    Misconception(
        "skips_the_illegal", "An illegal draft is left out, and the next one is tried.",
        "What follows an illegal draft stands behind it, so it cannot be legal either.",
        lambda state, drafts: [state.at, *(grammars.advance(state, [d]) for d in drafts)],
    ),
)  # fmt: skip


def any_drafts(rng: random.Random) -> list[Args]:
    return [drawn(rng, rng.randint(0, 5)) for _ in range(60)]


DRAFTS = (["a", "y"], ["ye", "a", "."], ["na", "n", "y"], ["ay", "."])
JUDGE = Comparison(
    grammars.draft_masks, MISCONCEPTIONS,
    "For each row, write the drafts before it: which state do these lead to?",
    evidence=[(at(text), drafts) for text in ("", "n") for drafts in DRAFTS],
)  # fmt: skip

EXERCISE = Exercise(
    number=3,
    title="A mask for every row",
    minutes=8,
    points=3,
    task=Task(
        rules=(
            "`state` is as in exercise 8b.1: the state after the committed tokens. `drafts` are "
            "the texts of the k draft tokens, at least 0. Do not change them.",
            "The pass gives k + 1 rows of logits: one before each draft token, and one after the "
            "last. Returns for each row the number of the state whose mask it gets.",
            "A draft token may be illegal, if the draft model knows no grammar. Rows after it "
            "get None, for no mask.",
        ),
        args=(GrammarState([{"n": 1}, {"a": 2}, {"y": 3}, {}], 0), ["n", "e", "y"]),
        result=[0, 1, None, None],
        steps=(
            "The first row decides about `n`, in state 0.",
            "The second row decides about `e`, in state 1, where only `a` is legal.",
            "The other rows come after an illegal token.",
        ),
    ),
    hints=(
        "How many rows of logits does a pass with k draft tokens have, and what does each decide?",
        "The row with number i comes after the first i drafts. Your `advance` knows their state.",
        "`[advance(state, drafts[:i]) for i in range(len(drafts) + 1)]`: what does it return after "
        "an illegal draft?",
    ),
    right=(draft_masks, by_prefixes),
    misconceptions=MISCONCEPTIONS,
    checks=(
        ("legal drafts", JUDGE.on((at(""), ["n", "a"]), (at("n"), ["ay"]))),
        ("no drafts", JUDGE.on((at("na"), []))),
        ("an illegal draft", JUDGE.on((at(""), ["n", "e", "y"]), (at(""), ["e", "y"]))),
        ("any drafts", JUDGE.on_drawn(any_drafts)),
    ),
)
