"""The checks of a mesh at rest accept a correct mesh, and each of them reports what it is for."""

from __future__ import annotations

from dataclasses import replace

import pytest

from flnet.aggregation.screening import Bounds
from flnet.membership.probing import Pauses
from flnet.membership.roster import Status
from flnet.params.params import PeerId
from flnet.simulation.cluster import Cluster
from flnet.simulation.invariants import InvariantBroken
from flnet.simulation.playback import (
    agreement_bound,
    check_acknowledged,
    check_bounds,
    check_choices,
    check_closed_by_all,
    check_one_model,
    disagreements,
)
from tests.simulation.helpers import idle, mesh, play_round

A, B, C = PeerId("n00"), PeerId("n01"), PeerId("n02")


def after_a_round(bounds: Bounds | None = None) -> Cluster:
    cluster = mesh(3, 1)
    cluster.bounds = bounds or cluster.bounds
    play_round(cluster, A)
    return cluster


def test_a_correct_mesh_passes_all_checks() -> None:
    cluster = after_a_round()
    assert disagreements(cluster) == []
    check_one_model(cluster)
    check_closed_by_all(cluster, 0)
    check_bounds(cluster, 3)
    check_acknowledged(cluster)
    check_choices(cluster)


def test_nodes_that_chose_different_participants_are_found() -> None:
    cluster = after_a_round()
    for node, chosen in ((A, (A, B)), (B, (A, C))):
        cluster.nodes[node].job.history.records[-1].chosen = chosen
    with pytest.raises(InvariantBroken, match="chose"):
        check_choices(cluster)


def test_disagreements_are_about_incarnations_dead_and_unknown_nodes() -> None:
    cluster = after_a_round()
    roster = cluster.nodes[A].core.members.state.roster
    roster.known[B] = replace(roster.known[B], standing=Status(incarnation=3))
    assert disagreements(cluster) == ["n00 holds n01 (alive 0) for alive 3"]
    cluster.kill(B)
    assert disagreements(cluster) == ["n00 holds n01 (gone) for alive", "n02 holds n01 (gone) for alive"]
    del roster.known[C]
    assert "n00 holds n02 (alive 0) for nobody" in disagreements(cluster)


def test_larger_and_slower_meshes_have_longer_to_agree() -> None:
    default = agreement_bound(Pauses(), 5)
    assert agreement_bound(Pauses(), 9) > default
    assert agreement_bound(Pauses(tick=4.0), 5) > 2 * default


def test_two_models_of_a_split_mesh_are_found() -> None:
    cluster = after_a_round()
    cluster.cut([A], [B, C])
    for name in (A, B):
        cluster.trigger(name)
    idle(cluster)
    with pytest.raises(InvariantBroken, match="hold models"):
        check_one_model(cluster)
    play_round(cluster, B)
    with pytest.raises(InvariantBroken, match="are in rounds"):
        check_one_model(cluster)
    with pytest.raises(InvariantBroken, match="without"):
        check_closed_by_all(cluster, 1)
    with pytest.raises(InvariantBroken, match="no average"):
        check_closed_by_all(cluster, 2)


def test_a_record_too_many_and_an_acknowledged_update_without_a_record_are_found() -> None:
    cluster = after_a_round()
    history = cluster.nodes[A].job.history.records
    history.append(history[0])
    with pytest.raises(InvariantBroken, match="n00 keeps 2 records, where 1 are enough"):
        check_bounds(cluster, 3)
    history[0].contributors = (A,)
    with pytest.raises(InvariantBroken, match=r"n00 says nothing of \['n01', 'n02'\]"):
        check_acknowledged(cluster)


def test_an_update_that_was_left_out_must_be_named_and_left_out_by_all() -> None:
    cluster = after_a_round(Bounds(ratio=1.01))
    check_acknowledged(cluster)
    check_closed_by_all(cluster, 0)
    node = next(node for node in cluster.alive if "left out" in node.job.history.records[0].outcome)
    outcome, node.job.history.records[0].outcome = node.job.history.records[0].outcome, "averaged 3 updates"
    with pytest.raises(InvariantBroken, match="says nothing of"):
        check_acknowledged(cluster)
    node.job.history.records[0].outcome = outcome
    left_out = cluster.ledger.left_out(B, node.job.history.records[0].key)
    assert left_out
    left_out.clear()
    with pytest.raises(InvariantBroken, match="without"):
        check_closed_by_all(cluster, 0)


def test_a_node_that_had_other_updates_may_leave_out_others() -> None:
    cluster = after_a_round(Bounds(ratio=1.01))
    record, round = cluster.nodes[B].job.history.records[0], cluster.nodes[B].job.round
    assert round is not None and round.gathering is not None
    averaging = round.gathering
    assert len(cluster.ledger.left_out(A, record.key)) == 1
    # B could not fetch one of the two updates that the others count, and counts all of the rest.
    missed = max({*record.contributors} - {B})
    averaging.declined[missed] = "its update could not be fetched: lost"
    record.contributors = tuple(sorted({*cluster.nodes} - {missed}))
    cluster.ledger.left_out(B, record.key).clear()
    check_closed_by_all(cluster, 0)
    averaging.declined.clear()
    with pytest.raises(InvariantBroken, match="without"):
        check_closed_by_all(cluster, 0)
