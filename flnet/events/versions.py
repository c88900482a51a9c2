"""What nodes without common rounds tell each other: which version of its model each one has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from flnet.events.base import Event
from flnet.params import Digest, PeerId, Update


@dataclass(frozen=True)
class Mark:
    """What tells one version of a node's model from all others.

    Attributes:
        run: of the node that holds it; it draws another one at each of its starts.
        number: how many versions the node has made; 0 as long as it never trained.
        digest: of the parameters.
    """

    run: str
    number: int
    digest: Digest

    def is_newer_than(self, other: Mark | None) -> bool:
        """Whether it came after another one of the same node (None: of which nothing is known).

        A node that lost its disk counts from 0 again, in another run: so its versions are new, whatever their
        numbers. One that was only started again holds the model that it held.
        """
        if other is None:
            return self.number > 0
        if self.digest == other.digest or self.number == 0:
            return False
        return self.run != other.run or self.number > other.number


@dataclass(frozen=True)
class Version:
    """A peer's model as the peer states it; its parameters can be fetched by their digest.

    Attributes:
        mark: which one it is.
        update: what is stated of it, without parameters.
    """

    mark: Mark
    update: Update

    @property
    def peer(self) -> PeerId:
        """Whose it is."""
        return self.update.peer


@dataclass(frozen=True)
class VersionReceived(Event):
    """A peer said its version, and hears ours."""

    version: Version
    agreement: Mapping[str, str] | None = None


@dataclass(frozen=True)
class VersionAnswered(Event):
    """A peer that heard our version answered with its own."""

    version: Version
