"""Signs requests to other nodes and verifies their requests and answers, in a keyed or pinned mesh.

`RequestSigner` is the sending side: it signs a request for the node at an address, and verifies that the answer is
that node's. `RequestVerifier` is the receiving side: it admits each request once, and signs the answers. Counters of
the requests that were admitted have a window, because requests overtake each other.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from flnet.errors import SignatureNeeded, SignatureRefused, StrangerThere, TransportError
from flnet.security.signatures import (
    RECEIVER,
    UNKNOWN,
    MeshKey,
    NodeKey,
    ReplyParts,
    RequestParts,
    RequestReceiver,
    Signed,
    check,
    digest_field,
    read_challenge,
    read_digest,
    read_nonce,
    read_receiver,
    read_signed,
    sign,
    signature_base,
)
from flnet.text import text

Header = Callable[[str], str | None]  # the value of a header by name; None if there is none

MOST_ADDRESSES = 4096
UNPROVEN = frozenset({401, 403})  # refusals that come unsigned: who is not let in has to be told so
WINDOW = 1024  # requests of one sender that may be under way at once
MOST_SENDERS = 4096
MOST_STRANGERS = 256  # senders that do not take part and are told apart


@dataclass(frozen=True)
class VerifiedReply:
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
            raise TransportError(text("its answer changed on the way: the content is not the one that was signed"))


class SignedRequest:
    """One request under way."""

    def __init__(
        self, signer: RequestSigner, receiver: RequestReceiver | None, headers: Mapping[str, str], signature: bytes
    ) -> None:
        """Made by `RequestSigner.request`."""
        self.headers = headers
        self.receiver = receiver
        self._signer, self._signature = signer, signature

    def answered(self, status: int, header: Header) -> VerifiedReply | None:
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
                text(
                    "its answer ({status}) is not signed: this node is in a mesh with a key, and that one is not",
                    status,
                )
            )
        digest = header("Content-Digest")
        parts = ReplyParts(status, self._signature, header("Content-Type"), digest)
        try:
            key = self._signer.check(inputs, proofs, parts)
            sha256 = read_digest(digest) if digest is not None else None
        except SignatureRefused as exc:
            raise TransportError(text("its answer ({status}) is not its own: {reason}", status, exc)) from None
        if key != self.receiver.key:
            raise TransportError(
                text("its answer ({status}) is of another node than the one that was asked", status)
            )
        return VerifiedReply(key, sha256)


class RequestSigner:
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
        self._receivers: OrderedDict[str, RequestReceiver] = OrderedDict()

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
    ) -> SignedRequest:
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
            return SignedRequest(self, None, {RECEIVER: UNKNOWN}, b"")
        if not stranger and self._trusts is not None and not self._trusts(receiver.key):
            del self._receivers[address]  # another one may be there the next time
            raise StrangerThere(address, receiver.key)
        self._number += 1
        digest = digest_field(sha256)
        parts = RequestParts(method, path, f"?{query}", digest, str(receiver), content_type)
        signed, signature = sign(parts.values(), self._node, self._mesh, f"{self._run}.{self._number}")
        headers = {RECEIVER: str(receiver), "Content-Digest": digest, **signed}
        return SignedRequest(self, receiver, headers, signature)

    def key_at(self, address: str) -> str:
        """The public key of who was at an address when it last said so; empty if it never did."""
        receiver = self._receivers.get(address)
        return receiver.key if receiver else ""

    def learn(self, address: str, signed: SignedRequest, status: int, header: Header) -> bool:
        """Take from a refusal who is there; True if the same request, signed for that node, may succeed."""
        receiver = read_challenge(header("WWW-Authenticate") or "") if status == 401 else None
        if receiver is None or receiver == signed.receiver:
            return False
        self._receivers[address] = receiver
        self._receivers.move_to_end(address)
        if len(self._receivers) > MOST_ADDRESSES:
            self._receivers.popitem(last=False)
        return True

    def check(self, inputs: str, proofs: str, parts: ReplyParts) -> str:
        """The public key of the signer of an answer.

        Raises:
            SignatureRefused: it is not signed as it should be.
        """
        signed = read_signed(inputs, proofs, self._mesh is not None)
        return check(signed, parts.values(), self._node, self._mesh)


class Counters:
    """The numbers that were accepted in this session, by sender; a restarted sender counts as another one."""

    def __init__(self, most: int = MOST_SENDERS) -> None:
        """Args:
        most: runs of senders that it is made for.
        """
        self._most = most
        self._taken: dict[tuple[str, str], tuple[int, int]] = {}  # highest, and a bit for each of the WINDOW below

    @property
    def full(self) -> bool:
        """Whether no further sender can be told apart: then only a new session, with new counters, helps."""
        return len(self._taken) >= self._most

    def forget_oldest(self) -> None:
        """Forget the sender that came first."""
        del self._taken[next(iter(self._taken))]

    def move(self, key: str, run: str, to: Counters) -> None:
        """Hand what is known of a sender over to others."""
        if (taken := self._taken.pop((key, run), None)) is not None:
            to._taken.setdefault((key, run), taken)

    def take(self, key: str, run: str, number: int) -> bool:
        """Note a request as taken; False if it was before, or is so old that nobody knows."""
        highest, seen = self._taken.get((key, run), (-1, 0))
        if number > highest:
            shift = number - highest
            seen = ((seen << shift) | 1) & ((1 << WINDOW) - 1) if shift < WINDOW else 1
            self._taken[key, run] = (number, seen)
            return True
        back = highest - number
        if back >= WINDOW or seen >> back & 1:
            return False
        self._taken[key, run] = (highest, seen | 1 << back)
        return True


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
            raise SignatureRefused(text("the content is not the one that was signed: it changed on the way"))


class RequestVerifier:
    """Lets requests in that a node of this mesh signed for this node, each of them once.

    Attributes:
        me: for whom requests have to be signed.
        users_of_other: while two mesh keys are accepted, the public keys of nodes that signed their last request with
            the second one; None if there is only one.
    """

    def __init__(
        self,
        node: NodeKey,
        mesh: MeshKey | None,
        new_session: Callable[[], str],
        trusts: Callable[[str], bool] | None = None,
    ) -> None:
        """Args:
        mesh: the key that all nodes must know; None: their own keys suffice.
        new_session: gives 32 hexadecimal digits that nobody can guess.
        trusts: whether the node with this public key takes part; None: whoever signs does.
        """
        self._node, self._mesh, self._new_session, self._trusts = node, mesh, new_session, trusts
        self._counters = Counters()
        self._strangers = Counters(MOST_STRANGERS)
        self.users_of_other: set[str] | None = set() if mesh is not None and mesh.accepts_other else None
        self.me = RequestReceiver(node.text, new_session())

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
            raise SignatureNeeded(text("requests between the nodes of this mesh are signed, and this one is not"))
        if read_receiver(header(RECEIVER) or "") != self.me:
            raise SignatureNeeded(
                text("the request was signed for another node, or before this one was started again")
            )
        signed = read_signed(inputs, proofs, self._mesh is not None)
        run, number = read_nonce(signed.covered)
        digest = header("Content-Digest") or ""
        parts = RequestParts(
            method, path, f"?{query}", digest, str(self.me), header("Content-Type") if method == "POST" else None
        )
        key = check(signed, parts.values(), self._node, self._mesh)
        sha256 = read_digest(digest)
        if not self._take(key, run, number):
            raise SignatureRefused(text("this request was answered before; it is not taken a second time"))
        if self.users_of_other is not None:
            self._note_mesh_key(key, signed, parts)
        return Caller(key, sha256, signed.node)

    def _note_mesh_key(self, key: str, signed: Signed, parts: RequestParts) -> None:
        assert self._mesh is not None and self.users_of_other is not None
        if not self._mesh.is_of_other(signed.mesh or b"", signature_base(parts.values(), signed.covered)):
            self.users_of_other.discard(key)
        elif len(self.users_of_other) < MOST_SENDERS:
            self.users_of_other.add(key)

    def _take(self, key: str, run: str, number: int) -> bool:
        """Note a request as taken; False if it was before.

        Anybody can make keys, so those that do not take part have a small store of their own. They may only ask to
        take part, which does no harm a second time: there the oldest is forgotten, and the session goes on.
        """
        if self._trusts is not None and not self._trusts(key):
            is_new = self._strangers.take(key, run, number)
            if self._strangers.full:
                self._strangers.forget_oldest()
            return is_new
        self._strangers.move(key, run, self._counters)
        is_new = self._counters.take(key, run, number)
        if self._counters.full:  # what was signed for the session that ends is refused from now on
            self.me = RequestReceiver(self._node.text, self._new_session())
            self._counters, self._strangers = Counters(), Counters(MOST_STRANGERS)
        return is_new

    def answer(
        self, caller: Caller, status: int, content_type: str | None, sha256: bytes | None
    ) -> Mapping[str, str]:
        """The headers that show that an answer is this node's, and to which request.

        Args:
            sha256: of the content; None for content that shows by itself that it is right.
        """
        digest = digest_field(sha256) if sha256 is not None else None
        parts = ReplyParts(status, caller.signature, content_type, digest)
        headers, _ = sign(parts.values(), self._node, self._mesh, None)
        return headers | ({"Content-Digest": digest} if digest else {})
