"""The steps by which a node makes a version of its own, without common rounds (`flnet.rounds.versions`).

It asks all peers for their versions, fetches those that it has not merged yet, merges them with its own model by
examples, trains, and tells the new version. Who does not answer is left out until the next time. The model held
stays the newest version until the training is done, and what was merged counts from then on: so a wake that is cut
short has changed nothing, and is begun anew after a restart.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from flnet.effects import Answer, CancelTimer, Effect, SetTimer, Train
from flnet.errors import JobBusy, ParamsRefused
from flnet.events import (
    Averaged,
    AveragingFailed,
    DeclineReceived,
    RoundTriggered,
    SumSpoilt,
    TimerFired,
    Trained,
    TrainingFailed,
    UpdateOffered,
    UpdateReceived,
    Version,
)
from flnet.jobs.arriving import Arrived
from flnet.jobs.closing import refusals
from flnet.jobs.goal_steps import begun, judged, reported
from flnet.jobs.record import RoundRecord, contributions_of, names
from flnet.jobs.state import PAUSED, JobState
from flnet.jobs.steps import Phase
from flnet.jobs.telling import heard, own_version, tell
from flnet.jobs.wake import Wake
from flnet.messages import LAST_ROUND, Triggered
from flnet.params import PeerId, RoundKey, Update
from flnet.rounds import common_start


def triggered(s: JobState, event: RoundTriggered) -> list[Effect]:
    """A person, or a schedule, asks for versions.

    Raises:
        JobBusy: not now.
        InvalidMessage: the goal is none.
    """
    if s.phase is Phase.LOADING:
        raise JobBusy(f"{s.trainer} is still loading its data")
    if s.phase is Phase.NO_DATA:
        raise JobBusy(f"{s.trainer} cannot train: {s.error}")
    if s.paused:
        raise JobBusy(f"{s.trainer} is {PAUSED}; resume it to start rounds")
    if s.phase is not Phase.IDLE:
        raise JobBusy(f"version {s.number} is still {s.phase.lower()} here; ask again when it is done")
    if s.number >= LAST_ROUND:
        raise JobBusy(f"version {s.number} is the last one that can be numbered")
    goal = begun(s, event.until, next_number(s), event.rounds) if event.until is not None else []
    s.hyper = event.hyper or s.hyper
    s.rounds_left = 0 if goal else event.rounds - 1
    words = f"the schedule starts version {next_number(s)}: {event.why}"
    told = [s.tell("round_scheduled", words, reason=event.why)] if event.why else []
    begins = wake(s, event.why)
    return [Answer(Triggered(trainer_id=s.trainer, round=s.number)), *goal, *told, *begins]


def next_number(s: JobState) -> int:
    """Of the version that this node makes next; the first one is 1."""
    return max(s.number, 0) + 1


def wake(s: JobState, why: str = "", again: bool = False) -> list[Effect]:
    """Begin a version: ask the peers for theirs.

    Args:
        why: a schedule wants it, in words.
        again: the version that was under way before a restart.
    """
    if not again:
        s.key = RoundKey(next_number(s), s.my_id)
    assert s.key is not None
    s.record, s.error, s.averaging = RoundRecord(s.key, why=why), None, None
    s.phase, s.wake = Phase.FETCHING, Wake(set(s.peers))
    s.pursuit.reports, s.pursuit.due = {}, False
    words = f"version {s.number} of {s.trainer} begins, peers asked for newer models: {len(s.peers)}"
    told = s.tell("round_opened", words, initiator=s.my_id)
    if not s.peers:
        return [*_fetch(s), s.save(), told]
    return [*tell(s, s.peers), SetTimer(_timer(s), s.waits.start), s.save(), told]


def answered(s: JobState, peer: PeerId, version: Version | None, *, is_last: bool = True) -> list[Effect]:
    """A peer told its version, or cannot be asked (None); before the last answer, it may be to earlier news."""
    effects = [] if version is None else heard(s, version)
    if s.wake is None or peer not in s.wake.asked:
        return effects
    if version is not None:
        s.wake.told.setdefault(peer, version)
    if not is_last:
        return effects
    s.wake.asked.discard(peer)
    return effects if s.wake.asked else [*effects, *_fetch(s)]


def unanswered(s: JobState, peer: PeerId) -> list[Effect]:
    """A message to a peer did not get through, or was refused.

    If another one is still under way, that decides: this one may have been the news of an older version.
    """
    return answered(s, peer, None) if s.versions.ended(peer) else []


def timer_fired(s: JobState, event: TimerFired) -> list[Effect]:
    """Who has not answered by now is left out, or the models that are not here by now are."""
    if s.wake is None or s.phase not in (Phase.FETCHING, Phase.AVERAGING):
        return []
    if s.averaging is not None:
        return s.averaging.receive(event)
    if s.wake.asked and event.name == _timer(s):
        left_out = sorted(s.wake.asked)
        s.wake.asked.clear()
        assert s.record is not None
        s.record.missing = tuple(left_out)
        return [*_fetch(s), s.tell("peers_left_out", f"{names(left_out)} did not say a version in time")]
    return []


def settled(s: JobState) -> list[Effect]:
    """All models that could be fetched are here: they are being merged, or there is nothing to merge."""
    assert s.averaging is not None and s.wake is not None
    missing = s.averaging.missing
    if s.record is not None:
        s.record.missing = tuple(sorted({*s.record.missing, *missing, *s.averaging.declined} - {s.my_id}))
    if not s.averaging.updates:
        return _train(s)
    s.phase = Phase.AVERAGING
    return []


def averaged(s: JobState, event: Averaged | AveragingFailed) -> list[Effect]:
    """The models are merged: train from what came of it; from the own one if that failed."""
    if s.phase is not Phase.AVERAGING or event.key != s.key:
        return []
    assert s.wake is not None and s.averaging is not None and s.record is not None
    if isinstance(event, AveragingFailed):
        s.record.error = f"merging failed: {event.reason}"
        return [*_train(s), s.tell("merging_failed", f"{s.record.error}; this node trains on from its own model")]
    counted = sorted(s.averaging.updates.keys() - event.refused.keys())
    s.record.contributions = contributions_of(s.averaging, counted)
    s.averaging.let_go()
    told = refusals(s, event)
    s.remembered = event.remembered
    s.wake.merged = event.params
    s.wake.counted = tuple(peer for peer in counted if peer in s.wake.fetched and s.wake.fetched[peer].number > 0)
    s.record.seconds["average"] = event.seconds
    merged = s.tell("merged", f"merged {_merged_words(s)}", contributors=counted, version=s.number)
    return [*_train(s), *told, merged]


def spoilt(s: JobState, event: SumSpoilt) -> list[Effect]:
    """Models that do not count were folded into the sum already: it is made again of all others."""
    if s.phase is not Phase.AVERAGING or event.key != s.key:
        return []
    assert s.averaging is not None and s.averaging.again is None and s.model is not None
    return s.averaging.fold_again(event.refused.keys(), s.model.shared)


def trained(s: JobState, event: Trained) -> list[Effect]:
    """Training is done: the new version is the model held, is saved, and is told to all."""
    if s.phase is not Phase.TRAINING or event.key != s.key:
        return []
    assert s.model is not None and s.wake is not None and s.record is not None
    try:
        shared = s.model.schema.conform(event.shared or event.params.select(s.model.schema.specs))
    except ParamsRefused as exc:
        return failed(s, TrainingFailed(event.key, f"training gave unusable parameters: {exc}"))
    private = event.params.select(event.params.keys() - s.model.schema.specs.keys())
    base = s.training_from
    counted, words = s.wake.counted, _merged_words(s)
    s.versions.merge({peer: s.wake.fetched[peer] for peer in counted}, s.number, event.at)
    s.versions.base = base
    said = (event.examples, event.labels, event.accuracy, base.digest)
    s.sent = shared
    s.own = Update(s.my_id, event.key, shared, *said, contribution=event.contribution)
    s.model = s.model.holding(shared, s.number, len(counted) + 1).with_private(private)
    _note(s, event, words)
    s.accuracy, s.rolled_back = event.accuracy, False
    reported(s, event.accuracy, event.metrics)
    return [*finish(s), *tell(s, s.peers)]


def failed(s: JobState, event: TrainingFailed) -> list[Effect]:
    """Training gave nothing: the version before stays the newest one."""
    if s.phase is not Phase.TRAINING or event.key != s.key:
        return []
    assert s.record is not None
    s.error = s.record.error = f"training failed in version {s.number}: {event.reason}"
    s.record.outcome = f"{s.error}; the model stays as it was"
    return [*finish(s), s.tell("training_failed", s.error)]


def finish(s: JobState) -> list[Effect]:
    """The wake is over."""
    assert s.record is not None
    s.phase, s.wake = Phase.IDLE, None
    before = s.pursuit.decision
    told = judged(s)
    if s.pursuit.decision is not None and s.pursuit.decision is not before:
        s.record.decision = s.pursuit.decision.view()
    s.remember(s.record)
    shown = {name: value for name, value in s.record.view().items() if name != "contributions"}
    words, accuracy = s.record.outcome, s.record.post_accuracy
    if accuracy is not None:
        words = f"{words}; accuracy here {accuracy:.4f}"
    done = s.tell("round_closed", words, **shown)
    s.record = None
    return [s.save(), done, *told]


def next_of_series(s: JobState) -> list[Effect]:
    """Begin the next of the versions that this node was asked for."""
    if s.number >= LAST_ROUND:
        s.rounds_left = 0
        return []
    s.rounds_left = max(0, s.rounds_left - 1)
    return wake(s)


def _fetch(s: JobState) -> list[Effect]:
    """All have answered, or will not: get what is newer than what was merged before."""
    assert s.wake is not None and s.model is not None and s.key is not None
    mine, told = own_version(s), s.wake.told
    newer = s.versions.newer(told)
    if mine.mark.number == 0 and not newer and (start := common_start(mine.mark.digest, told.values())):
        newer = [replace(start, update=replace(start.update, examples=1))]
    cancelled: list[Effect] = [CancelTimer(_timer(s))]
    if not newer:
        return [*cancelled, *_train(s)]
    s.wake.fetched = {version.peer: version.mark for version in newer}
    s.averaging = s.gather(s.key, s.wake.fetched)
    effects = [*cancelled, *s.averaging.receive(_own_part(s, mine))]
    for version in newer:
        update = replace(version.update, key=s.key)
        effects += s.averaging.receive(UpdateOffered(update, version.mark.digest))
    words = f"fetching the models {_versions(s, s.wake.fetched)}"
    return [*effects, s.tell("fetching", words, peers=sorted(s.wake.fetched))]


def _own_part(s: JobState, mine: Version) -> UpdateReceived | DeclineReceived:
    """What goes into the merge of this node's own: nothing if it has learnt nothing yet."""
    assert s.model is not None and s.key is not None
    if mine.mark.number == 0:
        return DeclineReceived(s.my_id, s.key, "it has not trained yet")
    return UpdateReceived(replace(mine.update, key=s.key, params=s.model.shared))


def _train(s: JobState) -> list[Effect]:
    assert s.model is not None and s.key is not None and s.hyper is not None
    s.phase, s.arrived = Phase.TRAINING, Arrived()
    return [Train(s.key, s.training_from.merged_with(s.model.private), s.hyper)]


def _note(s: JobState, event: Trained, words: str) -> None:
    """Put into the record what came of this wake."""
    record, used = s.record, event.hyper or s.hyper
    assert record is not None and s.wake is not None and s.model is not None
    record.pre_accuracy, record.post_accuracy = s.accuracy, event.accuracy
    record.examples, record.digest = event.examples, s.model.shared.digest
    record.contributors = tuple(sorted({*s.wake.counted, s.my_id}))
    record.seconds["train"], record.metrics["after"] = event.seconds, event.metrics
    record.used_hyper = used.fields() if used else None
    made = f"merged {words}, trained, now v{s.number}"
    record.outcome = made + record.outcome.removeprefix("open")  # who was refused


def _merged_words(s: JobState) -> str:
    """Whose versions were merged, for people."""
    assert s.wake is not None
    first = next((peer for peer, mark in s.wake.fetched.items() if mark.number == 0), None)
    if first is not None and s.wake.merged is not None:
        return f"nothing, but took the first model of {first}, with which all begin"
    if s.wake.counted:
        return _versions(s, s.wake.counted)
    if s.wake.fetched:
        return "nothing, for no newer model could be fetched"
    return "nothing, for nobody had a newer model"


def _versions(s: JobState, peers: Iterable[PeerId]) -> str:
    assert s.wake is not None
    said = [f"{peer} v{s.wake.fetched[peer].number}" for peer in sorted(peers)]
    shown = said[:5] + ([f"{len(said) - 5} more"] if len(said) > 5 else [])
    return " and ".join([", ".join(shown[:-1]), shown[-1]]) if len(shown) > 1 else "".join(shown)


def _timer(s: JobState) -> str:
    return f"versions:{s.number}"
