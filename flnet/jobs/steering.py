"""What a person says between rounds: end a series, stay out of rounds, take part again, go back to an older model.

None of it touches the round that is open: what peers wait for, they get.
"""

from __future__ import annotations

from collections.abc import Collection

from flnet.effects import Effect, Evaluate
from flnet.errors import InvalidMessage, JobBusy, NotReady
from flnet.events import Evaluated, EvaluationFailed, HyperParamsEdited, RolledBack
from flnet.jobs.state import JobState
from flnet.jobs.steps import Phase
from flnet.params import PeerId, Schema

NEXT = "the next round starts from it everywhere if it is started here, and from theirs if others start it"


def edited(s: JobState, event: HyperParamsEdited) -> list[Effect]:
    """Train with other hyper-parameters in the rounds that start here.

    Raises:
        NotReady: there are none to change.
        JobBusy: a round is open, whose updates are merged by the rule that was.
        InvalidMessage: the merging rule cannot be changed to this one while the node runs.
    """
    if s.hyper is None:
        raise NotReady(f"{s.trainer} has no hyper-parameters to change yet: {s.error or 'it is still loading'}")
    told = _merged_by(s, event) if event.merging else []
    if event.changes:
        s.hyper = s.hyper.model_copy(update=dict(event.changes))
        told.append(s.tell("params_edited", f"hyper-parameters are now {s.hyper.words()}"))
    return [s.save(), *told]


def _merged_by(s: JobState, event: HyperParamsEdited) -> list[Effect]:
    """Merge by another rule from the next round on; what the one before remembered means nothing to it."""
    before = s.rules.merging
    if s.declaration is not None and s.declaration.merging:
        raise InvalidMessage(f"the trainer of {s.trainer} needs the merging rule {s.declaration.merging}")
    if any(_corrects_training(rule) for rule in (before, event.merging)):
        raise InvalidMessage("scaffold changes local training too: set FLNET_AGGREGATION and start the node again")
    if s.phase is not Phase.IDLE or s.pending is not None or s.rounds_left or s.pursuit.series is not None:
        raise JobBusy(f"{s.trainer} is in a round or a series; the merging rule is changed between them")
    s.rules, s.folds = s.rules.merged_by(event.merging), event.folds
    words = f"updates are merged by {event.merging} from now on, before by {before}; all nodes need the same rule"
    return [s.tell("merging_rule_set", words, rule=event.merging, before=before)]


def _corrects_training(rule: str) -> bool:
    return rule.rpartition(",")[2].partition(":")[0] == "scaffold"


def series_stopped(s: JobState) -> list[Effect]:
    """The round that is open is the last one that this node was asked for."""
    left = s.rounds_left + _withdraw(s)
    s.rounds_left = 0
    if not left:
        return []
    words = f"no further round is started here: {left} of those asked for {'is' if left == 1 else 'are'} left out"
    return [s.tell("series_stopped", words, left_out=left)]


def paused(s: JobState) -> list[Effect]:
    """Sit out the rounds of peers and start none; those that were asked for here stay until this node goes on."""
    if s.paused:
        return []
    s.paused = True
    s.rounds_left += _withdraw(s)
    return [s.save(), s.tell("paused", f"{s.trainer} takes no part in rounds here until a person resumes it")]


def resumed(s: JobState) -> list[Effect]:
    """Take part again; a series that a pause held up goes on."""
    if not s.paused:
        return []
    s.paused = False
    return [s.save(), s.tell("resumed", f"{s.trainer} takes part in rounds again")]


def rolled_back(s: JobState, event: RolledBack) -> list[Effect]:
    """Go on from a model that this node held before; the next round that is started here begins with it.

    It counts as a model of the round that this node has reached (see `flnet.jobs.model`), is saved, and is
    measured again.

    Raises:
        JobBusy: not between rounds, or that model is held anyway.
        ParamsRefused: it is of another shape than the trainer's models are now.
    """
    if s.phase is not Phase.IDLE or s.model is None:
        raise JobBusy(_why_no_way_back(s))
    shared = s.model.schema.conform(event.shared)
    private = Schema.of(s.model.private).conform(event.private)
    if shared.digest == s.model.shared.digest:
        raise JobBusy(f"{s.trainer} goes on from the model {shared.digest[:10]} already")
    held = s.model.holding(shared, event.round, event.contributors, restored_at=s.number)
    s.model, s.accuracy = held.with_private(private), event.accuracy
    s.rolled_back, s.rival = True, None
    measure = [Evaluate(s.key, s.model.full, s.model.shared)] if s.key else []
    words = f"a person went back to the model {shared.digest[:10]} of round {event.round}; {NEXT}"
    told = s.tell("rolled_back", words, digest=shared.digest, model_round=event.round)
    return [s.save(with_params=True, private=private), *measure, told]


def measured_again(s: JobState, event: Evaluated | EvaluationFailed) -> list[Effect]:
    """The model that a person went back to was measured; what comes of other models between rounds is late."""
    if not s.rolled_back or s.model is None or event.digest != s.model.shared.digest:
        return []
    if isinstance(event, EvaluationFailed):
        return [s.tell("measuring_failed", f"the model gone back to could not be measured: {event.reason}")]
    s.accuracy = event.accuracy
    words = f"accuracy of the model gone back to {event.accuracy:.4f}"
    return [s.save(), s.tell("measured", words, accuracy=event.accuracy)]


def roll_back_ended(s: JobState, contributors: Collection[PeerId]) -> list[Effect]:
    """A new average takes the place of the model gone back to; people are told where it did not come of it."""
    gone, s.rolled_back = s.rolled_back, False
    if not gone or s.my_id in contributors or s.model is None:
        return []
    left = s.model.shared.digest
    words = f"going back to the model {left[:10]} ends here: others made an average without it"
    return [s.tell("roll_back_ended", words, digest=left)]


def _why_no_way_back(s: JobState) -> str:
    if s.phase is Phase.LOADING:
        return f"{s.trainer} is still loading its data"
    if s.phase is Phase.NO_DATA or s.model is None:
        return f"{s.trainer} has no model to go on from: {s.error}"
    return f"round {s.number} is still {s.phase.lower()} here; go back to another model when it is over"


def _withdraw(s: JobState) -> int:
    """Take back a round of our own that only waits for the average in progress; how many that were."""
    if s.pending is None or not s.pending.started_by(s.my_id):
        return 0
    s.pending = None
    return 1
