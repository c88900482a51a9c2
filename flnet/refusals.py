"""More errors beside those of flnet.errors: whom this node does not call, who asks too often, who sits out."""

from __future__ import annotations

import math
from collections.abc import Mapping

from flnet.errors import PeerError, TrainerError


class AddressRefused(PeerError):
    """The caller is at an address that this node calls nobody at."""

    status = 403
    code = "address_refused"

    def __init__(self, address: str, reason: str) -> None:
        super().__init__(f"this node calls nobody at {address}: {reason}")


class ContributionRefused(PeerError):
    """What a node states of its update is not signed as it says."""

    status = 422
    code = "contribution_refused"


class LabelsRefused(PeerError):
    """A label space, or a table of how two of them correspond, breaks a rule."""

    status = 422
    code = "labels_refused"


class SitsOut(TrainerError):
    """A trainer has nothing to add to this round; the message says why, and nothing is wrong."""

    code = "sits_out"


class NotAnnounced(PeerError):
    """A message of a round came from a node that this one does not know."""

    status = 403
    code = "not_announced"

    def __init__(self, peer_id: str) -> None:
        super().__init__(f"this node does not know {peer_id!r}; announce it first with POST /announce")


class OtherRounds(PeerError):
    """A message of common rounds came to a node that trains and merges by itself, or the other way round."""

    status = 409
    code = "other_rounds"


class TooManyMessages(PeerError):
    """More messages in a short time than this node takes from one node."""

    status = 429
    code = "too_many_messages"

    def __init__(self, seconds: float) -> None:
        self.seconds = max(1, math.ceil(seconds))
        super().__init__(f"too many messages in a short time; try again in {self.seconds} s")

    def details(self) -> Mapping[str, object]:
        """Seconds after which there is a turn for the caller."""
        return {"retryAfter": self.seconds}
