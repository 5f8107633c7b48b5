import marimo

__generated_with = "0.25.2"
app = marimo.App(width="medium", app_title="7 · Blocks and shared prefixes")

with app.setup(hide_code=True):
    import marimo as mo

    from course.attempt import attempt, exhibit, piece
    from course.prediction import after, hints, predict
    from course.task import task
    from nanogpt.policy_views import CachedBlock


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    # 7 · Blocks and shared prefixes

    *65 minutes. Builds on lessons 0 (the KV cache) and 2 (the KV budget, preemption). You write six
    short functions.*

    Afterwards you can keep K/V in blocks that several requests may name, find out by a hash what has
    been computed already, copy, free and evict so that no text notices, and say for which loads all of
    that pays.

    ## How much of the memory holds anything?

    Until now every request got a *slot*: room for the longest text that there can be, one piece, from
    its first token on. Here a slot has room for 512 tokens. How long a text will get is not known
    when it starts, so what else could one reserve?
    """)
    return


@app.cell(hide_code=True)
def _():
    from dataclasses import replace

    import torch

    from course.answers import load_policies
    from course.lesson_data import l07_echoes as echoes
    from course.lesson_data import l07_exhibits as exhibits
    from course.lesson_data import l07_measured as measured
    from course.lesson_data import l07_pool as pool
    from course.replay import replays
    from nanogpt import Engine, load_model
    from widgets import BlockPool, Curves, PrefixTree, Timeline, whose

    return (
        BlockPool,
        Curves,
        Engine,
        PrefixTree,
        Timeline,
        echoes,
        exhibits,
        load_model,
        load_policies,
        measured,
        pool,
        replace,
        replays,
        torch,
        whose,
    )


@app.cell(hide_code=True)
def _(measured):
    predict(
        "l07.reserved",
        "24 short chats, a slot of 512 tokens for each, and they end with about 60. Of the K/V memory "
        "that is taken while they run, **how much holds tokens**?",
        ("About 60 %", "About 35 %", "About 11 %", "About 2 %"),
        2,
        measured.reserved_revealed(),
    )
    return


@app.cell(hide_code=True)
def _(measured):
    after(
        "l07.reserved",
        mo.md(
            "The same run with the memory cut into **blocks**, of which a request takes one when its "
            "tokens reach it:\n\n"
            + measured.memory_table()
            + "\n\nWhat is left empty is at most one block less a token for each request. And with longer "
            "texts? 60 requests that end with 217 tokens on average fill **38.9 %** of their slots and "
            "**94.9 %** of their blocks of 16. The paper that brought blocks into serving, "
            "[PagedAttention](https://arxiv.org/abs/2309.06180), found 20 to 38 % in the systems "
            "before it."
        ),
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    Lesson 4 had a first look at such a pool: equal blocks, and for each request a **table** that says in
    which block its tokens 0 to 7 lie, in which the next eight, and so on. Here you write what decides
    over the pool.

    ## Two requests, one beginning

    Once tables name blocks, nothing says that a block stands in *one* table.

    K and V of a token depend on that token and on all tokens before it, and on nothing behind it. So two
    prompts that begin alike have the same K/V as far as they are alike: a system prompt, the examples
    in front of a question, a conversation that comes back with one more line. Compute it once, and let
    both tables name the blocks.

    Only whole blocks are shared. The last one, which is not full, is still being written.
    """)
    return


@app.cell(hide_code=True)
def _():
    predict(
        "l07.shared",
        "Two prompts of 150 tokens are alike in their first 100. Blocks hold 16. The second one starts "
        "when the first is computed. **How many blocks do they share, and how many tokens does the "
        "second compute?**",
        (
            "7 blocks, and it computes 50 tokens",
            "6 blocks, and it computes 54 tokens",
            "6 blocks, and it computes 50 tokens",
            "None: the prompts are not the same",
        ),
        1,
        "100 tokens fill six blocks, and four tokens of the seventh. The other twelve places of that "
        "block differ, so it is another block: **6 shared, 96 tokens found, 54 computed**, of which "
        "four stand in both prompts.",
    )
    return


@app.cell(hide_code=True)
def _():
    after(
        "l07.shared",
        mo.md(
            "| tokens | 0 to 15 | … | 80 to 95 | 96 to 99 | 100 to 111 | behind |\n"
            "|:--|:--|:--|:--|:--|:--|:--|\n"
            "| request 0 | block 0 | … | block 5 | block 6 | block 6 | blocks 7 to 9 |\n"
            "| request 1 | block 0 | … | block 5 | **block 10, again** | block 10 | blocks 11 to 13 |\n\n"
            "A smaller block shares more of a beginning. You will see below what it costs."
        ),
    )
    return


@app.cell(hide_code=True)
def _():
    predict(
        "l07.whole",
        "Now a prompt of 160 tokens lies in ten cached blocks of 16, **all of it**. How many tokens does "
        "the engine compute?",
        ("None", "1", "16", "160"),
        2,
        "Not none: the first new token is drawn from the logits of the last prompt token, and logits are "
        "not kept. One would do. But its K/V would then be written into the last block, in the "
        "middle of what others read. Engines that share whole blocks, vLLM and this one, give that "
        "block up and compute it anew: **16**. With 161 tokens it would be 1.",
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    Here are six requests on nineteen blocks of eight. Four of them begin with *JULIET: O Romeo, Romeo!
    Where is*. Press play, and watch three things: how a block gets into two tables; what becomes of
    blocks when a request is done; and which of them are written over when room is short.
    """)
    return


@app.cell
def _(Engine, load_model, load_policies, pool, replays, torch):
    exact = load_model(dtype=torch.float64)
    earlier = load_policies("l07_blocks")  # what you wrote in earlier lessons and passed
    # Runs in a process of its own with functions that are not the reference's.
    run_with = replays(lambda policies: Engine(exact, pool.SETTINGS, policies), pool.six_requests, 300)
    reference_trace = run_with.reference
    return earlier, exact, reference_trace, run_with


@app.cell(hide_code=True)
def _(BlockPool, reference_trace):
    after(
        "l07.whole",
        BlockPool(
            reference_trace.to_json(),
            title="Six requests on nineteen blocks",
            question="What becomes of a block when the request that computed it is done?",
        ),
    )
    return


@app.cell(hide_code=True)
def _():
    after(
        "l07.whole",
        mo.md(
            "A free block is not wiped. It keeps its K/V and can still be found, until the room is "
            "needed: request 3 comes four steps after request 0 has left, and finds the first 48 tokens "
            "of its prompt. So memory that nothing uses is not wasted, it is a cache, and it costs "
            "nothing to throw it away."
        ),
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    Six decisions make all of this, a few lines each.

    ## Take and give back

    A table grows when its tokens need more room than its blocks have. The engine hands you the free
    blocks, best first: empty ones before those that can still be found.
    """)
    return


@app.cell(hide_code=True)
def _():
    task("l07.allocate")
    return


@app.function
def allocate(num_blocks: int, num_tokens: int, size: int, free_blocks: list[int]) -> list[int] | None:
    """Return the blocks that a table needs besides its own, or None when too few are free."""
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
    And when a request is done, its table goes. Its blocks may stand in other tables, so each block has a
    **count**: how many tables name it.
    """)
    return


@app.cell(hide_code=True)
def _():
    task("l07.free_table")
    return


@app.function
def free_table(ref_counts: list[int], table: list[int]) -> list[int]:
    """Return the blocks of `table` that are free once it is gone."""
    raise NotImplementedError("Exercise 7.2: which blocks come free?")


@app.cell(hide_code=True)
def _():
    release_attempt = attempt("l07.free_table", lambda: free_table)
    release_attempt
    return (release_attempt,)


@app.cell(hide_code=True)
def _():
    hints("l07.free_table")
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## By what is a block found?

    A request comes with tokens, and the pool has blocks. To compare the tokens with those of every block
    would take the longer the more there is to be found. So each full block gets a **hash**, and a
    dictionary says which block has which.

    What has to go into it? Two blocks may be exchanged for one another if their K/V is the same. In the run
    above, request 2 has a block *my love* behind *ROMEO: O, she is*, and request 5 has one behind *JULIET: O
    Romeo, Romeo! Where is*. The same eight letters, and other K/V, since every letter looked at what stood
    before it. And the same whole text has other K/V under an *adapter*, a small change to the weights:
    whatever is not in the tokens comes as a **salt**.
    """)
    return


@app.cell(hide_code=True)
def _():
    task("l07.block_hashes")
    return


@app.function
def block_hashes(tokens: list[int], size: int, salt: str) -> list[str]:
    """Return a hash for each full block of `tokens`, which stands for everything up to its end."""
    raise NotImplementedError("Exercise 7.3: by what is each block found?")


@app.cell(hide_code=True)
def _():
    hashes_attempt = attempt("l07.block_hashes", lambda: block_hashes)
    hashes_attempt
    return (hashes_attempt,)


@app.cell(hide_code=True)
def _():
    hints("l07.block_hashes")
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    Hashes that name their parents make a tree, though nothing in the pool is one: a list of blocks and a
    dictionary are all there is.
    """)
    return


@app.cell(hide_code=True)
def _(PrefixTree, reference_trace):
    after(
        "l07.whole",
        PrefixTree(
            reference_trace.to_json(),
            title="What can be found, each block behind its parent",
            question="Where do the texts part?",
        ),
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## What is there already

    Now a request starts, with the hashes of its blocks. How much of it need not be computed?
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
    """Return `(blocks, num_cached)`: what need not be computed, from the first block on."""
    raise NotImplementedError("Exercise 7.4: how much is there already?")


@app.cell(hide_code=True)
def _():
    match_attempt = attempt("l07.longest_match", lambda: longest_match)
    match_attempt
    return (match_attempt,)


@app.cell(hide_code=True)
def _():
    hints("l07.longest_match")
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## Before you write

    Whole blocks are never written again, so sharing them is safe. But suppose that one prompt is to be
    answered four times: four requests, one prompt, and its last block half full. All four tables name
    it, and then the first of them decodes.

    This is an old trick of operating systems, *copy on write*: share until one of them writes. (This
    engine shares only whole blocks, so in the run at the end of this part every block that is written has
    a count of 1. The store right below your function shares the half full block, too.)
    """)
    return


@app.cell(hide_code=True)
def _():
    task("l07.copy_on_write")
    return


@app.function
def copy_on_write(
    table: list[int], ref_counts: list[int], index: int, free_blocks: list[int]
) -> tuple[list[int], tuple[int, int] | None]:
    """Return `(table, copy)`: the table to go on with, and what has to be copied first."""
    raise NotImplementedError("Exercise 7.5: may this block be written?")


@app.cell(hide_code=True)
def _():
    writable_attempt = attempt("l07.copy_on_write", lambda: copy_on_write)
    writable_attempt
    return (writable_attempt,)


@app.cell(hide_code=True)
def _():
    hints("l07.copy_on_write")
    return


@app.cell(hide_code=True)
def _(exact, exhibits, writable_attempt):
    mo.md(exhibits.four_answers(exact, writable_attempt))
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## What gives way

    The pool is full: no block is empty, and a request needs one. Something that could still be found has
    to go. Look at the tree again before you write: which of its blocks could you lose with the least
    harm?
    """)
    return


@app.cell(hide_code=True)
def _():
    task("l07.evict_order")
    return


@app.function
def evict_order(blocks: list[CachedBlock]) -> list[int]:
    """Return the ids of the blocks that may give way, first the one to go first."""
    raise NotImplementedError("Exercise 7.6: which block gives way first?")


@app.cell(hide_code=True)
def _():
    order_attempt = attempt("l07.evict_order", lambda: evict_order)
    order_attempt
    return (order_attempt,)


@app.cell(hide_code=True)
def _():
    hints("l07.evict_order")
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## Your engine, block by block

    The six requests again, by your functions as far as they are written. In float64, so that no rounding
    can flip a letter, and at temperature 1, which notices the smallest change: K/V that was found is the K/V
    that would have been computed, or another text comes out.
    """)
    return


@app.cell
def _(
    Timeline,
    allocate_attempt,
    earlier,
    hashes_attempt,
    match_attempt,
    order_attempt,
    reference_trace,
    release_attempt,
    replace,
    run_with,
    writable_attempt,
):
    attempts = {
        "allocate": allocate_attempt,
        "free_table": release_attempt,
        "block_hashes": hashes_attempt,
        "longest_match": match_attempt,
        "copy_on_write": writable_attempt,
        "evict_order": order_attempt,
    }
    yours = replace(
        earlier.policies,
        **{
            name: each.or_reference(getattr(earlier.policies, name)) for name, each in attempts.items()
        },
    )
    your_trace = run_with(yours)
    started = any(each.started for each in attempts.values())
    Timeline(
        your_trace.to_json(),
        reference_trace.to_json(),
        yours=started,
        title="Six requests, four of which begin alike",
        group="l07",
        question="Which prompts are computed only from their middle on?",
    )
    return attempts, started, your_trace, yours


@app.cell(hide_code=True)
def _(BlockPool, pool, reference_trace, started, your_trace):
    BlockPool(
        your_trace.to_json(),
        reference_trace.to_json(),
        yours=started,
        title="The pool of that run",
        group="l07",
        question="Which block does each request get, and which does it find?",
    ) if your_trace.steps else mo.md(pool.nothing_ran(your_trace))
    return


@app.cell(hide_code=True)
def _(PrefixTree, pool, started, your_trace):
    PrefixTree(
        your_trace.to_json(),
        yours=started,
        title="What can be found in that run",
        group="l07",
        question="Which texts hang on which beginning?",
    ) if your_trace.steps else mo.md(pool.nothing_ran(your_trace))
    return


@app.cell(hide_code=True)
def _(attempts, earlier, exact, pool, reference_trace, your_trace):
    mo.md(pool.run_said(attempts, earlier, exact, your_trace, reference_trace))
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## Break it

    Five defects of a block store. Each gives a wrong text, and none of them crashes. Your engine
    refuses some of these answers with a sentence; here a store believes them. Look at the symptom, decide
    what is wrong, then **repair the function in its cell**: what stands below it answers.

    ### Exhibit A: the beginning of one, the middle of another

    Three prompts, each of three blocks: a king's, a duke's, and one that begins as the duke's does and goes
    on as the king's.
    <span data-yours="exhibit"></span>
    """)
    return


@app.function
def exhibit_a(tokens, size, salt):
    """By what each full block is found."""
    ends = range(size, len(tokens) + 1, size)
    return [f"{salt} {tokens[end - size : end]}" for end in ends]


@app.cell(hide_code=True)
def _(exact, exhibits):
    mo.md(exhibits.behind_another(exact, piece(lambda: exhibit_a))[0])
    return


@app.cell(hide_code=True)
def _():
    predict(
        "l07.exhibit_a",
        "The third request finds 32 tokens, and its text is another one. **What is broken?**",
        (
            "It finds a block too few",
            "It finds a block that was computed behind another beginning",
            "The blocks were not full yet",
            "Two different blocks have one number",
        ),
        1,
        "The letters of its second block stand in the king's prompt too, behind a king. There every letter "
        "looked at the king. The hash has to name the parent, and by it everything before. (A block too few "
        "costs time and no text.)",
    )
    return


@app.cell(hide_code=True)
def _():
    after("l07.exhibit_a", exhibit("A", "l07.block_hashes", lambda: exhibit_a))
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ### Exhibit B: two in one block

    This store shares a last block that is not full, too: the second request begins as the first one does
    and finds a part of its last block, while the first goes on.
    <span data-yours="exhibit"></span>
    """)
    return


@app.function
def exhibit_b(table, ref_counts, index, free_blocks):
    """The table to write block number `index` of, and what has to be copied first."""
    return table, None


@app.cell(hide_code=True)
def _(exact, exhibits):
    mo.md(exhibits.two_in_one_block(exact, piece(lambda: exhibit_b))[0])
    return


@app.cell(hide_code=True)
def _():
    predict(
        "l07.exhibit_b",
        "Both texts go wrong, the one that was there first as well. **What is broken?**",
        (
            "The second request was given too much",
            "Both write their own tokens into one block",
            "The first request lost its block",
            "The hashes collide",
        ),
        1,
        "Each of them writes what it computes into the next free place, and it is the same place. A block that "
        "another table names has to be copied before it is written. (What the second found was right when it "
        "was found.)",
    )
    return


@app.cell(hide_code=True)
def _():
    after("l07.exhibit_b", exhibit("B", "l07.copy_on_write", lambda: exhibit_b))
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ### Exhibit C: one leaves

    Two requests begin alike. The first one is done soon; then a third comes and needs room.
    <span data-yours="exhibit"></span>
    """)
    return


@app.function
def exhibit_c(ref_counts, table):
    """Which blocks of a table are free once it is gone."""
    return table


@app.cell(hide_code=True)
def _(exact, exhibits):
    mo.md(exhibits.one_leaves(exact, piece(lambda: exhibit_c))[0])
    return


@app.cell(hide_code=True)
def _():
    predict(
        "l07.exhibit_c",
        "The text of the request that stayed turns into something else in its middle. **What is broken?**",
        (
            "Its blocks were given to the third request",
            "The third request has too few blocks",
            "It was preempted",
            "The first request was not done",
        ),
        0,
        "Two tables named the first block. When one of them went, the block was freed under the other, taken by "
        "the third request, and written over. The count says when a block is free: when no table is left. "
        "(A preempted request would come back with the right text.)",
    )
    return


@app.cell(hide_code=True)
def _():
    after("l07.exhibit_c", exhibit("C", "l07.free_table", lambda: exhibit_c))
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ### Exhibit D: a step that fails

    Two prompts. The step that reads the second one ends in numbers that are not finite: nothing of it is
    committed, and it is done again. `exhibit_d` says how many of a request's blocks can be found while a
    step is under way: `num_committed` tokens were there before it, and it computes `num_new`.
    <span data-yours="exhibit"></span>
    """)
    return


@app.function
def exhibit_d(num_committed, num_new, size):
    """How many blocks of a request can be found while a step computes `num_new` tokens of it."""
    return (num_committed + num_new) // size


@app.cell(hide_code=True)
def _(exact, exhibits):
    _said, exhibit_d_whole = exhibits.a_step_that_fails(exact, piece(lambda: exhibit_d))
    mo.md(_said)
    return (exhibit_d_whole,)


@app.cell(hide_code=True)
def _():
    predict(
        "l07.exhibit_d",
        "Done again, the second request finds 48 tokens of its own prompt. They were never computed. **What is broken?**",
        (
            "The request may not find its own blocks",
            "The step must not be done again",
            "Blocks can be found before what is in them has been committed",
            "The hashes are those of another prompt",
        ),
        2,
        "The blocks had their hashes as soon as they were taken. Then the step failed, and what was found by them was "
        "whatever lay there. Only what a committed step has computed may be found: `num_committed // size`. "
        "(The hashes are the right ones for what should have lain there.)",
    )
    return


@app.cell(hide_code=True)
def _(exhibit_d_whole):
    after(
        "l07.exhibit_d",
        mo.md(
            "**Repaired.** What can be found is there."
            if exhibit_d_whole
            else "**Still broken.** Something can be found that is not there."
        ),
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ### Exhibit E: one prompt, two adapters

    The same prompt for the model as it is, and for the model with an adapter, from one store. The engine
    hands the adapter's name over as the salt.
    <span data-yours="exhibit"></span>
    """)
    return


@app.function
def exhibit_e(tokens, size, salt):
    """By what each full block is found."""
    return [str(tokens[:end]) for end in range(size, len(tokens) + 1, size)]


@app.cell(hide_code=True)
def _(exact, exhibits):
    mo.md(exhibits.two_adapters(exact, piece(lambda: exhibit_e))[0])
    return


@app.cell(hide_code=True)
def _():
    predict(
        "l07.exhibit_e",
        "The second request finds its whole prompt but the end, and goes on as no model would. **What is broken?**",
        (
            "A block was shared before it was full",
            "Tokens alone do not say what K/V is",
            "The adapter was loaded too late",
            "A parent is missing from the hash",
        ),
        1,
        "All tokens are in the hash, and it is still not enough: K/V comes from weights, and these are others. "
        "Whatever K/V depends on has to be in there: the adapter, the images behind placeholder tokens. (Only "
        "full blocks have a hash here, and the parents are in it: all tokens up to its block's end.)",
    )
    return


@app.cell(hide_code=True)
def _():
    after("l07.exhibit_e", exhibit("E", "l07.block_hashes", lambda: exhibit_e))
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## Measure it, including where it loses

    **One system prompt for sixteen.** 300 tokens in front of each, and 20 of its own. Counted, in slots
    and in blocks by your functions.
    """)
    return


@app.cell(hide_code=True)
def _(measured, started, whose, yours):
    mo.md(measured.sixteen_table(yours, whose(started)))
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    In the last row the gain is smaller: a block can be found once the step that computed it has committed,
    so requests that start in the same step compute the same prompt side by side.

    **How large should a block be?** 24 requests behind a text of 60, 110 or 150 tokens. A small block
    follows a beginning to its end and leaves little empty; what speaks against it stands further down.
    """)
    return


@app.cell(hide_code=True)
def _(Curves, measured):
    Curves(
        measured.size_series(),
        ("block size, tokens", ""),
        ("share", "%"),
        "What a block size finds, and what it leaves empty",
        log_x=True,
        source="counted",
        question="How large can a block be before much is lost?",
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    **And the first token?** A prompt of 500 tokens that begins like one before, in blocks of 16, on one
    thread of a CPU. CPU time, median of 21 repeats. The last column, the share of the time when nothing is
    found, says more than the milliseconds.

    | tokens in common | found | TTFT, ms | share |
    |--:|--:|--:|--:|
    | 0 | 0 | 29.0 | 1 |
    | 125 | 112 | 24.1 | 0.83 |
    | 250 | 240 | 18.1 | 0.63 |
    | 375 | 368 | 11.8 | 0.41 |
    | 450 | 448 | 7.2 | 0.25 |
    | 499 | 496 | 4.0 | 0.14 |

    The gain is the prefill that is not run. Decodes get nothing from it: each of them reads all the K/V
    that it would have read anyway. A load of short prompts and long answers hardly notices.

    **A preempted request comes back.** In lesson 2 it had to compute everything again. Its blocks were
    free meanwhile, and free is not gone. Six requests that grow beyond 256 KV tokens:
    """)
    return


@app.cell(hide_code=True)
def _(measured, started, whose, yours):
    mo.md(measured.preempted(yours, whose(started)))
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    What it still computes again was written over by those for which it had to leave: they needed the room.
    Without sharing, blocks save next to nothing here.

    **And when nothing is shared?** Then tables are all cost. The same loads in slots and in blocks, no two
    texts alike; time over that of slots, median of 21 repeats:

    | K/V in | 8 decodes | decodes and chunks | 4 long texts |
    |:--|--:|--:|--:|
    | blocks of 1 | 1.11 | 1.06 | 1.12 |
    | blocks of 8 | 0.98 | 1.06 | 1.03 |
    | blocks of 16 | 0.98 | 1.03 | 1.05 |
    | blocks of 64 | 1.00 | 1.04 | 1.05 |
    | blocks of 16, scattered | 1.19 | 1.31 | 1.30 |

    The spreads of single repeats are wider than most of what lies between the rows (0.6 to 2.0; the project's
    `docs/benchmarks.md` has them all). Two rows stand out. Blocks of one token have a table as long as the
    text, and pay about a tenth. And *scattered*: while a pool has room, this engine takes neighbours, and
    attention reads them where they lie. In a pool that has been in use for long a table's blocks lie
    anywhere, and on this CPU each layer copies them together first: **a fifth to a third more**. A GPU's
    kernel follows the table instead; the PagedAttention paper counts 20 to 26 % more for its attention
    (section 7.1), and a faster server all the same.

    So blocks pay by what they let in, and by what they find. Where memory is plenty and prompts are all
    different, a slot does as well, or better.
    """)
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## How production engines do it

    - **vLLM** has your functions almost one by one, in `vllm/v1/core/`, but for `copy_on_write`: it shares full
      blocks alone ([its design page](https://docs.vllm.ai/en/latest/design/prefix_caching/)). Its hash is of
      the parent's hash, the block's tokens and *extra keys* (adapter, images, salt). `get_computed_blocks`
      looks for at most `num_tokens - 1` tokens and says in a comment that this can cost a whole block: your
      third prediction.
    - **What gives way there:** freed blocks go to the tail of the free queue *in reverse order*, so the end of
      a text gives way before its beginning, as the
      [first proposal](https://github.com/vllm-project/vllm/issues/2614) had it: count, then age, then depth.
    - **Under a sliding window** a block goes back once no token in it is seen, and a newcomer needs only the
      blocks that are still seen, not all from the first on: `SlidingWindowManager` in vLLM, and this engine
      with `sliding_window` beside `block_size`.
    - **One thing is done otherwise.** vLLM gives a full block its hash when it is *taken*, before it is computed, so
      requests that start in one step share already.
    - **SGLang** keeps a radix tree over the tokens
      ([RadixAttention, Zheng et al., 2312.07104](https://arxiv.org/abs/2312.07104)). A node holds a run of
      tokens and is split where texts part; `lock_ref` is your count, and leaves that nothing locks are evicted
      first. With pages of one token nothing of a beginning is lost to rounding.
    - **It leaks.** A first token that comes early says that another user has sent this prompt before, and a
      guesser can find out a prompt piece by piece
      ([InputSnatch](https://arxiv.org/abs/2411.18191); CVE-2025-46570 of vLLM). So vLLM
      takes a [`cache_salt`](https://github.com/vllm-project/vllm/pull/17045) with a request and hashes it into
      the first block: only those who know the same salt share. SGLang's `extra_key` does the same. It is
      your `salt`.
    - **A hash may collide**, and then a request reads K/V of another text, without an error. Hence the 128
      bits of your task.

    The defects of the museum are out there, too:
    """)
    return


@app.cell(hide_code=True)
def _(echoes):
    mo.md(echoes.ECHOES)
    return


@app.cell(hide_code=True)
def _(echoes):
    mo.md("Two more, for which there was no room:\n" + echoes.MORE)
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## What comes next

    A shared prefix saves prefill, and decodes gain nothing: each new token still takes a pass of its own.
    In [lesson 8](/?file=l08_speculation.py) a small model guesses several tokens, the large one judges them
    in one pass, and the text is distributed exactly as if nothing had been guessed.
    """)
    return


if __name__ == "__main__":
    app.run()
