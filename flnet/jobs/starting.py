"""The steps that open a round: a person's request, a peer's, and what only an update told of."""

from __future__ import annotations

from dataclasses import replace

from flnet.effects import Answer, CancelTimer, CancelWork, Effect, Fetch, SetTimer, Train
from flnet.errors import JobBusy, NoData, ParamsRefused, RoundLost, StaleRound
from flnet.events import DeclineReceived, RoundTriggered, TrainingAsked
from flnet.jobs.agreement import must_agree
from flnet.jobs.arriving import Arrived
from flnet.jobs.goal_steps import begun, entered
from flnet.jobs.lagging import lags, left_behind, outdated, take_back, timed
from flnet.jobs.opening import Opening, Start
from flnet.jobs.record import RoundRecord
from flnet.jobs.sitting_out import why_not
from flnet.jobs.speaking import decline, rest, start_message
from flnet.jobs.state import PAUSED, JobState, Word, key_of
from flnet.jobs.steps import Phase
from flnet.messages import LAST_ROUND, ChoiceMessage, Triggered
from flnet.params import RoundKey
from flnet.rounds import Closing


def triggered(s: JobState, event: RoundTriggered) -> list[Effect]:
    """A person asks for rounds; while this node waits for others, that forces the average."""
    if s.phase is Phase.LOADING:
        raise JobBusy(f"{s.trainer} is still loading its data")
    if s.phase is Phase.NO_DATA:
        raise JobBusy(f"{s.trainer} cannot train: {s.error}")
    if s.paused:
        raise JobBusy(f"{s.trainer} is {PAUSED}; resume it to start rounds")
    if s.phase in (Phase.FETCHING, Phase.TRAINING, Phase.AVERAGING, Phase.MEASURING):
        raise JobBusy(f"round {s.number} is still {s.phase.lower()} here; ask again when it is done")
    if event.why and s.phase is not Phase.IDLE:
        raise JobBusy(f"round {s.number} is under way; a schedule forces no average")
    if s.number >= LAST_ROUND:
        raise JobBusy(f"round {s.number} is the last one that can be numbered")
    key = s.next_key
    goal = begun(s, event.until, key.number, event.rounds) if event.until is not None else []
    s.hyper = event.hyper or s.hyper
    s.rounds_left = 0 if goal else event.rounds - 1
    opening = Opening(key, s.hyper, why=event.why)
    s.propose(opening)
    words = f"the schedule starts round {opening.key.number}: {event.why}"
    told = [s.tell("round_scheduled", words, reason=event.why)] if event.why else []
    # What is promised here is saved: at once where an average comes first, else when the round opens.
    asked_for = [s.save()] if s.phase is Phase.GATHERING else []
    return [
        *asked_for,
        Answer(Triggered(trainer_id=s.trainer, round=opening.key.number)),
        *goal,
        *told,
        *_force(s),
    ]


def asked(s: JobState, event: TrainingAsked) -> list[Effect]:
    """A peer started a round.

    Raises:
        StaleRound, RoundLost: it is over, or another initiator's start comes first.
        ParamsRefused: its parameters do not fit, or it trains something else.
    """
    if s.phase is Phase.NO_DATA:
        raise NoData(s.trainer, s.error or "no data")
    if s.model is None:
        if s.asked_while_loading is None or event.key.beats(s.asked_while_loading.key):
            s.asked_while_loading = event
        return []
    must_agree(s, event.agreement)
    opening = Opening(
        event.key,
        event.hyper,
        _start_of(s, event),
        series=event.series,
        choice=event.choice,
        run=event.run,
    )
    if s.key == event.key:
        return _join(s, opening) if s.listening else _repeated(s, event)
    must_beat(s, event.key)
    s.propose(opening)
    return _force(s) if event.key.number == s.number + 1 else []


def _repeated(s: JobState, event: TrainingAsked) -> list[Effect]:
    """A start of the round that this node is in: a duplicate, unless its initiator has forgotten the first.

    Who forgot it would wait for words that were said long ago, and average alone.

    Raises:
        StaleRound: so that the initiator goes on with the next round.
    """
    if s.started_in is not None and event.run is not None and event.run != s.started_in:
        raise StaleRound(event.key.number, s.number)
    return []


_OPEN = (Phase.FETCHING, Phase.TRAINING, Phase.GATHERING)  # a round that is not averaged yet


def must_beat(s: JobState, key: RoundKey) -> None:
    """Refuse a round for which this node does not leave the one that it is in.

    Raises:
        StaleRound: it is over, or averaged here already: one average per round, never two.
        RoundLost: another initiator's start of that round comes first.
    """
    if s.key is None or key.number > s.number:
        return
    if key.number < s.number or s.phase not in _OPEN:
        raise StaleRound(key.number, s.number)
    if not key.beats(s.key):
        raise RoundLost(s.number, key.initiator, s.key.initiator)


def open_round(s: JobState, opening: Opening) -> list[Effect]:
    """Leave whatever round is open and enter this one."""
    assert s.model is not None
    if s.number == opening.key.number:
        take_back(s)
        s.record = None  # one round, started twice at once: only the start that counts is remembered
    why = f"cut short: {opening.key.initiator} started round {opening.key.number}"
    effects = abandon(s, why, s.number == opening.key.number)
    given_up = _take_base(s, opening)
    s.hyper = opening.hyper or s.hyper
    s.key = opening.key
    s.accuracy, s.error, s.exchange, s.rival = None, None, None, None
    s.record = RoundRecord(opening.key, why=opening.why)
    begins = opening.started_by(s.my_id) and opening.heard_start  # else a peer tells of one that this node forgot
    s.choice, s.started_in = _choice_of(s, opening), (s.run or None) if begins else opening.run
    s.averaging = s.gather(opening.key, s.peers)
    effects += outdated(s)
    effects += entered(s, opening.series)
    if begins:
        effects.append(start_message(s, sorted(s.peers)))
    ripe = _ripe(s)
    for event in ripe:
        timed(s, event)
    told = [effect for event in ripe for effect in s.averaging.receive(event)]  # first: who sits out may end it
    effects += [*_enter(s, opening), *told]
    words = f"round {s.number} of {s.trainer} was started by {opening.key.initiator}"
    return [*effects, s.save(), s.tell("round_opened", words, initiator=opening.key.initiator), *given_up]


def abandon(s: JobState, why: str, is_same: bool = True) -> list[Effect]:
    """Stop what the open round still does; its record keeps the reason.

    Args:
        is_same: whether the round that comes has the number of the open one, or none comes.
    """
    effects: list[Effect] = []
    folded = s.averaging is not None and s.averaging.folded and s.averaging.closed is None
    if s.key is not None and s.phase is Phase.TRAINING and not is_same:
        effects += left_behind(s)
    elif s.key is not None and (s.phase is Phase.TRAINING or folded or _personalises(s)):
        effects.append(CancelWork(s.key))
    if s.averaging is not None:
        effects += [CancelTimer(s.averaging.timer), CancelTimer(s.start_timer)]
    if s.exchange is not None and not s.exchange.done:
        effects.append(CancelTimer(s.exchange.timer))
    if s.record is not None:
        if s.record.outcome == "open":
            s.record.outcome = why
        s.remember(s.record)
        s.record = None
    return effects


def _personalises(s: JobState) -> bool:
    """Whether private parameters learn on in the step that measures the average."""
    return s.phase is Phase.MEASURING and s.declaration is not None and s.declaration.personalises


def _enter(s: JobState, opening: Opening) -> list[Effect]:
    assert s.averaging is not None
    s.phase = Phase.GATHERING
    if s.averaging.sits_out:
        return rest(s)
    if why := opening.sits_out or why_not(s, opening):
        return _sit_out(s, why)
    if (said := lags(s)) is not None:
        s.base = None
        return said
    if not opening.heard_start:
        return [SetTimer(s.start_timer, s.waits.start)]
    return _begin(s)


def _join(s: JobState, opening: Opening) -> list[Effect]:
    """The start that this node had missed came after all: train, and keep what was gathered."""
    assert s.averaging is not None
    given_up = _take_base(s, opening)
    s.hyper, s.started_in = opening.hyper or s.hyper, opening.run
    joined = [CancelTimer(s.start_timer), *entered(s, opening.series)]
    if opening.choice is not None and s.choice is None:
        s.choice = opening.choice
        s.averaging.choose(s.chosen or ())
    if s.averaging.sits_out:
        return [*joined, *rest(s), s.save(), *given_up]
    why = why_not(s, opening)
    return [*joined, *(_sit_out(s, why) if why else _begin(s)), s.save(), *given_up]


def _sit_out(s: JobState, why: str) -> list[Effect]:
    s.base = None  # who does not train needs no start
    return decline(s, why)


def _begin(s: JobState) -> list[Effect]:
    """Train, or first fetch what training starts from."""
    if s.base is None:
        return train(s)
    assert s.key is not None
    s.phase = Phase.FETCHING
    words = f"fetching the model of round {s.base.round} from {s.base.peer}"
    return [Fetch(s.key, s.base.peer, s.base.digest), s.tell("fetching", words, peer=s.base.peer)]


def train(s: JobState) -> list[Effect]:
    """Ask for the local training of the open round."""
    assert s.model is not None and s.key is not None and s.hyper is not None
    s.phase, s.arrived = Phase.TRAINING, Arrived()
    return [Train(s.key, s.model.full, s.hyper)]


def _take_base(s: JobState, opening: Opening) -> list[Effect]:
    """Choose what training starts from: before the first average the initiator's parameters (a common start is
    essential, section 3.1), later the newest average with the most contributors among ours, those seen, and the
    start's; see `Model.gives_way_to` for models that a person went back to. `s.base` is what has to be fetched for
    it.

    Returns:
        What people are told where that ends a roll back of this node.
    """
    assert s.model is not None
    s.base = None
    if s.rival is not None and s.rival.params is not None:
        s.model = s.model.better_of(s.rival.params, s.rival.round, s.rival.contributors)
    start = opening.start
    if start is None:
        return []
    if max(start.standing, s.model.standing) < 0:  # nobody has averaged yet: all still need one start
        start = replace(start, contributors=0)
    elif not s.model.gives_way_to(start):
        return []
    left = s.model.shared.digest
    params = s.model.shared if start.digest == s.model.shared.digest else start.params
    if params is None:
        s.base = start
    else:
        s.model = s.model.holding(params, start.round, start.contributors, start.restored_at)
    if not s.rolled_back or start.digest == left or (s.paused and s.base is not None):
        return []
    s.rolled_back = False
    words = f"going back to the model {left[:10]} ends here: {start.peer} started a round from another one"
    return [s.tell("roll_back_ended", words, digest=left, peer=start.peer)]


def _choice_of(s: JobState, opening: Opening) -> ChoiceMessage | None:
    """Who starts a round says which members there are to choose from."""
    if not opening.started_by(s.my_id):
        return opening.choice
    return s.rules.participation.choice_of({s.my_id, *s.peers})


def _start_of(s: JobState, event: TrainingAsked) -> Start:
    assert s.model is not None
    base_round = min(event.base_round, event.key.number - 1)  # no average is from a round to come
    params = None if event.params is None else s.model.schema.conform(event.params)
    digest = event.digest if params is None else params.digest
    if digest is None:
        raise ParamsRefused("a start must bring parameters, or name their digest")
    restored_at = None if event.restored_at is None else min(event.restored_at, event.key.number - 1)
    return Start(digest, params, event.peer, max(base_round, -1), event.contributors, restored_at)


def _force(s: JobState) -> list[Effect]:
    """The next round is asked for: average what is here, if anything is."""
    if s.phase not in _OPEN or s.averaging is None or not s.averaging.updates:
        return []
    stopped = left_behind(s) if s.phase is Phase.TRAINING else []
    return [*stopped, CancelTimer(s.start_timer), *s.averaging.close(Closing.NEXT_ROUND)]


def _ripe(s: JobState) -> list[Word]:
    """Early words that belong to the round just entered, updates before refusals, so that none is too late;
    those of later rounds stay, older ones go.
    """
    assert s.key is not None
    ripe = [word for word in s.early.values() if key_of(word) == s.key]
    s.early = {peer: word for peer, word in s.early.items() if key_of(word).beats(s.key)}
    return sorted(ripe, key=lambda word: isinstance(word, DeclineReceived))
