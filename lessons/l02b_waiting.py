import marimo

__generated_with = "0.25.2"
app = marimo.App(width="medium", app_title="2b · Waiting")

with app.setup(hide_code=True):
    import marimo as mo

    from course.attempt import attempt
    from course.engine_loop import engine_loop
    from course.figure import Figure
    from course.lesson_data import l02b_waiting as waiting
    from course.prediction import after, hints, predict
    from course.task import task
    from nanogpt import Engine, EngineConfig, load_model
    from nanogpt.views.request_view import RequestView
    from widgets import Timeline


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    # 2b · Waiting

    *20 minutes. Builds on lesson 2: the queue and its keys, admission, preemption. You write one
    function.*

    Afterwards you can say what a priority changes and what it costs, which policies starve a request, and
    how to order a queue so that a long wait makes up for a low priority.

    ## Which waiting request should go first?

    Lesson 2 admits the request with the smallest key, and ranks equal priorities by arrival. The
    scheduling post, by the author of
    [czhou578/nanoGPT-inference](https://github.com/czhou578/nanoGPT-inference), puts a question to its readers: of two
    requests with the same priority, which one should go first, the one that arrived earlier, or the one
    with fewer tokens left?
    """)
    return


@app.cell(hide_code=True)
def _():
    predict(
        "l02.tie",
        "Two slots, a short request of 8 tokens every 4 steps and, near the start, one long request "
        "of 40 tokens. What does **fewer tokens left first** change, compared with **earlier arrival "
        "first**?",
        (
            "Mean latency falls, and the long request waits a little longer",
            "Mean latency falls, and the long request starts when the stream of short ones ends",
            "Mean latency rises: the long request occupies a slot for longer at the end",
            "Nothing: both slots are busy either way",
        ),
        1,
        "With 24 short requests the mean latency, from arrival to the last token, falls from 27.0 to "
        "14.7 steps. The long request takes 135 steps instead of 47. If all requests are there from "
        "the start and their lengths are known, shortest first gives one server the best mean. But a "
        "long request waits as long as short ones keep arriving, and an engine does not know the "
        "lengths: `max_new_tokens` is only a limit. So the tie goes to the earlier arrival.",
    )
    return


@app.cell(hide_code=True)
def _():
    after("l02.tie", mo.md(waiting.ties_table()))
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## Where does the engine use the keys?

    The marked line goes through the waiting requests in order of key, smallest first, and stops at the
    first one that does not fit. You do not change this line. In this lesson you change the keys, and
    measure how long each request waits.
    """)
    return


@app.cell(hide_code=True)
def _():
    engine_loop("self.select_admissible(")
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## What does a priority change, and what does it cost?

    The post's author measured four workloads (`benchmarks/scheduling_policy.py` in the same repository):

    - *inversion*: important requests arrive while a long, unimportant one has the only slot,
    - *mix*: a few important requests among many others,
    - *memory pressure*: running requests outgrow the KV budget,
    - *control*: all requests are equal.

    Our engine runs them with the author's lengths, priorities and limits; times are modelled on a server
    CPU. Under *strict priority*, the policy `priority` of lesson 2, the more important of two waiting
    requests always goes first. With the switch `preempt_to_admit`, a waiting request may also preempt
    less important running ones in order to be admitted. Without it, a request is preempted only when
    running requests need more K/V.
    """)
    return


@app.cell(hide_code=True)
def _():
    found = waiting.priority_runs()
    predict(
        "l02.priority",
        "**Inversion**, one slot. The long request has it when two important ones arrive, and a fourth "
        "request comes after them. Strict priority, without preempting to admit. What is the latency of "
        "the important requests, as a multiple of their latency under FCFS?",
        ("About 0.4", "About 0.7", "Exactly 1.00", "More than 1"),
        2,
        "**×1.00.** The unimportant request came first and has the slot. Under both policies, the two "
        "important requests are the next in the queue. A priority that only sorts the queue does not "
        "affect a request that is already running. With preempting to admit the multiple is ×0.40; "
        "the author published 0.37.",
    )
    return (found,)


@app.cell(hide_code=True)
def _(found):
    after("l02.priority", mo.md(rf"""
    {waiting.priority_table(found)}

    All entries with × are multiples of the value under FCFS. Latency is the mean from arrival to the
    last token. From the third column on, the runs preempt to admit, like the author's runs. Our engine
    reproduces three of the four published results. In the fourth, *memory pressure*, the engines
    differ in two ways. When running requests grow, ours preempts under FCFS too; the author's never preempts
    under FCFS. In ours a victim keeps its generated tokens; in the author's it starts its text over.
    In the control, in which all requests are equal, no value changes. So the differences in the other
    rows come from the priorities.

    No step became faster. Latency moved from some requests to others, and recomputed tokens are work
    done twice. The table does not show that a request can wait for ever while more important ones keep
    arriving. The next section does.
    """))
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## Which request never gets a turn?

    Two slots, and a request of priority 0 every four steps: enough to keep both slots busy as long as the
    stream lasts. One request of priority 2 arrives at step 2.
    """)
    return


@app.cell
def _():
    model = load_model()
    strict = EngineConfig(policy="priority", max_batch_size=2)
    starving = Engine(model, strict).run(waiting.stream(10))  # request 1 has priority 2
    Timeline(
        starving.to_json(),
        title="One request of priority 2 in a stream of priority 0",
        question="When does request 1 get its first token?",
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    Under strict priority request 1 waits until the stream ends, and on a server the stream does not end.
    This is **starvation**.

    It is prevented by **ageing**: waiting makes up for a low priority. The obvious key is *priority minus
    waiting time*, but it changes at every step. In lesson 2 a key stays in the heap while its request
    waits, and a heap does not notice when an entry changes, because only a push or a pop moves entries.
    Does the *order* of two waiting requests change?
    """)
    return


@app.cell(hide_code=True)
def _():
    Figure(waiting.two_that_age(), "Can one of them overtake the other while both wait?")
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    At the same rate the two lines never cross. At different rates they can cross, and from then on the
    order in the heap would be wrong.
    """)
    return


@app.cell(hide_code=True)
def _():
    task("l02.aged_key")
    return


@app.function
def aged_key(request: RequestView, rate: float) -> tuple[float, ...]:
    """Return a key in which waiting counts, a tuple of numbers; the smallest key goes first."""
    raise NotImplementedError("Exercise 2b.1: a key in which waiting counts, and which never changes")


@app.cell(hide_code=True)
def _():
    aged_attempt = attempt("l02.aged_key", lambda: aged_key)
    aged_attempt
    return (aged_attempt,)


@app.cell(hide_code=True)
def _():
    hints("l02.aged_key")
    return


@app.cell(hide_code=True)
def _(aged_attempt):
    curves, patience_note = waiting.patience(aged_attempt)
    Figure(curves, "Under which rules does it wait longer, the longer the stream is?")
    return (patience_note,)


@app.cell(hide_code=True)
def _(patience_note):
    mo.md(patience_note)
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    Under strict priority the unimportant request waits longer, the longer the stream is. With ageing its
    latency stops growing, and `rate` says how many steps of waiting a level of priority is worth. The
    other requests pay a few steps.

    ## What does each policy promise?

    | policy | promises | does not promise |
    |:---|:---|:---|
    | FCFS | no request starves | that importance matters |
    | strict priority | in the queue, the more important request goes first | that an unimportant request ever starts |
    | strict priority with `preempt_to_admit` | an important request need not wait for less important running ones | that no work is done twice |
    | ageing | no request starves; a level of priority is worth a fixed number of steps | that the most important request goes first |
    | shortest first | the best mean latency, on one server, if all requests are there and their lengths known | that a long request ever starts |

    Every policy finishes every *finite* workload in this engine. The engine refuses a request that could
    never fit, and a preempted request keeps its generated tokens. Preemptions cannot go on without
    new tokens: a victim that was decoding has sampled since it was admitted, and a victim that was
    prefilling gives its memory to decoding requests, which sample in the same step. In an *endless*
    stream, **no request starves if only finitely many later arrivals can go before it.** Only FCFS and
    ageing meet this condition.

    ## What you now know

    - A key decides which request is admitted next. It moves latency from one request to another and
      makes no step faster.
    - A priority that only sorts the queue does not help while all slots are taken; preempting to admit does,
      and pays with recomputed tokens.
    - Strict priority and shortest first starve requests.
    - Ageing prevents that. If all requests age at one rate their order never changes, so one fixed
      number is enough and the heap stays valid.

    ## The same in vLLM and SGLang

    | here | vLLM | SGLang |
    |:---|:---|:---|
    | `policy` | `--scheduling-policy fcfs` (default) or `priority`, `vllm/v1/core/sched/request_queue.py` | `--schedule-policy fcfs` (default), lpm, lof, hrrn and others, `srt/managers/schedule_policy.py` |
    | priority | the smaller value goes first | `--enable-priority-scheduling` (off); the **larger** value goes first |
    | `preempt_to_admit` | none: the queue is sorted and victims are chosen by priority | `preempt_to_schedule()`, if priorities differ by more than a threshold (10) |
    | ageing | none | `hrrn`, highest response ratio next |

    **How the control flow differs.** Both engines sort when a request joins the queue, as ours does, and
    take the first one while it fits. vLLM's priorities act there and once more when memory is short, but a
    waiting request never pushes a running one out. SGLang sorts its waiting list anew in every round, so
    that its keys may change with time, and it may preempt before it fills a prefill batch.

    - vLLM cannot preempt to admit, so important requests wait for a less important running one, as in
      *inversion*; [#40004](https://github.com/vllm-project/vllm/issues/40004) calls this *a serious
      issue*. A proposed change ([#54530](https://github.com/vllm-project/vllm/pull/54530), open when we
      last looked) compares only priorities. Its author gives the reason: with the arrival as a tie-break,
      a preempted request would take its slot back in the next step, and equal requests would preempt each
      other in turn.
    - Neither engine knows output lengths, so neither runs the shortest request first. SGLang's
      `shortest-prefill-first` uses the length of the prompt, which is known; its `lpm` prefers the
      longest cached prefix (lesson 7).

    *Checked against vLLM 0.33.0 and SGLang 0.5.23, November 2026.*

    ## What comes next

    In [lesson 3](/?file=l03_interleaving.py) the chunk and the decodes of a step become one batch.
    [Lesson 5](/?file=l05_slo_policy.py) will rank by deadline, and
    [lesson 9](/?file=l09_fleet.py) will handle keys that change while they are in a heap.
    """)
    return


if __name__ == "__main__":
    app.run()
