"""The trainers of simulated nodes: their data, options and labels, and work that is done together."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from flnet.errors import DataMissing, SettingsError
from flnet.experiments.cells import Cell, Outcome
from flnet.experiments.learners import Learner, Order, as_toml, carry_out, learners_of, trainer_file
from flnet.experiments.run import run_together
from flnet.params.params import Params
from flnet.protocol.messages import HyperParams
from flnet.settings import Settings
from flnet.trainer import Score, Task
from tests.experiments.cells import SETTINGS, TRAINERS, cell


def learners(tmp_path: Path, of: Cell, settings: Settings = SETTINGS) -> list[Learner]:
    return learners_of(of, trainer_file(of.setup.trainer, settings), settings, tmp_path / "state")


def order(learner: Learner, seed: int = 1) -> Order:
    return Order(learner, learner.initial, Task(learner.initial, HyperParams(e=1, u=0.5, b=16), seed))


def rows(learner: Learner) -> int:
    return int(learner.declaration.data["rows"]["train"])


def test_each_node_has_its_part_and_a_central_node_has_all(tmp_path: Path) -> None:
    four = learners(tmp_path, cell(nodes=4, partition="quantity:0.5"))
    assert len({rows(learner) for learner in four}) > 1
    assert [learner.declaration.exchange_threshold for learner in four] == [1.0] * 4
    (central,) = learners(tmp_path / "central", cell(nodes=4, kind="central", partition="quantity:0.5"))
    assert rows(central) == 320 > max(map(rows, four))
    (adopting,) = learners(tmp_path / "adopting", cell(nodes=1, exchange=True))
    assert adopting.declaration.exchange_threshold == 0.0


def test_work_is_done_together_and_no_model_is_evaluated_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    three = learners(tmp_path, cell())
    kind = type(three[0].trainer)
    kind.at_once.clear()  # type: ignore[attr-defined]
    orders = [order(learner) for learner in three]
    carry_out(orders)
    assert kind.at_once == [3]  # type: ignore[attr-defined]
    for each in orders:
        assert each.task is not None and each.fit is not None and each.score is not None
        assert Params(each.fit.params) == Params(each.learner.trainer.fit(each.task).params)
        assert each.score.accuracy == each.learner.trainer.evaluate(each.fit.params).accuracy
    monkeypatch.setattr(three[0].trainer, "evaluate", None)
    again = Order(three[0], orders[0].params)
    carry_out([again])
    assert again.score == orders[0].score


def test_an_evaluation_on_validation_rows_that_are_not_there_is_one_on_test_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (one,) = learners(tmp_path, cell(nodes=1))
    asked = [Order(one, one.initial, split="validation") for _ in range(2)]
    carry_out(asked[:1])
    monkeypatch.setattr(one.trainer, "validation_score", lambda params: Score(0.25, 3))
    carry_out(asked[1:])
    scores = [order.score for order in asked]
    assert [score and score.split for score in scores] == ["test", "validation"]
    assert scores[1] == Score(0.25, 3, split="validation")


@pytest.mark.parametrize(("fails", "failed"), [("at once", []), ("2", [1])])
def test_a_failure_is_that_of_one_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: str, failed: list[int]
) -> None:
    orders = [order(learner) for learner in learners(tmp_path, cell())]
    monkeypatch.setenv("TINY_FAILS", fails)
    carry_out(orders)
    assert [number for number, each in enumerate(orders) if each.failure] == failed
    assert all((each.score is None) == bool(each.failure) for each in orders)
    assert not failed or orders[1].failure == "the second node cannot train"


def test_options_are_written_next_to_the_data(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / "points.npz").write_bytes(b"points")
    (data / "tiny.toml").write_text("not = 'these'", "utf-8")
    options = {"deal": [3, 3], "noise": 'no"ne', "share": 0.1, "names": [["a"], ["b"]], "is": True}
    settings = Settings(trainers_path=TRAINERS, datasets_path=data)
    (learner, *_) = learners(tmp_path, cell(options_file="tiny.toml", options=options), settings)
    place = Path(learner.declaration.data["source"])
    assert (place / "points.npz").read_bytes() == b"points"
    assert tomllib.loads((place / "tiny.toml").read_text("utf-8")) == options
    assert (data / "tiny.toml").read_text("utf-8") == "not = 'these'"
    with pytest.raises(SettingsError, match="the option deal is"):
        as_toml({"deal": {"a": 1}})


def test_missing_data_and_unknown_trainers_are_named(tmp_path: Path) -> None:
    needy = cell(needs=("points.npz", "points"))
    with pytest.raises(DataMissing, match=r"needs points.npz or points: FLNET_DATASETS_PATH is not set"):
        learners(tmp_path, needy)
    settings = Settings(trainers_path=TRAINERS, datasets_path=tmp_path)
    with pytest.raises(DataMissing, match="not found in"):
        learners(tmp_path, needy, settings)
    (tmp_path / "points").mkdir()
    assert len(learners(tmp_path, needy, settings)) == 3
    with pytest.raises(SettingsError, match=r"no trainer 'NONE'; there are .*TINY"):
        trainer_file("NONE", SETTINGS)


# Nodes that label differently.

PAIRS = {"01": ["0", "1"], "23": ["2", "3"], "45": ["4", "5"], "67": ["6", "7"], "89": ["8", "9"]}
DESIRED = {"id": "digits", "classes": [str(digit) for digit in range(10)]}
LABELS = {"id": "pairs", "classes": list(PAIRS), "desired": DESIRED, "mapping": PAIRS, "rows": 50}
BEFORE, AFTER = "before.global_accuracy", "after.global_accuracy"


def digits(**fields: Any) -> Cell:
    setup = {
        "trainer": "SMALL_DIGITS",
        "nodes": 5,
        "rate": 0.01,
        "batch": 16,
        "labels": LABELS,
        "curves": (AFTER,),
    }
    return cell(**{**setup, **fields})


def outcome(**fields: Any) -> Outcome:
    (result,) = run_together([digits(**fields)], Settings())
    assert result.reason == ""
    return result


def test_the_first_node_has_labels_of_the_desired_space_and_the_others_have_coarse_ones(tmp_path: Path) -> None:
    declarations = [learner.declaration for learner in learners(tmp_path, digits(), Settings())]
    turns = [each.turn for each in declarations]
    assert [turn is not None and turn.is_desired for turn in turns] == [True, False, False, False, False]
    assert len({tuple(sorted(each.agreement.items())) for each in declarations}) == 1


def test_nodes_take_turns_and_learn_from_each_other() -> None:
    figures = outcome(rounds=20).figures
    assert figures[BEFORE][0] is None  # the last round was the turn of the others
    assert None not in figures[BEFORE][1:]
    (last,) = set(figures[AFTER])
    assert last is not None
    assert last > 0.85


def test_a_trainer_that_sits_out_is_no_failure() -> None:
    result = outcome(rounds=2, labels={**LABELS, "estimate": True, "schedule": "parallel"})
    assert result.rounds == 2
    assert result.figures[BEFORE][1:] == (None,) * 4


def test_heads_may_be_private_and_coarse_labels_may_come_first() -> None:
    heads = outcome(rounds=4, labels={**LABELS, "heads": "private"})
    assert len(set(heads.figures[AFTER])) == 5  # every node has a model of its own
    first = outcome(rounds=4, labels={**LABELS, "schedule": "coarse-first", "turning": 3})
    assert first.figures[BEFORE][1:] == (None,) * 4  # the last round is for the first node
    assert first.figures[BEFORE][0] is not None
