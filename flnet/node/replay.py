"""A past round told again, step by step: what each node did, from the kept events and the record of the round.

Events tell what this node saw. They are bounded (`flnet.store.event_retention`), so a part of a round, or all of it, can
be gone; a replay says what is missing. The record of the round lasts longer and tells the result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from flnet.node.event_log import FeedItem
from flnet.text import text

State = Literal[
    "awaited",
    "trains",
    "sent",
    "arrived",
    "declined",
    "sits_out",
    "failed",
    "refused",
    "lost",
    "counted",
    "left_out",
    "adopted",
    "took",
]
STATES: Mapping[str, str] = {
    "awaited": text("waited for"),
    "trains": text("trains"),
    "sent": text("sent its update"),
    "arrived": text("its update arrived"),
    "declined": text("declined the round"),
    "sits_out": text("does not train"),
    "failed": text("its training failed"),
    "refused": text("was refused"),
    "lost": text("is gone"),
    "counted": text("counts in the average"),
    "left_out": text("is not in the average"),
    "adopted": text("its model was adopted"),
    "took": text("took the average of others"),
}
"""What a node did up to a step, in words."""
OPENS, CLOSES = "round_opened", "round_closed"
# Kinds of events that say what one node did, and its state then: this node's, or that of the peer in the data.
OWN: Mapping[str, State] = {
    "trained": "sent",
    "late_update": "sent",
    "sits_out": "sits_out",
    "training_failed": "failed",
    "training_ended": "failed",
    "average_taken": "took",
}
OF_PEER: Mapping[str, State] = {
    "update_received": "arrived",
    "version_heard": "arrived",
    "peer_declined": "declined",
    "refused": "refused",
    "peer_disputed": "refused",
    "exchanged": "adopted",
}
OF_MESH: Mapping[str, State] = {"peer_lost": "lost", "peer_left": "lost"}
WITH_REASON = frozenset({"declined", "sits_out", "failed", "refused", "lost"})


@dataclass(frozen=True)
class NodeState:
    """What a node did so far, with the sentence that says why; empty where there is nothing to say."""

    state: State
    why: str = ""


@dataclass(frozen=True)
class Step:
    """One event of the round.

    Attributes:
        at: seconds since the epoch by this node's clock.
        seconds: since the first step that is kept.
        node: whom it is about.
        changes: states that nodes are in from this step on.
    """

    id: int
    at: float
    seconds: float
    kind: str
    node: str
    text: str
    changes: Mapping[str, NodeState] = field(default_factory=dict)


@dataclass(frozen=True)
class Replay:
    """A round step by step.

    Attributes:
        record: of the round; None while it is open, and where it is not kept any more.
        nodes: that had a part in it, this node first.
        missing: sentences that say which part of the events is gone; empty if all are there.
    """

    round: int
    record: Mapping[str, Any] | None
    nodes: Sequence[str]
    steps: Sequence[Step]
    missing: Sequence[str]

    def states(self, steps: int | None = None) -> Mapping[str, NodeState]:
        """What each node did after so many steps; after all of them, and by the record, if None is given."""
        states = {node: NodeState("awaited") for node in self.nodes}
        for step in self.steps if steps is None else self.steps[:steps]:
            states |= step.changes
        if steps is None and self.record is not None and not any(step.kind == CLOSES for step in self.steps):
            states |= _by_record(self.record, self.nodes)
        return states

    def view(self) -> Mapping[str, Any]:
        """As JSON-ready data."""
        return {
            "round": self.round,
            "record": self.record,
            "steps": [{**vars(step), "changes": _view(step.changes)} for step in self.steps],
            "nodes": _view(self.states()),
            "missing": list(self.missing),
        }


def replayed(
    me: str, trainer: str, number: int, record: Mapping[str, Any] | None, events: Sequence[FeedItem]
) -> Replay:
    """Tell a round again.

    Args:
        me: this node's name.
        number: of the round.
        record: of the round, if it is over and kept.
        events: all that are kept, oldest first.
    """
    own = [event for event in events if event.trainer == trainer and event.data.get("round") == number]
    first, last = (own[0].id, own[-1].id) if own else (0, -1)
    between = [event for event in events if first <= event.id <= last]
    ids = {event.id for event in own}
    told = [event for event in between if event.id in ids or (not event.trainer and event.kind in OF_MESH)]
    nodes = _nodes(me, record, own)
    steps = [_step(event, own[0].at, me, record, nodes) for event in told]
    steps = [step for step in steps if step.kind not in OF_MESH or step.node in nodes]
    return Replay(number, record, nodes, steps, _missing(own, record, last - first + 1 - len(between)))


def _missing(own: Sequence[FeedItem], record: Mapping[str, Any] | None, lost: int) -> list[str]:
    if not own:
        return [text("The events of this round are not kept any more.")] if record is not None else []
    words: list[str] = []
    kinds = {event.kind for event in own}
    if OPENS not in kinds:
        words.append(text("The events of the beginning of this round are not kept any more."))
    if lost:
        words.append(text("{count} events of the time of this round are not kept any more.", lost))
    if record is not None and CLOSES not in kinds:
        words.append(text("The event of the end of this round is not kept any more."))
    return words


def _nodes(me: str, record: Mapping[str, Any] | None, own: Sequence[FeedItem]) -> list[str]:
    """Who had a part in the round: this node, those that the record names, and those of whom events tell."""
    names = {name for event in own if event.kind in OF_PEER for name in [str(event.data.get("peer") or "")]}
    names |= {str(event.data.get("initiator") or "") for event in own if event.kind == OPENS}
    for part in ("contributors", "missing", "chosen", "left_out", "weighed", "alone", "disputed"):
        names |= _names((record or {}).get(part))
    names |= {str((record or {}).get("exchanged_with") or "")}
    return [me, *sorted(names - {me, ""})]


def _step(event: FeedItem, begin: float, me: str, record: Mapping[str, Any] | None, nodes: Sequence[str]) -> Step:
    peer = str(event.data.get("peer") or "")
    step = Step(event.id, event.at, max(0.0, event.at - begin), event.kind, me, event.text)
    if event.kind == OPENS:
        return replace(step, node=str(event.data.get("initiator") or me), changes={me: NodeState("trains")})
    if event.kind in ("averaged", "merged"):
        counted = _names(event.data.get("contributors"))
        return replace(step, changes=_averaged(counted, record, nodes))
    if event.kind == CLOSES:
        final = _by_record(record or event.data, nodes)
        return replace(step, changes=final)
    if state := OWN.get(event.kind):
        return replace(step, changes={me: _state(state, event.text)})
    if (state := OF_PEER.get(event.kind) or OF_MESH.get(event.kind)) and peer:
        return replace(step, node=peer, changes={peer: _state(state, event.text)})
    return replace(step, node=peer or me)


def _state(state: State, words: str) -> NodeState:
    return NodeState(state, words if state in WITH_REASON else "")


def _averaged(counted: set[str], record: Mapping[str, Any] | None, nodes: Sequence[str]) -> dict[str, NodeState]:
    """Whose update is in the average, and why the others are not."""
    reasons: Mapping[str, str] = {**((record or {}).get("left_out") or {}), **((record or {}).get("alone") or {})}
    weighed: Mapping[str, Mapping[str, Any]] = (record or {}).get("weighed") or {}
    reasons = {**{name: str(update.get("reason") or "") for name, update in weighed.items()}, **reasons}
    return {
        node: NodeState("counted") if node in counted else NodeState("left_out", reasons.get(node, ""))
        for node in nodes
    }


def _by_record(record: Mapping[str, Any], nodes: Sequence[str]) -> dict[str, NodeState]:
    """The result of a round that is over; nothing where no average was made."""
    counted = _names(record.get("contributors"))
    states = _averaged(counted, record, nodes) if counted else {}
    disputed = record.get("disputed") or {}
    states |= {str(name): NodeState("refused", str(why.get("reason") or "")) for name, why in disputed.items()}
    if record.get("taken_from") and nodes:
        states[nodes[0]] = NodeState("took")
    if adopted := record.get("exchanged_with"):
        states[str(adopted)] = NodeState("adopted")
    return states


def _names(value: Any) -> set[str]:
    """Names in a field of an event or a record; none in a damaged one."""
    return {str(name) for name in value} if isinstance(value, list | tuple | Mapping) else set()


def _view(states: Mapping[str, NodeState]) -> dict[str, dict[str, str]]:
    return {node: {"state": state.state, "why": state.why} for node, state in states.items()}
