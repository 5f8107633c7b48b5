import marimo

__generated_with = "0.25.2"
app = marimo.App(width="medium", app_title="7b · When the cache spills")

with app.setup(hide_code=True):
    import marimo as mo
    import torch

    from course.attempt import attempt, exhibit, with_attempts
    from course.figure import Figure
    from course.lesson_data import l07_pool as pool
    from course.lesson_data import l07b_agents as agents
    from course.prediction import after, hints, predict
    from course.replay import replays
    from course.saved_answers import load_policies
    from course.task import task
    from nanogpt import Engine, load_model
    from nanogpt.views.step_cost import Link, StepCost
    from widgets import BlockPool


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    # 7b · When the cache spills

    *45 minutes, an elective. Builds on lesson 7: blocks, hashes, prefix hits, eviction. You write three short
    functions.*

    Afterwards you can say why a cache that is slightly too small may find nothing at all, keep K/V in a second
    tier of memory without changing any text, and decide whether to load K/V or to compute it again.

    ## How much does an agent find when it returns?

    An *agent* calls a model in a loop. It sends its conversation, gets a few tokens, runs a tool, and returns
    with the same conversation and a few tokens more. While the tool runs, other agents take their turns. The
    pool keeps each conversation in free blocks that can be found, until it needs these blocks for another
    request.
    """)
    return


@app.cell(hide_code=True)
def _():
    predict(
        "l07.cliff",
        "Eight agents take turns, always in the same order. Each conversation fills 12 blocks, so all of them fill 96. The pool has **84 blocks**, seven eighths of that, and evicts the least recently used block first. **How much of its conversation does an agent find when it returns?**",
        ("Seven eighths", "About half", "One eighth", "Nothing"),
        3,
        "**Nothing.** When the eighth agent runs, it needs 12 blocks, and the least recently used ones are those of the first agent, which is next. The first agent returns, finds nothing, computes all of its conversation, and takes the blocks of the second, and so on. With a fixed order of turns, the least recently used conversation is always the one that is needed next.",
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    More memory would help, and a server has more: next to the 80 GB of a GPU there are often 500 GB of *host
    memory*, the RAM of its CPU. The GPU cannot compute on K/V that lies there, but the host can keep a copy
    until the agent returns. So the engine gets a second **tier**, the *host tier*:

    - After a step, the engine copies each block that has become full to the host (*write-through*).
    - When a request may start, the engine looks for its prefix in the pool and in the host.
    - Before the request's first step, the engine takes blocks of the pool for what only the host has, and
      copies the K/V into them: it *loads* them.

    The engine loads and stores within the step's transaction: if the step fails, both tiers are as they were
    before. Your first function looks for a prefix in both tiers. Lesson 7's `longest_match` ended at the first
    block that the pool did not have; what ends a match now?

    Below, three agents take two turns each on a pool of twelve blocks, and each conversation fills seven. On
    this machine the pool is RAM as well, so both tiers are the same kind of memory. The copies are real; how
    long they take over a GPU's link is **modelled** further down.
    """)
    return


@app.cell
def _():
    exact = load_model(dtype=torch.float64)
    run_with = replays(
        lambda policies: Engine(exact, agents.SETTINGS, policies), lambda: agents.six_turns(exact), 300
    )
    return exact, run_with


@app.cell(hide_code=True)
def _(run_with):
    after(
        "l07.cliff",
        BlockPool(
            run_with.reference.to_json(),
            title="Three agents on twelve blocks and a host tier",
            question="Where is a conversation when its agent returns?",
        ),
    )
    return


@app.cell(hide_code=True)
def _():
    task("l07.match_tiers")
    return


@app.function
def match_tiers(
    hashes: list[str], device: dict[str, int], host: set[str], num_tokens: int, size: int
) -> tuple[list[int | None], int]:
    """Return `(blocks, num_cached)`, with None for each block to be loaded from the host."""
    raise NotImplementedError("Exercise 7b.1: what do the two tiers have of this text?")


@app.cell(hide_code=True)
def _():
    match_attempt = attempt("l07.match_tiers", lambda: match_tiers)
    match_attempt
    return (match_attempt,)


@app.cell(hide_code=True)
def _():
    hints("l07.match_tiers")
    return


@app.cell(hide_code=True)
def _():
    predict(
        "l07.link",
        "On the large GPU of this course, a prompt token takes 32 µs to compute, and its K/V has 128 KiB. PCIe 5.0 carries about 50,000 bytes per µs. **How much faster is loading a long prefix than computing it?**",
        ("About twice", "About 12 times", "About 100 times", "It is slower"),
        1,
        "131,072 bytes at 50,000 bytes per µs take 2.6 µs, and 32 / 2.6 is about **12**. At 4,096 bytes per µs the two are equal. So a drive that reads 5 GB/s hardly gains anything here, and a network of 10 Gbit/s, 1.25 GB/s, loses: computing is then three times faster.",
    )
    return


@app.cell(hide_code=True)
def _():
    after("l07.link", mo.md(r"""
    ## Load it, or compute it again?

    A transfer has a latency, and a step has a fixed cost, which it pays in any case. This engine loads
    first and computes then. The same function decides about a preempted request: with "load" its K/V
    comes back from the host (*swapping*), with "compute" it is recomputed. The third function says what
    the host keeps: its memory is larger than the pool, but it is not infinite.
    """))
    return


@app.cell(hide_code=True)
def _():
    task("l07.load_or_compute")
    return


@app.function
def load_or_compute(num_tokens: int, kv_bytes: int, link: Link, step_cost: StepCost) -> str:
    """Return "load" or "compute", whichever delays the request less."""
    raise NotImplementedError("Exercise 7b.2: which of the two takes less time?")


@app.cell(hide_code=True)
def _():
    load_attempt = attempt("l07.load_or_compute", lambda: load_or_compute)
    load_attempt
    return (load_attempt,)


@app.cell(hide_code=True)
def _():
    hints("l07.load_or_compute")
    return


@app.cell(hide_code=True)
def _():
    task("l07.spill")
    return


@app.function
def spill(published: list[str], host: list[str], capacity: int) -> list[str]:
    """Return the hashes that the host holds from now on, the first to be dropped first."""
    raise NotImplementedError("Exercise 7b.3: what does the host keep?")


@app.cell(hide_code=True)
def _():
    spill_attempt = attempt("l07.spill", lambda: spill)
    spill_attempt
    return (spill_attempt,)


@app.cell(hide_code=True)
def _():
    hints("l07.spill")
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## Your engine with two tiers

    The six turns run again with the functions that you have written so far, in float64 and at temperature 1. A
    match over a gap, or a block in the wrong place, gives a text that is not the oracle's.
    """)
    return


@app.cell
def _(load_attempt, match_attempt, run_with, spill_attempt):
    attempts = {"match_tiers": match_attempt, "load_or_compute": load_attempt, "spill": spill_attempt}
    earlier = load_policies("l07b_spilling")  # your passed answers from earlier lessons
    yours = with_attempts(earlier.policies, attempts)
    reference_trace, your_trace = run_with(earlier.policies), run_with(yours)
    return attempts, earlier, reference_trace, your_trace, yours


@app.cell(hide_code=True)
def _(attempts, reference_trace, your_trace):
    BlockPool(
        your_trace.to_json(),
        reference_trace.to_json(),
        yours=any(each.started for each in attempts.values()),
        title="Two tiers while your functions run",
        question="Which blocks does each agent find, and in which tier?",
    ) if your_trace.steps else mo.md(pool.nothing_ran(your_trace))
    return


@app.cell(hide_code=True)
def _(attempts, earlier, exact, reference_trace, your_trace):
    mo.md(agents.run_report(attempts, earlier, exact, your_trace, reference_trace))
    return


@app.cell(hide_code=True)
def _():
    predict(
        "l07.fits",
        "Now the pool is **large enough** for all conversations. What does a host tier change?",
        ("Nothing: no block is ever copied", "No block is loaded, but every full block is still copied to the host", "The hit rate rises, since there are two copies"),
        1,
        "Write-through copies a block when it becomes full, before anyone knows whether the pool will evict it. In a pool that never evicts, all of these copies are for nothing.",
    )
    return


@app.cell(hide_code=True)
def _(yours):
    after(
        "l07.fits",
        Figure(agents.sweep_chart(yours), "How small may the pool be, with a host tier and without?"),
    )
    return


@app.cell(hide_code=True)
def _():
    after("l07.fits", mo.md(r"""
    Eight agents take four turns each; their conversations end at 1,088 KV tokens together. The chart
    shows the last turn of each, with your functions, **modelled** on the large GPU: one of our prompt
    tokens stands for 16, K/V goes over PCIe 5.0, and copies in both directions delay the step.

    | pool, KV tokens | found, pool only | TTFT | found, with a host tier | TTFT |
    |--:|--:|--:|--:|--:|
    | 1,024 | 87.5 % | 8.8 ms | 87.5 % | 9.5 ms |
    | 960 | 71.9 % | 19.0 ms | 87.5 % | 10.3 ms |
    | 896 | 32.8 % | 44.6 ms | 87.5 % | 12.4 ms |
    | 768 | 0.0 % | 66.1 ms | 87.5 % | 14.2 ms |

    A quarter less memory takes the hit rate from 87.5 % to nothing. With the host tier it stays, and
    the first token comes almost five times earlier than without. **Where everything fits, the tier
    loses**: the first token comes 8 % later, because its step also stores blocks. vLLM and SGLang copy
    beside the computation, which hides most of that. Users of LMCache report such losses: 340 s instead
    of 306 s for 4,175 requests ([#970](https://github.com/LMCache/LMCache/issues/970)), or a test in
    which 3 of 15,444 tokens were loaded, since the pool had all others
    ([#1109](https://github.com/LMCache/LMCache/issues/1109)).
    """))
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## Break it

    ### Exhibit A: the host is asked only after a miss

    A tier looks like a fallback, so this function asks it only if the pool does not have the first block.
    Predict, then **repair the function in its cell**.
    <span data-yours="exhibit"></span>
    """)
    return


@app.function
def ask_after_a_miss(hashes, device, host, num_tokens, size):
    """Look in the host if the pool does not have the first block."""
    tier = device if hashes and hashes[0] in device else dict.fromkeys(host)
    blocks = []
    for block_hash in hashes[: (num_tokens - 1) // size]:
        if block_hash not in tier:
            break
        blocks.append(tier[block_hash])
    return blocks, len(blocks) * size


@app.cell(hide_code=True)
def _():
    predict(
        "l07.fallback",
        "With which pool does this engine compute the most tokens that the host has?",
        ("A very small one", "One that is a little too small", "One that is large enough"),
        1,
        "Eviction takes the end of a text first. If the pool is a little too small, it still has the first block of each text, so the host is not asked, and the rest is computed. In a very small pool nothing is left and the host is asked. [inference-sim #1586](https://github.com/inference-sim/inference-sim/issues/1586) asked its host tier only after a failed allocation: a lightly loaded GPU never asked it.",
    )
    return


@app.cell(hide_code=True)
def _():
    after("l07.fallback", exhibit("A", "l07.match_tiers", lambda: ask_after_a_miss))
    return


@app.cell(hide_code=True)
def _():
    predict(
        "l07.late_copy",
        "Exhibit B. To save copies, an engine copies a block only when the pool evicts it. It allocates blocks, evicting some, runs the pass, and then copies what it has evicted. **What does an agent find in the host when it returns?**",
        ("Its K/V, one step late", "K/V of another conversation, under its own hashes", "Nothing: the hashes were removed by the eviction"),
        1,
        "The pool evicted the block because a request of this step needed it, and the pass has overwritten it when the copy is made. The copy must come before the pass, which then waits for it. [vLLM #43946](https://github.com/vllm-project/vllm/pull/43946) proposed copies at eviction, and put them into the stream of the pass for that reason; it was closed. Write-through costs memory instead: a guide that took the copies for evictions sized the host 8.5 times too small ([inference-sim #1726](https://github.com/inference-sim/inference-sim/pull/1726)).",
    )
    return


@app.cell(hide_code=True)
def _():
    predict(
        "l07.counted",
        "Exhibit C. A request has a hit of two blocks in the pool and four in the host. The engine counts the hit, takes four blocks to load into, and then lets the request's table refer to the two. **What can go wrong?**",
        ("The four blocks may be too few", "The two blocks may be among the four", "The host may drop the four while they are loaded"),
        1,
        "Until a table refers to them, the two blocks are free, so the pool may evict them for the load: the hit was counted, and its K/V is overwritten. First let the tables refer to every block that was counted, then allocate. [vLLM #33775](https://github.com/vllm-project/vllm/pull/33775) describes this race for models with several groups of layers.",
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## What you now know

    - A cache under LRU, used in turns, falls from nearly everything to nothing when it is a little too small.
    - A second tier keeps what the pool evicts. A block is found by its hash in either tier, and one hit may
      need both.
    - Write-through copies early, so an eviction waits for nothing. It costs copies that may never be read.
    - Loading pays if the link carries a token's K/V in less time than the token takes to compute, and if it is
      more than a few tokens.
    - A tier changes which tokens are computed again, and no text. Prompts that come only once gain nothing.

    ## The same in vLLM and SGLang

    *Checked in November 2026 against vLLM 0.33.0 and SGLang 0.5.23.*

    | | vLLM, `vllm/v1/kv_offload/` | SGLang, HiCache |
    |:--|:--|:--|
    | switch | `--kv-offloading-size` in GiB, `--kv-offloading-backend native` or `lmcache` | `--enable-hierarchical-cache`, `--hicache-ratio` or `--hicache-size` |
    | `match_tiers` | `get_computed_blocks`, then the connector's `get_num_new_matched_tokens` | one radix tree over all tiers |
    | `load_or_compute` | loads what it finds | loads 10 tokens or more (`load_back_threshold`) |
    | `spill` | LRU or ARC over full blocks, by choice only those that are looked up again | `--hicache-write-policy`: `write_through`, `write_through_selective` or `write_back` |
    | metrics | `vllm:external_prefix_cache_hits`, `vllm:kv_offload_load_bytes`, `vllm:kv_offload_store_bytes` | in tokens |

    vLLM matches a run in the pool and then a run in the host. To look each block up in both, as you do, is
    [#57325](https://github.com/vllm-project/vllm/pull/57325), open in September 2026. Both engines can load for
    one request while others compute. SGLang has a third tier, on disk or on other machines.

    ## What comes next

    K/V of known tokens can be kept in many places, but each new token still takes a pass of its own. In [lesson
    8](/?file=l08_speculation.py) a small model drafts several tokens, and the large one checks them in one
    pass.
    """)
    return


if __name__ == "__main__":
    app.run()
