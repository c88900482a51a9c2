"""Who is let in to a mesh with a key, and what people hear of those who are not."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from flnet.errors import PeerError
from flnet.events import AnnounceReceived, Event
from flnet.fingerprints import short
from flnet.membership import Members
from flnet.messages import Announce, JobMessage, Message, Probe
from flnet.node.buckets import Buckets
from flnet.node.trust import Trust
from flnet.refusals import TooManyMessages
from flnet.signing import Caller, Gate
from flnet.signing.gate import Header
from flnet.signing.refusals import NotAccepted, Pending, SignatureNeeded, SignatureRefused
from flnet.signing.requests import RECEIVER, UNKNOWN, read_receiver

MOST_TOLD = 256  # refusals that people hear of, each address and reason once
KNOCKS, PER_SECOND = 10.0, 1.0  # of all strangers at one address together


class Door:
    """The gate of a node, which tells each refusal once."""

    def __init__(self, gate: Gate, publish: Callable[[str, str], object], trust: Trust | None = None) -> None:
        """Args:
        publish: takes the kind of what happened, and a sentence.
        trust: of a pinned mesh; strangers may announce themselves, and nothing else.
        """
        self._gate, self._publish, self.trust = gate, publish, trust
        self._knocks = Buckets(KNOCKS, PER_SECOND)
        self._told: set[tuple[str, str]] = set()

    @property
    def challenge(self) -> str:
        """The value of WWW-Authenticate that says whom requests have to be signed for."""
        return self._gate.me.challenge

    def enter(self, method: str, path: str, query: str, header: Header, caller_ip: str) -> Caller:
        """The caller of a request; see `flnet.signing.gate.Gate.admit`.

        Raises:
            SignatureNeeded, SignatureRefused, NotAccepted: it is not let in.
            TooManyMessages: a stranger announces itself too often.
        """
        try:
            caller = self._gate.admit(method, path, query, header)
            self._check_key(caller.key, method, path, caller_ip)
            return caller
        except SignatureNeeded as exc:
            said = header(RECEIVER) or ""
            if said != UNKNOWN and read_receiver(said) is None:  # those who can sign come again in a moment
                self.tell(caller_ip, path, exc)
            raise
        except (SignatureRefused, NotAccepted) as exc:
            self.tell(caller_ip, path, exc)
            raise

    def _check_key(self, key: str, method: str, path: str, caller_ip: str) -> None:
        if self.trust is None or self.trust.trusts(key):
            return
        if self.trust.is_out(key) or (method, path) != ("POST", Announce.path):
            raise NotAccepted(f"the key with the fingerprint {short(key)} is not accepted here")
        if seconds := self._knocks.take(caller_ip):
            raise TooManyMessages(seconds)

    def tell(self, caller_ip: str, path: str, error: PeerError) -> None:
        """Let people know that somebody is not let in, once for each address and reason."""
        told = (caller_ip, error.message)
        if told not in self._told and len(self._told) < MOST_TOLD:
            self._told.add(told)
            self._publish("refused_here", f"a request from {caller_ip} to {path} was refused: {error}")

    def answer(
        self, caller: Caller, status: int, content_type: str | None, sha256: bytes | None
    ) -> Mapping[str, str]:
        """The headers that sign an answer; see `flnet.signing.gate.Gate.answer`."""
        return self._gate.answer(caller, status, content_type, sha256)


def check_speaker(members: Members, message: Message, signer: str) -> None:
    """Whether who signed a message may say it: each node speaks in its own name only.

    Args:
        signer: the public key that signed; empty in an open mesh, where that is not known.

    Raises:
        SignatureRefused: it is another node's to say.
    """
    if not signer:
        return
    if isinstance(message, Announce | Probe) and message.key != signer:
        raise SignatureRefused("the message names another key than the one that signed it")
    if isinstance(message, JobMessage) and not members.fits(message.sender, signer):
        raise SignatureRefused(f"the message is signed by another node than {message.sender!r}")


def check_trusted(trust: Trust | None, message: Message, event: Event, signer: str, me: str) -> None:
    """In a pinned mesh: whether two nodes have accepted each other, so that an announcement is taken.

    Args:
        event: what the message means here.
        signer: the public key that signed it.
        me: this node's name.

    Raises:
        Pending: one of them has not yet; the caller waits here from now on, if it is a stranger.
    """
    if trust is None or not isinstance(message, Announce) or not isinstance(event, AnnounceReceived):
        return
    is_known = trust.trusts(signer)
    trust.met(signer, event.peer.id, event.peer.address)
    if is_known and not message.knock:
        return
    if is_known:
        raise Pending(f"{me} accepts this key already, and waits to be accepted in turn", me)
    raise Pending(f"a person at {me} has to accept the fingerprint {short(signer)} first", me)
