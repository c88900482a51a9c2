"""A node says of itself whether it can take part, and what is missing."""

from __future__ import annotations

from flnet.events import Prepared, PrepareFailed
from flnet.messages import Peer
from flnet.node.core import NodeCore
from flnet.node.readiness import readiness
from flnet.params import TrainerId
from tests.helpers import params
from tests.jobs.helpers import declaration

ONE, TWO = TrainerId("ONE"), TrainerId("TWO")


def core() -> NodeCore:
    return NodeCore(Peer(id="a", ip="127.0.0.1", port=4000), [ONE, TWO])


def test_what_loads_and_who_does_not_answer_is_named() -> None:
    view = readiness(core(), ["10.0.0.9:4000"])
    assert (view["ready"], view["mesh_joined"], view["data_loaded"]) == (False, False, False)
    assert view["reasons"] == [
        "no bootstrap peer has answered yet: 10.0.0.9:4000",
        "ONE is still loading",
        "TWO is still loading",
    ]


def test_a_node_that_waits_to_be_accepted_says_where() -> None:
    node = core()
    node.members.state.waits_at |= {"10.0.0.9:4000", "10.0.0.10:4000"}
    where = "a person has to accept the fingerprint of this node at 10.0.0.10:4000, 10.0.0.9:4000"
    assert readiness(node, ["10.0.0.9:4000"])["reasons"][0] == where
    node.members.state.joined = True
    assert where not in readiness(node, ["10.0.0.9:4000"])["reasons"]


def test_one_trainer_with_data_is_enough() -> None:
    node = core()
    node.hear(ONE, PrepareFailed("no rows"))
    assert readiness(node, [])["reasons"] == ["TWO is still loading", "ONE: no rows"]
    node.hear(TWO, Prepared(declaration(), params(w=[0, 0])))
    view = readiness(node, [])
    assert (view["ready"], view["reasons"]) == (True, [])
    node.members.state.joined = False
    assert readiness(node, ["10.0.0.9:4000"])["ready"] is False
