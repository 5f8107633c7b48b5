"""Every field of a request that its caller sets survives every border that it crosses.

The borders: the router's order to a worker process, and the trace's record. A new field of
`Request` fails here until it is given a value below and crosses them, or is named as one that need
not.
"""

import dataclasses
import json
from collections.abc import Callable
from multiprocessing import Pipe
from typing import Any

import msgspec
import pytest
from fakes import TINY, tiny_model
from hypothesis import given
from hypothesis import strategies as st

from nanogpt.child_process import receive, send
from nanogpt.config import EngineConfig
from nanogpt.engine import Engine
from nanogpt.request import Request
from nanogpt.trace import RequestRecord
from nanogpt.workers.worker_process import Worker

SET_BY_CALLERS: dict[str, st.SearchStrategy[Any]] = {
    "id": st.integers(0, 10**9),
    "prompt_tokens": st.lists(st.integers(0, TINY.vocab_size - 1), min_size=1, max_size=20),
    "max_new_tokens": st.integers(1, 20),
    "priority": st.integers(0, 9),
    "temperature": st.none() | st.floats(0, 2),
    "seed": st.none() | st.integers(0, 2**64 - 1),
    "cache_salt": st.none() | st.text(min_size=1, max_size=9),
}
NEED_NOT_CROSS = (
    "arrival_time",  # the step in which an engine takes it: every engine has its own
    "generated_tokens",  # the text: an engine refuses a request that comes with some
    "status",  # a request comes as "waiting", and every engine moves it on itself
    "num_computed_tokens",  # what is computed lies in one engine's memory
    "was_submitted",  # to an engine, which a request comes to new
)
REQUESTS = st.fixed_dictionaries(SET_BY_CALLERS).map(lambda values: Request(**values))
CONFIG = EngineConfig(block_size=4, share_prefixes=True)


def through_a_workers_messages(request: Request) -> Request:
    ours, theirs = Pipe()
    send(ours, request)
    worker = Worker(tiny_model(), CONFIG)
    worker.engine.submit(receive(theirs))
    return worker.engine.requests[request.id]


def through_the_trace(request: Request) -> RequestRecord:
    engine = Engine(tiny_model(), CONFIG)
    engine.submit(request)
    (record,) = json.loads(json.dumps(engine.trace().to_json()))["requests"]
    return msgspec.convert(record, RequestRecord)


def test_every_field_of_a_request_crosses_or_has_a_reason_not_to():
    names = [field.name for field in dataclasses.fields(Request)]
    assert sorted([*SET_BY_CALLERS, *NEED_NOT_CROSS]) == sorted(names)


@pytest.mark.parametrize("border", [through_a_workers_messages, through_the_trace])
@given(request=REQUESTS)
def test_a_field_that_the_caller_sets_survives(border: Callable[[Request], Any], request: Request):
    sent = {name: getattr(request, name) for name in SET_BY_CALLERS}
    arrived = border(request)
    for name, value in sent.items():
        there = getattr(arrived, name)
        assert (list(there) if isinstance(there, tuple) else there) == value, name
