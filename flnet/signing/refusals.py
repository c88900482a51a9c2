"""Why a signed exchange is refused; the root of the errors is flnet.errors."""

from __future__ import annotations

from flnet.errors import PeerError


class SignatureNeeded(PeerError):
    """A request between nodes of a mesh with a key that is not signed, or not for this start of this node."""

    status = 401
    code = "signature_needed"


class SignatureRefused(PeerError):
    """A signature that is wrong, cannot be read, or was used before; the message says which."""

    status = 403
    code = "signature_refused"
