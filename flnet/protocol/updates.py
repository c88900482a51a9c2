"""The values of a round: its key, an update and what its sender states of it, reports and claims of accuracy.

A contribution is the sender's statement about an update: sender, trainer, round, the digests of the parameters before
and after training, and the number of examples. The sender may sign it, and anybody can verify the signature. It is
kept with the record of the round and with the model after the update itself is deleted.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal, Protocol

from flnet.params.params import Digest, Params, PeerId
from flnet.protocol.counts import Measured, Scored

_FIRST = "flnet contribution, version 1"  # so that no signature made for something else is taken for one


@dataclass(frozen=True)
class Contribution:
    """One update, as its sender states it.

    Attributes:
        schema: digest of names, shapes, dtypes and the agreement.
        base: digest of the parameters that the training began with.
        digest: of the update.
        examples: number of training rows.
        key: public key of the sender in base64; empty if it does not sign.
        signature: of `statement`, in base64.
        segments: of an update that is averaged in segments, what `root_of` makes of them; else empty.
    """

    peer: str
    trainer: str
    round: int
    initiator: str
    schema: str
    base: str
    digest: str
    examples: int
    labels: int = 1
    key: str = ""
    signature: str = ""
    segments: str = ""

    @property
    def is_signed(self) -> bool:
        """Whether it has a signature, valid or not."""
        return bool(self.key and self.signature)

    def statement(self) -> bytes:
        """The bytes that are signed: one line for each field, in a fixed order; none for `segments` where it is empty."""
        said = {name: getattr(self, name) for name in self._fields if name != "signature"}
        lines = [f"{name}: {str(value).encode('unicode_escape').decode()}" for name, value in said.items()]
        return "\n".join([_FIRST, *lines]).encode()

    def view(self) -> dict[str, Any]:
        """The fields for the record of its round, which contains trainer, round and initiator already."""
        return {
            name: getattr(self, name) for name in self._fields if name not in ("trainer", "round", "initiator")
        }

    @property
    def _fields(self) -> tuple[str, ...]:
        return tuple(name for name in _FIELDS if name != "segments" or self.segments)

    @classmethod
    def read(cls, view: Mapping[str, Any], trainer: str, round: int, initiator: str) -> Contribution:
        """Read a contribution from the result of `view`.

        Args:
            round, initiator: of the record that it stands in; where there are no common rounds, the view says
                those that the peer stated.

        Raises:
            KeyError, TypeError, ValueError: it is none.
        """
        if not isinstance(view, Mapping):
            raise TypeError(f"a contribution is an object, not a {type(view).__name__}")
        said: dict[str, Any] = {"trainer": trainer, "round": round, "initiator": initiator}
        for one in fields(cls):
            if one.name not in said or (one.name != "trainer" and one.name in view):
                value = view.get(one.name, "") if one.name == "segments" else view[one.name]
                if type(value).__name__ != one.type:
                    raise ValueError(f"{one.name} of a contribution is {value!r:.100}")
                said[one.name] = value
        return cls(**said)


_FIELDS = tuple(one.name for one in fields(Contribution))


@dataclass(frozen=True, order=True)
class RoundKey:
    """The identity of a round: its number, and the node that started it. Of two rounds with the same number, the
    one whose initiator has the smaller id comes first and counts.
    """

    number: int
    initiator: PeerId

    def beats(self, other: RoundKey) -> bool:
        """Whether a node in round `other` must leave it for this one."""
        if self.number != other.number:
            return self.number > other.number
        return self.initiator < other.initiator


@dataclass(frozen=True)
class Update:
    """The update of one peer in one round.

    Attributes:
        examples: number of training rows; None if the sender did not state it (in the thesis' format).
        labels: number of labels in the peer's data, for rules that weight by it.
        accuracy: of the peer's own model on its own test split; in [0, 1].
        base: digest of the parameters that its training began with, if the peer states it (rule R7).
        contribution: the peer's statement about it.
        staleness: number of rounds since the start of its training.
        memory: digest of what the aggregation rule remembers at the peer before the round, if the peer shares that; of
            no arrays: it remembers nothing yet.
        group: of a secure sum, for which the parameters are masked; empty where they are not.
        segments: digests of its segments, where it is averaged in segments.
        rule: the aggregation rule that the peer states; empty if it states none (in the thesis' format).
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
    memory: Digest | None = field(default=None, compare=False)
    group: str = ""
    segments: tuple[Digest, ...] = ()
    rule: str = field(default="", compare=False)

    def stated(self) -> dict[str, Any]:
        """The sender's statement about it, as fields of a message; in rounds and in versions."""
        stated: dict[str, Any] = {
            "examples": self.examples,
            "labels": self.labels,
            "accuracy": self.accuracy,
            "base": self.base,
        }
        if (signed := self.contribution) is not None:
            stated |= {
                "schema_digest": signed.schema,
                "key": signed.key or None,
                "signature": signed.signature or None,
            }
        return stated


@dataclass(frozen=True, order=True)
class NoisyRelease:
    """The noise that went into one training before its update left, as accountants of privacy count it.

    Attributes:
        level: what it hides: all rows of the node together, or each row.
        noise_multiplier: standard deviation of the noise, as a multiple of the clip.
        sampling_rate: part of what is hidden that each step draws at random; 1: all of it.
        steps: how often noise was added.
    """

    level: Literal["node", "rows"]
    noise_multiplier: float
    sampling_rate: float = 1.0
    steps: int = 1


class Counted(Protocol):
    """What an update counts by, as its sender states it."""

    @property
    def examples(self) -> int | None:
        """The number of training rows."""
        ...

    @property
    def labels(self) -> int | None:
        """The number of labels in the sender's data."""
        ...

    @property
    def base(self) -> str | None:
        """The digest of the parameters that the training began with."""
        ...

    @property
    def staleness(self) -> int | None:
        """The number of rounds since the start of its training."""
        ...


def root_of(update: Counted, digests: Iterable[str]) -> Digest:
    """The digest of an update that is known by the digests of its segments, and of what it counts by."""
    figures = f"{update.examples} {update.labels or 1} {update.staleness or 0} {update.base}"
    return Digest(hashlib.sha256("\n".join([figures, *digests]).encode()).hexdigest())


TEST: Literal["test"] = "test"
VALIDATED: Literal["validation"] = "validation"
Over = Literal["reached", "given_up", "stopped", "deadline"]


@dataclass(frozen=True)
class Report:
    """The report of a node about its average, sent to all others in a round of a series.

    Attributes:
        accuracy: of the average itself, before any model is adopted; in [0, 1].
        loss: of the same average, if the trainer reports one.
        over: why the series is over for this node, if it is.
        examples: rows behind the accuracy; None if the node does not say.
        right: of these, the rows that the accuracy counts as right; None if they are not counted.
        split: which rows these are.
    """

    accuracy: float
    loss: float | None = None
    over: Over | None = None
    examples: int | None = None
    right: int | None = None
    split: Literal["test", "validation"] = TEST

    @property
    def scored(self) -> Scored:
        """The accuracy with what it counts by."""
        return Scored(self.accuracy, self.examples, self.right)


@dataclass(frozen=True)
class Claim:
    """The claim of a peer about its average in the exchange: its accuracy there, and its digest.

    Attributes:
        params: the model, if the message has it (always in the thesis' JSON).
        report: the peer's report in a series of rounds.
        initiator: of the round; empty where the message does not state it.
        measured: what the peer's average reached on its test rows; None if it does not say how many.
    """

    peer: PeerId
    round: int
    accuracy: float
    digest: Digest | None
    contributors: int = 1
    params: Params | None = None
    report: Report | None = None
    initiator: str = ""
    measured: Measured | None = None

    def without_params(self) -> Claim:
        """The same claim, which takes no memory for a model."""
        return self if self.params is None else replace(self, params=None)
