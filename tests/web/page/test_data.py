from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flnet.node.interface import PeerInfo
from flnet.rounds.view import JobView
from flnet.settings import load_settings
from flnet.web.app import create_app
from flnet.web.page.data import LARGEST, STEP, card_of, part_of, parts_picture, rows_of_peers
from tests.web.conftest import SETTINGS, Client
from tests.web.page_reading import Page, load
from tests.web.view_nodes import EVIL, ViewNode

HERE = "/view/data"
COUNTS = {"test": [40, 10], "train": [300, 150], "validation": [0, 0]}
DATA = {"source": "digits", "rows": {"train": 450, "validation": 0, "test": 50}, "classes": ["3", "7"]}


@pytest.fixture
def node() -> ViewNode:
    return ViewNode()


def job(**more: Any) -> JobView:
    told = {"trainer_id": "X", "trainer_label": "An X", "phase": "IDLE", "data": DATA, "counts": COUNTS, **more}
    return JobView.claimed(told)


def test_the_rows_of_each_class_become_bars_that_compare_within_their_split() -> None:
    seen = card_of(job())
    assert [(count.split, count.rows, count.percent) for count in seen.splits] == [
        ("train", "450", 100.0),
        ("validation", "0", 0.0),
        ("test", "50", 11.11),
    ]
    three, seven = seen.classes
    assert [(count.split, count.percent) for count in three.counts] == [
        ("train", 100.0),
        ("validation", 0.0),
        ("test", 100.0),
    ]
    assert [(count.rows, count.percent) for count in seven.counts] == [("150", 50.0), ("0", 0.0), ("10", 25.0)]
    assert (seen.hidden, seen.class_names) == (0, "")


def test_counts_that_do_not_fit_the_classes_are_left_out() -> None:
    seen = card_of(job(counts={"train": [1, 2, 3], "test": [4, 5]}))
    assert [[count.split for count in one.counts] for one in seen.classes] == [["test"], ["test"]]
    assert card_of(job(counts={})).class_names == "3, 7"
    assert card_of(job(data={}, counts={})).splits == ()


def test_many_classes_are_cut_and_counted() -> None:
    names = [f"label {number}" for number in range(100)]
    seen = card_of(job(data={"classes": names}, counts={"train": list(range(100))}))
    assert (len(seen.classes), seen.hidden) == (60, 40)


async def test_the_view_shows_source_checksum_sample_flag_and_counts(client: Client, node: ViewNode) -> None:
    node.jobs["MNIST"].sample = True
    node.more["MNIST"] = {"counts": {"train": [1259] + [0] * 9}, "checksum": "ef" * 32}
    page = await load(client, HERE)
    for shown in ("scikit-learn digits", "sample data", "ef" * 32, "1,259", "Rows of each class", "for MNIST put"):
        assert shown in page.text
    assert all(bar.get("aria-hidden") == "true" for bar in page.all("svg"))


async def test_a_trainer_without_data_says_what_is_missing_and_how_to_get_it(
    client: Client, node: ViewNode
) -> None:
    node.jobs["MNIST"].phase = "NO_DATA"
    node.jobs["MNIST"].error = "the X-rays are not here; name their folder in FLNET_DATASETS_PATH"
    node.jobs["MNIST_3_7"].phase = "LOADING"
    page = await load(client, HERE)
    assert "No data the X-rays are not here; name their folder" in page.text
    assert "Loading data" in page.text


async def test_a_node_without_trainers_has_the_view_too(client: Client, node: ViewNode) -> None:
    node.jobs.clear()
    assert "This node has no trainer." in (await load(client, HERE)).text


async def test_what_a_trainer_says_is_text_and_never_markup(client: Client, node: ViewNode) -> None:
    node.jobs["MNIST"].source = node.jobs["MNIST"].label = EVIL
    node.more["MNIST"] = {"data": {**DATA, "source": EVIL, "note": EVIL, "classes": [EVIL, "7"]}, "counts": COUNTS}
    page = await load(client, HERE)
    assert page.text.count(EVIL) == 4
    assert len(page.all("img")) == 1


async def test_the_folder_of_data_sets_is_shown_on_its_own_machine_only(node: ViewNode) -> None:
    there = create_app(node, load_settings({"datasets_path": "/srv/data"}, {})).test_client()
    assert "Data sets are looked for in /srv/data." in (await load(there, HERE)).text
    answer = await there.get(HERE, scope_base={"client": ("192.168.1.9", 5)})
    page = Page(await answer.get_data(as_text=True))
    assert "/srv/data" not in page.text
    assert "FLNET_DATASETS_PATH" not in page.text
    assert "FLNET_DATASETS_PATH" in (await load(create_app(node, SETTINGS).test_client(), HERE)).text


@pytest.mark.parametrize(
    ("shard", "partition", "words"),
    [
        ("1/1", "iid", "takes all of each data set"),
        ("2/10", "iid", "part 2 of 10 of each data set: every part has rows of all classes alike."),
        ("2/10", "dirichlet:0.3", "with alpha 0.3: the smaller it is"),
        ("2/10", "pathological:2", "rows of 2 classes only."),
        ("2/10", "quantity:0.5", "different sizes, drawn from a Dirichlet distribution with alpha 0.5"),
        ("2/10", "power:1", "power law with exponent 1"),
        ("2/10", "groups", "stay in one part."),
    ],
)
async def test_the_part_of_an_experiment_is_told_in_words(
    node: ViewNode, shard: str, partition: str, words: str
) -> None:
    settings = load_settings({"data_shard": shard, "data_partition": partition}, {})
    page = await load(create_app(node, settings).test_client(), HERE)
    assert words in page.text
    assert part_of(settings).count == int(shard.partition("/")[2])


# parts_picture


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


def test_the_rows_of_peers_are_those_of_the_same_trainer() -> None:
    def peer(name: str, trainer: str, rows: object) -> PeerInfo:
        return PeerInfo.claimed(name, "", {"jobsInfo": [{"trainer_id": trainer, "data": {"rows": rows}}]})

    claims = [("c", "X", {"train": 30, "test": 10}), ("b", "X", {"train": 80}), ("d", "Y", {"train": 5})]
    infos = [peer(*claim) for claim in [*claims, ("e", "X", {"train": -1}), ("f", "X", "many")]]
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
