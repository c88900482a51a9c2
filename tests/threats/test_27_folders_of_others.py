"""Threat 27: who has an account on the machine puts a folder or a key of his own where a node keeps its."""

from __future__ import annotations

import os
import shutil
import stat
from contextlib import nullcontext
from grp import struct_group
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from flnet.cli.commands import cli
from flnet.cli.options import read_config
from flnet.errors import StartError
from flnet.security import ownership
from flnet.security.keys import PRIVATE, own_key
from flnet.security.ownership import check_file, check_folder
from tests.cli.live import flnet
from tests.ports import free_port

OTHER = 54_321
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to another user")


def started(folder: Path, **variables: str) -> Result:
    """`flnet run` on this folder, which is expected to refuse it."""
    values = {"FLNET_NODE_PORT": str(free_port()), "FLNET_STATE_PATH": str(folder), **variables}
    return CliRunner().invoke(cli, ["run"], env=values)


@pytest.fixture(autouse=True)
def not_served(monkeypatch: pytest.MonkeyPatch) -> None:
    """A node that starts although it should not ends at once, with a failure."""

    async def serve(*_: object) -> None:
        pytest.fail("the node started")

    monkeypatch.setattr("flnet.cli.run.serve", serve)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A state folder with a key, as an earlier start left it."""
    monkeypatch.setattr("flnet.cli.run.set_up_logging", lambda level: None)
    path = tmp_path / "parent" / "state"
    path.mkdir(mode=0o700, parents=True)
    path.parent.chmod(0o755)
    own_key(path)
    return path


@as_root
def test_a_state_folder_of_another_user_is_refused_and_nothing_is_written_there(tmp_path: Path) -> None:
    planted = tmp_path / "state"
    planted.mkdir(mode=0o777)
    os.chown(planted, OTHER, OTHER)
    with flnet(tmp_path, "run", FLNET_STATE_PATH=str(planted), FLNET_NODE_PORT=str(free_port())) as process:
        out, err = process.communicate(timeout=60)
    assert process.returncode == 1
    assert f"the state folder {planted} belongs to the user {OTHER}" in err
    assert "FLNET_STATE_PATH" in err
    assert "Traceback" not in out + err
    assert list(planted.iterdir()) == []


@as_root
@pytest.mark.parametrize("name", [PRIVATE, "operator-token", "state.sqlite3"])
def test_a_planted_file_in_the_state_folder_is_refused(folder: Path, name: str) -> None:
    (folder / name).touch()
    os.chown(folder / name, OTHER, OTHER)
    refused = started(folder)
    assert refused.exit_code == 1
    assert f"{folder / name} in the state folder belongs to the user {OTHER}" in refused.stderr


@as_root
def test_a_parent_of_another_user_is_refused_also_for_a_new_folder(folder: Path) -> None:
    os.chown(folder.parent, OTHER, OTHER)
    for path in (folder, folder.parent / "new" / "state"):
        refused = started(path)
        assert refused.exit_code == 1
        assert f"leads through {folder.parent}, which belongs to the user {OTHER}" in refused.stderr
        assert not (folder.parent / "new").exists()


def test_a_parent_in_which_everybody_writes_is_refused_unless_it_is_sticky(folder: Path) -> None:
    folder.parent.chmod(0o777)
    refused = started(folder)
    assert refused.exit_code == 1
    assert f"others can write to {folder.parent} (mode 777)" in refused.stderr
    assert f"chmod go-w {folder.parent}" in refused.stderr
    folder.parent.chmod(0o1777)  # as /tmp
    check_folder(folder)


def test_a_link_is_followed_through_every_folder_that_could_be_replaced(folder: Path, tmp_path: Path) -> None:
    middle = tmp_path / "middle"
    middle.mkdir()
    (middle / "second").symlink_to(folder)
    (tmp_path / "first").symlink_to("middle/../middle/second")
    check_folder(tmp_path / "first")
    middle.chmod(0o777)
    with pytest.raises(StartError, match=f"others can write to {middle}"):
        check_folder(tmp_path / "first")


@as_root
def test_a_link_of_another_user_is_refused(folder: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(folder)
    os.chown(link, OTHER, OTHER, follow_symlinks=False)
    with pytest.raises(StartError, match=f"leads through {link}"):
        check_folder(link)


def test_links_in_a_circle_are_no_way(tmp_path: Path) -> None:
    (tmp_path / "here").symlink_to("there")
    (tmp_path / "there").symlink_to("here")
    with pytest.raises(OSError, match="symbolic links"):
        check_folder(tmp_path / "here")


@pytest.mark.parametrize("name", ["OPERATOR_TOKEN_FILE", "MESH_KEY_FILE"])
def test_a_secret_that_others_can_change_is_refused(folder: Path, tmp_path: Path, name: str) -> None:
    secret = tmp_path / "secret"
    secret.write_text("0123456789abcdef\n")
    secret.chmod(0o646)
    refused = started(folder, **{f"FLNET_{name}": str(secret)})
    assert refused.exit_code == 1
    assert f"others can change {secret} of FLNET_{name}" in refused.stderr
    secret.chmod(0o644)  # as a secret of a container
    check_file(secret, name)


@as_root
@pytest.mark.parametrize("name", ["OPERATOR_TOKEN_FILE", "MESH_KEY_FILE"])
def test_a_secret_of_another_user_is_refused(folder: Path, tmp_path: Path, name: str) -> None:
    secret = tmp_path / "secret"
    secret.write_text("0123456789abcdef\n")
    os.chown(secret, OTHER, OTHER)
    refused = started(folder, **{f"FLNET_{name}": str(secret)})
    assert refused.exit_code == 1
    assert f"{secret} of FLNET_{name} belongs to the user {OTHER}" in refused.stderr


@as_root
def test_settings_that_another_user_left_in_the_working_directory_are_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("flnet.toml").write_text('trainers_path = "theirs"')
    os.chown("flnet.toml", OTHER, OTHER)
    refused = started(tmp_path / "state")
    assert refused.exit_code == 2
    assert f"the user {OTHER} can change the settings file {tmp_path}/flnet.toml" in refused.stderr
    assert read_config(Path("flnet.toml")) == {"trainers_path": "theirs"}  # named by the operator
    os.chown("flnet.toml", os.geteuid(), -1)
    assert read_config(None) == {"trainers_path": "theirs"}
    Path("flnet.toml").chmod(0o646)
    refused = started(tmp_path / "state")
    assert refused.exit_code == 2
    assert f"every user can change the settings file {tmp_path}/flnet.toml" in refused.stderr


@as_root
def test_commands_that_write_secrets_refuse_the_folder_of_another_user(folder: Path) -> None:
    os.chown(folder, OTHER, OTHER)
    mine = folder.parent / "file"
    mine.write_text("of this user")
    (folder / "lock").symlink_to(mine)  # the number of the process would be written there
    for arguments in (["keygen", "--new-identity"], ["token", "--new"]):
        refused = CliRunner().invoke(cli, arguments, env={"FLNET_STATE_PATH": str(folder)})
        assert refused.exit_code == 1, arguments
        assert f"belongs to the user {OTHER}" in refused.output
    assert not (folder / "operator-token").exists()
    examined = CliRunner().invoke(cli, ["doctor"], env={"FLNET_STATE_PATH": str(folder)})
    assert examined.exit_code == 1
    assert "error   owner" in examined.output
    assert mine.read_text() == "of this user"


def test_a_group_that_only_this_user_is_in_may_write_to_a_parent(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.parent.chmod(0o775)
    monkeypatch.setattr(ownership, "_is_private", lambda group: group == os.getegid())
    check_folder(folder)
    monkeypatch.setattr(ownership, "_is_private", lambda group: False)
    with pytest.raises(StartError, match="mode 775"):
        check_folder(folder)


@as_root
def test_a_group_without_a_name_is_not_private(folder: Path) -> None:
    folder.parent.chmod(0o770)
    os.chown(folder.parent, 0, OTHER)
    with pytest.raises(StartError, match="mode 770"):
        check_folder(folder)


@as_root
@pytest.mark.parametrize(
    ("name", "members", "private"),
    [
        ("root", [], True),
        ("root", ["root"], True),
        ("root", ["root", "somebody"], False),
        ("staff", [], False),
        ("staff", ["root"], False),  # others may have it as their first group, which no list of members shows
    ],
)
def test_a_group_is_private_that_has_the_name_of_this_user_and_nobody_else(
    folder: Path, monkeypatch: pytest.MonkeyPatch, name: str, members: list[str], private: bool
) -> None:
    monkeypatch.setattr("grp.getgrgid", lambda number: struct_group((name, "x", number, members)))
    folder.parent.chmod(0o770)
    os.chown(folder.parent, 0, OTHER)
    with nullcontext() if private else pytest.raises(StartError, match="mode 770"):
        check_folder(folder)


@as_root
def test_only_within_a_container_a_folder_may_belong_to_the_number_of_users_outside_of_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outside = int(Path("/proc/sys/kernel/overflowuid").read_text("ascii"))
    os.chown(folder.parent, outside, outside)
    monkeypatch.setattr(ownership, "ALL_USERS", Path("/proc/self/uid_map").read_text("ascii").split())
    with pytest.raises(StartError, match=f"leads through {folder.parent}"):
        check_folder(folder)
    monkeypatch.setattr(ownership, "ALL_USERS", [])  # this process has other users than the whole machine
    check_folder(folder)


def test_a_node_makes_its_folder_for_its_user_alone(tmp_path: Path) -> None:
    mask = os.umask(0o002)
    try:
        made = CliRunner().invoke(cli, ["keygen"], env={"FLNET_STATE_PATH": str(tmp_path / "new")})
    finally:
        os.umask(mask)
    assert made.exit_code == 0, made.output
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o700
    shutil.rmtree(tmp_path / "new")
