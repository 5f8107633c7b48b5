"""The compiled executor: bits that no batch, chunking or thread changes, and when it gives way."""

import copy
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from itertools import accumulate
from pathlib import Path

import pytest
import torch
from fakes import tiny_model
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from nanogpt import Engine, EngineConfig, Policies
from nanogpt.features import make_cache
from nanogpt.outputs import Row
from nanogpt.request import Request

compiled = pytest.importorskip("nanogpt.executors.compiled")
kernel = pytest.importorskip("nanogpt.executors.kernel")
kernel_cache = pytest.importorskip("nanogpt.executors.kernel_cache")
FLOAT32 = copy.deepcopy(tiny_model()).float()


def logits_by_length(chunks: list[list[int]], num_threads: int) -> dict[tuple[int, int], Tensor]:
    """Run step s on chunk s of every request: (request, tokens computed) -> the logits after it."""
    config = EngineConfig(max_batch_size=len(chunks))
    cache = make_cache(FLOAT32, config, Policies())
    executor = compiled.CompiledExecutor(FLOAT32, cache, Policies())
    executor.second = ThreadPoolExecutor(1) if num_threads == 2 else None
    found: dict[tuple[int, int], Tensor] = {}
    for i in range(len(chunks)):
        cache.reserve(i)
    for step in range(max(map(len, chunks))):
        rows = list[Row]()
        for i, sizes in enumerate(chunks):
            if step < len(sizes):
                start, end = sum(sizes[:step]), sum(sizes[: step + 1])
                tokens = [(7 * i + 3 * p) % FLOAT32.config.vocab_size for p in range(end)]
                row = Row(i, tokens[start:], range(start, end), start, end - start == 1, tokens)
                rows.append(row)
        cache.allocate(rows)
        output = executor.execute(rows)
        assert output.best == output.logits.argmax(-1).tolist()
        for row, logits in zip(rows, output.logits, strict=True):
            found[row.request_id, row.seq_len] = logits.clone()
            cache.commit(row.request_id, len(row.input_ids))
    return found


@given(
    chunks=st.lists(st.lists(st.integers(1, 9), min_size=1, max_size=4), min_size=1, max_size=6),
    num_threads=st.integers(1, 2),
)
def test_a_token_has_the_same_bits_in_every_batch_chunking_and_number_of_threads(
    chunks: list[list[int]], num_threads: int
):
    batched = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compiled, "WORTH_SHARING", 0)
        batched = logits_by_length(chunks, num_threads)
    for i, sizes in enumerate(chunks):
        alone = logits_by_length([[]] * i + [[1] * sum(sizes)], 1)
        for length in accumulate(sizes):
            assert torch.equal(batched[i, length], alone[i, length])


def test_code_that_no_lasting_folder_may_keep_is_kept_for_the_process_and_its_children(
    monkeypatch: pytest.MonkeyPatch,
):
    caching = pytest.importorskip("numba.core.caching")
    only = [caching.UserProvidedCacheLocator]  # the folder that NUMBA_CACHE_DIR says
    monkeypatch.setattr(caching.CompileResultCacheImpl, "_locator_classes", only)
    monkeypatch.setenv("NUMBA_CACHE_DIR", "")
    kernel_cache.config.reload_config()
    assert kernel_cache.kept_on_disk(lambda x: x + 1)(2) == 3
    assert list(Path(os.environ["NUMBA_CACHE_DIR"]).rglob("*.nbc"))


@pytest.mark.parametrize("settings", [{}, {"block_size": 4}, {"sliding_window": 4}])
def test_a_new_engine_has_its_kernel_and_compiles_nothing_more(settings: dict[str, int]):
    engine = Engine(tiny_model(), EngineConfig(executor="compiled", **settings))
    kernel.forward.disable_compile()
    try:
        engine.run([(0, Request(1, [3, 4, 5], 6))])
    finally:
        kernel.forward.disable_compile(False)


def test_logits_that_are_not_finite_end_the_step_with_the_request_s_name():
    model = copy.deepcopy(tiny_model())
    model.token_embedding.weight[3] = float("nan")  # the token of request 1, and a logit of all
    engine = Engine(model, EngineConfig(executor="compiled"))
    engine.submit(Request(1, [3], 2))
    with pytest.raises(ValueError, match="the logits of request 1 are not finite"):
        engine.step()


def test_without_numba_and_for_numbers_that_the_kernel_lacks_packed_runs_and_a_line_says_so(
    monkeypatch: pytest.MonkeyPatch,
):
    with pytest.warns(UserWarning, match="gives way to the packed one: it computes float32 and"):
        engine = Engine(copy.deepcopy(tiny_model()).bfloat16(), EngineConfig(executor="compiled"))
    assert engine.executor.name == "packed"
    monkeypatch.setitem(sys.modules, "nanogpt.executors.compiled", None)
    with pytest.warns(UserWarning, match="numba is not installed, so the packed executor runs"):
        engine = Engine(tiny_model(), EngineConfig(executor="compiled"))
    assert engine.executor.name == "packed"
