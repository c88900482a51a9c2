"""A real node is backed up while it runs, lost with its folder, and restored into another one: its rounds go on."""

from __future__ import annotations

import shutil
import stat
from pathlib import Path

import pytest

from flnet.security.keys import noted
from flnet.store.backup import back_up, restore
from tests.processes.harness import at_rest, digests, harness, kept, until

pytestmark = pytest.mark.slow


def test_a_restored_node_goes_on_where_its_backup_was_taken(tmp_path: Path) -> None:
    with harness(tmp_path) as mesh:
        first, _, last = [mesh.start() for _ in range(3)]
        mesh.ready()
        mesh.go()
        first.trigger()
        until(lambda: at_rest(mesh.nodes, 0) and kept(mesh.nodes, 0), "a round before the backup")
        key = noted(mesh.state(last))
        back_up(mesh.state(last), archive := tmp_path / "n1.flnet")
        assert stat.S_IMODE(archive.stat().st_mode) == 0o600
        first.trigger()
        until(lambda: at_rest(mesh.nodes, 1) and kept(mesh.nodes, 1), "a round that is not in the backup")
        last.kill()
        shutil.rmtree(mesh.state(last))
        restore(archive, elsewhere := tmp_path / "elsewhere")
        mesh.again(last, STATE_PATH=str(elsewhere))
        mesh.up(last)
        mesh.meshed(*mesh.nodes)
        assert noted(elsewhere) == key is not None
        assert first.told("peer_key") == []
        assert last.history()[0]["round"] == 0
        last.trigger()  # from its older model, so that the others do without its update, and it takes their average
        until(lambda: at_rest(mesh.nodes, 2) and kept(mesh.nodes, 2), "the first round after the restore")
        until(lambda: len(digests(mesh.nodes)) == 1, "the average of the others on the restored node")
        last.trigger()
        until(lambda: at_rest(mesh.nodes, 3) and kept(mesh.nodes, 3), "a round of all")
        assert {tuple(node.history()[-1]["contributors"]) for node in mesh.nodes} == {("n0", "n1", "n2")}
        assert len(digests(mesh.nodes)) == 1
