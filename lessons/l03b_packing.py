import marimo

__generated_with = "0.25.2"
app = marimo.App(width="medium", app_title="3b · Packed batches")

with app.setup(hide_code=True):
    from dataclasses import replace

    import marimo as mo

    from course.attempt import attempt
    from course.engine_loop import engine_loop
    from course.figure import Figure
    from course.lazy import torch
    from course.lesson_data import l03_batch as step
    from course.lesson_data import l03b_packing as packing
    from course.lesson_data.texts import whose_policies
    from course.prediction import after, hints, predict
    from course.saved_answers import load_policies
    from course.task import task
    from nanogpt import Engine, EngineConfig, Policies, load_model
    from nanogpt.policies import fusing
    from widgets import BatchView


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    # 3b · Packed batches

    *30 minutes. Builds on lesson 3: decodes and a chunk in one padded batch. You write two
    functions.*

    Afterwards you can

    - run a step as one flat batch, with no padding between requests,
    - predict from token counts which layout of a step is faster on which hardware,
    - merge the attention over two blocks of keys exactly, as FlashAttention and split-K decoding do,
    - say where engines still pad.

    ## Can one forward compute useful tokens only?

    Lesson 3 put *d* decodes and a chunk of *c* tokens into one rectangle of *d* + 1 rows and *c*
    columns, of which *d* + *c* tokens are useful. With a long chunk, about 1 token in *d* + 1 is
    useful: with four decodes, nearly four fifths of the arithmetic is then padding. Two forwards per
    step avoid the padding, but they read the weights twice.

    Which costs more? Lesson 0's model of a large GPU, `LARGE_GPU`, charges 0.5 ms for a forward plus
    the longer of two times: 4.8 ms to read the weights, and 32 µs for each computed token. (Here every
    token is charged as one. `docs/costs.md` lists all cost models of the course.)

    Five users read their answers while three prompts of 200 tokens arrive, one after the other. In the
    widest step, a chunk of 200 tokens is computed beside 7 decodes. The **ITL** is the time between two
    tokens of an answer; only 1 % of all ITLs exceed the **ITL p99**.
    """)
    return


@app.cell(hide_code=True)
def _():
    predict(
        "l03.p99",
        "A token budget of 256 on the large GPU, modelled. With two forwards per step the ITL p99 "
        "is that of the widest step, 5.3 + 6.9 = 12.2 ms. What is it with **one padded forward** per "
        "step?",
        (
            "About 7 ms: one forward instead of two",
            "About 12 ms: one forward less, but more tokens",
            "About 52 ms",
        ),
        2,
        "**51.7 ms.** 8 rows of 200 are 1,600 tokens, 207 of them useful, and 1,600 × 32 µs + 0.5 ms "
        "is 51.7 ms. The weight read hides the arithmetic of 150 tokens, and every further token adds "
        "time. The padded form saves model calls, but it computes many more tokens.",
    )
    return


@app.cell(hide_code=True)
def _():
    after(
        "l03.p99",
        Figure(
            packing.layout_costs("a large GPU (modelled)", "One step: some decodes and a chunk"),
            "From which chunk length on does padding cost more than a second forward?",
        ),
    )
    return


@app.cell(hide_code=True)
def _():
    after(
        "l03.p99",
        Figure(packing.layout_costs("a server CPU (modelled)", "The same steps on a CPU")),
    )
    return


@app.cell(hide_code=True)
def _():
    after("l03.p99", mo.md(r"""
    The lowest curve is one forward over the *d* + *c* useful tokens only. This lesson builds that
    forward.

    ## The line that runs the model

    In the engine's loop, the marked line runs the model on the tokens that the scheduler chose. The
    executor decides how to lay these tokens out in tensors. You write the layout of one packed
    executor.
    """))
    return


@app.cell(hide_code=True)
def _():
    engine_loop("self.executor.execute(")
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## Packing: all tokens of a step in one flat row

    Almost nothing in a transformer needs a rectangle. Linear layers, LayerNorms and embeddings compute
    each token by itself, so they accept all N new tokens of the step in **one flat row**, request after
    request. Only attention has to know where one request ends and the next begins.

    Two lists of running totals say where each request begins: `cu_seqlens_q` for the new tokens, which
    are the queries, and `cu_seqlens_k` for the keys, cached and new (*cu* stands for cumulative). The mask of the flat row
    has one block per request and is False outside the blocks.
    """)
    return


@app.cell(hide_code=True)
def _():
    task("l03.pack")
    return


@app.function
def pack(
    context_lens: list[int], num_scheduled_tokens: list[int]
) -> tuple[list[int], list[int], torch.Tensor]:
    """Return `(cu_seqlens_q, cu_seqlens_k, mask)` of a step that is packed into one flat row."""
    raise NotImplementedError(
        "Exercise 3b.1: where do requests begin, and which keys may each query see?"
    )


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
def _(pack_attempt):
    _strip = packing.strip(pack_attempt)
    mo.md(_strip) if isinstance(_strip, str) else BatchView(
        step.batch_rows(),
        **_strip,
        num_scheduled_tokens=step.NUM_SCHEDULED,
        question="Where did the padding go, and what separates the requests now?",
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    The picture shows, one after the other, a rectangle of 32 cells with 11 useful tokens, the flat row
    of these 11, and its mask. In every block the diagonal ends in the *bottom right* corner, because
    the last query of a request sees all of that request's keys. A decode, such as request A, has a
    block of a single row.

    ## The same texts from every layout

    The engine has two packed executors. `single_mask` uses your function: one row and one mask. It
    computes N · K scores and discards most of them: it is written to be read, not to be fast. `packed`
    attends request by request, straight from the cache, and never builds the large mask. It has been
    the engine's default since lesson 0. Here are lesson 3's six requests in every layout.
    """)
    return


@app.cell
def _():
    exact = load_model().double()  # in float64 rounding can flip no token
    one_mask = EngineConfig(token_budget=32, executor="single_mask", temperature=0.8, seed=1)
    one_row = Engine(exact, one_mask, Policies(pack=fusing.pack)).run(step.six_requests())
    forwards = [each for done in one_row.steps for each in done.forwards]
    mo.md(
        f"{len(forwards)} forwards computed {sum(each.computed_tokens for each in forwards)} tokens."
    )
    return (exact,)


@app.cell(hide_code=True)
def _(exact, pack_attempt):
    earlier = load_policies("l03b_packing")  # what you wrote in earlier lessons and passed
    _yours = replace(earlier.policies, pack=pack_attempt.or_reference(fusing.pack))
    mo.md(
        f"{whose_policies({'pack': pack_attempt})} From earlier lessons: {earlier.sentence}\n\n"
        f"{packing.forms_table(exact, _yours)}"
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    **Try it.** Let `pack` return a mask without borders, `torch.ones_like(mask)`. Only the last row
    of the table uses `pack`, and it goes wrong: its requests now read each other's text. This bug is
    real: in [HunyuanVideo #310](https://github.com/Tencent-Hunyuan/HunyuanVideo/pull/310), attention ignored
    `cu_seqlens` and could *bleed across segment boundaries*.

    ## What each layout costs

    The table repeats the run of the prediction, five users who read and three prompts, in three layouts.
    The requests, the plan of every step and the texts are the same in all three.
    """)
    return


@app.cell(hide_code=True)
def _():
    runs = packing.crowd_runs()
    after(
        "l03.p99",
        mo.md(f"Modelled. Factors are relative to two forwards.\n\n{packing.crowd_table(runs)}"),
    )
    return (runs,)


@app.cell(hide_code=True)
def _(runs):
    from nanogpt.figures.curves import latencies

    after(
        "l03.p99",
        Figure(
            latencies(
                {form: runs["gpu", 256, form] for form in packing.FORMS},
                "TTFT and ITL, budget 256",
            ),
            "Which requests and which tokens come later with padding?",
        ),
    )
    return


@app.cell(hide_code=True)
def _():
    after("l03.p99", mo.md(r"""
    - **Padded beats two forwards with small chunks on the GPU.** While the weight read hides all of
      the padding, padded is as fast as packed. Padding costs no more than a second forward up to a
      chunk of 165 tokens with 1 decode, 63 with 4 and 9 with 32.
    - **Padded loses with long chunks, and nearly always on the CPU**, where the limits are 16, 4 and
      1 tokens. Each decode adds one useful token and a row of padding, so the users who are reading
      wait longer for their next token.
    - **Packed never loses in this table**: it runs one forward, over useful tokens only.

    The author of the posts that this course follows measured the padded form on a GPU: 21 to 34 %
    fewer forward calls, but only 0.91 to 0.96 times the throughput of two forwards
    ([czhou578/nanoGPT-inference](https://github.com/czhou578/nanoGPT-inference)). So count tokens,
    not calls.

    The next table is measured on your machine, with the trained model and a budget of 64. Each
    number is the median of three rounds; the brackets hold the slowest and the fastest round.
    """))
    return


@app.cell(hide_code=True)
def _():
    after("l03.p99", mo.md(packing.live_table(load_model())))
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## Attention in blocks: can two partial results be merged exactly?

    A packed row needs a kernel that attends request by request. For a decode with a context of 30,000
    tokens that is one query against 30,000 keys, and a GPU with more than a hundred processors would
    use one of them. So kernels cut the keys into blocks. **FlashAttention** walks over the blocks and
    keeps a running result, so that the scores never fill memory. **Split-K decoding** gives the blocks
    to different processors and merges their results at the end.

    For the keys of one block, with scores s and values v, attention computes

    ```text
    Z   = the sum of exp(s)
    out = the sum of exp(s) · v, divided by Z
    ```

    The sums run over the keys of that block only. Attention over all keys has one Z for all of them.
    """)
    return


@app.cell(hide_code=True)
def _():
    predict(
        "l03.merge",
        "Two blocks of keys have been attended to separately, and their scores are gone. Each block "
        "returns its output. **What else must it return**, so that the output over all keys can be "
        "computed exactly?",
        (
            "Nothing: the mean of the two outputs is the output over all keys",
            "The number of its keys",
            "Its Z",
            "Nothing helps: the softmax needs all scores at once",
        ),
        2,
        "out · Z is the block's weighted sum, and weighted sums over different keys add up. So the output "
        "over both blocks is (out_a · Z_a + out_b · Z_b) / (Z_a + Z_b). That is one number per query and "
        "head, however long the block is. The number of keys would be enough only if all scores were "
        "equal.",
    )
    return


@app.cell(hide_code=True)
def _():
    after("l03.merge", mo.md(r"""
    One difficulty is left: a score of 89 overflows float32, since exp(89) is larger than its largest
    number. So each block subtracts its own largest score before it takes exponentials, and returns that
    score too. Two blocks then have sums that were computed relative to different numbers.
    """))
    return


@app.cell(hide_code=True)
def _():
    task("l03.merge_attention")
    return


@app.function
def merge_attention(
    out_a: torch.Tensor,
    max_a: torch.Tensor,
    sum_a: torch.Tensor,
    out_b: torch.Tensor,
    max_b: torch.Tensor,
    sum_b: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return `(out, max, sum)`: one query's attention over the keys of both blocks."""
    raise NotImplementedError(
        "Exercise 3b.2: attention over both blocks from the attention over each"
    )


@app.cell(hide_code=True)
def _():
    merge_attempt = attempt("l03.merge_attention", lambda: merge_attention)
    merge_attempt
    return (merge_attempt,)


@app.cell(hide_code=True)
def _():
    hints("l03.merge_attention")
    return


@app.cell(hide_code=True)
def _(exact, merge_attempt):
    Figure(
        packing.merge_chart(exact, merge_attempt),
        "How does the share of an early block change as later blocks are merged?",
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    With your function, the picture merges eight blocks of 16 keys from left to right, for one head of
    the trained model.
    The value of every key only says which block the key is in, so the output is the share of the
    attention weight that each block has. After each merge the shares sum to 1, and they equal those of
    a softmax over all keys so far. A new block with higher scores takes weight from all earlier
    blocks: that is the rescaling. The merge is exact in any order, so blocks may also be computed in
    parallel and merged as a tree.

    ## The limits of packing

    - **Attention needs a kernel that reads `cu_seqlens`.** Without one, an engine loops over the
      requests, as `packed` does, or computes N · K scores, as `single_mask` does.
    - **Merged blocks add in another order.** With other block sizes, or another number of splits, the
      last bits of the output differ.
    - **The shape changes with every step.** A CUDA graph replays kernels of one fixed shape, so
      engines with CUDA graphs pad the flat token count up to a captured size. vLLM captures 1, 2, 4,
      then multiples of 8 up to 248 and of 16 from 256 on, so a step of 61 tokens computes 64. That is
      still far from a rectangle. The engine of this course has no graphs and pads nothing.
    - **The last bits of a result depend on the batch**, with each of these layouts (folded below).

    /// details | Batch invariance: why a request's logits depend on the other requests

    Send one row of numbers through one linear layer of the trained model, in float32, by itself and
    then together with 1 to 63 other rows. Its numbers never change, and yet in 61 of the 63 batches its
    result differs in the last bits (one core of an AMD EPYC). The library may add in a different order
    for a different number of rows, and floating-point sums depend on the order. Usually the text
    changes only where two tokens are nearly tied. To rule even that out, the exact runs of these
    lessons are in float64.

    With `EngineConfig(executor="batch_invariant")` the bits do not depend on the batch, because every
    operation always sees the same shape. Tokens run in tiles of one fixed size, and dummy tokens fill the
    last tile (`nanogpt/executors/batch_invariant.py`). One request generates 40 tokens together with other
    requests. The table counts the tokens whose logits are the same, bit by bit, as when the request is
    the only one. It records one run, whose machine was not noted; on yours, the packed counts and the
    times may differ:

    | together with | packed | batch-invariant | time, relative to packed |
    |:--|--:|--:|--:|
    | one other request | 10 of 40 | 40 of 40 | ×2.6 |
    | four others | 0 of 40 | 40 of 40 | ×4.2 |
    | four others, chunks of at most 7 | 0 of 40 | 40 of 40 | ×3.5 |

    Thinking Machines Lab
    ([*Defeating Nondeterminism in LLM Inference*](https://thinkingmachines.ai/blog/defeating-nondeterminism-in-llm-inference/),
    2025) got 80 different texts from 1,000 greedy completions of one prompt, and a single text with
    batch-invariant kernels. vLLM has `VLLM_BATCH_INVARIANT=1` (beta), SGLang
    `--enable-deterministic-inference`.
    ///

    /// details | Fewer bits: int8

    Without padding, a step consists mostly of useful matrix products, and engines speed these up by
    multiplying in 8 bits or fewer. The table gives the tokens per second of our int8 executor
    (`nanogpt/executors/int8.py`) relative to float32, on one thread of an AMD EPYC
    (`docs/benchmarks/engine.md` has the spread):

    | decodes at once | 1 | 8 | 32 |
    |:--|--:|--:|--:|
    | 10.8 million weights | ×0.68 | ×1.07 | ×1.24 |
    | 0.9 million weights, this course's model | ×0.40 | ×0.58 | ×0.76 |

    int8 is faster where the matrix products are large. Where they are small, rounding their inputs costs
    more time than the 8 bits save. Rounding changes the texts of this course's model.
    ///

    ## What you now know

    - One forward can compute useful tokens only: the step becomes one flat row, and `cu_seqlens_q` and
      `cu_seqlens_k` say where each request's queries and keys begin.
    - Only attention needs these borders. Without them, requests read each other's text.
    - Padding is free while the weight read hides it, and expensive beyond that: in the modelled run
      above, the ITL p99 is 51.7 ms with one padded forward and 12.2 ms with two forwards.
    - Count computed tokens, not model calls.
    - Attention over blocks of keys can be merged exactly from each block's output, largest score and
      sum of exponentials.
    - With CUDA graphs, engines pad the flat row a little, up to a captured size.

    ## The same in vLLM and SGLang

    | here | vLLM | SGLang |
    |:---|:---|:---|
    | the flat row | one token axis for prefill chunks and decodes | the same; chunks and decodes share it with `--enable-mixed-chunk` |
    | `cu_seqlens_q` | `query_start_loc`, `vllm/v1/attention/backend.py` | `qo_indptr` in the FlashInfer backend |
    | `packed` attention | `flash_attn_varlen_func`, `vllm/v1/attention/backends/flash_attn.py` | FlashInfer, FA3 or Triton |
    | `merge_attention` | `merge_attn_states`, `vllm/v1/attention/ops/merge_attn_states.py`, with one number, max + log sum, for max and sum | `merge_state_v2` of its kernels |
    | captured sizes | up to 512, 1,024 on data-centre Blackwell; larger steps run without a graph (`_set_cudagraph_sizes`, `vllm/config/vllm.py`) | decodes of up to 256 or 512 requests on a data-centre GPU; `--disable-cuda-graph-padding` |

    **How the control flow differs.** Our `packed` executor loops over the requests in every layer. vLLM
    and SGLang write `query_start_loc`, the lengths and the block tables once per step, before the
    forward; each layer then calls one kernel for all requests, decodes and chunks alike. That kernel
    decides into how many splits a long context is cut. Where many requests share a long prefix, vLLM
    can attend to the prefix once for all of them and merge (*cascade attention*).

    - **Orca** (Yu et al., OSDI 2022) had the idea and named it *selective batching*: all operations but
      attention run over the tokens of all requests together.
    - **FlashAttention** aligned its causal mask top left before version 2.1, and *to the bottom right
      corner* since then.
    - **SGLang** first ran the whole mixed batch with the prefill attention kernel. Its maintainers call
      this *inefficient* and ask for a second kernel for the decodes
      ([#2273](https://github.com/sgl-project/sglang/issues/2273)).

    *Checked against vLLM 0.33.0 and SGLang 0.5.23, November 2026.*

    ## What comes next

    A step now has one forward and no padding, but each request's K/V still grows with every token. In
    [lesson 4](/?file=l04_sliding_window.py) a sliding window bounds it.
    """)
    return


if __name__ == "__main__":
    app.run()
