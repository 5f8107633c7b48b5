import marimo

__generated_with = "0.25.2"
app = marimo.App(width="medium", app_title="5 · SLO policy")

with app.setup(hide_code=True):
    import marimo as mo

    from course.attempt import attempt, exhibit, piece
    from course.lazy import slo
    from course.prediction import after, hints, predict
    from course.task import task


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    # 5 · SLO policy

    *45 minutes. Builds on lesson 2: queues, preemption, starvation. You write three functions. A good
    place to stop is before "Break it".*

    Afterwards you can compute how much time a request has to spare, rank requests by their deadlines, choose
    the running prefill to preempt, and recognise two ways in which that choice goes wrong.

    ## Should a long prefill give way to an urgent one?

    An engine is prefilling a report of 4,000 tokens. After 50 ms a second request arrives: 200 tokens from
    a voice assistant, whose first token was promised within 100 ms. Such a promise is a *service-level
    objective*, or SLO. The share of requests whose SLO is met is the *SLO attainment*, and it is what this
    lesson measures.

    This lesson grew from a post on preempting prefills, by the author of
    [adiu19/vllm](https://github.com/adiu19/vllm), a fork of vLLM that does so.

    This engine computes only prefills; the decodes run on other machines. To keep the numbers round, a
    *pass*, which is one forward over one or more whole prompts, takes 10 ms of overhead plus 0.1 ms of
    arithmetic per token. (Without K/V to read, lesson 0's cost of a step is
    `max(weight read, arithmetic) + overhead`. These prompts are long enough for the arithmetic to be the
    larger of the two.) The model has 10 layers. All times are modelled. Request 0 is the report, request 1 the voice request:
    """)
    return


@app.cell(hide_code=True)
def _():
    from course.engine_loop import engine_loop
    from course.lesson_data.l05_policy import (
        REPORT_AND_VOICE,
        fitted,
        passes,
        simulated,
        slack_case,
        your_slack,
    )
    from course.lesson_data.l05_victims import (
        AS_PUBLISHED,
        starving,
        under_load,
        victim_decisions,
        victims_by,
    )
    from nanogpt.slo.load import two_tier_load
    from nanogpt.slo.prefill_simulation import simulate
    from nanogpt.slo.variants import (
        BATCHED_WITHOUT_RULE_1,
        ROUND_COST,
        UNPREEMPTED,
        doomed_pair,
    )
    from widgets import GatePicture, SlackTimeline

    return (
        AS_PUBLISHED,
        BATCHED_WITHOUT_RULE_1,
        GatePicture,
        REPORT_AND_VOICE,
        ROUND_COST,
        SlackTimeline,
        UNPREEMPTED,
        doomed_pair,
        engine_loop,
        fitted,
        passes,
        simulate,
        simulated,
        slack_case,
        starving,
        two_tier_load,
        under_load,
        victim_decisions,
        victims_by,
        your_slack,
    )


@app.cell(hide_code=True)
def _(REPORT_AND_VOICE, ROUND_COST, UNPREEMPTED, passes, simulate):
    mo.md(passes(simulate(REPORT_AND_VOICE, UNPREEMPTED, ROUND_COST)))
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
    ## Where the engine preempts

    This is the engine's loop, and the marked line is the one that preempts. In lesson 2 you wrote its
    `choose_victim`: when the K/V of the running requests no longer fits, it preempts one of them. This
    lesson builds another reason to preempt, a deadline, and another moment: during `execute`, while the
    pass runs. (The loop below cannot do that. Lesson 6 builds a way to stop a running pass.)
    """)
    return


@app.cell(hide_code=True)
def _(engine_loop):
    engine_loop("self.select_victims(")
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## How long will a prefill take?

    To decide whether a preemption pays, the engine needs three numbers: how long a prefill will take, how
    much time a request has to spare, and how urgent that makes it.

    The first number has to be known before the pass runs. An engine with such a policy times a few prompt
    lengths once and fits a line to them by least squares:

    ```python
    def fit_ttft(points):  # (tokens, microseconds) of measured prefills
        tokens, times_us = zip(*points)
        a, c = statistics.linear_regression(tokens, times_us)
        return a, c        # a prefill of n tokens is predicted to take a * n + c
    ```
    """)
    return


@app.cell(hide_code=True)
def _(fitted):
    from course.figure import Figure

    Figure(fitted(), "Where does a straight line miss the points?")
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    For our small model the line is 0.0405 ms per token and -0.67 ms per pass. It explains 0.9752 of the
    variance (R²); a cubic explains 0.9999. A pass cannot cost less than nothing, so the negative constant
    shows that the points bend: attention grows with the square of the prompt, and in this small model it is
    a large part of the work. FlowPrefill, the paper behind this lesson's post, fits a cubic for that reason.

    The post's author measured the TTFT of a model of 70 billion parameters on four A100 GPUs, for six prompts
    of 242 to 7,986 tokens. There a line fits well (R² = 0.9996): **0.173 ms per token and 34 ms**. The line is
    fitted to TTFT over prompt length, so the 34 ms contain everything that does not grow with the prompt: the
    overhead of a pass, and that of a request (scheduling, messages between processes, sampling). The time to
    read the weights is not visible in this fit: reading 140 GB at 8 TB/s takes 17 ms, as long as the
    arithmetic of 100 tokens, and all six prompts are longer than that. Fit again for another model, machine or
    range of lengths: `python -m nanogpt.slo fit_ttft sweep.csv`.
    """)
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## Are chunks not enough?

    With lesson 1's chunks, an urgent request can run between two chunks, without any preemption. What do
    chunks cost a prompt of 4,000 tokens on the post's line? The fit does not say how much of the 34 ms every
    chunk pays again. It may be nothing, because these chunks have more than 100 tokens, so their arithmetic
    takes longer than the weight read. It may also be all 34 ms.

    | 4,000 tokens in | prefill, at least | prefill, at most | longest wait until another request can start, at most |
    |:--|--:|--:|--:|
    | one pass | 726 ms | 726 ms | 726 ms |
    | chunks of 512 | 726 ms | 965 ms, ×1.33 | 123 ms |
    | chunks of 128 | 726 ms | 1,784 ms, ×2.46 | 56 ms |
    | one pass that can be stopped after each of its 80 layers | 726 ms | 726 ms | 9 ms |

    Chunks suffice where every SLO can bear the wait for one chunk, and chunks of 512 often do. Preemption is
    for tighter promises. While no urgent request arrives, it costs only a check at each layer (lesson 6).

    **Do separate machines help?** In *prefill/decode disaggregation*, some machines compute prefills and
    send the K/V to others, which run the decodes. A prefill then never delays a decode, so TTFT and ITL can
    be tuned separately; the price is the transfer of every prompt's K/V. Such systems are measured
    by *goodput*: the requests per second that meet their SLOs.
    [DistServe](https://hao-ai-lab.github.io/blogs/distserve) reports up to 4.48 times the goodput, or SLOs
    10.2 times tighter, than the engines it compares with.

    vLLM's documentation states that disaggregation does not raise throughput. So where chunks keep ITL within
    its SLO, chunks are enough. But on a prefill machine one problem remains: a long prefill still delays an
    urgent one. The post runs its fork on such a machine.
    """)
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## Slack: how much time is left to spare?

    Two requests of 500 tokens wait. The bar is their predicted prefill of 60 ms, and it begins *now*. Press
    the right arrow key: as time passes, the bar moves to the right and the deadline stays.
    """)
    return


@app.cell(hide_code=True)
def _(SlackTimeline, slack_case):
    SlackTimeline(
        [
            slack_case("promised within 130 ms", 130_000),
            slack_case("promised within 80 ms", 80_000),
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
def _(SlackTimeline, slack_attempt, your_slack):
    _cases = your_slack(slack_attempt)
    mo.md(_cases) if isinstance(_cases, str) else SlackTimeline(
        _cases,
        title="Your slack for two requests promised within 80 ms (modelled)",
        question="Which request's slack shrinks, and which one's stays the same?",
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    The slack of a running request stays the same, because each ms that passes also completes 1 ms of its work.
    (A pass computes all its tokens layer by layer, so no token is done before the end. Its progress is counted
    as 1 token per 0.1 ms. Once all tokens count as done, `slack` no longer charges the overhead, so in the last
    10 ms of a pass the slack is up to 10 ms too high.)

    ## Which request goes first?

    One score ranks all requests. The post uses **the sign of the slack, divided by the time to the
    deadline**. The sign says whether the deadline can still be met; the time says how soon it comes.
    """)
    return


@app.cell(hide_code=True)
def _():
    predict(
        "l05.slack_or_deadline",
        "A has its deadline in 400 ms and **1 ms** of slack. B has its deadline in 399 ms and **390 ms** of slack. Which ranks first?",
        ("A: it has no time to lose", "B: its deadline is nearer", "Neither: the scores are equal"),
        1,
        "**B**, with 0.002506 against 0.002500. The score uses only the sign of the slack, not its size: this is earliest deadline first (EDF), with doomed requests last. "
        "Is that wrong? A needs 399 ms of computing and B needs 9. Together they need 408 ms, but only 400 ms are left, so one of them is late in either order. EDF "
        "loses A; a ranking by slack would lose B. Neither ranking sees that the two do not fit together.",
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
    after(
        "l05.slack_or_deadline",
        mo.md(r"""
    Among doomed requests the order is odd: one that is 200 ms overdue ranks above one that has just missed
    its deadline. This does no harm, because all doomed requests rank below every request that can still be
    saved. (The paper divides by the **absolute deadline**, counted from the start of the engine. After an
    hour, two deadlines 20 ms apart then have the same score to five digits, and a margin between scores
    means nothing.)
    """),
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## Which running request is preempted?

    One waiting request, the most urgent, is the **candidate**. Other requests run, perhaps several in one
    pass. Every few milliseconds a *monitor* asks whether to preempt one of them for the candidate. A
    preemption throws work away, so a slightly higher score is not enough: the candidate has to be **1.2
    times** as urgent as one running request, the **incumbent**. Which one?

    - **Conservative**, the post's default: the *most* urgent running request, so the candidate has to be more
      urgent than every running request.
    - **Aggressive**: the *least* urgent running request.

    In both modes your function names one victim, the least urgent running request. The engine then aborts the
    whole pass that the victim is in, so the other requests of that pass lose their work too. The signs of the
    slack decide before any score is compared:

    | | the incumbent can meet its deadline | the incumbent is doomed |
    |:--|:--|:--|
    | **the candidate can meet its deadline** | preempt if 1.2 times as urgent | preempt: the incumbent is late anyway |
    | **the candidate is doomed** | no preemption | no preemption |

    Two rules protect running requests. Your function applies **Rule 1**: a request that was preempted once
    is immune. The workers apply **Rule 2**: a pass that is past 90 % of its layers runs to its end, since an
    abort would lose nearly all of it. (In the post's fork, a prefill machine also computes one decode, for a
    request's first token, before it sends the K/V away. According to the post, Rule 2 protects that decode too:
    aborting it would throw away a finished prefill that lacks only this token.)
    """)
    return


@app.cell(hide_code=True)
def _():
    task("l05.select_victim")
    return


@app.function
def select_victim(
    candidate: slo.SloView, running: list[slo.SloView], margin: float, mode: str
) -> int | None:
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
def _(GatePicture, victim_attempt, victim_decisions):
    _decisions = victim_decisions(victim_attempt)
    _whose = "your function" if victim_attempt.started else "the reference, until you have written yours"
    mo.md("The results of `select_victim` cannot be drawn; the check above says why.") if _decisions is None else GatePicture(
        _decisions,
        title=f"Eight moments, by {_whose}",
        question="Is the candidate urgent enough, and do the signs allow a preemption?",
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## Break it: two defects in the choice of the victim

    Both exhibits use the engine with round numbers: 10 ms per pass, 0.1 ms per token, 10 layers. A bar shows how
    many layers of a pass were computed.

    ### Exhibit A: why is neither request done?

    Two requests arrive together, and both are doomed: each has 110 ms of work and 50 ms until its deadline.
    The next request arrives ten seconds later. Rule 1 is switched off. To compare the candidate with the
    incumbent, this policy calls `outranks_by_margin`, which looks only at the scores.
    <span data-yours="exhibit"></span>
    """)
    return


@app.function
def outranks_by_margin(candidate: float, incumbent: float, margin: float) -> bool:
    """Whether the candidate, by its score, is preferred to the incumbent."""
    return candidate > margin * incumbent


@app.cell(hide_code=True)
def _(BATCHED_WITHOUT_RULE_1, doomed_pair, passes, simulated, victims_by):
    loop = simulated(
        doomed_pair(), BATCHED_WITHOUT_RULE_1, most=2000, select_victim=victims_by(piece(lambda: outranks_by_margin))
    )
    mo.md(passes(loop, 4))
    return


@app.cell(hide_code=True)
def _():
    predict(
        "l05.after_you",
        "Hundreds of passes run, and each is aborted after one layer. **What is broken?**",
        (
            "The interval of 5 ms: the monitor should look less often",
            "The order of the running requests: the wrong one is preempted",
            "The margin lowers the bar instead of raising it",
            "The waiting queue: preempted requests belong at its end",
        ),
        2,
        "The scores are negative and nearly equal, and each is above 1.2 times the other. Take -0.011 and -0.010: -0.011 is less urgent, yet it is above 1.2 × -0.010 = -0.012. So each request may preempt the other. The signs have to be compared first. "
        "The post's author met this loop: **21,360 wasted steps at zero tokens per second**. Rule 1 stops it after one round, but does not remove the cause.",
    )
    return


@app.cell(hide_code=True)
def _(victims_by):
    after("l05.after_you", exhibit("A", "l05.select_victim", lambda: victims_by(outranks_by_margin)))
    return


@app.cell(hide_code=True)
def _(passes, starving):
    starved = starving()
    mo.md(
        "### Exhibit B: why does the report never finish?\n\n"
        "The report needs 410 ms, and its deadline is five seconds away. An urgent short request arrives every 300 ms. Each preemption in this run is justified:\n\n"
        + passes(starved, 6)
    )
    return


@app.cell(hide_code=True)
def _():
    predict(
        "l05.never_read",
        "The margin is there, and the four cases of signs are correct. The report finishes only once the urgent requests stop coming. **What is missing?**",
        (
            "Rule 1: a request that was preempted once is immune",
            "Rule 2: a pass past 90 % of its layers finishes",
            "The aggressive mode",
            "A margin of more than 1.2",
        ),
        0,
        "Without Rule 1 there are 12 preemptions, 81 % of the computing is thrown away, and the report gets its first token after 4.05 s. With Rule 1 there is 1 preemption, "
        "30 % is thrown away, the report gets its first token after 0.77 s, and one urgent request is late. This is lesson 2b's starvation by strict priority. "
        "(Rule 2 saves a pass only near its end. With one running request both modes are the same, and a margin of 10 gives just as many preemptions as 1.2.) "
        "Rule 1 is insurance against such a stream; lesson 5b measures what it costs.",
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## Does the policy help under load?

    Requests arrive at random, four per second for half a minute. A modelled pass of 80 layers takes
    `max(17 ms, 0.173 ms per token) + 17 ms`: the weight read or the arithmetic, and half of the 34 ms. The
    fit does not say how the 34 ms split between pass and request. Here the request gets the other half, which
    lies between the end of the pass and the first token. The policy predicts with the fitted line.

    Prompts have 675 tokens on average. One request in five is **urgent**: its first token was promised within
    1 to 1.3 times its own prefill time. The others are **generous**, with 3 to 10 times.

    The modelled engine works like the author's fork of vLLM. Your `edf_score` orders the queue, and waiting
    requests share a pass of up to 9,000 tokens. While the pass runs, the monitor looks at the waiting requests
    every 5 ms, and your `slack` and `select_victim` decide whether to abort it.
    """)
    return


@app.cell(hide_code=True)
def _():
    predict(
        "l05.worth",
        "The author measured this on four GPUs, in five paired trials. At four requests per second and without preemption, 38.0 % of the urgent requests were in time. **How many with preemption?**",
        (
            "About 75 %: the urgent requests go first now",
            "About 50 %: many are doomed when they arrive",
            "About 38 %: nothing changes",
            "About 10 %: the aborted work has to be computed again",
        ),
        2,
        "**37.1 %.** The difference is noise, and it is at most 2.8 points at each of the five loads. The author published this null result with its data (branch `dev-treatment` of the fork).",
    )
    return


@app.cell(hide_code=True)
def _(
    AS_PUBLISHED,
    score_attempt,
    slack_attempt,
    two_tier_load,
    under_load,
    victim_attempt,
):
    after(
        "l05.worth",
        mo.md(
            "Our modelled engine gives the same result:\n\n"
            + under_load(
                two_tier_load(seed=0, requests_per_s=4, duration_s=30),
                {
                    "slack": slack_attempt,
                    "edf_score": score_attempt,
                    "select_victim": victim_attempt,
                },
                AS_PUBLISHED,
            )
        ),
    )
    return


@app.cell(hide_code=True)
def _():
    after(
        "l05.worth",
        mo.md(r"""
    ## What you now know

    - A long prefill *should* give way when another request would otherwise miss its deadline. Here the report
      pays 112 ms for it.
    - Slack is the time to the deadline minus the predicted time of the *remaining* work. Below zero, the
      request is doomed.
    - The score is EDF with doomed requests last. It does not see whether two requests fit together.
    - `select_victim` compares signs before scores, because a margin on negative scores lowers the bar. Rule 1
      keeps a stream of urgent requests from starving a long one.
    - Under load the same policy changed nothing.
    """),
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
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
