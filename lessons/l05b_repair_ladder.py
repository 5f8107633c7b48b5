import marimo

__generated_with = "0.25.2"
app = marimo.App(width="medium", app_title="5b · The repair ladder")

with app.setup(hide_code=True):
    import marimo as mo

    from course.attempt import attempt
    from course.controls import beside, chooser, slider
    from course.figure import Figure
    from course.lazy import slo
    from course.lesson_data import l05_policy as lab
    from course.lesson_data import l05_victims as victims
    from course.lesson_data import l05b_ladder as ladder
    from course.prediction import after, hints, predict
    from course.saved_answers import newest_answers
    from course.task import task
    from nanogpt.slo.load import two_tier_load
    from nanogpt.slo.prefill_simulation import simulate
    from nanogpt.slo.variants import BATCHED, ROUND_COST, SEEN, SUSPENDED, UNPREEMPTED


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    # 5b · The repair ladder

    *25 minutes. Builds on lesson 5: slack, scores, the choice of a victim. You write one function, and
    your three functions of lesson 5 run with it.*

    Afterwards you can explain why a correct policy changed nothing, what each repair of the surrounding engine
    achieves by itself and together with the others, and at which loads preemption loses.

    ## Why did a correct policy change nothing?

    In lesson 5 you wrote a policy that decides which prefill to preempt, and under load it changed nothing.
    The modelled engine here is the same, with lesson 5's line of the post, and one request in five is
    **urgent**. The others are **relaxed**:

    | modelled, 4 requests per second | urgent in time | relaxed in time | preemptions per run |
    |:--|--:|--:|--:|
    | without preemption | 51 % | 96 % | 0 |
    | with preemption, as published | 51 % | 96 % | 0 |

    These are means over five seeds with 120 s of arrivals each. The seeds are *paired*: every variant gets
    the same arrivals (`python -m nanogpt.slo --json`).

    The last column is the clue: the policy never preempted at all. This is the fork's loop. The monitor is a
    second thread, which reads only `snapshot`:

    ```python
    while True:
        waiting += inbox.take_all()          # requests that have arrived
        batch = fill(waiting, 9000)          # all waiting requests that fit 9,000 tokens
        snapshot = (tuple(waiting), batch)   # what the monitor reads, every 5 ms
        execute(batch)                       # a pass
    ```
    """)
    return


@app.cell(hide_code=True)
def _():
    predict(
        "l05.null",
        "There was no preemption in two minutes, with any of the five seeds. The choice of the victim is correct, both rules are correct, and the monitor looks every 5 ms. **Why is no pass preempted?**",
        (
            "The margin of 1.2 is too high",
            "Urgent requests are doomed before the monitor looks",
            "The urgent requests are not in the list that the monitor reads",
            "All running requests are immune",
        ),
        2,
        "The engine takes arrivals from its inbox only between two passes. "
        "So a request that arrives during a pass stays in the inbox, which the monitor does not read, and is missing from the snapshot. The monitor exists for exactly these requests. "
        "Nearly all requests that were waiting when the pass began joined that pass, so the snapshot holds hardly any waiting request.",
    )
    return


@app.cell(hide_code=True)
def _():
    after("l05.null", mo.md(r"""
    The same loop with lesson 5's report and voice request: a monitor that reads only the snapshot never
    preempts, and a monitor that sees each arrival at once preempts once. (In the fork, `engine/core.py` reads
    `input_queue` only between steps, and `schedule` publishes the snapshot at its end.)
    """))
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## The first repair: the monitor sees arrivals

    Let the monitor read the inbox as well. Here are the report (0) and the voice request (1) in that engine,
    with lesson 5's round numbers. The engine still fills each pass with all waiting requests:
    """)
    return


@app.cell
def _():
    seen = simulate(lab.REPORT_AND_VOICE, SEEN, ROUND_COST)
    mo.md(lab.passes(seen))
    return


@app.cell(hide_code=True)
def _():
    predict(
        "l05.visible",
        "Without preemption, 51 % of the urgent and 96 % of the relaxed requests were in time at 4 requests per second. Every pass of that load is filled like those above. **What does a monitor that sees arrivals change?**",
        (
            "More urgent requests are in time, and as many relaxed ones",
            "More urgent requests are in time, and fewer relaxed ones",
            "Hardly anything, for either class",
            "Fewer requests of both classes are in time",
        ),
        3,
        "**Urgent 3 %, relaxed 8 %** (modelled). A run has 280 preemptions, and 91 % of the computing time is thrown away. As above, the preempted request joins the same pass as the urgent one: the preemption costs its full price and helps neither. The first defect had hidden this one.",
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## The second repair: which requests may share the pass of an urgent one?

    The overhead of a pass is paid once for all its requests, so an engine likes to fill the pass. But all of
    them get their first token when the pass ends. The pass starts with the candidate, the most urgent waiting
    request. With lesson 5's round numbers, for a candidate of 200 tokens:

    | in the pass | the candidate gets its first token after | its SLO of 100 ms |
    |:--|--:|:--|
    | 200 tokens | 30 ms | in time |
    | 200 tokens + 300 | 60 ms | in time |
    | 200 tokens + 300 + 300 + 300 | 120 ms | **missed** |
    | 200 tokens + 4,000 | 430 ms | **missed** |

    So the engine adds waiting requests one by one, as long as the candidate still meets its deadline. Because
    predictions err, `slack_reserve` keeps a tenth of the candidate's SLO free. `max_batch_tokens` keeps passes
    short for the request that arrives next.
    """)
    return


@app.cell(hide_code=True)
def _():
    task("l05.slo_batch")
    return


@app.function
def slo_batch(
    candidate: slo.SloView,
    waiting: list[slo.SloView],
    a: float,
    c: float,
    max_batch_tokens: int,
    slack_reserve: float,
) -> list[int]:
    """Return the ids of the next pass: `candidate`, then requests that do not endanger it."""
    raise NotImplementedError(
        "Exercise 5b.1: which waiting requests share the pass of the candidate?"
    )


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
    Does `slo_batch` help? Below is half a minute of arrivals at four requests per second, in three variants:
    your batches without preemption; with passes that are *aborted* and computed again; and with passes that
    are *suspended* and later resume at the layer where they stopped. A pass stays suspended for at most three
    times its own run time. The bound prevents starvation, so Rule 1 is off.

    The monitor sees arrivals in the last two. Your latest `slack`, `edf_score` and `select_victim` of lesson 5
    run too, even if they fail their checks.
    """)
    return


@app.cell(hide_code=True)
def _(batch_attempt):
    lesson_5 = newest_answers("l05.slack", "l05.edf_score", "l05.select_victim")
    after(
        "l05.visible",
        mo.md(
            victims.under_load(
                two_tier_load(seed=0, requests_per_s=4, duration_s=30),
                {"slo_batch": batch_attempt},
                (UNPREEMPTED, BATCHED, SUSPENDED),
                lesson_5,
            )
        ),
    )
    return (lesson_5,)


@app.cell(hide_code=True)
def _(batch_attempt, lesson_5):
    after(
        "l05.visible",
        Figure(
            ladder.yours_by_load(batch_attempt, lesson_5),
            "At which loads do your four functions help the urgent requests, and do they differ from the reference's?",
        ),
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## The repair ladder: which repair helps?

    One seed is a demonstration. A verdict needs more seeds, several loads, and the same arrivals for every
    variant. Each row adds one fix to the row before it; the last is an ablation without preemption.
    """)
    return


@app.cell(hide_code=True)
def _():
    after("l05.visible", mo.md(r"""
    | row | variant | the change |
    |--:|:--|:--|
    | 1 | arrival order, everyone batched along | All requests that fit 9,000 tokens share the pass. No preemption. |
    | 2 | most urgent first | `edf_score` (5.2) orders the queue. The queue is nearly always empty, because every waiting request joins the next pass. |
    | 3 | + preemption, arrivals unseen | Preemption as published (5.3). The monitor does not see a request that arrives during a pass. |
    | 4 | + arrivals seen in mid-pass | The monitor sees arrivals. After a preemption the engine fills the pass again, with the urgent request and the preempted one in it. |
    | 5 | + slack of the remaining work | The slack of a running request counts the work that is done (5.1), so fewer requests look doomed. |
    | 6 | + SLO-aware batches (abort) | Requests join a pass only if the candidate still meets its deadline (5b.1). The candidate runs by itself, or nearly. |
    | 7 | + suspend and resume | A pass is suspended instead of aborted. A bound on the suspension replaces Rule 1. |
    | 8 | SLO-aware batches, no preemption | SLO-aware batches (5b.1) without any preemption. |
    """))
    return


@app.cell(hide_code=True)
def _():
    load = slider("Requests per second", ladder.LOADS, 4)
    load
    return (load,)


@app.cell(hide_code=True)
def _(load):
    beside(
        load,
        lambda requests_per_s: after(
            "l05.visible",
            Figure(
                ladder.rows_at_load(requests_per_s),
                "In which row do the urgent requests gain, and in which do they lose?",
            ),
        ),
    )
    return


@app.cell(hide_code=True)
def _():
    after("l05.visible", mo.md(r"""
    `slo_batch` makes the difference, although it decides nothing about preemption. A preemption only makes room
    in the next pass, and `slo_batch` keeps the aborted request out of it. The third repair is lesson 5's: the
    slack of a running request counts only the remaining work, while the fork charged the whole prompt. All three
    repairs are correct. **Alone, one changes nothing, one barely helps, and one is a disaster:**

    | repair alone, 4 requests per second | urgent in time |
    |:--|--:|
    | none | 51 % |
    | slack of the remaining work | 51 %: nothing is preempted anyway |
    | SLO-aware batches | 54 % |
    | the monitor sees arrivals | 3 % |
    | all three | **80 %**; with suspended passes **88 %** |

    A team that tries each repair by itself keeps only the batches and gives up on preemption.
    """))
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## At which loads does preemption lose?

    Choose a variant and compare it with the engine without preemption, at every load.
    """)
    return


@app.cell(hide_code=True)
def _():
    variant = chooser("Compare arrival order with", ladder.TITLES, ladder.TITLES[-2])
    variant
    return (variant,)


@app.cell(hide_code=True)
def _(variant):
    beside(
        variant,
        lambda title: after(
            "l05.visible",
            Figure(
                ladder.variant_by_load(title),
                "At which loads does this variant pay, and who pays for it?",
            ),
        ),
    )
    return


@app.cell(hide_code=True)
def _():
    after("l05.visible", mo.md(r"""
    - **At high load the relaxed requests pay.** At 10 requests per second, batches without preemption serve
      9 % of the urgent and 91 % of the relaxed requests in time; with suspended passes it is 55 % and 79 %.
    - **For all requests together it is a draw there.** Four in five are relaxed, so of all requests 75 % are
      in time without preemption and 74 % with it. Which of the two is better depends on what was promised.
    - **At low load the gain is smaller.** At two requests per second the engine is often idle, and 73 % of the
      urgent requests are in time without any policy; with suspended passes it is 94 %.
    - **Rule 1 has a price.** With aborted passes at 4 requests per second, 80 % of the urgent requests are in
      time with Rule 1, and 86 % without it. That is the premium of the insurance.
    - **The model favours preemption.** A preemption costs only the aborted work, and the predictions are exact
      except for passes of fewer than 100 tokens, which are bound by the weight read. Lesson 6 measures a real
      preemption.
    - **The draw at 10 requests per second is not robust.** The fit does not say how the 34 ms split between
      pass and request. With all of it in the pass, preemption lowers the share of all requests in time by
      two points; with all in the request it raises it by two (three seeds, 60 s). The gain of the urgent
      requests does not depend on the split.

    /// details | The numbers at all five loads

    Urgent / relaxed, **all**, in percent of requests in time; modelled, with the same arrivals in every row of
    a column.

    | requests per second | 2 | 4 | 6 | 8 | 10 |
    |:--|--:|--:|--:|--:|--:|
    | arrival order, no preemption | 73 / 99, **94** | 51 / 96, **87** | 26 / 83, **71** | 7 / 39, **33** | 1 / 2, **2** |
    | SLO-aware batches, no preemption | 73 / 100, **94** | 54 / 99, **90** | 30 / 99, **85** | 12 / 97, **80** | 9 / 91, **75** |
    | + preemption by abort | 92 / 100, **98** | 80 / 99, **95** | 65 / 96, **90** | 59 / 90, **83** | 53 / 80, **75** |
    | + preemption by suspending | 94 / 100, **99** | 88 / 100, **97** | 77 / 98, **94** | 64 / 88, **83** | 55 / 79, **74** |

    ///
    """))
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    /// details | For readers of the post: the published runs

    Five paired trials per load on four GPUs, in percent of requests in time (`runs/first_real_run` in the
    fork's `dev-treatment`). For the urgent requests, preemption changed the share in time by at most 2.8 points,
    up or down.

    | requests per s | urgent / relaxed, without preemption | with preemption |
    |--:|--:|--:|
    | 2 | 48.1 / 99.2 | 50.9 / 99.2 |
    | 4 | 38.0 / 94.3 | 37.1 / 94.2 |
    | 6 | 18.3 / 79.2 | 17.4 / 78.9 |
    | 8 | 2.9 / 39.6 | 2.8 / 37.7 |
    | 10 | 0 / 0 | 0 / 6.0 |

    ///

    ## What you now know

    - The policy was correct and its input was wrong: the monitor read a list without the arrivals.
    - A preemption helps only if the next pass is short. `slo_batch` keeps it short.
    - Repairs have to be measured together. One defect can hide another, and a single correct repair can look
      like a disaster.
    - Preemption pays at low and middle loads. At high load the relaxed requests pay for it.
    - The author put the runs of a null result beside the code, and that made this lesson possible. Our model
      shows that these defects are enough to produce the result. It does not prove that they caused it.

    ## The same in vLLM and SGLang

    - Neither engine has deadlines, SLO-aware batches or a pass that can be stopped. vLLM fills a step with
      whatever fits `--max-num-batched-tokens`, SGLang a prefill batch with whatever fits
      `--max-prefill-tokens`.
    - **FlowPrefill** (Hsieh et al., [arXiv 2602.16603](https://arxiv.org/abs/2602.16603), 2026) is the paper
      behind the post. Its scheduler runs only when a request arrives or finishes. Its code has what the fork
      left out: slack of the remaining work, batches with a limit of 2,048 tokens and a reserve of a tenth,
      and suspension.
    - **An open proposal for vLLM**, [#44794](https://github.com/vllm-project/vllm/pull/44794), suspends
      prefills. Its first form could suspend a prefill for ever. Mean TTFT was 450 ms without suspension and
      **969 ms** with it. With a bound of 50 ms on a suspension, mean TTFT was 412 ms.
    - A feature without effect can stay unnoticed for a long time. In
      [vLLM #10101](https://github.com/vllm-project/vllm/issues/10101) urgent requests stopped preempting as
      soon as chunked prefill was switched on, and nothing crashed.

    Checked against vLLM 0.33.0 and SGLang 0.5.23, November 2026.

    ## What comes next

    This lesson took for granted that a pass can be stopped at its next layer. In
    [lesson 6](/?file=l06_preempting_the_pass.py) you build that: a forward runs on several processes, and all
    of them have to leave it at the same layer, or they hang for ever.
    """)
    return


if __name__ == "__main__":
    app.run()
