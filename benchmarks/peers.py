"""Other people's engines over the same weights, each at the best of its settings for a load."""

import tempfile
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch

from benchmarks.contenders import Serve, Tokens, gpt2_of, static_batch
from benchmarks.loads import Load
from nanogpt.model import GPT

Settings = dict[str, Any]
ServeUnder = Callable[[Load, Settings], Tokens]

PEERS: dict[str, tuple[str, Callable[[GPT], Serve]]] = {}
"""By name: the module that has to be installed, and what makes the peer's `Serve` from a model."""


def at_its_best(serve: ServeUnder, choices: Sequence[Settings]) -> Serve:
    """Serves every load under the settings that were the quickest of two tries of each."""
    best: dict[str, Settings] = {}

    def seconds(load: Load, settings: Settings) -> float:
        start = time.perf_counter()
        serve(load, settings)
        return time.perf_counter() - start

    def serve_at_best(load: Load) -> Tokens:
        if load.name not in best:
            tried = [min(seconds(load, each) for _ in range(2)) for each in choices]
            best[load.name] = choices[tried.index(min(tried))]
        return serve(load, best[load.name])

    return serve_at_best


# ---- CTranslate2 ---------------------------------------------------------------------------------

BATCHES = (0, 1, 4)
"""How many prompts CTranslate2 is given at once; 0 stands for all of them."""


def prepare_ctranslate2(model: GPT) -> Serve:
    """CTranslate2's generator in float32, with as many threads as torch has.

    It sorts the prompts of a batch by length, computes them at once up to the shortest, and the
    rest token by token; smaller batches, one after another, may therefore be quicker.
    Raises: ImportError where ctranslate2 is not installed.
    """
    import ctranslate2

    with tempfile.TemporaryDirectory() as folder:
        ctranslate2_spec(model).save(folder)
        generator = ctranslate2.Generator(
            folder, compute_type="float32", intra_threads=torch.get_num_threads()
        )

    def serve(load: Load, settings: Settings) -> Tokens:
        results = generator.generate_batch(
            [[str(token) for token in prompt] for prompt in load.prompts],
            include_prompt_in_result=False,
            max_length=load.max_new_tokens,
            end_token=[],
            **settings,
        )
        return [[int(token) for token in result.sequences[0]] for result in results]

    return at_its_best(serve, [{"max_batch_size": each} for each in BATCHES])


def ctranslate2_spec(model: GPT) -> Any:
    """Our weights in CTranslate2's form. Token 17 is called "17"."""
    from ctranslate2.specs import common_spec, transformer_spec

    def numbers(tensor: torch.Tensor) -> Any:
        return tensor.detach().contiguous().numpy()

    def norm(spec: Any, module: torch.nn.LayerNorm) -> None:
        spec.gamma, spec.beta = numbers(module.weight), numbers(torch.zeros_like(module.weight))

    config = model.config
    spec = transformer_spec.TransformerDecoderModelSpec.from_config(
        config.num_layers, config.num_heads, activation=common_spec.Activation.GELU
    )
    decoder = spec.decoder
    decoder.scale_embeddings = False
    decoder.embeddings.weight = numbers(model.token_embedding.weight)
    decoder.projection.weight = numbers(model.token_embedding.weight)
    decoder.position_encodings.encodings = numbers(model.position_embedding.weight)
    norm(decoder.layer_norm, model.ln_f)
    for layer, block in zip(decoder.layer, model.blocks, strict=True):
        norm(layer.self_attention.layer_norm, block.ln_1)
        layer.self_attention.linear[0].weight = numbers(block.qkv.weight)
        layer.self_attention.linear[1].weight = numbers(block.proj.weight)
        norm(layer.ffn.layer_norm, block.ln_2)
        layer.ffn.linear_0.weight = numbers(block.up.weight)
        layer.ffn.linear_1.weight = numbers(block.down.weight)
    spec.register_vocabulary([str(token) for token in range(config.vocab_size)])
    for name in ("unk_token", "bos_token", "eos_token"):  # of no consequence: no text ends early
        setattr(spec.config, name, "0")
    spec.validate()
    return spec


# ---- transformers --------------------------------------------------------------------------------

ROOM = ({"max_batch_tokens": 64}, {"max_batch_tokens": 256})
"""Token budgets for transformers' continuous batching, which pads every step up to them."""


def continuous_batching(peer: Any) -> Serve:
    """A model of transformers under its own scheduler over paged K/V: `generate_batch`."""
    from transformers import GenerationConfig
    from transformers.generation import ContinuousBatchingConfig

    def serve(load: Load, settings: Settings) -> Tokens:
        outputs = peer.generate_batch(
            [list(prompt) for prompt in load.prompts],
            generation_config=GenerationConfig(
                max_new_tokens=load.max_new_tokens,
                do_sample=False,
                eos_token_id=-1,
                pad_token_id=0,
            ),
            continuous_batching_config=ContinuousBatchingConfig(num_blocks=64, **settings),
            progress_bar=False,
            warmup=False,
        )
        return [list(each.generated_tokens) for each in outputs.values()]

    return at_its_best(serve, ROOM)


PEERS |= {
    "ctranslate2": ("ctranslate2", prepare_ctranslate2),
    "transformers": ("transformers", lambda model: static_batch(gpt2_of(model))),
    "transformers, continuous": ("transformers", lambda m: continuous_batching(gpt2_of(m))),
}
