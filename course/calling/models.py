"""The shipped model travels to a child process by name: the one that it is forked from has it."""

import functools
from typing import Any

import cloudpickle  # pyright: ignore[reportMissingTypeStubs]
import torch

from nanogpt.checkpoints.weights import load_model
from nanogpt.model import GPT


@functools.cache
def shipped(dtype: torch.dtype) -> GPT:
    """The shipped model in this format, loaded once for all runs of this process."""
    return load_model(dtype=dtype)


def is_shipped(model: GPT) -> bool:
    """Whether it is the shipped model to the last bit, with nothing added to it."""
    own = shipped(next(model.parameters()).dtype)
    alike = (model.config, model.training, vars(model).keys()) == (
        own.config, own.training, vars(own).keys(),
    )  # fmt: skip
    pairs = zip(model.parameters(), own.parameters(), strict=False)
    return alike and all(torch.equal(one, other) for one, other in pairs)


class JobPickler(cloudpickle.Pickler):
    """Writes a job with the shipped model by name, and any other model by its weights."""

    def reducer_override(self, obj: Any) -> Any:
        """How an object is written, where that is not as usual."""
        if isinstance(obj, GPT) and is_shipped(obj):
            return shipped, (next(obj.parameters()).dtype,)
        return super().reducer_override(obj)
