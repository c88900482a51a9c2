"""Nodes' trainers, their data, and work that is done together without one failure spoiling another."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from flnet.errors import DataMissing, SettingsError
from flnet.experiments.base import Cell
from flnet.experiments.learners import Learner, Order, as_toml, carry_out, learners_of, trainer_file
from flnet.messages import HyperParams
from flnet.params import Params
from flnet.settings import Settings
from flnet.training.api import Task
from tests.experiments.cells import TOLD, TRAINERS, cell


def made(tmp_path: Path, one: Cell, settings: Settings = TOLD) -> list[Learner]:
    return learners_of(one, trainer_file("TINY", settings), settings, tmp_path / "state")


def order(learner: Learner, seed: int = 1) -> Order:
    return Order(learner, learner.initial, Task(learner.initial, HyperParams(e=1, u=0.5, b=16), seed))


def rows(learner: Learner) -> int:
    return int(learner.declaration.data["rows"]["train"])


def test_each_node_has_its_part(tmp_path: Path) -> None:
    found = made(tmp_path, cell(nodes=4, partition="quantity:0.5"))
    assert len({rows(learner) for learner in found}) > 1
    assert [learner.declaration.exchange_threshold for learner in found] == [1.0] * 4
    (whole,) = made(tmp_path / "central", cell(nodes=4, kind="central", partition="quantity:0.5"))
    assert rows(whole) == 320 > max(map(rows, found))
    (adopting,) = made(tmp_path / "adopting", cell(nodes=1, exchange=True))
    assert adopting.declaration.exchange_threshold == 0.0


def test_all_work_is_done_at_once(tmp_path: Path) -> None:
    learners = made(tmp_path, cell())
    kind = type(learners[0].trainer)
    kind.at_once.clear()  # type: ignore[attr-defined]
    orders = [order(learner) for learner in learners]
    carry_out(orders)
    assert kind.at_once == [3]  # type: ignore[attr-defined]
    for one in orders:
        assert one.task is not None and one.fit is not None and one.score is not None
        assert Params(one.fit.params) == Params(one.learner.trainer.fit(one.task).params)
        assert one.score.accuracy == one.learner.trainer.evaluate(one.fit.params).accuracy


def test_what_was_just_measured_is_not_measured_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (learner, *_) = made(tmp_path, cell())
    first = order(learner)
    carry_out([first])
    assert first.fit is not None
    monkeypatch.setattr(learner.trainer, "evaluate", None)
    again = Order(learner, Params(first.fit.params))
    carry_out([again])
    assert again.score == first.score


@pytest.mark.parametrize(("fails", "failed"), [("at once", []), ("2", [1])])
def test_a_failure_is_that_of_one_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: str, failed: list[int]
) -> None:
    orders = [order(learner) for learner in made(tmp_path, cell())]
    monkeypatch.setenv("TINY_FAILS", fails)
    carry_out(orders)
    assert [number for number, one in enumerate(orders) if one.failure] == failed
    assert all((one.score is None) == bool(one.failure) for one in orders)
    if failed:
        assert orders[1].failure == "the second node cannot train"


def test_options_stand_beside_the_data(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    (data / "points.npz").write_bytes(b"points")
    (data / "tiny.toml").write_text("not = 'these'", "utf-8")
    options = {"deal": [3, 3], "noise": 'no"ne', "share": 0.1, "names": [["a"], ["b"]], "is": True}
    told = Settings(trainers_path=TRAINERS, datasets_path=data)
    (learner, *_) = made(tmp_path, cell(options_file="tiny.toml", options=options), told)
    place = Path(learner.declaration.data["source"])
    assert (place / "points.npz").read_bytes() == b"points"
    assert tomllib.loads((place / "tiny.toml").read_text("utf-8")) == options
    assert (data / "tiny.toml").read_text("utf-8") == "not = 'these'"


def test_an_option_of_another_form_is_refused() -> None:
    with pytest.raises(SettingsError, match="the option deal is"):
        as_toml({"deal": {"a": 1}})


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    needy = cell(needs=("points.npz", "points"))
    with pytest.raises(DataMissing, match=r"needs points.npz or points: FLNET_DATASETS_PATH is not set"):
        made(tmp_path, needy)
    told = Settings(trainers_path=TRAINERS, datasets_path=tmp_path)
    with pytest.raises(DataMissing, match="not found in"):
        made(tmp_path, needy, told)
    (tmp_path / "points").mkdir()
    assert len(made(tmp_path, needy, told)) == 3
    with pytest.raises(SettingsError, match=r"no trainer 'NONE'; there are .*TINY"):
        trainer_file("NONE", TOLD)
