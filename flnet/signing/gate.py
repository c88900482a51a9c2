"""The receiving side: which requests are let in, and what shows that an answer is this node's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from flnet.signing.base import MeshKey, NodeKey, digest_field, read_digest
from flnet.signing.counters import Counters
from flnet.signing.refusals import SignatureNeeded, SignatureRefused
from flnet.signing.requests import (
    RECEIVER,
    Asked,
    Receiver,
    Said,
    check,
    read_nonce,
    read_receiver,
    read_signed,
    sign,
)

Header = Callable[[str], str | None]  # the value of a header by name; None if there is none


@dataclass(frozen=True)
class Caller:
    """Who signed a request.

    Attributes:
        key: its public key.
        sha256: of the content, which is yet to come.
        signature: of the request.
    """

    key: str
    sha256: bytes
    signature: bytes

    def sent(self, sha256: bytes) -> None:
        """Check the content that came by its SHA-256.

        Raises:
            SignatureRefused: it is not what was signed.
        """
        if sha256 != self.sha256:
            raise SignatureRefused("the content is not the one that was signed: it changed on the way")


class Gate:
    """Lets requests in that a node of this mesh signed for this node, each of them once."""

    def __init__(self, node: NodeKey, mesh: MeshKey | None, new_session: Callable[[], str]) -> None:
        """Args:
        mesh: the key that all nodes must know; None: their own keys suffice.
        new_session: gives 32 hexadecimal digits that nobody can guess.
        """
        self._node, self._mesh, self._new_session = node, mesh, new_session
        self._counters = Counters()
        self.me = Receiver(node.text, new_session())

    def admit(self, method: str, path: str, query: str, header: Header) -> Caller:
        """The caller of a request, by its headers; the content is checked by `Caller.sent`.

        Args:
            path: as in the request line, without the query.
            query: what follows the question mark.

        Raises:
            SignatureNeeded: not signed, or for another node, or for a session that is over.
            SignatureRefused: it is wrong, or was let in before.
        """
        inputs, proofs = header("Signature-Input"), header("Signature")
        if inputs is None or proofs is None:
            raise SignatureNeeded("requests between the nodes of this mesh are signed, and this one is not")
        if read_receiver(header(RECEIVER) or "") != self.me:
            raise SignatureNeeded("the request was signed for another node, or before this one was started again")
        signed = read_signed(inputs, proofs, self._mesh is not None)
        run, number = read_nonce(signed.covered)
        digest = header("Content-Digest") or ""
        asked = Asked(
            method, path, f"?{query}", digest, str(self.me), header("Content-Type") if method == "POST" else None
        )
        key = check(signed, asked.values(), self._node, self._mesh)
        sha256 = read_digest(digest)
        if not self._counters.take(key, run, number):
            raise SignatureRefused("this request was answered before; it is not taken a second time")
        if self._counters.full:  # what was signed for the session that ends is refused from now on
            self.me, self._counters = Receiver(self._node.text, self._new_session()), Counters()
        return Caller(key, sha256, signed.node)

    def answer(
        self, caller: Caller, status: int, content_type: str | None, sha256: bytes | None
    ) -> Mapping[str, str]:
        """The headers that show that an answer is this node's, and to which request.

        Args:
            sha256: of the content; None for content that shows by itself that it is right.
        """
        digest = digest_field(sha256) if sha256 is not None else None
        said = Said(status, caller.signature, content_type, digest)
        headers, _ = sign(said.values(), self._node, self._mesh, None)
        return headers | ({"Content-Digest": digest} if digest else {})
