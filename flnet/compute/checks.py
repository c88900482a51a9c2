"""Checks of everything a trainer returns, and of what it declares, before anything relies on it.

`in_words` turns a trainer's exception into one line for people.
"""

from __future__ import annotations

import hashlib
import math
import operator
import sysconfig
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import TypeAdapter, ValidationError

from flnet.algorithms.registry import check_rule
from flnet.algorithms.wrapper import usual_buffers
from flnet.compute.prediction import offered
from flnet.errors import ParamsRefused, TrainerError
from flnet.params.params import Array, Params, Schema, is_finite
from flnet.protocol.counts import MOST_EXAMPLES, MOST_GROUPS, EvaluationCounts, GroupAccuracy, check_agreement
from flnet.protocol.events import Declaration, Split
from flnet.protocol.messages import Agreement, HyperParams, explain
from flnet.rounds.limits import BATCH_SIZE, BATCHES, EPOCHS, LEARNING_RATE
from flnet.text import text
from flnet.trainer import DataInfo, Fit, NoisySteps, RowPrivacy, Score, Trainer

MOST_TRAINED, MOST_LABELS = 10**12, 10**6  # examples and labels of an update, as its message may state them
_LONGEST_AGREED = 1500  # characters a key
_WIDEST = 8  # bytes a number: what the wire and the files can hold


def checked_params(arrays: Mapping[str, Any], what: str, *, copies: bool = True) -> Params:
    """The arrays that a trainer returned; by default copies, so that the trainer may go on using its own.

    Raises:
        TrainerError: none, names that are no text, no arrays of numbers, or numbers that are not finite.
    """
    if not isinstance(arrays, Mapping) or not arrays or not all(isinstance(name, str) and name for name in arrays):
        raise TrainerError(text("{where} gave no parameters: expected a mapping of names to arrays", what))
    try:
        params = Params({name: np.array(value, copy=copies or None) for name, value in arrays.items()})
    except (ParamsRefused, ValueError, TypeError) as exc:
        raise TrainerError(text("{where} gave no arrays of numbers: {reason}", what, exc)) from exc
    for name, value in params.items():
        if value.dtype.itemsize > _WIDEST:
            raise TrainerError(
                text(
                    "{where} gave {name} as {dtype}; expected at most {most} bytes a number",
                    what,
                    repr(name),
                    value.dtype,
                    _WIDEST,
                )
            )
    return params


def checked_fit(
    fit: Fit,
    given: Mapping[str, Array],
    trainer: str,
    row_privacy: RowPrivacy | None = None,
    *,
    copies: bool = True,
) -> Fit:
    """The result of a training, with the dtypes of the parameters it started from.

    Args:
        row_privacy: how it was asked to hide each single row.

    Raises:
        TrainerError: it diverged, or the names, shapes, dtypes or counts are wrong, or it was to hide single rows and
            does not say what it did for that.
    """
    if not isinstance(fit, Fit):
        raise TrainerError(
            text("fit of trainer {trainer} gave a {kind}; expected a Fit", trainer, type(fit).__name__)
        )
    params = checked_params(fit.params, text("fit of trainer {trainer}", trainer), copies=copies)
    for name, value in params.items():
        if not _finite(value):
            raise TrainerError(
                text(
                    "training diverged: {name} has numbers that are not finite; try a smaller learning rate",
                    repr(name),
                )
            )
    try:
        params = Schema.of(given).conform(params)
    except ParamsRefused as exc:
        raise TrainerError(
            text("fit of trainer {trainer} gave parameters that do not fit: {reason}", trainer, exc)
        ) from exc
    examples = _count(fit.examples, text("fit of trainer {trainer}", trainer), "examples", MOST_TRAINED)
    labels = _count(fit.labels, text("fit of trainer {trainer}", trainer), "labels", MOST_LABELS)
    noisy = None if row_privacy is None else _noisy(fit.noisy, trainer)
    return Fit(params, examples, labels, _figures(fit.metrics), noisy)


def _noisy(noisy: Any, trainer: str) -> NoisySteps:
    """What a training did to hide single rows, as far as it can be true."""
    try:
        rate, steps = float(noisy.sampling_rate), operator.index(noisy.steps)
    except (AttributeError, TypeError, ValueError) as exc:
        raise TrainerError(
            text(
                "fit of trainer {trainer} was asked to hide single rows and gave noisy={value}; expected "
                "NoisySteps(sampling_rate, steps) of what it did",
                trainer,
                repr(noisy),
            )
        ) from exc
    if not 0 < rate <= 1 or steps < 1:
        raise TrainerError(
            text(
                "fit of trainer {trainer} gave the sampling rate {rate} and {steps} noisy steps; expected a rate "
                "above 0 and up to 1, and 1 step or more",
                trainer,
                f"{rate:g}",
                steps,
            )
        )
    return NoisySteps(rate, steps)


def checked_private(
    learned: Mapping[str, Any], given: Mapping[str, Array], shared: Sequence[str] | None, trainer: str
) -> Params:
    """Private parameters after they learned from a new average, with the dtypes that they had.

    Raises:
        TrainerError: it diverged, or there are others than private parameters, or their shapes are wrong.
    """
    what = text("personalise of trainer {trainer}", trainer)
    params = checked_params(learned, what)
    private = {name: value for name, value in given.items() if shared is not None and name not in shared}
    odd = sorted(params.keys() - private.keys())
    if odd:
        raise TrainerError(
            text(
                "{where} gave {name}; expected private parameters only: {names}",
                what,
                ", ".join(odd),
                ", ".join(private),
            )
        )
    for name, value in params.items():
        if not _finite(value):
            raise TrainerError(text("{where} diverged: {name} has numbers that are not finite", what, repr(name)))
    try:
        return Schema.of({name: private[name] for name in params}).conform(params)
    except ParamsRefused as exc:
        raise TrainerError(text("{where} gave parameters that do not fit: {reason}", what, exc)) from exc


def checked_score(score: Score, trainer: str, split: Split = "test") -> Score:
    """The result of an evaluation on this split.

    Raises:
        TrainerError: the accuracy is not in [0, 1], or a count is wrong.
    """
    asked = text("evaluate of trainer {trainer}", trainer)
    what = asked if split == "test" else text("validation_score of trainer {trainer}", trainer)
    if not isinstance(score, Score):
        raise TrainerError(text("{where} gave a {kind}; expected a Score", what, type(score).__name__))
    try:
        accuracy = float(score.accuracy)
    except (TypeError, ValueError) as exc:
        raise TrainerError(
            text("{where} gave the accuracy {value}; expected a number", what, repr(score.accuracy))
        ) from exc
    if not 0 <= accuracy <= 1:  # NaN is not either
        raise TrainerError(text("{where} gave the accuracy {value}; expected 0 to 1", what, f"{accuracy:g}"))
    examples = _count(score.examples, what, "examples", MOST_EXAMPLES)
    if score.counts is not None and not isinstance(score.counts, EvaluationCounts):
        raise TrainerError(
            text("{where} gave a {kind}; expected EvaluationCounts", what, type(score.counts).__name__)
        )
    try:
        check_agreement(accuracy, examples, score.counts)
    except ValueError as exc:
        raise TrainerError(text("{where}: {reason}", what, exc)) from exc
    groups = score.groups
    if len(groups) > MOST_GROUPS or not all(isinstance(group, GroupAccuracy) for group in groups):
        raise TrainerError(
            text("{where} gave groups that are no GroupAccuracy, or more than {most}", what, MOST_GROUPS)
        )
    if len({group.name for group in groups}) < len(groups) or any(group.examples > examples for group in groups):
        raise TrainerError(
            text("{where} gave a group twice, or one with more rows than the {count} examples", what, examples)
        )
    return Score(accuracy, examples, _figures(score.metrics), split, score.counts, tuple(groups))


def declared(trainer: Trainer, name: str, params: Params) -> Declaration:
    """The declaration of a trainer with these initial parameters.

    Raises:
        TrainerError: a declaration of it has the wrong type, or names parameters that it does not have.
    """
    for key, value in params.items():
        if not _finite(value):
            raise TrainerError(
                text("trainer {name}: the initial {key} has numbers that are not finite", name, repr(key))
            )
    if not isinstance(trainer.defaults, HyperParams):
        raise TrainerError(
            text(
                "trainer {name}: defaults is {value}; expected HyperParams(e, u, b)", name, repr(trainer.defaults)
            )
        )
    shared = tuple(params) if trainer.shared is None else tuple(trainer.shared)
    unknown = sorted({*shared, *trainer.merge, *trainer.buffers} - set(params))
    if unknown:
        raise TrainerError(
            text(
                "trainer {name} declares {names} shared, merged or buffers; it has {known}",
                name,
                ", ".join(unknown),
                ", ".join(params),
            )
        )
    threshold = float(trainer.exchange_threshold)
    if not 0 <= threshold <= 1:
        raise TrainerError(
            text("trainer {name}: exchange_threshold is {value}; expected 0 to 1", name, f"{threshold:g}")
        )
    info = trainer.data_info()
    if not isinstance(info, DataInfo):
        raise TrainerError(
            text("data_info of trainer {name} gave a {kind}; expected a DataInfo", name, type(info).__name__)
        )
    merge = {key: rule for key, rule in trainer.merge.items() if key in shared}
    agreed = _as_agreement(trainer.agreement, name)
    label, offers = trainer.label or name, offered(trainer, name)
    words = (data_fields(info), agreed, offers, bool(trainer.personalises), trainer.turn, _merging(trainer, name))
    buffers = tuple(key for key in trainer.buffers or usual_buffers(params) if key in shared)
    return Declaration(label, trainer.defaults, threshold, shared, merge, *words, _limits(trainer, name), buffers)


def _limits(trainer: Trainer, name: str) -> dict[str, float]:
    """The trainer's own limits for what other nodes may ask of it."""
    limits = dict(trainer.limits)
    if not all(_is_limit(key, most) for key, most in limits.items()):
        raise TrainerError(
            text(
                "trainer {name}: limits is {value}; expected whole numbers above 0 for some of {known}, or a number "
                "above 0 for learning_rate",
                name,
                repr(limits),
                ", ".join((EPOCHS, BATCH_SIZE, BATCHES)),
            )
        )
    return limits


def _is_limit(key: str, most: float) -> bool:
    kinds = (int, float) if key == LEARNING_RATE else (int,)
    is_known = key in (EPOCHS, BATCH_SIZE, BATCHES, LEARNING_RATE)
    return is_known and type(most) in kinds and 0 < most < math.inf


def _merging(trainer: Trainer, name: str) -> str:
    try:
        return check_rule(trainer.merging) if trainer.merging else ""
    except ValueError as exc:
        raise TrainerError(
            text("trainer {trainer}: merging is {value}: {reason}", name, repr(trainer.merging), exc)
        ) from exc


def data_fields(info: DataInfo) -> dict[str, Any]:
    """What everybody may know of a trainer's data, as JSON-ready data."""
    return {
        "source": str(info.source),
        "rows": {str(side): int(rows) for side, rows in info.rows.items()},
        "classes": [str(name) for name in info.classes],
        "sample": bool(info.sample),
        "note": str(info.note),
        **({"common_test": str(info.common_test)} if info.common_test else {}),
    }


def _as_agreement(agreement: Mapping[str, str], trainer: str) -> dict[str, str]:
    """The agreement in a form short enough to send: long values become their beginning and a digest."""
    short = {str(key): _shortened(str(words)) for key, words in agreement.items()}
    try:
        return dict(TypeAdapter(Agreement).validate_python(short))
    except ValidationError as exc:
        raise TrainerError(
            text("trainer {name}: agreement cannot be told to others: {reason}", trainer, explain(exc))
        ) from exc


def _shortened(words: str) -> str:
    if len(words) <= _LONGEST_AGREED:
        return words
    digest = hashlib.sha256(words.encode()).hexdigest()[:16]
    return f"{words[: _LONGEST_AGREED - 80]} ... ({len(words)} characters, SHA-256 {digest})"


def _finite(value: Array) -> bool:
    return value.dtype.kind != "f" or is_finite(value)


def _count(value: Any, what: str, name: str, most: int) -> int:
    try:
        count = int(value)
    except (TypeError, ValueError, OverflowError) as exc:
        raise TrainerError(
            text("{where} gave {value} {name}; expected a whole number", what, repr(value), name)
        ) from exc
    if count < 0:
        raise TrainerError(text("{where} gave {value} {name}; expected 0 or more", what, count, name))
    if count > most:
        raise TrainerError(text("{where} gave {value} {name}; expected at most {most}", what, count, name, most))
    return count


def _figures(metrics: Mapping[str, Any]) -> dict[str, float]:
    """The metrics that are finite numbers; others are dropped, because they must not spoil a good training."""
    figures = {}
    for name, value in metrics.items():
        try:
            number = float(value)
        except (TypeError, ValueError):
            continue
        if math.isfinite(number):
            figures[str(name)] = number
    return figures


_LONGEST = 500
_LIBRARIES = (
    str(Path(__file__).parent),
    "<frozen",
    *(sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")),
)


def in_words(fault: BaseException, what: str) -> str:
    """`what`, the last line of the traceback, and the innermost place that is not in a library."""
    last = traceback.format_exception_only(fault)[-1].strip()
    frames = [f for f in traceback.extract_tb(fault.__traceback__) if not f.filename.startswith(_LIBRARIES)]
    where = f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})" if frames else ""
    return text("{what}: {reason}", what, f"{last[:_LONGEST]}{where}")
