"""Predictions: what a trainer offers, the inputs that people send, and the check of the result.

Inputs come as JSON numbers or as a PNG or JPEG file. Pictures are decoded in the training child, because a decoder of
images may crash.
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, get_args

import numpy as np

from flnet.compute.export import formats_of, which_alone
from flnet.datasets.pictures import Colour, Unreadable, decoded
from flnet.datasets.tables import ABSENT
from flnet.errors import DataMissing, InputRefused, NotOffered, TrainerError
from flnet.params.params import Array
from flnet.text import composed, text
from flnet.trainer import InCoarse, InputSpec, Kind, Meaning, Prediction, Trainer

_KINDS = ("image", "features", "table")
_DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+")
_SLACK = 1e-3  # by which probabilities in float16 may miss [0, 1], or their sum 1


def offered(trainer: Trainer, name: str) -> dict[str, Any]:
    """The `offers` of a declaration, as JSON-ready data; see `flnet.protocol.events.Declaration`.

    Raises:
        TrainerError: what the trainer says of its inputs makes no sense.
    """
    spec = trainer.input_spec()
    return {
        "inputs": None if spec is None else _spec_fields(spec, name),
        "scale": [] if spec is None else _scale(spec, name),
        "scale_is_own": spec is not None and bool(spec.scale_is_own),
        "formats": formats_of(trainer),
        "alone": which_alone(trainer),
        "predicts": _meaning(trainer, name),
        "threshold": float(trainer.label_threshold),
        "finds": _kind(trainer, name),
        "note": str(trainer.note),
        "licence": str(trainer.licence),
        "counts": {str(side): [int(n) for n in counts] for side, counts in trainer.data_info().counts.items()},
        "checksum": str(trainer.data_info().checksum),
        "parts": [[int(n) for n in counts] for counts in trainer.data_info().parts],
    }


def _kind(trainer: Trainer, name: str) -> str:
    if trainer.finds not in get_args(Kind):
        raise TrainerError(
            text(
                "trainer {trainer}: finds is {value}; expected labels or groups, or nothing",
                name,
                repr(trainer.finds),
            )
        )
    return trainer.finds


def _meaning(trainer: Trainer, name: str) -> str:
    if trainer.predicts is not None and trainer.predicts not in get_args(Meaning):
        raise TrainerError(
            text(
                "trainer {trainer}: predicts is {value}; expected {expected}, or nothing",
                name,
                repr(trainer.predicts),
                ", ".join(get_args(Meaning)),
            )
        )
    return trainer.predicts or ""


def spec_of(offers: Mapping[str, Any]) -> InputSpec | None:
    """The `InputSpec` in the `offers` of a declaration; None if there is none."""
    fields = offers.get("inputs")
    if fields is None:
        return None
    lists = {name: tuple(fields[name]) for name in ("shape", "names", "ignored", "no_value") if name in fields}
    return InputSpec(**{**fields, **lists})


def checked_prediction(
    prediction: Prediction, inputs: int, classes: int, trainer: str, declared: Trainer | None = None
) -> Prediction:
    """A trainer's prediction, checked, as float32.

    Args:
        inputs: number of inputs.
        classes: how many the trainer's data have; 0 if it names none.
        declared: who may say what all its predictions mean.

    Raises:
        TrainerError: wrong type, shape or meaning, not as declared, not finite, or no probabilities where it says so.
    """
    what = text("predict of trainer {trainer}", trainer)
    if not isinstance(prediction, Prediction) or prediction.meaning not in get_args(Meaning):
        raise TrainerError(text("{where} gave a {kind}; expected a Prediction", what, type(prediction).__name__))
    try:
        values = np.array(prediction.values, np.float32)
    except (TypeError, ValueError) as exc:
        raise TrainerError(text("{where} gave no numbers: {reason}", what, exc)) from exc
    if values.ndim != 2 or len(values) != inputs or (classes and values.shape[1] != classes):
        raise TrainerError(
            text(
                "{where} gave values {shape}; expected [{rows}, {columns}]",
                what,
                list(values.shape),
                inputs,
                classes or "k",
            )
        )
    _refuse_nonsense(values, prediction.meaning, what)
    if declared is not None:
        _refuse_another_meaning(prediction, declared, what)
    models = _models(prediction, inputs, what)
    coarse = None if prediction.coarse is None else _coarse(prediction.coarse, inputs, what)
    return Prediction(values, prediction.meaning, float(prediction.threshold), *models, coarse)


def _models(
    prediction: Prediction, inputs: int, what: str
) -> tuple[tuple[str, ...], tuple[float, ...], float | None]:
    """The fields that say which model answered and why, checked."""
    answered, why = tuple(prediction.answered), tuple(float(error) for error in prediction.why)
    if answered and (len(answered) != inputs or not set(answered) <= {"local", "global"}):
        raise TrainerError(
            text(
                "{where} says which model answered in other words than {count} times local or global", what, inputs
            )
        )
    if why and (len(why) != inputs or not all(map(math.isfinite, why))):
        raise TrainerError(
            text("{where} says why a model answered in other numbers than {count} finite ones", what, inputs)
        )
    return answered, why, None if prediction.limit is None else float(prediction.limit)


def _coarse(coarse: InCoarse, inputs: int, what: str) -> InCoarse:
    """The prediction in another label space, checked, as float32."""
    values = np.array(coarse.values, np.float32)
    if values.ndim != 2 or len(values) not in (0, inputs) or values.shape[1] != len(coarse.classes):
        where = f"{what} in {coarse.space!r}"
        raise TrainerError(
            text(
                "{where} gave values {shape}; expected [{rows}, {columns}]",
                where,
                list(values.shape),
                inputs,
                len(coarse.classes),
            )
        )
    _refuse_nonsense(values, "one_of", what)
    return replace(coarse, values=values)


def names_of_classes(classes: Sequence[str], values: Array) -> list[str]:
    """The classes' names, or their numbers where the trainer names none."""
    return list(classes) or [str(number) for number in range(values.shape[1])]


def predicted(prediction: Prediction, classes: Sequence[str]) -> list[Any]:
    """The name of the predicted class for each input; a list of names if several classes may apply."""
    if prediction.meaning == "any_of":
        chosen = prediction.values >= prediction.threshold
        return [[classes[int(column)] for column in np.flatnonzero(row)] for row in chosen]
    return [classes[int(column)] for column in prediction.values.argmax(axis=1)]


def _refuse_another_meaning(prediction: Prediction, declared: Trainer, what: str) -> None:
    """What a card says of predictions must hold for them."""
    if declared.predicts not in (None, prediction.meaning):
        raise TrainerError(
            text(
                "{where} gave {meaning}; the trainer's attribute predicts says {declared}",
                what,
                prediction.meaning,
                declared.predicts,
            )
        )
    if declared.predicts == "any_of" and float(prediction.threshold) != float(declared.label_threshold):
        raise TrainerError(
            text(
                "{where} gave the threshold {threshold}; the trainer's attribute label_threshold says {declared}",
                what,
                f"{prediction.threshold:g}",
                f"{declared.label_threshold:g}",
            )
        )


def _refuse_nonsense(values: Array, meaning: Meaning, what: str) -> None:
    if not np.isfinite(values).all():
        raise TrainerError(text("{where} gave numbers that are not finite", what))
    if meaning == "scores":
        return
    if values.size and not (values.min() >= -_SLACK and values.max() <= 1 + _SLACK):
        raise TrainerError(text("{where} gave probabilities outside [0, 1]; are they scores?", what))
    if meaning == "one_of" and (abs(values.sum(axis=1) - 1) > _SLACK).any():
        raise TrainerError(
            text("{where} gave probabilities that do not sum to 1; may several classes hold at once?", what)
        )


def _spec_fields(spec: InputSpec, name: str) -> dict[str, Any]:
    what = text("input_spec of trainer {trainer}", name)
    if not isinstance(spec, InputSpec) or spec.kind not in _KINDS:
        raise TrainerError(
            text(
                "{where} gave {value}; expected an InputSpec of kind {kinds}", what, repr(spec), ", ".join(_KINDS)
            )
        )
    shape = tuple(int(side) for side in spec.shape)
    picture = len(shape) == 2 or (len(shape) == 3 and shape[2] in (1, 3))
    if min(shape, default=0) < 1 or not (picture if spec.kind == "image" else len(shape) == 1):
        raise TrainerError(
            text("{where} gave the shape {shape} for an input of kind {kind}", what, list(shape), repr(spec.kind))
        )
    if spec.names and (len(set(spec.names)) != len(spec.names) or len(spec.names) != math.prod(shape)):
        raise TrainerError(
            text(
                "{where} gave {value} names; expected {expected} different ones",
                what,
                len(spec.names),
                math.prod(shape),
            )
        )
    return {
        "kind": spec.kind,
        "shape": list(shape),
        "low": _bound(spec.low, what),
        "high": _bound(spec.high, what),
        "names": [str(column) for column in spec.names],
        "hint": str(spec.hint),
        **({"ignored": [str(column) for column in spec.ignored]} if spec.ignored else {}),
        **({"gaps": True} if spec.gaps else {}),
        **({"no_value": [str(word) for word in spec.no_value]} if spec.no_value else {}),
        **({"decimal": ","} if spec.decimal == "," else {}),
    }


def _scale(spec: InputSpec, name: str) -> list[list[float]]:
    """Mean and spread of each column; they are no part of `inputs`, which everybody sees."""
    pairs = [[float(mean), float(spread)] for mean, spread in spec.scale]
    if pairs and (
        len(pairs) != math.prod(spec.shape) or not all(math.isfinite(n) for pair in pairs for n in pair)
    ):
        raise TrainerError(
            text(
                "input_spec of trainer {trainer} gave {count} scales; expected {expected} pairs of finite numbers",
                name,
                len(pairs),
                math.prod(spec.shape),
            )
        )
    return pairs


def _bound(value: float | None, what: str) -> float | None:
    if value is None:
        return None
    number = float(value)
    if not math.isfinite(number):
        raise TrainerError(
            text("{where} gave a bound of {value}; expected a finite number, or None for no bound", what, number)
        )
    return number


MAX_INPUTS = 1000  # at once: a longer list would hold up the compute queue for everybody else


def read_inputs(values: Any, spec: InputSpec) -> Array:
    """Inputs (n, *spec.shape) as float32.

    Args:
        values: nested lists of numbers; where the spec has names, an input may be an object by column name, as
            a row of the data set: with a word for the columns of its words, and with columns that are no input.

    Raises:
        InputRefused: none or too many, wrong shape, no numbers, not finite, or out of range.
    """
    if not isinstance(values, list) or not 1 <= len(values) <= MAX_INPUTS:
        came = f"{len(values)}" if isinstance(values, list) else f"a {type(values).__name__}"
        raise InputRefused(text("expected a list of 1 to {most} inputs, got {got}", MAX_INPUTS, came))
    rows = [_by_name(row, spec, place) if isinstance(row, Mapping) else row for place, row in enumerate(values)]
    return check_inputs(_numbers(rows, spec), spec)


def check_inputs(inputs: Array, spec: InputSpec) -> Array:
    """Check the shape of an array of inputs, and that all numbers are finite and in range.

    Raises:
        InputRefused: it is not.
    """
    if inputs.shape[1:] != spec.shape:
        raise InputRefused(
            text(
                "inputs have shape {shape}; expected {expected}", _shown(inputs.shape), _shown(("n", *spec.shape))
            )
        )
    with np.errstate(over="ignore"):
        inputs = inputs.astype(np.float32)
    bad = ~np.isfinite(inputs) & ~(np.isnan(inputs) & spec.gaps)
    if bad.any():
        raise InputRefused(text("input {place} is not a finite number in float32", _place(bad, spec)))
    if spec.low is not None or spec.high is not None:
        low = -math.inf if spec.low is None else spec.low
        high = math.inf if spec.high is None else spec.high
        bad = (inputs < low) | (inputs > high)
        if bad.any():
            raise InputRefused(
                text(
                    "input {place} is {value}; expected {low} to {high}",
                    _place(bad, spec),
                    f"{inputs[bad][0]:g}",
                    f"{low:g}",
                    f"{high:g}",
                )
            )
    return inputs


def words_of(names: Sequence[str]) -> Mapping[str, Sequence[str]]:
    """Columns of words, which the names contain as "sex=f" and "sex=m", with their words."""
    return _words_of(tuple(names))


def columns_of(names: Sequence[str]) -> Mapping[str, Sequence[str]]:
    """The columns of the file behind these names, in their order, each with its words; without any for numbers."""
    words = words_of(names)
    columns = (column if (column := name.partition("=")[0]) in words else name for name in names)
    return {column: words.get(column, ()) for column in columns}


@lru_cache(maxsize=16)  # it is asked for each row
def _words_of(names: tuple[str, ...]) -> Mapping[str, Sequence[str]]:
    known = set(names)
    columns: dict[str, list[str]] = {}
    for name in names:
        column, equals, word = name.partition("=")
        if equals and column and column not in known:
            columns.setdefault(column, []).append(word)
    return columns


def _by_name(row: Mapping[str, Any], spec: InputSpec, place: int) -> list[Any]:
    if spec.kind == "image":
        raise InputRefused(
            text(
                "input {place} is a row with named columns; this trainer takes pictures, or {count} numbers in lists",
                place,
                _shown(spec.shape),
            )
        )
    if not spec.names:
        raise InputRefused(
            text("input {place} is an object; expected {count} numbers in lists", place, _shown(spec.shape))
        )
    try:
        row = {composed(name): composed(value) if isinstance(value, str) else value for name, value in row.items()}
    except ValueError as exc:
        raise InputRefused(text("input {place}: {reason}", place, exc)) from exc
    words = {column: told for column, told in words_of(spec.names).items() if column in row}
    inputs = {f"{column}={word}" for column, told in words.items() for word in told}
    missing = [name for name in spec.names if name not in row and name not in inputs]
    unknown = sorted(row.keys() - {*spec.names, *spec.ignored, *words})
    if missing or unknown:
        raise InputRefused(_unlike_the_file(missing, unknown, row, spec, place))
    chosen = {column: _word(row[column], column, told, spec, place) for column, told in words.items()}
    return [
        _cell(row[name], name, spec, place)
        if name in row
        else float(chosen[name.partition("=")[0]] == name.partition("=")[2])
        for name in spec.names
    ]


def _unlike_the_file(
    missing: Sequence[str], unknown: Sequence[str], row: Mapping[str, Any], spec: InputSpec, place: int
) -> str:
    columns, lacking = _some(list(columns_of(spec.names))), _lacking(missing, row, spec)
    if not unknown:
        return text("input {place} lacks {names}; the columns are {columns}", place, lacking, columns)
    said = text("has unknown {names}", _some(unknown))
    said = text("{one} and {other}", text("lacks {names}", lacking), said) if missing else said
    return text("input {place} {words}; the columns are {columns}", place, said, columns)


def _lacking(missing: Sequence[str], row: Mapping[str, Any], spec: InputSpec) -> str:
    """Missing columns as they are called in the file, those of words with their words.

    Who sent a column for each word is told which of these is missing.
    """
    words, sent = words_of(spec.names), {name.partition("=")[0] for name in row}
    lacking: dict[str, str] = {}
    for name in missing:
        column = name.partition("=")[0]
        if column in words and column not in sent:
            lacking[column] = f"{column[:60]!r} ({_some(words[column])})"
        else:
            lacking[name] = repr(name[:60])
    return _first_of(list(lacking.values()))


def _cell(value: Any, name: str, spec: InputSpec, place: int) -> Any:
    """A number of a row; NaN where one is missing and may be. What JSON has for a number is checked later."""
    if is_absent(value, spec.no_value):
        if spec.gaps:
            return math.nan
        raise InputRefused(text("input {place}, column {name}, has no value", place, repr(name[:60])))
    if isinstance(value, str) and spec.decimal == "," and _DECIMAL_COMMA.fullmatch(value.strip()):
        return float(value.replace(",", "."))
    if isinstance(value, str):
        raise InputRefused(
            text(
                "input {place}, column {name}, is {value}; expected a number",
                place,
                repr(name[:60]),
                repr(value[:40]),
            )
        )
    return value


def _word(value: Any, column: str, words: Sequence[str], spec: InputSpec, place: int) -> str | None:
    """Which of the words a row has; None where it is missing and may be."""
    if isinstance(value, str) and value.strip() in words:
        return value.strip()
    if isinstance(value, int | float) and (alike := [word for word in words if _is_number(word, value)]):
        return alike[0]
    if is_absent(value, spec.no_value) and spec.gaps:
        return None
    raise InputRefused(
        text(
            "input {place}, column {name}, is {value}; expected one of {expected}",
            place,
            repr(column[:60]),
            repr(value)[:40],
            _some(words),
        )
    )


def _is_number(word: str, value: float) -> bool:
    """Whether a word is this number: who read the row from a file need not know which columns hold words."""
    try:
        return float(word) == value
    except ValueError:
        return False


def is_absent(value: Any, no_value: Sequence[str] = ()) -> bool:
    """Whether a cell has no value; `no_value` are further words for that."""
    return value is None or (isinstance(value, str) and (value.strip() in ABSENT or value.strip() in no_value))


def _numbers(rows: list[Any], spec: InputSpec) -> Array:
    try:
        array = np.asarray(rows)
    except ValueError as exc:  # lists of different lengths
        raise InputRefused(text("inputs are uneven; expected each of shape {shape}", _shown(spec.shape))) from exc
    if array.dtype.kind not in "iuf":
        raise InputRefused(
            text("inputs hold something else than numbers; expected each of shape {shape}", _shown(spec.shape))
        )
    return array


def _place(bad: Array, spec: InputSpec) -> str:
    first = [int(axis[0]) for axis in np.nonzero(bad)]
    if spec.names and len(first) == 2:
        return f"{first[0]}, column {spec.names[first[1]][:60]!r},"
    return str(first)


def _some(names: Sequence[str]) -> str:
    return _first_of([repr(name[:60]) for name in names])


def _first_of(words: Sequence[str]) -> str:
    shown = ", ".join(words[:8])
    return text("{names} and {count} more", shown, len(words) - 8) if len(words) > 8 else shown


def _shown(shape: Sequence[Any]) -> str:
    return "[" + ", ".join(map(str, shape)) + "]"


MAX_BYTES = 8 * 1024 * 1024  # of a file
MAX_PIXELS = 40_000_000  # of a picture: a few kilobytes can stand for any number of them


def picture_input(data: bytes, spec: InputSpec) -> Array:
    """The picture squeezed to the spec's size, (1, *spec.shape) float32, in the spec's range (else 0 to 255).

    Raises:
        InputRefused: no PNG or JPEG, damaged, too large, or the trainer does not take pictures.
        NotOffered: Pillow is not installed.
    """
    if spec.kind != "image":
        raise InputRefused(
            text("this trainer takes {kind} of shape {shape}, no pictures", spec.kind, list(spec.shape))
        )
    if not 0 < len(data) <= MAX_BYTES:
        raise InputRefused(text("the picture has {count} bytes; expected 1 to {most}", len(data), MAX_BYTES))
    height, width = spec.shape[:2]
    colour: Colour = "rgb" if spec.shape[2:] == (3,) else "grey"
    try:
        pixels = decoded(io.BytesIO(data), (width, height), colour, most=MAX_PIXELS)
    except Unreadable as exc:
        raise InputRefused(text("the picture cannot be read: {reason}", exc)) from exc
    except DataMissing as exc:
        raise NotOffered(text("{reason}; send numbers as inputs", exc.missing)) from exc
    low = 0.0 if spec.low is None else spec.low
    high = 255.0 if spec.high is None else spec.high
    return (low + (high - low) * (pixels.astype(np.float32) / 255)).reshape(1, *spec.shape).astype(np.float32)
