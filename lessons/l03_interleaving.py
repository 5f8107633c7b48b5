import marimo

__generated_with = "0.25.2"
app = marimo.App(width="medium", app_title="3 · Interleaving")

with app.setup(hide_code=True):
    import marimo as mo

    from course.attempt import attempt
    from course.lazy import torch
    from course.prediction import after, hints, predict
    from course.task import task


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    # 3 · Interleaving

    *60 minutes. Builds on lesson 1: chunks, masks, the token budget. You write five functions.*

    Afterwards you can put decodes and chunks through the model in one forward, padded and masked so that
    no token sees a hole, and you know what a hole does to a neighbour's text.

    ## Two forwards, one bill

    In the engine of the scheduling post (lesson 2) a step called the model twice: once for the chunk of
    a prompt, once for the decodes. Their tensors have different shapes, (1, 8) and (3, 1), so that was
    the easy way.

    Here is such a step. Three requests decode: A knows 22 tokens, B 15 and C 9. A fourth, D, gets the
    first 8 tokens of its prompt computed.
    """)
    return


@app.cell(hide_code=True)
def _():
    from dataclasses import replace

    from course.answers import load_policies
    from course.calling.jobs import call
    from course.lesson_data.l03_batch import (
        NUM_COMPUTED,
        NUM_SCHEDULED,
        TOKEN_IDS,
        batch,
        batch_rows,
        cut_letters,
        full_mask_steps,
        new_mask_steps,
        posts_call,
        posts_example,
        six_requests,
        useful_shares,
        your_run,
    )
    from course.lesson_data.l03_exhibits import (
        diluted,
        nan_table,
        neighbour_table,
        padding_in_sight_steps,
        said_of_neighbours,
    )
    from course.replay import replays
    from nanogpt import Engine, EngineConfig, load_model
    from nanogpt.policies import fusing
    from widgets import BatchView, MaskBuild, Timeline

    return (
        BatchView,
        Engine,
        EngineConfig,
        MaskBuild,
        NUM_COMPUTED,
        NUM_SCHEDULED,
        TOKEN_IDS,
        Timeline,
        batch,
        batch_rows,
        call,
        cut_letters,
        diluted,
        full_mask_steps,
        fusing,
        load_model,
        load_policies,
        nan_table,
        neighbour_table,
        new_mask_steps,
        padding_in_sight_steps,
        posts_call,
        posts_example,
        replace,
        replays,
        said_of_neighbours,
        six_requests,
        useful_shares,
        your_run,
    )


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    | machine | 3 decodes | a chunk of 8 | **two forwards** |
    |:--|--:|--:|--:|
    | a large GPU (modelled) | 5.30 ms | 5.30 ms | 10.60 ms |
    | a server CPU (modelled) | 0.55 ms | 0.70 ms | 1.25 ms |

    On the GPU the two forwards cost the same, whether 3 tokens or 8: its time goes into reading 16 GB of
    weights, and they are read twice. On the CPU it is the fixed cost that is paid twice.

    A model does not care whose token is whose. It sees a tensor (B, T). So: **one tensor for all rows,
    one call per step.** A tensor has straight edges, though. D's row is 8 wide, so every row is 8 wide,
    and what is missing is filled up with padding.
    """)
    return


@app.cell(hide_code=True)
def _():
    predict(
        "l03.fused_cost",
        "Three decodes and a chunk of 8, fused into one padded tensor. How many tokens does the model compute, "
        "and is the step faster than the two forwards were?",
        (
            "11 tokens, and faster on both machines",
            "32 tokens, and faster on both: one call is one call",
            "32 tokens, faster on the GPU and slower on the CPU",
            "32 tokens, and slower on both",
        ),
        2,
        "Four rows of 8 are **32 tokens for 11 useful ones**. The budget says 11, the hardware says 32. On "
        "the large GPU (modelled) the step takes 10.60 ms with two forwards and 5.30 ms with the padded one; "
        "on the server CPU (modelled) 1.25 ms and 1.41 ms. The GPU does not notice 21 tokens of padding: it "
        "is still reading weights. The CPU pays for each. (A real chunk has hundreds of tokens, not 8. Lesson "
        "3b does that sum.)",
    )
    return


@app.cell(hide_code=True)
def _(BatchView, NUM_SCHEDULED, batch, batch_rows):
    after(
        "l03.fused_cost",
        BatchView(
            batch_rows(),
            **batch(),
            num_scheduled_tokens=NUM_SCHEDULED,
            title="One tensor for all rows: token above, position below",
            question="Whose is each cell, and at which position does its token stand?",
        ),
    )
    return


@app.cell(hide_code=True)
def _():
    after(
        "l03.fused_cost",
        mo.md(r"""
    Point at a cell, or walk with the arrow keys. Two things to notice.

    **Why padding on the left?** Every row's last real token stands in the last column. The logits that
    matter are `logits[:, -1]`, decode or chunk, and no table of row ends is needed.

    **A decode is a chunk of one token.** A's newest token is its 22nd, and stands at position 21: the
    same count of computed tokens, the same slice, the same positions as in lesson 1.
    """),
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## Build it

    Four functions make the padded step; the fifth says which rows get a token.
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
def _(
    BatchView,
    NUM_COMPUTED,
    NUM_SCHEDULED,
    TOKEN_IDS,
    batch,
    batch_rows,
    call,
    rows_attempt,
):
    def _drawn():
        if not rows_attempt.started:
            return mo.md("Once you have written `prepare_inputs`, your batch is drawn here.")
        try:
            return BatchView(
                batch_rows(),
                **batch(call(rows_attempt.function, (TOKEN_IDS, NUM_COMPUTED, NUM_SCHEDULED)).value or ()),
                num_scheduled_tokens=NUM_SCHEDULED,
                reference=batch(),
                title="Your batch",
                question="Does any cell differ from the reference?",
            )
        except (TypeError, ValueError, IndexError, KeyError):
            return mo.md("What `prepare_inputs` gives for this step cannot be drawn; its check says more.")

    _drawn()
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ### The mask, in visible steps

    Now the delicate part. Each row has its own past in the cache, of its own length, and those are padded
    on the left too. So the keys of a fused step come in two parts, S columns of past and T of new tokens:

    ```text
               past, S columns       new, T columns
    row A      [ . . k k ]           [ . . q ]
    row B      [ k k k k ]           [ q q q ]
    ```

    The post that this lesson grew from, on interleaving, by the author of
    [czhou578/nanoGPT-inference](https://github.com/czhou578/nanoGPT-inference), builds the mask in four steps
    and lays the padding over it. Its example has a past of 4 columns, chunks of 3 tokens and two rows: A
    holds 2 tokens, B holds 4.
    """)
    return


@app.cell(hide_code=True)
def _(MaskBuild, posts_example):
    MaskBuild(
        posts_example(),
        title="The post's example: two chunks of 3 tokens",
        question="What does each step hide that the one before it showed?",
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    The example is right, and it hides something: both rows bring three tokens, so *among the new columns*
    there is no padding. Replace A's chunk by a decode and there is. That is your exercise.

    But first: how bad would it be? The padding of the past is made of zeros, keys and values alike.
    """)
    return


@app.cell(hide_code=True)
def _(load_model):
    exact = load_model().double()  # in float64 rounding can flip no token
    return (exact,)


@app.cell(hide_code=True)
def _(diluted, exact):
    predict(
        "l03.harmless",
        "Suppose the mask forgets the padding of the **past**: zero keys, zero values, visible. What does "
        "a real token's attention do with them?",
        (
            "Nothing: a key of zeros gets a score of 0, and a value of zeros adds nothing",
            "It is diluted: a score of 0 weighs e⁰ = 1 in the softmax, like any other middling key",
            "It breaks down: the softmax divides by zero",
        ),
        1,
        "A score of 0 is not a weight of 0. The softmax gives e⁰ = 1 to every column of padding, and whatever they "
        "take is missing elsewhere. Only minus infinity weighs nothing. Measured on the trained model: "
        "60 prompts of 9 to 24 letters, prefilled and then decoded in one batch, the padding of the past visible: "
        f"**{diluted(exact)} of 60 greedy letters change**.",
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ### Which new tokens may see which?

    The padding among the new columns is worse than zeros. A padding cell *is* fed, as token 0 at
    position 0. Token 0 of this model is the line break, so to the left of A's newest letter stand
    seven line breaks from the beginning of a text, with real keys and real values.
    """)
    return


@app.cell(hide_code=True)
def _():
    task("l03.new_mask")
    return


@app.function
def new_mask(num_scheduled_tokens: list[int]) -> torch.Tensor:
    """Return which new tokens of a fused step may attend to which: bool (B, T, T)."""
    raise NotImplementedError("Exercise 3.2: which new tokens may see which?")


@app.cell(hide_code=True)
def _():
    new_attempt = attempt("l03.new_mask", lambda: new_mask)
    new_attempt
    return (new_attempt,)


@app.cell(hide_code=True)
def _():
    hints("l03.new_mask")
    return


@app.cell(hide_code=True)
def _(MaskBuild, new_attempt, new_mask_steps):
    _found = new_mask_steps(new_attempt)
    mo.md(_found) if isinstance(_found, str) else MaskBuild(
        _found,
        title="new_mask([1, 3]): a decode beside a chunk of 3",
        yours=True,
        question="Which cells differ from the reference?",
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ### The whole mask

    Now both parts side by side. One case needs thought: a padding query of a row *without a past* can see
    only padding, and padding is hidden. A query that sees nothing has a softmax over nothing. Its output
    is read by none, so does it matter? Exhibit B below answers; for now, let it see one key.
    """)
    return


@app.cell(hide_code=True)
def _():
    task("l03.full_mask")
    return


@app.function
def full_mask(context_lens: list[int], num_scheduled_tokens: list[int]) -> torch.Tensor:
    """Return which keys each token of a fused step may attend to: bool (B, T, S + T)."""
    raise NotImplementedError("Exercise 3.3: the past and the new columns of every row")


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
def _(MaskBuild, full_mask_steps, mask_attempt):
    _found = full_mask_steps(mask_attempt)
    mo.md(_found) if isinstance(_found, str) else MaskBuild(
        _found,
        title="full_mask([4, 2, 0], [1, 3, 2]): a decode, a chunk, a first chunk",
        yours=True,
        question="Which cells differ from the reference?",
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ### Whose keys are whose?

    After the forward there is one tensor of keys, (B, S + T, D), past and new together, and each request
    wants its own back. Each row has padding in **two** places, so no single slice is enough.
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
    raise NotImplementedError("Exercise 3.4: the keys of each request alone, padding left out")


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
def _(cut_letters, split_attempt):
    mo.md(cut_letters(split_attempt))  # letters in the place of keys
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ### Which rows get a token?

    The forward gives logits for the last column of *every* row. Whether a row's prediction is wanted
    depends on what it predicts: a token that is not known yet, or the next one of a prompt that is.
    """)
    return


@app.cell(hide_code=True)
def _():
    task("l03.logits_indices")
    return


@app.function
def logits_indices(
    num_scheduled_tokens: list[int], num_computed_tokens: list[int], num_tokens: list[int]
) -> list[int]:
    """Return the rows of a fused step that get a new token, in order: a list of row numbers."""
    raise NotImplementedError("Exercise 3.5: which rows get a new token?")


@app.cell(hide_code=True)
def _():
    sample_attempt = attempt("l03.logits_indices", lambda: logits_indices)
    sample_attempt
    return


@app.cell(hide_code=True)
def _():
    hints("l03.logits_indices")
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    That was all of it. This is a fused step, with the attention written out:

    ```python
    tokens, positions = prepare_inputs(token_ids, num_computed_tokens, num_scheduled_tokens)  # (B, T)
    mask = full_mask(context_lens, num_scheduled_tokens).unsqueeze(1)  # (B, 1, T, S + T)

    def attend(layer, q, k, v):
        k, v = with_past(layer, k, v)                             # (B, S + T, H, D)
        keep(
            split_kv(k, context_lens, num_scheduled_tokens),
            split_kv(v, context_lens, num_scheduled_tokens),
        )
        scores = einsum("bqhd,bkhd->bhqk", q, k) / D ** 0.5
        weights = scores.masked_fill(~mask, -inf).softmax(dim=-1)
        return einsum("bhqk,bkhd->bqhd", weights, v)              # (B, T, H, D)

    logits = model.logits(model.hidden(tokens, positions, attend)[:, -1])   # (B, V)
    for row in logits_indices(num_scheduled_tokens, num_computed_tokens, num_tokens):
        token_ids[row].append(sample(logits[row]))
    ```

    ## Your engine, on real Shakespeare

    Six requests arrive at different steps, with a budget of 32 tokens. `executor="fused"` makes the engine of
    the earlier lessons call the model once per step, on a left-padded tensor built by `prepare_inputs`,
    `full_mask` and `split_kv`: yours, as soon as they are written, right or wrong, under a time limit.
    """)
    return


@app.cell
def _(Engine, EngineConfig, exact, load_policies, replays, six_requests):
    stage = EngineConfig(token_budget=32, executor="fused", temperature=0.8, seed=1)
    earlier = load_policies("l03_interleaving")  # what you wrote in earlier lessons and passed
    run_with = replays(lambda policies: Engine(exact, stage, policies), six_requests, 300)
    reference_trace = run_with.reference
    return earlier, reference_trace, run_with, stage


@app.cell
def _(
    earlier,
    fusing,
    mask_attempt,
    replace,
    rows_attempt,
    run_with,
    split_attempt,
):
    yours = replace(
        earlier.policies,
        prepare_inputs=rows_attempt.or_reference(fusing.prepare_inputs),
        full_mask=mask_attempt.or_reference(fusing.full_mask),
        split_kv=split_attempt.or_reference(fusing.split_kv),
    )
    your_trace = run_with(yours)
    return (your_trace,)


@app.cell(hide_code=True)
def _(
    Timeline,
    mask_attempt,
    reference_trace,
    rows_attempt,
    split_attempt,
    your_trace,
):
    attempts = {
        "prepare_inputs": rows_attempt,
        "full_mask": mask_attempt,
        "split_kv": split_attempt,
    }
    _started = any(each.started for each in attempts.values())
    Timeline(
        your_trace.to_json(),
        reference_trace.to_json(),
        yours=_started,
        title="Six requests, one forward per step",
        start=None if _started else 4,  # the first step with decodes and a chunk
        question="In which steps do decodes and a chunk share one forward?",
    )
    return (attempts,)


@app.cell(hide_code=True)
def _(attempts, earlier, exact, reference_trace, stage, your_run, your_trace):
    mo.md(your_run(attempts, earlier.sentence, exact, stage, your_trace, reference_trace))
    return


@app.cell(hide_code=True)
def _(reference_trace, useful_shares):
    after("l03.fused_cost", mo.md(useful_shares(reference_trace)))
    return


@app.cell(hide_code=True)
def _(exact, posts_call):
    mo.md(posts_call(exact))
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## Break it

    Two defects: A stands in the code of the post, B waits in the obvious repair of A. You get the symptom
    first; decide what is wrong before you open the answer.

    ### Exhibit A: the noisy neighbour

    Romeo is speaking: greedy decoding, the same weights, the same prompt in every line. At step 3 another
    request arrives, with a prompt that has nothing to do with Romeo's. Only its length changes.
    """)
    return


@app.cell(hide_code=True)
def _(exact, neighbour_table):
    mo.md(neighbour_table(exact))
    return


@app.cell(hide_code=True)
def _(exact, said_of_neighbours):
    predict(
        "l03.exhibit_a",
        "A stranger's prompt of one letter is harmless. With a longer one Romeo's text changes. **What is broken?**",
        (
            "Romeo's row attends to the stranger's tokens",
            "Romeo's row attends to its own padding, which is as long as the stranger's chunk",
            "The positions of Romeo's row shift with the length of the chunk",
            "Rounding: a wider tensor sums in another order",
        ),
        1,
        "Rows do not mix in a batch, so the stranger's **letters** cannot reach Romeo. The **length** can: it decides "
        "how much padding stands to the left of Romeo's newest letter, and the mask shows it: line breaks at position "
        "0, one fewer than the chunk has tokens. A chunk of 1 has none. What is computed from them goes into the cache, "
        "so every later letter reads it too. Measured, 60 decodes beside one chunk:\n" + said_of_neighbours(exact),
    )
    return


@app.cell(hide_code=True)
def _(MaskBuild, padding_in_sight_steps):
    after(
        "l03.exhibit_a",
        MaskBuild(
            padding_in_sight_steps(),
            title="The post's example, with a decode in row A",
            names=("exhibit A", "the reference"),
            question="Which padding is in sight?",
        ),
    )
    return


@app.cell(hide_code=True)
def _():
    after(
        "l03.exhibit_a",
        mo.md(r"""
    The post says: *no query ever attends to a padding token*, and draws an example in which that is so. It
    also says that padded query positions *generate garbage that we ignore*. As queries, yes. But they
    are keys, too.

    This is the defect to remember: nothing crashes, the text is fluent, and it depends on what else is
    in the batch. The test that finds it is one line: *the same text, whatever is beside it*.
    """),
    )
    return


@app.cell(hide_code=True)
def _():
    after(
        "l03.exhibit_a",
        mo.md(r"""
    /// details | For readers of the post: its gotchas, and some of its code

    | gotcha, or what one meets | here |
    |:--|:--|
    | pasts of unequal length, or none at all | `context_lens`, with 0 allowed: 3.3 |
    | the mask must also hide padding on the left | 3.2; the post's code does not, see exhibit A |
    | rows bring different numbers of new tokens | 3.4; the post strips `pad_lengths` from the front, which is right while all rows bring one token |
    | a partial prefill must not be sampled | 3.5 |
    | no decodes at all | one row, nothing padded, no special case |
    | *22 tokens, so* `pos_val = 22` | 21; the code computes `len - 1`, the text says 22. A test of a few letters passes with 22, and the text crashes at the end of the context |
    | `logits[:len(decode_reqs), -1]` | right as long as decodes come first, and one place decides the order |
    | `commit_completed_blocks` is not defined | belongs to another post |

    ///
    """),
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ### Exhibit B: the row that turns into NaN

    Exhibit A has been repaired in the obvious way. Now two prompts meet in their first chunks,
    one of 3 tokens and one of 5. Both are complete, so both rows sample.
    """)
    return


@app.cell(hide_code=True)
def _(exact, nan_table):
    mo.md(nan_table(exact))
    return


@app.cell(hide_code=True)
def _():
    predict(
        "l03.exhibit_b",
        "Only the shorter row turns into NaN, and only from two layers on. **What happens?**",
        (
            "A padding query sees no key; its NaN becomes a key and a value of the next layer, and 0 · NaN is NaN",
            "A real query of the short row sees no key",
            "Positions of padding are 0 and are embedded twice",
            "The softmax of the long row overflows and spreads",
        ),
        0,
        "The repair hides the padding among the new tokens as well. The short row has two columns of padding and no past. Its padding queries may see nothing: all scores are minus "
        "infinity, and the softmax of that is 0/0. In the first layer this spoils only their own outputs, which are not "
        "read. But the next layer makes keys and values of those outputs. The mask gives them weight 0, and 0 · NaN is "
        "NaN. So a padding query has to see something; the cheapest is itself.",
    )
    return


@app.cell(hide_code=True)
def _():
    after(
        "l03.exhibit_b",
        mo.md(r"""
    Where would you notice? `argmax` of NaNs is a valid index, so greedy decoding goes on, silently. And it
    depends on the kernel: since version 2.5 PyTorch's own `scaled_dot_product_attention` answers 0 for such a row
    on a CPU ([pytorch #103749](https://github.com/pytorch/pytorch/issues/103749)), on Apple's MPS it can still be NaN
    ([#167515](https://github.com/pytorch/pytorch/issues/167515)), and MLX was reported to give neither
    ([mlx #2395](https://github.com/ml-explore/mlx/issues/2395)). A mask whose every row sees something does not depend
    on which one you ask.
    """),
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## Out there

    vLLM's scheduler says of itself (`schedule` in `vllm/v1/core/sched/scheduler.py`): *There's no "decoding phase" nor
    "prefill phase" in the scheduler*. Each request has computed some of its tokens and should catch up.
    That is your `logits_indices`: `num_computed_tokens + num_scheduled_tokens == num_tokens`.
    """)
    return


@app.cell(hide_code=True)
def _():
    after(
        "l03.exhibit_b",
        mo.md(r"""
    /// details | The same defects in other engines

    - **A.** [mlx-vlm #1946](https://github.com/Blaizzy/mlx-vlm/pull/1946), *Stop a batched row's answer depending on its neighbour's length*: left padding sits in
      the causal past, so attention reads it. [mlx-lm #1906](https://github.com/ml-explore/mlx-lm/issues/1906): a left-padding mask that never reached
      attention; *the padded member keeps attending to its pads for the whole generation*.
    - **B.** [burn #4697](https://github.com/tracel-ai/burn/pull/4697) and [rten #1321](https://github.com/robertknight/rten/pull/1321): NaN from a row whose every key was masked.
    - Positions: [flash-linear-attention #766](https://github.com/fla-org/flash-linear-attention/issues/766), a count of seen tokens raised too early, and upper layers were *one
      token too large*. [unsloth #3795](https://github.com/unslothai/unsloth/pull/3795): one list of positions for all rows of a left-padded batch.
    - Order: [vLLM #14645](https://github.com/vllm-project/vllm/pull/14645), two places disagreed about the order of the batch, and completions had tokens
      *"leaked" from other requests*.

    ///
    """),
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## What comes next

    One call per step, and a rectangle of which much is nothing. Where does that pay, and must a batch be a
    rectangle at all? [Lesson 3b](/?file=l03b_packing.py) takes the padding out and does the sum.
    """)
    return


if __name__ == "__main__":
    app.run()
