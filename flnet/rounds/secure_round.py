"""A round in which only the sum of the updates can be seen (`flnet.rounds.secure_sum`).

It differs from a common round in what travels and in when gathering ends. An update is masked, so it waits for the group
to form. Nothing that needs a single update happens: no screening, no late updates, no adoption of a peer's model. A node
that cannot open the sum keeps its model and takes the average of the others (`flnet.rounds.catching_up`).

With FLNET_TOPOLOGY=segments, masked updates are offered by the digests of their segments, and each member downloads and
adds the segments that it owns (`flnet.rounds.masked_segments`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from functools import partial
from typing import Any

from flnet.errors import ParamsRefused, StaleRound
from flnet.params.params import Digest, Params, PeerId, Schema
from flnet.protocol.effects import CancelTimer, CancelWork, Effect, Publish, Send
from flnet.protocol.events import (
    Averaged,
    AveragingFailed,
    DeclineReceived,
    Event,
    Fetched,
    FetchFailed,
    PartReceived,
    SecureStepDone,
    TimerFired,
    Trained,
    TrainingFailed,
    UpdateOffered,
    UpdateReceived,
)
from flnet.protocol.messages import ChoiceMessage, ModelParams
from flnet.protocol.secure_sum import KeysPart, MaskUpdate, SecurePart, SecureSumMessage, UpdateMasked
from flnet.protocol.updates import RoundKey, Update
from flnet.rounds.base_round import GATHERING, OPEN, Parts
from flnet.rounds.download import ParamsDownload
from flnet.rounds.gathering import Closing
from flnet.rounds.group_search import GROUPS
from flnet.rounds.history import RoundRecord, SumRecord, names
from flnet.rounds.masked_segments import MaskedSegments, SendPart
from flnet.rounds.secure_gathering import NOT_IN_GROUP, SecureGathering
from flnet.rounds.secure_group import Group
from flnet.rounds.secure_sum import SecureSum
from flnet.rounds.segmented_round import WHOLE
from flnet.rounds.steps import Phase
from flnet.rounds.voted_round import VotedRound
from flnet.text import text

NOT_NAMED = text("the choice of who trains does not name it")


class SecureRound(VotedRound):
    """One round whose updates are masked."""

    message = SecureSumMessage
    gathering: SecureGathering

    def __init__(
        self,
        parts: Parts,
        key: RoundKey,
        expected: Collection[PeerId],
        choice: ChoiceMessage | None = None,
        started_in: str | None = None,
        record: RoundRecord | None = None,
    ) -> None:
        """See `Round`."""
        super().__init__(parts, key, expected, choice, started_in, record)
        self._own: Update | None = None  # as it was trained, without its parameters; once it is masked, with those
        self._reference: Digest | None = None  # of the model that the initiator started the round from
        self._is_grouped = False
        self._downloads: dict[str, ParamsDownload] = {}

    def release(self) -> None:
        """Let go of what the round holds; see `Round.release`."""
        self.sum.release()
        super().release()

    @property
    def sum(self) -> SecureSum:
        """The conversation by which the sum of the updates is opened."""
        return self.gathering.sum

    def _new_gathering(
        self, expected: Collection[PeerId], chosen: Collection[PeerId] | None = None
    ) -> SecureGathering:
        settings, held, rule = self._settings, self._held, self._settings.secure
        assert rule is not None
        to_train = {settings.my_id, *expected}
        to_train &= frozenset(chosen or to_train)
        # Names that never send anything, of which anybody can invent many, are hardly waited for, and not counted.
        doubtful = to_train & self._peers.updates.silent(self._peers.here)
        told = (to_train - doubtful, rule.part_away, settings.waits.average, self._send_part, doubtful)
        in_segments = self._new_segments if settings.rules.topology.kind == "segments" else None
        secure_sum = SecureSum(self.key, settings.my_id, *told, in_segments)
        if held.model is not None and held.digest is not None:
            secure_sum.refer_to(held.digest, held.current.shared)
        kind = partial(SecureGathering, secure_sum, lambda: held.masked_form(rule.bits))
        gathering = self._parts.gathering(self.key, expected, chosen, kind)
        assert isinstance(gathering, SecureGathering)
        return gathering

    def _new_segments(self, group: Group, send: SendPart) -> MaskedSegments:
        settings, rule = self._settings, self._settings.secure
        assert rule is not None
        copies, form = settings.rules.topology.copies, self._held.masked_form(rule.bits)
        return MaskedSegments(self.key, settings.my_id, group, copies, form, settings.waits.average, send)

    @property
    def listening(self) -> bool:
        """Whether the start of the round may still come; who has trained may wait for the group without an update."""
        return super().listening and not self.sum.building.has_started

    # --- what comes

    def rest(self) -> list[Effect]:
        """Do not train in this round; see `Round.rest`. Who is not named by the choice says that it has no group either."""
        rests = super().rest()
        if self.choice is None or self._settings.my_id in self.choice.members:
            return rests
        return [*rests, self._refusal(self._peers.here, NOT_NAMED, late=False)]

    def vote_lost(self) -> str:
        """After a restart, a node is not in the sum any more; see `VotedRound.vote_lost`."""
        return text("it was restarted, and the secrets of a secure sum are never kept")

    def _take_part_of(self, event: PartReceived) -> list[Effect]:
        is_unasked = isinstance(event.part, KeysPart) and self.chosen is not None and event.peer not in self.chosen
        return [] if is_unasked else self.sum.receive(event.peer, event.attempt, event.part)

    def _fields_of(self, part: SecurePart, attempt: int) -> dict[str, Any]:
        return {**super()._fields_of(part, attempt), "choice": self.choice if isinstance(part, KeysPart) else None}

    def _repeat(self, peer: PeerId) -> list[Effect]:
        if self.sum.segments is None or self.own is None:
            return self.sum.say_again(peer)
        # It may lack the offer of this node's update, to add its segments.
        return [*self._update((peer,), self.own), *self.sum.say_again(peer)]

    def _update(self, to: Iterable[PeerId], own: Update) -> list[Effect]:
        """Send peers this node's masked update, or offer its segments."""
        effects, segments = super()._update(to, own), self.sum.segments
        if segments is None:
            return effects
        told = {"segments": tuple(segments.learn(own))}
        return [
            Send(sent.to, sent.message.model_copy(update=told))
            for sent in effects
            if isinstance(sent, Send) and isinstance(sent.message, ModelParams)
        ]

    def _lost(self, peer: PeerId) -> list[Effect]:
        return self.sum.leave(peer)

    def _forget(self) -> list[Effect]:
        downloads = [CancelTimer(download.timer) for download in self._downloads.values()]
        return [*self.sum.forget(), *downloads]

    @property
    def _is_making(self) -> bool:
        return self.sum.is_asked

    @property
    def _has_begun(self) -> bool:
        return self.sum.building.has_begun

    def _choice_learnt(self) -> list[Effect]:
        """Only the chosen nodes are in the group.

        The votes of those whom the choice does not name count, too: they could open a sum of their own, beside this one.
        """
        effects = self.sum.choose(self.chosen or ())
        for peer in self._peers.here:
            if self._may_vote(peer):
                self.sum.building.meet(peer)
        return effects

    def update_received(self, event: UpdateReceived | UpdateOffered) -> list[Effect]:
        """Handle a peer's masked update of this round, or the offer of one.

        Raises:
            StaleRound: it arrived too late.
            ParamsRefused: it is not masked.
        """
        update = event.update
        if not update.group:
            raise ParamsRefused(text("updates are masked here (FLNET_AGGREGATION=secure), and this one is not"))
        if self._settings.rules.topology.kind == "segments" and not update.segments:
            raise ParamsRefused(WHOLE)
        if self.taken or update.peer in self.gathering.updates:
            return []
        segments = self.sum.segments
        may_offer = segments is not None and segments.may_offer(update)
        if self.is_over or (self.sum.settled is not None and not may_offer):
            raise StaleRound(update.key.number, self.key.number)
        self._note_time(event)
        learnt = self._learn(event.choice)
        effects = [*learnt, *self.sum.begin(update.group), *self.gathering.receive(event)]
        is_here = update.peer in self.gathering.updates and self.sum.segments is None  # else it was told there
        return self._advanced([*effects, *([self.gathering.counted(update)] if is_here else [])])

    def met(self, peer: PeerId) -> list[Effect]:
        """Handle a reachable peer; it may be in another group of this round."""
        if self._may_vote(peer):
            self.sum.building.meet(peer)
        return super().met(peer)

    def _may_vote(self, peer: PeerId) -> bool:
        """Whether a peer may be in some group of this round; not if it has let rounds wait, and was in no average.

        One that the choice does not name may not know of the choice, or not believe it. One that is named and not chosen
        trains in no group.
        """
        is_silent = bool(self._peers.updates.silent((peer,))) and peer not in self._history.contributors()
        may_train = self.choice is None or peer not in self.choice.members or peer in (self.chosen or ())
        return may_train and not is_silent

    def _received(self, event: Event) -> list[Effect]:
        if self.taken or self.is_over:
            return [] if isinstance(event, SecureStepDone) else super()._received(event)
        segments = self.sum.segments
        match event:
            case Averaged() if event.segment is not None:
                return self.sum.handle(event) if event.key == self.key and segments is not None else []
            case AveragingFailed() if event.segment is not None:
                return self._give_up(event.reason) if event.key == self.key else []
            case Fetched(_, _, digest) | FetchFailed(_, _, digest) if segments is not None and segments.awaits(
                digest
            ):
                return [*self.sum.handle(event), *self.gathering.arrived()]
            case SecureStepDone(key) if key == self.key:
                if isinstance(event.result, UpdateMasked):
                    return self._masked(event.attempt, event.result)
                return self.sum.done(event.attempt, event.result)
            case TimerFired(name) if name in self.sum.timers:
                return self.sum.timer_fired(name)
            case Fetched() | FetchFailed() | TimerFired() if self._downloads:
                return self._downloading(event)
        return super()._received(event)

    # --- the model from which all members count their changes

    def _model_came(self, digest: Digest, params: Params) -> None:
        self._reference = digest
        self.sum.refer_to(digest, params)

    # --- the own update

    def _trained(self, event: Trained) -> list[Effect]:
        """Handle the end of local training: the update is masked before it leaves."""
        if self.phase is not Phase.TRAINING or event.key != self.key:
            return []
        try:
            shared, private = self._held.split(event)
        except ParamsRefused as exc:
            return self._training_failed(
                TrainingFailed(event.key, text("training gave unusable parameters: {reason}", exc))
            )
        if why := self._budget.charge(None, event.release):
            return self._training_failed(TrainingFailed(event.key, why, is_choice=True))
        held, used = self._held, event.hyper or self._settings.round_hyper
        self._own = Update(self._settings.my_id, self.key, shared.select(()), base=held.digest)
        held.learn(private)
        self.phase = Phase.GATHERING
        self.record.note_training(event, self._budget.record(event.release))
        self.record.used_hyper = used.fields() if used else None
        self._note_time(UpdateReceived(self._own, seconds=event.seconds))
        words = text(
            "trained on {count} examples; accuracy here {accuracy}", event.examples, f"{event.accuracy:.4f}"
        )
        request = MaskUpdate(shared, self.sum.reference(self._reference), event.examples, event.labels)
        return [self._save(), *self.sum.trained(request), self._tell("trained", words)]

    def _training_failed(self, event: TrainingFailed) -> list[Effect]:
        # The failure of a training of an earlier round may come late.
        is_of_this = event.key == self.key and self.phase is Phase.TRAINING
        left = self.sum.leave(self._settings.my_id) if is_of_this else []
        return [*super()._training_failed(event), *left]

    def _masked(self, attempt: int, result: UpdateMasked) -> list[Effect]:
        """The own update is masked: send it to all."""
        group = self.sum.group
        if group is None or group.attempt != attempt or self._own is None or self.phase not in OPEN:
            return []
        own = self._own = replace(self._own, params=result.params, group=group.id)
        told = [self._tell("masked", result.note)] if result.note else []
        return [*self._spread(own), *self.gathering.receive(UpdateReceived(own)), *told]

    @property
    def own(self) -> Update | None:
        """This node's masked update; it is not kept over a restart, because its secrets are not."""
        return self._own if self._own is not None and self._own.group else None

    def find(self, digest: Digest) -> Params | None:
        """The masked update with this digest, or the segment, for a member that lacks it."""
        return self.sum.find(digest)

    def form_of(self, digest: Digest) -> Schema | None:
        """The form of a segment that is being downloaded."""
        return None if self.sum.segments is None else self.sum.segments.form_of(digest)

    # --- the sum

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to average; what was settled can still be downloaded."""
        return super().is_empty and self.sum.settled is None

    def _advanced(self, effects: list[Effect]) -> list[Effect]:
        """Take the steps that follow from what happened."""
        if self.is_past or self.is_over or self.taken:
            return effects
        building, held, segments = self.sum.building, self._held, self.sum.segments
        if segments is not None and segments.lacks_something:
            effects = [*effects, *self._try_again()]
        if self.phase is Phase.TRAINING and not building.has_started and not building.left_out:
            assert held.digest is not None
            if self._reference is None:
                self._model_came(held.digest, held.current.shared)
            effects = [*effects, *self.sum.start(self._reference or held.digest)]
        group = building.group
        if group is not None and not building.has_begun and self.gathering.was_sent_for(group.id):
            effects = [*effects, *self.sum.begin(group.id)]
        if self.sum.group is not None and not self._is_grouped:
            self._is_grouped = True
            effects = [*effects, *self._expect_members()]
        # Before the start has come, this node may be one that is not chosen.
        is_open = self.gathering.closed is None and not self.listening
        if building.left_out and is_open and self._settings.my_id in self.gathering.missing:
            effects = [*effects, *self._stay_out(building.left_out)]
        if self.sum.settled is not None and self.phase in OPEN:
            effects = [*effects, *self._fetch_lacking()]
            if self.gathering.closed is None:
                effects += self.gathering.close(Closing.COMPLETE)
        if self.sum.failure and not self.sum.is_asked and self.phase in OPEN:
            why = text(
                "the secure sum of round {number} was not opened: {reason}", self.key.number, self.sum.failure
            )
            return [*effects, *self._give_up(why)]
        return effects

    def _expect_members(self) -> list[Effect]:
        """The group has formed: wait for its members, and take up what came before."""
        group, gathering = self.sum.building.group, self.gathering
        assert group is not None
        effects: list[Effect] = []
        for peer in sorted(gathering.expected - group.members.keys() - {self._settings.my_id}):
            effects += gathering.receive(DeclineReceived(peer, self.key, NOT_IN_GROUP))
        for peer in group.members.keys() - gathering.declined.keys():
            gathering.expect(peer)
        return [*effects, *gathering.take_set_aside()]

    def _stay_out(self, why: str) -> list[Effect]:
        cancelled: list[Effect] = [CancelWork(self.key)] if self.phase is Phase.TRAINING else []
        if self.phase in GATHERING:
            self.phase = Phase.GATHERING
        return [*cancelled, *self.decline(why), self._tell("sits_out", why)]

    def _note_silence(self) -> None:
        """Note who let this node wait in vain, and who did not.

        Peers that the group formed without are not waited for any more, but did not say so themselves.
        """
        gathering, building, updates = self.gathering, self.sum.building, self._peers.updates
        said = {peer for peer, reason in gathering.declined.items() if reason != NOT_IN_GROUP}
        spoke = {*gathering.updates, *said, *building.spoke} - {self._settings.my_id}
        silent = {*gathering.invited, *building.silent} & self._peers.here - spoke
        if gathering.closed is Closing.TIMER:
            silent |= set(gathering.missing)
        for peer in spoke - silent:
            updates.spoke(peer)
        if silent:
            updates.said_nothing(silent)
        else:
            updates.all_spoke()

    def _fetch_lacking(self) -> list[Effect]:
        """Download the masked updates that this node does not have, from any member that accepted them."""
        group, masked = self.sum.group, self.gathering.form()
        assert group is not None
        wanted: dict[str, Schema | None] = {digest: masked for _, digest in self.sum.lacking}
        if self.sum.lacks_reference:
            wanted[group.base] = None
        effects: list[Effect] = []
        for digest in sorted(wanted.keys() - self._downloads.keys()):
            sources = self._peers.here  # who only listens has them, too
            timer, patience = f"masked:{digest[:16]}", self._settings.waits.average / 2
            me, tell = self._settings.my_id, self._fetching_masked
            form = wanted[digest]
            nbytes = (form or self._held.schema).nbytes
            download = ParamsDownload(self.key, Digest(digest), timer, me, sources, patience, tell, form, nbytes)
            self._downloads[digest] = download
            effects += download.start()
        return effects

    def _fetching_masked(self, peer: PeerId) -> Publish:
        words = text("fetching what the sum of round {number} lacks from {peer}", self.key.number, peer)
        return self._tell("fetching", words, peer=peer)

    def _downloading(self, event: Event) -> list[Effect]:
        group = self.sum.group
        assert group is not None
        effects = [effect for download in self._downloads.values() for effect in download.receive(event)]
        came = {digest: d.params for digest, d in self._downloads.items() if d.params is not None}
        for peer, digest in self.sum.lacking:
            if digest in came:
                update = Update(peer, self.key, came[digest], group=group.id)
                effects += self.sum.replace(update, digest)
        if self.sum.lacks_reference and group.base in came:
            effects += self.sum.refer_to(Digest(group.base), came[group.base])
        if any(download.failure is not None for download in self._downloads.values()):
            effects += self._try_again()
        return [*effects, *super()._received(event)]

    def _averaged(self, event: Averaged | AveragingFailed) -> list[Effect]:
        """Handle the opened sum: its contributors are those that were settled."""
        is_mine = event.key == self.key and self.phase is Phase.AVERAGING
        if is_mine and isinstance(event, AveragingFailed) and not event.is_spoilt and self.sum.may_open_later:
            return self.sum.try_again(event.reason)
        if isinstance(event, Averaged) and is_mine:
            gathering, members = self.gathering, self.sum.updates
            for peer in gathering.updates.keys() - members.keys():
                gathering.declined[peer] = text("its update came too late for the sum")
            gathering.updates = dict(sorted(members.items()))
            self.record.left_out, self.record.missing = None, tuple(gathering.missing)
            self.record.outcome = self._closing_words()
            assert self.sum.group is not None
            self.record.secure = SumRecord(tuple(self.sum.group.members), self.sum.group.threshold)
        searched = self._search(event) if is_mine else []
        return [*super()._averaged(event), *searched]

    def _search(self, event: Averaged | AveragingFailed) -> list[Effect]:
        """After a sum that fails its check: begin the search for the part that spoils it, or go on with it."""
        search, choice = self._parts.search, self.choice
        is_spoilt = isinstance(event, AveragingFailed) and event.is_spoilt
        members = [peer for peer, _ in self.sum.settled or ()]
        if choice is not None and choice.group is not None:
            search.ended(choice)
            if not is_spoilt:
                return []
            words = text("the sum of {names} failed its check: one of them sends no update", names(members))
            return [self._tell("sum_spoilt_by", words, peers=members)]
        if not is_spoilt or not search.begin(self.key.number, members):
            return []
        if self.key.initiator == self._settings.my_id and self._series.stopping.series is None:
            self._series.ask(self._series.left + GROUPS)
        words = text("the next {count} rounds are of smaller groups, to find where the sum fails", GROUPS)
        return [self._tell("sum_searched", words)]

    def _send_again(self) -> list[Effect]:
        self._downloads = {d: download for d, download in self._downloads.items() if download.failure is None}
        retried = [] if self.sum.segments is None else self.sum.segments.retry()
        return [*super()._send_again(), *retried]
