"""Asynchronous meshes: every node's version reaches all others, although there are no common rounds."""

from __future__ import annotations

import pytest

from flnet.params.params import PeerId
from flnet.rounds.asynchronous_job import AsynchronousJob, Versions
from flnet.rounds.settings import Rules
from flnet.simulation.cluster import Cluster
from flnet.simulation.invariants import InvariantBroken, VersionLedger
from flnet.simulation.playback import check_versions
from tests.simulation.helpers import play_round
from tests.simulation.test_round_rules import with_absurd_updates

FIRST, SECOND, THIRD = PeerId("n00"), PeerId("n01"), PeerId("n02")


def known(cluster: Cluster, name: PeerId) -> Versions:
    """What a node knows of the others' versions."""
    job = cluster.nodes[name].job
    assert isinstance(job, AsynchronousJob)
    return job.versions


def joined(size: int = 3) -> Cluster:
    cluster = Cluster(size, 5, rules=Rules(asynchronous=True))
    cluster.start()
    cluster.run_for(20)
    return cluster


def wake(cluster: Cluster, *names: PeerId) -> None:
    """Have these nodes merge and train, one after the other."""
    for name in names:
        play_round(cluster, name)
        cluster.run_for(1)


def outcomes(cluster: Cluster, name: PeerId) -> list[str]:
    return [record.outcome for record in cluster.nodes[name].job.history.records]


def test_a_node_merges_what_the_others_made_since_it_last_did_and_knows_their_newest_versions() -> None:
    cluster = joined()
    wake(cluster, FIRST, SECOND, SECOND)
    versions = cluster.nodes[THIRD].job.view().versions
    assert versions is not None
    assert [(row.peer, row.version, row.newer) for row in versions.peers] == [("n00", 1, True), ("n01", 2, True)]
    wake(cluster, THIRD, FIRST)
    assert outcomes(cluster, SECOND)[0] == "merged n00 v1, trained, now v1"
    assert outcomes(cluster, THIRD) == ["merged n00 v1 and n01 v2, trained, now v1"]
    assert outcomes(cluster, FIRST)[1] == "merged n01 v2 and n02 v1, trained, now v2"


def test_a_slow_node_holds_up_nobody_and_its_model_counts() -> None:
    cluster = joined()
    cluster.nodes[THIRD].slowness = 50.0
    cluster.trigger(THIRD)
    cluster.trigger(FIRST, 5)
    cluster.clock.run(lambda: cluster.nodes[FIRST].job.number == 5, cluster.clock.now + 100)
    assert cluster.nodes[THIRD].job.number == 1 and cluster.nodes[THIRD].job.busy
    assert cluster.run_until_idle()
    wake(cluster, FIRST)
    assert outcomes(cluster, FIRST)[-1] == "merged n02 v1, trained, now v6"


def test_a_node_that_lost_its_disk_starts_from_the_models_of_the_others() -> None:
    cluster = joined()
    wake(cluster, FIRST, SECOND, THIRD, FIRST)
    restarted = cluster.restart(cluster.kill(FIRST), keeps_disk=False)
    cluster.run_for(20)
    wake(cluster, FIRST, SECOND)
    assert restarted.job.history.records[-1].contributors == (FIRST, SECOND, THIRD)
    merged = known(cluster, SECOND).merged[FIRST]
    assert merged.mark.number == 1 and merged.into == 2
    check_versions(cluster)


def test_an_absurd_model_is_left_out_even_if_it_was_added_up_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flnet.rounds.base_round.HOLD_BYTES", 1)
    cluster = joined(5)
    names = list(cluster.nodes)
    wake(cluster, *names[1:])
    spoilt = with_absurd_updates(cluster, FIRST)
    wake(cluster, FIRST, *names[1:])
    assert spoilt == names[1:]
    for name in names[1:]:
        assert outcomes(cluster, name)[-1].endswith("; left out: n00")
        assert FIRST not in cluster.nodes[name].job.history.records[-1].contributors
        assert FIRST not in known(cluster, name).merged


def test_synchronous_and_asynchronous_nodes_do_not_mix() -> None:
    cluster = joined(2)
    cluster.rules = None
    wake(cluster, FIRST)
    cluster.restart(cluster.kill(SECOND))
    cluster.run_for(20)
    texts: list[str] = []
    cluster._listen = lambda at, node, text: texts.append(f"{node} {text}")
    cluster.trigger(FIRST)
    cluster.run_until_idle()
    assert any(
        "n01 says no version" in text and "of each node by itself (asynchronous) at n00" in text for text in texts
    )
    assert cluster.nodes[FIRST].job.history.records[-1].contributors == (FIRST,)
    assert cluster.nodes[SECOND].job.number == -1


def test_a_contributor_that_no_record_names_is_found() -> None:
    cluster = joined()
    wake(cluster, FIRST)
    assert isinstance(cluster.ledger, VersionLedger)
    cluster.ledger._merges[FIRST, 1] = {FIRST, PeerId("n09")}
    with pytest.raises(InvariantBroken, match="n09"):
        cluster.ledger.stepped(cluster.nodes[FIRST].job)
