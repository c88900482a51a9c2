"""What the measurements measure is what they say: bodies come back, models are as large as asked for."""

from __future__ import annotations

import importlib
import os
from pathlib import Path

import numpy as np
import pytest

from benchmarks.__main__ import PIECES
from benchmarks.codec import model, packet, subjects
from benchmarks.trainers._work import WORKS, WorkTrainer
from benchmarks.trainers.STILL import BYTES, make_trainer
from flnet.params.params import Params
from flnet.protocol.messages import HyperParams, ModelParams
from flnet.trainer import Task, TrainerSettings
from tests.test_layout import ROOT


@pytest.mark.parametrize("name", PIECES)
def test_every_measurement_is_a_module_of_its_own_and_documented(name: str) -> None:
    assert callable(importlib.import_module(f"benchmarks.{name}").run)
    assert f"`{name}`" in (ROOT / "docs" / "benchmarks.md").read_text("utf-8")


def test_every_format_gives_back_what_it_was_given() -> None:
    for subject in subjects(model([(64, 32), (64,)])):
        body = bytes(subject.codec.encode(packet(subject.params)))
        result = subject.codec.decode(ModelParams, body).params
        assert result is not None
        for name, array in subject.params.items():
            assert np.array_equal(result[name].astype(np.float32), array), (subject.name, name)


def settings(tmp_path: Path, shard: int) -> TrainerSettings:
    return TrainerSettings(None, tmp_path, (shard, 4))


def test_the_still_trainer_has_the_size_asked_for_and_never_the_same_update(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(BYTES, "4000")
    one, other = (make_trainer(settings(tmp_path, shard)) for shard in (1, 2))
    start = Params(one.initial_params(0))
    assert start.nbytes == 4000
    assert Params(other.initial_params(0)) == start
    seen = {start.digest}
    for trainer in (one, other, one, other, one):
        seen.add(
            Params({k: v.copy() for k, v in trainer.fit(Task(start, trainer.defaults, 0)).params.items()}).digest
        )
    assert len(seen) == 6


def test_a_node_of_flnet_trains_as_the_plain_mesh_does(tmp_path: Path) -> None:
    work = WORKS["W3"]
    trainer = WorkTrainer(work, settings(tmp_path, 2))
    start = Params(trainer.initial_params(0))
    bytes_before = {name: array.tobytes() for name, array in start.items()}
    fit = trainer.fit(Task(start, HyperParams(e=2, u=0.05, b=64), seed=5))
    flat = trainer._bench.initial(0)
    trainer._bench.train(flat, seed=5, epochs=2)
    trained = np.concatenate([fit.params[name].ravel() for name in work.names])
    assert trained.tobytes() == flat.numpy().tobytes()
    assert trainer.evaluate(fit.params).accuracy == pytest.approx(
        trainer._bench.accuracy(trainer._bench.views(flat))
    )
    assert {name: array.tobytes() for name, array in start.items()} == bytes_before
    assert sum(array.nbytes for array in fit.params.values()) == work.nbytes


def test_what_nodes_inherit_is_put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    from benchmarks.nodes import Ask, environment

    monkeypatch.setenv("FLNET_SEED", "7")
    before = dict(os.environ)
    with environment(Ask("T", 1, {"worker_idle_seconds": 3}, {"BENCH_X": "1"})):
        assert os.environ["FLNET_WORKER_IDLE_SECONDS"] == "3"
        assert os.environ["BENCH_X"] == "1"
        assert "FLNET_SEED" not in os.environ
    assert dict(os.environ) == before
