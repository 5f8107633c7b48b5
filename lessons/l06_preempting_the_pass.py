import marimo

__generated_with = "0.25.2"
app = marimo.App(width="medium", app_title="6 · Preempting the pass")

with app.setup(hide_code=True):
    from collections.abc import Generator
    from dataclasses import replace

    import marimo as mo

    from course.attempt import attempt
    from course.engine_loop import engine_loop
    from course.figure import Figure
    from course.lesson_data import l06_races as lab
    from course.lesson_data import l06_ranks as ranks
    from course.lesson_data import l06_stage as stage
    from course.prediction import after, hints, predict
    from course.task import task
    from nanogpt.views.scheduler_state import SchedulerState
    from widgets import SloCycle, VoteBoard, whose


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    # 6 · Preempting the pass

    *55 minutes; the race lab at the end is optional. Builds on lessons 5 (slack, scores, the choice of a
    victim) and 5b (batches, suspension). You write four functions.*

    Afterwards you can stop a forward pass that is spread over several processes so that none of them hangs,
    roll its step back, resume a suspended pass in time, and say what preemption costs.

    ## Two ranks read the same flag. Why can one of them hang?

    A long prefill is running, an urgent request arrives, and the policy of lesson 5 says: preempt. The model
    is spread over two GPUs, with one process for each, called a *rank*. Each rank computes a part of the
    heads and of the MLP. Twice in every layer the ranks add up their parts with `all_reduce`, a *collective*:
    the call returns only after every rank has made it.

    Another thread decides that a step should be preempted, and writes the number of that step into shared
    memory. Each rank reads the number at every layer; if the running step has this number, the rank leaves
    the pass. Both ranks read the *same* eight bytes at the *same* layer, a moment apart.
    """)
    return


@app.cell(hide_code=True)
def _():
    predict(
        "l06.hangs",
        "Two ranks, **no vote**: a rank that reads the number of its own step leaves. A pass has 12 layers of "
        "50 ms. At each layer rank 0 reads 1 ms after rank 1, and the number is written at a random moment of "
        "the pass. **In how many of 1,000 passes does a rank hang?**",
        (
            "None: both read the same memory at the same layer",
            "About 20",
            "All of them: no two processes read at the same moment",
            "About 240",
        ),
        1,
        "A rank hangs when the number is written after one rank's read and before the other's. That is 1 ms of "
        "every 50, so it happens in about **20** passes. (12 layers have 12 such gaps, but the pass is 12 times as "
        "long, too.) A test that runs ten times passes in four of five cases: **it says nothing about a race "
        "like this.**",
    )
    return


@app.cell(hide_code=True)
def _():
    after(
        "l06.hangs",
        VoteBoard(
            [stage.without_vote()],
            "Two ranks without a vote",
            question="The number is written between two reads at layer 3. Which rank waits, and what for?",
        ),
    )
    return


@app.cell(hide_code=True)
def _():
    after("l06.hangs", mo.md(r"""
    Rank 0 has left, and rank 1 waits for it in the sum of the attention output. The same was recorded with
    real ranks, the number written once in every pass:

    | 40 passes each, two cores | a rank hung | both left together | written too late |
    |:--|--:|--:|--:|
    | no vote | 1 | 39 | 0 |
    | no vote, beside two threads that compute | 1 | 27 | 12 |
    | the vote that you write below, beside the same threads | 0 | 35 | 5 |

    So the number that a rank has read is only its opinion. To make one decision out of several opinions, the
    ranks need a collective of their own: `all_reduce(MAX)` over their votes. One vote of 1 is enough, because
    the others only read a moment too early.
    """))
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## Where in the loop this happens

    The marked line runs the pass. In the loop as you know it, it cannot be interrupted: arrivals, deadlines
    and preemption wait until `execute` returns. This lesson builds a way out of that line, and the rollback
    of everything that `schedule` has already recorded for the step.
    """)
    return


@app.cell(hide_code=True)
def _():
    engine_loop("self.executor.execute(")
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    How long does `execute` take? The author of this lesson's post built preemption of prefills into
    [a fork of vLLM](https://github.com/adiu19/vllm) and measured a model of 70 billion parameters on four A100
    GPUs. The times are modelled: lesson 5's line of the post, 0.173 ms per token and 34 ms, spread evenly over
    the layers.

    | prompt, tokens | one pass | one of its 80 layers | in chunks of 512, at most | longest chunk, at most |
    |--:|--:|--:|--:|--:|
    | 242 | 76 ms | 1.0 ms | 76 ms | 76 ms |
    | 2,000 | 380 ms | 4.8 ms | 483 ms | 123 ms |
    | 7,986 | 1,416 ms | 17.7 ms | 1,928 ms | 123 ms |

    Suppose that a request of 242 tokens arrives just after the pass over 7,986 tokens has begun. It waits more
    than a second for a first token that takes 76 ms to compute. **Chunks** shorten the wait to one chunk, but
    every long prompt pays for them, even when no urgent request comes. ("At most": a part of the 34 ms belongs
    to the request, not to the pass; here every chunk is charged all of them.) **FlowPrefill**, the paper behind
    the post, lets the pass check at every layer whether it is still wanted.

    A rank can check just before attention. vLLM's forward pass is compiled and captured in *CUDA graphs*:
    recordings of GPU work whose replay calls no Python. In its default mode, a batch with a prefill runs as
    graph pieces with attention between them, so the pass is back in Python once per layer. (A batch of only
    decodes is one graph and cannot be left; other modes put whole passes into one graph.) In our engine the
    pass is a generator that yields at that place, so a rank can stop stepping it:

    ```python
    for layer, weights in enumerate(shard.layers):
        q, k, v = weights.queries_keys_values(x)
        yield layer                      # the attention op: is this pass still wanted?
        x = x + reduce_attention(weights.project(attend(kv[:, layer], rows, q, k, v)))
        x = x + reduce_mlp(weights.mlp(x))
    ```

    ## The monitor: deciding while the engine is blocked

    During a pass the engine's main thread waits for the ranks, so a second thread decides. It is a *daemon*
    thread: it never keeps the process alive when the engine ends. One preemption, in order:

    | who | does what |
    |:--|:--|
    | 1 · engine thread | ends `schedule`, publishes a frozen snapshot and blocks in the pass |
    | 2 · monitor thread | every 5 ms, and at each arrival: reads the snapshot and the inbox, calls the policy |
    | 3 · shared memory | holds one number: the step that the monitor wants to preempt |
    | 4 · ranks | read it at each attention op, vote, and leave together |
    | 5 · engine thread | reads every rank's reply and rolls the step back |
    | 6 · next `schedule` | admits the urgent request first |

    The snapshot needs **no lock**. It is immutable, and the engine publishes it by assigning one attribute.
    Python's GIL makes that assignment atomic, so the monitor sees either the old snapshot or the new one,
    never a half of each. A lock would make the engine wait for the monitor at every step.

    Here is one preemption as it was recorded: two ranks, a model of 12 layers, a prefill of 1,400 tokens, and
    an urgent request of 24 tokens that arrives in the middle of it.
    """)
    return


@app.cell(hide_code=True)
def _():
    SloCycle(
        ranks.story_of(ranks.recording()["experiment"], "vote, abort"),
        "An urgent arrival in mid-pass",
        source="recorded",
        question="Which process does what between the arrival and the urgent first token?",
    )
    return


@app.cell(hide_code=True)
def _():
    predict(
        "l06.late_abort",
        "A pass over a prompt of 7,986 tokens is aborted after layer 70 of 80, and computed again later. "
        "By Rule 2, a pass past 90 % of its layers runs to its end. **How much work is lost?**",
        (
            "None: the K/V of 70 layers lies in the cache, and the pass goes on from there",
            "None: Rule 2 forbids the abort",
            "Nearly nine tenths of a pass, and Rule 2 allows it",
            "An eighth of a pass",
        ),
        2,
        "70 of 80 layers are 87.5 %, which is not more than 90 %. The K/V that these layers wrote is of "
        "no use: the next pass starts with the embeddings and computes every layer again, because the hidden "
        "state between the layers was thrown away. On the post's line that is 1,239 ms of work, to save "
        "the urgent request the 177 ms that were left. Exercise 6.4 has an alternative to the abort.",
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## Which step should be preempted?

    The first version of the fork had no numbers. It used a boolean, *preempt!* The monitor set it, the workers
    read it, and the engine cleared it after every step.

    ### A defect: a prefill is aborted although no request waits

    Now and then a prefill was aborted although no request was waiting. There was no error, and every text was
    right; one request only waited longer than it had to. It happens every time if the monitor is held just
    before its write:

    > step 3 was meant; step 4 was left at layer 0 of 4.
    """)
    return


@app.cell(hide_code=True)
def _():
    predict(
        "l06.exhibit_b",
        "The monitor decided in step 3, and it wrote after the engine had cleared the flag. "
        "**Which repair makes a boolean safe?**",
        (
            "The engine clears it once more when each step begins",
            "The monitor checks once more, right before it writes, whether step 3 still runs",
            "Both of them together",
            "None of these",
        ),
        3,
        "**None.** Between the last check and the write there is always a gap, and the operating system can pause a "
        "thread there for as long as it likes: step 4 begins, clears the flag, and then it is set. Each repair makes "
        "the wrong abort rarer, until the tests no longer catch it. The published fork still has the same mistake in "
        "one place: the queue for its cheaper, scheduler-level preemption carries bare request ids.",
    )
    return


@app.cell(hide_code=True)
def _():
    after("l06.exhibit_b", mo.md(r"""
    A lock over engine, monitor and ranks would sit on the path where every microsecond counts. The remedy is
    simpler: **the message names the step that it means.** Not *preempt*, but *preempt step 7*. Step numbers
    only grow, so a late message matches no later step. The same order of events, with a number:

    > step 1 was meant; step 2 was computed to its end.
    """))
    return


@app.cell(hide_code=True)
def _():
    task("l06.local_vote")
    return


@app.function
def local_vote(target: int, step: int, layers_done: int, num_layers: int) -> int:
    """Return this rank's vote at one attention op: 1 to leave the pass, 0 to go on."""
    raise NotImplementedError("Exercise 6.1: 1 to leave the pass here, 0 to go on")


@app.cell(hide_code=True)
def _():
    vote_attempt = attempt("l06.local_vote", lambda: local_vote)
    vote_attempt
    return (vote_attempt,)


@app.cell(hide_code=True)
def _():
    hints("l06.local_vote")
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## How do the ranks agree?

    Write the moves of one rank at one attention op, as a generator. Each `yield` is a move. The check
    plays all ranks without processes and decides which rank moves next. So it can try one order after
    another, and when a rank would wait for ever, it reports that at once.
    """)
    return


@app.cell(hide_code=True)
def _():
    task("l06.preemption_point")
    return


@app.function
def preemption_point(vote: int) -> Generator[tuple, int, None]:
    """Yield the moves of one rank at one attention op; `vote` is 1 to leave, 0 to go on."""
    raise NotImplementedError("Exercise 6.2: the moves of one rank at one attention op")


@app.cell(hide_code=True)
def _():
    point_attempt = attempt("l06.preemption_point", lambda: preemption_point)
    point_attempt
    return (point_attempt,)


@app.cell(hide_code=True)
def _():
    hints("l06.preemption_point")
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    Below, your two functions run step 7 over 8 layers on two ranks. The target is written at layer 3, after
    rank 1 has read and before rank 0 reads.
    """)
    return


@app.cell(hide_code=True)
def _(point_attempt, vote_attempt):
    after(
        "l06.hangs",
        VoteBoard(
            stage.boards(vote_attempt, point_attempt),
            "The target is written between two reads at layer 3",
            question="Only one rank has seen it. Why do both leave, or why does one wait for ever?",
        ),
    )
    return


@app.cell(hide_code=True)
def _():
    after("l06.hangs", mo.md(r"""
    At layer 3, with the vote, rank 0 votes 1 and rank 1 votes 0, and both leave. The votes were different;
    the decision was the same.

    /// details | Two cheaper ways to agree

    Every layer of every pass pays for the collective, even in passes that are not interrupted: here 2,535 µs,
    waiting for the slower rank included. Two other ways cost 23 and 24 µs (`nanogpt/preemption/agreement.py`):

    - **carried**: the attention output is summed over the ranks anyway, so the vote goes with it as one more
      number. The answer is known one layer later.
    - **epoch**: no collective. The first rank that reads the target, at attention op *n*, writes to shared memory
      that all ranks leave at op *n + 1*. No other rank can have passed op *n + 1* yet: to reach it, a rank needs
      the sums of layer *n*, which need the part of the writing rank. This is FlowPrefill's way.

    (Recorded on two cores, gloo, 1,400 tokens, medians over 7 passes of 12 layers.) Both leave one layer later,
    and that is their price.
    ///
    """))
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## Rolling back an aborted step

    The ranks have left and tell the engine so. A preempted rank must not look like a crashed one. vLLM's workers
    send an exception to the engine as text, without its type; our ranks reply with a record: done, left at a
    layer, or failed.

    But the scheduler's state still records a step that was aborted. Lesson 2's preemption never had this
    problem: it happens *inside* `schedule`, before the requests of the step are recorded. An abort comes after
    that.

    ### A defect: the engine dies after a successful preemption

    The fork's first preemption worked. All workers left, K/V was freed, and the victim was back in the queue.
    The next step killed the engine, by an assertion in code that had nothing to do with preemption. In our
    engine:

    > the next step ENDS the engine: requests [0] are admitted, yet the last step was scheduled with them

    The scheduler keeps the requests of its newest step in `previous_step`, and it admits no request that is
    among them, because such a request should still be running. One wrong line left the victim in this set. With
    the line corrected: *the next step admitted requests [0, 1].*
    """)
    return


@app.cell(hide_code=True)
def _():
    predict(
        "l06.exhibit_a",
        "The same wrong line. Suppose that the urgent request runs by itself first, and the victim is admitted "
        "**a step later**. Does the engine die then?",
        (
            "Yes: the victim stays in `previous_step` until something takes it out",
            "Yes, unless its K/V has been released by then",
            "No: the step in between overwrites `previous_step`, so no error appears",
            "No, but the victim's text is wrong",
        ),
        2,
        "We tried it: the urgent request, then the victim, no error, and every text right, because K/V and tokens "
        "were correct all along. The defect shows only if the victim comes straight back, so a test with a busy "
        "queue passes. vLLM's name for the set is `prev_step_scheduled_req_ids`. Preemption for lack of memory "
        "runs before the set is written, so that code never had to roll the set back. Code that is reused at a later "
        "point of the step finds a different state there.",
    )
    return


@app.cell(hide_code=True)
def _():
    task("l06.rollback_step")
    return


@app.function
def rollback_step(state: "SchedulerState", aborted: list[int], candidate: int | None) -> "SchedulerState":
    """Return the scheduler's state once an aborted step is rolled back."""
    raise NotImplementedError("Exercise 6.3: the state once the aborted step is rolled back")


@app.cell(hide_code=True)
def _():
    rollback_attempt = attempt("l06.rollback_step", lambda: rollback_step)
    rollback_attempt
    return (rollback_attempt,)


@app.cell(hide_code=True)
def _():
    hints("l06.rollback_step")
    return


@app.cell(hide_code=True)
def _(rollback_attempt):
    mo.md(
        "The prefills of requests 2 and 8 and a decode of request 6 shared the pass, which was aborted to make "
        "way for request 3.\n\n" + stage.state_table(rollback_attempt)
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## How long may a pass stay suspended?

    An abort throws work away. The paper **suspends** instead. Our pass is a generator, so a rank stops
    stepping it and keeps the K/V written so far and the hidden state between two layers. Later the rank
    continues there, and nothing is computed twice.

    Suspending has two costs. The K/V of the suspended pass takes memory that another request may need. And a
    suspended pass can wait for ever, because another urgent request may always be there. An open proposal for
    vLLM that suspends prefills met the second one ([#44794](https://github.com/vllm-project/vllm/pull/44794)):
    under sustained load *a checkpointed prefill never resumes*. Mean TTFT was 449.84 ms without suspension,
    **969.43 ms** with it, and 411.73 ms with a bound on the suspension.
    """)
    return


@app.cell(hide_code=True)
def _():
    task("l06.resume_or_abort")
    return


@app.function
def resume_or_abort(
    suspended_us: int, pass_us: int, urgent_waits: bool, memory_is_short: bool, bound: float
) -> str:
    """Return what to do with a suspended pass now: "stay_suspended", "resume" or "abort"."""
    raise NotImplementedError("Exercise 6.4: stay_suspended, resume or abort")


@app.cell(hide_code=True)
def _():
    resume_attempt = attempt("l06.resume_or_abort", lambda: resume_or_abort)
    resume_attempt
    return (resume_attempt,)


@app.cell(hide_code=True)
def _():
    hints("l06.resume_or_abort")
    return


@app.cell(hide_code=True)
def _(resume_attempt):
    mo.md(
        "Every 200 ms the engine decides about a suspended pass of 400 ms (bound 3), while urgent requests keep coming. "
        f"By {'your `resume_or_abort`' if resume_attempt.started else whose(False)}:\n\n"
        + stage.suspended_line(resume_attempt)
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## See it run: two processes on this machine

    Two processes each hold half of a model with random weights. They time passes over 24 and 1,400 tokens, and
    a line as in lesson 5 is fitted to those times. Then two requests run, without a monitor and with one:

    ```python
    preemption = Preemption(slo_gate(a, c), rollback_step=rollback_step)
    with Runner(2) as ranks, PreemptiveEngine(model, ranks, preemption) as engine:
        engine.arrive(Request(0, prompt_of_1400, 1))
        Timer(pass_s / 5, engine.arrive, (Request(1, prompt_of_24, 1), pass_us // 2)).start()
        engine.serve()
    ```

    The urgent request's first token is promised within half a pass. Your `rollback_step` runs here once it has
    passed its check. `local_vote` and `preemption_point` run inside the ranks, which cannot import a notebook,
    so the reference's run there. The processes end with the cell, also when you interrupt it.
    """)
    return


@app.cell
def _(rollback_attempt):
    HERE = True  # False: show the recording and start no process

    real, source, where = ranks.run_here(HERE, rollback_attempt)
    return real, source, where


@app.cell(hide_code=True)
def _(real, where):
    mo.md(ranks.measured_here(real, where))
    return


@app.cell(hide_code=True)
def _(real, source):
    SloCycle(
        ranks.story_of(real, "vote, abort"),
        "The same preemption, thread by thread",
        source=source,
        question="From the write to the last reply: what takes the time?",
    )
    return


@app.cell(hide_code=True)
def _():
    _arms = ranks.ladder(ranks.recording()["experiment"], tuple(ranks.arms(0, 0)))
    mo.md(f"""
    ## What does preemption gain, and what does it cost?

    All five ways, or *arms*, were recorded in one run of 7 rounds. Each round tries every arm once, so a busy
    moment of the machine does not hit one arm only. (*carried* and *epoch* are the two cheaper ways to agree, in
    the detail after exercise 6.2.) A cell has the median, lowest and highest. The SLO of the urgent request is
    349 ms, half the time that the long pass took before the rounds.

    {_arms}

    With the vote, the median TTFT of the urgent request is a sixth of that without preemption. The long prefill
    pays: its median TTFT is 1.41 times as long when its pass is aborted and computed again, and 1.10 times when
    it is suspended.
    """)
    return


@app.cell(hide_code=True)
def _():
    Figure(ranks.arms_chart(), "Which arm helps the urgent request in every round, and at what price?")
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    In these cases preemption gains little or costs more than it gains:

    - **Short passes.** The gain is at most the rest of the pass. Chunks keep passes short; the post runs with
      chunked prefill switched off.
    - **No urgent request.** Every layer pays for the vote. The fork's comparison arm, without preemption, votes
      too, so its published comparison cannot show this cost.
    - **Late aborts**, as in your prediction. And an abort hits all prefills in the pass, urgent ones included.
    """)
    return


@app.cell(hide_code=True)
def _():
    after("l06.hangs", mo.md(f"""
    /// details | The race lab (optional): nine races between ranks, monitor and engine

    Each race replaces one piece of the engine by a wrong one (`nanogpt/preemption/races.py`). Ranks and monitor
    are held at named points, so the order is not left to luck. The table shows what was recorded. To run a race,
    put its name into `RACE` below and run the cell: it starts two processes for a few seconds, and a hang ends
    after 2 s by the timeout of the collective. Each race is a function of a few lines in
    `course/lesson_data/l06_races.py` and `l06_stage_ranks.py`, which show which thread is held where.

    {lab.cards()}

    Read the two that hang: the message names the rank that left, the rank that waits, and where. Without the
    timeout there would be no message, and the rank would wait for ever. After a timeout the group of ranks is of
    no further use, so the engine ends all ranks and says why.
    ///
    """))
    return


@app.cell
def _():
    RACE = None  # one of the names in the race lab's table, such as "leave_first"
    mo.md(lab.raced(RACE))
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## What you now know

    - Two ranks that read the same memory may read different values, and a rank that leaves by itself makes the
      other one hang. So each rank votes, and `all_reduce(MAX)` decides for all of them.
    - A message that names its step does no harm when it arrives late. A late boolean does, and no extra check
      repairs that.
    - An abort comes after scheduling, so the engine has to roll back everything that scheduling recorded:
      `running`, `waiting`, K/V and `previous_step`.
    - Suspending loses no work, but costs memory and needs a bound.
    - Preemption cut the urgent request's TTFT to a sixth. The long prefill's TTFT rose by 41 % with an abort,
      and by 10 % with suspension.

    ## The same in vLLM and SGLang

    Neither engine stops a running pass; a vote per layer exists only in forks.

    | here | vLLM | SGLang |
    |:--|:--|:--|
    | `Runner.run` calls every rank | `MultiprocExecutor` broadcasts each call (`rpc_broadcast_mq`) | rank 0 broadcasts the *requests*, and every rank runs the same scheduler |
    | a reply: done, left or failed | a status, `SUCCESS` or `FAILURE` | none: all ranks have to decide alike |
    | the inbox, read in mid-pass by the monitor | the input queue, read between two steps; `_process_aborts_queue` (`vllm/v1/engine/core.py`), after the pass | `recv_requests`, between two iterations |
    | `rollback_step`, after the pass was left | `_preempt_request`, inside `schedule` | `retract_decode`, before the batch runs |
    | a hang ends after 20 s (2 s in the race lab) | `VLLM_EXECUTE_MODEL_TIMEOUT_SECONDS`, 300 | `--watchdog-timeout`, 300 s |

    **How the control flow differs.** Our step has three ways out: the pass is done, it was left and is rolled
    back, or it is suspended while other steps run inside it. A second thread chooses while the pass runs. In
    vLLM and SGLang a pass that has begun always ends. What arrives meanwhile waits in a queue for the next
    `schedule`. With async scheduling, the default in both, that `schedule` may already have run: then the next
    step is fixed too, and an abort would have to roll back two steps.

    - **A rank that decides alone.** A comment in SGLang's scheduler says that all ranks must drop the same
      requests in the same iteration, or the collectives hang. NCCL's own watchdog waits 600 s: in
      [vLLM #8978](https://github.com/vllm-project/vllm/issues/8978) three of four ranks report that an
      `ALLREDUCE` ran for ten minutes.
    - **State rolled back in part.** In [SGLang #29405](https://github.com/sgl-project/sglang/pull/29405), with
      pipeline parallelism, an abort missed running requests in other microbatches.
    - **The post's fork** (branch `dev-treatment`): `slo_monitor.py` is the monitor, `preempt_check.py` the vote,
      `_handle_preemption` the rollback. It registers block hashes before the blocks are computed, and an abort
      does not remove them; its configurations switch prefix caching off.
    - **FlowPrefill** (Hsieh et al., [arXiv 2602.16603](https://arxiv.org/abs/2602.16603)) suspends and resumes,
      checks after attention and after the MLP, and agrees without a collective.

    *Checked against vLLM 0.33.0 and SGLang 0.5.23, November 2026.*

    ## What comes next

    Each request still has its K/V to itself, in a slot as long as the longest text.
    [Lesson 7](/?file=l07_blocks.py) cuts the memory into blocks and lets requests with the same beginning share
    them.
    """)
    return


if __name__ == "__main__":
    app.run()
