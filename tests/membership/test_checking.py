"""What this node does when it is itself accused, late, or about to go."""

from __future__ import annotations

from flnet.effects import Answer, CancelTimer, TellJobs
from flnet.events import (
    AnnounceReceived,
    ContactLost,
    ContactMade,
    Leaving,
    ProbeAnswered,
    ProbeFailed,
    ProbeReceived,
)
from flnet.membership import State
from flnet.messages import ProbeReply
from flnet.params import PeerId
from tests.membership.meshes import at, at_news, kinds, members, of, probes, tick

A, B = PeerId("a"), PeerId("b")


def test_a_node_that_is_accused_raises_its_incarnation_and_doubts_itself() -> None:
    m = members("m", "a")
    effects = m.receive(ProbeReceived(at("a"), news=(at_news("m", "suspect", 0, "b"),)))
    (answer,) = of(Answer, effects)
    assert isinstance(answer.message, ProbeReply)
    assert (answer.message.incarnation, m.state.prober.doubt.level) == (1, 1)
    assert [(n.id, n.state, n.incarnation) for n in answer.message.news if n.id == "m"] == [("m", "alive", 1)]
    assert kinds(effects) == ["refuted"]
    assert kinds(m.receive(ProbeReceived(at("a"), news=(at_news("m", "dead", 0),)))) == []  # an old story


def test_a_node_for_which_others_vouched_takes_over_its_incarnation() -> None:
    m = members("m", "a")
    m.receive(ProbeReceived(at("a"), news=(at_news("m", "alive", 7),)))
    m.receive(ProbeReceived(at("a"), news=(at_news("m", "suspect", 6, "b"),)))
    assert m.state.incarnation == 7


def test_a_node_whose_loop_was_late_accuses_nobody_and_probes_less() -> None:
    m = members("m", "a", "b")
    m.receive(ContactLost(A, ""))
    m.receive(ProbeFailed(A, None, "timed out"))
    tick(m, 30, late=2.0)
    assert m.known[A].state is State.ALIVE
    assert m.state.prober.doubt.level == 7
    m.receive(ProbeAnswered(A))
    assert m.state.prober.doubt.level == 6


def test_a_node_that_goes_tells_all_and_nothing_else_from_then_on() -> None:
    m = members("m", "a", "b")
    effects = m.receive(Leaving())
    assert CancelTimer("tick") in effects
    assert {(p.to, p.message.news[0].id, p.message.news[0].state) for p in probes(effects)} == {
        (A, "m", "left"),
        (B, "m", "left"),
    }
    assert tick(m) == []
    m.receive(ProbeReceived(at("a"), news=(at_news("m", "left", 0),)))
    assert m.state.incarnation == 0


def test_a_peer_that_left_is_no_failure_and_is_back_only_when_it_announces_itself() -> None:
    m = members("m", "a", "b")
    effects = m.receive(ProbeReceived(at("a"), news=(at_news("a", "left", 0),)))
    assert kinds(effects) == ["peer_left"]
    assert of(TellJobs, effects) == [TellJobs(A, alive=False, reason="it left the mesh")]
    assert m.receive(ContactMade(A)) == []  # what crossed its farewell on the way
    assert m.alive == [B]
    assert kinds(m.receive(AnnounceReceived(at("a")))) == ["peer_back"]
