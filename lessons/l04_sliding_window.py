import marimo

__generated_with = "0.25.2"
app = marimo.App(width="medium", app_title="4 · Sliding windows")

with app.setup(hide_code=True):
    from dataclasses import replace
    from functools import cache

    import marimo as mo

    from course.attempt import attempt, exhibit, piece, with_attempts
    from course.controls import beside, slider
    from course.engine_loop import engine_loop
    from course.figure import Figure, stopped
    from course.lazy import torch
    from course.lesson_data import l04_exhibits as exhibits
    from course.lesson_data import l04_window as runs
    from course.lesson_data.texts import whose_policies
    from course.prediction import after, hints, predict
    from course.replay import replays
    from course.saved_answers import load_policies
    from course.task import task
    from nanogpt import Engine, EngineConfig, Policies, load_model
    from nanogpt.figures.curves import kv_over_time
    from nanogpt.policies import queueing
    from widgets import KVGrowth, MaskStepper, StorageStrip, Timeline, whose


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    # 4 · Sliding windows

    *50 minutes. Builds on lessons 1 and 2: chunks, the KV budget, preemption. You write four
    functions. A good place to pause is before "Your engine under a window".*

    Afterwards you can

    - bound the K/V of a request without making its text depend on the schedule,
    - keep the scheduler's count equal to the KV tokens in memory,
    - say how much memory a tensor really keeps alive.

    [Lesson 4b](/?file=l04b_window_quality.py) measures what a window costs in quality.

    ## Can KV memory stop growing?

    A KV cache only grows. Every computed token adds one entry of K and V in each layer and head, and
    all entries stay until the request is finished. Here are three requests with prompts of 8, 6 and 8
    tokens. The third one arrives at step 5.
    """)
    return


@app.cell(hide_code=True)
def _():
    model = load_model()
    KVGrowth(
        [runs.grown(model, window) for window in (None, 10, 20, 40)],
        "KV tokens of three requests",
        bytes_per_token=2
        * model.config.num_layers
        * model.config.num_channels
        * 4,  # K, V; float32
        shown=1,
        start=30,
        question="Which of the two runs still grows?",
    )
    return (model,)


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    After step 30 the three requests hold 38 + 36 + 33 = **107 KV tokens**, and each step adds 3 more.
    With a window of W = 20 they hold 20 + 20 + 20 = **60**, and the total no longer grows. This is the
    rule of the window:

    > With a **window** of W, a token attends to itself and to the W tokens before it. With S **sinks**
    > it also attends to the first S tokens of the text.

    Large models put much attention weight on the first tokens, and their text breaks when these tokens
    leave the window (StreamingLLM, Xiao et al., 2023). As sinks, these tokens stay visible.

    **W or W + 1?** Here W counts the tokens *before* the query, so a token sees W + 1 keys, as in the
    post from which this lesson grew, by the author of
    [czhou578/nanoGPT-inference](https://github.com/czhou578/nanoGPT-inference). Mistral and
    transformers count W keys *with* the token itself, and vLLM and SGLang follow them: their window of
    W is our W − 1. Say which one you mean, and test the edge.

    After a step, the last W entries and the S sinks have to stay. W entries are enough for W + 1 keys,
    because the next token brings its own. No later token attends to the other entries, so the engine
    can evict them. A request then keeps at most W + S entries, however long its text gets.
    **Visibility decides the text; eviction only frees memory.**

    ## The line that evicts

    `execute` runs the model with the window's mask. The marked line then records the step: it commits
    the new K/V, evicts the entries that no later token sees, and updates how many KV tokens of each
    request the scheduler charges against the KV budget. You build the mask, the eviction, the charge
    and the storage.
    """)
    return


@app.cell(hide_code=True)
def _():
    engine_loop("self.scheduler.update(")
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## Which keys may a token see?

    Lesson 1's mask was a triangle. The window gives it a second edge, and the sinks keep a few columns
    open. Write the rule for one query and one key. It must depend on their positions only: if it
    depended on where a chunk begins or on which entries are in memory, the text would change with the
    token budget.
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
def _(visible_attempt):
    MaskStepper(
        runs.drawn_masks(visible_attempt),
        title="A window of 4 and 1 sink",
        question="Which keys does each token see, and which ones have left the window?",
        start=9,
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## Break it: one in, one out

    Exhibit A is a simple eviction, found in published code: a full window drops its oldest entry. Three
    requests with prompts of 40 to 48 tokens run with it under a window of 20. The scheduler charges at
    most 20 KV tokens for each, and the KV budget is 60. <span data-yours="exhibit"></span>
    """)
    return


@app.function
def evict_one_per_step(k, v, window, sinks):
    """A full window drops its oldest entry, the first one after the sinks."""
    if k.shape[1] <= sinks + window:
        return k, v
    keep = [i for i in range(k.shape[1]) if i != sinks]
    return k[:, keep], v[:, keep]


@app.cell(hide_code=True)
def _(model):
    overdrawn = exhibits.kept_by(model, piece(lambda: evict_one_per_step), 60)
    KVGrowth(
        [{"label": "exhibit A, W = 20", "window": 20, "trace": overdrawn.to_json()}],
        "Exhibit A, against a KV budget of 60",
        question="How many KV tokens are held, and how many are counted?",
    )
    return


@app.cell(hide_code=True)
def _():
    predict(
        "l04.one_in_one_out",
        "At its highest, this run holds **128** KV tokens while the scheduler counts 60. All texts "
        "equal those of `generate()`, the oracle. **What is broken?**",
        (
            "The scheduler: it should count the whole text",
            "Visibility: queries see more than the window",
            "Eviction: a full window stays full, but a long prompt never shrinks to the window",
            "The KV budget is too small for three such prompts",
        ),
        2,
        "A prompt arrives in large chunks, but each step drops one entry: after its prefill, a "
        "40-token prompt is 19 entries over the window, and one-in-one-out never recovers. No query sees "
        "too much, because the mask depends on positions and not on the entries in memory. The scheduler "
        "charges W for each request, so it admits a third one into memory that is already full.",
    )
    return


@app.cell(hide_code=True)
def _():
    after("l04.one_in_one_out", exhibit("A", "l04.evict", lambda: evict_one_per_step))
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## Which entries stay in memory?

    After a step, exactly the sinks and the last W entries should stay, however many the step added. The
    post evicts in this way:

    ```python
    for (layer, head), (k, v) in request.kv_cache.items():
        T = k.shape[1]
        if T > window_size:
            request.kv_cache[(layer, head)] = (
                k[:, -window_size:, :],   # keep the LAST W entries
                v[:, -window_size:, :],
            )
    ```

    Most of this code is right. It keeps the last W entries, of K and V alike, in every layer
    and head. It runs after the forward pass, because the queries of this step still look back W
    positions each. But the post also says that the slice is free: *a view, not a copy; the old entries
    become unreachable and get garbage-collected*. Are they?
    """)
    return


@app.cell(hide_code=True)
def _():
    predict(
        "l04.freed",
        "Ten requests share a buffer of 12,800 bytes. Nine of them are finished. The other one, "
        "request 3, keeps a slice of 640 bytes, its last 20 entries. How many bytes are **freed**?",
        (
            "12,160: all but the slice",
            "11,520: the rows of the nine others",
            "640: half of its own row",
            "0",
        ),
        3,
        "**0.** A slice is a view of a storage, and a storage is freed only when no tensor views it "
        "any more, and then as a whole. The slice of 640 bytes keeps all 12,800 alive, including the "
        "rows of the nine other requests.",
    )
    return


@app.cell
def _():
    buffer = torch.zeros(10, 40, 8)  # one head's keys: 10 requests, 40 entries of 8 float32 numbers
    view = buffer[3, -20:]  # request 3 keeps its last 20 entries
    copied = view.clone()

    def shown(tensor):
        return tensor.numel() * tensor.element_size()

    def alive(tensor):
        return tensor.untyped_storage().nbytes()

    after("l04.freed", mo.md(f"""
    | request 3 keeps | bytes that `.shape` shows | bytes that stay alive |
    |:--|--:|--:|
    | `buffer[3, -20:]` | {shown(view):,} | **{alive(view):,}** |
    | `buffer[3, -20:].clone()` | {shown(copied):,} | {alive(copied):,} |
    """))
    return


@app.cell(hide_code=True)
def _():
    after(
        "l04.freed",
        StorageStrip(
            runs.storage_story(),
            "What a slice of 640 bytes keeps alive",
            start=2,
            question="At which step is memory freed?",
        ),
    )
    return


@app.cell(hide_code=True)
def _():
    after("l04.freed", mo.md(r"""
    So eviction has to copy the entries that stay. In our engine, the K/V of a prompt of 40 tokens
    keeps 163,840 bytes alive when it is sliced to W = 20 after the prefill, and 81,920 when it is
    copied. A test that looks only at `.shape` passes either way.

    Write `evict` for one layer of one request. In a short text, the sinks may lie inside the window.
    """))
    return


@app.cell(hide_code=True)
def _():
    task("l04.evict")
    return


@app.function
def evict(
    k: torch.Tensor, v: torch.Tensor, window: int, sinks: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return `(k, v)`: the entries of one request's K/V in one layer that stay after a step."""
    raise NotImplementedError("Exercise 4.2: which entries stay, and in which storage?")


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
    ## How many KV tokens does the scheduler charge?

    Lesson 2's scheduler admits requests by the KV tokens that the running ones hold. If it counts too
    many, requests that fit have to wait; if it counts too few, memory runs out. The post's engine
    counts `min(total, W)` but evicts only after decodes. With W = 20, a prompt of 40 tokens therefore
    leaves its prefill **holding 40 entries while the scheduler counts 20**.

    Even an engine that evicts after every step has all K/V of a chunk in memory before it can evict
    any. So a step has two numbers: the peak, and the KV tokens after the step.
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
    """Return `(peak, end)`: the KV tokens of a request at the peak of a step, and after it."""
    raise NotImplementedError("Exercise 4.3: KV tokens at the peak of the step, and after it")


@app.cell(hide_code=True)
def _():
    usage_attempt = attempt("l04.kv_usage", lambda: kv_usage)
    usage_attempt
    return (usage_attempt,)


@app.cell(hide_code=True)
def _():
    hints("l04.kv_usage")
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## A rolling buffer for the window

    `evict` copies W + S entries per layer and step in order to drop one. A buffer of W + S slots needs
    no copies: each new entry overwrites the one that has just left the window. The entries are then no
    longer in the order of the text. Does attention mind?

    It does not. Attention is a weighted sum over a *set* of entries. Each key already contains its position,
    and a sum does not depend on the order of its terms. So any assignment of positions to slots is
    right if positions that are kept at the same time never share a slot.
    """)
    return


@app.cell(hide_code=True)
def _():
    task("l04.rolling_buffer_index")
    return


@app.function
def rolling_buffer_index(position: int, window: int, sinks: int) -> int:
    """Return the slot, from 0 to sinks + window - 1, that holds the K/V of `position`."""
    raise NotImplementedError("Exercise 4.4: which slot holds the K/V of this position?")


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
def _(ring_attempt):
    _steps = runs.ring_steps(ring_attempt)
    mo.md(_steps) if isinstance(_steps, str) else StorageStrip(
        _steps,
        "A window of 5 and 2 sinks, by your rolling_buffer_index",
        question="Which position does each new one overwrite?",
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## Your engine under a window

    Five requests run with a window of 24, 4 sinks and a KV budget of 100 tokens, with the functions
    that you have written so far. The timeline shows the run with the rolling buffer. The table adds
    a run that calls `evict` instead, and runs with chunks of at most 7 and of at most 64 tokens: no text
    may change.

    `admit` is the reference here. Your `admit` of lesson 2 counts all tokens of a request; under a
    window, only the tokens that stay count.
    """)
    return


@app.cell
def _():
    exact = load_model().double()  # in float64 rounding can flip no token
    stage = EngineConfig(
        token_budget=32,
        max_kv_tokens=100,
        sliding_window=24,
        num_sinks=4,
        temperature=0.8,
        seed=1,
    )
    reference_trace = Engine(exact, stage, Policies()).run(runs.five_requests())
    everything = replace(stage, sliding_window=None, num_sinks=0)
    without_window = Engine(exact, everything, Policies()).run(runs.five_requests())
    return exact, reference_trace, stage, without_window


@app.cell(hide_code=True)
def _(
    evict_attempt,
    exact,
    reference_trace,
    ring_attempt,
    stage,
    usage_attempt,
    visible_attempt,
):
    @cache
    def run_under(**changed):
        """A run of five requests; with your functions in it, it is computed in a child process."""
        settings = replace(stage, **changed)
        return replays(lambda policies: Engine(exact, settings, policies), runs.five_requests, 300)

    earlier = load_policies("l04_sliding_window")  # what you wrote in lessons 1 to 3 and passed
    attempts = {
        "visible": visible_attempt,
        "evict": evict_attempt,
        "kv_usage": usage_attempt,
        "rolling_buffer_index": ring_attempt,
    }
    yours = with_attempts(replace(earlier.policies, admit=queueing.admit), attempts)
    your_trace = run_under()(yours)
    Timeline(
        your_trace.to_json(),
        reference_trace.to_json(),
        yours=any(each.started for each in attempts.values()),
        title="Five requests under a window of 24 and 4 sinks",
        question="Which request waits for KV memory, and when does it get some?",
    )
    return attempts, earlier, run_under, your_trace, yours


@app.cell(hide_code=True)
def _(attempts, earlier, exact, run_under, stage, your_trace, yours):
    _runs = {
        "rolling buffer, chunks ≤ 32": your_trace,
        "`evict`, chunks ≤ 32": run_under(kv_storage="evict")(yours),
        "rolling buffer, chunks ≤ 7": run_under(token_budget=7)(yours),
        "rolling buffer, chunks ≤ 64": run_under(token_budget=64)(yours),
    }
    mo.md(
        f"{whose_policies(attempts, 'these runs')} From earlier lessons: {earlier.sentence}\n\n"
        f"{runs.runs_table(exact, stage, _runs)}"
    )
    return


@app.cell(hide_code=True)
def _():
    window = slider("Window W", (8, 16, 24, 32, 48), 24)
    window
    return (window,)


@app.cell(hide_code=True)
def _(attempts, run_under, window, without_window, yours):
    def _drawn(W):
        traces = {
            "no window": without_window,
            f"a window of {W}": run_under(sliding_window=W)(yours),
        }
        mine = whose(any(each.started for each in attempts.values()))
        return Figure(
            stopped(traces.values())
            or kv_over_time(traces, f"KV tokens over time, window: {mine}"),
            "With which windows do requests wait for the KV budget?",
        )

    beside(window, _drawn)
    return


@app.cell(hide_code=True)
def _():
    mo.md(rf"""
    The highest peak in the table may exceed the budget, because the scheduler counts the KV tokens
    *after* each step. A step never adds more than the token budget, so an engine needs to reserve
    memory for that many tokens only once, for all requests together.

    ## How much memory does a window save?

    The table shows three benchmarks of the post, as published and in our engine, with the requests and
    limits of `benchmarks/sliding_window.py` in the author's repository. Each cell reads *without → with a
    window*. The first two columns of numbers count KV tokens.

    {exhibits.benchmarks_table()}

    The post's headline, *peak memory 36 to 46 % less*, is about the largest single request. Memory has
    to hold all requests together, and by the post's own numbers their total falls by 42, 8 and 22 %.
    The post's benchmark does not preempt, so it holds 64 KV tokens under a budget of 50. Our engine
    stays within the budget after every step, and the window saves preemptions.

    **A padded batch also has less padding.** Lesson 3's padded layout fills every request's K/V up to
    the longest. Below, a request with a 10-token prompt joins a request that holds 48 entries. Without
    a window the shorter K/V is padded by 38 entries in every step. With W = 20 the longer request holds
    20 entries, and the shorter one reaches 20 after ten steps: the padding starts at 10, is 2 after
    eight steps and ends at 0. The post estimates 2 or 3. A packed batch has no such padding in either
    case.
    """)
    return


@app.cell(hide_code=True)
def _():
    Figure(
        exhibits.padded_entries(),
        "How much padding does the shorter request need, with and without a window?",
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## What does a window cost in speed, recomputation and reuse?

    **Short texts get slower.** The post measures 18, 8 and 21 % more tokens per second with a window,
    but our engine is slower with a window unless the texts are long. The table gives our engine's tokens
    per second of CPU time with a window, relative to the full cache: packed executor, one thread of an
    AMD EPYC, median of 9 (`python -m benchmarks.window`; `docs/benchmarks/features.md` has the spread).

    | requests × new tokens | W | most KV tokens held | rolling buffer | evict |
    |:--|--:|--:|--:|--:|
    | 3 × 30 | 20 | 108 → 60 | ×0.91 | ×0.79 |
    | 8 × 20 | 16 | 208 → 128 | ×0.85 | ×0.68 |
    | 4 × 150, after prompts of 300 | 32 | 1786 → 128 | ×1.19 | ×0.86 |

    The post's engine copies and pads all K/V in every step, so a window makes its copies smaller. The
    packed engine reads the full cache in place. Until attention over a long context dominates the step,
    a window only adds bookkeeping.

    **A preempted request recomputes its whole text**, not only its last W tokens, because in upper layers
    the kept entries also depend on evicted tokens.

    **Shared prefixes are lost.** Where prompts share a prefix, the next request cannot reuse K/V that was
    evicted. Lesson 7's blocks keep such K/V until its memory is needed.

    ## What you now know

    - Yes, KV memory can stop growing: with a window of W and S sinks, a request keeps at most W + S
      entries after each step.
    - Visibility depends on positions only. Therefore chunks, eviction and storage never change the text.
    - A view keeps its whole storage alive, so eviction copies, or overwrites in a rolling buffer.
    - The scheduler has to charge the KV tokens that are really held. At the peak of a step, a request holds
      more than after it, by up to the length of its chunk.
    - A window saves memory once a text is longer than W + S tokens, but it saves time only when contexts
      are long.

    ## The same in vLLM and SGLang

    | here | vLLM | SGLang |
    |:---|:---|:---|
    | our window of W − 1: W keys with the token itself | `sliding_window` of the model's config; the kernel gets W − 1 | `config.sliding_window - 1` |
    | eviction | `SlidingWindowManager`, `vllm/v1/core/single_type_kv_cache_manager.py` | `SWAComponent` of the radix cache |
    | storage | blocks of tokens (lesson 7), freed as a whole | a pool of its own, `SWAKVPool`, `srt/mem_cache/swa_memory_pool.py` |
    | models in which only some layers have a window | hybrid KV cache manager, `--disable-hybrid-kv-cache-manager` | `--swa-full-tokens-ratio` 0.8, `--disable-hybrid-swa-memory` |

    - Both engines free memory in whole blocks or pages, and only in the layers that have a window. In
      models that mix layers, the K/V of the other layers still grows.
    - **Mistral 7B v0.1** (Jiang et al., 2023, section 2) was trained with a window of 4,096 in every
      layer and uses a *rolling buffer*: position i is in slot i mod W, your `rolling_buffer_index`
      without sinks. Gemma 3 has a window in five of six layers, gpt-oss (W = 128) in every second one.

    **How the control flow differs.** Our engine evicts after each forward, token by token, in `update`.
    vLLM frees blocks at the beginning of the next step: when the scheduler allocates slots for a
    request, it first frees the blocks that are wholly outside the request's window, and then counts what
    the new tokens need. So the peak of a step is part of the allocation, and there is no separate
    charge.

    *Checked against vLLM 0.33.0 and SGLang 0.5.23, November 2026.*

    /// details | This lesson's defects in other engines

    - **The slice.** [Ollama #15065](https://github.com/ollama/ollama/pull/15065): a snapshot of a slice
      of the KV cache kept the whole original buffer alive through a shared pointer.
    - **Held but not counted.**
      [VeloxQuant-MLX #274](https://github.com/rajveer43/VeloxQuant-MLX/issues/274): a cache that never
      evicted, while `len()` reported the capped count. The opposite,
      [ferrox #61](https://github.com/antonellof/ferrox/issues/61): the store evicted, but admission
      never saw the saving.
    - **The peak.** [SGLang #30091](https://github.com/sgl-project/sglang/pull/30091), a proposal for its
      MLX backend that was closed unmerged, measures the peak that your `kv_usage` returns: while a chunk
      is computed, a windowed layer holds the window *and* the chunk.
    - **W or W + 1?** [vLLM #3385](https://github.com/vllm-project/vllm/issues/3385),
      [transformers #39408](https://github.com/huggingface/transformers/issues/39408), and
      [mlx-lm #390](https://github.com/ml-explore/mlx-lm/pull/390), where the mask and the cache of one
      engine disagreed.
    ///

    ## What comes next

    Memory per request is now bounded. [Lesson 4b](/?file=l04b_window_quality.py) measures the price in
    quality.
    """)
    return


if __name__ == "__main__":
    app.run()
