"""A folder with a random GPT-2 and a byte-level tokenizer of its own, as small as they come."""

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from support import ROOT

if TYPE_CHECKING:
    from tokenizers import Tokenizer

GOLDEN = ROOT / "tests" / "golden" / "gpt2"
END = "<|endoftext|>"
TEXTS = [
    "To be, or not to be: that is the question. Whether 'tis nobler in the mind to suffer",
    "Ärger über Öl: naïve Köche, ein Gruß an alle Bären und Käfer",
    "今日は世界、今日は天気がいい 🙂🙂🙂 👩‍👩‍👧",
]
VOCAB_SIZE = 320
"""One for the end, 256 bytes, and pairs: some are whole characters, some are parts of them."""
CONTEXT_LEN = 64


def trained(*special: str) -> "Tokenizer":
    """A byte-level tokenizer of GPT-2's kind, with these special tokens or its end."""
    from tokenizers import Tokenizer
    from tokenizers.decoders import ByteLevel as Bytes
    from tokenizers.models import BPE
    from tokenizers.pre_tokenizers import ByteLevel
    from tokenizers.trainers import BpeTrainer

    tokenizer = Tokenizer(BPE())
    tokenizer.pre_tokenizer = ByteLevel(add_prefix_space=False)
    tokenizer.decoder = Bytes()
    alphabet = sorted(ByteLevel.alphabet())
    trainer = BpeTrainer(
        vocab_size=VOCAB_SIZE, special_tokens=list(special or (END,)), initial_alphabet=alphabet,
        show_progress=False,
    )  # fmt: skip
    tokenizer.train_from_iterator(TEXTS * 3, trainer)
    assert tokenizer.get_vocab_size() == VOCAB_SIZE
    return tokenizer


def make_folder(folder: Path) -> Path:
    """The golden GPT-2 with random embeddings for another vocabulary, and a longer context."""
    from safetensors.torch import load_file, save_file

    shutil.copytree(GOLDEN, folder)
    tensors = load_file(folder / "model.safetensors")
    generator = torch.Generator().manual_seed(0)
    for name, rows in (("wte", VOCAB_SIZE), ("wpe", CONTEXT_LEN)):
        weight = torch.randn(rows, 16, generator=generator) * 0.6
        weight[0] *= 2.5  # the end, which so comes now and then
        tensors[f"transformer.{name}.weight"] = weight.half()
    save_file(tensors, folder / "model.safetensors")
    config = json.loads((folder / "config.json").read_text())
    config |= {"vocab_size": VOCAB_SIZE, "n_positions": CONTEXT_LEN, "eos_token_id": 0}
    (folder / "config.json").write_text(json.dumps(config))
    trained().save(str(folder / "tokenizer.json"))
    return folder
