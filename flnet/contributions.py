"""Who contributed what to an average: statements that nodes sign with their own keys, and that anybody can check.

A statement says of an update whose it is, in which round of what, with what its training began, what came of it,
and from how many examples. It stays with the record of the round and with the model after the update is gone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

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
        """What stands in the record of its round, which says trainer, round and initiator itself."""
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
