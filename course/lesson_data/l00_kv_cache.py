"""Behind lesson 0's first half: a cache in the model, and the time that it saves."""

import functools
from collections.abc import Callable, Sequence

import torch

from course.calling.jobs import RunError, run
from course.calling.policies import Policy
from course.lesson_data.texts import table
from nanogpt import GPT, Engine, EngineConfig, Request, decode, encode, generate
from nanogpt.checkpoints.weights import load_model
from nanogpt.clock import WallClock

Attention = Callable[..., tuple[torch.Tensor, torch.Tensor, torch.Tensor]]
NextInputs = Callable[[list[int], list[int]], list[int]]
Written = tuple[list[int], torch.Tensor, int]
"""New tokens, their logits (N, V), and how many tokens were fed."""
Writer = Callable[..., Written]
_NEW = 40  # characters of each text

# --- the learner's cache in the model ----------------------------------------------------------


class Cache:
    """K and V of one text per head and layer, grown by `attend(q, k_cache, v_cache, k, v)`.

    `tokens` are the ids of the tokens that it holds.
    """

    def __init__(self, attend: Attention) -> None:
        self.tokens: list[int] = []
        self._attend = attend
        self._held: dict[tuple[int, int], tuple[torch.Tensor, torch.Tensor]] = {}

    def truncate(self, num_tokens: int) -> None:
        """Keep only the first tokens."""
        del self.tokens[num_tokens:]
        self._held = {at: (k[:num_tokens], v[:num_tokens]) for at, (k, v) in self._held.items()}

    @torch.inference_mode()
    def feed(self, model: GPT, token: int) -> torch.Tensor:
        """The logits (V,) after one more token."""
        position = torch.tensor([len(self.tokens)])
        hidden = model.hidden(torch.tensor([token]), position, self._every_head)
        self.tokens.append(token)
        return model.logits(hidden)[0]

    def _every_head(
        self, layer: int, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor
    ) -> torch.Tensor:
        out = torch.empty_like(q)  # (1, H, D)
        for head in range(q.shape[1]):
            k_cache, v_cache = self._held.get((layer, head), (k[:0, head], v[:0, head]))
            out[:, head], k_all, v_all = self._attend(
                q[:, head], k_cache, v_cache, k[:, head], v[:, head]
            )
            self._held[layer, head] = k_all, v_all
        return out


def your_text(
    write: Writer, prompts: Sequence[str], next_inputs: NextInputs, cached_attention: Attention
) -> str:
    """The texts that `write` makes of two prompts with passed answers, beside the oracle's."""
    try:
        texts = run(_written, write, prompts, Policy(next_inputs), Policy(cached_attention))
    except RunError as error:
        return f"The run stopped: {error}."
    oracles = [_oracle(prompt) for prompt in prompts]
    news = [new for new, _, _ in texts]
    if news != [new for new, _ in oracles]:
        said = (
            "**Your two functions wrote these texts, but the oracle writes others.** Both passed "
            "their checks, so a check has missed something: please report it as a wrong verdict."
        )
        return _drawn(said, prompts, news)
    gap = max(
        float((mine - right).abs().max())
        for (_, mine, _), (_, right) in zip(texts, oracles, strict=True)
    )
    fed, alone = [num_fed for _, _, num_fed in texts], len(prompts[1]) + _NEW - 1
    said = (
        "**Your two functions wrote these texts.** The oracle, which recomputes everything, writes "
        f"the same characters. They fed {fed[0]} tokens for the first text and {fed[1]} for the "
        f"second, which takes {alone} without the cache of the first. In float64, the largest "
        f"difference between one of your logits and the oracle's is {gap:.1e}."
    )
    return _drawn(said, prompts, news)


@functools.cache
@torch.inference_mode()
def _oracle(prompt: str) -> tuple[list[int], torch.Tensor]:
    """The oracle's characters and their logits (N, V), worked out once."""
    model, tokens = load_model(dtype=torch.float64), encode(prompt)
    new = generate(model, tokens, _NEW)
    texts = [[*tokens, *new[:i]] for i in range(len(new))]
    return new, torch.stack([model(torch.tensor([text]))[0][0, -1] for text in texts])


def reference_text(prompts: Sequence[str]) -> str:
    """The same texts by the engine's own cache, while the two answers are not there."""
    engine = Engine(load_model(dtype=torch.float64), EngineConfig(token_budget=512))
    arrivals = [(0, Request(i, encode(prompt), _NEW)) for i, prompt in enumerate(prompts)]
    trace = engine.run(arrivals)
    said = (
        "**The engine's own cache wrote these texts.** It is the reference until both of your "
        "functions pass. Then your functions write the texts, and your logits are compared with "
        "the oracle's."
    )
    return _drawn(said, prompts, [trace.generated_tokens(i) for i in range(len(prompts))])


def _written(
    write: Writer, prompts: Sequence[str], next_inputs: NextInputs, cached_attention: Attention
) -> list[Written]:
    model, cache = load_model(dtype=torch.float64), Cache(cached_attention)
    return [write(model, cache, encode(prompt), _NEW, next_inputs) for prompt in prompts]


def _drawn(said: str, prompts: Sequence[str], new: Sequence[Sequence[int]]) -> str:
    texts = (prompt + decode(list(each)) for prompt, each in zip(prompts, new, strict=True))
    return "\n".join([said, "", "```text", *texts, "```"])


# --- time -----------------------------------------------------------------------------


@torch.inference_mode()
def timed_both_ways(model: GPT, prompt: Sequence[int], count: int) -> tuple[list[int], list[int]]:
    """Microseconds until each of `count` tokens is there: everything fed every time, and cached."""
    clock, tokens, uncached_us = WallClock(), list(prompt), list[int]()
    generate(model, list(prompt), 5)  # the first calls are slow, whatever they do
    Engine(model, EngineConfig(token_budget=512)).run([(0, Request(0, list(prompt), 5))])
    begin_us = clock.now_us()
    for _ in range(count):
        logits, _ = model(torch.tensor([tokens]))
        tokens.append(int(logits[0, -1].argmax()))
        uncached_us.append(clock.now_us() - begin_us)
    engine = Engine(model, EngineConfig(token_budget=512), clock=clock)
    steps = engine.run([(0, Request(0, list(prompt), count))]).steps
    return uncached_us, [step.end_us - steps[0].start_us for step in steps]


def time_table(num_prompt: int, uncached_us: Sequence[int], cached_us: Sequence[int]) -> str:
    """Tokens and times with and without a cache after some numbers of characters, as Markdown."""
    head = (
        "| new characters | tokens computed, no cache | with cache | time, no cache "
        "| with cache | saved |"
    )
    rows: list[str] = []
    for n in (1, 20, 50, 100, 200):
        plain, kept = sum(range(num_prompt, num_prompt + n)), num_prompt + n - 1
        plain_ms, kept_ms = uncached_us[n - 1] / 1000, cached_us[n - 1] / 1000
        rows.append(
            f"| {n} | {plain:,} | {kept:,} | {plain_ms:,.0f} ms | {kept_ms:,.0f} ms "
            f"| {plain_ms / kept_ms:.1f} × |"
        )
    source = "*Times: measured on this machine just now. Tokens: counted.*"
    return f"{table(head, 'rrrrrr', rows)}\n\n{source}"
