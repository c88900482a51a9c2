"""What the measurements measure is what they say: bodies come back, models are as large as asked for."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks.__main__ import PIECES
from benchmarks.codec import model, packet, subjects
from benchmarks.options import Options
from benchmarks.report import Report
from benchmarks.trainers._work import WORKS, WorkTrainer
from benchmarks.trainers.STILL import BYTES, make_trainer
from benchmarks.wire import MNIST_BYTES
from flnet.messages import HyperParams, ModelParams
from flnet.params import Params
from flnet.training.api import Task, TrainerSettings
from tests.layout_rules import size_faults
from tests.test_layout import ROOT, none_of, sources


@pytest.mark.parametrize("name", PIECES)
def test_every_measurement_is_a_module_of_its_own_and_documented(name: str) -> None:
    assert callable(importlib.import_module(f"benchmarks.{name}").run)
    assert f"`{name}`" in (ROOT / "docs" / "benchmarks.md").read_text("utf-8")


def test_files_and_functions_stay_short() -> None:
    none_of([fault for source in sources("benchmarks") for fault in size_faults(source)])


def test_an_unknown_measurement_is_named() -> None:
    command = [sys.executable, "-m", "benchmarks", "nonsense"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 2
    assert "nonsense" in done.stderr
    assert "works" in done.stderr


def test_quick_is_less_but_never_nothing() -> None:
    def options(*, quick: bool) -> Options:
        return Options(Report(print), Path(), 1, quick=quick)

    assert [options(quick=False).times(n) for n in (1, 9)] == [1, 9]
    assert [options(quick=True).times(n) for n in (1, 9)] == [1, 3]


def test_every_format_gives_back_what_it_was_given() -> None:
    for subject in subjects(model([(64, 32), (64,)])):
        body = bytes(subject.codec.encode(packet(subject.params)))
        found = subject.codec.decode(ModelParams, body).params
        assert found is not None
        for name, array in subject.params.items():
            assert np.array_equal(found[name].astype(np.float32), array), (subject.name, name)


def test_json_is_measured_on_a_tenth() -> None:
    json, *_ = subjects(model([(200, 10), (100, 10)]))
    assert json.scale == 10
    assert json.params.nbytes == 4 * 300


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


def test_the_model_on_the_wire_is_as_large_as_mnist() -> None:
    text = (ROOT / "trainers" / "MNIST.py").read_text("utf-8")
    assert f"{MNIST_BYTES // 4:,} parameters" in text


def test_what_nodes_inherit_is_put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    from benchmarks.nodes import Ask, _environment

    monkeypatch.setenv("FLNET_SEED", "7")
    before = dict(os.environ)
    with _environment(Ask("T", 1, {"worker_idle_seconds": 3}, {"BENCH_X": "1"})):
        assert os.environ["FLNET_WORKER_IDLE_SECONDS"] == "3"
        assert os.environ["BENCH_X"] == "1"
        assert "FLNET_SEED" not in os.environ
    assert dict(os.environ) == before
