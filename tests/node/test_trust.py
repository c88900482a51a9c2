"""Tests of trust in a running node: what people decide is kept before it holds, and who has to hear of it does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from flnet.errors import LocalError
from flnet.fingerprints import fingerprint, words
from flnet.node.trust import Trust
from flnet.store import MemoryStore
from flnet.trust import UnknownKey
from tests.signing.keypairs import TestKey

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
