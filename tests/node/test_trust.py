"""Tests of trust in a running node: what people decide is kept before it holds, and who has to hear of it does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from flnet.errors import LocalError, SettingsError, StartError, UnknownKey
from flnet.fingerprints import fingerprint, words
from flnet.node.runtime import NodeRuntime
from flnet.node.trust import LONGEST, SHORTEST, Trust, made_of, pinned_of, secret_of, signing_of, tls_of
from flnet.security.keys import own_key
from flnet.settings import Settings
from flnet.store.memory import MemoryStore
from tests.node.mesh import MNIST_3_7, Linear, Mesh, mesh_of, until
from tests.node.test_keyed_mesh import kinds
from tests.security.keypairs import MESH, TestKey, admitted, learnt, sent

OWN, A, B = (TestKey(seed).text for seed in (1, 2, 3))


class FullDisk(MemoryStore):
    """Keeps nothing."""

    async def save_trust(self, rows: Sequence[Mapping[str, Any]]) -> None:
        raise LocalError("no room")


async def test_who_waits_is_shown_and_accepted() -> None:
    told: list[str] = []
    trust = Trust(OWN, publish=lambda kind, *_: told.append(kind), now=lambda: 9.0)
    trust.met(A, "n1", "10.0.0.1:4000")
    shown = {
        "name": "n1",
        "address": "10.0.0.1:4000",
        "key": A,
        "fingerprint": fingerprint(A),
        "words": words(A),
        "since": 9.0,
        "introduced_by": None,
    }
    assert trust.pending() == [shown] and trust.accepted() == [] and trust.mode == "pinned"
    accepted = await trust.accept(fingerprint(A))
    assert accepted == shown | {"is_introducer": False, "accepted_by": "person"}
    assert trust.accepted() == [accepted] and trust.pending() == [] and trust.trusts(A)
    await trust.reject(B)
    assert [one["fingerprint"] for one in trust.refused()] == [fingerprint(B)]
    assert told == ["trust_pending", "trust_accepted", "trust_rejected"]
    assert trust.own() == {"key": OWN, "fingerprint": fingerprint(OWN), "words": words(OWN)}


async def test_decisions_outlive_the_process() -> None:
    store = MemoryStore()
    trust = Trust(OWN, store, peers=[fingerprint(B)])
    await trust.begin()
    await trust.accept(A, introducer=True)
    await trust.forget(B)
    again = Trust(OWN, store, peers=[fingerprint(B)])
    await again.begin()
    assert again.trusts(A) and again.is_introducer(A)
    assert again.is_out(B) and not again.trusts(B)  # whatever the settings say


async def test_what_cannot_be_kept_does_not_hold() -> None:
    trust = Trust(OWN, FullDisk())
    trust.met(A, "n1", "10.0.0.1:4000")
    with pytest.raises(LocalError, match="no room"):
        await trust.accept(A)
    with pytest.raises(LocalError, match="no room"):
        await trust.reject(A)
    assert not trust.trusts(A) and not trust.is_out(A)
    assert len(trust.pending()) == 1


async def test_the_node_hears_who_came_and_who_is_gone() -> None:
    heard: list[tuple[Sequence[str], Sequence[str]]] = []
    trust = Trust(OWN)
    trust.changed = lambda gone, come: heard.append((gone, come))
    trust.met(A, "n1", "10.0.0.1:4000")
    await trust.accept(A)
    await trust.accept(A, introducer=True)  # no news to the mesh
    trust.met(B, "n2", "10.0.0.2:4000")
    await trust.introduced(A, [(fingerprint(B), "n2")])
    assert trust.accepted()[1]["introduced_by"] == fingerprint(A)
    await trust.forget(A)
    assert heard == [([], ["10.0.0.1:4000"]), ([], ["10.0.0.2:4000"]), ([fingerprint(A), fingerprint(B)], [])]
    with pytest.raises(UnknownKey):
        await trust.forget(A)


KEY = "correct horse battery staple"


def test_two_different_keys_of_a_mesh_are_accepted(tmp_path: Path) -> None:
    own_key(tmp_path)
    file = tmp_path / "other.key"
    file.write_text(f"{KEY}, too\n")
    made = signing_of(Settings(mesh_key=KEY, other_mesh_key_file=file), tmp_path)
    assert made is not None and made.verifier.users_of_other == set()
    with pytest.raises(SettingsError, match="FLNET_OTHER_MESH_KEY is the same key as FLNET_MESH_KEY"):
        signing_of(Settings(mesh_key=KEY, other_mesh_key=KEY), tmp_path)
    with pytest.raises(SettingsError, match="FLNET_OTHER_MESH_KEY takes"):
        signing_of(Settings(mesh_key=KEY, other_mesh_key="short"), tmp_path)


def test_two_nodes_with_the_same_key_let_each_other_in(tmp_path: Path) -> None:
    keys = [own_key(tmp_path / name).text for name in "ab"]
    a, b = (signing_of(Settings(mesh_key=KEY), tmp_path / name) for name in "ab")
    assert a is not None and b is not None

    caller = admitted(b.verifier, sent(learnt(a.signer, b.verifier)).headers)

    assert caller.key == keys[0]
    assert b.verifier.me.key == keys[1]


def test_each_start_has_its_own_session() -> None:
    first, second = (made_of(TestKey(1), MESH).verifier.me for _ in range(2))

    assert first.key == second.key and first.session != second.session


def test_the_key_may_stand_in_a_file(tmp_path: Path) -> None:
    file = tmp_path / "mesh.key"
    file.write_text(f"{KEY}\n")

    assert secret_of(Settings(mesh_key_file=file)) == KEY


def test_a_file_that_cannot_be_read_stops_the_start(tmp_path: Path) -> None:
    with pytest.raises(StartError, match="cannot be read"):
        secret_of(Settings(mesh_key_file=tmp_path / "none"))
    (tmp_path / "binary").write_bytes(b"\xff" * 40)
    with pytest.raises(StartError, match="no text"):
        secret_of(Settings(mesh_key_file=tmp_path / "binary"))


@pytest.mark.parametrize("key", ["", "x" * (SHORTEST - 1), "x" * (LONGEST + 1)])
def test_a_key_that_can_be_guessed_is_refused(key: str) -> None:
    with pytest.raises(SettingsError, match="openssl rand"):
        secret_of(Settings(mesh_key=key))


# Tests of what makes a mesh pinned, and of whole nodes in one over the in-memory network.


KEYS = {name: TestKey((4000 + i) % 256).text for i, name in enumerate("abcd")}  # as the meshes of tests have them
MARKS = {name: fingerprint(key) for name, key in KEYS.items()}


def test_an_open_mesh_needs_nothing_of_it(tmp_path: Path) -> None:
    settings = Settings()
    assert pinned_of(settings, tmp_path, KEYS["a"], MemoryStore(), print) is None
    assert tls_of(settings, tmp_path, print) is None
    assert signing_of(settings, tmp_path) is None


async def test_a_pinned_mesh_has_its_parts(tmp_path: Path) -> None:
    own = own_key(tmp_path).text
    settings = Settings(mesh_mode="pinned", trusted_peers=(MARKS["b"],), introducers=(MARKS["c"],))
    made = pinned_of(settings, tmp_path, own, MemoryStore(), lambda *told: None)
    assert made is not None and made.signing.verifier.me.key == own
    await made.trust.begin()
    assert made.trust.trusts(KEYS["b"]) and made.trust.is_introducer(KEYS["c"])
    told: list[str] = []
    tls = tls_of(settings, tmp_path, lambda kind, words: told.append(kind))
    assert tls is not None
    tls.on_plain()
    tls.on_plain()
    assert told == ["refused_here"]  # once


async def add(mesh: Mesh, name: str, bootstrap: str = "", trusts: str = "", introducers: str = "") -> NodeRuntime:
    return await mesh.add(
        name,
        Linear(1.0),
        tuple(bootstrap),
        mesh_mode="pinned",
        trusted_peers=tuple(MARKS[one] for one in trusts),
        introducers=tuple(MARKS[one] for one in introducers),
    )


def members(node: NodeRuntime) -> list[str]:
    return [str(peer) for peer in node.core.members.alive]


async def test_nodes_that_accepted_each_other_train() -> None:
    async with mesh_of() as mesh:
        await add(mesh, "a", trusts="bc")
        await add(mesh, "b", "a", trusts="ac")
        await add(mesh, "c", "a", trusts="ab")
        await mesh.full()
        await mesh.train()
        for node in mesh.nodes.values():
            assert node.history(MNIST_3_7)[-1]["contributors"] == ["a", "b", "c"]
            assert node.info()["mode"] == "pinned"


async def test_strangers_see_each_other_wait_and_meet_as_soon_as_both_are_accepted() -> None:
    async with mesh_of() as mesh:
        a = await add(mesh, "a")
        b = await add(mesh, "b", "a")
        assert a.trust is not None and b.trust is not None
        waits_a, waits_b = a.trust.pending, b.trust.pending
        await until(lambda: bool(waits_a() and waits_b()))
        await until(lambda: waits_b()[0]["name"] == "a")  # it said so when b knocked
        shown = [(one["name"], one["key"], one["address"]) for one in (*waits_a(), *waits_b())]
        assert members(a) == members(b) == []
        await b.trust.accept(KEYS["a"])
        await until(lambda: bool(kinds(b, "trust_waits")))
        assert members(a) == members(b) == []
        await a.trust.accept(MARKS["b"])
        await until(lambda: members(a) == ["b"] and members(b) == ["a"])
    assert shown == [("b", KEYS["b"], b.me.address), ("a", KEYS["a"], a.me.address)]
    assert fingerprint(KEYS["b"])[:11] in kinds(b, "trust_waits")[0]


@pytest.mark.usefixtures("hurried")
async def test_an_introducer_brings_nodes_together_and_takes_back_its_word() -> None:
    async with mesh_of() as mesh:
        a = await add(mesh, "a", trusts="bc")
        await add(mesh, "b", "a", introducers="a")
        await add(mesh, "c", "a", introducers="a")
        await mesh.full()
        b, c = mesh.nodes["b"], mesh.nodes["c"]
        assert b.trust is not None and c.trust is not None and a.trust is not None
        by = {one["name"]: one["introduced_by"] for one in b.trust.accepted()}
        await a.trust.forget(KEYS["c"])
        await until(lambda: members(b) == ["a"] and members(a) == ["b"])
        await until(lambda: members(c) == [])
        out = a.trust.is_out(KEYS["c"])
    assert by == {"a": None, "c": MARKS["a"]} and out
