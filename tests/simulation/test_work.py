"""What simulated trainers do: an accuracy that a model always has, and figures that merge."""

from __future__ import annotations

from flnet.events import Prepared
from flnet.params import Digest, PeerId
from flnet.simulation.work import accuracy, initial, prepared
from tests.simulation.helpers import mesh


def test_a_model_is_worth_the_same_on_one_node_always_and_something_else_on_another() -> None:
    one, other = PeerId("n00"), PeerId("n01")
    digests = [Digest(f"{i:064x}") for i in range(50)]
    assert [accuracy(one, d) for d in digests] == [accuracy(one, d) for d in digests]
    assert all(0 <= accuracy(one, d) < 1 for d in digests)
    assert all(accuracy(one, d) != accuracy(other, d) for d in digests)


def test_every_node_begins_with_another_model() -> None:
    event = prepared(3)
    assert isinstance(event, Prepared)
    assert event.params == initial(3) != initial(4)


def test_an_average_is_the_mean_by_examples() -> None:
    cluster = mesh(2, 1)
    cluster.trigger(PeerId("n00"))
    assert cluster.run_until_idle()
    sent = {node.id: node.job.state.own for node in cluster.nodes.values()}
    a, b = (own for own in sent.values() if own is not None)
    model = cluster.nodes[PeerId("n00")].job.state.model
    assert model is not None
    of_a, of_b = a.examples or 0, b.examples or 0
    wanted = (a.params["w"] * of_a + b.params["w"] * of_b) / (of_a + of_b)
    assert abs(model.shared["w"] - wanted).max() < 1e-6
