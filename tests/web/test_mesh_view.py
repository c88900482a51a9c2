from __future__ import annotations

from typing import Any

import pytest

from flnet.jobs import Phase
from flnet.web.mesh import Mesh, MeshJob, MeshNode
from flnet.web.mesh_view import JOBS_SHOWN, NodeRow, mesh_rows, rtt_words

OLD, NEW = "a" * 64, "b" * 64
EVIL = "<img src=x onerror=alert(1)>"


def node(name: str, *jobs: MeshJob, **fields: Any) -> MeshNode:
    return MeshNode(id=name, address="127.0.0.1:4001", jobs=list(jobs), **{"state": "alive", **fields})


def job(digest: str | None = NEW, trainer: str = "T", **fields: Any) -> MeshJob:
    return MeshJob(trainer_id=trainer, digest=digest, current_round=3, **fields)


def rows(*nodes: MeshNode) -> tuple[NodeRow, ...]:
    return mesh_rows(Mesh(nodes=list(nodes)), {"T": "Digits"})


def test_the_same_letter_is_the_same_model_and_most_nodes_have_a() -> None:
    shown = rows(node("me", job(OLD), me=True), node("b", job(NEW)), node("c", job(NEW)), node("d", job(None)))
    assert [(row.jobs[0].letter, row.jobs[0].digest) for row in shown] == [
        ("B", "a" * 8),
        ("A", "b" * 8),
        ("A", "b" * 8),
        ("", ""),
    ]


def test_models_of_different_trainers_are_not_compared() -> None:
    alone = rows(node("me", job(NEW), me=True), node("b", job(NEW, "U")))
    assert [row.jobs[0].letter for row in alone] == ["", ""]
    assert [row.jobs[0].label for row in alone] == ["Digits", "U"]


def test_what_goes_on_and_who_waits_for_whom_is_said() -> None:
    many = [f"n{number}" for number in range(20)]
    waiting = job(phase=Phase.GATHERING, waiting_for=["b", EVIL], paused=True, post_fedavg_accuracy=0.5)
    one, other, idle = rows(
        node("me", waiting, me=True), node("b", job(waiting_for=many)), node("c", job(phase=Phase.IDLE))
    )
    (shown,) = one.jobs
    assert (shown.round, shown.phase, shown.is_paused, shown.accuracy) == (
        "3",
        "Waiting for updates",
        True,
        "50.00 %",
    )
    assert (shown.waits_for, shown.waits) == (("b", EVIL), f"b, {EVIL}")
    assert other.jobs[0].waits == "n0, n1, n2, n3, n4, n5, n6, n7 +12"
    assert (idle.jobs[0].phase, idle.jobs[0].waits) == ("", "")


@pytest.mark.parametrize(
    ("state", "look", "chip"),
    [
        ("alive", "alive", "calm"),
        ("suspect", "suspect", "warn"),
        ("dead", "dead", "bad"),
        ("unreachable", "other", "warn"),
        ("left", "left", "warn"),
        ("pending", "pending", "warn"),
        ("dancing", "other", "warn"),
        ('alive" onload="x', "other", "warn"),
        ("", "other", "warn"),
    ],
)
def test_a_state_has_its_look_and_an_unknown_one_stays_text(state: str, look: str, chip: str) -> None:
    (row,) = rows(node("b", state=state))
    assert (row.state, row.look, row.chip) == (state, look, chip)


def test_this_node_has_no_link_to_itself_and_the_others_do() -> None:
    me, other, odd = rows(node("me", me=True), node("b", version="1.2"), node("c", rtt_ms=3.2))
    assert (me.url, other.url, other.version) == ("", "http://127.0.0.1:4001/", "1.2")
    assert (me.rtt, odd.rtt, odd.version) == ("", "3 ms", "")


def test_only_so_many_trainers_of_a_node_are_listed() -> None:
    (row,) = rows(node("b", *(job(trainer=f"t{number}") for number in range(JOBS_SHOWN + 5))))
    assert (len(row.jobs), row.hidden) == (JOBS_SHOWN, 5)


@pytest.mark.parametrize(
    ("milliseconds", "words"),
    [
        (None, ""),
        (0, "< 1 ms"),
        (0.99, "< 1 ms"),
        (1.4, "1 ms"),
        (12.4, "12 ms"),
        (187, "190 ms"),
        (2345, "2300 ms"),
    ],
)
def test_round_trips_are_told_with_two_digits(milliseconds: float | None, words: str) -> None:
    assert rtt_words(milliseconds) == words
