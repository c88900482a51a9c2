"""An aggregation rule that is proposed to a simulated mesh: no round is averaged by two rules, and none is lost for it."""

from __future__ import annotations

from collections import defaultdict
from random import Random
from typing import Any

import pytest

from flnet.algorithms.registry import parse_rule
from flnet.algorithms.topology import Topology
from flnet.errors import NoProposal, NotReady
from flnet.params.params import PeerId
from flnet.protocol.effects import Average
from flnet.protocol.events import Event, RuleAnswered, RuleProposed, RulesHeard
from flnet.protocol.messages import RuleStatement
from flnet.protocol.updates import RoundKey
from flnet.rounds.participation import Participation
from flnet.rounds.settings import Rules
from flnet.rounds.steps import Phase
from flnet.simulation.cluster import Cluster
from flnet.simulation.node import TRAINER, SimulatedNode
from flnet.simulation.schedule import Faults
from tests.simulation.helpers import any_faults, clear_up, digests, idle, seeds

A, B, C = map(PeerId, ("n00", "n01", "n02"))
NONCE = "0" * 32


class Ruled(Cluster):
    """A mesh whose nodes ask each other for proposals now and then, and average by the rule of their job."""

    def __init__(self, seed: int, faults: Faults | None = None, size: int = 3, rules: Rules | None = None) -> None:
        self.told: list[str] = []
        super().__init__(size, seed, faults, rules=rules)
        self.by_rule = defaultdict[RoundKey, set[str]](set)
        self.asking = Random(seed)
        self.start()
        self.run_for(60)
        for name in self.nodes:
            self._ask_again(name)

    def publishes(self, node: SimulatedNode, text: str) -> None:
        """Keep what people are told."""
        self.told.append(text)

    def work(self, node: SimulatedNode, effect: Any) -> tuple[float, Event]:
        """Average by the rule that the job has now; the ledger holds all averages of a round against each other."""
        if isinstance(effect, Average):
            rule = node.job.settings.rule
            self.by_rule[effect.key].add(rule)
            self.strategy = parse_rule(rule)
        return super().work(node, effect)

    def ask(self, name: PeerId) -> None:
        """Let a node hear what the others that it reaches state."""
        node = self.nodes[name]
        if node.is_dead:
            return
        known = [peer for peer, member in node.core.members.known.items() if member.state.value != "left"]
        reached = [self.nodes[peer] for peer in known if (name, peer) not in self.network.cuts]
        loaded = [one for one in reached if not one.is_dead and one.job.phase is not Phase.LOADING]
        stated = {one.id: one.job.rule_change.statement or RuleStatement() for one in loaded}
        node.tell(TRAINER, RulesHeard(frozenset(known), stated))

    def _ask_again(self, name: PeerId) -> None:
        self.ask(name)
        self.clock.after(self.asking.uniform(0.2, 20.0), lambda: self._ask_again(name))

    def propose(self, rule: str = "median") -> str:
        """The first node proposes a rule; what the proposal is called."""
        self.ask(A)
        self.nodes[A].hear(TRAINER, RuleProposed(rule, NONCE))
        change = self.nodes[A].job.rule_change
        assert change.taken is not None
        self.ask_all()
        return change.taken.mark(TRAINER)

    def take(self, name: PeerId, mark: str) -> bool:
        """A person at a node takes it, if the node is reachable and has loaded its data."""
        self.ask(name)
        try:
            self.nodes[name].hear(TRAINER, RuleAnswered(mark, takes=True))
        except (NoProposal, NotReady):
            return False
        return True

    def ask_all(self) -> None:
        """Let all nodes hear each other."""
        for name in self.nodes:
            self.ask(name)

    @property
    def rules_in_use(self) -> dict[PeerId, str]:
        """By node, the rule of its newest round."""
        return {name: node.job.settings.rule for name, node in self.nodes.items()}

    def checked(self) -> dict[int, str]:
        """The rule of each round, of which there is one."""
        assert all(len(rules) == 1 for rules in self.by_rule.values()), self.by_rule
        return {key.number: next(iter(rules)) for key, rules in sorted(self.by_rule.items())}


def contributors(cluster: Cluster) -> list[set[str]]:
    """Of each round, at the node that has the most."""
    records = [list(node.job.records()) for node in cluster.nodes.values()]
    return [set(record["contributors"]) for record in max(records, key=len)]


def test_a_rule_is_in_force_in_the_round_after_all_have_taken_it() -> None:
    cluster = Ruled(1)
    mark = cluster.propose()
    cluster.trigger(B)
    idle(cluster)
    assert cluster.take(B, mark)
    cluster.run_for(30)
    cluster.trigger(B)
    idle(cluster)
    assert cluster.checked() == {0: "agg1", 1: "agg1"}
    view = cluster.nodes[B].job.view()
    assert [(one.by, one.rule, one.state, one.not_taken) for one in view.rule_proposals] == [
        (A, "median", "taken", [C])
    ]
    assert cluster.take(C, mark)
    cluster.run_for(120)
    assert {node.job.view().next_rule for node in cluster.nodes.values()} == {"median"}
    assert set(cluster.rules_in_use.values()) == {"agg1"}  # until a round opens
    cluster.trigger(C)
    idle(cluster)
    assert cluster.checked() == {0: "agg1", 1: "agg1", 2: "median"}
    assert {node.job.view().next_rule for node in cluster.nodes.values()} == {""}
    assert contributors(cluster) == [{A, B, C}] * 3
    assert len(digests(cluster)) == 1


KINDS = {
    "whole updates": Rules(),
    "late updates": Rules(staleness=2),
    "some train": Rules(Participation(0.7)),
    "segments": Rules(Participation(1.0, names_all=True), topology=Topology("segments", 1)),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", seeds(1, 40))
def test_no_round_of_a_series_is_lost_while_the_rule_changes(seed: int, kind: str) -> None:
    """One node is slow, and one restarts between taking the rule and the first round by it."""
    cluster, rng = Ruled(seed, rules=KINDS[kind]), Random(seed)
    cluster.nodes[B].slowness = 6.0
    cluster.trigger(rng.choice([A, B, C]), 12)
    cluster.run_for(rng.uniform(0, 20))
    mark = cluster.propose()
    cluster.run_for(rng.uniform(0, 10))
    assert cluster.take(B, mark)
    cluster.run_for(rng.uniform(0, 10))
    assert cluster.take(C, mark)
    cluster.run_for(rng.uniform(0, 3))
    cluster.run_until_idle(2.0)
    dead = cluster.kill(C)
    cluster.run_for(rng.uniform(0, 3))
    cluster.restart(dead)
    for _ in range(8):
        cluster.trigger(rng.choice([A, B, C]))
        cluster.run_for(rng.uniform(1, 20))
    cluster.run_for(600)
    idle(cluster)
    cluster.trigger(A)
    idle(cluster)
    rules = cluster.checked()
    assert list(rules.values()) == sorted(rules.values())  # agg1, and from some round on median
    assert rules[max(rules)] == "median"
    assert set(cluster.rules_in_use.values()) == {"median"}
    assert len(digests(cluster)) == 1
    assert [words for words in cluster.told if "the nodes do not agree" in words] == []


@pytest.mark.parametrize("seed", seeds(3, 200))
def test_two_nodes_never_average_a_round_by_two_rules_whatever_happens(seed: int) -> None:
    rng = Random(seed)
    cluster = Ruled(seed, any_faults(rng), rules=KINDS[sorted(KINDS)[seed % len(KINDS)]])
    mark = cluster.propose(rng.choice(["median", "trimmed-mean:0.2", "agg0"]))
    waiting = [B, C]
    for _ in range(10):
        cluster.trigger(rng.choice([A, B, C]), rng.choice([1, 3]))
        cluster.run_for(rng.uniform(0, 15))
        match rng.choice(["take", "restart", "cut", "heal", ""]):
            case "take" if waiting and cluster.take(waiting[0], mark):
                waiting.pop(0)
            case "restart":
                dead = cluster.kill(rng.choice([A, B, C]))
                cluster.run_for(rng.uniform(0, 20))
                cluster.restart(dead)
            case "cut":
                one = rng.choice([A, B, C])
                cluster.cut([one], {A, B, C} - {one})
            case "heal":
                cluster.heal()
    cluster.heal()
    cluster.run_for(120)
    assert all(cluster.take(name, mark) for name in waiting)
    clear_up(cluster)
    clear_up(cluster)
    rules = cluster.checked()
    assert rules[max(rules)] != "agg1"
    assert len(set(cluster.rules_in_use.values())) == 1
