import marimo

__generated_with = "0.25.2"
app = marimo.App(width="medium", app_title="5b · The repair ladder")

with app.setup(hide_code=True):
    import marimo as mo

    from course.attempt import attempt
    from course.controls import beside, chooser
    from course.lazy import slo
    from course.prediction import after, hints, predict
    from course.task import task


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    # 5b · The repair ladder

    *40 minutes. Builds on lesson 5: slack, scores, the choice of a victim. You write one function.*

    Afterwards you can say why a right policy changed nothing, what each repair of the engine around it
    does alone and together with the others, and at which loads preemption loses.

    ## Why did a right policy change nothing?

    In lesson 5 you wrote the policy that decides which prefill is preempted. The post's author built the
    same policy into vLLM and published the result of five paired trials: at four requests per second
    38.0 % of the urgent requests were in time without preemption, and 37.1 % with it.

    The modelled engine of this lesson has the post's line (34 ms per pass, 0.173 ms per token, 80 layers)
    and the post's two tiers. One request in five is **urgent**, with 1 to 1.3 times its own prefill time
    until the deadline. The others are **generous**, with 3 to 10 times.
    """)
    return


@app.cell(hide_code=True)
def _():
    from course.lesson_data.l05_policy import REPORT_AND_VOICE, passes
    from course.lesson_data.l05_victims import under_load
    from course.lesson_data.l05b_ladder import RUNGS, Ladder, rung_by_load
    from nanogpt.slo.load import two_tier_load
    from nanogpt.slo.prefill_simulation import simulate
    from nanogpt.slo.variants import BATCHED, FORK, ROUND_COST, SEEN, SUSPENDED, UNPREEMPTED
    from widgets import RepairLadder

    ladder = Ladder()
    return (
        BATCHED,
        FORK,
        REPORT_AND_VOICE,
        ROUND_COST,
        RUNGS,
        RepairLadder,
        SEEN,
        SUSPENDED,
        UNPREEMPTED,
        ladder,
        passes,
        rung_by_load,
        simulate,
        two_tier_load,
        under_load,
    )


@app.cell(hide_code=True)
def _(ladder):
    mo.md(
        "| 4 requests per second, modelled | urgent in time | generous in time | preemptions per run |\n|:--|--:|--:|--:|\n"
        + "\n".join(
            f"| {words} | {ladder.percent(name, 'urgent')} | {ladder.percent(name, 'generous')} | {ladder.cell(name)['num_preemptions']:.0f} |"
            for name, words in (("control", "without preemption"), ("fork", "with preemption, as published"))
        )
        + f"\n\nMeans of {ladder.cell('fork')['num_trials']} seeds with {ladder.seconds} s of arrivals each. The seeds are *paired*: every variant gets the same arrivals "
        "(`python -m nanogpt.slo --json`)."
    )
    return


@app.cell(hide_code=True)
def _():
    predict(
        "l05.null",
        "No preemption in two minutes, at any of five seeds. The choice of the victim is right, the two rules are right, and the monitor looks every 5 ms. **Why is no pass preempted?**",
        (
            "The margin of 1.2 is too high",
            "Urgent requests are doomed before the monitor looks",
            "The urgent requests are not in the list that the monitor reads",
            "All running requests are immune",
        ),
        2,
        "The engine takes arrivals from its inbox between two steps, and it publishes the monitor's snapshot at the end of scheduling. A request that arrives during a pass, the very one that "
        "the monitor exists for, is in neither. The requests in the snapshot were waiting when the pass began, and nearly all of them joined that pass.",
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
            f"For the report and the voice request of lesson 5 the monitor makes {_blind} decisions when it reads the snapshot, and {_seeing} when it sees arrivals at once. (In the fork, `engine/core.py` reads "
            "`input_queue` only between steps, and `schedule` publishes the snapshot at its end.)"
        ),
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## What does the first repair bring?

    So let the monitor read the inbox as well. It now sees each request when it arrives.
    """)
    return


@app.cell(hide_code=True)
def _(ladder):
    predict(
        "l05.visible",
        f"Without preemption {ladder.percent('control', 'urgent')} of the urgent and {ladder.percent('control', 'generous')} of the "
        "generous requests were in time at 4 requests per second. **How many with a monitor that sees arrivals?**",
        (
            "Urgent about 75 %, generous as before",
            "Urgent about 75 %, generous clearly worse",
            "Both as before",
            "Both near zero",
        ),
        3,
        f"**Urgent {ladder.percent('seen', 'urgent')}, generous {ladder.percent('seen', 'generous')}** (modelled). A run has {ladder.cell('seen')['num_preemptions']:.0f} preemptions, and "
        f"{ladder.cell('seen')['wasted_percent']:.0f} % of the computing time is thrown away. The first defect had hidden the others.",
    )
    return


@app.cell(hide_code=True)
def _(REPORT_AND_VOICE, ROUND_COST, SEEN, passes, simulate):
    after(
        "l05.visible",
        mo.md(
            "Here are the report (0) and the voice request (1) in that engine, with lesson 5's round numbers:\n\n"
            + passes(simulate(REPORT_AND_VOICE, SEEN, ROUND_COST))
            + "\n\nThe report is aborted for the voice request. Then the engine fills the next pass with all waiting requests, as it always did, and the report joins the *same pass*. "
            "The full price of the preemption is paid, and nobody gains. (In lesson 5 the voice request ran by itself.)"
        ),
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## Which requests may share the pass of an urgent one?

    The overhead of a pass is paid once for all its requests, so an engine likes to fill it. But all of
    them get their first token when the pass ends. With lesson 5's round numbers, for an urgent request of
    200 tokens at the head of the queue:

    | in the pass | the head gets its first token after | of its 100 ms |
    |:--|--:|:--|
    | 200 tokens | 30 ms | in time |
    | 200 tokens + 300 | 60 ms | in time |
    | 200 tokens + 300 + 300 + 300 | 120 ms | **missed** |
    | 200 tokens + 4,000 | 430 ms | **missed** |

    So waiting requests join one after the other, as long as the head still meets its deadline. Predictions
    err, so `slack_reserve` keeps a tenth of the head's SLO as reserve. `max_batch_tokens` keeps passes
    short for the next arrival.
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
    """Return the ids of the next pass, `head` first: no request in it endangers the head."""
    raise NotImplementedError("Exercise 5b.1: which waiting requests share the pass of the head?")


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
    Does it help? Below is half a minute of arrivals at four requests per second, in three variants: your
    batches without preemption, with passes that are *aborted* and computed again, and with passes that are
    *suspended*, which resume later at the layer where they were left. A suspended pass sleeps for at most
    three times its own run time. With that bound it needs no Rule 1. The monitor sees arrivals, slack
    counts the work that is done, and the functions of lesson 5 are the reference's.
    """)
    return


@app.cell(hide_code=True)
def _(
    BATCHED,
    SUSPENDED,
    UNPREEMPTED,
    batch_attempt,
    two_tier_load,
    under_load,
):
    after(
        "l05.visible",
        mo.md(
            under_load(
                two_tier_load(seed=0, requests_per_s=4, duration_s=30),
                {"slo_batch": batch_attempt},
                (UNPREEMPTED, BATCHED, SUSPENDED),
            )
        ),
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## Which repair turns the ladder?

    Half a minute and one seed are a demonstration. A verdict needs more seeds, several loads, and the same
    arrivals for every variant. Each rung below adds one repair to the rung before it; the last one has the
    batches without any preemption.
    """)
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
def _(ladder):
    after(
        "l05.visible",
        mo.md(
            "`slo_batch` turns the ladder, although it has nothing to do with preemption: the pass that a preemption frees has to be kept free. "
            "All three repairs are right. **Alone, one changes nothing, one barely helps, and one is a disaster:**\n\n"
            "| repair alone, 4 requests per second | urgent in time |\n|:--|--:|\n"
            f"| none | {ladder.percent('control', 'urgent')} |\n"
            f"| slack of the remaining work | {ladder.percent('fork', 'urgent')}: nothing is preempted anyway |\n"
            f"| SLO-aware batches | {ladder.percent('unpreempted', 'urgent')} |\n"
            f"| arrivals seen | {ladder.percent('seen', 'urgent')} |\n"
            f"| all three | **{ladder.percent('batched', 'urgent')}**; with suspended passes **{ladder.percent('suspended', 'urgent')}** |\n\n"
            "A team that measures after each repair, and keeps only those that help, keeps none that matters."
        ),
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## Where does preemption lose?

    Choose a rung and compare it with the engine without preemption, at every load.
    """)
    return


@app.cell(hide_code=True)
def _(RUNGS):
    rung = chooser("Against the first rung", RUNGS, RUNGS[-2])
    rung
    return (rung,)


@app.cell(hide_code=True)
def _(rung, rung_by_load):
    from course.figure import Figure

    beside(
        rung,
        lambda title: after(
            "l05.visible",
            Figure(rung_by_load(title), "At which loads does this rung pay, and who pays for it?"),
        ),
    )
    return


@app.cell(hide_code=True)
def _(ladder):
    def _both(name, rate):
        return f"{ladder.percent(name, 'urgent', rate)} of the urgent and {ladder.percent(name, 'generous', rate)} of the generous requests"

    after(
        "l05.visible",
        mo.md(
            f"- **At high load the generous requests pay.** At 10 requests per second, batches without preemption serve {_both('unpreempted', 10)} in time; with suspended passes it is {_both('suspended', 10)}. "
            f"There are four generous requests for every urgent one, so {ladder.of_all('unpreempted', 10):.0f} % of all are in time without preemption and {ladder.of_all('suspended', 10):.0f} % with it. "
            "Which of the two is better depends on what was promised.\n"
            f"- **At low load there is little to win.** At two requests per second the engine is often idle, and {ladder.percent('control', 'urgent', 2)} of the urgent requests are in time without any policy. "
            "(The published control has 48 %: a real server has delays that this model leaves out.)\n"
            f"- **Rule 1 has a price.** With aborted passes and at 4 requests per second, {ladder.percent('batched', 'urgent')} of the urgent requests are in time with Rule 1 and {ladder.percent('batched-no-rule-1', 'urgent')} without it. "
            "It insures long requests against a stream of urgent ones, and on an average day it costs.\n"
            "- **The model is kind to preemption.** A preemption costs nothing but the aborted work, and the predictor is perfect, since it is the engine's own line. "
            "That line charges all 34 ms for every pass, although a part of them belongs to the request (lesson 5). Lesson 6 measures a real preemption."
        ),
    )
    return


@app.cell(hide_code=True)
def _(ladder):
    after(
        "l05.visible",
        mo.md(
            "/// details | The numbers at all five loads\n\nUrgent / generous, and all requests, in percent of requests in time; modelled, with the same arrivals in every row of a column.\n\n"
            + ladder.table(("control", "unpreempted", "batched", "suspended"))
            + "\n\n///"
        ),
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    /// details | For readers of the post: the published runs

    Five paired trials per load on four GPUs, in percent (`runs/first_real_run` in the fork's
    `dev-treatment`). For the urgent requests, preemption changed at most 2.8 points, of either sign.

    | requests per s | urgent / generous, without | with preemption |
    |--:|--:|--:|
    | 2 | 48.1 / 99.2 | 50.9 / 99.2 |
    | 4 | 38.0 / 94.3 | 37.1 / 94.2 |
    | 6 | 18.3 / 79.2 | 17.4 / 78.9 |
    | 8 | 2.9 / 39.6 | 2.8 / 37.7 |
    | 10 | 0 / 0 | 0 / 6.0 |

    ///
    """)
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## How production engines do it

    - **FlowPrefill** (Hsieh et al., [arXiv 2602.16603](https://arxiv.org/abs/2602.16603), 2026) is the
      paper behind the post. A pass may be left between operators, and the scheduler runs only when a
      request arrives or finishes. Its code has what the fork left out: slack of the remaining work,
      batches with a limit of 2,048 tokens and a reserve of a tenth, and suspension.
    - **vLLM** has another FlowPrefill as an open proposal,
      [#44794](https://github.com/vllm-project/vllm/pull/44794). Its first form could suspend a prefill
      for ever: the mean TTFT was 450 ms without it and **969 ms with it**. A bound of 50 ms on the sleep
      made it 412 ms.
    - A feature that has no effect can stay unnoticed for long. In
      [vLLM #10101](https://github.com/vllm-project/vllm/issues/10101) urgent requests stopped preempting
      as soon as chunked prefill was switched on. Nothing crashed.

    ## What you know now

    - The policy was right, and its input was wrong: the monitor read a list without the arrivals.
    - A preemption helps only if the freed pass stays free, which is the work of `slo_batch`.
    - Repairs have to be measured together. One defect can hide another, and a single right repair can look
      like a disaster.
    - Preemption pays at middle loads. At high load the generous requests pay for it.

    A published null result, with its data, is worth more than a good-looking curve: its author put the
    runs beside the code, and that made this lesson possible. Our model adds reasons that *could* explain
    the result, and shows that they suffice.

    In this lesson a pass is left at the next layer as if by magic. In
    [lesson 6](/?file=l06_preempting_the_pass.py) you build that: a forward runs on several processes, and
    all of them have to leave it at the same layer, or they hang for ever.
    """)
    return


if __name__ == "__main__":
    app.run()
