"""One epoch of a vertical job, as this node takes part in it.

The initiator asks all peers what they hold (offer, position). From the answers it makes the plan of the epoch, and
sends it to all holders (begin). Then the conversation of `flnet.algorithms.vertical` goes on, which runs in the compute
queue: this class only carries its messages, and sees who is still there. An epoch that cannot go on is given up at all
holders (abandon), and their models are those of the last epoch that has ended.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal

from flnet.errors import BatchRefused, InvalidMessage, NotReady, PeerError, RoundAhead
from flnet.params.params import Params, PeerId
from flnet.protocol.effects import CancelTimer, Effect, OpenEpoch, Send, SetTimer, Talk
from flnet.protocol.events import (
    Event,
    PeerLost,
    SendFailed,
    SendRefused,
    TimerFired,
    VerticalDelivered,
    VerticalDone,
    VerticalFailed,
    VerticalReceived,
)
from flnet.protocol.updates import RoundKey
from flnet.protocol.vertical import (
    ENCRYPTED,
    MAX_REASON,
    AbandonPart,
    AlivePart,
    AnyPart,
    BeginPart,
    OfferPart,
    PositionPart,
    PredictionPart,
    TalkPart,
    VerticalMessage,
)
from flnet.rounds.base_round import BaseRound, Parts
from flnet.rounds.history import RoundRecord, names
from flnet.rounds.numbering import furthest
from flnet.rounds.steps import Phase
from flnet.rounds.vertical_links import AGAIN, Links, arrays_of
from flnet.rounds.vertical_models import VerticalModels, agreed_in_flight, check_holders, common_epoch
from flnet.text import text

TICKS = 4  # looks at who is there, in the time after which a silent holder is given up
MOST_TICKS = 10 * TICKS  # for one turn of the own conversation
TICK, ANSWERS = "vertical:tick", "vertical:answers"  # timers
UNTOLD = ("ids", "allowsPredictions")  # of what the trainer declares of its columns
REPEATABLE = (429, 503)  # statuses of refusals after which a message is repeated
Stage = Literal["asking", "aligning", "training", "closing", ""]


class VerticalRound(BaseRound):
    """One epoch.

    Attributes:
        session: its name.
        begin: the plan; None while holders are asked.
        has_ended: whether the epoch has ended here, and not only this node's part in it.
        tries_again: whether it was given up because a holder did not answer.
        left_behind: holders that have not got all that was said to them before the epoch ended here.
        turn: of the conversation, the newest one.
    """

    gathering = None

    def __init__(
        self,
        parts: Parts,
        models: VerticalModels,
        key: RoundKey,
        session: str,
        *,
        afresh: bool = False,
        why: str = "",
        trained: int | None = None,
    ) -> None:
        super().__init__(parts, key, RoundRecord(key, why=why), Phase.ALIGNING)
        self.session, self.begin = session, None
        self.links = Links(self._settings, session)
        self.has_ended = self.tries_again = False
        self.turn: VerticalDone | None = None
        self.left_behind: set[PeerId] = set()
        self._models, self._afresh, self._trained = models, afresh, trained
        self._asked: set[PeerId] = set()
        self._positions: dict[PeerId, PositionPart] = {}
        self._absent: dict[PeerId, str] = {}
        self._silent: set[PeerId] = set()  # of these, who did not answer or is not reachable
        self._inbox: list[tuple[PeerId, TalkPart, Params]] = []
        self._is_working = False
        self._ticks = self._working_since = 0
        self._heard: dict[PeerId, int] = {}

    begin: BeginPart | None

    @classmethod
    def past(
        cls, parts: Parts, models: VerticalModels, key: RoundKey, record: RoundRecord | None
    ) -> VerticalRound:
        """The epoch that this node was in when it was restarted; it is over."""
        past = cls(parts, models, key, "")
        past.record, past.phase, past.is_recorded = record or past.record, Phase.IDLE, record is None
        return past

    # --- what it shows

    @property
    def is_mine(self) -> bool:
        """Whether this node is the initiator."""
        return self.key.initiator == self._settings.my_id

    @property
    def others(self) -> list[PeerId]:
        """The other holders."""
        return [peer for peer in self.begin.ids if peer != self._settings.my_id] if self.begin else []

    @property
    def stage(self) -> Stage:
        """The stage; empty when it is over."""
        if self.is_over:
            return ""
        if self.begin is None:
            return "asking"
        stage = self.turn.stage if self.turn else "aligning" if self.begin.aligns else "training"
        return "closing" if stage == "closed" else stage  # type: ignore[return-value]

    @property
    def waiting_for(self) -> list[PeerId]:
        """Peers that have not answered the offer, or all other holders while nothing is to do here."""
        if self.is_over or self._is_working:
            return []
        return sorted(self._asked) if self.begin is None else self.others

    # --- it begins

    def start(self) -> list[Effect]:
        """Ask all peers what they hold."""
        self._asked = set(self._peers.here)
        self._positions[self._settings.my_id] = self._position()
        for peer in sorted(self._asked):
            self.links.say(peer, OfferPart(afresh=self._afresh))
        told = self._tell(
            "round_opened",
            text(
                "epoch {number} of {trainer}: asking {count} peers what they hold", *self._named, len(self._asked)
            ),
            initiator=self._settings.my_id,
        )
        if not self._asked:
            return [*self._decide(), told]
        # Saved at once: whoever asked for this epoch was promised it, and a restart would forget it.
        timer = SetTimer(ANSWERS, self._settings.waits.start)
        return [self._save(), *self.links.flush(self.key), timer, told]

    def answer(self, peer: PeerId) -> list[Effect]:
        """Answer the offer of a peer."""
        self.links.is_new(peer, 0)
        self.links.say(peer, self._position())
        waits = self._settings.waits.average
        return [*self.links.flush(self.key), SetTimer(ANSWERS, waits), SetTimer(TICK, waits / TICKS)]

    @property
    def _named(self) -> tuple[int, str]:
        return self.key.number, self._settings.trainer

    def _position(self) -> PositionPart:
        declared = self._settings.declaration
        assert declared is not None
        stated = {name: value for name, value in declared.offers["vertical"].items() if name not in UNTOLD}
        if self._models.seed is not None and not self._afresh:
            stated["seed"] = self._models.seed
        return PositionPart(
            **stated,
            number=self.key.number - 1,
            checkpoints=self._models.checkpoints(afresh=self._afresh),
            alignment=self._models.alignment or None,
            aligned_with=self._models.aligned_with,
        )

    # --- events

    def receive(self, event: Event) -> list[Effect]:
        """Handle what peers and the conversation say."""
        if self.is_over:
            return []
        match event:
            case VerticalReceived():
                return self._received(event)
            case VerticalDelivered(peer, session) if session == self.session:
                self._hear(peer)
                self.links.delivered(peer)
                return [*self.links.flush(self.key), *self._close_if_done()]
            case SendFailed(peer) if event.session in ("", self.session) and self.links.is_under_way(
                peer, event.path, event.key
            ):
                return self.links.failed(peer)
            case SendRefused(peer) if event.session in ("", self.session) and self.links.is_under_way(
                peer, event.path, event.key
            ):
                return self._refused(event)
            case VerticalDone(session) if session == self.session:
                return self._done(event)
            case VerticalFailed(session, reason) if session == self.session:
                self._is_working = False
                return self.abandon(text("{peer}: {reason}", self._settings.my_id, reason))
            case TimerFired(name):
                return self._timer_fired(name)
            case PeerLost(peer, reason):
                return self._lost(peer, reason)
        return []

    def end_training(self) -> list[Effect]:
        """A person paused the job."""
        if self.is_over:
            return []
        return self.abandon(text("{trainer} was paused at {peer}", self._settings.trainer, self._settings.my_id))

    def _received(self, event: VerticalReceived) -> list[Effect]:
        """Take a message of this session.

        Raises:
            PeerError: it is refused and nothing has changed.
        """
        if self.begin is not None and event.peer not in self.others:
            raise BatchRefused(text("{peer} has no part in this epoch", event.peer))
        if event.number is None:
            return self._unnumbered(event)
        is_early = not isinstance(event.parts[0], OfferPart | PositionPart | BeginPart)
        if self.begin is None and is_early and not (self.is_mine and isinstance(event.parts[0], AlivePart)):
            raise NotReady(text("the plan of this epoch has not arrived here yet"))
        self._check_parts(event)
        if not self.links.is_new(event.peer, event.number):
            return []
        self._hear(event.peer)
        effects: list[Effect] = []
        for place, part in enumerate(event.parts):
            effects += self._part(event, part, arrays_of(event.arrays, place))
            if self.is_over:
                return effects
        return [*effects, *self._work()]

    def _check_parts(self, event: VerticalReceived) -> None:
        """Raises:
        PeerError: a part has no place in this stage.
        """
        for part in event.parts:
            match part:
                case OfferPart() | BeginPart() if event.peer != self.key.initiator:
                    raise BatchRefused(text("{peer} is not the initiator of this epoch", event.peer))
                case BeginPart() if self.begin is None:
                    self._check_begin(event, part)
                case PositionPart() if not self.is_mine:
                    raise BatchRefused(text("this node has asked nobody what it holds"))

    def _check_begin(self, event: VerticalReceived, begin: BeginPart) -> None:
        """Raises:
        InvalidMessage: the plan is not about what this node has said, or asks for too much.
        BatchRefused: these holders cannot train together.
        RoundAhead: its number is one that nobody can have reached.
        """
        me, current = self._settings.my_id, self.key.number - 1
        if event.key.number > furthest(current):
            raise RoundAhead(event.key.number, current)
        mine = begin.holders.get(me)
        if mine is None or mine != self._position():
            raise InvalidMessage(text("the plan of the epoch does not state what {peer} holds", me))
        check_holders(begin.holders, {}, {})
        epochs = {checkpoint.epoch for checkpoint in mine.checkpoints}
        if begin.closed not in (epochs if max(epochs, default=0) > 0 else {-1, *epochs}):
            raise InvalidMessage(text("{peer} cannot go on from epoch {epoch}", me, begin.closed))
        is_aligned = self._models.rows is not None and set(self._models.aligned_with) == set(begin.aligned)
        if me in begin.aligned and not begin.aligns and not is_aligned:
            raise InvalidMessage(text("{peer} has no alignment with these holders", me))
        if begin.in_flight != (agreed := agreed_in_flight(begin.holders)):
            raise InvalidMessage(
                text(
                    "the plan has {count} batches in flight, but the holders agree to {agreed}",
                    begin.in_flight,
                    agreed,
                )
            )
        if why := self._settings.too_much(event.hyper):
            raise InvalidMessage(why)

    def _part(self, event: VerticalReceived, part: AnyPart, arrays: Params) -> list[Effect]:
        match part:
            case PositionPart():
                return self._answered(event.peer, part)
            case BeginPart() if self.begin is None:
                self._settings.use(event.hyper)
                self.key = self.record.key = RoundKey(event.key.number, self.key.initiator)
                return self._begin(part)
            case OfferPart() | BeginPart() | AlivePart():
                return []
            case AbandonPart(reason=reason, again=again):
                return self._end(text("abandoned: {reason}", reason), again=again, error=reason)
        assert not isinstance(part, PredictionPart)  # the job does not pass these on
        self._inbox.append((event.peer, part, arrays))
        return []

    def _unnumbered(self, event: VerticalReceived) -> list[Effect]:
        """Only the end is told without a number: it must not wait for other messages."""
        part = event.parts[0]
        if not isinstance(part, AbandonPart) or self.turn_is_closed:
            return []
        if self.begin is None and event.peer != self.key.initiator and event.peer not in self._asked:
            return []
        return self._end(text("abandoned: {reason}", part.reason), again=part.again, error=part.reason)

    # --- who takes part

    def _answered(self, peer: PeerId, position: PositionPart) -> list[Effect]:
        current = self.key.number - 1
        if self.begin is None and position.number > furthest(current):
            return self._declined(peer, RoundAhead(position.number, current).message)
        if self.begin is None:
            self._positions[peer] = position
            self._asked.discard(peer)
            return [] if self._asked else self._decide()
        return []

    def _declined(self, peer: PeerId, reason: str) -> list[Effect]:
        self._asked.discard(peer)
        self._absent[peer] = reason
        self.links.drop((peer,))
        return [] if self._asked else self._decide()

    def _decide(self) -> list[Effect]:
        """Everybody has answered, or the time is over: begin, or say why not."""
        for peer in self._asked:
            self._absent.setdefault(peer, text("it did not answer"))
        self._silent |= self._asked
        self.links.drop(self._asked)
        self._asked.clear()
        before = {} if self._afresh or not self._models.ended else self._models.holders
        told = self._leave_out([peer for peer in self._positions if before and peer not in before])
        positions = {str(peer): position for peer, position in self._positions.items()}
        try:
            check_holders(positions, {str(peer): why for peer, why in self._absent.items()}, before)
            closed = common_epoch(positions)
        except PeerError as exc:
            again = not self._silent.isdisjoint(before)  # another holder may have noticed it first
            return [CancelTimer(ANSWERS), *self.abandon(exc.message, again=again), *told]
        if self._trained is not None and closed >= self._trained:
            return [*self._has_ended_already(closed), *told]
        mine = positions[self._settings.my_id]
        is_aligned = _is_aligned(positions)
        seeds = [positions[peer].seed for peer in sorted(positions) if positions[peer].checkpoints]
        begin = BeginPart(
            holders=positions,
            closed=closed,
            aligns=not is_aligned,
            seed=seeds[0] if seeds else mine.seed,
            in_flight=agreed_in_flight(positions),
        )
        number = max(self.key.number, *(position.number + 1 for position in positions.values()))
        self.key = self.record.key = RoundKey(number, self.key.initiator)
        for peer in begin.ids:
            if peer != self._settings.my_id:
                self.links.say(peer, begin)
        return [CancelTimer(ANSWERS), *self._begin(begin), *told]

    def _has_ended_already(self, epoch: int) -> list[Effect]:
        """The epoch that was asked for has ended at all holders, and only this node had not heard so: train no other."""
        self._models.closed, self.has_ended = epoch, True
        return self.abandon(text("epoch {epoch} of the models has ended", epoch))

    def _leave_out(self, peers: Sequence[PeerId]) -> list[Effect]:
        """Leave out holders that were not there when the models began: they would have to begin again for them."""
        others = sorted(peer for peer in peers if peer != self._settings.my_id)
        if not others:
            return []
        for peer in others:
            del self._positions[peer]
        self.links.drop(others)
        words = text("{names} hold columns too; begin a new numbering to train with them", names(others))
        part = AbandonPart(reason=str(words)[:MAX_REASON])
        message = self._settings.message(VerticalMessage, self.key, session=self.session, parts=(part,))
        return [Send(tuple(others), message), self._tell("peers_left_out", words)]

    def _begin(self, begin: BeginPart) -> list[Effect]:
        self.begin = begin
        self._models.begin(begin)
        warned = self._warn(self._warnings_of(begin))
        self.phase = Phase.ALIGNING if begin.aligns else Phase.TRAINING
        self._heard = dict.fromkeys(self.others, 0)
        self._is_working, self._working_since = True, self._ticks
        hyper, ended = self._settings.round_hyper, self._models.ended.get(begin.closed)
        assert hyper is not None
        self.record.used_hyper = hyper.fields()
        params, report = (ended.params, ended.report) if ended else (Params(), None)
        rows = None if begin.aligns or self._models.rows is None else Params({"rows": self._models.rows})
        alignment = "" if rows is None else self._models.alignment
        words = text("epoch {number} of {trainer} begins with {holders}", *self._named, names(begin.ids))
        return [
            self._save(),
            CancelTimer(ANSWERS),
            OpenEpoch(self.session, begin, hyper, params, report, rows, alignment),
            SetTimer(TICK, self._settings.waits.average / TICKS),
            *self.links.flush(self.key),
            self._tell("round_opened", words, initiator=self.key.initiator),
            *warned,
        ]

    def _warnings_of(self, begin: BeginPart) -> list[str]:
        if begin.method != ENCRYPTED or self._settings.seals:
            return []
        key = next(peer for peer, position in begin.holders.items() if not position.has_data)
        return [
            text(
                "connections of this mesh are not encrypted for their receiver: if {peer}, which holds the key, can "
                "read the network, it can read what the other nodes send each other; use a pinned mesh",
                key,
            )
        ]

    # --- the conversation

    @property
    def turn_is_closed(self) -> bool:
        """Whether the epoch has ended in the conversation."""
        return self.turn is not None and self.turn.stage == "closed"

    def _work(self) -> list[Effect]:
        """Give the conversation what has arrived, if it is not at work."""
        has_more = self.turn is not None and self.turn.more
        if self.begin is None or self._is_working or self.turn_is_closed or not (self._inbox or has_more):
            return []
        received, self._inbox = tuple(self._inbox), []
        self._is_working, self._working_since = True, self._ticks
        return [Talk(self.session, received)]

    def _done(self, event: VerticalDone) -> list[Effect]:
        self._is_working, self.turn = False, event
        effects: list[Effect] = []
        assert self.begin is not None
        if event.rows is not None:
            self._models.align(event.rows["rows"], event.alignment, tuple(self.begin.aligned))
            count = len(event.rows["rows"])
            self.phase = Phase.TRAINING
            words = text("{count} rows are known to all holders of {trainer}", count, self._settings.trainer)
            if self.begin.hides_matches:
                words = text(
                    "rows of {trainer} stand at {count} positions; only the node with the key knows which match",
                    self._settings.trainer,
                    count,
                )
            effects += [self._save(), self._tell("rows_aligned", words, rows=count)]
        if event.common is not None:
            self._models.common, self.phase = event.common, Phase.TRAINING
        effects += self._warn(event.warnings)
        if event.params is not None:
            epoch = self.begin.closed + 1
            self._models.add(epoch, event.params, event.bottom, event.own_report, event.own)
        if event.report is not None:
            self._note(event)
        if event.params is not None or event.report is not None:
            effects.append(self._save())
        for one in event.sent:
            self.links.say(one.to, one.part, one.arrays)
        return [*effects, *self.links.flush(self.key), *self._work(), *self._close_if_done()]

    def _warn(self, warnings: Sequence[str]) -> list[Effect]:
        """Tell people what they should know of this job, each thing once."""
        return [self._tell("vertical_warning", words) for words in self._models.warn(warnings)]

    def _note(self, event: VerticalDone) -> None:
        """The epoch has ended: put its figures into the record."""
        report, record = event.report, self.record
        assert report is not None and self.begin is not None
        before = self._history.last_result
        self._models.closed = report.epoch
        record.contributors = self.begin.ids
        record.pre_accuracy = before.post_accuracy if before else None
        record.metrics["after"] = {"loss": report.loss}
        record.examples = self._models.count
        if report.score is not None:
            record.post_accuracy = report.score.accuracy
            record.metrics["after"] = {"loss": report.loss, **report.score.metrics}
        if event.own is not None:
            own = {f"own_{name}": value for name, value in event.own.items()}
            record.metrics["after"] = {**record.metrics["after"], **own}

    def _close_if_done(self) -> list[Effect]:
        if self.is_over or not self.turn_is_closed or self.links.pending:
            return []
        assert self.turn is not None and self.turn.report is not None
        self.has_ended = True
        return self._end(text("epoch {epoch} of the models has ended", self.turn.report.epoch))

    def _leave_behind(self, peers: Collection[PeerId]) -> None:
        """The epoch has ended here, and these do not hear of it: they are told when they say something."""
        self.left_behind |= self.links.drop(peers)

    # --- who does not answer

    def _hear(self, peer: PeerId) -> None:
        if peer in self._heard:
            self._heard[peer] = self._ticks

    def _refused(self, event: SendRefused) -> list[Effect]:
        peer = event.peer
        if event.status in REPEATABLE:
            return self.links.failed(peer)
        if self.begin is None:
            return (
                self._declined(peer, event.reason)
                if peer in self._asked
                else self._lost_initiator(peer, event.reason)
            )
        if self.turn_is_closed:
            self._leave_behind((peer,))
            return self._close_if_done()
        return self.abandon(text("{peer} does not go on: {reason}", peer, event.reason), again=True)

    def _lost_initiator(self, peer: PeerId, reason: str) -> list[Effect]:
        if peer != self.key.initiator:
            return []
        return self._end(text("abandoned: {reason}", reason), again=True)

    def _lost(self, peer: PeerId, reason: str) -> list[Effect]:
        if self.begin is None:
            if peer in self._asked:
                self._silent.add(peer)
                return self._declined(peer, reason)
            return self._lost_initiator(peer, text("{peer} is not reachable: {reason}", peer, reason))
        if peer not in self.others:
            return []
        if self.turn_is_closed:
            self._leave_behind((peer,))
            return self._close_if_done()
        return self.abandon(text("{peer} is not reachable: {reason}", peer, reason), again=True)

    def _timer_fired(self, name: str) -> list[Effect]:
        if name.startswith(AGAIN):
            return self.links.repeat(name)
        if name == ANSWERS and self.begin is None:
            if self.is_mine:
                return self._decide()
            return self._end(text("abandoned: {reason}", text("the plan of the epoch did not come")), again=True)
        if name == TICK and self.begin is None and not self.is_mine:  # an initiator that was restarted refuses it
            return [*self.ask(self.key.initiator), SetTimer(TICK, self._settings.waits.average / TICKS)]
        return self._tick() if name == TICK and self.begin is not None else []

    def _tick(self) -> list[Effect]:
        """Look who is there, and say that this node is."""
        self._ticks += 1
        waits = self._settings.waits.average
        silent = [peer for peer, heard in sorted(self._heard.items()) if self._ticks - heard > TICKS]
        if silent and self.turn_is_closed:
            self._leave_behind(silent)
            return self._close_if_done() or [SetTimer(TICK, waits / TICKS)]
        if silent:
            words = text("{names} said nothing for {seconds} s", names(silent), f"{waits:g}")
            return self.abandon(words, again=True)
        if self._is_working and self._ticks - self._working_since > MOST_TICKS:
            return self.abandon(
                text("the training process of {peer} does not answer", self._settings.my_id), again=True
            )
        for peer in self.others:
            if (link := self.links.of.get(peer)) is None or link.is_idle:
                self.links.say(peer, AlivePart())
        return [*self.links.flush(self.key), SetTimer(TICK, waits / TICKS)]

    # --- it ends

    def abandon(self, reason: str, *, again: bool = False) -> list[Effect]:
        """Give the epoch up, and tell the others why."""
        to = tuple(self.others) if self.begin else tuple(p for p in self._positions if p != self._settings.my_id)
        if self.begin is None and not self.is_mine:
            to = (self.key.initiator,)
        part = AbandonPart(reason=str(reason)[:MAX_REASON], again=again)
        message = self._settings.message(VerticalMessage, self.key, session=self.session, parts=(part,))
        sent: list[Effect] = [Send(to, message)] if to else []
        words = reason if self.has_ended else text("abandoned: {reason}", reason)
        return [*sent, *self._end(words, again=again, error=reason)]

    def ask(self, peer: PeerId) -> list[Effect]:
        """Find out whether a holder that begins another epoch is still in this one; if not, it refuses the message."""
        if (link := self.links.of.get(peer)) is None or link.is_idle:
            self.links.say(peer, AlivePart())
        return self.links.flush(self.key)

    def yields(self, to: PeerId) -> list[Effect]:
        """Another node has begun to ask: its epoch comes first."""
        self.is_recorded, self.tries_again = True, self.is_mine
        self.phase = Phase.IDLE
        return [*self.links.close(), CancelTimer(TICK), CancelTimer(ANSWERS)]

    def _end(self, words: str, *, again: bool = False, error: str = "") -> list[Effect]:
        self.phase, self.tries_again = Phase.IDLE, again
        timers: list[Effect] = [*self.links.close(), CancelTimer(TICK), CancelTimer(ANSWERS)]
        if not self.has_ended:
            self.error = error or None
        if self.begin is None and not self.is_mine:
            self.is_recorded = True  # it never began for this node
            return timers
        self.record.error = self.error
        self.record.outcome = words
        told = self._judge()
        self._remember()
        shown = {name: value for name, value in self.record.view().items() if name != "contributions"}
        return [*timers, self._save(), self._tell("round_closed", words, **shown), *told]

    def vertical_view(self) -> Mapping[str, Any]:
        """Its stage for people."""
        turn = None if self.is_over else self.turn
        return {"stage": self.stage, "step": turn.step if turn else 0, "steps": turn.steps if turn else 0}


def _is_aligned(positions: Mapping[str, PositionPart]) -> bool:
    """Whether all that keep an alignment have aligned their rows with each other before."""
    data = {peer: one for peer, one in positions.items() if one.has_data or one.hides_matches}
    alignments = {position.alignment for position in data.values()}
    sets = {frozenset(position.aligned_with) for position in data.values()}
    return None not in alignments and len(alignments) == 1 and sets == {frozenset(data)}
