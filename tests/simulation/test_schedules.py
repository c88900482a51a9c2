"""Nodes with schedules: new examples start one round, however many nodes notice them at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from random import Random

import pytest

from flnet.node.event_queue import Deliver
from flnet.node.schedules import EVERY_SECONDS, Schedules
from flnet.params.params import PeerId, TrainerId
from flnet.protocol.events import DataChanged, Event, RoundTriggered
from flnet.rounds.participation import Participation
from flnet.rounds.schedule import Moment, Schedule
from flnet.rounds.settings import Rules
from flnet.simulation.cluster import Cluster
from flnet.simulation.node import TRAINER, SimulatedNode, declared, initial
from tests.simulation.helpers import any_faults, digests, mesh, seeds


class Scheduled:
    """A mesh whose nodes have schedules, which are checked every five seconds, at different times."""

    def __init__(self, cluster: Cluster, when: str, rng: Random | None = None) -> None:
        self.cluster = cluster
        self.started: Counter[str] = Counter()  # rounds that schedules started, by node
        self.schedules: dict[PeerId, Schedules] = {}
        self.when = Schedule.parse(when)
        for name in cluster.nodes:
            self.attach(name)
            self._check_again(name, rng.uniform(0, EVERY_SECONDS) if rng else EVERY_SECONDS)

    def attach(self, name: PeerId) -> None:
        """Schedule rounds of the node of this name, which may have been restarted."""
        core = self.cluster.nodes[name].core
        self.schedules[name] = Schedules(core, self._teller(name), self.when, self._now)

    def arrive(self, *names: PeerId, rows: int = 10) -> None:
        """Bring new examples to these nodes."""
        for name in names:
            self.cluster.nodes[name].tell(TRAINER, DataChanged(declared(), initial(0), rows))

    def rounds(self) -> int:
        """How many rounds there were."""
        return 1 + max(node.job.number for node in self.cluster.nodes.values())

    def _teller(self, name: PeerId) -> Deliver:
        def tell(owner: TrainerId | None, event: Event) -> None:
            self.started[name] += isinstance(event, RoundTriggered)
            self.cluster.nodes[name].tell(owner, event)

        return tell

    def _now(self, machine: bool) -> Moment:
        return Moment(self.cluster.clock.now, self.cluster.clock.now % 86_400)

    def _check_again(self, name: PeerId, seconds: float) -> None:
        def check() -> None:
            if not self.cluster.nodes[name].is_dead:
                self.schedules[name].tick()
            self._check_again(name, EVERY_SECONDS)

        self.cluster.clock.after(seconds, check, background=True)


def trained(cluster: Cluster) -> Iterator[tuple[PeerId, SimulatedNode]]:
    """Nodes that trained in the newest round."""
    for name, node in cluster.nodes.items():
        if node.job.records() and node.job.records()[-1]["examples"] is not None:
            yield name, node


def test_new_examples_of_one_node_start_one_round_within_a_minute() -> None:
    cluster = mesh(4, seed=1)
    plan = Scheduled(cluster, "new 10")
    cluster.run_for(120)
    assert plan.rounds() == 0
    plan.arrive(PeerId("n02"))
    cluster.run_for(60)
    assert (plan.rounds(), plan.started) == (1, {"n02": 1})
    assert len(list(trained(cluster))) == 4 and len(digests(cluster)) == 1
    assert cluster.nodes[PeerId("n02")].job.records()[-1]["why"] == "10 new examples have come"
    cluster.run_for(300)
    assert plan.rounds() == 1


@pytest.mark.parametrize("name", ["n00", "n01", "n02", "n03", "n04", "n05"])
def test_new_examples_start_one_round_even_if_other_nodes_are_chosen_for_it(name: str) -> None:
    cluster = mesh(6, seed=2, rules=Rules(Participation(0.34)))
    plan = Scheduled(cluster, "new 10")
    plan.arrive(PeerId(name))
    cluster.run_for(300)
    assert (plan.rounds(), plan.started) == (1, {name: 1})
    chosen = name in (cluster.nodes[PeerId(name)].job.records()[-1]["chosen"] or ())
    assert cluster.nodes[PeerId(name)].job.arrivals.arrived.rows == (0 if chosen else 10)


@pytest.mark.parametrize("seed", seeds(2, 6))
def test_nodes_that_notice_at_the_same_moment_make_one_round(seed: int) -> None:
    cluster = mesh(5, seed)
    plan = Scheduled(cluster, "new 10")
    plan.arrive(*cluster.nodes)
    cluster.run_for(120)
    assert plan.started.total() == 5
    assert (plan.rounds(), len(digests(cluster))) == (1, 1)
    assert all(node.job.arrivals.arrived.rows == 0 for node in cluster.nodes.values())


def test_nodes_with_the_same_interval_share_one_round_each_time() -> None:
    cluster = mesh(4, seed=3)
    plan = Scheduled(cluster, "every 2m", Random(3))
    cluster.run_for(5 * 140)
    assert plan.rounds() == 5
    assert len(digests(cluster)) == 1


def test_nobody_waits_for_an_unwilling_node_which_averages_nevertheless() -> None:
    cluster = mesh(3, seed=4)
    plan = Scheduled(cluster, "new 10")
    night = PeerId("n01")
    plan.schedules[night].usual = Schedule.parse("between 00:05-00:30, decline")
    cluster.run_for(60)
    plan.arrive(PeerId("n00"))
    cluster.run_for(15)  # far less than a forced average takes
    assert {name for name, _ in trained(cluster)} == {"n00", "n02"}
    assert len(digests(cluster)) == 1 and plan.rounds() == 1
    cluster.run_for(240)
    plan.arrive(PeerId("n00"))
    cluster.run_for(60)
    assert len(list(trained(cluster))) == 3


def test_a_series_continues_without_a_node_that_becomes_unwilling() -> None:
    cluster = mesh(3, seed=5)
    plan = Scheduled(cluster, "never")
    first = PeerId("n00")
    plan.schedules[first].usual = Schedule.parse("between 00:00-00:02, decline")
    cluster.trigger(first, 60, until="accuracy>=1")
    cluster.run_for(240)
    by = Counter(record["initiator"] for record in cluster.nodes[PeerId("n01")].job.records())
    assert by.keys() == {first, "n01"}
    last = cluster.nodes[PeerId("n01")].job.records()[-1]
    assert first not in last["contributors"] and len(last["contributors"]) == 2


@pytest.mark.parametrize("seed", seeds(3, 6))
def test_new_examples_start_rounds_under_faults_and_these_end(seed: int) -> None:
    """Faults may cost a round, but there are never more rounds than arrivals."""
    rng = Random(seed)
    cluster = mesh(4, seed, any_faults(rng))
    plan = Scheduled(cluster, "new 10", rng)
    arrivals = 0
    for _ in range(4):
        names = rng.sample(list(cluster.nodes), rng.randint(1, 4))
        plan.arrive(*names)
        arrivals += len(names)
        cluster.run_for(rng.uniform(0, 200))
    cluster.run_for(400)
    assert 1 <= plan.started.total() <= arrivals
    assert all(node.job.arrivals.arrived.rows == 0 for node in cluster.nodes.values())
    rounds = plan.rounds()
    cluster.run_for(300)
    assert plan.rounds() == rounds <= arrivals


def test_examples_that_arrived_before_a_kill_count_after_the_restart() -> None:
    cluster = mesh(3, seed=6)
    plan, name = Scheduled(cluster, "new 10"), PeerId("n01")
    plan.arrive(name, rows=6)
    cluster.nodes[name].tell(TRAINER, plan.schedules[name].plan(TRAINER, "new 12"))  # saved, too
    cluster.run_for(5)
    cluster.restart(cluster.kill(name))
    plan.attach(name)
    cluster.run_for(60)
    plan.arrive(name, rows=5)
    cluster.run_for(60)
    assert plan.rounds() == 0
    plan.arrive(name, rows=1)
    cluster.run_for(60)
    assert (plan.rounds(), plan.started) == (1, {name: 1})
    assert cluster.nodes[name].job.records()[-1]["why"] == "12 new examples have come"
