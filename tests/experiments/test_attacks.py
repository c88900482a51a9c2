"""Attacks do what they say, reach the averages of a mesh, and can be used by experiments only."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from flnet.datasets.labelled import Labelled
from flnet.errors import LocalError
from flnet.experiments.attacks import (
    Attack,
    backdoor_success,
    check_attack,
    crafted,
    poisoned,
    stamped,
)
from flnet.experiments.learners import changeable
from flnet.experiments.mesh import Attackers
from flnet.params.params import Array, Params, PeerId, Schema
from flnet.trainer import Rows
from tests.experiments.test_mesh import Run
from tests.test_layout import Source

ME, B, C = PeerId("me"), PeerId("b"), PeerId("c")
BASE = Params({"w": np.array([1.0, 2.0], np.float32), "steps": np.array([7])})
LEARNT = {
    name: Params({"w": np.array([w, 1.0], np.float32), "steps": np.array([8])})
    for name, w in ((ME, 2.0), (B, 4.0), (C, 6.0))
}
NAMES = [PeerId(name) for name in "abcdefghij"]


@pytest.mark.parametrize(
    ("attack", "expected"),
    [
        ("sign-flip", [1 - 5, 2 + 5]),
        ("sign-flip:1", [0, 3]),
        ("weight-flip", [0, 3]),
        ("weight-flip:5", [1 - 5, 2 + 5]),
        ("two-faced:2", [-1, 4]),
        ("replacement", [1 + 3, 2 - 3]),  # three nodes
        ("replacement:10", [11, -8]),
        ("free-rider", [1, 2]),
        ("colluders:1", [4 - (8 / 3) ** 0.5, 1]),
        ("label-flip", [2, 1]),
        ("backdoor", [2, 1]),
    ],
)
def test_a_crafted_update(attack: str, expected: list[float]) -> None:
    sent = crafted(Attack.parse(attack), BASE, ME, LEARNT, Schema.of(BASE), np.random.default_rng(0))
    np.testing.assert_allclose(sent["w"], np.array(expected, np.float32), rtol=1e-6)
    assert sent["w"].dtype == np.float32
    assert sent["steps"] == 8  # not averaged, so unchanged


@pytest.mark.parametrize(("attack", "mean"), [("weight-flip", 3.0), ("weight-flip:5", 3.0), ("sign-flip:1", 1.0)])
def test_flipped_weights_leave_buffers_as_they_were_learnt(attack: str, mean: float) -> None:
    base = Params({"w": np.array([1.0]), "mean": np.array([2.0]), "seen": np.array(4)})
    own = Params({"w": np.array([1.5]), "mean": np.array([3.0]), "seen": np.array(9)})
    schema, number = Schema.of(base, buffers=("mean", "seen")), Attack.parse(attack).number
    sent = crafted(Attack.parse(attack), base, ME, {ME: own}, schema, np.random.default_rng(0))
    assert number is not None
    assert {name: float(array.item()) for name, array in sent.items()} == {
        "w": 1 - number / 2,
        "mean": mean,
        "seen": 9,
    }


def test_noise_has_the_stated_size() -> None:
    base, own = Params({"w": np.zeros(10_000)}), Params({"w": np.full(10_000, 0.5)})
    sent = crafted(Attack("noise", 4.0), base, ME, {ME: own}, Schema.of(base), np.random.default_rng(0))["w"]
    assert sent.mean() == pytest.approx(0, abs=0.1)
    assert sent.std() == pytest.approx(2, rel=0.05)


@pytest.mark.parametrize("wrong", ["", "flip", "sign-flip:", "sign-flip:-1", "label-flip:2", "noise:1e9"])
def test_an_unknown_attack_is_refused(wrong: str) -> None:
    with pytest.raises(ValueError, match="attack"):
        Attack.parse(wrong)
    assert check_attack("") == ""
    with pytest.raises(ValueError, match="no attack 'bribe'"):
        check_attack("bribe")


def test_flipped_labels_are_random_and_inputs_stay() -> None:
    rows = Labelled(np.arange(400.0).reshape(100, 2, 2), np.full(100, 3))
    changed = poisoned(Attack("label-flip"), rows, 10, np.random.default_rng(0))
    assert changed.x is rows.x
    assert set(changed.y.tolist()) == set(range(10))


@pytest.mark.parametrize("attack", ["backdoor", "replacement"])
def test_backdoor_rows_are_repeated_with_a_bright_corner_and_the_target(attack: str) -> None:
    images = np.zeros((3, 4, 4, 3), np.uint8)
    images[0, 3, 3] = 200
    changed = poisoned(Attack(attack), Labelled(images, np.array([4, 5, 0])), 10, np.random.default_rng(0))
    assert np.array_equal(changed.x[:3], images)
    assert changed.y.tolist() == [4, 5, 0, 0, 0, 0]
    assert (changed.x[3:, :2, :2] == 200).all()
    assert changed.x[3:].sum() == 3 * 4 * 3 * 200 + 3 * 200
    assert images.sum() == 600  # the original is unchanged
    assert stamped(np.array([[0, 1, 2, 3, 4, 9]])).tolist() == [[9, 9, 9, 9, 4, 9]]  # no images


def test_the_success_of_a_backdoor_is_over_rows_of_other_classes() -> None:
    rows = Rows(np.array([[0.0, 0], [0, 1], [0, 2], [0, 3]]), np.array([0, 1, 2, 3]))

    def predict(x: Array) -> Array:
        assert (x == 3).all()
        return np.tile([0.9, 0.1], (len(x), 1))

    assert backdoor_success(predict, rows) == 1.0
    assert backdoor_success(lambda x: np.tile([0.1, 0.9], (len(x), 1)), rows) == 0.0
    assert backdoor_success(predict, Rows(rows.inputs[:1], rows.labels[:1])) is None


def test_nothing_that_a_node_runs_imports_attacks() -> None:
    root = Path(__file__).parents[2]
    importers = {
        path.relative_to(root).parts[:2]
        for path in (*root.glob("flnet/**/*.py"), *root.glob("trainers/**/*.py"))
        for _, name in Source(".".join(path.relative_to(root).with_suffix("").parts), path.read_text()).imports
        if name.startswith("flnet.experiments.attacks")
    }
    assert importers == {("flnet", "experiments")}


# Attackers in a mesh.


@pytest.mark.parametrize(("hostile", "expected"), [(0, ""), (1, "j"), (3, "hij"), (0.3, "hij"), (0.05, "")])
def test_the_last_nodes_are_hostile(hostile: float, expected: str) -> None:
    assert Attackers("free-rider", hostile, NAMES, 0).hostile == set(expected)
    assert not Attackers("", hostile, NAMES, 0).hostile


def test_every_second_honest_peer_is_deceived() -> None:
    attackers = Attackers("two-faced", 2, NAMES, 0)
    assert [name for name in NAMES if attackers.is_deceived(PeerId("j"), name)] == ["b", "d", "f", "h"]
    assert not attackers.is_deceived(PeerId("a"), PeerId("b"))
    assert not Attackers("sign-flip", 2, NAMES, 0).is_deceived(PeerId("j"), PeerId("b"))


def test_a_flipped_update_is_averaged_and_its_sender_has_no_figures(tmp_path: Path) -> None:
    run = Run(tmp_path, rounds=1, nodes=4, hostile=1, attack="sign-flip:3", aggregation="agg0")
    trained, evaluated = run.steps
    honest, hostile = [order.params["w"] for order in trained[:3]], trained[3]
    assert hostile.task is not None
    flipped = hostile.task.params["w"] - 3 * (hostile.params["w"] - hostile.task.params["w"])
    np.testing.assert_allclose(evaluated[0].params["w"], np.mean([*honest, flipped], axis=0), rtol=1e-5, atol=1e-6)
    assert len({order.params.digest for order in evaluated}) == 1
    figures = run.outcome.figures
    assert [value is None for value in figures["after.accuracy"]] == [False, False, False, True]
    assert figures["after.hostile_weight"] == (0.25, 0.25, 0.25, None)


@pytest.mark.parametrize("attack", ["", "label-flip", "noise", "free-rider", "colluders"])
def test_other_attacks_change_the_average_and_add_no_figure(tmp_path: Path, attack: str) -> None:
    plain = Run(tmp_path / "plain", rounds=2, nodes=4)
    other = Run(tmp_path / "other", rounds=2, nodes=4, hostile=1, attack=attack)
    assert other.outcome.reason == ""
    assert "after.backdoor_success" not in other.outcome.figures
    changed = [o.params.digest for o in plain.steps[1]] != [o.params.digest for o in other.steps[1]]
    assert changed is bool(attack)


@pytest.mark.parametrize("personal", ["none", "increment"])
def test_a_backdoor_is_measured_on_stamped_rows_of_honest_nodes(tmp_path: Path, personal: str) -> None:
    run = Run(tmp_path, nodes=4, hostile=1, attack="backdoor", personal_model=personal)
    assert run.outcome.examples == (80, 80, 80, 160)  # also inside of the methods around a trainer
    success = run.outcome.figures["after.backdoor_success"]
    assert success[0] is not None
    assert success[3] is None
    if personal == "none":
        order = run.steps[-1][0]
        rows = order.learner.trainer.tests()["accuracy"]
        classes = (stamped(rows.inputs[rows.labels != 0]) @ order.params["w"] + order.params["b"]).argmax(1)
        assert success[0] == pytest.approx(float((classes == 0).mean()))


def test_a_two_faced_sender_causes_two_averages_until_nodes_adopt_one_model(tmp_path: Path) -> None:
    run = Run(tmp_path, 3, rounds=6, nodes=5, hostile=1, attack="two-faced:3", aggregation="agg0")
    assert run.outcome.reason == ""
    averages = {id(order.learner): order.params.digest for order in run.steps[1]}
    first, other, *rest = [averages[id(learner)] for learner in run.mesh.learners.values()]
    assert first != other
    assert rest == [first, other, first]
    bases = [{Params(order.task.params).digest for order in step if order.task} for step in run.steps]
    counts = [len(digests) for digests in bases if digests]
    assert max(counts) <= 2
    assert counts[-1] == 1  # a node takes the initiator's as soon as that measures no worse


def test_a_rule_that_remembers_tolerates_a_two_faced_sender(tmp_path: Path) -> None:
    run = Run(tmp_path, rounds=6, nodes=5, hostile=1, attack="two-faced:3", aggregation="consistency")
    assert (run.outcome.reason, run.outcome.rounds) == ("", 6)


def test_lone_nodes_attack_nobody(tmp_path: Path) -> None:
    outcomes = [Run(tmp_path / a, kind="lone", hostile=1, attack=a).outcome for a in ("backdoor", "sign-flip")]
    assert outcomes[0].figures == outcomes[1].figures


def test_rows_of_a_trainer_without_change_rows_cannot_be_changed() -> None:
    class Bare:
        name, trainer = "BARE", object()

    with pytest.raises(LocalError, match="trainer BARE does not let its rows be changed"):
        changeable(Bare())  # type: ignore[arg-type]
