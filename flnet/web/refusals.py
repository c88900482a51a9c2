"""How a request is refused that only persons of this node may make."""

from __future__ import annotations

from collections.abc import Mapping

from flnet.errors import PeerError


class SignInNeeded(PeerError):
    """For persons of this node only: sign in, send the operator's token, or ask from its own machine."""

    status = 401
    code = "sign_in_needed"


class TooManyRequests(PeerError):
    """More than persons can mean, or too many wrong tokens; `Retry-After` says when to come again."""

    status = 429
    code = "too_many_requests"

    def __init__(self, message: str, retry_after: int) -> None:
        super().__init__(message)
        self.retry_after = retry_after

    def details(self) -> Mapping[str, object]:
        """Seconds until it may be tried again."""
        return {"retryAfter": self.retry_after}


class NotPinned(PeerError):
    """The mesh is open or keyed, so there is nobody to accept or to turn away."""

    status = 409
    code = "not_pinned"
