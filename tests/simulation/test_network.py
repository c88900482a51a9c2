"""What the simulated network does to messages: delay, loss, duplicates, cuts; codec and errors are real."""

from __future__ import annotations

import pytest

from flnet.errors import PeerError
from flnet.events import Event, RoundTriggered, SendFailed, SendRefused, TrainingAsked, UpdateReceived
from flnet.params import PeerId, RoundKey, TrainerId
from flnet.simulation import TRAINER, Cluster, Weather
from flnet.simulation.node import Answered, SimulatedNode

A, B = PeerId("n00"), PeerId("n01")


class Heard:
    """Everything that the nodes of a cluster hear, with the time."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, weather: Weather | None = None, size: int = 2) -> None:
        self.cluster = Cluster(size, seed=1, weather=Weather())
        self.cluster.start()
        self.cluster.run_for(5)
        self.cluster.weather = self.cluster.network.weather = weather or Weather()
        self.events: list[tuple[float, PeerId, Event]] = []
        ask = SimulatedNode.ask

        def noted(node: SimulatedNode, owner: TrainerId | None, event: Event, answered: Answered) -> None:
            if owner is not None:
                self.events.append((self.cluster.clock.now, node.id, event))
            ask(node, owner, event, answered)

        monkeypatch.setattr(SimulatedNode, "ask", noted)

    def of(self, kind: type[Event], node: PeerId) -> list[float]:
        return [at for at, name, event in self.events if name == node and isinstance(event, kind)]


def test_a_message_takes_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    heard = Heard(monkeypatch, Weather(delay=(0.5, 0.7)))
    now = heard.cluster.clock.now
    heard.cluster.trigger(A)
    heard.cluster.run_until_idle()
    (at,) = heard.of(TrainingAsked, B)
    assert 0.5 <= at - now <= 0.7


def test_a_lost_message_never_arrives_and_its_sender_notices(monkeypatch: pytest.MonkeyPatch) -> None:
    heard = Heard(monkeypatch, Weather(lose_request=1.0, give_up=2.0))
    now = heard.cluster.clock.now
    heard.cluster.trigger(A)
    heard.cluster.run_for(2.5)
    assert (heard.of(TrainingAsked, B), heard.of(SendFailed, A)) == ([], [now + 2.0])
    heard.cluster.run_for(30)
    assert heard.cluster.nodes[A].core.members.alive == []


def test_a_lost_reply_leaves_the_message_handled_and_the_sender_in_doubt(monkeypatch: pytest.MonkeyPatch) -> None:
    heard = Heard(monkeypatch, Weather(lose_reply=1.0, give_up=2.0))
    heard.cluster.trigger(A)
    heard.cluster.run_for(2.5)
    assert (len(heard.of(TrainingAsked, B)), len(heard.of(SendFailed, A))) == (1, 1)


def test_a_duplicate_arrives_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    heard = Heard(monkeypatch, Weather(duplicate=1.0))
    heard.cluster.trigger(A)
    heard.cluster.run_until_idle()
    assert (len(heard.of(TrainingAsked, B)), len(heard.of(UpdateReceived, B))) == (2, 2)


def test_nothing_passes_a_cut_and_everything_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    heard = Heard(monkeypatch)
    heard.cluster.cut([A], [B])
    heard.cluster.trigger(A)
    heard.cluster.run_until_idle()
    assert (heard.of(TrainingAsked, B), heard.cluster.nodes[B].job.state.number) == ([], -1)
    heard.cluster.heal()
    heard.cluster.run_for(60)
    failed = len(heard.of(SendFailed, A))
    heard.cluster.trigger(A)
    heard.cluster.run_until_idle()
    assert (len(heard.of(TrainingAsked, B)), len(heard.of(SendFailed, A))) == (1, failed)


def test_a_refusal_comes_back_with_its_code_and_the_round(monkeypatch: pytest.MonkeyPatch) -> None:
    heard = Heard(monkeypatch)
    heard.cluster.cut([A], [B])
    for _ in range(2):
        heard.cluster.trigger(B)
        heard.cluster.run_until_idle()
    heard.cluster.heal()
    heard.cluster.run_for(60)
    heard.cluster.trigger(A)
    heard.cluster.run_until_idle()
    refusal = next(event for _, name, event in heard.events if name == A and isinstance(event, SendRefused))
    assert (refusal.path, refusal.key) == ("/training", RoundKey(0, A))
    assert (refusal.status, refusal.error, refusal.current) == (409, "stale_round", 1)
    assert heard.cluster.nodes[A].job.state.number == 2


def test_a_refused_event_of_ones_own_ends_there() -> None:
    cluster = Cluster(1, seed=1)
    cluster.start()
    node = cluster.nodes[A]
    cluster.trigger(A)
    node.tell(TRAINER, RoundTriggered())  # busy: refused, and nobody waits for the answer
    with pytest.raises(PeerError):
        node.hear(TRAINER, RoundTriggered())
    assert not cluster.trigger(A)
