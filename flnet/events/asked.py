"""What people and peers ask of a job, or tell it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from flnet.events.base import Event
from flnet.messages import ChoiceMessage, HyperParams, SeriesMessage
from flnet.params import Claim, Digest, Params, PeerId, RoundKey, Update


@dataclass(frozen=True)
class RoundTriggered(Event):
    """A person, the command line or a policy asks for rounds; until a goal is reached, for so many at most.

    Attributes:
        why: in words, where a schedule asks for them.
    """

    rounds: int = 1
    hyper: HyperParams | None = None
    until: str | None = None
    why: str = ""


@dataclass(frozen=True)
class HyperParamsEdited(Event):
    """A person changed hyper-parameters (only those present) for the rounds that start here, or the merging rule.

    Attributes:
        merging: the rule from now on, as nodes name it to each other; empty: it stays.
        folds: whether that rule can add updates as they come.
    """

    changes: Mapping[str, float]
    merging: str = ""
    folds: bool = True


@dataclass(frozen=True)
class SeriesStopped(Event):
    """A person wants no further round of those that this node was asked for."""


@dataclass(frozen=True)
class Paused(Event):
    """A person wants this node to sit rounds out."""


@dataclass(frozen=True)
class Resumed(Event):
    """A person wants this node to take part again."""


@dataclass(frozen=True)
class Planned(Event):
    """A person said when rounds should start by themselves here (None: as the node's settings say).

    Attributes:
        since: when the newest round was noticed, or this was said, in seconds of the node's own clock.
    """

    when: str | None
    since: float


@dataclass(frozen=True)
class WillingnessChanged(Event):
    """This node takes no part in rounds of others now, for that reason; or (no reason) does again."""

    reason: str = ""


@dataclass(frozen=True)
class RolledBack(Event):
    """A person wants the job to go on from a model that it held before.

    Attributes:
        shared, private: its parameters, the private ones as they were beside it.
        round, contributors: of the average that it is.
        accuracy: of it on the own test split, as far as it is known.
    """

    shared: Params
    private: Params
    round: int
    contributors: int
    accuracy: float | None = None


@dataclass(frozen=True)
class TrainingAsked(Event):
    """A peer started a round; `params` are None where only their digest was said, `run` where none was."""

    peer: PeerId
    key: RoundKey
    params: Params | None
    hyper: HyperParams
    base_round: int = -1
    contributors: int = 0
    agreement: Mapping[str, str] | None = None
    digest: Digest | None = None
    restored_at: int | None = None
    series: SeriesMessage | None = None
    choice: ChoiceMessage | None = None
    run: str | None = None


@dataclass(frozen=True)
class UpdateReceived(Event):
    """A peer's update came; `choice` and `run` are what the start of its round said,
    `seconds` what its training took."""

    update: Update
    agreement: Mapping[str, str] | None = None
    choice: ChoiceMessage | None = None
    seconds: float | None = None
    run: str | None = None


@dataclass(frozen=True)
class UpdateOffered(Event):
    """A peer's update is there to be fetched by its digest; `update` holds no parameters yet."""

    update: Update
    digest: Digest
    agreement: Mapping[str, str] | None = None
    choice: ChoiceMessage | None = None
    seconds: float | None = None
    run: str | None = None


@dataclass(frozen=True)
class Restored(Event):
    """What an earlier run of this node saved of the job; comes before the trainer is loaded.

    Attributes:
        snapshot: figures, as the job wrote them.
        params, private: shared and private parameters; None where there are none, or they were damaged.
        sent: the newest own update.
        updates: of peers that count in rounds which were not averaged yet; those that were offered hold no
            parameters.
        records: of the rounds that are over, oldest first.
        remembered: what the merging rule remembered.
    """

    snapshot: Mapping[str, Any]
    params: Params | None = None
    private: Params | None = None
    sent: Params | None = None
    updates: tuple[UpdateReceived | UpdateOffered, ...] = ()
    records: tuple[Mapping[str, Any], ...] = ()
    remembered: Params | None = None


@dataclass(frozen=True)
class DeclineReceived(Event):
    """A peer takes no part in a round."""

    peer: PeerId
    key: RoundKey
    reason: str
    late: bool = False  # it trains, and its update counts in a later round


@dataclass(frozen=True)
class ClaimReceived(Event):
    """A peer sent its accuracy and waits for ours."""

    claim: Claim
    agreement: Mapping[str, str] | None = None


@dataclass(frozen=True)
class ClaimAnswered(Event):
    """A peer answered our accuracy with its own."""

    claim: Claim
