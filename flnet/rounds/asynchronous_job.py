"""One trainer's versions on a node without common rounds: it trains and merges when it has something.

The job asks all peers for their versions, fetches those that it has not merged yet, merges them with its own model
by examples, trains, and tells the new version. A peer that does not answer is left out until the next time. The
model held stays the newest version until the training is done, and what was merged counts from then on: so a version
that is cut short has changed nothing, and is begun again after a restart.

Roy et al., "BrainTorrent: A Peer-to-Peer Environment for Decentralized Federated Learning" (2019): a node that
wakes asks all others for their versions, fetches the models that are newer than what it merged of them before,
averages them with its own, and trains. Here a version is known by the run of its node and its digest in addition to
its number, so a node that lost its state is never mistaken for what it was.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any

from flnet.errors import InvalidMessage, NotComparable, OtherRounds, ParamsRefused, PeerError
from flnet.params.params import Digest, Params, PeerId
from flnet.protocol.counts import Scored
from flnet.protocol.effects import Answer, CancelTimer, CancelWork, Effect, Send, SetTimer, Train
from flnet.protocol.events import (
    Averaged,
    AveragingFailed,
    ClaimAnswered,
    ClaimReceived,
    DeclineReceived,
    Evaluated,
    EvaluationFailed,
    Event,
    Fetched,
    FetchFailed,
    Mark,
    PeerLost,
    PeerSeen,
    Restored,
    RoundAnswered,
    RoundAsked,
    RoundTriggered,
    SendFailed,
    SendRefused,
    SumSpoilt,
    TimerFired,
    Trained,
    TrainingAsked,
    TrainingFailed,
    UpdateOffered,
    UpdateReceived,
    Version,
    VersionAnswered,
    VersionReceived,
)
from flnet.protocol.messages import LAST_ROUND, MAX_PEERS, AskVersion, Triggered, VersionReply
from flnet.protocol.updates import RoundKey, Update
from flnet.rounds.base_job import BaseJob
from flnet.rounds.base_round import OPEN, BaseRound, Parts
from flnet.rounds.compatibility import must_agree
from flnet.rounds.evaluation import stated_by
from flnet.rounds.gathering import Gathering
from flnet.rounds.history import RoundRecord, contributions_of, names
from flnet.rounds.model import HeldModel
from flnet.rounds.peers import Peers
from flnet.rounds.series import ENDED
from flnet.rounds.settings import JobSettings, Tell
from flnet.rounds.steps import ASYNCHRONOUS, Phase
from flnet.rounds.stopping import TIMERS, VALIDATION
from flnet.text import joined, text

HERE = text("this node takes part in no common rounds: it trains and merges by itself (FLNET_ROUNDS=asynchronous)")


@dataclass(frozen=True)
class MergedVersion:
    """The newest version of a peer that this node has merged.

    Attributes:
        into: the own version that came of it.
        at: time of that merge, in seconds since 1970 by this node's clock; None if that was not noted.
    """

    mark: Mark
    into: int
    at: float | None = None


Known = tuple[Mapping[PeerId, Mark], Mapping[PeerId, MergedVersion]]  # what was heard of peers, and merged of them


class Versions:
    """The versions of the other nodes, as far as this one knows them, and its own version.

    Attributes:
        heard: the newest mark that each peer has told.
        merged: what was merged of it last.
        base: shared parameters that the newest own training began with; None after a restart.
        under_way: how many messages to a peer have not ended yet.
    """

    def __init__(self, settings: JobSettings, held: HeldModel, peers: Peers, tell: Tell) -> None:
        self._settings, self._held, self._peers, self._tell = settings, held, peers, tell
        self.heard: dict[PeerId, Mark] = {}
        self.merged: dict[PeerId, MergedVersion] = {}
        self.base: Params | None = None
        self.under_way: dict[PeerId, int] = {}

    # --- the own version

    @property
    def own(self) -> Version:
        """The newest version of this node; of number 0 as long as it never trained what it trains now."""
        me, own, run = self._settings.my_id, self._held.own, self._settings.run or self._settings.my_id
        if own is None:
            mark = Mark(run, 0, self._held.current.shared.digest)
            return Version(mark, Update(me, RoundKey(0, me), Params(), examples=0))
        return Version(Mark(run, own.key.number, own.params.digest), replace(own, params=Params()))

    def ask(self, to: Iterable[PeerId]) -> list[Effect]:
        """Tell peers this node's version; each answers with its own."""
        peers, settings = tuple(sorted(to)), self._settings
        if not peers or self._held.model is None:
            return []
        own = self.own
        key = RoundKey(own.mark.number, settings.my_id)
        message = settings.message(AskVersion, key, **_stated(own))
        self.under_way |= {peer: self.under_way.get(peer, 0) + 1 for peer in peers}
        return [Send(peers, message)]

    def reply(self) -> VersionReply:
        """The answer to a peer that told its version."""
        own = self.own
        return VersionReply(i_am=self._settings.me, round=own.mark.number, **_stated(own))

    # --- those of peers

    def ended(self, peer: PeerId) -> bool:
        """A message to a peer has ended, well or not; whether none is under way any more."""
        left = self.under_way.pop(peer, 1) - 1
        if left > 0:
            self.under_way[peer] = left
        return left <= 0

    def lost(self, peer: PeerId) -> None:
        """A peer is not reachable any more: nothing that was sent to it ends."""
        self.under_way.pop(peer, None)

    def hear(self, version: Version) -> list[Effect]:
        """Note what a peer says of itself.

        Returns:
            What people read of a new version.
        """
        peer, mark, before = version.peer, version.mark, self.heard.get(version.peer)
        if before is not None and before.run == mark.run and mark.number < before.number:
            return []  # it was long on its way
        if before is None and len(self.heard) >= MAX_PEERS and not self._forget_one():
            return []
        self.heard[peer] = mark
        if not mark.is_newer_than(before):
            return []
        is_again = before is not None and before.run != mark.run and mark.number <= before.number
        what = (peer, mark.number, self._settings.trainer)
        words = (
            text("{peer} started again from new parameters, and has version {number} of {trainer} now", *what)
            if is_again
            else text("{peer} has version {number} of {trainer} now", *what)
        )
        return [self._tell("version_heard", words, peer=peer, version=mark.number)]

    def newer(self, told: Mapping[PeerId, Version]) -> list[Version]:
        """Those that this node has not merged yet, sorted by peer."""
        known = {peer: merged.mark for peer, merged in self.merged.items()}
        return [told[peer] for peer in sorted(told) if told[peer].mark.is_newer_than(known.get(peer))]

    def merge(self, marks: Mapping[PeerId, Mark], into: int, at: float | None, base: Params) -> None:
        """Note of which versions an own one came.

        Args:
            base: shared parameters that its training began with.
        """
        self.merged |= {peer: MergedVersion(mark, into, at) for peer, mark in marks.items()}
        self.base = base

    # --- what is shown and kept

    def view(self) -> Mapping[str, Any]:
        """The own version, and a row for each peer of which anything is known, as JSON-ready data."""
        own = self._held.own
        rows = [self._row(peer) for peer in sorted({*self.heard, *self.merged})]
        return {"own": own.key.number if own else 0, "peers": rows}

    def kept(self) -> Mapping[str, Any]:
        """The state that is saved for a restart, as plain JSON data."""
        return {
            "heard": {peer: _written(mark) for peer, mark in self.heard.items()},
            "merged": {
                peer: [*_written(merged.mark), merged.into, merged.at] for peer, merged in self.merged.items()
            },
        }

    def restore(self, known: Known) -> None:
        """Restore the state that an earlier run saved."""
        self.heard, self.merged = dict(known[0]), dict(known[1])

    def forget(self) -> None:
        """The job begins with another model than all that was about."""
        self.heard, self.merged, self.base, self.under_way = {}, {}, None, {}

    def _row(self, peer: PeerId) -> Mapping[str, Any]:
        heard, merged = self.heard.get(peer), self.merged.get(peer)
        waits = heard is not None and heard.is_newer_than(merged.mark if merged else None)
        return {
            "peer": peer,
            "version": heard.number if heard else None,
            "merged": merged.mark.number if merged else None,
            "into": merged.into if merged else None,
            "at": merged.at if merged else None,
            "newer": waits,
            "reachable": peer in self._peers.here,
        }

    def _forget_one(self) -> bool:
        """Make room for another peer; those that are reachable stay noted."""
        gone = min((peer for peer in self.heard if peer not in self._peers.here), default=None)
        if gone is None:
            return False
        del self.heard[gone]
        self.merged.pop(gone, None)
        return True


def read_known(kept: Mapping[str, Any] | None) -> Known:
    """Read the result of `Versions.kept` after a restart.

    Raises:
        AttributeError, KeyError, TypeError, ValueError: it is damaged.
    """
    if kept is None:
        return {}, {}
    merged = {
        PeerId(peer): MergedVersion(_mark(row[:3]), int(row[3]), None if row[4] is None else float(row[4]))
        for peer, row in kept["merged"].items()
        if len(row) == 5
    }
    return {PeerId(peer): _mark(row) for peer, row in kept["heard"].items()}, merged


def common_start(own: Digest, told: Collection[Version]) -> Version | None:
    """The initial model of all nodes if none has trained yet: the one with the lowest digest; None for the own.

    Models that began apart cannot be averaged well, and trainers may begin with different ones on different nodes.
    """
    if any(version.mark.number > 0 for version in told):
        return None
    lowest = min(told, key=lambda version: (version.mark.digest, version.peer), default=None)
    return lowest if lowest is not None and lowest.mark.digest < own else None


def _written(mark: Mark) -> list[Any]:
    return [mark.run, mark.number, mark.digest]


def _mark(row: Sequence[Any]) -> Mark:
    run, number, digest = row
    return Mark(str(run), int(number), Digest(str(digest)))


def _stated(version: Version) -> Mapping[str, Any]:
    fields = {"run": version.mark.run, "digest": version.mark.digest, **version.update.stated()}
    return {**fields, "examples": version.update.examples or 0}


class NewVersion(BaseRound):
    """A version of this node's own, from the question to all peers until it is trained.

    Attributes:
        asked: peers that have not answered yet.
        told: what the others answered.
        fetched: which versions are merged, or will be as soon as they are here.
        merged: shared parameters that the training begins with, where there was something to merge.
        counted: of which peers' versions those are.
    """

    gathering: Gathering | None

    def __init__(self, parts: Parts, versions: Versions, key: RoundKey, record: RoundRecord) -> None:
        super().__init__(parts, key, record, Phase.FETCHING)
        self._versions = versions
        self.gathering = None
        self.asked: set[PeerId] = set(self._peers.here)
        self.told: dict[PeerId, Version] = {}
        self.fetched: dict[PeerId, Mark] = {}
        self.merged: Params | None = None
        self.counted: tuple[PeerId, ...] = ()

    @classmethod
    def past(cls, parts: Parts, versions: Versions, key: RoundKey, record: RoundRecord | None) -> NewVersion:
        """The version that this node had made, or was making, when it was restarted."""
        past = cls(parts, versions, key, record or RoundRecord(key))
        past.phase, past.is_recorded = Phase.IDLE, record is None
        return past

    @property
    def waiting_for(self) -> list[PeerId]:
        """The peers that have not answered, or whose models are not here yet."""
        if self.phase is not Phase.FETCHING:
            return []
        return sorted(self.asked) or (self.gathering.missing if self.gathering else [])

    @property
    def timer(self) -> str:
        """The timer that bounds the wait for answers."""
        return f"versions:{self.key.number}"

    @property
    def training_from(self) -> Params:
        """The shared parameters that the training begins with."""
        return self._held.current.shared if self.merged is None else self.merged

    def start(self) -> list[Effect]:
        """Ask all peers for their versions."""
        self._series.stopping.clear_round()
        number, count = self.key.number, len(self.asked)
        words = text(
            "version {number} of {trainer} begins, peers asked for newer models: {count}",
            number,
            self._settings.trainer,
            count,
        )
        told = self._tell("round_opened", words, initiator=self._settings.my_id)
        if not self.asked:
            return [*self._fetch(), self._save(), told]
        timer = SetTimer(self.timer, self._settings.waits.start)
        return [*self._versions.ask(self.asked), timer, self._save(), told]

    def receive(self, event: Event) -> list[Effect]:
        """Take the end of work, of a fetch, or a timer."""
        match event:
            case TimerFired(name):
                return self._timer_fired(name, event)
            case Fetched() | FetchFailed() if self.gathering is not None and event.key == self.key:
                return self.gathering.receive(event)
            case PeerLost() if self.gathering is not None and self.phase is Phase.FETCHING:
                return self.gathering.receive(event)
            case Averaged() | AveragingFailed() if self.phase is Phase.AVERAGING and event.key == self.key:
                return self._averaged(event)
            case SumSpoilt() if self.phase is Phase.AVERAGING and event.key == self.key:
                assert self.gathering is not None and self.gathering.again is None
                return self.gathering.fold_again(event.refused.keys(), self._held.current.shared)
            case Trained() if self.phase is Phase.TRAINING and event.key == self.key:
                return self._trained(event)
            case TrainingFailed() if self.phase is Phase.TRAINING and event.key == self.key:
                return self._training_failed(event.reason)
        return []

    # --- the peers' versions

    def heard(self, version: Version) -> None:
        """Handle a version that a peer sent itself, which is newer than a delayed answer."""
        if self.gathering is None:
            self.told[version.peer] = version

    def answered(self, peer: PeerId, version: Version | None, *, is_last: bool = True) -> list[Effect]:
        """A peer told its version, or cannot be asked (None); before the last answer, it may be to earlier news."""
        if peer not in self.asked:
            return []
        if version is not None:
            self.told.setdefault(peer, version)
        if not is_last:
            return []
        self.asked.discard(peer)
        return [] if self.asked else self._fetch()

    def _timer_fired(self, name: str, event: TimerFired) -> list[Effect]:
        """Peers that have not answered by now are left out, or the models that are not here by now are."""
        if self.phase not in (Phase.FETCHING, Phase.AVERAGING):
            return []
        if self.gathering is not None:
            return self.gathering.receive(event)
        if not self.asked or name != self.timer:
            return []
        left_out = sorted(self.asked)
        self.asked.clear()
        self.record.missing = tuple(left_out)
        told = self._tell("peers_left_out", text("{names} did not say a version in time", names(left_out)))
        return [*self._fetch(), told]

    def _fetch(self) -> list[Effect]:
        """Download the versions that are newer than the merged ones, after all peers have answered or failed."""
        own, told = self._versions.own, self.told
        newer = self._versions.newer(told)
        if own.mark.number == 0 and not newer and (start := common_start(own.mark.digest, told.values())):
            newer = [replace(start, update=replace(start.update, examples=1))]
        cancelled: list[Effect] = [CancelTimer(self.timer)]
        if not newer:
            return [*cancelled, *self._train()]
        self.fetched = {version.peer: version.mark for version in newer}
        self.gathering = gathering = self._parts.gathering(self.key, self.fetched)
        effects = [*cancelled, *gathering.receive(self._own_share(own))]
        for version in newer:
            update = replace(version.update, key=self.key)
            effects += gathering.receive(UpdateOffered(update, version.mark.digest))
        words = text("fetching the models {words}", self._named(self.fetched))
        return [*effects, self._tell("fetching", words, peers=sorted(self.fetched))]

    def _own_share(self, own: Version) -> UpdateReceived | DeclineReceived:
        """This node's share of the merge: nothing if it has not trained yet."""
        if own.mark.number == 0:
            return DeclineReceived(self._settings.my_id, self.key, text("it has not trained yet"))
        return UpdateReceived(replace(own.update, key=self.key, params=self._held.current.shared))

    # --- the merge

    @property
    def is_gathered(self) -> bool:
        """Whether all models that could be fetched are here."""
        return self.phase is Phase.FETCHING and self.gathering is not None and self.gathering.closed is not None

    def merge(self) -> list[Effect]:
        """The models are being merged, or there is nothing to merge."""
        gathering = self.gathering
        assert gathering is not None
        missing = {*self.record.missing, *gathering.missing, *gathering.declined} - {self._settings.my_id}
        self.record.missing = tuple(sorted(missing))
        if not gathering.updates:
            return [*self._train()]
        self.phase = Phase.AVERAGING
        return []

    def _averaged(self, event: Averaged | AveragingFailed) -> list[Effect]:
        """The models are merged: train from the result; from the own model if that failed."""
        gathering, record = self.gathering, self.record
        assert gathering is not None
        if isinstance(event, AveragingFailed):
            record.error = text("merging failed: {reason}", event.reason)
            words = text("{error}; this node trains on from its own model", record.error)
            return [*self._train(), self._tell("merging_failed", words)]
        counted = sorted(gathering.updates.keys() - event.refused.keys())
        record.contributions = contributions_of(gathering.updates[peer] for peer in counted)
        gathering.let_go()
        told = self._history.note_average(record, event, gathering)
        self._held.remember(event.remembered)
        self.merged = event.params
        self.counted = tuple(peer for peer in counted if peer in self.fetched and self.fetched[peer].number > 0)
        record.seconds["average"] = event.seconds
        words, number = text("merged {words}", self._merged_words), self.key.number
        return [*self._train(), *told, self._tell("merged", words, contributors=counted, version=number)]

    @property
    def _merged_words(self) -> str:
        """Whose versions were merged, for people."""
        first = next((peer for peer, mark in self.fetched.items() if mark.number == 0), None)
        if first is not None and self.merged is not None:
            return text("nothing, but took the first model of {peer}, with which all begin", first)
        if self.counted:
            return self._named(self.counted)
        if self.fetched:
            return text("nothing, for no newer model could be fetched")
        return text("nothing, for nobody had a newer model")

    def _named(self, peers: Iterable[PeerId]) -> str:
        versions = [f"{peer} v{self.fetched[peer].number}" for peer in sorted(peers)]
        if len(versions) > 5:
            return text("{names} and {count} more", ", ".join(versions[:5]), len(versions) - 5)
        *first, last = versions
        return text("{one} and {other}", ", ".join(first), last) if first else last

    # --- the training

    def _train(self) -> list[Effect]:
        if self._series.paused:  # since the merge began
            return self._give_up()
        hyper = self._settings.round_hyper
        assert hyper is not None
        self.phase = Phase.TRAINING
        self._arrivals.clear()
        start = self.training_from.merged_with(self._held.current.private)
        return [Train(self.key, start, hyper, self._series.stopping.validates)]

    def end_training(self) -> list[Effect]:
        """A person paused the job: the version that is being made is given up, except for a merge that is under way."""
        if self.phase is Phase.TRAINING:
            return [CancelWork(self.key, at_once=True), *self._give_up()]
        if self.phase is Phase.FETCHING:
            timer = self.timer if self.gathering is None else self.gathering.timer
            self.asked, self.gathering = set(), None  # what still comes is not merged
            return [CancelTimer(timer), *self._give_up()]
        return []

    def _give_up(self) -> list[Effect]:
        """End the version; if a number of versions was asked for, it is made when the job is resumed."""
        self.record.outcome = text("{error}; the model stays as it was", ENDED)
        if self._series.stopping.series is None:
            self._series.restart_round()
        return [*self._finish(), self._tell("training_ended", ENDED)]

    def _trained(self, event: Trained) -> list[Effect]:
        """Training is done: the new version is the model held, is saved, and is told to all."""
        try:
            shared, private = self._held.split(event)
        except ParamsRefused as exc:
            return self._training_failed(text("training gave unusable parameters: {reason}", exc))
        if why := self._budget.charge(shared.digest, event.release):
            return self._training_failed(why)
        me, number, base, counted = self._settings.my_id, self.key.number, self.training_from, self.counted
        self._note(event, shared)
        self._versions.merge({peer: self.fetched[peer] for peer in counted}, number, event.at, base)
        figures = (event.examples, event.labels, event.accuracy, base.digest)
        self._held.offer(Update(me, self.key, shared, *figures, contribution=event.contribution))
        self._held.make_version(shared, private, number, len(counted) + 1, event.accuracy)
        self._measured(event)
        return [*self._finish(), *self._versions.ask(self._peers.here)]

    def _measured(self, event: Trained) -> None:
        """Note what a goal is decided by: figures of the version itself, for nothing is averaged in between."""
        validation, tested, rules = event.validation, event.tested, self._settings.rules
        validated = event.metrics.get(VALIDATION, -1)
        if validation is None and 0 <= validated <= 1:
            validation = Scored(validated)
        measured = None
        if tested is not None:
            measured = stated_by(event.accuracy, tested.examples, tested.counts, tested.groups or (), rules)
        self._series.stopping.measured(event.accuracy, event.metrics, {}, measured, validation)

    def _training_failed(self, reason: str) -> list[Effect]:
        """Training gave nothing: the version before stays the newest one."""
        self._fail(text("training failed in version {number}: {reason}", self.key.number, reason))
        self.record.outcome = text("{error}; the model stays as it was", self.error)
        return [*self._finish(), self._tell("training_failed", self.error)]

    def _note(self, event: Trained, shared: Params) -> None:
        """Put the result into the record."""
        record, used = self.record, event.hyper or self._settings.round_hyper
        record.pre_accuracy, record.post_accuracy = self._held.accuracy, event.accuracy
        record.examples, record.digest = event.examples, shared.digest
        record.contributors = tuple(sorted({*self.counted, self._settings.my_id}))
        record.seconds["train"], record.metrics["after"] = event.seconds, event.metrics
        record.used_hyper = used.fields() if used else None
        made = text("merged {words}, trained, now v{number}", self._merged_words, self.key.number)
        record.outcome = made if record.outcome == "open" else joined([made, record.outcome])  # who was refused

    def _finish(self) -> list[Effect]:
        """The version is made, or was given up."""
        self.phase = Phase.IDLE
        told = self._judge()
        self._remember()
        shown = {name: value for name, value in self.record.view().items() if name != "contributions"}
        words, accuracy = self.record.outcome, self.record.post_accuracy
        if accuracy is not None:
            words = joined([words, text("accuracy here {accuracy}", f"{accuracy:.4f}")])
        return [self._save(), self._tell("round_closed", words, **shown), *told]


class AsynchronousJob(BaseJob[NewVersion]):
    """A job in which each node makes versions of its own, and merges those of others.

    Attributes:
        versions: what is known of them.
    """

    table: Mapping[Phase, Mapping[type, Set[Phase]]] = ASYNCHRONOUS

    def __init__(self, settings: JobSettings) -> None:
        super().__init__(settings)
        self.versions = Versions(self.settings, self.held, self.peers, self.tell)

    @property
    def screened_from(self) -> Params:
        """The parameters that the distances of updates are measured from before they are averaged."""
        return self.versions.base or self.held.current.shared

    @property
    def training_from(self) -> Params:
        """The shared parameters that the training under way began with."""
        return self.round.training_from if self.round else self.held.current.shared

    def _view_of_versions(self) -> Mapping[str, Any] | None:
        """The own version and those of peers."""
        return self.versions.view()

    # --- events

    def _react(self, event: Event) -> list[Effect]:
        match event:
            case RoundTriggered():
                return self._triggered(event)
            case VersionReceived():
                return self._version_received(event)
            case VersionAnswered(version):
                is_last = self.versions.ended(version.peer)
                return (
                    self._answered(version.peer, version, is_last=is_last) if self.held.model is not None else []
                )
            case RoundAsked():
                raise OtherRounds(HERE)
            case RoundAnswered():
                return []
            case TrainingAsked() | UpdateReceived() | UpdateOffered() | DeclineReceived() | ClaimReceived():
                self._must_have_model()
                raise self._refusal(event)
            case SendRefused(peer, AskVersion.path):
                words = text(
                    "{peer} says no version of {trainer}: {reason}", peer, self.settings.trainer, event.reason
                )
                told = self.tell("refused", words, peer=peer, status=event.status)
                return [*self._unanswered(peer), told]
            case SendFailed(peer, AskVersion.path):
                return self._unanswered(peer)
            case SendRefused() | SendFailed() | ClaimAnswered():
                return []  # nothing here waits for their answers
            case Fetched() | FetchFailed():
                return self._fetched(event)
            case Averaged() | AveragingFailed() | SumSpoilt() | Trained() | TrainingFailed():
                return self._to_round(event)
            case Evaluated() | EvaluationFailed():
                return self._measured_between_rounds(event) if self.phase is Phase.IDLE else []
            case PeerSeen(peer):
                self.peers.met(peer)
                return self.versions.ask((peer,))
            case PeerLost(peer):
                return self._lost(peer, event)
            case TimerFired(name) if name not in TIMERS:
                return self._to_round(event)
        return self._about_the_node(event)

    def _next_step(self) -> Callable[[], list[Effect]] | None:
        if self.round is not None and self.round.is_gathered:
            return self.round.merge
        if self.arrivals.waiting is not None and self.phase in (Phase.IDLE, Phase.NO_DATA):
            return self._renew
        if self.phase is Phase.IDLE and self.series.can_begin:
            return self._begin_asked
        is_next = (self.series.left > 0 or self.series.stopping.due) and not self.series.is_held_up
        return self._begin_next if self.phase is Phase.IDLE and is_next else None

    def _figures(self) -> Mapping[str, Any]:
        return {**super()._figures(), "versions": self.versions.kept()}

    # --- a version begins

    def _triggered(self, event: RoundTriggered) -> list[Effect]:
        """A person, or a schedule, asks for versions.

        Raises:
            JobBusy: not now.
            InvalidMessage: the goal is none, or a new numbering is asked for, which only common rounds have.
        """
        if event.new_numbering:
            raise InvalidMessage(HERE)
        if self.phase is Phase.LOADING and not event.why:
            return self._put_off(event, self.next_number)
        busy = text(
            "version {number} is still {state} here; ask again when it is done", self.number, self.phase.words
        )
        self._must_be_free(busy)
        number = self.next_number
        scheduled = text("the schedule starts version {number}: {reason}", number, event.why)
        told = self._ask_for(event, number, scheduled)
        begins = self._begin(why=event.why)
        return [Answer(Triggered(trainer_id=self.settings.trainer, round=self.number)), *told, *begins]

    @property
    def next_number(self) -> int:
        """The number of this node's next version; the first one is 1."""
        return max(self.number, 0) + 1

    def _begin(self, key: RoundKey | None = None, why: str = "") -> list[Effect]:
        """Begin a version.

        Args:
            key: of the one that was under way before a restart; None for the next one.
            why: a schedule wants it.
        """
        if key is None:
            key = RoundKey(self.next_number, self.settings.my_id)
            self.settings.use(self.settings.hyper)
        self._trouble = None
        self.round = NewVersion(self._parts, self.versions, key, RoundRecord(key, why=why))
        return self.round.start()

    def _begin_next(self) -> list[Effect]:
        """Begin the next of the versions that this node was asked for."""
        if self.number >= LAST_ROUND:
            self.series.give_up()
            return []
        self.series.count_down()
        return self._begin()

    # --- what peers say

    def _version_received(self, event: VersionReceived) -> list[Effect]:
        """A peer told its version: answer with ours.

        Raises:
            NotReady, NoData: there is none here.
            ParamsRefused: the peer trains something else, or in common rounds.
        """
        self._must_have_model()
        must_agree(self.settings, event.version.update.peer, event.agreement)
        return [Answer(self.versions.reply()), *self._heard(event.version)]

    def _heard(self, version: Version) -> list[Effect]:
        told = self.versions.hear(version)
        if told and self.round is not None and not self.round.is_over:
            self.round.heard(version)
        return told

    def _answered(self, peer: PeerId, version: Version | None, *, is_last: bool = True) -> list[Effect]:
        told = [] if version is None else self._heard(version)
        if self.round is None or self.round.is_over:
            return told
        return [*told, *self.round.answered(peer, version, is_last=is_last)]

    def _unanswered(self, peer: PeerId) -> list[Effect]:
        """A message to a peer did not get through, or was refused.

        If another one is still under way, that decides: this one may have been the news of an older version.
        """
        return self._answered(peer, None) if self.versions.ended(peer) else []

    def _lost(self, peer: PeerId, event: PeerLost) -> list[Effect]:
        self.peers.lost(peer)
        self.versions.lost(peer)
        fetching = self._to_round(event)
        return [*self._answered(peer, None), *fetching]

    def _refusal(self, event: Event) -> PeerError:
        """Why a message of common rounds is refused here: its sender's settings differ, or it cannot know of ours."""
        try:
            match event:
                case TrainingAsked():
                    must_agree(self.settings, event.peer, event.agreement)
                case UpdateReceived() | UpdateOffered():
                    must_agree(self.settings, event.update.peer, event.agreement)
                case ClaimReceived():
                    must_agree(self.settings, event.claim.peer, event.agreement)
        except ParamsRefused as exc:
            return exc
        return NotComparable(HERE) if isinstance(event, ClaimReceived) else OtherRounds(HERE)

    # --- restarts

    def _restore(self, event: Restored) -> None:
        known = read_known(event.snapshot.get("versions"))
        super()._restore(event)
        self.versions.restore(known)

    def _past(self, key: RoundKey, record: RoundRecord | None, figures: Mapping[str, Any]) -> NewVersion:
        return NewVersion.past(self._parts, self.versions, key, record)

    def _go_on(self) -> list[Effect]:
        """The trainer is loaded: take up the version that was under way, and tell all which one is the newest."""
        was_making, effects = self._take_up()
        told = self.versions.ask(self.peers.here)
        return [*told, *effects, *(self._begin(self.round.key) if was_making and self.round else [])]

    def _take_up(self) -> tuple[bool, list[Effect]]:
        """Use what was kept, now that the trainer is loaded.

        Returns:
            Whether a version was under way, that is begun again; and what follows.
        """
        before, past = self.snapshot.take_before(), self.round
        if before is None or past is None:
            return False, []
        past.drop_record()
        if self._trouble is not None:  # another model than all that was about
            self.series.give_up()
            self.versions.forget()
            return False, []
        me, declaration = self.settings.my_id, self.settings.declaration
        if before.snapshot.get("asynchronous"):
            self.held.restore_own(before, me, self.settings.trainer)
        elif declaration is not None:
            self.held.first_version(me, past.key.number, declaration)
        was_making = Phase(before.snapshot["phase"]) in OPEN
        if was_making and self.series.paused:
            self.series.restart_round()
            was_making = False
        if self.series.stopping.series is None:
            return was_making, []
        self.series.stopping.set_turn(is_mine=not was_making)
        return was_making, self.series.stopping.restart_deadline()
