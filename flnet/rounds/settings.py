"""The settings of a job: its node and trainer, its timeouts, the rules of its rounds, and the trainer's declaration."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, TypeVar

from flnet.aggregation.base import MERGING, Secure, SharedMemory
from flnet.aggregation.screening import Bounds
from flnet.algorithms.registry import parse_rule
from flnet.algorithms.topology import Topology
from flnet.params.params import PeerId, TrainerId
from flnet.protocol.effects import Publish
from flnet.protocol.events import Declaration
from flnet.protocol.messages import MOST_OWNED, HyperParams, JobMessage, Peer
from flnet.protocol.updates import RoundKey, Update
from flnet.rounds.limits import Limits
from flnet.rounds.participation import Participation
from flnet.rounds.privacy_plan import PrivacyPlan
from flnet.text import text

M = TypeVar("M", bound=JobMessage)
Tell = Callable[..., Publish]  # tell(kind, text, **data): news for people, with the number of the round

# Among what all nodes must have alike, by these names:
PARTICIPATION, LATE_UPDATES, ROUNDS, TOPOLOGY = "participation", "late updates", "rounds", "topology"
TRAINING: str = text("local training")
SUM_NOISE: str = text("noise of sums")
COMMON, ASYNCHRONOUS = text("common to all nodes"), text("of each node by itself (asynchronous)")
USUAL = "agg1"  # the aggregation rule, where nothing else is stated


_parsed = lru_cache(parse_rule)


def rule_in(agreement: Mapping[str, str] | None) -> str:
    """The aggregation rule that a message states; empty in the thesis' format, which states nothing."""
    return "" if agreement is None else agreement.get(MERGING, USUAL)


def publish(kind: str, text: str, **data: Any) -> Publish:
    """News for people that are of no round."""
    return Publish(kind, text, data)


@dataclass(frozen=True)
class Waits:
    """How long a job waits for others, in seconds.

    Attributes:
        average: after the own update until the average is forced.
        margin: random part added to it.
        start: for the start of a round of which only an update told, before this node says it sits out.
        claims: for the peers' accuracies after the average.
        turn: between two peers that the membership looks at: a lost message is repeated when all had their turn.
        rest: after a round until training processes may have ended; None if they never end.
    """

    average: float = 60.0
    margin: float = 5.0
    start: float = 5.0
    claims: float = 65.0
    turn: float = 1.0
    rest: float | None = None


@dataclass(frozen=True)
class Rules:
    """The settings for the rounds of a job, without its timeouts.

    Attributes:
        participation: how many nodes train in a round.
        staleness: by how many rounds an update may be late and still counts, with a lower weight; 0: none may.
        averaging: how far updates may move, as stated by name, where that is not as usual.
        bounds: how far they may move, in numbers.
        asynchronous: there are no common rounds: each node trains and merges when it has something.
        by_person: the aggregation rule that a person chose for this job while the node ran; empty: the settings' one.
        limits: what a start of another node may ask for; None for anything.
        privacy: what this node promises of its updates; None: nothing.
        topology: how updates travel.
        counts: whether this node tells the counts behind its accuracies (`flnet.protocol.counts`).
        group: that all its test rows belong to; empty for none.
        owned: how many segments of a round this node owns, as compared with others.
    """

    participation: Participation = field(default_factory=Participation)
    staleness: int = 0
    averaging: Mapping[str, str] = field(default_factory=dict)
    asynchronous: bool = False
    by_person: str = ""
    limits: Limits | None = None
    privacy: PrivacyPlan | None = None
    topology: Topology = field(default_factory=Topology)
    bounds: Bounds = field(default_factory=Bounds)
    counts: bool = True
    group: str = ""
    owned: int = MOST_OWNED

    @property
    def merging(self) -> str:
        """The aggregation rule in use, as nodes name it to each other."""
        return self.by_person or self.settled

    @property
    def settled(self) -> str:
        """The aggregation rule that the settings of the node name."""
        return self.averaging.get(MERGING, USUAL)

    def merged_by(self, rule: str) -> Rules:
        """The same, with an aggregation rule that a person chose."""
        return replace(self, by_person="" if rule == self.settled else rule)

    def stated(self) -> Mapping[str, str]:
        """The values that must be equal on all nodes, in addition to those of the trainer; empty for defaults."""
        averaging = {name: value for name, value in self.averaging.items() if name != MERGING}
        averaging |= {MERGING: self.merging} if self.merging != USUAL else {}
        averaging |= {SUM_NOISE: noise} if (noise := self._noise_of_sums) else {}
        if self.asynchronous:
            return {ROUNDS: ASYNCHRONOUS, **averaging}
        taking_part, late = self.participation.words, self.staleness
        stated = {PARTICIPATION: taking_part} if taking_part else {}
        stated |= {} if self.topology.kind == "mesh" else {TOPOLOGY: self.topology.words}
        return {**stated, **({LATE_UPDATES: f"up to {late} rounds"} if late else {}), **averaging}

    @property
    def _noise_of_sums(self) -> str:
        is_summed = self.privacy is not None and _parsed(self.merging).secure is not None
        return self.privacy.stated_of_sums if self.privacy is not None and is_summed else ""


@dataclass
class JobSettings:
    """The settings of one job, and the messages that state them.

    Attributes:
        me: this node.
        trainer: whose job it is.
        rules: what people set for its rounds.
        folds: whether the aggregation rule can add updates as they come, without keeping all of them.
        run: a word that no earlier run of this node had.
        seals: whether all connections to peers are encrypted for their receiver.
        declaration: what the trainer states of itself; None until it is loaded.
        hyper: hyper-parameters of the rounds that start here: those that a person chose on this node, or else the
            defaults of the trainer; None until it is loaded.
        of_round: hyper-parameters of the newest round that this node entered; None before the first one, and where this
            node does not train by those of the round.
    """

    me: Peer
    trainer: TrainerId
    waits: Waits = field(default_factory=Waits)
    rules: Rules = field(default_factory=Rules)
    folds: bool = True
    run: str = ""
    seals: bool = False
    declaration: Declaration | None = field(default=None, init=False)
    hyper: HyperParams | None = field(default=None, init=False)
    of_round: HyperParams | None = field(default=None, init=False)

    @property
    def round_hyper(self) -> HyperParams | None:
        """The hyper-parameters that this node trains by in the newest round; None until the trainer is loaded."""
        return self.of_round or self.hyper

    @property
    def my_id(self) -> PeerId:
        """This node's id."""
        return PeerId(self.me.id)

    @property
    def needed_rule(self) -> str:
        """The aggregation rule that the trainer's updates need; empty: any."""
        return self.declaration.merging if self.declaration else ""

    @property
    def rule(self) -> str:
        """The aggregation rule in use, that which the trainer needs before that of the node; masked where that is."""
        needed, usual = self.needed_rule, self.rules.merging
        if not needed:
            return usual
        return self._masked(needed) if self._is_masked and not self.rule_trouble else needed

    def _masked(self, rule: str) -> str:
        return f"{self.rules.merging.split(',')[0]},{rule}"

    @property
    def rule_trouble(self) -> str:
        """Why the trainer cannot be used under the aggregation rule of this node; empty if it can."""
        if self.needed_rule and self._is_masked:
            try:
                _parsed(self._masked(self.needed_rule))
            except ValueError as exc:
                return text("its trainer needs another rule than FLNET_AGGREGATION names: {reason}", exc)
        topology = self.rules.topology
        if self.needed_rule and not topology.allows(_parsed(self.needed_rule)):
            if topology.is_sparse:
                return text(
                    "its trainer needs the rule {rule}, and FLNET_TOPOLOGY={topology} takes agg0, agg1 or agg2",
                    *(self.needed_rule, topology.words),
                )
            return text(
                "its trainer needs the rule {rule}, and FLNET_TOPOLOGY=segments has no whole updates",
                self.needed_rule,
            )
        return ""

    @property
    def stated(self) -> Mapping[str, str]:
        """The values that must be equal on all nodes, in addition to those of the trainer; empty for defaults."""
        return {**self.rules.stated(), **({MERGING: self.rule} if self.needed_rule else {})}

    @property
    def secure(self) -> Secure | None:
        """How updates are masked, so that only their sum can be opened; None where they are not."""
        return _parsed(self.rule).secure or _parsed(self.rules.merging).secure

    @property
    def _is_masked(self) -> bool:
        return _parsed(self.rules.merging).secure is not None

    @property
    def shared_memory(self) -> SharedMemory | None:
        """What the aggregation rule remembers, where all nodes must remember the same; else None."""
        if self.rules.asynchronous:
            return None  # every node averages other versions
        return _parsed(self.rule).shared_memory

    @property
    def agreement(self) -> Mapping[str, str] | None:
        """The values that must be equal on all nodes, as messages state them."""
        declared = self.declaration.agreement if self.declaration else {}
        return {**declared, **self.stated} or None

    def declare(self, declaration: Declaration) -> None:
        """The trainer is loaded, for the first time or with other data."""
        self.declaration = declaration
        self.folds = self.folds and not declaration.merging
        self.choose(self.hyper or declaration.defaults)

    def choose(self, hyper: HyperParams | None) -> None:
        """A person chose hyper-parameters for the rounds that start here from now on; None: those of before stay."""
        self.hyper = hyper or self.hyper

    def use(self, hyper: HyperParams | None) -> None:
        """Train by these hyper-parameters in the round that opens; None: they are not known yet."""
        self.of_round = hyper or self.of_round

    def use_own(self) -> None:
        """Do not train by the hyper-parameters of the round."""
        self.of_round = None

    def too_much(self, hyper: HyperParams) -> str:
        """Why this node does not train by these hyper-parameters in a round of another node; empty if it does."""
        limits = self.rules.limits
        return limits.exceeded(hyper, self.declaration) if limits and self.declaration else ""

    @property
    def asks_too_much(self) -> str:
        """Why a node with the limits of this one does not train in rounds that start here; empty if it does."""
        return self.too_much(self.hyper) if self.hyper and not self.rules.asynchronous else ""

    def merge_by(self, rule: str, folds: bool) -> None:
        """Merge by the aggregation rule that a person chose."""
        self.rules, self.folds = self.rules.merged_by(rule), folds

    def averages(self, update: Update) -> bool:
        """Whether an update is of a node that averages by the same rule, for all that it states."""
        return update.rule in ("", self.rule)

    def message(self, kind: type[M], key: RoundKey, /, **fields: Any) -> M:
        """A message of a round from this node."""
        hyper = self.round_hyper
        assert hyper is not None
        return kind(
            i_am=self.me,
            trainer_id=self.trainer,
            round=key.number,
            federated_learning_params=hyper,
            initiator=key.initiator,
            agreement=self.agreement,
            **fields,
        )

    def view(self) -> Mapping[str, Any]:
        """Their figures in the view of the job, and what the trainer declares of its data and of what it offers."""
        declared, stated = self.declaration, self.stated
        offers, hyper = declared.offers if declared else {}, self.round_hyper
        return {
            "trainer_id": self.trainer,
            "trainer_label": declared.label if declared else self.trainer,
            "federated_learning_params": hyper.words() if hyper else "",
            "hyper": self.hyper,
            "round_hyper": self.of_round,
            "merging_rule": self.rule,
            "topology": self.rules.topology.setting,
            "agreement": {**declared.agreement, **stated} if declared else None,
            "data": dict(declared.data) if declared else {},
            "inputs": offers.get("inputs"),
            "finds": offers.get("finds", ""),
            "note": offers.get("note", ""),
            "counts": dict(offers.get("counts", {})),
            "checksum": offers.get("checksum", ""),
            "parts": list(offers.get("parts", ())),
            "formats": list(offers.get("formats", ())),
            **({"asks_too_much": why} if (why := self.asks_too_much) else {}),
        }

    def restore(
        self, hyper: HyperParams | None, of_round: HyperParams | None, merging: tuple[str, str, bool]
    ) -> None:
        """Take up what an earlier run saved; see `kept`."""
        rule, settled, folds = merging
        self.choose(hyper)
        self.use(of_round)
        is_as_before = settled == self.rules.settled  # else the settings were changed since, and count
        if rule and is_as_before and self.rules.topology.allows(_parsed(rule)):
            self.merge_by(rule, folds)

    def kept(self) -> Mapping[str, Any]:
        """The state that is saved for a restart, as plain JSON data."""
        rules = self.rules
        return {
            "hyper": self.hyper.fields() if self.hyper else None,
            "round_hyper": self.of_round.fields() if self.of_round else None,
            "merging": [rules.by_person, rules.settled, self.folds] if rules.by_person else None,
        }
