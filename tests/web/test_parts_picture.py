from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flnet.settings import load_settings
from flnet.web import create_app
from flnet.web.parts_picture import LARGEST, STEP, parts_picture, rows_of_peers

from .page_reading import load
from .view_nodes import EVIL, ViewNode


def test_a_dot_s_area_tells_the_rows() -> None:
    drawn = parts_picture([[100, 0], [25, 1]], ["cat", "dog"], own=2)
    assert drawn is not None
    assert [(dot.radius, dot.own, dot.words) for dot in drawn.dots] == [
        (LARGEST, False, "cat · 1: 100"),
        (LARGEST / 2, True, "cat · 2: 25"),
        (1.0, True, "dog · 2: 1"),
    ]
    first, second, below = drawn.dots
    assert (second.x - first.x, second.y - first.y) == (STEP, 0)
    assert (below.x, below.y - second.y) == (second.x, STEP)
    assert drawn.rows == (("cat", ("100", "25")), ("dog", ("0", "1")))
    assert (drawn.totals, drawn.hidden_parts, drawn.hidden_classes) == (("100", "26"), 0, 0)


@pytest.mark.parametrize("parts", [[], [[1, 2]], [[1, 2], [1]]])
def test_what_cannot_be_compared_is_not_drawn(parts: list[list[int]]) -> None:
    assert parts_picture(parts, ["cat", "dog"], own=1) is None


@given(st.integers(2, 200), st.integers(1, 60), st.data())
def test_many_are_cut_and_this_node_s_part_is_always_there(count: int, classes: int, data: Any) -> None:
    own = data.draw(st.integers(1, count))
    drawn = parts_picture([[part] * classes for part in range(1, count + 1)], list(map(str, range(classes))), own)
    assert drawn is not None
    assert str(own) in [mark.text for mark in drawn.parts if mark.own]
    assert len(drawn.parts) + drawn.hidden_parts == count
    assert len(drawn.rows) + drawn.hidden_classes == classes
    assert all(dot.radius <= dot.x <= drawn.width and dot.y + dot.radius <= drawn.height for dot in drawn.dots)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=3),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.sampled_from(["info", "jobsInfo", "trainer_id", "data", "rows"]), inner)
        ),
    )
)
def test_a_peer_may_claim_anything(info: Any) -> None:
    for one in rows_of_peers("X", [{"id": "b", "info": info}]):
        assert one.percent <= 100


def test_the_rows_of_peers_are_those_of_the_same_trainer() -> None:
    def peer(name: str, trainer: str, rows: object) -> dict[str, Any]:
        return {"id": name, "info": {"jobsInfo": [{"trainer_id": trainer, "data": {"rows": rows}}]}}

    infos = [peer("c", "X", {"train": 30, "test": 10}), peer("b", "X", 80), peer("d", "Y", 5), peer("e", "X", -1)]
    found = [(one.id, one.rows, one.percent) for one in rows_of_peers("X", infos)]
    assert found == [("b", "80", 100.0), ("c", "40", 50.0)]


async def test_the_view_shows_the_picture_and_the_same_numbers_as_a_table() -> None:
    node = ViewNode()
    names = [EVIL, *map(str, range(1, 10))]
    node.more["MNIST"] = {
        "parts": [[1200] * 10, [34] * 10],
        "data": {"source": "x", "rows": {"train": 340}, "classes": names},
    }
    node.around = [{"id": "n2", "info": {"jobsInfo": [{"trainer_id": "MNIST", "data": {"rows": {"train": 777}}}]}}]
    settings = load_settings({"data_shard": "2/2", "data_partition": "dirichlet:0.3"}, {})
    page = await load(create_app(node, settings).test_client(), "/view/data")
    for words in ("this node has part 2", "1,200", "12,000", "n2", "777", "The same as a table"):
        assert words in page.text
    assert len(page.all("circle")) == 20
    assert len(page.all("img")) == 1
