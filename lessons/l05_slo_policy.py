import marimo

__generated_with = "0.25.2"
app = marimo.App(width="medium", app_title="5 · SLO policy")

with app.setup(hide_code=True):
    import marimo as mo

    from course.attempt import attempt
    from course.engine_loop import engine_loop
    from course.figure import Figure
    from course.lazy import slo
    from course.lesson_data import l05_policy as lab
    from course.lesson_data import l05_victims as victims
    from course.prediction import after, hints, predict
    from course.task import task
    from nanogpt.slo.load import two_tier_load
    from nanogpt.slo.prefill_simulation import simulate
    from nanogpt.slo.variants import PROGRESS, ROUND_COST, UNPREEMPTED
    from widgets import GatePicture, SlackTimeline


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    # 5 · SLO policy

    *45 minutes. Builds on lesson 2: queues, preemption, starvation. You write three functions. A good
    place to stop is before "Break it".*

    Afterwards you can compute how much time a request has to spare, rank requests by their deadlines, choose
    the running prefill to preempt, and say why the best choice may still not help.

    ## Should a long prefill give way to an urgent one?

    An engine is prefilling a report of 4,000 tokens. Then a voice assistant sends 200 tokens, and you have
    promised its first token within 100 ms. Such a promise is a *service-level objective*, or SLO. The share
    of requests whose SLO is met is the *SLO attainment*. Can this engine keep both promises?

    The engine computes only prefills; the decodes run on other machines. A *pass* is one forward over one or
    more whole prompts. To keep the numbers round, it has 10 layers and takes 10 ms plus 0.1 ms per token. All
    times are modelled by these *round numbers* until the text says otherwise. Request 0 is the report,
    request 1 the voice request:
    """)
    return


@app.cell
def _():
    alone = simulate(lab.REPORT_AND_VOICE, UNPREEMPTED, ROUND_COST)
    mo.md(lab.passes(alone))
    return


@app.cell(hide_code=True)
def _():
    predict(
        "l05.price",
        "The voice request gets its first token 390 ms after its arrival. Suppose that the report's pass can be aborted at the "
        "next layer and computed again later. How much later does the report get its first token?",
        (
            "30 ms: the pass of the voice request",
            "About 110 ms: those 30 ms and the work that is thrown away",
            "About 400 ms: the report is computed twice",
        ),
        1,
        "The report's TTFT rises from 410 to 522 ms, by **112 ms**: 82 ms of work are thrown away (the pass is aborted after two layers), and the report "
        "waits 30 ms for the voice request. The TTFT of the voice request falls from 390 to 62 ms, and both deadlines are met. "
        "The price depends on the moment: after nine of ten layers, nearly the whole pass would be lost.",
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## Slack: how much time is left to spare?

    Before the engine throws work away, it has to know how much time each request has left. Two requests of
    500 tokens wait. The bar is their predicted prefill of 60 ms, and it begins *now*. Press the right arrow
    key: as time passes, the bar moves to the right and the deadline stays.
    """)
    return


@app.cell(hide_code=True)
def _():
    SlackTimeline(
        [
            lab.slack_case("promised within 130 ms", 130_000),
            lab.slack_case("promised within 80 ms", 80_000),
        ],
        title="Two requests wait (modelled)",
        question="When is it too late for the second request?",
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    The time between the end of the bar and the deadline is the **slack**. While a request waits, its slack
    shrinks by 1 ms per ms. A request whose slack is below zero is *doomed*: it misses its deadline even if
    it runs at once.

    The post defines slack as the time to the deadline minus the predicted TTFT. For a waiting request that
    is right. But to decide whether to preempt, the policy needs the slack of the *running* request as well.
    How much of its predicted time does a running request still need?
    """)
    return


@app.cell(hide_code=True)
def _():
    task("l05.slack")
    return


@app.function
def slack(now: int, deadline: int, total: int, done: int, a: float, c: float) -> float:
    """Return how much time a request has to spare before its deadline, in microseconds."""
    raise NotImplementedError("Exercise 5.1: the time to spare, in microseconds")


@app.cell(hide_code=True)
def _():
    slack_attempt = attempt("l05.slack", lambda: slack)
    slack_attempt
    return (slack_attempt,)


@app.cell(hide_code=True)
def _():
    hints("l05.slack")
    return


@app.cell(hide_code=True)
def _(slack_attempt):
    _cases = lab.your_slack(slack_attempt)
    mo.md(_cases) if isinstance(_cases, str) else SlackTimeline(
        _cases,
        title="Your slack for two requests promised within 80 ms (modelled)",
        question="Which request's slack shrinks, and which one's stays the same?",
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    The slack of a running request stays the same, because each ms that passes also completes 1 ms of its
    work. (A pass computes all its tokens layer by layer, so no token is done before the end. Its progress is
    counted as 1 token per 0.1 ms. Near the end of a pass, slack is overestimated by up to 10 ms, because the
    overhead is no longer charged.)

    ## How long will a prefill take?

    `slack` needs a prediction. An engine with such a policy times a few prompt lengths once and fits a line
    to them by least squares:

    ```python
    def fit_ttft(points):  # (tokens, microseconds) of measured prefills
        tokens, times_us = zip(*points)
        a, c = statistics.linear_regression(tokens, times_us)
        return a, c        # a prefill of n tokens is predicted to take a * n + c
    ```
    """)
    return


@app.cell(hide_code=True)
def _():
    Figure(lab.fitted(), "Where does a straight line miss the points?")
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    For our small model the line is 0.0405 ms per token and -0.67 ms per pass. A pass cannot cost less than
    nothing: the points bend, because attention grows with the square of the prompt. The line explains 0.9752
    of the variance (R²); a cubic explains 0.9999. FlowPrefill, the paper behind this lesson, fits a cubic.

    This lesson grew from a post on preempting prefills by the author of
    [adiu19/vllm](https://github.com/adiu19/vllm), a fork of vLLM. Its author measured a model of 70 billion
    parameters on four A100 GPUs, and there a line fits well (R² = 0.9996): **0.173 ms per token and 34 ms**.
    The 34 ms hold everything that does not grow with the prompt: the overhead of a pass, and that of a
    request. Fit again for another model, machine or range of lengths:
    `python -m nanogpt.slo fit_ttft sweep.csv`.

    ## Which request goes first?

    One score orders all requests. The post uses **the sign of the slack, divided by the time to the
    deadline**. The sign says whether the deadline can still be met; the time says how soon it comes.
    """)
    return


@app.cell(hide_code=True)
def _():
    predict(
        "l05.slack_or_deadline",
        "A has its deadline in 400 ms and **1 ms** of slack. B has its deadline in 399 ms and **390 ms** of slack. Which goes first?",
        ("A: it has no time to lose", "B: its deadline is nearer", "Neither: the scores are equal"),
        1,
        "**B**, with 0.002506 against 0.002500. The score uses only the sign of the slack, not its size: this is earliest deadline first (EDF), with doomed requests last. "
        "Is that wrong? A needs 399 ms of computing and B needs 9. Together they need 408 ms, but only 400 ms are left, so one of them is late in either order. EDF "
        "loses A; an order by slack would lose B. Neither order sees that the two do not fit together.",
    )
    return


@app.cell(hide_code=True)
def _():
    task("l05.edf_score")
    return


@app.function
def edf_score(slack: float, time_to_deadline: int) -> float:
    """Return the score of a request, from -1 to 1: the higher goes first."""
    raise NotImplementedError("Exercise 5.2: a score from -1 to 1, the higher the sooner")


@app.cell(hide_code=True)
def _():
    score_attempt = attempt("l05.edf_score", lambda: edf_score)
    score_attempt
    return (score_attempt,)


@app.cell(hide_code=True)
def _():
    hints("l05.edf_score")
    return


@app.cell(hide_code=True)
def _():
    after("l05.slack_or_deadline", mo.md(r"""
    Among doomed requests the order is odd: one that is 200 ms overdue goes before one that has just missed
    its deadline. This does no harm, because all doomed requests come after every request that can still be
    saved. (The paper divides by the **absolute deadline**, counted from the start of the engine. After an
    hour, two deadlines 20 ms apart then have the same score to five digits, and a margin between scores
    means nothing.)
    """))
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## Which running request is preempted?

    One waiting request, the most urgent, is the **candidate**. Other requests run, perhaps several in one
    pass. Every few milliseconds a *monitor* calls your function: should a running request be preempted for
    the candidate? An abort throws work away, so the candidate has to be clearly more urgent: the post uses a
    **margin** of 1.2.

    Two rules protect running requests. **Rule 1**: a request that was preempted once is immune. Your function
    applies it. **Rule 2**: a pass that is past 90 % of its layers runs to its end, because an abort would
    lose nearly all of it. The engine applies that one.

    In the loop of lesson 2 the marked line preempts too, between two steps, when K/V runs short. Yours has
    another reason, a deadline, and another moment: while `execute` runs. (This loop cannot do that. Lesson 6
    builds a way to stop a running pass.)
    """)
    return


@app.cell(hide_code=True)
def _():
    engine_loop("self.select_victims(")
    return


@app.cell(hide_code=True)
def _():
    task("l05.select_victim")
    return


@app.function
def select_victim(candidate: slo.SloView, running: list[slo.SloView], margin: float) -> int | None:
    """Return the id of the request to preempt for `candidate`, or None for no preemption."""
    raise NotImplementedError("Exercise 5.3: which running request is preempted, if any?")


@app.cell(hide_code=True)
def _():
    victim_attempt = attempt("l05.select_victim", lambda: select_victim)
    victim_attempt
    return (victim_attempt,)


@app.cell(hide_code=True)
def _():
    hints("l05.select_victim")
    return


@app.cell(hide_code=True)
def _(victim_attempt):
    _decisions = victims.victim_decisions(victim_attempt)
    _whose = (
        "your function" if victim_attempt.started else "the reference, until you have written yours"
    )
    mo.md(
        "The results of `select_victim` cannot be drawn; the check above says why."
    ) if _decisions is None else GatePicture(
        _decisions,
        title=f"Eight moments, by {_whose}",
        question="Is the candidate urgent enough, and do the signs allow a preemption?",
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ### What your choice does

    Now the same function decides in three small loads, one decision after the other. A function that is wrong
    in a single case can keep an engine busy for ever. The post's author met such a loop, in which two doomed
    requests preempted each other: **21,360 wasted steps at zero tokens per second**.
    """)
    return


@app.cell(hide_code=True)
def _(victim_attempt):
    mo.md(victims.small_loads(victim_attempt))
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    Look at the last row. The report is preempted once, and then it is immune, so one of the urgent requests is
    late. Without Rule 1 the report would be preempted by each of them: lesson 2b's starvation by strict
    priority. Rule 1 is insurance against such a stream; lesson 5b measures what it costs.

    ## Break it: an immune request is preempted again

    This run has the reference's `select_victim` with Rule 1. Three requests arrive: the report (0) at 0 ms, a
    request of 1,000 tokens with time to spare (1) at 50 ms, and the voice request (2) at 200 ms. The engine
    fills each pass with all waiting requests. A bar shows how many of a pass's layers were computed.
    """)
    return


@app.cell
def _():
    shared = simulate(victims.SHARED_PASS, PROGRESS, ROUND_COST)
    mo.md(lab.passes(shared))
    return


@app.cell(hide_code=True)
def _():
    predict(
        "l05.shared_pass",
        "The report loses its work twice, although it is immune after the first time. **What is broken?**",
        (
            "`select_victim` chose the report although it was immune",
            "Rule 1 counts preemptions of other requests",
            "The report was in a pass that was aborted for another victim",
            "Rule 2 should have let the second pass finish",
        ),
        2,
        "The second victim is request 1. It shares its pass with the report, and **an abort ends a whole pass**. Rule 1 protects a request from being chosen, not from being "
        "in the wrong pass: the fork of the post has the same gap. In the third pass all three run together, so the voice request waits for the report after all. "
        "Two aborts have gained nothing. What is missing is a decision about *which requests may share a pass*; you write it in lesson 5b.",
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## Are chunks not enough?

    With lesson 1's chunks, an urgent request can run between two chunks, without any preemption. The table
    uses the post's line for a prompt of 4,000 tokens. The repeated cost per chunk is unknown, between 0 and
    34 ms. The table shows both.

    | 4,000 tokens in | prefill, at least | prefill, at most | longest wait until another request can start, at most |
    |:--|--:|--:|--:|
    | one pass | 726 ms | 726 ms | 726 ms |
    | chunks of 512 | 726 ms | 965 ms, ×1.33 | 123 ms |
    | chunks of 128 | 726 ms | 1,784 ms, ×2.46 | 56 ms |
    | one pass that can be stopped after each of its 80 layers | 726 ms | 726 ms | 9 ms |

    Chunked prefill is enough if every TTFT SLO can absorb one chunk's time. Preemption is for tighter
    promises. While no urgent request arrives, it costs only a check at each layer (lesson 6).

    /// details | Do separate machines for prefills help?

    In *prefill/decode disaggregation*, some machines compute prefills and send the K/V to others, which run
    the decodes. A prefill then never delays a decode, so TTFT and ITL can be tuned separately; the price is
    the transfer of every prompt's K/V. Such systems are measured by *goodput*: the requests per second that
    meet their SLOs. DistServe reports up to 7.4 times the goodput, or SLOs 12.6 times tighter, than the
    systems it compares with ([OSDI 2024](https://arxiv.org/abs/2401.09670)).

    vLLM's documentation states that disaggregation does not raise throughput. On a prefill machine one
    problem remains: a long prefill still delays an urgent one. The post runs its fork on such a machine.
    ///

    ## Does the policy help under load?

    Requests arrive at random, four per second for half a minute. This model has the post's line: a pass of 80
    layers takes `max(17 ms, 0.173 ms per token) + 17 ms`, and the first token follows 17 ms later. (The fit
    does not say how its 34 ms split between pass and request; this model takes half and half.)

    One request in five is **urgent**: its first token was promised within 1 to 1.3 times its own prefill
    time. The others are **relaxed**, with 3 to 10 times. Waiting requests share a pass of up to 9,000 tokens,
    as in the author's fork. Your three functions decide.
    """)
    return


@app.cell(hide_code=True)
def _(score_attempt, slack_attempt, victim_attempt):
    mo.md(
        victims.under_load(
            two_tier_load(seed=0, requests_per_s=4, duration_s=30),
            {"slack": slack_attempt, "edf_score": score_attempt, "select_victim": victim_attempt},
            victims.AS_PUBLISHED,
        )
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    Nothing changes. The author measured the same on four GPUs, in five paired trials: at four requests per
    second, 38.0 % of the urgent requests were in time without preemption and 37.1 % with it. The difference
    is noise. This null result was published with its data (branch `dev-treatment` of the fork), and lesson 5b
    finds out what could cause it.

    ## What you now know

    - A long prefill *should* give way when another request would otherwise miss its deadline. Here the report
      pays 112 ms for it.
    - Slack is the time to the deadline minus the predicted time of the *remaining* work. Below zero, the
      request is doomed.
    - The score is EDF with doomed requests last. It does not see whether two requests fit together.
    - `select_victim` compares signs before scores, because a margin on negative scores lowers the bar. Rule 1
      keeps a stream of urgent requests from starving a long one.
    - An abort ends a whole pass. Under load, a right policy by itself changed nothing.

    ## The same in vLLM and SGLang

    Neither engine schedules by deadlines. These features come nearest:

    - **A margin.** SGLang's `--enable-priority-scheduling` preempts a running request only if the priorities
      differ by more than `--priority-scheduling-preemption-threshold` (10).
    - **vLLM** preempts only when K/V blocks run out (`_preempt_request` in `vllm/v1/core/sched/scheduler.py`),
      never for a deadline. `--max-num-queued-tokens` keeps TTFT bounded in another way: it refuses requests.
    - **Rule 1.** In [vLLM #25538](https://github.com/vllm-project/vllm/issues/25538) a long request was
      resumed and preempted again in the next step. A proposal,
      [#56843](https://github.com/vllm-project/vllm/pull/56843), counts `num_preemptions` as Rule 1 does; it
      was closed without a merge.
    - **Disaggregation.** vLLM: `--kv-transfer-config` with `kv_role` `kv_producer` or `kv_consumer`. SGLang:
      `--disaggregation-mode prefill` or `decode`.

    Checked against vLLM 0.33.0 and SGLang 0.5.23, November 2026.

    ## What comes next

    [Lesson 5b](/?file=l05b_repair_ladder.py) asks why the author's measurement came out as it did, and
    repairs the engine around the policy.
    """)
    return


if __name__ == "__main__":
    app.run()
