import marimo

__generated_with = "0.25.2"
app = marimo.App(width="medium", app_title="9b · Prefill here, decode there")

with app.setup(hide_code=True):
    import marimo as mo

    from course.attempt import attempt
    from course.figure import Figure
    from course.lesson_data import l09b_pools as pools
    from course.prediction import after, hints, predict
    from course.task import task
    from nanogpt.views.fleet_views import PoolCosts, PoolLoad
    from widgets import FleetView


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    # 9b · Prefill here, decode there

    *40 minutes. Builds on lessons 7 (blocks and their hashes) and 9 (a fleet of workers). You write three
    functions.*

    Afterwards you can say what separate workers for prompts and for texts gain and lose, which K/V goes
    from one to the other, and when each side may free it.

    ## Why would a worker only prefill?

    A worker that computes a long prompt makes every decode of its batch wait. Lesson 1 cut the prompt into
    chunks, which makes the wait shorter and the prompt slower. **Disaggregation** removes the wait: one
    pool of workers computes prompts, another generates, and the K/V of each prompt goes from the first to
    the second. What does that cost?
    """)
    return


@app.cell(hide_code=True)
def _():
    predict(
        "l09.specialise",
        "Two workers. A request has 1,000 prompt tokens at 13 µs and 60 new tokens at 80 µs. Sending the "
        "K/V takes 1.3 µs per prompt token, for both sides. **How many requests per second can one prefill "
        "worker and one decode worker finish?** Two mixed workers, which send nothing, finish "
        "2 / 17.8 ms = 112.",
        ("About 56", "About 70", "About 112", "About 164"),
        1,
        "A request keeps the prefill worker busy for 13 + 1.3 = 14.3 ms, and the decode worker for "
        "4.8 + 1.3 = 6.1 ms. The busier one finishes 1000 / 14.3 = 70 per second, and the other is idle "
        "for more than half of the time. Two pools have less capacity than one. What they gain must be "
        "something else.",
    )
    return


@app.cell(hide_code=True)
def _():
    task("l09.split_pool")
    return


@app.function
def split_pool(workers: int, load: PoolLoad, costs: PoolCosts) -> int:
    """Return how many of the workers should only prefill; 0 for a mixed pool."""
    raise NotImplementedError("Exercise 9b.1: how many workers prefill?")


@app.cell(hide_code=True)
def _():
    split_attempt = attempt("l09.split_pool", lambda: split_pool)
    split_attempt
    return (split_attempt,)


@app.cell(hide_code=True)
def _():
    hints("l09.split_pool")
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## What do two pools gain?

    Four simulated workers, as in lesson 9, with the cost model `CALIBRATED_COST`: **all times in this
    section are modelled**, those of the link too. A pass takes 0.6 ms, and 1.4 ms or 13 µs per new token on
    top, whichever is longer.
    """)
    return


@app.cell(hide_code=True)
def _():
    predict(
        "l09.stall",
        "Three prompts of 1,000 tokens reach a mixed worker together, and it computes them in one pass. "
        "**How long do the decodes of its batch wait for their next token?**",
        ("2 ms", "14 ms", "40 ms", "120 ms"),
        2,
        "0.6 ms and 3,000 × 13 µs: 39.6 ms, twenty times a decode step. On a decode worker the next token "
        "comes after about 2 ms, whatever arrives. Two pools buy an even rhythm, not speed.",
    )
    return


@app.cell(hide_code=True)
def _(split_attempt):
    after("l09.specialise", mo.md(pools.pools_table(split_attempt)))
    return


@app.cell(hide_code=True)
def _():
    after("l09.stall", mo.md(r"""
    The table shows **goodput**: requests per second whose first token comes within 200 ms and whose tokens
    are never more than 20 ms apart. The choice of `split_pool` is bold; the last column has a link that is
    ten times slower.

    - At a low load all pools are equal, and two pools only add the link.
    - Long prompts at a high rate: in the mixed pool, many requests wait too long for some token. Two pools
      of the right sizes serve them all, and two of the wrong sizes do worse than the mixed one.
    - Short prompts with long answers: nothing is gained, and too few decode workers lose most requests.
    """))
    return


@app.cell(hide_code=True)
def _(split_attempt):
    num_prefill = pools.chosen(split_attempt, pools.LOADS[1])
    after(
        "l09.stall",
        FleetView(
            pools.pooled(pools.LOADS[1], num_prefill).to_json(),
            f"120 long prompts per second, {num_prefill} of 4 workers prefill (modelled)",
            zoom=5,
            question="Follow one request: where is it computed, and where does its text begin?",
        ),
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## Which blocks are sent?

    The decode worker finds K/V by the hashes of full blocks (lesson 7), and may have some of the prompt's
    blocks from earlier requests. The rest comes from the prefill worker.
    """)
    return


@app.cell(hide_code=True)
def _():
    task("l09.blocks_to_send")
    return


@app.function
def blocks_to_send(num_tokens: int, size: int, decode_hit: int) -> list[int]:
    """Return the indices of the blocks that go from the prefill worker to the decode worker."""
    raise NotImplementedError("Exercise 9b.2: which blocks are sent?")


@app.cell(hide_code=True)
def _():
    send_attempt = attempt("l09.blocks_to_send", lambda: blocks_to_send)
    send_attempt
    return (send_attempt,)


@app.cell(hide_code=True)
def _():
    hints("l09.blocks_to_send")
    return


@app.cell(hide_code=True)
def _():
    predict(
        "l09.full_hit",
        "A prompt has exactly 32 tokens, in blocks of 16. A receiver gets both blocks and counts all 32 "
        "tokens as computed. It still needs logits for the first new token, so it computes the last token "
        "of the prompt. **What goes wrong?**",
        (
            "Nothing: it computes the same token again",
            "The first new token is already wrong: the model sees the last token twice",
            "The text is right, and one token longer",
            "The second block is overwritten, and only later requests notice",
        ),
        1,
        "With 32 tokens computed, the next position is 32. The last token, which is at position 31, is "
        "computed once more at position 32, and the model continues a text that ends with it twice. "
        "`blocks_to_send` leaves the last block to the receiver.",
    )
    return


@app.cell(hide_code=True)
def _():
    after(
        "l09.full_hit",
        mo.vstack(
            [
                mo.md(pools.exhibits_table()),
                mo.md(r"""
    The third row is this defect, in float32 with the Shakespeare model. In
    [vLLM #52617](https://github.com/vllm-project/vllm/issues/52617) a receiver reported a hit of the whole
    prompt, and every text differed from generated token 0 on; a later reproduction retrieved 895 of 895
    tokens where 894 were wanted. The fourth row comes from the next
    section: a sender freed a block too early, another prompt was written into it, and the receiver read
    that. No step fails and no text looks broken. In
    [vLLM #52234](https://github.com/vllm-project/vllm/issues/52234) a reader with an old reference answered
    with the *previous* prompt's text and HTTP 200. Our frames have a digest and the hashes of their blocks;
    a receiver refuses any other bytes and computes the blocks itself.
    """),
            ]
        ),
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    An exact multiple of the block size is a frequent trap: in
    [vllm-ascend #8908](https://github.com/vllm-project/vllm-ascend/pull/8908) the two sides then counted
    different numbers of blocks.

    ## When may the K/V be freed?

    The sender's memory is scarce. If it frees K/V too early, the receiver reads something else; if it never
    does, no prompt fits any more. Clients disconnect and processes die in the middle of a transfer.
    """)
    return


@app.cell(hide_code=True)
def _():
    task("l09.may_free")
    return


@app.function
def may_free(state: tuple[int, ...], event: tuple[str, int | None]) -> bool:
    """Return whether the K/V of a transfer may be freed after this event."""
    raise NotImplementedError("Exercise 9b.3: when may the K/V be freed?")


@app.cell(hide_code=True)
def _():
    free_attempt = attempt("l09.may_free", lambda: may_free)
    free_attempt
    return (free_attempt,)


@app.cell(hide_code=True)
def _():
    hints("l09.may_free")
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## Two processes

    This is measured: worker 0 prefills, worker 1 decodes, and the frames are files in shared memory. The
    router calls your `blocks_to_send` and `may_free`. If a worker dies, its requests are computed again by
    the other one.
    """)
    return


@app.cell
def _(free_attempt, send_attempt):
    RUN = False  # True starts two processes and runs with your functions: some seconds

    run_trace, where_from = pools.two_processes(RUN, send_attempt, free_attempt)
    FleetView(
        run_trace,
        f"One worker prefills, one decodes ({where_from})",
        question="What does the decode worker do while prompts are computed?",
    )
    return


@app.cell(hide_code=True)
def _():
    Figure(pools.goodput_chart(), "Which of the three serves most requests within both limits?")
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    Every text equals that of a lone engine. Up to 60 requests per second all three serve everything, and
    there the rhythm of two pools is the evenest: their tokens come 2.6 ms apart in the median, those of
    whole prompts 6.7 ms. **From 80 requests on two pools lose**: a prompt is most of the work here, so one
    core computes all prompts while the other one has time left, and whole prompts serve twice as many within
    both limits. Chunks lose too, since six passes for a prompt cost more than one. The repository of the posts
    ([czhou578/nanoGPT-inference](https://github.com/czhou578/nanoGPT-inference)) reports 0.60 to 1.62 times
    the speed of one pool, with tokens that differ. vLLM's documentation says it in capitals:
    *disaggregated prefill DOES NOT improve throughput*.

    ## What you now know

    - Two pools give decodes an even rhythm, and let each pool have its own size and hardware. They cost
      capacity, a copy of every prompt's K/V, and memory at both ends.
    - The busier pool limits the fleet, so the sizes must follow the load. Chunked prefill is the simpler
      answer wherever its gaps are short enough.
    - The last token is computed where the text is generated. A hit of a whole prompt is a hit of all but
      its last block.
    - K/V is freed when nobody can touch it any more: acknowledged, lost, or aborted before anyone reads.

    ## The same in vLLM, SGLang and Dynamo

    | here | vLLM | SGLang | NVIDIA Dynamo |
    |:---|:---|:---|:---|
    | two pools | `--kv-transfer-config` with `kv_role`, and a proxy | `--disaggregation-mode prefill` or `decode` | workers for prefill and for decode |
    | the frame | a KV connector: `NixlConnector`, LMCache, Mooncake and others | Mooncake or NIXL | NIXL, from GPU memory to GPU memory |
    | `blocks_to_send` | `get_num_new_matched_tokens` of the connector | the pages behind `decode_prefix_len` | the engine's |
    | `may_free` | the sender keeps blocks until a notification, or a timeout | `process_disagg_prefill_inflight_queue` polls the transfer and frees at its end | the engine's |
    | a side is lost | `kv_load_failure_policy`: `fail` or `recompute` | the request is aborted | the failure is returned; without a prefill pool, decode workers prefill |

    **How the control flow differs.** Our sender copies K/V into a frame and has its blocks back at once;
    vLLM's sender keeps the blocks themselves, and the receiver reads them over RDMA while both go on
    computing. So a timeout has to end a wait for a receiver that died, and it must not be too short:
    in [#21570](https://github.com/vllm-project/vllm/issues/21570) the sender freed by timeout, and the
    receiver read what was there. [#46283](https://github.com/vllm-project/vllm/issues/46283) is the
    opposite: blocks of an aborted request wait for a message that never comes. The first tokens of the
    text come from our decode worker; in vLLM and in DistServe (Zhong et al.,
    [arXiv 2401.09670](https://arxiv.org/abs/2401.09670)) the prefill side samples one token.

    *Checked against the documentation of vLLM, SGLang and Dynamo 1.6, November 2026.*

    ## What comes next

    In [lesson 10](/?file=l10_capstone.py) one engine serves real clients.
    """)
    return


if __name__ == "__main__":
    app.run()
