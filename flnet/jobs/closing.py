"""The steps after the updates are in: the average, its measure, the exchange, and the end of the round."""

from __future__ import annotations

from dataclasses import replace

from flnet.effects import Answer, Effect, Evaluate, Fetch, Publish, Send
from flnet.errors import JobBusy, NoData, NotComparable, ParamsRefused
from flnet.events import (
    Averaged,
    AveragingFailed,
    ClaimAnswered,
    ClaimReceived,
    Evaluated,
    EvaluationFailed,
    Event,
    SumSpoilt,
    UpdateOffered,
    UpdateReceived,
)
from flnet.jobs.agreement import must_agree
from flnet.jobs.arriving import arrivals_measured
from flnet.jobs.goal_steps import heard, judged, reported
from flnet.jobs.opening import Opening
from flnet.jobs.record import closing_words, contributions_of, names
from flnet.jobs.starting import abandon
from flnet.jobs.state import JobState
from flnet.jobs.steering import measured_again, roll_back_ended
from flnet.jobs.steps import Phase
from flnet.jobs.weights import words_of
from flnet.messages import LAST_ROUND, Accuracy, AccuracyReply
from flnet.params import Claim
from flnet.rounds import Exchange


def closed(s: JobState) -> list[Effect]:
    """Gathering is over: the average is on its way, or there is nothing to average."""
    assert s.averaging is not None and s.record is not None
    s.record.outcome = closing_words(s.averaging, len(s.choice.members) if s.choice else 0)
    s.record.chosen = None if s.chosen is None else tuple(sorted(s.chosen))
    s.record.missing = tuple(s.averaging.missing)
    for peer in s.averaging.missing:
        s.paces.missed(peer)
    if not s.averaging.updates:
        return finish(s)
    s.phase = Phase.AVERAGING
    return []


def averaged(s: JobState, event: Averaged | AveragingFailed) -> list[Effect]:
    """The average is there: it is the model from now on, and is measured unless the next round waits."""
    if s.phase is not Phase.AVERAGING or event.key != s.key:
        return []
    assert s.model is not None and s.averaging is not None and s.record is not None
    _catch_up_with_early(s)
    if isinstance(event, AveragingFailed):
        s.error = s.record.error = f"averaging failed: {event.reason}"
        s.record.outcome = f"{s.error}; the model stays as it was"
        return finish(s)
    contributors = tuple(sorted(s.averaging.updates.keys() - event.refused.keys()))
    s.record.contributions = contributions_of(s.averaging, contributors)
    s.averaging.let_go()
    ended = roll_back_ended(s, contributors)
    told = refusals(s, event)
    s.remembered = event.remembered
    # Of two averages that of the most contributors counts: one that others need not have made counts for none.
    s.model = s.model.holding(event.params, s.number, len(contributors) if event.is_common else 0)
    s.record.contributors, s.record.digest = contributors, event.params.digest
    s.record.seconds["average"] = event.seconds
    told.append(s.tell("averaged", s.record.outcome, digest=event.params.digest, contributors=list(contributors)))
    if s.behind is not None and s.pending is None:  # measuring would wait for the training
        return [s.save(with_params=True), *told, *ended, *finish(s)]
    s.phase = Phase.MEASURING
    return [s.save(with_params=True), *([] if s.pending else [measure(s)]), *told, *ended]


def measure(s: JobState) -> Evaluate:
    """Measure the average that is held; private parameters that learn on from each average do so first.

    A wait for the peers' claims begins when this is done, and so does theirs: nobody hurries it.
    """
    assert s.model is not None and s.key is not None and s.declaration is not None
    return Evaluate(s.key, s.model.full, s.model.shared, s.hyper if s.declaration.personalises else None)


def spoilt(s: JobState, event: SumSpoilt) -> list[Effect]:
    """Updates that do not count were folded into the sum already: it is made again of all others."""
    if s.phase is not Phase.AVERAGING or event.key != s.key:
        return []
    assert s.averaging is not None and s.averaging.again is None
    found = names(sorted(event.refused))
    words = f"the sum of this round holds what does not count, of {found}; the other updates are fetched again"
    own = s.own.params if s.own is not None and s.own.key == s.key else None
    return [*s.averaging.fold_again(event.refused.keys(), own), s.tell("update_refused", words)]


def refusals(s: JobState, event: Averaged) -> list[Effect]:
    """What people read of updates that did not count, here and in the record of the round."""
    assert s.record is not None and s.averaging is not None
    s.record.weighed = {peer: one.view() for peer, one in sorted(event.weighed.items())}
    if s.averaging.again is not None and s.averaging.again.lost:
        s.record.outcome += f"; not fetched again: {names(sorted(s.averaging.again.lost))}"
    if event.refused:
        s.record.outcome += f"; left out: {names(sorted(event.refused))}"
    return [
        s.tell("update_refused", f"the update of {peer} does not count: {why}", peer=peer)
        for peer, why in sorted(event.refused.items())
    ] + weights_turned(s)


def weights_turned(s: JobState) -> list[Effect]:
    """What people read of peers whose updates count little from this average on, or do no longer."""
    assert s.record is not None
    told: list[Effect] = []
    for peer, now in s.weights.take(s.record):
        kind = "weight_collapsed" if now.is_little else "weight_recovered"
        said = {"peer": peer, "since": now.since, "weight": now.weight, "fair": now.fair}
        told.append(s.tell(kind, words_of(peer, now), **said))
    return told


def evaluated(s: JobState, event: Evaluated | EvaluationFailed) -> list[Effect]:
    """A model was measured: our average, whose accuracy opens the exchange, or a peer's."""
    if event.key != s.key:
        return []
    if s.phase is Phase.EXCHANGING:
        return exchanged(s, event)
    if s.phase is Phase.IDLE:
        return [*measured_again(s, event), *arrivals_measured(s, event)]
    if s.phase is not Phase.MEASURING or s.model is None or event.digest != s.model.shared.digest:
        return []
    assert s.record is not None and s.declaration is not None
    if isinstance(event, EvaluationFailed):
        s.error = s.record.error = f"the average could not be measured: {event.reason}"
        return [*finish(s), s.tell("measuring_failed", s.error)]
    s.accuracy = s.record.post_accuracy = event.accuracy
    s.record.metrics["after"] = event.metrics
    learnt: list[Effect] = []
    if event.private is not None:
        s.model = s.model.with_private(s.model.private.merged_with(event.private), is_personal=True)
        learnt = [s.save(private=s.model.private)]
    reported(s, event.accuracy, event.metrics)
    s.phase = Phase.EXCHANGING
    s.exchange = Exchange(
        event.key,
        s.peers - (s.averaging.late if s.averaging else set()),
        digest=event.digest,
        accuracy=event.accuracy,
        private=s.model.private,
        threshold=s.declaration.exchange_threshold,
        patience=s.waits.claims,
        is_apart=s.model.contributors == 0,
    )
    said = {"accuracy": event.accuracy, "digest": event.digest, "contributors": s.model.contributors}
    message = s.say(Accuracy, **said, report=s.pursuit.report_said(s.my_id))
    send: list[Effect] = [Send(tuple(sorted(s.peers)), message, s.model.shared)] if s.peers else []
    told = s.tell("measured", f"accuracy after averaging {event.accuracy:.4f}", accuracy=event.accuracy)
    return [*learnt, *s.exchange.start(), *send, told]


def claim_received(s: JobState, event: ClaimReceived) -> list[Effect]:
    """A peer compares: answer with what we hold, or say why that is not possible.

    Raises:
        NotComparable: busy, in another round, or not averaged yet.
        ParamsRefused: its parameters do not fit, or it trains something else.
        JobBusy: a person went back to another model here.
    """
    if s.phase is Phase.NO_DATA:
        raise NoData(s.trainer, s.error or "no data")
    must_agree(s, event.agreement)
    if s.rolled_back and s.phase is Phase.IDLE:
        raise JobBusy("a person here went back to another model; there is nothing to compare until the next round")
    claim = _conformed(s, event.claim) if s.model else event.claim
    if claim.round != s.number:
        raise NotComparable(f"round {claim.round} is compared, but this node is in round {s.number}")
    if s.phase not in (Phase.EXCHANGING, Phase.IDLE) or s.accuracy is None or s.model is None:
        raise NotComparable(f"round {s.number} is not averaged and measured here yet ({s.phase.lower()})")
    heard(s, claim)
    reply = AccuracyReply(
        i_am=s.me,
        accuracy=s.accuracy,
        digest=s.model.shared.digest,
        contributors=s.model.contributors,
        report=s.pursuit.report_said(s.my_id, asked=claim.report is not None),
    )
    # A caller that sent its model speaks the thesis' form and wants ours; others fetch it by the digest.
    answer = Answer(reply, s.model.shared if event.claim.params is not None else None)
    return [answer, *exchanged(s, ClaimReceived(claim))]


def claim_answered(s: JobState, event: ClaimAnswered) -> list[Effect]:
    """A peer answered with its own accuracy and model; what does not fit is left out of the comparison."""
    if s.phase is not Phase.EXCHANGING or event.claim.round != s.number:
        return []
    heard(s, event.claim)
    try:
        claim = _conformed(s, event.claim)
    except ParamsRefused as exc:
        claim = replace(event.claim, params=None, digest=None)
        told = s.tell("refused", f"the model of {claim.peer} was not considered: {exc}", peer=claim.peer)
        return [*exchanged(s, ClaimAnswered(claim)), told]
    return exchanged(s, ClaimAnswered(claim))


def exchanged(s: JobState, event: Event) -> list[Effect]:
    """Pass an event to the exchange; a model that it adopts is ours at once."""
    seen = _remember_rival(s, event.claim) if isinstance(event, ClaimReceived | ClaimAnswered) else []
    if s.phase is not Phase.EXCHANGING or s.exchange is None or s.model is None or s.record is None:
        return seen
    before = s.exchange.adopted
    effects = [*seen, *s.exchange.receive(event)]
    winner = s.exchange.adopted
    if winner is None or winner is before or winner.params is None:
        return effects
    words = f"adopted the model of {winner.peer}: {s.exchange.accuracy:.4f} here, against {s.accuracy:.4f}"
    if s.model.contributors == 0:
        words = f"adopted the model of {winner.peer}: most nodes began this round with another model than this one"
    s.model = s.model.holding(winner.params, s.number, winner.contributors)
    s.accuracy = s.exchange.accuracy
    s.record.exchanged_with = winner.peer
    return [*effects, s.save(with_params=True), s.tell("exchanged", words, peer=winner.peer)]


def finish(s: JobState) -> list[Effect]:
    """The round is over here."""
    record = s.record
    assert record is not None
    cancelled = abandon(s, "closed")
    s.phase, s.exchange = Phase.IDLE, None
    result = f"round {s.number} closed: {record.outcome}"
    if record.pre_accuracy is not None and s.accuracy is not None:
        result += f"; accuracy here {record.pre_accuracy:.4f} before, {s.accuracy:.4f} after"
    before = s.pursuit.decision
    told = judged(s)
    if s.pursuit.decision is not None and s.pursuit.decision is not before:
        record.decision = s.pursuit.decision.view()
    shown = {name: value for name, value in record.view().items() if name not in ("contributions", "weighed")}
    done: Publish = s.tell("round_closed", result, **shown)
    return [*cancelled, s.save(), done, *told]


def next_of_series(s: JobState) -> None:
    """Open the next of the rounds that this node was asked for."""
    if s.number >= LAST_ROUND:
        s.rounds_left = 0
        return
    s.rounds_left -= 1
    s.propose(Opening(s.next_key, s.hyper))


def _catch_up_with_early(s: JobState) -> None:
    """Updates of a newer round that came while averaging tell that the mesh is ahead."""
    early = [event for event in s.early.values() if isinstance(event, UpdateReceived | UpdateOffered)]
    for event in early:
        key = event.update.key
        if s.key is not None and key.beats(s.key) and key.number > s.number:
            s.propose(Opening(key, heard_start=False, choice=event.choice, run=event.run))


def _remember_rival(s: JobState, claim: Claim) -> list[Effect]:
    """Keep the best average that differs from ours, so that a mesh that split starts the next round from one;
    fetch it at once if it comes before ours, or the next round would wait for it.
    """
    if s.model is None or s.key is None or claim.digest is None or claim.digest == s.model.shared.digest:
        return []
    best = s.rival
    if best is not None and (best.digest == claim.digest or _ranks(best) <= _ranks(claim)):
        return []
    wanted = claim.params is None and s.model.yields_to(claim.round, claim.contributors, claim.digest)
    if claim.params is None and not wanted:
        return []
    s.rival = claim
    return [Fetch(s.key, claim.peer, claim.digest)] if wanted else []


def _ranks(claim: Claim) -> tuple[int, str]:
    return (-claim.contributors, claim.digest or "")


def _conformed(s: JobState, claim: Claim) -> Claim:
    if claim.params is None or s.model is None:
        return claim
    params = s.model.schema.conform(claim.params)
    return replace(claim, params=params, digest=params.digest)
