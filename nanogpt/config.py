"""Sizes of a model. Knows nothing of tensors, weights or requests."""

from dataclasses import dataclass

from nanogpt.validate import check_int


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """The shape of a GPT: what its weights look like and how far it can see.

    Shapes: C = `num_heads` * D channels, V = `vocab_size`, positions 0 to `context_len` - 1.
    Raises: ValueError for a size below 1 or channels that do not split evenly into heads.
    Source: nanoGPT model.py, GPTConfig (`context_len` is its `block_size`).
    """

    num_layers: int = 4
    num_heads: int = 4
    num_channels: int = 128
    context_len: int = 512
    vocab_size: int = 65

    def __post_init__(self) -> None:
        for name in ("num_layers", "num_heads", "num_channels", "context_len", "vocab_size"):
            value = getattr(self, name)
            check_int(name, value, 1)
        if self.num_channels % self.num_heads:
            raise ValueError(
                f"{self.num_channels} channels do not split evenly into {self.num_heads} heads"
            )

    @property
    def head_size(self) -> int:
        """D, the channels of one head."""
        return self.num_channels // self.num_heads


SHAKESPEARE = ModelConfig()
"""The shipped checkpoint's shape: 4 layers, 4 heads, 128 channels, context 512."""

CHARACTER = ModelConfig(num_layers=6, num_heads=6, num_channels=384)
"""nanoGPT's character-level model (10.7 M parameters), used with random weights in benchmarks."""
