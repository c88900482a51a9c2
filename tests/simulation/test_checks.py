"""A simulation that could not fail would prove nothing: each of these bugs is found."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from flnet.effects import Average, CancelTimer, Effect, KeptUpdate
from flnet.events import UpdateReceived
from flnet.jobs import gathering, starting
from flnet.jobs.state import JobState
from flnet.membership import Pauses
from flnet.params import PeerId, RoundKey
from flnet.rounds import Averaging, Closing
from flnet.simulation import Cluster, InvariantBroken, Weather
from tests.simulation.helpers import (
    clear_up,
    mesh,
    stuck,
    top,
    train_until,
)


def storm() -> Cluster:
    """Duplicates and late updates."""
    cluster = mesh(4, 3, Weather(delay=(0.001, 2.0), duplicate=0.5))
    train_until(cluster, last=5, seed=3, crowd=(1, 2), interrupt=0.3)
    return cluster


def late_starter() -> Cluster:
    """A node that was away starts a round that the others have left behind."""
    cluster = mesh(3, seed=3)
    names = list(cluster.nodes)
    cluster.cut(names[:1], names[1:])
    for _ in range(3):
        cluster.trigger(names[1])
        assert cluster.run_until_idle()
    clear_up(cluster, names[0])
    return cluster


def silence() -> Cluster:
    """The initiator falls silent in mid-round, and nobody notices in time."""
    cluster = mesh(3, seed=3, pauses=Pauses(tick=10_000))
    names = list(cluster.nodes)
    cluster.weather = cluster.network.weather = Weather(give_up=10_000)
    cluster.trigger(names[0])
    cluster.run_for(0.3)
    cluster.cut(names[:1], names[1:])
    assert cluster.run_until_idle(), stuck(cluster)
    return cluster


def two_starters() -> Cluster:
    """Two nodes start the same round at the same moment."""
    cluster = mesh(4, seed=3)
    for name in list(cluster.nodes)[:2]:
        cluster.trigger(name)
    assert cluster.run_until_idle()
    assert len(set(cluster.ledger.averages.values())) == 1
    return cluster


@pytest.mark.parametrize("scene", [storm, late_starter, silence, two_starters])
def test_without_a_bug_these_runs_are_clean(scene: Callable[[], Cluster]) -> None:
    assert top(scene()) >= 0


def test_counting_an_update_twice_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    close = Averaging.close

    def twice(self: Averaging, why: Closing) -> list[Effect]:
        return [Average(e.key, e.updates * 2) if isinstance(e, Average) else e for e in close(self, why)]

    monkeypatch.setattr(Averaging, "close", twice)
    with pytest.raises(InvariantBroken, match="twice"):
        storm()


def test_averaging_again_when_a_late_update_comes_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def of_this_round(s: JobState, event: UpdateReceived) -> list[Effect]:
        assert s.averaging is not None
        s.averaging.closed = None
        s.averaging.updates.pop(event.update.peer, None)
        return [*s.averaging.receive(event), s.save(updates=(KeptUpdate(event.update),))]

    monkeypatch.setattr(gathering, "_of_this_round", of_this_round)
    with pytest.raises(InvariantBroken, match="averaged twice"):
        storm()


def test_averaging_in_the_order_of_arrival_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def unsorted(self: Averaging, why: Closing) -> list[Effect]:
        self.closed = why
        return [CancelTimer(self.timer), Average(self.key, tuple(self.updates.values()))]

    monkeypatch.setattr(Averaging, "close", unsorted)
    with pytest.raises(InvariantBroken, match="out of order"):
        storm()


def test_going_back_to_an_old_round_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(starting, "must_beat", lambda s, key: None)
    with pytest.raises(InvariantBroken, match="went back to round"):
        late_starter()


def test_forgetting_the_timer_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def without_timer(self: Averaging, peer: PeerId) -> list[Effect]:
        return [] if self.missing else self.close(Closing.COMPLETE)

    monkeypatch.setattr(Averaging, "_spoken", without_timer)
    with pytest.raises(AssertionError, match="GATHERING"):
        silence()


def test_two_initiators_that_both_keep_their_round_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RoundKey, "beats", lambda self, other: self.number > other.number)
    with pytest.raises(AssertionError):
        two_starters()
