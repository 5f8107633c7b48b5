import marimo

__generated_with = "0.25.2"
app = marimo.App(width="medium", app_title="1 · Chunked prefill")

with app.setup(hide_code=True):
    from collections.abc import Callable

    import marimo as mo
    import torch
    import torch.nn.functional as F
    from torch import Tensor

    from course.attempt import attempt
    from course.calling import call
    from course.prediction import after, hints, predict
    from course.replay import replay
    from course.task import task
    from nanogpt import (
        GPT,
        Engine,
        EngineConfig,
        ModelConfig,
        Parts,
        Request,
        decode,
        encode,
        generate,
        load_model,
        masks,
        planning,
    )
    from nanogpt.clock import LAPTOP_CPU, LARGE_GPU, CostClock, WallClock
    from nanogpt.metrics import request_metrics, summary
    from widgets import MaskStepper, StepCost, Timeline


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    # 1 · Chunked prefill

    **45 minutes.** Builds on lesson 0 (the KV cache, continuous batching, TTFT and ITL).
    Afterwards you can cut a prompt into chunks without changing a single token of its text, plan a
    step under a token budget, choose that budget, and say when chunking does not pay.

    ## Who keeps everyone waiting?

    Four people are reading. Each has a stream of text, one new token per step, and the steps are
    short. Then a fifth person sends a prompt of 400 tokens.

    The engine of lesson 0 computes a prompt whole, in one step, beside the decodes. That step takes
    as long as 400 tokens take. What do the four readers see in the meantime?
    """)
    return


@app.cell
def _():
    SOLILOQUY = (
        "To be, or not to be: that is the question:\n"
        "Whether 'tis nobler in the mind to suffer\n"
        "The slings and arrows of outrageous fortune,\n"
        "Or to take arms against a sea of troubles,\n"
        "And by opposing end them? To die: to sleep;\n"
        "No more; and by a sleep to say we end\n"
        "The heart-ache and the thousand natural shocks\n"
        "That flesh is heir to, 'tis a consummation\n"
        "Devoutly to be wish'd. To die, to sleep;\n"
        "To sleep: perchance to dream: ay, there's the rub;"
    )[:400]

    OPENINGS = ["ROMEO:\n", "JULIET:\n", "HAMLET:\n", "PORTIA:\n"]

    def newcomer():
        """Four streams from step 0 on, and a prompt of 400 tokens that arrives at step 6."""
        streams = [(0, Request(i, encode(text), 24)) for i, text in enumerate(OPENINGS)]
        return [*streams, (6, Request(4, encode(SOLILOQUY), 8))]

    return SOLILOQUY, newcomer


@app.cell
def _(newcomer):
    model = load_model()
    whole_prompts = Parts(plan_step=planning.plan_whole_prompts)
    chunks = Parts()  # the reference plan

    def serve(clock, parts, budget):
        """The trace of the five requests on the trained model, each step charged by a clock."""
        limits = EngineConfig(token_budget=budget)
        return Engine(model, limits, parts, clock=CostClock(clock)).run(newcomer())

    whole_gpu = serve(LARGE_GPU, whole_prompts, 32)  # this plan does not look at the budget
    chunked_gpu = serve(LARGE_GPU, chunks, 32)
    whole_cpu = serve(LAPTOP_CPU, whole_prompts, 32)
    chunked_cpu = serve(LAPTOP_CPU, chunks, 32)
    return (
        chunked_cpu,
        chunked_gpu,
        chunks,
        model,
        whole_cpu,
        whole_gpu,
        whole_prompts,
    )


@app.cell(hide_code=True)
def _(whole_gpu):
    Timeline(
        whole_gpu.to_json(), title="Whole prompts, times modelled on a large GPU", axis="time"
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    A step is as wide here as it is long. (**Width shows time** switches to one column per step,
    where the letters can be read.) Everybody's row has one hole in it, at the step that computed
    the prompt. Nobody's stream failed, no error was logged, throughput looks fine. Four people
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
def _(chunked_cpu, chunked_gpu, whole_cpu, whole_gpu):
    def _change(name, part):
        pairs = [
            (part(summary(whole)), part(summary(chunks)))
            for whole, chunks in ((whole_gpu, chunked_gpu), (whole_cpu, chunked_cpu))
        ]
        gpu, laptop = (f"{before:,.4g} to {after:,.4g}" for before, after in pairs)
        return f"{name}: {gpu} on the GPU (modelled), {laptop} on the laptop."

    predict(
        "l01.what_improves",
        "The budget is 32. On the modelled GPU and on a laptop CPU: which of throughput, mean TTFT "
        "and worst gap between two tokens does chunking **improve**?",
        (
            "All three, on both machines",
            "The worst gap on both; throughput and mean TTFT on neither",
            "The worst gap on both; throughput on the GPU alone; mean TTFT on neither",
            "Throughput and worst gap on both; mean TTFT on neither",
        ),
        2,
        "\n".join(
            [
                "From whole prompts to chunks:",
                _change("**Worst gap** in ms", lambda s: s.worst_itl_us / 1000),
                _change("**Mean TTFT** in ms", lambda s: s.mean_ttft_us / 1000),
                _change("**Throughput** in tokens/s", lambda s: s.tokens_per_s),
                "On the GPU a step with four decodes reads all the weights and computes next to "
                "nothing: a chunk fills arithmetic that was idle. On a laptop nothing was idle. The "
                "newcomer pays on both: its prompt now shares every step with four decodes.",
            ]
        ),
    )
    return


@app.cell(hide_code=True)
def _(chunked_gpu, whole_gpu):
    Timeline(
        whole_gpu.to_json(),
        chunked_gpu.to_json(),
        names=("whole", "chunks"),
        title="The same wall time twice, modelled on a large GPU",
        axis="time",
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    The same requests, the same tokens, the same text, the same axis of time. The long hole has
    become fifteen thin slices, and in every one of them all four readers get a token. The lines
    under the buttons say each step in words; the bars show how many tokens it computed.

    Now the same two plans on a **laptop CPU** (a cost fitted to measured steps of our own model).
    The picture is alike, the scale is not: here a prompt token is one token, and there is no
    large weight read that a chunk could hide behind.
    """)
    return


@app.cell(hide_code=True)
def _(chunked_cpu, whole_cpu):
    Timeline(
        whole_cpu.to_json(),
        chunked_cpu.to_json(),
        names=("whole", "chunks"),
        title="The same two plans on a laptop CPU",
        axis="time",
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## Build it

    Four functions make the engine chunk: how much, who sees whom, what goes in, and who gets what.
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
def chunk_size(budget: int, num_decodes: int, remaining: int) -> int:
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
    ### Who may see whom?

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
def chunk_mask(num_past: int, num_new: int) -> Tensor:
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
    def _masks():
        labels = list("To be, ")
        right = {
            "name": "right",
            "num_past": 4,
            "mask": masks.chunk_mask(4, 3).tolist(),
            "labels": labels,
        }
        if not mask_attempt.started:
            return [
                {
                    "name": "the whole prompt at once",
                    "num_past": 0,
                    "mask": masks.chunk_mask(0, 7).tolist(),
                    "labels": labels,
                    "note": "Your chunk holds the last three of these seven queries; four keys are past. Once you have written chunk_mask, yours stands here.",
                }
            ]
        mine = call(mask_attempt.function, (4, 3)).value
        if not isinstance(mine, Tensor) or mine.dtype != torch.bool or mine.shape != (3, 7):
            return [
                {
                    **right,
                    "note": "Yours is not a bool tensor of shape (3, 7), so it cannot be drawn.",
                }
            ]
        return [
            {"name": "yours", "num_past": 4, "mask": mine.tolist(), "labels": labels},
            right,
        ]

    MaskStepper(_masks(), title="chunk_mask(4, 3): three new tokens after four")
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
def chunk_inputs(tokens: list[int], cursor: int, n: int) -> tuple[list[int], list[int], bool]:
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
    ### Who gets what?

    This is the heart of the engine. Once per step it is told who could run, and says who computes
    how many tokens. Nothing else in the engine decides anything about order.

    The rules are in the docstring, because another plan would be legal too: prompts first, equal
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
    budget: int,
) -> list[tuple[int, int]]:
    """Return the plan of one step: a list of (id, n), request `id` computes `n` tokens."""
    raise NotImplementedError("Exercise 1.4: who computes how many tokens in this step?")


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
    `nanogpt/engine.py`; your functions go in through `Parts`, as soon as you have written them,
    right or wrong. They run under a time limit, and a plan that breaks the rules of the game is
    refused with a sentence before anything changes.
    """)
    return


@app.cell
def _():
    MERCY = (
        "PORTIA:\nThe quality of mercy is not strain'd,\nIt droppeth as the gentle rain from heaven\n"
        "Upon the place beneath: it is twice blest;\nIt blesseth him that gives and him that takes:\n"
    )
    MACBETH = (
        "MACBETH:\nTo-morrow, and to-morrow, and to-morrow,\nCreeps in this petty pace from day to day\n"
        "To the last syllable of recorded time,\nAnd all our yesterdays have lighted fools\n"
        "The way to dusty death. "
    )
    SHAKESPEARE = [  # arrival step, prompt, new tokens
        (0, "ROMEO:\nBut, soft! what light", 24),
        (0, "JULIET:\nO Romeo, Romeo! ", 24),
        (4, MACBETH, 16),
        (5, "HAMLET:\nAlas, poor Yorick! ", 20),
        (9, MERCY, 16),
        (18, "RICHARD:\nA horse! a horse! ", 16),
    ]

    def play():
        """Fresh requests of the same six prompts: the engine writes into the ones it is given."""
        return [
            (step, Request(i, encode(text), n)) for i, (step, text, n) in enumerate(SHAKESPEARE)
        ]

    return (play,)


@app.function(hide_code=True)
def shown(text: str) -> str:
    """A piece of text as Markdown code in a table cell: line breaks drawn, bars harmless."""
    return f"`{text.replace(chr(10), '⏎').replace('|', '/')}`" if text else "nothing"


@app.cell
def _(inputs_attempt, mask_attempt, plan_attempt, play):
    exact = load_model().double()  # in float64 rounding can flip no token
    sampled = EngineConfig(token_budget=32, temperature=0.8, seed=1)

    yours = Parts(
        plan_step=plan_attempt.or_reference(planning.plan_step),
        chunk_mask=mask_attempt.or_reference(masks.chunk_mask),
        chunk_inputs=inputs_attempt.or_reference(planning.chunk_inputs),
    )
    your_trace = replay(Engine(exact, sampled, yours, clock=CostClock(LARGE_GPU)), play())
    reference_trace = Engine(exact, sampled, clock=CostClock(LARGE_GPU)).run(play())
    Timeline(
        your_trace.to_json(),
        reference_trace.to_json(),
        title="Six requests, times modelled on a large GPU",
    )
    return exact, reference_trace, sampled, your_trace


@app.cell(hide_code=True)
def _(
    exact,
    inputs_attempt,
    mask_attempt,
    plan_attempt,
    play,
    reference_trace,
    sampled,
    your_trace,
):
    def _whose():
        parts = {
            "plan_step": plan_attempt,
            "chunk_mask": mask_attempt,
            "chunk_inputs": inputs_attempt,
        }
        mine = [f"`{name}`" for name, each in parts.items() if each.started]
        others = [f"`{name}`" for name, each in parts.items() if not each.started]
        if not mine:
            return "This run used the reference for every part: none of yours is written yet."
        if not others:
            return "Every part of this run that the lesson is about is yours."
        return f"In this run {', '.join(mine)} came from you and {', '.join(others)} from the reference."

    def _verdict():
        wrong = []
        for _, request in play():
            wanted = generate(
                exact,
                request.prompt_tokens,
                request.max_new_tokens,
                temperature=sampled.temperature,
                seed=sampled.seed,
                request_id=request.id,
            )
            if list(your_trace.generated_tokens(request.id)) != wanted:
                wrong.append(request.id)
        if your_trace.error:
            return f"**The run stopped early:** {your_trace.error}"
        if wrong:
            return f"**Not what the oracle `generate()` says: the text of request {', '.join(map(str, wrong))}.** A plan cannot do that; look at `chunk_mask` and `chunk_inputs`."
        same = (
            "and step for step the plan is the reference's too"
            if your_trace.steps == reference_trace.steps
            else "though the plan is not the reference's: step to the first difference"
        )
        return f"**All six texts equal those of the oracle `generate()`, token for token**, {same}."

    def _texts():
        rows = []
        for _, request in play():
            prompt, text = (
                decode(request.prompt_tokens),
                decode(list(your_trace.generated_tokens(request.id))),
            )
            rows.append(f"| {request.id} | …{shown(prompt[-24:])} | {shown(text)} |")
        return "\n".join(rows)

    mo.md(
        f"{_whose()}\n\n{_verdict()}\n\n| request | end of its prompt | what it got (⏎ is a line break) |\n|--:|:--|:--|\n{_texts()}"
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    Try a plan that is legal and different, and watch the timeline draw *that* plan: serve
    `waiting` before `prefilling`, or give every prompt at most 4 tokens a step. The check will
    complain; the texts will not change by a letter. Who computes *when* is a matter of taste and
    latency. Who sees *whom* is a matter of truth.

    ## Break it

    Two real defects, both from published code that this course grew from. You get the symptom
    first. Decide what is wrong before you open the answer.

    ### Exhibit A: the text that depends on the chunk size

    One prompt, one set of weights, greedy decoding, one request alone. Only the chunk size changes.
    """)
    return


@app.cell(hide_code=True)
def _(SOLILOQUY, model):
    def specimen_a(num_past, num_new):
        """Causal in the first chunk; "no mask needed, everything in the cache is the past" later."""
        if num_past > 0:
            return torch.ones(num_new, num_past + num_new, dtype=torch.bool)
        return masks.chunk_mask(num_past, num_new)

    def _row(size):
        engine = Engine(model, EngineConfig(token_budget=size), Parts(chunk_mask=specimen_a))
        trace = engine.run([(0, Request(0, encode(SOLILOQUY[:40]), 32))])
        return f"| {size} | {shown(decode(list(trace.generated_tokens(0))))} |"

    _oracle = shown(decode(generate(model, encode(SOLILOQUY[:40]), 32)))
    mo.md(
        "\n".join(
            [
                "| chunk size | what follows the first 40 characters of the soliloquy |",
                "|--:|:--|",
                *map(_row, (1, 5, 8, 20, 40)),
                f"| the oracle | {_oracle} |",
            ]
        )
    )
    return (specimen_a,)


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
        "then, not four texts at once; an early sample would add a token to the text.",
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    The published code took a branch without a mask whenever there was a cache: *no causal mask
    needed, T = 1*. The comment was true of decodes. Then continuation chunks took the same branch.

    Step down the rows. All of them but the last see keys that lie in their future.
    """)
    return


@app.cell(hide_code=True)
def _(specimen_a):
    MaskStepper(
        [
            {
                "name": "exhibit A",
                "num_past": 8,
                "mask": specimen_a(8, 8).tolist(),
                "labels": list("To be, or not to"),
            },
            {
                "name": "right",
                "num_past": 8,
                "mask": masks.chunk_mask(8, 8).tolist(),
                "labels": list("To be, or not to"),
            },
        ],
        title="The second chunk of 8 tokens",
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    How often does it matter, and was your prediction right about the layers? Here is prefill in
    chunks, whole and small enough to read, so that the mask is the only thing that differs.
    """)
    return


@app.function
def logits_after(model: GPT, tokens: list[int], size: int, mask_of: Callable) -> Tensor:
    """Prefill `tokens` in chunks of `size`; return the logits after the last one, (V,)."""
    held = {}  # layer -> the K and V computed so far, (S, H, D) each
    for start in range(0, len(tokens), size):
        chunk = tokens[start : start + size]
        mask = mask_of(start, len(chunk))  # (T, S)

        def attend(layer, q, k, v, mask=mask):
            if layer in held:
                k, v = torch.cat([held[layer][0], k]), torch.cat([held[layer][1], v])
            held[layer] = k, v
            heads_first = (x.transpose(0, 1) for x in (q, k, v))
            return F.scaled_dot_product_attention(*heads_first, attn_mask=mask).transpose(0, 1)

        positions = torch.arange(start, start + len(chunk))
        hidden = model.hidden(torch.tensor(chunk), positions, attend)  # (T, C)
    return model.logits(hidden[-1])


@app.cell
def _(SOLILOQUY, model, specimen_a):
    torch.manual_seed(0)
    one_layer = GPT(ModelConfig(num_layers=1))  # random weights
    two_layers = GPT(ModelConfig(num_layers=2))
    windows = [
        encode(SOLILOQUY[i : i + 24]) for i in range(0, 360, 6)
    ]  # 60 prompts of 24 tokens

    def compare(some_model):
        """Greedy tokens that differ, and the largest difference of any logit, at chunk size 8."""
        flipped, largest = 0, 0.0
        with torch.inference_mode():
            for tokens in windows:
                right = logits_after(some_model, tokens, 8, masks.chunk_mask)
                wrong = logits_after(some_model, tokens, 8, specimen_a)
                flipped += int(right.argmax() != wrong.argmax())
                largest = max(largest, (right - wrong).abs().max().item())
        return flipped, largest

    flips = {
        "1 layer, random weights": compare(one_layer),
        "2 layers, random weights": compare(two_layers),
        "the trained model, 4 layers": compare(model),
    }
    return flips, windows


@app.cell(hide_code=True)
def _(flips, windows):
    mo.md(
        "\n".join(
            [
                f"| model | greedy tokens flipped, of {len(windows)} | largest logit difference |",
                "|:--|--:|--:|",
                *(
                    f"| {name} | {flipped} | {largest:.3g} |"
                    for name, (flipped, largest) in flips.items()
                ),
            ]
        )
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    With one layer the difference is exactly 0: not small, none. A test on a one-layer model would
    have passed. So would a test with whole prompts, or with chunks of one token. What finds this
    defect is the dull test: *the same text, whatever the chunk size*.

    ### Exhibit B: the guest who waited for the party to end

    Two streams are running. Request 2 arrives at step 3 with a prompt of 9 tokens, and the
    budget is 32. Step through it, and look at the budget bars.
    """)
    return


@app.cell(hide_code=True)
def _(model):
    def _specimen(decodes, prefilling, waiting, budget):
        if decodes or prefilling:
            return planning.plan_step(decodes, prefilling, [], budget)
        return planning.plan_step([], [], waiting, budget)

    def late_guest():
        return [
            (0, Request(0, encode("ROMEO:\nBut, soft! "), 24)),
            (0, Request(1, encode("JULIET:\nO Romeo, "), 26)),
            (3, Request(2, encode("HAMLET:\nA"), 6)),
        ]

    late = Engine(
        model,
        EngineConfig(token_budget=32),
        Parts(plan_step=_specimen),
        clock=CostClock(LARGE_GPU),
    ).run(late_guest())
    on_time = Engine(model, EngineConfig(token_budget=32), clock=CostClock(LARGE_GPU)).run(
        late_guest()
    )
    Timeline(late.to_json(), title="Exhibit B, times modelled on a large GPU")
    return late, on_time


@app.cell(hide_code=True)
def _(late, on_time):
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
        "The bars say it: 2 of 32 tokens used, step after step, while somebody waits. First come, first served "
        "is about who goes first, not about leaving the rest empty. In the published loop (`nanogpt-chunked-prefill.py`) the line "
        "`step += 1` stood outside the loop, so time stood still until the engine ran dry, and only "
        "then was the next arrival seen. The same requests under the reference: request 2 starts at step "
        f"{_soon}, and its TTFT is {_soon_ms:.3g} ms instead of {_late_ms:.3g} ms (modelled).",
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    Every text in Exhibit B is right. Every request finishes. Throughput, measured by somebody who
    sends all requests at once, is perfect. Continuous batching has quietly become static batching,
    and only TTFT under arrivals shows it.

    ## Measure it

    Now the bill. Whole prompts against chunks at several budgets, for the five requests from the
    top of this page. The first two tables are computed by a cost clock; such a clock charges for
    the plan and not for the weights, so a model of one tiny layer gives the very same times.
    """)
    return


@app.cell
def _(chunks, newcomer, whole_prompts):
    tiny = GPT(ModelConfig(num_layers=1, num_heads=1, num_channels=8))
    BUDGETS = (8, 16, 32, 64, 128)

    def run_once(some_model, clock, parts, budget):
        """One run of the five requests, in numbers."""
        limits = EngineConfig(token_budget=budget)
        return summary(Engine(some_model, limits, parts, clock=clock).run(newcomer()))

    def measure(some_model, make_clock, budgets=BUDGETS):
        """Whole prompts, and then chunks with each budget."""
        runs = {"whole prompts": run_once(some_model, make_clock(), whole_prompts, 16)}
        for budget in budgets:
            runs[f"chunks, budget {budget}"] = run_once(
                some_model, make_clock(), chunks, budget
            )
        return runs

    on_gpu = measure(tiny, lambda: CostClock(LARGE_GPU))
    on_laptop = measure(tiny, lambda: CostClock(LAPTOP_CPU))
    return measure, on_gpu, on_laptop, run_once, tiny


@app.function(hide_code=True)
def bill(title: str, runs: dict) -> str:
    """Throughput, mean TTFT, worst gap and forwards of each run, as a Markdown table."""
    base = next(iter(runs.values()))
    rows = [
        f"| {title} | tokens/s | | mean TTFT | | worst gap | | forwards |",
        "|:--|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for name, run in runs.items():
        pairs = [
            (run.tokens_per_s, base.tokens_per_s, "{:,.0f}"),
            (run.mean_ttft_us / 1000, base.mean_ttft_us / 1000, "{:,.1f} ms"),
            (run.worst_itl_us / 1000, base.worst_itl_us / 1000, "{:,.1f} ms"),
        ]
        cells = [f"{form.format(value)} | ×{value / first:.2f}" for value, first, form in pairs]
        rows.append(f"| {name} | {' | '.join(cells)} | {run.num_forwards} |")
    return "\n".join(rows)


@app.cell(hide_code=True)
def _(on_gpu, on_laptop):
    mo.md(
        bill("**a large GPU** (modelled)", on_gpu)
        + "\n\n"
        + bill("**a laptop CPU** (cost model fitted to measurements)", on_laptop)
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    And live, with the wall clock, the trained model, on the machine in front of you. One run each, so
    expect noise; run the cell again and see how much.
    """)
    return


@app.cell
def _(chunks, measure, model, run_once):
    run_once(model, WallClock(), chunks, 16)  # warms up
    live = measure(model, WallClock, (16, 64))
    mo.md(bill("**this machine**, just now", live))
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    On the GPU every budget from 16 on *gains* throughput, and the newcomer's longer wait moves the
    mean TTFT by a few percent. A budget of 8 loses: more than half of such a step is paid for and
    not used. On the laptop every smaller budget costs throughput and TTFT, and all it buys is
    smaller gaps.

    Why the difference? Ask the clocks for the price of one more thing to do, a chunk of 8 beside
    four decodes:
    """)
    return


@app.cell
def _():
    def price(clock, chunk):
        """What `chunk` prompt tokens add to a step of four decodes, in microseconds and percent."""
        alone, both = clock.step_us(0, 4), clock.step_us(chunk, 4)
        return f"{both - alone:,} µs ({(both - alone) / alone:.0%} of {alone:,} µs)"

    mo.md(
        "| a chunk of | a large GPU (modelled) | a laptop CPU |\n|--:|:--|:--|\n"
        + "\n".join(
            f"| {chunk} | {price(LARGE_GPU, chunk)} | {price(LAPTOP_CPU, chunk)} |"
            for chunk in (4, 8, 16, 32)
        )
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    The first 8 tokens (128 of a real prompt) cost the GPU **nothing**: it was reading 16 GB of
    weights for four tokens, and the arithmetic units were waiting. That is the whole case for
    chunked prefill, and it is also why the case fails on a small CPU, where no arithmetic is
    idle, every further step pays its fixed cost again, and every chunk reads the past of its prompt
    once more.

    ### Which budget?

    So there is a price to the smallest budget and a price to the largest. Somebody promises users
    that no gap exceeds a limit. Your function turns the promise into a budget. It may ask what a step
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
def _():
    itl_limit_us = 20_000  # change the promise and run the cell

    def gpu_step_us(tokens):
        """A step of `tokens` with four decodes among them and 700 tokens of context, more than we hold."""
        return LARGE_GPU.step_us(max(0, tokens - 4), min(tokens, 4), 700)

    return gpu_step_us, itl_limit_us


@app.cell(hide_code=True)
def _(budget_attempt, chunks, gpu_step_us, itl_limit_us, run_once, tiny):
    def _said():
        if not budget_attempt.started:
            return f"Write `pick_budget`, and this line says what it makes of a limit of {itl_limit_us / 1000:g} ms."
        called = call(budget_attempt.function, (gpu_step_us, 4, itl_limit_us))
        picked = called.value
        if type(picked) is not int or picked < 1:
            return "`pick_budget` gave no budget here; the check above says more."
        run = run_once(tiny, CostClock(LARGE_GPU), chunks, picked)
        kept = (
            "the promise is kept"
            if run.worst_itl_us <= itl_limit_us
            else "**the promise is broken**"
        )
        return f"Your `pick_budget` chose **{picked}** for a limit of {itl_limit_us / 1000:g} ms. The worst gap with it is {run.worst_itl_us / 1000:.1f} ms (modelled): {kept}."

    mo.md(_said())
    return


@app.cell(hide_code=True)
def _():
    def _series(clock):
        return {
            "name": clock.name,
            "modelled": clock.modelled,
            "fixed_us": clock.fixed_us,
            "token_us": clock.token_us * clock.prompt_scale,
            "floor_us": clock.floor_us,
        }

    StepCost(
        [_series(LARGE_GPU), _series(LAPTOP_CPU)],
        title="What a step of so many prompt tokens costs",
        max_tokens=64,
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    Compare the line with the worst gaps in the tables above: once prompts are longer than the
    budget, **the budget is the worst gap**. Up to the bend it costs nothing to raise it; beyond, each
    further token is paid for by everybody who is reading.
    """)
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
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

    Publishing that table took honesty. The lesson in it: chunking trades TTFT and some throughput for
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
      `schedule`). Its designer wrote, before it was merged, that *TTFT is supposed to be a
      bit slower* for the per-step overhead and the repeated K/V reads ([RFC #3130](https://github.com/vllm-project/vllm/issues/3130)).

    And exhibit A is out there:

    - [mlxcel #1001](https://github.com/lablup/mlxcel/pull/1001): four models sent a multi-token prefill to attention without a mask; *every layer
      wrote future-contaminated K/V into the cache*.
    - [candle #3743](https://github.com/huggingface/candle/pull/3743) on masks for chunks after the first: such bugs are *invisible in the common paths*,
      because a whole prompt has offset 0 and a decode has one row. You have seen why.
    - [hyprstream #1521](https://github.com/hyprstream/hyprstream/pull/1521): `tril` without the offset, on a cached forward of several tokens: the *whole
      prompt history* hidden. PyTorch's `is_causal=True` aligns top-left in the same way, which
      ExecuTorch's reference cache ran into ([#21749](https://github.com/pytorch/executorch/pull/21749)).
    - [vLLM #26042](https://github.com/vllm-project/vllm/issues/26042): with one attention backend, chunked prefill took GSM8K from above 93 % to 65 %, and
      *it gets worse if the chunked prefill size goes smaller*: the symptom of exhibit A, word for
      word, from another cause.

    ## What comes next

    You planned steps, but you took `waiting` as it came: everybody in it could start. In lesson 2
    memory runs out. Who is admitted, who must wait, who is thrown out, and can a plan that always
    makes progress still never finish?
    """)
    return


if __name__ == "__main__":
    app.run()
