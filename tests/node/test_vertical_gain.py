"""What a label holder reaches with its own columns alone, beside the joint model of a vertical job."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from flnet.rounds.vertical_models import VerticalModels
from flnet.store.sqlite_store import DiskStore
from tests.algorithms.vertical.holders import People, trained_alone
from tests.node.mesh import Mesh, trigger, until
from tests.node.vertical_mesh import FILES, T, job_of, vertical_mesh


async def trained(mesh: Mesh, closed: int, rounds: int) -> None:
    await trigger(mesh.nodes["a"], rounds)
    await until(
        lambda: all(job_of(n).models.closed == closed and not job_of(n).busy for n in mesh.nodes.values()), 30
    )


async def test_own_figures_are_those_of_a_training_on_these_columns_alone_also_over_a_restart(
    tmp_path: Path,
) -> None:
    people = People(("a", "b", "c"), labels=("b",), common=200)
    async with vertical_mesh(people) as mesh:
        store = DiskStore(tmp_path / "b")
        await mesh.nodes["b"].stop()
        await mesh.add("b", people.hosts()["b"], ("a",), store, files=FILES)
        await mesh.full()
        await trained(mesh, 1, 2)
        await mesh.nodes["b"].stop()
        store = DiskStore(tmp_path / "b")
        again = await mesh.add("b", people.hosts()["b"], ("a", "c"), store, files=FILES)
        await until(lambda: bool(again.ready()["data_loaded"]))
        await mesh.full()
        await trained(mesh, 2, 1)
        job = job_of(again)
        models, hyper = job.models, job.settings.hyper
        assert models.seed is not None
        assert hyper is not None
        rows = {"b": np.asarray(models.rows)}
        alone = trained_alone({"b": people.tables["b"]}, rows, models.alignment, models.seed, hyper, 3)
        expected = next(iter(alone.values())).labels.report  # type: ignore[union-attr]
        assert expected is not None
        assert expected.score is not None
        view = again.job(T).vertical
        assert view is not None
        assert view.own is not None
        assert view.gain is not None
        assert view.own.model_dump() == pytest.approx(
            {"accuracy": expected.score.accuracy, **expected.score.metrics}, abs=1e-6
        )
        report = models.ended[2].report
        assert report is not None
        assert report.score is not None
        joint = {"accuracy": report.score.accuracy, **report.score.metrics}
        assert view.gain.model_dump() == pytest.approx(
            {name: value - getattr(view.own, name) for name, value in joint.items()}
        )
        assert view.gain.auc > 0  # type: ignore[operator]
        assert [record["metrics"]["after"]["own_accuracy"] for record in job.records()][-1] == view.own.accuracy
        for name in "ac":
            other = mesh.nodes[name].job(T).vertical
            assert other is not None
            assert (other.own, other.gain) == (None, None)


async def test_a_label_holder_without_columns_has_nothing_to_compare() -> None:
    people = People(("a", "b", "c"), labels=("b",))
    people.tables["b"].x = None
    async with vertical_mesh(people) as mesh:
        await trained(mesh, 0, 1)
        view = mesh.nodes["b"].job(T).vertical
        assert view is not None
        assert (view.own, view.gain) == (None, None)


def test_models_of_an_earlier_version_have_no_figures_of_own_columns() -> None:
    models = VerticalModels()
    kept = {**models.kept(), "ended": [[0, "a" * 64, None]], "closed": 0}
    read = VerticalModels.read(kept, models.params)
    assert read.ended[0].bottom == "a" * 64
    assert read.compared is None
