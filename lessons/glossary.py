import marimo

__generated_with = "0.25.2"
app = marimo.App(width="medium", app_title="Words · Serving NanoGPT")

with app.setup(hide_code=True):
    import marimo as mo


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    # Words

    What the lessons' words mean, one meaning each. [Back to the course's front page](/?file=index.py&view-as=present)

    ## Of one request

    **Request**: a prompt, and how many tokens it asks for.

    **Prefill**: computing the keys and values of known tokens, above all of the prompt. **Chunk**: the
    part of a prefill that one step computes.

    **Decode**: computing one new token of a request.

    **Oracle**: the plain and slow way to write a text, `generate()`: one request at a time, every token
    computed anew for each new one. Every faster way has to write the same text.

    **Greedy**: always the likeliest token. Otherwise a token is *sampled*: drawn at random from the
    model's probabilities.

    **TTFT**: time to first token, from the arrival of a request on. **ITL**: inter-token latency, the
    gap between two tokens of one request; some sources call it TBT. **TPOT**: time per output token,
    the mean of a request's gaps.

    **p50, p99**: half of all values lie below the p50, 99 of 100 below the p99. The **ITL p99** is what
    only one gap in a hundred exceeds.

    ## Of the engine

    **Step**: one iteration of the scheduler. Except where a lesson shows two, it is one forward pass
    of the model. Steps are numbered from 0; "after 3 steps" counts them.

    **Token budget**: the most tokens that one step may compute.

    **Static batching**: a batch stays together until its longest text is done. **Continuous batching**:
    what is done leaves after any step, and what waits takes its place.

    **Padded**: every request's new tokens in a row of their own, the shorter rows filled up.
    **Packed**: all of them in one flat row, with nothing filled up.

    **KV cache**: keys and values, *K/V*, that are kept so that they need not be computed again. **KV tokens**:
    for how many tokens a request holds them. **KV budget**: for how many all requests together may.

    **FCFS**: first come, first served; lesson 9 says FIFO, as its source does. **Admit**: let a waiting
    request in. **Preempt**: take the K/V of a running one away, to be recomputed later; its tokens are
    kept. That request is the **victim**.

    **Starvation**: one request waits for as long as others keep coming. **Ageing**: waiting improves
    its rank, which prevents that. **Livelock**: steps are computed, and no request gets on.

    **Sliding window**: a token sees only the last so many positions. **Sink**: one of the first
    positions, which stays visible all the same.

    **Slot**: room for the K/V of the longest text that there can be, kept for one request. (In lesson
    0 it is a place in the batch, and in lesson 4's ring the room of one token.) **Block**:
    room for the K/V of so many tokens in a row, 16 say; **block table**: which blocks hold a request's
    text, in its order. **Pool**: all blocks.

    **Prefix hit**: the beginning of a prompt whose K/V is there already, from another request. **Cached
    block**: a full one that can be found by its hash; when no table names it, it is free, and gives way
    when the room is needed. **Salt**: what goes into a hash besides tokens, since K/V depends on more.

    **Copy on write**: several tables name a block until one of them is to write it; that one gets a copy.

    **Draft**: a cheap guess at coming tokens, which the model then judges in one pass. **Accept**: keep a
    guessed token. **Target**: the model that judges, and whose text is wanted.

    **Retry-After**: a header of HTTP that goes with a refusal: after so many seconds it is worth asking
    again.

    **Server-sent event**: a piece of an answer that is sent while the rest is still being computed: a line
    that begins with `data:`, and an empty line.

    **Modelled**: said of times that a cost model gives, and no clock. They are the same on every
    machine.

    ## Of promises

    **Deadline**: when a request should have its first token, or, in lesson 9, its last. **Slack**: how long
    it can still wait and be in time. Below zero it is **doomed**: late even if it runs at once.

    **Candidate**: the waiting request for which a running one may be preempted. **Incumbent**: the running
    request that it is compared with.

    **SLO**: service-level objective, the promise of a service, such as a first token within 400 ms.
    **SLO attainment**: the share of requests that got what was promised. **Goodput**: how many requests
    per second are served within their promise. **Throughput** counts the others too, often in tokens.

    ## Of several processes

    **Tensor parallel**: one model on several devices, each with a part of every weight matrix.
    **Rank**: one of the processes that do this, and its number.

    **Collective**: an operation that all ranks must call together, such as `all_reduce`, which gives
    each of them the sum, or the largest, of what all of them brought. One that waits for a rank which
    never calls hangs. **NCCL** and **gloo** are libraries of collectives: for GPUs, and for CPUs.

    **Vote**: a collective by which the ranks agree to leave a pass at the same layer.

    **Watchdog**: what watches from outside whether something still moves, and ends it if it does not.

    **Microbatch**: a part of a batch that a pipeline sends through the model by itself.

    ## Of this course

    **The posts**: a series of articles and programs on serving a small GPT, from which this course
    grew: on chunked prefill, on scheduling, on interleaving, on sliding windows, on preempting a pass
    for a promise. Each lesson says which one it builds on.

    **Reference**: the course's own right answer, which runs wherever yours is not written yet.

    **Museum**: the part of a lesson called *Break it*. **Exhibit**: one real defect in it, found by its
    symptom, for you to repair.
    """)
    return


if __name__ == "__main__":
    app.run()
