"""A host that accepts no connection from its network takes part through a relay on another host."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.hosts.mesh import TRAINER, host_mesh, train
from tests.hosts.namespaces import unable
from tests.processes.harness import digests, until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(unable()), reason=unable()),
]
KEY = "correct horse battery staple"
RELAY = "10.66.0.1"  # the first host


@pytest.mark.parametrize(
    "settings",
    [pytest.param({}, id="open"), pytest.param({"MESH_KEY": KEY}, id="keyed", marks=pytest.mark.long)],
)
def test_two_hosts_that_nobody_reaches_train_with_the_others(settings: dict[str, str], tmp_path: Path) -> None:
    with host_mesh(tmp_path, 4, 1, None, **settings) as made:
        made.start(RELAY_PORTS="9200-9205")
        made.start()
        # These listen on the loopback of their hosts only, so nothing on the network leads to them.
        inside = {"LISTEN_ADDRESS": "127.0.0.1", "NODE_IP": "", "RELAY": f"{RELAY}:9200"}
        behind = [made.start(**inside), made.start(**inside)]
        made.ready()
        addresses = {peer["id"]: peer["address"] for peer in made.nodes[1].get("/peers")}
        assert sorted(addresses[node.name] for node in behind) == [f"{RELAY}:9202", f"{RELAY}:9203"]
        for starter in (made.nodes[1], behind[0]):
            train(made.nodes, starter)
            assert len(digests(made.nodes, TRAINER)) == 1
            for node in made.nodes:
                assert node.history(TRAINER)[-1]["contributors"] == sorted(each.name for each in made.nodes)
        # The host of the relay stops answering to one of them: packets are lost, and no connection ends.
        made.rules.cut(0, 2)
        until(
            lambda: "trying again" in behind[0].get("/info").get("unreached", ""), "words that the relay is silent"
        )
        made.rules.heal()
        until(lambda: "unreached" not in behind[0].get("/info"), "a port again")
        made.meshed(*made.nodes)
        train(made.nodes, made.nodes[0])
