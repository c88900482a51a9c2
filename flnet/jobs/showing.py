"""A job as people and other programs see it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from flnet.jobs.steps import Phase

if TYPE_CHECKING:
    from flnet.jobs.state import JobState

NOT_CHOSEN = "not chosen"


def shown(s: JobState) -> Mapping[str, Any]:
    """The job as JSON-ready data."""
    declared, record, gathering = s.declaration, s.record, s.averaging
    waiting = gathering.missing if gathering and s.phase is Phase.GATHERING else []
    if s.phase is Phase.EXCHANGING and s.exchange:
        waiting = sorted(s.exchange.expected)
    if s.wake is not None and s.phase is Phase.FETCHING:
        waiting = sorted(s.wake.asked) or (gathering.missing if gathering else [])
    # Between rounds and while a round is under way the last finished round's figures are shown.
    last = record if record and record.pre_accuracy is not None else s.history[-1] if s.history else record
    return {
        "trainer_id": s.trainer,
        "trainer_label": declared.label if declared else s.trainer,
        "phase": s.phase.value,
        "current_round": s.number,
        "fed_learn_done": "Yes" if s.model and s.model.round >= 0 and s.model.round == s.number else "No",
        "federated_learning_params": s.hyper.words() if s.hyper else "",
        "hyper": s.hyper.fields() if s.hyper else None,
        "used_hyper": last.used_hyper if last else None,
        "pre_fedavg_accuracy": last.pre_accuracy if last else None,
        "post_fedavg_accuracy": last.post_accuracy if last else None,
        "metrics": last.view()["metrics"] if last else {},
        "model_was_exchanged": "Yes" if last and last.exchanged_with else "No",
        "exchanged_with": last.exchanged_with if last else None,
        "digest": s.model.shared.digest if s.model else None,
        "schema_digest": s.model.schema.digest if s.model else None,
        "model_round": s.model.round if s.model else -1,
        "contributors": s.model.contributors if s.model else 0,
        "initiator": s.key.initiator if s.key else None,
        "rounds_left": s.rounds_left,
        "goal": s.pursuit.view(s.number),
        "paused": s.paused,
        "versions": _versions(s) if s.rules.asynchronous else None,
        "chosen": None if s.chosen is None else sorted(s.chosen),
        "sits_out": _sits_out(s),
        "rolled_back": s.rolled_back,
        "merging_rule": (declared.merging if declared else "") or s.rules.merging,
        "counts_little": s.weights.view(),
        "waiting_for": waiting,
        "received": sorted(gathering.updates) if gathering else [],
        "outcome": (s.history[-1].outcome if s.history else "") if s.phase is Phase.IDLE else "",
        "error": s.error,
        "data": dict(declared.data) if declared else {},
        **_offered(declared.offers if declared else {}),
    }


def _offered(offers: Mapping[str, Any]) -> Mapping[str, Any]:
    """What a person may do with the models, and what is known of the own rows."""
    return {
        "inputs": offers.get("inputs"),
        "finds": offers.get("finds", ""),
        "note": offers.get("note", ""),
        "counts": dict(offers.get("counts", {})),
        "checksum": offers.get("checksum", ""),
        "parts": list(offers.get("parts", ())),
        "formats": list(offers.get("formats", ())),
    }


def _versions(s: JobState) -> Mapping[str, Any]:
    """The own version, and what is known of the others'."""
    own = s.own.key.number if s.own is not None and s.sent is not None else 0
    return {"own": own, "peers": [{**row, "reachable": row["peer"] in s.peers} for row in s.versions.view()]}


def _sits_out(s: JobState) -> str:
    """Why this node does not train in the open round; empty where it does, and between rounds."""
    if s.averaging is None or s.phase in (Phase.IDLE, Phase.LOADING, Phase.NO_DATA):
        return ""
    return NOT_CHOSEN if s.averaging.sits_out else s.averaging.declined.get(s.my_id, "")
