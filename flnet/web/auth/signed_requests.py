"""Signed requests between the nodes of a keyed or pinned mesh: verified by their head, and answered with a signature.

A signature is verified before the body is read, so an unsigned request costs no more than its head. Whether the body
is the one that was signed is checked after it has been read.
"""

from __future__ import annotations

from collections.abc import Callable

from quart import Response, g, request
from quart.wrappers.response import DataBody

from flnet.errors import NotAccepted, PeerError, SignatureNeeded, SignatureRefused, TooManyMessages
from flnet.fingerprints import short
from flnet.node.trust import Trust
from flnet.protocol.messages import Announce
from flnet.security.rate_limits import Buckets, network_of
from flnet.security.signatures import RECEIVER, UNKNOWN, read_receiver
from flnet.security.signing import Caller, RequestVerifier
from flnet.text import text
from flnet.web.auth.permissions import caller_ip
from flnet.wire.transport import sha256_of

# Refusals in the event log: in all, and of one address; each reason once.
MAX_REPORTED, MAX_REPORTED_EACH = 256, 16
KNOCKS, KNOCKS_PER_SECOND = 10.0, 1.0  # announcements of all strangers at one address together


class SignedRequests:
    """Verifies requests of other nodes and signs the answers to them."""

    def __init__(
        self, gate: RequestVerifier, publish: Callable[[str, str], object], trust: Trust | None = None
    ) -> None:
        """Args:
        gate: verifies signatures, and signs answers.
        publish: writes an event: its kind and a sentence.
        trust: of a pinned mesh; strangers may announce themselves there, and nothing else.
        """
        self._gate, self._publish, self._trust = gate, publish, trust
        self._knocks = Buckets(KNOCKS, KNOCKS_PER_SECOND)
        self._reported: set[tuple[str, str]] = set()

    def is_signed(self) -> bool:
        """Whether the current request looks signed; the operator's browser and scripts sign nothing."""
        return RECEIVER in request.headers or "Signature-Input" in request.headers

    def signer(self) -> Caller | None:
        """Who signed the current request; None if it is not signed."""
        return signer_of_request()

    def verify(self) -> None:
        """Verify the signature of the current request, by its head.

        Raises:
            SignatureNeeded: it is not signed, or not for this start of this node.
            SignatureRefused: the signature is wrong, or was used before.
            NotAccepted: nobody accepted the key (pinned mesh).
            TooManyMessages: a stranger announces itself too often.
        """
        path = request.scope["raw_path"].decode("latin-1")
        query = request.scope["query_string"].decode("latin-1")
        g.signed_requests = self
        try:
            g.signer = self.enter(request.method, path, query, request.headers.get, caller_ip())
        except SignatureNeeded:
            g.challenge = self._gate.me.challenge
            raise

    def enter(self, method: str, path: str, query: str, header: Callable[[str], str | None], ip: str) -> Caller:
        """The node that signed a request, of which method, path and headers are given; see `verify`."""
        try:
            caller = self._gate.admit(method, path, query, header)
            self._check_key(caller.key, method, path, ip)
        except SignatureNeeded as exc:
            stated = header(RECEIVER) or ""
            if stated != UNKNOWN and read_receiver(stated) is None:  # who can sign comes again in a moment
                self.report(ip, path, exc)
            raise
        except (SignatureRefused, NotAccepted) as exc:
            self.report(ip, path, exc)
            raise
        return caller

    def report(self, ip: str, path: str, error: PeerError) -> None:
        """Write a refusal to the event log, once for each address and reason."""
        place = network_of(ip)
        reported = (place, error.message)
        of_place = sum(place == other for other, _ in self._reported)
        if reported not in self._reported and len(self._reported) < MAX_REPORTED and of_place < MAX_REPORTED_EACH:
            self._reported.add(reported)
            self._publish(
                "refused_here", text("a request from {caller} to {path} was refused: {reason}", ip, path, error)
            )

    async def sign(self, answer: Response) -> Response:
        """Sign the answer to a node that was admitted; tell others for whom they have to sign."""
        if (challenge := g.get("challenge")) is not None:
            answer.headers["WWW-Authenticate"] = challenge
        elif (caller := self.signer()) is not None:
            whole = isinstance(answer.response, DataBody)
            sha256 = await sha256_of(await answer.get_data(as_text=False)) if whole else None
            content_type = answer.headers.get("Content-Type")
            answer.headers.update(self._gate.answer(caller, answer.status_code, content_type, sha256))
        return answer

    def _check_key(self, key: str, method: str, path: str, ip: str) -> None:
        if self._trust is None or self._trust.trusts(key):
            return
        if self._trust.is_out(key) or (method, path) != ("POST", Announce.path):
            raise NotAccepted(text("the key with the fingerprint {part} is not accepted here", short(key)))
        if seconds := self._knocks.take(network_of(ip)):
            raise TooManyMessages(seconds)


def signer_of_request() -> Caller | None:
    """Who signed the current request; None if it is not signed."""
    caller: Caller | None = g.get("signer")
    return caller


async def signed_by(body: bytes | memoryview) -> str:
    """The public key that signed the current request, whose body this is; empty in an open mesh.

    Raises:
        SignatureRefused: the body is not the one that was signed.
    """
    caller = signer_of_request()
    if caller is None:
        return ""
    try:
        caller.sent(await sha256_of(body))
    except SignatureRefused as exc:
        g.signed_requests.report(caller_ip(), request.path, exc)
        raise
    return caller.key
