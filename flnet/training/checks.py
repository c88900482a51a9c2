"""What a trainer gives back is checked here, before anyone relies on it."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from pydantic import TypeAdapter, ValidationError

from flnet.errors import ParamsRefused, TrainerError
from flnet.events import Declaration
from flnet.explaining import explain
from flnet.messages import Agreement, HyperParams
from flnet.params import Array, Params, Schema, is_finite
from flnet.setting_types import check_merging_rule
from flnet.training.api import DataInfo, Fit, Score, Trainer
from flnet.training.offers import offered

_LONGEST_AGREED = 1500  # characters a key
_WIDEST = 8  # bytes a number: what the wire and the files can hold


def checked_params(arrays: Mapping[str, Any], what: str, *, copies: bool = True) -> Params:
    """The arrays a trainer gave; copies of them, so that it may go on using its own, unless told otherwise.

    Raises:
        TrainerError: none, names that are no text, no arrays of numbers, or numbers that are not finite.
    """
    if not isinstance(arrays, Mapping) or not arrays or not all(isinstance(name, str) and name for name in arrays):
        raise TrainerError(f"{what} gave no parameters: expected a mapping of names to arrays")
    try:
        params = Params({name: np.array(value, copy=copies or None) for name, value in arrays.items()})
    except (ParamsRefused, ValueError, TypeError) as exc:
        raise TrainerError(f"{what} gave no arrays of numbers: {exc}") from exc
    for name, value in params.items():
        if value.dtype.itemsize > _WIDEST:
            raise TrainerError(f"{what} gave {name!r} as {value.dtype}; expected at most {_WIDEST} bytes a number")
    return params


def checked_fit(fit: Fit, given: Mapping[str, Array], trainer: str, *, copies: bool = True) -> Fit:
    """What a training gave, with the dtypes of the parameters it began with.

    Raises:
        TrainerError: it diverged, or the names, shapes, dtypes or counts are wrong.
    """
    if not isinstance(fit, Fit):
        raise TrainerError(f"fit of trainer {trainer} gave a {type(fit).__name__}; expected a Fit")
    params = checked_params(fit.params, f"fit of trainer {trainer}", copies=copies)
    for name, value in params.items():
        if not _finite(value):
            raise TrainerError(
                f"training diverged: {name!r} has numbers that are not finite; try a smaller learning rate"
            )
    try:
        params = Schema.of(given).conform(params)
    except ParamsRefused as exc:
        raise TrainerError(f"fit of trainer {trainer} gave parameters that do not fit: {exc}") from exc
    examples = _count(fit.examples, f"fit of trainer {trainer}", "examples")
    labels = _count(fit.labels, f"fit of trainer {trainer}", "labels")
    return Fit(params, examples, labels, _figures(fit.metrics))


def checked_private(
    learnt: Mapping[str, Any], given: Mapping[str, Array], shared: Sequence[str] | None, trainer: str
) -> Params:
    """What private parameters became on a new average, with the dtypes that they had.

    Raises:
        TrainerError: it diverged, or there are others than private parameters, or their shapes are wrong.
    """
    what = f"personalise of trainer {trainer}"
    params = checked_params(learnt, what)
    private = {name: value for name, value in given.items() if shared is not None and name not in shared}
    odd = sorted(params.keys() - private.keys())
    if odd:
        raise TrainerError(f"{what} gave {', '.join(odd)}; expected private parameters only: {', '.join(private)}")
    for name, value in params.items():
        if not _finite(value):
            raise TrainerError(f"{what} diverged: {name!r} has numbers that are not finite")
    try:
        return Schema.of({name: private[name] for name in params}).conform(params)
    except ParamsRefused as exc:
        raise TrainerError(f"{what} gave parameters that do not fit: {exc}") from exc


def checked_score(score: Score, trainer: str) -> Score:
    """What a measurement gave.

    Raises:
        TrainerError: the accuracy is not in [0, 1], or a count is wrong.
    """
    what = f"evaluate of trainer {trainer}"
    if not isinstance(score, Score):
        raise TrainerError(f"{what} gave a {type(score).__name__}; expected a Score")
    try:
        accuracy = float(score.accuracy)
    except (TypeError, ValueError) as exc:
        raise TrainerError(f"{what} gave the accuracy {score.accuracy!r}; expected a number") from exc
    if not 0 <= accuracy <= 1:  # NaN is not either
        raise TrainerError(f"{what} gave the accuracy {accuracy:g}; expected 0 to 1")
    return Score(accuracy, _count(score.examples, what, "examples"), _figures(score.metrics))


def declared(trainer: Trainer, name: str, params: Params) -> Declaration:
    """What the mesh must know of a trainer with these initial parameters.

    Raises:
        TrainerError: a declaration of it has the wrong type, or names parameters that it does not have.
    """
    for key, value in params.items():
        if not _finite(value):
            raise TrainerError(f"trainer {name}: the initial {key!r} has numbers that are not finite")
    if not isinstance(trainer.defaults, HyperParams):
        raise TrainerError(f"trainer {name}: defaults is {trainer.defaults!r}; expected HyperParams(e, u, b)")
    shared = tuple(params) if trainer.shared is None else tuple(trainer.shared)
    unknown = sorted({*shared, *trainer.merge} - set(params))
    if unknown:
        raise TrainerError(
            f"trainer {name} declares {', '.join(unknown)} shared or merged; it has {', '.join(params)}"
        )
    threshold = float(trainer.exchange_threshold)
    if not 0 <= threshold <= 1:
        raise TrainerError(f"trainer {name}: exchange_threshold is {threshold:g}; expected 0 to 1")
    info = trainer.data_info()
    if not isinstance(info, DataInfo):
        raise TrainerError(f"data_info of trainer {name} gave a {type(info).__name__}; expected a DataInfo")
    merge = {key: rule for key, rule in trainer.merge.items() if key in shared}
    agreed = _as_agreement(trainer.agreement, name)
    label, offers = trainer.label or name, offered(trainer, name)
    words = (_as_data(info), agreed, offers, bool(trainer.personalises), trainer.turn, _merging(trainer, name))
    return Declaration(label, trainer.defaults, threshold, shared, merge, *words)


def _merging(trainer: Trainer, name: str) -> str:
    try:
        return check_merging_rule(trainer.merging) if trainer.merging else ""
    except ValueError as exc:
        raise TrainerError(f"trainer {name}: merging is {trainer.merging!r}: {exc}") from exc


def _as_data(info: DataInfo) -> dict[str, Any]:
    return {
        "source": str(info.source),
        "rows": {str(side): int(rows) for side, rows in info.rows.items()},
        "classes": [str(name) for name in info.classes],
        "sample": bool(info.sample),
        "note": str(info.note),
    }


def _as_agreement(agreement: Mapping[str, str], trainer: str) -> dict[str, str]:
    """Short words for the wire: of long ones the beginning and a digest, which still differs where they do."""
    short = {str(key): _shortened(str(words)) for key, words in agreement.items()}
    try:
        return dict(TypeAdapter(Agreement).validate_python(short))
    except ValidationError as exc:
        raise TrainerError(f"trainer {trainer}: agreement cannot be told to others: {explain(exc)}") from exc


def _shortened(words: str) -> str:
    if len(words) <= _LONGEST_AGREED:
        return words
    digest = hashlib.sha256(words.encode()).hexdigest()[:16]
    return f"{words[: _LONGEST_AGREED - 80]} ... ({len(words)} characters, SHA-256 {digest})"


def _finite(value: Array) -> bool:
    return value.dtype.kind != "f" or is_finite(value)


def _count(value: Any, what: str, name: str) -> int:
    try:
        count = int(value)
    except (TypeError, ValueError, OverflowError) as exc:
        raise TrainerError(f"{what} gave {value!r} {name}; expected a whole number") from exc
    if count < 0:
        raise TrainerError(f"{what} gave {count} {name}; expected 0 or more")
    return count


def _figures(metrics: Mapping[str, Any]) -> dict[str, float]:
    """The metrics that are numbers: one that is not must not spoil a good training."""
    figures = {}
    for name, value in metrics.items():
        try:
            number = float(value)
        except (TypeError, ValueError):
            continue
        if math.isfinite(number):
            figures[str(name)] = number
    return figures
