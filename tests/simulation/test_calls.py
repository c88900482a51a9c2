"""What becomes of a node's calls in a simulation: damaged, one-way, too late, or to somebody who is gone."""

from __future__ import annotations

import pytest

from flnet.events import ContactLost, Event, FetchFailed, ProbeAnswered, ProbeFailed, SendFailed
from flnet.membership import members
from flnet.membership.announcing import Announcer
from flnet.params import PeerId
from flnet.simulation import Cluster, Weather
from flnet.simulation.restarts import kill, start_again
from tests.simulation.helpers import digests, mesh

A, B = PeerId("n00"), PeerId("n01")


def heard(cluster: Cluster, node: PeerId, monkeypatch: pytest.MonkeyPatch) -> list[Event]:
    """All that a node hears from now on."""
    events: list[Event] = []
    core = cluster.nodes[node].core
    hear = core.hear

    def noted(owner: object, event: Event) -> object:
        events.append(event)
        return hear(owner, event)  # type: ignore[arg-type]

    monkeypatch.setattr(core, "hear", noted)
    return events


def of(kind: type[Event], events: list[Event]) -> list[Event]:
    return [event for event in events if isinstance(event, kind)]


def test_over_a_way_that_is_cut_requests_are_lost_and_over_the_other_answers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for cut, arrives in (((A, B), False), ((B, A), True)):
        cluster = mesh(2, 1)
        cluster.weather = Weather(give_up=1.0)
        cluster.network.cuts.add(cut)
        events = heard(cluster, A, monkeypatch)
        cluster.trigger(A)
        cluster.run_for(1.5)
        assert (cluster.nodes[B].job.state.number == 0) is arrives
        assert of(SendFailed, events)


def test_a_probe_that_is_answered_too_late_has_failed_by_the_clock_of_who_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = mesh(2, 1)
    cluster.weather = Weather(delay=(0.6, 0.6))
    events = heard(cluster, A, monkeypatch)
    cluster.run_for(3)
    assert of(ProbeFailed, events)
    cluster = mesh(2, 1)
    cluster.weather = Weather(delay=(0.6, 0.6))
    cluster.nodes[A].local.rate = 0.5
    events = heard(cluster, A, monkeypatch)
    cluster.run_for(8)
    assert of(ProbeAnswered, events)
    assert not of(ProbeFailed, events)


@pytest.mark.parametrize(("refuses", "at"), [(True, 0.1), (False, 5.0)])
def test_a_dead_node_is_silent_or_refused_by_its_machine(
    refuses: bool, at: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = mesh(2, 1)
    node = kill(cluster, B)
    if refuses:
        cluster.network.refusing.add(node.address)
    events = heard(cluster, A, monkeypatch)
    cluster.trigger(A)
    cluster.run_for(at - 0.05)
    early = len(of(SendFailed, events))
    cluster.run_for(0.2)
    assert early == (1 if refuses else 0)
    assert of(SendFailed, events)


def test_a_fetch_that_breaks_is_a_reason_to_look_after_the_peer(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = mesh(2, 1, Weather(digests=1.0))
    cluster.weather = Weather(digests=1.0, fail_fetch=1.0)
    events = heard(cluster, B, monkeypatch)
    cluster.trigger(A)
    assert cluster.run_until_idle()
    assert of(FetchFailed, events)
    assert of(ContactLost, events)


@pytest.mark.parametrize("seed", range(4))
def test_whatever_is_damaged_on_the_way_no_wrong_model_comes_of_it(seed: int) -> None:
    cluster = mesh(3, seed)
    cluster.weather = Weather(corrupt=0.3, digests=seed % 2)
    for _ in range(4):
        cluster.trigger(A)
        assert cluster.run_until_idle()
    cluster.weather = Weather()
    cluster.run_for(60)
    cluster.trigger(A)
    assert cluster.run_until_idle()
    assert len(digests(cluster)) == 1


def test_a_node_that_was_started_again_and_knows_nobody_yet_takes_what_comes_after_an_introduction(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = mesh(3, 1)
    monkeypatch.setattr(Announcer, "to", lambda self, addresses, incarnation, members: [])
    back = start_again(cluster, kill(cluster, B))  # it announces itself to nobody
    assert not back.core.members.known
    cluster.trigger(A)
    assert cluster.run_until_idle()
    assert back.job.history()[-1]["contributors"] == list(cluster.nodes)


def test_a_peer_that_does_not_hear_the_introduction_either_is_as_good_as_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = mesh(2, 1)
    events = heard(cluster, A, monkeypatch)
    monkeypatch.setattr(Announcer, "to", lambda self, addresses, incarnation, members: [])
    start_again(cluster, kill(cluster, B))
    monkeypatch.setattr(members, "announced", lambda s, event: [])
    cluster.trigger(A)
    cluster.run_for(0.3)
    assert of(SendFailed, events)
    assert of(ContactLost, events)
