"""Whole nodes that hold different columns of the same people: they align their rows, and train epochs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from flnet.errors import InvalidMessage
from flnet.node.interface import EditHyperParams
from flnet.params.params import Params, PeerId
from flnet.protocol.events import VerticalReceived
from flnet.protocol.updates import RoundKey
from flnet.protocol.vertical import BeginPart, OfferPart
from flnet.rounds.vertical_round import VerticalRound
from flnet.vertical_trainer import GradientDefence, OutputDefence
from tests.algorithms.vertical.holders import People, trained_alone
from tests.node.mesh import Linear, has_said_all, trigger, until
from tests.node.vertical_mesh import T, job_of, vertical_mesh


@pytest.mark.parametrize("wire", ["safetensors", "json", "int8"])
async def test_three_nodes_align_their_rows_and_train_as_one_network(wire: str) -> None:
    people = People(("a", "b", "c"), labels=("b",))
    async with vertical_mesh(people, wire=wire) as mesh:
        assert (await trigger(mesh.nodes["a"], 3))[0] == 202
        await until(lambda: all(job_of(n).models.closed == 2 and not job_of(n).busy for n in mesh.nodes.values()))
        jobs = {name: job_of(node) for name, node in mesh.nodes.items()}
        rows = {name: np.asarray(job.models.rows) for name, job in jobs.items()}
        assert len({job.models.alignment for job in jobs.values()}) == 1
        ids = [[people.tables[name].ids[row] for row in rows[name]] for name in rows]
        assert ids[0] == ids[1] == ids[2]
        assert len(ids[0]) == 60
        seed, hyper = jobs["a"].models.seed, jobs["a"].settings.hyper
        assert seed is not None
        assert hyper is not None
        alone = trained_alone(people.tables, rows, jobs["a"].models.alignment, seed, hyper, 3)
        for name, job in jobs.items():
            split = alone[name]  # type: ignore[index]
            assert job.models.ended[2].bottom == split.features.bottom.state().digest  # type: ignore[union-attr]
        report = jobs["b"].models.ended[2].report
        assert report is not None
        assert report.top == alone["b"].labels.top.state().digest  # type: ignore[index, union-attr]
        assert report.score is not None
        for node in mesh.nodes.values():
            view = node.job(T)
            assert view.post_fedavg_accuracy == report.score.accuracy
            assert view.vertical is not None
            assert (view.vertical.common, view.vertical.epochs, view.vertical.stage) == (60, 3, "")
            assert [(h.peer, h.columns, h.has_label, h.rows) for h in view.vertical.holders] == [
                ("a", 2, False, 65),
                ("b", 3, True, 66),
                ("c", 4, False, 67),
            ]
            records = job_of(node).records()
            assert [record["outcome"] for record in records] == [
                f"epoch {epoch} of the models has ended" for epoch in range(3)
            ]
            assert [record["contributors"] for record in records] == [["a", "b", "c"]] * 3


async def test_each_holder_shows_what_it_has_before_it_is_asked_and_nothing_that_is_averaged_or_compared() -> None:
    people = People()
    async with vertical_mesh(people) as mesh:
        views = {name: node.job(T) for name, node in mesh.nodes.items()}
        held = {name: view.vertical.holders for name, view in views.items() if view.vertical}
        assert [(holders[0].peer, holders[0].columns, len(holders)) for holders in held.values()] == [
            ("a", 2, 1),
            ("b", 3, 1),
        ]
        await trigger(mesh.nodes["a"])
        await until(lambda: all(job_of(n).models.closed == 0 and not job_of(n).busy for n in mesh.nodes.values()))
        for node in mesh.nodes.values():
            view, report = node.job(T), job_of(mesh.nodes["b"]).models.ended[0].report
            assert (view.merging_rule, view.digest, view.schema_digest, view.agreement) == ("", None, None, {})
            assert view.vertical is not None
            assert report is not None
            assert report.score is not None
            figures = (view.vertical.loss, view.vertical.accuracy, view.vertical.auc)
            assert figures == (
                report.score.metrics["loss"],
                report.score.accuracy,
                report.score.metrics["auc"],
            )


async def test_another_aggregation_rule_of_a_node_keeps_nobody_from_training_together() -> None:
    people = People()
    async with vertical_mesh(people) as mesh:
        job, before = job_of(mesh.nodes["a"]), job_of(mesh.nodes["b"]).settings
        assert job.obstacles_with({**before.stated, "aggregation": "median"}, None) == ""


async def test_bytes_of_messages_and_seconds_of_epochs_are_counted() -> None:
    people = People()
    async with vertical_mesh(people) as mesh:
        await trigger(mesh.nodes["a"], 2)
        await until(lambda: all(job_of(n).models.closed == 1 and not job_of(n).busy for n in mesh.nodes.values()))
        await until(lambda: all(has_said_all(node) for node in mesh.nodes.values()))
        moved = {}
        for name, node in mesh.nodes.items():
            view, records = node.job(T).vertical, node.history(T)
            assert view is not None
            moved[name] = (view.sent, view.received)
            assert sum(record["bytes"]["sent"] for record in records) == view.sent
            assert sum(record["bytes"]["received"] for record in records) == view.received
            assert [set(record["seconds"]) for record in records] == [{"align", "train"}] * 2
        assert moved["a"] == moved["b"][::-1]
        outputs = 2 * 48 * 3 * 4  # of two epochs: 48 rows are trained on, three outputs in float32
        assert moved["a"][0] > outputs


@pytest.mark.parametrize(
    ("changes", "words"),
    [({"e": 3}, "a round of this job is one epoch"), ({"aggregation": "median"}, "has no aggregation rule")],
)
async def test_what_has_no_meaning_here_cannot_be_changed(changes: dict[str, Any], words: str) -> None:
    async with vertical_mesh(People()) as mesh:
        node = mesh.nodes["a"]
        with pytest.raises(InvalidMessage, match=words):
            await node.edit_hyper_params(T, EditHyperParams.model_validate(changes))
        view = await node.edit_hyper_params(T, EditHyperParams.model_validate({"u": 0.25}))
        assert view.hyper is not None
        assert (view.hyper.e, view.hyper.u) == (1, 0.25)


async def test_with_several_batches_in_flight_the_weights_are_those_of_one_process_that_has_as_many() -> None:
    people = People(("a", "b", "c"), labels=("b",))
    for table, count in zip(people.tables.values(), (5, 4, 64), strict=True):
        table.in_flight = count
    async with vertical_mesh(people) as mesh:
        await trigger(mesh.nodes["c"], 3)
        await until(lambda: all(job_of(n).models.closed == 2 and not job_of(n).busy for n in mesh.nodes.values()))
        jobs = {name: job_of(node) for name, node in mesh.nodes.items()}
        models, hyper = jobs["b"].models, jobs["b"].settings.hyper
        rows = {name: np.asarray(job.models.rows) for name, job in jobs.items()}
        assert models.seed is not None
        assert hyper is not None
        ends = {}
        for in_flight in (1, 4):
            how = (people.tables, rows, models.alignment, models.seed, hyper, 3, in_flight)
            alone = trained_alone(*how)
            bottoms = {name: alone[name].features.bottom.state().digest for name in jobs}  # type: ignore[index, union-attr]
            ends[in_flight] = (bottoms, alone["b"].labels.top.state().digest)  # type: ignore[index, union-attr]
        report = models.ended[2].report
        assert report is not None
        assert (dict(report.bottoms), report.top) == ends[4]
        assert ends[1] != ends[4]
        assert {job.models.ended[2].bottom for job in jobs.values()} == set(ends[4][0].values())


async def test_a_holder_states_its_defences_and_may_keep_the_score_to_itself() -> None:
    people = People()
    people.tables["a"].output_noise = OutputDefence(2.0, 0.1)
    people.tables["b"].gradient_noise = GradientDefence("max-norm")
    people.tables["b"].tells_score = False
    async with vertical_mesh(people) as mesh:
        await trigger(mesh.nodes["a"], 2)
        await until(lambda: all(job_of(n).models.closed == 1 and not job_of(n).busy for n in mesh.nodes.values()))
        for node in mesh.nodes.values():
            vertical = node.job(T).vertical
            assert vertical is not None
            assert [holder.defences for holder in vertical.holders] == [
                ["outputs are clipped to 2, with noise of 0.1 times that"],
                ["gradients are stretched at random (max-norm)", "figures on hold-out rows are not told"],
            ]
        a, b = (mesh.nodes[name] for name in "ab")
        assert a.job(T).post_fedavg_accuracy is None
        assert b.job(T).post_fedavg_accuracy is not None
        told = b.job(T).for_peers()
        assert (told["pre_fedavg_accuracy"], told["post_fedavg_accuracy"]) == (None, None)
        assert not any(told["metrics"].values())
        assert {told["vertical"].get(name) for name in ("loss", "accuracy", "auc", "own", "gain")} == {None}


async def test_a_plan_with_more_batches_in_flight_than_agreed_is_refused() -> None:
    async with vertical_mesh(People()) as mesh:
        await trigger(mesh.nodes["a"])
        await until(lambda: all(job_of(n).models.closed == 0 and not job_of(n).busy for n in mesh.nodes.values()))
        job = job_of(mesh.nodes["b"])
        peer, key, hyper = PeerId("a"), RoundKey(1, PeerId("a")), job.settings.hyper
        assert hyper is not None
        job.receive(VerticalReceived(peer, key, "s", 0, (OfferPart(),), Params(), hyper))
        assert isinstance(job.round, VerticalRound)
        mine = job.round._position()
        holders = {"a": mine.model_copy(update={"has_label": False}), "b": mine}
        for count, refused in ((2, True), (1, False)):
            begin = BeginPart(holders=holders, closed=0, aligns=False, seed=1, in_flight=count)
            event = VerticalReceived(peer, key, "s", 1, (begin,), Params(), hyper)
            if refused:
                with pytest.raises(InvalidMessage, match="has 2 batches in flight, but the holders agree to 1"):
                    job.receive(event)
                assert job.round.begin is None
            else:
                job.receive(event)
                assert job.round.begin == begin


async def test_no_peer_can_download_a_model_of_a_holder() -> None:
    people = People()
    async with vertical_mesh(people) as mesh:
        await trigger(mesh.nodes["b"])
        await until(lambda: all(job_of(n).models.closed == 0 and not job_of(n).busy for n in mesh.nodes.values()))
        for node in mesh.nodes.values():
            job = job_of(node)
            private = job.held.current.private
            assert len(private) > 3
            assert job.held.find(private.digest) is None
            assert job.held.current.shared == Params()
            parts = [Params({name: array}).digest for name, array in private.items()]
            assert all(node.core.find(digest) is None for digest in [*parts, job.models.ended[0].params.digest])


async def test_a_node_with_other_trainers_is_no_holder_and_its_own_job_goes_on() -> None:
    people = People()
    async with vertical_mesh(people, {"c": Linear(1.0)}) as mesh:
        await trigger(mesh.nodes["a"], 2)
        await until(lambda: all(job_of(mesh.nodes[n]).models.closed == 1 for n in "ab"))
        assert sorted(job_of(mesh.nodes["a"]).models.holders) == ["a", "b"]
        assert mesh.nodes["c"].job(T).current_round == -1
