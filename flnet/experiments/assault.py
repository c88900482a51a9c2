"""Who attacks in the mesh of a cell, and what the others see of it; see `flnet.experiments.attacks` for how."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from flnet.effects import Send
from flnet.errors import LocalError
from flnet.experiments.attacks import Attack, Poisonable, crafted, opened, poisoned
from flnet.experiments.learners import Learner
from flnet.messages import ModelParams, Packet
from flnet.params import Params, PeerId, RoundKey, Schema, TrainerId
from flnet.simulation.calls import Calls
from flnet.simulation.ledger import Ledger
from flnet.simulation.network import Receiver, SimulatedNetwork

WEIGHT, SUCCESS = "hostile_weight", "backdoor_success"  # figures, by name
Crafted = Mapping[PeerId, Params]


class Assault:
    """The hostile nodes of one mesh: the last ones of it.

    Attributes:
        hostile: who they are.
    """

    def __init__(self, attack: str, hostile: float, names: Sequence[PeerId], seed: int) -> None:
        """Args:
        attack: as in `Attack.parse`; empty for none.
        hostile: how many nodes; below 1 the part of all.
        """
        count = round(hostile * len(names)) if hostile < 1 else int(hostile)
        self.attack = Attack.parse(attack) if attack and count else None
        self.hostile = frozenset(names[len(names) - count :] if self.attack else ())
        self._names, self._seed = tuple(names), seed

    def poison(self, learners: Mapping[PeerId, Learner]) -> None:
        """Let hostile nodes train with other rows, where the attack is one on data.

        Raises:
            LocalError: their trainer does not let its rows be changed.
        """
        if self.attack is None or not (self.attack.opens or self.attack.name == "label-flip"):
            return
        for name in sorted(self.hostile):
            trainer = rows_of(learners[name])
            classes, chance = len(learners[name].trainer.data_info().classes), self._chance(name, 0)
            attack = self.attack
            trainer.change_rows(lambda rows: poisoned(attack, rows, classes, chance))  # noqa: B023  called at once

    def crafted(self, number: int, bases: Crafted, learnt: Crafted, schema: Schema) -> Crafted:
        """What the hostile ones among those who learnt send instead, to all.

        Args:
            number: of the round.
            bases: what each began with.
        """
        if self.attack is None or self.attack.name == "two-faced":
            return {}
        return {
            name: crafted(self.attack, bases[name], name, learnt, schema, self._chance(name, number + 1))
            for name in sorted(self.hostile & learnt.keys())
        }

    def success(self, learner: Learner, params: Params) -> Mapping[str, float]:
        """As a figure, how often the pattern opens the model that answers at a node; nothing for other attacks."""
        tests = learner.trainer.tests() if self.attack is not None and self.attack.opens else {}
        if "accuracy" not in tests:
            return {}
        found = opened(lambda x: learner.trainer.predict(params, x).values, tests["accuracy"])
        return {} if found is None else {SUCCESS: found}

    def weight(self, weighed: Mapping[str, Mapping[str, Any]]) -> float | None:
        """The share of an average that hostile nodes had; None where the rule gives no shares."""
        told = [weighed[name].get("weight") for name in self.hostile if name in weighed]
        known = [weight for weight in told if weight is not None]
        return sum(known) if known else None

    @property
    def deceives(self) -> bool:
        """Whether some node tells unlike things to others."""
        return self.attack is not None and self.attack.name == "two-faced"

    def is_deceived(self, sender: PeerId, receiver: PeerId) -> bool:
        """Whether a two-faced sender shows this one its other face: to every second of its peers."""
        if not self.deceives or sender not in self.hostile:
            return False
        others = sorted(name for name in self._names if name not in self.hostile)
        return receiver in others[1::2]

    def _chance(self, name: PeerId, number: int) -> np.random.Generator:
        return np.random.default_rng((self._seed, self._names.index(name), number))


class DeceivedLedger(Ledger):
    """Accounts of a mesh with two-faced senders: equal sets may give unlike averages, where rules remember."""

    def averages_now(self, *told: Any, **more: Any) -> None:
        """All invariants but that one."""
        self._results.clear()
        super().averages_now(*told, **more)


class TwoFacedCalls(Calls):
    """Calls of a mesh in which hostile nodes send other updates to some of their peers."""

    def __init__(self, network: SimulatedNetwork, ledger: Ledger, assault: Assault) -> None:
        super().__init__(network, ledger)
        self.assault = assault

    def send(self, node: Receiver, owner: TrainerId, effect: Send) -> None:
        """As all others do, but for a flipped update to whom the sender deceives."""
        message = effect.message
        deceived = [peer for peer in effect.to if self.assault.is_deceived(node.id, peer)]
        if not deceived or not isinstance(message, ModelParams) or effect.params is None:
            super().send(node, owner, effect)
            return
        super().send(node, owner, Send(tuple(p for p in effect.to if p not in deceived), message, effect.params))
        other = self._other_face(node, effect.params)
        key = RoundKey(message.round, PeerId(message.initiator or message.i_am.id))
        self._ledger.sent.setdefault((node.id, key), set()).add(other.digest)
        body = self._network.encode(Packet(_saying(message, other), other))
        for peer in deceived:
            self._send_one(node, owner, peer, message, key, body)

    def _other_face(self, node: Receiver, params: Params) -> Params:
        job = node.core.jobs[next(iter(node.core.jobs))]
        base, model = job.state.screened_from, job.state.model
        assert self.assault.attack is not None
        assert model is not None
        chance = np.random.default_rng(0)  # a flip takes none
        return crafted(self.assault.attack, base, node.id, {node.id: params}, model.schema, chance)


def rows_of(learner: Learner) -> Poisonable:
    """The trainer of a node, without what methods wrap around it.

    Raises:
        LocalError: its rows cannot be poisoned.
    """
    trainer: object = learner.trainer
    while not isinstance(trainer, Poisonable):
        inside = getattr(trainer, "inner", None)
        if inside is None:
            raise LocalError(f"trainer {learner.name} does not let its rows be poisoned; it needs change_rows")
        trainer = inside
    return trainer


def _saying(message: ModelParams, params: Params) -> ModelParams:
    return message.model_copy(update={"digest": params.digest})
