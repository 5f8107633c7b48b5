import marimo

__generated_with = "0.25.2"
app = marimo.App(width="medium", app_title="0 · The KV cache and batching")

with app.setup(hide_code=True):
    import marimo as mo

    from course.attempt import attempt
    from course.lazy import torch
    from course.prediction import after, hints, predict
    from course.task import task


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    # 0 · The KV cache and batching

    *35 minutes. Builds on nanoGPT: you have seen its attention and its `generate`. You write three
    short functions.*

    Afterwards you can

    - say exactly how much work a text costs, with and without a KV cache, and write the attention that uses one,
    - explain why a server runs many requests in one step, and why it does not wait for the longest of them,
    - read TTFT, ITL and TPOT off a real run, and say what each of them feels like while one waits.
    """)
    return


@app.cell(hide_code=True)
def _():
    from course.calling.jobs import call
    from course.lesson_data.l00_batching import (
        SLOTS,
        WAITING,
        batching_side,
        cost_table,
        engine_finish_steps,
        four_requests,
        step_costs,
    )
    from course.lesson_data.l00_kv_cache import (
        Cache,
        bug_or_rounding,
        reference_text,
        time_table,
        timed_both_ways,
        your_text,
    )
    from course.replay import replay
    from nanogpt import Engine, EngineConfig, Policies, Request, decode, encode, load_model
    from nanogpt.clock import CostClock
    from nanogpt.experiments.trace_metrics import all_request_metrics
    from nanogpt.planning import chunk_inputs
    from widgets import Batching, StepCost, Timeline, WorkBars

    # This model is too small for its work to be worth sharing between threads.
    torch.set_num_threads(1)
    return (
        Batching,
        Cache,
        CostClock,
        Engine,
        EngineConfig,
        Policies,
        Request,
        SLOTS,
        StepCost,
        Timeline,
        WAITING,
        WorkBars,
        all_request_metrics,
        batching_side,
        bug_or_rounding,
        call,
        chunk_inputs,
        cost_table,
        decode,
        encode,
        engine_finish_steps,
        four_requests,
        load_model,
        reference_text,
        replay,
        step_costs,
        time_table,
        timed_both_ways,
        your_text,
    )


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## Why does a long answer cost more than its length?

    Ask nanoGPT for one character and it feeds your prompt through the model once. Ask for 200
    characters and you would expect 200 times that. Here is the loop that it runs:

    ```python
    for _ in range(max_new_tokens):
        logits, _ = model(tokens)              # every token so far, every time
        tokens = append(tokens, sample(logits[-1]))
    ```

    Nothing is wrong with it: it is short, and its text is right. In this course it is the
    [*oracle*](/?file=glossary.py&view-as=present), the plain and slow way that every faster way has to agree with. But look at what it feeds. How
    many tokens go through the model for 20 new ones after a prompt of 50? And how many would, if no
    token ever had to go through twice?
    """)
    return


@app.cell(hide_code=True)
def _():
    predict(
        "l00.tokens_computed",
        "A prompt of 50 tokens, 20 new tokens. How many tokens go through the model **without** a "
        "cache, and how many **with** one that lets every token go through once at most?",
        [
            "1,400 without, 70 with",
            "1,190 without, 69 with",
            "1,190 without, 20 with",
            "70 without, 20 with",
        ],
        1,
        "Without: 50 + 51 + ... + 69 = 1,190, because step after step feeds everything known. "
        "With: the first step feeds the 50 tokens of the prompt, and each of the other 19 steps "
        "feeds the one token that is new. That makes 69 and not 70: the last token is sampled, "
        "but nothing is predicted from it, so it never goes in. (1,400 would be the full length every "
        "time, and 20 leaves the prompt out.)",
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## Watch the work grow, and then not

    Below, the course's engine, which has a KV cache, writes those 20 characters. The picture under
    it counts the tokens that each step computed: from the engine's own record for the
    run with a cache, and for the run without one simply everything known at that step.
    """)
    return


@app.cell
def _(Engine, EngineConfig, Request, decode, encode, load_model):
    model = load_model()
    prompt = encode("ROMEO:\nBut soft, what light through yonder window ")  # 50 tokens

    engine = Engine(model, EngineConfig(token_budget=512))
    trace = engine.run([(0, Request(id=0, prompt_tokens=list(prompt), max_new_tokens=20))])
    mo.plain_text(decode(prompt) + decode(trace.generated_tokens(0)))
    return model, prompt, trace


@app.cell(hide_code=True)
def _(WorkBars, prompt, trace):
    after(
        "l00.tokens_computed",
        WorkBars(
            [
                {"name": "without a cache", "tokens": [len(prompt) + i for i in range(20)]},
                {"name": "with a cache", "tokens": [step.used_tokens for step in trace.steps]},
            ],
            title="Tokens computed for each generated token",
            question="How does the work of a token grow, with and without a cache?",
        ),
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## What may be kept, and why

    In every layer, a token is turned into a query, a key and a value. Its **key and value** depend
    on the token itself and on what the layers below found in the tokens *before* it: attention is
    causal, nothing later can reach back. So once they are computed they never change, however long
    the text grows. They can be kept. That is the KV cache, and that is all of it.

    Its **query** is asked once, when the token is new, to find out what comes next. It is never
    asked again, and so it is not kept. There is no Q cache.

    | a step needs | for which tokens | where it comes from |
    |:---|:---|:---|
    | query | the new ones | computed |
    | key and value | all of them | the new ones computed, the others cached |
    | logits | the last one | computed |

    The first step of a request computes the keys and values of its whole prompt. It is called the
    **prefill**. Each later step adds one token. It is called a **decode**. Both are one rule: feed
    what is not cached yet. Write it down.
    """)
    return


@app.cell(hide_code=True)
def _():
    task("l00.next_inputs")
    return


@app.function
def next_inputs(tokens: list[int], num_cached: int) -> list[int]:
    """Return the tokens that the model must be fed in this step."""
    raise NotImplementedError("Exercise 0.1: which tokens are new?")


@app.cell(hide_code=True)
def _():
    next_inputs_attempt = attempt("l00.next_inputs", lambda: next_inputs)
    next_inputs_attempt
    return (next_inputs_attempt,)


@app.cell(hide_code=True)
def _():
    hints("l00.next_inputs")
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    When you run a cell of yours with Ctrl+Enter (Cmd+Enter on a Mac), its check runs by itself.

    Now the part that reads the cache: one head, one new token. Its query may look at every token so
    far. What you return is checked against attention over the whole text without any cache.
    """)
    return


@app.cell(hide_code=True)
def _():
    task("l00.cached_attention")
    return


@app.function
def cached_attention(
    q: torch.Tensor,
    k_cache: torch.Tensor,
    v_cache: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Attend from one new token to every token so far, itself included, in one head."""
    raise NotImplementedError("Exercise 0.2: append, then attend")


@app.cell(hide_code=True)
def _():
    cached_attention_attempt = attempt("l00.cached_attention", lambda: cached_attention)
    cached_attention_attempt
    return (cached_attention_attempt,)


@app.cell(hide_code=True)
def _():
    hints("l00.cached_attention")
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## Your cache writes Shakespeare

    Two functions, and the real model can use them. The loop below is the whole of it: it asks
    `next_inputs` what to feed, and every head of every layer attends with `cached_attention`. It feeds
    the prompt one token at a time, since your attention takes one; lesson 1 takes more.
    """)
    return


@app.cell
def _(Cache):
    def generate_with_cache(model, prompt, max_new_tokens, next_inputs, cached_attention):
        """Continue `prompt` greedily: the new tokens, and the logits (N, V) each was taken from."""
        cache = Cache(cached_attention)
        tokens, num_cached, all_logits = list(prompt), 0, []
        while len(tokens) < len(prompt) + max_new_tokens:
            for token in next_inputs(tokens, num_cached):
                logits = cache.feed(model, token, position=num_cached)
                num_cached += 1
            all_logits.append(logits)
            tokens.append(int(logits.argmax()))
        return tokens[len(prompt) :], torch.stack(all_logits)

    return (generate_with_cache,)


@app.cell(hide_code=True)
def _(
    cached_attention_attempt,
    generate_with_cache,
    next_inputs_attempt,
    prompt,
    reference_text,
    your_text,
):
    _attempts = (next_inputs_attempt, cached_attention_attempt)
    if all(each.report.status == "passed" for each in _attempts):
        _text = your_text(generate_with_cache, prompt, *(each.function for each in _attempts))
    else:
        _text = reference_text(prompt)
    mo.md(_text)
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## How much time does it save?

    Here both ways write 200 characters, once, on the machine that you are sitting at. The cached
    run is the engine's: your attention grows its tensors by copying them, which is right but slow,
    and the engine writes into memory that it reserved beforehand.
    """)
    return


@app.cell(hide_code=True)
def _(model, prompt, time_table, timed_both_ways):
    uncached_us, cached_us = timed_both_ways(model, prompt, 200)
    after("l00.tokens_computed", mo.md(time_table(len(prompt), uncached_us, cached_us)))
    return


@app.cell(hide_code=True)
def _():
    after(
        "l00.tokens_computed",
        mo.md(r"""
        Counted in tokens, 200 characters cost 598 times as much as one without a cache, and 5 times as much
        with it: that is the answer to the question at the top. But look at
        the last column. At 200 characters the cache computes 120 times fewer tokens, and the time saved is
        nowhere near 120 times. A decode computes *one* token, and still it takes a good part of what a step
        of fifty takes. Where does the time go?
        """),
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## A step has a price, however little is in it

    Measure steps of different sizes and the points lie close to a line that does not start at zero:

    > cost of a step = fixed + (number of tokens) × (cost per token)

    On a CPU the fixed part is Python, and dozens of small operations that have to be started one by
    one. On a GPU there is something else. The arithmetic of one token is over long before its weights
    have arrived: every step reads *all* weights from memory once, whether for one token or for a
    hundred. Up to the knee, where the arithmetic takes as long as the reading, more tokens cost nearly
    nothing.

    Below are steps of our model that were timed on a CPU, with the line that lies nearest to them, and
    an 8-billion-parameter model on a large GPU, modelled. Switch between the two, and move along the
    line with the arrow keys. (At the far right the points leave the line: those are prefills, and in a long one each token also has to
    attend to all the tokens before it.)
    """)
    return


@app.cell(hide_code=True)
def _(StepCost, step_costs):
    cpu, gpu = step_costs()
    StepCost(
        [cpu, gpu],
        title="What a step costs",
        max_tokens=256,
        question="What does the second token of a step cost? And the tenth?",
    )
    return cpu, gpu


@app.cell(hide_code=True)
def _(cost_table, cpu, gpu):
    mo.md(cost_table(cpu, gpu))
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    So a decode alone wastes nearly the whole step. The way out is to let other requests in: **one
    step computes one token for each of them.** That is batching, and it is where the throughput of
    every serving engine comes from. It is also where the cost of the cache comes back:
    each of them needs its K/V in memory.

    ## Which request waits for which?

    Batching needs one more decision. Requests ask for different numbers of tokens. Say there are
    three **slots**, so three requests can be in a step, and six requests wait from the beginning:

    | request | 0 | 1 | 2 | 3 | 4 | 5 |
    |---|---|---|---|---|---|---|
    | tokens to generate | 9 | 3 | 3 | 2 | 6 | 4 |

    **Static batching** takes three, runs them until the longest is done, then takes the next three.
    **Continuous batching** fills a slot in the very next step after it falls free.
    """)
    return


@app.cell(hide_code=True)
def _():
    predict(
        "l00.last_request",
        "Six requests of 9, 3, 3, 2, 6 and 4 tokens, three slots. After how many steps is the "
        "**last** request done, statically and continuously batched?",
        [
            "static 27, continuous 9",
            "static 15, continuous 12",
            "static 15, continuous 9",
            "static 12, continuous 9",
        ],
        2,
        "Static: the first batch lasts as long as its longest, 9 steps, the second 6: 15. "
        "Continuous: while request 0 takes its 9 steps, all the others fit into the two slots beside "
        "it. 27 tokens in three slots need at least 9 steps, so it cannot be done faster. (27 steps would "
        "be one request at a time.)",
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    Now write down when each request is done. One function for both, so that you see how little has
    to change.
    """)
    return


@app.cell(hide_code=True)
def _():
    task("l00.finish_steps")
    return


@app.function
def finish_steps(lengths: list[int], slots: int, continuous: bool) -> list[int]:
    """Return, for each request, after how many steps it is done."""
    raise NotImplementedError("Exercise 0.3: when is each request done?")


@app.cell(hide_code=True)
def _():
    finish_steps_attempt = attempt("l00.finish_steps", lambda: finish_steps)
    finish_steps_attempt
    return (finish_steps_attempt,)


@app.cell(hide_code=True)
def _():
    hints("l00.finish_steps")
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    The real engine can do both. The only difference is when it is handed the next requests.
    """)
    return


@app.cell(hide_code=True)
def _(
    Batching,
    SLOTS,
    WAITING,
    batching_side,
    call,
    engine_finish_steps,
    finish_steps_attempt,
    model,
):
    _kinds = (("Static batching", False), ("Continuous batching", True))
    _engine = [engine_finish_steps(model, kind) for _, kind in _kinds]
    _drawn, _whose = _engine, "the real engine's steps"
    batching_note = "The picture shows what the real engine did. Once your `finish_steps` is written, it shows yours."
    if finish_steps_attempt.started:
        _yours = [
            call(finish_steps_attempt.function, (WAITING, SLOTS, kind)).value for _, kind in _kinds
        ]
        try:
            for _answer in _yours:
                batching_side("yours", _answer)
            _drawn, _whose = _yours, "your finish_steps"
            _agree = (
                "agrees with it: the same steps for all six"
                if [list(each) for each in _yours] == _engine
                else f"says otherwise: {_engine[0]} static and {_engine[1]} continuous"
            )
            batching_note = f"The picture is drawn from **your** `finish_steps`. The real engine, run on the same requests, {_agree}."
        except (ValueError, TypeError) as _problem:
            batching_note = f"Your `finish_steps` could not be drawn: {_problem}. The picture shows what the real engine did."
    after(
        "l00.last_request",
        Batching(
            *(batching_side(kind[0], done) for kind, done in zip(_kinds, _drawn, strict=True)),
            title=f"Six requests in three slots: {_whose}",
            question="Which requests are done earlier with continuous batching?",
        ),
    )
    return (batching_note,)


@app.cell(hide_code=True)
def _(batching_note):
    after("l00.last_request", mo.md(batching_note))
    return


@app.cell(hide_code=True)
def _():
    after(
        "l00.last_request",
        mo.md(r"""
        Both sides compute the same 27 tokens. Static batching spreads them over 15 steps and leaves 18
        of its 45 slot-steps idle; continuous batching needs 9 steps and leaves none. And look at request
        3, which wants two tokens: it is done after 11 steps on one side and after 5 on the other. What
        gains most is a short request behind a long one.

        Six requests that fit this well were chosen for the picture. With lengths that are all equal,
        both sides are the same. The more the lengths differ, the more is gained; and they are not known
        beforehand, because a text ends when the model says so.
        """),
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## What one feels while one waits

    Throughput is not felt by the person who reads an answer on a screen. Three other things are, all
    of them read off the clock:

    - **TTFT**, time to first token: from the arrival of the request to its first token.
    - **ITL**, inter-token latency: the gap between two tokens of the same request. Each gap is one.
    - **TPOT**, time per output token: the mean of a request's gaps.

    The real engine now serves four requests with continuous batching. Request 3 arrives last, when
    requests 0, 1 and 2 are in the middle of their texts, and has by far the longest prompt: 354 tokens
    against 15 to 28. Its prefill is one step.
    """)
    return


@app.cell(hide_code=True)
def _():
    predict(
        "l00.whose_gaps",
        "Request 3 arrives with its long prompt. In whose gaps between tokens will that show?",
        [
            "In its own: its first gap is the longest",
            "In those of requests 0, 1 and 2: one gap of each gets long",
            "In no gap: only request 3's first token comes late",
            "In all gaps from then on, a little in each",
        ],
        1,
        "Every request in a step waits until the step is over. The one that computes the long prompt "
        "takes several times as long as the others, and requests 0, 1 and 2 each get their next token "
        "only at its end. Request 3 itself pays in its TTFT: it has no gap before its first token.",
    )
    return


@app.cell
def _(CostClock, Engine, EngineConfig, four_requests, model, replay):
    served = replay(
        Engine(model, EngineConfig(token_budget=512), clock=CostClock()), four_requests()
    )
    return (served,)


@app.cell(hide_code=True)
def _(Timeline, served):
    after(
        "l00.whose_gaps",
        Timeline(
            served.to_json(),
            title="Four requests on the real engine, continuously batched",
            question="Which step takes longest, and which requests wait for it?",
        ),
    )
    return


@app.cell(hide_code=True)
def _(all_request_metrics, served):
    _metrics = all_request_metrics(served)

    def _row(each):
        prompt_len = len(served.request(each.request_id).prompt_tokens)
        return (
            f"| {each.request_id} | {prompt_len} | {each.ttft_us / 1000:.1f} ms "
            f"| {min(each.itls_us) / 1000:.1f} ms | {max(each.itls_us) / 1000:.1f} ms "
            f"| {each.tpot_us / 1000:.1f} ms |"
        )

    _worst = max(_metrics, key=lambda each: max(each.itls_us))
    _gap, _least = max(_worst.itls_us), min(_worst.itls_us)
    _step = next(step for step in served.steps if step.end_us - step.start_us == _gap)
    _lines = [
        "| request | prompt tokens | TTFT | smallest gap (ITL) | largest gap (ITL) | TPOT |",
        "|---:|---:|---:|---:|---:|---:|",
        *(_row(each) for each in _metrics),
        "",
        f"*Times modelled by the costs of {served.clock.name}, so that they are the same wherever "
        "you run this.*",
        "",
        f"Step {_step.step} computed {_step.used_tokens} tokens, nearly all of them request 3's "
        "prompt. Requests 0, 1 and 2 each wanted one token of it, and waited "
        f"{_gap / 1000:.1f} ms for it instead of {_least / 1000:.1f} ms. TPOT spreads that one gap "
        "over all the others: it tells you that something was slow. Only the largest gap tells you "
        "that the text stood still, and that is what one remembers who reads it.",
    ]
    after("l00.whose_gaps", mo.md("\n".join(_lines)))
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## Where it loses

    **The cache trades work for memory.** Every token of every running request holds its keys and
    values in every layer. Per token that is

    > 2 (K and V) × L layers × C channels of K and V × bytes per number

    and it adds up faster than one expects. C counts the heads that K and V have; Llama 3 has fewer of
    those than of queries, and the table counts them so.

    | model | 2 × L × C × bytes | per token | a full context |
    |:---|:---|---:|---:|
    | ours, float32 | 2 × 4 × 128 × 4 | 4,096 bytes | 512 tokens: 2 MiB |
    | OPT-13B, 16 bit | 2 × 40 × 5120 × 2 | 819,200 bytes | 2,048 tokens: 1.6 GiB |
    | Llama-3-8B, 16 bit | 2 × 32 × (8 × 128) × 2 | 131,072 bytes | 8,192 tokens: 1 GiB |

    *Arithmetic on published sizes; the vLLM paper (section 3) works out the same 800 KB per token for
    OPT-13B.* Our whole model weighs 3.3 MiB. Two requests with a full context hold 4 MiB.

    So memory, and not arithmetic, usually decides how many requests share a step. What to do when
    it is full is the subject of lesson 2.

    **The cache saves no reading.** A decode computes one token, but its query meets every key of the
    context. Long texts still get slower with every token, only far more gently.

    **Continuous batching lets every request in, long prompts too.** One prefill, and what else is
    in its step waits for it. Static batching does not have this problem within a batch. Lesson 1
    has a cure.

    ## Bug or rounding?

    In June 2025 nanoGPT was offered a KV cache, as pull request #613. Its author reported: with the
    cache the outputs are coherent, but *not exactly the same* as without it, although the seed is.
    They should be, the report goes on, and it needs to be found out whether that is a bug. At the
    time of writing, the pull request is open and so is the question.

    You have just seen a cache agree with the oracle. So what would you advise?
    """)
    return


@app.cell(hide_code=True)
def _():
    predict(
        "l00.bug_or_rounding",
        "With the cache, the text reads well but differs from the text without it. Which **one** "
        "experiment tells a bug from rounding?",
        [
            "Try ten more seeds and count how often the texts differ",
            "Set the temperature to 0 and compare the texts",
            "Compare the logits in float32 and again in float64",
            "Compare the validation loss with and without the cache",
        ],
        2,
        "Rounding shrinks when the numbers get finer; a bug does not care how fine they are. Seeds "
        "and texts only show **that** something differs, and one flipped character changes all that "
        "follow. A loss averages a small bug away.",
    )
    return


@app.cell(hide_code=True)
def _():
    after(
        "l00.bug_or_rounding",
        mo.md(r"""
        Floating-point sums depend on their order, and a matrix product over one row may add in another
        order than one over fifty. So even a perfect cache gives slightly different logits. That matters
        only where two tokens are nearly tied, or where the random draw falls right between them. Then
        another character is chosen, and from there on it is another text.

        The experiment below is done twice: on the engine's cache, and on one with a real bug, a classic
        one. Its decodes are placed **one position too far to the right**. Read its text first: would you
        have noticed?
        """),
    )
    return


@app.cell
def _(chunk_inputs):
    def one_position_late(tokens, num_computed_tokens, num_scheduled_tokens):
        """The reference's chunk inputs, with a defect: after the first step, positions are off by one."""
        ids, positions, sample = chunk_inputs(tokens, num_computed_tokens, num_scheduled_tokens)
        if num_computed_tokens > 0:
            positions = [position + 1 for position in positions]
        return ids, positions, sample

    return (one_position_late,)


@app.cell(hide_code=True)
def _(Policies, bug_or_rounding, one_position_late, prompt):
    caches = {
        "the engine's cache": Policies(),
        "positions off by one": Policies(chunk_inputs=one_position_late),
    }
    after("l00.bug_or_rounding", mo.md(bug_or_rounding(prompt, caches)))
    return


@app.cell(hide_code=True)
def _():
    after(
        "l00.bug_or_rounding",
        mo.md(r"""
        The first row shrinks with every finer kind of number: rounding. The second hardly moves: a bug.

        Float32 can promise that a right cache is *close*, and it cannot promise the same text for ever.
        Float64 makes flips so rare that we test our engine with it, token for token. In 16 bits, which
        is what nanoGPT's `sample.py` computes in by default, rounding alone can change a text. Pull
        request #613 was also tried on a CPU, where `sample.py` computes in float32; there rounding is a
        far less likely excuse. We do not know which it was. Now you know how to find out.

        The same question came to Hugging Face transformers (issue #25420). A maintainer's answer there:
        a cache does change the logits, in most models and at all precisions; in float32 it can hardly
        be seen, in 16 bits it is no longer negligible.
        """),
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## How production engines do it

    - **Orca** (Yu et al., *Orca: A Distributed Serving System for Transformer-Based Generative
      Models*, OSDI 2022, section 3) brought continuous batching under the name of *iteration-level
      scheduling*: the scheduler decides anew before every step. Its second idea, *selective
      batching*, is why requests of different length can share one: every Linear sees all tokens
      in one flat row, and only attention asks which request they belong to. Our packed executor
      (`nanogpt/executors/packed.py`) does exactly this.
    - **vLLM** (Kwon et al., *Efficient Memory Management for Large Language Model Serving with
      PagedAttention*, SOSP 2023) started from the table above: engines reserved a request's memory
      ahead, in one piece. Of their KV memory 20 percent held tokens where that was a full context, and
      38 percent even where the length of every answer was known (Figure 2). Paging gives out small
      blocks instead. Our engine reserves a full context, because that is easier to see through.
    - Your `cached_attention` copies the whole cache at every step. Hugging Face transformers'
      default cache (`DynamicCache`) does that too, in the same `torch.cat`. Serving engines write
      into memory that they reserved at the start.

    ## What comes next

    You have a cache, a batch that is always full, and three numbers that say how it feels. You also
    have a picture of one long prompt that makes every other request wait. In
    [lesson 1](/?file=l01_chunked_prefill.py) you cut that prompt into chunks, and find out what it
    costs.

    [Back to the course's front page](/?file=index.py&view-as=present)
    """)
    return


if __name__ == "__main__":
    app.run()
