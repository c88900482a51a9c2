"""Named arrays and their schema: the one place that knows dtypes, key order, memory and digests.

Parameters travel between nodes, are averaged and are compared by digest, so three things must never
depend on who holds them: the order in which names are visited (always sorted), the order in which
updates are summed (always by peer id, in float64) and the bytes that a digest covers (names, shapes,
dtypes and little-endian contents).
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, NewType, Protocol

import numpy as np
from blake3 import blake3
from numpy.typing import NDArray

from flnet.errors import ParamsRefused
from flnet.names import names_differ
from flnet.text import text

Array = NDArray[Any]
PeerId = NewType("PeerId", str)
TrainerId = NewType("TrainerId", str)
Digest = NewType("Digest", str)
MergeRule = Literal["mean", "max", "min", "control"]  # "control": by the aggregation rule that knows what it is

_BLOCK = 131_072  # numbers that one check looks at, so that what it writes stays in a core's cache
_STANDS_FOR = {"f": "f", "i": "iuf", "u": "iuf", "b": "b"}  # kind that came -> kinds that it may stand for
_KINDS = "fiub"  # floats, signed and unsigned integers, booleans: nothing that could hold an object


class Rng(Protocol):
    """A seeded random generator, such as random.Random; the core has none of its own and gets one passed in."""

    def random(self) -> float:
        """A number in [0, 1)."""
        ...


class Params(Mapping[str, Array]):
    """An immutable mapping of names to read-only, C-contiguous arrays; equal when all bytes are equal."""

    def __init__(self, arrays: Mapping[str, Any] | None = None) -> None:
        """Take over `arrays`; an array that is writable is guarded by a read-only view, not copied."""
        self._arrays = {name: _frozen(name, value) for name, value in (arrays or {}).items()}
        self._conforms_to: Schema | None = None  # the schema that found nothing wrong with them last
        self._conformed: Params | None = None  # what they became by it, where they had to be changed

    def __getitem__(self, name: str) -> Array:
        return self._arrays[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Params) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    def __repr__(self) -> str:
        inside = ", ".join(f"{name}: {value.dtype}{list(value.shape)}" for name, value in self.items())
        return f"Params({inside})"

    @cached_property
    def digest(self) -> Digest:
        """The digest over names, shapes, dtypes and bytes, as 64 hex digits (`digest_of`)."""
        return Digest(digest_of(self._arrays))

    @property
    def nbytes(self) -> int:
        """Size of all arrays in bytes."""
        return sum(value.nbytes for value in self._arrays.values())

    def select(self, names: Iterable[str]) -> Params:
        """Only the arrays of these names; a name that is absent is left out."""
        selected = {name: self._arrays[name] for name in names if name in self._arrays}
        return self if list(selected) == list(self._arrays) else Params(selected)

    def merged_with(self, other: Mapping[str, Array]) -> Params:
        """These arrays, with those of `other` added or in place of the ones of the same name."""
        return Params({**self._arrays, **other})


@dataclass(frozen=True)
class ParamSpec:
    """The shape, dtype and merge rule of one shared array (integers are never averaged, rule R6).

    Attributes:
        is_buffer: whether training sets it without gradients, as the running means of a batch normalisation.
    """

    shape: tuple[int, ...]
    dtype: str
    merge: MergeRule = "mean"
    is_buffer: bool = False


@dataclass(frozen=True)
class Schema:
    """The shared arrays of a job: what every update must hold, no more and no less.

    Attributes:
        agreement: what else all nodes must have alike, in words by name ("classes": "cat, dog").
    """

    specs: Mapping[str, ParamSpec]
    agreement: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        params: Mapping[str, Array],
        merge: Mapping[str, MergeRule] | None = None,
        agreement: Mapping[str, str] | None = None,
        buffers: Collection[str] = (),
    ) -> Schema:
        """Read the schema off example arrays; integers merge by maximum where `merge` does not say "min"."""
        rules = merge or {}
        specs = {
            name: ParamSpec(
                tuple(value.shape),
                value.dtype.name,
                _rule(value.dtype, rules.get(name, "mean")),
                name in buffers,
            )
            for name, value in params.items()
        }
        return cls(specs, agreement or {})

    @cached_property
    def digest(self) -> Digest:
        """SHA-256 over the sorted specifications and what is agreed; equal digests can average together."""
        lines = [f"{n}|{s.shape}|{s.dtype}|{s.merge}" for n, s in sorted(self.specs.items())]
        lines += [f"{n}: {words}" for n, words in sorted(self.agreement.items())]
        return Digest(hashlib.sha256("\n".join(lines).encode()).hexdigest())

    @property
    def merge(self) -> Mapping[str, MergeRule]:
        """How each array is merged, by name."""
        return {name: spec.merge for name, spec in self.specs.items()}

    @cached_property
    def numbers(self) -> int:
        """How many numbers one set of these parameters holds."""
        return sum(int(np.prod(spec.shape)) for spec in self.specs.values())

    @cached_property
    def nbytes(self) -> int:
        """How many bytes one set of these parameters has."""
        return sum(math.prod(spec.shape) * np.dtype(spec.dtype).itemsize for spec in self.specs.values())

    def conform(self, params: Mapping[str, Array]) -> Params:
        """Check `params` against this schema and give them its dtypes and order of names.

        What passed is remembered, and the result is given back at once when an equal schema sees them again.
        Parameters that need no change are themselves the result.

        Raises:
            ParamsRefused: names, a shape or a dtype differ, or a number is not finite.
        """
        if isinstance(params, Params) and params._conforms_to is not None and params._conforms_to == self:
            return params._conformed or params
        if params.keys() != self.specs.keys():
            raise ParamsRefused(names_differ(self.specs, params))
        arrays = {name: _conformed(name, params[name], spec) for name, spec in self.specs.items()}
        same = list(params) == list(arrays) and all(params[name] is array for name, array in arrays.items())
        result = params if isinstance(params, Params) and same else Params(arrays)
        result._conforms_to = self
        if isinstance(params, Params) and not same:
            params._conforms_to, params._conformed = self, result
        return result


def _frozen(name: str, value: Any) -> Array:
    array = np.ascontiguousarray(value)
    if array.shape != np.shape(value):  # ascontiguousarray makes a scalar one-dimensional
        array = array.reshape(np.shape(value))
    if array.dtype.kind not in _KINDS:
        raise ParamsRefused(
            text("array {name} has dtype {dtype}; expected floats, integers or booleans", repr(name), array.dtype)
        )
    if array.flags.writeable:
        array = array.view()
        array.flags.writeable = False
    return array


def _conformed(name: str, value: Array, spec: ParamSpec) -> Array:
    wanted, numbers = np.dtype(spec.dtype), math.prod(spec.shape)
    if numbers == 0 and value.size == 0:  # JSON cannot tell the shapes, nor the dtypes, of nothing apart
        return np.empty(spec.shape, wanted)
    if tuple(value.shape) != spec.shape:
        raise ParamsRefused(
            text("{name} has shape {shape}; expected {expected}", repr(name), list(value.shape), list(spec.shape))
        )
    if value.dtype != wanted:
        # JSON knows only "a number": whole numbers may stand for floats, and wide floats for narrow ones.
        if wanted.kind not in _STANDS_FOR.get(value.dtype.kind, ""):
            raise ParamsRefused(
                text("{name} has dtype {dtype}; expected {expected}", repr(name), value.dtype, spec.dtype)
            )
        if wanted.kind in "iu" and not _fits(value, wanted):
            raise ParamsRefused(text("{name} has numbers outside the range of {dtype}", repr(name), spec.dtype))
        with np.errstate(over="ignore"):
            value = value.astype(wanted)
    if wanted.kind == "f" and not is_finite(value):
        raise ParamsRefused(text("{name} has numbers that are not finite in {dtype}", repr(name), spec.dtype))
    return value


def is_finite(value: Array) -> bool:
    """Whether all numbers are finite, checked block by block without a Boolean array of full length."""
    if value.size <= _BLOCK:
        return bool(np.isfinite(value).all())
    flat = np.ravel(value)
    return all(np.isfinite(flat[start : start + _BLOCK]).all() for start in range(0, flat.size, _BLOCK))


def _fits(value: Array, wanted: np.dtype[Any]) -> bool:
    limits = np.iinfo(wanted)
    return int(value.min()) >= limits.min and int(value.max()) <= limits.max


def _rule(dtype: np.dtype[Any], asked: MergeRule) -> MergeRule:
    return "max" if asked == "mean" and dtype.kind != "f" else asked


def digest_of(arrays: Mapping[str, NDArray[Any]]) -> str:
    """BLAKE3 over names, shapes, dtypes and little-endian bytes in sorted order of the names, as 64 hex digits.

    For 40 MB it takes 8 ms where SHA-256 takes 36 to 47, with the processor's own instructions for that.
    """
    return _fed(blake3(), arrays)


def former_digest_of(arrays: Mapping[str, NDArray[Any]]) -> str:
    """SHA-256 over the same, by which earlier versions named files of parameters."""
    return _fed(hashlib.sha256(), arrays)


class _Hash(Protocol):
    def update(self, data: Any, /) -> object: ...

    def hexdigest(self) -> str: ...


def _fed(total: _Hash, arrays: Mapping[str, NDArray[Any]]) -> str:
    for name in sorted(arrays):
        value = arrays[name]
        little = value.astype(value.dtype.newbyteorder("<"), copy=False)
        total.update(f"{len(name)}:{name}:{little.dtype.str}:{list(value.shape)}:".encode())
        if little.size:
            total.update(little.reshape(-1).view(np.uint8).data)
    return total.hexdigest()
