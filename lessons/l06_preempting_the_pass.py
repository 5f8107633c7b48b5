import marimo

__generated_with = "0.25.2"
app = marimo.App(width="medium", app_title="6 · Preempting the pass")

with app.setup(hide_code=True):
    from collections.abc import Generator
    from dataclasses import replace
    from typing import TYPE_CHECKING

    import marimo as mo

    from course.attempt import attempt
    from course.prediction import after, hints, predict
    from course.task import task

    if TYPE_CHECKING:
        from nanogpt.preemption.scheduler_state import SchedulerState


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    # 6 · Preempting the pass

    *50 minutes; the race lab at the end is optional. Builds on lessons 5 (slack, scores, the choice of a victim)
    and 5b (batches, suspension). You write four functions.*

    Afterwards you can stop a forward pass that runs on several processes at once, without any of them
    waiting for ever, undo it without a trace, and say what it costs.

    ## The policy says preempt. Now what?

    In lesson 5 you decided which request gives way. Deciding is quick. What is to give way is a forward
    pass that has already begun, on several GPUs, and the engine's main thread is blocked until it comes
    back. How long is that? The author of this lesson's post, on preempting prefills for a promise in
    [a fork of vLLM](https://github.com/adiu19/vllm), measured a model of 70 billion parameters on four
    A100: so much per token, and so much per pass.
    """)
    return


@app.cell(hide_code=True)
def _():
    from course.lesson_data import l06_races as lab
    from course.lesson_data import l06_ranks as ranks
    from course.lesson_data import l06_stage as stage
    from widgets import SloCycle, VoteBoard, bar, whose

    return SloCycle, VoteBoard, bar, lab, ranks, stage, whose


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    | prompt, tokens | one pass | one of its 80 layers | in chunks of 512, at most | longest chunk, at most |
    |--:|--:|--:|--:|--:|
    | 242 | 76 ms | 1.0 ms | 76 ms | 76 ms |
    | 2,000 | 380 ms | 4.8 ms | 483 ms | 123 ms |
    | 7,986 | 1,416 ms | 17.7 ms | 1,928 ms | 123 ms |
    """)
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    (Modelled: the post's line, evenly spread over the model's layers. The line is a fit of TTFT, so a part of
    its 34 ms belongs to the request and not to the pass; "at most" charges all of it for every chunk.) A request of 242 tokens
    that arrives just after a prompt of 7,986 has begun waits more than a second for a first token that
    takes about a twentieth of that to compute.

    **Chunks** (lesson 1) are one answer: the urgent request runs between two of them. But every chunk pays
    the overhead of a pass again, whether an urgent request comes or not, and the wait is still a whole chunk.

    The other answer: the pass looks at every layer whether it is still wanted. That is the idea of
    **FlowPrefill**, the paper behind the post. A layer is short, and a glance is cheap. The rest
    of this lesson is about the glance.

    ### What computes a pass

    The model is spread over processes, one for each GPU, called *ranks*. Each rank computes a part of
    the heads and of the MLP, and twice in every layer all of them add up their parts in a *collective*,
    `all_reduce`. A collective is a meeting: no rank gets out before all have come.

    A rank may look just before attention. vLLM's forward pass is mostly compiled, and captured in *CUDA
    graphs*: recordings of GPU work, whose replay calls no Python. But in a batch with a prefill in it,
    attention stays outside the graphs, and there the pass comes up for air, once per layer. (A batch of
    decodes alone is one graph by default, and cannot be left.) In our engine the pass is a generator that
    yields there, and between two steps a rank may stop for good, or for a while:

    ```python
    for layer, weights in enumerate(shard.layers):
        q, k, v = weights.queries_keys_values(x)
        yield layer                      # the attention op: is this pass still wanted?
        x = x + reduce_attention(weights.project(attend(kv[:, layer], rows, q, k, v)))
        x = x + reduce_mlp(weights.mlp(x))
    ```

    Here is one preemption as it was recorded: two ranks, a model of 12 layers, a prefill of 1,400 tokens,
    and an urgent request of 24 that arrives in the middle of it.
    """)
    return


@app.cell(hide_code=True)
def _(SloCycle, ranks):
    SloCycle(
        ranks.story_of(ranks.recording()["experiment"], "vote, abort"),
        "An urgent arrival in mid-pass",
        source="recorded",
        question="Which process does what between the arrival and the urgent first token?",
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    The **engine thread** is blocked in the pass. The **monitor thread** looks at a frozen snapshot every
    5 ms, and at once when a request arrives. It writes one number to **shared memory**. The **ranks** read
    it at their next attention op, agree, and leave. The engine reads every reply, undoes the pass, and
    starts the waiter. You write the four places where this goes wrong. Before that, a question about the
    bill.
    """)
    return


@app.cell(hide_code=True)
def _():
    predict(
        "l06.late_abort",
        "A pass over a prompt of 7,986 tokens is aborted after layer 70 of 80, and computed again later. "
        "The rule is that a pass is let finish past 90 % of its layers. **How much work is lost?**",
        (
            "None: the K/V of 70 layers lies in the cache, and the pass goes on from there",
            "None: the rule forbids it, so late",
            "Nearly nine tenths of a pass, and the rule allows it",
            "An eighth of a pass",
        ),
        2,
        "70 of 80 layers are 87.5%, which is not more than 90 %. The K/V that these layers wrote is of "
        "no use: the next pass starts with the embeddings and computes every layer again, since what "
        "goes from layer to layer was thrown away. On the post's line that is 1,239 ms of work, to save "
        "the urgent request the 177 ms that were left. There is another way back, in 6.4.",
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## Build it

    Four functions: one reads, one agrees, one undoes, one decides how long a pass may sleep.

    ### Is it me that is meant?

    The first version in vLLM was a boolean: *preempt!* The monitor set it, the workers read it, the
    engine cleared it after every step. It looked right.

    Now think of a monitor that is a moment late. It looks at step 7, decides, and is put to sleep by the
    operating system. Step 7 ends. The engine clears the flag. The monitor wakes up and sets it. Step 8
    begins.

    No thread has made a mistake that it could have seen, and a lock over all three would stand on the
    path where every microsecond counts. The cure is smaller: **the message says what it means.** Not
    *preempt*, but *preempt step 7*. A number that only ever grows can be as late as it likes.
    """)
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
    ### Read, and then what?

    So a rank reads a number and knows. Why not just leave? Both ranks read the *same* eight bytes of
    memory, at the *same* layer, a moment apart.
    """)
    return


@app.cell(hide_code=True)
def _():
    predict(
        "l06.hangs",
        "Two ranks, one number in shared memory, **no vote**: a rank that reads that the pass is unwanted "
        "leaves. The number is written at any moment of the pass. How often does it hang?",
        (
            "Never: both read the same memory at the same layer",
            "Now and then, and seldom enough that a test may never see it",
            "Nearly always: no two processes do anything at the same moment",
        ),
        1,
        "It hangs when the number is written after one rank's glance and before the other's. Recorded on "
        "two cores, with a target written in every pass:\nNothing else started by us: 1 of 40 hung, 39 "
        "left together, 0 came too late.\nBeside two threads that compute: 1 of 40 hung, 27 left "
        "together, 12 came too late.\nBeside the same two threads, but with the vote that you write next: "
        "0 of 40 hung, 35 left together, 5 came too late.\nA prototype of this lesson, with other code, "
        "hung in 3 of 11. **A test that runs ten times and is green says nothing about it.** That is "
        "what makes it a race.",
    )
    return


@app.cell(hide_code=True)
def _():
    after(
        "l06.hangs",
        mo.md(r"""
    One rank has left, and the other waits for it in the sum. So what a rank has read is not a decision. It
    is an opinion, and it takes a collective of its own to make a decision out of opinions:
    `all_reduce(MAX)` over the votes. One rank's 1 makes all leave, at the same attention op.
    """),
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    Write what one rank does at one attention op, move by move, as a generator. Each `yield` is a move, and
    the scheduler that plays the ranks decides whose turn it is. No processes are needed for that, so it can
    try one order after the other, and a rank that waits for ever is found at once.
    """)
    return


@app.cell(hide_code=True)
def _():
    task("l06.preemption_point")
    return


@app.function
def preemption_point(vote: int) -> Generator[tuple, int, None]:
    """Yield what one rank does at one attention op, move by move; `vote` is what it wants, 0 or 1."""
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
    Your two functions on a stage: step 7 over 8 layers, two ranks, and the target is written between their
    two glances at layer 3, when rank 1 has just looked.
    """)
    return


@app.cell(hide_code=True)
def _(VoteBoard, point_attempt, stage, vote_attempt):
    after(
        "l06.hangs",
        VoteBoard(
            stage.boards(vote_attempt, point_attempt),
            "The target is written between two glances at layer 3",
            question="Only one rank has seen it. Why do both leave, or why does one wait for ever?",
        ),
    )
    return


@app.cell(hide_code=True)
def _():
    after(
        "l06.hangs",
        mo.md(r"""
    Look at layer 3 with the vote: rank 0 votes 1, rank 1 votes 0, and both leave. The votes were
    different. The decision was not.
    """),
    )
    return


@app.cell(hide_code=True)
def _():
    after(
        "l06.hangs",
        mo.md(r"""
    /// details | Two cheaper ways to agree, and what all three cost

    Every layer of every pass pays for that meeting, also of the many passes that are not interrupted. Two
    cheaper ways are behind the same interface (`nanogpt/preemption/agreement.py`):

    - **carried**: the attention output is summed over the ranks anyway, so the vote rides along as one more
      number. The answer is known one layer later.
    - **epoch**: no collective at all. The first rank to see the target writes into shared memory *at which
      preemption point all leave*: the next one. No rank can be past it yet: to come to point *n + 1*, it has
      to get through the sums of layer *n*, and those wait for the rank that stands there and writes. This is
      FlowPrefill's own way.

    | recorded, median of 7 | agreeing, per layer | the whole pass | from the write to both replies |
    |:--|--:|--:|--:|
    | no monitor, no vote | nothing | 605 ms (523 to 704) |  |
    | vote | 2,535 µs | 561 ms (497 to 641) | 36 ms (10 to 42) |
    | carried | 23 µs | 586 ms (500 to 836) | 71 ms (63 to 99) |
    | epoch | 24 µs | 601 ms (540 to 620) | 79 ms (36 to 89) |

    Two processes on a shared machine of two cores, gloo (PyTorch's collectives for CPUs), 1,400 tokens, 12
    layers. Agreeing includes waiting for the slower rank. Twelve votes are less than the passes differ among
    themselves; the cheaper ways leave one layer later, and that is their price.
    ///
    """),
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ### Rolling back an aborted step

    The ranks have left, but the scheduler's state still records a step that was aborted. Lesson 2 had
    preemptions too, when K/V ran out. Those were decided *inside* scheduling, before the scheduler recorded
    which requests run in this step. This one comes afterwards.
    """)
    return


@app.cell(hide_code=True)
def _():
    task("l06.rollback_step")
    return


@app.function
def rollback_step(state: "SchedulerState", aborted: list[int], waiter: int | None) -> "SchedulerState":
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
def _(rollback_attempt, stage):
    mo.md(
        "Requests 2 and 8 were in the pass, which was aborted for request 3; request 6 was decoding "
        "beside them.\n\n" + stage.state_table(rollback_attempt)
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ### No pass sleeps for ever

    Aborting throws work away. The paper does not abort: it **suspends**. Our pass is
    a generator, so a rank simply stops stepping it and keeps it, the K/V written so far and the hidden state
    between two layers. Later it is stepped on. Nothing is computed twice.

    It costs two things. The K/V of the sleeper stays where it is, while another request needs room. And a
    sleeper can be forgotten: there is always another urgent request. An open proposal for vLLM that suspends
    prefills had to learn this ([#44794](https://github.com/vllm-project/vllm/pull/44794)): under sustained
    load *a checkpointed prefill never resumes*. Mean TTFT was 449.84 ms without it, **969.43 ms** with it,
    and 411.73 ms once a suspension had a bound.
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
    """Return what becomes of a suspended pass now: "stay_suspended", "resume" or "abort"."""
    raise NotImplementedError("Exercise 6.4: stay_suspended, resume or abort")


@app.cell(hide_code=True)
def _():
    fate_attempt = attempt("l06.resume_or_abort", lambda: resume_or_abort)
    fate_attempt
    return (fate_attempt,)


@app.cell(hide_code=True)
def _():
    hints("l06.resume_or_abort")
    return


@app.cell(hide_code=True)
def _(bar, fate_attempt, stage, whose):
    def _line():
        found = stage.slept_ms(fate_attempt)
        if found is None:
            return "`resume_or_abort` gave no answer here; the check above says more."
        slept, way = found
        if way == "stay_suspended":
            return bar([0.0, 1.0], "sleeps on: it was asked 16 times and never came back")
        return bar([0.0, slept / 3600, stage.PASS_MS / 3600], f"sleeps {slept:,} ms, then: {way}")

    mo.md(
        "A suspended pass of 400 ms, bound 3, is asked every 200 ms, and urgent requests come without end. "
        f"By {'your `resume_or_abort`' if fate_attempt.started else whose(False)}:\n\n{_line()}"
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## The real thing, on this machine

    Now without a stage. Two processes, each with its half of a model with random weights (what a pass costs
    does not depend on what the model has learnt). They measure how long a pass takes, and lesson 5's line is
    fitted to it. Then the same two requests in two *arms*, without a monitor and with one: a prefill of 1,400 tokens,
    and after a fifth of its time an urgent request of 24, promised its first token within half a pass.

    Your `rollback_step` undoes the pass once it has passed its check. `local_vote` and `preemption_point` run inside the
    ranks, which cannot import a notebook, so there it is the reference that votes. The processes are gone when
    the cell is done, also when you interrupt it.
    """)
    return


@app.cell
def _(ranks, rollback_attempt):
    HERE = True  # False: show the recording and start no process

    real, source, where = ranks.run_here(HERE, rollback_attempt)
    return real, source, where


@app.cell(hide_code=True)
def _(ranks, real, where):
    mo.md(ranks.measured_here(real, where))
    return


@app.cell(hide_code=True)
def _(SloCycle, ranks, real, source):
    SloCycle(
        ranks.story_of(real, "vote, abort"),
        "The same preemption, thread by thread",
        source=source,
        question="From the write to the last reply: what takes the time?",
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## Break it

    Two real defects of the version in vLLM. Both were
    staged here with real processes that are held at named points, so that the bad order happens every time.

    ### Exhibit A: the engine that dies after a success

    The first preemption in vLLM worked perfectly. All workers left, K/V was freed, the victim was back in
    the queue. The next step killed the engine, by an assertion in code that had nothing to do with
    preemption. In our engine:
    """)
    return


@app.cell(hide_code=True)
def _(ranks):
    _state = ranks.recording()["races"]["state"]
    mo.md(f"> {_state['wrong']}\n\nWith one line put right: *{_state['right']}.*")
    return


@app.cell(hide_code=True)
def _():
    predict(
        "l06.exhibit_a",
        "The wrong line leaves the victim in `previous_step`, and the scheduler asserts that it admits none "
        "that stands there. Suppose that the urgent request runs alone first, and the victim is admitted "
        "**a step later**. Does the engine die then?",
        (
            "Yes: the victim stands there until something takes it out",
            "Yes, unless its K/V has been released by then",
            "No: the step between has written it anew, and nothing shows",
            "No, but the victim's text comes out wrong",
        ),
        2,
        "Tried with the same wrong line: the urgent request, then the victim, no error, and every text right, "
        "since K/V and tokens were in order all along. `previous_step` holds the newest step alone, so the "
        "defect shows only if the victim comes straight back. A test with a busy queue is green. The old "
        "path, for lack of memory, runs before it is written (in vLLM `prev_step_scheduled_req_ids`), so it "
        "never had to mend it. Reusing a path that works means inheriting the moment at "
        "which it runs.",
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ### Exhibit B: preempted for nothing

    Now and then a prefill is aborted although no request is waiting. No error, every text is right; one of
    them only waited longer than it had to. Held at the right point it happens every time:
    """)
    return


@app.cell(hide_code=True)
def _(ranks):
    _late = ranks.recording()["races"]["late_write"]
    mo.md(f"> {_late['wrong']}.\n\nWith the piece put right: *{_late['right']}.*")
    return


@app.cell(hide_code=True)
def _():
    predict(
        "l06.exhibit_b",
        "It is the boolean of 6.1: decided in step 3, written after the engine had cleared it. "
        "**Which repair lets a boolean do?**",
        (
            "The engine clears it once more, as each step begins",
            "The monitor looks once more, right before it writes, whether step 3 still runs",
            "Both of them together",
            "None of these",
        ),
        3,
        "**None.** Between the last look and the write there is always a gap, and a thread can be put to "
        "sleep in it for as long as the operating system likes: step 4 begins, clears the flag, and then it "
        "is set. Each repair makes that rarer, so that no test meets it any more. A target that names its "
        "step can arrive at any time: step 4 reads 3 and goes on. The same mistake is left in one corner of "
        "the published version: the queue for its cheaper, scheduler-level preemption carries bare request "
        "ids.",
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## Measure it, including where it loses

    All five arms, recorded in one run, interleaved: each round tries every arm once, so that a busy moment
    of the machine hits no arm alone. (*carried* and *epoch* are cheaper ways to agree than the vote.)
    """)
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    The pass over 1,400 tokens took 699 ms; 7 rounds, medians, lowest to highest.

    | arm | urgent request: TTFT | promise kept | long prefill: TTFT | left at layer | write to both replies |
    |:--|--:|--:|--:|--:|--:|
    | no preemption | **499 ms (447 to 591)** | 0 of 7 | 604 ms (547 to 694) |  |  |
    | vote, abort | **82 ms (67 to 134)** | 7 of 7 | 850 ms (806 to 929) | 3 to 4 of 12 | 36 ms (10 to 42) |
    | carried, abort | **130 ms (107 to 172)** | 7 of 7 | 878 ms (826 to 1067) | 3 to 4 of 12 | 71 ms (63 to 99) |
    | epoch, abort | **126 ms (85 to 162)** | 7 of 7 | 845 ms (765 to 1185) | 3 to 4 of 12 | 79 ms (36 to 89) |
    | vote, suspend | **78 ms (59 to 139)** | 7 of 7 | 664 ms (573 to 969) | 1 to 4 of 12 | 26 ms (18 to 59) |

    The urgent request's TTFT is ×0.17 of what it was without preemption. The long prefill pays: ×1.41
    when its pass is aborted and computed again, ×1.10 when it is suspended.
    """)
    return


@app.cell(hide_code=True)
def _(ranks):
    from course.figure import Figure

    Figure(ranks.arms_chart(), "Which arm helps the urgent request in every round, and at what price?")
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    - **Short passes.** The most that can be won is what is left of the pass. Where chunks keep passes short
      anyway, there is little left to win; the post runs with chunked prefill switched off.
    - **No request is urgent.** The vote is paid at every layer of every pass that may be preempted. The
      fork's comparison arm, without preemption, votes too, so its published comparison cannot show what the
      vote costs.
    - **Late aborts.** Your first prediction. And a victim is not one request: the pass is aborted for all
      prefills in it, also for those that were urgent themselves.
    - **A promise too short.** If the urgent request itself can no longer make it, the policy of lesson 5 is
      right to call it doomed, and its own pass may then be taken from it.
    - **The wrong policy.** A mechanism that stops a pass within a layer makes a bad policy fast. Lesson 5b
      showed it: a monitor that sees arrivals, without the other repairs, made attainment *worse*.
    """)
    return


@app.cell(hide_code=True)
def _(lab):
    after(
        "l06.hangs",
        mo.md(f"""
    /// details | The race lab (optional): nine races between ranks, monitor and engine

    Each swaps one piece of the engine for a wrong one (`nanogpt/preemption/races.py`), everything else as in
    service. Ranks and monitor are held at named points, so the order is not left to luck. What stands here was
    recorded. To run one, put its name in `RACE` below and run the cell: two processes, a few seconds, and a
    hang ends after 2 s by the collective's own timeout. Each race is a function of a few lines in
    `course/lesson_data/l06_races.py` and `l06_stage_ranks.py`; open one to read which thread is held where.

    {lab.cards().replace(chr(10), chr(10) + "    ")}

    Read the two that hang: the message names the rank that left, and the rank that waits, and where. Without
    the timeout it would say nothing, for ever. And a group in which a collective has timed out is of no further
    use: the engine ends all ranks and says why.
    ///
    """),
    )
    return


@app.cell
def _(lab):
    RACE = None  # one of the names in the race lab's table, such as "leave_first"
    mo.md(lab.raced(RACE))
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## How production engines do it

    - **FlowPrefill** (Hsieh et al., [arXiv 2602.16603](https://arxiv.org/abs/2602.16603)) suspends and
      resumes, reschedules only on arrivals and completions, and agrees without a collective. It checks after
      attention and after the MLP, so twice per layer. Its abstract reports up to 5.6 times the goodput
      (requests per second served within their promise) of the systems it compares with.
    - **The post's variant in vLLM** (branch `dev-treatment`): `v1/core/sched/slo_monitor.py` is the monitor,
      `v1/core/sched/preempt_check.py` the vote, `_handle_preemption` in `v1/engine/core.py` the rollback, and
      a `PREEMPTED` status in `multiproc_executor.py` what tells a preempted rank from a crashed one. It aborts
      and recomputes.
    - **What the post does not say**, and its code shows: the input queue is drained only between steps, so
      the monitor cannot see an arrival in mid-pass, for which it was built. A running request is charged for its whole
      prompt. Block hashes are noted before the blocks are computed and an abort leaves them, so with prefix
      caching on, others could read what was never computed; its configurations switch that off. Its published
      result is the null result of lesson 5.
    - **vLLM itself** preempts between steps, for lack of K/V, and recomputes. Against long passes it cuts
      prompts into chunks. #44794 above is one proposal to stop inside a chunk.

    And the hang is out there:

    - [vLLM #8978](https://github.com/vllm-project/vllm/issues/8978): of four ranks, three report that their
      first `ALLREDUCE` ran for ten minutes before the watchdog, which looks from outside whether anything
      still moves, ended it. That is the default in PyTorch for NCCL, the collectives between GPUs, since
      [#110947](https://github.com/pytorch/pytorch/pull/110947); for gloo it is half an hour. Ours is 20 s.
    - [SGLang #29405](https://github.com/sgl-project/sglang/pull/29405): with a pipeline, an abort missed
      requests that were *in flight* in other parts of the batch: state that has to be rolled back part by part.

    ## What comes next

    The engine can now leave a pass in the middle and come back to it. Its memory is still as it was on the
    first day: each request has its K/V to itself, in a slot as long as the longest text that there can be.
    [Lesson 7](/?file=l07_blocks.py) cuts the memory into blocks, and lets requests that begin alike share them.
    """)
    return


if __name__ == "__main__":
    app.run()
