"""`flnet doctor`: whether a node's state folder is whole, and what can be mended."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from flnet.cli.commands import EXIT_FAILED
from flnet.cli.text import printable
from flnet.keys.check import examine_key
from flnet.settings import load_settings
from flnet.store import Retention
from flnet.store.disk.check import Finding, examine
from flnet.training.backend import state_folder

__all__ = ["command"]


@click.command("doctor")
@click.option("--state-path", type=click.Path(path_type=Path), help="The folder.  [FLNET_STATE_PATH]")
@click.option("--node-port", type=click.IntRange(1, 65535), help="Of the node whose usual folder is meant.")
@click.option("--repair", is_flag=True, help="Mend what can be mended; nothing is overwritten.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(*, state_path: Path | None, node_port: int | None, repair: bool, as_json: bool) -> None:
    """Look over a node's state: permissions, database, model files, key, free space.

    While a node runs on the folder it is only read. What is damaged gets another name and is never deleted.

    \b
    Exit codes: 0 all is well, or mended; 1 something is lost or in the way; 2 wrong usage.
    """
    options: dict[str, Any] = {"state_path": state_path, "node_port": node_port}
    settings = load_settings({k: v for k, v in options.items() if v is not None}, os.environ)
    folder = state_folder(settings)
    found = examine(folder, repair, Retention.of(settings))
    if folder.is_dir():
        free = repair and any(one.what == "lock" and one.level == "ok" for one in found)
        found.append(Finding("key", *examine_key(folder, free)))
    wrong = [one for one in found if one.level == "error" and not one.mended]
    if as_json:
        click.echo(json.dumps({"folder": str(folder), "well": not wrong, "findings": [asdict(f) for f in found]}))
    else:
        click.echo(f"state in {printable(folder)}")
        for one in found:
            click.echo(_line(one))
    if wrong:
        sys.exit(EXIT_FAILED)


def _line(finding: Finding) -> str:
    level = "mended" if finding.mended else finding.level
    return f"  {level:<8}{finding.what:<13}{printable(finding.text)}"
