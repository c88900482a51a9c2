"""Recovery after a restart: how a job resumes the round that was open when its node was restarted.

What this node had said is said again, and never differently. What it had not said yet is done again: a training that
was under way begins from the start, and a download of the average of others goes on. Peers that were expected are sent
this node's message as soon as they are reachable; updates that they had only offered are fetched again from them.
"""

from __future__ import annotations

from dataclasses import replace

from flnet.errors import ParamsRefused
from flnet.params.params import Digest, PeerId
from flnet.protocol.effects import Effect, SetTimer
from flnet.protocol.events import DeclineReceived, Restored, UpdateOffered, UpdateReceived
from flnet.rounds.base_round import OPEN, Parts
from flnet.rounds.catching_up import CommonAverage
from flnet.rounds.round import Round
from flnet.rounds.series import PAUSED, Opening
from flnet.rounds.steps import Phase
from flnet.rounds.voted_round import VotedRound
from flnet.text import text


def resume(parts: Parts, past: Round, saved: Restored, is_usable: bool) -> tuple[Round, list[Effect]]:
    """Resume a round, or end it if that is not possible.

    Args:
        past: the newest round of the earlier run.
        is_usable: whether the model that was saved fits the trainer.

    Returns:
        The round that is open now, or that is over.
    """
    figures, settings = saved.snapshot, parts.settings
    was = Phase(figures["phase"])
    parts.held.restore_own(saved, settings.my_id, settings.trainer, past.key)
    if was in OPEN and is_usable:
        expected = set(map(PeerId, figures.get("expected", ()))) - {settings.my_id}
        round = type(past)(parts, past.key, expected, past.choice, past.started_in, past.open_record)
        if isinstance(round, VotedRound):
            parts.peers.may_have_missed([*expected, *round.listeners], round.key)
            if why := round.vote_lost():
                return round, round.decline(why)
            saved = replace(saved, updates=())  # the others offer theirs again
        return round, _resume_open(parts, round, saved, was)
    if was is Phase.MEASURING and is_usable and parts.held.current.round == past.key.number:
        # The last messages of the earlier run need not have arrived, and peers may still wait for them.
        declined = map(PeerId, figures.get("declined", ()))  # they average what others learn
        peers = {*past.record.contributors, *past.record.missing, *declined, *past.listeners}
        parts.peers.may_have_missed(peers - {settings.my_id}, past.key)
        return past, past.measure_again()
    past.end_by_restart()
    return past, []


def _resume_open(parts: Parts, round: Round, saved: Restored, was: Phase) -> list[Effect]:
    """Resume a round that was not averaged yet."""
    figures, settings, averaging = saved.snapshot, parts.settings, round.gathering
    me = settings.my_id
    refusals = {
        peer: DeclineReceived(PeerId(peer), round.key, why, late=peer in figures.get("late", ()))
        for peer, why in sorted(figures.get("declined", {}).items())
    }
    mine = refusals.pop(me, None)
    # Those that declined average what others learn.
    peers = {*figures.get("expected", ()), *round.listeners, *refusals} - {me}
    parts.peers.may_have_missed(map(PeerId, peers), round.key)
    if was is Phase.TRAINING and round.key.initiator == me:
        silent = peers - {word.update.peer for word in saved.updates if word.update.key == round.key}
        parts.peers.may_have_missed_start(map(PeerId, silent), round.key)
    effects = [effect for refusal in refusals.values() for effect in averaging.receive(refusal)]
    for word in saved.updates:
        effects += _resume_update(parts, round, word)
    if (own := parts.held.own_of(round.key)) is not None:
        return [*effects, *averaging.receive(UpdateReceived(own))]
    if averaging.sits_out:
        return [*effects, *round.rest()]
    if mine is not None:
        again = _train_again(parts, round, figures.get("trains_on")) if mine.late else []
        return [*effects, *averaging.receive(mine), *again]
    if parts.series.paused:  # since the restart: a pause before it had declined already
        return [*effects, *round.decline(PAUSED)]
    if was is Phase.TRAINING:
        return [*effects, *_train_from_the_start(parts, round)]
    if (taking := figures.get("taking")) is not None:  # once the peers that have it are reachable again
        digest, having = Digest(taking["digest"]), frozenset(map(PeerId, taking["peers"]))
        round.takes_again = CommonAverage(round.key, digest, taking["contributors"], having)
        return [*effects, SetTimer(round.start_timer, settings.waits.start)]
    return [*effects, *round.decline(text("it was restarted before the start of this round had come"))]


def _resume_update(parts: Parts, round: Round, word: UpdateReceived | UpdateOffered) -> list[Effect]:
    """Take an update that was answered 200 before the restart."""
    key, peer = word.update.key, word.update.peer
    if key == round.key and not parts.settings.averages(word.update):
        return []  # the round opened by another aggregation rule than the peer's
    if isinstance(word, UpdateReceived):
        try:
            params = parts.held.schema.conform(word.update.params)
        except ParamsRefused:
            return []
        word = replace(word, update=replace(word.update, params=params))
    if key == round.key and isinstance(word, UpdateReceived):
        return round.gathering.receive(word)
    if key == round.key:  # its parameters are fetched again when the peer is reachable
        round.gathering.expect(peer)
        parts.peers.may_have_missed([peer], key)
        parts.inbox.put_again(peer, word)
    elif key.beats(round.key):
        parts.inbox.put(peer, word)
        parts.series.propose(Opening.told_by(word))
    return []


def _train_from_the_start(parts: Parts, round: Round) -> list[Effect]:
    """Begin the training of the round again, unless its start asked for more than the settings of today allow."""
    settings = parts.settings
    hyper, is_of_others = settings.round_hyper, round.key.initiator != settings.my_id
    if why := settings.too_much(hyper) if is_of_others and hyper else "":
        settings.use_own()
    why = why or parts.budget.exhausted
    return round.decline(why) if why else [round.train()]


def _train_again(parts: Parts, round: Round, base: str | None) -> list[Effect]:
    """Begin a training again that went on over the round.

    Args:
        base: of the model that it had begun with; None where this node did not train.
    """
    model = parts.held.current
    is_new = model.shared.digest == base or model.round == round.key.number - 1
    return round.train_on() if base is not None and is_new and not parts.series.paused else []
