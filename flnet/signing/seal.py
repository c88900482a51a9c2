"""The sending side: signs requests for the node at an address, and checks that its answers are its own."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from flnet.errors import TransportError
from flnet.signing.base import MeshKey, NodeKey, digest_field, read_digest
from flnet.signing.refusals import SignatureRefused, StrangerThere
from flnet.signing.requests import (
    RECEIVER,
    UNKNOWN,
    Asked,
    Receiver,
    Said,
    check,
    read_challenge,
    read_signed,
    sign,
)

Header = Callable[[str], str | None]  # the value of a header by name; None if there is none

MOST_ADDRESSES = 4096
UNPROVEN = frozenset({401, 403})  # refusals that come unsigned: who is not let in has to be told so


@dataclass(frozen=True)
class Proven:
    """An answer whose signature is right.

    Attributes:
        key: the public key of the node that gave it.
        sha256: of its content; None where that must show by itself that it is right.
    """

    key: str
    sha256: bytes | None

    def came(self, sha256: bytes) -> None:
        """Check the content that came by its SHA-256.

        Raises:
            TransportError: it is not what was signed.
        """
        if sha256 != self.sha256:
            raise TransportError("its answer changed on the way: the content is not the one that was signed")


class Sealed:
    """One request under way."""

    def __init__(
        self, seal: Seal, receiver: Receiver | None, headers: Mapping[str, str], signature: bytes
    ) -> None:
        """Made by `Seal.request`."""
        self.headers = headers
        self.receiver = receiver
        self._seal, self._signature = seal, signature

    def answered(self, status: int, header: Header) -> Proven | None:
        """Check the head of the answer.

        Returns:
            None for the refusal of a node that does not let this one in.

        Raises:
            TransportError: the answer is not shown to be one of the node that was asked.
        """
        inputs, proofs = header("Signature-Input"), header("Signature")
        if self.receiver is None or inputs is None or proofs is None:
            if status in UNPROVEN:
                return None
            raise TransportError(
                f"its answer ({status}) is not signed: this node is in a mesh with a key, and that one is not"
            )
        digest = header("Content-Digest")
        said = Said(status, self._signature, header("Content-Type"), digest)
        try:
            key = self._seal.check(inputs, proofs, said)
            sha256 = read_digest(digest) if digest is not None else None
        except SignatureRefused as exc:
            raise TransportError(f"its answer ({status}) is not its own: {exc}") from None
        if key != self.receiver.key:
            raise TransportError(f"its answer ({status}) is of another node than the one that was asked")
        return Proven(key, sha256)


class Seal:
    """Signs what this node sends; knows for each address who was there when it last answered."""

    def __init__(
        self, node: NodeKey, mesh: MeshKey | None, run: str, trusts: Callable[[str], bool] | None = None
    ) -> None:
        """Args:
        mesh: the key that all nodes know; None: their own keys suffice.
        run: 16 hexadecimal digits that no earlier run of this node had.
        trusts: whether the node with this public key may be asked; None: any.
        """
        self._trusts = trusts
        self._node, self._mesh, self._run = node, mesh, run
        self._number = 0
        self._receivers: OrderedDict[str, Receiver] = OrderedDict()

    def request(
        self,
        address: str,
        method: str,
        path: str,
        query: str,
        sha256: bytes,
        content_type: str | None = None,
        *,
        stranger: bool = False,
    ) -> Sealed:
        """Sign one attempt of a request; not where nobody is known yet: that is to be told who is there.

        Args:
            path: as in the request line, without the query.
            query: what follows the question mark.
            sha256: of the content.
            stranger: whether it may go to somebody who is not trusted.

        Raises:
            StrangerThere: the node there is not trusted.
        """
        receiver = self._receivers.get(address)
        if receiver is None:
            return Sealed(self, None, {RECEIVER: UNKNOWN}, b"")
        if not stranger and self._trusts is not None and not self._trusts(receiver.key):
            del self._receivers[address]  # another one may be there the next time
            raise StrangerThere(address, receiver.key)
        self._number += 1
        digest = digest_field(sha256)
        asked = Asked(method, path, f"?{query}", digest, str(receiver), content_type)
        signed, signature = sign(asked.values(), self._node, self._mesh, f"{self._run}.{self._number}")
        headers = {RECEIVER: str(receiver), "Content-Digest": digest, **signed}
        return Sealed(self, receiver, headers, signature)

    def key_at(self, address: str) -> str:
        """The public key of who was at an address when it last said so; empty if it never did."""
        receiver = self._receivers.get(address)
        return receiver.key if receiver else ""

    def learn(self, address: str, sealed: Sealed, status: int, header: Header) -> bool:
        """Take from a refusal who is there; True if the same request, signed for that node, may succeed."""
        told = read_challenge(header("WWW-Authenticate") or "") if status == 401 else None
        if told is None or told == sealed.receiver:
            return False
        self._receivers[address] = told
        self._receivers.move_to_end(address)
        if len(self._receivers) > MOST_ADDRESSES:
            self._receivers.popitem(last=False)
        return True

    def check(self, inputs: str, proofs: str, said: Said) -> str:
        """The public key of whoever signed an answer.

        Raises:
            SignatureRefused: it is not signed as it should be.
        """
        signed = read_signed(inputs, proofs, self._mesh is not None)
        return check(signed, said.values(), self._node, self._mesh)
