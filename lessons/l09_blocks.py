import marimo

__generated_with = "0.25.2"
app = marimo.App(width="medium", app_title="9 · Blocks and shared prefixes")

with app.setup(hide_code=True):
    import marimo as mo

    from course.attempt import attempt
    from course.prediction import hints
    from course.task import task
    from nanogpt.parts.cached_block import CachedBlock


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    # 9 · Blocks and shared prefixes

    *60 minutes. Builds on lessons 0 (the KV cache) and 2 (the KV budget, preemption). You write six
    short functions.*
    """)
    return


@app.cell(hide_code=True)
def _():
    task("l09.allocate")
    return


@app.function
def allocate(
    num_blocks: int, num_tokens: int, size: int, free: list[int]
) -> list[int] | None:
    """Return the blocks that a table needs besides its own, or None when too few are free."""
    raise NotImplementedError("Exercise 9.1: which blocks does the table get?")


@app.cell(hide_code=True)
def _():
    allocate_attempt = attempt("l09.allocate", lambda: allocate)
    allocate_attempt
    return


@app.cell(hide_code=True)
def _():
    hints("l09.allocate")
    return


@app.cell(hide_code=True)
def _():
    task("l09.release")
    return


@app.function
def release(counts: list[int], table: list[int]) -> list[int]:
    """Return the blocks of `table` that are free once it is gone."""
    raise NotImplementedError("Exercise 9.2: which blocks come free?")


@app.cell(hide_code=True)
def _():
    release_attempt = attempt("l09.release", lambda: release)
    release_attempt
    return


@app.cell(hide_code=True)
def _():
    hints("l09.release")
    return


@app.cell(hide_code=True)
def _():
    task("l09.block_hashes")
    return


@app.function
def block_hashes(tokens: list[int], size: int, salt: str) -> list[str]:
    """Return a hash for each full block of `tokens`, which stands for everything up to its end."""
    raise NotImplementedError("Exercise 9.3: by what is each block found?")


@app.cell(hide_code=True)
def _():
    hashes_attempt = attempt("l09.block_hashes", lambda: block_hashes)
    hashes_attempt
    return


@app.cell(hide_code=True)
def _():
    hints("l09.block_hashes")
    return


@app.cell(hide_code=True)
def _():
    task("l09.longest_match")
    return


@app.function
def longest_match(
    hashes: list[str], cached: dict[str, int], num_tokens: int, size: int
) -> tuple[list[int], int]:
    """Return `(blocks, num_cached)`: what need not be computed, from the first block on."""
    raise NotImplementedError("Exercise 9.4: how much is there already?")


@app.cell(hide_code=True)
def _():
    match_attempt = attempt("l09.longest_match", lambda: longest_match)
    match_attempt
    return


@app.cell(hide_code=True)
def _():
    hints("l09.longest_match")
    return


@app.cell(hide_code=True)
def _():
    task("l09.writable")
    return


@app.function
def writable(
    table: list[int], counts: list[int], index: int, free: list[int]
) -> tuple[list[int], tuple[int, int] | None]:
    """Return `(table, copy)`: the table to go on with, and what has to be copied first."""
    raise NotImplementedError("Exercise 9.5: may this block be written?")


@app.cell(hide_code=True)
def _():
    writable_attempt = attempt("l09.writable", lambda: writable)
    writable_attempt
    return


@app.cell(hide_code=True)
def _():
    hints("l09.writable")
    return


@app.cell(hide_code=True)
def _():
    task("l09.evict_order")
    return


@app.function
def evict_order(blocks: list[CachedBlock]) -> list[int]:
    """Return the ids of the blocks that may give way, first the one to go first."""
    raise NotImplementedError("Exercise 9.6: which block gives way first?")


@app.cell(hide_code=True)
def _():
    order_attempt = attempt("l09.evict_order", lambda: evict_order)
    order_attempt
    return


@app.cell(hide_code=True)
def _():
    hints("l09.evict_order")
    return


if __name__ == "__main__":
    app.run()
