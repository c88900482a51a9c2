"""Predictions, files and cards of a node's models, and whom they are refused to."""

from __future__ import annotations

import asyncio
import io
import json
import re
import subprocess
import sys
import zipfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest
from safetensors.numpy import load

from flnet.algorithms.fl_protector import Increment
from flnet.compute.export import OnnxGraph
from flnet.compute.prediction import picture_input
from flnet.compute.verbs import TrainerRequest
from flnet.errors import InputRefused, InvalidMessage, NotOffered, NotReady, OwnMachineOnly, UnknownModel
from flnet.node.interface import PredictionInput
from flnet.node.model_registry import ModelRegistry
from flnet.node.model_service import MAX_WAITING, ModelService, _plain
from flnet.node.round_history import RoundHistory
from flnet.node.runtime import NodeRuntime
from flnet.params.params import Array, Params, TrainerId
from flnet.store.memory import MemoryStore
from flnet.trainer import (
    DataInfo,
    GroupFindings,
    Grouping,
    InCoarse,
    InputSpec,
    LabelFindings,
    Method,
    Prediction,
    Rows,
    Trainer,
)
from flnet.web.api.models import GroupsView, LabelsView, LeaksView, PredictionView
from tests.compute.inline_queue import InlineQueue
from tests.datasets.own_files import in_every_form
from tests.node.mesh import MNIST_3_7, Linear, mesh_of
from tests.node.predicting import Predictor


@asynccontextmanager
async def alone(trainer: Trainer, rounds: int = 1) -> AsyncIterator[NodeRuntime]:
    """A node after so many rounds."""
    async with mesh_of(trainer) as mesh:
        for _ in range(rounds):
            await mesh.train()
        yield mesh.nodes["a"]


async def test_the_held_model_judges_and_says_which_it_is() -> None:
    async with alone(Predictor(1.0), rounds=2) as node:
        answer = await node.predict(MNIST_3_7, PredictionInput(inputs=[[1, 2], {"y": -8, "x": 3}]))
        assert answer["scores"] == [[1, 4], [3, -6]]  # the head has counted two trainings
        assert answer["predicted"] == ["seven", "<three>"]
        held = node.job(MNIST_3_7).as_json()
        accuracy = held["post_fedavg_accuracy"]
        assert answer["model"] == {"digest": held["digest"], "round": 1, "accuracy": accuracy}
        assert answer["note"] == "for tests only; the data of this trainer are generated samples"

        assert held["inputs"]["names"] == ["x", "y"]
        assert held["note"] == "for tests only"
        assert {"inputs", "note"}.isdisjoint(node.info()["jobsInfo"][0])  # asked for often

        older = (await node.models(MNIST_3_7))[1]["digest"]
        answer = await node.predict(MNIST_3_7, PredictionInput(inputs=[[1, 2]], digest=older[:8]))
        assert (answer["scores"], answer["model"]["round"]) == ([[1, 3]], 0)


async def test_what_cannot_be_judged_is_refused() -> None:
    async with alone(Predictor(1.0), rounds=0) as node:
        with pytest.raises(InputRefused, match=r"column 'y', is 10; expected -9 to 9"):
            await node.predict(MNIST_3_7, PredictionInput(inputs=[[1, 10]]))
        with pytest.raises(InputRefused, match="no pictures"):
            await node.predict(MNIST_3_7, PredictionInput(picture=b""))
        with pytest.raises(UnknownModel):
            await node.predict(MNIST_3_7, PredictionInput(inputs=[[1, 1]], digest="ff"))
        answer = await node.predict(MNIST_3_7, PredictionInput(inputs=[[1, 1]]))
        assert answer["note"].endswith("this model is not the average of any round")
    async with alone(Linear(1.0), rounds=0) as node:
        with pytest.raises(NotOffered, match="MNIST_3_7 offers no predictions"):
            await node.predict(MNIST_3_7, PredictionInput(inputs=[[1, 1]]))


async def test_a_file_holds_all_parameters_and_tells_where_they_come_from() -> None:
    async with alone(Predictor(1.0)) as node:
        digest = node.job(MNIST_3_7).as_json()["digest"]
        file = await node.export(MNIST_3_7, digest[:9], "safetensors", same_machine=True)
        assert file.file_name == f"MNIST_3_7-round0-{digest[:10]}.safetensors"
        params = Params(load(file.body))
        assert sorted(params) == ["bias", "head", "weights"]
        assert params.select(["weights", "bias"]).digest == digest
        said = json.loads(file.body[8 : 8 + int.from_bytes(file.body[:8], "little")])["__metadata__"]
        assert (said["trainer"], said["round"], said["digest"]) == ("MNIST_3_7", "0", digest)
        assert (said["contributors"], said["private"], said["licence"]) == ('["a"]', '["head"]', "CC0-1.0")
        assert said["accuracy"] == str(node.job(MNIST_3_7).as_json()["post_fedavg_accuracy"])
        assert json.loads(said["rows"]) == {"train": 3, "test": 2}
        assert said["schema_digest"] == node.job(MNIST_3_7).as_json()["schema_digest"]
        assert "secret" not in json.dumps(said)


def said_in(body: bytes) -> dict[str, str]:
    said: dict[str, str] = json.loads(body[8 : 8 + int.from_bytes(body[:8], "little")])["__metadata__"]
    return said


async def test_a_file_of_one_of_two_models_says_which_in_its_name_and_inside() -> None:
    trainer = Predictor(1.0)
    async with alone(Increment(trainer, trainer, 0, Method(personal="increment"))) as node:
        digest = node.job(MNIST_3_7).as_json()["digest"]
        assert node.job(MNIST_3_7).as_json()["formats"][-1] == "html-personal"
        both, common, personal = [
            await node.export(MNIST_3_7, digest, f"safetensors{which}", same_machine=True)
            for which in ("", "-common", "-personal")
        ]
        stem = f"MNIST_3_7-round0-{digest[:10]}"
        names = [file.file_name for file in (both, common, personal)]
        assert names == [f"{stem}{which}.safetensors" for which in ("", "-common", "-personal")]
        said = [said_in(file.body)["model"] for file in (both, common, personal)]
        assert said == ["common and personal", "common", "personal"]
        assert said_in(personal.body)["round"] == "0"
        assert "personal/weights" in load(both.body)
        assert sorted(load(personal.body)) == sorted(load(common.body)) == ["bias", "head", "weights"]
        assert Params(load(common.body)).select(["weights", "bias"]).digest == digest
        assert not np.array_equal(load(personal.body)["weights"], load(common.body)["weights"])
        for which in ("-common", "-personal"):
            with pytest.raises(OwnMachineOnly):
                await node.export(MNIST_3_7, digest, f"safetensors{which}", same_machine=False)
    async with alone(Predictor(1.0)) as node:
        digest = node.job(MNIST_3_7).as_json()["digest"]
        file = await node.export(MNIST_3_7, digest, "safetensors", same_machine=True)
        assert said_in(file.body)["model"] == "common"
        with pytest.raises(NotOffered, match="one model alone here"):
            await node.export(MNIST_3_7, digest, "safetensors-personal", same_machine=True)
        for form in ("safetensors-other", "onnx-"):
            with pytest.raises(InvalidMessage, match="with -common or -personal after it"):
                await node.export(MNIST_3_7, digest, form, same_machine=True)


async def test_private_parameters_leave_for_no_other_machine() -> None:
    async with alone(Predictor(1.0)) as node:
        digest = node.job(MNIST_3_7).as_json()["digest"]
        for form in ("safetensors", "onnx"):
            with pytest.raises(OwnMachineOnly, match=r"private parameters \(head\)"):
                await node.export(MNIST_3_7, digest, form, same_machine=False)
    async with alone(Linear(1.0)) as node:
        digest = node.job(MNIST_3_7).as_json()["digest"]
        file = await node.export(MNIST_3_7, digest, "safetensors", same_machine=False)
        assert Params(load(file.body)).digest == digest


async def test_formats_that_are_not_there_are_named() -> None:
    async with alone(Predictor(1.0)) as node:
        digest = node.job(MNIST_3_7).as_json()["digest"]
        with pytest.raises(InvalidMessage, match="format is 'pickle'; expected safetensors, onnx, folder, html"):
            await node.export(MNIST_3_7, digest, "pickle", same_machine=True)
        with pytest.raises(NotOffered, match="describes no such model"):
            await node.export(MNIST_3_7, digest, "onnx", same_machine=True)
    async with alone(Linear(1.0)) as node:
        with pytest.raises(NotOffered, match="cannot be exported to ONNX"):
            await node.export(MNIST_3_7, node.job(MNIST_3_7).as_json()["digest"], "onnx", same_machine=True)


class Occupied(InlineQueue):
    """A compute queue that runs a task when a test says so."""

    def __init__(self) -> None:
        super().__init__({MNIST_3_7: Predictor(1.0)})
        self.turn = asyncio.Event()

    async def call(self, trainer: TrainerId, request: TrainerRequest[Any]) -> Any:
        await self.turn.wait()
        return await super().call(trainer, request)


async def test_who_waits_too_long_or_too_late_is_told_to_ask_again() -> None:
    async with alone(Predictor(1.0), rounds=0) as node:
        registry, question = ModelRegistry(node.core, MemoryStore()), PredictionInput(inputs=[[1, 1]])
        told = RoundHistory(node.core, MemoryStore())
        with pytest.raises(NotReady, match=r"the turn of MNIST_3_7 did not come in 0.01 s; ask again"):
            await ModelService(node.core, registry, Occupied(), told, turn_seconds=0.01).predict(
                MNIST_3_7, question
            )
        pool = Occupied()
        service = ModelService(node.core, registry, pool, told)
        waiting = [asyncio.create_task(service.predict(MNIST_3_7, question)) for _ in range(MAX_WAITING + 1)]
        done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        with pytest.raises(NotReady, match="16 other requests are waiting already"):
            await done.pop()
        pool.turn.set()
        answers = await asyncio.gather(*waiting, return_exceptions=True)
        assert sum(isinstance(answer, dict) for answer in answers) == MAX_WAITING


async def test_which_of_two_models_answered_goes_with_the_answer() -> None:
    class Two(Predictor):
        def predict(self, params: Mapping[str, Array], inputs: Array) -> Prediction:
            found = super().predict(params, inputs)
            return replace(found, answered=("local",) * len(inputs), why=(0.0123456789,), limit=0.5)

    async with alone(Two(1.0)) as node:
        answer = await node.predict(MNIST_3_7, PredictionInput(inputs=[[1, 2]]))
        assert answer["choice"] == {"answered": ["local"], "errors": [0.0123457], "limit": 0.5}
        assert PredictionView.model_validate(answer).choice is not None
    async with alone(Predictor(1.0)) as node:
        assert "choice" not in await node.predict(MNIST_3_7, PredictionInput(inputs=[[1, 2]]))


class Looking(Predictor):
    """Its rows are labelled in another space than the one in which it answers."""

    finds = "labels"

    def predict(self, params: Mapping[str, Array], inputs: Array) -> Prediction:
        halves = np.full((len(inputs), 2), 0.5)
        return Prediction(halves, coarse=InCoarse("all", ("any",), halves.sum(axis=1, keepdims=True), False))

    def findings(self, params: Mapping[str, Array]) -> LabelFindings:
        told = np.full((1, 2), params["head"][0])
        return LabelFindings("all", ("any",), "two", ("<three>", "seven"), told, 0.95)


async def test_own_people_see_how_label_spaces_correspond() -> None:
    async with alone(Looking(1.0), rounds=2) as node:
        found = await node.studies.findings(MNIST_3_7, "labels")
        view = LabelsView.model_validate_json(orjson.dumps({**found, "matrix": [[1, 1]]}))
        assert (view.desired.classes, view.model.digest) == (
            ["<three>", "seven"],
            node.job(MNIST_3_7).as_json()["digest"],
        )
        assert found["matrix"] == [[2, 2]]  # of two trainings: with the private part of the model
        older = (await node.models(MNIST_3_7))[1]["digest"]
        assert (await node.studies.findings(MNIST_3_7, "labels", older))["matrix"] == [[1, 1]]
        answer = await node.predict(MNIST_3_7, PredictionInput(inputs=[[1, 2]]))
        PredictionView.model_validate_json(orjson.dumps(answer))
        assert (answer["coarse"]["predicted"], answer["coarse"]["probabilities"]) == (["any"], [[1.0]])
        assert node.job(MNIST_3_7).as_json()["finds"] == "labels"
        assert "finds" not in node.info()["jobsInfo"][0]
        with pytest.raises(NotOffered, match="looks for no groups"):
            await node.studies.findings(MNIST_3_7, "groups")
    async with alone(Predictor(1.0)) as node:
        with pytest.raises(NotOffered, match="one label space alone"):
            await node.studies.findings(MNIST_3_7, "labels")
        assert "coarse" not in await node.predict(MNIST_3_7, PredictionInput(inputs=[[1, 2]]))


class Grouped(Predictor):
    """Counts how often it looked at its rows."""

    finds = "groups"
    looked = 0

    def findings(self, params: Mapping[str, Array]) -> GroupFindings:
        self.looked += 1
        one = Grouping(self.looked, 1.0, None)
        return GroupFindings(3, 3, 3, one, (one,), 1)


async def test_groups_of_one_model_are_looked_for_once() -> None:
    async with alone(Grouped(1.0), rounds=2) as node:
        older = (await node.models(MNIST_3_7))[1]["digest"]
        found = [await node.studies.findings(MNIST_3_7, "groups", which) for which in (None, None, older, None)]
        assert [one["common"]["k"] for one in found] == [1, 1, 2, 3]
        GroupsView.model_validate_json(orjson.dumps(found[0]))


class Leaking(Predictor):
    """Is sure of its training rows, and of no other; counts its predictions."""

    predicted = 0

    def inputs(self) -> Array:
        return np.ones((40, 2))

    def labels(self) -> Array:
        return np.zeros(40, int)

    def tests(self) -> Mapping[str, Rows]:
        return {"accuracy": Rows(np.zeros((30, 2)), np.zeros(30, int))}

    def predict(self, params: Mapping[str, Array], inputs: Array) -> Prediction:
        self.predicted += 1
        return Prediction(np.where(inputs[:, :1] > 0, [0.9, 0.1], [0.5, 0.5]))


async def test_own_people_see_what_a_model_gives_away() -> None:
    trainer = Leaking(1.0)
    async with alone(trainer, rounds=2) as node:
        older = (await node.models(MNIST_3_7))[1]["digest"]
        found = [await node.studies.findings(MNIST_3_7, "leaks", which) for which in (None, None, older)]
        assert (found[0], found[0]["advantage"], found[0]["members"]) == (found[1], 1, 40)
        assert found[2]["model"]["digest"] == older
        assert trainer.predicted == 4  # training and test rows of two models, each once
        LeaksView.model_validate_json(orjson.dumps(found[0]))
        assert node.job(MNIST_3_7).measures_leaks
        assert "leaks" not in json.dumps(node.info())
    async with alone(Predictor(1.0)) as node:
        with pytest.raises(NotOffered, match="does not give its rows with one class each"):
            await node.studies.findings(MNIST_3_7, "leaks")
    async with alone(Linear(1.0)) as node:
        assert not node.job(MNIST_3_7).measures_leaks
        with pytest.raises(NotOffered, match="offers no predictions"):
            await node.studies.findings(MNIST_3_7, "leaks")


# A model's card tells what is known, hides where data lie, and shows names as text.


async def card_of(node: NodeRuntime, digest: str) -> str:
    file = await node.card(MNIST_3_7, digest)
    assert (file.content_type, file.file_name[-3:]) == ("text/markdown; charset=utf-8", ".md")
    return file.body.decode()


async def test_the_card_of_an_average() -> None:
    async with alone(Predictor(1.0), rounds=2) as node:
        digest = node.job(MNIST_3_7).as_json()["digest"]
        text = await card_of(node, digest)
        lines = text.splitlines()
        assert lines[0] == "# MNIST 3 vs 7 Dataset, round 1"
        assert "**for tests only**" in lines
        assert f"| digest | `{digest}` |" in lines
        assert "| averaged from | 1 update (a) |" in lines
        assert "| hyper-parameters | e = 2, u = 1e-05, b = 64 |" in lines
        assert "| private parameters | `head` |" in lines
        assert "| licence | CC0-1.0 |" in lines
        assert r"| split | rows | \<three\> | seven |" in lines
        assert "| train | 3 | 1 | 2 |" in lines
        assert any(line.endswith(" | 1.0000 |") for line in lines)  # the weight of the only update
        assert "Generated sample data: made up in points.csv" in lines
        assert [line[:9] for line in lines if line.startswith(("| 0 | 1 |", "| 1 | 1 |"))] == [
            "| 0 | 1 |",
            "| 1 | 1 |",
        ]
        assert f'params = load_file("MNIST_3_7-round1-{digest[:10]}.safetensors")' in lines
        older = (await node.models(MNIST_3_7))[1]["digest"]
        assert "\n| 1 | 1 |" not in await card_of(node, older)  # its story ends where it was made


class Exported(Predictor):
    """Scales its columns by its own rows, and can be exported."""

    def input_spec(self) -> InputSpec:
        scale = ((1.5, 0.25), (-3.0, 2.0))
        return InputSpec("table", (2,), -9, names=("x", "y|"), hint="two lengths", scale=scale, scale_is_own=True)

    def onnx(self, params: Mapping[str, Array]) -> bytes:
        shift = np.array([0, params["head"][0]], np.float32)
        return OnnxGraph("two", (2,)).dense(np.eye(2, dtype=np.float32), shift).to_bytes()


async def test_the_code_on_a_card_loads_the_files_and_runs(tmp_path: Path) -> None:
    async with alone(Exported(1.0)) as node:
        digest = node.job(MNIST_3_7).as_json()["digest"]
        for form in ("safetensors", "onnx"):
            file = await node.export(MNIST_3_7, digest, form, same_machine=True)
            (tmp_path / file.file_name).write_bytes(file.body)
        blocks = re.findall(r"```python\n(.*?)```", await card_of(node, digest), re.DOTALL)
        arrays, model = [
            subprocess.run([sys.executable, "-c", block], cwd=tmp_path, capture_output=True, text=True, check=True)
            for block in blocks
        ]
        assert "'head': ((1,), dtype('float32'))" in arrays.stdout
        assert model.stdout == "{'<three>': -9.0, 'seven': -8.0}\n"


class OfLabels(Predictor):
    """Labels of which several may hold, from a table with gaps and a column of words."""

    predicts = "any_of"
    label_threshold = 0.4

    def data_info(self) -> DataInfo:
        return DataInfo("made up", {"train": 3, "test": 2}, ("Blüten", "d'or", "x\u202e😀"))

    def input_spec(self) -> InputSpec:
        scale = ((0.5, 1), (0, 1), (0, 1))
        names = ("size", "kind=a", "kind=b")
        return InputSpec("table", (3,), 0, names=names, gaps=True, scale=scale, scale_is_own=True)

    def predict(self, params: Mapping[str, Array], inputs: Array) -> Prediction:
        return Prediction(inputs, "any_of", 0.4)

    def onnx(self, params: Mapping[str, Array]) -> bytes:
        graph = OnnxGraph("labels", (3,)).fill(np.array([0.5, 0, 0])).scale(0.5, 1)
        return graph.dense(np.eye(3), np.array([0.5, 0.5, 0.5])).to_bytes()


async def test_a_card_says_how_labels_are_read_and_its_code_reads_them(tmp_path: Path) -> None:
    async with alone(OfLabels(1.0)) as node:
        digest = node.job(MNIST_3_7).as_json()["digest"]
        file = await node.export(MNIST_3_7, digest, "onnx", same_machine=True)
        (tmp_path / file.file_name).write_bytes(file.body)
        card = (await node.card(MNIST_3_7, digest, same_machine=True)).body.decode()
    assert "several may hold at once, or none" in card and "if its number is 0.4 or more." in card
    assert "| range | 0 to any number, or NaN for a missing one |" in card
    assert "give it the values as they are, and NaN for a missing one" in card and "0 for a missing value" in card
    words = 'kind=a is 1 where kind is "a", and 0 for its other words; all of them are 0 where the word is missing'
    assert words in card
    assert 'The words are: kind: "a", "b".' in card
    assert "change when rows are added here" in card
    code = re.findall(r"```python\n(.*?)```", card, re.DOTALL)[1]
    assert "Blüten" in code and "\u202e" not in code
    filled = code.replace("# put your own", "\ninputs[0] = [np.nan, 0, 0]  #")
    done = subprocess.run(
        [sys.executable, "-X", "utf8", "-c", filled], cwd=tmp_path, capture_output=True, check=True
    )
    line = done.stdout.decode().strip()
    assert line == "['Blüten'] " + str({"Blüten": 0.5, "d'or": 0.0, "x\u202e😀": 0.0})


class OfClasses(Exported):
    """Of two classes one holds."""

    predicts = "one_of"

    def predict(self, params: Mapping[str, Array], inputs: Array) -> Prediction:
        return Prediction(np.tile(np.array([[0.25, 0.75]], np.float32), (len(inputs), 1)))


async def test_a_card_says_that_the_likeliest_class_is_predicted_and_its_code_names_it(tmp_path: Path) -> None:
    async with alone(OfClasses(1.0)) as node:
        digest = node.job(MNIST_3_7).as_json()["digest"]
        file = await node.export(MNIST_3_7, digest, "onnx", same_machine=True)
        (tmp_path / file.file_name).write_bytes(file.body)
        card = await card_of(node, digest)
    assert "They are probabilities that sum to 1: one class is right, and the likeliest is predicted." in card
    assert "NaN" not in card and "missing" not in card
    code = re.findall(r"```python\n(.*?)```", card, re.DOTALL)[1]
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == "seven {'<three>': -9.0, 'seven': -8.0}\n"


class OfScores(Predictor):
    predicts = "scores"


class OfNumbers(OfScores):
    def data_info(self) -> DataInfo:
        return DataInfo("made up", {"train": 3, "test": 2}, ("days",))

    def predict(self, params: Mapping[str, Array], inputs: Array) -> Prediction:
        return Prediction(inputs[:, :1], "scores")


async def test_a_card_tells_scores_from_a_predicted_number() -> None:
    async with alone(OfScores(1.0)) as node:
        card = await card_of(node, node.job(MNIST_3_7).as_json()["digest"])
        assert "They are scores, no probabilities: the largest wins." in card
    async with alone(OfNumbers(1.0)) as node:
        card = await card_of(node, node.job(MNIST_3_7).as_json()["digest"])
        assert "For each input the model gives 1 number: 0: days." in card
        assert "It is the predicted value itself, no probability." in card


class OfPixels(Predictor):
    def input_spec(self) -> InputSpec:
        return InputSpec("image", (6, 4, 3), 0, 255)


async def test_pixels_that_stay_as_they_are_need_no_words() -> None:
    async with alone(OfPixels(1.0)) as node:
        card = await card_of(node, node.job(MNIST_3_7).as_json()["digest"])
    assert "squeezed to 4 x 6 pixels by Lanczos resampling |" in card


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        ("table in /secret/place/points.csv", "table in points.csv"),
        ("table data/place/points.csv", "table points.csv"),
        (r"table C:\secret\place\points.csv", "table points.csv"),
        ("4/5 of the digits", "4/5 of the digits"),
    ],
)
async def test_a_card_does_not_say_where_data_lie(source: str, shown: str) -> None:
    trainer = Predictor(1.0)
    trainer.data_info = lambda: DataInfo(source, {"train": 3, "test": 1}, ("three", "seven"))  # type: ignore[method-assign]
    async with alone(trainer) as node:
        lines = (await card_of(node, node.job(MNIST_3_7).as_json()["digest"])).splitlines()
        assert shown in lines


class OfPictures(Predictor):
    """Takes pictures, and gives the mean of the upper half and that of the lower half."""

    def input_spec(self) -> InputSpec:
        return InputSpec("image", (6, 4, 3), -1, 1)

    def onnx(self, params: Mapping[str, Array]) -> bytes:
        halves = np.zeros((72, 2), np.float32)
        halves[:36, 0] = halves[36:, 1] = 1 / 36
        return OnnxGraph("halves", (6, 4, 3)).flatten().dense(halves, np.zeros(2, np.float32)).to_bytes()


async def test_a_card_of_pictures_has_code_that_reads_them_as_the_node_does(tmp_path: Path) -> None:
    pytest.importorskip("PIL.Image", reason="Pillow is not installed")
    forms = in_every_form(tmp_path / "forms")
    async with alone(OfPictures(1.0)) as node:
        digest = node.job(MNIST_3_7).as_json()["digest"]
        file = await node.export(MNIST_3_7, digest, "onnx", same_machine=True)
        (tmp_path / file.file_name).write_bytes(file.body)
        card = await card_of(node, digest)
    words = (
        "turned upright, made RGB, squeezed to 4 x 6 pixels by Lanczos resampling, and 0 to 255 brought to -1 to 1"
    )
    assert f"| pictures | {words} |" in card
    code = re.findall(r"```python\n(.*?)```", card, re.DOTALL)[1]
    for name, path in forms.items():
        own = f'{code}\nnp.save("own.npy", picture({str(path)!r}))\n'
        done = subprocess.run(
            [sys.executable, "-c", own], cwd=tmp_path, capture_output=True, text=True, check=True
        )
        assert done.stdout.count("-1.0") == 2
        expected = picture_input(path.read_bytes(), OfPictures(1.0).input_spec())
        assert np.allclose(np.load(tmp_path / "own.npy"), expected, atol=1e-6), name


async def test_a_card_says_what_goes_in_and_what_comes_out() -> None:
    async with alone(Exported(1.0)) as node:
        digest = node.job(MNIST_3_7).as_json()["digest"]
        lines = (await node.card(MNIST_3_7, digest, same_machine=True)).body.decode().splitlines()
        assert "| inputs | table, n x 2 numbers (float32) |" in lines
        assert "| range | -9 to any number |" in lines
        assert "| in words | two lengths |" in lines
        assert [line for line in lines if line[:4] in ("| x ", "| y\\")] == [
            "| x | 1.5 | 0.25 |",
            r"| y\| | -3 | 2 |",
        ]
        assert r"For each input the model gives 2 numbers, in this order: 0: \<three\>; 1: seven." in lines
        assert any("The ONNX file computes this itself" in line for line in lines)
    async with mesh_of(Linear(1.0)) as mesh:
        node = mesh.nodes["a"]
        card = await card_of(node, node.job(MNIST_3_7).as_json()["digest"])
        assert "The trainer does not describe its inputs." in card
        assert "onnxruntime" not in card


async def test_scales_of_own_rows_are_shown_to_the_operator_alone() -> None:
    async with alone(Exported(1.0)) as node:
        digest = node.job(MNIST_3_7).as_json()["digest"]
        card = await card_of(node, digest)
        assert "| x |" in card.splitlines() and "0.25" not in card
        assert "0.25" not in json.dumps(node.job(MNIST_3_7).as_json()["inputs"])


class Public(Exported):
    """Without private parameters."""

    shared = None

    def onnx(self, params: Mapping[str, Array]) -> bytes:
        return OnnxGraph("two", (2,)).scale(1.5, 0.25).dense(np.eye(2), np.zeros(2)).to_bytes()


async def test_an_onnx_file_with_means_of_own_rows_leaves_for_no_other_machine() -> None:
    async with alone(Public(1.0)) as node:
        digest = node.job(MNIST_3_7).as_json()["digest"]
        await node.export(MNIST_3_7, digest, "safetensors", same_machine=False)
        with pytest.raises(OwnMachineOnly, match="holds means of this node's own rows"):
            await node.export(MNIST_3_7, digest, "onnx", same_machine=False)
        for form, ending in (("onnx", "onnx"), ("folder", "zip"), ("html", "html")):
            with pytest.raises(OwnMachineOnly, match="holds means of this node's own rows"):
                await node.export(MNIST_3_7, digest, form, same_machine=False)
            file = await node.export(MNIST_3_7, digest, form, same_machine=True)
            assert file.file_name == f"MNIST_3_7-round0-{digest[:10]}.{ending}"


async def test_a_folder_of_one_of_two_models_has_files_and_a_card_of_that_name() -> None:
    trainer = Public(1.0)
    async with alone(Increment(trainer, trainer, 0, Method(personal="increment"))) as node:
        digest = node.job(MNIST_3_7).as_json()["digest"]
        file = await node.export(MNIST_3_7, digest, "folder-personal", same_machine=True)
        stem = f"MNIST_3_7-round0-{digest[:10]}-personal"
        assert file.file_name == f"{stem}.zip"
        with zipfile.ZipFile(io.BytesIO(file.body)) as folder:
            assert f"{stem}/{stem}.onnx" in folder.namelist()
            assert f'InferenceSession("{stem}.onnx")' in folder.read(f"{stem}/README.md").decode()
        page = await node.export(MNIST_3_7, digest, "html-personal", same_machine=True)
        assert page.file_name == f"{stem}.html"


async def test_the_card_of_an_untrained_model_without_figures() -> None:
    async with mesh_of(Linear(1.0)) as mesh:
        node = mesh.nodes["a"]
        text = await card_of(node, node.job(MNIST_3_7).as_json()["digest"])
        assert text.startswith("# MNIST 3 vs 7 Dataset, untrained\n")
        assert "| accuracy of this model | not measured |" in text
        assert "| licence | not stated |" in text
        assert "## Rounds" not in text
        await mesh.train()


def test_names_are_shown_as_text() -> None:
    assert _plain("<b>[x](http://y)|\n# z\u202e") == r"\<b\>\[x\](http://y)\| \# z"
