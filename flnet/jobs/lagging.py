"""Bounded staleness: a node that is much slower trains on while rounds go by; its update counts in a later one.

Nobody waits for such a node, until its training is as many rounds old as people allow: that round waits for it. A
late update counts for less (`flnet.strategies.counting.lateness`), the same on every node, because it says itself
how late it is. So slow nodes are neither waited for in every round, nor left out for ever.
"""

from __future__ import annotations

from dataclasses import replace

from flnet.effects import CancelWork, Effect, Train
from flnet.errors import ParamsRefused
from flnet.events import DeclineReceived, Trained, TrainingFailed, UpdateReceived
from flnet.jobs.speaking import decline, own_word
from flnet.jobs.state import Behind, JobState, Late, Word
from flnet.jobs.steps import Phase
from flnet.params import Params, Update

LATE = "its training goes on over this round, and counts when it is done"  # what peers read


def left_behind(s: JobState) -> list[Effect]:
    """A newer round begins while this node trains: the training goes on, or stops where no update may be late."""
    assert s.key is not None and s.model is not None
    if not s.rules.staleness:
        return [CancelWork(s.key)]
    s.behind = s.behind or Behind(s.key, s.model.shared.digest)
    return []


def outdated(s: JobState) -> list[Effect]:
    """Give up what would come too late for the round just entered."""
    if s.late is not None and _age(s, s.late.update.key.number) > s.rules.staleness:
        s.late = None
    if s.behind is None or _age(s, s.behind.key.number) <= s.rules.staleness:
        return []
    stopped = CancelWork(s.behind.key)
    s.behind = None
    return [stopped]


def lags(s: JobState) -> list[Effect] | None:
    """What a node says of the round just entered that is behind, or would be; None for all others."""
    assert s.averaging is not None
    others = set(s.averaging.missing) - {s.my_id}
    if s.late is not None and others and _age(s, s.late.update.key.number) > 0:
        late, s.late = s.late, None
        return [*_speak(s, late), *_train_on(s)]
    if s.behind is not None:
        if not others or _age(s, s.behind.key.number) >= s.rules.staleness:
            return []  # all wait for it
        return decline(s, LATE, late=True)
    if s.rules.staleness and s.base is None and others and s.paces.is_slow(s.my_id, s.peers):
        return [*decline(s, LATE, late=True), *_train_on(s)]
    return None


def trains_again(s: JobState, base: str | None) -> list[Effect]:
    """After a restart in a round in which this node said that its training goes on: it begins anew.

    Args:
        base: of the model that it had begun with; None where it did not train.
    """
    assert s.model is not None
    is_new = s.model.shared.digest == base or s.model.round == s.number - 1
    return _train_on(s) if base is not None and is_new and not s.paused else []


def take_back(s: JobState) -> None:
    """Another start of the open round counts: a late update that was said in this one is said again in that."""
    own, record = s.own, s.record
    if own is None or own.key != s.key or not own.staleness or record is None:
        return
    began = replace(own, key=replace(own.key, number=s.number - own.staleness))
    figures = (own.examples or 0, record.pre_accuracy or 0.0, own.labels, record.seconds.get("train", 0.0))
    s.late = Late(began, Trained(began.key, Params(), *figures, record.metrics.get("before", {})))


def came(s: JobState, event: Trained | TrainingFailed) -> list[Effect]:
    """The training that was behind is over: its update counts in the next round, or in this one if all wait."""
    behind, s.behind = s.behind, None
    assert behind is not None and s.model is not None and s.averaging is not None
    awaited = s.phase is Phase.GATHERING and s.averaging.closed is None and s.my_id in s.averaging.missing
    late = _late(s, event, behind)
    if isinstance(late, str):
        s.error = f"training failed in round {behind.key.number}: {late}"
        said = decline(s, f"training failed: {late}") if awaited else []
        return [*said, s.tell("training_failed", s.error)]
    assert isinstance(event, Trained)
    s.model = s.model.with_private(event.params.select(event.params.keys() - s.model.schema.specs.keys()))
    if s.hyper is not None:
        s.paces.note(s.my_id, event.seconds, s.hyper.e)
    words = (
        f"trained on {event.examples} examples since round {behind.key.number}; accuracy here {event.accuracy:.4f}"
    )
    told = s.tell("trained", words)
    if awaited:
        return [*_speak(s, late), told]
    s.late = late
    return [told]


def timed(s: JobState, event: Word) -> None:
    """Note how long a peer says that it trained in the open round."""
    if not isinstance(event, DeclineReceived) and s.averaging is not None and s.hyper is not None:
        s.paces.note(event.update.peer, event.seconds, s.hyper.e)
        s.averaging.took(event.update.peer, event.seconds)


def _late(s: JobState, event: Trained | TrainingFailed, behind: Behind) -> Late | str:
    """What is to be sent, or why nothing is."""
    assert s.model is not None
    if isinstance(event, TrainingFailed):
        return event.reason
    try:
        shared = s.model.schema.conform(event.shared or event.params.select(s.model.schema.specs))
    except ParamsRefused as exc:
        return f"training gave unusable parameters: {exc}"
    said = (event.examples, event.labels, event.accuracy, behind.base)
    return Late(Update(s.my_id, event.key, shared, *said), event)


def _speak(s: JobState, late: Late) -> list[Effect]:
    assert s.key is not None and s.averaging is not None and s.record is not None
    event, age = late.event, _age(s, late.update.key.number)
    s.record.pre_accuracy, s.record.examples = event.accuracy, event.examples
    s.record.seconds["train"], s.record.metrics["before"] = event.seconds, event.metrics
    s.sent, s.own = late.update.params, replace(late.update, key=s.key, staleness=age)
    s.averaging.took(s.my_id, event.seconds)
    return [
        s.save(),
        *s.spread(own_word(s, s.own), s.sent),
        *s.averaging.receive(UpdateReceived(s.own)),
        s.tell("late_update", f"this node's update is {age} rounds late and counts for less", staleness=age),
    ]


def _train_on(s: JobState) -> list[Effect]:
    assert s.key is not None and s.model is not None and s.hyper is not None
    if s.behind is not None or s.base is not None:
        return []  # it goes on already, or would begin with another model than the round: next time
    s.behind = Behind(s.key, s.model.shared.digest)
    return [Train(s.key, s.model.full, s.hyper)]


def _age(s: JobState, number: int) -> int:
    return s.number - number
