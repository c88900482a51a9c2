"""What is different in a large mesh: members introduce new ones, and lists are exchanged where they differ.

In a small mesh each node announces itself to each other one, with all that it knows. With N nodes these are N^2
conversations, whose lists grow with N, too. Das, Gupta, Motivala (2002), SWIM, section 4.1, let joins travel as
other news do, with probes. So in a large mesh the news that a member is alive say also what an announcement says
of it, which forms of parameters it reads and its key, and who hears that knows it. A node introduces only members
that answered it at their address, or that were introduced to it.

Nodes of the thesis hear no news, so they are announced to as before. In meshes with keys each pair meets, too: there a
node must show the key by which it is known.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from flnet.membership.probing import MET_IN_PERSON
from flnet.membership.roster import Member, Roster, State, place_of
from flnet.membership.state import Meeting, MeshState
from flnet.params.params import PeerId
from flnet.protocol.events import AnnounceReceived, ProbeReceived
from flnet.protocol.messages import MAX_PEERS, News, Peer

EXCHANGE = 5  # ticks between two exchanges of everything while members differ, in a large mesh


def introduced_by(s: MeshState, news: Sequence[News], teller: Member) -> Iterator[Meeting]:
    """The nodes that a member of a large open mesh introduces; who is not among them is called afterwards.

    Each is to be met before the next one is asked for, because it takes a place.
    """
    new = [item for item in news if item.accepts and item.id != s.my_id and PeerId(item.id) not in s.roster.known]
    if s.roster.size + len(new) <= MET_IN_PERSON:
        return
    for item in new:
        if may_introduce(s.roster, item, teller):
            peer, accepts = Peer(id=item.id, ip=item.ip, port=item.port), frozenset(item.accepts or ())
            yield Meeting(peer, accepts, item.incarnation, item.key)


def introduced_itself(s: MeshState, event: ProbeReceived) -> Meeting | None:
    """What a node of a large open mesh says in its probe as in an announcement; None if it says nothing of the kind."""
    own = next((item for item in event.news if item.id == event.peer.id), None)
    if s.proves_keys or own is None or not own.accepts or s.roster.size < MET_IN_PERSON:
        return None
    return Meeting(event.peer, frozenset(own.accepts), event.incarnation, event.key)


def lacked_by(s: MeshState, event: AnnounceReceived) -> list[Peer]:
    """The peers to which a node that announced itself is to announce itself next.

    In a large open mesh a node that hears news is introduced to the others, except to those that hear none themselves.
    """
    told = {peer.id for peer in event.known} | {event.peer.id}
    is_introduced = s.roster.introduces and event.incarnation is not None
    lacks = (m for m in s.roster if m.alive and m.peer.id not in told and not (is_introduced and m.accepts))
    return [member.peer for member in lacks][:MAX_PEERS]


def news_for(s: MeshState, told: Sequence[News]) -> list[News]:
    """All news for a node that told this one these; in a large mesh only what is new to it."""
    if not s.roster.is_large:
        return list(s.all_news())
    held = {(item.id, item.state, item.incarnation) for item in told}
    return [item for item in s.all_news() if (item.id, item.state, item.incarnation) not in held]


def to_compare_with(s: MeshState) -> list[str]:
    """The address of a member with which everything is exchanged at times; in a large mesh only of one that differs."""
    roster, is_time = s.roster, s.roster.tick % s.pauses.refresh == 0
    if not roster.is_large:
        others = roster.alive if is_time else []
    elif is_time or (roster.tick % EXCHANGE == 0 and not len(roster.gossip)):
        differing = s.digests.differing(roster.digest, roster.tick)
        others = [peer for peer in differing if peer in roster.known and roster.known[peer].alive]
    else:
        others = []
    return [roster.known[peer].peer.address for peer in s.prober.some(others, 1)]


def stated(s: MeshState) -> str | None:
    """What this node states of the members that it knows: nothing in a small mesh."""
    return s.roster.digest if s.roster.is_large else None


def may_introduce(roster: Roster, news: News, teller: Member) -> bool:
    """Whether a node that is unknown here becomes a member because a member says that it is there.

    It does not, and is called instead, if it would take the place or name of another one, or if the address may not be
    the one at which this node reaches it: a node of this machine has another address for nodes of other machines.
    """
    if news.state != State.ALIVE.value or not news.accepts or news.ip is None:
        return False
    named = Peer(id=news.id, ip=news.ip, port=news.port)
    is_local = place_of(news.ip) == ""
    return (
        roster.has_room(named)
        and is_local == (place_of(teller.peer.ip) == "")
        and roster.key_of(PeerId(news.id)) in (None, news.key)
        and not roster.at_or_with(named, news.key)
    )
