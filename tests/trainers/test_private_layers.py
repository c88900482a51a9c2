"""The examples of private layers in docs/trainers.md: what they share, and that they learn, also increments."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from flnet.compute.checks import checked_fit, checked_private, declared
from flnet.compute.loader import import_trainer
from flnet.params.arithmetic import weighted_mean
from flnet.params.params import Params
from flnet.trainer import Method, Task, Trainer, TrainerFile, TrainerSettings

DOCUMENTED = Path(__file__).parents[2] / "docs" / "trainers.md"


def documented(name: str, folder: Path) -> TrainerFile:
    """The trainer of this class as a file, with the words of the documentation."""
    blocks = re.findall(r"```python\n(.*?)```", DOCUMENTED.read_text("utf-8"), re.DOTALL)
    (text,) = [block for block in blocks if f"class {name}(" in block]
    path = folder / f"{name}.py"
    path.write_text(text, "utf-8")
    return TrainerFile(name, str(path))


def nodes(folder: Path, count: int, method: Method) -> list[Trainer]:
    file, found = documented("OwnHead", folder), []
    for part in range(1, count + 1):
        state = folder / f"state-{part}"
        state.mkdir()
        told = TrainerSettings(None, state, (part, 12), method=method)
        found.append(import_trainer(file, told, again=False))
    return found


@pytest.mark.parametrize("personal", [pytest.param("none", marks=pytest.mark.long), "increment:2"])
def test_a_private_head_stays_and_the_rest_is_averaged(tmp_path: Path, personal: str) -> None:
    trainers = nodes(tmp_path, 2, Method(personal=personal, choice="local"))
    held = [Params(trainer.initial_params(0)) for trainer in trainers]
    said = declared(trainers[0], "T", held[0])
    assert {name.split(".")[0] for name in said.shared} == {"conv1", "conv2", "dense"}
    for number in range(2):
        tasks = [Task(params, trainer.defaults, number) for trainer, params in zip(trainers, held, strict=True)]
        fits = [checked_fit(one.fit(task), task.params, "T") for one, task in zip(trainers, tasks, strict=True)]
        learnt = [Params(fit.params) for fit in fits]
        mean = weighted_mean([(params.select(said.shared), 1.0) for params in learnt], {})
        held = [params.merged_with(mean) for params in learnt]
        if trainers[0].personalises:
            held = [_personalised(one, params, number) for one, params in zip(trainers, held, strict=True)]
    assert (held[0]["conv1.weight"] == held[1]["conv1.weight"]).all()
    assert (held[0]["output.weight"] != held[1]["output.weight"]).any()
    scores = [trainer.evaluate(params) for trainer, params in zip(trainers, held, strict=True)]
    assert min(score.accuracy for score in scores) > 0.5
    if personal != "none":
        assert min(score.metrics["local_accuracy"] for score in scores) > 0.5
        assert (held[0]["personal/output.weight"] != 0).any()


def _personalised(trainer: Trainer, params: Params, seed: int) -> Params:
    learnt = trainer.personalise(Task(params, trainer.defaults, seed))
    return params.merged_with(checked_private(learnt, params, trainer.shared, "T"))
