"""People go back to older models in the middle of everything: rounds start alike, and all become one again."""

from __future__ import annotations

from random import Random

import pytest

from flnet.effects import Train
from flnet.errors import PeerError
from flnet.events import Paused, Resumed, RolledBack, SeriesStopped
from flnet.params import Digest, Params, PeerId
from flnet.simulation import TRAINER, Cluster
from tests.simulation.helpers import STORM, any_weather, clear_up, digests, mesh, rounds, stuck, top, train_until

ORDERS = (Paused(), Resumed(), SeriesStopped())


class Shelves:
    """The models that nodes held, as their stores would have them."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.kept: dict[PeerId, dict[Digest, RolledBack]] = {name: {} for name in cluster.nodes}

    def look(self) -> None:
        for name, node in self.cluster.nodes.items():
            model = node.job.state.model
            if model is not None and model.round >= 0:
                back = RolledBack(model.shared, Params(), model.round, model.contributors)
                self.kept[name][model.shared.digest] = back

    def go_back(self, name: PeerId, rng: Random) -> bool:
        """A person goes back to some model; whether the node did."""
        if not self.kept[name]:
            return False
        back = self.kept[name][rng.choice(sorted(self.kept[name]))]
        try:
            self.cluster.nodes[name].hear(TRAINER, back)
        except PeerError:
            return False
        return True


def meddle(cluster: Cluster, rng: Random, times: int) -> int:
    """Ask for rounds, go back, pause and stop, here and there; how often a node went back."""
    shelves, gone_back = Shelves(cluster), 0
    for _ in range(times):
        who, roll = rng.choice(list(cluster.nodes)), rng.random()
        if roll < 0.4:
            cluster.trigger(who, rng.choice([1, 3]))
        elif roll < 0.9:
            gone_back += shelves.go_back(who, rng)
        else:
            cluster.nodes[who].hear(TRAINER, rng.choice(ORDERS))
        if rng.random() < 0.5:
            cluster.run_for(rng.uniform(0, 6))
        else:
            assert cluster.run_until_idle(), stuck(cluster)
        shelves.look()
    return gone_back


@pytest.mark.parametrize("seed", range(10))
def test_whoever_goes_back_in_any_weather_no_round_hangs_and_all_become_one(seed: int) -> None:
    rng = Random(seed)
    cluster = mesh(rng.choice([2, 3, 5]), seed, STORM if seed % 2 else any_weather(rng))
    assert meddle(cluster, rng, 40) > 0
    for node in cluster.nodes.values():
        node.hear(TRAINER, SeriesStopped())
        node.hear(TRAINER, Resumed())
    assert cluster.run_until_idle(), stuck(cluster)
    clear_up(cluster, next(iter(cluster.nodes)))
    assert (rounds(cluster), len(digests(cluster))) == ({top(cluster)}, 1)


@pytest.mark.parametrize("starter", [0, 1, 2])
def test_the_round_starts_everywhere_from_the_model_of_the_node_that_starts_it(starter: int) -> None:
    cluster = mesh(3, seed=starter)
    shelves = Shelves(cluster)
    train_until(cluster, 0, seed=1)
    shelves.look()
    train_until(cluster, 3, seed=2)
    (newest,) = digests(cluster)
    who = list(cluster.nodes)[1]
    (back,) = shelves.kept[who].values()
    cluster.nodes[who].hear(TRAINER, back)
    assert digests(cluster) == {newest, back.shared.digest}
    begun: dict[PeerId, Digest] = {}
    for name, node in cluster.nodes.items():
        node.job.state.history.clear()
        _watch(cluster, name, begun)
    assert cluster.trigger(list(cluster.nodes)[starter])
    assert cluster.run_until_idle(), stuck(cluster)
    wanted = back.shared.digest if starter == 1 else newest
    assert begun == dict.fromkeys(cluster.nodes, wanted)
    assert len(digests(cluster)) == 1
    for node in cluster.nodes.values():
        assert node.job.history()[-1]["contributors"] == list(cluster.nodes)


def _watch(cluster: Cluster, name: PeerId, begun: dict[PeerId, Digest]) -> None:
    """Note the model that the node's training starts from."""
    node = cluster.nodes[name]
    perform = node._perform

    def watched(owner: object, effect: object) -> None:
        if isinstance(effect, Train):
            begun[name] = effect.params.digest
        perform(owner, effect)  # type: ignore[arg-type]

    node._perform = watched  # type: ignore[method-assign]
