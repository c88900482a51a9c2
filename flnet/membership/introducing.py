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

from flnet.membership.roster import Member, Roster, State, place_of
from flnet.params.params import PeerId
from flnet.protocol.messages import News, Peer


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


class StatedDigests:
    """What members said lately of whom they know; at most one value for each."""

    def __init__(self) -> None:
        self._stated: dict[PeerId, tuple[str | None, int]] = {}

    def note(self, peer: PeerId, digest: str | None, tick: int) -> None:
        """A member stated this digest, or none, as nodes of earlier versions."""
        self._stated[peer] = digest, tick

    def differing(self, own: str, tick: int) -> list[PeerId]:
        """Members that said something else since the last tick; what is older is forgotten."""
        self._stated = {peer: stated for peer, stated in self._stated.items() if stated[1] >= tick - 1}
        return [peer for peer, (digest, _) in self._stated.items() if digest != own]
