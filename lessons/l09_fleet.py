import marimo

__generated_with = "0.25.2"
app = marimo.App(width="medium", app_title="9 · Serving with a fleet")

with app.setup(hide_code=True):
    import heapq
    from dataclasses import replace

    import marimo as mo

    from course.attempt import attempt, piece
    from course.engine_loop import engine_loop
    from course.figure import Figure
    from course.lesson_data import l09_fleet as fleet
    from course.lesson_data import l09_measured as measured
    from course.lesson_data import l09_routing as routing
    from course.prediction import after, hints, predict
    from course.task import task
    from nanogpt.fleet.simulation import simulate
    from nanogpt.views.fleet_views import FleetSnapshot, WorkerView
    from widgets import FleetView, LazyHeap


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    # 9 · Serving with a fleet

    *65 minutes, 20 of them for exercise 9.4, which can wait for another day. Builds on lessons 2b
    (queues, ageing), 7 (prefix hits) and 8 (speculation). You write four functions.*

    You will be able to keep a priority queue in which a request can change its key or be removed,
    route each request to the worker that finishes its prefill first, do so with loads that are old,
    and judge from many seeds whether a feature pays.

    ## Which request goes next, and to which worker?

    One engine cannot keep up, so four of them run side by side. They are called *workers*, and each
    has a batch of 32, 2,048 KV tokens and a prefix cache of its own. All requests arrive at one queue
    in front of them. Each request has a priority from 0, the highest, to 9, and a deadline for its
    last token. Whenever a request waits and a worker has room, the fleet's scheduler decides:
    **which request goes next, and to which worker?**

    The fleet is simulated on a virtual clock. **All times are modelled** unless the text says
    otherwise, with one cost model: `CALIBRATED_COST`, worked out for a model of 1.2 billion
    parameters on one data-centre GPU (`docs/costs.md`).
    A simulated worker is simpler than the engine that you know: it computes whole prompts, and no
    decode shares a step with a prompt. It reserves K/V for prompt and output when a request is sent
    to it.

    In the picture each lane is a worker. Its prefills are hatched, and the decode steps of its batch
    are blue. The queue is drawn above the lanes. Step from event to event with the arrows, or press
    **Next trouble**.
    """)
    return


@app.cell
def _():
    rush = fleet.rush()  # 60 requests per second for 10 s
    by_arrival = simulate(fleet.ORDERS["by arrival, others may pass"], rush)
    return by_arrival, rush


@app.cell(hide_code=True)
def _(by_arrival):
    FleetView(
        by_arrival.to_json(),
        "60 requests per second, in order of arrival (modelled)",
        zoom=3,
        question="How long is the queue when four workers cannot keep up?",
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    60 requests arrive per second, and the four workers finish 44. Three requests of ten have priority
    8 or 9. A request for which no worker has room lets the requests behind it pass.
    """)
    return


@app.cell(hide_code=True)
def _():
    predict(
        "l09.overload",
        "The same 609 requests arrive again, but now the queue is ordered by priority and then by "
        "deadline. **What happens to the time to first token (TTFT)?**",
        (
            "The median and the 99th percentile both improve",
            "The median improves, the 99th percentile gets worse",
            "The median gets worse, the 99th percentile improves",
            "Little: the same workers compute the same tokens",
        ),
        1,
        "The median falls from 1,404 ms to **38 ms**, and the 99th percentile rises from 3,655 ms to "
        "**7,784 ms**. The workers can serve seven requests of ten, and these are now the ones with "
        "priorities 0 to 7, so the request in the middle hardly waits. All waiting falls on the "
        "rest. A team that only looks at medians ships this.",
    )
    return


@app.cell(hide_code=True)
def _(rush):
    after(
        "l09.overload",
        mo.vstack(
            [
                mo.md(fleet.orders_table(rush)),
                mo.md(r"""
    *Times in ms; the last three columns show the median and the longest TTFT of a class.* Each row
    changes one thing of the row before:

    - **Others may pass.** In strict order of arrival, the first request blocks all others while no
      worker has room for it. That is *head-of-line blocking*.
    - **By priority** saves most deadlines here, and starves the lowest class.
    - **Ageing** bounds the starvation, as in lesson 2b. The key is `arrival + ageing_us * priority`,
      with 1 s and then 250 ms per level. Ageing does not improve the TTFT: the less a level is worth,
      the nearer the result comes to the order of arrival. All requests age at one rate, so two waiting
      requests never change places, and no key in the queue has to be updated.

    So far all runs had one seed, 42. Was it a lucky one? In the next picture each seed is a pair of
    runs with the same load, joined by a line.
    """),
            ]
        ),
    )
    return


@app.cell(hide_code=True)
def _():
    after(
        "l09.overload",
        Figure(measured.order_by_seed(), "Is this change better or worse? Look at both panels."),
    )
    return


@app.cell(hide_code=True)
def _():
    after("l09.overload", mo.md(r"""
    By priority, the median falls in all 10 seeds, and the 99th percentile rises in all 10. Each mean
    difference is far from chance: -1,587 ms (95 % interval -1,774 to -1,401) and +5,161 ms (+4,745 to
    +5,576). A report that shows only one of the two metrics misleads. Both are recorded;
    `lessons/data/fleet.md` says how.
    """))
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## A priority queue whose requests change

    Each worker runs a loop. Its marked line chooses among the requests that the worker already has. The
    fleet's scheduler works before that line.
    """)
    return


@app.cell(hide_code=True)
def _():
    engine_loop("self.scheduler.schedule(")
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    A heap of *n* requests, ordered by a key such as `(priority, deadline)`, gives the smallest key in
    O(log *n*). But a waiting request may get another key, or its client disconnects. Finding its entry
    in the middle of a heap means searching the whole heap, so the queue does not search. **The old
    entry stays in the heap, and the pop recognizes later that it is stale** (*lazy deletion*). Each
    request has a counter, its *generation*. Every push increments it, and an entry carries the
    generation that it was pushed with:

    ```python
    def push(heap, newest, request_id, key):
        newest[request_id] = newest.get(request_id, 0) + 1
        heapq.heappush(heap, (key, request_id, newest[request_id]))
    ```

    An entry is live if its generation is the newest one of its request. To change a key, push the
    request again.

    ### Exhibit A: a removed request is served first

    What does a removal do? AdaXL's scheduler forgets the request, as the function below does. In the
    picture, the client of request 5 disconnects. Then it sends the request again with priority 6, behind
    all others. Step to the end, find out what is wrong, then **repair the function in its cell**.
    <span data-yours="exhibit"></span>
    """)
    return


@app.function
def newest_after_removal(newest, request_id):
    """The newest generations after this request was removed from the queue."""
    newest = dict(newest)
    newest.pop(request_id, None)  # it has left: nothing to remember
    return newest


@app.cell(hide_code=True)
def _():
    revived_story = fleet.second_morning(piece(lambda: newest_after_removal))
    LazyHeap(
        revived_story,
        "Exhibit A: which request is popped first?",
        question="Which request is popped first, and should it be?",
    )
    return (revived_story,)


@app.cell(hide_code=True)
def _():
    predict(
        "l09.exhibit_a",
        "Request 5 is popped first, although its valid key is the last of all. **What is broken?**",
        (
            "After the removal the list is no heap any more",
            "The push should have searched for the old entry and deleted it",
            "The removal forgot the generation, so the next push starts at 1 again",
            "The pop compares priorities and ignores deadlines",
        ),
        2,
        "Request 5's old entry has generation 1. The removal deleted the counter, the next push "
        "started at 1 again, and now **two** entries are live. The smaller key wins, and it belongs "
        "to the removed request. AdaXL's README says that generations prevent exactly this. A "
        "generation must never go down: a removal increments it, as a push does. That costs one "
        "integer per request.",
    )
    return


@app.cell(hide_code=True)
def _(revived_story):
    after(
        "l09.exhibit_a",
        mo.md(
            "**Repaired.** All requests leave in the order of their keys."
            if fleet.in_turn(revived_story)
            else "**Still broken.** A removed request is popped by its old key."
        ),
    )
    return


@app.cell(hide_code=True)
def _():
    task("l09.pop_live")
    return


@app.function
def pop_live(
    heap: list[tuple[tuple, int, int]], newest: dict[int, int]
) -> tuple[int | None, list[tuple[tuple, int, int]]]:
    """Return `(request_id, heap)`: the first live request, and the heap after its pop."""
    raise NotImplementedError("Exercise 9.1: pop from a heap with stale entries")


@app.cell(hide_code=True)
def _():
    pop_attempt = attempt("l09.pop_live", lambda: pop_live)
    pop_attempt
    return (pop_attempt,)


@app.cell(hide_code=True)
def _():
    hints("l09.pop_live")
    return


@app.cell(hide_code=True)
def _(pop_attempt):
    LazyHeap(
        fleet.morning(pop_attempt),
        "A queue with your pop_live"
        if pop_attempt.started
        else "A queue with the reference (your pop_live is not written yet)",
        question="A request has two entries: which one counts?",
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## Routing: which worker finishes the prefill first?

    A worker that still has the K/V of a prompt's beginning need not compute it again: a *prefix hit*.
    The simulator [AdaXL/adaptive-llm-scheduler](https://github.com/AdaXL/adaptive-llm-scheduler), from
    which this lesson's policies come, gives each worker that has room a score. The highest score wins:

    `10 · hit tokens − 100 · utilisation + 0.1 · free KV tokens + 0.5 · free slots`

    Utilisation is the share of the batch in use here. (AdaXL takes the fullness of the prefix cache,
    which is full most of the time.)
    """)
    return


@app.cell(hide_code=True)
def _():
    predict(
        "l09.score",
        "One worker has 33 tokens of the prompt in its cache and 31 of its 32 slots in use. Another "
        "has no hit and is **idle**. Each has 2,048 KV tokens; the busy one has 100 of them free. "
        "Which one wins by this score?",
        (
            "The idle one: 100 points for utilisation are a lot",
            "The busy one: 33 tokens are 330 points, more than everything else together",
            "Neither: the scores are equal",
        ),
        1,
        "The busy one, with **244 against 221 points**. On the modelled GPU a token takes 13 µs, "
        "so 33 tokens take less than half a millisecond. Points have no unit, so the bad trade "
        "was not noticed.",
    )
    return


@app.cell(hide_code=True)
def _():
    after(
        "l09.score",
        FleetView(
            simulate(
                replace(routing.ROOMY, routing="source"), routing.one_system_prompt()
            ).to_json(),
            "150 requests with one system prompt, by AdaXL's score (modelled)",
            zoom=2,
            question="Requests wait in the queue: which workers are idle?",
        ),
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    Use one unit instead. A worker's *backlog* is the number of prompt tokens that it still has to
    compute, and a hit is a number of tokens that it need not compute.
    """)
    return


@app.cell(hide_code=True)
def _():
    task("l09.route")
    return


@app.function
def route(workers: list[WorkerView], hits: dict[int, int]) -> int:
    """Return the `id` of the worker that finishes the prefill of a request first."""
    raise NotImplementedError("Exercise 9.2: the worker that finishes the prefill first")


@app.cell(hide_code=True)
def _():
    route_attempt = attempt("l09.route", lambda: route)
    route_attempt
    return (route_attempt,)


@app.cell(hide_code=True)
def _():
    hints("l09.route")
    return


@app.cell(hide_code=True)
def _(pop_attempt, route_attempt):
    mo.md(routing.routing_table(pop_attempt, route_attempt))
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    Only the number of system prompts differs between the two tables, and how much K/V each worker has.

    - **One system prompt.** Each worker computes it once, and then all workers have it. *Each worker in
      turn* does as well as anything clever, and the score does worse: it fills one worker before it
      tries the next.
    - **Twelve system prompts.** No cache holds all of them beside the running requests. In turn, each
      worker meets all twelve and keeps evicting them. By hit, each prompt finds a worker that has its
      beginning, and the median TTFT is a third. Here the score does as well as backlog minus hit.

    So routing by prefix pays when there are more prefixes than one worker can keep, and counting in one
    unit pays when there are fewer.

    ## What if the loads are old?

    So far the router saw every worker's load of this moment. A real router gets *reports*. Let each
    worker report its backlog every 50 ms. A request with 700 tokens and no hit arrives every 4.5 ms, and
    takes 9.1 ms to compute. Nothing else changes: `route` sends it to the smallest backlog.
    """)
    return


@app.cell(hide_code=True)
def _():
    predict(
        "l09.herd",
        "With loads of this moment, the median TTFT of these requests is 11 ms. With reports of every "
        "50 ms, about 11 requests arrive between two reports. **What is the median TTFT then?**",
        (
            "About 11 ms: over a second, each worker still gets a quarter of the requests",
            "About 40 ms: the requests between two reports queue at one worker",
            "It grows from second to second: one worker gets all requests",
        ),
        1,
        "**43 ms.** Until the next report, the worker with the smallest backlog stays the one with the "
        "smallest backlog, so all 11 requests go to it. The tenth waits for nine prompts of 9.1 ms, "
        "less the time between the arrivals: about 45 ms. With the next report another worker is "
        "chosen. This is called *herding*. The totals do not show it: over 200 requests, no worker gets "
        "more than three of ten.",
    )
    return


@app.cell(hide_code=True)
def _():
    by_reports = routing.by_old_reports(None)
    after(
        "l09.herd",
        FleetView(
            by_reports.to_json(),
            "200 requests without a common prefix, by reports of every 50 ms (modelled)",
            zoom=4,
            question="Which worker gets the next requests, and for how long?",
        ),
    )
    return (by_reports,)


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    More frequent reports help, but each costs a message per worker. The router knows something better:
    what it has sent itself. From the last report and its own requests it can work out when each worker
    will be done.
    """)
    return


@app.cell(hide_code=True)
def _():
    task("l09.busy_until")
    return


@app.function
def busy_until(
    reported_us: int, backlog: int, sent: list[tuple[int, int]], us_per_token: int
) -> int:
    """Return the moment at which a worker has computed all prompt tokens that it was sent."""
    raise NotImplementedError("Exercise 9.3: when is the worker done?")


@app.cell(hide_code=True)
def _():
    busy_attempt = attempt("l09.busy_until", lambda: busy_until)
    busy_attempt
    return (busy_attempt,)


@app.cell(hide_code=True)
def _():
    hints("l09.busy_until")
    return


@app.cell(hide_code=True)
def _(busy_attempt, by_reports):
    after(
        "l09.herd",
        mo.vstack(
            [
                mo.md(routing.reports_table(by_reports, busy_attempt)),
                mo.md(r"""
    The reports are as old as before, and the herd is gone. The estimate leaves out decode steps and the
    overhead of a step; the next report corrects it. On the load with twelve system prompts, old reports
    hardly change the median, because most requests go to the worker that has their beginning; they
    change the 99th percentile.
    """),
            ]
        ),
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ### A real worker

    So far all times were modelled. This is measured: two processes, each with an engine and the
    Shakespeare model, and a router that calls `route`. A worker keeps its K/V in shared blocks of 16
    tokens. After every step it sends the router the hashes of the blocks that it added and evicted (*KV
    events*), so the router knows each worker's hits.
    """)
    return


@app.cell
def _():
    RUN = False  # True starts two processes and measures here: a minute or so

    Figure(measured.hit_chart(*measured.two_workers(RUN)), "How much TTFT does a prefix hit save?")
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    A hit of n tokens saves the computation of exactly n tokens. The TTFT falls to the fixed cost of a
    step and of the two pipes between router and worker. Only whole blocks can hit, and the last token
    of a prompt is always computed, because its logits are needed.

    ## Break it: a comparison with FIFO

    The *adaptive* fleet has the features of this lesson and three more: *urgency* (a request that is
    about to miss its deadline is boosted by two levels), *preemption* of running requests, and
    speculation. Is it better than FIFO? This comparison looks careful: the same loads, five seeds, and
    a baseline in which the compared features are switched off.

    ```python
    baseline = replace(
        ADAPTIVE, name="FIFO", order="fifo", urgency="off", ageing_us=None,
        preemption_gap=None, routing="round_robin",
    )
    ```

    The second row has the same comparison with `nanogpt.fleet.fleet_config.FIFO`. The load is 20
    requests per second for 10 s.

    | baseline | median TTFT, adaptive minus baseline | mean ITL, adaptive minus baseline |
    |:--|--:|--:|
    | this baseline | -0.3 ms | +8 µs |
    | `FIFO` | -1.2 ms | -1,066 µs |
    """)
    return


@app.cell(hide_code=True)
def _():
    predict(
        "l09.baseline",
        "Against this baseline the adaptive fleet gains next to nothing. Against `FIFO`, each further "
        "token comes a millisecond earlier. **What is wrong with this baseline?**",
        (
            "It has fewer workers",
            "It still has the prefix cache and speculation",
            "It stops at the first request in line when that one does not fit",
            "It gets other arrivals",
        ),
        1,
        "`replace` changes what it names: `prefix_cache` and `speculation` are as in `ADAPTIVE`. A "
        "baseline that is made by switching features off keeps every feature that was forgotten. "
        "AdaXL's published baseline has both features too, and its table prints a literal `0.0%` for "
        "its prefix hits. Build a baseline up from nothing, and print what was measured.",
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## How much does each feature gain?

    Here the whole adaptive fleet is compared with the same fleet without one feature. The table shows
    the feature's mean effect over six paired seeds. Negative is better, and improvements are bold.
    *0*: identical in all pairs. *Noise*: the 95 % interval contains 0.
    """)
    return


@app.cell(hide_code=True)
def _():
    after("l09.overload", mo.md(r"""
    | feature | 20/s: median TTFT | 60/s: median TTFT | 60/s: 99th percentile | burst: deadlines missed |
    |:--|--:|--:|--:|--:|
    | order by priority | 0 | **-1.1 ms** | noise | **-11.1 points** |
    | ageing | 0 | noise | noise | +13.7 points |
    | urgency | 0 | noise | noise | **-10.1 points** |
    | preemption | 0 | noise | noise | noise |
    | routing by backlog | noise | **-0.3 ms** | noise | noise |
    | prefix cache | **-0.4 ms** | **-0.6 ms** | noise | noise |
    | speculation | noise | **-1,418.3 ms** | **-3,769.1 ms** | **-18.4 points** |

    - **While no request waits, no queue order changes anything.** That is so at 20 requests per second.
    - **Speculation** lets the fleet keep up with 60 requests per second. Every other row of these
      columns has speculation, so hardly any request waits there.
    - In the burst (200 requests per second), **order by priority** and **urgency** save deadlines.
      **Ageing** costs some: a request that has waited long is often late already.
    - **Preemption improves no column**: busy workers have to compute every victim's tokens again.
    """))
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## A contest: your own policy

    One function makes all decisions: which request goes to which worker now? You see a snapshot of the
    fleet, return one request and one worker, and are called again until you return `None`. You need not
    match the reference. You are scored on attainment, over loads that you cannot see, because **one
    load proves nothing**: a policy that was tuned on it may win there by luck. This exercise can wait
    for another day. (`python3 learn.py contest` is the same idea for the policies of one engine.)
    """)
    return


@app.cell(hide_code=True)
def _():
    task("l09.my_policy")
    return


@app.function
def my_policy(snapshot: FleetSnapshot) -> tuple[int, int] | None:
    """Return `(request_id, worker_id)`: which request goes to which worker. None ends the round."""
    raise NotImplementedError("Exercise 9.4: which request goes where next?")


@app.cell(hide_code=True)
def _():
    policy_attempt = attempt("l09.my_policy", lambda: my_policy)
    policy_attempt
    return (policy_attempt,)


@app.cell(hide_code=True)
def _():
    hints("l09.my_policy")
    return


@app.cell(hide_code=True)
def _(policy_attempt):
    practice_run = routing.practice(policy_attempt)
    if isinstance(practice_run, str):
        practice = mo.md(practice_run)
    else:
        practice = FleetView(
            practice_run.to_json(),
            "A practice load, with your my_policy (modelled)"
            if policy_attempt.started
            else "A practice load, with FIFO: your my_policy is not written yet (modelled)",
            zoom=1,
            question="**Next trouble**: which request is late, and which one was served before it?",
        )
    practice
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## What you now know

    - A heap with lazy deletion changes and removes requests without searching. It needs generations
      that never go down.
    - Order by priority improves the median and worsens the tail. Ageing bounds the wait of the lowest
      class, and moves both towards the order of arrival.
    - Route by backlog minus hit, both in tokens. Routing by prefix pays when there are more prefixes
      than one worker can keep.
    - Loads that are old make requests herd. A router that counts what it has sent does not need newer
      reports.
    - Judge a feature by paired seeds, by more than one metric, and against a baseline that was built
      up from nothing.

    ## The same in vLLM and SGLang

    | here | vLLM | SGLang |
    |:--|:--|:--|
    | router | `vllm-router`: `cache_aware` (default), `kv_aware`, `power_of_two`, `consistent_hash` … | SMG, which began as SGLang's router and now serves vLLM too: `cache_aware` (default), `least_load`, `prefix_hash` … |
    | KV events | `--kv-events-config` (off by default), `vllm/config/kv_events.py` | `--kv-events-config`, `BlockStored` and `BlockRemoved` in `srt/disaggregation/kv_events.py` |
    | balancing inside one server | `DPLBAsyncMPClient`: fewest waiting and running requests; ignores prefix hits | `--load-balance-method` |
    | queue by priority | `--scheduling-policy priority`: a heap, lower value first, no ageing | `--enable-priority-scheduling`: higher value first; preempts at a gap of more than 10 (`--priority-scheduling-preemption-threshold`) |

    **How the control flow differs.** Here a request waits in front of the workers until one has room, and only
    then is its worker chosen. By default these routers choose at once: the request goes to an engine, waits in
    that engine's queue, and the choice cannot be taken back. Some have a queue in front as an option:

    | router | a request waits in front of the engines | in which order |
    |:--|:--|:--|
    | `vllm-router`, SMG | while `--max-concurrent-requests` are under way in the whole fleet (no limit by default); up to `--queue-size` wait, the others get a 429 | of arrival; in SMG with `--priority-scheduler-enabled` by class |
    | [llm-d](https://github.com/llm-d/llm-d-router) | while the engines are saturated, with the feature gate `flowControl` (off by default) | by priority, then of arrival or by deadline |
    | NVIDIA Dynamo | while every engine still has more than `--router-queue-threshold` × its token budget to prefill (off by default since 1.4) | of arrival, shifted by priority; or the shortest prefill first |

    - **`cache_aware`** takes the longest match if it covers more than `--cache-threshold` of the prompt. When the
      loads of all workers differ too much, the least loaded worker gets the request. That is two modes and a
      switch; yours is one formula, because hit and backlog have one unit. SMG learns what each worker has from KV
      events, or guesses it from what it sent. `kv_aware` looks at loads only when no engine has a hit.
    - **llm-d** adds weighted scores, as AdaXL does: the hit, the queue, the K/V in use. It reads each engine's
      metrics every 50 ms, and it can count the requests that it has sent.
    - **Dynamo** (`--router-mode kv`) and
      [Ray Serve](https://docs.ray.io/en/master/serve/llm/user-guides/kv-aware-routing.html) are closest to yours:
      they add the prefill work that is left and the worker's active work, and choose the smallest sum.
    - **Mooncake** ([arXiv 2407.00079](https://arxiv.org/abs/2407.00079)) estimates the TTFT of each prefill
      instance from its queue and the hit, and *copies* hot prefixes to other instances.
    - **Ageing** was proposed for vLLM ([#20608](https://github.com/vllm-project/vllm/pull/20608)), in a heap by
      `priority - factor * (now - inserted)`. It was closed without being merged.

    Production engines and routers have had two of this lesson's defects:

    - **Hotspot.** [vllm-project/router #179](https://github.com/vllm-project/router/issues/179): one path did not
      count the load, so one engine of eight served all of 480 concurrent requests until its KV memory was full.
      [production-stack #1035](https://github.com/vllm-project/production-stack/pull/1035): routing only by hits
      sends all requests with a hot prefix to the one engine that has it.
    - **Starvation.** [SGLang #31954](https://github.com/sgl-project/sglang/issues/31954), since closed: longest
      matched prefix first (`lpm`), without ageing. The median TTFT was 0.7 s, and requests without a hit waited
      20 to 60 s: 5 % of the requests had 75 % of all the waiting.

    *Checked against vLLM 0.33.0, SGLang 0.5.23, vllm-router 0.1.17 and SMG 1.13.0, November 2026; queues in front
    of the engines in the code of August 2026 (vllm-router 0.1.15) and in Dynamo 1.7's documentation.*

    ## What comes next

    In [lesson 10](/?file=l10_capstone.py) one engine with everything that you have built serves a real
    endpoint. You write the decisions of its server, and clients that other people wrote call it.
    """)
    return


if __name__ == "__main__":
    app.run()
