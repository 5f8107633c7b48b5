import marimo

__generated_with = "0.25.2"
app = marimo.App(width="medium", app_title="1 · Chunked prefill")

with app.setup(hide_code=True):
    from collections.abc import Callable

    import marimo as mo

    from course.attempt import attempt
    from course.lazy import torch
    from course.prediction import after, hints, predict
    from course.task import task


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    # 1 · Chunked prefill

    *60 minutes. Builds on lesson 0: the KV cache, continuous batching, TTFT and ITL. You write five
    functions.*

    Afterwards you can cut a prompt into chunks without changing a single token of its text, plan a
    step under a token budget, choose that budget, and say when chunking does not pay.

    ## What does a long prompt do to the others?

    Four people are reading. Each has a stream of text, one new token per step, and the steps are
    short. Then a fifth person sends a prompt of 400 tokens.

    The engine of lesson 0 computes a prompt whole, in one step, beside the decodes. That step takes
    as long as 400 tokens take. What do the four readers see in the meantime?
    """)
    return


@app.cell(hide_code=True)
def _():
    from course.lesson_data.l01_chunks import (
        bill,
        budget_verdict,
        changed_by_chunks,
        drawn_masks,
        one_tiny_layer,
        picked_budget,
        pristine_workspace,
        six_requests,
        texts_table,
    )
    from course.lesson_data.l01_exhibits import (
        flips_by_layers,
        flips_table,
        late_guest,
        text_by_chunk_size,
    )
    from course.replay import replays
    from nanogpt import Engine, EngineConfig, Policies, Request, load_model, planning
    from nanogpt.clock import LARGE_GPU, SERVER_CPU, CostClock, WallClock
    from nanogpt.experiments.trace_metrics import request_metrics, summary
    from nanogpt.experiments.whole_prompts import plan_whole_prompts
    from nanogpt.policies import masks
    from widgets import MaskStepper, Timeline, whose

    return (
        CostClock,
        Engine,
        EngineConfig,
        LARGE_GPU,
        MaskStepper,
        Policies,
        SERVER_CPU,
        Timeline,
        WallClock,
        bill,
        budget_verdict,
        changed_by_chunks,
        drawn_masks,
        flips_by_layers,
        flips_table,
        late_guest,
        load_model,
        masks,
        one_tiny_layer,
        picked_budget,
        plan_whole_prompts,
        planning,
        pristine_workspace,
        replays,
        request_metrics,
        six_requests,
        summary,
        text_by_chunk_size,
        texts_table,
        whose,
    )


@app.cell
def _(
    CostClock,
    Engine,
    EngineConfig,
    LARGE_GPU,
    Policies,
    load_model,
    plan_whole_prompts,
    pristine_workspace,
):
    model = load_model()
    whole_prompts = Policies(plan_step=plan_whole_prompts)
    chunks = Policies()  # the reference plan

    def serve(clock, policies):
        """The trace of the five requests on the trained model, each step charged by a clock."""
        limits = EngineConfig(token_budget=32)  # the plan of whole prompts does not look at it
        return Engine(model, limits, policies, clock=CostClock(clock)).run(pristine_workspace())

    whole_gpu = serve(LARGE_GPU, whole_prompts)
    return chunks, model, serve, whole_gpu, whole_prompts


@app.cell(hide_code=True)
def _(Timeline, whole_gpu):
    Timeline(
        whole_gpu.to_json(),
        title="Whole prompts, times modelled on a large GPU",
        axis="time",
        question="What do the four readers see while the prompt is computed?",
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    A step is as wide here as it is long. (**Width shows time** switches to one column per step,
    where the letters can be read.) Each stream has one hole in it, at the step that computed
    the prompt. No stream failed, no error was logged, throughput looks fine. Four people
    stared at a frozen screen.

    The times are *modelled*: the engine really ran our small model, and a clock charged each step
    what it would cost an 8-billion-parameter model on a data-centre GPU, one of our prompt tokens
    standing for 16 of a real prompt. The formula and its five numbers are in `nanogpt/clock.py`.

    The idea of this lesson: **cut the prompt into chunks**, one per step, beside the decodes. No step
    may compute more than a **token budget**. With a budget of 32 and four decodes, 28 tokens are
    left for the prompt, so 400 tokens take 15 steps instead of one.
    """)
    return


@app.cell(hide_code=True)
def _(
    LARGE_GPU,
    SERVER_CPU,
    changed_by_chunks,
    chunks,
    serve,
    whole_gpu,
    whole_prompts,
):
    chunked_gpu = serve(LARGE_GPU, chunks)
    whole_cpu, chunked_cpu = serve(SERVER_CPU, whole_prompts), serve(SERVER_CPU, chunks)
    predict(
        "l01.what_improves",
        "The budget is 32. On the modelled GPU and on a CPU: which of throughput, mean TTFT and "
        "worst gap between two tokens does chunking **improve**?",
        (
            "All three, on both machines",
            "The worst gap on both; throughput and mean TTFT on neither",
            "The worst gap on both; throughput on the GPU alone; mean TTFT on neither",
            "Throughput and worst gap on both; mean TTFT on neither",
        ),
        2,
        changed_by_chunks((whole_gpu, chunked_gpu), (whole_cpu, chunked_cpu))
        + "\nOn the GPU a step with four decodes reads all the weights and computes next to "
        "nothing: a chunk fills arithmetic that was idle. On a CPU nothing was idle. The "
        "newcomer pays on both: its prompt now shares every step with four decodes.",
    )
    return chunked_cpu, chunked_gpu, whole_cpu


@app.cell(hide_code=True)
def _(Timeline, chunked_gpu, whole_gpu):
    after(
        "l01.what_improves",
        Timeline(
            whole_gpu.to_json(),
            chunked_gpu.to_json(),
            names=("whole", "chunks"),
            title="The same wall time twice, modelled on a large GPU",
            axis="time",
            question="Where has the hole gone?",
        ),
    )
    return


@app.cell(hide_code=True)
def _():
    after(
        "l01.what_improves",
        mo.md(r"""
    The same requests, the same tokens, the same text, the same axis of time. The long hole has
    become fifteen thin slices, and in every one of them all four readers get a token. The lines
    under the buttons say each step in words; the bars show how many tokens it computed.

    Now the same two plans at the cost of **a CPU**, fitted to measured steps of our own model and
    therefore modelled too. The picture is alike, the scale is not: here a prompt token is one
    token, and there is no large weight read that a chunk could hide behind.
    """),
    )
    return


@app.cell(hide_code=True)
def _(Timeline, chunked_cpu, whole_cpu):
    after(
        "l01.what_improves",
        Timeline(
            whole_cpu.to_json(),
            chunked_cpu.to_json(),
            names=("whole", "chunks"),
            title="The same two plans, times modelled on a CPU",
            axis="time",
            question="Which run is over first here?",
        ),
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## Build it

    Four functions make the engine chunk: how much, which keys are seen, what goes in, and which request gets what.
    Write each in its cell in place of the `raise` line and run the cell (Ctrl+Enter). The check
    below it answers at once. Hints open one at a time.

    ### How large may the chunk be?

    Decodes go first and take one token each. A prompt gets what they leave, but no more than it
    still needs. There can be more decodes than the budget holds.
    """)
    return


@app.cell(hide_code=True)
def _():
    task("l01.chunk_size")
    return


@app.function
def chunk_size(token_budget: int, num_decodes: int, remaining: int) -> int:
    """Return how many prompt tokens one request may prefill in this step."""
    raise NotImplementedError("Exercise 1.1: how many prompt tokens fit into this step?")


@app.cell(hide_code=True)
def _():
    size_attempt = attempt("l01.chunk_size", lambda: chunk_size)
    size_attempt
    return


@app.cell(hide_code=True)
def _():
    hints("l01.chunk_size")
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ### Which keys may a token see?

    A decode needed no mask: one new token, and everything in the cache lies before it. A whole
    prompt needed the triangle you know from training. A chunk is a bit of both: several new
    tokens *and* a past.

    The last token of a chunk may see everything there is. And only the last row's logits are ever
    used. So do we need a mask for the rows above it at all? Decide before you go on.
    """)
    return


@app.cell(hide_code=True)
def _():
    predict(
        "l01.poisoned_rows",
        "A prompt's second chunk of 8 tokens runs **without a causal mask**: all 8 rows see all keys. "
        "The last row may see them anyway. Are the last row's logits right?",
        (
            "Yes: its own view is exactly what it should be",
            "Yes in a model with one layer, no from two layers on",
            "No, whatever the number of layers",
        ),
        1,
        "In the first layer the last row does what it should, because its keys and values come from "
        "embeddings, which know nothing of the mask. But the 7 rows above it looked into their future, "
        "so what they hand to layer two is wrong, and layer two's **keys and values** are made of it. The "
        "last row reads those. So do all tokens that follow: the wrong K/V stay in the cache. You "
        "will measure it below.",
    )
    return


@app.cell(hide_code=True)
def _():
    task("l01.chunk_mask")
    return


@app.function
def chunk_mask(context_len: int, num_scheduled_tokens: int) -> torch.Tensor:
    """Return which keys each token of a chunk may attend to: a bool tensor (T, S)."""
    raise NotImplementedError("Exercise 1.2: which keys may each token of the chunk see?")


@app.cell(hide_code=True)
def _():
    mask_attempt = attempt("l01.chunk_mask", lambda: chunk_mask)
    mask_attempt
    return (mask_attempt,)


@app.cell(hide_code=True)
def _():
    hints("l01.chunk_mask")
    return


@app.cell(hide_code=True)
def _(MaskStepper, drawn_masks, mask_attempt):
    MaskStepper(
        drawn_masks(mask_attempt),
        title="chunk_mask(4, 3): three new tokens after four",
        question="Which keys does each of the three new tokens see?",
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ### What goes into the model?

    The model takes token ids and their positions. A chunk from the middle of a prompt is not a
    short prompt: its first token does not stand at position 0. And the logits after it predict a
    token that the prompt already holds, so there is nothing to sample. When is there?
    """)
    return


@app.cell(hide_code=True)
def _():
    task("l01.chunk_inputs")
    return


@app.function
def chunk_inputs(
    tokens: list[int], num_computed_tokens: int, num_scheduled_tokens: int
) -> tuple[list[int], list[int], bool]:
    """Return `(ids, positions, sample)`: what the model is fed for one chunk of one request."""
    raise NotImplementedError("Exercise 1.3: ids, positions, and whether to sample")


@app.cell(hide_code=True)
def _():
    inputs_attempt = attempt("l01.chunk_inputs", lambda: chunk_inputs)
    inputs_attempt
    return (inputs_attempt,)


@app.cell(hide_code=True)
def _():
    hints("l01.chunk_inputs")
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ### Which request gets what?

    This is the heart of the engine. Once per step it is told what could run, and says which request
    computes how many tokens. Nothing else in the engine decides anything about order.

    The rules are on the card, because another plan would be legal too: prompts first, equal
    shares, shortest first. This one is called *stall-free*: a decode never waits for a prompt.
    """)
    return


@app.cell(hide_code=True)
def _():
    task("l01.plan_step")
    return


@app.function
def plan_step(
    decodes: list[int],
    prefilling: list[tuple[int, int]],
    waiting: list[tuple[int, int]],
    token_budget: int,
) -> list[tuple[int, int]]:
    """Return the plan of one step: a list of (id, n), request `id` computes `n` tokens."""
    raise NotImplementedError("Exercise 1.4: which request computes how many tokens?")


@app.cell(hide_code=True)
def _():
    plan_attempt = attempt("l01.plan_step", lambda: plan_step)
    plan_attempt
    return (plan_attempt,)


@app.cell(hide_code=True)
def _():
    hints("l01.plan_step")
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## Your engine, on real Shakespeare

    Six requests, some short, some long, arriving at different steps. The engine is the one from
    `nanogpt/engine.py`; your functions go in through `Policies`, as soon as you have written them,
    right or wrong. They run under a time limit, and a plan that breaks the rules of the game is
    refused with a sentence before anything changes.
    """)
    return


@app.cell
def _(
    CostClock,
    Engine,
    EngineConfig,
    LARGE_GPU,
    load_model,
    replays,
    six_requests,
):
    exact = load_model().double()  # in float64 rounding can flip no token
    sampled = EngineConfig(token_budget=32, temperature=0.8, seed=1)
    run_with = replays(
        lambda policies: Engine(exact, sampled, policies, clock=CostClock(LARGE_GPU)), six_requests
    )
    reference_trace = run_with.reference
    return exact, reference_trace, run_with, sampled


@app.cell
def _(
    Policies,
    Timeline,
    inputs_attempt,
    mask_attempt,
    masks,
    plan_attempt,
    planning,
    reference_trace,
    run_with,
):
    attempts = {
        "plan_step": plan_attempt,
        "chunk_mask": mask_attempt,
        "chunk_inputs": inputs_attempt,
    }
    yours = Policies(
        plan_step=plan_attempt.or_reference(planning.plan_step),
        chunk_mask=mask_attempt.or_reference(masks.chunk_mask),
        chunk_inputs=inputs_attempt.or_reference(planning.chunk_inputs),
    )
    your_trace = run_with(yours)
    Timeline(
        your_trace.to_json(),
        reference_trace.to_json(),
        yours=any(each.started for each in attempts.values()),
        title="Six requests, times modelled on a large GPU",
        question="Which request computes how many tokens in which step?",
    )
    return attempts, your_trace


@app.cell(hide_code=True)
def _(attempts, exact, reference_trace, sampled, texts_table, your_trace):
    mo.md(texts_table(attempts, exact, sampled, your_trace, reference_trace))
    return


@app.cell
def _(
    CostClock,
    Engine,
    LARGE_GPU,
    exact,
    sampled,
    six_requests,
    whole_prompts,
):
    whole_six = Engine(exact, sampled, whole_prompts, clock=CostClock(LARGE_GPU)).run(six_requests())
    return (whole_six,)


@app.cell(hide_code=True)
def _(attempts, whole_six, whose, your_trace):
    from course.figure import Figure, stopped
    from nanogpt.figures.curves import latencies

    _runs = {
        f"plan: {whose(any(each.started for each in attempts.values()))}": your_trace,
        "whole prompts": whole_six,
    }
    Figure(
        stopped(_runs.values()) or latencies(_runs, "How the waits of those six are spread"),
        "Which requests wait longer for their first token, and which tokens come sooner?",
    )
    return (Figure,)


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    Try a plan that is legal and different, and watch the timeline draw *that* plan: serve
    `waiting` before `prefilling`, or give every prompt at most 4 tokens a step. The check will
    complain; the texts will not change by a letter. *When* a token is computed is a matter of
    taste and latency. *What* it sees is a matter of truth.

    ## Break it

    Two real defects, both from the code of the posts that this course grew from
    ([czhou578/nanoGPT-inference](https://github.com/czhou578/nanoGPT-inference)). You get the
    symptom first. Decide what is wrong before you open the answer.

    ### Exhibit A: the text that depends on the chunk size

    One prompt, one set of weights, greedy decoding, one request alone. Only the chunk size changes.
    """)
    return


@app.cell(hide_code=True)
def _(model, text_by_chunk_size):
    mo.md(text_by_chunk_size(model))
    return


@app.cell(hide_code=True)
def _():
    predict(
        "l01.exhibit_a",
        "Chunks of 1 are right, and so is the whole prompt of 40 in one chunk. Everything between is "
        "wrong. **What is broken?**",
        (
            "Rounding: float32 sums in another order",
            "Positions start again at 0 in every chunk",
            "The mask of every chunk but the first",
            "A token is sampled after every chunk",
        ),
        2,
        "Look at what is right. A chunk of 1 has one row, and that row may see everything: no mask can "
        "hurt it. A whole prompt is a first chunk, with nothing before it. What is wrong needs **several "
        "rows and a past**. Restarted positions would spoil chunks of 1 too; rounding flips a near-tie now and "
        "then, not three texts of three; an early sample would add a token to the text.",
    )
    return


@app.cell(hide_code=True)
def _():
    after(
        "l01.exhibit_a",
        mo.md(r"""
    The published code took a branch without a mask whenever there was a cache: *no causal mask
    needed, T = 1*. The comment was true of decodes. Then continuation chunks took the same branch.
    """),
    )
    return


@app.cell(hide_code=True)
def _(MaskStepper, drawn_masks):
    after(
        "l01.exhibit_a",
        MaskStepper(
            drawn_masks(None),
            title="The second chunk of 8 tokens",
            question="Which rows see keys that lie in their future?",
        ),
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    How often does it matter? Here are prefills in chunks of 8 with exhibit A's defect, in models of
    one, two and four layers. It answers the question that stood above exercise 1.2, too.
    """)
    return


@app.cell(hide_code=True)
def _(flips_by_layers, flips_table, model):
    after("l01.poisoned_rows", mo.md(flips_table(flips_by_layers(model))))
    return


@app.cell(hide_code=True)
def _():
    after(
        "l01.poisoned_rows",
        mo.md(r"""
        With one layer the difference is exactly 0: not small, none. A test on a one-layer model would have
        passed. So would a test with whole prompts, or with chunks of one token. What finds this defect is
        the dull test: *the same text, whatever the chunk size*.
        """),
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ### Exhibit B: late to the party

    Two streams are running. Request 2 arrives at step 3 with a prompt of 9 tokens, and the
    budget is 32. Step through it, and look at the budget bars.
    """)
    return


@app.cell(hide_code=True)
def _(Timeline, late_guest, model):
    late, on_time = late_guest(model)
    Timeline(
        late.to_json(),
        title="Exhibit B, times modelled on a large GPU",
        question="What does request 2 wait for?",
    )
    return late, on_time


@app.cell(hide_code=True)
def _(late, on_time, request_metrics):
    def _guest(trace):
        first = next(
            step.step for step in trace.steps if any(work.request_id == 2 for work in step.work)
        )
        return first, request_metrics(trace, 2).ttft_us / 1000

    (_late, _late_ms), (_soon, _soon_ms) = _guest(late), _guest(on_time)

    predict(
        "l01.exhibit_b",
        f"Request 2 arrives at step 3 and first computes at step {_late}. **What is broken?**",
        (
            "The budget is too small for its prompt beside two decodes",
            "First come, first served: it has to wait for those before it",
            "Arrivals are looked at only when nothing else runs",
            "Its prompt was cut into chunks that were too small",
        ),
        2,
        "The bars say it: 2 of 32 tokens used, step after step, while a request waits. First come, first served "
        "is about the order, not about leaving the rest empty. In the published loop (`nanogpt-chunked-prefill.py`) the line "
        "`step += 1` stood outside the loop, so time stood still until the engine ran dry, and only "
        "then was the next arrival seen. The same requests under the reference: request 2 starts at step "
        f"{_soon}, and its TTFT is {_soon_ms:.3g} ms instead of {_late_ms:.3g} ms (modelled).",
    )
    return


@app.cell(hide_code=True)
def _():
    after(
        "l01.exhibit_b",
        mo.md(r"""
    Every text in Exhibit B is right. Every request finishes. Throughput, measured with all requests
    sent at once, is perfect. Continuous batching has quietly become static batching, and only TTFT
    under arrivals shows it.
    """),
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## Measure it

    Now the bill. Whole prompts against chunks at several budgets, for the five requests from the
    top of this page. The first two tables are computed by a cost clock; such a clock charges for
    the plan and not for the weights, so a model of one tiny layer gives the very same times.
    """)
    return


@app.cell
def _(
    CostClock,
    Engine,
    EngineConfig,
    LARGE_GPU,
    SERVER_CPU,
    chunks,
    one_tiny_layer,
    pristine_workspace,
    summary,
    whole_prompts,
):
    tiny = one_tiny_layer()
    BUDGETS = (8, 16, 32, 64, 128)

    def run_once(some_model, clock, policies, token_budget):
        """One run of the five requests, in numbers."""
        limits = EngineConfig(token_budget=token_budget)
        return summary(Engine(some_model, limits, policies, clock=clock).run(pristine_workspace()))

    def measure(some_model, make_clock, budgets=BUDGETS):
        """Whole prompts, and then chunks with each budget."""
        runs = {"whole prompts": run_once(some_model, make_clock(), whole_prompts, 16)}
        for budget in budgets:
            runs[f"chunks, budget {budget}"] = run_once(
                some_model, make_clock(), chunks, budget
            )
        return runs

    on_gpu = measure(tiny, lambda: CostClock(LARGE_GPU))
    on_cpu = measure(tiny, lambda: CostClock(SERVER_CPU))
    return measure, on_cpu, on_gpu, run_once, tiny


@app.cell(hide_code=True)
def _(bill, on_cpu, on_gpu):
    mo.md(
        bill("**a large GPU** (modelled)", on_gpu)
        + "\n\n"
        + bill("**a CPU** (modelled, fitted to measured steps)", on_cpu)
    )
    return


@app.cell(hide_code=True)
def _(Figure, on_cpu, on_gpu):
    from course.lesson_data.l01_curves import bill_chart, promise_chart

    Figure(
        bill_chart({"a large GPU": on_gpu, "a CPU": on_cpu}),
        "Up and to the left is better. Which budget would you take on each machine?",
    )
    return (promise_chart,)


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    And live, with the wall clock, the trained model, on the machine in front of you. One run each, so
    expect noise; run the cell again and see how much.
    """)
    return


@app.cell
def _(WallClock, bill, chunks, measure, model, run_once):
    run_once(model, WallClock(), chunks, 16)  # warms up
    live = measure(model, WallClock, (16, 64))
    mo.md(bill("**this machine**, just now", live))
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    On the modelled GPU every budget from 16 on *gains* throughput, and the newcomer's longer wait moves the
    mean TTFT by a few percent. A budget of 8 loses: more than half of such a step is paid for and
    not used. On the modelled CPU no budget gains throughput, the small ones lose much of it, and every
    one costs TTFT: smaller gaps are all that it buys. (Live, 64 may gain a little: attention makes a
    prefill of 400 tokens dearer than the fitted line knows.)

    Why the difference? Ask the clocks for the price of one more thing to do, a chunk of 8 beside
    four decodes:

    | a chunk of | a large GPU (modelled) | a CPU (modelled) |
    |--:|:--|:--|
    | 4 | 0 µs (0% of 5,300 µs) | 117 µs (20% of 582 µs) |
    | 8 | 0 µs (0% of 5,300 µs) | 235 µs (40% of 582 µs) |
    | 16 | 3,520 µs (66% of 5,300 µs) | 470 µs (81% of 582 µs) |
    | 32 | 11,712 µs (221% of 5,300 µs) | 940 µs (162% of 582 µs) |

    The first 8 tokens (128 of a real prompt) cost the modelled GPU **nothing**. That is built into
    the model, not found by it: a step takes as long as the slower of two things, reading 16 GB of
    weights and the arithmetic of its tokens, and with four tokens the arithmetic units wait. That
    is why small gaps can be had for nothing there. On a small CPU they cannot: no arithmetic is idle,
    every further step pays its fixed cost again, and every chunk reads the past of its prompt once more.

    ### Which budget?

    So there is a price to the smallest budget and a price to the largest. Say a service promises its
    users that no gap exceeds a limit. Your function turns the promise into a budget. It may ask what a step
    costs, and it must not suppose that the answer is a straight line: you have just seen a flat start.
    """)
    return


@app.cell(hide_code=True)
def _():
    task("l01.pick_budget")
    return


@app.function
def pick_budget(step_cost_us: Callable[[int], int], num_decodes: int, itl_limit_us: int) -> int:
    """Return the largest token budget with which a step stays within the ITL limit."""
    raise NotImplementedError("Exercise 1.5: the largest budget that keeps the promise")


@app.cell(hide_code=True)
def _():
    budget_attempt = attempt("l01.pick_budget", lambda: pick_budget)
    budget_attempt
    return (budget_attempt,)


@app.cell(hide_code=True)
def _():
    hints("l01.pick_budget")
    return


@app.cell
def _(LARGE_GPU):
    itl_limit_us = 20_000  # change the promise and run the cell

    def gpu_step_us(tokens):
        """A step of `tokens` with four decodes among them and 700 tokens of context, more than we hold."""
        return LARGE_GPU.step_us(max(0, tokens - 4), min(tokens, 4), 700)

    return gpu_step_us, itl_limit_us


@app.cell(hide_code=True)
def _(
    CostClock,
    LARGE_GPU,
    budget_attempt,
    budget_verdict,
    chunks,
    gpu_step_us,
    itl_limit_us,
    picked_budget,
    run_once,
    tiny,
):
    def _worst_gap_us(budget):
        return run_once(tiny, CostClock(LARGE_GPU), chunks, budget).worst_itl_us

    picked = picked_budget(budget_attempt, gpu_step_us, itl_limit_us)
    mo.md(budget_verdict(budget_attempt, picked, itl_limit_us, _worst_gap_us))
    return (picked,)


@app.cell(hide_code=True)
def _(Figure, gpu_step_us, itl_limit_us, on_gpu, picked, promise_chart):
    Figure(
        promise_chart(gpu_step_us, on_gpu, picked, itl_limit_us),
        "Where on the line of a step's cost do the longest gaps lie?",
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    The gaps lie on the line of a step that is full: once prompts are longer than the
    budget, **the budget is the worst gap**. Up to the bend it costs nothing to raise it; beyond, each
    further token is paid for by each reader.

    A budget here is not yet a server's `max_num_batched_tokens`: one of our prompt tokens stands for
    16, a decode for itself. vLLM's defaults lie between 2,048 and 16,384, by the machine and the use
    (`get_batch_defaults` in `vllm/engine/arg_utils.py`).

    ### Where it loses

    The author of the posts that this course grew from measured chunked prefill on a CPU: budgets 16
    and 32, prompts of 32 to 40 tokens arriving among short ones. **Throughput 0.74 to 0.91 times** that of
    whole prompts, **mean TTFT 4.3 to 13.1 times** as long, **worst gap 0.90 to 1.25 times**
    ([czhou578/nanoGPT-inference](https://github.com/czhou578/nanoGPT-inference)). Not a bug, and not bad luck:

    - A whole prompt of 40 tokens is no long step on a CPU. There was hardly a gap to cut.
    - That benchmark runs every decode and every chunk as a forward pass of its own
      (`benchmarks/normal_chunked_prefill.py`), so nothing shares a fixed cost, and each further
      chunk adds one.
    - A prompt in chunks stands behind all decodes in every one of its steps. Its TTFT pays.

    The lesson in that table: chunking trades TTFT and some throughput for
    even gaps. It is a bargain where decodes leave arithmetic idle and prompts are long, and a loss
    where neither holds.

    ## How production engines do it

    - **Sarathi-Serve** (Agrawal et al., *Taming Throughput-Latency Tradeoff in LLM Inference*, OSDI
      2024, section 4) introduced both halves: chunked prefills, and *stall-free batching*, your
      `plan_step`. It reports 2.6 times the serving capacity of vLLM for Mistral-7B on one A100
      at the same tail latency.
    - **vLLM** has no prefill phase and no decode phase in its scheduler: each request has computed
      some of its tokens and should catch up. Running requests share the budget
      (`max_num_batched_tokens`) first, then waiting ones (`vllm/v1/core/sched/scheduler.py`,
      `schedule`). The author of the proposal to chunk prefills there wrote that *TTFT is supposed to be a
      bit slower* for the per-step overhead and the repeated K/V reads ([RFC #3130](https://github.com/vllm-project/vllm/issues/3130)).

    And exhibit A is out there:

    - [mlxcel #1001](https://github.com/lablup/mlxcel/pull/1001): four models sent a multi-token prefill to attention without a mask; *every layer
      wrote future-contaminated K/V into the cache*.
    - [candle #3743](https://github.com/huggingface/candle/pull/3743) on masks for chunks after the first: such bugs are *invisible in the common paths*,
      because a whole prompt has offset 0 and a decode has one row. You have seen why.
    - [hyprstream #1521](https://github.com/hyprstream/hyprstream/pull/1521): `tril` without the offset, on a cached forward of several tokens: the *whole
      prompt history* hidden. PyTorch's `is_causal=True` aligns top-left in the same way, which
      ExecuTorch's reference cache ran into ([#21749](https://github.com/pytorch/executorch/pull/21749)).
    - [vLLM #26042](https://github.com/vllm-project/vllm/issues/26042): with one attention backend, chunked prefill took GSM8K (school mathematics) from above 93 % to 65 %, and
      *it gets worse if the chunked prefill size goes smaller*: the symptom of exhibit A, word for
      word, from another cause.

    ## What comes next

    You planned steps, but you took `waiting` as it came: every request in it could start. In
    [lesson 2](/?file=l02_scheduling.py) memory runs out. Which request is admitted, which must wait,
    which is thrown out, and can a plan that always makes progress still never finish?
    """)
    return


if __name__ == "__main__":
    app.run()
