"""Named arrays and what they must look like: the one place that knows dtypes, key order and memory.

Parameters travel between nodes, are averaged and are compared by digest, so three things must never
depend on who holds them: the order in which names are visited (always sorted), the order in which
updates are summed (always by peer id, in float64) and the bytes that a digest covers (names, shapes,
dtypes and little-endian contents).
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, NewType, Protocol

import numpy as np
from numpy.typing import NDArray

from flnet.contributions import Contribution
from flnet.digests import digest_of
from flnet.errors import ParamsRefused
from flnet.names import names_differ

Array = NDArray[Any]
PeerId = NewType("PeerId", str)
TrainerId = NewType("TrainerId", str)
Digest = NewType("Digest", str)
MergeRule = Literal["mean", "max", "min", "control"]  # "control": by the strategy that knows what it is

_BLOCK = 131_072  # numbers that one check looks at, so that what it writes stays in a core's cache
_STANDS_FOR = {"f": "f", "i": "iuf", "u": "iuf", "b": "b"}  # kind that came -> kinds that it may stand for
_KINDS = "fiub"  # floats, signed and unsigned integers, booleans: nothing that could hold an object


class Rng(Protocol):
    """A seeded source of chance, always passed in: the core has none of its own (random.Random is one)."""

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
        """Over names, shapes, dtypes and bytes, as 64 hex digits; see `flnet.digests`."""
        return Digest(digest_of(self._arrays))

    @property
    def nbytes(self) -> int:
        """Size of all arrays in bytes."""
        return sum(value.nbytes for value in self._arrays.values())

    def select(self, names: Iterable[str]) -> Params:
        """Only the arrays of these names; a name that is absent is left out."""
        found = {name: self._arrays[name] for name in names if name in self._arrays}
        return self if list(found) == list(self._arrays) else Params(found)

    def merged_with(self, other: Mapping[str, Array]) -> Params:
        """These arrays, with those of `other` added or in place of the ones of the same name."""
        return Params({**self._arrays, **other})


@dataclass(frozen=True)
class ParamSpec:
    """What one shared array must look like, and how it is merged (integers are never averaged, rule R6)."""

    shape: tuple[int, ...]
    dtype: str
    merge: MergeRule = "mean"


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
    ) -> Schema:
        """Read the schema off example arrays; integers merge by maximum where `merge` does not say "min"."""
        rules = merge or {}
        return cls(
            {
                name: ParamSpec(tuple(value.shape), value.dtype.name, _rule(value.dtype, rules.get(name, "mean")))
                for name, value in params.items()
            },
            agreement or {},
        )

    @cached_property
    def digest(self) -> Digest:
        """SHA-256 over the sorted specifications and what is agreed; equal digests can average together."""
        lines = [f"{n}|{s.shape}|{s.dtype}|{s.merge}" for n, s in sorted(self.specs.items())]
        lines += [f"{n}: {words}" for n, words in sorted(self.agreement.items())]
        return Digest(hashlib.sha256("\n".join(lines).encode()).hexdigest())

    @cached_property
    def numbers(self) -> int:
        """How many numbers one set of these parameters holds."""
        return sum(int(np.prod(spec.shape)) for spec in self.specs.values())

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
        found = {name: _conformed(name, params[name], spec) for name, spec in self.specs.items()}
        same = list(params) == list(found) and all(params[name] is array for name, array in found.items())
        result = params if isinstance(params, Params) and same else Params(found)
        result._conforms_to = self
        if isinstance(params, Params) and not same:
            params._conforms_to, params._conformed = self, result
        return result


@dataclass(frozen=True, order=True)
class RoundKey:
    """Which round: its number, and who started it. The total order: of two rounds with one number, the
    one whose initiator's id is smaller comes first and is the one that counts.
    """

    number: int
    initiator: PeerId

    def beats(self, other: RoundKey) -> bool:
        """Whether a node that is in `other` must leave it for this one."""
        if self.number != other.number:
            return self.number > other.number
        return self.initiator < other.initiator


@dataclass(frozen=True)
class Update:
    """What one peer learnt in one round.

    Attributes:
        examples: training rows behind it; None when the caller did not say (a caller of the thesis' form).
        labels: how many labels the peer's data has, for rules that weigh by it.
        accuracy: of the peer's own model on its own test split; in [0, 1].
        base: of the parameters that its training began with, where it says so (rule R7).
        contribution: what the peer states of it.
        staleness: how many rounds before this one that training began.
    """

    peer: PeerId
    key: RoundKey
    params: Params
    examples: int | None = None
    labels: int = 1
    accuracy: float | None = field(default=None, compare=False)
    base: Digest | None = field(default=None, compare=False)
    staleness: int = 0
    contribution: Contribution | None = field(default=None, compare=False)


Over = Literal["reached", "given_up", "stopped", "deadline"]


@dataclass(frozen=True)
class Report:
    """What a node says of its average to all others in a round of a series.

    Attributes:
        accuracy: of the average itself, before any model is adopted; in [0, 1].
        loss: of it, where the trainer tells one.
        over: why the series is over for this node, if it is.
    """

    accuracy: float
    loss: float | None = None
    over: Over | None = None


@dataclass(frozen=True)
class Claim:
    """What a peer says of its average in the exchange: how accurate it is there, and its digest.

    Attributes:
        params: the model itself where it came along (always in thesis JSON).
        report: what goes into the decision on a series of rounds.
    """

    peer: PeerId
    round: int
    accuracy: float
    digest: Digest | None
    contributors: int = 1
    params: Params | None = None
    report: Report | None = None


def _frozen(name: str, value: Any) -> Array:
    array = np.ascontiguousarray(value)
    if array.shape != np.shape(value):  # ascontiguousarray makes a scalar one-dimensional
        array = array.reshape(np.shape(value))
    if array.dtype.kind not in _KINDS:
        raise ParamsRefused(f"array {name!r} has dtype {array.dtype}; expected floats, integers or booleans")
    if array.flags.writeable:
        array = array.view()
        array.flags.writeable = False
    return array


def _conformed(name: str, value: Array, spec: ParamSpec) -> Array:
    wanted, numbers = np.dtype(spec.dtype), math.prod(spec.shape)
    if numbers == 0 and value.size == 0:  # JSON cannot tell the shapes, nor the dtypes, of nothing apart
        return np.empty(spec.shape, wanted)
    if tuple(value.shape) != spec.shape:
        raise ParamsRefused(f"{name!r} has shape {list(value.shape)}; expected {list(spec.shape)}")
    if value.dtype != wanted:
        # JSON knows only "a number": whole numbers may stand for floats, and wide floats for narrow ones.
        if wanted.kind not in _STANDS_FOR.get(value.dtype.kind, ""):
            raise ParamsRefused(f"{name!r} has dtype {value.dtype}; expected {spec.dtype}")
        if wanted.kind in "iu" and not _fits(value, wanted):
            raise ParamsRefused(f"{name!r} has numbers outside the range of {spec.dtype}")
        with np.errstate(over="ignore"):
            value = value.astype(wanted)
    if wanted.kind == "f" and not is_finite(value):
        raise ParamsRefused(f"{name!r} has numbers that are not finite in {spec.dtype}")
    return value


def is_finite(value: Array) -> bool:
    """Whether all numbers are; looked at block by block, without an array of answers as long as theirs."""
    if value.size <= _BLOCK:
        return bool(np.isfinite(value).all())
    flat = np.ravel(value)
    return all(np.isfinite(flat[start : start + _BLOCK]).all() for start in range(0, flat.size, _BLOCK))


def _fits(value: Array, wanted: np.dtype[Any]) -> bool:
    limits = np.iinfo(wanted)
    return int(value.min()) >= limits.min and int(value.max()) <= limits.max


def _rule(dtype: np.dtype[Any], asked: MergeRule) -> MergeRule:
    return "max" if asked == "mean" and dtype.kind != "f" else asked
