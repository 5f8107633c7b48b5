import marimo

__generated_with = "0.25.2"
app = marimo.App(width="medium", app_title="10 · Your engine, served")

with app.setup(hide_code=True):
    import inspect
    import textwrap
    from typing import TYPE_CHECKING

    import marimo as mo
    import torch

    from course.attempt import attempt, exhibit, piece, with_attempts
    from course.engine_loop import engine_loop
    from course.figure import Figure
    from course.lesson_data import l10_clients as clients
    from course.lesson_data import l10_exhibits as exhibits
    from course.lesson_data import l10_load as load
    from course.lesson_data import l10_served as serving
    from course.prediction import after, hints, predict
    from course.saved_answers import load_policies
    from course.task import task
    from nanogpt import Engine, EngineConfig, load_model
    from nanogpt.clock import WallClock
    from nanogpt.server import ServerPolicies
    from nanogpt.server.engine_thread import EngineThread
    from widgets import Timeline

    if TYPE_CHECKING:
        from typing import Any

        from nanogpt.server.server_policies import AdmissionLimits, NewRequest, QueueView


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    # 10 · Your engine, served

    *45 minutes. Builds on lessons 1 and 2, and uses the functions that you wrote in every lesson. You
    write three functions.*

    Afterwards you can

    - serve your engine over HTTP, so that `curl` and OpenAI's clients stream from it,
    - decide which requests a server admits, which text it may send, and what it does when a client
      disconnects,
    - measure goodput and p99 TTFT against the request rate, and find the load that an engine can take,
    - go from a symptom in production to the metric that shows it, and from there to the cause.

    ## How much load can your engine take?

    So far your engine was given a list of requests. Real clients connect over HTTP whenever they like.
    Some read slowly, some disconnect in the middle of a sentence, and together they may send more than
    the engine can serve. How much can it take, and what should a server do with the rest?

    The diagram shows the way of a request through the server, and where your three functions run:

    ```text
    clients <== HTTP ==> event loop (uvicorn, Starlette)
                            |                  ^
    10.1 admission_control  |                  |  10.2 stream_delta
    10.3 on_disconnect      | commands         | text
                            v                  |
                        SimpleQueue --> engine's thread: Engine.step, again and again
    ```

    The cells below build one engine from all your functions that passed their checks, in every lesson.
    Where one is missing, the course's reference stands in. The engine calls some of them only under a
    setting that you may add: `executor="fused"` for lesson 3, `sliding_window=48` for lesson 4,
    `block_size=16, share_prefixes=True` for lesson 7. Then a server starts on 127.0.0.1, answers one request and stops. You
    see the answer as `curl` prints it.
    """)
    return


@app.cell
def _():
    settings = EngineConfig(token_budget=32, max_kv_tokens=400, max_batch_size=4, keep_steps=2_000)
    earlier = load_policies("l10_capstone")  # every answer that you passed, checked once more
    model = load_model(dtype=torch.float64)

    def make_engine():
        return Engine(model, settings, earlier.policies, clock=WallClock())

    return earlier, make_engine


@app.cell(hide_code=True)
def _(make_engine):
    mo.Html(serving.curl_answer(make_engine))
    return


@app.cell(hide_code=True)
def _():
    mo.md(rf"""
    Your engine wrote the `text` in the last lines. Everything around it comes from the server, which the
    rest of this page is about.

    ## From a socket to a step

    The server has two threads. The **event loop** talks to all clients and never computes. The **engine's
    thread** runs steps and never touches a socket. Submit and abort are commands in a queue, and the
    engine's thread carries them out only **between two steps**. So no other thread touches the engine,
    and the server needs no lock. This is the whole loop, from `nanogpt/server/engine_thread.py`:

    ```python
    {textwrap.dedent(inspect.getsource(EngineThread._run)).rstrip()}
    ```

    `_carry_out` takes commands until the next step is due, and sleeps while there is nothing to serve.
    `_step` calls `Engine.step`, which you see below. Its marked line records which request got which
    tokens. The server then turns new tokens into text and sends it as *server-sent events*: a line
    `data: {{...}}` and an empty line. In this lesson you decide which requests get into this loop, which
    text goes out after the marked line, and when an abandoned request leaves.
    """)
    return


@app.cell(hide_code=True)
def _():
    engine_loop("self.recorder.record(")
    return


@app.cell(hide_code=True)
def _():
    predict(
        "l10.leaver",
        "A client disconnects while a step computes. Its request holds the K/V of about 30 tokens. **When "
        "may another request use this memory?**",
        (
            "At once: nobody reads the text any more",
            "When the step is over",
            "When the whole text has been generated",
            "When a timeout has passed",
        ),
        1,
        "When the step is over, a matter of milliseconds. This request is in the step's batch, so the step "
        "reads and writes its K/V to the end. Freeing this K/V earlier is a defect, which you will see "
        "below. Freeing it later is one too: nobody reads the text, and each further step for it takes time "
        "from the other requests.",
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## Which requests does the server admit?

    A queue without a limit turns nobody away. But when requests arrive faster than the engine serves them,
    each one waits longer than the one before it, and soon every user gives up before the answer comes. So
    a server limits the number of unfinished requests, and answers each request beyond the limit with
    status **429**, too many requests. The header `Retry-After` says after how many seconds to try again,
    and clients such as OpenAI's wait that long.

    A good estimate of these seconds brings a client back when there is a place for its request. A place
    becomes free when one of the running requests finishes, and the running requests share the engine's
    throughput.
    """)
    return


@app.cell(hide_code=True)
def _():
    task("l10.admission_control")
    return


@app.function
def admission_control(
    queue: "QueueView", limits: "AdmissionLimits", request: "NewRequest"
) -> str | tuple[int, int | None]:
    """Return "accept", or an HTTP status and after how many seconds to retry."""
    raise NotImplementedError("Exercise 10.1: is the request admitted, and if not, when to retry?")


@app.cell(hide_code=True)
def _():
    admission_attempt = attempt("l10.admission_control", lambda: admission_control)
    admission_attempt
    return (admission_attempt,)


@app.cell(hide_code=True)
def _():
    hints("l10.admission_control")
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## Which text may be sent now?

    In our model a token is one character. In most models a token is a few bytes, and it may end in the
    middle of a character: *é* has two bytes and 😀 has four, and a model may generate the bytes of one
    character as two tokens, in two steps. A client cannot take back text that it has shown.

    A step gives a request one token, or several accepted drafts, or, after a preemption, tokens that the
    client may have already. So the tokens of the last step do not tell you what to send. You need the
    text of all tokens, and the number of characters that were sent.
    """)
    return


@app.cell(hide_code=True)
def _():
    task("l10.stream_delta")
    return


@app.function
def stream_delta(committed: list[bytes], sent: int, is_done: bool) -> list[str]:
    """Return the events to send now: one text, or none."""
    raise NotImplementedError("Exercise 10.2: which text is new and complete?")


@app.cell(hide_code=True)
def _():
    delta_attempt = attempt("l10.stream_delta", lambda: stream_delta)
    delta_attempt
    return (delta_attempt,)


@app.cell(hide_code=True)
def _():
    hints("l10.stream_delta")
    return


@app.cell(hide_code=True)
def _(delta_attempt):
    mo.md(serving.stream_table(delta_attempt))
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## What happens when a client disconnects?

    A client may disconnect at any moment: while its request waits, between two steps, during a step, or
    after the request has ended. Each further step for this request would take time and KV tokens from
    requests whose clients still read. But a step that is running reads the K/V of every request in its
    batch.
    """)
    return


@app.cell(hide_code=True)
def _():
    task("l10.on_disconnect")
    return


@app.function
def on_disconnect(state: "dict[str, Any]", request_id: int) -> "dict[str, Any]":
    """Return the server's state after the client of this request has disconnected."""
    raise NotImplementedError("Exercise 10.3: what happens to its request?")


@app.cell(hide_code=True)
def _():
    disconnect_attempt = attempt("l10.on_disconnect", lambda: on_disconnect)
    disconnect_attempt
    return (disconnect_attempt,)


@app.cell(hide_code=True)
def _():
    hints("l10.on_disconnect")
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## Your engine serves six clients

    Now the server has your engine and your three functions. Six clients send their requests at the same
    moment, over real sockets, to a server in a process of its own. The engine runs at most four requests
    at a time. Every text is compared with that of the oracle, the slow loop of lesson 0.
    """)
    return


@app.cell
def _(admission_attempt, delta_attempt, disconnect_attempt, make_engine):
    attempts = {
        "admission_control": admission_attempt,
        "stream_delta": delta_attempt,
        "on_disconnect": disconnect_attempt,
    }
    policies = with_attempts(ServerPolicies(), attempts)
    served = clients.serve_calls(make_engine, policies, [clients.Call(*line) for line in serving.LINES])
    return attempts, policies, served


@app.cell(hide_code=True)
def _(attempts, earlier, served):
    mo.md(serving.whose_policies(attempts, earlier) + " " + serving.clients_table(served))
    return


@app.cell(hide_code=True)
def _(attempts, served):
    Timeline(
        served.trace.to_json(),
        yours=any(each.started for each in attempts.values()),
        title="Six clients, as the engine behind the socket saw them",
        question="What do the last two requests wait for?",
        start=4,
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    The clients measured the times in the table just now, on the engine's machine. The timeline has the
    engine's own times, without HTTP.

    **Twelve clients, and a limit of five.** `max_requests` is 5, and twelve clients send a request at the
    same moment:
    """)
    return


@app.cell(hide_code=True)
def _(make_engine, policies):
    mo.md(serving.overload_table(make_engine, policies))
    return


@app.cell(hide_code=True)
def _(make_engine, policies):
    after("l10.leaver", mo.md(f"""
    **A client that disconnects.** Four clients want 60 tokens each, and one disconnects after five events. The
    engine computes its request only until the server notices, a few tokens later:

    {serving.disconnect_table(make_engine, policies)}
    """))
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    **Your own `curl`.** This server runs until its cell runs again or the page's kernel ends. It listens
    on 127.0.0.1, and any client of OpenAI's API on this machine can use it. `python -m nanogpt.server` is
    the same server in a terminal, with the reference's policies. With `learn.py --model FOLDER`, this
    server serves a small Llama 3 or Qwen3 with your policies (`docs/llama.md`).
    """)
    return


@app.cell
def _(make_engine, policies):
    standing_server = serving.standing(make_engine, policies)
    standing_server
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## Break it

    Each of two exhibits puts a function with a defect into the real server or the real engine. Look at
    the symptom, decide what is broken, and then **repair the function in its cell**. The run below it
    uses your repair.

    ### Exhibit A: the same text twice

    Four clients send requests, and the KV budget is so small that two requests are preempted. In this
    engine a preempted request resumes with its prompt only, and generates the same tokens again.
    <span data-yours="exhibit"></span>
    """)
    return


@app.function
def send_newest_token(committed, sent, is_done):
    """Return the events to send now: the last token."""
    if is_done or not committed:
        return []
    return [committed[-1].decode()]


@app.cell(hide_code=True)
def _():
    mo.md(exhibits.sent_twice(piece(lambda: send_newest_token)))
    return


@app.cell(hide_code=True)
def _():
    predict(
        "l10.kept_tokens",
        "Our engine usually keeps the generated tokens of a preempted request (lesson 2). The same four clients, "
        "the same function, and an engine that does. **What do the two preempted clients read?**",
        (
            "The same: the engine computes those tokens again",
            "Their texts once and whole",
            "A text with a gap: tokens are computed again and not sent",
            "One token twice: the last one before the preemption",
        ),
        1,
        "Their texts, once and whole. A request that keeps its tokens computes their K/V again, but it samples "
        "none of them twice, so the newest token is always new to the client. No test with this engine finds the "
        "defect. Count the characters that were sent and send the text after them.",
    )
    return


@app.cell(hide_code=True)
def _():
    after("l10.kept_tokens", exhibit("A", "l10.stream_delta", lambda: send_newest_token))
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ### Exhibit B: K/V freed during a step

    Three requests run in one batch. In the middle of a forward pass the client of request 1 disconnects.
    Now `free_at_once` is called and returns a state. The engine immediately aborts each request that is
    missing from the `running` of this state.
    <span data-yours="exhibit"></span>
    """)
    return


@app.function
def free_at_once(state, request_id):
    """Return the state after a client has disconnected: its request and its K/V are gone."""
    waiting = [other for other in state["waiting"] if other != request_id]
    running = {other: kv for other, kv in state["running"].items() if other != request_id}
    return {**state, "waiting": waiting, "running": running}


@app.cell(hide_code=True)
def _():
    mo.md(exhibits.freed_in_mid_step(piece(lambda: free_at_once)))
    return


@app.cell(hide_code=True)
def _():
    predict(
        "l10.freed_block",
        "This step ends with an error, because our cache finds K/V by the id of its request. Another engine's step "
        "already has its block table (lesson 7) when it begins, and a freed block goes to the next request that "
        "needs one. **What do users of that engine see?**",
        (
            "The same error, a step later",
            "Nothing: nobody reads the text of a request whose client has left",
            "Now and then a wrong text, of a request that has nothing to do with it",
            "Wrong texts of all requests in this batch",
        ),
        2,
        "The step goes on writing the K/V of the aborted request into a block that may belong to another request "
        "by then. No error is raised, and that request's text is wrong. Requests 0 and 2 have blocks of their own. "
        "So put the id into `leaving`, and free its K/V when the step is over.",
    )
    return


@app.cell(hide_code=True)
def _():
    after("l10.freed_block", exhibit("B", "l10.on_disconnect", lambda: free_at_once))
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## The load sweep: from a request rate to goodput

    How much load can an engine take? A load generator sends requests at some rate, counts those that meet
    their SLO, and then raises the rate. **Goodput** is the number of requests per second that meet their
    SLO. Here the SLO is a TTFT of at most 500 ms. It needs no limit for the time between tokens, because
    the token budget keeps every step below 20 ms.

    - **Open loop:** requests arrive at a given rate, whatever the server does. Many independent users send
      requests like this.
    - **Closed loop:** there is a fixed number of clients, and each sends its next request when it has the
      answer to its previous one. So a closed loop never sends more requests per second than the server
      completes.

    Each point of the sweep is a run of 240 requests with prompts of 256 to 768 tokens and 8 to 40 new
    tokens, on the modelled large GPU. Open-loop arrivals are Poisson. A batch has at most 16 requests.
    """)
    return


@app.cell(hide_code=True)
def _():
    predict(
        "l10.knee",
        "This engine completes about 52 requests per second. Now **60** arrive per second in an open loop, "
        "and the engine's queue has no limit. How many requests per second get their first token within "
        "500 ms?",
        (
            "About 52: the engine is always busy",
            "About 45: a little overload costs a little goodput",
            "About 30: half of the requests wait too long",
            "Fewer than 2",
        ),
        3,
        "**1.5 per second.** Every second, 8 more requests arrive than the engine completes, and the queue "
        "grows as long as this goes on. Soon every request waits for more than 500 ms. The engine is as busy "
        "as before, but nearly all of its answers come too late.",
    )
    return


@app.cell(hide_code=True)
def _(policies):
    after(
        "l10.knee",
        Figure(
            load.load_chart(load.limited(policies.admission_control)),
            "Up to which request rate does goodput equal that rate?",
        ),
    )
    return


@app.cell(hide_code=True)
def _():
    after("l10.knee", mo.md(r"""
    - **The knee is near 50 requests/s.** Up to there, goodput equals the rate. Beyond it, goodput without
      a limit falls to 1.5 requests/s at a rate of 60, and to 0 at 80.
    - **With `admission_control`** and at most 32 unfinished requests, goodput is 51 requests/s at a rate
      of 60, and 52 at 80. The p99 TTFT of the served requests stays at about 430 ms. The other requests
      get a 429 at once and can go to another server.
    - **The closed loop hides the overload.** Its rate stops near 52 requests/s, however many clients it
      has. With 64 clients every request misses the SLO, and the rate is still 52.

    The first 80 requests of a run arrive while the server fills up, so they are a **warm-up** and are not
    counted. The **p99** of the other 160 is the TTFT of the second slowest. At 50 requests/s, ten arrival
    patterns gave p99s from 145 to 691 ms, so compare several seeds before you believe a p99.

    For a real server, `vllm bench serve --request-rate 50 --goodput ttft:500` is the open loop, and
    `--max-concurrency 16` without a rate is the closed loop. Add `--num-warmups`, which is 0 by default.
    """))
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## What are your policies worth?

    A correct text also has to arrive in time. The course has a contest for that: engines with different
    policies, its *entries*, serve four recorded workloads on the modelled clock. An SLO promises a time
    for each token, and an entry scores the requests whose **every** token was in time. The last row of
    the table is a number that **no schedule can exceed**; `docs/contest.md` has the proof.
    """)
    return


@app.cell
def _(earlier):
    rounds = serving.played(earlier)
    mo.md(serving.contest_table(rounds, earlier))
    return (rounds,)


@app.cell(hide_code=True)
def _(rounds):
    Figure(
        serving.contest_chart(rounds),
        "From which request on do the entries differ?",
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    **The report card** has two numbers for each of your policies: how many requests it gains over the
    reference's policy if all other policies are the reference's, and how many if all others are yours.
    """)
    return


@app.cell(hide_code=True)
def _(earlier):
    mo.md(serving.card_table(earlier))
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    A zero is no failure: most exercises have one right behaviour, which the reference has too. Good engines
    differ in *which request goes first* and *how much of a prompt goes into which step*: `priority_key`,
    `plan_step`, `choose_victim`. Write yours into `work/contest.py` and play in a terminal:

    ```text
    python3 learn.py contest
    ```

    The bound shows where a better policy may be possible. In the workload *urgent*, seed 0, the bound
    is all 32 requests, and an entry in `docs/contest.md` reaches it: its `plan_step` takes the shortest
    prompt first, and its other policies are the reference's.

    ## What HTTP costs

    The table compares the server with the bare engine, both with the same prompts and with PyTorch on one
    thread. A ratio of 1.08 means 8 % more time.

    | clients | events | time relative to the bare engine | CPU time relative to the bare engine |
    |--:|:--|--:|--:|
    | 1 | every step | 1.06 | 1.06 |
    | 1 | every&nbsp;20&nbsp;ms | 1.00 | 1.01 |
    | 8 | every step | 1.08 | 1.07 |
    | 8 | every&nbsp;20&nbsp;ms | 1.03 | 1.02 |
    | 32 | every step | 1.08 | 1.05 |
    | 32 | every&nbsp;20&nbsp;ms | 1.08 | 1.07 |

    Medians of nine interleaved repeats on two cores of a shared machine. Single repeats were between 0.7
    and 1.4, so the second decimal says little (`docs/benchmarks/serving.md`).
    """)
    return


@app.cell(hide_code=True)
def _():
    predict(
        "l10.http_share",
        "With 32 clients and an event for every step, HTTP adds 8 % to the time of our model, most of it "
        "the JSON of the tokens. Another model takes ten times as long for each step. **How much does HTTP "
        "add there**, with as many clients and tokens?",
        ("80 %", "8 %", "About 1 %", "Nothing"),
        2,
        "About 1 %. A token's JSON costs the same whatever the model, so HTTP takes as long as before, and "
        "the steps take ten times as long: 0.8 % of the time.",
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    By default the server gathers the text of 20 ms into one event; the first token and the end of a text
    are sent at once. Fewer events are less work, and a user does not see the difference. vLLM has the
    same option, `--stream-interval`, counted in tokens.

    **Where HTTP costs more.** The smaller the model, the larger HTTP's share. Your functions cost time too. Each
    call gets copies of its arguments, and `stream_delta` is called for every token of every client.

    /// details | A runbook: from symptom to metric to cause

    This table lists the exhibits of the course as you would meet them in production. The names are vLLM's
    metrics; our server has the same ones at `/metrics`.

    | symptom | look at | likely cause | lesson |
    |:--|:--|:--|:--|
    | All texts pause now and then | tail of `inter_token_latency_seconds`, `iteration_tokens_total` | A long prompt is prefilled in one step: set a smaller token budget | 1 |
    | The engine is busy, and no request finishes | `num_preemptions` rises, `request_success` does not | Livelock: requests preempt each other in turns | 2, 5 |
    | Some requests never start | tail of `request_queue_time_seconds` | Starvation under priorities without ageing | 2b |
    | A user reads another user's text | the same prompt with a batch of one | Sampled tokens are returned in the wrong order | 3 |
    | A text changes with its batch | logits in float32 and in float64 | If the difference is as large in float64: padding takes part in attention. If it shrinks: rounding | 3, 3b |
    | Out of memory, and the scheduler sees free room | the allocator's bytes beside `kv_cache_usage_perc` | Evicted K/V is still referenced, or not counted | 4 |
    | Urgent requests are late although others are preempted | attainment per class, wasted work | Wrong margin or stale costs in the SLO policy | 5, 5b |
    | All ranks hang | the last step of each rank | One rank left a collective | 6 |
    | Wrong texts, but only on prefix hits | `prefix_cache_hits`, and a run without sharing | A hash without its parent or salt, or a block freed too early | 7 |
    | Slower with drafts than without | `spec_decode_num_accepted_tokens` over `_num_draft_tokens` | Low acceptance, or a batch that is compute-bound already | 8 |
    | One worker is full, the others idle | `num_requests_running` of each worker | Routing by prefix hits only | 9 |
    | Texts repeat themselves | `num_preemptions`; texts longer than `max_tokens` | The server sends the tokens of a step, new or not (exhibit A) | 10 |
    | � in texts that are not English | the bytes of the tokens | Tokens are decoded one by one | 10 |
    | Load without traffic | `num_requests_running` beside open connections | The engine computes for clients that disconnected | 10 |
    | TTFT grows without end, tokens/s stay the same | `num_requests_waiting`, `request_queue_time_seconds` | The rate is beyond the knee, and the queue has no limit | 10 |
    | Errors or wrong texts after a disconnect | aborts and errors over time | K/V freed while a step uses it (exhibit B) | 10 |
    ///

    ## What you now know

    - One thread owns the engine and takes commands between two steps, so a server needs no lock and frees
      K/V only when no step uses it.
    - A server sends the text that the client lacks, decoded from all bytes, however often a token was
      computed.
    - An engine takes load up to its knee, here about 50 requests/s. Beyond it, a queue without a limit
      takes goodput to zero. A server that refuses the surplus at once keeps the goodput of the knee.
    - A closed loop never sends more than the server completes, so only an open loop shows an overload.
      A p99 needs a warm-up, many requests and several seeds.
    - HTTP costs about a tenth of the time on this small model, and less on a larger one.

    ## The same in vLLM and SGLang

    | here | vLLM | SGLang |
    |:--|:--|:--|
    | event loop | API server processes, `--api-server-count` | `--tokenizer-worker-num`, `--detokenizer-worker-num` |
    | `EngineThread._run` | `EngineCoreProc.run_busy_loop`, a process of its own | `Scheduler.event_loop_overlap`, a process of its own |
    | `admission_control`: 429 | 503 beyond `--max-num-queued-reqs` or `--max-num-queued-tokens`; no limit by default | 503 beyond `--max-queued-requests`; no limit by default |
    | `on_disconnect` | `with_cancellation`, then `AsyncLLM.abort`; aborts that arrive during a step wait for its end | `abort_request`; also `POST /abort_request` |
    | the load sweep | `vllm bench serve` with `--request-rate`, `--max-concurrency`, `--goodput` | `sglang.bench_serving`, the same flags |

    - **How the control flow differs: async scheduling.** Our loop waits for the result of a step before it schedules the next one. vLLM
      does not: since 0.14 ([#27614](https://github.com/vllm-project/vllm/pull/27614)) async scheduling
      is the default, and `step_with_batch_queue` schedules the next batch before the last result is back,
      with placeholders for tokens that are not sampled yet. So a stop is noticed one step late, and
      one surplus token may be computed and dropped. SGLang's overlap loop does the same.
    - **Queue limits came late.** vLLM's waiting queue had no limit for years
      ([#18826](https://github.com/vllm-project/vllm/issues/18826));
      [#49445](https://github.com/vllm-project/vllm/pull/49445) added `--max-num-queued-reqs`, which counts
      waiting and running requests, as yours does.

    /// details | These defects in real engines
    - **Half a character.** [exo #1691](https://github.com/exo-explore/exo/pull/1691) and
      [vllm-mlx #109](https://github.com/waybarrios/vllm-mlx/pull/109) decoded tokens one by one; an emoji
      and the Czech ď revealed it. In [sglang #31598](https://github.com/sgl-project/sglang/issues/31598)
      the count of sent characters went **back** while a character was unfinished, so a finished one was
      sent twice.
    - **Counted twice after a preemption.**
      [inference-sim #1091](https://github.com/inference-sim/inference-sim/issues/1091) counted tokens
      that were computed again, so its throughput looked better.
    - **Computing after a disconnect.** [sglang #36552](https://github.com/sgl-project/sglang/pull/36552):
      in a session whose client had left, the request ran to its last token, and its text appeared in the
      next turn.
    - **Freed during a step.**
      [vllm-ascend #14055](https://github.com/vllm-project/vllm-ascend/issues/14055): with several steps in
      flight, a request that ends, is aborted or is preempted can free its blocks while a step still uses
      them.
    ///

    *Checked against vLLM 0.33.0 and SGLang 0.5.23, November 2026.*

    ## What comes next

    The sentence above the six clients' table counts the policies that are yours. Once it counts all of
    them, every decision about a request that `curl` sends is made by a function that you wrote. Lesson 11
    shows where a step's time goes when all decisions are right. You can also read vLLM's
    `vllm/v1/core/sched/scheduler.py`, serve GPT-2's weights (`docs/gpt2.md`), or play the contest against
    a friend.

    [Back to the course's front page](/?file=index.py&view-as=present)
    """)
    return


if __name__ == "__main__":
    app.run()
