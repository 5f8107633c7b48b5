"""The engine with a block store that may be broken on purpose, and the symptoms of its run."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from course.calling.errors import blame
from course.calling.jobs import RunError, run
from course.calling.policies import Policy
from course.lesson_data.texts import oracle, shown, table
from nanogpt import GPT, Engine, EngineConfig, Policies, Request, decode
from nanogpt.block_pool import BlockPool
from nanogpt.executors.packed import PackedExecutor
from nanogpt.kv_cache import KVCache

Rule = Callable[..., Any]
SIZE, BATCH = 16, 8
SETTINGS = EngineConfig(token_budget=64, max_batch_size=BATCH, block_size=SIZE, share_prefixes=True)


class Store(KVCache):
    """The engine's store of blocks, for exhibits. Mutable: `requests`, the engine's, by id."""

    requests: Mapping[int, Any]
    rule: Rule
    pool_type = BlockPool
    num_blocks = 0  # 0: room for a full batch of the longest texts

    def __init__(self, model: GPT, policies: Policies) -> None:
        config, weight = model.config, model.token_embedding.weight
        num_blocks = self.num_blocks or BATCH * -(-config.max_model_len // SIZE)
        super().__init__(
            config, num_blocks, SIZE, weight.dtype, weight.device, policies,
            num_lanes=BATCH, share=True, records_blocks=True,
        )  # fmt: skip
        self.pool = self.pool_type(num_blocks, BATCH, policies)


class ExhibitEngine(Engine):
    """The engine with another store, which believes whatever `rule` returns.

    `rule` is the store's policy of that name, or, without one, whatever the store asks it.
    """

    def __init__(
        self,
        model: GPT,
        rule: Rule,
        *,
        policy: str | None = None,
        store: type[Store] = Store,
        executor: type[PackedExecutor] = PackedExecutor,
    ) -> None:
        policies = replace(Policies(), **{policy: rule}) if policy else Policies()
        self.blocks = store(model, policies)
        super().__init__(model, SETTINGS, make_executor=executor, cache=self.blocks)
        self.blocks.requests, self.blocks.rule = self.requests, rule


@dataclass(slots=True)
class Seen:
    """What a run showed: texts and tokens found, by request, and sentences on what went wrong."""

    texts: dict[int, list[int]] = field(default_factory=dict[int, list[int]])
    found: dict[int, int] = field(default_factory=dict[int, int])
    wrong_count: str = ""
    failed: list[int] = field(default_factory=list[int])
    stopped: str = ""


def watched(job: Callable[[Rule], Seen], rule: Rule) -> Seen:
    """What a job with this rule shows, run in a child process."""
    try:
        return run(job, Policy(rule))
    except RunError as error:
        return Seen(stopped=str(error))


def serve(engine: ExhibitEngine, arrivals: Sequence[tuple[int, Request]]) -> Seen:
    """Serve requests as they arrive, and check the store's counts after every step."""
    seen, queue = Seen(), list(arrivals)
    try:
        while (queue or not engine.scheduler.is_done()) and engine.step_number < 200:
            while queue and queue[0][0] <= engine.step_number:
                engine.submit(queue.pop(0)[1])
            if engine.scheduler.is_done():
                engine.step_number += 1
                continue
            _step(engine, seen)
    except Exception as error:
        seen.stopped = blame(error)
    trace = engine.trace()
    seen.texts = {r.id: list(trace.generated_tokens(r.id)) for _, r in arrivals}
    return seen


def _step(engine: ExhibitEngine, seen: Seen) -> None:
    try:
        record = engine.step()
    except ValueError as error:
        if "not finite" not in str(error) or len(seen.failed) > 2:
            raise
        seen.failed.append(engine.step_number)
        return
    seen.found.update((hit.request_id, hit.num_tokens) for hit in record.prefix_hits)
    if not seen.wrong_count:
        try:
            engine.blocks.check()
        except AssertionError:
            seen.wrong_count = f"After step {record.step} {_wrong_count(engine.blocks)}."


def _wrong_count(store: Store) -> str:
    """The first block whose count is not the number of tables that name it."""
    named = Counter(block for i in store.holders() for block in store.table(i))
    for block, count in enumerate(store.pool.ref_counts):
        if count != named[block]:
            tables = f"{named[block]} tables refer" if named[block] != 1 else "1 table refers"
            return f"block {block} has a count of {count}, but {tables} to it"
    return "the store's tables and its pool disagree"


def symptoms(model: GPT, requests: Sequence[Request], seen: Seen) -> tuple[str, bool]:
    """(each text beside the oracle's, as Markdown; whether the run was right)."""
    rows: list[str] = []
    wrong: list[int] = []
    for request in requests:
        right, got = oracle(model, SETTINGS, request), seen.texts.get(request.id, [])
        if got != right:
            wrong.append(request.id)
        mark = "" if got == right else " **differs**"
        rows.append(
            f"| {request.id} | {seen.found.get(request.id, 0)} | {shown(decode(right))} | "
            f"{shown(decode(got))}{mark} |"
        )
    said = [f"Step {each} failed and was run again." for each in seen.failed]
    said += [f"**The engine stopped.** {seen.stopped}"] if seen.stopped else []
    said += [seen.wrong_count] if seen.wrong_count else []
    told = f"\n\n{' '.join(said)}" if said else ""
    shown_texts = table("| request | tokens found | the oracle | this store |", "rrll", rows)
    return shown_texts + told, not (wrong or seen.stopped or seen.wrong_count)
