"""What nodes tell of their versions is signed in a mesh with a key, and never told before it is saved."""

from __future__ import annotations

import base64
from dataclasses import replace

import pytest

from flnet.cli.history import SIGNED, _of_round
from flnet.errors import ContributionRefused, NotReady
from flnet.node.inbound import MessageChecks, version_of
from flnet.params.params import Digest, Params, PeerId, TrainerId
from flnet.protocol.effects import Save, Send
from flnet.protocol.events import Mark, SendFailed, Version, VersionAnswered, VersionReceived
from flnet.protocol.messages import AskVersion
from flnet.protocol.updates import Contribution, Update
from tests.helpers import HYPER, key, peer
from tests.node.mesh import MNIST_3_7, mesh_of, trigger, until
from tests.node.test_performer import FULL, Kept
from tests.security.keypairs import TestKey

T = TrainerId("T")
DIGEST = Digest("d" * 64)
MESSAGE = AskVersion(
    i_am=peer("b"), trainer_id="T", round=3, federated_learning_params=HYPER, run="r", digest=DIGEST, examples=10
)


def stated(signed_as: int = 10) -> Version:
    """Version 3 of b, with ten examples; signed as if it had so many."""
    signer = TestKey(1)
    said = Contribution("b", "T", 3, "b", "s" * 64, "a" * 64, DIGEST, signed_as, 1, signer.text)
    signed = replace(said, signature=base64.b64encode(signer.sign(said.statement())).decode())
    update = Update(PeerId("b"), key(3, "b"), Params(), 10, contribution=replace(signed, examples=10))
    return Version(Mark("r", 3, DIGEST), update)


def checks() -> MessageChecks:
    made = MessageChecks("me", lambda: 0.0, lambda kind, text: None)
    made.signer = TestKey(2)
    return made


def test_a_version_that_is_signed_as_it_says_comes_through() -> None:
    asked, answered = VersionReceived(stated()), VersionAnswered(stated())
    assert checks().admit(MESSAGE, asked, "127.0.0.1") == asked
    assert checks().heard(answered, lambda peer: None) == answered


def test_one_that_is_not_is_refused_and_as_an_answer_counts_as_none() -> None:
    with pytest.raises(ContributionRefused):
        checks().admit(MESSAGE, VersionReceived(stated(11)), "127.0.0.1")
    event = checks().heard(VersionAnswered(stated(11)), lambda peer: None)
    assert isinstance(event, SendFailed) and (event.peer, event.path) == ("b", AskVersion.path)


def test_what_a_message_states_is_what_was_signed() -> None:
    one = stated().update.contribution
    assert one is not None
    signs = {"schema_digest": one.schema, "base": one.base, "key": one.key, "signature": one.signature}
    read = version_of(MESSAGE.model_copy(update=signs), PeerId("b"), 3, T)
    assert read == stated() and read.update.contribution == one
    assert version_of(MESSAGE, PeerId("b"), 3, T).update.contribution is None


async def test_a_version_that_is_not_saved_is_told_to_nobody() -> None:
    kept, send = Kept(), Send((PeerId("c"),), MESSAGE)
    assert kept.saver.allowed(T, send) is send
    await kept.saver.ensure_saved(T, VersionReceived(stated()))
    kept.disk.full = FULL
    await kept.saver.save(T, Save({}))
    assert kept.saver.allowed(T, send).to == ()
    with pytest.raises(NotReady, match="own version cannot be kept"):
        await kept.saver.ensure_saved(T, VersionReceived(stated()))


async def test_the_records_of_versions_can_be_audited() -> None:
    async with mesh_of(
        1.0, 2.0, mesh_key="a key of at least thirty-two characters", rounds="asynchronous"
    ) as mesh:
        for name in ("a", "b", "a"):
            number = mesh.nodes[name].job(MNIST_3_7).as_json()["versions"]["own"] + 1
            await trigger(mesh.nodes[name])
            await until(lambda n=name, k=number: mesh.nodes[n].job(MNIST_3_7).as_json()["versions"]["own"] == k)  # type: ignore[misc]
        record = mesh.nodes["a"].history(MNIST_3_7)[-1]
        assert record["contributors"] == ["a", "b"] and record["round"] == 2
        rows = [(one["round"], one["peer"], one["verdict"]) for one in _of_round(MNIST_3_7, record)]
        assert rows == [(1, "a", SIGNED), (1, "b", SIGNED)]
