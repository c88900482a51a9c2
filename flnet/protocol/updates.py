"""The values of a round: its key, an update and what its sender states of it, reports and claims of accuracy.

A contribution says of an update whose it is, in which round of what, with what its training began, what came of it,
and from how many examples. Its sender may sign it, and anybody can check the signature. It stays with the record of
the round and with the model after the update is gone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal

from flnet.params.params import Digest, Params, PeerId

_FIRST = "flnet contribution, version 1"  # so that no signature made for something else is taken for one


@dataclass(frozen=True)
class Contribution:
    """One update, as its sender states it.

    Attributes:
        schema: digest of names, shapes, dtypes and what is agreed.
        base: digest of the parameters that the training began with.
        digest: of the update.
        examples: training rows behind it.
        key: public key of the sender, base64; empty where it signs nothing.
        signature: over `statement`, base64.
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

    @property
    def is_signed(self) -> bool:
        """Whether there is a signature, right or wrong."""
        return bool(self.key and self.signature)

    def statement(self) -> bytes:
        """The bytes that are signed: one line for each field, in a fixed order."""
        said = {name: getattr(self, name) for name in _FIELDS if name != "signature"}
        lines = [f"{name}: {str(value).encode('unicode_escape').decode()}" for name, value in said.items()]
        return "\n".join([_FIRST, *lines]).encode()

    def view(self) -> dict[str, Any]:
        """The fields for the record of its round, which contains trainer, round and initiator already."""
        return {name: getattr(self, name) for name in _FIELDS if name not in ("trainer", "round", "initiator")}

    @classmethod
    def read(cls, view: Mapping[str, Any], trainer: str, round: int, initiator: str) -> Contribution:
        """A contribution from what `view` made of it.

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
                value = view[one.name]
                if type(value).__name__ != one.type:
                    raise ValueError(f"{one.name} of a contribution is {value!r:.100}")
                said[one.name] = value
        return cls(**said)


_FIELDS = tuple(one.name for one in fields(Contribution))


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


Over = Literal["reached", "given_up", "stopped", "deadline"]


@dataclass(frozen=True)
class Report:
    """The report of a node about its average, sent to all others in a round of a series.

    Attributes:
        accuracy: of the average itself, before any model is adopted; in [0, 1].
        loss: of the same average, if the trainer reports one.
        over: why the series is over for this node, if it is.
    """

    accuracy: float
    loss: float | None = None
    over: Over | None = None


@dataclass(frozen=True)
class Claim:
    """The claim of a peer about its average in the exchange: its accuracy there, and its digest.

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
