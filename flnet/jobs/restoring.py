"""How a job goes on after a restart of its node: in the round, and in the part of it, that it had saved.

What it had said is said again and never differently: an update that was saved is offered again, as it was. What it
had not said yet is done anew: a training that was under way begins again. Peers that were expected hear the own
word of the round as soon as they are reachable; updates that they had only offered are fetched again from them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from flnet.contributions import Contribution
from flnet.effects import Effect, Send
from flnet.errors import InvalidMessage, ParamsRefused
from flnet.events import DeclineReceived, Restored, SendFailed, UpdateOffered, UpdateReceived
from flnet.jobs.arriving import Arrived, Plan
from flnet.jobs.closing import measure
from flnet.jobs.keeping import OPEN
from flnet.jobs.lagging import trains_again
from flnet.jobs.model import Model
from flnet.jobs.opening import Opening
from flnet.jobs.pursuit import Pursuit
from flnet.jobs.record import RoundRecord
from flnet.jobs.regrouping import came_back, regroup
from flnet.jobs.speaking import decline, own_word, rest, start_message
from flnet.jobs.starting import train
from flnet.jobs.state import JobState, key_of
from flnet.jobs.steps import Phase
from flnet.messages import Accuracy, ChoiceMessage, HyperParams, ModelParams, StartTraining
from flnet.params import Array, Params, PeerId, RoundKey, Update
from flnet.rounds import Versions
from flnet.setting_types import check_merging_rule


def restored(s: JobState, event: Restored) -> list[Effect]:
    """What an earlier run saved; it is used when the trainer is loaded."""
    if s.phase is not Phase.LOADING:
        return []
    said = event.snapshot
    try:
        history = [RoundRecord.read(record) for record in event.records]
        hyper = HyperParams.model_validate(said["hyper"]) if said.get("hyper") else s.hyper
        key = RoundKey(said["round"], PeerId(said.get("initiator") or "")) if said["round"] >= 0 else None
        record = RoundRecord.read(said["record"]) if said.get("record") else None
        phase = Phase(said["phase"])
        choice = ChoiceMessage.read(said["choice"]) if said.get("choice") else None
        left, pursuit = int(said.get("rounds_left", 0)), Pursuit.read(said.get("pursuit"))
        plan, arrived = Plan(*said.get("plan", ())), Arrived.read(said.get("arrived"))
        versions = Versions.read(said.get("versions"))
        by_person, settled, folds = said.get("merging") or ("", "", True)
        by_person = check_merging_rule(by_person) if by_person else ""
    except (AttributeError, KeyError, TypeError, ValueError, InvalidMessage) as exc:
        return [s.tell("state_damaged", f"what was kept of {s.trainer} cannot be used: {exc!r}; it begins anew")]
    s.history.extend(history)
    for one in (*history, *([record] if record is not None else [])):
        if one.weighed:
            s.weights.take(one)
    s.hyper, s.key, s.record, s.restored, s.choice = hyper, key, record, event, choice
    s.remembered = s.kept.remembered = event.remembered
    s.started_in = str(said["started_in"]) if said.get("started_in") else None
    s.rounds_left, s.pursuit, s.plan, s.arrived = left, pursuit, plan, arrived
    s.paused, s.rolled_back, s.versions = bool(said.get("paused")), bool(said.get("rolled_back")), versions
    if by_person and settled == s.rules.settled:  # else the settings were changed since, and count
        s.rules, s.folds = s.rules.merged_by(by_person), bool(folds)
    if said.get("me", s.my_id) != s.my_id or bool(said.get("asynchronous")) != s.rules.asynchronous:
        put_off(s)  # what was said in the open round was said under another name, or in rounds of another kind
    words = f"{s.trainer} was last in round {s.number} ({phase.lower()}); it goes on there"
    return [s.tell("restored", words)] if key else []


def model_of(s: JobState, initial: Model) -> Model:
    """The model that was kept, or the trainer's initial one if there is none, or it does not fit any more."""
    event = s.restored
    if event is None or event.params is None:
        return initial
    said = event.snapshot
    try:
        shared = initial.schema.conform(event.params)
    except ParamsRefused as exc:
        s.error = f"the model that was kept does not fit the trainer any more: {exc}"
        s.rolled_back = False
        return initial
    # A method of training that is new here begins with its own arrays, and a private head stays as it was learnt.
    kept = {n: a for n, a in (event.private or {}).items() if _as(a) == _as(initial.private.get(n))}
    model = initial.with_private(initial.private.merged_with(kept) if kept else initial.private)
    s.accuracy = said.get("accuracy")
    return model.holding(shared, said.get("model_round", -1), said.get("contributors", 0), said.get("restored_at"))


def _as(array: Array | None) -> tuple[tuple[int, ...], str] | None:
    """Shape and type, by which a kept array fits."""
    return None if array is None else (array.shape, array.dtype.name)


def put_off(s: JobState) -> None:
    """The trainer cannot work now: the round that was open is not taken up when it can."""
    if s.restored is not None:
        s.restored = replace(s.restored, snapshot={**s.restored.snapshot, "phase": Phase.IDLE.value})


def going_on(s: JobState) -> list[Effect]:
    """The trainer is loaded: take up the round that was open, and the series."""
    event, s.restored = s.restored, None
    if event is None or s.key is None or s.model is None:
        return []
    if s.error is not None:  # another model than the series was about
        s.rounds_left, s.pursuit = 0, Pursuit()
    effects = _round(s, event)
    for peer in sorted(s.away.keys() & s.peers):  # who came while the trainer was being loaded
        effects += met(s, peer)
    return [*effects, *regroup(s, event.snapshot)]


def _round(s: JobState, event: Restored) -> list[Effect]:
    assert s.key is not None and s.model is not None
    phase = Phase(event.snapshot["phase"])
    s.record = s.record or RoundRecord(s.key)
    if (own := _own(s, event.snapshot.get("own"), event.sent)) is not None:  # peers may still fetch it
        s.own, s.sent = own, own.params
    fits = s.error is None
    if phase in OPEN and fits:
        return _gather(s, event, phase)
    if phase is Phase.MEASURING and fits and s.model.round == s.number:
        s.phase = Phase.MEASURING
        # What this node sent just before it ended need not have come, and others may still wait for it.
        declined = {PeerId(peer) for peer in event.snapshot.get("declined", ())}  # they average what others learn
        s.away = dict.fromkeys(
            {*s.record.contributors, *s.record.missing, *declined, *listeners(s)} - {s.my_id}, s.key
        )
        return [measure(s)]
    if event.snapshot.get("record"):
        if s.record.outcome == "open":
            s.record.outcome = "ended by a restart of this node"
        s.remember(s.record)
    s.record = None
    return []


def listeners(s: JobState) -> set[PeerId]:
    """Peers that average what others learn in this round, chosen to train or not, where the start names them."""
    return {PeerId(member) for member in s.choice.members} - {s.my_id} if s.choice else set()


def _listens(s: JobState, peer: PeerId) -> bool:
    """Whether a peer needs this node's word: it is expected, or averages without a word of its own."""
    assert s.averaging is not None
    return peer in s.averaging.expected or peer in s.averaging.declined or peer in listeners(s)


def lost(s: JobState, peer: PeerId) -> None:
    """A peer cannot be reached any more: when it is back it hears this node's word on the open round."""
    s.peers.discard(peer)
    if s.averaging is not None and s.key is not None and _listens(s, peer):
        s.away[peer] = s.key


def missed(s: JobState, event: SendFailed) -> None:
    """A message did not get through: the peer hears this node's word again as soon as it answers anything."""
    if event.key == s.key and event.path != Accuracy.path:
        s.away[event.peer] = event.key
        if event.path == StartTraining.path:
            s.not_started[event.peer] = event.key


def met(s: JobState, peer: PeerId) -> list[Effect]:
    """A peer is reachable; one that was away in this round, or while this node was, hears its word again."""
    s.peers.add(peer)
    effects = came_back(s, peer)
    if s.key is None or s.model is None or s.away.pop(peer, None) != s.key:
        return effects
    word = s.early.get(peer)
    if word is not None and key_of(word) == s.key and s.averaging is not None and s.phase in OPEN:
        del s.early[peer]
        effects += s.averaging.receive(word)
    started = s.not_started.pop(peer, None) != s.key
    if s.key.initiator == s.my_id and (s.phase is Phase.TRAINING or (s.phase is Phase.GATHERING and not started)):
        effects.append(start_message(s, (peer,)))
    if s.own is not None and s.own.key == s.key and s.sent is not None:
        effects.append(Send((peer,), own_word(s, s.own), s.sent))
    elif s.averaging is not None and s.my_id in s.averaging.declined:
        why = s.averaging.declined[s.my_id]
        said = {"declined": why[:500], "choice": s.choice, "late": s.my_id in s.averaging.late or None}
        effects.append(Send((peer,), s.say(ModelParams, examples=0, **said)))
    return effects


def _gather(s: JobState, event: Restored, phase: Phase) -> list[Effect]:
    """Updates still count: take up those that were kept, then say the own word, or get ready to say it."""
    assert s.key is not None
    said, expected = event.snapshot, {PeerId(peer) for peer in event.snapshot.get("expected", ())} - {s.my_id}
    s.averaging = s.gather(s.key, expected)
    s.away = dict.fromkeys(expected | listeners(s), s.key)
    s.phase = Phase.GATHERING
    effects: list[Effect] = []
    declined: Mapping[str, str] = said.get("declined", {})
    refusals = {
        peer: DeclineReceived(PeerId(peer), s.key, why, late=peer in said.get("late", ()))
        for peer, why in sorted(declined.items())
    }
    mine = refusals.pop(s.my_id, None)
    s.away |= dict.fromkeys(map(PeerId, refusals), s.key)  # they average what others learn
    for refusal in refusals.values():
        effects += s.averaging.receive(refusal)
    for word in event.updates:
        effects += _word(s, word)
    if s.own is not None:
        return [*effects, *s.averaging.receive(UpdateReceived(s.own))]
    if s.averaging.sits_out:
        return [*effects, *rest(s)]
    if mine is not None:
        again = trains_again(s, said.get("trains_on")) if mine.late else []
        return [*effects, *s.averaging.receive(mine), *again]
    if phase is Phase.TRAINING and not s.paused:
        return [*effects, *train(s)]
    return [*effects, *decline(s, "it was restarted before the start of this round had come")]


def _word(s: JobState, word: UpdateReceived | UpdateOffered) -> list[Effect]:
    """An update that was answered 200 before the restart."""
    assert s.model is not None and s.averaging is not None and s.key is not None
    key, peer = word.update.key, word.update.peer
    if isinstance(word, UpdateReceived):
        try:
            params = s.model.schema.conform(word.update.params)
        except ParamsRefused:
            return []
        word = replace(word, update=replace(word.update, params=params))
    if key == s.key and isinstance(word, UpdateReceived):
        return s.averaging.receive(word)
    if key == s.key:  # its parameters are fetched again when the peer is reachable
        s.averaging.expected.add(peer)
        s.away[peer] = key
        s.early[peer] = word
    elif key.beats(s.key):
        s.remember_early(peer, word)
        s.propose(Opening(key, heard_start=False, choice=word.choice, run=word.run))
    return []


def _own(s: JobState, said: Mapping[str, Any] | None, sent: Params | None) -> Update | None:
    assert s.key is not None and s.model is not None
    if said is None or sent is None or (said["round"], said["initiator"]) != (s.key.number, s.key.initiator):
        return None
    return own_update(s, said, sent)


def own_update(s: JobState, said: Mapping[str, Any], sent: Params) -> Update | None:
    """The own update that was saved with these figures; None if it does not fit the model any more."""
    assert s.model is not None
    try:
        params = s.model.schema.conform(sent)
    except ParamsRefused:
        return None
    key, stated = RoundKey(said["round"], PeerId(said["initiator"])), said.get("contribution")
    own = Contribution.read(stated, s.trainer, key.number, key.initiator) if stated else None
    figures = (said["examples"], said["labels"], said["accuracy"], said.get("base"), said.get("staleness", 0))
    return Update(s.my_id, key, params, *figures, contribution=own)
