import marimo

__generated_with = "0.25.2"
app = marimo.App(width="medium", app_title="7 · Blocks and shared prefixes")

with app.setup(hide_code=True):
    import hashlib  # for exercise 7.2

    import marimo as mo
    import torch

    from course.attempt import attempt, exhibit, piece, with_attempts
    from course.engine_loop import engine_loop
    from course.figure import Figure
    from course.lesson_data import l07_exhibits as exhibits
    from course.lesson_data import l07_measured as measured
    from course.lesson_data import l07_pool as pool
    from course.prediction import after, hints, predict
    from course.replay import replays
    from course.saved_answers import load_policies
    from course.task import task
    from nanogpt import Engine, load_model
    from nanogpt.views.request_view import CachedBlock
    from widgets import BlockPool, PrefixTree, bar, whose


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    # 7 · Blocks and shared prefixes

    *50 minutes. Builds on lessons 0 (the KV cache) and 2 (the KV budget, preemption). You write four
    short functions.*

    Afterwards you can

    - keep K/V in blocks of fixed size, with a block table for each request,
    - find the K/V of a shared prefix by hashes, so that the engine computes it only once,
    - free and evict blocks without changing the text of any request,
    - say for which workloads this pays, and for which it costs time.

    ## How much of the K/V memory holds tokens?

    So far the engine gave each request a *slot*: one contiguous piece of K/V memory with room for
    the longest text that the model allows, here 512 tokens. The engine reserves the whole slot when
    the request starts, because nobody knows yet how long the text will get.
    """)
    return


@app.cell(hide_code=True)
def _():
    predict(
        "l07.reserved",
        "24 short chats each get a slot of 512 tokens, and each is about 60 tokens long when it "
        "finishes. Of the K/V memory that is reserved while they run, **how much holds tokens**?",
        ("About 60 %", "About 35 %", "About 11 %", "About 2 %"),
        2,
        "Counted over a run of 24 requests on this engine: **11 %**. They finish with 63 tokens in "
        "the cache on average, so even a finished text fills only 12 % of its slot, and it was shorter "
        "before.",
    )
    return


@app.cell(hide_code=True)
def _():
    after("l07.reserved", mo.md(rf"""
    The same run with the memory cut into **blocks**. A request takes another block only when its
    tokens need it:

    | K/V in | share of the reserved memory that holds tokens |
    |:--|:--|
    | a slot for each request | {bar(0.105, "10.5 %")} |
    | blocks of 64 | {bar(0.718, "71.8 %")} |
    | blocks of 16 | {bar(0.875, "87.5 %")} |
    | blocks of 8 | {bar(0.938, "93.8 %")} |
    | blocks of 1 | {bar(1.0, "100.0 %")} |

    The waste is at most `block_size` − 1 tokens per request, all of it in the last block. Longer
    texts waste less of a slot, but still most of it: 60 requests that are 217 tokens long on average
    when they finish fill **38.9 %** of their slots and **94.9 %** of their blocks of 16.
    [PagedAttention](https://arxiv.org/abs/2309.06180), the paper that brought blocks into serving,
    measured 20 % for a system that reserves the full context, and 38 % for one that knows the length
    of every answer in advance.
    """))
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## A pool of blocks, and a table for each request

    The engine cuts the K/V memory once into equal blocks: the **pool**. Each request has a **block
    table**, a list of block numbers. With blocks of 8, the table's first number says where tokens 0
    to 7 lie, its second where tokens 8 to 15 lie, and so on. The blocks of a table need not be
    neighbours, so every free block fits every request.

    Below, six requests run on nineteen blocks of eight tokens. Four of the prompts begin with
    *JULIET: O Romeo, Romeo! Where is*. Press play, and watch how a block gets into two tables, what
    happens to the blocks of a finished request, and which blocks are overwritten when the pool is
    full.
    """)
    return


@app.cell
def _():
    exact = load_model(dtype=torch.float64)
    reference_trace = Engine(exact, pool.SETTINGS).run(pool.six_requests())
    return exact, reference_trace


@app.cell(hide_code=True)
def _(reference_trace):
    BlockPool(
        reference_trace.to_json(),
        title="Six requests on nineteen blocks",
        question="What happens to a block when the request that computed it finishes?",
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    Blocks also make memory easy to give back. In lesson 4 a slice of a tensor freed nothing, because
    a view keeps its whole buffer alive. A block belongs only to the tables that refer to it. Each
    block has a **reference count**, the number of these tables. When a request finishes or is preempted,
    the count of each block in its table goes down by one. At zero, the pool can give the block to another
    request, and nothing has to be copied.

    A free block is not wiped. It keeps its K/V, and later requests can find it until the pool needs
    the block for something else. Request 3 starts four steps after request 0 has finished, and finds
    the first 48 tokens of its own prompt. So free memory serves as a cache. Dropping a cached block
    costs nothing now, but a later request may have to compute its K/V again.

    ### Where the engine's loop does this

    `self.cache.transaction(scheduled)` takes blocks for the tokens of a step, evicts cached blocks
    when no empty ones are left, and undoes both if the step fails. It calls two of the functions that
    you write in this lesson, `allocate` and `evict_order`. The scheduler calls the other two,
    `block_hashes` and `longest_match`, before it admits a request.
    """)
    return


@app.cell(hide_code=True)
def _():
    engine_loop("self.cache.transaction(")
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## Two requests, one prefix

    A block can be in several tables. K and V of a token depend on that token and on all tokens before
    it, and on nothing after it. So two prompts that begin alike have the same K/V up to the first
    token that differs. Such prefixes are common: a system prompt, the examples in front of a
    question, a conversation that comes back with one more message. The engine computes their K/V
    once, and both tables refer to the blocks.

    Only full blocks are shared. A request's last block is usually not full, and the request still
    writes into it.
    """)
    return


@app.cell(hide_code=True)
def _():
    predict(
        "l07.shared",
        "Two prompts of 150 tokens have their first 100 tokens in common. Blocks hold 16 tokens. The "
        "second request starts after the first prompt has been computed. **How many blocks do they "
        "share, and how many tokens does the second request compute?**",
        (
            "7 blocks, and it computes 50 tokens",
            "6 blocks, and it computes 54 tokens",
            "6 blocks, and it computes 50 tokens",
            "None: the prompts are not the same",
        ),
        1,
        "100 tokens fill six blocks, and four places of a seventh. The other twelve tokens of that "
        "block differ, so it cannot be shared: **6 blocks are shared, 96 tokens are found, and 54 are "
        "computed**. Four of the 54 are the same in both prompts.",
    )
    return


@app.cell(hide_code=True)
def _():
    after("l07.shared", mo.md(r"""
    | tokens | 0 to 15 | … | 80 to 95 | 96 to 99 | 100 to 111 | 112 to 149 |
    |:--|:--|:--|:--|:--|:--|:--|
    | request 0 | block 0 | … | block 5 | block 6 | block 6 | blocks 7 to 9 |
    | request 1 | block 0 | … | block 5 | **block 10, recomputed** | block 10 | blocks 11 to 13 |

    A smaller block shares more of a prefix. The measurements below show what a small block costs.
    """))
    return


@app.cell(hide_code=True)
def _():
    predict(
        "l07.whole",
        "Now **all** 160 tokens of a prompt lie in ten cached blocks of 16. How many tokens does the "
        "engine compute?",
        ("None", "1", "16", "160"),
        2,
        "The first new token is sampled from the logits of the last prompt token, and logits are not "
        "cached. So at least one token has to be computed. Its K/V would be written into the last "
        "block, which other requests may be reading. Engines that share only whole blocks, such as "
        "vLLM and this one, drop the last cached block and recompute its **16** tokens. Of a prompt of "
        "161 tokens they would compute 1. The blocks that a request does use are its *hit*.",
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## Allocating blocks

    Your four functions make four decisions, and each takes a few lines.

    The first is which blocks to take when a request's tokens no longer fit into the blocks of its table.
    The engine gives you the free blocks, the best ones first. Empty blocks come before cached ones,
    which a later request could still find.
    """)
    return


@app.cell(hide_code=True)
def _():
    task("l07.allocate")
    return


@app.function
def allocate(num_blocks: int, num_tokens: int, size: int, free_blocks: list[int]) -> list[int] | None:
    """Return the blocks to add to a table, or None when too few are free."""
    raise NotImplementedError("Exercise 7.1: which blocks does the table get?")


@app.cell(hide_code=True)
def _():
    allocate_attempt = attempt("l07.allocate", lambda: allocate)
    allocate_attempt
    return (allocate_attempt,)


@app.cell(hide_code=True)
def _():
    hints("l07.allocate")
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## Hashing blocks

    The second decision is how to find a cached block. A request has tokens, and comparing them with
    each cached block would take longer with every block that is cached. So each full block gets a **hash**,
    and a dictionary maps the hash to the block. The page has imported `hashlib` for you.

    What has to go into the hash? One block can stand in for another only if both hold the same K/V. In
    the run above, request 2 has a block *␣my love*, with the space in front, after *ROMEO: O, she is*,
    and request 5 has one after *JULIET: O Romeo, Romeo! Where is*. These are the same eight characters
    with different K/V, because each character attended to all characters before it. The weights matter
    as well: under an *adapter*, a small change to the weights, the same text has different K/V. The
    engine describes everything else that changes K/V in one string, the **salt**, and the salt goes into
    the hash too.
    """)
    return


@app.cell(hide_code=True)
def _():
    task("l07.block_hashes")
    return


@app.function
def block_hashes(tokens: list[int], size: int, salt: str) -> list[str]:
    """Return one hash for each full block of `tokens`."""
    raise NotImplementedError("Exercise 7.2: what goes into the hash of a block?")


@app.cell(hide_code=True)
def _():
    block_hashes_attempt = attempt("l07.block_hashes", lambda: block_hashes)
    block_hashes_attempt
    return (block_hashes_attempt,)


@app.cell(hide_code=True)
def _():
    hints("l07.block_hashes")
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    Each hash stands for all blocks before it, so the hashes form a tree: a block's parent is the block
    before it. The pool itself stores no tree, only a list of blocks and a dictionary.
    """)
    return


@app.cell(hide_code=True)
def _(reference_trace):
    after(
        "l07.whole",
        PrefixTree(
            reference_trace.to_json(),
            title="The cached blocks as a tree",
            question="Where do the texts diverge?",
        ),
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## Finding the longest cached prefix

    The third decision is which tokens of a request need not be computed when it starts. The engine has
    the hashes of the request's full blocks.
    """)
    return


@app.cell(hide_code=True)
def _():
    task("l07.longest_match")
    return


@app.function
def longest_match(
    hashes: list[str], cached: dict[str, int], num_tokens: int, size: int
) -> tuple[list[int], int]:
    """Return `(blocks, num_cached)`: the blocks that the table begins with, and their tokens."""
    raise NotImplementedError("Exercise 7.3: how much of the prompt is cached?")


@app.cell(hide_code=True)
def _():
    longest_match_attempt = attempt("l07.longest_match", lambda: longest_match)
    longest_match_attempt
    return (longest_match_attempt,)


@app.cell(hide_code=True)
def _():
    hints("l07.longest_match")
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## Evicting cached blocks

    The last decision is which cached block to evict when a request needs a block and the pool has no
    empty one. Look at the tree again before you write: which of its blocks could you lose with the
    least harm?
    """)
    return


@app.cell(hide_code=True)
def _():
    task("l07.evict_order")
    return


@app.function
def evict_order(blocks: list[CachedBlock]) -> list[int]:
    """Return the ids of the blocks that may be evicted, the first to go first."""
    raise NotImplementedError("Exercise 7.4: which block is evicted first?")


@app.cell(hide_code=True)
def _():
    evict_order_attempt = attempt("l07.evict_order", lambda: evict_order)
    evict_order_attempt
    return (evict_order_attempt,)


@app.cell(hide_code=True)
def _():
    hints("l07.evict_order")
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## Your engine on blocks

    The six requests run again, with the functions that you have written so far. The model runs
    in float64, so that rounding cannot change a token, and samples at temperature 1, where a small
    change in K/V soon changes the text. If a request reads K/V that was computed for other tokens, its
    text differs from the oracle's.
    """)
    return


@app.cell
def _(
    allocate_attempt,
    block_hashes_attempt,
    evict_order_attempt,
    exact,
    longest_match_attempt,
):
    attempts = {
        "allocate": allocate_attempt,
        "block_hashes": block_hashes_attempt,
        "longest_match": longest_match_attempt,
        "evict_order": evict_order_attempt,
    }
    earlier = load_policies("l07_blocks")  # your passed answers from earlier lessons
    yours = with_attempts(earlier.policies, attempts)
    run_with = replays(lambda policies: Engine(exact, pool.SETTINGS, policies), pool.six_requests, 300)
    your_trace = run_with(yours)  # Engine(exact, pool.SETTINGS, yours).run(...), in a child process
    started = any(each.started for each in attempts.values())
    return attempts, earlier, started, your_trace, yours


@app.cell(hide_code=True)
def _(reference_trace, started, your_trace):
    BlockPool(
        your_trace.to_json(),
        reference_trace.to_json(),
        yours=started,
        title="The pool while your functions run",
        question="Which blocks does each request take, and which does it find?",
    ) if your_trace.steps else mo.md(pool.nothing_ran(your_trace))
    return


@app.cell(hide_code=True)
def _(attempts, earlier, exact, reference_trace, your_trace):
    mo.md(pool.run_report(attempts, earlier, exact, your_trace, reference_trace))
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## Break it

    The pool does the rest of the work itself: it counts references, keeps the dictionary of hashes, and
    registers the blocks of a step. The three functions below each get one of these wrong. Each one
    produces wrong text, and none crashes. Read the symptom, decide what is wrong, then **repair the
    function in its cell**: the cells below it run again.

    ### Exhibit A: a prompt that comes back later

    The pool has six blocks here. A prompt with a king's name is served. Then a long prompt takes all six
    blocks, and after it the king's prompt comes again. `cached` maps hashes to blocks. The pool has just
    given the cached block `evicted` to another request.
    <span data-yours="exhibit"></span>
    """)
    return


@app.function
def cached_after_eviction(cached, evicted):
    """Return the dictionary of cached blocks after the block `evicted` went to another request."""
    return cached


@app.cell(hide_code=True)
def _(exact):
    _symptoms, is_exhibit_a_right = exhibits.run_after_evictions(
        exact, piece(lambda: cached_after_eviction)
    )
    mo.md(_symptoms)
    return (is_exhibit_a_right,)


@app.cell(hide_code=True)
def _():
    predict(
        "l07.stale",
        "The same prompt gets two different texts. **What is broken?**",
        (
            "Two different prompts have the same hash",
            "The dictionary still leads to a block that holds other K/V by now",
            "A block was evicted while a request used it",
            "The last prompt finds one block too many",
        ),
        1,
        "The long prompt overwrote the king's blocks, but their hashes stayed in the dictionary. When the "
        "king's prompt comes again, its hashes lead to the K/V of the long prompt. An evicted block has to "
        "leave the dictionary before it is overwritten. (The hashes differ, and no request used the "
        "evicted blocks: the first one had finished.)",
    )
    return


@app.cell(hide_code=True)
def _(is_exhibit_a_right):
    after(
        "l07.stale",
        mo.md(
            "**Repaired.** Every hash leads to a block that holds its K/V."
            if is_exhibit_a_right
            else "**Still broken.** A hash leads to a block with other K/V."
        ),
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ### Exhibit B: one request finishes

    The prompts of two requests begin alike. The first request finishes soon. Then a third request
    arrives and needs blocks. `ref_counts[b]` is the number of tables that refer to block b, before the
    table is dropped.
    <span data-yours="exhibit"></span>
    """)
    return


@app.function
def free_whole_table(ref_counts, table):
    """Return the blocks of `table` that are free once the table is gone."""
    return table


@app.cell(hide_code=True)
def _(exact):
    _symptoms, is_exhibit_b_right = exhibits.run_one_leaves(exact, piece(lambda: free_whole_table))
    mo.md(_symptoms)
    return (is_exhibit_b_right,)


@app.cell(hide_code=True)
def _():
    predict(
        "l07.exhibit_b",
        "The text of request 1, which stayed, goes wrong in the middle. **What is broken?**",
        (
            "Its blocks were given to the third request",
            "The third request has too few blocks",
            "It was preempted",
            "The first request had not finished",
        ),
        0,
        "Two tables referred to the first blocks. When one table was dropped, these blocks became free "
        "although the other table still referred to them. The third request got them and overwrote them. "
        "A block is free only when its count was 1. (A preempted request would come back with the right "
        "text.)",
    )
    return


@app.cell(hide_code=True)
def _(is_exhibit_b_right):
    after(
        "l07.exhibit_b",
        mo.md(
            "**Repaired.** A block is free when its last table is dropped."
            if is_exhibit_b_right
            else "**Still broken.** A block is given away while a table refers to it."
        ),
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ### Exhibit C: a step that fails

    There are two prompts. The step that computes the second one ends with logits that are not finite, so
    the engine discards the step, K/V included, and runs it again. A step is *committed* when its results
    are kept. `num_findable_blocks` returns how many blocks prefix matching can see during a step. Before the step, `num_computed_tokens` tokens of the request
    were committed. The step computes `num_scheduled_tokens` more.
    <span data-yours="exhibit"></span>
    """)
    return


@app.function
def num_findable_blocks(num_computed_tokens, num_scheduled_tokens, size):
    """Return how many blocks of a request can be found while a step runs."""
    return (num_computed_tokens + num_scheduled_tokens) // size


@app.cell(hide_code=True)
def _(exact):
    _symptoms, is_exhibit_c_right = exhibits.run_a_failed_step(
        exact, piece(lambda: num_findable_blocks)
    )
    mo.md(_symptoms)
    return (is_exhibit_c_right,)


@app.cell(hide_code=True)
def _():
    predict(
        "l07.exhibit_c",
        "When the step runs again, the second request finds 48 tokens of its own prompt. They were never computed. **What is broken?**",
        (
            "The request may not find its own blocks",
            "The step must not run again",
            "Blocks can be found before their K/V is committed",
            "The hashes are those of another prompt",
        ),
        2,
        "The blocks could be found as soon as they were allocated. Then the step failed, and their hashes "
        "led to K/V that was never computed. Only tokens of committed steps may be found: "
        "`num_computed_tokens // size` blocks. (The hashes are right for the K/V that should be there.)",
    )
    return


@app.cell(hide_code=True)
def _(is_exhibit_c_right):
    after(
        "l07.exhibit_c",
        mo.md(
            "**Repaired.** Every block that can be found holds its K/V."
            if is_exhibit_c_right
            else "**Still broken.** A block whose K/V was never computed can still be found."
        ),
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## What does sharing save, and what do blocks cost?

    **One system prompt for sixteen requests.** All prompts begin with the same 300 tokens
    and end with 20 of their own. Tokens computed and memory used, in slots and in blocks with your
    functions:
    """)
    return


@app.cell(hide_code=True)
def _(started, yours):
    mo.md(measured.sixteen_table(yours, whose(started)))
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    When all sixteen arrive at once, the gain is smaller. A block can be found only after the step that
    computed it has committed, so requests that start in the same step compute the same prefix side by
    side.

    **The block size.** 24 requests have a system prompt of 60, 110 or 150 tokens. With smaller blocks,
    requests share more of a common prefix and leave less memory empty. Small blocks also have a cost, which
    is measured under *The cost of block tables*.
    """)
    return


@app.cell(hide_code=True)
def _():
    Figure(measured.size_chart(), "How large can a block be before much is lost?")
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    **Time to first token.** A prompt of 500 tokens begins like an earlier one. Blocks of 16, one thread
    of a CPU, CPU time, median of 21 repeats. The last column is relative to a prompt that finds nothing.

    | tokens in common | found | TTFT, ms | relative |
    |--:|--:|--:|--:|
    | 0 | 0 | 29.0 | 1 |
    | 125 | 112 | 24.1 | 0.83 |
    | 250 | 240 | 18.1 | 0.63 |
    | 375 | 368 | 11.8 | 0.41 |
    | 450 | 448 | 7.2 | 0.25 |
    | 499 | 496 | 4.0 | 0.14 |

    The gain is the prefill that the engine skips. Decodes gain nothing, since each of them reads the same
    K/V with or without sharing. A workload of short prompts and long answers hardly benefits.

    **After a preemption.** In lesson 2 a preempted request recomputed everything. In blocks, its K/V
    stays in the pool until another request takes the blocks. Six requests that outgrow 256 KV tokens:
    """)
    return


@app.cell(hide_code=True)
def _(started, yours):
    mo.md(measured.preempted_table(yours, whose(started)))
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    The tokens in the last row were recomputed because other requests had overwritten their blocks: a
    request is preempted exactly when others need its memory. Blocks that are not shared (second
    row) save almost nothing here.

    **The cost of block tables.** If no two prompts have a prefix in common, tables only cost time. The same
    workloads in slots and in blocks; time relative to slots, median of 21 repeats:

    | K/V in | 8 decodes | decodes and chunks | 4 long texts |
    |:--|--:|--:|--:|
    | blocks of 1 | 1.11 | 1.06 | 1.12 |
    | blocks of 8 | 0.98 | 1.06 | 1.03 |
    | blocks of 16 | 0.98 | 1.03 | 1.05 |
    | blocks of 64 | 1.00 | 1.04 | 1.05 |
    | blocks of 16, scattered | 1.19 | 1.31 | 1.30 |

    Single repeats spread from 0.6 to 2.0, more than most rows differ (`docs/benchmarks/features.md` has them all).
    Two rows stand out. With blocks of one token the table is as long as the text, which costs about a
    tenth. In the row *scattered* a request's blocks lie anywhere in the pool, as they do after long use.
    On the CPU each layer has to gather such blocks into one tensor, which costs **19 to 31 % more
    time**. While the pool has room, this engine avoids the copy: it takes neighbouring blocks, and
    attention reads them in place. A GPU kernel follows the table instead of copying. The PagedAttention
    paper reports 20 to 26 % more time
    for its attention kernel (section 7.1), and a faster server all the same.

    So blocks pay when more requests fit into memory, or when prefixes are found. Where memory is ample
    and all prompts differ, a slot is as good or better.

    ## What you now know

    - A slot reserves memory for the longest text, and short chats used 11 % of it. Blocks waste at most
      `block_size` − 1 tokens per request.
    - A block table says where a request's tokens lie. A block is free when its reference count is 0, and
      a free block is still a cache until the pool needs it.
    - A block's hash covers its tokens, all tokens before it, and a salt, so that equal hashes mean equal
      K/V. A block can be found only when the step that computed it has committed.
    - A hit ends at the first missing block and leaves at least one token to compute. Eviction takes the
      least recently used block that no table refers to, and the end of a text before its beginning.
    - Sharing saves prefill and recomputation. It does not make decodes faster, and gains nothing where
      all prompts differ.

    ## The same in vLLM and SGLang

    *Checked against vLLM 0.33.0 and SGLang 0.5.23, November 2026.*

    | | vLLM, `vllm/v1/core/` | SGLang, `srt/mem_cache/` |
    |:--|:--|:--|
    | `allocate`, reference counts | `KVCacheManager.allocate_slots`, `free`, `KVCacheBlock.ref_cnt` | the radix cache, with `lock_ref` as the reference count |
    | `block_hashes` | `hash_block_tokens`: parent hash, tokens, extra keys (adapter, images, salt) | no hashes: a tree over the tokens |
    | `longest_match` | `get_computed_blocks`, at most `num_tokens - 1` tokens | the longest path in the tree |
    | `evict_order` | `free_block_queue` in `BlockPool`: blocks without a hash first, then least recently used, and the end of a text first | `--radix-eviction-policy lru`: leaves without locks first |
    | block size | 16, `--block-size` | 1, `--page-size` |

    - **How the control flow differs.** Our scheduler looks for a hit, admits, and then opens one
      transaction for the blocks of all requests of the step. vLLM takes blocks request by request: its
      loop over the running requests calls `allocate_slots` for each, and preempts the last one until the
      call succeeds. Then, for each waiting request, it calls `get_computed_blocks` and `allocate_slots`,
      and stops at the first that does not fit. SGLang matches the prefixes of all waiting requests first
      and may admit those with the longest hits earlier.
    - **Prefix caching is on by default in both.** vLLM hashes with `--prefix-caching-hash-algo sha256`.
      It does not compare tokens after a hash matches, so a collision would give a request another text's
      K/V. 128 bits prevent accidental collisions; SHA-256 also prevents deliberate ones.
    - **SGLang** keeps a radix tree
      ([RadixAttention, Zheng et al., 2312.07104](https://arxiv.org/abs/2312.07104)); in 0.5.23 its class
      is `UnifiedRadixCache`. A node holds a run of tokens and is split where texts diverge. vLLM evicts
      blocks, SGLang evicts nodes. With pages of one token, a prefix is shared to its last token.
      `--disable-radix-cache` turns the cache off.
    - **vLLM registers a block's hash when it allocates the block**, before the pass computes it. So even
      requests that start in the same step can share. This is safe because vLLM does not discard a
      pass and repeat it. The engine of exhibit C does.
    - **Copy-on-write**: this engine shares only full blocks, so it never copies one. vLLM V1 does the same,
      except for models that mix kinds of attention: there a hit may end inside a block, which is copied.
    - **With a sliding window** vLLM's `SlidingWindowManager` frees a block once no token in it is visible,
      and a hit needs only the blocks that are still visible. This engine does the same with
      `sliding_window` and `block_size`.
    - **A shared cache leaks timing.** A fast first token tells a user that somebody has sent this prefix
      before, and a prompt can be guessed piece by piece ([InputSnatch](https://arxiv.org/abs/2411.18191);
      CVE-2025-46570 of vLLM). vLLM's request field
      [`cache_salt`](https://github.com/vllm-project/vllm/pull/17045) limits sharing to requests with the
      same salt; SGLang's field is `extra_key`.

    /// details | Defects like these in real engines
    - **A hash without its parent.** [AIBrix #2329](https://github.com/vllm-project/aibrix/issues/2329):
      keys were compared only by their last block and the number of blocks. The report mentions leaks between
      tenants as a possible result.
    - **Freed while in use.** [SGLang #35501](https://github.com/sgl-project/sglang/pull/35501): two
      indices pointed to one slot, and freeing one of them gave the slot away.
      [vLLM #45357](https://github.com/vllm-project/vllm/pull/45357) keeps the blocks of a finished request
      until no pass can write into them any more.
    - **Found before it is computed.** [vLLM #29387](https://github.com/vllm-project/vllm/pull/29387): two
      requests ran in one step. The second treated tokens as computed although the first was only about to
      compute them.
    - **A salt left out.** [vLLM #3264](https://github.com/vllm-project/vllm/issues/3264): the adapter was
      not in the hash, so requests of two adapters shared K/V.
      [SGLang-Omni #260](https://github.com/sgl-project/sglang-omni/pull/260): all images have the same
      placeholder tokens, so different images shared K/V. 22 of 50 questions about images were answered
      correctly; with the image's hash in the key, 30 were.
    - **Python's `hash()`.** [vLLM #12621](https://github.com/vllm-project/vllm/pull/12621): since Python
      3.12 `hash(None)` is the same in every process, so colliding texts could be computed in advance.
      [vLLM #15297](https://github.com/vllm-project/vllm/pull/15297) brought SHA-256.
    - **Parents evicted before children.**
      [llm-d-inference-sim #704](https://github.com/llm-d/llm-d-inference-sim/issues/704): of three equally
      old blocks of one request, the first was evicted in 144 of 200 runs, and the two after it could
      never be found again.
    ///

    ## What comes next

    The elective [lesson 7b](/?file=l07b_spilling.py) keeps what the pool evicts in a second tier. A
    shared prefix saves prefill, but each new token still takes a pass of its own. In
    [lesson 8](/?file=l08_speculation.py) a small model drafts several tokens, and the large one checks
    them in one pass, without changing the distribution of the text.
    """)
    return


if __name__ == "__main__":
    app.run()
