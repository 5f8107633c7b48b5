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

    *55 minutes. Builds on lesson 2: queues, preemption, starvation. You write three functions. A good
    place to stop is before "Break it".*

    Afterwards you can say how much time a request has to spare, rank requests by their deadlines, choose
    the running prefill that is preempted, and recognise two ways in which such a choice fails.

    ## Should a long prefill give way to an urgent one?

    An engine is prefilling a report of 4,000 tokens. After 50 ms another request arrives: 200 tokens from
    a voice assistant, whose first token was promised within 100 ms. Such a promise is a *service-level
    objective*, SLO for short. The share of requests whose promise is kept is the *SLO attainment*. It is
    the measure of this lesson.

    The engine computes only prefills; another machine runs the decodes. This split is called
    *prefill/decode disaggregation*. The post behind this lesson works in the same way, on a
    [fork of vLLM](https://github.com/adiu19/vllm) that preempts. One *pass* is one forward over one or
    several whole prompts. To keep the numbers round, a pass takes 10 ms of overhead plus 0.1 ms of
    arithmetic per token. (This is lesson 1's `max(weight read, arithmetic) + overhead`: the prompts are
    long enough for the arithmetic to be the larger of the two.) The model has 10 layers. All times are
    modelled.
    """)
    return


@app.cell(hide_code=True)
def _():
    from course.lesson_data.l05_policy import (
        REPORT_AND_VOICE,
        fitted,
        passes,
        simulated,
        slack_case,
        ttft_ms,
        your_slack,
    )
    from course.lesson_data.l05_victims import (
        AS_PUBLISHED,
        starving,
        under_load,
        victim_decisions,
        victims_by,
    )
    from nanogpt.slo import policy
    from nanogpt.slo.load import two_tier_load
    from nanogpt.slo.prefill_simulation import simulate
    from nanogpt.slo.variants import (
        BATCHED,
        BATCHED_WITHOUT_RULE_1,
        ROUND_COST,
        UNPREEMPTED,
        doomed_pair,
    )
    from widgets import GatePicture, SlackTimeline

    return (
        AS_PUBLISHED,
        BATCHED,
        BATCHED_WITHOUT_RULE_1,
        GatePicture,
        REPORT_AND_VOICE,
        ROUND_COST,
        SlackTimeline,
        UNPREEMPTED,
        doomed_pair,
        fitted,
        passes,
        policy,
        simulate,
        simulated,
        slack_case,
        starving,
        ttft_ms,
        two_tier_load,
        under_load,
        victim_decisions,
        victims_by,
        your_slack,
    )


@app.cell(hide_code=True)
def _(REPORT_AND_VOICE, ROUND_COST, UNPREEMPTED, passes, simulate):
    left_alone = simulate(REPORT_AND_VOICE, UNPREEMPTED, ROUND_COST)
    mo.md(passes(left_alone))
    return (left_alone,)


@app.cell(hide_code=True)
def _(BATCHED, REPORT_AND_VOICE, ROUND_COST, left_alone, simulate, ttft_ms):
    _stopped = simulate(REPORT_AND_VOICE, BATCHED, ROUND_COST)
    _report, _later = ttft_ms(left_alone, 0), ttft_ms(_stopped, 0)
    predict(
        "l05.price",
        f"The voice request gets its first token {ttft_ms(left_alone, 1):g} ms after its arrival. Suppose that the report's pass can be aborted at the "
        "next layer and computed again later. How much later does the report get its first token?",
        (
            "30 ms: the pass of the voice request",
            "About 110 ms: those 30 ms, and the work that is thrown away",
            "About 400 ms: the report is computed twice",
        ),
        1,
        f"The report's TTFT rises from {_report:g} to {_later:g} ms, by **{_later - _report:g} ms**: "
        f"{_stopped.passes[0].duration_us / 1000:g} ms of work are thrown away (the pass is aborted at layer {_stopped.decisions[0].layer}), and the report waits "
        f"{_stopped.passes[1].duration_us / 1000:g} ms. The voice request's TTFT falls from {ttft_ms(left_alone, 1):g} to {ttft_ms(_stopped, 1):g} ms. "
        "Both deadlines are met. The price depends on the moment: at the ninth layer nearly the whole pass would be lost.",
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    *How* several GPUs leave a running pass at the same layer is lesson 6. This lesson decides *when* they
    should. That needs three numbers: how long a prefill will take, how much time the request has to
    spare, and how urgent that makes it.

    ## How long will a prefill take?

    The scheduler has to know before the pass runs. Engines measure a few prompt lengths once and fit a
    line to them, with a and c chosen for the least squared error:

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

    _chart, fit_words = fitted()
    Figure(_chart, "Where does a straight line leave the points?")
    return (fit_words,)


@app.cell(hide_code=True)
def _(fit_words):
    mo.md(
        fit_words
        + " No pass costs less than nothing, so a fixed cost below zero says that the points bend: in this small model attention, which grows with the square of the prompt, "
        "is a large part of the work. The paper behind the post fits a cubic for that reason.\n\n"
        "The post's author measured the TTFT of a 70-billion-parameter model on four A100, for six prompts of 242 to 7,986 tokens, and a line fits it well (R² = 0.9996): "
        "**0.173 ms per token, and 34 ms**. This is a fit of TTFT over prompt length, for one model on one machine. Its 34 ms contain all that does not grow with the prompt: "
        "the overhead of the pass, and that of the request (scheduling, messages between processes, sampling). The weight read does not show in it: reading 140 GB at 8 TB/s takes 17 ms, "
        "as long as the arithmetic of 100 tokens, and the prompts are longer. Fit again for another model, machine or range of lengths: `python -m nanogpt.slo fit_ttft sweep.csv`."
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ### Why not chunks, as in lesson 1?

    An urgent request can run between two chunks, without any preemption. What does that cost a prompt of
    4,000 tokens, on the post's line? The fit does not say how much of the 34 ms each chunk pays again. At
    the least it is nothing: the chunks below have more than 100 tokens, so the weight read hides behind
    their arithmetic. At the most it is all of it.

    | 4,000 tokens in | prefill, at least | prefill, at most | longest wait for a gap, at most |
    |:--|--:|--:|--:|
    | one pass | 726 ms | 726 ms | 726 ms |
    | chunks of 512 | 726 ms | 965 ms, ×1.33 | 123 ms |
    | chunks of 128 | 726 ms | 1,784 ms, ×2.46 | 56 ms |
    | one pass that can be left between two of 80 layers | 726 ms | 726 ms | 9 ms |

    Chunks of 512 are often enough. Preemption is for promises that a chunk would break. While no urgent
    request arrives it costs only a check at each layer (lesson 6).
    """)
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## How much time is there to spare?

    Two requests of 500 tokens wait. The bar is their predicted prefill of 60 ms, and it begins *now*.
    Press the arrow: as time passes, the bar moves to the right and the deadline does not.
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
    shrinks by 1 ms per ms. A request with a slack below zero is *doomed*: it misses its deadline even if
    it runs at once.

    The post defines slack as the time to the deadline minus the predicted TTFT. That is enough for a
    waiting request. The policy also has to judge the *running* request, to decide whether to preempt it.
    Which part of its work does a running request still have to pay for?
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
        title="Promised within 80 ms, by your slack (modelled)",
        question="Which request's slack shrinks, and which one's stays the same?",
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    The slack of a running request stays the same: each ms that passes is a ms of work done. (A pass
    computes all its tokens layer by layer, so its progress is counted as 1 token per 0.1 ms.)

    ## Which request goes first?

    One number ranks all requests. The post uses **the sign of the slack, divided by the time to the
    deadline**. The sign says whether the deadline can still be met, and the time says how soon it comes.
    """)
    return


@app.cell(hide_code=True)
def _(policy):
    predict(
        "l05.slack_or_deadline",
        "A has its deadline in 400 ms and **1 ms** of slack. B has its deadline in 399 ms and **390 ms** of slack. Which ranks first?",
        ("A: it has no time to lose", "B: its deadline is nearer", "Neither: the scores are equal"),
        1,
        f"**B**, {policy.edf_score(390_000, 399_000):.6f} against {policy.edf_score(1_000, 400_000):.6f}: the score uses the sign of the slack and not its size. This is earliest deadline first (EDF), with the doomed requests last. Is it wrong? "
        "A needs 399 ms of computing and B needs 9. Together that is 408 ms, and there are 400, so one of them is late in either order. B first "
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
    Among the doomed requests the order is odd: one that is 200 ms overdue ranks above one that has just
    missed its deadline. This does no harm, since all of them rank below every request that can be saved.
    (The paper divides by the **absolute deadline**, counted from the start of the engine. After an hour
    two deadlines 20 ms apart have the same score to five digits, and a margin between scores means
    nothing.)
    """),
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## Which running request is preempted?

    One request waits, the **candidate**. Others run, perhaps several in one pass. Every few milliseconds
    a monitor asks whether to preempt one of them. A preemption throws work away, so a slightly higher
    score is not enough: the candidate has to be **1.2 times** as urgent as one running request, the
    **incumbent**. Which running request is the incumbent?

    - **Conservative**, the post's default: the *most* urgent one. All requests of a pass are preempted
      together, so none of them may be more urgent than the candidate.
    - **Aggressive**: the *least* urgent one.

    In both modes the victim is the least urgent running request. The signs decide before any score is
    compared:

    | signs | the incumbent can meet its deadline | the incumbent is doomed |
    |:--|:--|:--|
    | **the candidate can meet its deadline** | preempt if 1.2 times as urgent | preempt: the incumbent is late anyway |
    | **the candidate is doomed** | no preemption | no preemption |

    Two rules protect the running requests. **Rule 1**: a request that was preempted once is immune. **Rule
    2**: a pass that is past 90 % of its layers runs to its end. The workers see to Rule 2, and your
    function to Rule 1.
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
    _whose = "your function" if victim_attempt.started else "the reference: yours is not written yet"
    mo.md("The answers of `select_victim` cannot be drawn; the check says more.") if _decisions is None else GatePicture(
        _decisions,
        title=f"Eight moments, by {_whose}",
        question="Is the candidate urgent enough, and do the signs allow a preemption?",
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## Break it

    Two defects of the choice, on the engine with round numbers: 10 ms per pass, 0.1 ms per token, 10
    layers. A bar shows how many layers of a pass were computed.

    ### Exhibit A: why does neither request get done?

    Two requests arrive together. Both are doomed: 110 ms of work each, 50 ms of time. The next request
    arrives ten seconds later. Rule 1 is switched off for now. The policy calls `exhibit_a` to ask whether
    the candidate outranks the incumbent, and `exhibit_a` returns `candidate > margin * incumbent`.
    <span data-yours="exhibit"></span>
    """)
    return


@app.function
def exhibit_a(candidate: float, incumbent: float, margin: float) -> bool:
    """Whether the candidate, by its score, may take the incumbent's place."""
    return candidate > margin * incumbent


@app.cell(hide_code=True)
def _(BATCHED_WITHOUT_RULE_1, doomed_pair, passes, simulated, victims_by):
    loop = simulated(
        doomed_pair(), BATCHED_WITHOUT_RULE_1, most=2000, select_victim=victims_by(piece(lambda: exhibit_a))
    )
    mo.md(passes(loop, 4))
    return


@app.cell(hide_code=True)
def _():
    predict(
        "l05.after_you",
        "Hundreds of passes, each of them aborted after one layer. **What is broken?**",
        (
            "The interval of 5 ms: the monitor should look less often",
            "The order of the running requests: the wrong one is preempted",
            "The margin lowers the bar instead of raising it",
            "The waiting queue: preempted requests belong at its end",
        ),
        2,
        "The scores are negative and nearly equal, and each beats the other's score times 1.2: -0.011 is less urgent than -0.010, but it is above -0.010 × 1.2 = -0.012. So each of the two requests may preempt the other. The signs have to be compared first. "
        "The post's author met this livelock: **21,360 wasted steps at zero tokens per second**. Rule 1 stops it after one round, but does not remove the cause.",
    )
    return


@app.cell(hide_code=True)
def _(victims_by):
    after("l05.after_you", exhibit("A", "l05.select_victim", lambda: victims_by(exhibit_a)))
    return


@app.cell(hide_code=True)
def _(passes, starving):
    starved, served = starving()
    mo.md(
        "### Exhibit B: why does the report never finish?\n\n"
        "A long prompt needs 410 ms and has five seconds. An urgent short request arrives every 300 ms. In this run every single preemption is justified:\n\n"
        + passes(starved, 6)
    )
    return served, starved


@app.cell(hide_code=True)
def _(served, starved, ttft_ms):
    def _facts(run):
        preempted = f"{run.num_preemptions} preemption{'s' * (run.num_preemptions != 1)}"
        late = sum(not each.attained for each in run.results[1:])
        return f"{preempted}, {run.wasted_share:.0%} of the computing thrown away, the report's first token after {ttft_ms(run, 0) / 1000:.2f} s, urgent requests late: {late}"

    predict(
        "l05.never_read",
        "The margin is there, and the four cases of signs are right. The report finishes only once the urgent requests stop coming. **What is missing?**",
        (
            "Rule 1: a request that was preempted once is immune",
            "Rule 2: a pass past 90 % of its layers finishes",
            "The aggressive mode",
            "A margin of more than 1.2",
        ),
        0,
        f"This run: {_facts(starved)}. With Rule 1: {_facts(served)}. It is lesson 2b's starvation by strict priority. "
        "(Rule 2 saves a pass only near its end, one running request is the incumbent in either mode, and a margin of 10 gives as many preemptions.) "
        "Rule 1 is insurance against such a stream. Lesson 5b measures what it costs on an average day.",
    )
    return


@app.cell(hide_code=True)
def _():
    after(
        "l05.never_read",
        mo.md(r"""
    ### The exhibits in production

    - [vLLM #25538](https://github.com/vllm-project/vllm/issues/25538): a long request was resumed, and
      preempted again in the next step.
    - [vLLM #56843](https://github.com/vllm-project/vllm/pull/56843): a request that had just been resumed
      could be the next victim. The proposal, closed without a merge, counts `num_preemptions` as Rule 1
      does, with a bound, so that new requests do not starve in turn.
    - [vLLM #54644](https://github.com/vllm-project/vllm/issues/54644), an open proposal: the victim should
      be the request with the fewest computed tokens. vLLM's scheduler preempts when the KV cache is full
      (lesson 2) and never because a deadline is near.
    """),
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## Does the policy help under load?

    Requests arrive at random, four per second for half a minute. The modelled engine has the post's line
    (34 ms per pass, 0.173 ms per token, 80 layers). Prompts have 675 tokens on average. One request in
    five is **urgent**: it was promised its first token within 1 to 1.3 times its own prefill time. The
    others are **generous**, with 3 to 10 times.

    The engine works as the post's author built it into vLLM. Your `edf_score` orders the queue, and the
    waiting requests share one pass, up to 9,000 tokens. While the pass runs, a monitor looks at the
    waiting requests every 5 ms, and your `slack` and `select_victim` decide whether the pass is aborted.
    """)
    return


@app.cell(hide_code=True)
def _():
    predict(
        "l05.worth",
        "The author measured this on four GPUs, in five paired trials. At four requests per second 38.0 % of the urgent requests were in time without preemption. **How many with it?**",
        (
            "About 75 %: the urgent requests go first now",
            "About 50 %: many are doomed when they arrive",
            "About 38 %: nothing changes",
            "About 10 %: the aborted work is missing",
        ),
        2,
        "**37.1 %.** The difference is noise, and it is at most 2.8 points at any of five loads. The author published this null result together with its data (branch `dev-treatment` of the fork).",
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
            "Our modelled engine does the same:\n\n"
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
    ## What you know now

    - The slack of a request is the time to its deadline minus the predicted time of its *remaining* work.
      Below zero it is doomed.
    - The score is EDF with the doomed requests last. It does not see whether two requests fit together.
    - `select_victim` compares signs before scores, since a margin on negative scores lowers the bar. Rule 1
      keeps a stream of urgent requests from starving a long one.
    - So a long prefill *should* give way: for 112 ms of the report's time, the voice request keeps its
      promise. The policy is right, it ran under load, and it changed nothing.

    [Lesson 5b](/?file=l05b_repair_ladder.py) finds out why.
    """),
    )
    return


if __name__ == "__main__":
    app.run()
