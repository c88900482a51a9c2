from __future__ import annotations

import re
from itertools import pairwise
from math import hypot
from typing import Any

import pytest

from flnet.rounds.steps import Phase
from flnet.web.api.mesh import Mesh, MeshJob, MeshNode
from flnet.web.page.mesh import (
    JOBS_SHOWN,
    MAX_ARROWS,
    MAX_NODES,
    Dot,
    NodeRow,
    Picture,
    mesh_picture,
    mesh_rows,
    rtt_words,
)

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


def test_a_row_tells_whether_the_node_signs_with_the_second_mesh_key() -> None:
    shown = rows(node("me", me=True), node("b", signs_with_other_key=True), node("c", signs_with_other_key=False))
    assert [row.other_key for row in shown] == [None, True, False]


def test_what_goes_on_and_who_waits_for_whom_is_said() -> None:
    many = [f"n{number}" for number in range(20)]
    waiting = job(phase=Phase.GATHERING, waiting_for=["b", EVIL], paused=True, post_fedavg_accuracy=0.5)
    one, other, idle = rows(
        node("me", waiting, me=True), node("b", job(waiting_for=many)), node("c", job(phase=Phase.IDLE))
    )
    (shown,) = one.jobs
    assert (shown.round, shown.phase, shown.is_paused, shown.accuracy) == (
        3,
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


# mesh_picture


DIGEST = "a" * 64


def node_mesh_picture(
    name: str, state: str = "alive", waits_for: tuple[str, ...] = (), trainer: str = "T"
) -> MeshNode:
    jobs = [MeshJob(trainer_id=trainer, digest=DIGEST, waiting_for=list(waits_for))]
    return MeshNode(id=name, address="", state=state, me=name == "me", jobs=jobs)


def drawn(*nodes: MeshNode) -> Picture:
    return mesh_picture(mesh_rows(Mesh(nodes=list(nodes)), {}))


def mesh_of(peers: int) -> Picture:
    return drawn(node_mesh_picture("me"), *(node_mesh_picture(f"n{number:02}") for number in range(peers)))


def test_this_node_is_at_the_top_and_the_others_go_round() -> None:
    picture = mesh_of(3)
    me, right, below, left = picture.dots
    assert (me.id, me.look, me.anchor) == ("me", "self", "middle")
    assert me.y < right.y == left.y < below.y
    assert (me.x, below.x) == (picture.width / 2, picture.width / 2)
    assert (right.anchor, left.anchor) == ("start", "end")
    assert right.x - picture.width / 2 == pytest.approx(picture.width / 2 - left.x)


@pytest.mark.parametrize(
    ("count", "edges"), [(0, 0), (1, 1), (3, 6), (11, 66), (12, 12), (29, 29), (30, 30), (49, 49), (300, 90)]
)
def test_all_lines_are_drawn_while_they_are_few_and_then_this_nodes_only(count: int, edges: int) -> None:
    picture = mesh_of(count)
    assert len(picture.edges) == edges
    assert len(picture.dots) == min(count + 1, MAX_NODES)
    assert picture.hidden == max(0, count + 1 - MAX_NODES)
    assert sum(edge.a == "me" for edge in picture.edges) == len(picture.dots) - 1
    assert all(10 < dot.x < picture.width - 10 and 10 < dot.y < picture.height - 10 for dot in picture.dots)


@pytest.mark.parametrize("count", [2, 11, 12, 29, 30, 49, 90])
def test_no_node_covers_another(count: int) -> None:
    dots = mesh_of(count).dots
    nearest = min(hypot(a.x - b.x, a.y - b.y) for i, a in enumerate(dots) for b in dots[i + 1 :])
    assert nearest > 18


@pytest.mark.parametrize("count", [29, 49])
def test_labels_of_large_meshes_lead_outwards_from_their_nodes_and_are_never_upside_down(count: int) -> None:
    picture = mesh_of(count)
    middle = picture.width / 2
    labelled = [dot for dot in picture.dots if dot.label and dot.look != "self"]
    assert len(labelled) == count
    for dot in labelled:
        assert not 90 < dot.turn < 270
        assert hypot(dot.label_x - middle, dot.label_y - 4 - middle) > hypot(dot.x - middle, dot.y - middle)
        assert dot.anchor == ("end" if dot.x < middle - 0.1 else "start")


def rings(picture: Picture) -> dict[float, list[Dot]]:
    """The dots by their distance from the middle."""
    found: dict[float, list[Dot]] = {}
    for dot in picture.dots:
        found.setdefault(round(hypot(dot.x - picture.width / 2, dot.y - picture.height / 2), -1), []).append(dot)
    return found


def test_fifty_nodes_are_two_rings_round_this_one() -> None:
    found = rings(mesh_of(49))
    assert [(distance, len(dots)) for distance, dots in sorted(found.items())] == [(0, 1), (100, 16), (200, 33)]
    assert [dot.id for dot in found[0]] == ["me"]


def test_labels_are_thinned_out_but_not_those_of_nodes_in_trouble() -> None:
    inner = [dot for dots in rings(mesh_of(90)).values() for dot in dots if dot.id < "n30"]
    names = [dot.id for dot in inner if not dot.label and dot.id != "me"]
    assert len(names) == 15
    picture = drawn(
        node_mesh_picture("me"),
        *(node_mesh_picture(f"n{i:02}", "suspect" if f"n{i:02}" in names else "alive") for i in range(90)),
    )
    assert all(dot.label for dot in picture.dots)


def test_a_line_looks_as_the_worse_of_its_ends() -> None:
    picture = drawn(
        node_mesh_picture("me"),
        node_mesh_picture("a"),
        node_mesh_picture("x", "dead"),
        node_mesh_picture("y", "dancing"),
    )
    assert {(edge.a, edge.b): edge.look for edge in picture.edges} == {
        ("me", "a"): "alive",
        ("me", "x"): "dead",
        ("me", "y"): "other",
        ("a", "x"): "dead",
        ("a", "y"): "other",
        ("x", "y"): "dead",
    }
    assert picture.looks == (("self", "alive"), ("alive", "alive"), ("dead", "dead"), ("other", "dancing"))


def test_the_same_peers_in_another_order_are_the_same_picture() -> None:
    names = [node_mesh_picture(f"n{number}") for number in range(5)]
    assert drawn(node_mesh_picture("me"), *names) == drawn(node_mesh_picture("me"), *names[::-1])


def test_who_waits_for_whom_is_an_arrow_between_their_rims() -> None:
    picture = drawn(
        node_mesh_picture("me", waits_for=("a", "b", "gone", "me")),
        node_mesh_picture("a", waits_for=("me",)),
        node_mesh_picture("b"),
    )
    assert [(arrow.waiting, arrow.awaited) for arrow in picture.arrows] == [("me", "a"), ("me", "b"), ("a", "me")]
    where = {dot.id: (dot.x, dot.y) for dot in picture.dots}
    for arrow in picture.arrows:
        x1, y1, *_, x2, y2 = map(float, re.findall(r"-?[\d.]+", arrow.path))
        assert hypot(x1 - where[arrow.waiting][0], y1 - where[arrow.waiting][1]) == pytest.approx(16, abs=0.2)
        assert hypot(x2 - where[arrow.awaited][0], y2 - where[arrow.awaited][1]) == pytest.approx(16, abs=0.2)
    there, _, back = (arrow.path for arrow in picture.arrows)
    assert there.split("Q")[1].split()[:2] != back.split("Q")[1].split()[:2]  # they lie beside each other


def test_there_are_only_so_many_arrows() -> None:
    names = tuple(f"n{number}" for number in range(11))
    picture = drawn(node_mesh_picture("me"), *(node_mesh_picture(name, waits_for=names) for name in names))
    assert len(picture.arrows) == MAX_ARROWS
    assert all(a.waiting != b.waiting or a.awaited < b.awaited for a, b in pairwise(picture.arrows))


def test_letters_are_drawn_where_there_is_one_trainer_only() -> None:
    assert [dot.letter for dot in drawn(node_mesh_picture("me"), node_mesh_picture("a")).dots] == ["A", "A"]
    several = drawn(node_mesh_picture("me"), node_mesh_picture("a"), node_mesh_picture("b", trainer="U"))
    assert ([dot.letter for dot in several.dots], several.has_letters) == (["", "", ""], False)
