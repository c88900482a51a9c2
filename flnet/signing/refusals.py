"""Why a signed exchange is refused; the root of the errors is flnet.errors."""

from __future__ import annotations

from collections.abc import Mapping

from flnet.errors import PeerError, PeerUnreachable
from flnet.fingerprints import short


class SignatureNeeded(PeerError):
    """A request between nodes of a mesh with a key that is not signed, or not for this start of this node."""

    status = 401
    code = "signature_needed"


class SignatureRefused(PeerError):
    """A signature that is wrong, cannot be read, or was used before; the message says which."""

    status = 403
    code = "signature_refused"


class Pending(PeerError):
    """An announcement between nodes of a pinned mesh of which one has not accepted the other yet."""

    status = 403
    code = "pending"

    def __init__(self, words: str, node: str = "") -> None:
        """Args:
        node: the name of the one that answers.
        """
        super().__init__(words)
        self.node = node

    def details(self) -> Mapping[str, object]:
        """Who answers, for the person who may accept it."""
        return {"node": self.node}


class NotAccepted(PeerError):
    """A request to a node of a pinned mesh that does not accept the caller's key."""

    status = 403
    code = "not_accepted"


class StrangerThere(PeerUnreachable):
    """Whoever answers at an address has a key that is not accepted here; nothing was sent to it.

    Attributes:
        key: that key, base64; empty if it has none that a node could have.
    """

    code = "stranger_there"

    def __init__(self, address: str, key: str) -> None:
        shown = f"{address}: its key is not accepted here (its fingerprint begins with {short(key)})"
        super().__init__(shown if key else f"{address}: its key is not accepted here")
        self.key = key
