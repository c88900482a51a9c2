"""What people send may hold nothing unknown."""

from __future__ import annotations

import pytest

from flnet.errors import InvalidMessage
from flnet.messages import EditHyperParams, Trigger, Triggered


@pytest.mark.parametrize("rounds", [0, -1, 1_000_001, 1.5])
def test_a_number_of_rounds_that_is_none_is_named(rounds: float) -> None:
    with pytest.raises(InvalidMessage, match="rounds"):
        Trigger.read({"trainerId": "MNIST", "rounds": rounds})


def test_a_typing_error_is_seen() -> None:
    with pytest.raises(InvalidMessage, match="epochs"):
        EditHyperParams.read({"epochs": 3})


def test_the_answer_names_the_first_round() -> None:
    assert Triggered(trainer_id="MNIST", round=4).fields() == {"trainerId": "MNIST", "round": 4}
