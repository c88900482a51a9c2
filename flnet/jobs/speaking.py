"""What a node says of a round to all its peers, or needs not say: its start, and that it takes no part."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from flnet.effects import Effect, Send
from flnet.events import DeclineReceived
from flnet.jobs.record import names
from flnet.jobs.state import JobState
from flnet.messages import ModelParams, StartTraining
from flnet.params import PeerId, Update


def decline(s: JobState, reason: str, late: bool = False) -> list[Effect]:
    """Tell every peer that this node takes no part in the round, so that nobody waits for it."""
    assert s.averaging is not None and s.key is not None
    mine = s.averaging.receive(DeclineReceived(s.my_id, s.key, reason, late))
    said: dict[str, Any] = {"declined": reason[:500], "choice": s.choice, "late": late or None}
    return [_to_all(s, s.say(ModelParams, examples=0, **said)), *mine]


def rest(s: JobState) -> list[Effect]:
    """Others are chosen to train in this round: nobody waits for this node, which averages what comes."""
    assert s.averaging is not None and s.choice is not None
    s.base = None  # who does not train needs no start
    if s.key is not None and s.key.initiator == s.my_id:
        s.arrived = replace(s.arrived, started_for=s.arrived.rows)
    some = names(sorted(s.chosen or ()))
    words = (
        f"this node is not chosen for the round: {s.choice.take} of {len(s.choice.members)} nodes train: {some}"
    )
    return [*s.averaging.rest(), s.tell("sits_out", words)]


def start_message(s: JobState, to: Iterable[PeerId]) -> Effect:
    """Tell peers that this node started the round."""
    assert s.model is not None
    held = s.model
    message = s.say(
        StartTraining,
        base_round=held.round,
        contributors=held.contributors,
        digest=held.shared.digest,
        restored_at=held.restored_at,
        series=s.pursuit.said(),
        choice=s.choice,
        run=s.started_in,
    )
    return Send(tuple(to), message, held.shared)


def _to_all(s: JobState, message: ModelParams) -> Effect:
    return Send(tuple(sorted(s.peers)), message)


def own_word(s: JobState, own: Update) -> ModelParams:
    """The message that brings, or offers, the own update."""
    said: dict[str, Any] = {
        "examples": own.examples,
        "labels": own.labels,
        "accuracy": own.accuracy,
        "base": own.base,
        "staleness": own.staleness or None,
    }
    if (one := own.contribution) is not None:
        said |= {"schema_digest": one.schema, "key": one.key or None, "signature": one.signature or None}
    took = s.record.seconds.get("train") if s.record else None
    said |= {"choice": s.choice, "run": s.started_in, "seconds": took or None}
    return s.say(ModelParams, **said, digest=own.params.digest)
