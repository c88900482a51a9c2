"""What others may tell this node, and how often: looked at before its core hears of it."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from flnet.events import (
    AnnounceAnswered,
    AnnounceReceived,
    Event,
    ProbeAnswered,
    ProbeReceived,
    SendFailed,
    UpdateOffered,
    UpdateReceived,
    VersionAnswered,
    VersionReceived,
)
from flnet.messages import MAX_PEERS, Announce, AskVersion, JobMessage, Message, News, Peer, Probe
from flnet.names import hostport
from flnet.networks import OWN_MACHINE, PRIVATE, Networks, address_of, networks_of
from flnet.node.buckets import Buckets
from flnet.params import PeerId, Update
from flnet.postponing import postponed
from flnet.refusals import AddressRefused, ContributionRefused, TooManyMessages
from flnet.settings import LOOPBACK, Settings
from flnet.signing import NodeKey

with postponed("psutil"):  # a node that listens on loopback needs none of it
    import psutil

BURST, PER_SECOND = 500.0, 50.0  # messages that one id may send: a round takes four, probing a few a second
TOLD, SECONDS_PER_TOLD = 20, 30.0  # refusals of one address that people hear of
ALL_TOLD, SECONDS_PER_ALL_TOLD = 100, 10.0  # of all addresses together
SAME_SECONDS = 600.0  # after which the same sentence is worth telling again
WIDEST = 16  # bits at least that the network of an own interface has in common
Publish = Callable[[str, str], object]


def networks_for(settings: Settings) -> Networks:
    """The networks of the settings; see FLNET_ALLOWED_NETWORKS for what they are if nobody says.

    The default lets a mesh inside of one site work, where addresses are private or those of the machine's own
    network, and reaches nothing beyond it: what lies elsewhere a person has to name.
    """
    pairs = [pair.rpartition(":") for pair in settings.bootstrap_pairs]
    hosts, ports = [host.strip("[]") for host, _, _ in pairs], [int(port) for _, _, port in pairs]
    host, port = settings.listen_address.strip("[]"), settings.node_port
    at_home = host in LOOPBACK or host.startswith("127.")
    allowed = settings.allowed_networks or (OWN_MACHINE if at_home else (*OWN_MACHINE, *PRIVATE, *interfaces()))
    everywhere = (address_of(host) or address_of("0.0.0.0")) in (address_of("0.0.0.0"), address_of("::"))  # noqa: S104
    own = [settings.node_ip or "", *(own_addresses() if everywhere else [host])]
    return Networks(allowed, named=hosts, ports=ports, own=own, port=port)


def own_addresses() -> list[str]:
    """The IP addresses of this machine."""
    found = [one.address.partition("%")[0] for each in psutil.net_if_addrs().values() for one in each]
    return [address for address in found if address_of(address) is not None]


def interfaces() -> list[str]:
    """The networks that this machine has an address in, but for those that are too wide to be its own."""
    found = []
    for one in (address for each in psutil.net_if_addrs().values() for address in each):
        address = address_of(one.address.partition("%")[0])
        if address is None or one.netmask is None:
            continue
        length = sum(bin(int(part, 16 if ":" in one.netmask else 10)).count("1") for part in _parts(one.netmask))
        if length >= WIDEST:
            wide = int(address) >> (address.max_prefixlen - length) << (address.max_prefixlen - length)
            found += [str(network) for network in networks_of([f"{type(address)(wide)}/{length}"])]
    return found


def _parts(netmask: str) -> Iterable[str]:
    return filter(None, netmask.partition("/")[0].replace(":", ".").split("."))


def check_contribution(update: Update, signer: NodeKey) -> None:
    """Whether what a peer states of its update was signed with the key that it names.

    Raises:
        ContributionRefused: it was not; one that is not signed at all is none of these.
    """
    stated = update.contribution
    if stated is None or not stated.is_signed:
        return
    if not signer.verify(stated.key, base64.b64decode(stated.signature), stated.statement()):
        raise ContributionRefused(f"what {update.peer} states of its update is not what it signed")


class Gate:
    """Looks at every message from outside, and at every answer.

    Attributes:
        networks: in which peers that others name are called; None: everywhere.
        signer: checks what is stated of updates; None: nothing is checked, as in an open mesh.
    """

    signer: NodeKey | None = None

    def __init__(self, me: str, clock: Callable[[], float], publish: Publish) -> None:
        """Args:
        me: this node's own id.
        clock: seconds, of which only differences count.
        publish: tells people, by kind and words.
        """
        self.networks: Networks | None = None
        self._me, self._publish = me, publish
        self._buckets = Buckets(BURST, PER_SECOND, clock)
        self._told: set[str] = set()
        self._refused = Buckets(TOLD, 1 / SECONDS_PER_TOLD, clock)
        self._refused_at_all = Buckets(ALL_TOLD, 1 / SECONDS_PER_ALL_TOLD, clock)
        self._same = Buckets(1, 1 / SAME_SECONDS, clock)

    def tell_refused(self, words: str, caller_ip: str = "") -> None:
        """Let people know of a refused message, but not of the same sentence again, nor of a flood of them."""
        if self._refused.wait(caller_ip) or self._refused_at_all.wait("") or self._same.take(words):
            return
        self._refused.take(caller_ip)
        self._refused_at_all.take("")
        self._publish("refused_here", words)

    def count(self, message: Message, caller_ip: str) -> None:
        """One more message from there of who says who it is; others may say so, too, and are counted apart.

        Raises:
            TooManyMessages: there were too many of late.
        """
        if isinstance(message, Announce | Probe | JobMessage):
            seconds = self._buckets.take(f"{caller_ip} {message.i_am.id}")
            if seconds:
                raise TooManyMessages(seconds)

    def admit(self, message: Message, event: Event, caller_ip: str) -> Event:
        """What is left of a message, and means this, without the addresses that are not called.

        Raises:
            TooManyMessages: there were too many from the caller of late.
            AddressRefused: the caller itself would have to be called there.
            ContributionRefused: what it states of its update is not signed as it says.
        """
        self.count(message, caller_ip)
        if self.signer is not None and isinstance(event, UpdateReceived | UpdateOffered):
            check_contribution(event.update, self.signer)
        if self.signer is not None and isinstance(event, VersionReceived):
            check_contribution(event.version.update, self.signer)
        if self.networks is None or not isinstance(event, AnnounceReceived | ProbeReceived):
            return event
        peer = event.peer
        assert peer.ip is not None
        if why := self.networks.refusal(peer.ip, peer.port, caller_ip):
            raise AddressRefused(peer.address, why)
        if isinstance(event, ProbeReceived):
            return replace(event, news=self._without(event.news, caller_ip))
        known = tuple(one for one in event.known if self._is_callable(one, caller_ip))
        return replace(event, known=known, members=self._without(event.members, caller_ip))

    def heard(self, event: Event, address_of: Callable[[PeerId], str | None]) -> Event:
        """The same for what this node was answered.

        Args:
            event: any that is on its way to the core.
            address_of: where a member is.
        """
        if isinstance(event, VersionAnswered):
            return self._checked(event)
        if self.networks is None:
            return event
        match event:
            case AnnounceAnswered(address, peer, others, members=members):
                host, _, port = address.rpartition(":")
                teller = host.strip("[]")
                if not self._is_callable(peer, teller):
                    peer = peer.model_copy(update={"ip": teller, "port": int(port)})  # where it answered
                others = tuple(one for one in others if self._is_callable(one, teller))
                return replace(event, peer=peer, announce_to=others, members=self._without(members, teller))
            case ProbeAnswered(peer_id, news=news) if news:
                teller = (address_of(peer_id) or "").rpartition(":")[0].strip("[]")
                return replace(event, news=self._without(news, teller))
        return event

    def _checked(self, event: VersionAnswered) -> Event:
        """A version that is not signed as its peer says counts as no answer."""
        update = event.version.update
        try:
            if self.signer is not None:
                check_contribution(update, self.signer)
        except ContributionRefused as exc:
            return SendFailed(update.peer, AskVersion.path, update.key, exc.message)
        return event

    def _without(self, news: Sequence[News], told_by: str) -> tuple[News, ...]:
        """The news, without addresses that are not called: what is said of known members is heard all the same."""
        return tuple(
            one if self._is_callable(one, told_by) else one.model_copy(update={"ip": None}) for one in news
        )

    def _is_callable(self, one: Peer | News, told_by: str) -> bool:
        assert self.networks is not None
        why = self.networks.refusal(one.ip, one.port, told_by) if one.ip is not None else None
        if why is not None and one.id != self._me and one.ip not in self._told and len(self._told) < MAX_PEERS:
            self._told.add(f"{one.ip}")  # once: who names it will name it again
            where = hostport(f"{one.ip}", one.port)
            self._publish("address_refused", f"{one.id} at {where} is not called: {why}")
        return why is None
