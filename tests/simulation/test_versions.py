"""A mesh without common rounds: every version reaches everyone, under faults as well."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from flnet.effects import Average, Evaluate, Train
from flnet.events import Event, Mark, SumSpoilt, Trained
from flnet.jobs import Rules
from flnet.params import Params, PeerId, RoundKey, Update
from flnet.simulation import Cluster, InvariantBroken
from flnet.simulation.node import SimulatedNode
from flnet.simulation.playing import play
from flnet.simulation.restarts import kill, start_again
from flnet.simulation.schedule import Reduction, draw
from flnet.simulation.versions import VersionLedger, reach_all

ALONE = Rules(asynchronous=True)
FIRST, SECOND, THIRD = PeerId("n00"), PeerId("n01"), PeerId("n02")


def joined(size: int = 3) -> Cluster:
    cluster = Cluster(size, 5, rules=ALONE)
    cluster.start()
    cluster.run_for(20)
    return cluster


def wake(cluster: Cluster, *names: PeerId) -> None:
    for name in names:
        assert cluster.trigger(name)
        assert cluster.run_until_idle()
        cluster.run_for(1)


def test_each_node_merges_what_the_others_made_since_it_woke_last() -> None:
    cluster = joined()
    wake(cluster, FIRST, SECOND, SECOND, THIRD, FIRST)
    outcomes = {name: [r.outcome for r in node.job.state.history] for name, node in cluster.nodes.items()}
    assert outcomes[SECOND][0] == "merged n00 v1, trained, now v1"
    assert outcomes[THIRD] == ["merged n00 v1 and n01 v2, trained, now v1"]
    assert outcomes[FIRST][1] == "merged n01 v2 and n02 v1, trained, now v2"


def test_everybody_sees_the_newest_versions_without_asking() -> None:
    cluster = joined()
    wake(cluster, FIRST, SECOND, SECOND)
    rows = cluster.nodes[THIRD].job.view()["versions"]["peers"]
    assert [(row["peer"], row["version"], row["newer"]) for row in rows] == [("n00", 1, True), ("n01", 2, True)]


def test_a_slow_node_holds_up_nobody_and_its_model_counts() -> None:
    cluster = joined()
    cluster.nodes[THIRD].slowness = 50.0
    cluster.trigger(THIRD)
    cluster.trigger(FIRST, 5)
    cluster.clock.run(lambda: cluster.nodes[FIRST].job.state.number == 5, cluster.clock.now + 100)
    assert cluster.nodes[THIRD].job.state.number == 1 and cluster.nodes[THIRD].job.busy
    assert cluster.run_until_idle()
    wake(cluster, FIRST)
    assert cluster.nodes[FIRST].job.state.history[-1].outcome == "merged n02 v1, trained, now v6"


def test_a_node_that_lost_its_disk_takes_up_the_others_models() -> None:
    cluster = joined()
    wake(cluster, FIRST, SECOND, THIRD, FIRST)
    again = start_again(cluster, kill(cluster, FIRST), keeps=False)
    cluster.run_for(20)
    wake(cluster, FIRST, SECOND)
    assert again.job.state.history[-1].contributors == (FIRST, SECOND, THIRD)
    merged = cluster.nodes[SECOND].job.state.versions.merged[FIRST]
    assert merged.mark.number == 1 and merged.into == 2
    reach_all(cluster)


def test_an_absurd_model_is_left_out_also_where_it_was_folded_already(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flnet.jobs.state.HOLD_BYTES", 1)  # room for one model beside the own one
    cluster = joined(5)
    work, spoilt = cluster.work, list[PeerId]()

    def absurd(node: SimulatedNode, effect: Train | Average | Evaluate) -> tuple[float, Event]:
        seconds, event = work(node, effect)
        if isinstance(event, Trained) and node.id == FIRST:
            event = replace(event, params=Params({n: v * np.float32(1e6) + 1e6 for n, v in event.params.items()}))
        spoilt.extend([node.id] * isinstance(event, SumSpoilt))
        return seconds, event

    names = list(cluster.nodes)
    wake(cluster, *names[1:])
    monkeypatch.setattr(cluster, "work", absurd)
    wake(cluster, FIRST, *names[1:])
    assert spoilt == names[1:]
    for name in names[1:]:
        record = cluster.nodes[name].job.state.history[-1]
        assert record.outcome.endswith("; left out: n00") and FIRST not in record.contributors
        assert FIRST not in cluster.nodes[name].job.state.versions.merged


def test_two_kinds_of_rounds_in_one_mesh_do_not_mix() -> None:
    cluster = joined(2)
    cluster.rules = None
    wake(cluster, FIRST)
    held = cluster.nodes[FIRST].job.state.model
    start_again(cluster, kill(cluster, SECOND))
    cluster.run_for(20)
    words: list[str] = []
    cluster._listen = lambda at, who, text: words.append(f"{who} {text}")
    cluster.trigger(FIRST)
    cluster.run_until_idle()
    assert any("n01 says no version" in said and "there of each node by itself" in said for said in words)
    assert cluster.nodes[FIRST].job.state.history[-1].contributors == (FIRST,)
    assert held is not None and cluster.nodes[SECOND].job.state.number == -1


@pytest.mark.parametrize("seed", [20116, 20506, 30392])
def test_schedules_that_broke_a_mesh_once_do_so_no_more(seed: int) -> None:
    """Lost news counted as no answer to the next question; an answer to older news hid that there is newer."""
    assert play(Reduction(asynchronous=True).of(draw(seed))) is None


@pytest.mark.parametrize("first", range(0, 60, 20))
def test_schedules_of_faults(first: int) -> None:
    for seed in range(first, first + 20):
        assert play(Reduction(asynchronous=True).of(draw(seed))) is None


def test_a_version_that_is_told_differently_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: nodes forget with a restart which version they had told."""
    monkeypatch.setattr("flnet.jobs.taking_up.own_update", lambda *said: None)
    assert any(_plays(seed) for seed in range(40))


def test_a_peer_that_is_not_asked_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: versions above 2 are held for known."""
    newer = Mark.is_newer_than
    monkeypatch.setattr(Mark, "is_newer_than", lambda self, other: self.number < 3 and newer(self, other))
    assert any("has not merged" in _plays(seed) for seed in range(40))


def _plays(seed: int) -> str:
    failure = play(replace(draw(seed), asynchronous=True))
    return failure.words if failure else ""


def test_a_contributor_that_no_record_names_is_found() -> None:
    cluster = joined()
    wake(cluster, FIRST)
    ledger, state = cluster.ledger, cluster.nodes[FIRST].job.state
    assert isinstance(ledger, VersionLedger)
    ledger._merges[FIRST, 1] = {FIRST, PeerId("n09")}
    with pytest.raises(InvariantBroken, match="n09"):
        ledger.made(state)


def test_a_digest_that_nobody_told_is_found() -> None:
    cluster = joined()
    wake(cluster, FIRST)
    model = cluster.nodes[SECOND].job.state.model
    assert model is not None
    key = RoundKey(1, THIRD)
    effect = Average(key, (Update(SECOND, key, Params({"w": model.shared["w"] + 1, "b": model.shared["b"]})),))
    with pytest.raises(InvariantBroken, match="never told"):
        cluster.ledger.averages_now(THIRD, effect, model.shared)
