"""Threat 26: somebody edits who contributed to a model. What nodes signed shows it, wherever it was kept."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from flnet.cli.commands import cli
from flnet.cli.history import SIGNED, WRONG, verdict_of
from flnet.errors import ContributionRefused
from flnet.node.inbound import check_contribution
from flnet.params.params import Params, PeerId
from flnet.protocol.messages import HyperParams, ModelParams, Packet, Peer
from flnet.protocol.updates import Contribution, Update
from flnet.wire.binary_codec import BINARY_TYPE, BinaryCodec
from tests.helpers import key, params
from tests.node.mesh import MNIST_3_7, Mesh, mesh_of, until
from tests.security.keypairs import TestKey

KEY = "correct horse battery staple"
TRIGGER = b'{"trainerId": "MNIST_3_7", "rounds": 1}'


async def one_round(mesh: Mesh) -> dict[str, Any]:
    """The record of a round of this mesh on node a."""
    await mesh.nodes["a"].receive("/training/trigger", TRIGGER, "application/json", "127.0.0.1", "")
    await mesh.idle(0)
    (record,) = mesh.nodes["a"].history(MNIST_3_7)
    return dict(record)


async def heard(mesh: Mesh, kind: str) -> list[Any]:
    """What people on node a read of this kind, which they do as soon as it is saved."""
    feed = mesh.nodes["a"].feed
    await until(lambda: any(item.kind == kind for item in feed.recent()))
    return [item for item in feed.recent() if item.kind == kind]


def stated(record: dict[str, Any]) -> list[Contribution]:
    """The contributions of a record."""
    where = (MNIST_3_7, record["round"], record["initiator"])
    return [Contribution.read(view, *where) for view in record["contributions"]]


def changed(value: Any) -> Any:
    """The same but for one byte."""
    if isinstance(value, int):
        return value + 1
    return ("1" if value[0] != "1" else "2") + value[1:]


async def test_each_update_of_a_round_is_signed_by_its_sender_and_all_nodes_keep_it() -> None:
    async with mesh_of(1.0, 2.0, 3.0, mesh_key=KEY) as mesh:
        record = await one_round(mesh)
        found = stated(record)
        assert [one.peer for one in found] == ["a", "b", "c"]
        assert [one.examples for one in found] == [10, 20, 30]
        assert [verdict_of(one) for one in found] == [SIGNED] * 3
        keys = {name: node.core.members.key for name, node in mesh.nodes.items()}
        assert {one.peer: one.key for one in found} == keys
        assert len({one.base for one in found}) == 1
        for node in mesh.nodes.values():
            assert node.history(MNIST_3_7)[0]["contributions"] == record["contributions"]
        told = await heard(mesh, "round_closed")
        assert "contributions" not in told[0].data  # events stay short


async def test_one_changed_byte_of_any_field_is_found() -> None:
    async with mesh_of(1.0, 2.0, mesh_key=KEY) as mesh:
        one = stated(await one_round(mesh))[1]
    for name in ("peer", "trainer", "round", "initiator", "schema", "base", "digest", "examples", "labels", "key"):
        assert verdict_of(replace(one, **{name: changed(getattr(one, name))})) == WRONG, name
    raw = bytearray(base64.b64decode(one.signature))
    for place in range(len(raw)):
        raw[place] ^= 1
        assert verdict_of(replace(one, signature=base64.b64encode(raw).decode())) == WRONG
        raw[place] ^= 1


async def test_an_export_carries_it_and_the_command_checks_it(tmp_path: Path) -> None:
    async with mesh_of(1.0, 2.0, mesh_key=KEY) as mesh:
        record = await one_round(mesh)
        card = (await mesh.nodes["b"].card(MNIST_3_7, record["digest"])).body
    text = bytes(card).decode()
    file = tmp_path / "card.md"
    file.write_text(text)
    right = CliRunner().invoke(cli, ["audit", "--card", str(file), "--json"])
    assert right.exit_code == 0
    assert [one["verdict"] for one in json.loads(right.stdout)] == [SIGNED] * 2
    file.write_text(text.replace('"examples": 20', '"examples": 21'))
    wrong = CliRunner().invoke(cli, ["audit", "--card", str(file), "--json"])
    assert wrong.exit_code == 1
    assert [one["verdict"] for one in json.loads(wrong.stdout)] == [SIGNED, WRONG]


async def test_in_an_open_mesh_all_are_named_and_nobody_claims_to_have_signed() -> None:
    async with mesh_of(1.0, 2.0) as mesh:
        found = stated(await one_round(mesh))
        assert [(one.peer, one.is_signed) for one in found] == [("a", False), ("b", False)]


def signed(examples: int, digest: str = "3" * 64) -> Contribution:
    """What "b" states of an update, with a key of its own."""
    signer = TestKey(9)
    plain = Contribution("b", "T", 0, "a", "1" * 64, "2" * 64, digest, examples, key=signer.text)
    return replace(plain, signature=base64.b64encode(signer.sign(plain.statement())).decode())


def test_an_update_whose_statement_is_not_what_was_signed_is_refused() -> None:
    right = signed(10)
    check_contribution(Update(PeerId("b"), key(), params(w=[1]), 10, contribution=right), TestKey(1))
    forged = Update(PeerId("b"), key(), params(w=[1]), 10**6, contribution=replace(right, examples=10**6))
    with pytest.raises(ContributionRefused, match="what b states of its update is not what it signed"):
        check_contribution(forged, TestKey(1))


async def test_parameters_that_are_not_those_that_were_signed_for_count_nowhere() -> None:
    async with mesh_of(1.0, 2.0) as mesh:
        a = mesh.nodes["a"]
        peer = {"iAm": {"id": "b2", "ip": "127.0.0.1", "port": "4777"}, "myKnownPeers": []}
        await a.receive("/announce", json.dumps(peer).encode(), "application/json", "127.0.0.1", "")
        await a.receive("/training/trigger", TRIGGER, "application/json", "127.0.0.1", "")
        sent = Params({n: v + 1 for n, v in params(weights=[[1], [1]], bias=[0]).items()})
        message = ModelParams(
            i_am=Peer(id="b2", ip="127.0.0.1", port=4777),
            trainer_id=MNIST_3_7,
            round=0,
            initiator="a",
            federated_learning_params=HyperParams(e=1, u=0.1, b=8),
            examples=5,
            digest="3" * 64,
            base="2" * 64,
            schema_digest="1" * 64,
            key=TestKey(9).text,
            signature=signed(5).signature,
        )
        await a.receive(
            "/training/model_params",
            bytes(BinaryCodec().encode(Packet(message, sent))),
            BINARY_TYPE,
            "127.0.0.1",
            "",
        )
        await mesh.idle(0)
        (record,) = a.history(MNIST_3_7)
        assert record["contributors"] == ["a", "b"]
        told = [item.text for item in await heard(mesh, "update_refused")]
        assert told == ["the update of b2 does not count: its parameters are not those that it signed for"]
