import marimo

__generated_with = "0.25.2"
app = marimo.App(width="medium", app_title="5 · SLO policy")

with app.setup(hide_code=True):
    import marimo as mo

    from course.attempt import attempt, exhibit, piece
    from course.controls import beside, chooser
    from course.lazy import slo
    from course.prediction import after, hints, predict
    from course.task import task


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    # 5 · SLO policy

    *75 minutes. Builds on lesson 2: queues, preemption, starvation. You write five functions. A
    good place to stop is before "Your policy, under load".*

    Afterwards you can say how much time a request has to spare, rank requests by it, decide when a
    running prefill should give way and what may run beside an urgent one, and tell from a table
    whether all of that was worth it.

    ## Which gives way, and is it worth it?

    A report of 4,000 tokens is being prefilled when another request comes in: 200 tokens, a voice
    assistant that was promised its first token within 100 ms. Such a promise is a *service-level
    objective*, SLO for short. The share of requests that got theirs is the *SLO attainment*, and that
    is the measure of this lesson.

    The machine does nothing but prefill (decodes run elsewhere), as in *the post* that the lesson grew
    from, on a [fork of vLLM](https://github.com/adiu19/vllm) that preempts. One *pass* is one forward
    over one or several whole prompts. To keep numbers round, a pass takes 10 ms plus 0.1 ms per token,
    and the model has 10 layers. All times are modelled.
    """)
    return


@app.cell(hide_code=True)
def _():
    from course.lesson_data.l05_ladder import (
        Ladder,
        starving,
        under_load,
        victim_decisions,
        victims_by,
    )
    from course.lesson_data.l05_policy import (
        REPORT_AND_VOICE,
        fitted,
        passes,
        simulated,
        slack_case,
        ttft_ms,
        your_slack,
    )
    from nanogpt.slo import policy
    from nanogpt.slo.load import two_tier_load
    from nanogpt.slo.prefill_simulation import simulate
    from nanogpt.slo.variants import (
        BATCHED,
        BATCHED_WITHOUT_RULE_1,
        FORK,
        ROUND_COST,
        SEEN,
        UNPREEMPTED,
        doomed_pair,
    )
    from widgets import GatePicture, RepairLadder, SlackTimeline

    ladder = Ladder()
    return (
        BATCHED,
        BATCHED_WITHOUT_RULE_1,
        FORK,
        GatePicture,
        REPORT_AND_VOICE,
        ROUND_COST,
        RepairLadder,
        SEEN,
        SlackTimeline,
        UNPREEMPTED,
        doomed_pair,
        fitted,
        ladder,
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
        f"The voice request gets its first token {ttft_ms(left_alone, 1):g} ms after it came. Suppose that the report's pass can be left at the "
        "next layer, thrown away, and started again later. What does that cost the report's TTFT?",
        (
            "30 ms: what the voice request computes",
            "About 110 ms: those 30 ms, and all that had been computed",
            "About 400 ms: it starts again from nothing, so its time doubles",
        ),
        1,
        f"The report's TTFT goes from {_report:g} to {_later:g} ms: **{_later - _report:g} ms** more, "
        f"{_stopped.passes[0].duration_us / 1000:g} ms of work thrown away (it was left at layer {_stopped.decisions[0].layer}) and "
        f"{_stopped.passes[1].duration_us / 1000:g} ms of waiting. The voice request's goes from {ttft_ms(left_alone, 1):g} to {ttft_ms(_stopped, 1):g} ms. "
        "Both deadlines are met. Had the report been at its ninth layer, the bill would be another one.",
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    **Why not cut the report into chunks, as in lesson 1?** Every chunk pays the fixed cost of a pass,
    urgent arrival or not. With the line that the post's author measured (a 70-billion-parameter model
    on four A100: 0.173 ms per token, 34 ms per pass; modelled here):

    | 4,000 tokens in chunks of | the whole prefill | longest wait for a gap |
    |:--|--:|--:|
    | 4,000 | 726 ms, ×1.00 | 726 ms |
    | 512 | 965 ms, ×1.33 | 123 ms |
    | 128 | 1,784 ms, ×2.46 | 56 ms |
    | one piece, left between two of 80 layers | 726 ms, ×1.00 | 9 ms |

    So this lesson's machine runs prompts whole, with a way out at every layer. *How* one leaves a
    running pass is lesson 6. *When* is this one.
    """)
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## How much time is there to spare?

    Two requests of 500 tokens, both waiting. Their prefill is predicted to take 60 ms; that is the bar,
    and it begins *now*. Press the arrow: time passes, the bar moves with it, the deadline does not.
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
    What is left between the end of the bar and the deadline is the **slack**. While a request waits,
    its slack melts by 1 ms per ms. Below zero it is *doomed*: it misses its deadline even if it runs at
    once.

    ## Build it

    Five small functions. Four of them go into the simulated machine further down.

    ### How long does a prefill take?

    A scheduler has to know that before it happens. The usual way: measure a few prompt lengths once
    and fit a line.
    """)
    return


@app.cell(hide_code=True)
def _():
    task("l05.fit_ttft")
    return


@app.function
def fit_ttft(points: list[tuple[int, float]]) -> tuple[float, float]:
    """Return `(a, c)`: a prefill of n tokens is predicted to take a * n + c microseconds."""
    raise NotImplementedError("Exercise 5.1: the line of least squared error")


@app.cell(hide_code=True)
def _():
    fit_attempt = attempt("l05.fit_ttft", lambda: fit_ttft)
    fit_attempt
    return (fit_attempt,)


@app.cell(hide_code=True)
def _():
    hints("l05.fit_ttft")
    return


@app.cell(hide_code=True)
def _(fit_attempt, fitted):
    from course.figure import Figure

    _chart, fit_words = fitted(fit_attempt)
    Figure(_chart, "Where does a straight line leave the points?")
    return Figure, fit_words


@app.cell(hide_code=True)
def _(fit_words):
    mo.md(
        fit_words
        + " A fixed cost below zero is a warning: the points bend. In this small model attention, which grows with the square of the prompt, is a good part of the work. "
        "(`lessons/data/step_costs.json`; the paper behind the post fits a cubic for that reason.) The post's author measured six lengths from 242 to 7,986 tokens of a "
        "70-billion-parameter model and got **R² = 0.9996 with a line**: there the large matrices cost so much that attention's square hardly shows.\n\n"
        "*A line* is thus a fact about one model on one machine and one range of lengths. Refit when one of them changes: `python -m nanogpt.slo fit_ttft sweep.csv`."
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ### Time to spare

    The post defines slack as the time left minus the predicted TTFT. Simple, as long as the request
    waits. But the policy also has to judge the one that *runs*: it must decide whether to stop it. What
    does a running request still have to pay for?
    """)
    return


@app.cell(hide_code=True)
def _():
    task("l05.slack")
    return


@app.function
def slack(now: int, deadline: int, total: int, done: int, a: float, c: float) -> float:
    """Return how much time a request has to spare before its deadline, in microseconds."""
    raise NotImplementedError("Exercise 5.2: the time to spare, in microseconds")


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
        question="Whose slack melts, and whose stays where it is?",
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    The slack of a running request should stay where it is: every ms that passes is a ms of work done. (A pass computes
    all its tokens layer by layer; of its computing time, every 0.1 ms counts as one token here.)

    ### Which goes first?

    One number to rank them all. The post's: **the sign of the slack, divided by the time to the
    deadline**. The sign says whether there is hope. The time says how soon it is over.
    """)
    return


@app.cell(hide_code=True)
def _(policy):
    predict(
        "l05.slack_or_deadline",
        "A has its deadline in 400 ms and **1 ms** of slack. B has its deadline in 399 ms and **390 ms** of slack. Which ranks first?",
        ("A: it has no time to lose", "B: its deadline is nearer", "Neither: the scores are equal"),
        1,
        f"**B**, {policy.edf_score(390_000, 399_000):.6f} against {policy.edf_score(1_000, 400_000):.6f}: only the sign of the slack counts, not its size. This is earliest deadline first with the doomed sorted out. Is it wrong? "
        "A needs 399 ms of computing and B 9. Together that is 408 ms, and there are 400: one of them is lost whatever the order, and B first "
        "loses A. A rule by slack alone would have lost B. Neither sees that the two do not fit together.",
    )
    return


@app.cell(hide_code=True)
def _():
    task("l05.edf_score")
    return


@app.function
def edf_score(slack: float, time_to_deadline: int) -> float:
    """Return the score of a request, from -1 to 1: the higher goes first."""
    raise NotImplementedError("Exercise 5.3: a score from -1 to 1, the higher the sooner")


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
    Among the doomed the order is odd: one that is 200 ms overdue ranks above one that has just missed. It
    does no harm, for they all sort below every request that can be saved. But under load the doomed wait
    longest. (The paper divides by the **absolute deadline**, counted from the start of the engine. After
    an hour, two deadlines 20 ms apart have the same score to five digits, and no margin between scores
    means anything.)
    """),
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ### Which running request is preempted?

    One request waits, the **candidate**; others run, perhaps several in one pass. Every few milliseconds
    a monitor asks whether to preempt one of them. A preemption throws work away, so being a little more
    urgent is not enough: the candidate has to be **1.2 times** as urgent as one running request, the
    **incumbent**. Which one is that?

    - **Conservative**, the post's default: the *most* urgent running request. The others in its pass are
      preempted with it, so none of them may be more urgent than the candidate.
    - **Aggressive**: the *least* urgent one.

    In both modes the victim is the least urgent running request. Before any score is compared, the signs
    decide:

    | signs | the incumbent can meet its deadline | the incumbent is doomed |
    |:--|:--|:--|
    | **the candidate can meet its deadline** | preempt if 1.2 times as urgent | preempt: its place does it no good |
    | **the candidate is doomed** | never: it cannot be saved | never: neither is saved |

    One more, **Rule 1**: a request that was preempted once is immune. You will see under *Break it* why.
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
    raise NotImplementedError("Exercise 5.4: which running request is preempted, if any?")


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
    mo.md("What `select_victim` answers cannot be drawn; the check says more.") if _decisions is None else GatePicture(
        _decisions,
        title=f"Eight moments, by {_whose}",
        question="Does the waiting request clear the bar, and do the signs let it try?",
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    The workers of the machine have a veto, **Rule 2**: a pass that has more than 90 % of its layers
    behind it lets itself finish.

    ### Which come along?

    The place is free, the urgent request is at the head of the queue. Others wait, too. The fixed cost
    of a pass is paid once for all in it, so an engine likes to fill it up. But all of them get done
    when the pass ends:

    | in the pass | the head gets its first token after | of its 100 ms |
    |:--|--:|:--|
    | 200 tokens | 30 ms | in time |
    | 200 tokens + 300 | 60 ms | in time |
    | 200 tokens + 300 + 300 | 90 ms | in time |
    | 200 tokens + 300 + 300 + 300 | 120 ms | **missed** |
    | 200 tokens + 4,000 | 430 ms | **missed** |

    So: one after the other comes along, as long as the head can bear it. `slack_reserve` keeps a tenth
    of the head's SLO in reserve, since predictions err; `max_batch_tokens` keeps passes short enough
    for the next arrival.
    """)
    return


@app.cell(hide_code=True)
def _():
    task("l05.slo_batch")
    return


@app.function
def slo_batch(
    head: slo.SloView,
    waiters: list[slo.SloView],
    a: float,
    c: float,
    max_batch_tokens: int,
    slack_reserve: float,
) -> list[int]:
    """Return the ids of those that share the next pass, `head` first: none that endangers it."""
    raise NotImplementedError("Exercise 5.5: which share the pass with the head?")


@app.cell(hide_code=True)
def _():
    batch_attempt = attempt("l05.slo_batch", lambda: slo_batch)
    batch_attempt
    return (batch_attempt,)


@app.cell(hide_code=True)
def _():
    hints("l05.slo_batch")
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## Your policy, under load

    Requests now arrive at random, four per second for half a minute, to a modelled machine with the cost
    line of the post (80 layers, 0.173 ms per token, 34 ms per pass). One in five is **urgent**: it was
    promised its first token within 1 to 1.3 times the time of its own prefill, so it can hardly wait at
    all. The others are **generous**, 3 to 10 times. Prompts have 675 tokens on average. Two ways out of a
    pass: *abort*, where everything is computed again, and *suspend*, where it goes on later from the layer
    it was left at. (A pass sleeps at most three times its own length; with that bound suspension needs no
    Rule 1.) The real engine of lesson 6 asks the very same functions.
    """)
    return


@app.cell(hide_code=True)
def _(
    batch_attempt,
    score_attempt,
    slack_attempt,
    two_tier_load,
    under_load,
    victim_attempt,
):
    mo.md(
        under_load(
            two_tier_load(seed=0, requests_per_s=4, duration_s=30),
            {
                "slack": slack_attempt,
                "edf_score": score_attempt,
                "select_victim": victim_attempt,
                "slo_batch": batch_attempt,
            },
        )
    )
    return


@app.cell(hide_code=True)
def _(Figure, batch_attempt, score_attempt, slack_attempt, victim_attempt):
    from course.lesson_data.l05_curves import RUNGS, rung_by_load, your_policy_by_load

    Figure(
        your_policy_by_load(
            {
                "slack": slack_attempt,
                "edf_score": score_attempt,
                "select_victim": victim_attempt,
                "slo_batch": batch_attempt,
            }
        ),
        "At which loads is giving way worth it, and for which requests?",
    )
    return RUNGS, rung_by_load


@app.cell(hide_code=True)
def _(ladder):
    mo.md(
        "Half a minute and one seed: that is a demonstration. For a verdict one wants more seeds, several loads, and the *same* arrivals for every variant.\n\n"
        "## The repair ladder\n\n"
        "The post's author built preemption into vLLM, ran five paired trials per load, and published the result: **nothing**. At four requests per second 38.0 % of the "
        "urgent requests were in time without it and 37.1 % with it (branch `dev-treatment` of the fork). Our modelled machine does the same:\n\n"
        "| 4 requests per second, modelled | urgent in time | generous in time | preemptions per run |\n|:--|--:|--:|--:|\n"
        + "\n".join(
            f"| {words} | {ladder.percent(name, 'urgent')} | {ladder.percent(name, 'generous')} | {ladder.cell(name)['num_preemptions']:.0f} |"
            for name, words in (("control", "without preemption"), ("fork", "with preemption, as published"))
        )
        + f"\n\n{ladder.seconds} s of arrivals, {ladder.cell('fork')['num_trials']} paired seeds (`python -m nanogpt.slo --json`)."
    )
    return


@app.cell(hide_code=True)
def _():
    predict(
        "l05.null",
        "No preemption in two minutes, at any of five seeds. The choice of the victim is right, the rules are right, the monitor looks every 5 ms. **Why does it never fire?**",
        (
            "The margin of 1.2 is too high",
            "Urgent requests are doomed before the monitor looks",
            "What it looks for is not in the list that it reads",
            "All that run are immune",
        ),
        2,
        "The engine takes arrivals from its inbox between steps, and it hands the monitor a snapshot at the end of scheduling. The request that comes in mid-pass, the very one that "
        "the monitor exists for, is in neither. What is in the snapshot waited when the pass began, and nearly all of it was batched along.",
    )
    return


@app.cell(hide_code=True)
def _(FORK, REPORT_AND_VOICE, ROUND_COST, SEEN, simulate):
    _blind, _seeing = (
        len(simulate(REPORT_AND_VOICE, variant, ROUND_COST).decisions) for variant in (FORK, SEEN)
    )
    after(
        "l05.null",
        mo.md(
            f"On the report and the voice request from the top of this page: {_blind} decisions with the snapshot, {_seeing} when arrivals are seen at once. (In the fork: `input_queue` is read only "
            "between steps in `engine/core.py`, and the snapshot is published at the end of `schedule`.)"
        ),
    )
    return


@app.cell(hide_code=True)
def _(ladder):
    predict(
        "l05.visible",
        f"So repair that, and the monitor fires. Without preemption {ladder.percent('control', 'urgent')} of the urgent and {ladder.percent('control', 'generous')} of the "
        "generous requests were in time at 4 requests per second. **And now?**",
        (
            "Urgent about 75 %, generous as before",
            "Urgent about 75 %, generous clearly worse",
            "Both as before",
            "Both near zero",
        ),
        3,
        f"**Urgent {ladder.percent('seen', 'urgent')}, generous {ladder.percent('seen', 'generous')}** (modelled). {ladder.cell('seen')['num_preemptions']:.0f} preemptions in a run, and "
        f"{ladder.cell('seen')['wasted_percent']:.0f} % of all computing is thrown away. The bug that hid the others is gone.",
    )
    return


@app.cell(hide_code=True)
def _(RepairLadder, ladder):
    after(
        "l05.visible",
        RepairLadder(
            ladder.rows(),
            title="The repair ladder, modelled: means of five paired seeds and their 95 % intervals",
            load="4",
            question="Which repair turns the ladder?",
        ),
    )
    return


@app.cell(hide_code=True)
def _(RUNGS):
    rung = chooser("Against the first rung", RUNGS, RUNGS[2])
    rung
    return (rung,)


@app.cell(hide_code=True)
def _(rung, rung_by_load):
    beside(rung, lambda title: after("l05.visible", rung_by_load(title)))
    return


@app.cell(hide_code=True)
def _(REPORT_AND_VOICE, ROUND_COST, SEEN, passes, simulate):
    after(
        "l05.visible",
        mo.md(
            "Why was seeing alone a disaster? The report and the voice request again, with arrivals seen, and the old habit of filling every pass:\n\n"
            + passes(simulate(REPORT_AND_VOICE, SEEN, ROUND_COST))
            + "\n\nThe report is thrown out, and then let in again *together with* the request that it was thrown out for. All of the price, none of the gain. "
            "`slo_batch` turns the ladder, though it has nothing to do with preempting: a place won by force has to be kept free. "
            "Of the three repairs, all of them right, each alone does nothing, hardly anything, or ruins everything. "
            "A team that measures after each of them, and keeps what helps, keeps none of what matters."
        ),
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## Break it

    Two defects of the choice, on the machine with round numbers: 10 ms per pass, 0.1 ms per token, 10
    layers; a bar says how far a pass came.

    ### Exhibit A: after you, no, after you

    Two requests arrive together. Neither of them can make it any more: 110 ms of work each, 50 ms of
    time. The next one comes ten seconds later. Rule 1 is switched off for now. The policy asks
    `exhibit_a` whether the candidate outranks the incumbent, and that answers
    `candidate > margin * incumbent`.
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
        "Hundreds of passes, each of them thrown away after a layer. **What is broken?**",
        (
            "The poll of 5 ms is too short: the monitor should look less often",
            "The order of the running requests: the wrong one is preempted",
            "The margin lowers the bar instead of raising it",
            "The waiting queue: preempted requests belong at its end",
        ),
        2,
        "The scores are negative and nearly the same, and each 'beats' the other's times 1.2: a score of -0.011, less urgent than -0.010, is above -0.010 × 1.2 = -0.012. Each of the two finds the other one preemptible. The signs have to go first. "
        "The post's author met this loop: **21,360 wasted steps at zero tokens per second**. Rule 1 stops it after one round, and the cause stays.",
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
        "### Exhibit B: the report that is never read\n\n"
        "A long prompt of 410 ms, with five seconds of time. And every 300 ms an urgent short one. Another policy: every single preemption in this run is justified.\n\n"
        + passes(starved, 6)
    )
    return served, starved


@app.cell(hide_code=True)
def _(ladder, served, starved, ttft_ms):
    def _facts(run):
        preempted = f"{run.num_preemptions} preemption{'s' * (run.num_preemptions != 1)}"
        late = sum(not each.attained for each in run.results[1:])
        return f"{preempted}, {run.wasted_share:.0%} computed in vain, the report done after {ttft_ms(run, 0) / 1000:.2f} s, urgent requests late: {late}"

    _price = " and ".join(
        f"{ladder.percent(name, 'urgent')} {words}"
        for name, words in (("batched", "with it"), ("batched-no-rule-1", "without"))
    )
    predict(
        "l05.never_read",
        "The margin is there, the four cases are there. The report finishes once the urgent ones stop coming, and not before. **What is missing?**",
        (
            "Rule 1: what was preempted once is immune",
            "Rule 2: a pass past 90 % of its layers finishes",
            "The limit on the batch",
            "A margin of more than 1.2",
        ),
        0,
        f"This run: {_facts(starved)}. With the reference: {_facts(served)}. Lesson 2b had this, too: strict priority starves. "
        "(Rule 2 saves a pass only near its end, the token limit lets fewer come along, and at a margin of 10 there are as many preemptions.) "
        f"And what does Rule 1 cost? Under random load, at 4 requests per second, of the urgent are in time: {_price} (modelled). It is insurance against the unlucky case, and on an average day it costs.",
    )
    return


@app.cell(hide_code=True)
def _(ladder):
    def _both(name, rate):
        return f"{ladder.percent(name, 'urgent', rate)} of the urgent and {ladder.percent(name, 'generous', rate)} of the generous"

    after(
        "l05.visible",
        mo.md(
            "## Measure it, including where it loses\n\n"
            "The last rungs at all five loads, urgent and generous, and all requests together (a fifth of them urgent). Modelled; the same arrivals in every line of a column.\n\n"
            + ladder.table(("control", "unpreempted", "batched", "suspended"))
            + "\n\n**Where it loses.**\n\n"
            f"- **The generous pay at high load.** At 10 per second the batches alone serve {_both('unpreempted', 10)} in time, with suspension it is {_both('suspended', 10)}. "
            f"There are four generous requests for every urgent one: {ladder.of_all('unpreempted', 10):.0f} % of all are in time without preemption and {ladder.of_all('suspended', 10):.0f} % with it. "
            "Which is better is not a question of engineering but of what was promised.\n"
            f"- **At two requests per second** the machine is idle much of the time, and {ladder.percent('control', 'urgent', 2)} of the urgent are in time with no policy at all. (The published control has 48 % there: "
            "a real server has delays that this model leaves out.)\n"
            "- **A preemption costs nothing here** but the work thrown away, and **the predictor is perfect**: it is the machine. Lesson 6 measures real ones.\n\n"
            "A published null result, with its data, is worth more than a good-looking curve: this lesson could only be made because its author put the runs beside the code. "
            "What we add is a model: it shows what *could* be the reasons, and that they suffice."
        ),
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    <details>
    <summary>For readers of the post: the published runs</summary>
    <p>Five paired trials per load on four GPUs, in percent (<code>runs/first_real_run</code> in the
    fork's <code>dev-treatment</code>). For the urgent, what preemption changed is at most 2.8 points, of
    either sign.</p>
    <table>
    <thead><tr><th>requests per s</th><th>urgent / generous, without</th><th>with preemption</th></tr></thead>
    <tbody>
    <tr><td>2</td><td>48.1 / 99.2</td><td>50.9 / 99.2</td></tr>
    <tr><td>4</td><td>38.0 / 94.3</td><td>37.1 / 94.2</td></tr>
    <tr><td>6</td><td>18.3 / 79.2</td><td>17.4 / 78.9</td></tr>
    <tr><td>8</td><td>2.9 / 39.6</td><td>2.8 / 37.7</td></tr>
    <tr><td>10</td><td>0 / 0</td><td>0 / 6.0</td></tr>
    </tbody>
    </table>
    </details>

    ## How production engines do it

    - **FlowPrefill** (Hsieh et al., [arXiv 2602.16603](https://arxiv.org/abs/2602.16603), 2026) is the
      paper behind the post: a pass may be left between operators, and scheduling happens only at arrivals
      and completions. Its code has what the fork left out: slack of the remaining work, batches with a
      limit of 2,048 tokens and a reserve of a tenth, suspension.
    - **vLLM** has another FlowPrefill as an open proposal,
      [#44794](https://github.com/vllm-project/vllm/pull/44794). Its first form could suspend a prefill
      for ever: mean TTFT 450 ms without it, **969 ms with it**. A bound of 50 ms on sleep made it 412 ms.
    - **vLLM's own scheduler** preempts when KV runs short, not because a deadline is near (lesson 2). An
      open proposal, [#54644](https://github.com/vllm-project/vllm/issues/54644), wants to choose the
      victim with the least computed tokens.
    """)
    return


@app.cell(hide_code=True)
def _():
    after(
        "l05.never_read",
        mo.md(r"""
    And the exhibits are out there. [vLLM #25538](https://github.com/vllm-project/vllm/issues/25538): a
    long request resumed and preempted again in the next step.
    [#56843](https://github.com/vllm-project/vllm/pull/56843): what was just let back in could be chosen as
    the victim at once; the proposal, closed without a merge, counts `num_preemptions`, as Rule 1 does, but
    bounded, so that newcomers do not starve in turn.
    [#10101](https://github.com/vllm-project/vllm/issues/10101): urgent requests stopped preempting as soon
    as chunked prefill was switched on. Nothing crashed.
    """),
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## What comes next

    All of this decides *whether*. It says `preempt`, and the pass is left at the next layer as if by magic.
    In [lesson 6](/?file=l06_preempting_the_pass.py) the magic is yours: a forward running on several
    processes at once, which all have to leave at the same layer, or hang for ever.
    """)
    return


if __name__ == "__main__":
    app.run()
