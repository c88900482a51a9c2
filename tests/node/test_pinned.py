"""Tests of what makes a mesh pinned, and of whole nodes in one over the in-memory network."""

from __future__ import annotations

from pathlib import Path

from flnet.fingerprints import fingerprint
from flnet.keys import own_key
from flnet.node import NodeRuntime
from flnet.node.pinned import pinned_of, tls_of
from flnet.settings import Settings
from flnet.store import MemoryStore
from tests.node.mesh import MNIST_3_7, Linear, Mesh, until
from tests.node.test_keyed_mesh import kinds, start_round
from tests.signing.keypairs import TestKey

KEYS = {name: TestKey((4000 + i) % 256).text for i, name in enumerate("abcd")}  # as the meshes of tests have them
MARKS = {name: fingerprint(key) for name, key in KEYS.items()}


def test_other_meshes_need_nothing_of_it(tmp_path: Path) -> None:
    settings = Settings()
    assert pinned_of(settings, tmp_path, KEYS["a"], MemoryStore(), print) is None
    assert tls_of(settings, tmp_path, print) is None


async def test_a_pinned_mesh_has_its_parts(tmp_path: Path) -> None:
    own = own_key(tmp_path).text
    settings = Settings(mesh_mode="pinned", trusted_peers=(MARKS["b"],), introducers=(MARKS["c"],))
    made = pinned_of(settings, tmp_path, own, MemoryStore(), lambda *told: None)
    assert made is not None and made.signing.gate.me.key == own
    await made.trust.begin()
    assert made.trust.trusts(KEYS["b"]) and made.trust.is_introducer(KEYS["c"])
    told: list[str] = []
    tls = tls_of(settings, tmp_path, lambda kind, words: told.append(kind))
    assert tls is not None
    tls.on_plain()  # type: ignore[attr-defined]
    tls.on_plain()  # type: ignore[attr-defined]
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
    mesh = Mesh()
    try:
        await add(mesh, "a", trusts="bc")
        await add(mesh, "b", "a", trusts="ac")
        await add(mesh, "c", "a", trusts="ab")
        await mesh.full()
        await start_round(mesh.nodes["a"])
        await mesh.idle(0)
        histories = [node.history(MNIST_3_7)[-1]["contributors"] for node in mesh.nodes.values()]
        modes = {node.info()["mode"] for node in mesh.nodes.values()}
    finally:
        await mesh.stop()
    assert histories == [["a", "b", "c"]] * 3 and modes == {"pinned"}


async def test_strangers_see_each_other_wait_and_meet_as_soon_as_both_are_accepted() -> None:
    mesh = Mesh()
    try:
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
    finally:
        await mesh.stop()
    assert shown == [("b", KEYS["b"], b.me.address), ("a", KEYS["a"], a.me.address)]
    assert fingerprint(KEYS["b"])[:11] in kinds(b, "trust_waits")[0]


async def test_an_introducer_brings_nodes_together_and_takes_back_its_word() -> None:
    mesh = Mesh()
    try:
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
    finally:
        await mesh.stop()
    assert by == {"a": None, "c": MARKS["a"]} and out
