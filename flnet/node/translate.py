"""Messages to events: the only place that knows both the wire's words and the core's."""

from __future__ import annotations

from collections.abc import Mapping

from flnet.contributions import Contribution
from flnet.errors import ParamsRefused
from flnet.events import (
    AnnounceReceived,
    ClaimReceived,
    DeclineReceived,
    Event,
    Mark,
    Paused,
    ProbeReceived,
    Resumed,
    RoundTriggered,
    SeriesStopped,
    TrainingAsked,
    UpdateOffered,
    UpdateReceived,
    Version,
    VersionReceived,
)
from flnet.messages import (
    Accuracy,
    AccuracyReply,
    Announce,
    AskVersion,
    JobMessage,
    Message,
    ModelParams,
    Packet,
    Peer,
    Probe,
    ReportMessage,
    StartTraining,
    StatedVersion,
    Trigger,
    VersionReply,
    digest_of,
)
from flnet.params import Claim, Digest, Params, PeerId, Report, RoundKey, TrainerId, Update

KINDS: Mapping[str, type[Message]] = {
    kind.path: kind for kind in (Announce, Probe, StartTraining, ModelParams, Accuracy, AskVersion, Trigger)
}
STATUS: Mapping[str, int] = {Announce.path: 201, Trigger.path: 202}  # of an answer, by path; 200 for the others
ORDERS: Mapping[str, Event] = {"stop": SeriesStopped(), "pause": Paused(), "resume": Resumed()}  # of a person


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
            return TrainerId(m.trainer_id), RoundTriggered(m.most, m.federated_learning_params, m.until)
        case StartTraining() as m:
            asked = TrainingAsked(
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
            )
            return m.trainer, asked
        case ModelParams() as m if m.declined is not None:
            return m.trainer, DeclineReceived(m.sender, _key(m), m.declined, bool(m.late))
        case ModelParams() as m if packet.params is None and m.digest is not None:
            return m.trainer, UpdateOffered(
                update_of(m, Params()), Digest(m.digest), _stated(m), m.choice, m.seconds, m.run
            )
        case ModelParams() as m:
            return m.trainer, UpdateReceived(update_of(m, _params(packet)), _stated(m), m.choice, m.seconds, m.run)
        case Accuracy() as m:
            claim = Claim(
                m.sender,
                m.round,
                m.accuracy,
                digest_of(m, packet.params),
                m.contributors,
                packet.params,
                report_of(m.report),
            )
            return m.trainer, ClaimReceived(claim, _stated(m))
        case AskVersion() as m:
            return m.trainer, VersionReceived(version_of(m, m.sender, m.round, m.trainer), _stated(m))
    raise TypeError(f"{type(packet.message).__name__} is no request")


def update_of(m: ModelParams, params: Params) -> Update:
    """What a peer learnt, as it says itself."""
    base = Digest(m.base) if m.base else None
    said = (m.examples, m.labels or 1, m.accuracy, base, m.staleness or 0)
    return Update(m.sender, _key(m), params, *said, contribution=contribution_of(m))


def contribution_of(m: ModelParams) -> Contribution | None:
    """What the sender states of its update; None for one that states too little, as in the thesis' form."""
    if m.initiator is None or m.schema_digest is None or m.base is None or m.digest is None or m.examples is None:
        return None
    said = (m.sender, m.trainer_id, m.round, m.initiator, m.schema_digest, m.base, m.digest, m.examples)
    return Contribution(*said, m.labels or 1, m.key or "", m.signature or "")


def version_of(m: StatedVersion, peer: PeerId, number: int, trainer: TrainerId) -> Version:
    """The version that a node states of itself.

    Args:
        peer: who states it.
        number: of the version.
    """
    stated = None
    if m.schema_digest is not None and m.base is not None and number > 0:
        said = (peer, trainer, number, peer, m.schema_digest, m.base, m.digest, m.examples)
        stated = Contribution(*said, m.labels or 1, m.key or "", m.signature or "")
    base = Digest(m.base) if m.base else None
    figures = (m.examples, m.labels or 1, m.accuracy, base)
    update = Update(peer, RoundKey(number, peer), Params(), *figures, contribution=stated)
    return Version(Mark(m.run, number, Digest(m.digest)), update)


def version_in(reply: Packet, trainer: TrainerId) -> Version:
    """What the answer to our version states."""
    m = reply.message
    assert isinstance(m, VersionReply)
    return version_of(m, PeerId(m.i_am.id), m.round, trainer)


def probed(m: Probe, caller_ip: str) -> ProbeReceived:
    """What a probe means."""
    target = PeerId(m.target.id) if m.target else None
    reached, missed = (PeerId(name) if name else None for name in (m.reached, m.missed))
    return ProbeReceived(located(m.i_am, caller_ip), m.incarnation, tuple(m.news), target, reached, missed, m.key)


def claim_of(round: int, reply: Packet) -> Claim:
    """What the answer to our Accuracy claims."""
    m = reply.message
    assert isinstance(m, AccuracyReply)
    digest = digest_of(m, reply.params)
    report = report_of(m.report)
    return Claim(PeerId(m.i_am.id), round, m.accuracy, digest, m.contributors, reply.params, report)


def report_of(said: ReportMessage | None) -> Report | None:
    """What a node reports in a series."""
    return Report(said.accuracy, said.loss, said.over) if said else None


def located(peer: Peer, ip: str) -> Peer:
    """The peer with an address: the one that it stated, or else where we met it."""
    return peer if peer.ip else peer.model_copy(update={"ip": ip})


def _stated(message: JobMessage) -> Mapping[str, str] | None:
    """What the sender says that all nodes must have alike; None where it speaks the thesis' form and cannot."""
    return message.agreement if message.agreement is not None or message.initiator is None else {}


def _key(message: ModelParams) -> RoundKey:
    """A caller of the thesis' form names no initiator; the job knows whose round is open."""
    return RoundKey(message.round, PeerId(message.initiator or ""))


def _params(packet: Packet) -> Params:
    if packet.params is None:
        raise ParamsRefused(f"{type(packet.message).__name__} must bring parameters, but modelParams is missing")
    return packet.params
