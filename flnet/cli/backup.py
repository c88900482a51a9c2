"""Commands that copy a node's state folder: `flnet backup` and `flnet restore`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from flnet.cli.options import folder_options, json_option
from flnet.cli.output import print_json, printable
from flnet.errors import StartError
from flnet.security.ownership import check_folder
from flnet.settings import load_settings
from flnet.store.backup import BackupInfo, back_up, read_backup, restore

FILE = click.Path(path_type=Path, dir_okay=False)


@click.command("backup")
@click.argument("file", type=FILE)
@folder_options
@json_option
def backup_command(*, file: Path, state_path: Path | None, node_port: int | None, as_json: bool) -> None:
    """Copy a node's state into one archive, while it runs or when it is stopped.

    The archive holds the private key, models, history and trust of the node, and what its trainers keep. Only you can
    read it (mode 0600). Settings, data sets and secrets outside the state folder are not in it.

    \b
    Exit codes: 0 written; 1 there is no state, or it cannot be read or written; 2 wrong usage.
    """
    folder = load_settings({"state_path": state_path, "node_port": node_port}, os.environ).folder
    with _disk_faults(f"the backup of {folder} to {file}"):
        check_folder(folder)
        info = back_up(folder, file)
    _print(info, as_json, f"{file} holds the state in {folder}")


@click.command("restore")
@click.argument("file", type=FILE)
@folder_options
@click.option("--check", is_flag=True, help="Only check the archive and say what it holds.")
@json_option
def restore_command(
    *, file: Path, state_path: Path | None, node_port: int | None, check: bool, as_json: bool
) -> None:
    """Write a backup into the empty state folder of a node, which then continues where the backup was taken.

    The archive is read and checked as a whole before anything is written. Never run two nodes with one identity: stop the
    old node for good before the restored one starts.

    \b
    Exit codes: 0 restored, or checked; 1 the archive is damaged, or the folder is not empty; 2 wrong usage.
    """
    folder = load_settings({"state_path": state_path, "node_port": node_port}, os.environ).folder
    with _disk_faults(f"the restore of {file}" if check else f"the restore of {file} to {folder}"):
        if check:
            _print(read_backup(file), as_json, f"{file} is whole")
            return
        check_folder(folder)
        info = restore(file, folder)
    _print(info, as_json, f"restored into {folder}")


@contextmanager
def _disk_faults(what: str) -> Iterator[None]:
    try:
        yield
    except OSError as exc:
        raise StartError(f"{what} failed: {exc.filename or ''} {exc.strerror or exc}".replace("  ", " ")) from exc


def _print(info: BackupInfo, as_json: bool, first: str) -> None:
    if as_json:
        print_json(vars(info) | {"size": info.size})
        return
    click.echo(printable(first))
    click.echo(printable(f"node {info.node or '(without an id)'}, {info.made}, flnet {info.flnet}"))
    click.echo(f"{len(info.files)} files, {info.size} bytes; version {info.state_version} of the state")
    for digest in info.missing:
        click.echo(printable(f"missing: model file {digest}; see flnet doctor"))
