"""What the thesis' notebook draws by a seed, drawn again."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from flnet.errors import TrainerError
from trainers._multi_label_options import Options, read_options
from trainers._notebook_draws import Draws, draws, held_back, weight_seeds

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from tests.trainers.test_multi_label import node, write_data  # noqa: E402
from trainers._multi_label import load_node_data  # noqa: E402
from trainers._philox import uniform  # noqa: E402
from trainers.MULTI_LABEL import make_trainer  # noqa: E402

OPTIONS = Options(deal=[4, 2], noise="half-normal", split=[72, 8, 20], draws="notebook")
LINES = 'draws = "notebook"\ndeal = [4, 2]\nnoise = "half-normal"\nsplit = [72, 8, 20]\n'


def labels(rows: int = 400) -> np.ndarray:
    return (np.random.default_rng(7).random((rows, 6)) < 0.3).astype(np.uint8)


def both(options: Options = OPTIONS, seed: int = 1) -> list[Draws]:
    return [draws(labels(), 5, options, (part, 2), seed) for part in (1, 2)]


def test_rows_are_held_back_as_scikit_learn_does() -> None:
    selection = pytest.importorskip("sklearn.model_selection", reason="scikit-learn is not installed")
    for count, share, seed in ((10, 0.1, 1), (37, 0.2, 40), (3782, 0.1, 3)):
        kept, held = selection.train_test_split(np.arange(count), test_size=share, random_state=seed)
        ours = held_back(count, share, seed)
        assert [part.tolist() for part in ours] == [kept.tolist(), held.tolist()]


def test_labels_are_dealt_in_the_order_that_the_seed_shuffles_them() -> None:
    # numpy.random.seed(1) and numpy.random.shuffle(list(range(6))) leave [2, 1, 4, 0, 3, 5]
    assert [one.labels.tolist() for one in both()] == [[2, 1, 4, 0], [3, 5]]


def test_every_node_has_rows_with_its_labels_and_nobody_has_those_of_the_common_test() -> None:
    y, (one, other) = labels(), both()
    assert len(one.common) + np.count_nonzero(~y[held_back(len(y), 0.1, 1)[1]].any(1)) == 40  # a tenth of 400
    assert one.common.tolist() == other.common.tolist()
    parts = [set(rows.tolist()) for rows in (one.rows, other.rows, one.common)]
    assert sum(map(len, parts)) == len(set.union(*parts))
    for node_draws in (one, other):
        assert y[node_draws.rows][:, node_draws.labels].any(axis=1).all()
    assert len(one.rows) > 100  # of some 160 in its part those with one of four labels


def test_a_file_whose_rows_begin_elsewhere_gives_the_same_rows() -> None:
    turned = np.roll(labels(), 150, axis=0)  # what was row 0 stands at 150
    options = Options(deal=[4, 2], noise="half-normal", split=[72, 8, 20], draws="notebook", first_row=150)
    for part, plain in enumerate(both(), start=1):
        found = draws(turned, 5, options, (part, 2), 1)
        assert found.rows.tolist() == ((plain.rows + 150) % 400).tolist()
        assert found.common.tolist() == ((plain.common + 150) % 400).tolist()
        assert found.labels.tolist() == plain.labels.tolist()
        assert found.added is not None and plain.added is not None
        assert np.array_equal(found.added, plain.added)
        assert np.array_equal(found.sides["test"], plain.sides["test"])


def test_a_first_row_must_be_there_and_is_for_these_draws(tmp_path: Path) -> None:
    with pytest.raises(TrainerError, match=r"first_row = 400; there are 400 rows"):
        both(Options(deal=[4, 2], draws="notebook", first_row=400))
    (tmp_path / "multi_label.toml").write_text("first_row = 3\n", "utf-8")
    with pytest.raises(TrainerError, match='first_row is for draws = "notebook"'):
        read_options(tmp_path / "multi_label.toml")


def test_a_fifth_tests_and_the_last_tenth_of_the_others_validates() -> None:
    (one, _) = both()
    train, validation, test = (one.sides[name].tolist() for name in ("train", "validation", "test"))
    count = len(one.rows)
    assert len(test) == -(-count // 5)
    assert len(train) == int((count - len(test)) * 0.9)
    assert sorted(train + validation + test) == list(range(count))
    assert train + validation == held_back(count, 0.2, 1)[0].tolist()


def test_noise_comes_from_one_stream_node_after_node() -> None:
    one, other = both()
    stream = np.random.RandomState(1)
    for found in (one, other):
        assert found.added is not None
        plain = stream.normal(0, 1, found.added.shape)
        ratio = found.added / np.abs(plain)
        assert np.allclose(ratio, ratio[0, 0])
        assert 0 < ratio[0, 0] < 0.5
    # random.seed(1): 0.5 times its first number, 0.13436424411240122
    assert one.added is not None
    assert one.added[0, 0] == pytest.approx(0.06718212205620061 * 1.6243453636632417)
    assert both(Options(deal=[4, 2], draws="notebook"))[0].added is None


def test_deals_that_do_not_fit_are_named() -> None:
    for deal in ([], [4, 1], [3, 2, 1]):
        with pytest.raises(TrainerError, match="expected numbers for 2 nodes whose sum is 6"):
            both(Options(deal=deal, draws="notebook"))


def test_a_node_has_what_is_drawn_and_has_it_again_after_a_restart(tmp_path: Path) -> None:
    write_data(tmp_path, options=LINES)
    place = node(tmp_path, part=2, seed=3)
    first, second = load_node_data(place), load_node_data(place)
    truth = np.load(tmp_path / "ml_scene.npz", allow_pickle=False)
    drawn = draws(truth["Y"], 20, OPTIONS, (2, 2), 3)
    rows, added = drawn.rows[drawn.sides["test"]], drawn.added
    assert added is not None
    expected = truth["X"][rows] + added[drawn.sides["test"]]
    assert first.sides["test"].x.tobytes() == expected.astype(np.float32).tobytes()
    assert first.sides["test"].y.tolist() == truth["Y"][rows][:, drawn.labels].tolist()
    assert first.info.classes == tuple("abcdef"[number] for number in drawn.labels)
    assert second.info.checksum == first.info.checksum
    assert second.common.y.any(axis=1).all()


def test_labels_are_dealt_from_the_order_that_the_options_give(tmp_path: Path) -> None:
    write_data(tmp_path, options=LINES + 'labels = ["f", "e", "d", "c", "b", "a"]')
    data = load_node_data(node(tmp_path, part=2, seed=1))
    assert data.info.classes == ("c", "a")  # the third and the fifth
    truth = np.load(tmp_path / "ml_scene.npz", allow_pickle=False)
    rows = {y[[2, 0]].tobytes() for y in truth["Y"][held_back(600, 0.1, 1)[1]] if y[[2, 0]].any()}
    assert {y.tobytes() for y in data.common.y} == rows
    write_data(tmp_path, options=LINES + 'labels = ["a", "b"]')
    with pytest.raises(TrainerError, match="labels are not those of the data, which are a, b, c"):
        load_node_data(node(tmp_path, part=2, seed=1))


def test_labels_by_name_and_drawn_ones_are_no_pair(tmp_path: Path) -> None:
    write_data(tmp_path, options='draws = "notebook"\nnode_labels = [["a"], ["b"]]')
    with pytest.raises(TrainerError, match="expected deal, not node_labels"):
        load_node_data(node(tmp_path))


def test_weights_are_seeded_by_what_the_noise_left_of_its_generator() -> None:
    # random.seed(1), two uniform ones, and then randint(1, 10 ** 9): two of the core, three of each node
    assert weight_seeds(1, 1, 2) == (820096754, 67760437, 531969375)
    assert weight_seeds(1, 2, 2) == (820096754, 67760437, 507069465)


def test_first_weights_are_those_of_the_seed_of_the_data(tmp_path: Path) -> None:
    write_data(tmp_path, options=LINES)
    one, other = (make_trainer(node(tmp_path, part, seed=1)) for part in (1, 2))
    first, second = one.initial_params(1), other.initial_params(1)
    for layer, seed in zip(("core.0", "core.1", "head"), weight_seeds(1, 1, 2), strict=True):
        there = first[f"{layer}.weight"]
        expected = uniform(seed, there.shape[::-1], (6 / sum(there.shape)) ** 0.5).T
        assert np.array_equal(there, expected)
        assert not first[f"{layer}.bias"].any()
    assert np.array_equal(first["core.1.weight"], second["core.1.weight"])
    assert one.initial_params(2)["head.weight"].tolist() == first["head.weight"].tolist()
