"""Hostile nodes in the mesh of a cell: what honest ones average, and which figures there are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from flnet.errors import LocalError
from flnet.experiments.assault import Assault, rows_of
from flnet.experiments.attacks import stamped
from flnet.params import Params, PeerId
from tests.experiments.test_mesh import Run

NAMES = [PeerId(name) for name in "abcdefghij"]


@pytest.mark.parametrize(("hostile", "expected"), [(0, ""), (1, "j"), (3, "hij"), (0.3, "hij"), (0.05, "")])
def test_the_last_nodes_are_hostile(hostile: float, expected: str) -> None:
    assert Assault("free-rider", hostile, NAMES, 0).hostile == set(expected)
    assert not Assault("", hostile, NAMES, 0).hostile


def test_every_second_honest_peer_is_deceived() -> None:
    assault = Assault("two-faced", 2, NAMES, 0)
    assert [name for name in NAMES if assault.is_deceived(PeerId("j"), name)] == ["b", "d", "f", "h"]
    assert not assault.is_deceived(PeerId("a"), PeerId("b"))
    assert not Assault("sign-flip", 2, NAMES, 0).is_deceived(PeerId("j"), PeerId("b"))


def test_a_flipped_update_is_in_the_average_and_its_sender_in_no_figure(tmp_path: Path) -> None:
    run = Run(tmp_path, rounds=1, nodes=4, hostile=1, attack="sign-flip:3", aggregation="agg0")
    trained, measured = run.steps
    honest, liar = [order.params["w"] for order in trained[:3]], trained[3]
    assert liar.task is not None
    flipped = liar.task.params["w"] - 3 * (liar.params["w"] - liar.task.params["w"])
    np.testing.assert_allclose(measured[0].params["w"], np.mean([*honest, flipped], axis=0), rtol=1e-5, atol=1e-6)
    assert len({order.params.digest for order in measured}) == 1
    figures = run.outcome.figures
    assert figures["after.accuracy"][3] is None
    assert None not in figures["after.accuracy"][:3]
    assert figures["after.hostile_weight"] == (0.25, 0.25, 0.25, None)


def test_without_attack_there_are_no_such_figures(tmp_path: Path) -> None:
    run = Run(tmp_path, rounds=1, hostile=1)
    assert None not in run.outcome.figures["after.accuracy"]
    assert "after.backdoor_success" not in run.outcome.figures


@pytest.mark.parametrize("attack", ["label-flip", "noise", "free-rider", "colluders"])
def test_other_attacks_run_and_change_the_average(tmp_path: Path, attack: str) -> None:
    plain = Run(tmp_path / "plain", rounds=2, nodes=4)
    other = Run(tmp_path / "other", rounds=2, nodes=4, hostile=1, attack=attack)
    assert other.outcome.reason == ""
    assert [o.params.digest for o in plain.steps[1]] != [o.params.digest for o in other.steps[1]]


def test_a_backdoor_is_measured_on_stamped_rows_of_honest_nodes(tmp_path: Path) -> None:
    run = Run(tmp_path, nodes=4, hostile=1, attack="backdoor")
    assert run.outcome.examples == (80, 80, 80, 160)
    found = run.outcome.figures["after.backdoor_success"]
    assert found[3] is None
    measured = run.steps[-1][0]
    rows = measured.learner.trainer.tests()["accuracy"]
    guess = (stamped(rows.inputs[rows.labels != 0]) @ measured.params["w"] + measured.params["b"]).argmax(1)
    assert found[0] == pytest.approx(float((guess == 0).mean()))


def test_a_two_faced_sender_gives_two_averages_and_one_model_again(tmp_path: Path) -> None:
    # Of this seed; which average has the lower digest, and who begins a round, are up to chance.
    run = Run(tmp_path, 3, rounds=6, nodes=5, hostile=1, attack="two-faced:3", aggregation="agg0")
    assert run.outcome.reason == ""
    averages = {id(order.learner): order.params.digest for order in run.steps[1]}
    found = [averages[id(learner)] for learner in run.mesh.learners.values()]
    first, other = found[:2]
    assert first != other
    assert found == [first, other, first, other, first]
    starts = [{Params(order.task.params).digest for order in step if order.task} for step in run.steps]
    begun = [len(bases) for bases in starts if bases]
    assert max(begun) == 2
    assert begun[-1] == 1  # of equal rank is the lower digest, and all take it as soon as its node begins a round


def test_rules_that_remember_bear_a_two_faced_sender(tmp_path: Path) -> None:
    run = Run(tmp_path, rounds=6, nodes=5, hostile=1, attack="two-faced:3", aggregation="consistency")
    assert (run.outcome.reason, run.outcome.rounds) == ("", 6)


def test_lone_nodes_attack_nobody(tmp_path: Path) -> None:
    one, same = (Run(tmp_path / a, kind="lone", hostile=1, attack=a) for a in ("backdoor", "sign-flip"))
    assert one.outcome.figures == same.outcome.figures


def test_a_trainer_that_shows_no_rows_cannot_be_poisoned() -> None:
    class Bare:
        name, trainer = "BARE", object()

    with pytest.raises(LocalError, match="trainer BARE does not let its rows be poisoned"):
        rows_of(Bare())  # type: ignore[arg-type]


def test_the_model_that_answers_has_figures_of_its_own(tmp_path: Path) -> None:
    local, common = (
        Run(tmp_path / choice, rounds=2, personal_model="increment", model_choice=choice).outcome.figures
        for choice in ("local", "global")
    )
    assert local["after.answered_accuracy"] == local["after.local_accuracy"]
    assert common["after.answered_accuracy"] == common["after.accuracy"] == local["after.accuracy"]


def test_rows_are_poisoned_inside_of_what_methods_wrap_around_a_trainer(tmp_path: Path) -> None:
    run = Run(tmp_path, rounds=2, nodes=4, hostile=1, attack="backdoor", personal_model="increment")
    assert run.outcome.examples == (80, 80, 80, 160)
    assert run.outcome.figures["after.backdoor_success"][0] is not None
