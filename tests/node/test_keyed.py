from pathlib import Path

import pytest

from flnet.errors import SettingsError, StartError
from flnet.keys import own_key
from flnet.node.keyed import LONGEST, SHORTEST, made_of, secret_of, signing_of
from flnet.settings import Settings
from tests.signing.keypairs import MESH, TestKey, admitted, learnt, sent

KEY = "correct horse battery staple"


def test_an_open_mesh_signs_nothing(tmp_path: Path) -> None:
    assert signing_of(Settings(), tmp_path) is None


def test_two_nodes_with_the_same_key_let_each_other_in(tmp_path: Path) -> None:
    keys = [own_key(tmp_path / name).text for name in "ab"]
    a, b = (signing_of(Settings(mesh_key=KEY), tmp_path / name) for name in "ab")
    assert a is not None and b is not None

    caller = admitted(b.gate, sent(learnt(a.seal, b.gate)).headers)

    assert caller.key == keys[0]
    assert b.gate.me.key == keys[1]


def test_each_start_has_its_own_session() -> None:
    first, second = (made_of(TestKey(1), MESH).gate.me for _ in range(2))

    assert first.key == second.key and first.session != second.session


def test_the_key_may_stand_in_a_file(tmp_path: Path) -> None:
    file = tmp_path / "mesh.key"
    file.write_text(f"{KEY}\n")

    assert secret_of(Settings(mesh_key_file=file)) == KEY


def test_a_file_that_cannot_be_read_stops_the_start(tmp_path: Path) -> None:
    with pytest.raises(StartError, match="cannot be read"):
        secret_of(Settings(mesh_key_file=tmp_path / "none"))
    (tmp_path / "binary").write_bytes(b"\xff" * 40)
    with pytest.raises(StartError, match="no text"):
        secret_of(Settings(mesh_key_file=tmp_path / "binary"))


@pytest.mark.parametrize("key", ["", "x" * (SHORTEST - 1), "x" * (LONGEST + 1)])
def test_a_key_that_can_be_guessed_is_refused(key: str) -> None:
    with pytest.raises(SettingsError, match="openssl rand"):
        secret_of(Settings(mesh_key=key))
