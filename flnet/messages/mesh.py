"""The messages by which nodes find each other and stay in touch."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from flnet.messages.base import MAX_PEERS, Forms, Host, Message, Name, Peer, Port, PublicKey

MAX_INCARNATION = 2**53  # larger numbers are not exact in every JSON reader
StateWord = Literal["alive", "suspect", "dead", "left"]
Incarnation = Annotated[int, Field(ge=0, le=MAX_INCARNATION)]


class News(Message):
    """What somebody holds a member for.

    Attributes:
        ip, port: where it is; without ip, where the receiver knows it.
        by: who found by itself that it does not answer; passed on with an accusation only.
    """

    id: Name
    ip: Host | None = None
    port: Port
    state: StateWord
    incarnation: Incarnation
    by: Name | None = None


class Announce(Message):
    """POST /announce: here I am, and these are the peers that I know.

    Attributes:
        accepts: forms of parameters that this node reads besides the thesis' JSON; others are for newer nodes.
        incarnation: how often this node showed an accusation to be wrong; said by nodes that probe each other.
        members: all that it knows of members, itself and those that died or left included.
        key: by which this node is known wherever it is; a node that keeps nothing on a disk says none.
        knock: in a pinned mesh, that the sender has not accepted the receiver yet, and says no more than its name.
    """

    path: ClassVar[str] = "/announce"

    i_am: Peer
    my_known_peers: list[Peer] = Field(default=[], max_length=MAX_PEERS)
    accepts: Forms | None = None
    incarnation: Incarnation | None = None
    members: Annotated[list[News], Field(max_length=2 * MAX_PEERS)] | None = None
    key: PublicKey | None = None
    knock: bool | None = None


class AnnounceReply(Message):
    """The answer to an announcement: the peers that the caller lacks, to whom it announces itself next."""

    announce_yourself_to_peers: list[Peer] = Field(default=[], max_length=MAX_PEERS)
    i_am: Peer
    accepts: Forms | None = None
    incarnation: Incarnation | None = None
    members: Annotated[list[News], Field(max_length=2 * MAX_PEERS)] | None = None
    key: PublicKey | None = None


class Probe(Message):
    """POST /probe: are you there; and the newest of who else is.

    Attributes:
        news: what is passed on from node to node.
        target: a peer that does not answer the sender; the receiver shall probe it, and tell.
        reached: a peer that the receiver had asked to probe, and that answered.
        missed: one that did not answer.
    """

    path: ClassVar[str] = "/probe"

    i_am: Peer
    incarnation: Incarnation = 0
    news: list[News] = Field(default=[], max_length=MAX_PEERS)
    target: Peer | None = None
    reached: Name | None = None
    missed: Name | None = None
    key: PublicKey | None = None


class ProbeReply(Message):
    """The answer to a probe: I am here, and my newest of who else is."""

    i_am: Peer
    incarnation: Incarnation = 0
    news: list[News] = Field(default=[], max_length=MAX_PEERS)
    key: PublicKey | None = None
