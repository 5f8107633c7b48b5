import marimo

__generated_with = "0.25.2"
app = marimo.App(width="medium", app_title="8 · Speculative decoding")

with app.setup(hide_code=True):
    import marimo as mo

    from course.attempt import attempt, exhibit, piece
    from course.controls import beside, chooser
    from course.prediction import after, hints, predict
    from course.task import task


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    # 8 · Speculative decoding

    *60 minutes. Builds on lesson 0 (decodes, the KV cache, what a step costs). You write four short
    functions.*

    Afterwards you can decide which guessed tokens may stay so that the text cannot be told from the
    slow one, say what guessing is worth before you build it, clean the cache up behind it, and recognise
    the loads where it makes things slower.

    ## Why is the next letter as expensive as the next five?

    A decode computes one token. Lesson 0 measured what a pass costs: a fixed part, whatever is in it,
    and a part for each token.
    """)
    return


@app.cell(hide_code=True)
def _():
    from dataclasses import replace

    import torch

    from course.answers import load_policies
    from course.lesson_data import l08_drafts as drafts
    from course.lesson_data import l08_exhibits as exhibits
    from course.lesson_data import l08_measured as measured
    from course.lesson_data import l08_runs as runs
    from course.lesson_data import l08_worth as worth
    from course.lesson_data.l08_judged import story
    from course.replay import replays
    from nanogpt import Engine, EngineConfig, Request, encode, load_model
    from nanogpt.policies import acceptance
    from nanogpt.speculative.trigram import TrigramDraft
    from widgets import AcceptBars, Curves, SpeculationStrip, Timeline, bar, whose

    return (
        AcceptBars,
        Curves,
        Engine,
        EngineConfig,
        Request,
        SpeculationStrip,
        Timeline,
        TrigramDraft,
        acceptance,
        bar,
        drafts,
        encode,
        exhibits,
        load_model,
        load_policies,
        measured,
        replace,
        replays,
        runs,
        story,
        torch,
        whose,
        worth,
    )


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    | tokens in the pass | our model on a CPU, measured once | a large GPU, modelled |
    |--:|--:|--:|
    | 1 | 0.47 ms, ×1.00 | 5.30 ms, ×1.00 |
    | 4 | 0.63 ms, ×1.34 | 5.30 ms, ×1.00 |
    | 16 | 0.84 ms, ×1.78 | 5.30 ms, ×1.00 |
    | 64 | 2.01 ms, ×4.28 | 5.30 ms, ×1.00 |
    """)
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    On the GPU sixteen tokens cost what one costs: a pass reads all weights from memory, once, and until
    the arithmetic takes as long as that, more tokens are free. On the CPU they are cheap, not free.
    Remember that; it comes back at the end.

    A prefill uses this, because it knows its tokens. A decode does not know the next one, so it goes one
    at a time. Unless something **guesses**. Then one pass can look at the last token and at four guesses
    behind it, all at once, and say after each what *it* would have said. What was guessed right is text
    that needed no pass of its own.

    What may guess? Anything cheap. Here is the cheapest model of Shakespeare that there is: how often
    did each character follow each two, in the text that our model was trained on? It is a table. It is
    called the **draft** model, and the one whose text we want the **target**.
    """)
    return


@app.cell
def _(TrigramDraft, drafts, load_model):
    model = load_model()
    draft = TrigramDraft.load()  # counts of three characters in a row, from the training text
    mo.md(drafts.favourites(model, draft))
    return draft, model


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    (␣ is a space, ⏎ a line break.) Often they agree. Let the draft guess four characters ahead, and keep
    them as long as each is the one that the target finds likeliest: that is *greedy* decoding,
    temperature 0. At the first one that is not, the guess and all behind it go, and the target's own
    choice stands there instead.
    """)
    return


@app.cell(hide_code=True)
def _(Engine, Request, SpeculationStrip, draft, drafts, encode, model, story):
    _requests = [(0, Request(0, encode(drafts.OPENING), 60))]
    first_run = Engine(model, drafts.FOUR_AHEAD, draft=draft).run(_requests)
    SpeculationStrip(
        story(first_run, 0, model, draft, drafts.FOUR_AHEAD),
        title="Sixty characters, four drafts ahead, greedy",
        question="How many characters does one pass bring?",
    )
    return (first_run,)


@app.cell(hide_code=True)
def _(drafts, first_run, model):
    mo.md(
        drafts.first_run_said(first_run, model)
        + "\n\nThat is the whole promise: a bad draft makes it slow, and never wrong. Each pass gives "
        "**at least one** token, for where a guess is rejected the target has already said what "
        "stands there. And if all four stay, the row of the last one says what comes after it: the "
        "*bonus*, for nothing."
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## Which guess may stay when dice are thrown?

    Most servers do not decode greedily, they *sample*: each token is drawn from the target's
    probabilities p. Now there is no single right token that a guess could be compared with. What must not
    change is the **distribution**: over many runs, each token has to stand there exactly as often as p
    says.

    The rule is from two papers that found it at about the same time (Leviathan et al., 2022; Chen et
    al., 2023). The draft draws its guess from its own probabilities q. If it proposes a token less often
    than the target wants it, always keep it. If it proposes one too often, say twice as often, keep it
    half the time: with probability p / q. Where a guess was rejected, another token has to stand. Which?
    """)
    return


@app.cell(hide_code=True)
def _():
    predict(
        "l08.resample",
        "A guess was rejected, rightly. Now the token is drawn from **p**, the target's own "
        "probabilities. Is the outcome distributed as p?",
        (
            "Yes: what is rejected is replaced by the target itself",
            "Yes, if the draft is good enough",
            "No: what the draft likes comes too often",
            "No: what the draft likes comes too seldom",
        ),
        2,
        "Take three tokens with p = 1/8, 2/8, 5/8 and q = 5/8, 1/8, 2/8. With a second draw from p, they "
        "stand there 1.5/8, 2/8, 4.5/8 of the time. The first of them comes 50% too often: the draft "
        "proposes it too often, it is thinned out to just p, and then it gets a **second chance**. The "
        "last word was the target's, and the sum is wrong all the same.",
    )
    return


@app.cell(hide_code=True)
def _(bar, drafts):
    def _row(name, p, q):
        stays = min(p, q)
        return (
            f"| {name} | {bar([stays / 8, (p - stays) / 8], f'{p}/8')} | "
            f"{bar([stays / 8, 0.0, (q - stays) / 8], f'{q}/8')} | {stays / q:.2g} | {p - stays}/8 |"
        )

    after(
        "l08.resample",
        mo.md(
            "Here are the three tokens. Blue comes in as a guess that stays; orange is proposed too "
            "often and goes; grey is wanted, and proposed too seldom.\n\n"
            "| token | the target wants it: p | the draft proposes it: q | stays with probability | missing |\n"
            "|:--|:--|:--|--:|--:|\n"
            + "\n".join(_row(*each) for each in drafts.eighths())
            + "\n\nThere is as much orange as grey: always, since both columns sum to 1. So each time that "
            "a guess goes, one of the missing has to come, **each as often as it is missing**. Then "
            "nothing is too much and nothing too little."
        ),
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    Write the rule. The two random numbers are handed in, so that the same numbers give the same text
    everywhere: `u` decides, `v` draws.
    """)
    return


@app.cell(hide_code=True)
def _():
    task("l08.rejection_sample")
    return


@app.function
def rejection_sample(
    target_probs: list[float], draft_probs: list[float], draft_token: int, u: float, v: float
) -> tuple[bool, int]:
    """Return `(kept, token)`: whether the draft token stays, and which token stands there."""
    raise NotImplementedError("Exercise 8.1: does the draft stay, and if not, what stands there?")


@app.cell(hide_code=True)
def _():
    accept_attempt = attempt("l08.rejection_sample", lambda: rejection_sample)
    accept_attempt
    return (accept_attempt,)


@app.cell(hide_code=True)
def _():
    hints("l08.rejection_sample")
    return


@app.cell(hide_code=True)
def _(AcceptBars, accept_attempt, drafts, whose):
    _outcomes, _mine = drafts.answered(accept_attempt)
    after(
        "l08.resample",
        AcceptBars(
            drafts.WANTED,
            drafts.PROPOSED,
            _outcomes,
            ["a", "b", "c"],
            "Three tokens, every u and every v",
            name="your rejection_sample" if _mine else whose(False),
            question="Over all u and v: does each token come out as often as **p** says?",
        ),
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    Greedy decoding is the same rule: put all of p and all of q on the likeliest token each, and *p / q* is
    1 where they agree and 0 where not.

    ## What is it worth?

    The project that lessons 8 and 9 grew from
    ([AdaXL/adaptive-llm-scheduler](https://github.com/AdaXL/adaptive-llm-scheduler)) says so in its
    description. Its draft costs a tenth of a target pass per token (α = 0.1), guesses K = 4 tokens ahead,
    and each guess is accepted with probability p = 0.85. It gives the speed-up as (1 + K·p) / (1 + α),
    which is (1 + 4 · 0.85) / 1.1, about **4.0 times**.
    """)
    return


@app.cell(hide_code=True)
def _():
    predict(
        "l08.four_times",
        "p = 0.85, K = 4, a draft token costs 0.1 of a target pass, and a verifying pass takes as long as "
        "a decode. **How many times as fast** is it really?",
        ("About 4.0", "About 3.4", "About 2.65", "About 1.4"),
        2,
        "A pass gives 3.709 tokens and a round takes 1 + 4 · 0.1 = 1.4 passes' time: **2.65 times**. And "
        "4.0 cannot be, whatever the draft: a **perfect** one, p = 1, gives 5 tokens in 1.4, which is "
        "**3.57**. The published formula charges for one drafted token where the draft model runs K "
        "times, and it counts each guess by itself, as if those behind a rejected one could stay. "
        "(Break-even is at p = 0.29; the description has about 0.6.)",
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    A guess counts only if all in front of it stayed. And whatever happens, the target adds one token of
    its own.
    """)
    return


@app.cell(hide_code=True)
def _():
    task("l08.expected_tokens")
    return


@app.function
def expected_tokens(acceptance_rate: float, num_draft_tokens: int) -> float:
    """Return how many tokens one verifying pass yields on average."""
    raise NotImplementedError("Exercise 8.2: tokens per pass, on average")


@app.cell(hide_code=True)
def _():
    tokens_attempt = attempt("l08.expected_tokens", lambda: expected_tokens)
    tokens_attempt
    return (tokens_attempt,)


@app.cell(hide_code=True)
def _():
    hints("l08.expected_tokens")
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    Now follow one round with a watch: the draft, guess by guess, and then the target, once.
    """)
    return


@app.cell(hide_code=True)
def _():
    task("l08.speedup")
    return


@app.function
def speedup(acceptance_rate: float, num_draft_tokens: int, draft_cost: float) -> float:
    """Return how many times as fast as plain decoding speculation is: 2 is twice, 0.5 half as fast."""
    raise NotImplementedError("Exercise 8.3: how many times as fast?")


@app.cell(hide_code=True)
def _():
    speedup_attempt = attempt("l08.speedup", lambda: speedup)
    speedup_attempt
    return (speedup_attempt,)


@app.cell(hide_code=True)
def _():
    hints("l08.speedup")
    return


@app.cell(hide_code=True)
def _(Curves, speedup_attempt, tokens_attempt, worth):
    after(
        "l08.four_times",
        Curves(
            worth.speedup_series(speedup_attempt, tokens_attempt),
            ("drafts, K", ""),
            ("speed-up", ""),
            "What speculation is worth, α = 0.1",
            sliders=[{"name": "p", "values": list(worth.RATES), "shown": 3}],
            question="How far ahead is it worth guessing, if each guess stays with probability p?",
        ),
    )
    return


@app.cell(hide_code=True)
def _():
    after(
        "l08.four_times",
        mo.md(
            "A long guess is a bet on all of its letters at once: with p = 0.4 anything beyond two is paid "
            "for in vain. Break-even, the p at which a round brings what it costs: "
            "0.10 for K = 1, 0.17 for K = 2, 0.29 for K = 4, 0.44 for K = 8. For one draft it is α itself: p tokens more for α more time."
        ),
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## What does the cache remember?

    The verifying pass computed K and V of everything it looked at, the rejected guesses included. Here is
    one pass from the top of this page. Above: whose K/V the cache holds when the pass is over. Below: the
    text as it then is, up to the token that the target added.
    """)
    return


@app.cell(hide_code=True)
def _(drafts, first_run):
    mo.md(drafts.cache_of_a_pass(first_run))
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    Where the two lines differ, a query would look at the K/V of a letter that was never written. How many
    entries, counted from the front, are good?
    """)
    return


@app.cell(hide_code=True)
def _():
    task("l08.roll_back_kv")
    return


@app.function
def roll_back_kv(kv_tokens_used: int, num_drafted: int, num_accepted: int) -> int:
    """Return how many KV tokens a request keeps after a verifying pass, counted from the front."""
    raise NotImplementedError("Exercise 8.4: how many entries of the cache stay?")


@app.cell(hide_code=True)
def _():
    roll_back_attempt = attempt("l08.roll_back_kv", lambda: roll_back_kv)
    roll_back_attempt
    return (roll_back_attempt,)


@app.cell(hide_code=True)
def _():
    hints("l08.roll_back_kv")
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## Your engine, guessing ahead

    The real engine does all that for every decode of a step: it drafts as far as the token budget has
    room, verifies all rows in one pass, asks your `rejection_sample` about each guess and your `roll_back_kv` about
    each cache. In float64, so that no rounding can flip a letter. Three requests, one of them late.
    """)
    return


@app.cell
def _(
    Engine,
    EngineConfig,
    draft,
    load_model,
    load_policies,
    replays,
    runs,
    torch,
):
    exact = load_model(dtype=torch.float64)
    greedy = EngineConfig(token_budget=32, num_draft_tokens=4)
    earlier = load_policies("l08_speculation")  # what you wrote in earlier lessons and passed
    # Runs in a process of its own with functions that are not the reference's.
    run_with = replays(
        lambda policies: Engine(exact, greedy, policies, draft=draft), runs.three_requests, 300
    )
    reference_trace = run_with.reference
    return earlier, exact, reference_trace, run_with


@app.cell
def _(
    Timeline,
    accept_attempt,
    acceptance,
    earlier,
    reference_trace,
    replace,
    roll_back_attempt,
    run_with,
):
    yours = replace(
        earlier.policies,
        rejection_sample=accept_attempt.or_reference(acceptance.rejection_sample),
        roll_back_kv=roll_back_attempt.or_reference(acceptance.roll_back_kv),
    )
    your_trace = run_with(yours)
    Timeline(
        your_trace.to_json(),
        reference_trace.to_json(),
        yours=accept_attempt.started or roll_back_attempt.started,
        title="Three requests, up to four drafts ahead of each, greedy",
        start=2,
        question="How many tokens does each request get in a step?",
    )
    return your_trace, yours


@app.cell(hide_code=True)
def _(
    accept_attempt,
    earlier,
    reference_trace,
    roll_back_attempt,
    runs,
    your_trace,
):
    _attempts = {"rejection_sample": accept_attempt, "roll_back_kv": roll_back_attempt}
    mo.md(runs.run_said(_attempts, earlier, your_trace, reference_trace))
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## When dice are thrown, what does *the same* mean?

    At temperature 1 the same seed gives **another text** with drafts than without: a guess that stays is a
    letter drawn by the draft, with the draft's random number. How many guesses a pass has room for changes
    the text too, and with it whatever else is being served. What is promised is the distribution of the
    texts, and not one text.

    The text without drafts could be kept, at a price: let target and draft draw with the same random
    numbers, and keep a guess only if it is the letter that the target draws
    ([arXiv 2408.07978](https://arxiv.org/abs/2408.07978)). Measured with our model and its draft, K = 4,
    temperature 1: one shared number per position gives 1.74 tokens per pass, shared Gumbel noise 2.11, your
    rule 2.21. No rule keeps more guesses than yours, so the engine has yours.

    How does one test a promise about a distribution? By counting:
    """)
    return


@app.cell(hide_code=True)
def _(accept_attempt, acceptance, draft, exact, runs, whose):
    mo.md(
        runs.counted_table(
            accept_attempt.or_reference(acceptance.rejection_sample),
            "your `rejection_sample`" if accept_attempt.started else whose(False),
            exact,
            draft,
        )
    )
    return


@app.cell(hide_code=True)
def _(draft, runs, yours):
    mo.md(runs.texts_said(yours, draft))
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    A test by counting finds coarse errors, and only at places where p and q differ. The bars of the three
    tokens, summed over every u and v instead of sampled, find any. That is why the check of 8.1 works its
    law out exactly.

    ## Break it

    Three defects. Look at the symptom, decide what is wrong, then **repair the function in its cell**:
    what stands below it answers.

    ### Exhibit A: 2.71 tokens per step

    The description again: *E[accepted] = Σ k · pᵏ · (1 − p) + K · pᴷ ≈ 2.71 tokens/step*. This one is no
    slip of the pen. Each term is right.
    <span data-yours="exhibit"></span>
    """)
    return


@app.function
def exhibit_a(acceptance_rate, num_draft_tokens):
    """How many tokens one verifying pass yields on average."""
    p, k = acceptance_rate, num_draft_tokens
    stopped = sum(i * p**i * (1 - p) for i in range(k))
    return stopped + k * p**k


@app.cell(hide_code=True)
def _(exhibits):
    mo.md(exhibits.tokens_table(piece(lambda: exhibit_a)))
    return


@app.cell(hide_code=True)
def _():
    predict(
        "l08.stands_still",
        "At p = 0 exhibit A promises a machine that stands still. **What is broken?**",
        (
            "The sum should start at 1",
            "p should be the probability of a rejection",
            "It counts what is accepted, and not what the target adds in every pass",
            "The last term should be (K + 1) · pᴷ",
        ),
        2,
        "2.71 is right for the question **how many guesses are accepted**. The text has one token more in "
        "every pass, in the place of the first rejected guess or, as a bonus, behind the last: **3.709**. "
        "So one page has 2.71, which is too low, and 4.0, which is too high, and both of the same machine. "
        "Repairing only the last term mends the clean passes and leaves the others one short.",
    )
    return


@app.cell(hide_code=True)
def _():
    after("l08.stands_still", exhibit("A", "l08.expected_tokens", lambda: exhibit_a))
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ### Exhibit B: what was never said

    Our engine would refuse this one with a sentence. So here it runs in the smallest speculative decoder
    that there is, greedy and for one text, which believes what it is told.
    <span data-yours="exhibit"></span>
    """)
    return


@app.function
def exhibit_b(kv_tokens_used, num_drafted, num_accepted):
    """How many KV tokens stay after a verifying pass: what is computed need not be computed again."""
    return kv_tokens_used


@app.cell(hide_code=True)
def _(draft, exact, exhibits):
    _said, _ = exhibits.ghosts(piece(lambda: exhibit_b), exact, draft)
    mo.md(_said)
    return


@app.cell(hide_code=True)
def _():
    predict(
        "l08.ghosts",
        "Nothing crashes, the first letters are right, and then it is another text. **What is broken?**",
        (
            "The draft guesses from the wrong text",
            "The mask lets guesses see each other",
            "The cache keeps entries of letters that are not in the text",
            "Float64 is not exact enough",
        ),
        2,
        "Compare the two last columns: the cache has more entries than the text has letters. Each "
        "rejected guess stays behind as a ghost that every later letter attends to, and the ghosts add up. "
        "The acceptance suffers too, since the target now thinks of a text that the draft has never seen: "
        "in production, a rate that falls with the length of the answer is the symptom to look for.",
    )
    return


@app.cell(hide_code=True)
def _():
    after("l08.ghosts", exhibit("B", "l08.roll_back_kv", lambda: exhibit_b))
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ### Exhibit C: the benchmark that knew the answers

    Another cheap draft, and a popular one: look up the last five characters in what was written before,
    and propose what followed there. It learns from what the server writes. A benchmark runs its four
    prompts once to warm up, then again with the clock running. In between, `exhibit_c` decides what the
    draft remembers.
    <span data-yours="exhibit"></span>
    """)
    return


@app.function
def exhibit_c(written):
    """What the draft remembers when the benchmark begins, given all that was written so far."""
    return written


@app.cell(hide_code=True)
def _(exhibits, model):
    benchmark_said, honest = exhibits.benchmark(piece(lambda: exhibit_c), model)
    mo.md(benchmark_said)
    return (honest,)


@app.cell(hide_code=True)
def _():
    predict(
        "l08.knew",
        "The texts are right in both runs, and the second is served in far fewer passes. **What is wrong "
        "with the figure?**",
        (
            "The second run is greedy, the first was not",
            "The draft looks its answers up: they are in what it remembers",
            "The first run paid for the prefill",
            "Nothing: drafts get better with time",
        ),
        1,
        "The draft proposes what the target wrote for the very same prompts a moment ago. A draft cannot "
        "make a text wrong, so no test of texts can notice. Only the speed is wrong: no other prompt will "
        'see it. Let it remember nothing, `return ""`, or measure with prompts that it has not met. '
        "(Where users do ask the same again, remembering is a feature, and then it has to be measured on "
        "such a load.)",
    )
    return


@app.cell(hide_code=True)
def _(honest):
    after(
        "l08.knew",
        mo.md(
            "**Repaired.** What is measured is what a new prompt gets."
            if honest
            else "**Still broken.** What is measured was known before."
        ),
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## Measure it, including where it loses

    **How many guesses stay?** Eight openings, 64 characters each, our model and its trigram draft, K = 4.
    *p* is the share of the guesses looked at that stayed; the formula is that of 8.2, with this p.
    """)
    return


@app.cell(hide_code=True)
def _(draft, measured, model):
    accepted = measured.accepted_drafts(model, draft)
    mo.md(measured.accepted_table(accepted))
    return (accepted,)


@app.cell(hide_code=True)
def _(accepted, measured):
    mo.md(measured.accepted_said(accepted))
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    **What does it bring on this machine?** Now with a watch, on the machine that you are sitting at; K =
    4, temperature 1. All times are in decodes without drafts. *Draft* is what one guess takes; *verifying*
    is what the pass takes, with all that the engine does around it.
    """)
    return


@app.cell
def _(draft, measured, model):
    timings = {batch: measured.timed(model, draft, batch) for batch in (1, 8)}
    mo.md(measured.timed_table(timings))
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    (Measured just now; a few dozen short steps each, so run the cell again and the numbers move.) The draft
    costs next to nothing: a look into a table. What eats the gain is the assumption in the middle of every
    formula on this page, **that a pass over five tokens costs what a pass over one costs**. On a CPU every
    row is work, and with eight requests forty rows stand in a pass that had eight.

    **And where the assumption holds?** On the modelled GPU, K = 4. Every request in the batch brings five
    tokens to the pass instead of one. Once they are more than the arithmetic can do while the weights are
    read, each costs its time.
    """)
    return


@app.cell(hide_code=True)
def _(Curves, accepted, measured):
    Curves(
        measured.crowd_series(measured.rate(accepted[1.0])),
        ("requests at once", ""),
        ("speed-up", ""),
        "The same draft, alone and in a crowd",
        log_x=True,
        source="modelled: 8 billion parameters on one large GPU",
        question="From how many requests on does guessing make it slower?",
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    **And how far ahead?** The openings once more, through the engine with your `rejection_sample` and
    `roll_back_kv` as far as they are written, at temperature 1 and with up to eight drafts. Choose the
    machine that the forwards are charged by; the draft is looked up for nothing.
    """)
    return


@app.cell(hide_code=True)
def _(measured):
    machine = chooser("Machine", list(measured.MACHINES), "a large GPU")
    machine
    return (machine,)


@app.cell
def _(draft, measured, model, yours):
    ahead = measured.drafts_ahead(model, draft, yours)
    return (ahead,)


@app.cell(hide_code=True)
def _(accept_attempt, ahead, machine, measured, whose):
    beside(
        machine,
        lambda name: measured.speedup_figure(ahead, name, whose(accept_attempt.started)),
    )
    return


@app.cell(hide_code=True)
def _(measured):
    _edge, _with, _without = measured.backing_off()
    mo.md(
        "So speculation trades arithmetic that lies idle for time. A full machine has none lying idle: "
        "the same draft that makes one request fast makes a crowd slow.\n\n"
        "**When to stop guessing?** The description has *gates*: no guesses in a batch that is 80 % full, "
        "near a deadline, or for urgent requests. It also says that one ought to back off by a request's "
        "own acceptance. The fleet of lesson 9 does: after 16 judged guesses, a request whose own rate is "
        f"below break-even ({_edge:.2f} at K = 4, α = 0.1) gives up guessing. Drafts that are never right "
        f"then cost {_with:.0%} instead of {_without:.0%} (modelled, requests of 128 tokens)."
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## How production engines do it

    - **The rule** is Algorithm 1 of Leviathan, Kalman and Matias
      ([arXiv 2211.17192](https://arxiv.org/abs/2211.17192)), who have your `expected_tokens` as Equation 1
      and your `speedup` as Theorem 3.8; and of Chen et al.
      ([arXiv 2302.01318](https://arxiv.org/abs/2302.01318)). Both report about two to three times. The
      first paper also tries a draft like ours, a table of bigrams.
    - **vLLM** follows the first (`vllm/v1/sample/rejection_sampler.py`) and calls what stands in the place
      of a rejected guess *recovered*. Its rollback is your 8.4: the scheduler takes the number of rejected
      tokens off `num_computed_tokens`. Its
      [n-gram speculation](https://docs.vllm.ai/en/latest/features/speculative_decoding/n_gram/) is the
      lookup of exhibit C, in the request's own text. [Its documentation](https://docs.vllm.ai/en/latest/features/speculative_decoding/)
      promises lower latency above all *under medium-to-low QPS* (requests per second), *memory-bound
      workloads*; but its table gives EAGLE (below) a *medium to high* gain at high QPS too. That our draft makes a crowd slow is true of
      K = 4 and of these p, not of every draft.
    - **Medusa** (Cai et al., [2401.10774](https://arxiv.org/abs/2401.10774)) has no draft model: extra heads
      on the target guess several places ahead, and a tree of guesses is verified in one pass. **EAGLE** (Li
      et al., [2401.15077](https://arxiv.org/abs/2401.15077)) drafts the target's own features one after the
      other with a single layer, and keeps the exact rule.

    And the defects are out there:

    - **The law.** [vllm-ascend #2881](https://github.com/vllm-project/vllm-ascend/pull/2881): a sampler
      changed the target's probabilities in place while drawing what was missing.
      [transformers #47932](https://github.com/huggingface/transformers/issues/47932): the q that was divided
      by was not the q that was drawn from; texts sampled with a draft came from another distribution.
    - **The price.** [llama.cpp #3649](https://github.com/ggml-org/llama.cpp/issues/3649): slower than hoped
      for on an A100. The maintainer's answer does what you did: so many tokens at the draft's speed, so many
      at the speed of a *small batch* of the target.
    - **The ghosts.** [mlxcel #994](https://github.com/lablup/mlxcel/issues/994): the draft's own cache was
      rolled back two entries too far in every round, and acceptance fell.
      [vLLM #9730](https://github.com/vllm-project/vllm/pull/9730): a wrong token in the draft's cache where a
      bonus stood; acceptance dropped sharply as soon as K was more than one.

    ## What comes next

    Look back at what an engine is made of, and what of it is yours: a cache and the decode that reads it
    (0), chunks and the plan of a step (1), which request goes first and which gives way (2), one flat row
    for all of them (3), what is kept (4), what is worth hurrying for (5), how to leave a pass (6), which
    K/V several requests share (7), and now which tokens need no pass of their own. They all meet in one
    loop: *plan, run, sample, record*.

    All of this is one engine. In [lesson 9](/?file=l09_fleet.py) there are four, and the question is where
    to send a request when one of them holds its prefix and all of them are late.
    """)
    return


if __name__ == "__main__":
    app.run()
