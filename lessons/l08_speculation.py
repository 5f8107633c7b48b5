import marimo

__generated_with = "0.25.2"
app = marimo.App(width="medium", app_title="8 · Speculative decoding")

with app.setup(hide_code=True):
    import marimo as mo
    import torch

    from course.attempt import attempt, exhibit, piece, with_attempts
    from course.controls import beside, chooser
    from course.engine_loop import engine_loop
    from course.figure import Figure
    from course.lesson_data import l08_drafts as drafts
    from course.lesson_data import l08_exhibits as exhibits
    from course.lesson_data import l08_lookup as lookup
    from course.lesson_data import l08_measured as measured
    from course.lesson_data import l08_runs as runs
    from course.lesson_data.l00_batching import step_costs
    from course.prediction import after, hints, predict
    from course.replay import answered, replays, rule_of
    from course.saved_answers import load_policies
    from course.task import task
    from nanogpt import Engine, EngineConfig, Request, encode, load_model
    from nanogpt.policies import acceptance
    from nanogpt.speculative.trigram import TrigramDraft
    from widgets import AcceptBars, SpeculationStrip, Timeline, whose


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    # 8 · Speculative decoding

    *60 minutes. Builds on lesson 0: decodes, the KV cache and the cost of a step. You write five
    short functions.*

    Afterwards you can

    - decide which draft tokens to keep so that the text follows the target model's distribution
      exactly,
    - compute the expected speed-up before you build anything,
    - roll back the KV cache after rejected draft tokens,
    - draft without a model, by looking up what followed the same tokens earlier in the text,
    - name the loads at which speculation makes serving slower.

    ## Can one forward pass yield more than one token?

    A decode computes one token per request, and its forward pass costs nearly as much as a pass over
    several tokens:

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
    Figure(
        step_costs(), "How many tokens can a pass compute in the time that it needs for one?"
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    On the GPU, 64 tokens cost as much as one. A pass takes 0.5 ms of fixed overhead and 4.8 ms to read
    all weights. Up to 150 tokens, the arithmetic (32 µs per token) takes less time than reading the
    weights. On the CPU, more tokens are cheap but not free.

    A prefill computes many tokens in one pass, because it knows them all. A decode cannot know its next
    input before it has sampled it. **Speculative decoding** therefore guesses. A cheap **draft** model
    proposes the next k tokens, the **draft tokens**. The **target**, the model whose text we want,
    computes the last token and all k draft tokens in one **verifying pass**. The logits at each of
    these tokens show which token the target would choose next. An accepted draft token needs no pass of
    its own.

    Any cheap model can be the draft. Ours is a table: how often did each character follow each pair of
    characters in the target's training text?
    """)
    return


@app.cell
def _():
    model = load_model()
    draft = TrigramDraft.load()  # counts of three characters in a row, from the training text
    mo.md(drafts.favourites(model, draft))
    return draft, model


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    (␣ is a space, ⏎ a line break.) The target and the draft often prefer the same character. With
    *greedy* decoding (temperature 0) the rule is simple: accept draft tokens as long as each is the
    target's most likely token. The first draft token that differs is rejected, and so are all after it.
    The target's own choice takes its place. If all k are accepted, the last row of logits gives one more
    token, the **bonus**. So a verifying pass yields at least one token and at most k + 1.
    """)
    return


@app.cell(hide_code=True)
def _():
    predict(
        "l08.passes",
        "Sixty characters, greedy, up to k = 4 draft tokens per pass. Without drafts this takes 60 "
        "passes. With the table as the draft, the target accepts 26 draft tokens. How many passes does "
        "the text take?",
        ("12", "26", "34", "60"),
        2,
        "**34 passes.** Every pass yields one token of the target and the draft tokens that it accepts, "
        "and 34 + 26 = 60. The draft proposed 130 tokens. The target checked 54 of them, because it "
        "checks none after a rejected one. The text is the same as without drafts, character by "
        "character: with greedy decoding a bad draft costs time and never changes the text.",
    )
    return


@app.cell(hide_code=True)
def _(draft, model):
    _requests = [(0, Request(0, encode(drafts.OPENING), 60))]
    _run = Engine(model, drafts.FOUR_AHEAD, draft=draft).run(_requests)
    after(
        "l08.passes",
        SpeculationStrip(
            drafts.story(_run, 0, model, draft, drafts.FOUR_AHEAD),
            title="Sixty characters, up to four draft tokens per pass, greedy",
            question="How many characters does one pass yield?",
        ),
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## The line that accepts or rejects

    The engine appends draft tokens to the rows of its decodes when it schedules a step, and `execute`
    computes them like the tokens of a chunk. The marked line decides which draft tokens to keep: `sample`
    calls `rejection_sample` for each of them until one is rejected. You write that function first. The
    line after it, `update`, rolls back the KV cache with your `roll_back_kv`.
    """)
    return


@app.cell(hide_code=True)
def _():
    engine_loop("self.sampler.sample(")
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## Rejection sampling: which draft tokens to keep?

    Most servers *sample*: they draw each token from the target's distribution **p**. Then there is no
    single right token to compare a draft token with. The **distribution** must not change: over many
    runs, each token has to come out exactly as often as p says.

    Two groups found the rule at about the same time (Leviathan et al., 2022; Chen et al., 2023). The
    draft draws its token from its own distribution **q**. If the draft proposes the token no more often
    than the target wants it (q ≤ p), accept it. If the draft proposes it too often, accept it with
    probability p / q: proposed twice as often as wanted, accepted half the time. A rejected draft token
    needs a replacement. From what distribution do we draw it?
    """)
    return


@app.cell(hide_code=True)
def _():
    predict(
        "l08.resample",
        "A draft token was rejected, and the replacement is drawn from **p**, the target's own "
        "distribution. Are the resulting tokens distributed as p?",
        (
            "Yes: the target itself replaces what it rejects",
            "Yes, if the draft is good enough",
            "No: tokens that the draft proposes too often come out too often",
            "No: tokens that the draft proposes too often come out too seldom",
        ),
        2,
        "Take three tokens with p = 1/8, 2/8, 5/8 and q = 5/8, 1/8, 2/8. With replacements from p they "
        "come out 1.5/8, 2/8 and 4.5/8 of the time, the first one 50 % too often. Accepting it with "
        "probability p / q already gives it its whole share of 1/8, and the draw from p gives it a "
        "**second chance**.",
    )
    return


@app.cell(hide_code=True)
def _():
    after("l08.resample", mo.md(f"""
    {drafts.shares_table()}

    Blue is min(p, q), accepted; orange is proposed too often and rejected; grey is still missing.

    1. A token comes out as an accepted draft token with probability q · min(1, p / q) = **min(p, q)**.
    2. So **max(0, p − q)** of its share p is missing. Summed over all tokens, the missing probability
       equals the rejected probability, because p and q both sum to 1.
    3. Therefore draw the replacement with the weights max(0, p − q). Then each token comes out with
       probability min(p, q) + max(0, p − q) = p, whatever the draft is.
    """))
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    Write the rule. The random numbers are arguments, so that a run can be repeated: `u` decides whether
    the draft token is kept, and `v` draws the replacement.
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
    """Return `(kept, token)`: whether the draft token is kept, and the token at its position."""
    raise NotImplementedError("Exercise 8.1: keep the draft token, or draw a replacement?")


@app.cell(hide_code=True)
def _():
    rejection_sample_attempt = attempt("l08.rejection_sample", lambda: rejection_sample)
    rejection_sample_attempt
    return (rejection_sample_attempt,)


@app.cell(hide_code=True)
def _():
    hints("l08.rejection_sample")
    return


@app.cell(hide_code=True)
def _(rejection_sample_attempt):
    _outcomes, _mine = answered(rejection_sample_attempt, drafts.outcomes_of)
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
    Greedy decoding is the special case in which p and q each put all probability on one token: p / q is
    1 where they agree and 0 where they do not.

    ## How large is the speed-up?

    The post that lessons 8 and 9 grew from
    ([AdaXL/adaptive-llm-scheduler](https://github.com/AdaXL/adaptive-llm-scheduler)) gives an example:
    the draft costs a tenth of a target pass per token, it drafts four tokens, and each is accepted with
    probability 0.85. It computes the speed-up as (1 + 4 · 0.85) / (1 + 0.1), about **4.0**.

    This lesson writes α for the acceptance rate, c for the draft cost and k for the number of draft
    tokens. Leviathan et al. write α, c and γ. The post writes p, α and K, so its α is the draft cost. In
    this lesson p and q are always distributions.
    """)
    return


@app.cell(hide_code=True)
def _():
    predict(
        "l08.four_times",
        "α = 0.85, k = 4, c = 0.1, and a verifying pass takes as long as a decode. **How many times as "
        "fast** is it really?",
        ("About 4.0", "About 3.4", "About 2.65", "About 1.4"),
        2,
        "A pass yields 3.709 tokens on average. A round, four draft tokens and one verifying pass, "
        "takes as long as 1 + 4 · 0.1 = 1.4 passes: **2.65 times**. No draft reaches 4.0: at α = 1 a "
        "round yields 5 tokens in 1.4 passes, **3.57 times**. The post's formula pays for one draft "
        "token instead of four, and it counts each draft token by itself, as if those after a rejected "
        "one could stay. Its other number, `E[accepted] ≈ 2.71 tokens/step`, is the mean number of "
        "accepted draft tokens; the target's own token makes it 3.71.",
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    A draft token counts only if all those before it were accepted. In every pass the target adds one
    token of its own.
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
    expected_tokens_attempt = attempt("l08.expected_tokens", lambda: expected_tokens)
    expected_tokens_attempt
    return (expected_tokens_attempt,)


@app.cell(hide_code=True)
def _():
    hints("l08.expected_tokens")
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    Now follow one round: the draft model runs k times, and then the target once.
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
def _(expected_tokens_attempt, speedup_attempt):
    after(
        "l08.four_times",
        Figure(
            measured.speedup_chart(speedup_attempt, expected_tokens_attempt),
            "How many tokens is it worth drafting at acceptance rate α?",
        ),
    )
    return


@app.cell(hide_code=True)
def _():
    after("l08.four_times", mo.md(r"""
    A draft token is lost when any draft token before it is rejected, so many draft tokens pay only at a
    high acceptance rate. At c = 0.1, two are best for α = 0.4, and speculation breaks even at α = 0.10
    for k = 1, 0.17 for k = 2, 0.29 for k = 4 (the post says about 0.6) and 0.44 for k = 8.
    """))
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## Rolling back the KV cache

    The verifying pass computed K and V of all draft tokens, the rejected ones included. Here is one pass
    of the run at the top: four draft tokens, of which one was accepted. The cache holds 46 entries. The
    first row shows the token to which each of them belongs. The second row shows the text, up to the
    token that the target added.

    | position | … | 39 | 40 | 41 | 42 | 43 | 44 | 45 |
    |:--|:-:|:-:|:-:|:-:|:-:|:-:|:-:|:-:|
    | K/V in the cache | … | n | g | t | h | e | ␣ | t |
    | the text | … | n | g | t | h | ␣ | | |

    At position 43 the cache holds the K/V of an `e` that is not in the text. Every later token would
    attend to it. How many entries, counted from the front, may stay?
    """)
    return


@app.cell(hide_code=True)
def _():
    task("l08.roll_back_kv")
    return


@app.function
def roll_back_kv(kv_tokens_used: int, num_drafted: int, num_accepted: int) -> int:
    """Return how many KV tokens a request keeps after a verifying pass, counted from the front."""
    raise NotImplementedError("Exercise 8.4: how many KV tokens stay?")


@app.cell(hide_code=True)
def _():
    roll_back_kv_attempt = attempt("l08.roll_back_kv", lambda: roll_back_kv)
    roll_back_kv_attempt
    return (roll_back_kv_attempt,)


@app.cell(hide_code=True)
def _():
    hints("l08.roll_back_kv")
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## Your engine with drafts

    The real engine speculates for every decode of a step. It drafts up to four tokens for each decode,
    fewer if the token budget has no room, verifies all rows in one pass, and calls your
    `rejection_sample` for each draft token and your `roll_back_kv` for each request. The model computes
    in float64, so that rounding cannot flip a character. Three requests decode greedily; one of them
    arrives later.
    """)
    return


@app.cell
def _(draft):
    exact = load_model(dtype=torch.float64)
    greedy = EngineConfig(token_budget=32, num_draft_tokens=4)
    reference_trace = Engine(exact, greedy, draft=draft).run(runs.three_requests())
    return exact, greedy, reference_trace


@app.cell(hide_code=True)
def _(draft, exact, greedy):
    earlier = load_policies("l08_speculation")  # what you wrote in earlier lessons and passed
    run_with = replays(
        lambda policies: Engine(exact, greedy, policies, draft=draft), runs.three_requests, 300
    )
    return earlier, run_with


@app.cell(hide_code=True)
def _(
    earlier,
    reference_trace,
    rejection_sample_attempt,
    roll_back_kv_attempt,
    run_with,
):
    attempts = {"rejection_sample": rejection_sample_attempt, "roll_back_kv": roll_back_kv_attempt}
    yours = with_attempts(earlier.policies, attempts)
    your_trace = run_with(yours)
    Timeline(
        your_trace.to_json(),
        reference_trace.to_json(),
        yours=any(each.started for each in attempts.values()),
        title="Three requests, up to four draft tokens each, greedy",
        start=2,
        question="How many tokens does each request get in a step?",
    )
    return attempts, your_trace, yours


@app.cell(hide_code=True)
def _(attempts, earlier, reference_trace, your_trace):
    mo.md(runs.run_report(attempts, earlier, your_trace, reference_trace))
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## The same distribution, a different text

    At temperature 1 and with the same seed, the text with drafts **differs** from the text without: the
    draft drew every accepted token, with its own random number. The other requests change the text too,
    because they affect how many draft tokens fit into a pass. Speculative decoding promises the same
    *distribution* of texts.

    /// details | Could the same seed give the same text?

    It could, at a price: let target and draft draw with the same random numbers, and keep a draft token
    only if the target draws it too ([arXiv 2408.07978](https://arxiv.org/abs/2408.07978)). With our model
    and its draft at k = 4 and temperature 1, one shared random number per position yields 1.7 tokens per
    pass, shared Gumbel noise (a random number for each token of the vocabulary) 2.1, and your rule 2.2. No
    rule that decides one position at a time accepts more draft tokens than yours, so the engine uses
    yours. *Block verification* ([arXiv 2403.10444](https://arxiv.org/abs/2403.10444)) decides about all k
    draft tokens together: it accepts a few more and keeps the distribution.
    ///

    How do you test a promise about a distribution? By counting:
    """)
    return


@app.cell(hide_code=True)
def _(draft, exact, rejection_sample_attempt):
    mo.md(
        runs.counted_table(
            rejection_sample_attempt.or_reference(acceptance.rejection_sample),
            "your `rejection_sample`" if rejection_sample_attempt.started else whose(False),
            exact,
            draft,
        )
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    Counting finds only large errors, and only at positions where p and q differ. The bar chart after
    exercise 8.1 shows even a small error for its p and q, because it sums over a grid of u and v
    instead of sampling. The check of that exercise sums over such a grid too, so it knows your
    function's distribution exactly.

    ## Drafting without a model: n-gram lookup

    A draft need not be a model. Texts repeat themselves: a summary quotes its document, an edited program
    is mostly the old program, and names come again and again. So look at the last few tokens of a
    request's text. If the same tokens occur earlier in it, propose the tokens that followed them there.
    This is *prompt lookup*; vLLM calls it `ngram`. It needs no weights and no K/V of its own.

    The lookup has two limits on how many tokens have to agree. `max_n` keeps the search short. `min_n`
    avoids matches by chance: in Shakespeare, a match of one character says little about the next.
    """)
    return


@app.cell(hide_code=True)
def _():
    task("l08.propose_ngram")
    return


@app.function
def propose_ngram(token_ids: list[int], k: int, min_n: int, max_n: int) -> list[int]:
    """Return up to k draft tokens: those that followed the text's last tokens before."""
    raise NotImplementedError("Exercise 8.5: what followed these tokens before?")


@app.cell(hide_code=True)
def _():
    propose_ngram_attempt = attempt("l08.propose_ngram", lambda: propose_ngram)
    propose_ngram_attempt
    return (propose_ngram_attempt,)


@app.cell(hide_code=True)
def _():
    hints("l08.propose_ngram")
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    The engine serves three texts with your lookup as the draft, greedy, `max_n` = 5 and k = 4. *Accepted*
    counts the draft tokens that were accepted, of those proposed. The last two columns are modelled: the
    same passes on the server CPU, and 128 such requests in one batch on the large GPU.
    """)
    return


@app.cell(hide_code=True)
def _(model, propose_ngram_attempt):
    mo.md(lookup.lookup_table(rule_of(propose_ngram_attempt), model))
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    Because no q is drawn from, each proposed token has q = 1, and your `rejection_sample` accepts it with
    probability p. A larger `min_n` proposes less, and more of it is accepted. One request gains most
    with `min_n` = 1, because rejected draft tokens cost it little. **In a batch of 128 on the GPU they
    cost arithmetic**: with `min_n` = 1 each of these texts takes longer than without drafts, and with
    `min_n` = 3 hardly less.

    ## Break it

    Two defects. Look at the symptom, decide what is wrong, then **repair the function in its cell**. The
    cells below it run again.

    ### Exhibit A: the text drifts away

    Our engine would refuse a wrong rollback with an error. The function below therefore runs in a minimal
    speculative decoder, greedy and with one request, that does not check the rollback.
    <span data-yours="exhibit"></span>
    """)
    return


@app.function
def keep_all_kv(kv_tokens_used, num_drafted, num_accepted):
    """How many KV tokens stay after a verifying pass: computed K/V need not be computed again."""
    return kv_tokens_used


@app.cell(hide_code=True)
def _(draft, exact):
    mo.md(exhibits.rolled_back_by(piece(lambda: keep_all_kv), exact, draft))
    return


@app.cell(hide_code=True)
def _():
    predict(
        "l08.own_draft",
        "A team tests its decoder with the **target itself as the draft**, so that the test needs no "
        "second model. It compares a long greedy text with the oracle's. Does this test catch the "
        "function above?",
        (
            "Yes: the cache grows by four entries too many in every pass",
            "Yes, if the text is long enough",
            "No: the texts are equal, however long they are",
            "No: target and draft use the same cache",
        ),
        2,
        "Every draft token is the target's own choice, so none is rejected, and all computed K/V belongs "
        "to the text: the texts are equal. Only a rejected draft token leaves an entry that all later "
        "tokens attend to. Compare the last two columns of the table: these entries add up. Test with a "
        "draft that is often wrong.",
    )
    return


@app.cell(hide_code=True)
def _():
    after("l08.own_draft", exhibit("A", "l08.roll_back_kv", lambda: keep_all_kv))
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ### Exhibit B: a benchmark with a warm-up

    This lookup draft compares five characters and also searches the server's earlier answers. A benchmark runs its
    four prompts once as a warm-up and then again with the clock running. In between, `draft_memory`
    decides what the draft remembers.
    <span data-yours="exhibit"></span>
    """)
    return


@app.function
def draft_memory(written):
    """What the draft remembers when the measured run begins, given all that was written so far."""
    return written


@app.cell(hide_code=True)
def _(model):
    benchmark_table, honest = exhibits.benchmark(piece(lambda: draft_memory), model)
    mo.md(benchmark_table)
    return (honest,)


@app.cell(hide_code=True)
def _():
    predict(
        "l08.knew",
        "The texts are right in both runs, and the measured run takes far fewer passes. **What is wrong "
        "with the measured speed?**",
        (
            "The measured run is greedy, the warm-up was not",
            "The draft looks the answers up: it remembers them",
            "The warm-up paid for the prefill",
            "Nothing: drafts get better with time",
        ),
        1,
        "The draft proposes what the target has just written for the same prompts. With greedy decoding "
        "a draft cannot make a text wrong, so no test of texts notices. Only the speed is wrong: new "
        'prompts will not reach it. Let the draft remember nothing (`return ""`), or measure with new '
        "prompts. If your users do repeat prompts, this memory is a feature: then measure it on such a "
        "load.",
    )
    return


@app.cell(hide_code=True)
def _(honest):
    after(
        "l08.knew",
        mo.md(
            "**Repaired.** The benchmark measures what a new prompt gets."
            if honest
            else "**Still broken.** The draft knew the measured answers."
        ),
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## How much speculation gains, and for which batches it loses

    **How many draft tokens are accepted?** Eight openings, 64 characters each, our model and its table as
    the draft, k = 4. α is the number of accepted draft tokens per checked one, and the fourth column is
    `expected_tokens` (exercise 8.2) with this α.
    """)
    return


@app.cell(hide_code=True)
def _(draft, model):
    accepted = measured.accepted_drafts(model, draft)
    mo.md(measured.accepted_table(accepted))
    return (accepted,)


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    - **The formula is close but not exact.** It assumes that every draft token is accepted with the same
      probability. Text has easy places, such as the rest of a word, and hard ones, such as its first
      letter. With greedy decoding the first draft token is accepted 48 % of the time, but the third one,
      if it is checked at all, 63 %: it is then usually inside an easy place.
    - **A high temperature does no harm here.** α is 0.54, 0.60 and 0.58 at temperatures 0, 1 and 2,
      because our engine draws the draft at the target's temperature, and two flat distributions overlap
      well. A draft that is always greedy loses more of its tokens the flatter p is.

    **How large is the speed-up on this machine?** Measured now, at k = 4 and temperature 1. The unit of
    time is one plain decode step. c is the time of one draft token, and *verifying pass* is the time of
    a step with drafts, minus the time that drafting takes.
    """)
    return


@app.cell
def _(draft, model):
    timings = {batch: measured.timed(model, draft, batch) for batch in (1, 8)}
    mo.md(measured.timed_table(timings))
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    The numbers change from run to run, because each comes from only a few dozen short steps. The draft
    costs next to nothing, because it is a table. Every formula above assumes that **a pass over five
    tokens takes as long as a pass over one**. On a CPU this is wrong, which costs most or all of the
    gain: every token takes time, and with a batch of eight the pass computes 40 tokens instead of 8.

    **What happens on a GPU?** With k = 4 every request brings five tokens to the pass instead of one.
    Once their arithmetic takes longer than reading the weights, each further token costs time there too.
    """)
    return


@app.cell(hide_code=True)
def _(accepted):
    Figure(
        measured.batch_chart(measured.acceptance_rate(accepted[1.0])),
        "From which batch size on does speculation make decoding slower?",
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    **How many tokens should we draft?** The engine serves the same openings with your functions, at
    temperature 1 and with up to eight draft tokens. Choose the machine on which the forward passes are
    modelled. Drafting costs nothing in this figure.
    """)
    return


@app.cell(hide_code=True)
def _():
    machine = chooser("Machine", list(measured.MACHINES), "a large GPU")
    machine
    return (machine,)


@app.cell
def _(draft, model, yours):
    ahead = measured.drafts_ahead(model, draft, yours)
    return (ahead,)


@app.cell(hide_code=True)
def _(ahead, machine, rejection_sample_attempt):
    beside(
        machine,
        lambda name: measured.speedup_figure(ahead, name, whose(rejection_sample_attempt.started)),
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    Speculation uses arithmetic units that would be idle while the weights are read. A large batch keeps
    them busy, so the draft that makes one request fast makes a large batch slow.

    **When should the engine stop drafting?** The post switches drafts off on workers with a utilisation
    of 80 % or more, near a deadline and for requests of high priority. It also suggests switching drafts
    off by a request's own acceptance rate, which the fleet of lesson 9 will do: after 16 checked draft
    tokens, a request below the break-even rate (0.29 at k = 4 and c = 0.1) stops drafting. If no draft
    token is ever accepted, speculation then costs 5 % of the speed; without the rule it costs 28 %
    (modelled, 128 new tokens per request).

    ## What you now know

    - One forward pass can yield several tokens: while a decode is memory-bound, verifying k draft tokens
      costs hardly more than computing one token.
    - Accept a draft token with probability min(1, p / q), and otherwise draw from max(0, p − q). Every
      token then has distribution p, whatever the draft is.
    - A pass yields 1 + α + … + αᵏ tokens on average, and a round costs 1 + k · c passes.
    - The K/V of rejected draft tokens has to be dropped; the token that the target added has none yet.
    - Speculation pays for small batches and high acceptance rates. Once the batch is compute-bound,
      rejected draft tokens take time from other requests.

    ## The same in vLLM and SGLang

    | here | vLLM | SGLang |
    |:---|:---|:---|
    | the draft | `--speculative-config`, or `--spec-method` and `--spec-model` | `--speculative-algorithm` |
    | `num_draft_tokens`, k | `--spec-tokens` | `--speculative-num-steps`, `--speculative-num-draft-tokens` |
    | `rejection_sample` | `vllm/v1/sample/rejection_sampler.py`; replacements are *recovered* tokens | `--speculative-use-rejection-sampling`; by default *target-only* sampling, which does not use q |
    | `propose_ngram` | method `ngram`: `prompt_lookup_min`, `prompt_lookup_max`; the longest match, and its earliest place (`vllm/v1/spec_decode/ngram_proposer.py`) | `NGRAM`, which searches a trie of all requests' texts |
    | tokens per pass | 1 + accepted / drafts, from `vllm:spec_decode_num_accepted_tokens` and `_num_drafts` | `sglang:spec_accept_length` |
    | acceptance rate | accepted / *proposed*, `vllm:spec_decode_num_draft_tokens`; ours is accepted / *checked* | `sglang:spec_accept_rate` |

    - **How the control flow differs.** Our scheduler drafts when it plans a step, and shares out the room
      in the token budget. vLLM drafts at the end of a step, right after sampling: the runner returns the
      draft tokens with the step's output, and the scheduler counts them as tokens to schedule in the next
      step (`num_tokens_with_spec`), with a token budget as for a chunk. The target's pass and the
      rejection follow in the runner, and `update_from_output` takes back what was rejected.
    - **MTP** (multi-token prediction): the target is trained with a module that predicts one token
      further. DeepSeek-V3 reports an acceptance rate of 85 to 90 % for that token
      ([2412.19437](https://arxiv.org/abs/2412.19437)). vLLM: `deepseek_mtp` and others; SGLang: `NEXTN`.
    - **EAGLE-3** ([2503.01840](https://arxiv.org/abs/2503.01840)): a small draft model that reads the
      hidden states of several target layers. vLLM: `eagle3`; SGLang: `EAGLE3`.
    - **A separate small model**, as in the paper. vLLM: `draft_model`; SGLang: `STANDALONE`.
    - A *tree* of draft tokens covers several continuations in one pass, as in **SpecInfer**
      ([2305.09781](https://arxiv.org/abs/2305.09781)) and **Medusa**
      ([2401.10774](https://arxiv.org/abs/2401.10774)). SGLang drafts trees when
      `--speculative-eagle-topk` is above 1.
    - In vLLM the scheduler subtracts rejected tokens from `num_computed_tokens`, as your `roll_back_kv`
      does from the KV tokens. Drafts are greedy by default, so q is 1 for the draft token
      (`draft_sample_method`).
    - vLLM's `rejection_sample_method` `block` is block verification, which keeps the distribution; `fly`
      and `synthetic` (for benchmarks) change it. SGLang accepts more and changes it with
      `--speculative-accept-threshold-single` below 1.
    - The rule is Algorithm 1 of Leviathan, Kalman and Matias
      ([2211.17192](https://arxiv.org/abs/2211.17192)), your `expected_tokens` their Equation 1 and your
      `speedup` their Theorem 3.8. Chen et al. ([2302.01318](https://arxiv.org/abs/2302.01318)) have the
      same rule. Both report two to three times the speed.

    *Checked against vLLM 0.33.0 and SGLang 0.5.23, November 2026.*

    /// details | Reports of these bugs

    - **Distribution.** [vllm-ascend #2881](https://github.com/vllm-project/vllm-ascend/pull/2881): a
      sampler changed the target's probabilities in place while it drew the replacement.
      [transformers #47932](https://github.com/huggingface/transformers/issues/47932): the q in the ratio
      was not the q from which the token was drawn.
    - **Cost.** [llama.cpp #3649](https://github.com/ggml-org/llama.cpp/issues/3649): slower than expected
      on an A100. The maintainer computes what you did: the time to draft the tokens plus the time of the
      target for a *small batch*.
    - **Cache.** [mlxcel #994](https://github.com/lablup/mlxcel/issues/994): the draft's own cache was
      rolled back two entries too far in every round, and acceptance fell.
      [vLLM #9730](https://github.com/vllm-project/vllm/pull/9730): a wrong token in the draft's cache
      after a bonus token, and acceptance dropped as soon as k was above 1.
    ///

    ## What comes next

    Your engine now has a cache, chunks, a scheduler, packed batches, blocks and drafts, all in one loop.
    In [lesson 9](/?file=l09_fleet.py) four such engines serve together, and a router decides where each
    request goes.
    """)
    return


if __name__ == "__main__":
    app.run()
