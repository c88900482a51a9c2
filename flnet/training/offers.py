"""What a person may do with a trainer's models, and the check of what a prediction gives."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, get_args

import numpy as np

from flnet.errors import TrainerError
from flnet.params import Array
from flnet.training.api import InputSpec, Meaning, Prediction, Trainer
from flnet.training.findings import Kind
from flnet.training.records import InCoarse
from flnet.training.taking import formats_of, which_alone

_KINDS = ("image", "features", "table")
_SLACK = 1e-3  # by which probabilities in float16 may miss [0, 1], or their sum 1


def offered(trainer: Trainer, name: str) -> dict[str, Any]:
    """The `offers` of a declaration, as JSON-ready data; see `flnet.events.Declaration`.

    Raises:
        TrainerError: what the trainer says of its inputs makes no sense.
    """
    spec = trainer.input_spec()
    return {
        "inputs": None if spec is None else _spec_fields(spec, name),
        "formats": formats_of(trainer),
        "alone": which_alone(trainer),
        "finds": _kind(trainer, name),
        "note": str(trainer.note),
        "licence": str(trainer.licence),
        "counts": {str(side): [int(n) for n in counts] for side, counts in trainer.data_info().counts.items()},
        "checksum": str(trainer.data_info().checksum),
        "parts": [[int(n) for n in counts] for counts in trainer.data_info().parts],
    }


def _kind(trainer: Trainer, name: str) -> str:
    if trainer.finds not in get_args(Kind):
        raise TrainerError(f"trainer {name}: finds is {trainer.finds!r}; expected labels or groups, or nothing")
    return trainer.finds


def spec_of(offers: Mapping[str, Any]) -> InputSpec | None:
    """What predictions take, read back from `offers`."""
    fields = offers.get("inputs")
    if fields is None:
        return None
    return InputSpec(**{**fields, "shape": tuple(fields["shape"]), "names": tuple(fields["names"])})


def checked_prediction(prediction: Prediction, inputs: int, classes: int, trainer: str) -> Prediction:
    """What a prediction gave, as float32.

    Args:
        inputs: how many were judged.
        classes: how many the trainer's data have; 0 if it names none.

    Raises:
        TrainerError: wrong type, shape or meaning, not finite, or no probabilities where it says so.
    """
    what = f"predict of trainer {trainer}"
    if not isinstance(prediction, Prediction) or prediction.meaning not in get_args(Meaning):
        raise TrainerError(f"{what} gave a {type(prediction).__name__}; expected a Prediction")
    try:
        values = np.array(prediction.values, np.float32)
    except (TypeError, ValueError) as exc:
        raise TrainerError(f"{what} gave no numbers: {exc}") from exc
    if values.ndim != 2 or len(values) != inputs or (classes and values.shape[1] != classes):
        raise TrainerError(f"{what} gave values {list(values.shape)}; expected [{inputs}, {classes or 'k'}]")
    _refuse_nonsense(values, prediction.meaning, what)
    models = _models(prediction, inputs, what)
    coarse = None if prediction.coarse is None else _coarse(prediction.coarse, inputs, what)
    return Prediction(values, prediction.meaning, float(prediction.threshold), *models, coarse)


def _models(
    prediction: Prediction, inputs: int, what: str
) -> tuple[tuple[str, ...], tuple[float, ...], float | None]:
    """Which model answered, and why, in plain numbers."""
    answered, why = tuple(prediction.answered), tuple(float(error) for error in prediction.why)
    if answered and (len(answered) != inputs or not set(answered) <= {"local", "global"}):
        raise TrainerError(f"{what} says which model answered in other words than {inputs} times local or global")
    if why and (len(why) != inputs or not all(map(math.isfinite, why))):
        raise TrainerError(f"{what} says why a model answered in other numbers than {inputs} finite ones")
    return answered, why, None if prediction.limit is None else float(prediction.limit)


def _coarse(coarse: InCoarse, inputs: int, what: str) -> InCoarse:
    """What a prediction means in another label space, as float32."""
    values = np.array(coarse.values, np.float32)
    if values.ndim != 2 or len(values) not in (0, inputs) or values.shape[1] != len(coarse.classes):
        where = f"{what} in {coarse.space!r}"
        raise TrainerError(f"{where} gave values {list(values.shape)}; expected [{inputs}, {len(coarse.classes)}]")
    _refuse_nonsense(values, "one_of", what)
    return replace(coarse, values=values)


def names_of_classes(classes: Sequence[str], values: Array) -> list[str]:
    """The classes' names, or their numbers where the trainer names none."""
    return list(classes) or [str(number) for number in range(values.shape[1])]


def predicted(prediction: Prediction, classes: Sequence[str]) -> list[Any]:
    """For each input the name of the class that wins; the list of names where several may hold."""
    if prediction.meaning == "any_of":
        chosen = prediction.values >= prediction.threshold
        return [[classes[int(column)] for column in np.flatnonzero(row)] for row in chosen]
    return [classes[int(column)] for column in prediction.values.argmax(axis=1)]


def _refuse_nonsense(values: Array, meaning: Meaning, what: str) -> None:
    if not np.isfinite(values).all():
        raise TrainerError(f"{what} gave numbers that are not finite")
    if meaning == "scores":
        return
    if values.size and not (values.min() >= -_SLACK and values.max() <= 1 + _SLACK):
        raise TrainerError(f"{what} gave probabilities outside [0, 1]; are they scores?")
    if meaning == "one_of" and (abs(values.sum(axis=1) - 1) > _SLACK).any():
        raise TrainerError(f"{what} gave probabilities that do not sum to 1; may several classes hold at once?")


def _spec_fields(spec: InputSpec, name: str) -> dict[str, Any]:
    what = f"input_spec of trainer {name}"
    if not isinstance(spec, InputSpec) or spec.kind not in _KINDS:
        raise TrainerError(f"{what} gave {spec!r}; expected an InputSpec of kind {', '.join(_KINDS)}")
    shape = tuple(int(side) for side in spec.shape)
    picture = len(shape) == 2 or (len(shape) == 3 and shape[2] in (1, 3))
    if min(shape, default=0) < 1 or not (picture if spec.kind == "image" else len(shape) == 1):
        raise TrainerError(f"{what} gave the shape {list(shape)} for an input of kind {spec.kind!r}")
    if spec.names and (len(set(spec.names)) != len(spec.names) or len(spec.names) != math.prod(shape)):
        raise TrainerError(f"{what} gave {len(spec.names)} names; expected {math.prod(shape)} different ones")
    return {
        "kind": spec.kind,
        "shape": list(shape),
        "low": _bound(spec.low, what),
        "high": _bound(spec.high, what),
        "names": [str(column) for column in spec.names],
        "hint": str(spec.hint),
    }


def _bound(value: float | None, what: str) -> float | None:
    if value is None:
        return None
    number = float(value)
    if not math.isfinite(number):
        raise TrainerError(f"{what} gave a bound of {number}; expected a finite number, or None for no bound")
    return number
