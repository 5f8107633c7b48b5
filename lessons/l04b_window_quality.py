import marimo

__generated_with = "0.25.2"
app = marimo.App(width="medium", app_title="4b · What a window costs")

with app.setup(hide_code=True):
    import marimo as mo

    from course.attempt import attempt
    from course.engine_loop import engine_loop
    from course.figure import Figure
    from course.lazy import torch
    from course.lesson_data import l04b_heads as heads
    from course.lesson_data import l04b_readings as readings
    from course.lesson_data.texts import shown
    from course.prediction import after, hints, predict
    from course.task import task
    from nanogpt import Engine, EngineConfig, Request, decode, encode, load_model
    from widgets import AttentionByDistance, ReceptiveField, whose


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    # 4b · What a window costs

    *25 minutes. Builds on lesson 4: windows and sinks. You write one function.*

    Afterwards you can measure what a window does to a model's text, with a metric that does not
    flatter you, and explain the cause.

    ## What can the model still know about an evicted token?

    In lesson 4 a token with a window of W attends to itself and to the W tokens before it. Eviction
    frees the K/V that no later token will attend to. The sliding-window post that both lessons grew
    from ([czhou578/nanoGPT-inference](https://github.com/czhou578/nanoGPT-inference)) has the right
    question: *what do you lose?* Start with one token that has left the window. All measurements are of
    *the course's model*, the one that your engine has served so far, unless another is named.
    """)
    return


@app.cell(hide_code=True)
def _():
    _moves = readings.moves(load_model().double())
    predict(
        "l04.far_token",
        "A window of W = 8 and four layers. Two texts differ only in the token **20 positions back**. "
        "In both, that token has left the window and its K/V is evicted. Can the logits of the next "
        "token differ?",
        (
            "No: nothing in memory was computed from that token",
            "No, as long as it is not a sink",
            "Yes: K/V that is still cached was computed from tokens that attended to it",
            "Yes, but only by rounding",
        ),
        2,
        "The K/V of an upper layer is computed from the outputs of the layers below, so information "
        "moves **W positions per layer**: 4 × 8 = 32 positions back, and not one further. When one "
        "token of the text is replaced in the course's model, the largest change of a logit depends on "
        "how far back that token is: "
        + ", ".join(f"{distance} back: {change:.2g}" for distance, change in _moves.items())
        + ".",
    )
    return


@app.cell(hide_code=True)
def _():
    after(
        "l04.far_token",
        ReceptiveField(
            8,
            4,
            41,
            "Positions that reach the last token, W = 8, layer by layer",
            query=40,
            probe=20,
            question="From how far back does information reach the last token?",
        ),
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    The engine evicts in the step's `update`, but the text changes in the marked line: `execute` runs
    attention over the K/V that is still in the window. This lesson measures how much a window changes
    the predictions.
    """)
    return


@app.cell(hide_code=True)
def _():
    engine_loop("self.executor.execute(")
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## How do you measure what a window costs?

    Memory was easy to measure. With quality it is easy to fool yourself. The simplest way is to let the
    model read an existing text twice, once with its full context and once under the window, and to
    compare its predictions at every position. No text is generated, so the two runs cannot drift apart.
    This is called *teacher forcing*.
    """)
    return


@app.cell(hide_code=True)
def _():
    task("l04.compare_logits")
    return


@app.function
def compare_logits(
    full_logits: torch.Tensor, window_logits: torch.Tensor, targets: torch.Tensor
) -> tuple[float, float]:
    """Return `(agreement, nll_delta)`: what a window costs on an existing text."""
    raise NotImplementedError("Exercise 4b.1: greedy agreement, and the loss that the window adds")


@app.cell(hide_code=True)
def _():
    compare_logits_attempt = attempt("l04.compare_logits", lambda: compare_logits)
    compare_logits_attempt
    return (compare_logits_attempt,)


@app.cell(hide_code=True)
def _():
    hints("l04.compare_logits")
    return


@app.cell(hide_code=True)
def _():
    model = load_model()
    full_loss, by_window = readings.costs(model)
    mo.md(f"""
    Here are six passages of 256 characters that the course's model was not trained on. With its full
    context, its loss is {full_loss:.2f} nats per character. (Guessing blindly costs ln 65 = 4.17.)
    A window of W = 16 adds **{by_window[16, 0][1]:.2f}** nats, and at {1 - by_window[16, 0][0]:.0%} of
    the positions another character becomes the most likely one. Even W = 128 adds
    {by_window[128, 0][1]:.2f}.
    """)
    return by_window, model


@app.cell(hide_code=True)
def _(compare_logits_attempt, model):
    Figure(
        readings.cost_chart(
            *readings.costs(model, compare_logits_attempt), whose(compare_logits_attempt.started)
        ),
        "How large must the window be to cost nothing?",
    )
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ### The metric lab: how could the post measure 100 %?

    This is the post's table. One text of 40 tokens was sampled from one prompt, with the full cache
    and under each window, with the same random numbers, and compared position by position:

    | window | 8 | 16 | 32 | 48 | full |
    |:--|--:|--:|--:|--:|--:|
    | same tokens | 97.5 % | 100 % | 100 % | 100 % | 100 % |

    The post's model was trained for 120 steps (`max_iters` in its file). Below, a model with the post's
    dimensions (4 layers, 32 channels), trained for 120 steps, is compared with the course's model. Each
    runs with its full context and under W = 16. There are eight prompts of 10 characters instead of
    one, and four metrics:

    - **sampled**: the post's metric, the share of 40 positions at which two sampled texts agree
    - **greedy**: the same, with the most likely token at each position
    - **teacher-forced**: `compare_logits` on the first 128 characters of each passage, because the
      small model has no more positions. So the added loss of the course's model is 1.17 here, and not
      1.42 as on all 256 characters.
    - **needle**: two texts differ only in which of two speakers, A or B, spoke 90 characters ago. A
      trial measures in both texts how far the model prefers A to B as the next speaker. It is passed if
      the preference is stronger in the text in which A spoke. A model that cannot tell the two texts
      apart scores 50 %. The table shows the share of passed trials without and with the window.
    """)
    return


@app.cell(hide_code=True)
def _(model):
    predict(
        "l04.needle",
        "The course's model has four layers. Under W = 16, what does it score in the **needle**, in which "
        "the two texts of a trial differ 90 characters back?",
        (
            "Nearly 100 %: a good model remembers who spoke",
            "Between 60 and 90 %",
            "50 %",
            "Well below 50 %",
        ),
        2,
        "**50 %.** Information moves 16 positions per layer, 4 × 16 = 64 in all. So the logits after both "
        "texts are the same, every trial is a tie, and a tie counts one half. With its full context the "
        f"model scores {readings.recall(model, None):.0%}.",
    )
    return


@app.cell(hide_code=True)
def _(model):
    after(
        "l04.needle",
        mo.md(
            readings.metric_lab(
                {"120 steps": heads.small("small_120_steps"), "the course's": model}
            )
        ),
    )
    return


@app.cell(hide_code=True)
def _():
    after("l04.needle", mo.md(r"""
    - **Measured by the loss, the model trained for 120 steps loses nothing.** It has not yet learned to
      use the far past, so a window takes nothing from it. Measure a window on a model that is good.
    - **Sampled agreement** depends on the prompt: compare the best, the mean and the worst of eight.
      Once one token differs, two different texts are compared, so a single prompt says little.
      **Greedy texts** diverge in the same way.
    - **Teacher-forced loss** compares the models at every position, and no random draw can flatter it.
      But it is a mean, and the few positions that need the far past hardly move it.
    - The **needle** tests only those positions, which a user notices first. With 20 trials,
      differences below 20 percentage points are noise. With its full context the model trained for 120
      steps scores 5 %, which is not noise: it gives a name a *lower* probability after that character
      has spoken.
    """))
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## Why does a window cost so much?

    The post explains why a window should be harmless: *attention weights decay roughly exponentially
    with distance*. Then it should hardly matter which layer gets the window. The picture shows the
    weights of each head in each layer.
    """)
    return


@app.cell(hide_code=True)
def _(model):
    by_distance, on_sinks = heads.weights_by_distance(model)
    AttentionByDistance(
        by_distance.tolist(),
        16,
        "Attention weight by distance, six passages outside the training text",
        sink_weights=on_sinks.tolist(),
        question="Which heads attend beyond the window?",
    )
    return by_distance, on_sinks


@app.cell(hide_code=True)
def _(by_distance, by_window, model, on_sinks):
    _near = ", ".join(f"{by_distance[layer, :, :17].sum(-1).mean():.0%}" for layer in range(4))
    predict(
        "l04.layers",
        "Give **one** of the four layers a window of 16, and let the other three attend to everything. "
        "By the picture, in which layer does the window add most to the loss?",
        (
            "In the first",
            "In the second or third",
            "In the last, which decides the next token",
            "In all four about equally",
        ),
        0,
        "Added loss: "
        + ", ".join(
            f"layer {layer} {added:+.2f}" for layer, added in heads.added_by_layer(model).items()
        )
        + f". The attention weight within 16 positions is, layer by layer, {_near}. Layer 0 does not "
        "decay at all: its heads spread their weight over the whole text, as if to **average** it. An "
        "average of 17 tokens is not the average of 250, and the layers above were trained on the "
        "latter. The first four positions are not sinks here: together they get "
        f"{on_sinks.sum(-1).mean():.1%} of a head's attention weight. Keeping them helps all the same: "
        f"in the chart above, the window then adds {by_window[16, 4][1]:.2f} nats and not "
        f"{by_window[16, 0][1]:.2f}. Nearly all of this help is in layer 0: when only layer 0 keeps them, "
        f"the window adds {heads.added_with_sinks_in_layer_0(model):.2f}. This lesson does not explain why "
        "the beginning of the text helps layer 0 so much. Attention sinks are common in larger models, but not every "
        "model has them.",
    )
    return


@app.cell(hide_code=True)
def _(model):
    after("l04.layers", mo.md(f"""
    So the layers need different treatment. Layer 0 keeps everything, and the other three get a window:

    {heads.layers_table(model)}

    Gemma 2 and 3 and gpt-oss are trained this way, with windowed and full layers mixed.
    """))
    return


@app.cell(hide_code=True)
def _(model):
    _all, _window, _fresh = heads.seventeen(model, 16)
    _all_64, _window_64, _fresh_64 = heads.seventeen(model, 64)
    predict(
        "l04.read_anew",
        "With W = 16 a token attends to 17 characters. Now give the model **the same 17 characters as a "
        "text of their own**, read anew from position 0 for each prediction. In training it predicted "
        "after every beginning of its texts: after 1 character, after 17, after 512. What is its loss "
        "now?",
        (
            "As high as under the window: the same 17 characters",
            "Much nearer to that with the full context than to that under the window",
            "Higher than under the window: it no longer knows its position in the text",
        ),
        1,
        f"**{_fresh:.2f}**, against {_all:.2f} with the full context and {_window:.2f} under the window, "
        "measured at tokens with at least W tokens before them. "
        f"(W = 64: {_fresh_64:.2f} read anew, {_all_64:.2f} with the full context, {_window_64:.2f} "
        "under the window.) So 17 characters are nearly all that this model needs, and the window did "
        "not take away the information. It left the model in a state that never occurred in training: "
        "position 200 with only 17 tokens to attend to. Reading anew costs 17 tokens for each generated "
        "one, which gives up the cache of lesson 0.",
    )
    return


@app.cell(hide_code=True)
def _():
    after("l04.read_anew", mo.md(f"""
    **For this model's average loss, a window at run time fails because the model has never been trained with
    one, not because the far past matters.** Recall is the exception: the needle does need the far past.
    (StreamingLLM, Figure 1, found the same on large models: a window by itself collapses, and a window that is
    recomputed for each token holds.)

    Then a model that was trained with a window should not mind. Here are two models of the post's size (4
    layers, 32 channels), trained for the same 6,000 steps on the same batches, one with full attention and one
    under a mask of W = 16 (`lessons/data/small_models.md`):

    {heads.twins_table()}

    Each is good when it is served as it was trained, and each fails when it is served the other way. Mistral 7B
    v0.1 was trained with its window, so it does not suffer this loss. For such a model eviction is exact, and
    an engine that does *not* evict wastes memory.
    """))
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## What breaks in the generated text?

    The post names three things that a window should hurt: recall, closing brackets and quotations, and
    avoiding repetition. Our 65 characters have no brackets, but a play opens and closes lines and
    speeches. In each row of the table the course's model generated four texts of 120 characters, sampled
    except for the column *repeated, greedy*:
    """)
    return


@app.cell
def _(model):
    romeo = [(0, Request(0, encode("ROMEO:\n"), 60))]
    narrow = Engine(model, EngineConfig(sliding_window=16)).run(romeo)
    mo.md(f"Greedy under W = 16: {shown(decode(list(narrow.generated_tokens(0))))}")
    return


@app.cell(hide_code=True)
def _(model):
    after("l04.needle", mo.md(f"""
    {readings.plays_table(model)}

    **Structure breaks**: under the window, lines end and speakers change far too often, with sinks a little
    less. **Repetition** goes the other way. This model's greedy texts run in circles with the full context and
    much less under a window: to repeat a text, the model has to attend to it. So the third expected harm does
    not show up here.
    """))
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## Does a window allow endless conversations?

    The README of the post's author promises *bounded memory usage, enabling serving of arbitrarily long
    conversations* (section 15). Take a model with a table of 64 learned positions, like the post's, a
    prompt of 56 tokens and a window of 20.
    """)
    return


@app.cell(hide_code=True)
def _():
    predict(
        "l04.endless",
        "After each step the request holds at most 20 KV tokens. **How many tokens can the engine "
        "generate?**",
        (
            "As many as the user wants: memory does not grow",
            "9",
            "28, which is 20 more than 64 - 56",
            "44, which is 64 - 20",
        ),
        1,
        "A window bounds memory, not positions: token 64 is still at position 64, and a learned table has "
        "no row for it. The prompt takes 56 positions and 8 generated tokens the others. The ninth is "
        "still sampled, from the logits of the last of them, but it can never be computed.",
    )
    return


@app.cell(hide_code=True)
def _():
    after("l04.endless", mo.md(r"""
    When the user wants ten new tokens, our engine refuses on arrival: "request 0 needs 56 + 10 - 1 = 65
    positions, more than the context of 64". An engine that does not check fails when it looks up row 64
    of the position table: "IndexError: index out of range in self".

    **So an endless conversation needs positions that do not run out.** The kept tokens cannot simply be
    renumbered, because their keys already contain their positions. Rotary positions (RoPE) are applied
    to each key after the projection, so an engine can store keys unrotated and rotate them by their
    place in the cache. StreamingLLM does that (section 3.2).
    """))
    return


@app.cell(hide_code=True)
def _(model):
    after("l04.needle", mo.md(f"""
    /// details | Keeping the heaviest entries instead of the last W: H2O

    *Keep the last W* guesses which entries later tokens will attend to. **H2O** (Zhang et al., 2023) measures
    attention instead: each head keeps recent entries and its *heavy hitters*, those with the most attention
    weight so far. With 32 entries per head, on the first passage:

    {heads.keeping_table(model)}

    At equal memory this is far better. **FastGen** (Ge et al., 2023) profiles each head once over the prompt
    and then keeps one rule for it. H2O and FastGen are harder for an engine. It has to read the attention
    weights, which FlashAttention-style kernels never materialise. Each head keeps different positions, so one
    mask no longer serves all heads. And the kept entries depend on the request, so requests cannot share a
    prefix.
    ///
    """))
    return


@app.cell(hide_code=True)
def _():
    mo.md(r"""
    ## Is a KV cache exact state or a resource?

    The post ends with two ways to see a KV cache. Seen as **correctness**, it is the exact state that
    the model needs, and every eviction is an error. Seen as a **resource**, each entry takes memory from
    another request, and evicting an entry that hardly matters is a good trade. This lesson measured the
    trade. For a model that was trained with the window it is free, and for any other model it is bad.
    Neither model can recall a token that is further back than the windows of all layers together reach.
    Engines evict in two ways. Under a sliding window they evict tokens of a running request, and the
    window changes the request's text unless the model was trained with it. Under memory pressure they
    evict K/V that no running request uses, SGLang by nodes of its radix cache and vLLM by blocks; this
    costs only recomputation. An *adaptive* window would grow for requests that attend far back; this
    lesson does not build one.

    ## What you now know

    - An evicted token still acts through upper layers: information moves W positions per layer.
    - Measure a window with teacher-forced loss on a good model, and test recall separately. Agreement
      of sampled texts depends on the prompt and on the random draws.
    - Here W = 16 adds 1.42 nats, mostly through layer 0, which averages the whole text.
    - The same 17 characters read anew cost only 0.07 nats: the model lacks training with a window, not
      information.
    - A window bounds memory. It does not bound positions.

    ## The same in vLLM and SGLang

    - **Trained windows:** both engines evict (vLLM's `SlidingWindowManager`, SGLang's `SWAKVPool`) for
      models that were trained with a window: Mistral 7B v0.1 (4,096 in every layer, so information
      reaches about 131,000 tokens back through 32 layers), Gemma 3 (five windowed layers for each full
      one), gpt-oss (128, every second layer). In the mixed models the K/V of the full layers still grows,
      so memory falls only by the share of windowed layers.
    - **StreamingLLM** (Xiao et al., 2023): large models put much weight on the first tokens, and keeping
      four of them saves the fluency of a window at run time. Recall is still lost. Neither engine has a
      flag for it with ordinary models, because evicting the middle of a full-attention model's cache
      changes its predictions.
    - **"Sink" in today's engines** mostly means a learned extra logit per head in the softmax, as in
      gpt-oss (`self.sinks` in `srt/models/gpt_oss.py`, `has_sink` in vLLM's attention backends).

    **How the control flow differs.** In our engine a window is a setting of the run, the same for every
    layer. In vLLM and SGLang it is part of the model's configuration: each attention layer reads its own
    window when it is built. vLLM groups the layers by kind, each group with its own block tables; SGLang
    keeps one pool for full layers and one for windowed layers. Only the windowed ones evict.

    *Checked against vLLM 0.33.0 and SGLang 0.5.23, November 2026.*

    ## What comes next

    In [lesson 5](/?file=l05_slo_policy.py) requests get deadlines. Which one is late, which one will be
    late, and which one is still worth hurrying for?
    """)
    return


if __name__ == "__main__":
    app.run()
