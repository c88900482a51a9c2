"""The messages of a round."""

from __future__ import annotations

from flnet.messages import Accuracy, AccuracyReply, StartTraining, digest_of
from tests.helpers import params, peer
from tests.messages.test_base import read


def test_who_starts_a_round_is_its_initiator_unless_it_says_otherwise() -> None:
    assert read(StartTraining).key.initiator == "a"
    assert read(StartTraining, initiator="b", round=4).key.initiator == "b"
    message = read(StartTraining, round=4)
    assert (message.sender, message.trainer, message.key.number) == ("a", "MNIST", 4)


def test_the_digest_is_that_of_what_came_not_of_what_was_said() -> None:
    held = params(w=[1.0])
    said = read(Accuracy, accuracy=0.5, digest="f" * 64)
    assert digest_of(said, None) == "f" * 64
    assert digest_of(said, held) == held.digest
    assert digest_of(AccuracyReply(i_am=peer(), accuracy=0.5), None) is None
