"""A right answer in another type is taken for what it is: numpy's, torch's, a list for a tuple."""

import pytest

from course.audit.auditing import refused
from course.audit.variants import VARIANTS, Variant, applying, giving, recast
from course.exercise import Exercise
from course.registry import exercise, exercises


@pytest.mark.parametrize("item", exercises(), ids=lambda item: item.id)
def test_the_worked_answer_passes_in_every_type_or_is_told_which_one_came(item: Exercise) -> None:
    worked = item.right[0]
    sentences = {each.name: refused(item, worked, each) for each in applying(item.check, worked)}
    assert {name: said for name, said in sentences.items() if said is not None} == {}


def test_results_of_the_course_are_given_in_every_other_type() -> None:
    found = {each.name for item in exercises() for each in applying(item.check, item.right[0])}
    assert found == {each.name for each in VARIANTS}


def test_a_result_is_cast_to_its_depths_and_nothing_else_is() -> None:
    value = [(1, True, 0.5), {"a": [2]}]
    assert repr(recast(value, named("floats for ints").cast)) == repr(
        [(1.0, True, 0.5), {"a": [2.0]}]
    )
    assert recast(value, named("tuples for lists").cast) == ((1, True, 0.5), {"a": (2,)})


def test_another_type_that_matters_may_be_refused_in_words_that_name_it() -> None:
    item = exercise("l01.chunk_mask")
    report = item.check(giving(item.right[0], named("another dtype").cast))
    assert report.idea == "The mask holds True and False (torch.bool); this one is uint8."
    assert refused(item, item.right[0], named("another dtype")) is None


def named(name: str) -> Variant:
    return next(each for each in VARIANTS if each.name == name)
