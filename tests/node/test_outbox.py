"""What travels with its parameters, and what by digest only."""

from __future__ import annotations

from typing import Any

import pytest

from flnet.node.outbox import PUSH_BYTES, goes_along
from flnet.params.params import Params
from flnet.protocol.messages import SAFETENSORS, Accuracy, Message, ModelParams, StartTraining
from tests.helpers import HYPER, params, peer

ROUND: dict[str, Any] = {"i_am": peer(), "trainer_id": "MNIST", "round": 0, "federated_learning_params": HYPER}
START, UPDATE, CLAIM = StartTraining(**ROUND), ModelParams(**ROUND), Accuracy(**ROUND, accuracy=0.5)
READS = frozenset({SAFETENSORS})


@pytest.mark.parametrize("message", [START, UPDATE, CLAIM])
def test_who_reads_the_thesis_json_only_gets_all_parameters(message: Message) -> None:
    assert goes_along(message, params(w=[0.0] * PUSH_BYTES), frozenset())
    assert goes_along(message, params(w=[0.0]), frozenset({"something newer"}))


@pytest.mark.parametrize(("message", "along"), [(START, False), (UPDATE, True), (CLAIM, False)])
def test_others_get_updates_and_the_digests_of_what_they_will_hold_already(message: Message, along: bool) -> None:
    assert goes_along(message, params(w=[0.0]), READS) is along


def test_a_large_update_is_fetched_when_there_is_room() -> None:
    largest = params("uint8", w=[0] * PUSH_BYTES)
    assert goes_along(UPDATE, largest, READS)
    assert not goes_along(UPDATE, params("uint8", w=[0] * (PUSH_BYTES + 1)), READS)


def test_a_message_without_parameters_goes_as_it_is() -> None:
    assert goes_along(UPDATE, None, READS)
    assert goes_along(UPDATE, Params(), READS)
