"""Predictions of vertical jobs by id: they equal those of the whole network in one place, or are refused in words."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from flnet.algorithms.vertical.prediction import regression_prediction, rows_digest, score_share
from flnet.algorithms.vertical.split_network import SplitNode
from flnet.errors import BatchRefused, InputRefused, JobBusy, NotOffered, NotReady, PeerError, TrainerError
from flnet.node.runtime import NodeRuntime
from flnet.params.params import Array, Params, PeerId
from flnet.protocol.effects import ComputeOutputs, Send, SetTimer, TellPrediction
from flnet.protocol.events import (
    OutputsComputed,
    PeerLost,
    PeerSeen,
    PredictionAsked,
    PredictionNotComputed,
    SendFailed,
    SendRefused,
    TimerFired,
    VerticalDelivered,
    VerticalReceived,
)
from flnet.protocol.messages import HyperParams
from flnet.protocol.updates import RoundKey
from flnet.protocol.vertical import (
    AlivePart,
    AnyPart,
    PredictedPart,
    PredictOutputsPart,
    PredictPart,
    PredictRefusedPart,
    VerticalMessage,
)
from flnet.rounds import vertical_predictions
from flnet.store.sqlite_store import DiskStore
from flnet.vertical_trainer import ModelState, OutputDefence
from tests.algorithms.vertical.encrypted_holders import RegressionPeople, RegressionTable
from tests.algorithms.vertical.holders import People, trained_alone
from tests.algorithms.vertical.joint import block_diagonal
from tests.node.mesh import Linear, Mesh, trigger, until
from tests.node.vertical_mesh import FILES, T, job_of, vertical_mesh

EPOCHS = 2


async def trained(mesh: Mesh, closed: int, rounds: int) -> None:
    await trigger(next(iter(mesh.nodes.values())), rounds)
    await until(lambda: all(job_of(n).models.closed == closed and not job_of(n).busy for n in mesh.nodes.values()))


@asynccontextmanager
async def predicting(people: People, forbids: Sequence[str] = (), **settings: Any) -> AsyncIterator[Mesh]:
    """A mesh that was trained, whose owners allow predictions, but for those of `forbids`."""
    for name, table in people.tables.items():
        table.allows_predictions = name not in forbids
    async with vertical_mesh(people, **settings) as mesh:
        await trained(mesh, EPOCHS - 1, EPOCHS)
        yield mesh


def jointly(mesh: Mesh, people: People, label: str, ids: Sequence[str]) -> Array:
    """What the same network in one place, trained there, predicts for these ids."""
    jobs = {name: job_of(node) for name, node in mesh.nodes.items()}
    models, hyper = jobs[label].models, jobs[label].settings.hyper
    assert models.seed is not None
    assert hyper is not None
    rows = {name: np.asarray(job.models.rows) for name, job in jobs.items()}
    nodes = trained_alone(people.tables, rows, models.alignment, models.seed, hyper, EPOCHS)
    outputs = {}
    for name, node in nodes.items():
        table = people.tables[name]
        if node.features is not None:
            own = np.array([list(table.ids).index(value) for value in ids])
            outputs[name] = node.features.bottom.outputs(table.features(own))
    inputs = np.concatenate([outputs[name] for name in sorted(outputs)], axis=1)
    assert np.allclose(inputs, composed(nodes, people, outputs, ids), atol=1e-6)
    return next(node.labels.top.predict(inputs) for name, node in nodes.items() if name == label and node.labels)


def composed(
    nodes: Mapping[PeerId, SplitNode], people: People, holders: Iterable[str], ids: Sequence[str]
) -> Array:
    """Outputs of one network whose first layer has the weights of all bottom models along its diagonal."""
    weights, bias, x = [], [], []
    for name in sorted(holders):
        table, features = people.tables[name], nodes[PeerId(name)].features
        assert features is not None
        state = features.bottom.state().weights
        weights.append(np.asarray(state["0.weight"]))
        bias.append(np.asarray(state["0.bias"]))
        x.append(table.features(np.array([list(table.ids).index(value) for value in ids])))
    return np.asarray(np.hstack(x) @ block_diagonal(weights).T + np.concatenate(bias))


async def predict(node: NodeRuntime, *ids: str | int) -> Any:
    return await node.predict_ids(T, ids)


async def refused(node: NodeRuntime, error: type[PeerError], words: str, *ids: str | int) -> None:
    with pytest.raises(error, match=words):
        await predict(node, *(ids or ("P001",)))
    assert not job_of(node).predictions.is_busy


@pytest.mark.parametrize("wire", ["safetensors", "json", "int8"])
@pytest.mark.parametrize("names", [("a", "b"), ("a", "b", "c")])
async def test_each_holder_gets_the_prediction_of_the_whole_network(names: tuple[str, ...], wire: str) -> None:
    people = People(names)
    ids = ["P007", "P033", "P001", "P050"]
    async with predicting(people, wire=wire) as mesh:
        expected = jointly(mesh, people, "b", ids)
        for node in mesh.nodes.values():
            view = await predict(node, *ids)
            (of_b,) = view["predictions"]
            assert (view["ids"], view["unknown"], view["epoch"]) == (ids, [], 1)
            assert (of_b["holder"], of_b["classes"]) == ("b", ["0", "1"])
            assert np.allclose(of_b["probabilities"], expected, atol=1e-5)
            assert of_b["predicted"] == [str(number) for number in expected.argmax(axis=1)]
        await until(lambda: not any(job_of(node).predictions.is_busy for node in mesh.nodes.values()))


@pytest.mark.parametrize("labels", [("b",), ("a", "c")])
async def test_label_holders_without_columns_and_several_label_holders(labels: tuple[str, ...]) -> None:
    people = People(("a", "b", "c"), labels)
    for table in people.tables.values():
        table.several_labels = True
    if labels == ("b",):
        people.tables["b"].x = None
    async with predicting(people) as mesh:
        expected = {name: jointly(mesh, people, name, ["P002", "P002", "P041"]) for name in labels}
        for name, node in mesh.nodes.items():
            view = await predict(node, " p002 ", "P002", "P041")
            answering = (name,) if name in labels else labels
            assert [one["holder"] for one in view["predictions"]] == list(answering)
            for one in view["predictions"]:
                assert np.allclose(one["probabilities"], expected[one["holder"]], atol=1e-5)


async def test_ids_that_are_not_common_are_left_out_or_refused_by_the_asking_node_alone() -> None:
    people = People(("a", "b"))
    async with predicting(people) as mesh:
        view = await predict(mesh.nodes["a"], "only a 1", "P003", "nobody", 7)
        assert (view["ids"], view["unknown"]) == (["P003"], ["only a 1", "nobody", "7"])
        assert len(view["predictions"][0]["probabilities"]) == 1
        before = len(mesh.nodes["b"].feed.recent())
        await refused(mesh.nodes["a"], InputRefused, "this id is not among the common rows", "only a 1")
        assert len(mesh.nodes["b"].feed.recent()) == before
        await refused(mesh.nodes["a"], InputRefused, "expected 1 to 1000 ids, got 1001", *["P001"] * 1001)


async def test_a_thousand_ids_are_one_prediction_and_owners_hear_of_it() -> None:
    people = People(("a", "b"))
    async with predicting(people) as mesh:
        ids = [f"P{number % 60:03}" for number in range(1000)]
        view = await predict(mesh.nodes["a"], *ids)
        assert len(view["predictions"][0]["predicted"]) == 1000
        told = [item.text for item in mesh.nodes["b"].feed.recent() if item.kind == "prediction_served"]
        assert told == ["a asks for a prediction of MNIST_3_7: 1000 rows"]


@pytest.mark.parametrize("forbids", ["a", "b", "c"])
async def test_all_owners_have_to_allow_predictions(forbids: str) -> None:
    people = People(("a", "b", "c"))
    async with predicting(people, forbids) as mesh:
        for name, node in mesh.nodes.items():
            error = NotOffered if name == forbids else NotReady
            await refused(node, error, f"the owner of {forbids} has not allowed predictions of MNIST_3_7")
        views = {name: node.job(T).vertical for name, node in mesh.nodes.items()}
        assert {name: view.predicts for name, view in views.items() if view} == {n: n != forbids for n in "abc"}


async def test_without_a_model_or_while_an_epoch_is_open_there_is_no_prediction() -> None:
    people = People(("a", "b"))
    for table in people.tables.values():
        table.allows_predictions = True
    async with vertical_mesh(people) as mesh:
        await refused(mesh.nodes["a"], NotReady, "no model that an epoch has ended with; train one epoch")
        await trained(mesh, 0, 1)
        await trigger(mesh.nodes["b"], 30)
        await until(lambda: job_of(mesh.nodes["a"]).busy)
        await refused(mesh.nodes["a"], JobBusy, "epoch .* at a; ask when it is over")
        await until(lambda: job_of(mesh.nodes["a"]).models.closed == 30 and not job_of(mesh.nodes["a"]).busy, 60)
        assert (await predict(mesh.nodes["a"], "P001"))["epoch"] == 30


@pytest.mark.parametrize("away", ["b", "c"])
async def test_a_holder_that_is_away_is_named_at_once(away: str) -> None:
    people = People(("a", "b", "c"))
    async with predicting(people) as mesh:
        await mesh.nodes[away].stop()
        await refused(mesh.nodes["a"], NotReady, f"no prediction: {away}[: ]|not reachable: {away}")
        mesh.nodes["a"].deliver(T, PeerLost(PeerId(away), "it does not answer"))
        await refused(mesh.nodes["a"], NotReady, f"a prediction needs all holders; not reachable: {away}")
        del mesh.nodes[away]


async def test_a_holder_whose_outputs_do_not_arrive_is_named() -> None:
    people = People(("a", "b", "c"))
    async with predicting(people) as mesh:
        people.tables["c"].fails = True
        await refused(mesh.nodes["a"], NotReady, "no prediction: c: .*asked to fail")
        await refused(mesh.nodes["b"], NotReady, "no prediction: c: .*asked to fail")
        people.tables["c"].fails = False
        people.tables["a"].fails = True
        await refused(mesh.nodes["a"], NotReady, "no prediction: .*asked to fail")


async def test_who_does_not_answer_in_time_is_named() -> None:
    people = People(("a", "b", "c"))
    async with predicting(people) as mesh:
        jobs = {name: job_of(node) for name, node in mesh.nodes.items()}
        alignment, places = jobs["a"].models.alignment, np.array([5])
        for asker, awaited in (("a", "b"), ("b", "a, c")):
            begun = jobs[asker].receive(PredictionAsked(7, ("P001",)))
            compute, timer = begun
            assert isinstance(compute, ComputeOutputs)
            assert isinstance(timer, SetTimer)
            values = Params({"values": np.zeros((1, 3), np.float32)})
            own = OutputsComputed(PeerId(asker), compute.session, Params({"places": places}), (), values)
            jobs[asker].receive(own)
            effects = jobs[asker].receive(TimerFired(timer.name))
            (told,) = [effect for effect in effects if isinstance(effect, TellPrediction)]
            assert str(told.error) == f"no prediction: {awaited} did not answer within 60 s"
            over = [effect for effect in effects if isinstance(effect, Send)]
            assert sorted(peer for effect in over for peer in effect.to) == sorted(set("abc") - {asker})
            assert not jobs[asker].predictions.is_busy
        batch = rows_digest(alignment, 1, places)
        question = PredictPart(epoch=1, alignment=alignment, batch=batch)
        for served, awaited in (("b", "a, b, c"), ("c", "c")):
            effects = jobs[served].receive(said("a", "a", "s", (question, {"places": places})))
            (name,) = [effect.name for effect in effects if isinstance(effect, SetTimer)]
            (sent,) = [effect for effect in jobs[served].receive(TimerFired(name)) if isinstance(effect, Send)]
            assert isinstance(sent.message, VerticalMessage)
            assert sent.to == ("a",)
            reason = f"{awaited} did not answer within 45 s"
            assert sent.message.parts == (PredictRefusedPart(reason=reason),)
            assert not jobs[served].predictions.is_busy


async def test_holders_with_the_models_of_another_epoch_or_other_models_refuse() -> None:
    people = People(("a", "b", "c"))
    async with predicting(people) as mesh:
        models = job_of(mesh.nodes["c"]).models
        models.closed = 0
        await refused(
            mesh.nodes["a"], NotReady, "c has the models of epoch 0, not of epoch 1; train one more epoch"
        )
        models.closed = 1
        models.ended[1] = replace(models.ended[1], bottom="f" * 64)
        await refused(
            mesh.nodes["b"], NotReady, "c has another bottom model than the one with which epoch 1 ended"
        )
        await refused(
            mesh.nodes["a"], NotReady, "c has another bottom model than the one with which epoch 1 ended"
        )
        models.alignment = "e" * 64
        await refused(mesh.nodes["b"], NotReady, "c has other common rows than b")


async def test_ids_that_changed_since_the_alignment_are_refused() -> None:
    people = People(("a", "b"))
    async with predicting(people) as mesh:
        people.tables["b"].ids = list(reversed(people.tables["b"].ids))
        await refused(mesh.nodes["a"], NotReady, "b: the ids have changed since the rows were aligned")
        await refused(mesh.nodes["b"], NotReady, "the ids have changed since the rows were aligned")


async def test_after_a_restart_holders_predict_with_what_they_saved(tmp_path: Path) -> None:
    people = People(("a", "b"))
    for table in people.tables.values():
        table.allows_predictions = True
    async with vertical_mesh(people) as mesh:
        await mesh.nodes["b"].stop()
        await mesh.add("b", people.hosts()["b"], ("a",), DiskStore(tmp_path), files=FILES)
        await mesh.full()
        await trained(mesh, 1, 2)
        before = await predict(mesh.nodes["a"], "P001", "P002")
        await mesh.nodes["b"].stop()
        again = await mesh.add("b", people.hosts()["b"], ("a",), DiskStore(tmp_path), files=FILES)
        await until(lambda: bool(again.ready()["data_loaded"]))
        await mesh.full()
        assert await predict(again, "P001", "P002") == before
        assert await predict(mesh.nodes["a"], "P001", "P002") == before


async def test_other_jobs_say_that_they_predict_from_inputs() -> None:
    people = People(("a", "b"))
    async with vertical_mesh(people, {"c": Linear(1.0)}) as mesh:
        with pytest.raises(NotOffered, match="MNIST_3_7 predicts from inputs"):
            await predict(mesh.nodes["c"], "P001")


# --- what peers say


def said(by: str, asker: str, session: str, *parts: tuple[AnyPart, dict[str, Array]]) -> VerticalReceived:
    arrays = {f"{at}/{name}": array for at, (_, values) in enumerate(parts) for name, array in values.items()}
    key = RoundKey(1, PeerId(asker))
    hyper = HyperParams(e=1, u=0.05, b=16)
    return VerticalReceived(
        PeerId(by), key, session, None, tuple(part for part, _ in parts), Params(arrays), hyper
    )


async def test_messages_that_no_holder_sends_are_refused_and_change_nothing() -> None:
    people = People(("a", "b", "c"))
    async with predicting(people) as mesh:
        job = job_of(mesh.nodes["b"])
        alignment = job.models.alignment
        rows = np.array([3, 4])

        def question(places: Array = rows, epoch: int = 1, **changes: Any) -> tuple[AnyPart, dict[str, Array]]:
            batch = rows_digest(alignment, epoch, places.astype(np.int64).reshape(-1))
            fields = {"epoch": epoch, "alignment": alignment, "batch": batch, **changes}
            return PredictPart(**fields), {"places": places}

        def outputs(values: Array, **changes: Any) -> tuple[AnyPart, dict[str, Array]]:
            bottom = job_of(mesh.nodes["a"]).models.ended[1].bottom
            fields = {"epoch": 1, "batch": rows_digest(alignment, 1, rows), "bottom": bottom, **changes}
            return PredictOutputsPart(**fields), {"values": values}

        good = np.zeros((2, 3), np.float32)
        wrong = [
            (said("x", "x", "s", question()), "x holds no columns"),
            (said("c", "a", "s", question()), "c asks for a prediction in the name of another node"),
            (said("a", "a", "s", question(alignment="0" * 64)), "b has other common rows than a"),
            (said("a", "a", "s", question(batch="0" * 64)), "the digest of the rows"),
            (said("a", "a", "s", question(epoch=9)), "b has the models of epoch 1, not of epoch 9"),
            (said("a", "a", "s", question(np.array([60]))), "there are 60 common rows"),
            (said("a", "a", "s", question(np.array([-1]))), "there are 60 common rows"),
            (
                said("a", "a", "s", question(np.array([0.5]))),
                "expected a list of 1 to 1000 whole numbers, got float64",
            ),
            (said("a", "a", "s", question(np.zeros(1001, int))), "got int64 .1001."),
            (said("a", "a", "s", question(np.zeros((2, 2), int))), "got int64 .2, 2."),
            (said("a", "a", "s", question(np.zeros(0, int))), "got int64 .0."),
            (said("a", "a", "s", (question()[0], {})), "expected the arrays places"),
            (said("a", "a", "s", question(), question()), "do not belong together"),
            (said("a", "a", "s", question(), outputs(np.zeros((2, 4), np.float32))), "at the cut layer"),
            (said("a", "a", "s", question(), outputs(good * np.nan)), "not finite"),
            (said("a", "a", "s", question(), outputs(good, bottom="0" * 64)), "a has another bottom model"),
            (said("a", "a", "s", question(), outputs(good, batch="0" * 64)), "for other rows"),
            (said("c", "a", "s", outputs(good)), "not under way at b"),
            (said("c", "a", "s", (PredictRefusedPart(reason="x"), {})), "not under way at b"),
        ]
        for event, words in wrong:
            with pytest.raises(PeerError, match=words):
                job.receive(event)
            assert not job.predictions.is_busy, words
        for number in range(4):
            job.receive(said("a", "a", f"s{number}", question()))
        with pytest.raises(JobBusy, match="4 predictions for a are under way"):
            job.receive(said("a", "a", "s5", question()))
        with pytest.raises(PeerError, match="c has another bottom model"):
            job.receive(said("c", "a", "s0", outputs(good)))
        no_reason = (PredictRefusedPart(reason="x"), dict[str, Array]())
        for by, part, words in (
            ("c", no_reason, "b has not asked for this"),
            ("a", predicted_part(alignment, rows), "b expects no prediction of a"),
            ("a", question(), "under way already"),
        ):
            with pytest.raises(PeerError, match=words):
                job.receive(said(by, "a", "s0", part))
        for number in range(4):
            job.receive(said("a", "a", f"s{number}", no_reason))
        assert not job.predictions.is_busy
        # The compute queue is still at them.
        with pytest.raises(JobBusy, match="4 predictions for a are under way"):
            job.receive(said("a", "a", "s6", question()))
        for number in range(4):
            job.receive(PredictionNotComputed(PeerId("a"), f"s{number}", "x"))
        job.receive(said("a", "a", "s6", question()))
        job.receive(said("a", "a", "s6", no_reason))
        view = await predict(mesh.nodes["c"], "P001")
        assert len(view["predictions"]) == 1


def predicted_part(alignment: str, rows: Array) -> tuple[AnyPart, dict[str, Array]]:
    batch = rows_digest(alignment, 1, rows)
    return PredictedPart(epoch=1, batch=batch, top="0" * 64), {"values": np.full((len(rows), 2), 0.5)}


@pytest.mark.parametrize(
    ("values", "classes", "words"),
    [
        (np.full((1, 2), 1.5), (), "no numbers from 0 to 1"),
        (np.full((1, 2), np.nan), (), "no numbers from 0 to 1"),
        (np.full((1, 2), 0.5), ("one",), "expected probabilities of 1 rows"),
        (np.full((2, 2), 0.5), (), "expected probabilities of 1 rows"),
        (np.full(2, 0.5), (), "expected probabilities of 1 rows"),
        (np.full((1, 1001), 0.5), (), "expected probabilities of 1 rows"),
    ],
)
async def test_predictions_that_make_no_sense_are_refused(
    values: Array, classes: tuple[str, ...], words: str
) -> None:
    people = People(("a", "b"))
    async with predicting(people) as mesh:
        job = job_of(mesh.nodes["a"])
        alignment, open_here = job.models.alignment, job.predictions
        await mesh.nodes["b"].stop()
        [compute, _] = open_here.ask(PredictionAsked(7, ("P001",)))
        assert isinstance(compute, ComputeOutputs)
        place = np.array([5])
        event = OutputsComputed(
            PeerId("a"),
            compute.session,
            Params({"places": place}),
            (),
            Params({"values": np.zeros((1, 3), np.float32)}),
        )
        open_here.outputs_computed(event)
        part = PredictedPart(epoch=1, batch=rows_digest(alignment, 1, place), top="0" * 64, classes=classes)
        with pytest.raises(PeerError, match=words):
            open_here.receive(said("b", "a", compute.session, (part, {"values": values})))
        part = PredictedPart(epoch=1, batch=rows_digest(alignment, 1, place), top="0" * 64, classes=("n", "y"))
        answer = open_here.receive(said("b", "a", compute.session, (part, {"values": np.array([[0.25, 0.75]])})))
        told = [effect for effect in answer if isinstance(effect, TellPrediction)]
        assert [one.predictions[0].classes for one in told] == [("n", "y")]
        del mesh.nodes["b"]


async def test_the_noise_of_a_row_is_the_same_whoever_asks_however_often_and_with_which_other_rows() -> None:
    people = People(("a", "b"))
    async with predicting(people) as mesh:
        without = await predict(mesh.nodes["b"], "P001", "P002")
        people.tables["a"].output_noise = OutputDefence(1.0, 5.0)
        first = await predict(mesh.nodes["b"], "P001", "P002")
        assert not np.allclose(
            first["predictions"][0]["probabilities"], without["predictions"][0]["probabilities"], atol=1e-3
        )
        for node, ids in (("b", ("P002",)), ("a", ("P002", "P030")), ("b", ("P002", "P001"))):
            again = await predict(mesh.nodes[node], *ids)
            assert again["predictions"][0]["probabilities"][0] == first["predictions"][0]["probabilities"][1]


@asynccontextmanager
async def regressed(people: RegressionPeople, forbids: Sequence[str] = ()) -> AsyncIterator[Mesh]:
    """A mesh that has trained an encrypted regression; the owners of data allow predictions, but for some."""
    for name in "ab":
        people.table(name).allows_predictions = name not in forbids
    async with vertical_mesh(people) as mesh:
        await trained(mesh, EPOCHS - 1, EPOCHS)
        yield mesh


def regression(mesh: Mesh, people: RegressionPeople, ids: Sequence[str]) -> Array:
    """Probabilities of the label 1 by the same steps in one place, in clear text."""
    theta = people.expected({name: job_of(node) for name, node in mesh.nodes.items()}, EPOCHS)
    x = [
        table.x[[list(table.ids).index(value) for value in ids]]
        for table in map(people.table, "ab")
        if table.x is not None
    ]
    return np.asarray(1 / (1 + np.exp(-(theta[0] + np.hstack(x) @ theta[1:]))))


@pytest.mark.parametrize("columns", [2, 0])
async def test_both_data_holders_get_the_prediction_of_the_encrypted_regression(columns: int) -> None:
    """A, with the label, adds up the shares of the score; C, with the key, is not needed and gets nothing."""
    people, ids = RegressionPeople.random(), ["P0007", "P0033", "P0001"]
    if not columns:
        people.table("a").x = None
    async with regressed(people) as mesh:
        expected = regression(mesh, people, ids)
        assert np.ptp(expected) > 0.01
        await refused(mesh.nodes["c"], NotOffered, "c holds the key, and no ids; ask at a node with data")
        views = {name: node.job(T).vertical for name, node in mesh.nodes.items()}
        assert {name: view.predicts for name, view in views.items() if view} == {"a": True, "b": True, "c": False}
        await mesh.nodes.pop("c").stop()
        for node in mesh.nodes.values():
            node.deliver(T, PeerLost(PeerId("c"), "it does not answer"))
            view = await predict(node, *ids, "nobody")
            (of_a,) = view["predictions"]
            assert (view["ids"], view["unknown"], view["epoch"], of_a["holder"]) == (ids, ["nobody"], 1, "a")
            assert np.allclose(of_a["probabilities"], np.column_stack([1 - expected, expected]), atol=1e-6)
            assert of_a["predicted"] == [str(int(p > 0.5)) for p in expected]
        await until(lambda: not any(job_of(node).predictions.is_busy for node in mesh.nodes.values()))


@pytest.mark.parametrize("forbids", ["a", "b"])
async def test_both_owners_of_data_have_to_allow_predictions_of_a_regression(forbids: str) -> None:
    async with regressed(RegressionPeople.random(), forbids) as mesh:
        for name in "ab":
            error = NotOffered if name == forbids else NotReady
            words = f"the owner of {forbids} has not allowed predictions of MNIST_3_7"
            await refused(mesh.nodes[name], error, words, "P0001")


async def test_where_matches_are_hidden_nobody_predicts_by_id() -> None:
    async with regressed(RegressionPeople.hiding(), "ab") as mesh:
        for name in "ab":
            words = "a prediction by id would tell which rows match, and MNIST_3_7 hides that"
            await refused(mesh.nodes[name], NotOffered, words, "P0001")


async def test_a_data_holder_with_other_weights_or_columns_is_refused_and_so_is_the_key_holder() -> None:
    people = RegressionPeople.random()
    async with regressed(people) as mesh:
        job, b = job_of(mesh.nodes["a"]), people.table("b")
        question = PredictPart(epoch=1, alignment=job.models.alignment, batch="e" * 64)
        with pytest.raises(BatchRefused, match="c holds no columns of MNIST_3_7"):
            job.receive(said("c", "c", "s", (question, {"places": np.array([3])})))
        assert b.x is not None
        columns, b.x = b.x, b.x[:, :2]
        await refused(mesh.nodes["a"], NotReady, "b: the trainer has 2 columns; its model is for 3", "P0001")
        b.x = columns
        models = job_of(mesh.nodes["b"]).models
        models.ended[1] = replace(models.ended[1], bottom="f" * 64)
        for asker in "ab":
            words = "b has another bottom model than the one with which epoch 1 ended"
            await refused(mesh.nodes[asker], NotReady, words, "P0001")


async def test_restarted_data_holders_predict_with_the_weights_that_they_saved(tmp_path: Path) -> None:
    people = RegressionPeople.random()
    async with regressed(people) as mesh:
        for restarted in "ab":
            await mesh.nodes[restarted].stop()
            store = DiskStore(tmp_path / restarted)
            await mesh.add(restarted, people.hosts()[restarted], ("c",), store, files=FILES)
        await mesh.full()
        body = b'{"trainerId": "MNIST_3_7", "newNumbering": true}'
        await mesh.nodes["a"].receive("/training/trigger", body, "application/json", "127.0.0.1")
        await until(lambda: all(job_of(n).models.closed == 0 and not job_of(n).busy for n in mesh.nodes.values()))
        before = await predict(mesh.nodes["b"], "P0001", "P0002")
        for restarted in "ab":
            await mesh.nodes[restarted].stop()
            store = DiskStore(tmp_path / restarted)
            again = await mesh.add(restarted, people.hosts()[restarted], ("c",), store, files=FILES)
            await until(lambda again=again: bool(again.ready()["data_loaded"]))  # type: ignore[misc]
        await mesh.full()
        assert [await predict(mesh.nodes[name], "P0001", "P0002") for name in "ab"] == [before, before]


@pytest.mark.parametrize(
    ("weights", "words"),
    [
        ({"0.weight": np.ones((3, 2))}, "the model was trained by another method; begin a new numbering"),
        ({"theta": np.ones(3)}, "the trainer has 3 columns; its model is for 2"),
        ({"theta": np.array([0.0, 1e308, 1e308, 1e308])}, "the scores of these rows are not finite"),
    ],
)
def test_weights_that_do_not_fit_the_columns_are_refused(weights: dict[str, Array], words: str) -> None:
    table = RegressionTable(["x", "y"], np.full((2, 3), 9.0), np.array([0, 1]))
    with pytest.raises(TrainerError, match=words):
        score_share(table, ModelState(Params(weights)), np.array([0, 1]), has_label=True)


@pytest.mark.parametrize("z", [-3e38, -800.0, -1.0, 0.0, 1.0, 800.0, 3e38])
def test_probabilities_of_a_regression_are_those_of_the_sum_of_shares(z: float) -> None:
    shares = {PeerId("a"): np.array([[z]], np.float32), PeerId("b"): np.array([[z / 2]], np.float32)}
    values = regression_prediction(shares).values
    assert values.shape == (1, 2)
    assert np.isfinite(values).all()
    total = float(np.float32(z)) + float(np.float32(z / 2))
    exact = 1 / (1 + math.exp(-total)) if abs(total) < 700 else float(total > 0)
    assert values[0, 1] == pytest.approx(exact, abs=1e-7)
    assert values.sum() == pytest.approx(1, abs=1e-6)


class Stranger:
    """Says anything that fits into a message of a prediction, sensible or not, in any order."""

    def __init__(self, mesh: Mesh, seed: int) -> None:
        self.chance = Random(seed)
        self.jobs = {name: job_of(node) for name, node in mesh.nodes.items()}
        self.alignment = self.jobs["a"].models.alignment

    def digest(self) -> str:
        bottoms = [str(job.models.ended[1].bottom) for job in self.jobs.values()]
        return self.chance.choice([self.alignment, rows_digest(self.alignment, 1, np.array([3])), *bottoms])

    def array(self) -> Array:
        shape = self.chance.choice([(1,), (1, 3), (1, 2), (2, 3), (0, 3), (), (1, 1, 1)])
        value = self.chance.choice([3, 0.5, np.nan, np.inf, -1, 2**40, True])
        return np.full(shape, value)

    def part(self) -> tuple[AnyPart, dict[str, Array]]:
        epoch, batch = self.chance.choice([0, 1, 1, 1, 2]), rows_digest(self.alignment, 1, np.array([3]))
        match self.chance.randrange(5):
            case 0:
                part: AnyPart = PredictPart(epoch=epoch, alignment=self.alignment, batch=batch)
                return part, {"places": np.array([3]) if self.chance.random() < 0.7 else self.array()}
            case 1:
                part = PredictOutputsPart(epoch=epoch, batch=batch, bottom=self.digest())
                return part, {self.chance.choice(["values", "values", "x"]): self.array()}
            case 2:
                classes = self.chance.choice([(), ("n", "y"), ("x",)])
                part = PredictedPart(epoch=epoch, batch=batch, top=self.digest(), classes=classes)
                return part, {"values": self.array()}
            case 3:
                return PredictRefusedPart(reason="x"), {}
        return AlivePart(), {}

    def event(self, asked: Sequence[str]) -> Any:
        name = PeerId(self.chance.choice(["a", "c", "x"]))
        session = self.chance.choice([*asked, "s1", "s2", "s3", "s4", "s5"])
        key, values = RoundKey(1, name), Params({"values": np.zeros((1, 3), np.float32)})
        return self.chance.choice(
            [
                *[said(name, self.chance.choice("abcx"), session, self.part()) for _ in range(8)],
                said(name, name, session, self.part(), self.part()),
                OutputsComputed(name, session, Params({"places": np.array([3])}), (), values),
                PredictionNotComputed(name, session, "x"),
                VerticalDelivered(name, session),
                SendFailed(name, "/training/vertical", key, "lost", session),
                SendRefused(name, "/training/vertical", key, 422, "x", "refused", None, session),
                PeerLost(name, "lost"),
                PeerSeen(name),
                TimerFired(f"predict:{name}:{session}"),
                PredictionAsked(self.chance.randrange(9), ("P001",)),
            ]
        )


@pytest.mark.parametrize("seed", range(5))
async def test_whatever_peers_say_is_refused_or_bounded(seed: int) -> None:
    people = People(("a", "b", "c"))
    async with predicting(people) as mesh:
        stranger = Stranger(mesh, seed)
        for name in "bc":
            job, asked, taken = stranger.jobs[name], list[str](), 0
            for _ in range(600):
                try:
                    effects = job.receive(stranger.event(asked[-2:]))
                except PeerError:
                    continue
                taken += 1
                asked += [effect.session for effect in effects if isinstance(effect, ComputeOutputs)]
                assert job.predictions.count <= 3 * vertical_predictions.MOST_OPEN
            assert taken > 100
            assert asked
