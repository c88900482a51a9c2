"""The arithmetic of secure sums: what nodes add up, so that only the sum can be opened.

K. Bonawitz et al., "Practical Secure Aggregation for Privacy-Preserving Machine Learning", ACM CCS 2017. Each node turns
what it contributes into whole numbers modulo 2^bits and hides them under masks that cancel in the sum
(`flnet.security.masking`). A sum is all that nodes get to see, so whatever is learnt together has to be a sum:

- Numbers are scaled by an agreed bound and rounded (`FixedPoint`). The scale leaves room for the sum of all nodes.
- Named arrays become one vector (`ArrayEncoder`), and sums of such vectors become named sums again.
- A weighted mean is the sum of weight * change, divided by the sum of the weights (`MeanEncoder`). The weight itself is a
  number of the vector, so nobody sees how many examples a single node has.

Everything is a function of what all nodes know alike, and IEEE 754 fixes each step: nodes with the same sum get the same
bits.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from flnet.aggregation.fed_avg import Weighting
from flnet.params.arithmetic import Total, longest, weight_names
from flnet.params.params import Array, Params, ParamSpec, Schema
from flnet.text import text

Bits = Literal[32, 64]
Numbers = NDArray[np.unsignedinteger[Any]]  # modulo 2^bits
Block = NDArray[np.float64]

WEIGHT_CAPS: Mapping[Weighting, int] = {"agg0": 1, "agg1": 2**20, "agg2": 2**22}
"""The largest weight of a node: 1, its examples, its examples times its labels."""
CLIP = 8.0  # times the largest number of an array, or times 1, is how far its numbers may move in a round
WHOLE_BOUND = 2.0**16  # how far arrays of whole numbers, such as counts of batches, may move at least
# Part of a norm by which a shortened update may be longer, as its arrays have float32 numbers.
_SHORTENED = 2.0**-10
_BLOCK = 65_536  # numbers: half a MiB in float64, as in `flnet.params.arithmetic`
_EXACT = 53  # bits of a float64
_LARGEST, _SMALLEST = 2.0**500, 2.0**-500  # of bounds: no step overflows or loses bits


class ImpossibleSumError(ValueError):
    """A sum that the updates of honest nodes cannot have: somebody sent something else, or an update that is too long."""


def threshold(count: int, part_away: float = 1 / 3) -> int:
    """How many of `count` nodes have to help so that a sum opens: count - floor(part_away * count).

    Fewer would let a small group open sums, more would let a few nodes that vanish stop the round. A node in the sum is
    asked for shares of self masks, a node outside of it would be asked for shares of pair keys, and whoever gets
    `threshold` shares of both kinds of one node sees what it sent. An honest node gives one kind only. So c nodes that
    collude have c + a shares of one kind and c + b of the other, where a + b <= count - c honest nodes gave them, and
    fail if 2 * threshold > count + c. With part_away = 1/3 these are all c below a third of the nodes, about; with the
    least threshold, just above one half, nobody may collude with more than one other.

    Args:
        count: of nodes that share their secrets, at least 1.
        part_away: how many of them may vanish, from 0 to below 1/2.

    Raises:
        ValueError: the arguments are out of range.
    """
    if count < 1 or not 0 <= part_away < 0.5:
        raise ValueError(
            text(
                "{count} nodes of which {part} may vanish; expected at least 1, and 0 to below 0.5",
                count,
                part_away,
            )
        )
    away = math.floor(Fraction(part_away).limit_denominator(1_000) * count)  # 0.29 * 100 is 28.999... as a float
    return max(count - away, count // 2 + 1)


def pair_sign(me: str, other: str) -> int:
    """Whether `me` adds (1) or subtracts (-1) the mask that it shares with `other`, so that the two cancel."""
    if me == other:
        raise ValueError(text("{peer} shares no mask with itself", repr(me)))
    return 1 if me < other else -1


def add_signed(numbers: Numbers, mask: Numbers, sign: int) -> None:
    """Add the mask to the numbers, or subtract it, modulo their 2^bits and in place."""
    (np.add if sign > 0 else np.subtract)(numbers, mask, out=numbers)


class Encoded(NamedTuple):
    """Numbers for a sum, and how many values were cut to their bound before."""

    numbers: Numbers
    cut: int


@dataclass(frozen=True)
class FixedPoint:
    """Fixed-point numbers modulo 2^bits whose sum over at most `nodes` nodes cannot overflow.

    A value a with |a| <= bound is encoded as the whole number e = rint(a / bound * unit), where unit is the largest
    whole number that a float64 holds exactly and that is at most (2^(bits - 1) - 1) / nodes.

    No overflow: IEEE 754 rounds monotonically, and 1 and unit are float64 numbers. So |a / bound| is at most 1 after
    rounding, its product with unit is at most unit after rounding, and rint keeps it there, as unit is whole. Hence
    |e| <= unit, and the sum of `nodes` such numbers is at most nodes * unit <= 2^(bits - 1) - 1 in absolute value. A signed
    number of so many bits holds that, so the sum modulo 2^bits, read as a signed number, is the sum itself.

    Attributes:
        bits: 32 or 64.
        nodes: how many nodes a sum has at most.

    Raises:
        ValueError: another number of bits, or a number of nodes that leaves no room.
    """

    bits: Bits
    nodes: int

    def __post_init__(self) -> None:
        if self.bits not in (32, 64):
            raise ValueError(text("fixed-point numbers of {bits} bits; expected 32 or 64", self.bits))
        if not 1 <= self.nodes <= 2**16:
            raise ValueError(text("a sum over {count} nodes; expected 1 to 65,536", self.nodes))

    @cached_property
    def unit(self) -> int:
        """The whole number that stands for the bound."""
        unneeded = max(0, self.most_whole.bit_length() - _EXACT)
        return self.most_whole >> unneeded << unneeded

    @property
    def most_whole(self) -> int:
        """The largest whole number that each node may add as it is."""
        return int((2 ** (self.bits - 1) - 1) // self.nodes)

    @property
    def dtype(self) -> np.dtype[np.unsignedinteger[Any]]:
        """Of encoded numbers and their sums."""
        return np.dtype(np.uint32 if self.bits == 32 else np.uint64)

    @property
    def signed(self) -> np.dtype[np.signedinteger[Any]]:
        """The dtype in which a sum is read."""
        return np.dtype(np.int32 if self.bits == 32 else np.int64)

    def step(self, bound: float) -> float:
        """The largest error of a decoded sum of values within `bound`, in their unit.

        Each node rounds to a whole number, which is at most 1/2 off; the division, the products and the conversions round
        float64 numbers, together by less than 2^-50 of the bound for each node.
        """
        return self.nodes * bound * (0.5 / self.unit + 2.0**-50)

    def encode(
        self,
        values: Array,
        bound: float,
        *,
        base: Array | None = None,
        share: float = 1.0,
        out: Numbers | None = None,
    ) -> Encoded:
        """Encode share * (values - base), where values - base is cut to [-bound, bound] first.

        Args:
            values: floats or whole numbers of any shape.
            bound: above 0.
            base: of the same shape; 0 if absent.
            share: from 0 to 1.
            out: where the numbers go; as many, contiguous.

        Returns:
            Numbers in flat order, and how many values were cut.

        Raises:
            ValueError: a value is not finite, or an argument is out of range.
        """
        check_bound(bound)
        if not 0 <= share <= 1:
            raise ValueError(text("a share of {share}; expected 0 to 1", share))
        flat, start_flat = np.ravel(values), None if base is None else np.ravel(base)
        numbers = np.empty(flat.size, self.dtype) if out is None else out
        room, whole, cut = np.empty(min(_BLOCK, flat.size)), numbers.view(self.signed), 0
        for block in blocks_of(flat.size):
            part = room[: flat[block].size]
            if start_flat is None:
                np.copyto(part, flat[block])
            else:
                np.subtract(flat[block], start_flat[block], out=part, dtype=np.float64)
            cut += cut_to(part, bound)
            np.divide(part, bound, out=part)
            np.multiply(part, share * self.unit, out=part)
            np.rint(part, out=part)
            np.copyto(whole[block], part, casting="unsafe")
        return Encoded(numbers, cut)

    def decode(self, total: Numbers, bound: float) -> Block:
        """The sum of values within `bound`, from the sum of their numbers, as float64 of the same shape."""
        return np.multiply(total.view(self.signed), bound / self.unit, dtype=np.float64)


def check_bound(bound: float) -> None:
    """Refuse a bound with which nothing could be encoded.

    Raises:
        ValueError: it is not a number between 2^-500 and 2^500.
    """
    if not _SMALLEST <= bound <= _LARGEST:
        raise ValueError(text("a bound of {bound}; expected a number from 2^-500 to 2^500", bound))


def cut_to(values: Block, bound: float) -> int:
    """Cut values to [-bound, bound] in place, and count those that were outside.

    Raises:
        ValueError: one is not finite.
    """
    if not values.size:
        return 0
    low, high = float(values.min()), float(values.max())
    if -bound <= low and high <= bound:
        return 0
    if not (math.isfinite(low) and math.isfinite(high)):
        raise ValueError(text("a number that is not finite cannot go into a sum"))
    outside = np.count_nonzero(values < -bound) + np.count_nonzero(values > bound)
    np.clip(values, -bound, bound, out=values)
    return int(outside)


def blocks_of(size: int) -> Iterator[slice]:
    """Blocks of a vector of so many numbers that are worked on together."""
    return (slice(start, min(start + _BLOCK, size)) for start in range(0, size, _BLOCK))


@dataclass(frozen=True)
class BoundedArray:
    """One named array of what a node contributes.

    Attributes:
        shape: of the array.
        bound: of the absolute value of its numbers; larger ones are cut.
        whole: whether its numbers are whole and their sum is exact.
    """

    shape: tuple[int, ...]
    bound: float
    whole: bool = False

    @property
    def size(self) -> int:
        """How many numbers it has."""
        return math.prod(self.shape)


class ArrayEncoder:
    """Named arrays as one vector for a sum, in the order in which they are named."""

    def __init__(self, arrays: Mapping[str, BoundedArray], fixed: FixedPoint) -> None:
        """Lay out the vector.

        Args:
            arrays: by name; equal on all nodes, and in an equal order.
            fixed: how numbers are encoded.

        Raises:
            ValueError: a bound is out of range, or whole numbers of this bound could overflow.
        """
        self.fixed, self._arrays, self._places, size = fixed, dict(arrays), dict[str, slice](), 0
        for name, array in arrays.items():
            check_bound(array.bound)
            if array.whole and array.bound > fixed.most_whole:
                raise ValueError(
                    text(
                        "{name}: whole numbers up to {bound} from {count} nodes do not fit in {bits} bits",
                        repr(name),
                        f"{array.bound:.0f}",
                        fixed.nodes,
                        fixed.bits,
                    )
                )
            self._places[name] = slice(size, size + array.size)
            size += array.size
        self.size = size

    def encode(self, arrays: Mapping[str, Array]) -> Encoded:
        """The vector of these arrays, and how many of their numbers were cut.

        Raises:
            ValueError: names or shapes differ, or a number is not finite.
        """
        if arrays.keys() != self._arrays.keys():
            raise ValueError(text("arrays {found}; expected {expected}", sorted(arrays), sorted(self._arrays)))
        numbers, cut = np.zeros(self.size, self.fixed.dtype), 0
        for name, array in self._arrays.items():
            values, out = np.asarray(arrays[name]), numbers[self._places[name]]
            if values.shape != array.shape:
                raise ValueError(
                    text(
                        "{name} has shape {shape}; expected {expected}",
                        repr(name),
                        list(values.shape),
                        list(array.shape),
                    )
                )
            if array.whole:
                cut += self._encode_whole(values, array, out)
            else:
                cut += self.fixed.encode(values, array.bound, out=out).cut
        return Encoded(numbers, cut)

    def _encode_whole(self, values: Array, array: BoundedArray, out: Numbers) -> int:
        if values.dtype.kind not in "iu":
            raise ValueError(text("numbers of {dtype}; expected whole numbers", values.dtype))
        kept = np.clip(values, -int(array.bound), int(array.bound))
        np.copyto(out.view(self.fixed.signed), np.ravel(kept), casting="unsafe")
        return int(np.count_nonzero(kept != values))

    def decode(self, total: Numbers, contributors: int) -> dict[str, Array]:
        """The named sums: float64, or int64 where the numbers are whole.

        Args:
            total: the sum of the vectors, without masks.
            contributors: of how many nodes.

        Raises:
            ValueError: the sum has another length or dtype, or is larger than so many nodes could make it, which shows
                that somebody did not send what the protocol says.
        """
        check_sum(total, self.size, self.fixed, contributors)
        sums: dict[str, Array] = {}
        for name, array in self._arrays.items():
            part = total[self._places[name]].reshape(array.shape)
            most = int(array.bound) if array.whole else self.fixed.unit
            if beyond(part.view(self.fixed.signed), contributors * most):
                raise ImpossibleSumError(impossible(name))
            sums[name] = (
                part.view(self.fixed.signed).astype(np.int64)
                if array.whole
                else self.fixed.decode(part, array.bound)
            )
        return sums


def check_sum(total: Numbers, size: int, fixed: FixedPoint, contributors: int) -> None:
    """Refuse what cannot be a sum of such vectors.

    Raises:
        ValueError: another length, dtype or number of contributors.
    """
    if total.shape != (size,) or total.dtype != fixed.dtype:
        raise ValueError(
            text(
                "a sum of {count} numbers of {dtype}; expected {expected} of {wanted}",
                total.size,
                total.dtype,
                size,
                fixed.dtype,
            )
        )
    if not 1 <= contributors <= fixed.nodes:
        raise ValueError(text("a sum over {count} nodes; expected 1 to {most}", contributors, fixed.nodes))


def beyond(numbers: Array, most: int) -> bool:
    """Whether one of these whole numbers is beyond `most` in absolute value."""
    return bool(numbers.size) and (int(numbers.max()) > most or int(numbers.min()) < -most)


def impossible(name: str) -> str:
    """The words for a sum that honest nodes cannot make."""
    return text(
        "the sum of {name} is beyond what its nodes may send: one of them did not send its update", repr(name)
    )


def check_norm(squares: Total, most: float, error: float) -> float:
    """The L2 norm of a mean change, from its squares.

    Args:
        error: how far the norm of the sum may be from that of exact arithmetic. An update that was shortened to `most`
            may be a little longer by rounding, too, and a mean of updates that agree is as long as they are.

    Raises:
        ImpossibleSumError: it is above `most`.
    """
    norm = math.sqrt(squares.value)
    if not norm <= most * (1 + _SHORTENED) + error:
        raise ImpossibleSumError(
            text("the mean change has length {norm}; at most {most} is accepted", f"{norm:.4g}", f"{most:.4g}")
        )
    return norm


def weight_of(weighting: Weighting, examples: int, labels: int = 1) -> int:
    """The weight of a node in the mean: 1 if it has examples; its examples; its examples times its labels."""
    if weighting == "agg0":
        return int(examples > 0)
    return examples * labels if weighting == "agg2" else examples


class EncodedUpdate(NamedTuple):
    """What a node adds to a sum.

    Attributes:
        numbers: its vector.
        cut: how many of its values were cut to their bound.
        weight: with which it counts.
        weight_cut: whether that is less than it should be.
    """

    numbers: Numbers
    cut: int
    weight: int
    weight_cut: bool


class Mean(NamedTuple):
    """The weighted mean of the updates in a sum.

    Attributes:
        params: the model.
        weight: the sum of the weights.
        norm: L2 norm of the mean change of the weights, buffers left out.
        error: how far a number may be from the plain mean of the same (cut) updates, at most, before it is rounded to the
            dtype of its array.
    """

    params: Params
    weight: int
    norm: float
    error: float


class MeanEncoder:
    """The mean of models by agg0, agg1 or agg2 as a sum.

    The first number of the vector is the weight w, as it is. Then come all arrays in sorted order of their names:
    w / cap * (update - base). The changes are cut to the bound of their array, which is `clip` times its largest absolute
    number in the base, or `clip` if that number is below 1. The mean is base + cap / (sum of w) * (sum of the arrays).

    Arrays of whole numbers have no maximum in a sum. They get the mean of their changes, rounded.
    """

    def __init__(
        self,
        schema: Schema,
        base: Mapping[str, Array],
        nodes: int,
        weighting: Weighting = "agg1",
        *,
        bits: Bits = 32,
        clip: float = CLIP,
        cap: int | None = None,
    ) -> None:
        """Lay out the vector.

        Args:
            schema: of the model.
            base: with which the round began; finite, equal on all nodes.
            nodes: how many nodes the sum may have at most.
            bits: of each number.
            clip: above 0.
            cap: the largest weight; that of the weighting by default. Rounding errors are in proportion to it.

        Raises:
            ValueError: the weights of so many nodes do not fit in so many bits, or an argument is out of range.
        """
        self.fixed, self.weighting = FixedPoint(bits, nodes), weighting
        self.cap = WEIGHT_CAPS[weighting] if cap is None else cap
        if not 1 <= self.cap <= self.fixed.most_whole:
            raise ValueError(
                text("weights up to {cap} from {count} nodes do not fit in {bits} bits", self.cap, nodes, bits)
            )
        self._specs = {name: schema.specs[name] for name in sorted(schema.specs)}
        self._schema, self._base = schema, base
        self.bounds = {name: _bound(spec, base[name], clip) for name, spec in self._specs.items()}
        self.size = 1 + schema.numbers

    def encode(self, update: Mapping[str, Array], examples: int, labels: int = 1) -> EncodedUpdate:
        """What a node adds: its update, weighted.

        Args:
            update: its arrays after training, in the schema's form.
            examples: number of its training rows.
            labels: how many labels they have.

        Raises:
            ValueError: a number is not finite, or the number of examples is negative.
        """
        wanted = weight_of(self.weighting, examples, labels)
        if wanted < 0:
            raise ValueError(text("a weight of {weight}; expected at least 0", wanted))
        weight, cut = min(wanted, self.cap), 0
        numbers = np.empty(self.size, self.fixed.dtype)
        numbers[0] = weight
        for name, place in self._places():
            cut += self.fixed.encode(
                update[name],
                self.bounds[name],
                base=self._base[name],
                share=weight / self.cap,
                out=numbers[place],
            ).cut
        return EncodedUpdate(numbers, cut, weight, weight < wanted)

    def error(self, weight: int) -> float:
        """How far a number of the mean may be from that of exact arithmetic if the weights add up to `weight`."""
        return max(map(self.fixed.step, self.bounds.values()), default=0.0) * self.cap / weight

    def decode(self, total: Numbers, contributors: int, most_norm: float = math.inf) -> Mean:
        """The mean, from the sum of the vectors without masks.

        Args:
            contributors: how many nodes are in the sum.
            most_norm: of the mean change.

        Raises:
            ValueError: nobody has examples; or the sum is refused, because weights or changes are beyond what so many nodes
                may send, or the change is longer than `most_norm`.
        """
        check_sum(total, self.size, self.fixed, contributors)
        weight = int(total[:1].view(self.fixed.signed)[0])
        if weight == 0:
            raise ValueError(text("nobody has examples: there is no mean of the updates in this sum"))
        if not 0 < weight <= contributors * self.cap:
            raise ImpossibleSumError(impossible("weights"))
        squares = Total(longest(self._schema))
        arrays = {name: self._mean(name, total[place], weight, squares) for name, place in self._places()}
        norm = check_norm(squares, most_norm, self.error(weight) * math.sqrt(self.size))
        params = self._schema.conform({name: arrays[name] for name in self._schema.specs})
        return Mean(params, weight, norm, self.error(weight))

    def _mean(self, name: str, total: Numbers, weight: int, squares: Total) -> Array:
        spec, bound, base = self._specs[name], self.bounds[name], np.ravel(self._base[name])
        mean = np.empty(total.size, spec.dtype)
        low, high = _range(mean.dtype)
        most = bound + self.fixed.step(bound) * self.cap / weight
        counted = name in weight_names(self._schema)
        for block in blocks_of(total.size):
            moved = self.fixed.decode(total[block], bound)
            np.multiply(moved, self.cap / weight, out=moved)
            if max(-float(moved.min()), float(moved.max())) > most:
                raise ImpossibleSumError(impossible(name))
            if counted:
                squares.add(np.multiply(moved, moved))
            if mean.dtype.kind != "f":
                np.rint(moved, out=moved)
            np.add(moved, base[block], out=moved)
            mean[block] = np.clip(moved, low, high, out=moved)
        return mean.reshape(spec.shape)

    def _places(self) -> Iterator[tuple[str, slice]]:
        """The arrays in order, and where in the vector each is."""
        start = 1
        for name, spec in self._specs.items():
            yield name, slice(start, start := start + math.prod(spec.shape))


def _bound(spec: ParamSpec, base: Array, clip: float) -> float:
    largest = max(abs(float(base.max())), abs(float(base.min())), 1.0) if base.size else 1.0
    if np.dtype(spec.dtype).kind == "f":
        return clip * largest
    return max(clip * largest, WHOLE_BOUND)


def _range(dtype: np.dtype[Any]) -> tuple[float, float]:
    """The smallest and largest float64 that can be converted to this dtype."""
    if dtype.kind == "f":
        return float(np.finfo(dtype).min), float(np.finfo(dtype).max)
    if dtype.kind == "b":
        return 0.0, 1.0
    limits = np.iinfo(dtype)
    return float(limits.min), math.nextafter(float(limits.max), 0) if limits.max > 2**_EXACT else float(limits.max)
