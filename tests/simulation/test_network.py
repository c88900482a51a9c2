"""What happens to messages in a simulation: delays, losses, duplicates, corruption, cuts, and dead receivers."""

from __future__ import annotations

import pytest

from flnet.membership import members
from flnet.membership.announcing import Announcer
from flnet.params.params import PeerId
from flnet.protocol.events import (
    ContactLost,
    Event,
    FetchFailed,
    ProbeAnswered,
    ProbeFailed,
    SendFailed,
    SendRefused,
    TrainingAsked,
)
from flnet.simulation.schedule import Faults
from tests.simulation.helpers import clear_up, idle, mesh, seeds

A, B = PeerId("n00"), PeerId("n01")


class Heard:
    """A mesh, and every event that its nodes handle, with the time."""

    def __init__(self, faults: Faults | None = None, size: int = 2) -> None:
        self.cluster = mesh(size, 1, Faults(digests=faults.digests) if faults else None)
        self.cluster.faults = faults or Faults()
        self.start = self.cluster.clock.now
        self.events: list[tuple[float, PeerId, Event]] = []
        for node in self.cluster.nodes.values():
            self._record(node.id)

    def _record(self, name: PeerId) -> None:
        core = self.cluster.nodes[name].core
        hear = core.hear

        def recorded(owner: object, event: Event) -> object:
            self.events.append((self.cluster.clock.now - self.start, name, event))
            return hear(owner, event)  # type: ignore[arg-type]

        core.hear = recorded  # type: ignore[assignment, method-assign]

    def times(self, kind: type[Event], node: PeerId) -> list[float]:
        return [at for at, name, event in self.events if name == node and isinstance(event, kind)]

    def trigger(self, node: PeerId = A) -> None:
        self.cluster.trigger(node)
        self.cluster.run_until_idle()


def test_a_message_takes_its_time() -> None:
    heard = Heard(Faults(delay=(0.5, 0.7)))
    heard.trigger()
    (at,) = heard.times(TrainingAsked, B)
    assert 0.5 <= at <= 0.7


def test_the_sender_of_a_lost_message_notices_after_a_while() -> None:
    heard = Heard(Faults(lose_request=1.0, give_up=2.0))
    heard.cluster.trigger(A)
    heard.cluster.run_for(2.5)
    assert heard.times(TrainingAsked, B) == []
    assert heard.times(SendFailed, A) == [pytest.approx(2.0)]
    heard.cluster.run_for(30)
    assert heard.cluster.nodes[A].core.members.alive == []


@pytest.mark.parametrize(
    ("faults", "arrivals", "failures"),
    [(Faults(lose_reply=1.0, give_up=2.0), 1, 1), (Faults(duplicate=1.0), 2, 0)],
    ids=["a lost reply", "a duplicate"],
)
def test_a_message_without_a_reply_is_handled_and_a_duplicate_twice(
    faults: Faults, arrivals: int, failures: int
) -> None:
    heard = Heard(faults)
    heard.cluster.trigger(A)
    heard.cluster.run_for(2.05)
    assert (len(heard.times(TrainingAsked, B)), len(heard.times(SendFailed, A))) == (arrivals, failures)


def test_nothing_passes_a_cut_until_it_is_healed() -> None:
    heard = Heard()
    heard.cluster.cut([A], [B])
    heard.trigger()
    assert (heard.times(TrainingAsked, B), heard.cluster.nodes[B].job.number) == ([], -1)
    heard.cluster.heal()
    heard.cluster.run_for(60)
    failures = len(heard.times(SendFailed, A))
    heard.trigger()
    assert (len(heard.times(TrainingAsked, B)), len(heard.times(SendFailed, A))) == (1, failures)


@pytest.mark.parametrize(("way", "arrives"), [((A, B), False), ((B, A), True)], ids=["requests", "replies"])
def test_a_cut_of_one_way_loses_requests_or_replies(way: tuple[PeerId, PeerId], arrives: bool) -> None:
    heard = Heard(Faults(give_up=1.0))
    heard.cluster.network.cuts.add(way)
    heard.cluster.trigger(A)
    heard.cluster.run_for(1.5)
    assert (heard.cluster.nodes[B].job.number == 0) is arrives
    assert heard.times(SendFailed, A)


def test_a_refusal_comes_back_with_its_code_and_the_round() -> None:
    heard = Heard()
    heard.cluster.cut([A], [B])
    for _ in range(2):
        heard.trigger(B)
    heard.cluster.heal()
    heard.cluster.run_for(60)
    heard.trigger()
    refusal = next(event for _, name, event in heard.events if name == A and isinstance(event, SendRefused))
    assert (refusal.path, refusal.key.number, refusal.status) == ("/training", 0, 409)
    assert (refusal.error, refusal.current) == ("stale_round", 1)
    assert heard.cluster.nodes[A].job.number == 2


def test_the_timeout_of_a_probe_is_by_the_clock_of_its_sender() -> None:
    heard = Heard(Faults(delay=(0.6, 0.6)))
    heard.cluster.run_for(3)
    assert heard.times(ProbeFailed, A)
    slow = Heard(Faults(delay=(0.6, 0.6)))
    slow.cluster.nodes[A].local.rate = 0.5
    slow.cluster.run_for(8)
    assert slow.times(ProbeAnswered, A)
    assert not slow.times(ProbeFailed, A)


@pytest.mark.parametrize(("refuses", "at"), [(True, 0.1), (False, 5.0)])
def test_connections_to_a_dead_node_fail_at_once_if_its_machine_refuses_them(refuses: bool, at: float) -> None:
    heard = Heard()
    node = heard.cluster.kill(B)
    if refuses:
        heard.cluster.network.refusing.add(node.address)
    heard.cluster.trigger(A)
    heard.cluster.run_for(at + 0.15)
    failures = heard.times(SendFailed, A)
    assert failures
    assert (failures[0] < at - 0.05) is refuses


def test_a_failed_fetch_makes_the_peer_suspect() -> None:
    heard = Heard(Faults(digests=1.0, fail_fetch=1.0))
    heard.trigger()
    assert heard.times(FetchFailed, B)
    assert heard.times(ContactLost, B)


@pytest.mark.parametrize("seed", seeds(2, 4))
def test_corruption_in_transit_never_changes_a_model(seed: int) -> None:
    cluster = mesh(3, seed)
    cluster.faults = Faults(corrupt=0.3, digests=seed % 2)
    for _ in range(4):
        cluster.trigger(A)
        idle(cluster)
    clear_up(cluster)


def test_a_restarted_node_that_knows_nobody_is_announced_to_before_a_message_is_repeated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    heard = Heard(size=3)
    cluster = heard.cluster
    monkeypatch.setattr(Announcer, "to", lambda self, addresses, incarnation, members: [])
    back = cluster.restart(cluster.kill(B))  # it announces itself to nobody
    assert not back.core.members.known
    heard.trigger()
    assert back.job.records()[-1]["contributors"] == list(cluster.nodes)
    monkeypatch.setattr(members, "announced", lambda state, event: [])  # and now it ignores announcements
    cluster.restart(cluster.kill(B))
    cluster.trigger(A)
    cluster.run_for(0.3)
    assert heard.times(SendFailed, A)
    assert heard.times(ContactLost, A)
