"""The compute queue over both backends: it promises the same, whether a child works or a thread."""

from __future__ import annotations

import asyncio
import gc
import io
import sys
import time
import weakref
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flnet.compute.assignment import processors
from flnet.compute.channel import WorkReply
from flnet.compute.queue import make_queue
from flnet.compute.verbs import (
    DiagnoseRequest,
    EvaluateRequest,
    ExportRequest,
    FitRequest,
    PersonaliseRequest,
    PredictRequest,
    PrepareRequest,
)
from flnet.errors import DataMissing, InputRefused, NotOffered, ParamsRefused, SettingsError, TrainerError
from flnet.params.params import Params, TrainerId
from flnet.protocol.messages import HyperParams
from flnet.settings import Settings, load_settings
from flnet.trainer import NoisySteps, RowPrivacy
from tests.compute.bench import ENDLESS, START, TINY, eventually, plugin
from tests.compute.conftest import MakeBench
from tests.helpers import HYPER, params


async def test_a_trainer_is_prepared_trained_and_measured(compute: str, bench: MakeBench) -> None:
    queue = bench(compute).queue
    declaration, start = await queue.call(TINY, PrepareRequest())
    assert (declaration.label, declaration.defaults) == ("Points of a plane", HyperParams(e=5, u=0.5, b=100))
    assert (declaration.shared, declaration.exchange_threshold) == (("w", "b"), 0.02)
    assert declaration.data == {
        "source": "made-up points",
        "rows": {"train": 100, "test": 100},
        "classes": ["below", "above"],
        "sample": True,
        "note": "",
    }
    fit, score = await queue.call(TINY, FitRequest(start, declaration.defaults, seed=1))
    assert fit.examples == 100
    assert fit.params["w"].dtype == start["w"].dtype
    assert score.accuracy > 0.9
    assert await queue.call(TINY, EvaluateRequest(start.merged_with(fit.params))) == score


async def test_a_training_hides_rows_with_noise_and_says_what_it_did(compute: str, bench: MakeBench) -> None:
    pytest.importorskip("opacus", reason="Opacus is not installed: pip install flnet[privacy]")
    queue, name = bench(compute, data_shard="1/4").queue, TrainerId("MNIST")
    declaration, start = await queue.call(name, PrepareRequest())
    hyper, rows = HyperParams(e=2, u=0.01, b=100), declaration.data["rows"]["train"]
    asked = FitRequest(start, hyper, seed=1, row_privacy=RowPrivacy(1.0, 1.0))
    (one, score), (other, _) = [await queue.call(name, asked) for _ in range(2)]
    assert one.noisy == other.noisy == NoisySteps(100 / rows, 2 * -(-rows // 100))
    assert one.examples == rows
    assert 0 <= score.accuracy <= 1
    for key, value in start.items():
        assert not np.array_equal(one.params[key], value)
        assert not np.array_equal(one.params[key], other.params[key])  # the same seed, but another noise
    plain, _ = await queue.call(name, FitRequest(start, hyper, seed=1))
    assert plain.noisy is None


async def test_a_trainer_that_ignores_that_rows_are_to_be_hidden_is_found_out(
    compute: str, bench: MakeBench
) -> None:
    queue = bench(compute).queue
    _, start = await queue.call(TINY, PrepareRequest())
    with pytest.raises(TrainerError, match="trainer TINY was asked to hide single rows and gave noisy=None"):
        await queue.call(TINY, FitRequest(start, HYPER, seed=1, row_privacy=RowPrivacy(1.0, 1.0)))


async def test_both_backends_learn_the_same_bytes(bench: MakeBench) -> None:
    learnt = []
    for compute in ("process", "thread"):
        queue = bench(compute).queue
        declaration, start = await queue.call(TINY, PrepareRequest())
        fit, _ = await queue.call(TINY, FitRequest(start, declaration.defaults, seed=1))
        learnt.append({name: value.tobytes() for name, value in fit.params.items()})
    assert learnt[0] == learnt[1]


async def test_a_trainer_is_told_about_the_node_and_has_a_folder(
    compute: str, bench: MakeBench, folder: Path
) -> None:
    write = """(self.settings.state_path / "told").write_text(
            f"{self.settings.shard} {self.settings.seed} {self.settings.threads} {self.settings.datasets_path}")"""
    name = plugin(folder, "CURIOUS", evaluate=write)
    for threads, told in ((2, 2), (0, processors())):
        queue = bench(compute, data_shard="2/3", seed=7, compute_threads=threads, datasets_path=folder).queue
        await queue.call(name, EvaluateRequest(START))
        assert (folder / "state/trainers/CURIOUS/told").read_text() == f"(2, 3) 7 {told} {folder}"


async def test_a_failing_fit_ends_in_words_and_the_lane_goes_on(
    compute: str, bench: MakeBench, folder: Path
) -> None:
    nan = "return Fit({'w': np.array([np.nan, 1], np.float32), 'steps': task.params['steps']}, 1)"
    failing = {
        "raise ValueError('boom')": r"trainer ODD0 failed in fit: ValueError: boom \(ODD0.py, line 12\)",
        "sys.exit(3)": "trainer ODD1 failed in fit: SystemExit: 3",
        "task.params['w'][0] = 1": "read-only",
        "return 5": "fit of trainer ODD3 gave a int; expected a Fit",
        nan: "training diverged: 'w' has numbers that are not finite; try a smaller learning rate",
        "raise DataMissing('no rows', 'bring some')": "no rows; bring some",
    }
    names = [plugin(folder, f"ODD{number}", fit=fit) for number, fit in enumerate(failing)]
    queue = bench(compute).queue
    for name, (fit, words) in zip(names, failing.items(), strict=True):
        with pytest.raises(TrainerError, match=words) as caught:
            await queue.call(name, FitRequest(START, HYPER, seed=1))
        assert isinstance(caught.value, DataMissing) == ("DataMissing" in fit)
        assert (await queue.call(name, EvaluateRequest(START))).examples == 4


async def test_a_trainer_without_data_says_so_and_is_tried_again(
    compute: str, bench: MakeBench, folder: Path
) -> None:
    make = "if not (settings.state_path / 'rows').exists(): raise DataMissing('no rows', 'bring some')"
    name = plugin(folder, "LATE", make=make)
    queue = bench(compute).queue
    with pytest.raises(DataMissing) as caught:
        await queue.call(name, PrepareRequest())
    assert (caught.value.missing, caught.value.remedy) == ("no rows", "bring some")
    (folder / "state/trainers/LATE/rows").touch()
    assert (await queue.call(name, PrepareRequest()))[0].label == "LATE"


async def test_unknown_and_broken_trainers_are_refused_in_words(
    compute: str, bench: MakeBench, folder: Path
) -> None:
    (folder / "TYPO.py").write_text("def make_trainer(settings:\n")
    (folder / "LOST.py").write_text("import a_module_that_is_not_there\n")
    (folder / "EMPTY.py").write_text("")
    queue = bench(compute).queue
    for name, words in {
        "NOBODY": "this node has no trainer 'NOBODY'; it has",
        "TYPO": "TYPO.py, line 1: SyntaxError",
        "LOST": r"ModuleNotFoundError: No module named 'a_module_that_is_not_there' \(LOST.py, line 1\); it has",
        "EMPTY": r"EMPTY.py defines no function make_trainer\(settings\)",
    }.items():
        with pytest.raises(TrainerError, match=words):
            await queue.call(TrainerId(name), PrepareRequest())


async def test_a_printing_trainer_spoils_nothing(compute: str, bench: MakeBench, folder: Path) -> None:
    name = plugin(folder, "LOUD", fit="print('x' * 100_000); os.write(1, b'y' * 100_000)")
    fit, _ = await bench(compute).queue.call(name, FitRequest(START, HYPER, seed=1))
    assert fit.params == START


async def test_progress_is_told_in_the_loop_and_not_at_every_batch(
    compute: str, bench: MakeBench, folder: Path
) -> None:
    name = plugin(folder, "QUICK", fit="for i in range(5000): task.progress(i + 1, 5000)")
    one = bench(compute)
    await one.fitting(name)
    assert one.progress[0] == ("QUICK", 1, 5000)
    assert one.progress[-1] == ("QUICK", 5000, 5000)
    assert len(one.progress) < 500


async def test_a_cancelled_training_ends_and_only_it(
    compute: str, bench: MakeBench, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = plugin(folder, "ENDLESS", fit=ENDLESS)
    one = bench(compute)
    stop = one.queue.backend.cancel

    def held_up(number: int, *, at_once: bool = False) -> None:
        stop(number)
        time.sleep(0.2)  # in which the next one could begin

    monkeypatch.setattr(one.queue.backend, "cancel", held_up)
    running, waiting, other = one.fitting(name), one.fitting(name), one.fitting(TINY, w=[0, 0], b=[0])
    await one.until_it_trains()
    one.queue.cancel(name)
    with pytest.raises(TrainerError, match="the training of ENDLESS was cancelled"):
        await running
    with pytest.raises(TrainerError, match="cancelled before it began"):
        await waiting
    await other
    again = one.fitting(name)
    await one.until_it_trains(len(one.progress) + 1)
    assert not again.done()


async def test_a_training_that_nobody_waits_for_any_more_is_cancelled(
    compute: str, bench: MakeBench, folder: Path
) -> None:
    name = plugin(folder, "ENDLESS", fit=ENDLESS)
    one = bench(compute)
    running = one.fitting(name)
    await one.until_it_trains()
    running.cancel()
    await asyncio.wait({running})
    assert running.cancelled()
    assert (await one.queue.call(name, EvaluateRequest(START))).accuracy == 0.5


async def test_a_training_cancelled_while_its_trainer_loads_does_not_begin(
    compute: str, bench: MakeBench, folder: Path
) -> None:
    make = """
    (settings.state_path / "loading").touch()
    while not (settings.state_path / "go").exists():
        time.sleep(0.005)
"""
    name = plugin(folder, "SLOW", make=make, fit=f"(self.settings.state_path / 'trained').touch(){ENDLESS}")
    one, state = bench(compute), folder / "state/trainers/SLOW"
    running = one.fitting(name)
    await eventually((state / "loading").exists)
    one.queue.cancel(name)
    (state / "go").touch()
    with pytest.raises(TrainerError, match="cancelled"):
        await running
    if compute == "thread":  # to a child the cancel takes its own way, on which the loading may overtake it
        assert not (state / "trained").exists()


async def test_a_trainer_cannot_swallow_its_cancellation(bench: MakeBench, folder: Path) -> None:
    fit = """
        while True:
            try:
                task.progress(1, 2)
            except Exception:
                pass
"""
    name = plugin(folder, "DEAF", fit=fit)
    one = bench("thread")
    running = one.fitting(name)
    await one.until_it_trains()
    one.queue.cancel(name)
    with pytest.raises(TrainerError, match="cancelled"):
        await running


async def test_closing_ends_all_that_runs_or_waits(compute: str, bench: MakeBench, folder: Path) -> None:
    name = plugin(folder, "ENDLESS", fit=ENDLESS)
    one = bench(compute)
    calls = [one.fitting(name), one.fitting(TINY, w=[0, 0], b=[0])]
    await one.until_it_trains()
    await one.queue.close()
    for call in calls:
        with pytest.raises(TrainerError, match="the node is stopping"):
            await call
    with pytest.raises(TrainerError, match="the node is stopping"):
        await one.queue.call(TINY, EvaluateRequest(START))
    await one.queue.close()


def failing(error: Callable[[str], Exception], words: str = "no") -> Any:
    """A call of a backend that raises such an error."""

    def call(*given: Any) -> None:
        raise error(words)

    return call


async def test_an_unexpected_error_comes_as_a_trainer_error(
    bench: MakeBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = bench("thread").queue

    monkeypatch.setattr(queue.backend, "call", failing(ParamsRefused, "'w' has shape [3]"))
    with pytest.raises(TrainerError, match="'w' has shape") as caught:
        await queue.call(TINY, PrepareRequest())
    assert isinstance(caught.value.__cause__, ParamsRefused)
    monkeypatch.setattr(queue.backend, "call", failing(ZeroDivisionError, "by nought"))
    with pytest.raises(TrainerError, match="the work failed: ZeroDivisionError: by nought"):
        await queue.call(TINY, PrepareRequest())


async def test_a_call_that_fails_keeps_nothing_of_what_it_was_given(
    compute: str, bench: MakeBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue = bench(compute).queue
    _, start = await queue.call(TINY, PrepareRequest())
    # Not by a trainer: what it raises is logged, and pytest keeps what is logged.
    if compute == "process":
        monkeypatch.setattr(queue.backend, "_done", lambda *_: (WorkReply(None, TrainerError("no")), True))
    else:
        monkeypatch.setattr(queue.backend, "call", failing(TrainerError))
    given: list[weakref.ref[Params]] = []
    gc.collect()
    gc.disable()  # what refers to itself in a circle stays
    try:
        for _ in range(3):
            wrong = Params({**start, "w": np.ones(3, np.float32)})
            given.append(weakref.ref(wrong))
            with suppress(TrainerError):
                await queue.call(TINY, FitRequest(wrong, HYPER, seed=1))
                pytest.fail("it should not train from these")
            del wrong
        with suppress(TrainerError):
            await queue.call(TINY, FitRequest(start, HYPER, seed=1))  # the thread forgets its last work
        assert [each() for each in given] == [None] * 3
    finally:
        gc.enable()


async def test_arrays_of_every_kind_survive_the_way_to_the_child(bench: MakeBench, folder: Path) -> None:
    name = plugin(folder, "ECHO")
    start = params(
        scalar=np.float32(3),
        half=np.ones((2, 2), np.float16),
        double=np.arange(6.0).reshape(2, 3).T,
        count=np.array([2**62]),
        mask=np.array([True, False]),
        empty=np.zeros((0, 4), np.float32),
        big_endian=np.array([1.5], ">f4"),
    )
    fit, _ = await bench("process").queue.call(name, FitRequest(start, HYPER, seed=1))
    assert fit.params == start


def test_the_thread_lane_keeps_the_interpreter_responsive(bench: MakeBench) -> None:
    bench("thread")
    assert sys.getswitchinterval() < 0.005


async def test_partition_and_device_are_told_to_the_trainer(bench: MakeBench, compute: str, folder: Path) -> None:
    told = 'raise TrainerError(f"told {settings.partition} on {settings.device}")'
    trainer = plugin(folder, "TOLD", make=told)
    queue = bench(compute, data_partition="dirichlet:0.3", device="cpu").queue
    with pytest.raises(TrainerError, match=r"told dirichlet:0.3 on cpu"):
        await queue.call(trainer, PrepareRequest())


@pytest.mark.parametrize("partition", ["dirichlet:0", "pathological:1.5"])
def test_a_partition_out_of_range_is_said_at_the_start(partition: str) -> None:
    with pytest.raises(SettingsError, match=f"FLNET_DATA_PARTITION={partition}: .* takes a"):
        make_queue(Settings(data_partition=partition))


READER = """
import pathlib

import numpy as np

from flnet.trainer import Fit, Score, Trainer


class Reader(Trainer):
    def __init__(self):
        self.label = pathlib.Path(__file__).with_name("words").read_text()

    def initial_params(self, seed):
        return {"w": np.zeros(1, "float32")}

    def fit(self, task):
        return Fit(task.params, 1)

    def evaluate(self, params):
        return Score(0.5, 1)


def make_trainer(settings):
    return Reader()
"""


@pytest.mark.parametrize("compute", ["process", "thread"])
async def test_a_trainer_whose_data_changed_is_loaded_again(tmp_path: Path, compute: str) -> None:
    (tmp_path / "READER.py").write_text(READER)
    (tmp_path / "words").write_text("before")
    folders = {"trainers_path": tmp_path, "state_path": tmp_path / "state"}
    queue, reader = make_queue(load_settings({**folders, "compute": compute}, {})), TrainerId("READER")
    try:
        assert (await queue.call(reader, PrepareRequest()))[0].label == "before"
        (tmp_path / "words").write_text("after")
        assert (await queue.call(reader, PrepareRequest()))[0].label == "before"
        assert (await queue.call(reader, PrepareRequest(reload=True)))[0].label == "after"
    finally:
        await queue.close()


DIGITS = TrainerId("MNIST_3_7")
WHITE = np.full((28, 28), 255, np.uint8)
PREDICTING = """
    def input_spec(self):
        return InputSpec("features", (2,))
    def predict(self, params, inputs):
        {predict}
"""


def predicting(folder: Path, name: str, predict: str) -> TrainerId:
    """A trainer that predicts so."""
    made = plugin(folder, name)
    path = folder / f"{name}.py"
    text = path.read_text().replace(
        "def make_trainer", PREDICTING.replace("{predict}", predict) + "\ndef make_trainer"
    )
    path.write_text(text)
    return made


async def test_numbers_and_pictures_are_judged_and_models_described(compute: str, bench: MakeBench) -> None:
    image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
    queue = bench(compute).queue
    declaration, start = await queue.call(DIGITS, PrepareRequest())
    assert declaration.offers["inputs"]["shape"] == [28, 28]
    assert declaration.offers["formats"] == ["safetensors", "onnx", "folder", "html"]
    model = params(weights=start["weights"] + np.float32(0.01), bias=start["bias"])
    by_numbers = await queue.call(DIGITS, PredictRequest(model, np.stack([WHITE, 0 * WHITE]).astype(np.float32)))
    assert (by_numbers.meaning, by_numbers.values.shape) == ("one_of", (2, 2))
    assert by_numbers.values[1].tolist() == [0.5, 0.5]
    file = io.BytesIO()
    image.fromarray(WHITE).save(file, "PNG")
    by_picture = await queue.call(DIGITS, PredictRequest(model, file.getvalue()))
    assert np.array_equal(by_picture.values, by_numbers.values[:1])

    onnx = pytest.importorskip("onnx", reason="the extra onnx is not installed")
    described = onnx.load_model_from_string(await queue.call(DIGITS, ExportRequest(model, {"round": "3"})))
    assert [(one.key, one.value) for one in described.metadata_props] == [("round", "3")]


async def test_refusals_come_as_what_they_are(compute: str, bench: MakeBench, folder: Path) -> None:
    failing = predicting(folder, "FAILING", "raise KeyError('w')")
    odd = predicting(folder, "ODD", "return Prediction(np.ones((1, 2)))")
    queue = bench(compute).queue
    _, start = await queue.call(DIGITS, PrepareRequest())
    with pytest.raises(InputRefused, match="neither a JPEG nor a PNG"):
        await queue.call(DIGITS, PredictRequest(start, b"nonsense"))
    with pytest.raises(InputRefused, match=r"shape \[1, 2\]; expected \[n, 28, 28\]"):
        await queue.call(DIGITS, PredictRequest(start, np.zeros((1, 2), np.float32)))
    with pytest.raises(NotOffered, match="TINY offers no predictions"):
        await queue.call(TINY, PredictRequest(START, np.zeros((1, 2), np.float32)))
    with pytest.raises(NotOffered, match="TINY cannot be exported to ONNX"):
        await queue.call(TINY, ExportRequest(START, {}))
    with pytest.raises(TrainerError, match="trainer FAILING failed in predict: KeyError: 'w'"):
        await queue.call(failing, PredictRequest(START, np.zeros((1, 2), np.float32)))
    with pytest.raises(TrainerError, match="probabilities that do not sum to 1"):
        await queue.call(odd, PredictRequest(START, np.zeros((1, 2), np.float32)))


async def test_a_prediction_waits_for_the_training_before_it(bench: MakeBench, folder: Path) -> None:
    endless = plugin(folder, "ENDLESS", fit=ENDLESS)
    one = bench("thread")
    _, start = await one.queue.call(DIGITS, PrepareRequest())
    running = one.fitting(endless)
    await one.until_it_trains()
    asked = asyncio.create_task(one.queue.call(DIGITS, PredictRequest(start, np.zeros((1, 28, 28), np.float32))))
    await one.until_it_trains(len(one.progress) + 2)
    assert not asked.done()
    one.queue.cancel(endless)
    with pytest.raises(TrainerError, match="cancelled"):
        await running
    assert (await asked).values.tolist() == [[0.5, 0.5]]


async def test_what_own_rows_show_comes_out_of_the_child(compute: str, bench: MakeBench, folder: Path) -> None:
    made = "return GroupFindings(5, 4, 3, Grouping(2, 0.5, None), (Grouping(1, 1.0, None),), 1)"
    looking, silent = predicting(folder, "LOOKING", "pass"), predicting(folder, "SILENT", "pass")
    path = folder / "LOOKING.py"
    looks = f"    finds = 'groups'\n    def findings(self, params):\n        {made}\n"
    imports = "from flnet.trainer import GroupFindings, Grouping\n\n"
    path.write_text(path.read_text().replace("\ndef make_trainer", f"{looks}\n{imports}def make_trainer"))
    queue = bench(compute).queue
    assert (await queue.call(looking, PrepareRequest()))[0].offers["finds"] == "groups"
    found = await queue.call(looking, DiagnoseRequest(START))
    assert (found["judged"], found["common"]) == (4, {"k": 2, "inertia": 0.5, "silhouette": None})
    with pytest.raises(NotOffered, match="SILENT finds nothing to show"):
        await queue.call(silent, DiagnoseRequest(START))


OWN = TrainerId("OWN")
AVERAGE = params(w=[3.0], own=[1.0])
PERSONAL = """
import numpy as np
from flnet.trainer import *

class Own(Trainer):
    shared = ("w",)
    personalises = True
    def initial_params(self, seed):
        return {"w": np.zeros(1, np.float32), "own": np.zeros(1, np.float32)}
    def fit(self, task):
        return Fit(dict(task.params), examples=1)
    def evaluate(self, params):
        return Score(0.5, 4, {"own": float(params["own"][0])})
    def personalise(self, task):
        task.progress(1, 1)
        return {"own": task.params["own"] + task.params["w"]}

def make_trainer(settings):
    return Own()
"""


async def test_private_parameters_learn_on_and_are_measured(compute: str, bench: MakeBench, folder: Path) -> None:
    (folder / "OWN.py").write_text(PERSONAL)
    one = bench(compute)
    declaration, _ = await one.queue.call(OWN, PrepareRequest())
    assert declaration.personalises
    learnt, score = await one.queue.call(OWN, PersonaliseRequest(AVERAGE, HYPER, seed=1))
    assert learnt == params(own=[4.0])
    assert score.metrics == {"own": 4.0}
    assert one.progress == [("OWN", 1, 1)]
