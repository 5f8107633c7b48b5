"""The engine on another store of blocks, which may be broken on purpose, and what is seen of it."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from course.calling.errors import blame
from course.calling.jobs import RunError, run
from course.calling.policies import Policy
from course.lesson_data.texts import oracle, shown
from nanogpt import GPT, Engine, EngineConfig, Policies, Request, decode
from nanogpt.block_pool import BlockPool
from nanogpt.executors.packed import PackedExecutor
from nanogpt.kv_cache import KVCache
from nanogpt.policies.validate_policies import ANSWERS
from nanogpt.validate import validated

Rule = Callable[..., Any]
SETTINGS = EngineConfig(token_budget=64, block_size=16, share_prefixes=True)


class Store(KVCache):
    """The engine's store of blocks, for exhibits. Mutable: `requests`, the engine's, by id."""

    requests: Mapping[int, Any]
    rule: Rule
    pool_type = BlockPool

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.pool = self.pool_type(len(self.pool.ref_counts), options["num_lanes"], self.policies)


class ExhibitEngine(Engine):
    """The engine on another store, with `rule` as the store's `part`, if it is one.

    The store believes what the rule answers, unless the engine `looks_at` it as at any part.
    """

    def __init__(
        self,
        model: GPT,
        rule: Rule,
        part: str | None = None,
        *,
        settings: EngineConfig = SETTINGS,
        store: type[Store] = Store,
        executor: type[PackedExecutor] = PackedExecutor,
        looks_at: bool = False,
        shared: Store | None = None,
    ) -> None:
        policies = replace(Policies(), **{part: rule}) if part else Policies()
        asked = validated(policies, ANSWERS) if looks_at else policies
        super().__init__(
            model, settings, policies if looks_at else Policies(), make_executor=executor,
            cache=shared or _store_for(store, model, settings, asked),
        )  # fmt: skip
        self.blocks.requests, self.blocks.rule = self.requests, rule

    @property
    def blocks(self) -> Store:
        """The store."""
        assert isinstance(self.cache, Store)
        return self.cache


def _store_for(store: type[Store], model: GPT, config: EngineConfig, policies: Policies) -> Store:
    """A store as large as the engine's own would be."""
    weight, size = model.token_embedding.weight, config.block_size or 1
    num_blocks = config.max_batch_size * -(-model.config.max_model_len // size)
    if config.max_kv_tokens is not None:
        num_blocks = config.max_kv_tokens // size
    return store(
        model.config, num_blocks, size, weight.dtype, weight.device, policies,
        num_lanes=config.max_batch_size, share=True, records_blocks=True,
    )  # fmt: skip


@dataclass(slots=True)
class Seen:
    """What a run showed: texts and the tokens found, by request, and words on what went wrong."""

    texts: dict[int, list[int]] = field(default_factory=dict[int, list[int]])
    found: dict[int, int] = field(default_factory=dict[int, int])
    books: str = ""
    failed: list[int] = field(default_factory=list[int])
    stopped: str = ""


def watched(job: Callable[[Rule], Seen], rule: Rule) -> Seen:
    """What is seen of a job with this rule, in a child process."""
    try:
        return run(job, Policy(rule))
    except RunError as error:
        return Seen(stopped=str(error))


def serve(
    engine: ExhibitEngine, arrivals: Sequence[tuple[int, Request]], seen: Seen | None = None
) -> Seen:
    """Serve requests as they arrive, with a look at the store's books after every step.

    `seen` is what another engine on the store has shown before.
    """
    seen, queue = seen or Seen(), list(arrivals)
    started = engine.step_number
    try:
        while (queue or not engine.scheduler.is_done()) and engine.step_number < started + 200:
            while queue and queue[0][0] <= engine.step_number - started:
                engine.submit(queue.pop(0)[1])
            if engine.scheduler.is_done():
                engine.step_number += 1
                continue
            _step(engine, seen)
    except Exception as error:
        seen.stopped = blame(error)
    trace = engine.trace()
    seen.texts |= {r.id: list(trace.generated_tokens(r.id)) for _, r in arrivals}
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
    if not seen.books:
        try:
            engine.blocks.check()
        except AssertionError:
            seen.books = f"After step {record.step} {_lie(engine.blocks)}."


def _lie(store: Store) -> str:
    """Where the store's books are wrong."""
    named = Counter(block for i in store.holders() for block in store.table(i))
    for block, count in enumerate(store.pool.ref_counts):
        if count != named[block]:
            tables = f"{named[block]} tables name" if named[block] != 1 else "1 table names"
            return f"block {block} has a count of {count}, and {tables} it"
    return "the store's books do not agree"


def symptoms(
    model: GPT, requests: Sequence[Request], seen: Seen, settings: EngineConfig = SETTINGS
) -> tuple[str, bool]:
    """(each text beside the oracle's, as Markdown; whether all is as it should be)."""
    rows = ["| request | tokens found | the oracle | this store |", "|--:|--:|:--|:--|"]
    wrong: list[int] = []
    for request in requests:
        right, got = oracle(model, settings, request), seen.texts.get(request.id, [])
        if got != right:
            wrong.append(request.id)
        mark = "" if got == right else " **differs**"
        rows.append(
            f"| {request.id} | {seen.found.get(request.id, 0)} | {shown(decode(right))} | "
            f"{shown(decode(got))}{mark} |"
        )
    said = [f"Step {each} failed and was done again." for each in seen.failed]
    said += [f"**The engine stopped.** {seen.stopped}"] if seen.stopped else []
    said += [seen.books] if seen.books else []
    told = f"\n\n{' '.join(said)}" if said else ""
    return "\n".join(rows) + told, not (wrong or seen.stopped or seen.books)
