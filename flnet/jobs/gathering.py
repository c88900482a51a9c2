"""The steps of an open round until it is averaged: the own update, the peers' updates, and refusals."""

from __future__ import annotations

from dataclasses import replace

from flnet.effects import Effect, KeptUpdate, Publish
from flnet.errors import NoData, NotReady, ParamsRefused, StaleRound
from flnet.events import DeclineReceived, SendRefused, Trained, TrainingFailed, UpdateOffered, UpdateReceived
from flnet.jobs.agreement import must_agree
from flnet.jobs.lagging import came, timed
from flnet.jobs.opening import Opening
from flnet.jobs.speaking import decline, own_word
from flnet.jobs.starting import must_beat
from flnet.jobs.state import JobState
from flnet.jobs.steps import Phase
from flnet.messages import LAST_ROUND, StartTraining
from flnet.params import PeerId, RoundKey, Update


def trained(s: JobState, event: Trained) -> list[Effect]:
    """Local training is done: send the update to everyone, and wait for theirs."""
    if s.behind is not None and event.key == s.behind.key:
        return came(s, event)
    if s.phase is not Phase.TRAINING or event.key != s.key:
        return []  # of a round that this node has left
    assert s.model is not None and s.averaging is not None and s.record is not None
    try:
        shared = s.model.schema.conform(event.shared or event.params.select(s.model.schema.specs))
    except ParamsRefused as exc:  # never send what peers must refuse
        return failed(s, TrainingFailed(event.key, f"training gave unusable parameters: {exc}"))
    private = event.params.select(event.params.keys() - s.model.schema.specs.keys())
    s.model = s.model.with_private(private)
    s.phase = Phase.GATHERING
    s.record.pre_accuracy, s.record.examples = event.accuracy, event.examples
    s.record.seconds["train"], s.record.metrics["before"] = event.seconds, event.metrics
    used = event.hyper or s.hyper
    s.record.used_hyper = used.fields() if used else None
    s.sent = shared
    said = (event.examples, event.labels, event.accuracy, s.model.shared.digest)
    s.own = update = Update(s.my_id, event.key, shared, *said, contribution=event.contribution)
    message = own_word(s, update)
    timed(s, UpdateReceived(update, seconds=event.seconds))
    return [
        s.save(private=private),
        *s.spread(message, shared),
        *s.averaging.receive(UpdateReceived(update)),
        s.tell("trained", f"trained on {event.examples} examples; accuracy here {event.accuracy:.4f}"),
    ]


def failed(s: JobState, event: TrainingFailed) -> list[Effect]:
    """Local training ended without a result: say so to everyone, and go on as one who only receives."""
    if s.behind is not None and event.key == s.behind.key:
        return came(s, event)
    if s.phase is not Phase.TRAINING or event.key != s.key:
        return []
    if event.is_choice:
        s.phase = Phase.GATHERING
        return [*decline(s, event.reason), s.tell("sits_out", f"this node sits the round out: {event.reason}")]
    s.error = f"training failed in round {s.number}: {event.reason}"
    s.phase = Phase.GATHERING
    if s.record is not None:
        s.record.error = s.error
    return [*decline(s, f"training failed: {event.reason}"), s.tell("training_failed", s.error)]


def update_received(s: JobState, event: UpdateReceived | UpdateOffered) -> list[Effect]:
    """A peer's update came, or is there to be fetched; one of a newer round means that the mesh is ahead.

    Raises:
        NotReady, NoData, StaleRound, RoundLost, ParamsRefused: it does not count, and why.
    """
    if s.phase is Phase.LOADING:
        raise NotReady(f"{s.trainer} is still loading its data")
    if s.phase is Phase.NO_DATA or s.model is None:
        raise NoData(s.trainer, s.error or "no data")
    must_agree(s, event.agreement)
    key = _placed(s, event.update.key, event.update.peer)
    given = event.update
    params = s.model.schema.conform(given.params) if isinstance(event, UpdateReceived) else given.params
    if key is not given.key or params is not given.params:
        event = replace(event, update=replace(given, key=key, params=params))
    if key == s.key:
        return _of_this_round(s, event)
    must_beat(s, key)
    s.remember_early(event.update.peer, event)
    if s.phase is not Phase.AVERAGING:  # else the average in progress is finished first
        s.propose(Opening(key, heard_start=False, choice=event.choice, run=event.run))
    return [_kept(s, event)]


def decline_received(s: JobState, event: DeclineReceived) -> list[Effect]:
    """A peer takes no part; of a newer round it is kept until that round opens here."""
    key = _placed(s, event.key, event.peer)
    event = replace(event, key=key)
    if key == s.key and s.averaging is not None:
        told = s.tell("peer_declined", f"{event.peer} takes no part: {event.reason}", peer=event.peer)
        is_open = s.averaging.closed is None
        heard = s.averaging.receive(event)
        # After a restart this node would wait for a peer that need not say its word again.
        return [*heard, *([s.save()] if is_open else []), told]
    if s.key is None or key.beats(s.key) or (s.restored is not None and key == s.key):
        s.remember_early(event.peer, event)
    return []


def refused(s: JobState, event: SendRefused) -> list[Effect]:
    """A peer answered one of our messages with an error."""
    # This node may have left its start since, for the same round of another one, of which only an update told.
    is_left = s.listening and event.key != s.key and event.key == RoundKey(s.number, s.my_id)
    if s.averaging is None or (event.key != s.key and not is_left):
        return []
    told = s.tell(
        "refused", f"{event.peer} refused {event.path}: {event.reason}", peer=event.peer, status=event.status
    )
    if not is_left and _takes_no_part(event):
        return [*s.averaging.receive(DeclineReceived(event.peer, event.key, event.reason)), told]
    if _mesh_is_ahead(s, event):
        # This node started a round that the mesh has left behind: it starts the next one, and sits it out,
        # because an update from an old model would pull the average back.
        assert event.current is not None
        why = f"its model is of round {s.model.round if s.model else -1}, the mesh is in round {event.current}"
        s.propose(Opening(RoundKey(event.current + 1, s.my_id), s.hyper, sits_out=why))
    return [told]


def _takes_no_part(event: SendRefused) -> bool:
    if event.path != StartTraining.path:
        # A node that cannot use our parameters trains something else: we could not use its own.
        return event.status == 404 or event.error == ParamsRefused.code
    return event.status in (404, 413, 422)


def _mesh_is_ahead(s: JobState, event: SendRefused) -> bool:
    """Whether a peer answered our start of a round with being past it, or past its average.

    Words that it said of that round before this node lost its memory may have ended it here already.
    """
    started = event.key.initiator == s.my_id and event.path == StartTraining.path
    ahead = event.error == StaleRound.code and event.current is not None and s.number <= event.current < LAST_ROUND
    is_open = s.phase in (Phase.FETCHING, Phase.TRAINING, Phase.GATHERING)
    return started and ahead and (is_open or (s.phase is Phase.IDLE and _had_no_average(s)))


def _had_no_average(s: JobState) -> bool:
    return bool(s.history) and s.history[-1].key == s.key and s.history[-1].digest is None


def _placed(s: JobState, key: RoundKey, sender: PeerId) -> RoundKey:
    """A caller of the thesis' form names no initiator: it means the round that is open, or else its own."""
    if key.initiator:
        return key
    return RoundKey(key.number, s.key.initiator if s.key and s.key.number == key.number else sender)


def _of_this_round(s: JobState, event: UpdateReceived | UpdateOffered) -> list[Effect]:
    update = event.update
    if s.averaging is None:  # this node was restarted after its average
        raise StaleRound(update.key.number, s.number)
    if update.peer in s.averaging.updates:
        return []  # a duplicate; the first one counts
    if s.averaging.closed is not None or s.averaging.has_passed(update.peer):
        raise StaleRound(update.key.number, s.number)
    timed(s, event)
    effects = [*s.averaging.receive(event), _kept(s, event)]
    return effects if isinstance(event, UpdateOffered) else [*effects, counted(s, update)]


def _kept(s: JobState, event: UpdateReceived | UpdateOffered) -> Effect:
    """What is on the disk before the peer is told that its update has come."""
    digest = event.digest if isinstance(event, UpdateOffered) else None
    return s.save(updates=(KeptUpdate(event.update, digest),))


def counted(s: JobState, update: Update) -> Publish:
    """What people read when an update has come."""
    assert s.averaging is not None
    have = len(s.averaging.updates)
    words = f"update from {update.peer}: {have} of {have + len(s.averaging.missing)}"
    return s.tell("update_received", words, peer=update.peer, bytes=update.params.nbytes)
