"""What a person wants judged, as JSON numbers: read into an array, and checked against the trainer's spec."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from flnet.errors import InputRefused
from flnet.params import Array
from flnet.training.api import InputSpec

MAX_INPUTS = 1000  # at once: a longer list would hold up the lane for everybody else


def read_inputs(values: Any, spec: InputSpec) -> Array:
    """Inputs (n, *spec.shape) as float32.

    Args:
        values: nested lists of numbers; an input may be an object by column name where the spec has names.

    Raises:
        InputRefused: none or too many, wrong shape, no numbers, not finite, or out of range.
    """
    if not isinstance(values, list) or not 1 <= len(values) <= MAX_INPUTS:
        came = f"{len(values)}" if isinstance(values, list) else f"a {type(values).__name__}"
        raise InputRefused(f"expected a list of 1 to {MAX_INPUTS} inputs, got {came}")
    rows = [_by_name(row, spec, place) if isinstance(row, Mapping) else row for place, row in enumerate(values)]
    return check_inputs(_numbers(rows, spec), spec)


def check_inputs(inputs: Array, spec: InputSpec) -> Array:
    """The same for an array: its shape, and that all is finite and in range.

    Raises:
        InputRefused: it is not.
    """
    if inputs.shape[1:] != spec.shape:
        raise InputRefused(f"inputs have shape {_shown(inputs.shape)}; expected {_shown(('n', *spec.shape))}")
    with np.errstate(over="ignore"):
        inputs = inputs.astype(np.float32)
    bad = ~np.isfinite(inputs)
    if bad.any():
        raise InputRefused(f"input {_place(bad, spec)} is not a finite number in float32")
    if spec.low is not None or spec.high is not None:
        low = -math.inf if spec.low is None else spec.low
        high = math.inf if spec.high is None else spec.high
        bad = (inputs < low) | (inputs > high)
        if bad.any():
            raise InputRefused(f"input {_place(bad, spec)} is {inputs[bad][0]:g}; expected {low:g} to {high:g}")
    return inputs


def _by_name(row: Mapping[str, Any], spec: InputSpec, place: int) -> list[Any]:
    if not spec.names:
        raise InputRefused(f"input {place} is an object; expected {_shown(spec.shape)} numbers in lists")
    missing = [name for name in spec.names if name not in row]
    unknown = sorted(row.keys() - set(spec.names))
    if missing or unknown:
        faults = [f"lacks {_some(missing)}"] * bool(missing) + [f"has unknown {_some(unknown)}"] * bool(unknown)
        raise InputRefused(f"input {place} {' and '.join(faults)}; the columns are {_some(spec.names)}")
    return [row[name] for name in spec.names]


def _numbers(rows: list[Any], spec: InputSpec) -> Array:
    try:
        found = np.asarray(rows)
    except ValueError as exc:  # lists of different lengths
        raise InputRefused(f"inputs are uneven; expected each of shape {_shown(spec.shape)}") from exc
    if found.dtype.kind not in "iuf":
        raise InputRefused(f"inputs hold something else than numbers; expected each of shape {_shown(spec.shape)}")
    return found


def _place(bad: Array, spec: InputSpec) -> str:
    first = [int(axis[0]) for axis in np.nonzero(bad)]
    if spec.names and len(first) == 2:
        return f"{first[0]}, column {spec.names[first[1]][:60]!r},"
    return str(first)


def _some(names: Sequence[str]) -> str:
    shown = ", ".join(repr(name[:60]) for name in names[:8])
    return f"{shown} and {len(names) - 8} more" if len(names) > 8 else shown


def _shown(shape: Sequence[Any]) -> str:
    return "[" + ", ".join(map(str, shape)) + "]"
