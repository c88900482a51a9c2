"""Attacks are test doubles: what each sends, worked out by hand, and that no node can use them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from flnet.experiments.attacks import Attack, check_attack, crafted, opened, poisoned, stamped
from flnet.params import Params, PeerId, Schema
from flnet.training.api import Rows
from flnet.training.data import Labelled
from tests.layout_rules import Source, imports

ME, B, C = PeerId("me"), PeerId("b"), PeerId("c")
BASE = Params({"w": np.array([1.0, 2.0], np.float32), "steps": np.array([7])})
LEARNT = {
    ME: Params({"w": np.array([2.0, 1.0], np.float32), "steps": np.array([8])}),
    B: Params({"w": np.array([4.0, 1.0], np.float32), "steps": np.array([8])}),
    C: Params({"w": np.array([6.0, 1.0], np.float32), "steps": np.array([8])}),
}


def sent(attack: str) -> Params:
    return crafted(Attack.parse(attack), BASE, ME, LEARNT, Schema.of(BASE), np.random.default_rng(0))


@pytest.mark.parametrize(
    ("attack", "expected"),
    [
        ("sign-flip", [1 - 5, 2 + 5]),
        ("sign-flip:1", [0, 3]),
        ("two-faced:2", [-1, 4]),
        ("replacement", [1 + 3, 2 - 3]),  # three nodes
        ("replacement:10", [11, -8]),
        ("free-rider", [1, 2]),
        ("colluders:1", [4 - (8 / 3) ** 0.5, 1]),
        ("label-flip", [2, 1]),
        ("backdoor", [2, 1]),
    ],
)
def test_what_is_sent(attack: str, expected: list[float]) -> None:
    found = sent(attack)
    np.testing.assert_allclose(found["w"], np.array(expected, np.float32), rtol=1e-6)
    assert found["w"].dtype == np.float32
    assert found["steps"] == 8  # what is not averaged is as it was learnt


def test_noise_is_as_large_as_it_says() -> None:
    base, own = Params({"w": np.zeros(10_000)}), Params({"w": np.full(10_000, 0.5)})
    chance = np.random.default_rng(0)
    found = crafted(Attack("noise", 4.0), base, ME, {ME: own}, Schema.of(base), chance)["w"]
    assert found.mean() == pytest.approx(0, abs=0.1)
    assert found.std() == pytest.approx(2, rel=0.05)


@pytest.mark.parametrize("wrong", ["", "flip", "sign-flip:", "sign-flip:-1", "label-flip:2", "noise:1e9"])
def test_what_is_no_attack_is_refused(wrong: str) -> None:
    with pytest.raises(ValueError, match="attack"):
        Attack.parse(wrong)


def test_no_attack_is_an_attack_that_a_setup_may_have() -> None:
    assert check_attack("") == ""
    with pytest.raises(ValueError, match="no attack 'bribe'"):
        check_attack("bribe")


def test_labels_are_drawn_and_inputs_stay() -> None:
    rows = Labelled(np.arange(400.0).reshape(100, 2, 2), np.full(100, 3))
    found = poisoned(Attack("label-flip"), rows, 10, np.random.default_rng(0))
    assert found.x is rows.x
    assert set(found.y.tolist()) == set(range(10))


def test_backdoor_rows_come_a_second_time_with_a_bright_corner_and_the_target() -> None:
    images = np.zeros((3, 4, 4, 3), np.uint8)
    images[0, 3, 3] = 200
    for attack in ("backdoor", "replacement"):
        found = poisoned(Attack(attack), Labelled(images, np.array([4, 5, 0])), 10, np.random.default_rng(0))
        assert np.array_equal(found.x[:3], images)
        assert found.y.tolist() == [4, 5, 0, 0, 0, 0]
        assert (found.x[3:, :2, :2] == 200).all()
        assert found.x[3:].sum() == 3 * 4 * 3 * 200 + 3 * 200
    assert images.sum() == 600  # and the others are as they were


def test_rows_that_are_no_images_are_bright_in_their_first_columns() -> None:
    assert stamped(np.array([[0, 1, 2, 3, 4, 9]])).tolist() == [[9, 9, 9, 9, 4, 9]]


def test_success_is_of_rows_of_other_classes() -> None:
    rows = Rows(np.array([[0.0, 0], [0, 1], [0, 2], [0, 3]]), np.array([0, 1, 2, 3]))

    def judge(x: np.ndarray) -> np.ndarray:  # what is bright and small is the target
        assert (x == 3).all()
        return np.tile([0.9, 0.1], (len(x), 1))

    assert opened(judge, rows) == 1.0
    assert opened(lambda x: np.tile([0.1, 0.9], (len(x), 1)), rows) == 0.0
    assert opened(judge, Rows(rows.inputs[:1], rows.labels[:1])) is None


def test_nothing_that_a_node_runs_knows_attacks() -> None:
    root = Path(__file__).parents[2]
    known = ("flnet.experiments.attacks", "flnet.experiments.assault")
    files = [*root.glob("flnet/**/*.py"), *root.glob("trainers/**/*.py")]
    found = {
        path.relative_to(root).parts[:2]
        for path in files
        for _, name in imports(Source(".".join(path.relative_to(root).with_suffix("").parts), path.read_text()))
        if name.startswith(known)
    }
    assert found == {("flnet", "experiments")}
