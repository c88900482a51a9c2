"""What node and training child say to each other: orders and answers, as JSON with arrays beside it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from flnet.errors import DataMissing, FlnetError, InputRefused, NotOffered, TrainerError, WorkerDied
from flnet.events import Declaration, Turn
from flnet.labels import read_fields
from flnet.messages import HyperParams
from flnet.params import Params
from flnet.refusals import SitsOut
from flnet.training.api import Fit, Prediction, Score, TrainerFile, TrainerSettings
from flnet.training.backend import Assignment, Inputs
from flnet.training.method import Method
from flnet.training.partition import Partition
from flnet.training.records import InCoarse

_BESIDE = ""  # the array that is no parameter: no parameter has an empty name
_COARSE = "coarse"  # beside it in an answer, which holds no parameters


@dataclass(frozen=True)
class Frame:
    """One message: fields that JSON can hold, and arrays by name."""

    fields: Mapping[str, Any]
    params: Params | None = None


def assignment_fields(who: Assignment) -> dict[str, Any]:
    """An assignment as JSON."""
    file, told = who.file, who.settings
    return {
        "id": file.id,
        "location": file.location,
        "module": file.module,
        "attribute": file.attribute,
        "datasets_path": None if told.datasets_path is None else str(told.datasets_path),
        "state_path": str(told.state_path),
        "shard": told.shard,
        "seed": told.seed,
        "threads": told.threads,
        "partition": str(told.partition),
        "device": told.device,
        "max_seconds": told.max_seconds,
        "method": told.method.fields(),
        "labels": None if told.labels is None else told.labels.fields(),
    }


def read_assignment(fields: Mapping[str, Any]) -> Assignment:
    """An assignment from JSON."""
    datasets = fields["datasets_path"]
    index, count = fields["shard"]
    return Assignment(
        TrainerFile(fields["id"], fields["location"], "", fields["module"], fields["attribute"]),
        TrainerSettings(
            None if datasets is None else Path(datasets),
            Path(fields["state_path"]),
            (index, count),
            fields["seed"],
            fields["threads"],
            Partition.parse(fields["partition"]),
            fields["device"],
            fields["max_seconds"],
            Method(**fields["method"]),
            None if fields["labels"] is None else read_fields(fields["labels"]),
        ),
    )


def declaration_fields(declaration: Declaration) -> dict[str, Any]:
    """A declaration as JSON."""
    turn = None if declaration.turn is None else vars(declaration.turn)
    return {**vars(declaration), "defaults": declaration.defaults.fields(), "turn": turn}


def read_declaration(fields: Mapping[str, Any]) -> Declaration:
    """A declaration from JSON."""
    defaults = HyperParams.model_validate(fields["defaults"])
    turn = None if fields["turn"] is None else Turn(**fields["turn"])
    return Declaration(**{**fields, "defaults": defaults, "shared": tuple(fields["shared"]), "turn": turn})


def fit_fields(fit: Fit, score: Score) -> dict[str, Any]:
    """What a training gave, its parameters left out, and its score, as JSON."""
    return {"examples": fit.examples, "labels": fit.labels, "metrics": fit.metrics, "score": vars(score)}


def read_fit(fields: Mapping[str, Any], params: Params) -> tuple[Fit, Score]:
    """The same from JSON."""
    return Fit(params, fields["examples"], fields["labels"], fields["metrics"]), Score(**fields["score"])


def with_inputs(params: Params, inputs: Inputs) -> tuple[dict[str, Any], Params]:
    """What a prediction needs: fields, and parameters with the inputs beside them."""
    picture = isinstance(inputs, bytes)
    array = np.frombuffer(inputs, np.uint8) if isinstance(inputs, bytes) else inputs
    return {"picture": picture}, params.merged_with({_BESIDE: array})


def read_inputs(fields: Mapping[str, Any], arrays: Params) -> tuple[Params, Inputs]:
    """The same read back."""
    params, inputs = arrays.select(name for name in arrays if name != _BESIDE), arrays[_BESIDE]
    return params, inputs.tobytes() if fields["picture"] else inputs


def prediction_frame(prediction: Prediction) -> Frame:
    """What a prediction gave."""
    fields = {name: value for name, value in vars(prediction).items() if name not in ("values", "coarse")}
    arrays, coarse = {_BESIDE: prediction.values}, prediction.coarse
    if coarse is not None:
        fields["coarse"] = {name: value for name, value in vars(coarse).items() if name != "values"}
        arrays[_COARSE] = coarse.values
    return Frame({"answer": "predicted", **fields}, Params(arrays))


def read_prediction(frame: Frame) -> Prediction:
    """The same read back."""
    said = frame.fields
    models, arrays = (tuple(said["answered"]), tuple(said["why"]), said["limit"]), frame.params or Params()
    coarse = None
    if (there := said.get("coarse")) is not None:
        coarse = InCoarse(there["space"], tuple(there["classes"]), arrays[_COARSE], there["estimated"])
    return Prediction(arrays[_BESIDE], said["meaning"], said["threshold"], *models, coarse)


def bytes_frame(answer: str, content: bytes) -> Frame:
    """An answer that is a file."""
    return Frame({"answer": answer}, Params({_BESIDE: np.frombuffer(content, np.uint8)}))


def read_bytes(frame: Frame) -> bytes:
    """The file read back."""
    return (frame.params or Params())[_BESIDE].tobytes()


def error_fields(error: FlnetError) -> dict[str, Any]:
    """A failure as JSON."""
    if isinstance(error, DataMissing):
        return {"missing": error.missing, "remedy": error.remedy}
    return {"message": error.message, "code": error.code}


def read_error(fields: Mapping[str, Any]) -> FlnetError:
    """A failure from JSON."""
    if "missing" in fields:
        return DataMissing(fields["missing"], fields["remedy"])
    callers = {kind.code: kind for kind in (InputRefused, NotOffered, SitsOut)}
    return callers.get(fields.get("code", ""), TrainerError)(fields["message"])


def nonsense(frame: Frame) -> WorkerDied:
    """For an answer that no worker of ours gives."""
    return WorkerDied(f"the training process answered nonsense: {str(dict(frame.fields))[:200]}")
