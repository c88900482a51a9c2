"""What becomes of parameters that were fetched: a start, an update, a model of the exchange, a rival."""

from __future__ import annotations

from dataclasses import replace

from flnet.effects import Effect, Publish
from flnet.errors import ParamsRefused
from flnet.events import Fetched, FetchFailed
from flnet.jobs.closing import exchanged
from flnet.jobs.gathering import counted
from flnet.jobs.speaking import decline
from flnet.jobs.starting import train
from flnet.jobs.state import JobState
from flnet.jobs.steps import Phase


def fetched(s: JobState, event: Fetched | FetchFailed) -> list[Effect]:
    """A fetch has ended; each part of the round that waits for these parameters takes them.

    Parameters that do not fit count as a failed fetch: they are used nowhere, and people see why.
    """
    checked = _conformed(s, event)
    _rival(s, checked)
    if s.phase is Phase.FETCHING and s.base is not None and _is_of(s, checked) and s.base.digest == checked.digest:
        return _base(s, checked)
    if s.phase is Phase.AVERAGING and _is_of(s, checked):
        return _again(s, checked)
    if s.averaging is not None and s.averaging.closed is None and _is_of(s, checked):
        return _update(s, checked)
    return exchanged(s, checked) if _is_of(s, checked) else []


def _conformed(s: JobState, event: Fetched | FetchFailed) -> Fetched | FetchFailed:
    if isinstance(event, FetchFailed) or s.model is None:
        return event
    try:
        return replace(event, params=s.model.schema.conform(event.params))
    except ParamsRefused as exc:
        return FetchFailed(event.key, event.peer, event.digest, str(exc))


def _is_of(s: JobState, event: Fetched | FetchFailed) -> bool:
    return event.key == s.key


def _rival(s: JobState, event: Fetched | FetchFailed) -> None:
    if s.rival is None or s.rival.params is not None or s.rival.digest != event.digest:
        return
    s.rival = replace(s.rival, params=event.params) if isinstance(event, Fetched) else None


def _base(s: JobState, event: Fetched | FetchFailed) -> list[Effect]:
    """Training may begin; without its start this node takes no part, for its own model is another one."""
    base, s.base = s.base, None
    assert base is not None and s.model is not None
    if isinstance(event, Fetched):
        s.model = s.model.holding(event.params, base.round, base.contributors, base.restored_at)
        return [*train(s), s.save()]
    s.phase = Phase.GATHERING
    s.error = f"the model that round {s.number} starts from could not be fetched from {base.peer}: {event.reason}"
    if s.record is not None:
        s.record.error = s.error
    return [*decline(s, s.error), s.tell("fetch_failed", s.error, peer=base.peer)]


def _update(s: JobState, event: Fetched | FetchFailed) -> list[Effect]:
    assert s.averaging is not None
    averaging = s.averaging
    offered = averaging.offers.get(event.peer)
    effects = averaging.receive(event)
    if offered is None or offered[1] != event.digest:
        return effects
    if isinstance(event, Fetched):
        return [*effects, counted(s, replace(offered[0], params=event.params))]
    return [*effects, _told(s, event)]


def _again(s: JobState, event: Fetched | FetchFailed) -> list[Effect]:
    """An update is here once more, for a sum that is made again."""
    if s.averaging is None or s.averaging.again is None:
        return []
    before = set(s.averaging.again.lost)
    effects = s.averaging.receive(event)
    if isinstance(event, FetchFailed) and event.peer in s.averaging.again.lost.keys() - before:
        return [*effects, _told(s, event)]
    return effects


def _told(s: JobState, event: FetchFailed) -> Publish:
    words = f"the update of {event.peer} could not be fetched: {event.reason}"
    return s.tell("fetch_failed", words, peer=event.peer)
