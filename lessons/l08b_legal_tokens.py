import marimo

__generated_with = "0.25.2"
app = marimo.App(width="medium", app_title="8b · Only legal tokens")

with app.setup(hide_code=True):
    from dataclasses import replace

    import marimo as mo

    from course.attempt import attempt, piece, with_attempts
    from course.engine_loop import engine_loop
    from course.lesson_data import l08b_legal as legal
    from course.prediction import after, hints, predict
    from course.replay import replays
    from course.task import task
    from nanogpt import Engine, Policies, load_model
    from nanogpt.speculative.trigram import TrigramDraft
    from nanogpt.views.grammar_state import GrammarState
    from widgets import SpeculationStrip


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    # 8b · Only legal tokens

    *45 minutes. Builds on lesson 8: draft tokens, the verifying pass, rejection sampling. You write four short
    functions.*

    Afterwards you can

    - hold a model's text to a form, character by character, whatever its tokens are,
    - mask a pass with draft tokens, and say why a rejected draft needs no rollback,
    - make texts end in time, so that they are valid and not only begun well,
    - say what a mask does not promise.

    ## Can a model be made to write only texts that a program can read?

    A program that reads a model's answer wants a form: JSON, a date, one of three words. A model that was asked
    for the form writes it often, but not always. Our model has never seen any form, and its 65 characters have
    one digit and no brace. So this lesson's record is written in letters:

        who: Juliet, mood: sad, says: 'o me'.

    As a regular expression, it is `who: [A-Z][a-z]+, mood: (glad|sad|mad), says: '[a-z ,]+'\.`. Sixteen
    requests at temperature 1, with and without a **mask** that removes every illegal token before each draw:
    """)
    return


@app.cell
def _():
    model = load_model()
    draft = TrigramDraft.load()
    mo.md(legal.first_lines(model, draft))
    return draft, model


@app.cell(hide_code=True)
def _():
    mo.md(rf"""
    ## An automaton reads the text

    Whether a character may follow depends on what is written, but a regular expression forgets most of it: in
    `((yea|nay), )*(yea|nay)\.`, a list of votes, it does not matter how many votes there were. What does matter
    is one of a few **states**. A small program that knows only its state, and moves along an edge for each
    character, is a *finite automaton*. The engine makes one from the expression:

    {legal.states_table()}

    The last column is the least number of characters to a place where the text may end.

    A model's tokens are seldom single characters. GPT-2 has tokens such as `":"` and `}},`. A token is written
    whole, so it is legal only if the automaton can read all of it.
    """)
    return


@app.cell(hide_code=True)
def _():
    predict(
        "l08.legal_tokens",
        "The text so far is `ye`. A vocabulary has the tokens `a`, `a,`, `a, n`, `a.n`, `y` and `ea`. **How many of them are legal?**",
        ("1", "2", "3", "4"),
        2,
        "**Three**: `a`, `a,` and `a, n`. After `a.` the text has ended, so nothing can follow the point in `a.n`. `y` and `ea` would be legal at another place. A mask that looks only at a token's first character would let `a.n` through.",
    )
    return


@app.cell(hide_code=True)
def _():
    task("l08.allowed")
    return


@app.function
def allowed(state: GrammarState, token_texts: list[str]) -> list[bool]:
    """Return, for each token, whether its text may follow in this state."""
    raise NotImplementedError("Exercise 8b.1: which tokens are legal here?")


@app.cell(hide_code=True)
def _():
    allowed_attempt = attempt("l08.allowed", lambda: allowed)
    allowed_attempt
    return (allowed_attempt,)


@app.cell(hide_code=True)
def _():
    hints("l08.allowed")
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    The engine asks your function once for each state, and keeps the mask. Before a draw, it sets the logits of
    all other tokens to minus infinity. After the step, the automaton moves:
    """)
    return


@app.cell(hide_code=True)
def _():
    task("l08.advance")
    return


@app.function
def advance(state: GrammarState, committed: list[str]) -> int | None:
    """Return the number of the state after the committed tokens, None if they are not legal."""
    raise NotImplementedError("Exercise 8b.2: where do these tokens lead?")


@app.cell(hide_code=True)
def _():
    advance_attempt = attempt("l08.advance", lambda: advance)
    advance_attempt
    return (advance_attempt,)


@app.cell(hide_code=True)
def _():
    hints("l08.advance")
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## Drafts: which row gets which mask?

    The mask belongs to the sampler. In a step of lesson 8 that is the marked line, which judges draft tokens as well:
    """)
    return


@app.cell(hide_code=True)
def _():
    engine_loop("self.sampler.sample(")
    return


@app.cell(hide_code=True)
def _():
    predict(
        "l08.mask_rows",
        "A request has k = 3 draft tokens, and all three are legal. **How many different positions need a mask in this pass?**",
        ("1: the mask of the step", "3: one for each draft token", "4: one more than draft tokens", "8: for the target and for the draft"),
        2,
        "**Four.** A pass with k draft tokens gives k + 1 rows of logits (lesson 8): one that judges each draft token, and one for the bonus. The row after i draft tokens needs the mask of the state after these i. Without a mask on the last row, the bonus is the one illegal token, and it comes only when all drafts were good.",
    )
    return


@app.cell(hide_code=True)
def _():
    task("l08.draft_masks")
    return


@app.function
def draft_masks(state: GrammarState, drafts: list[str]) -> list[int | None]:
    """Return the number of the state whose mask each row of logits gets, None for no mask."""
    raise NotImplementedError("Exercise 8b.3: which state masks each row?")


@app.cell(hide_code=True)
def _():
    draft_masks_attempt = attempt("l08.draft_masks", lambda: draft_masks)
    draft_masks_attempt
    return (draft_masks_attempt,)


@app.cell(hide_code=True)
def _():
    hints("l08.draft_masks")
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    **And the rollback?** `draft_masks` looks ahead and changes nothing. After the pass, `advance` starts again
    from the state before it and reads only the committed tokens. So a rejected draft was never in the state.
    vLLM's matchers are changed in place: there, each draft is read, and then as many are rolled back.

    The draft's own distribution is masked too. A draft token that the target's mask forbids has p = 0, and
    would always be rejected.

    ## Texts have to end in time

    A request may generate `max_new_tokens` tokens and no more. A text that is cut is legal up to there, and
    still no program can read it.
    """)
    return


@app.cell(hide_code=True)
def _():
    predict(
        "l08.last_chance",
        "The text is `who: Romeo, mood: sad, says: 'o`, and **3** tokens are left, each of one character. To end, the record needs `'` and `.`. The model draws an `h` next. **May it?**",
        ("Yes: it is legal", "Yes, but it is the last letter", "No: it is too late", "Only if the end follows at once"),
        1,
        "**Yes, for the last time.** The `h` takes one of the 3 tokens, and the 2 others are just enough for `'.`. With 2 tokens left, another letter would be legal and too late.",
    )
    return


@app.cell(hide_code=True)
def _():
    task("l08.must_close")
    return


@app.function
def must_close(distance: int, tokens_left: int) -> bool:
    """Return whether the text has to close instead of taking a token that leads so far away."""
    raise NotImplementedError("Exercise 8b.4: is this token too late?")


@app.cell(hide_code=True)
def _():
    must_close_attempt = attempt("l08.must_close", lambda: must_close)
    must_close_attempt
    return (must_close_attempt,)


@app.cell(hide_code=True)
def _():
    hints("l08.must_close")
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## Your engine writes records

    Seventeen requests at temperature 1, with up to four draft tokens each, run with your four functions. The
    first one votes; its passes are below. The others write records and may generate 40 to 64 tokens. Once more
    they run with your functions and without `must_close`.
    """)
    return


@app.cell(hide_code=True)
def _(draft, model):
    run_with = replays(
        lambda policies: Engine(model, legal.SAMPLED, policies, draft=draft), legal.arrivals, 300
    )
    return (run_with,)


@app.cell
def _(
    advance_attempt,
    allowed_attempt,
    draft_masks_attempt,
    must_close_attempt,
    run_with,
):
    attempts = {
        "allowed": allowed_attempt,
        "advance": advance_attempt,
        "draft_masks": draft_masks_attempt,
        "must_close": must_close_attempt,
    }
    yours = with_attempts(Policies(), attempts)
    your_trace = run_with(yours)
    unclosed = run_with(replace(yours, must_close=lambda distance, tokens_left: False))
    mo.md(legal.run_report(attempts, your_trace, unclosed))
    return (your_trace,)


@app.cell(hide_code=True)
def _(draft, model, your_trace):
    SpeculationStrip(
        legal.story(your_trace, model, draft),
        title="Votes, up to four draft tokens per pass, temperature 1",
        question="Which state does the automaton go back to when a draft token is rejected?",
    ) if your_trace.steps else mo.md("The run has no steps to show.")
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    Most characters are forced: after `n` only `a` may follow, so p = q = 1, and the draft token is always kept.
    Look for a pass with a rejected one. Text and automaton go back to the same place, because both are what the
    committed tokens make them.

    ## Break it

    Two defects that vLLM had. Look at the symptom, then **repair the function in its cell**.

    ### Exhibit A: the neighbour's mask

    The scheduler planned drafts for three requests, and made the masks of all their rows as one table, row
    after row. Then the runner trimmed the drafts of request 0, and looked up where each request's masks begin.
    <span data-yours="exhibit"></span>
    """)
    return


@app.function
def first_mask_rows(scheduled, trimmed):
    """The row of the table at which each request's masks begin, by its number of drafts."""
    return [sum(1 + drafts for drafts in trimmed[:i]) for i in range(len(trimmed))]


@app.cell(hide_code=True)
def _():
    _shown, rows_are_right = legal.mask_rows(piece(lambda: first_mask_rows))
    mo.md(_shown)
    return (rows_are_right,)


@app.cell(hide_code=True)
def _():
    predict(
        "l08.neighbour",
        "Request 0 is fine, and the others write illegal tokens, the more of them the larger the batch. **What is wrong?**",
        ("The masks of trimmed drafts are still applied", "Rows are counted with the trimmed numbers in a table made with the scheduled ones", "Request 0 has too few masks", "The masks are one step old"),
        1,
        "The table has 4 rows for request 0, whatever became of its drafts. Counted with the trimmed number, request 1 begins at row 2, which is still a row of request 0. One request by itself never shows the defect. Count with `scheduled`.",
    )
    return


@app.cell(hide_code=True)
def _(rows_are_right):
    after("l08.neighbour", mo.md("**Repaired.** Each request gets its own masks." if rows_are_right else "**Still broken.** A request gets the masks of its neighbour."))
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ### Exhibit B: drafts from before the preemption

    The draft tokens of the next pass are kept with the request. This one was preempted before that pass, came
    back, and sampled a token first. <span data-yours="exhibit"></span>
    """)
    return


@app.function
def drafts_on_return(drafts, num_tokens_then, num_tokens_now):
    """The draft tokens that a preempted request still has when it runs again."""
    return drafts


@app.cell(hide_code=True)
def _():
    _shown, drafts_are_right = legal.returning(piece(lambda: drafts_on_return))
    mo.md(_shown)
    return (drafts_are_right,)


@app.cell(hide_code=True)
def _():
    predict(
        "l08.stale",
        "The drafts were legal when they were made. **Why can the automaton not read them now?**",
        ("The automaton forgot its state in the preemption", "The K/V of the drafts is gone", "They continue another text: one token has come since", "Drafts are never legal after a prefill"),
        2,
        "They continue `yea, n`, and the text is `yea, na` by now. Without a grammar nobody would notice: stale drafts are rejected, which costs only time. The grammar makes a crash of it. Drafts that do not continue the text have to go: return `[]`, at least if the number of tokens has changed.",
    )
    return


@app.cell(hide_code=True)
def _(drafts_are_right):
    after("l08.stale", mo.md("**Repaired.** No draft continues another text." if drafts_are_right else "**Still broken.** The drafts continue another text."))
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## What a mask costs, and what it does to drafts
    """)
    return


@app.cell
def _(model):
    mo.md(legal.mask_times(model))
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    Built by hand in Python, a mask over a large vocabulary takes longer than a step, so it has to be kept: a
    text visits few states, and most of them again and again. JSON nests, so it needs a stack, and has no
    limited number of states. The library `llguidance`, which our server uses for JSON schemas, walks the
    vocabulary as a tree of shared beginnings: 85 to 125 µs per mask for a vocabulary of 100 tokens, measured on
    two busy cores, with the copy into a tensor; its authors report about 50 µs for 128,000.

    The exact chance that a draft token is accepted, Σ min(p, q), at each place of the records:
    """)
    return


@app.cell(hide_code=True)
def _(draft, model, your_trace):
    mo.md(legal.acceptance_table(model, draft, your_trace))
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    If only the target is masked, most drafts are thrown away. If both are masked, more drafts are accepted than
    in free text, because forced characters are certain.

    ## What a mask does not promise
    """)
    return


@app.cell(hide_code=True)
def _():
    predict(
        "l08.conditioned",
        "Only `ab` and `cd` are legal. The model begins with `a` 60 % and with `c` 40 % of the time. After `a` it writes `b` 1 % of the time, after `c` it writes `d` 90 % of the time. **How often does the masked model write the first of the two?**",
        ("2 %", "40 %", "60 %", "99 %"),
        2,
        "**60 %.** Both first letters are legal, so the mask does not touch them, and then `b` is forced. But among the model's own legal texts, `ab` has 0.6 · 0.01 = 0.006 and `cd` 0.4 · 0.9 = 0.36: only 1.6 % of them are `ab`. The mask looks one token ahead. It does not draw from the model's distribution *given* that the text is legal.",
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    - **Valid nonsense is valid.** The records above parse, and say nothing true. A model that would have
      answered "I do not know" has no way to say so, unless the form has one.
    - **Masking is not conditioning.** Each draw is scaled by itself, so a mask can lead into a text that the
      model finds absurd.
    - **Closing in time cuts thoughts short.** A text that must close takes the nearest end.

    ## What you now know

    - A form becomes an automaton, and a token is legal if the automaton can read all its characters.
    - A pass with k draft tokens has k + 1 rows, each with the mask of its own state. Only committed tokens move
      the state.
    - A text stays valid if no token leads farther from an end than tokens are left.
    - A mask is cheap if it is kept, and drafts have to be masked like the target.

    ## The same in vLLM and SGLang

    | here | vLLM | SGLang |
    |:---|:---|:---|
    | `Request.grammar` | `StructuredOutputsParams`: `json`, `regex`, `choice`, `grammar`, `json_object` | `json_schema`, `regex`, `ebnf` of the sampling parameters |
    | `allowed` | `StructuredOutputGrammar.fill_bitmask`; a bit for each token | `allocate_vocab_mask`, `fill_vocab_mask` |
    | `advance` | `accept_tokens`; `rollback` after drafts | `accept_token`; `rollback` |
    | `draft_masks` | `StructuredOutputManager.grammar_bitmask`, one row for each draft and the bonus | a mask for each node of the draft tree |
    | illegal drafts | `validate_tokens` trims them before the pass | are masked when they are verified |
    | `must_close` | none found: `max_tokens` cuts | none found |
    | the automaton | `xgrammar`, `guidance` (llguidance), `outlines`, `lm-format-enforcer` | `--grammar-backend`: `xgrammar`, `outlines`, `llguidance` |

    *From the public documentation, source and pull requests of vLLM and SGLang, read in November 2026.*

    /// details | Reports of these bugs

    - **Exhibit A.** [vLLM #49738](https://github.com/vllm-project/vllm/pull/49738): with asynchronous
      scheduling the runner trimmed drafts, and used the trimmed numbers to walk through masks that were made
      for the scheduled ones. [vLLM #50952](https://github.com/vllm-project/vllm/pull/50952): one row too few,
      and the engine stopped.
    - **Exhibit B.** [vLLM #30916](https://github.com/vllm-project/vllm/pull/30916) and
      [#31955](https://github.com/vllm-project/vllm/pull/31955): draft tokens from before a preemption, and
      "Failed to advance FSM".
    ///

    ## What comes next

    [Lesson 9](/?file=l09_fleet.py) puts four engines behind a router. In a fleet, a request with a grammar is a
    request like any other: its text depends on nothing but its own tokens.
    """)
    return


if __name__ == "__main__":
    app.run()
