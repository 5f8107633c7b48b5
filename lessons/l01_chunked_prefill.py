import marimo

__generated_with = "0.25.2"
app = marimo.App(width="medium", app_title="1 · Chunked prefill")

with app.setup(hide_code=True):
    from collections.abc import Callable

    import marimo as mo

    from course.attempt import attempt, with_attempts
    from course.engine_loop import engine_loop
    from course.figure import Figure, stopped
    from course.lazy import torch
    from course.lesson_data import l01_chunks as chunking
    from course.lesson_data import l01_curves as charts
    from course.lesson_data import l01_exhibits as exhibits
    from course.lesson_data.texts import served
    from course.prediction import after, hints, predict
    from course.replay import replays
    from course.task import task
    from nanogpt import Engine, EngineConfig, Policies, load_model
    from nanogpt.clock import LARGE_GPU, SERVER_CPU, CostClock, WallClock
    from nanogpt.experiments.trace_metrics import summary
    from nanogpt.experiments.whole_prompts import plan_whole_prompts
    from nanogpt.figures.curves import latencies
    from widgets import MaskStepper, Timeline, whose

    # This model is too small to gain from a second thread.
    torch.set_num_threads(1)


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    # 1 · Chunked prefill

    *60 minutes. Builds on lesson 0: the KV cache, continuous batching, TTFT and ITL, the cost of a
    step. You write five functions.*

    Afterwards you can

    - cut a prompt into chunks without changing any generated token,
    - plan a step under a token budget, and choose that budget from an ITL limit,
    - say what chunking costs, and when it does not pay.

    ## What does a long prompt do to the other requests?

    Four requests are generating, one token each per step. Then a fifth request arrives, with a prompt of
    400 tokens. The engine of lesson 0 computes the whole prompt in one step, together with the decodes.
    That step computes 404 tokens instead of 4. What do the users of the four requests see?
    """)
    return


@app.cell
def _():
    model = load_model()
    whole_prompts = Policies(plan_step=plan_whole_prompts)
    chunks = Policies()  # the reference plan

    def serve(policies):
        """The trace of the five requests, each step charged the modelled cost of a large GPU."""
        config = EngineConfig(token_budget=32)  # the plan of whole prompts ignores it
        engine = Engine(model, config, policies, clock=CostClock(LARGE_GPU))
        return engine.run(chunking.long_prompt_arrives())

    whole_gpu = serve(whole_prompts)
    return chunks, model, serve, whole_gpu, whole_prompts


@app.cell(hide_code=True)
def _(whole_gpu):
    Timeline(
        whole_gpu.to_json(),
        title="Whole prompts, times modelled on a large GPU",
        axis="time",
        question="What do the users of the four requests see while the prompt is computed?",
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    The width of a step is the time that it takes. (Without **Width shows time**, each step has one
    column, in which you can read the letters.) Each of the four requests has one ITL of 206 ms; every other ITL is about 5 ms. No request failed, no error was logged, and throughput looks
    fine, but four users stared at a frozen screen.

    The times are *modelled* with lesson 0's cost of a step on the large GPU: max(weight read,
    arithmetic) + overhead, plus the time to read the K/V of the context. The tokens are computed by our
    small model. Because our prompts are short, one of our prompt tokens is charged as 16 tokens of a real
    prompt. A decode is charged as one token.

    ## Which line of the engine decides how many tokens a step computes?

    The marked line calls `plan_step`, which returns how many tokens each request computes in this step.
    The lines above it collect the requests that may run, and `execute` computes the planned tokens. In
    this lesson you write `plan_step` and the two functions that prepare a chunk: one for its mask and one
    for its inputs.
    """)
    return


@app.cell(hide_code=True)
def _():
    engine_loop("self._plan(")
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## The idea: cut the prompt into chunks

    Each step computes one **chunk** of the prompt together with all decodes, and no step computes more
    tokens than its **token budget**. With a budget of 32 and four decodes, 28 tokens are left for the
    prompt, so its 400 tokens take 15 steps instead of one.
    """)
    return


@app.cell(hide_code=True)
def _(chunks, serve):
    chunked_gpu = serve(chunks)
    predict(
        "l01.what_improves",
        "The budget is 32, on the modelled large GPU. Which of throughput, mean TTFT and the largest "
        "ITL does chunking **improve**?",
        (
            "All three",
            "Only the largest ITL; throughput and mean TTFT get worse",
            "The largest ITL and throughput; mean TTFT gets worse",
            "The largest ITL and mean TTFT; throughput gets worse",
        ),
        2,
        "From whole prompts to chunks, the largest ITL falls from 206 to 15.3 ms, throughput rises "
        "from 304 to 347 tokens per second, and mean TTFT rises from 54.3 to 56.7 ms. A step with "
        "four decodes reads all weights and computes almost nothing, so a chunk uses arithmetic "
        "that was idle. The new request pays for it: its prompt now shares every step with four "
        "decodes.",
    )
    return (chunked_gpu,)


@app.cell(hide_code=True)
def _(chunked_gpu, whole_gpu):
    after(
        "l01.what_improves",
        Timeline(
            whole_gpu.to_json(),
            chunked_gpu.to_json(),
            names=("whole", "chunks"),
            title="Whole prompts and chunks, times modelled on a large GPU",
            axis="time",
            question="What became of the long step?",
        ),
    )
    return


@app.cell(hide_code=True)
def _():
    after("l01.what_improves", mo.md(r"""
    Both runs compute the same tokens and generate the same texts. The long step has become fifteen
    steps of at most 15.3 ms, and in each of them all four requests get a token.
    """))
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## Build a step that contains a chunk

    `chunk_size` prepares for `plan_step`. The engine calls `plan_step`, `chunk_mask` and `chunk_inputs`,
    and `pick_budget` chooses its token budget. Write each of the five functions in its cell in place of
    the `raise` line, and run the cell.

    ### How large is the chunk?

    Decodes go first and take one token of the budget each. The prompt gets the rest, but no more than it
    still needs. There may be more decodes than the budget holds.
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
    ### Which keys may a token of the chunk attend to?

    A decode needed no mask: it has one new token, and every cached token comes before it. A whole prompt
    needs the triangular mask that you know from training. A chunk has both: several new tokens *and*
    cached tokens before them.

    The mask has one row for each token of the chunk. The last token may attend to every token so far, and
    the engine uses only the logits of that token. So do the rows above the last one need a mask at all?
    """)
    return


@app.cell(hide_code=True)
def _():
    predict(
        "l01.poisoned_rows",
        "A prompt's second chunk of 8 tokens runs **without a causal mask**: each of the 8 rows "
        "attends to all keys. The last row may do that anyway. Are its logits right?",
        (
            "Yes: the last row attends to exactly the right keys",
            "With one layer yes, with two or more no",
            "No, whatever the number of layers",
        ),
        1,
        "In the first layer the last row is right, because keys and values are computed from "
        "embeddings, which no mask has touched. But the 7 rows above it attended to later tokens, so "
        "their outputs are wrong, and the second layer computes its **keys and values** from these "
        "outputs. The last row reads them. So do all later tokens, because the wrong K/V stays in the "
        "cache. You will measure this below.",
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
def _(mask_attempt):
    MaskStepper(
        chunking.drawn_masks(mask_attempt),
        title="chunk_mask(4, 3): three new tokens after four cached ones",
        question="Which keys may each of the three new tokens attend to?",
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ### Which ids and positions does the model get for a chunk?

    The model takes token ids and their positions. A chunk from the middle of a prompt does not start at
    position 0. Its last logits predict a token that the prompt already contains, so there is nothing to
    sample. When does the engine have to sample?
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
    """Return `(ids, positions, sample)`: a chunk's inputs, and whether to sample after it."""
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
    ### Which request computes how many tokens?

    Once per step, `plan_step` receives the requests that may run and returns how many tokens each one
    computes. In this lesson only `plan_step` decides the order in which requests are served.

    Other plans would be legal too: prompts first, equal shares, shortest prompt first. The rules on the
    card are called *stall-free scheduling*: no decode ever waits for a prompt.
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
    """Return the plan of one step, a list of (id, n): request `id` computes `n` tokens."""
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
    ### Which budget keeps every ITL within a limit?

    A small budget keeps ITLs short, but it cuts a prompt into more steps, and each step pays for its
    weight read and its overhead. Suppose a service promises that no ITL exceeds a limit. Then the best
    budget is the largest one whose steps stay within the limit.

    `pick_budget` gets a function that returns the cost of a step of any number of tokens. This cost is
    not a straight line. The **knee** is the number of tokens whose arithmetic takes as long as the weight
    read, and up to the knee further tokens cost nothing. On the large GPU the knee lies at 150 charged
    tokens. With four decodes, a budget of 13 comes closest to it: 4 decodes, and 9 prompt tokens that are
    charged as 144.
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


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## Your functions in the real engine

    Six requests, some short and some long, arrive at different steps. The engine is the one in
    `nanogpt/engine.py`. Your functions enter it through `Policies`, its record of decision functions, as
    soon as you have written them, right or wrong:

    ```python
    policies = Policies(plan_step=plan_step, chunk_mask=chunk_mask, chunk_inputs=chunk_inputs)
    Engine(exact, sampled, policies, clock=CostClock(LARGE_GPU)).run(six_requests())
    ```

    The page makes this call in a process of its own, under a time limit. The engine refuses an
    impossible plan with an error message, before it changes any state.
    """)
    return


@app.cell(hide_code=True)
def _():
    exact = load_model(dtype=torch.float64)  # in float64, rounding is too small to flip a token here
    sampled = EngineConfig(token_budget=32, temperature=0.8, seed=1)
    run_with = replays(
        lambda policies: Engine(exact, sampled, policies, clock=CostClock(LARGE_GPU)),
        chunking.six_requests,
    )
    reference_trace = run_with.reference
    return exact, reference_trace, run_with, sampled


@app.cell(hide_code=True)
def _(inputs_attempt, mask_attempt, plan_attempt, reference_trace, run_with):
    attempts = {
        "plan_step": plan_attempt,
        "chunk_mask": mask_attempt,
        "chunk_inputs": inputs_attempt,
    }
    your_trace = run_with(with_attempts(Policies(), attempts))
    Timeline(
        your_trace.to_json(),
        reference_trace.to_json(),
        yours=any(each.started for each in attempts.values()),
        title="Six requests, times modelled on a large GPU",
        question="Which request computes how many tokens in which step?",
    )
    return attempts, your_trace


@app.cell(hide_code=True)
def _(attempts, exact, reference_trace, sampled, your_trace):
    mo.md(
        served(
            attempts,
            chunking.six_requests(),
            exact,
            sampled,
            your_trace,
            reference_trace,
            "No plan can change a text; look at `chunk_mask` and `chunk_inputs`.",
        )
    )
    return


@app.cell
def _(exact, sampled, whole_prompts):
    whole_six = Engine(exact, sampled, whole_prompts, clock=CostClock(LARGE_GPU)).run(
        chunking.six_requests()
    )
    return (whole_six,)


@app.cell(hide_code=True)
def _(attempts, whole_six, your_trace):
    _runs = {
        f"plan: {whose(any(each.started for each in attempts.values()))}": your_trace,
        "whole prompts": whole_six,
    }
    Figure(
        stopped(_runs.values()) or latencies(_runs, "TTFT and ITL of the six requests"),
        "Which requests get their first token later, and which ITLs become shorter?",
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    Try a plan that is legal but different: serve `waiting` before `prefilling`, or give each prompt at
    most 4 tokens per step. The timeline draws that plan and the check of `plan_step` fails, but the texts
    stay the same. A plan decides only *when* a token is computed. The mask and the positions decide *from
    which tokens* it is computed.

    ## Break it: two real defects

    Both come from the code of the posts that this course grew from
    ([czhou578/nanoGPT-inference](https://github.com/czhou578/nanoGPT-inference)). Each starts with its
    symptom. Decide what is broken before you open the answer.

    ### Exhibit A: the text depends on the chunk size

    One prompt, the same weights, greedy decoding, no other request. Only the chunk size changes.
    """)
    return


@app.cell(hide_code=True)
def _(model):
    mo.md(exhibits.text_by_chunk_size(model))
    return


@app.cell(hide_code=True)
def _():
    predict(
        "l01.exhibit_a",
        "Chunks of 1 give the right text, and so does the whole prompt of 40 in one chunk. The sizes "
        "between give wrong ones. **What is broken?**",
        (
            "Rounding: float32 sums in another order",
            "Positions start again at 0 in every chunk",
            "The mask of every chunk but the first",
            "A token is sampled after every chunk",
        ),
        2,
        "Look at the sizes that work. A chunk of 1 has one row, which may attend to every key, so it "
        "needs no mask. The whole prompt is a first chunk, with no cached tokens before it. The defect "
        "needs **several rows and cached tokens**. Restarted positions would break chunks of 1 too, "
        "and so would a token sampled after every chunk. Rounding changes a token only at a near-tie; "
        "it would not change all three texts.",
    )
    return


@app.cell(hide_code=True)
def _():
    after("l01.exhibit_a", mo.md(r"""
    The published code took a branch without a mask whenever there was a cache: *no causal mask
    needed, T = 1*. That was true of decodes. Later, every chunk after the first took the same branch.
    """))
    return


@app.cell(hide_code=True)
def _():
    after(
        "l01.exhibit_a",
        MaskStepper(
            chunking.exhibit_masks(),
            title="The second chunk of 8 tokens",
            question="Which rows attend to keys of later tokens?",
        ),
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    How often does the defect change a token? Here are 60 prefills in chunks of 8, in models of one, two
    and four layers. The table also answers the prediction above exercise 1.2.
    """)
    return


@app.cell(hide_code=True)
def _(model):
    after("l01.poisoned_rows", mo.md(rf"""
    {exhibits.flips_table(model)}

    With one layer the largest logit difference is exactly 0. So a test on a one-layer model would have
    passed, and so would a test with whole prompts or with chunks of one token. The simplest test finds
    this defect: *the same text for every chunk size*.
    """))
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ### Exhibit B: the request that starts late

    Two requests are running. Request 2 arrives at step 3 with a prompt of 9 tokens, and the budget is 32.
    Step through the run and look at the bars that show how much of the budget each step uses.
    """)
    return


@app.cell(hide_code=True)
def _(model):
    late, on_time = exhibits.late_arrival(model)
    Timeline(
        late.to_json(),
        title="Exhibit B, times modelled on a large GPU",
        question="What does request 2 wait for?",
    )
    return


@app.cell(hide_code=True)
def _():
    predict(
        "l01.exhibit_b",
        "Request 2 arrives at step 3, but its first token is computed at step 27. **What is broken?**",
        (
            "The budget is too small for its prompt beside two decodes",
            "First come, first served: it has to wait for the requests before it",
            "New requests are admitted only when nothing else runs",
            "Its prompt was cut into chunks that were too small",
        ),
        2,
        "The bars show it: step after step uses 2 of 32 tokens while a request waits. First come, "
        "first served says who goes first, not that the rest of the budget stays empty. In the "
        "published code (`nanogpt-chunked-prefill.py`) the line `step += 1` stood below the loop instead "
        "of inside it. So the step number stood still while any request was running, and the loop did "
        "not see the next arrival. Under the reference plan request 2 starts at step 3, and its TTFT is "
        "5.3 ms instead of 133 ms, modelled.",
    )
    return


@app.cell(hide_code=True)
def _():
    after("l01.exhibit_b", mo.md(r"""
    Every text in exhibit B is right, and every request finishes. A throughput test that sends all
    requests at once finds nothing wrong. But continuous batching has become static batching, and only
    the TTFT of requests that arrive over time shows it.
    """))
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## Measure what chunking costs

    The table compares whole prompts with chunks under several budgets, for the five requests from the top
    of the page. A cost clock charges for the number of tokens, whatever model computes them, so a model
    with one tiny layer gives the same times.
    """)
    return


@app.cell
def _(chunks, whole_prompts):
    tiny = chunking.one_tiny_layer()
    BUDGETS = (8, 16, 32, 64, 128)

    def run_once(some_model, clock, policies, token_budget):
        """One run of the five requests, in numbers."""
        config = EngineConfig(token_budget=token_budget)
        engine = Engine(some_model, config, policies, clock=clock)
        return summary(engine.run(chunking.long_prompt_arrives()))

    def measure(some_model, make_clock, budgets=BUDGETS):
        """Whole prompts, and then chunks with each budget."""
        runs = {"whole prompts": run_once(some_model, make_clock(), whole_prompts, 16)}
        for budget in budgets:
            runs[f"chunks, budget {budget}"] = run_once(some_model, make_clock(), chunks, budget)
        return runs

    on_gpu = measure(tiny, lambda: CostClock(LARGE_GPU))
    return measure, on_gpu, run_once, tiny


@app.cell(hide_code=True)
def _(on_gpu):
    mo.md(chunking.budget_table("**a large GPU** (modelled)", on_gpu))
    return


@app.cell(hide_code=True)
def _(on_gpu):
    Figure(
        charts.budget_chart(on_gpu),
        "Up and to the left is better. Which budget would you choose?",
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    Every budget of 16 or more raises throughput, and with these budgets mean TTFT grows by less than 5 %.
    A budget of 8 loses throughput: beside four decodes its chunks have 4 tokens, charged as 64, so its
    steps stay far below the knee. The next table explains the gain and the loss: it shows what a chunk adds
    to a step with four decodes:

    | tokens of the chunk | tokens charged, with the decodes | added to a step of 5.3 ms |
    |--:|--:|--:|
    | 4 | 68 | 0 |
    | 8 | 132 | 0 |
    | 16 | 260 | 3.5 ms (66 %) |
    | 32 | 516 | 11.7 ms (221 %) |

    Up to the knee at 150 charged tokens a chunk costs **nothing**, because the arithmetic units wait for
    the weights anyway. This is a consequence of the cost model, not evidence for it.

    Next, your `pick_budget` chooses a budget for a limit that you can change.
    """)
    return


@app.cell
def _():
    itl_limit_us = 20_000  # change the limit and run the cell

    def gpu_step_us(tokens):
        """The cost of a step of `tokens`, four of them decodes, with 700 tokens of context."""
        # The five requests never hold as many as 700 tokens, so no step of theirs costs more.
        return LARGE_GPU.step_us(max(0, tokens - 4), min(tokens, 4), 700)

    return gpu_step_us, itl_limit_us


@app.cell(hide_code=True)
def _(budget_attempt, chunks, gpu_step_us, itl_limit_us, run_once, tiny):
    def _largest_itl_us(budget):
        return run_once(tiny, CostClock(LARGE_GPU), chunks, budget).worst_itl_us

    picked = chunking.picked_budget(budget_attempt, gpu_step_us, itl_limit_us)
    mo.md(chunking.budget_verdict(budget_attempt, picked, itl_limit_us, _largest_itl_us))
    return (picked,)


@app.cell(hide_code=True)
def _(gpu_step_us, itl_limit_us, on_gpu, picked):
    Figure(
        charts.limit_chart(gpu_step_us, on_gpu, picked, itl_limit_us),
        "Where do the largest ITLs lie, compared with the cost of a full step?",
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    The largest ITL is the cost of a full step, as long as prompts are longer than the budget. So **the
    budget sets the largest ITL**. Up to the knee a larger budget costs nothing. Beyond it, every prompt
    token of a step delays every decode in that step.
    """)
    return


@app.cell(hide_code=True)
def _(measure, tiny):
    on_cpu = measure(tiny, lambda: CostClock(SERVER_CPU))
    mo.md(f"""
    /// details | The same budgets on a CPU, where chunking gains no throughput
    {chunking.budget_table("**a CPU** (modelled, fitted to measured steps)", on_cpu)}

    No budget raises throughput here, and every budget lengthens TTFT. The only gain is shorter ITLs. The CPU
    preset of lesson 0 has a weight read of 0, so a chunk finds no idle arithmetic: every further step pays its
    overhead, and every chunk reads the K/V of its prompt's earlier chunks again.
    ///
    """)
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    The next table is measured live, by the wall clock, with the trained model on the machine that runs
    this notebook. These are single runs, so expect noise; run the cell again to see how much.
    """)
    return


@app.cell
def _(chunks, measure, model, run_once):
    run_once(model, WallClock(), chunks, 16)  # warms up
    live = measure(model, WallClock, (16, 64))
    mo.md(chunking.budget_table("**this machine**, just now", live))
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## When does chunked prefill lose?

    The author of the posts measured chunked prefill on a CPU, with budgets of 16 and 32 and prompts of 32
    to 40 tokens among short ones. Throughput was **0.74 to 0.91 times** that of whole prompts, mean TTFT
    **4.3 to 13.1 times** as long, and the largest ITL **0.90 to 1.25 times** as long
    ([czhou578/nanoGPT-inference](https://github.com/czhou578/nanoGPT-inference)). There are three reasons:

    - A step with a prompt of 40 tokens is not long on a CPU, so there was hardly a long ITL to shorten.
    - That benchmark runs each decode and each chunk as a forward pass of its own
      (`benchmarks/normal_chunked_prefill.py`). No overhead is shared, and every chunk adds its own.
    - A chunked prompt shares each of its steps with all decodes, so its first token comes later.

    Chunking pays where decodes leave arithmetic idle and prompts are long. It loses where neither holds.

    ## What you now know

    - A whole prompt in one step delays every decode in that step: one ITL of 206 ms instead
      of 5 ms, modelled on the large GPU.
    - A token budget limits how long a step takes, and `plan_step` serves decodes first, so no text stalls.
    - A chunk continues the text of its request: positions go on where the last chunk ended, and each token
      of the chunk attends to the cached tokens and to the chunk up to itself. The engine samples only at the end of the
      prompt. Then the text is the same for every chunk size.
    - The budget sets the largest ITL. Up to the knee, a larger budget costs nothing.
    - The price is TTFT, and on a machine without idle arithmetic also throughput.

    ## The same in vLLM and SGLang

    | here | vLLM | SGLang |
    |:---|:---|:---|
    | `plan_step` | `Scheduler.schedule`, `vllm/v1/core/sched/scheduler.py`: running requests first, then waiting ones | `get_next_batch_to_run`, `srt/managers/scheduler.py`: prefill or decode; both with `--enable-mixed-chunk` (off by default) |
    | `token_budget` | `--max-num-batched-tokens`: 8,192 on an H100, 16,384 from 160 GiB of GPU memory, 2,048 below 70 GiB and on an A100 (`vllm serve`) | `--chunked-prefill-size`: 8,192 on an H100, 2,048 to 16,384 by GPU memory; -1 is off |
    | no further limit | `--long-prefill-token-threshold` caps the tokens of one prompt per step (default 0: no cap) | `--prefill-decode-interval` puts decode steps between prefills (off by default) |

    **How the control flow differs.** Our `schedule` collects the requests that may run, and `plan_step`
    divides the budget among them, decodes first. vLLM's scheduler has no prefill phase and no decode
    phase: it goes through its running requests in the order of their admission and gives each one as many
    tokens as its `num_computed_tokens` lack, while the budget lasts; only then come the waiting ones. So a
    prefill that was admitted earlier takes its chunk before a later request's decode. SGLang chooses a
    prefill batch or a decode batch in each round. Lesson 2 walks through vLLM's loop.

    - The author of the proposal to chunk prefills in vLLM wrote that *TTFT
      is supposed to be a bit slower* ([RFC #3130](https://github.com/vllm-project/vllm/issues/3130)).
    - **Sarathi** ([Agrawal et al., 2023](https://arxiv.org/abs/2308.16369)) introduced chunked prefills:
      each batch holds one chunk and as many decodes as fit.
    - **Sarathi-Serve** ([Agrawal et al., OSDI 2024](https://arxiv.org/abs/2403.02310)) added stall-free
      scheduling under a token budget, your `plan_step`. It reports 2.6 times the serving capacity of vLLM
      for Mistral-7B on one A100, at the same tail latency.

    *Checked against vLLM 0.33.0 and SGLang 0.5.23, November 2026.*

    /// details | Exhibit A in other engines

    - [mlxcel #1001](https://github.com/lablup/mlxcel/pull/1001): four models had no mask in prefills;
      *every layer wrote future-contaminated K/V into the cache*.
    - [candle #3743](https://github.com/huggingface/candle/pull/3743): such bugs are *invisible in the
      common paths*, because a whole prompt has offset 0 and a decode has one row.
    - [hyprstream #1521](https://github.com/hyprstream/hyprstream/pull/1521): `tril` without the offset
      hid the *whole prompt history*. PyTorch's `is_causal=True` aligns top-left too, which broke
      ExecuTorch's reference cache ([#21749](https://github.com/pytorch/executorch/pull/21749)).
    - [vLLM #26042](https://github.com/vllm-project/vllm/issues/26042): with one attention backend, chunked
      prefill took GSM8K (school mathematics) from above 93 % to 65 %, and *it gets worse if the chunked
      prefill size goes smaller*. The symptom is that of exhibit A; the cause is different.
    ///

    ## What comes next

    Here every request in `waiting` could start, because memory was plentiful. In
    [lesson 2](/?file=l02_scheduling.py) it runs out, and you decide which request is admitted, which one
    waits and which one is preempted.
    """)
    return


if __name__ == "__main__":
    app.run()
