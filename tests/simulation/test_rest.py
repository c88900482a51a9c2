"""What a mesh at rest must fulfil; each check finds what it is for."""

from __future__ import annotations

from dataclasses import replace

import pytest

from flnet.membership import Pauses
from flnet.membership.standing import Standing
from flnet.params import PeerId
from flnet.screening import Bounds
from flnet.simulation import Cluster, InvariantBroken
from flnet.simulation.rest import (
    acknowledged_is_named,
    agreement_bound,
    choices_agree,
    closed_by_all,
    disagreements,
    is_bounded,
    is_one,
)
from flnet.simulation.restarts import kill
from tests.simulation.helpers import mesh

A, B = PeerId("n00"), PeerId("n01")


def after_a_round() -> Cluster:
    cluster = mesh(3, 1)
    cluster.trigger(A)
    assert cluster.run_until_idle()
    return cluster


def test_a_mesh_at_rest_has_nothing_to_complain_of() -> None:
    cluster = after_a_round()
    assert disagreements(cluster) == []
    is_one(cluster)
    closed_by_all(cluster, 0)
    is_bounded(cluster, 3)
    acknowledged_is_named(cluster)
    choices_agree(cluster)


def test_two_choices_for_one_round_are_found() -> None:
    cluster = after_a_round()
    for node, chosen in ((A, ("n00", "n01")), (B, ("n00", "n02"))):
        cluster.nodes[node].job.state.history[-1].chosen = tuple(map(PeerId, chosen))
    with pytest.raises(InvariantBroken, match="chose"):
        choices_agree(cluster)


def test_another_incarnation_is_a_disagreement_and_so_is_a_dead_one_held_for_alive() -> None:
    cluster = after_a_round()
    roster = cluster.nodes[A].core.members.state.roster
    roster.known[B] = replace(roster.known[B], standing=Standing(incarnation=3))
    assert disagreements(cluster) == ["n00 holds n01 (alive 0) for alive 3"]
    kill(cluster, B)
    assert disagreements(cluster) == ["n00 holds n01 (gone) for alive", "n02 holds n01 (gone) for alive"]
    del roster.known[PeerId("n02")]
    assert "n00 holds n02 (alive 0) for nobody" in disagreements(cluster)


def test_the_bound_grows_with_the_mesh_and_with_its_pauses() -> None:
    usual = agreement_bound(Pauses(), 5)
    assert agreement_bound(Pauses(), 9) > usual
    assert agreement_bound(Pauses(tick=4.0), 5) > 2 * usual


def test_two_models_are_found() -> None:
    cluster = after_a_round()
    cluster.cut([A], [B, PeerId("n02")])
    for name in (A, B):
        cluster.trigger(name)
    assert cluster.run_until_idle()
    with pytest.raises(InvariantBroken, match="hold models"):
        is_one(cluster)
    cluster.trigger(B)
    assert cluster.run_until_idle()
    with pytest.raises(InvariantBroken, match="are in rounds"):
        is_one(cluster)
    with pytest.raises(InvariantBroken, match="without"):
        closed_by_all(cluster, 1)
    with pytest.raises(InvariantBroken, match="no average"):
        closed_by_all(cluster, 2)


def test_what_is_kept_too_much_is_found() -> None:
    cluster = after_a_round()
    state = cluster.nodes[A].job.state
    state.history.append(state.history[0])
    with pytest.raises(InvariantBroken, match="n00 keeps 2 records, where 1 are enough"):
        is_bounded(cluster, 3)


def test_an_acknowledged_update_that_nothing_is_said_of_is_found() -> None:
    cluster = after_a_round()
    record = cluster.nodes[A].job.state.history[0]
    record.contributors = (A,)
    with pytest.raises(InvariantBroken, match=r"n00 says nothing of \['n01', 'n02'\]"):
        acknowledged_is_named(cluster)


def test_an_acknowledged_update_that_was_left_out_has_to_be_named_as_such() -> None:
    cluster = mesh(3, 1)
    cluster.bounds = Bounds(ratio=1.01)
    cluster.trigger(A)
    assert cluster.run_until_idle()
    acknowledged_is_named(cluster)
    node = next(node for node in cluster.alive if "left out" in node.job.state.history[0].outcome)
    node.job.state.history[0].outcome = "averaged 3 updates: everyone expected has spoken"
    with pytest.raises(InvariantBroken, match="says nothing of"):
        acknowledged_is_named(cluster)


def test_what_no_node_counts_is_missed_by_nobody_and_what_one_alone_leaves_out_is() -> None:
    cluster = mesh(3, 1)
    cluster.bounds = Bounds(ratio=1.01)
    cluster.trigger(A)
    assert cluster.run_until_idle()
    key = cluster.nodes[A].job.state.history[0].key
    left_out = cluster.ledger.left_out(A, key)
    assert left_out
    closed_by_all(cluster, 0)
    cluster.ledger.left_out(B, key).clear()
    with pytest.raises(InvariantBroken, match="without"):
        closed_by_all(cluster, 0)


def test_nodes_that_had_other_updates_may_leave_out_others() -> None:
    cluster = mesh(3, 1)
    cluster.bounds = Bounds(ratio=1.01)
    cluster.trigger(A)
    assert cluster.run_until_idle()
    record = cluster.nodes[B].job.state.history[0]
    assert len(cluster.ledger.left_out(A, record.key)) == 1
    gone = max({*record.contributors} - {B})
    # B could not fetch one of the two that the others count: of what is left, it counts all.
    averaging = cluster.nodes[B].job.state.averaging
    assert averaging is not None
    averaging.declined[gone] = "its update could not be fetched: lost"
    record.contributors = tuple(sorted({*cluster.nodes} - {gone}))
    cluster.ledger.left_out(B, record.key).clear()
    closed_by_all(cluster, 0)
    averaging.declined.clear()
    with pytest.raises(InvariantBroken, match="without"):
        closed_by_all(cluster, 0)
