import marimo

__generated_with = "0.25.2"
app = marimo.App(width="medium", app_title="3 · Interleaving")

with app.setup(hide_code=True):
    import marimo as mo

    from course.attempt import attempt, with_attempts
    from course.calling.jobs import call
    from course.engine_loop import engine_loop
    from course.lazy import torch
    from course.lesson_data import l03_batch as step
    from course.lesson_data import l03_exhibits as exhibits
    from course.lesson_data.texts import served
    from course.prediction import after, hints, predict
    from course.replay import replays
    from course.saved_answers import load_policies
    from course.task import task
    from nanogpt import Engine, EngineConfig, Policies, load_model
    from widgets import BatchView, MaskBuild, Timeline


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    # 3 · Interleaving

    *50 minutes. Builds on lesson 1 (chunks, masks, the token budget) and on lesson 2 (the
    queue). You write three functions.*

    Afterwards you can

    - compute decodes and chunks in one forward, padded and masked so that no token sees padding,
    - split the new K/V back out to its requests,
    - recognise three defects that make a text depend on its neighbours in the batch.

    **The padded batch is the teaching form.** This lesson makes each request a row of one padded tensor,
    as textbooks do, because there you can see every mask and every slice. Production engines *pack*:
    they put all tokens of a step into one flat row without padding. Lesson 3b does that.

    ## What do two forwards per step cost?

    In the engine of the scheduling post (lesson 2) a step called the model twice: once for the chunk of
    a prompt and once for the decodes. Their tensors have different shapes, (1, 8) and (3, 1), so two
    calls were the easy way.

    Here is such a step. Three requests decode: A knows 22 tokens, B 15 and C 9. A fourth request, D,
    computes the first 8 tokens of its prompt. The times are modelled by lesson 0's two presets,
    `LARGE_GPU` and `SERVER_CPU` (`docs/costs.md`), with every token charged as one.

    | machine | 3 decodes | a chunk of 8 | **two forwards** |
    |:--|--:|--:|--:|
    | a large GPU (modelled) | 5.30 ms | 5.30 ms | 10.60 ms |
    | a server CPU (modelled) | 0.55 ms | 0.70 ms | 1.25 ms |

    On the GPU both forwards cost the same, for 3 tokens and for 8: the time goes into reading 16 GB of
    weights, and they are read twice. On the CPU the fixed cost of a forward is paid twice.

    The model does not care which request a row belongs to; it computes a tensor (B, T). So: **one tensor
    for all rows, one forward per step.** But a tensor is a rectangle. D's row has 8 tokens, so every row
    gets 8 columns, and the empty cells are filled with padding.
    """)
    return


@app.cell(hide_code=True)
def _():
    predict(
        "l03.fused_cost",
        "Three decodes and a chunk of 8 are fused into one padded tensor. How many tokens does the model "
        "compute, and is the step faster than the two forwards were?",
        (
            "11 tokens, and faster on both machines",
            "32 tokens, and faster on both: one call is one call",
            "32 tokens, faster on the GPU and slower on the CPU",
            "32 tokens, and slower on both",
        ),
        2,
        "Four rows of 8 are **32 tokens for 11 useful ones**. The token budget counts 11; the hardware "
        "computes 32. On the large GPU (modelled) the step takes 5.30 ms instead of 10.60 ms: 21 tokens of "
        "padding cost nothing while the GPU still reads weights. On the server CPU (modelled) it takes "
        "1.41 ms instead of 1.25 ms, because every padding token costs time. (Real chunks have hundreds of "
        "tokens, not 8. Lesson 3b compares those.)",
    )
    return


@app.cell(hide_code=True)
def _():
    after(
        "l03.fused_cost",
        BatchView(
            step.batch_rows(),
            **step.batch(),
            num_scheduled_tokens=step.NUM_SCHEDULED,
            title="One tensor for all rows: token above, position below",
            question="Which request does each cell belong to, and what is its token's position?",
        ),
    )
    return


@app.cell(hide_code=True)
def _():
    after("l03.fused_cost", mo.md(r"""
    Point at a cell, or move with the arrow keys. Two things to notice:

    - **The padding is on the left.** So every row's last real token is in the last column, and the logits
      to sample from are `logits[:, -1]` for decodes and chunks alike.
    - **A decode is a chunk of one token.** A's newest token is its 22nd, so its position is 21. As in
      lesson 1, a row holds the tokens that follow the computed ones, at their positions in the text.
    """))
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## The step calls the executor once

    The marked line hands the planned rows to the executor, which computes their logits and writes their
    K/V. In this lesson you build a padded executor: `prepare_inputs`, `full_mask` and `split_kv`.
    """)
    return


@app.cell(hide_code=True)
def _():
    engine_loop("self.executor.execute(")
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## Build it

    ### The input: tokens and positions
    """)
    return


@app.cell(hide_code=True)
def _():
    task("l03.prepare_inputs")
    return


@app.function
def prepare_inputs(
    token_ids: list[list[int]], num_computed_tokens: list[int], num_scheduled_tokens: list[int]
) -> tuple[list[list[int]], list[list[int]]]:
    """Return `(tokens, positions)`: what the model is fed in one fused step, a row per request."""
    raise NotImplementedError("Exercise 3.1: tokens and positions, a row for each request")


@app.cell(hide_code=True)
def _():
    rows_attempt = attempt("l03.prepare_inputs", lambda: prepare_inputs)
    rows_attempt
    return (rows_attempt,)


@app.cell(hide_code=True)
def _():
    hints("l03.prepare_inputs")
    return


@app.cell(hide_code=True)
def _(rows_attempt):
    def _drawn():
        if not rows_attempt.started:
            return mo.md("Once you have written `prepare_inputs`, your batch is drawn here.")
        try:
            asked = step.TOKEN_IDS, step.NUM_COMPUTED, step.NUM_SCHEDULED
            return BatchView(
                step.batch_rows(),
                **step.batch(call(rows_attempt.function, asked).value or ()),
                num_scheduled_tokens=step.NUM_SCHEDULED,
                reference=step.batch(),
                title="Your batch",
                question="Does any cell differ from the reference?",
            )
        except (TypeError, ValueError, IndexError, KeyError):
            return mo.md(
                "The result of `prepare_inputs` for this step cannot be drawn; its check says why."
            )

    _drawn()
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ### The past: one padded tensor of cached keys

    Each request has its own past in the cache, and the pasts differ in length. They are padded on the
    left too, to the longest. For each layer the new keys and values are appended on the right:

    ```python
    def with_past(cached, new):                    # the keys, or the values, of one layer
        S = max(context_lens)
        past = torch.zeros(B, S, H, D)
        for i, length in enumerate(context_lens):
            past[i, S - length :] = cached[i]      # at the right end of its row
        return torch.cat([past, new], dim=1)       # (B, S + T, H, D)
    ```

    So the keys of a row have two parts, S columns of past and T new columns, and each part has padding
    in front:

    ```text
               past, S columns       new, T columns
    row A      [ . . k k ]           [ . . q ]
    row B      [ k k k k ]           [ q q q ]
    ```

    ### The mask: which keys may each token attend to?

    This lesson grew from a post on interleaving by the author of
    [czhou578/nanoGPT-inference](https://github.com/czhou578/nanoGPT-inference). The post builds the mask
    in four steps and then hides the padding. Its example has a past of 4 columns, chunks of 3 tokens and
    two rows: A has 2 tokens in the cache, B has 4.
    """)
    return


@app.cell(hide_code=True)
def _():
    MaskBuild(
        step.posts_example(),
        title="The post's example: two chunks of 3 tokens",
        question="What does each step hide that the step before it showed?",
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    Before you write a mask: how bad is visible padding? Start with the padding of the past, which is
    zeros, keys and values alike.
    """)
    return


@app.cell(hide_code=True)
def _():
    predict(
        "l03.harmless",
        "Suppose the mask does not hide the padding of the **past**: keys and values of zero are visible. "
        "What happens to the attention of a real token?",
        (
            "Nothing: a key of zeros gets a score of 0, and a value of zeros adds nothing",
            "It is diluted: a score of 0 weighs e⁰ = 1 in the softmax, like a real key with a score of 0",
            "It breaks down: the softmax divides by zero",
        ),
        1,
        "A score of 0 is not a weight of 0. The softmax gives e⁰ = 1 to every column of padding, so "
        "the real keys get less. Only a score of minus infinity weighs nothing. Measured on the trained "
        "model: 60 prompts of 9 to 24 letters are prefilled and then decoded in one batch with the padding "
        "of the past visible, and **29 of 60 greedy letters change**.",
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ### Exhibit A: why does a text depend on another request's length?

    The engine now runs with the post's code for the mask. Each line of the table is one run. Romeo's
    request decodes greedily, with the same weights and the same prompt. At step 3 another request
    arrives, whose prompt has nothing to do with Romeo's. Only the length of that prompt changes. Decide
    what is wrong before you open the answer.
    """)
    return


@app.cell(hide_code=True)
def _():
    exact = load_model().double()  # in float64 rounding can flip no token
    mo.md(exhibits.neighbour_table(exact))
    return (exact,)


@app.cell(hide_code=True)
def _():
    predict(
        "l03.exhibit_a",
        "A neighbour's prompt of one letter is harmless. With a longer one Romeo's text changes. **What is "
        "broken?**",
        (
            "Romeo's row attends to the neighbour's tokens",
            "Romeo's row attends to its own padding, whose length depends on the neighbour's chunk",
            "The positions of Romeo's row shift with the length of the chunk",
            "Rounding: a wider tensor sums in another order",
        ),
        1,
        "Rows of a batch do not mix, so the neighbour's **letters** cannot reach Romeo. Its **length** can: "
        "it decides how much padding is to the left of Romeo's newest letter, and the post's mask hides "
        "only the padding of the past. A chunk of n tokens adds n - 1 columns of padding among the new "
        "ones, so a chunk of 1 adds none. The newest letter attends to them, and its K/V stays in the "
        "cache, so every later letter is affected too.",
    )
    return


@app.cell(hide_code=True)
def _():
    after(
        "l03.exhibit_a",
        MaskBuild(
            exhibits.padding_in_sight_steps(),
            title="The post's example, with a decode in row A",
            names=("exhibit A", "the reference"),
            question="Which padding is visible?",
        ),
    )
    return


@app.cell(hide_code=True)
def _():
    after("l03.exhibit_a", mo.md(r"""
    The post's example is right because both rows have three new tokens. A decode in row A brings padding
    *among the new columns*, and that padding is computed: it is token 0, a line break, at position 0,
    with a real key and a real value. Measured on 60 decodes beside one chunk:

    | length of the chunk beside them | 1 | 2 | 8 | 32 |
    |:--|--:|--:|--:|--:|
    | greedy letters that change, of 60 | 0 | 38 | 48 | 51 |

    The post says that *no query ever attends to a padding token*, and draws an example in which that is
    true. It also says that padded query positions *generate garbage that we ignore*. As queries they are
    ignored. But they are keys, too.

    This is the defect to remember: nothing crashes, the text is fluent, and it depends on the other
    requests in the batch. The test that finds this defect is one line: *a request gets the same text,
    whatever else is in the batch*.
    """))
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ### The mask that hides all padding

    The mask of the new columns joins two rules: a token sees itself and the new tokens before it, and no
    token sees padding.

    One case needs thought. A padding query of a row *without a past* could see only padding, and padding
    is hidden. The softmax of a query that sees nothing is NaN, and the next layer spreads the NaN to real
    tokens. So let every padding query see at least one key.
    """)
    return


@app.cell(hide_code=True)
def _():
    task("l03.full_mask")
    return


@app.function
def full_mask(context_lens: list[int], num_scheduled_tokens: list[int]) -> torch.Tensor:
    """Return which keys each token of a fused step may attend to: bool (B, T, S + T)."""
    raise NotImplementedError("Exercise 3.2: the past and the new columns of every row")


@app.cell(hide_code=True)
def _():
    mask_attempt = attempt("l03.full_mask", lambda: full_mask)
    mask_attempt
    return (mask_attempt,)


@app.cell(hide_code=True)
def _():
    hints("l03.full_mask")
    return


@app.cell(hide_code=True)
def _(mask_attempt):
    _found = step.full_mask_steps(mask_attempt)
    mo.md(_found) if isinstance(_found, str) else MaskBuild(
        _found,
        title="full_mask([4, 2, 0], [1, 3, 2]): a decode, a chunk, a first chunk",
        yours=True,
        question="Which cells differ from the reference?",
    )
    return


@app.cell(hide_code=True)
def _():
    after("l03.exhibit_a", mo.md(r"""
    /// details | Exhibit C: the row that turns into NaN

    Exhibit A has been fixed in the obvious way: the mask hides all padding from every query. Now two
    prompts are computed in one step, each in one chunk, one of 3 tokens and one of 5. Are the logits
    of each row numbers?

    | model | row of 3 tokens | row of 5 | two rows of 5 |
    |:--|:--|:--|:--|
    | 1 layer, random weights | numbers | numbers | numbers |
    | 2 layers, random weights | **NaN** | numbers | numbers |
    | the trained model, 4 layers | **NaN** | numbers | numbers |

    The short row has two columns of padding and no past. Its padding queries see nothing: all scores are
    minus infinity, and their softmax is 0/0. In the first layer only their own outputs are NaN, and no
    other token reads them. But the second layer computes keys and values from these outputs. The mask
    gives those keys a weight of 0, and 0 · NaN is NaN. So a padding query has to see some key; the
    simplest choice is its own.

    No error points to the defect: `argmax` of NaNs is a valid index, so greedy decoding goes on. And the
    result depends on the kernel. Since version 2.5 PyTorch's `scaled_dot_product_attention` returns 0 for such a
    row on a CPU ([pytorch #103749](https://github.com/pytorch/pytorch/issues/103749)); on Apple's MPS it
    can still return NaN ([#167515](https://github.com/pytorch/pytorch/issues/167515)). A mask in which
    every query sees at least one key is safe with every kernel.

    ///
    """))
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ### Splitting the K/V back out

    After the forward there is one tensor of keys, (B, S + T, D), past and new together. Here D is the
    size of a key, all heads together; your slices work for separate heads, (B, S + T, H, D), too. The cache
    needs each request's own keys. Each row has padding in **two** places, so no single slice is enough.
    """)
    return


@app.cell(hide_code=True)
def _():
    task("l03.split_kv")
    return


@app.function
def split_kv(
    k: torch.Tensor, context_lens: list[int], num_scheduled_tokens: list[int]
) -> list[torch.Tensor]:
    """Return each request's own keys, cut out of a padded tensor: B tensors (past + new, D)."""
    raise NotImplementedError("Exercise 3.3: the keys of each request, without padding")


@app.cell(hide_code=True)
def _():
    split_attempt = attempt("l03.split_kv", lambda: split_kv)
    split_attempt
    return (split_attempt,)


@app.cell(hide_code=True)
def _():
    hints("l03.split_kv")
    return


@app.cell(hide_code=True)
def _(split_attempt):
    mo.md(step.cut_letters(split_attempt))  # letters stand for keys
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ### The fused step

    Here is the whole step, with its attention written out. Decodes and chunks take the same path; only the
    mask tells them apart. Every computed token is in the cache, so `context_lens` equals
    `num_computed_tokens`. The forward computes logits for the last column of every row, but a row gets a
    token only if its next token is not known: a decode, or the last chunk of a text. Lesson 1's `sample`
    was the same rule for one request.

    ```python
    tokens, positions = prepare_inputs(token_ids, num_computed_tokens, num_scheduled_tokens)
    mask = full_mask(context_lens, num_scheduled_tokens).unsqueeze(1)         # (B, 1, T, S + T)

    def attend(layer, q, k, v):
        k, v = with_past(cached_k[layer], k), with_past(cached_v[layer], v)   # (B, S + T, H, D)
        cached_k[layer] = split_kv(k, context_lens, num_scheduled_tokens)
        cached_v[layer] = split_kv(v, context_lens, num_scheduled_tokens)
        scores = einsum("bqhd,bkhd->bhqk", q, k) / D ** 0.5
        weights = scores.masked_fill(~mask, -inf).softmax(dim=-1)
        return einsum("bhqk,bkhd->bqhd", weights, v)                          # (B, T, H, D)

    logits = model.logits(model.hidden(tokens, positions, attend)[:, -1])     # (B, V)
    rows = [i for i in range(B) if num_computed_tokens[i] + num_scheduled_tokens[i] == num_tokens[i]]
    sampled = [sample(logits[row]) for row in rows]
    ```

    ## Your executor, on real Shakespeare

    Six requests arrive at different steps, with a token budget of 32. `executor="fused"` makes the engine
    call the model once per step, on a left-padded tensor. `prepare_inputs` and `full_mask` build the
    model's inputs, and `split_kv` splits the new K/V. As soon as you have written a function, the engine
    uses it, even if its check fails. A call that takes too long is stopped.
    """)
    return


@app.cell
def _(exact):
    stage = EngineConfig(token_budget=32, executor="fused", temperature=0.8, seed=1)
    reference_trace = Engine(exact, stage, Policies()).run(step.six_requests())
    return reference_trace, stage


@app.cell(hide_code=True)
def _(exact, mask_attempt, rows_attempt, split_attempt, stage):
    earlier = load_policies("l03_interleaving")  # what you wrote in earlier lessons and passed
    attempts = {
        "prepare_inputs": rows_attempt,
        "full_mask": mask_attempt,
        "split_kv": split_attempt,
    }
    _run_with = replays(lambda policies: Engine(exact, stage, policies), step.six_requests, 300)
    your_trace = _run_with(with_attempts(earlier.policies, attempts))
    return attempts, earlier, your_trace


@app.cell(hide_code=True)
def _(attempts, reference_trace, your_trace):
    _started = any(each.started for each in attempts.values())
    Timeline(
        your_trace.to_json(),
        reference_trace.to_json(),
        yours=_started,
        title="Six requests, one forward per step",
        start=None if _started else 4,  # the first step with decodes and a chunk
        question="In which steps do decodes and a chunk share one forward?",
    )
    return


@app.cell(hide_code=True)
def _(attempts, earlier, exact, reference_trace, stage, your_trace):
    mo.md(
        served(
            attempts,
            step.six_requests(),
            exact,
            stage,
            your_trace,
            reference_trace,
            "Step to the first difference: which rows were in the batch?",
            earlier=f"From earlier lessons: {earlier.sentence}",
            counted=f"{sum(len(each.forwards) for each in your_trace.steps)} model calls in "
            f"{len(your_trace.steps)} steps.",
        )
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## Break it: why are all texts wrong under priority?

    Exhibit B is in the code of the scheduling post. Three requests arrive at step 0, with plenty of
    memory and greedy decoding. No request is preempted.
    """)
    return


@app.cell(hide_code=True)
def _(exact):
    mo.md(exhibits.crossed_table(exact))
    return


@app.cell(hide_code=True)
def _():
    predict(
        "l03.crossed_lines",
        "Under FCFS every text is right. Under priority, with the same requests, all three texts are wrong. "
        "**What is broken?**",
        (
            "Sampling draws from one stream of random numbers",
            "Tokens are assigned in an order that is not the order of the batch",
            "The K/V of one request is overwritten by another",
            "The positions of the requests are mixed up",
        ),
        1,
        "Greedy decoding draws no random numbers, and overwritten K/V or wrong positions would spoil the "
        "texts under FCFS too. Priority changes only an order: request 1 is admitted first, so it is first "
        "in the list of active requests, while the rows of the batch are in another order. Each token was "
        "sampled for one request and appended to another, which then continues from it. The published loop "
        "ran the forward on `scheduler.active` and recorded the tokens for `decode_reqs`, an older copy: a "
        "request admitted in between was computed and lost its token.",
    )
    return


@app.cell(hide_code=True)
def _():
    after("l03.crossed_lines", mo.md(r"""
    The forward computes rows and returns rows; it knows no request ids. While a step runs, requests join
    and finish, so only the list from which the batch was built gives the order of its rows. The engine
    zips that list with the sampled tokens. Getting this line wrong is one of the worst bugs that a
    server can have: a user reads text that belongs to another request.

    vLLM had this defect: two places disagreed about the order of the batch, and completions had tokens
    *"leaked" from other requests* ([#14645](https://github.com/vllm-project/vllm/pull/14645)). In
    [DMI #67](https://github.com/ProjectDMX/DMI/issues/67) rows of a batch were read in the order of a
    dictionary; about 60 % of the requests got a neighbour's values, and everything looked valid.
    """))
    return


@app.cell(hide_code=True)
def _():
    after("l03.exhibit_a", mo.md(r"""
    /// details | For readers of the post: its gotchas, and some of its code

    | gotcha or code | here |
    |:--|:--|
    | pasts of unequal length, or none at all | `context_lens`, with 0 allowed: 3.2 |
    | the mask must also hide padding on the left | 3.2; the post's code does not hide it among the new columns, see exhibit A |
    | rows have different numbers of new tokens | 3.3; the post strips `pad_lengths` from the front, which is right while all rows have one token |
    | a partial prefill must not be sampled | `rows` in the fused step |
    | no decodes at all | one row, no padding, no special case |
    | *22 tokens, so* `pos_val = 22` | 21; the post's code computes `len - 1`, its prose says 22. With 22 a test of a few letters passes, and a long generation crashes at the end of the context |
    | `logits[:len(decode_reqs), -1]` | right as long as the decodes come first and a single place in the code decides the order |
    | `interleaved_generate(model, reqs, policy="fcfs", token_budget=16, max_kv_tokens=256)` | `nanogpt` has this function; three requests take 12 calls in 12 steps, and their texts are those of the oracle `generate()` |

    ///
    """))
    return


@app.cell(hide_code=True)
def _():
    after("l03.fused_cost", mo.md(r"""
    ## When does one padded forward save time?

    In the run of six requests above: **338 useful tokens, 871 computed (39%).** Only 9 of its 30 steps
    have padding, and the worst of them computes 162 tokens for 32 useful ones. On a GPU the time to read
    16 GB of weights hides a little padding. Once the arithmetic of a step takes longer than that, every
    padding token adds time. So the padded forward is faster with short chunks on a GPU, and slower with
    long chunks on any machine.
    """))
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## What you now know

    - One forward per step saves the second reading of the weights. In padded form it computes a
      rectangle, most of which may be padding.
    - A decode is a chunk of one token: the same inputs, mask and positions as in lesson 1.
    - Padding must be hidden in two places, the past and the new columns. A visible padding key makes a
      text depend on its neighbours, without any error.
    - The output of a query that sees nothing is NaN, and a mask does not stop NaN in the next layer.
    - A row gets a token when no known token is left to compute. Only the list from which the batch was
      built gives the order of its rows.

    ## The same in vLLM and SGLang

    | here | vLLM | SGLang |
    |:--|:--|:--|
    | a padded tensor (B, T) | one flat token axis; `query_start_loc` has the bounds of the requests (`vllm/v1/attention/backend.py`) | one flat token axis |
    | a chunk beside decodes | always in one forward | only with `--enable-mixed-chunk`; else a step is a prefill or a decode |
    | `rows`, those that get a token | `logits_indices` | the last token of each request, from the lengths |
    | `batch_ids` | request state in tables with fixed rows (`vllm/v1/worker/gpu/input_batch.py`) | `ScheduleBatch`, `srt/managers/schedule_batch.py` |

    vLLM's scheduler says of itself: *There's no "decoding phase" nor "prefill phase" in the scheduler*.
    Each request has computed some of its known tokens, and a step computes more of them. A row gets a
    token when no known token is left to compute.

    **How the control flow differs.** Our executor builds a new batch from the plan of every step. vLLM
    keeps the state of each request in one row of its tables for as long as the request runs. A step
    lists the scheduled requests, and kernels gather their tokens from those rows. SGLang keeps a batch
    of running decodes from step to step: a finished prefill is merged into it, and finished requests are
    filtered out.

    *Checked against vLLM 0.33.0 and SGLang 0.5.23, November 2026.*

    /// details | The same defects in other engines

    - **A.** [mlx-vlm #1946](https://github.com/Blaizzy/mlx-vlm/pull/1946), *Stop a batched row's answer depending on its neighbour's length*: left padding is in
      the causal past, so attention reads it. [mlx-lm #1906](https://github.com/ml-explore/mlx-lm/issues/1906): a left-padding mask never reached
      attention; *the padded member keeps attending to its pads for the whole generation*.
    - **C.** [burn #4697](https://github.com/tracel-ai/burn/pull/4697) and [rten #1321](https://github.com/robertknight/rten/pull/1321): NaN from a row whose every key was masked.
    - Positions: [flash-linear-attention #766](https://github.com/fla-org/flash-linear-attention/issues/766): a count of seen tokens was raised too early, so upper
      layers read a past length that was *one token too large*. [unsloth #3795](https://github.com/unslothai/unsloth/pull/3795): one list of positions for all rows of a left-padded batch.

    ///

    ## What comes next

    One forward per step computes a rectangle that is mostly padding. Must a batch be a rectangle?
    [Lesson 3b](/?file=l03b_packing.py) removes the padding and compares the costs.
    """)
    return


if __name__ == "__main__":
    app.run()
