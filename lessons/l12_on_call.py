import marimo

__generated_with = "0.25.2"
app = marimo.App(width="medium", app_title="12 · On call")

with app.setup(hide_code=True):
    import marimo as mo

    from course.attempt import attempt
    from course.lesson_data import l12_on_call as on_call
    from course.prediction import hints
    from course.task import task


@app.cell(hide_code=True)
def _():
    mo.md(rf"""
    # 12 · On call

    *50 minutes. Builds on lessons 2, 7, 8, 9 and 10. You diagnose eight tickets.*

    Afterwards you can find the one number that tells a cause from others with the same symptom, and test a
    fix before you call it one.

    ## Something is slow. Why?

    Each ticket is a deployment as its operator sees it. In seven of the eight a promise is broken. **In one
    there is no fault**, and in all of them some facts are beside the point.

    A diagnosis has three parts: the *cause*, from the list below; the *number* that the list asks for
    beside it, to 1 %; and the *fix*, one setting with a new value (`{{}}`: none). The check runs the same
    load with your fix, and every promise has to hold. Times are modelled (`docs/costs.md`), and one
    prompt token of an engine stands for 16, as in lesson 10.

    {on_call.causes_and_settings()}
    """)
    return


@app.cell(hide_code=True)
def _():
    task("l12.ticket_1")
    return


@app.cell(hide_code=True)
def _():
    on_call.curves("ticket_1", "How long do requests wait for their first token?")
    return


@app.function
def ticket_1() -> dict[str, object]:
    """Return the cause, the number that proves it and the fix."""
    raise NotImplementedError("Exercise 12.1: why does the first word come late?")


@app.cell(hide_code=True)
def _():
    attempt("l12.ticket_1", lambda: ticket_1)
    return


@app.cell(hide_code=True)
def _():
    hints("l12.ticket_1")
    return


@app.cell(hide_code=True)
def _():
    task("l12.ticket_2")
    return


@app.cell(hide_code=True)
def _():
    on_call.curves("ticket_2", "How long is the queue, and is it full of long prompts?")
    return


@app.function
def ticket_2() -> dict[str, object]:
    """Return the cause, the number that proves it and the fix."""
    raise NotImplementedError("Exercise 12.2: why is it slower since Tuesday?")


@app.cell(hide_code=True)
def _():
    attempt("l12.ticket_2", lambda: ticket_2)
    return


@app.cell(hide_code=True)
def _():
    hints("l12.ticket_2")
    return


@app.cell(hide_code=True)
def _():
    task("l12.ticket_3")
    return


@app.cell(hide_code=True)
def _():
    on_call.curves("ticket_3", "What is at its limit while texts stop?")
    return


@app.function
def ticket_3() -> dict[str, object]:
    """Return the cause, the number that proves it and the fix."""
    raise NotImplementedError("Exercise 12.3: why does the text stop?")


@app.cell(hide_code=True)
def _():
    attempt("l12.ticket_3", lambda: ticket_3)
    return


@app.cell(hide_code=True)
def _():
    hints("l12.ticket_3")
    return


@app.cell(hide_code=True)
def _():
    task("l12.ticket_4")
    return


@app.cell(hide_code=True)
def _():
    on_call.curves("ticket_4", "Whose TTFT is high?")
    return


@app.function
def ticket_4() -> dict[str, object]:
    """Return the cause, the number that proves it and the fix."""
    raise NotImplementedError("Exercise 12.4: why is the dashboard red?")


@app.cell(hide_code=True)
def _():
    attempt("l12.ticket_4", lambda: ticket_4)
    return


@app.cell(hide_code=True)
def _():
    hints("l12.ticket_4")
    return


@app.cell(hide_code=True)
def _():
    task("l12.ticket_5")
    return


@app.cell(hide_code=True)
def _():
    on_call.curves("ticket_5", "How many requests are in a pass in the evening?")
    return


@app.function
def ticket_5() -> dict[str, object]:
    """Return the cause, the number that proves it and the fix."""
    raise NotImplementedError("Exercise 12.5: why are evenings slow?")


@app.cell(hide_code=True)
def _():
    attempt("l12.ticket_5", lambda: ticket_5)
    return


@app.cell(hide_code=True)
def _():
    hints("l12.ticket_5")
    return


@app.cell(hide_code=True)
def _():
    task("l12.ticket_6")
    return


@app.cell(hide_code=True)
def _():
    on_call.curves("ticket_6", "What is left in the break, and at the end?")
    return


@app.function
def ticket_6() -> dict[str, object]:
    """Return the cause, the number that proves it and the fix."""
    raise NotImplementedError("Exercise 12.6: why is it slower by the hour?")


@app.cell(hide_code=True)
def _():
    attempt("l12.ticket_6", lambda: ticket_6)
    return


@app.cell(hide_code=True)
def _():
    hints("l12.ticket_6")
    return


@app.cell(hide_code=True)
def _():
    task("l12.ticket_7")
    return


@app.cell(hide_code=True)
def _():
    on_call.curves("ticket_7", "How evenly is the work spread, at any moment?")
    return


@app.function
def ticket_7() -> dict[str, object]:
    """Return the cause, the number that proves it and the fix."""
    raise NotImplementedError("Exercise 12.7: why is there a queue?")


@app.cell(hide_code=True)
def _():
    attempt("l12.ticket_7", lambda: ticket_7)
    return


@app.cell(hide_code=True)
def _():
    hints("l12.ticket_7")
    return


@app.cell(hide_code=True)
def _():
    task("l12.ticket_8")
    return


@app.cell(hide_code=True)
def _():
    on_call.curves("ticket_8", "How many requests are in flight: of users, and in the load test?")
    return


@app.function
def ticket_8() -> dict[str, object]:
    """Return the cause, the number that proves it and the fix."""
    raise NotImplementedError("Exercise 12.8: why did the load test pass?")


@app.cell(hide_code=True)
def _():
    attempt("l12.ticket_8", lambda: ticket_8)
    return


@app.cell(hide_code=True)
def _():
    hints("l12.ticket_8")
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## What you now know

    - One symptom has many causes. A number tells them apart.
    - Averages move when the mix of requests moves. Compare like with like.
    - A setting that helps one promise may break another. Run the load again.

    ## The same in vLLM and SGLang

    | here | vLLM's metric or setting |
    |:---|:---|
    | TTFT, ITL | `vllm:time_to_first_token_seconds`, `vllm:inter_token_latency_seconds` |
    | waiting, preemptions | `vllm:num_requests_waiting`, `vllm:num_preemptions_total`; `--max-num-seqs` |
    | KV budget in use | `vllm:kv_cache_usage_perc`: near 0 when nobody is there |
    | `token_budget` | `--max-num-batched-tokens`; `vllm:iteration_tokens_total` |
    | found cached | `vllm:prefix_cache_hits_total` ÷ `vllm:prefix_cache_queries_total`; `cache_salt` in a request |
    | drafts | `vllm:spec_decode_num_accepted_tokens_total` ÷ `vllm:spec_decode_num_draft_tokens_total` |
    | load test | `vllm bench serve --request-rate 60` is open; with `--max-concurrency 8` it is closed |

    *Metrics: vLLM's page [Production metrics](https://docs.vllm.ai/en/stable/usage/metrics/), November 2026. SGLang has
    metrics of the same kinds under its own names.*
    """)
    return


if __name__ == "__main__":
    app.run()
