"""Data brought to one trainer by the command line: to a running node, or into the folder of a stopped one."""

from __future__ import annotations

import secrets
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

from flnet.cli.client import NodeClient, View
from flnet.cli.data_views import data_views
from flnet.cli.tables import console
from flnet.cli.text import counted, printable
from flnet.errors import SettingsError
from flnet.settings import Settings
from flnet.training.importing import bring_to, files_of
from flnet.training.loader import find_trainers
from flnet.training.places import ImportRefused, place_of

__all__ = ["bring_here", "bring_to_node", "brought_lines"]

_PIECE = 1024 * 1024


def bring_to_node(address: str, trainer: str, source: Path, *, replace: bool, add: bool = False) -> View:
    """Send all files to a running node of this machine, with a bar; what it says of them.

    Raises:
        ImportRefused: they cannot be read here. PeerUnreachable, PeerTimeout, PeerRefused: by the node.
    """
    boundary = secrets.token_hex(16)
    with NodeClient(address) as node, _bar(source) as moved:
        return node.bring(trainer, _form(source, boundary, moved), boundary, replace=replace, add=add)


def bring_here(settings: Settings, trainer: str, source: Path, *, replace: bool, add: bool = False) -> View:
    """Bring all files into the place of this trainer, and load it once to see that it reads them.

    Raises:
        ImportRefused, DataThere, NoRoom: nothing has changed; says why.
        SettingsError: there is no such trainer.
    """
    (file,) = find_trainers(settings.model_copy(update={"trainers": (trainer,)}))
    place = place_of(file, settings.datasets_path)
    with _bar(source) as moving:
        moved = bring_to(place, source, settings.max_import_gigabytes, replace=replace, add=add, told=moving)
    view = _asked(settings, trainer)
    read = str(place.path) in view.get("source", "")
    if not view["missing"] and not read:  # its words need not name the place: see whether they changed
        moved.undo()
        before = _asked(settings, trainer)
        if (before.get("source"), before.get("checksum")) != (view.get("source"), view.get("checksum")):
            moved, read = bring_to(place, source, settings.max_import_gigabytes, replace=replace, add=add), True
    elif view["missing"]:
        moved.undo()
    if view["missing"] or not read:
        why = view["missing"] or f"it goes on with {view['source']}; {view.get('note', '')}"
        raise ImportRefused(f"{trainer} cannot use what came, and nothing was changed: {why}")
    aside = None if moved.aside is None else str(moved.aside)
    wanted = ("source", "rows", "classes", "counts", "checksum")
    told = {"trainer_id": trainer, "place": str(moved.place), "files": moved.files, "bytes": moved.size}
    return {**told, "aside": aside, **{name: view[name] for name in wanted}}


def brought_lines(told: View) -> list[str]:
    """What was brought, in lines for people."""
    if not told["files"]:
        return [f"{printable(told['place'])}: all of it is there already"]
    size = f"{counted(int(told['files']), 'file')}, {told['bytes'] / 1e6:,.1f} MB"
    lines = [f"{printable(told['place'])}: {size}"]
    if told["aside"]:
        lines.append(f"the data that were there before are now in {printable(told['aside'])}")
    rows = ", ".join(f"{printable(side)} {count:,}" for side, count in told["rows"].items())
    return [*lines, f"{printable(told['trainer_id'])}: {printable(told['source'])} ({rows})"]


def _asked(settings: Settings, trainer: str) -> dict[str, Any]:
    """What the trainer says of its data, without touching what a node keeps."""
    with tempfile.TemporaryDirectory(prefix="flnet-data-") as state:
        more = {"trainers": (trainer,), "state_path": Path(state), "compute": "process"}
        views = list(data_views(settings.model_copy(update=more)))
    if not views:
        raise SettingsError(f"there is no trainer {trainer}")
    return views[0]


def _form(source: Path, boundary: str, moved: Any) -> Iterator[bytes]:
    """A form with all files, part by part: only one of them is open at a time."""
    for name, path in files_of(source):
        safe = name.replace("\\", "\\\\").replace('"', "%22").replace("\r", "%0D").replace("\n", "%0A")
        head = f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="{safe}"\r\n'
        yield head.encode() + b"Content-Type: application/octet-stream\r\n\r\n"
        with path.open("rb") as file:
            while piece := file.read(_PIECE):
                yield piece
                moved(len(piece))
        yield b"\r\n"
    yield f"--{boundary}--\r\n".encode()


@contextmanager
def _bar(source: Path) -> Iterator[Any]:
    """Shows how many bytes went; call what it gives with their number."""
    total = sum(path.stat().st_size for _, path in files_of(source))
    columns = TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn()
    with Progress(*columns, console=console(stderr=True)) as bars:
        task = bars.add_task(printable(source.name), total=total)
        yield lambda count: bars.update(task, advance=count)
