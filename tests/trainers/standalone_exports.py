"""Each shipped trainer that can be exported, on a node in memory: what the node predicts, and what it gives away."""

from __future__ import annotations

import asyncio
import io
import json
import zipfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from flnet.cli.predict import question_of
from flnet.node.interface import PredictionInput
from flnet.params.params import Array
from flnet.trainer import Trainer, TrainerSettings
from tests.datasets.own_files import class_folders, csv_file, images, node, picture, table
from tests.node.mesh import MNIST_3_7, mesh_of
from tests.trainers.cifar_forms import npz
from tests.trainers.made_trainers import made
from tests.trainers.test_chest_x_ray import packed
from trainers._own import make_own

QUICK = ("MNIST_3_7", "words")
SLOW = (
    "MNIST",
    "CIFAR10_SMALL",
    "CIFAR10_HEADS",
    "MULTI_LABEL",
    "images",
    "number",
    "table",
    "rgb",
    "linear images",
)
KERAS = ("CIFAR10", "CHEST_X_RAY_PNEUMONIA")
HOSTILE = "</script><script>document.title='x'</script>"
COLOURS = ["red", "green, pale", HOSTILE]
WORDS = [[COLOURS[i % 3], i / 7, "" if i % 5 == 0 else i % 4] for i in range(60)]


@dataclass(frozen=True)
class Exported:
    """What a node said and wrote.

    Attributes:
        inputs: files with the inputs, or rows as a person types them.
        answers: of the node, one for each input: predicted, and the numbers.
        files: by format.
        folder: where the unpacked folder lies.
    """

    inputs: list[Path]
    answers: list[dict[str, Any]]
    files: dict[str, bytes]
    folder: Path
    card: str


def made_here(name: str, folder: Path) -> Trainer:
    """A shipped trainer by its id, or one without code."""
    (folder / "state").mkdir(parents=True, exist_ok=True)
    match name:
        case "words":
            rows = [[*row, "y<es>" if row[0] == "red" else HOSTILE] for row in WORDS]
            csv_file(folder / "t.csv", ["colour", "<b>size</b>", "gap", "y"], rows)
            label = "Words </title><script>1</script>"
            own = table(missing="mean", model="mlp", hidden=[5], label=label, categories={"colour": COLOURS})
            return make_own(own, node(folder))
        case "rgb":
            class_folders(folder / "pictures", each=12)
            return make_own(images(colour="rgb", size=10), node(folder))
        case "linear images":
            class_folders(folder / "pictures", each=12)
            return make_own(images(model="linear", size=9), node(folder))
        case "CIFAR10_SMALL":
            from trainers import CIFAR10_SMALL

            return CIFAR10_SMALL.make_trainer(TrainerSettings(npz(folder / "data"), folder / "state"))
        case "CIFAR10_HEADS":
            from trainers import CIFAR10_HEADS

            return CIFAR10_HEADS.make_trainer(TrainerSettings(npz(folder / "data"), folder / "state"))
        case "CIFAR10":
            from trainers import CIFAR10

            return CIFAR10.make_trainer(TrainerSettings(npz(folder / "data"), folder / "state"))
        case "CHEST_X_RAY_PNEUMONIA":
            from trainers import CHEST_X_RAY_PNEUMONIA

            return CHEST_X_RAY_PNEUMONIA.make_trainer(TrainerSettings(packed(folder / "data"), folder / "state"))
    (folder / "state").rmdir()
    return made(name, folder)


def exported(name: str, folder: Path) -> Exported:
    """The files of one trainer after a round, and the node's own answers; in an event loop of their own."""
    folder.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, _exported(made_here(name, folder / "data"), folder)).result()


async def _exported(trainer: Trainer, folder: Path) -> Exported:
    async with mesh_of(trainer) as mesh:
        await mesh.train()
        runtime = mesh.nodes["a"]
        digest = runtime.job(MNIST_3_7).as_json()["digest"]
        forms = ("safetensors", "onnx", "folder", "html")
        files = {form: await runtime.export(MNIST_3_7, digest, form, same_machine=True) for form in forms}
        card = await runtime.card(MNIST_3_7, digest, same_machine=True)
        inputs = written(trainer, folder)
        answers = []
        for path in inputs:
            question = question_of(path)
            picture = path.read_bytes() if "image" in question else None
            asked = PredictionInput(inputs=question.get("inputs"), picture=picture)
            answers += _answers(await runtime.predict(MNIST_3_7, asked))
    for file in files.values():
        (folder / file.file_name).write_bytes(file.body)
    with zipfile.ZipFile(io.BytesIO(files["folder"].body)) as packed_folder:
        packed_folder.extractall(folder)
    stem = Path(files["folder"].file_name).stem
    bodies = {form: file.body for form, file in files.items()}
    return Exported(inputs, answers, bodies, folder / stem, card.body.decode())


def _answers(answer: Any) -> list[dict[str, Any]]:
    values = answer.get("scores") or answer["probabilities"]
    pairs = zip(answer["predicted"], values, strict=True)
    return [
        {"predicted": predicted, "values": dict(zip(answer["classes"], row, strict=True))}
        for predicted, row in pairs
    ]


def written(trainer: Trainer, folder: Path) -> list[Path]:
    """Files with inputs for a trainer: pictures of its size and of others, or a table."""
    spec = trainer.input_spec()
    assert spec is not None
    if spec.kind == "image":
        rows = np.asarray(known_inputs(trainer)[:2], np.uint8)
        pixels = [row.reshape(row.shape[:2] if row.shape[-1] == 1 else row.shape) for row in rows]
        return [_saved(folder / f"{at}.png", each) for at, each in enumerate([*pixels, *_others()])]
    if trainer.label.startswith("Words"):
        return [
            csv_file(folder / "rows.csv", ["gap", "colour", "<b>size</b>"], [[g, c, s] for c, s, g in WORDS[:7]])
        ]
    rows = np.asarray(known_inputs(trainer)[:5], np.float64)
    target = folder / "rows.json"
    target.write_text(json.dumps(rows.tolist()))
    return [target]


def known_inputs(trainer: Trainer) -> Array:
    """Training rows as inputs of predictions."""
    inputs = trainer.inputs()
    assert inputs is not None
    return inputs


def _others() -> list[Array]:
    """A picture in colour that is larger than what networks take, and a grey one that is smaller in one direction."""
    return [np.repeat(picture(5, 1, 150), 2, axis=1)[:131, :257], picture(6, 0, 90)[:7, :, 0]]


def _saved(path: Path, pixels: Array) -> Path:
    Image.fromarray(pixels).save(path)
    return path
