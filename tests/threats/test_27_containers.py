"""Threat 27: who breaks out of a process finds little: no root, no way to become it, nothing to write, no keys."""

from __future__ import annotations

import re
import stat
from pathlib import Path

from flnet.security.keys import PRIVATE, own_key
from flnet.store.sqlite_store import DiskStore

ROOT = Path(__file__).parents[2]
COMPOSE = (ROOT / "docker-compose.yml").read_text()
DOCKERFILE = (ROOT / "Dockerfile").read_text()


def test_the_image_runs_as_a_user_without_a_name_or_rights() -> None:
    (user,) = re.findall(r"^USER (\d+):(\d+)$", DOCKERFILE, re.MULTILINE)
    assert all(int(number) >= 10_000 for number in user)


def test_every_container_is_read_only_without_capabilities_and_can_gain_none() -> None:
    shared = COMPOSE.partition("x-node: &node")[2].partition("\nservices:")[0]
    for line in (
        "  read_only: true\n",
        "  cap_drop:\n    - ALL\n",
        "  security_opt:\n    - no-new-privileges:true",
    ):
        assert line in shared
    services = re.findall(r"^  (node-\w+):\n    (.*)\n", COMPOSE, re.MULTILINE)
    assert len(services) >= 3
    assert all(first == "<<: *node" for _, first in services)
    assert not re.search(r"privileged: true|cap_add|network_mode: host|docker\.sock", COMPOSE)


def test_each_node_has_a_volume_of_its_own_for_data_and_ports_lead_to_this_machine_only() -> None:
    volumes = re.findall(r"- \$\{DATASETS:-(\S+)\}:/data$", COMPOSE, re.MULTILINE)  # the page imports into it
    assert len(volumes) == len(set(volumes)) == len(re.findall(r"^  node-\w+:$", COMPOSE, re.MULTILINE))
    # No folder of the host, unless it is named.
    assert not any(volume.startswith((".", "/", "~")) for volume in volumes)
    assert all(port.startswith("127.0.0.1:") for port in re.findall(r'- "([\d.:]+:4000)"', COMPOSE))


async def test_a_state_folder_and_its_key_are_for_their_owner_only(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    store = DiskStore(folder)
    own_key(folder)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE((folder / PRIVATE).stat().st_mode) == 0o600
    assert stat.S_IMODE((folder / "state.sqlite3").stat().st_mode) == 0o600
    await store.close()


def test_no_secret_stands_in_the_files_of_the_containers() -> None:
    for text in (COMPOSE, DOCKERFILE):
        assert not re.search(r"FLNET_(MESH_KEY|OPERATOR_TOKEN)\s*[:=]\s*\S", text)
