"""`flnet token`: the token with which persons on other machines act on a node, shown or replaced."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import click

from flnet.cli.operator import sign_in_link
from flnet.cli.options import read_config
from flnet.cli.text import printable
from flnet.errors import StartError
from flnet.settings import PREFIX, Settings, load_settings
from flnet.web.operator_token import read_token, token_path, write_new

__all__ = ["command"]


@click.command("token")
@click.option("--state-path", type=click.Path(path_type=Path), help="The node's folder.  [FLNET_STATE_PATH]")
@click.option("--node-port", type=click.IntRange(1, 65535), help="Of the node whose usual folder is meant.")
@click.option("--new", is_flag=True, help="Make another one: the old one and all sessions are over at once.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON for scripts.")
def command(*, state_path: Path | None, node_port: int | None, new: bool, as_json: bool) -> None:
    """Show the operator's token of a node on this machine, and the link that signs a browser in.

    \b
    Exit codes: 0 shown; 1 there is none, or it cannot be written; 2 wrong usage or settings.
    """
    options: dict[str, Any] = {"state_path": state_path, "node_port": node_port}
    settings = load_settings({k: v for k, v in options.items() if v is not None}, os.environ, read_config(None))
    token = _token(settings, new)
    shown = {"token": token, "sign in": sign_in_link(settings, token)}
    if as_json:
        click.echo(json.dumps(shown))
        return
    for name, value in shown.items():
        click.echo(f"{name:<9}{printable(value)}")


def _token(settings: Settings, new: bool) -> str:
    """The token of a node with these settings.

    Raises:
        StartError: there is none, it is set elsewhere and cannot be replaced here, or it cannot be written.
    """
    set_by = [name for name in ("operator_token", "operator_token_file") if getattr(settings, name) is not None]
    if new and set_by:
        raise StartError(f"the token is set by {PREFIX}{set_by[0].upper()}; change it there")
    path = settings.operator_token_file or token_path(settings)
    if new:
        return write_new(path)
    token = settings.operator_token or read_token(path)
    if token is None:
        raise StartError(f"there is no token in {path}; the first start of a node makes one, and so does --new")
    return token
