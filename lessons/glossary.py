import marimo

__generated_with = "0.25.2"
app = marimo.App(width="medium", app_title="Glossary · Serving NanoGPT")

with app.setup(hide_code=True):
    import marimo as mo


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    # Glossary

    What the terms of the lessons mean. [Back to the course's front page](/?file=index.py&view-as=present)

    ## Requests and tokens

    **Request**: a prompt, and the most new tokens that may be generated for it.

    **Prefill**: computing the K/V of tokens that are known already, usually those of the prompt.

    **Chunk**: the tokens of a prefill that one step computes.

    **Decode**: computing the next token of a request; one token per step.

    **Greedy**: choosing the likeliest token. **Sampling** draws a token at random from the model's
    probabilities instead.

    **Maximum model length** (`max_model_len`): the most tokens, prompt and generated ones together,
    that the model can process in one sequence. The shipped model can process 512.

    **Context length** (`context_len`): how many tokens of a request were computed before this step.

    **Abort**: end a request before it is finished, because its client has left or because of an
    error.

    ## Time

    **TTFT**: time to first token, counted from the request's arrival.

    **ITL**: inter-token latency, the time between two consecutive tokens of a request.

    **TPOT**: time per output token, the mean ITL of one request.

    **p50, p99**: percentiles. Half of all values are at most the p50, and 99 of 100 at most the
    p99.

    **Throughput**: tokens or requests per second, whether or not they were in time.

    **Modelled**: computed by a cost model instead of measured by a clock. Modelled times are the
    same on every machine; `docs/costs.md` lists the cost models.

    ## The engine

    **Step**: one iteration of the engine: schedule, one forward pass, sample, update. Where a
    lesson uses two forward passes per step, it says so. Steps are numbered from 0.

    **Scheduler**: the part of the engine that decides which requests a step computes, and how many
    tokens of each.

    **Token budget**: the most tokens that one step may compute.

    **Batch**: the requests that a step computes together.

    **Batch slot**: the place of one request in the batch.

    **Static batching**: a batch stays together until its longest request is finished.

    **Continuous batching**: a finished request leaves the batch after any step, and a waiting
    request takes its slot.

    **Padded**: each request has a row of the batch, and shorter rows are filled up with padding.

    **Packed**: the tokens of all requests are in one flat row, without padding.

    **FCFS**: first come, first served. Lesson 9 calls it FIFO, as its source does.

    **Admit**: move a waiting request into the batch.

    **Preempt**: take a running request out of the batch and free its K/V, which is recomputed
    later. The preempted request, the **victim**, keeps its tokens.

    **Starvation**: a request waits for as long as others keep arriving.

    **Ageing**: raising the priority of a request with its waiting time, which prevents starvation.

    **Livelock**: the engine computes steps, but no request makes progress.

    ## K/V memory

    **KV cache**: the keys and values (*K/V*) of computed tokens, stored so that they are not
    computed again.

    **KV tokens**: how many tokens' K/V a request holds.

    **KV budget** (`max_kv_tokens`): the most KV tokens that all requests together may hold.

    **KV slot**: memory for the K/V of one request with the maximum model length.

    **Sliding window**: a query attends only to the most recent tokens, and to the sinks.

    **Sink**: one of the first tokens of a text, which stays visible under a sliding window.

    **Rolling buffer**: storage of a window in which a new token's K/V overwrites the K/V that has
    left the window.

    **Block**: memory for the K/V of a fixed number of consecutive tokens, 16 for example.

    **Block table**: the list of a request's blocks, in the order of its tokens.

    **Block pool**: all blocks, used and free.

    **Evict**: remove K/V that no running request needs: tokens outside a window, or cached blocks.

    **Cached block**: a full block that can be found by its hash. If no block table contains it, it
    is free and may be evicted.

    **Prefix hit**: the beginning of a prompt whose K/V is found in cached blocks.

    **Host tier**: copies of blocks in host memory, which a request may **load** into the pool.

    **Write-through**: copying a block to the host tier as soon as it is full.

    **Salt**: an addition to the hash of a block, so that only requests with the same salt share it.

    ## Speculative decoding

    **Draft**: a cheap guess of the next tokens, which the model verifies in one forward pass.

    **Target**: the model that verifies drafts, and whose distribution the output must have.

    **Accept**: keep a draft token. **Rejection sampling** decides which draft tokens to accept.

    ## Deadlines and SLOs

    **SLO**: service-level objective, what a service promises, such as a first token within 400 ms.

    **SLO attainment**: the share of requests that met their SLO.

    **Goodput**: requests per second that met their SLO.

    **Deadline**: the moment at which a request should have its first token; in lesson 9, its last.

    **Slack**: how much longer a request can wait and still meet its deadline.

    **Doomed**: with negative slack: the request misses its deadline even if it runs at once.

    **Candidate**: the waiting request for which a running one may be preempted.

    **Incumbent**: the running request that the candidate is compared with.

    ## Several processes

    **Tensor parallelism**: several devices compute one model; each holds a part of every weight
    matrix.

    **Rank**: one of these processes, and its number.

    **Collective**: an operation that all ranks must call, such as `all_reduce`, which gives each
    rank the sum or the maximum of their values. If one rank does not call it, the others hang.
    **NCCL** (GPUs) and **gloo** (CPUs) are libraries of collectives.

    **Disaggregation**: one pool of workers computes prompts, another generates, and K/V is sent.

    **Vote**: a collective by which the ranks agree on the layer at which they leave a pass.

    **Watchdog**: a thread or process that ends a process which makes no progress.

    **Worker**: a process with one engine. The **router** sends each request to one of the workers.

    ## A step's time

    **Launch**: the CPU's work to start one operator or one GPU kernel.

    **Roofline**: the shortest time of a step, or the highest speed: the larger of the times for
    reading and for arithmetic. A step is **memory-bound** or **compute-bound** by what takes longer.

    **CUDA graph**: the launches of a pass, captured once and replayed with one call, for one batch
    size. A pass without it is **eager**.

    **Async scheduling**: scheduling step n + 1 while step n executes.

    ## HTTP

    **Retry-After**: a header of a refusal. It says after how many seconds the client may try
    again.

    **Server-sent event**: a piece of a response that is sent while the rest is being computed: a
    line that begins with `data:`, and an empty line.

    ## This course

    **The posts**: a series of articles and programs about serving a small GPT, from which this
    course grew.

    **Oracle**: `generate()`, the simple, slow loop: one request at a time, and every token
    recomputed for each new one. Every faster engine must generate the same tokens.

    **Reference**: the course's own right answer. It is used until you have written yours.

    **Exhibit**: a real defect of an engine in *Break it*. You find it by its symptom and repair it.
    """)
    return


if __name__ == "__main__":
    app.run()
