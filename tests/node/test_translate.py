"""What every message of the wire means to the core."""

from __future__ import annotations

from typing import Any

import pytest

from flnet.errors import ParamsRefused
from flnet.events import (
    AnnounceReceived,
    ClaimReceived,
    DeclineReceived,
    RoundTriggered,
    TrainingAsked,
    UpdateReceived,
)
from flnet.messages import (
    Accuracy,
    AccuracyReply,
    Announce,
    JobMessage,
    Message,
    ModelParams,
    Packet,
    Peer,
    StartTraining,
    Trigger,
)
from flnet.node.translate import KINDS, claim_of, located, to_event
from flnet.params import Params, PeerId, RoundKey
from tests.helpers import HYPER, key, params, peer

W = params(w=[1, 2])
IP = "9.9.9.9"


def packet(kind: type[JobMessage], model: Params | None = W, **fields: Any) -> Packet:
    message = kind(i_am=peer("a"), trainer_id="T", round=3, federated_learning_params=HYPER, **fields)
    return Packet(message, model)


def read(sent: Packet) -> Any:
    trainer, event = to_event(sent, IP)
    assert trainer == "T"
    return event


def test_every_path_that_takes_messages_has_its_kind() -> None:
    assert sorted(KINDS) == [
        *(
            "/announce",
            "/probe",
            "/training",
            "/training/model_params",
            "/training/model_params/accuracy",
            "/training/trigger",
            "/training/version",
        )
    ]
    assert all(kind.path == path for path, kind in KINDS.items())


def test_an_announcement_is_completed_with_where_it_came_from() -> None:
    message = Announce(i_am=Peer(id="a", port=1), my_known_peers=[peer("b"), Peer(id="c", port=2)])
    assert to_event(Packet(message), IP) == (None, AnnounceReceived(Peer(id="a", ip=IP, port=1), (peer("b"),)))


def test_an_address_that_was_stated_is_kept() -> None:
    assert located(peer("a", ip="10.0.0.1"), IP).ip == "10.0.0.1"
    assert located(peer("a", ip=None), IP).ip == IP


def test_a_trigger_asks_for_rounds() -> None:
    assert to_event(Packet(Trigger(trainer_id="T", rounds=2)), IP) == ("T", RoundTriggered(2))


def test_a_start_of_the_thesis_form_was_made_by_its_sender() -> None:
    assert read(packet(StartTraining)) == TrainingAsked(PeerId("a"), key(3, "a"), W, HYPER, -1, 0)


def test_a_start_names_its_initiator_and_its_base() -> None:
    back = read(packet(StartTraining, base_round=1, restored_at=2, run="r"))
    assert back == TrainingAsked(PeerId("a"), key(3, "a"), W, HYPER, 1, 0, restored_at=2, run="r")
    event = read(packet(StartTraining, initiator="z", base_round=2, contributors=5))
    assert (event.peer, event.key, event.base_round, event.contributors) == ("a", key(3, "z"), 2, 5)


def test_an_update_brings_parameters_and_their_weight() -> None:
    event = read(packet(ModelParams, initiator="z", examples=7, labels=4, accuracy=0.5))
    assert isinstance(event, UpdateReceived)
    update = event.update
    assert (update.peer, update.key, update.params) == ("a", key(3, "z"), W)
    assert (update.examples, update.labels, update.accuracy) == (7, 4, 0.5)


def test_an_update_of_the_thesis_form_leaves_initiator_and_examples_open() -> None:
    update = read(packet(ModelParams)).update
    assert (update.key, update.examples, update.labels) == (RoundKey(3, PeerId("")), None, 1)


def test_a_refusal_needs_no_parameters() -> None:
    event = read(packet(ModelParams, None, initiator="z", declined="no time"))
    assert event == DeclineReceived(PeerId("a"), key(3, "z"), "no time")


def test_an_empty_reason_is_a_refusal_too() -> None:
    assert isinstance(read(packet(ModelParams, None, declined="")), DeclineReceived)


@pytest.mark.parametrize("kind", [StartTraining, ModelParams])
def test_a_message_that_must_bring_parameters_and_does_not_is_refused(kind: type[JobMessage]) -> None:
    with pytest.raises(ParamsRefused, match=f"{kind.__name__} must bring parameters"):
        read(packet(kind, None))


def test_a_claim_is_about_the_model_beside_it_whatever_digest_is_stated() -> None:
    event = read(packet(Accuracy, accuracy=0.5, digest="f" * 64, contributors=3))
    assert isinstance(event, ClaimReceived)
    claim = event.claim
    assert (claim.peer, claim.round, claim.accuracy, claim.contributors) == ("a", 3, 0.5, 3)
    assert (claim.digest, claim.params) == (W.digest, W)


def test_a_claim_may_come_with_a_digest_only() -> None:
    claim = read(packet(Accuracy, None, accuracy=0.5, digest="f" * 64)).claim
    assert (claim.digest, claim.params) == ("f" * 64, None)
    assert read(packet(Accuracy, None, accuracy=0.5)).claim.digest is None


def test_an_answer_claims_for_the_round_that_was_asked_about() -> None:
    reply = AccuracyReply(i_am=peer("b"), accuracy=0.75, contributors=2)
    claim = claim_of(6, Packet(reply, W))
    assert (claim.peer, claim.round, claim.accuracy, claim.digest, claim.contributors) == (
        "b",
        6,
        0.75,
        W.digest,
        2,
    )


def test_an_answer_is_no_request() -> None:
    message: Message = AccuracyReply(i_am=peer("b"), accuracy=0.75)
    with pytest.raises(TypeError, match="AccuracyReply is no request"):
        to_event(Packet(message), IP)
