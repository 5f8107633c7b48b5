import marimo

__generated_with = "0.25.2"
app = marimo.App(width="medium", app_title="3b · Nothing padded")

with app.setup(hide_code=True):
    import marimo as mo

    from course.attempt import attempt
    from course.lazy import torch
    from course.prediction import after, hints, predict
    from course.task import task


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    # 3b · Nothing padded

    *20 minutes. Builds on lesson 3: a step of decodes and a chunk in one padded tensor. You write one
    function.*

    Afterwards you can put a step through the model in one flat row, say from counts alone which form of
    a step is faster where, and keep a request's bits the same in any company.

    ## One flat row

    A step with *d* decodes and a chunk of *c* tokens, padded, has *d* + 1 rows of *c* columns, of which
    *d* + *c* are useful. The longer the chunk, the nearer the useful share comes to 1 in *d* + 1: beside
    a long chunk, four decodes make nearly four fifths of the arithmetic worthless.

    Why does a batch have to be a rectangle? Almost nothing in a transformer asks for it. A Linear layer, a
    LayerNorm and an embedding look at one token at a time: hand them all tokens of the step in **one flat
    row** of N tokens, whichever request they belong to. Only attention has to know where one request ends
    and the next begins.

    So write that down: running totals, `cu_seqlens_q` for the new tokens and `cu_seqlens_k` for the keys. And the mask of
    the flat row is a staircase: a block for each request, nothing anywhere else.
    """)
    return


@app.cell(hide_code=True)
def _():
    from dataclasses import replace

    from course.answers import load_policies
    from course.lesson_data.l03_batch import NUM_SCHEDULED, batch_rows
    from course.lesson_data.l03b_bits import bits_table
    from course.lesson_data.l03b_packing import (
        FORMS,
        crowd_runs,
        crowd_table,
        forms_table,
        live_table,
        longest_chunk,
        p99_ms,
        said_of_p99,
        step_curves,
        strip,
    )
    from course.lesson_data.texts import whose_policies
    from nanogpt import load_model
    from nanogpt.policies import fusing
    from widgets import BatchView, Curves

    return (
        BatchView,
        Curves,
        FORMS,
        NUM_SCHEDULED,
        batch_rows,
        bits_table,
        crowd_runs,
        crowd_table,
        forms_table,
        fusing,
        live_table,
        load_model,
        load_policies,
        longest_chunk,
        p99_ms,
        replace,
        said_of_p99,
        step_curves,
        strip,
        whose_policies,
    )


@app.cell(hide_code=True)
def _():
    task("l03.pack")
    return


@app.function
def pack(
    context_lens: list[int], num_scheduled_tokens: list[int]
) -> tuple[list[int], list[int], torch.Tensor]:
    """Return `(cu_seqlens_q, cu_seqlens_k, mask)` of a packed step, in which nothing is padded."""
    raise NotImplementedError("Exercise 3b.1: whose queries and keys are whose, and which see which")


@app.cell(hide_code=True)
def _():
    pack_attempt = attempt("l03.pack", lambda: pack)
    pack_attempt
    return (pack_attempt,)


@app.cell(hide_code=True)
def _():
    hints("l03.pack")
    return


@app.cell(hide_code=True)
def _(BatchView, NUM_SCHEDULED, batch_rows, pack_attempt, strip):
    _strip = strip(pack_attempt)
    mo.md(_strip) if isinstance(_strip, str) else BatchView(
        batch_rows(),
        **_strip,
        num_scheduled_tokens=NUM_SCHEDULED,
        question="Where have the holes gone, and what keeps the requests apart?",
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    Step it: 32 cells with 11 of them lit, then a strip of 11, then its mask. Every block has its diagonal in
    the *bottom right* corner: the last query of a request sees all of that request's keys. A's block is
    a single line.

    The engine has two executors of this kind. `single_mask` is what you have just written: one row and one mask.
    It still works out N · K scores, most of which are thrown away, so it is for reading. `packed` attends
    request by request, straight from the cache, and never builds the big mask. It has been the engine's
    default since lesson 0. Lesson 3's six requests, in every form:
    """)
    return


@app.cell(hide_code=True)
def _(load_model, load_policies):
    exact = load_model().double()  # in float64 rounding can flip no token
    earlier = load_policies("l03b_packing")  # what you wrote in earlier lessons and passed
    return earlier, exact


@app.cell(hide_code=True)
def _(
    earlier,
    exact,
    forms_table,
    fusing,
    pack_attempt,
    replace,
    whose_policies,
):
    _yours = replace(earlier.policies, pack=pack_attempt.or_reference(fusing.pack))
    mo.md(
        f"{whose_policies({'pack': pack_attempt})} From earlier lessons: {earlier.sentence}\n\n"
        f"{forms_table(exact, _yours)}"
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## What each form costs

    Five people are reading when three prompts of 200 tokens come in, one after the other. The same
    requests, the same plan, the same texts, three forms of a step: two forwards, one padded forward,
    one packed forward. The **ITL p99** is the gap that only one in a hundred exceeds.
    """)
    return


@app.cell(hide_code=True)
def _(crowd_runs, p99_ms, said_of_p99):
    runs = crowd_runs()
    predict(
        "l03.p99",
        "A budget of 256 on the large GPU (modelled). With two forwards the ITL p99 is "
        f"{p99_ms(runs['gpu', 256, 'two forwards']):.1f} ms. **One padded forward**, so fewer calls?",
        (
            "About half of that: one forward instead of two",
            "About the same",
            "About four times that",
        ),
        2,
        said_of_p99(runs),
    )
    return (runs,)


@app.cell(hide_code=True)
def _(crowd_table, runs):
    after("l03.p99", mo.md(f"Modelled; factors are of two forwards.\n\n{crowd_table(runs)}"))
    return


@app.cell(hide_code=True)
def _(FORMS, runs):
    from course.figure import Figure
    from nanogpt.figures.curves import latencies

    after(
        "l03.p99",
        Figure(
            latencies({form: runs["gpu", 256, form] for form in FORMS}, "How the waits are spread, budget 256"),
            "Which tokens make the difference between the three forms?",
        ),
    )
    return


@app.cell(hide_code=True)
def _(Curves, step_curves):
    series, sliders = step_curves()
    after(
        "l03.p99",
        Curves(
            series,
            x=("chunk length", "tokens"),
            y=("a step", "ms"),
            title="One step: some decodes and a chunk",
            sliders=sliders,
            source="modelled",
            question="From which chunk length on does padding cost more than a second forward?",
        ),
    )
    return


@app.cell(hide_code=True)
def _(longest_chunk):
    _gpu, _cpu = "a large GPU (modelled)", "a server CPU (modelled)"
    after(
        "l03.p99",
        mo.md(f"""
    On the GPU padding costs no more than a second forward up to a chunk of **{longest_chunk(_gpu, 1)}** tokens
    beside 1 decode, **{longest_chunk(_gpu, 4)}** beside 4 and **{longest_chunk(_gpu, 32)}** beside 32. On the CPU it
    is {longest_chunk(_cpu, 1)}, {longest_chunk(_cpu, 4)} and {longest_chunk(_cpu, 32)}.

    **Where the padded form wins:** on the GPU with small chunks, where the padding hides below the weight
    read. There it equals packed. **Where it loses:** in every line of the CPU, and on the GPU with chunks as
    long as real ones. And those who pay are the readers, whose gaps those are: each brings one
    token and a row of holes. **Packed loses in no line**: one forward, and useful tokens alone.
    """),
    )
    return


@app.cell(hide_code=True)
def _():
    after(
        "l03.p99",
        mo.md(r"""
    The author of the posts measured the padded form on a GPU: **21 to 34 % fewer forward calls, and
    throughput 0.91 to 0.96 times** that of two forwards, worst gap 1.09 to 1.12 times
    ([czhou578/nanoGPT-inference](https://github.com/czhou578/nanoGPT-inference)). What to count is tokens computed.

    And on the machine in front of you, with the trained model and the wall clock: a budget of 64, three
    rounds, every form once per round; the median, and slowest to fastest. Other programs are in these
    numbers too.
    """),
    )
    return


@app.cell(hide_code=True)
def _(live_table, load_model):
    live_model = load_model()
    after("l03.p99", mo.md(live_table(live_model)))
    return (live_model,)


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## The same bits, whatever is beside you

    All exact runs of these lessons are in float64. Here is why. One row of numbers goes through one Linear
    layer of the trained model, in float32, first alone and then with company. Its own numbers are the
    same every time.
    """)
    return


@app.cell
def _(live_model):
    torch.manual_seed(0)
    rows = torch.randn(64, live_model.config.num_channels)
    layer = live_model.blocks[0].qkv
    with torch.inference_mode():
        alone = layer(rows[:1])[0]
        others = [n for n in range(2, 65) if not torch.equal(layer(rows[:n])[0], alone)]

    mo.md(f"Of the 63 batches of 2 to 64 rows, **{len(others)} give the first row other last bits** than it gets alone.")
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    A difference is no bug, and nothing random: for another number of rows the library may pick another order of
    summation, and floats do not add the same in every order. (Where your number is 0, as it may be on Apple
    silicon, the library keeps one order for all these batches; another library would not.) So the logits of a request depend, in the last bits, on *how
    many others* are in its batch. As a rule it shows only when two tokens are nearly tied.

    This engine's cure: no operation ever sees another shape. `EngineConfig(executor="batch_invariant")` runs tokens in
    tiles of one fixed size, the last filled up with dummies, and attention over keys in tiles of another
    (`nanogpt/executors/batch_invariant.py`). Below, Romeo's logits in three kinds of company, each compared bit
    by bit with those that Romeo gets alone.
    """)
    return


@app.cell(hide_code=True)
def _(bits_table, live_model):
    mo.md(bits_table(live_model))
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    The last column is the price, in times of the packed run: dummies are computed, and attention walks over
    tiles in Python. The promise is a stronger one than *the same text*: **the same bits**, whatever the
    batch, the chunk size or a preemption, for one model on one machine with one thread.

    ## How production engines do it

    - **Orca** (Yu et al., OSDI 2022) had the idea behind *packed*, and named it *selective batching*: everything but
      attention runs over the tokens of all requests together, attention request by request.
    - **Sarathi** (Agrawal et al., [arXiv 2308.16369](https://arxiv.org/abs/2308.16369)) put a prompt's chunk and decodes into
      one batch, so that decodes ride along on the chunk's weight read.
    - **vLLM**: since [#3884](https://github.com/vllm-project/vllm/pull/3884) its tokens are *batched together in a flattened 1D query*.
    - **FlashAttention** takes the flat row: `flash_attn_varlen_func` with `cu_seqlens_q` and `cu_seqlens_k`, your
      two lists. Its causal mask was aligned top-left until version 2.1, and *to the bottom right corner* from then
      on. **FlashInfer** calls the totals `qo_indptr`. PyTorch has `varlen_attn` in `torch.nn.attention.varlen`.
    - **SGLang** mixes with `--enable-mixed-chunk`; its first form used the prefill kernel for the whole batch,
      *inefficient* in its maintainers' words ([#2273](https://github.com/sgl-project/sglang/issues/2273)): the same effect as our `single_mask`.
    - **nano-vllm**, in its released form, runs prefill *or* decodes, never both in a step
      ([#73](https://github.com/GeeeekExplorer/nano-vllm/issues/73)); a proposal is to *represent decode as a length-1 chunk over
      its cached prefix* ([#276](https://github.com/GeeeekExplorer/nano-vllm/pull/276)).
    - **Batch invariance**: Thinking Machines Lab, [*Defeating Nondeterminism in LLM Inference*](https://thinkingmachines.ai/blog/defeating-nondeterminism-in-llm-inference/)
      (2025), named it: 1,000 greedy completions of one prompt were 80 different texts, and one with batch-invariant
      kernels. vLLM has a switch for it, [`VLLM_BATCH_INVARIANT`](https://docs.vllm.ai/en/stable/features/batch_invariance/), in beta.

    - **Fewer bits**: with nothing padded, what is left of a step are its matrix products, and production engines
      multiply in 8 bits or fewer. Tried on this engine (`nanogpt/executors/int8.py`, one thread), tokens per
      second over those of float32:

      | decodes at once | 1 | 8 | 32 |
      |:--|--:|--:|--:|
      | 10.8 million weights | ×1.32 | ×1.32 | ×1.53 |
      | 0.9 million, the model of this course | ×0.53 | ×0.71 | ×1.04 |

      It pays where reading weights is what costs. Where a product is small, rounding its inputs costs more than
      it saves. And the texts of this course's model come out as others.

    The packed form has a leak of its own: attention that ignores the totals.
    [HunyuanVideo #310](https://github.com/Tencent-Hunyuan/HunyuanVideo/pull/310): `cu_seqlens` ignored, so attention could *bleed
    across segment boundaries*.

    ## What comes next

    The step is as tight as it gets: one call, no padding. What still grows is the cache, by a token per
    request and step, for as long as a text lasts. In [lesson 4](/?file=l04_sliding_window.py) a request forgets.
    """)
    return


if __name__ == "__main__":
    app.run()
