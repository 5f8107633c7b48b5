import marimo

__generated_with = "0.25.2"
app = marimo.App(width="medium", app_title="4 · The sliding window")

with app.setup(hide_code=True):
    import marimo as mo

    from course.attempt import attempt, exhibit, piece
    from course.controls import beside, slider
    from course.lazy import torch
    from course.prediction import after, hints, predict
    from course.task import task


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    # 4 · The sliding window

    *65 minutes. Builds on lessons 1 and 2: chunks, the KV budget, preemption. You write five
    functions. A good place to stop is before "Your engine".*

    Afterwards you can bound what a request holds without making its text depend on the schedule,
    keep the scheduler's count equal to what is in memory, and measure memory by what is really
    alive. What the text loses is [lesson 4b](/?file=l04b_window_quality.py).

    ## What does a KV cache never do?

    It never forgets. Each step adds one entry of K and V to every running request, in every layer
    and head, and nothing is given back until the text is done. Here are three requests with prompts
    of 8, 6 and 8 tokens. The third arrives at step 5.
    """)
    return


@app.cell(hide_code=True)
def _():
    from dataclasses import replace
    from functools import cache

    from course.answers import load_policies
    from course.lesson_data.l04_exhibits import (
        benchmarks_table,
        kept_by,
        live_bytes_table,
        overdrawn_facts,
        sliced_and_copied,
    )
    from course.lesson_data.l04_window import (
        block_steps,
        drawn_masks,
        five_requests,
        grown,
        held_after,
        ring_steps,
        runs_table,
        storage_story,
    )
    from course.lesson_data.texts import whose_policies
    from course.replay import replays
    from nanogpt import Engine, EngineConfig, load_model
    from nanogpt.policies import queueing, sliding_window
    from widgets import BlockTable, KVGrowth, MaskStepper, StorageStrip, Timeline, whose

    model = load_model()
    return (
        BlockTable,
        Engine,
        EngineConfig,
        KVGrowth,
        MaskStepper,
        StorageStrip,
        Timeline,
        benchmarks_table,
        block_steps,
        cache,
        drawn_masks,
        five_requests,
        grown,
        held_after,
        kept_by,
        live_bytes_table,
        load_model,
        load_policies,
        model,
        overdrawn_facts,
        queueing,
        replace,
        replays,
        ring_steps,
        runs_table,
        sliced_and_copied,
        sliding_window,
        storage_story,
        whose,
        whose_policies,
    )


@app.cell(hide_code=True)
def _(KVGrowth, grown, model):
    growth = [grown(model, window) for window in (None, 10, 20, 40)]
    KVGrowth(
        growth,
        "KV tokens of three requests",
        bytes_per_token=2 * model.config.num_layers * model.config.num_channels * 4,  # K, V; float32
        shown=1,
        start=30,
        question="Which of the two runs still grows?",
    )
    return (growth,)


@app.cell(hide_code=True)
def _(growth, held_after):
    (_full, _all), (_policies, _some) = held_after(growth[0], 30), held_after(growth[2], 30)
    mo.md(
        f"After step 30 the three hold {_full} = **{_all} KV tokens**, and every step adds 3 more. With a window of "
        f"W = 20 they hold {_policies} = **{_some}**, and no step adds anything. (*Show bytes* changes the unit, the slider the window.)"
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    *The post* is the one on sliding windows by the author of
    [czhou578/nanoGPT-inference](https://github.com/czhou578/nanoGPT-inference); this lesson grew
    from it, and it draws the same two numbers. First the rule, in two sentences:

    > With a **window** of W, a token sees itself and the W tokens before it. With S **sinks** it
    > also sees the first S tokens of the text.

    What no later token will see need not be kept. After a step, that leaves the last W entries (the
    next token brings its own along) and the S sinks: W + S at most, however long the text gets.
    **Visibility is a rule about the text; eviction only frees memory.**

    ## Build it

    ### Which keys may a token see?

    Lesson 1's mask was a triangle. Now it has a second edge, and a few columns that stay open. Ask
    of a single pair, and of positions alone: where a chunk began, which step it is, what happens to
    be in memory must not matter, or the text would change with the token budget.
    """)
    return


@app.cell(hide_code=True)
def _():
    task("l04.visible")
    return


@app.function
def visible(query: int, key: int, window: int | None, sinks: int) -> bool:
    """Return whether the token at position `query` may attend to the one at position `key`."""
    raise NotImplementedError("Exercise 4.1: may this query attend to this key?")


@app.cell(hide_code=True)
def _():
    visible_attempt = attempt("l04.visible", lambda: visible)
    visible_attempt
    return (visible_attempt,)


@app.cell(hide_code=True)
def _():
    hints("l04.visible")
    return


@app.cell(hide_code=True)
def _(MaskStepper, drawn_masks, visible_attempt):
    MaskStepper(
        drawn_masks(visible_attempt),
        title="A window of 4 and 1 sink",
        question="Which keys does each token see, and which has it lost?",
        start=9,
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ### What is kept?

    Here is the post's eviction, which it calls six lines of code:

    ```python
    for (layer, head), (k, v) in request.kv_cache.items():
        T = k.shape[1]
        if T > window_size:
            request.kv_cache[(layer, head)] = (
                k[:, -window_size:, :],   # keep the LAST W entries
                v[:, -window_size:, :],
            )
    ```

    Nearly every choice in it is right: the last W and not the first, K and V alike, in every layer
    and head, only if there is more than W, and after the forward pass, whose own queries still look
    back W positions each. And the slice is free of charge, says the post: *a view, not a copy; the
    old entries become unreachable and get garbage-collected*. Decide about that.
    """)
    return


@app.cell(hide_code=True)
def _(storage_story):
    story = storage_story()
    predict(
        "l04.freed",
        "Ten requests share a buffer of 12,800 bytes. Nine of them are done. The tenth keeps a slice of 640 bytes, its last 20 entries. "
        "How many bytes are **freed**?",
        ("12,160: all but the slice", "11,520: the nine others' rows", "640: half of its own row", "0"),
        3,
        f"**0.** Alive before the slice: {story[1]['live_bytes']:,} bytes. After it: {story[2]['live_bytes']:,}. After a "
        f"copy: {story[4]['live_bytes']:,}. A view is a window frame onto a storage, and a storage lives as long as one "
        "frame looks at it, whole: neighbours included. `.shape` says 20 entries and the memory says 400.",
    )
    return (story,)


@app.cell(hide_code=True)
def _(StorageStrip, story):
    after(
        "l04.freed",
        StorageStrip(
            story,
            "What a slice of 640 bytes keeps alive",
            start=2,
            question="At which step does memory come free?",
        ),
    )
    return


@app.cell(hide_code=True)
def _():
    after(
        "l04.freed",
        mo.md(r"""
    So eviction costs a copy of what stays. Write it, for one layer of one request. The sinks may lie inside the window, when the text is short.
    """),
    )
    return


@app.cell(hide_code=True)
def _():
    task("l04.evict")
    return


@app.function
def evict(
    k: torch.Tensor, v: torch.Tensor, window: int, sinks: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return `(k, v)`: what is kept of one request's K/V in one layer after a step."""
    raise NotImplementedError("Exercise 4.2: which entries stay, and where do they lie?")


@app.cell(hide_code=True)
def _():
    evict_attempt = attempt("l04.evict", lambda: evict)
    evict_attempt
    return (evict_attempt,)


@app.cell(hide_code=True)
def _():
    hints("l04.evict")
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ### What does the scheduler have to know?

    The scheduler of lesson 2 admits by what requests hold. Counted too high, requests that fit are
    turned away; counted too low, memory runs out. The published file counts `min(total, W)` and
    evicts after decodes only: with W = 20, a prompt of 40 tokens leaves its prefill **holding 40 entries
    while the scheduler counts 20**. And even with eviction after every step, a chunk is all there before any of it
    can go. So a step has two numbers, a peak and an end.
    """)
    return


@app.cell(hide_code=True)
def _():
    task("l04.kv_usage")
    return


@app.function
def kv_usage(
    num_computed_tokens: int, num_scheduled_tokens: int, window: int | None, sinks: int
) -> tuple[int, int]:
    """Return `(peak, end)`: the KV tokens a request holds at the height of a step and after it."""
    raise NotImplementedError("Exercise 4.3: KV tokens at the height of the step, and after it")


@app.cell(hide_code=True)
def _():
    held_attempt = attempt("l04.kv_usage", lambda: kv_usage)
    held_attempt
    return (held_attempt,)


@app.cell(hide_code=True)
def _():
    hints("l04.kv_usage")
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ### Where does it lie?

    `evict` copies all that stays, in every layer and every step, to let go of one entry. It need
    not. W + S slots are enough for ever: let the new entry take the place of the one that has just
    left the window, and nothing moves. The entries then lie in a strange order. Does attention mind?

    It does not. Attention is a weighted sum over a *set* of keys; each key has its position baked
    in, and a sum does not care which comes first. So the only questions are which positions share a
    slot, and that none overwrites a sink.
    """)
    return


@app.cell(hide_code=True)
def _():
    task("l04.rolling_buffer_index")
    return


@app.function
def rolling_buffer_index(position: int, window: int, sinks: int) -> int:
    """Return the slot in which the K/V of `position` lies: a number from 0 to sinks + window - 1."""
    raise NotImplementedError("Exercise 4.4: in which slot does the K/V of this position lie?")


@app.cell(hide_code=True)
def _():
    ring_attempt = attempt("l04.rolling_buffer_index", lambda: rolling_buffer_index)
    ring_attempt
    return (ring_attempt,)


@app.cell(hide_code=True)
def _():
    hints("l04.rolling_buffer_index")
    return


@app.cell(hide_code=True)
def _(StorageStrip, ring_attempt, ring_steps):
    _steps = ring_steps(ring_attempt)
    mo.md(_steps) if isinstance(_steps, str) else StorageStrip(
        _steps,
        "A window of 5 and 2 sinks, by your rolling_buffer_index",
        question="Which position does each new one overwrite?",
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## Your engine, on real Shakespeare

    Five requests, a window of 24 and 4 sinks, a KV budget of 100 tokens. Your functions go in
    through `Policies`, as far as you have written them. The run that is drawn stores K/V in the ring.
    The same requests run again with `evict` as storage, and with chunks of at most 7 and of 64
    tokens: no text may change.

    One part of lesson 2 stays the reference here: `admit` there counts everything that is known.
    The reference counts what is held.
    """)
    return


@app.cell
def _(
    Engine,
    EngineConfig,
    cache,
    five_requests,
    load_model,
    load_policies,
    replace,
    replays,
):
    exact = load_model().double()  # in float64 rounding can flip no token
    stage = EngineConfig(
        token_budget=32,
        max_kv_tokens=100,
        sliding_window=24,
        num_sinks=4,
        temperature=0.8,
        seed=1,
    )
    earlier = load_policies("l04_sliding_window")  # what you wrote in lessons 1 to 3 and passed

    @cache
    def run_under(**changed):
        """A run of five requests; with your functions in it, it is computed in a child process."""
        settings = replace(stage, **changed)
        return replays(lambda policies: Engine(exact, settings, policies), five_requests, 300)

    reference_trace = run_under().reference
    return earlier, exact, reference_trace, run_under, stage


@app.cell
def _(
    Timeline,
    earlier,
    evict_attempt,
    held_attempt,
    queueing,
    reference_trace,
    replace,
    ring_attempt,
    run_under,
    sliding_window,
    visible_attempt,
):
    attempts = {
        "visible": visible_attempt,
        "evict": evict_attempt,
        "kv_usage": held_attempt,
        "rolling_buffer_index": ring_attempt,
    }
    mine = {
        name: each.or_reference(getattr(sliding_window, name)) for name, each in attempts.items()
    }
    yours = replace(earlier.policies, admit=queueing.admit, **mine)
    your_trace = run_under()(yours)
    Timeline(
        your_trace.to_json(),
        reference_trace.to_json(),
        yours=any(each.started for each in attempts.values()),
        title="Five requests under a window of 24 and 4 sinks",
        question="Which request has to wait for memory, and when does it get some?",
    )
    return attempts, your_trace, yours


@app.cell(hide_code=True)
def _(
    attempts,
    earlier,
    exact,
    run_under,
    runs_table,
    stage,
    whose_policies,
    your_trace,
    yours,
):
    _runs = {
        "the ring, chunks of at most 32": your_trace,
        "`evict` as storage": run_under(kv_storage="evict")(yours),
        "chunks of at most 7": run_under(token_budget=7)(yours),
        "chunks of at most 64": run_under(token_budget=64)(yours),
    }
    mo.md(
        f"{whose_policies(attempts, 'these runs')} Of the earlier lessons: {earlier.sentence}\n\n"
        f"{runs_table(exact, stage, _runs)}"
    )
    return


@app.cell
def _(Engine, exact, five_requests, replace, stage):
    everything = replace(stage, sliding_window=None, num_sinks=0)
    without_window = Engine(exact, everything).run(five_requests())
    return (without_window,)


@app.cell
def _(run_under, yours):
    by_window = {W: run_under(sliding_window=W)(yours) for W in (8, 16, 24, 32, 48)}
    return (by_window,)


@app.cell(hide_code=True)
def _():
    window = slider("Window W", (8, 16, 24, 32, 48), 24)
    window
    return (window,)


@app.cell(hide_code=True)
def _(attempts, by_window, whose, window, without_window):
    from course.figure import Figure, stopped
    from nanogpt.figures.curves import kv_over_time

    def _drawn(W):
        runs = {"no window": without_window, f"a window of {W}": by_window[W]}
        mine = whose(any(each.started for each in attempts.values()))
        return Figure(
            stopped(runs.values()) or kv_over_time(runs, f"KV tokens over time, window: {mine}"),
            "From which window on does the KV budget hold requests up again?",
        )

    beside(window, _drawn)
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    The highest peak may pass the budget: the scheduler counts what is there *after* each step. All
    requests together never bring more than the token budget, so an engine sets room for one step's
    tokens aside, once.

    ## What a byte really costs

    `len` and `.shape` say what you may look at. The memory manager knows another number: which
    storages some tensor still shows.
    """)
    return


@app.cell(hide_code=True)
def _():
    task("l04.live_bytes")
    return


@app.function
def live_bytes(tensors: list[torch.Tensor]) -> int:
    """Return how many bytes of memory these tensors keep alive together."""
    raise NotImplementedError("Exercise 4.5: how many bytes do these tensors keep alive?")


@app.cell(hide_code=True)
def _():
    live_attempt = attempt("l04.live_bytes", lambda: live_bytes)
    live_attempt
    return (live_attempt,)


@app.cell(hide_code=True)
def _():
    hints("l04.live_bytes")
    return


@app.cell(hide_code=True)
def _(live_attempt, live_bytes_table, storage_story):
    after("l04.freed", mo.md(live_bytes_table(live_attempt, storage_story)))
    return


@app.cell(hide_code=True)
def _(model, sliced_and_copied):
    after(
        "l04.freed",
        mo.md(
            "And in the engine: three requests with prompts of 40 to 48 tokens, W = 20, evicted by the post's slices and by copies.\n\n"
            + sliced_and_copied(model)
            + "\n\nHere each step's concatenation makes a new buffer, so that only a fresh prompt shows the whole damage. In the published code each "
            "request's slice looks into the *whole batch's* buffer, as in the picture above, and keeps all of it. A test that looks at `.shape` passes either way."
        ),
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ### Where is PagedAttention?

    Copying what stays, and a ring of fixed size, are two ways to give memory back. Production
    engines use a third. Cut the memory into equal **blocks** once, and let each request keep a
    **table**: entries 0 to 3 of the text lie in block 5, entries 4 to 7 in block 0, and so on.
    Nothing is copied, and no request can hold a corner of another's buffer. When the last entry of
    a block has left the window, the block goes back to the pool. Here the engine itself runs so:
    blocks hold 4, the window is 5, and there is one sink.
    """)
    return


@app.cell(hide_code=True)
def _(BlockTable, block_steps, model):
    BlockTable(
        block_steps(model),
        "A pool of eight blocks",
        question="How long does a block wait until all of its entries have left the window?",
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    One sink keeps a whole block alive, and at the old end up to block size − 1 entries wait for the
    last of their block to leave. A larger block wastes more here and needs a shorter table; vLLM's
    default is 16.

    ## Break it

    A defect of published code. The symptom comes first.

    ### Exhibit A: one in, one out

    The three requests with prompts longer than W = 20, another `evict`: each step brings one token,
    so each step lets one go. The KV budget is 60.
    <span data-yours="exhibit"></span>
    """)
    return


@app.function
def evict_one_per_step(k, v, window, sinks):
    """What is kept: a full window lets its oldest entry go, the first behind the sinks."""
    if k.shape[1] <= sinks + window:
        return k, v
    keep = [i for i in range(k.shape[1]) if i != sinks]
    return k[:, keep], v[:, keep]


@app.cell(hide_code=True)
def _(KVGrowth, kept_by, model):
    overdrawn = kept_by(model, piece(lambda: evict_one_per_step), 60)
    KVGrowth(
        [{"label": "exhibit A, W = 20", "window": 20, "trace": overdrawn.to_json()}],
        "Exhibit A, against a KV budget of 60",
        question="How does what is held compare with what is counted?",
    )
    return (overdrawn,)


@app.cell(hide_code=True)
def _(load_model, overdrawn, overdrawn_facts):
    _step, _held, _counted, _right = overdrawn_facts(load_model().double(), overdrawn)
    predict(
        "l04.one_in_one_out",
        f"After step {_step} **{_held}** KV tokens are held, and the scheduler counts {_counted}. Texts like the oracle's: "
        f"{'yes' if _right else 'no'}. **What is broken?**",
        (
            "The scheduler: it should count the whole text",
            "Visibility: queries see more than the window",
            "Eviction brings a full window back to full, but a long prompt never down to it",
            "The KV budget is too small for three such prompts",
        ),
        2,
        "Prompts come in long chunks, and at each step one entry goes: one of 40 is left 19 over. From then on one comes and one goes, and it stays 19 over for the rest of its "
        "life. No query sees too much, because the mask asks for positions and not for what happens to lie there. The scheduler keeps its side of the contract and "
        "counts W; it admits a third request into memory that is not there.",
    )
    return


@app.cell(hide_code=True)
def _():
    after("l04.one_in_one_out", exhibit("A", "l04.evict", lambda: evict_one_per_step))
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## Measure it: what does a window bring?

    Memory first: the post's benchmarks, with the requests and limits of the author's file
    (`benchmarks/sliding_window.py`), and the same in our engine. Each cell reads *without → with a
    window*, in KV tokens.
    """)
    return


@app.cell(hide_code=True)
def _(benchmarks_table):
    mo.md(benchmarks_table())
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    The post's headline, *peak memory 36 to 46 % less*, is about the largest single request. All
    together, which is what has to fit, its runs fall by 42, 8 and 22 %. And 64 KV tokens stand in a
    budget of 50, 164 in one of 80: its benchmark has no preemption. Our engine keeps the budget
    after every step, so what a window brings shows as fewer preemptions.

    Then time. The post measures 18, 8 and 21 % more tokens per second. **Our engine gets slower where
    texts are short.** Tokens per second with a window, stored in the ring or by `evict`, over those
    of the full cache (packed, `python -m benchmarks.window`, one thread of an AMD EPYC, CPU time,
    median of 9; the spread is in `docs/benchmarks.md`):

    | requests × new tokens | W | most KV tokens held | ring | evict |
    |:--|--:|--:|--:|--:|
    | 3 × 30 | 20 | 108 → 60 | ×0.91 | ×0.79 |
    | 8 × 20 | 16 | 208 → 128 | ×0.85 | ×0.68 |
    | 4 × 150, after prompts of 300 | 32 | 1786 → 128 | ×1.19 | ×0.86 |

    The post's engine copies and pads all K/V in every step, and a window makes the copies smaller.
    The packed engine reads the full cache in place. There is nothing to make smaller until attention
    over a long context is what costs, and a window adds its books.

    ### Where it loses

    - On short texts, time; where memory was not short, that is all it does.
    - A preempted request under a window recomputes its whole text, not its last W tokens: what it
      kept came from what it had seen.
    - Where prompts share a prefix, K/V that was let go is gone for the next request too. (The blocks
      of lesson 7 keep it until the room is needed.)

    ## How production engines do it

    - **Mistral 7B v0.1** (Jiang et al., 2023, section 2) was trained with a window of 4,096 in every
      layer and serves from a *rolling buffer*: position i lies in slot i mod W, your `rolling_buffer_index`
      without sinks. Its later releases have no window any more.
    - **vLLM** gives layers with and without a window each their own kind of manager over one pool of
      blocks and frees blocks that have left the window
      ([design of the hybrid KV cache manager](https://docs.vllm.ai/en/latest/design/hybrid_kv_cache_manager/)).
      **TensorRT-LLM** keeps [a pool of blocks for each window size](https://nvidia.github.io/TensorRT-LLM/features/kvcache.html).

    <details>
    <summary>This lesson's defects in other engines</summary>
    <ul>
    <li><b>The slice.</b> <a href="https://github.com/ollama/ollama/pull/15065">Ollama #15065</a>: a
    snapshot of a slice of the KV cache held the whole original buffer alive through a shared pointer.</li>
    <li><b>Held and counted.</b> <a href="https://github.com/rajveer43/VeloxQuant-MLX/issues/274">VeloxQuant-MLX
    #274</a>: a cache that never evicted, while <code>len()</code> reported the capped count. The other way
    round, <a href="https://github.com/antonellof/ferrox/issues/61">ferrox #61</a>: the store evicted, and
    admission never saw the saving.</li>
    <li><b>The peak.</b> <a href="https://github.com/sgl-project/sglang/pull/30091">SGLang #30091</a>, a
    proposal for its MLX backend that was closed unmerged, measures what <code>held</code> says: while a
    chunk is in flight, a windowed layer holds the window <i>and</i> the chunk.</li>
    <li><b>W or W + 1?</b> A window of 4,096 is 4,096 keys for one library and 4,097 for the next:
    <a href="https://github.com/vllm-project/vllm/issues/3385">vLLM #3385</a>,
    <a href="https://github.com/huggingface/transformers/issues/39408">transformers #39408</a>,
    <a href="https://github.com/ml-explore/mlx-lm/pull/390">mlx-lm #390</a>, where mask and cache of one
    engine disagreed. Say which one you mean, and test the edge.</li>
    </ul>
    </details>

    ## What comes next

    A request now costs what you decide it may cost. What its text costs is
    [lesson 4b](/?file=l04b_window_quality.py).
    """)
    return


if __name__ == "__main__":
    app.run()
