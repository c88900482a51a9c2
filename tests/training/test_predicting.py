"""Predictions and exports go through the lane, whether a child works or a thread; refusals keep their class."""

from __future__ import annotations

import asyncio
import io
from pathlib import Path

import numpy as np
import pytest

from flnet.errors import InputRefused, NotOffered, TrainerError
from flnet.params import TrainerId
from flnet.training.memory import InlinePool
from tests.helpers import params
from tests.training.bench import ENDLESS, START, TINY, plugin
from tests.training.conftest import MakeBench
from tests.training.plugins.TINY import Tiny

DIGITS = TrainerId("MNIST_3_7")
WHITE = np.full((28, 28), 255, np.uint8)
JUDGE = """
    def input_spec(self):
        return InputSpec("features", (2,))
    def predict(self, params, inputs):
        {predict}
"""


def judge(folder: Path, name: str, predict: str) -> TrainerId:
    """A trainer that predicts so."""
    made = plugin(folder, name)
    path = folder / f"{name}.py"
    text = path.read_text().replace("def make_trainer", JUDGE.replace("{predict}", predict) + "\ndef make_trainer")
    path.write_text(text)
    return made


async def test_numbers_and_pictures_are_judged_and_models_described(compute: str, bench: MakeBench) -> None:
    image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
    pool = bench(compute).pool
    declaration, start = await pool.prepare(DIGITS)
    assert declaration.offers["inputs"]["shape"] == [28, 28]
    assert declaration.offers["formats"] == ["safetensors", "onnx"]
    model = params(weights=start["weights"] + np.float32(0.01), bias=start["bias"])
    by_numbers = await pool.predict(DIGITS, model, np.stack([WHITE, 0 * WHITE]).astype(np.float32))
    assert (by_numbers.meaning, by_numbers.values.shape) == ("one_of", (2, 2))
    assert by_numbers.values[1].tolist() == [0.5, 0.5]
    file = io.BytesIO()
    image.fromarray(WHITE).save(file, "PNG")
    by_picture = await pool.predict(DIGITS, model, file.getvalue())
    assert np.array_equal(by_picture.values, by_numbers.values[:1])

    onnx = pytest.importorskip("onnx", reason="the extra onnx is not installed")
    described = onnx.load_model_from_string(await pool.export(DIGITS, model, {"round": "3"}))
    assert [(one.key, one.value) for one in described.metadata_props] == [("round", "3")]


async def test_refusals_come_as_what_they_are(compute: str, bench: MakeBench, folder: Path) -> None:
    failing = judge(folder, "FAILING", "raise KeyError('w')")
    odd = judge(folder, "ODD", "return Prediction(np.ones((1, 2)))")
    pool = bench(compute).pool
    _, start = await pool.prepare(DIGITS)
    with pytest.raises(InputRefused, match="neither a PNG nor a JPEG"):
        await pool.predict(DIGITS, start, b"nonsense")
    with pytest.raises(InputRefused, match=r"shape \[1, 2\]; expected \[n, 28, 28\]"):
        await pool.predict(DIGITS, start, np.zeros((1, 2), np.float32))
    with pytest.raises(NotOffered, match="TINY offers no predictions"):
        await pool.predict(TINY, START, np.zeros((1, 2), np.float32))
    with pytest.raises(NotOffered, match="TINY cannot be exported to ONNX"):
        await pool.export(TINY, START, {})
    with pytest.raises(TrainerError, match="trainer FAILING failed in predict: KeyError: 'w'"):
        await pool.predict(failing, START, np.zeros((1, 2), np.float32))
    with pytest.raises(TrainerError, match="probabilities that do not sum to 1"):
        await pool.predict(odd, START, np.zeros((1, 2), np.float32))


async def test_a_prediction_waits_for_the_training_before_it(bench: MakeBench, folder: Path) -> None:
    endless = plugin(folder, "ENDLESS", fit=ENDLESS)
    one = bench("thread")
    _, start = await one.pool.prepare(DIGITS)
    running = one.fitting(endless)
    await one.until_it_trains()
    asked = asyncio.create_task(one.pool.predict(DIGITS, start, np.zeros((1, 28, 28), np.float32)))
    await one.until_it_trains(len(one.progress) + 2)
    assert not asked.done()
    one.pool.cancel(endless)
    with pytest.raises(TrainerError, match="cancelled"):
        await running
    assert (await asked).values.tolist() == [[0.5, 0.5]]


async def test_the_twin_says_the_same() -> None:
    pool = InlinePool({"TINY": Tiny(seed=0)})
    with pytest.raises(NotOffered, match="TINY offers no predictions"):
        await pool.predict(TINY, START, np.zeros((1, 2), np.float32))
    with pytest.raises(NotOffered, match="TINY cannot be exported"):
        await pool.export(TINY, START, {})


async def test_what_own_rows_show_comes_out_of_the_child(compute: str, bench: MakeBench, folder: Path) -> None:
    made = "return GroupFindings(5, 4, 3, Grouping(2, 0.5, None), (Grouping(1, 1.0, None),), 1)"
    looking, silent = judge(folder, "LOOKING", "pass"), judge(folder, "SILENT", "pass")
    path = folder / "LOOKING.py"
    looks = f"    finds = 'groups'\n    def findings(self, params):\n        {made}\n"
    imports = "from flnet.training.findings import GroupFindings, Grouping\n\n"
    path.write_text(path.read_text().replace("\ndef make_trainer", f"{looks}\n{imports}def make_trainer"))
    pool = bench(compute).pool
    assert (await pool.prepare(looking))[0].offers["finds"] == "groups"
    found = await pool.findings(looking, START)
    assert (found["judged"], found["common"]) == (4, {"k": 2, "inertia": 0.5, "silhouette": None})
    with pytest.raises(NotOffered, match="SILENT finds nothing to show"):
        await pool.findings(silent, START)
