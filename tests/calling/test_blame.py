"""What stopped a run: an answer that was refused is told in its own sentence."""

import pytest

from course.calling.errors import blame
from nanogpt.policies import Policies
from nanogpt.policies.validate_policies import ANSWERS
from nanogpt.validate import PolicyError, validated


def test_a_refused_answer_is_told_in_its_own_sentence_wherever_it_was_asked_from():
    policies = validated(Policies(choose_victim=lambda active: 7), ANSWERS)
    with pytest.raises(PolicyError) as refused:
        policies.choose_victim([])  # in this file, which is none of the project's packages
    said = "choose_victim returned 7; it must be one of the running requests []"
    assert blame(refused.value) == said
