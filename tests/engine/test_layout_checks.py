"""What a learner's layout may answer: shapes and types are refused in words, contents are not."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from fakes import prompt_of, tiny_model

from nanogpt import Engine, EngineConfig, Parts, Request
from nanogpt.parts import Parts as AllParts
from nanogpt.parts.fusing import full_mask, fused_rows, pack, split_kv
from nanogpt.parts.layout_checks import (
    checked_evict,
    checked_full_mask,
    checked_held,
    checked_pack,
    checked_rows,
    checked_split,
    mask_of_pairs,
    slots_of_all,
)
from nanogpt.parts.sliding_window import evict, held, ring_slot, visible, window_mask
from nanogpt.validate import PartError

PAST, NEW = [2, 0, 3], [1, 4, 1]
KNOWN = [[7, 8, 9], [1, 2, 3, 4, 5], [6, 6, 6, 6]]
K = torch.arange(3 * 7 * 2, dtype=torch.float64).view(3, 7, 2)
HELD = torch.arange(2 * 6 * 3, dtype=torch.float64).view(2, 6, 3)


class Sly:
    """An answer whose text and truth are traps: a sentence about it must still come out."""

    def __repr__(self) -> str:
        return "x" * 500

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("compared")

    __hash__ = None  # type: ignore[assignment]


def ask(check: Callable[[Callable[..., Any]], Callable[..., Any]], answer: Any, *args: Any) -> Any:
    """What the engine gets when a learner's part answers `answer`."""
    return check(lambda *_: answer)(*args)


ROWS = (checked_rows, (KNOWN, PAST, NEW))
FULL = (checked_full_mask, (PAST, NEW))
SPLIT = (checked_split, (K, PAST, NEW))
PACK = (checked_pack, (PAST, NEW))
EVICT = (checked_evict, (HELD, -HELD, 3, 1))
COUNT = (checked_held, (4, 3, 5, 1))
TOKENS, POSITIONS = fused_rows(KNOWN, PAST, NEW)
CU_Q, CU_K, MASK = pack(PAST, NEW)
OWN = split_kv(K, PAST, NEW)

REFUSED: list[tuple[Any, Any, str]] = [
    (ROWS, None, r"your fused_rows returned None; .* 3 rows of 4 whole numbers from 0"),
    (ROWS, TOKENS, "your fused_rows returned"),
    (ROWS, (TOKENS,), "your fused_rows returned"),
    (ROWS, (TOKENS, POSITIONS, 1), "your fused_rows returned"),
    (ROWS, (TOKENS, [row[1:] for row in POSITIONS]), "your fused_rows returned"),
    (ROWS, (TOKENS[:2], POSITIONS), "your fused_rows returned"),
    (ROWS, (torch.tensor(TOKENS), torch.tensor(POSITIONS)), "your fused_rows returned"),
    (ROWS, (TOKENS, [[-1, *row[1:]] for row in POSITIONS]), "your fused_rows returned"),
    (ROWS, ([[t + 0.5 for t in row] for row in TOKENS], POSITIONS), "your fused_rows returned"),
    (ROWS, ([[t > 0 for t in row] for row in TOKENS], POSITIONS), "your fused_rows returned"),
    (FULL, None, r"your full_mask\(\[2, 0, 3\], \[1, 4, 1\]\) returned None"),
    (FULL, full_mask(PAST, NEW).float(), r"a torch.float32 tensor of \(3, 4, 7\)"),
    (FULL, full_mask(PAST, NEW)[:, :, 1:], r"a torch.bool tensor of \(3, 4, 6\); .* \(3, 4, 7\)"),
    (FULL, full_mask(PAST, NEW)[0], r"a torch.bool tensor of \(4, 7\)"),
    (FULL, full_mask(PAST, NEW).tolist(), "it must be a torch.bool tensor"),
    (SPLIT, None, "your split_kv returned None; it must be a list of 3 tensors"),
    (SPLIT, OWN[:2], "it must be a list of 3 tensors"),
    (SPLIT, [*OWN[:2], OWN[2][1:]], r"split_kv for row 2 .* of \(3, 2\); .* of \(4, 2\)"),
    (SPLIT, [OWN[0].float(), *OWN[1:]], "split_kv for row 0 returned a torch.float32"),
    (SPLIT, [OWN[0], OWN[1].tolist(), OWN[2]], "split_kv for row 1"),
    (PACK, None, r"your pack returned None; it must be \(cu_q, cu_k, mask\)"),
    (PACK, (CU_Q, CU_K), r"it must be \(cu_q, cu_k, mask\)"),
    (PACK, (CU_Q[1:], CU_K, MASK), r"cu_q = \[1, 5, 6\]; with rows of \[1, 4, 1\].*\[0, 1, 5, 6\]"),
    (PACK, (CU_Q, [0, 2, 2, 5], MASK), r"cu_k = \[0, 2, 2, 5\]; with rows of \[3, 4, 4\]"),
    (PACK, ([0, 1.5, 5, 6], CU_K, MASK), "your pack returned cu_q"),
    (PACK, ([False, 1, 5, 6], CU_K, MASK), "your pack returned cu_q"),
    (PACK, (torch.tensor([CU_Q]), CU_K, MASK), r"it must be \(cu_q, cu_k, mask\)"),
    (PACK, (CU_Q, CU_K, MASK.int()), "your pack's mask returned a torch.int32"),
    (PACK, (CU_Q, CU_K, MASK[:, :-1]), r"your pack's mask returned .*\(6, 10\); .*\(6, 11\)"),
    (EVICT, None, r"your evict returned None; it must be \(k, v\)"),
    (EVICT, HELD, r"it must be \(k, v\)"),
    (EVICT, (HELD[:, 1:], HELD), "your evict's v returned"),
    (EVICT, (HELD[0], HELD[0]), "your evict's k returned"),
    (EVICT, (HELD[:1], HELD[:1]), "your evict's k returned"),
    (EVICT, (HELD[..., :2], HELD[..., :2]), "your evict's k returned"),
    (EVICT, (HELD.sum(), HELD), "your evict's k returned"),
    (EVICT, (HELD.float(), HELD), "your evict's k returned a torch.float32"),
    (COUNT, 7, r"your held\(4, 3, 5, 1\) returned 7; it must be \(peak, end\)"),
    (COUNT, (7,), r"it must be \(peak, end\)"),
    (COUNT, (7.5, 6), r"it must be \(peak, end\), whole numbers from 0"),
    (COUNT, (7, -1), r"it must be \(peak, end\)"),
    (COUNT, (True, 6), r"it must be \(peak, end\)"),
    (COUNT, (None, None), r"it must be \(peak, end\)"),
    *[
        (part, sly, "your ")
        for part in (ROWS, FULL, SPLIT, PACK, EVICT, COUNT)
        for sly in (Sly(), (Sly(), Sly()), [Sly()] * 3, (Sly(), Sly(), Sly()))
    ],
]


@pytest.mark.parametrize(
    ("part", "answer", "words"),
    REFUSED,
    ids=[f"{i}: {part[0].__name__}" for i, (part, _, _) in enumerate(REFUSED)],
)
def test_an_answer_of_another_form_is_refused_in_one_short_sentence(
    part: Any, answer: Any, words: str
):
    check, args = part
    with pytest.raises(PartError, match=words) as refused:
        ask(check, answer, *args)
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 300


@pytest.mark.parametrize(
    ("part", "reference"),
    [
        (ROWS, fused_rows),
        (FULL, full_mask),
        (SPLIT, split_kv),
        (PACK, pack),
        (EVICT, evict),
        (COUNT, held),
    ],
    ids=["fused_rows", "full_mask", "split_kv", "pack", "evict", "held"],
)
def test_the_right_answer_goes_through_untouched(part: Any, reference: Any):
    check, args = part
    answer = reference(*args)
    assert repr(ask(check, answer, *args)) == repr(answer)


@pytest.mark.parametrize(
    ("part", "answer"),
    [
        (ROWS, ([[0] * 4] * 3, [[63] * 4] * 3)),
        (FULL, torch.ones(3, 4, 7).bool()),
        (FULL, torch.zeros(3, 4, 7).bool()),
        (SPLIT, [torch.zeros(3, 2).double(), torch.zeros(4, 2).double(), OWN[2]]),
        (PACK, (CU_Q, CU_K, torch.ones(6, 11).bool())),
        (EVICT, (HELD, HELD)),
        (EVICT, (HELD[:, :0], HELD[:, :0])),
        (COUNT, (0, 1000)),
    ],
)
def test_an_answer_that_is_only_wrong_goes_through_and_shows_what_it_does(part: Any, answer: Any):
    check, args = part
    assert repr(ask(check, answer, *args)) == repr(answer)


def test_a_part_cannot_change_the_engine_through_the_lists_it_is_given():
    def vandal(*args: Any) -> Any:
        answer = [fused_rows, full_mask, split_kv, pack][len(calls) % 4](*args)
        for arg in args:
            if isinstance(arg, list):
                arg.clear()
        calls.append(0)
        return answer

    calls: list[int] = []
    known, past, new = [list(row) for row in KNOWN], list(PAST), list(NEW)
    checked_rows(vandal)(known, past, new)
    checked_full_mask(vandal)(past, new)
    checked_split(vandal)(K, past, new)
    checked_pack(vandal)(past, new)
    assert (known, past, new) == (KNOWN, PAST, NEW)


@pytest.mark.parametrize(
    ("part", "answer", "reference"),
    [
        (ROWS, [tuple(map(tuple, TOKENS)), np.array(POSITIONS).tolist()], (TOKENS, POSITIONS)),
        (ROWS, ([np.array(row) for row in TOKENS], POSITIONS), (TOKENS, POSITIONS)),
        (ROWS, ([[float(t) for t in row] for row in TOKENS], POSITIONS), (TOKENS, POSITIONS)),
        (SPLIT, tuple(OWN), OWN),
        (PACK, [torch.tensor(CU_Q), np.array(CU_K), MASK], (CU_Q, CU_K, MASK)),
        (EVICT, list(evict(HELD, -HELD, 3, 1)), evict(HELD, -HELD, 3, 1)),
        (COUNT, [np.int64(7), 6.0], (7, 6)),
    ],
)
def test_right_values_in_another_type_are_converted(part: Any, answer: Any, reference: Any):
    check, args = part
    assert repr(ask(check, answer, *args)) == repr(reference)


def test_single_positions_are_converted_too():
    assert mask_of_pairs(lambda *_: np.bool_(True))([4], [4], 3, 1).tolist() == [[True]]
    assert repr(slots_of_all(lambda *_: torch.tensor(2.0))([7], 3, 1)) == "[2]"


# ---------------------------------------------------------------- asked for many at once


def test_the_rule_for_pairs_becomes_the_mask_of_all_pairs():
    mask_of = mask_of_pairs(lambda q, k, w, s: visible(q, k, w, s))
    pairs = [4, 5], [0, 2, 3, 4, 5]
    for rule in [(3, 1), (1, 0), (None, 0)]:
        assert torch.equal(mask_of(*pairs, *rule), window_mask(*pairs, *rule))
    assert mask_of_pairs(AllParts().visible) is window_mask


@pytest.mark.parametrize("answer", [None, "yes", 2, 0.5, torch.ones(2), [True], Sly()])
def test_a_pair_that_is_neither_true_nor_false_is_refused_by_name(answer: Any):
    with pytest.raises(PartError, match=r"your visible\(4, 0, 3, 1\) returned .*True or False"):
        mask_of_pairs(lambda q, k, w, s: answer)([4], [0, 4], 3, 1)


@pytest.mark.parametrize("answer", [None, "0", 1.5, True, -1, 4, 99, torch.ones(2), Sly()])
def test_a_slot_that_is_none_is_refused_by_name(answer: Any):
    with pytest.raises(PartError, match=r"your ring_slot\(9, 3, 1\) returned .*slots 0\.\.3"):
        slots_of_all(lambda p, w, s: answer)([9], 3, 1)


def test_many_slots_are_asked_for_in_one_go_and_in_order():
    asked: list[int] = []

    def slot(position: int, window: int, sinks: int) -> int:
        asked.append(position)
        return ring_slot(position, window, sinks)

    assert slots_of_all(slot)([0, 5, 6, 7], 3, 1) == [0, 2, 3, 1]
    assert asked == [0, 5, 6, 7]


def test_an_error_in_one_of_many_calls_names_the_line_of_the_part():
    def visible_(query: int, key: int, window: int | None, sinks: int) -> bool:
        return bool(query // key)

    with pytest.raises(PartError, match=r"your visible raised ZeroDivisionError on its line 2"):
        mask_of_pairs(visible_)([3], [0], 3, 0)


# ---------------------------------------------------------------- through the engine


@pytest.mark.parametrize("name", ["fused_rows", "full_mask", "split_kv", "pack", "evict", "held"])
def test_every_layout_is_looked_at_on_its_way_into_the_engine(name: str):
    executor = "strip" if name == "pack" else "fused"
    config = EngineConfig(executor=executor, sliding_window=4, kv_storage="evict")
    engine = Engine(tiny_model(), config, Parts(**{name: lambda *_: "nonsense"}))
    engine.submit(Request(0, prompt_of(0, 6), 2))
    with pytest.raises(PartError, match=f"your {name}.* returned 'nonsense'"):
        engine.step()


def test_the_references_are_what_an_engine_has_by_itself():
    parts = AllParts()
    for reference in (fused_rows, full_mask, split_kv, pack, visible, evict, held, ring_slot):
        assert getattr(parts, reference.__name__).function is reference
