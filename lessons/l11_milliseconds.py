import marimo

__generated_with = "0.25.2"
app = marimo.App(width="medium", app_title="11 · Where the milliseconds go")

with app.setup(hide_code=True):
    import marimo as mo

    from course.attempt import attempt, exhibit, piece
    from course.engine_loop import engine_loop
    from course.figure import Figure
    from course.lesson_data import l11_exhibits as exhibits
    from course.lesson_data import l11_quantized as quantized
    from course.lesson_data import l11_step as step
    from course.prediction import after, hints, predict
    from course.task import task
    from nanogpt import Engine, EngineConfig, Request, encode, load_model


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    # 11 · Where the milliseconds go

    *45 minutes. Builds on lessons 0 and 3b: the cost of a step, and packed batches. You write three short
    functions.*

    Afterwards you can

    - say whether memory, arithmetic or the CPU's own work limits a step,
    - compute the shortest time that a step can take on a given machine,
    - explain what CUDA graphs and compiled code save, and why a batch is padded to a captured size,
    - compute what scheduling one step ahead saves,
    - store K/V in 8 bits, and say what it costs and what it gains.

    ## Where does the time of a step go?

    Here is one decode of our model, drawn like a profiler's *flame graph*: each box is as wide as it
    takes time, and below a call stand the calls that it makes.
    """)
    return


@app.cell(hide_code=True)
def _():
    recorded = step.record()
    one_decode = recorded["decode_us"]["packed"]["1"]
    mo.Html(step.flame(one_decode, "One decode, packed executor, recorded", opened=False))
    return one_decode, recorded


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    The times were recorded on one core of a busy AMD EPYC server with a context of about 256 tokens.
    Lesson 0's model of a CPU comes from a quiet machine, on which a step takes less than half as long. So read
    this page's times as ratios.

    Nearly all of the step is `execute`, the forward pass, which the marked line calls. With the packed
    executor of lesson 3b it calls about 120 operators of PyTorch for four layers, one after the other.
    """)
    return


@app.cell(hide_code=True)
def _():
    engine_loop("self.executor.execute(")
    return


@app.cell(hide_code=True)
def _():
    predict(
        "l11.reads",
        "The pass reads 3.2 MB of weights and 1.0 MB of K/V, and this core reads 17 GB per second from "
        "memory. **How much of the step above does the reading explain?**",
        ("Nearly all of it", "About a half", "About a fifth", "Less than a hundredth"),
        2,
        "4.2 MB / 17 GB/s = 0.25 ms, about a fifth. The arithmetic of one decode takes even less: "
        "1.6 million operations at 93 GFLOP/s are 0.02 ms. Most of the step is *launches*: for each "
        "operator PyTorch looks up the code, checks shapes, allocates the result and returns to Python, "
        "and only then comes the next one.",
    )
    return


@app.cell(hide_code=True)
def _(one_decode, recorded):
    after(
        "l11.reads",
        mo.Html(
            step.flame(one_decode, "One decode, packed executor, recorded", opened=True)
            + step.flame(
                recorded["decode_us"]["packed"]["32"],
                "A step of 32 decodes, packed executor, recorded",
                opened=True,
            )
        ),
    )
    return


@app.cell(hide_code=True)
def _():
    after("l11.reads", mo.md(r"""
    - **Launches** is the time of a forward pass with the same operators and hardly any arithmetic: 16
      channels instead of 128. From batch 1 to 32 they do not even double.
    - **Products** is the additional time of the real model at a short context. A step reads the weights
      once for all its requests, so 32 decodes take about 7 times as long here as one.
    - **Attention** is what a context of 256 tokens adds. Each request reads K/V of its own, so this time
      grows with the batch, and at 32 decodes it is more than half of the step. Its arithmetic is small:
      it waits for memory.
    """))
    return


@app.cell
def _():
    model = load_model()
    config = EngineConfig(executor="packed")
    trace = Engine(model, config).run([(0, Request(0, encode("ROMEO:"), 20))])
    mo.md(f"{len(trace.steps)} steps for 20 tokens")
    return (model,)


@app.cell(hide_code=True)
def _(model):
    mo.md(
        "The packed executor on **this machine**, measured just now on one thread, with a context of "
        "about 40 tokens:\n\n" + step.measured_now(model)
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## What does compiling save, and where does it lose?

    `EngineConfig(executor="compiled")` runs the whole forward pass as one function that numba compiled
    to machine code: products, attention, norms and all four layers. It needs numba, the
    optional extra `fast`. This page does not: its measurements were recorded.
    """)
    return


@app.cell(hide_code=True)
def _():
    predict(
        "l11.helps",
        "What makes **one decode** of our model quickest?",
        (
            "A second core",
            "Weights of 8 bits instead of 32",
            "One compiled call instead of 120 operators",
            "A processor that multiplies twice as fast",
        ),
        2,
        "The compiled call: about four times as fast. The other three only speed up reading or arithmetic, "
        "and launches are two thirds of this step. 8-bit weights even make it slower here: each product "
        "then rounds its inputs first, which takes more operators.",
    )
    return


@app.cell(hide_code=True)
def _(recorded):
    after("l11.helps", mo.md(rf"""
    {step.phases_table(recorded, "packed", "compiled")}

    - The table has microseconds of the recorded steps. The compiled executor's launches are one call
      from Python and the lists that this call needs.
    - **It wins for small batches.** One decode is about four times as fast. At 32 decodes the gain is
      about a third, because reading K/V takes most of the time, and both executors read all of it.
    - **A chunk of 200 tokens** gains about as little: its step is compute-bound.
    - **The first call takes about 15 s of CPU time**, in which numba compiles. Later processes read the machine
      code from a file.
    - **It is harder to change.** No debugger steps into it, and a mask of your own needs other compiled
      code. With such a mask, the engine falls back to the packed executor and warns you.
    """))
    return


@app.cell(hide_code=True)
def _(recorded):
    mo.md(rf"""
    /// details | A real vocabulary: what does sampling cost?

    In the flame, *sample* is 4 % of the step: our vocabulary has 65 characters. Qwen3's has 151,936 tokens.
    Recorded on one core of the same busy server, with one row of random logits: CPU time, the quickest of 101.

    {step.sampling_table(recorded)}

    Greedy reads the row once. A temperature takes the softmax and the cumulative sums of the row, in float64.
    `top_p` ranks all tokens; after a `top_k` of 50 only 50 are left to rank, so both together are quicker than
    `top_p` by itself. A penalty comes before all this: it changes only the logits of tokens in the text, here 50.

    For eight requests with `top_p` that is 136 ms per step. In 69 ms this core could read all weights of
    Qwen3-0.6B, 1.2 GB in 16 bits. So engines sample on the GPU. vLLM sorts the rows of small batches, and from 8
    rows on a Triton kernel filters them (`vllm/v1/sample/ops/topk_topp_sampler.py`, autumn of 2026).
    ///

    ## The roofline: how quick can a step be?

    With the launches gone, two limits are left. A step has to read its weights and its K/V, and it has
    to compute. As in `capacity` (exercise 0.4), it takes the longer of these two times, and overhead is
    left out. `docs/costs.md` compares this model with the course's others. Here you derive both times from
    the model's size. An H100 computes 989 TFLOP/s in bf16
    without sparsity and reads 3.35 TB/s. One FLOP is one multiplication or one addition.
    """)
    return


@app.cell(hide_code=True)
def _():
    task("l11.roofline")
    return


@app.function
def roofline(
    num_weights: int,
    weight_bits: int,
    num_tokens: int,
    kv_bytes: int,
    flops_per_us: float,
    bytes_per_us: float,
) -> tuple[float, str]:
    """Return `(time_us, bound)` of one step, where bound is "memory" or "compute"."""
    raise NotImplementedError("Exercise 11.1: how long does the step take at least?")


@app.cell(hide_code=True)
def _():
    roofline_attempt = attempt("l11.roofline", lambda: roofline)
    roofline_attempt
    return (roofline_attempt,)


@app.cell(hide_code=True)
def _():
    hints("l11.roofline")
    return


@app.cell(hide_code=True)
def _(roofline_attempt):
    Figure(
        step.roofline_chart(roofline_attempt),
        "Which of these steps use the GPU's arithmetic, and which wait for its memory?",
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    The horizontal axis is the **arithmetic intensity**: operations per byte read. Left of the corner, at
    295 operations per byte, a step is memory-bound, and right of it compute-bound.

    - **A chunk** of n tokens has an intensity of about n, because all its tokens share one read of the
      weights. From about 295 tokens on it is compute-bound.
    - **A batch of decodes** shares the weights too, but each request reads K/V of its own, here of 1,000
      tokens. So its intensity approaches 122 and never reaches the corner, however large the batch is.
    """)
    return


@app.cell(hide_code=True)
def _(recorded, roofline_attempt):
    mo.md(step.bounds_table(roofline_attempt, recorded))
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    *Measured* is the time of the forward pass for the decode, and of the whole step for the chunk. The
    one core computes about 90 GFLOP/s and reads about 17 GB/s from memory. Our weights fit into its
    cache, which is faster than memory, so a decode may beat this bound. Attention's arithmetic is left
    out; at 256 tokens of context it is a third of the products'.

    Half as many bits per weight halve the time of a memory-bound step, and change nothing about a
    compute-bound one.

    ## CUDA graphs: one launch for a whole pass

    A GPU has the same problem as our laptop. A decode of an 8B model launches hundreds of kernels, and
    the CPU may need longer to launch them than the GPU to run them. A **CUDA graph** is a recording: the
    CPU captures all launches of a pass once and replays them with a single call.

    A replay repeats exactly what was captured: the same kernels, the same addresses, the same **shapes**.
    So an engine captures graphs for some batch sizes when it starts, copies a step's inputs into fixed
    buffers, and pads the batch up to the smallest captured size that holds it. Beyond the largest size it
    runs the pass *eagerly*, kernel by kernel; such a step has so much arithmetic that launches hardly
    matter. Here are six requests in the real engine, with an executor that imitates graphs of 1, 2 and 4
    rows:
    """)
    return


@app.cell(hide_code=True)
def _(model):
    mo.md(exhibits.replay_table(model, exhibits.smallest_that_fits)[0])
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    **What can be captured?** Kernels whose shapes and addresses do not change. Products, norms and
    sampling on the GPU qualify once the batch has a fixed size. These do not:

    - **Attention over sequences of different lengths**, unless its kernel reads the lengths from memory. A
      *full* graph needs such a kernel. *Piecewise* graphs leave attention out: they capture the pieces
      between the attentions, and attention runs eagerly.
    - **Decisions of the CPU**: which requests run, which are preempted, which text ends.
    - **Shapes that depend on data**, such as the number of accepted draft tokens.

    ## Async scheduling: what can be planned before the last token is known?

    While the GPU executes a step, our scheduler waits for its tokens. Then the GPU waits for the
    scheduler. With **async scheduling** the engine schedules step n + 1 while step n executes:

    | known before step n is done | not known yet |
    |:--|:--|
    | this request decodes one more token | the token itself: a placeholder stands for it on the CPU |
    | its K/V slot, and whether it needs a new block | whether the token ends the text or completes a stop string |
    | requests that arrived, chunks of prompts | how many draft tokens were accepted |

    If a text has ended, the step that was scheduled ahead computes one surplus token for it, which is
    thrown away.
    """)
    return


@app.cell(hide_code=True)
def _():
    predict(
        "l11.ahead",
        "Executing a step takes 5 ms on the GPU, and scheduling it 1, 5 or 10 ms on the CPU. **In which case "
        "does async scheduling save most per step?**",
        (
            "1 ms: it hides completely",
            "5 ms: as long as the execution",
            "10 ms: there is most to hide",
            "5 ms and 10 ms save the same",
        ),
        3,
        "5 and 10 ms save the same. Side by side, two things take as long as the longer one, so a step saves "
        "the **shorter** of the two times: 1 ms in the first case and 5 ms in the others. Relative to the "
        "step it saves most where both are equal: 5 of 10 ms. With a schedule of 10 ms the GPU still "
        "waits half of the time.",
    )
    return


@app.cell(hide_code=True)
def _():
    task("l11.overlap")
    return


@app.function
def overlap(schedule_us: int, execute_us: int, num_steps: int, async_scheduling: bool) -> int:
    """Return how many microseconds the steps take."""
    raise NotImplementedError("Exercise 11.2: how long do the steps take?")


@app.cell(hide_code=True)
def _():
    overlap_attempt = attempt("l11.overlap", lambda: overlap)
    overlap_attempt
    return (overlap_attempt,)


@app.cell(hide_code=True)
def _():
    hints("l11.overlap")
    return


@app.cell(hide_code=True)
def _(overlap_attempt):
    after(
        "l11.ahead",
        Figure(
            step.overlap_chart(overlap_attempt), "Up to where does a longer schedule cost nothing?"
        ),
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## What do 8-bit weights and K/V change?

    `Int8Executor` stores the layers' weights in 8 bits and rounds the inputs of each product too. No
    executor stores K/V in 8 bits: for the table's last row, each head's numbers were rounded to 8 bits
    and kept in float32, which shows the effect on the texts but not on the time. *Same next token*: how
    often the greedy token is that of float32, after the same text, at 512 positions.

    | | weights of the layers | K/V per token | step, batch 1 | step, batch 32 | same next token |
    |:--|--:|--:|--:|--:|--:|
    | float32 | 3.15 MB | 4,096 B | 1.28 ms | 7.26 ms | 100% |
    | 8-bit weights | 0.80 MB | 4,096 B | 2.91 ms | 8.44 ms | 89.8% |
    | 8-bit K/V | 3.15 MB | 1,152 B | not built | not built | 98.6% |

    - **A quarter of the bytes**, and of the memory traffic. On the H100 above, a decode with 8-bit
      weights takes half the time of one with 16-bit weights.
    - **On our small model it loses time**, because launches limit the step, and rounding inputs adds
      launches. It pays where reading or arithmetic is the limit (`docs/benchmarks.md` has a model on
      which it does).
    - **The texts change.** A near-tie between two tokens falls the other way, and from there on the texts
      differ.

    Now write the rounding of K/V. An engine does it when it writes a block, with one **scale** for each
    head: the numbers of one head are alike, and those of two heads need not be.
    """)
    return


@app.cell(hide_code=True)
def _():
    task("l11.quantize_kv")
    return


@app.function
def quantize_kv(block: list[list[float]]) -> tuple[list[list[int]], list[float]]:
    """Return `(quantized, scales)`: whole numbers from -127 to 127, and the scale of each head."""
    raise NotImplementedError("Exercise 11.3: what is stored of a block of K or V?")


@app.cell(hide_code=True)
def _():
    quantize_attempt = attempt("l11.quantize_kv", lambda: quantize_kv)
    quantize_attempt
    return (quantize_attempt,)


@app.cell(hide_code=True)
def _():
    hints("l11.quantize_kv")
    return


@app.cell(hide_code=True)
def _(model, quantize_attempt):
    mo.md(quantized.quantized_table(quantize_attempt, model))
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    All K/V of one text went through your function, in blocks of 16 tokens, and the greedy next token was
    computed at every position. The last column is computed: requests of 2,000 tokens whose K/V fits
    beside the 8B model's 16-bit weights in 80 GB. A scale takes 4 bytes, so nearly twice as many fit. In
    our model the heads are alike, and one scale for a whole block would change no more tokens; a model
    with a few very large numbers in one head needs a scale for each.

    ## Break it

    Two defects. Look at the symptom, decide what is wrong, then **repair the function in its cell**.

    ### Exhibit A: texts that get stuck

    This function chooses the graph for the same six requests.
    <span data-yours="exhibit"></span>
    """)
    return


@app.function
def smaller_graph(num_tokens, captured):
    """The largest graph that the tokens fill: it computes no padding."""
    return max(size for size in captured if size <= num_tokens)


@app.cell(hide_code=True)
def _(model):
    _symptoms, is_padded = exhibits.replay_table(model, piece(lambda: smaller_graph))
    mo.md(_symptoms)
    return (is_padded,)


@app.cell(hide_code=True)
def _():
    predict(
        "l11.stale",
        "Some texts repeat one character, others are right. **What is broken?**",
        (
            "The K/V of two requests is mixed up",
            "Some rows read logits that an earlier replay left",
            "Padding rows take part in attention",
            "The graph was captured with other weights",
        ),
        1,
        "The graph has fewer rows than the step. The last rows are never computed, and the fixed buffer still "
        "holds the logits of an earlier step, so these requests sample from old logits. The **padding rows** "
        "column is negative. In a real engine this raises no error either: the addresses are valid.",
    )
    return


@app.cell(hide_code=True)
def _(is_padded):
    after(
        "l11.stale",
        mo.md(
            "**Repaired.** Every row of a step is computed."
            if is_padded
            else "**Still broken.** Some rows of a step are not computed."
        ),
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ### Exhibit B: faster than the roofline

    A benchmark times one decode of the 8B model on a modelled H100. `launch` gives the GPU its work and
    returns, `synchronize` waits until the GPU has done it.
    <span data-yours="exhibit"></span>
    """)
    return


@app.function
def time_step(launch, synchronize, clock_us):
    """How many microseconds a step takes."""
    start = clock_us()
    launch()
    return clock_us() - start


@app.cell(hide_code=True)
def _():
    benchmark_table, waited = exhibits.benchmark(piece(lambda: time_step))
    mo.md(benchmark_table)
    return (waited,)


@app.cell(hide_code=True)
def _():
    predict(
        "l11.too_fast",
        "The step is 16 times as fast as its memory allows. **What was measured?**",
        (
            "The launch, not the step",
            "A step whose weights were in the cache",
            "A batch of 16 requests",
            "A graph that was captured before",
        ),
        0,
        "The launch. A GPU works asynchronously: `launch` returns before the step has been computed. Call "
        "`synchronize` before you read the clock. Lesson: compute the roofline before you believe a "
        "measurement. A time below it is a miracle or a mistake.",
    )
    return


@app.cell(hide_code=True)
def _(waited):
    after(
        "l11.too_fast",
        mo.md(
            "**Repaired.** The launch and the computing take 5.6 ms together, more than the bound."
            if waited
            else "**Still broken.** The clock stops before the GPU has computed the step."
        ),
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## What you now know

    - Reading and arithmetic need about a fifth of a small model's decode. The rest is mostly launches and
      Python, which fewer bytes or quicker arithmetic do not shorten.
    - A step takes at least the larger of two times: the bytes it reads over the bandwidth, and the
      operations it computes over the peak. The time above that is overhead, kernels that run below the
      peak, and kernels that do not overlap.
    - Chunks are compute-bound from a few hundred tokens on. Decodes of the 8B model on an H100 stay
      memory-bound in any batch if each request has more than about 413 tokens of K/V.
    - Compiled code and CUDA graphs remove launches, and so they help small batches most. A graph has fixed
      shapes, so a batch is padded up to a captured size.
    - Async scheduling hides whichever of schedule and execution is shorter, at the price of one surplus token per
      text.

    ## The same in vLLM and SGLang

    | here | vLLM | SGLang |
    |:--|:--|:--|
    | the compiled executor | `torch.compile`, on by default: `-O0` to `-O3`, default `-O2` | `--enable-torch-compile`, off by default |
    | graphs | `cudagraph_mode`, default `FULL_AND_PIECEWISE`: full graphs for steps of decodes, piecewise ones for all others | decode `full`, prefill `breakable`: `--cuda-graph-backend-decode`, `--cuda-graph-backend-prefill` |
    | eager | `--enforce-eager` | both backends `disabled`; `--disable-cuda-graph` still works and is deprecated |
    | captured sizes | `cudagraph_capture_sizes`: 1, 2, 4, then every 8 below 256, then every 16 up to 512, or 1,024 on data-centre Blackwell; `vllm/v1/cudagraph_dispatcher.py` | `--cuda-graph-bs-decode`: 1, 2, 4, 8, 12, then every 8 up to 256, up to `--cuda-graph-max-bs-decode` |
    | `overlap` | `--async-scheduling`, the default since 0.14 ([#27614](https://github.com/vllm-project/vllm/pull/27614)); `AsyncScheduler`; off: `--no-async-scheduling` | `event_loop_overlap`, the default; off: `--disable-overlap-schedule` |
    | 8-bit weights, `quantize_kv` | `--quantization fp8`, `--kv-cache-dtype fp8` | `--quantization fp8`, `--kv-cache-dtype fp8_e4m3` |

    - **How the control flow differs.** Our loop waits for a step's tokens before it schedules the next
      one. vLLM's `step_with_batch_queue` and SGLang's `event_loop_overlap` schedule and launch step n + 1
      first, and only then read the tokens of step n, so stops and finished requests are handled one step
      late.
    - **8-bit K/V** is FP8 by default there, with one scale per layer unless the checkpoint has more:
      8-bit floats keep small numbers without a scale of their own.
    - **How much the CPU can cost.** vLLM's
      [#6854](https://github.com/vllm-project/vllm/issues/6854) (2024) measured pauses of 5 to 13 ms
      between decodes, in which the GPU waited for Python. Async scheduling
      ([#19970](https://github.com/vllm-project/vllm/pull/19970), after
      [NanoFlow](https://arxiv.org/abs/2408.12757)) is one of its answers.
    - A `breakable` graph is cut where something cannot be captured, as piecewise graphs are.
    - vLLM lowers `cudagraph_mode` by itself if the attention kernel cannot be captured
      (`AttentionCGSupport`).

    *Checked against vLLM 0.33.0 and SGLang 0.5.23, November 2026.*

    ## What comes next

    In [lesson 12](/?file=l12_on_call.py) you read an engine from outside: eight tickets to diagnose.
    `python -m benchmarks.step_time` records all times of this page on your machine, and
    `nanogpt/executors/kernel.py` is the forward pass as one compiled call.
    """)
    return


if __name__ == "__main__":
    app.run()
