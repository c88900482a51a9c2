"""Messages from other nodes: what they mean to the core, and the checks that come before the core hears of them.

`to_event` is the only place that knows both the fields on the wire and the events of the core. `MessageChecks`
limits how often a node may send, and at which addresses peers are called; the `check_` functions verify that a
node speaks in its own name and signed what it states. Requests over HTTP pass `flnet.web.auth.admission` first;
those between nodes of a simulation only pass this module.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from flnet.errors import (
    AddressRefused,
    ContributionRefused,
    ParamsRefused,
    Pending,
    SignatureRefused,
    TooManyMessages,
)
from flnet.fingerprints import short
from flnet.membership.members import Members
from flnet.names import hostport
from flnet.networks import Networks
from flnet.node.trust import Trust
from flnet.params.params import Digest, Params, PeerId, TrainerId
from flnet.protocol.events import (
    AnnounceAnswered,
    AnnounceReceived,
    ClaimReceived,
    DeclineReceived,
    Event,
    Mark,
    PartReceived,
    Paused,
    ProbeAnswered,
    ProbeReceived,
    Resumed,
    RoundAsked,
    RoundTriggered,
    SendFailed,
    SeriesStopped,
    TrainingAsked,
    UpdateOffered,
    UpdateReceived,
    Version,
    VersionAnswered,
    VersionReceived,
    VerticalReceived,
)
from flnet.protocol.messages import (
    MAX_PEERS,
    Accuracy,
    AccuracyReply,
    Announce,
    AskRound,
    AskVersion,
    JobMessage,
    Message,
    ModelParams,
    News,
    Packet,
    Peer,
    Probe,
    ReportMessage,
    StartTraining,
    StatedVersion,
    Trigger,
    VersionReply,
    contribution_of,
    digest_of,
)
from flnet.protocol.secure_sum import SecureSumMessage
from flnet.protocol.segments import SegmentsMessage
from flnet.protocol.updates import TEST, Claim, Contribution, Report, RoundKey, Update
from flnet.protocol.vertical import VerticalMessage
from flnet.rounds.settings import rule_in
from flnet.security.claims import ClaimSigner
from flnet.security.rate_limits import Buckets
from flnet.security.signatures import NodeKey
from flnet.text import text

KINDS: Mapping[str, type[Message]] = {
    kind.path: kind
    for kind in (
        *(Announce, Probe, StartTraining, AskRound, ModelParams, Accuracy, AskVersion),
        *(SecureSumMessage, SegmentsMessage, VerticalMessage, Trigger),
    )
}
STATUS: Mapping[str, int] = {Announce.path: 201, Trigger.path: 202}  # of an answer, by path; 200 for the others
ORDERS: Mapping[str, Event] = {"stop": SeriesStopped(), "pause": Paused(), "resume": Resumed()}  # of a person
VERTICAL_BURST, VERTICAL_PER_SECOND = 5000.0, 1000.0  # of those of vertical jobs, which send some for each batch
BURST, PER_SECOND = 500.0, 50.0  # messages that one id may send: a round takes four, probing a few a second
TOLD, SECONDS_PER_TOLD = 20, 30.0  # refusals of one address that people hear of
ALL_TOLD, SECONDS_PER_ALL_TOLD = 100, 10.0  # of all addresses together
SAME_SECONDS = 600.0  # after which the same sentence is worth telling again
Publish = Callable[[str, str], object]


def to_event(packet: Packet, caller_ip: str) -> tuple[TrainerId | None, Event]:
    """The trainer that a message is for (None: the mesh) and what it means.

    Args:
        caller_ip: where the request came from; stands in for an address that the caller did not state.

    Raises:
        ParamsRefused: a message that must bring parameters brought none.
    """
    match packet.message:
        case Announce() as m:
            known = tuple(peer for peer in m.my_known_peers if peer.ip)
            accepts, members = frozenset(m.accepts or ()), tuple(m.members or ())
            caller = located(m.i_am, caller_ip)
            return None, AnnounceReceived(caller, known, accepts, m.incarnation, members, m.key)
        case Probe() as m:
            return None, probed(m, caller_ip)
        case Trigger() as m:
            asked_for = (m.most, m.federated_learning_params, m.until)
            return TrainerId(m.trainer_id), RoundTriggered(*asked_for, new_numbering=bool(m.new_numbering))
        case StartTraining() as m:
            return m.trainer, _training_asked(m, packet)
        case ModelParams() as m if m.declined is not None:
            return m.trainer, DeclineReceived(m.sender, _key(m), m.declined, bool(m.late))
        case ModelParams() as m if packet.params is None and m.digest is not None:
            return m.trainer, UpdateOffered(
                update_of(m, Params()), Digest(m.digest), _stated(m), m.choice, m.seconds, m.run, m.owned
            )
        case ModelParams() as m:
            return m.trainer, UpdateReceived(update_of(m, _params(packet)), _stated(m), m.choice, m.seconds, m.run)
        case Accuracy() as m:
            return m.trainer, ClaimReceived(_claimed(m, packet.params), _stated(m))
        case AskRound() as m:
            return m.trainer, RoundAsked(m.sender)
        case AskVersion() as m:
            return m.trainer, VersionReceived(version_of(m, m.sender, m.round, m.trainer), _stated(m))
        case SecureSumMessage() as m:
            return m.trainer, PartReceived(m.sender, _key_of(m), m.attempt, m.part, _stated(m), m.choice)
        case SegmentsMessage() as m:
            return m.trainer, PartReceived(m.sender, _key_of(m), 0, m.part, _stated(m), m.choice, packet.params)
        case VerticalMessage() as m:
            said = (m.session, m.number, m.parts, packet.params or Params(), m.federated_learning_params)
            return m.trainer, VerticalReceived(m.sender, _key_of(m), *said)
    raise TypeError(f"{type(packet.message).__name__} is no request")


def _training_asked(m: StartTraining, packet: Packet) -> TrainingAsked:
    return TrainingAsked(
        m.sender,
        m.key,
        packet.params if m.digest else _params(packet),
        m.federated_learning_params,
        m.base_round,
        m.contributors,
        _stated(m),
        Digest(m.digest) if m.digest else None,
        m.restored_at,
        m.series,
        m.choice,
        m.run,
        bool(m.again),
    )


def update_of(m: ModelParams, params: Params) -> Update:
    """The update of a peer, as it states it."""
    base = Digest(m.base) if m.base else None
    figures = (m.examples, m.labels or 1, m.accuracy, base, m.staleness or 0)
    memory = Digest(m.memory) if m.memory else None
    stated, segments = contribution_of(m), tuple(map(Digest, m.segments or ()))
    return Update(
        m.sender,
        _key(m),
        params,
        *figures,
        contribution=stated,
        memory=memory,
        group=m.group or "",
        segments=segments,
        rule=rule_in(_stated(m)),
    )


def version_of(m: StatedVersion, peer: PeerId, number: int, trainer: TrainerId) -> Version:
    """The version that a node states of itself.

    Args:
        peer: who states it.
        number: of the version.
    """
    stated = None
    if m.schema_digest is not None and m.base is not None and number > 0:
        signed_fields = (peer, trainer, number, peer, m.schema_digest, m.base, m.digest, m.examples)
        stated = Contribution(*signed_fields, m.labels or 1, m.key or "", m.signature or "")
    base = Digest(m.base) if m.base else None
    figures = (m.examples, m.labels or 1, m.accuracy, base)
    update = Update(peer, RoundKey(number, peer), Params(), *figures, contribution=stated)
    return Version(Mark(m.run, number, Digest(m.digest)), update)


def version_in(reply: Packet, trainer: TrainerId) -> Version:
    """The version in the answer to our own."""
    m = reply.message
    assert isinstance(m, VersionReply)
    return version_of(m, PeerId(m.i_am.id), m.round, trainer)


def probed(m: Probe, caller_ip: str) -> ProbeReceived:
    """The event that a probe causes."""
    target = PeerId(m.target.id) if m.target else None
    reached, missed = (PeerId(name) if name else None for name in (m.reached, m.missed))
    caller, news = located(m.i_am, caller_ip), tuple(m.news)
    return ProbeReceived(caller, m.incarnation, news, target, reached, missed, m.key, m.members_digest)


def claim_of(round: int, reply: Packet) -> Claim:
    """The claim in the answer to our Accuracy."""
    m = reply.message
    assert isinstance(m, AccuracyReply)
    digest = digest_of(m, reply.params)
    report = report_of(m.report)
    return Claim(
        PeerId(m.i_am.id), round, m.accuracy, digest, m.contributors, reply.params, report, measured=m.measured
    )


def _claimed(m: Accuracy, params: Params | None) -> Claim:
    """The claim of a peer that asks for ours."""
    digest, report = digest_of(m, params), report_of(m.report)
    return Claim(
        m.sender, m.round, m.accuracy, digest, m.contributors, params, report, m.initiator or "", m.measured
    )


def report_of(message: ReportMessage | None) -> Report | None:
    """The report of a node in a series."""
    if message is None:
        return None
    split = message.split or TEST
    return Report(message.accuracy, message.loss, message.over, message.examples, message.right, split)


def located(peer: Peer, ip: str) -> Peer:
    """The peer with an address: the one that it stated, or else where we met it."""
    return peer if peer.ip else peer.model_copy(update={"ip": ip})


def _stated(message: JobMessage) -> Mapping[str, str] | None:
    """The values that the sender states as equal on all nodes; None in the thesis' format, which has no such field."""
    return message.agreement if message.agreement is not None or message.initiator is None else {}


def _key(message: ModelParams) -> RoundKey:
    """A caller of the thesis' form names no initiator; the job knows whose round is open."""
    return RoundKey(message.round, PeerId(message.initiator or ""))


def _key_of(message: JobMessage) -> RoundKey:
    return RoundKey(message.round, PeerId(message.initiator or message.sender))


def _params(packet: Packet) -> Params:
    if packet.params is None:
        raise ParamsRefused(
            text("{message} must bring parameters, but modelParams is missing", type(packet.message).__name__)
        )
    return packet.params


def check_contribution(update: Update, signer: NodeKey) -> None:
    """Whether what a peer states of its update was signed with the key that it names.

    Raises:
        ContributionRefused: it was not; one that is not signed at all is none of these.
    """
    stated = update.contribution
    if stated is None or not stated.is_signed:
        return
    if not signer.verify(stated.key, base64.b64decode(stated.signature), stated.statement()):
        raise ContributionRefused(text("what {peer} states of its update is not what it signed", update.peer))


def check_statements(claims: ClaimSigner | None, message: Message) -> None:
    """Whether what a peer states about segments, and passes on of others, is signed as it says.

    Args:
        claims: None in an open mesh, where nothing is signed and so nothing can be passed on.

    Raises:
        ContributionRefused: it is not.
    """
    if claims is not None:
        claims.check(message)
    elif isinstance(message, SegmentsMessage) and message.part.is_passed_on:
        raise ContributionRefused(
            text("nothing is signed in this mesh, so {peer} can prove nothing", message.sender)
        )


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
        raise SignatureRefused(text("the message names another key than the one that signed it"))
    if isinstance(message, JobMessage) and not members.fits(message.sender, signer):
        raise SignatureRefused(text("the message is signed by another node than {peer}", repr(message.sender)))


def check_trusted(
    trust: Trust | None, message: Message, event: Event, signer: str, me: str, caller_ip: str
) -> None:
    """Check, in a pinned mesh, that two nodes have accepted each other before an announcement is handled.

    Args:
        event: what the message means here.
        signer: the public key that signed it.
        me: this node's name.
        caller_ip: where the message came from.

    Raises:
        Pending: one of them has not yet; the caller waits here from now on, if it is a stranger.
    """
    if trust is None or not isinstance(message, Announce) or not isinstance(event, AnnounceReceived):
        return
    is_known = trust.trusts(signer)
    trust.met(signer, event.peer.id, event.peer.address, caller_ip)
    if is_known and not message.knock:
        return
    if is_known:
        raise Pending(text("{peer} accepts this key already, and waits to be accepted in turn", me), me)
    raise Pending(text("a person at {peer} has to accept the fingerprint {part} first", me, short(signer)), me)


class MessageChecks:
    """Checks every message from outside, and every answer.

    Attributes:
        networks: in which peers that others name are called; None: everywhere.
        signer: checks what is stated of updates; None: nothing is checked, as in an open mesh.
        claims: checks what is claimed of members; None likewise.
    """

    signer: NodeKey | None = None
    claims: ClaimSigner | None = None

    def __init__(self, me: str, clock: Callable[[], float], publish: Publish) -> None:
        """Args:
        me: this node's own id.
        clock: seconds, of which only differences count.
        publish: tells people, by kind and words.
        """
        self.networks: Networks | None = None
        self._me, self._publish = me, publish
        self._buckets = Buckets(BURST, PER_SECOND, clock)
        self._vertical = Buckets(VERTICAL_BURST, VERTICAL_PER_SECOND, clock)
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
            buckets = self._vertical if isinstance(message, VerticalMessage) else self._buckets
            seconds = buckets.take(f"{caller_ip} {message.i_am.id}")
            if seconds:
                raise TooManyMessages(seconds)

    def admit(self, message: Message, event: Event, caller_ip: str) -> Event:
        """A message without the addresses that this node does not call.

        Raises:
            TooManyMessages: there were too many from the caller of late.
            AddressRefused: the caller itself would have to be called there.
            ContributionRefused: what it states of its update is not signed as it says.
        """
        self.count(message, caller_ip)
        check_statements(self.claims, message)
        if self.signer is not None and isinstance(event, UpdateReceived | UpdateOffered):
            check_contribution(event.update, self.signer)
        if self.signer is not None and isinstance(event, VersionReceived):
            check_contribution(event.version.update, self.signer)
        if self.claims is not None:
            event = self.claims.checked(event)
        if self.networks is None or not isinstance(event, AnnounceReceived | ProbeReceived):
            return event
        peer = event.peer
        assert peer.ip is not None
        if why := self.networks.refusal(peer.ip, peer.port, caller_ip):
            raise AddressRefused(peer.address, why)
        if isinstance(event, ProbeReceived):
            return replace(event, news=self._without(event.news, caller_ip))
        known = tuple(peer_named for peer_named in event.known if self._is_callable(peer_named, caller_ip))
        return replace(event, known=known, members=self._without(event.members, caller_ip))

    def heard(self, event: Event, address_of: Callable[[PeerId], str | None]) -> Event:
        """The same for what this node was answered.

        Args:
            event: any that is on its way to the core.
            address_of: where a member is.
        """
        if isinstance(event, VersionAnswered):
            return self._checked(event)
        if self.claims is not None:
            event = self.claims.checked(event)
        if self.networks is None:
            return event
        match event:
            case AnnounceAnswered(address, peer, others, members=members):
                host, _, port = address.rpartition(":")
                teller = host.strip("[]")
                if not self._is_callable(peer, teller):
                    peer = peer.model_copy(update={"ip": teller, "port": int(port)})  # where it answered
                others = tuple(peer_named for peer_named in others if self._is_callable(peer_named, teller))
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
        """The news, without addresses that are not called; news of known members is kept."""
        return tuple(
            member if self._is_callable(member, told_by) else member.model_copy(update={"ip": None})
            for member in news
        )

    def _is_callable(self, peer: Peer | News, told_by: str) -> bool:
        assert self.networks is not None
        why = self.networks.refusal(peer.ip, peer.port, told_by) if peer.ip is not None else None
        if why is not None and peer.id != self._me and peer.ip not in self._told and len(self._told) < MAX_PEERS:
            self._told.add(f"{peer.ip}")  # once: who names it will name it again
            where = hostport(f"{peer.ip}", peer.port)
            self._publish(
                "address_refused", text("{peer} at {address} is not called: {reason}", peer.id, where, why)
            )
        return why is None
