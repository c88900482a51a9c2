from __future__ import annotations

import pytest

from flnet.web.mesh_picture import HEIGHT, MAX_NODES, WIDTH, mesh_picture
from flnet.web.view import PeerView


def peers(count: int, state: str = "alive") -> list[PeerView]:
    return [PeerView(f"n{number:02}", "", "", state, "") for number in range(count)]


def test_this_node_is_at_the_top_and_the_others_go_round() -> None:
    picture = mesh_picture("me", peers(3))
    me, right, below, left = picture.dots
    assert (me.id, me.state, me.anchor) == ("me", "self", "middle")
    assert me.y < right.y == left.y < below.y
    assert (me.x, below.x) == (WIDTH / 2, WIDTH / 2)
    assert (right.anchor, left.anchor) == ("start", "end")
    assert right.x - WIDTH / 2 == pytest.approx(WIDTH / 2 - left.x)


@pytest.mark.parametrize(("count", "edges"), [(0, 0), (1, 1), (3, 6), (11, 66), (12, 12), (49, 49), (80, 49)])
def test_all_lines_are_drawn_while_they_are_few_and_then_this_nodes_only(count: int, edges: int) -> None:
    picture = mesh_picture("me", peers(count))
    assert len(picture.edges) == edges
    assert len(picture.dots) == min(count + 1, MAX_NODES)
    assert picture.hidden == max(0, count + 1 - MAX_NODES)
    assert sum(edge.a == "me" for edge in picture.edges) == len(picture.dots) - 1
    assert all(0 < dot.x < WIDTH and 0 < dot.y < HEIGHT for dot in picture.dots)


def test_a_line_to_a_node_that_does_not_answer_is_down() -> None:
    picture = mesh_picture("me", [*peers(1), PeerView("x", "", "", "unreachable", "")])
    assert {(edge.a, edge.b): edge.up for edge in picture.edges} == {
        ("me", "n00"): True,
        ("me", "x"): False,
        ("n00", "x"): False,
    }


def test_the_same_peers_in_another_order_are_the_same_picture() -> None:
    assert mesh_picture("me", peers(5)) == mesh_picture("me", peers(5)[::-1])
