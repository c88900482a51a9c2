"""Series of rounds with a goal, in meshes that lose messages and nodes: all nodes decide alike and stop."""

from __future__ import annotations

from random import Random

import pytest

from flnet.errors import PeerError
from flnet.params.params import PeerId
from flnet.protocol.events import Paused, Resumed, RoundTriggered, SeriesStopped
from flnet.protocol.updates import Report
from flnet.rounds import stopping
from flnet.rounds.goals import Decision, GoalProgress, decide
from flnet.simulation.cluster import Cluster
from flnet.simulation.node import TRAINER
from tests.simulation.helpers import STORM, any_faults, digests, mesh, seeds

LONG = 4 * 3600.0  # seconds
GOALS = (
    "accuracy>=0.65",
    "no-gain 3 0.01",
    "every accuracy>=0.3",
    "own accuracy>=0.8",
    "within 20",
    "accuracy>=1",
)


class Watched:
    """Checks every decision: equal reports give equal decisions, and a node reports the same to all."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.made: list[tuple[int, str | None]] = []
        self._by_input: dict[object, Decision] = {}
        self._reported: dict[tuple[int, PeerId], Report] = {}
        monkeypatch.setattr(stopping, "decide", self._decide)

    def _decide(
        self, goal: object, progress: GoalProgress, reports: dict[PeerId, Report], **more: object
    ) -> Decision:
        decision: Decision = decide(goal, progress, reports, **more)  # type: ignore[arg-type]
        number = more["number"]
        assert isinstance(number, int)
        for peer, report in reports.items():
            assert self._reported.setdefault((number, peer), report) == report
        given = (str(goal), progress, frozenset(reports.items()), frozenset(more.items()))
        assert self._by_input.setdefault(given, decision) == decision
        self.made.append((number, decision.over))
        return decision


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Watched:
    return Watched(monkeypatch)


def ask(cluster: Cluster, who: PeerId, until: str, rounds: int) -> bool:
    try:
        cluster.nodes[who].hear(TRAINER, RoundTriggered(rounds, until=until))
    except PeerError:
        return False
    return True


def open_on(cluster: Cluster, *gone: PeerId) -> list[PeerId]:
    """Nodes with an open series, except those that are gone."""
    return [name for name, node in cluster.nodes.items() if node.job.series.stopping.series and name not in gone]


def run(cluster: Cluster, *gone: PeerId) -> None:
    """Run until the series has ended on all nodes except those that are gone, and no round is open there."""
    names = [name for name in cluster.nodes if name not in gone]
    cluster.clock.run(
        lambda: not open_on(cluster, *gone) and not any(cluster.nodes[name].job.busy for name in names),
        cluster.clock.now + LONG,
    )
    assert open_on(cluster, *gone) == []


def endings(cluster: Cluster, *gone: PeerId) -> set[tuple[object, ...]]:
    """How, in which round and with which sentence the series ended on the nodes."""
    goals = [node.job.view().goal for name, node in cluster.nodes.items() if name not in gone]
    return {(goal.state, goal.round, goal.words, goal.accuracy) for goal in goals if goal is not None}


@pytest.mark.parametrize("until", GOALS)
@pytest.mark.parametrize("seed", seeds(2, 4))
def test_without_faults_all_nodes_end_in_the_same_round_with_the_same_sentence(
    seed: int, until: str, watched: Watched
) -> None:
    cluster = mesh(2 + seed, seed)
    assert ask(cluster, PeerId("n01"), until, 12)
    run(cluster)
    assert len(endings(cluster)) == 1
    assert len(digests(cluster)) >= 1
    assert watched.made.count((watched.made[-1][0], watched.made[-1][1])) == 2 + seed


@pytest.mark.parametrize("seed", seeds(4, 16))
def test_every_node_ends_the_series_under_faults(seed: int, watched: Watched) -> None:
    rng = Random(seed)
    cluster = mesh(rng.choice([2, 3, 5]), seed, STORM if seed % 2 else any_faults(rng))
    for _ in range(3):
        until = rng.choice(GOALS)
        for name in rng.sample(list(cluster.nodes), rng.choice([1, 1, 2])):
            ask(cluster, name, until, rng.choice([1, 6, 15]))
        run(cluster)
    assert watched.made


@pytest.mark.parametrize("seed", seeds(2, 6))
def test_the_others_continue_when_the_node_that_was_asked_dies(seed: int, watched: Watched) -> None:
    rng = Random(seed)
    cluster = mesh(4, seed)
    first, *others = list(cluster.nodes)
    assert ask(cluster, first, "accuracy>=1", 7)
    cluster.clock.run(lambda: cluster.nodes[others[0]].job.number >= 2)
    cluster.run_for(rng.uniform(0, 3))
    cluster.cut([first], others)
    run(cluster, first)
    (state, number, _, _) = next(iter(endings(cluster, first)))
    assert (state, number, len(endings(cluster, first))) == ("given_up", 6, 1)


@pytest.mark.parametrize("seed", seeds(2, 6))
def test_a_node_that_is_left_alone_gives_up_before_it_is_far_ahead(seed: int, watched: Watched) -> None:
    cluster = mesh(4, seed)
    names = list(cluster.nodes)
    assert ask(cluster, names[0], "accuracy>=1", 60)
    last = cluster.nodes[names[3]].job
    for i in range(3):
        cluster.clock.run(lambda at=2 * i + 1: last.number >= at)  # type: ignore[misc]
        cluster.cut([names[i]], [name for name in names if name != names[i]])
    run(cluster, *names[:3])
    (state, number, sentence, _) = next(iter(endings(cluster, *names[:3])))
    assert (state, sentence) == ("given_up", "no other node has been reachable for 36 s")
    assert isinstance(number, int)
    assert number <= 7
    assert last.number == number


def test_a_node_that_was_alone_for_a_while_continues_with_the_others(watched: Watched) -> None:
    cluster = mesh(3, seed=1)
    first, *others = list(cluster.nodes)
    assert ask(cluster, others[0], "accuracy>=1", 40)
    cluster.run_for(10)
    cluster.cut([first], others)
    cluster.run_for(20)
    cluster.heal()
    run(cluster)
    cluster.run_for(60)
    run(cluster)
    assert {ending[1] for ending in endings(cluster, first)} == {39}
    assert cluster.nodes[first].job.number <= 39


@pytest.mark.parametrize("seed", seeds(2, 12))
@pytest.mark.parametrize("who", ["n00", "n02"])
def test_a_stop_at_any_node_ends_the_series_on_all_within_a_round(who: str, seed: int, watched: Watched) -> None:
    cluster = mesh(3, seed)
    assert ask(cluster, PeerId("n00"), "accuracy>=1", 500)
    cluster.run_for(5 + Random(seed).uniform(0, 10))
    at = cluster.nodes[PeerId(who)].job.number
    cluster.nodes[PeerId(who)].hear(TRAINER, SeriesStopped())
    run(cluster)
    assert all(node.job.number <= at + 1 for node in cluster.nodes.values())
    assert all("stopped the series at " + who in ending[2] for ending in endings(cluster))  # type: ignore[operator]


def test_the_others_continue_while_the_node_that_was_asked_is_paused(watched: Watched) -> None:
    cluster = mesh(3, seed=3)
    first = PeerId("n00")
    assert ask(cluster, first, "accuracy>=1", 8)
    cluster.run_for(5)
    cluster.nodes[first].hear(TRAINER, Paused())
    run(cluster)
    assert {ending[:2] for ending in endings(cluster)} == {("given_up", 7)}
    starters = {record["initiator"] for record in cluster.nodes[first].job.records()}
    assert starters == {first, PeerId("n01")}
    cluster.nodes[first].hear(TRAINER, Resumed())
    assert open_on(cluster) == []
