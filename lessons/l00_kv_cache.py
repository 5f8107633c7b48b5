import marimo

__generated_with = "0.25.2"
app = marimo.App(width="medium", app_title="0 · The KV cache and batching")

with app.setup(hide_code=True):
    import marimo as mo

    from course.attempt import attempt
    from course.calling.jobs import call
    from course.engine_loop import engine_loop
    from course.figure import Figure
    from course.lazy import torch
    from course.lesson_data import l00_batching as batching
    from course.lesson_data import l00_kv_cache as caching
    from course.prediction import after, hints, predict
    from course.replay import replay
    from course.task import task
    from nanogpt import Engine, EngineConfig, Request, decode, encode, load_model
    from nanogpt.clock import CostClock
    from widgets import Batching, Timeline

    # This model is too small to gain from a second thread.
    torch.set_num_threads(1)


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    # 0 · The KV cache and batching

    *45 minutes. Builds on nanoGPT: you have seen its attention and its `generate`. You write four
    short functions.*

    Afterwards you can

    - count the tokens that the model computes for a text, with and without a KV cache, and write the
      attention that uses one,
    - explain why a server runs many requests in one step, and why it does not wait for the longest
      of them,
    - read TTFT, ITL and TPOT off a real run, and say how each one feels to a waiting user,
    - estimate how many requests one GPU serves at once, and how many tokens per second it generates.

    ## Why do 200 characters cost more than 200 times one character?

    In our nanoGPT every token is one character. Ask it for one character, and it feeds your prompt
    through the model once. Ask for 200 characters, and you would expect 200 times that work. This is
    the loop that it runs:

    ```python
    for _ in range(max_new_tokens):
        # every token so far, every time:
        logits, _ = model(tokens)
        tokens = append(tokens, sample(logits[-1]))
    ```
    """)
    return


@app.cell(hide_code=True)
def _():
    Figure(
        caching.work_per_token(
            {"without a cache": range(10, 210)}, "200 characters after a prompt of 10 tokens"
        ),
        "How many tokens does the loop compute for each new character?",
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    After a prompt of 10 tokens, the first character costs 10 tokens and the last one 209. Together the
    200 characters cost 21,900 tokens, not 2,000.

    The loop is short, and it generates the right text. In this course it is the
    [*oracle*](/?file=glossary.py&view-as=present): the simple, slow loop whose tokens every faster
    engine must reproduce. Its weakness is the line below the comment.
    """)
    return


@app.cell(hide_code=True)
def _():
    predict(
        "l00.tokens_computed",
        "A prompt of 50 tokens, 20 new tokens. How many tokens go through the model **without** a "
        "cache, and how many **with** a cache, where each token goes through at most once?",
        [
            "1,400 without, 70 with",
            "1,190 without, 69 with",
            "1,190 without, 20 with",
            "70 without, 20 with",
        ],
        1,
        "Without a cache: 50 + 51 + ... + 69 = 1,190, because each step feeds all tokens so far. "
        "With a cache: the first step feeds the 50 tokens of the prompt, and each of the other 19 "
        "steps feeds one new token. That makes 69, not 70, because the last token is sampled but "
        "never fed. (1,400 would be 20 steps of 70 tokens each. The answer 20 with a cache leaves "
        "out the prompt.)",
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## Work per token, with and without a cache

    The course's engine has a KV cache. Below, it generates the 20 new tokens, and the picture counts
    the tokens that each step computed. The counts with a cache come from the engine's trace of this
    run. Those without a cache are calculated: each step computes every token so far.
    """)
    return


@app.cell
def _():
    model = load_model()
    prompt = encode("ROMEO:\nBut soft, what light through yonder window ")  # 50 tokens

    engine = Engine(model, EngineConfig(token_budget=512))
    trace = engine.run([(0, Request(id=0, prompt_tokens=list(prompt), max_new_tokens=20))])
    mo.plain_text(decode(prompt) + decode(trace.generated_tokens(0)))
    return model, prompt, trace


@app.cell(hide_code=True)
def _(prompt, trace):
    after(
        "l00.tokens_computed",
        Figure(
            caching.work_per_token(
                {
                    "without a cache": range(len(prompt), len(prompt) + 20),
                    "with a cache": [step.used_tokens for step in trace.steps],
                },
                "Tokens computed for each generated token",
            ),
            "How does the work per token grow, with and without a cache?",
        ),
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## The loop of a serving engine

    The loop below wrote the text above. One pass through it is one step. `schedule` decides which
    requests compute how many tokens. The marked line runs the model: `execute` feeds those tokens,
    writes their keys and values into the cache, and returns logits. `sample` picks the next tokens,
    and `update` records them. vLLM and SGLang run the same loop. In this lesson you build the
    attention inside the marked line and work out how long the line takes. You need not understand the
    other lines yet: later lessons take them one by one.
    """)
    return


@app.cell(hide_code=True)
def _():
    engine_loop("self.executor.execute(", whole=True)
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## Why keys and values can be cached

    In every layer, each token gets a query, a key and a value. The **key and value** depend only on
    the token, on its position and on the tokens *before* it, because attention is causal. So they do
    not change as long as the text fits into the model's context, and the engine can keep them. That
    is the whole KV cache. (nanoGPT's `generate` crops a longer text to its last tokens. Then every
    token has another position, and all keys and values change. Our engine refuses a request that
    would not fit.)

    The **query** is used only in the step that computes its token, to predict the next one. No later
    step needs it, so there is no Q cache.

    | a step needs | for which tokens | where it comes from |
    |:---|:---|:---|
    | query | the new tokens | computed |
    | key and value | all tokens | computed for new tokens, cached for the others |
    | logits | the last token | computed |

    The first step of a request computes the keys and values of its whole prompt. This step is the
    **prefill**. Each later step computes one token; it is a **decode**.

    A chat sends its whole text again with every message, and sometimes its user has changed a word in
    the middle. The cache still holds the K and V of the text as it was. Which tokens does the model
    have to compute now? Write the rule that decides it.
    """)
    return


@app.cell(hide_code=True)
def _():
    task("l00.next_inputs")
    return


@app.function
def next_inputs(tokens: list[int], cached: list[int]) -> list[int]:
    """Return the tokens to feed to the model in this step."""
    raise NotImplementedError("Exercise 0.1: which tokens does the model have to compute?")


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
    When you run one of your cells with Ctrl+Enter (Cmd+Enter on a Mac), its check runs by itself.

    Next comes the attention that reads the cache, for one head and one new token. The check compares
    its result with attention over the whole text, computed without a cache.
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

    Your two functions are enough to run the real model. The loop below calls `next_inputs` for the
    tokens to feed, and every head of every layer attends with `cached_attention`. It feeds a prompt
    one token at a time, because your attention takes one token; in lesson 1 it will take a chunk.
    Then the user changes the prompt's last word and sends it again, to the same cache.
    """)
    return


@app.cell
def _():
    texts_of_the_user = (
        "ROMEO:\nBut soft, what light through yonder window ",
        "ROMEO:\nBut soft, what light through yonder garden ",
    )

    def generate_with_cache(model, cache, prompt, max_new_tokens, next_inputs):
        """The new tokens after `prompt`, greedily; their logits (N, V); how many tokens were fed."""
        tokens, all_logits, num_fed = list(prompt), [], 0
        while len(tokens) < len(prompt) + max_new_tokens:
            inputs = next_inputs(tokens, list(cache.tokens))
            cache.truncate(len(tokens) - len(inputs))  # drops the K/V of another text
            for token in inputs:
                logits = cache.feed(model, token)  # (V,)
            num_fed += len(inputs)
            all_logits.append(logits)
            tokens.append(int(logits.argmax()))
        return tokens[len(prompt) :], torch.stack(all_logits), num_fed

    return generate_with_cache, texts_of_the_user


@app.cell(hide_code=True)
def _(
    cached_attention_attempt,
    generate_with_cache,
    next_inputs_attempt,
    texts_of_the_user,
):
    _attempts = (next_inputs_attempt, cached_attention_attempt)
    if all(each.report.status == "passed" for each in _attempts):
        _functions = (each.function for each in _attempts)
        _text = caching.your_text(generate_with_cache, texts_of_the_user, *_functions)
    else:
        _text = caching.reference_text(texts_of_the_user)
    mo.md(_text)
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## How much time does the cache save?

    The loop without a cache and the engine now each write 200 characters on your machine. This timing
    uses the engine, because your attention copies its whole cache at every step. The engine writes into
    memory that it reserved at the start.
    """)
    return


@app.cell(hide_code=True)
def _(model, prompt):
    uncached_us, cached_us = caching.timed_both_ways(model, prompt, 200)
    after("l00.tokens_computed", mo.md(caching.time_table(len(prompt), uncached_us, cached_us)))
    return


@app.cell(hide_code=True)
def _():
    after("l00.tokens_computed", mo.md(r"""
    Without a cache, the 200 characters compute 598 times as many tokens as the first one. With a
    cache they compute 249 tokens, five times the prompt's 50. But look at the last column: with the
    cache the model computed 120 times fewer tokens, and the run was not 120 times faster. A decode
    computes *one* token, yet it takes a good part of the time of a step that computes fifty. Where
    does that time go?
    """))
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## What a step costs

    Modelled times in this course follow one formula:

    > cost of a step = max(weight read, arithmetic) + K/V read + overhead

    - **Weight read.** A step reads *all* weights from memory once, whether it computes one token or a
      hundred.
    - **Arithmetic.** It grows with the number of tokens in the step. It overlaps with the weight
      read, so only the longer of the two counts.
    - **K/V read.** Attention reads the cached K/V of each request's context.
    - **Overhead.** Python, scheduling and the launch of many small operations, once per step.

    Most of them come from two presets (`nanogpt/clock.py`). The page `docs/costs.md` lists every cost
    model of the course, what it stands for and what it assumes.

    | modelled | weight read | arithmetic per token | K/V read per token of context | overhead |
    |:---|---:|---:|---:|---:|
    | our model on a server CPU, fitted to measured steps | 0 | 29.4 µs | 0.09 µs | 0.46 ms |
    | an 8-billion-parameter model on a large GPU | 4.8 ms | 32 µs | 0.04 µs | 0.5 ms |

    The fit for the CPU has no weight read of its own: the time to read our model's 3.3 MiB is part of
    the overhead. The GPU's 32 µs assume that its kernels achieve 500 TFLOP/s, about half of an H100's
    peak.

    On the GPU, the arithmetic of 150 tokens takes as long as the weight read. This point is the
    **knee**. Small batches of decodes lie to its left: they are **memory-bound**, and another decode
    adds little more than the read of its own K/V. The prefill of a long prompt lies to its right: it
    is **compute-bound**, and its time grows with its tokens. The CPU has no knee: another token always
    costs its arithmetic.

    The lines below leave the K/V read out. The dots are steps of our model that were timed once on a CPU.
    """)
    return


@app.cell(hide_code=True)
def _():
    Figure(batching.step_costs(), "What does the second token of a step cost? And the tenth?")
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    The same in numbers, without the K/V reads of the contexts:

    | decodes in the step | our model on a CPU, modelled | tokens per second | a large GPU, modelled | tokens per second |
    |---:|---:|---:|---:|---:|
    | 1 | 0.5 ms | 2,027 | 5.3 ms | 189 |
    | 8 | 0.7 ms | 11,442 | 5.3 ms | 1,509 |
    | 32 | 1.4 ms | 22,779 | 5.3 ms | 6,038 |
    | 128 | 4.2 ms | 30,280 | 5.3 ms | 24,151 |
    | 256 | 8.0 ms | 32,038 | 8.7 ms | 29,452 |

    So a step with a single decode spends nearly all of its time on costs that other requests could
    share: on the GPU the weight read, on the CPU the overhead. The remedy is to let other requests
    into the step: **one step computes one token for each of them.** This is batching, and most of a
    serving engine's throughput comes from it. Its price is K/V. The K/V of every request in the batch
    has to be in memory, and each step reads it: 256 contexts of 1,200 tokens add 12.3 ms to the GPU's
    step, modelled.

    ## Which request waits for which?

    Say there are three **slots**, so three requests can share a step, and six requests wait from the
    beginning:

    | request | 0 | 1 | 2 | 3 | 4 | 5 |
    |---|---|---|---|---|---|---|
    | tokens to generate | 9 | 3 | 3 | 2 | 6 | 4 |

    **Static batching** starts three requests, runs them until the longest is done, then starts the
    next three. **Continuous batching** refills a slot in the step after it becomes free.
    """)
    return


@app.cell(hide_code=True)
def _():
    predict(
        "l00.last_request",
        "Six requests of 9, 3, 3, 2, 6 and 4 tokens, three slots. After how many steps is the "
        "**last** request done, with static and with continuous batching?",
        [
            "static 27, continuous 9",
            "static 15, continuous 11",
            "static 15, continuous 9",
            "static 12, continuous 9",
        ],
        2,
        "Static: the first batch lasts as long as its longest request, 9 steps, and the second "
        "batch 6, together 15. Continuous: while request 0 runs for 9 steps, the other five fit "
        "into the two slots beside it. No schedule is faster, because 27 tokens in three slots need "
        "at least 9 steps. (27 steps would be one request at a time.)",
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    Write one function that says, for both kinds of batching, when each request is done.
    """)
    return


@app.cell(hide_code=True)
def _():
    task("l00.finish_steps")
    return


@app.function
def finish_steps(lengths: list[int], slots: int, continuous: bool) -> list[int]:
    """Return, for each request, the number of steps after which it is done."""
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
    The real engine can batch both ways; the only difference is when it receives the requests.
    """)
    return


@app.cell(hide_code=True)
def _(finish_steps_attempt, model):
    _kinds = (("Static batching", False), ("Continuous batching", True))
    _engine = [batching.engine_finish_steps(model, kind) for _, kind in _kinds]
    _drawn, _whose = _engine, "the real engine's steps"
    batching_note = "The picture shows the real engine's steps. Once you have written `finish_steps`, it shows your steps."
    if finish_steps_attempt.started:
        _asked = batching.WAITING, batching.SLOTS
        _yours = [call(finish_steps_attempt.function, (*_asked, kind)).value for _, kind in _kinds]
        try:
            for _answer in _yours:
                batching.batching_side("yours", _answer)
            _drawn, _whose = _yours, "your finish_steps"
            _agree = (
                "agrees: it finishes all six requests after the same steps"
                if [list(each) for each in _yours] == _engine
                else f"finishes them after different steps: {_engine[0]} static and {_engine[1]} continuous"
            )
            batching_note = f"The picture is drawn from **your** `finish_steps`. The real engine, given the same requests, {_agree}."
        except (ValueError, TypeError) as _problem:
            batching_note = f"Your `finish_steps` could not be drawn: {_problem}. The picture shows the real engine's steps."
    after(
        "l00.last_request",
        Batching(
            *(batching.batching_side(kind[0], done) for kind, done in zip(_kinds, _drawn, strict=True)),
            title=f"Six requests in three slots: {_whose}",
            question="Which requests finish earlier with continuous batching?",
        ),
    )
    return (batching_note,)


@app.cell(hide_code=True)
def _(batching_note):
    after("l00.last_request", mo.md(batching_note))
    return


@app.cell(hide_code=True)
def _():
    after("l00.last_request", mo.md(r"""
    Both sides compute the same 27 tokens. In the 15 steps of static batching, 18 of the 45 places
    (15 steps × 3 slots) stay empty. Continuous batching needs 9 steps, and no place stays empty.
    Request 3 generates two tokens: it finishes after 11 steps with static batching and after 5 with
    continuous batching. A short request behind a long one gains most.

    These lengths were chosen to fit well, and with equal lengths both sides are the same. In
    practice lengths differ, and no engine knows them in advance: a text ends when the model
    generates its end token.
    """))
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## Latency as the user sees it

    A user who reads an answer on a screen does not notice throughput. Three numbers describe what
    that user sees instead:

    - **TTFT**, time to first token: from the arrival of the request to its first token.
    - **ITL**, inter-token latency: the gap between two tokens of the same request. Each gap is one
      ITL sample.
    - **TPOT**, time per output token: the mean of a request's gaps.

    The real engine now serves four requests with continuous batching. Request 3 arrives last, while
    requests 0, 1 and 2 are generating, and has by far the longest prompt: 354 tokens against 15 to 28.
    Its prefill is one step.
    """)
    return


@app.cell(hide_code=True)
def _():
    predict(
        "l00.whose_gaps",
        "Request 3 arrives with its long prompt. In which requests' gaps will that show?",
        [
            "In its own: its first gap is the longest",
            "In those of requests 0, 1 and 2: each has one long gap",
            "In no gap: only request 3's first token comes late",
            "In all gaps from then on, a little in each",
        ],
        1,
        "Every request in a step waits until the step is over. The step with the long prompt takes "
        "about twenty times as long as the others, and requests 0, 1 and 2 get their next token "
        "only at its end. Request 3 pays in its TTFT: it has no gap before its first token.",
    )
    return


@app.cell
def _(model):
    served = replay(
        Engine(model, EngineConfig(token_budget=512), clock=CostClock()), batching.four_requests()
    )
    return (served,)


@app.cell(hide_code=True)
def _(served):
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
def _(served):
    after("l00.whose_gaps", mo.md(f"""
    {batching.latency_table(served)}

    *Times modelled by the preset of {served.clock.name}, the same wherever you run this.*

    Step 9 computed 357 tokens, of which 354 are request 3's prompt. Requests 0, 1 and 2 each got one token from
    it and waited 11.0 ms for a step that otherwise takes 0.6 ms. TPOT is a mean, so it spreads the long gap over
    all gaps of the request and only tells you that something was slow. The largest gap tells you that the text
    stood still, which is what the user remembers.
    """))
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## What the cache costs in memory

    Every token of every running request has keys and values in every layer:

    > KV bytes per token = 2 (K and V) × layers × KV heads × head size × bytes per number

    | model | product | KV bytes per token | a full context |
    |:---|:---|---:|---:|
    | ours, float32 | 2 × 4 × (4 × 32) × 4 | 4,096 | 512 tokens: 2 MiB |
    | OPT-13B, 16 bit | 2 × 40 × (40 × 128) × 2 | 819,200 | 2,048 tokens: 1.6 GiB |
    | Llama-3-8B, 16 bit | 2 × 32 × (8 × 128) × 2 | 131,072 | 8,192 tokens: 1 GiB |
    | DeepSeek-V3, 16 bit | 61 × (512 + 64) × 2 | 70,272 | 131,072 tokens: 8.6 GiB |

    *Arithmetic on published sizes.* Our whole model weighs 3.3 MiB; two requests with a full context
    hold 4 MiB. The number of KV heads matters most:

    - **MHA**, multi-head attention (ours, OPT): each query head has its own K and V.
    - **GQA**, grouped-query attention (Llama 3): four query heads share one KV head. Llama-3-8B has 32
      query heads, so with MHA it would need 524,288 bytes per token.
    - **MLA**, multi-head latent attention (DeepSeek): all heads compute their K and V from one cached
      vector per token and layer, of 512 + 64 numbers.

    /// details | GQA in two configuration files

    | `config.json` | layers | query heads | KV heads | head size | KV bytes per token | weights, 16 bit |
    |:---|---:|---:|---:|---:|---:|---:|
    | Llama-3.1-8B (July 2024) | 32 | 32 | 8 | 128 | 131,072 | 16.06 GB |
    | Qwen3-0.6B (April 2025) | 28 | 16 | 8 | 128 | 114,688 | 1.19 GB |

    With GQA a group of query heads, here four or two, attends to the K and V of one KV head. The bytes to keep
    and to read shrink by this factor. The arithmetic of attention does not: each query head still computes
    scores of its own. A small model saves weights, and hardly any K/V: Qwen3-0.6B has 7 % of Llama's weights
    and 87 % of its K/V per token. The engine serves both (`nanogpt/llama.py`).
    ///

    ## How many requests does one GPU serve?

    Two limits set the size of the batch. **Memory:** the weights take their part, and the K/V of all
    requests has to fit into the rest. **The ITL limit:** each further request adds bytes to read and
    arithmetic to do, so the step takes longer for everyone. Work out which limit comes first. (This
    estimate has a formula of its own, more optimistic than the presets: the K/V read overlaps with the
    arithmetic too. Overhead, the memory for activations, and models that need several GPUs are left out.)
    """)
    return


@app.cell(hide_code=True)
def _():
    task("l00.capacity")
    return


@app.function
def capacity(
    gpu_bytes: int,
    weight_bytes: int,
    kv_bytes_per_token: int,
    bytes_per_us: int,
    token_us: int,
    prompt_len: int,
    output_len: int,
    itl_limit_us: int,
) -> tuple[int, int, float]:
    """Return `(kv_tokens, batch_size, tokens_per_s)` of one GPU that only decodes."""
    raise NotImplementedError("Exercise 0.4: which limit comes first?")


@app.cell(hide_code=True)
def _():
    capacity_attempt = attempt("l00.capacity", lambda: capacity)
    capacity_attempt
    return


@app.cell(hide_code=True)
def _():
    hints("l00.capacity")
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    Here is `capacity` for Llama-3.1-8B and Qwen3-0.6B on a GPU with 80 GB and 3.35 TB/s, with prompts of
    1,000 tokens and outputs of 200. A token takes 32 µs of Llama's arithmetic, and 2 µs of Qwen's.

    | KV bytes per token | ITL limit | KV tokens | batch | tokens per second | the batch is limited by |
    |---:|---:|---:|---:|---:|:---|
    | 524,288 (Llama with MHA) | 50 ms | 121,954 | 101 | 4,250 | memory |
    | 131,072 (Llama, GQA) | 50 ms | 487,819 | 406 | 17,019 | memory |
    | 131,072 (Llama, GQA) | 15 ms | 487,819 | 217 | 14,483 | the ITL limit |
    | 70,272 (Llama, as with MLA) | 50 ms | 909,885 | 758 | 31,250 | memory |
    | 114,688 (Qwen, GQA) | 50 ms | 687,150 | 572 | 23,978 | memory |

    GQA quadruples the batch and with it the throughput. With the K/V of MLA, arithmetic takes longer than
    reading, so the decodes have become compute-bound. Qwen has a thirteenth of the weights, but only 1.4
    times as many requests fit. Prefills are left out: each prompt takes 32 ms of Llama's arithmetic.

    ## What the cache and batching do not solve

    - **Every decode reads all K/V of its request.** It computes one token, but its query attends to
      every key of the context. Tokens still get slower as the text grows, only much more gradually.
    - **Memory fills up.** Every running request needs more K/V at each step. In lesson 2 you decide
      which request has to give way.
    - **A long prefill delays every request in its step.** Continuous batching starts a long prompt
      while other requests are decoding; static batching does not. In lesson 1 you cut long prompts
      into chunks.

    /// details | Bug or rounding? An open question about a KV cache for nanoGPT

    In June 2025 nanoGPT was offered a KV cache (pull request #613). Its author reported that with the
    same seed the outputs are coherent, but *not exactly the same* as without the cache, and asked
    whether that is a bug. When we last looked, the pull request and the question were open.

    Comparing texts or losses cannot answer it: one flipped character changes the rest of the text, and
    a mean hides a small bug. **Compare the logits in float32 and again in float64.** Rounding
    errors shrink at higher precision; a bug stays. We ran the engine's cache, and a cache with a
    classic bug: its decodes are placed one position too far to the right.

    | largest difference of any logit from the oracle's | bfloat16 | float32 | float64 |
    |:---|---:|---:|---:|
    | the engine's cache | 0.1 | 0.00005 | 0.00000000000004 |
    | positions off by one | 0.9 | 0.5 | 0.5 |

    The text of the broken cache still reads well: "what light through yonder window the state, And
    therefore the sentence of". A correct cache in float32 promises *close* logits, not the
    same text. Our tests compare token for token in float64, where rounding almost never swaps two
    nearly equal logits. In 16 bits, the default of nanoGPT's `sample.py`, rounding can change a text.
    The same question came to Hugging Face transformers (issue #25420), and a maintainer answered that a
    cache changes the logits of most models: by a negligible amount in float32, and by a noticeable one
    in 16 bits.
    ///

    ## What you now know

    - Without a cache, every step computes all tokens so far, so the work grows with the square of
      the length. With a cache each token is computed once, because its key and value do not change.
    - A step costs max(weight read, arithmetic) + K/V read + overhead, modelled. Long prefills are
      compute-bound, small batches of decodes memory-bound.
    - Therefore requests share steps, and a finished request gives its slot to the next one at once.
    - TTFT and the largest ITL show the waits that a user notices. TPOT, a mean, hides a stall.
    - KV bytes per token, memory and the ITL limit set the batch and the tokens per second.

    ## The same in vLLM and SGLang

    | here | vLLM | SGLang |
    |:---|:---|:---|
    | `Engine.step` | `EngineCore.step`, `vllm/v1/engine/core.py` | `Scheduler.event_loop_normal`, `srt/managers/scheduler.py` |
    | slots, `max_batch_size` | `--max-num-seqs` (1,024 on GPUs of 70 GiB or more except the A100, else 256) | `--max-running-requests` |
    | memory for K/V | `--gpu-memory-utilization` 0.92, minus weights and activations, measured at start-up | `--mem-fraction-static` |
    | TTFT, ITL | `vllm:time_to_first_token_seconds`, `vllm:inter_token_latency_seconds` | `sglang:time_to_first_token_seconds`, `sglang:inter_token_latency_seconds` |

    **How the control flow differs.** Our `step` returns when its tokens are recorded, and the next step
    begins after that. vLLM and SGLang plan the next step while the GPU runs this one, so their schedulers
    plan with tokens that are not sampled yet. vLLM has one loop for prefills and decodes, as here. In
    SGLang a step is a prefill *or* a decode, unless `--enable-mixed-chunk` is set.

    - At start-up vLLM logs "GPU KV cache size: … tokens" and SGLang `max_total_num_tokens`, the first
      number of your `capacity`.
    - llama.cpp's server keeps a slot's K/V between two requests and reuses the common beginning of their
      texts: your `next_inputs`. It computes the last token again even when all tokens are cached.
    - **Orca** (Yu et al., OSDI 2022) introduced continuous batching as *iteration-level scheduling*.
      Its *selective batching* puts all tokens of a step into one flat row and separates the requests
      only in attention, as `nanogpt/executors/packed.py` does.
    - **PagedAttention** (Kwon et al., SOSP 2023, Figure 2): when a full context was reserved per
      request, only 20 % of KV memory held tokens. Even with the length of every answer known in
      advance, it was 38 %. Lesson 7 will build its blocks.

    *Checked against vLLM 0.33.0 and SGLang 0.5.23, November 2026.*

    ## What comes next

    One long prompt makes every other request wait. In
    [lesson 1](/?file=l01_chunked_prefill.py) you cut that prompt into chunks and find out what
    chunking costs.

    [Back to the course's front page](/?file=index.py&view-as=present)
    """)
    return


if __name__ == "__main__":
    app.run()
