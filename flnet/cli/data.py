"""`flnet data`: list, check, download and import data sets; no node has to run."""

from __future__ import annotations

import asyncio
import os
import secrets
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import click
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

from flnet.cli.client import NodeClient, View, parse_address
from flnet.cli.options import json_option, read_config, variable_name
from flnet.cli.output import console, counted, print_json, printable
from flnet.compute.assignment import assignment
from flnet.compute.checks import data_fields
from flnet.compute.loader import find_trainers, read_data
from flnet.compute.queue import make_queue
from flnet.compute.verbs import PrepareRequest
from flnet.datasets.archives import MAX_GIGABYTES, copy_or_unpack
from flnet.datasets.dataset_import import bring_to, files_of, place_of
from flnet.datasets.download import DATA_SETS, FileCheck, check_files, fetch, missing_files
from flnet.datasets.files import replacing
from flnet.datasets.samples import SAMPLES, Sample, is_sample, write_sample
from flnet.errors import DataMissing, FlnetError, ImportRefused, SettingsError
from flnet.params.params import TrainerId
from flnet.settings import Settings, Shard, load_settings
from flnet.temporary import temporary_folder
from flnet.trainer import TrainerFile
from flnet.web.formatting import size_words

_MOST_CLASSES = 12  # of which the counts are shown; JSON has them all


def data_views(
    settings: Settings, progress: Callable[[str], None] = lambda trainer: None, *, loads_trainers: bool = False
) -> Iterator[View]:
    """Describe the data of each trainer in turn.

    `missing` says why a trainer has none; `faulty` then says whether there are some that cannot be read.

    Args:
        settings: of a node; its state folder is written to.
        progress: called with the id of each trainer before it is asked.
        loads_trainers: whether each trainer is loaded with its data, also if these can be read without its framework.
    """
    pool = make_queue(settings)
    with asyncio.Runner() as runner:
        try:
            for file in find_trainers(settings):
                progress(file.id)
                view = None if loads_trainers else _read_view(file, settings)
                yield view or runner.run(_view(pool, file.id, settings))
        finally:
            runner.run(pool.close())


def _read_view(file: TrainerFile, settings: Settings) -> View | None:
    """The view of data that are read without the trainer's framework; None if they cannot be."""
    try:
        info = read_data(file, assignment(settings, file).settings)
    except FlnetError as exc:
        return _without_data(file.id, exc)
    if info is None:
        return None
    return {
        "trainer": file.id,
        "missing": "",
        "label": file.label or file.id,
        **data_fields(info),
        "counts": {str(side): [int(count) for count in counts] for side, counts in info.counts.items()},
        "checksum": info.checksum,
        "bytes": size_of(str(info.source), settings.datasets_path),
    }


async def _view(pool: Any, trainer: str, settings: Settings) -> View:
    try:
        declaration, _ = await pool.call(TrainerId(trainer), PrepareRequest())
    except FlnetError as exc:
        return _without_data(trainer, exc)
    data = dict(declaration.data)
    return {
        "trainer": trainer,
        "missing": "",
        "label": declaration.label,
        **data,
        "counts": dict(declaration.offers.get("counts") or {}),
        "checksum": declaration.offers.get("checksum") or "",
        "bytes": size_of(str(data.get("source", "")), settings.datasets_path),
    }


def _without_data(trainer: str, why: FlnetError) -> View:
    return {"trainer": trainer, "missing": why.message, "faulty": not isinstance(why, DataMissing)}


def size_of(source: str, datasets: Path | None) -> int | None:
    """The size on disk of the path at the end of this description; None if it has none."""
    start = -1 if datasets is None else source.find(str(datasets))
    place = Path(source[start if start >= 0 else source.find("/") :])
    if not source or place == datasets or not place.exists():
        return None
    files = [place] if place.is_file() else [path for path in place.rglob("*") if path.is_file()]
    return sum(path.stat().st_size for path in files)


def data_lines(view: Mapping[str, Any]) -> list[str]:
    """One trainer's data, as lines of text."""
    name = printable(view["trainer"])
    if view["missing"]:
        state = "not readable" if view.get("faulty") else "no data"
        return [f"{name}: {state}", f"    {printable(view['missing'])}", ""]
    size = "" if view.get("bytes") is None else f" ({size_words(int(view['bytes']))})"
    kind = "sample data: " if view.get("sample") else ""
    lines = [f"{name}: {kind}{printable(view['source'])}{size}"]
    classes, counts = view.get("classes", ()), view.get("counts", {})
    for side, rows in view.get("rows", {}).items():
        lines.append(f"    {printable(side):<12}{rows:>9,} rows{_per_class(classes, counts.get(side, ()))}")
    if view.get("checksum"):
        lines.append(f"    checksum of these rows {printable(view['checksum'])[:16]}")
    if view.get("note"):
        lines.append(f"    {printable(view['note'])}")
    return [*lines, ""]


def _per_class(classes: Sequence[str], counts: Sequence[int]) -> str:
    pairs = [f"{printable(name)}: {n:,}" for name, n in zip(classes, counts, strict=False)]
    more = f"; and {len(pairs) - _MOST_CLASSES} more" if len(pairs) > _MOST_CLASSES else ""
    return f"   {'; '.join(pairs[:_MOST_CLASSES])}{more}" if pairs else ""


def check_lines(folder: Path, findings: Sequence[FileCheck], missing: Mapping[str, Sequence[str]]) -> list[str]:
    """The result of a check, as lines of text: counts, and the name of every damaged file."""
    kinds: Counter[tuple[str, str]] = Counter()
    lines = []
    for finding in findings:
        place = finding.path.relative_to(folder)
        state = "damaged" if finding.fault else "whole" if finding.right else "not looked at"
        kinds[str(place.parent), state] += 1
        if finding.fault:
            lines.append(f"{printable(finding.path)}: {printable(finding.fault)}")
        elif finding.right and len(place.parts) == 1:
            lines.append(f"{printable(finding.path)}: whole, {printable(finding.right)}")
    for where, names in missing.items():
        lines.append(f"{printable(where)}: {', '.join(names)} missing")
    for (parent, state), number in sorted(kinds.items()):
        lines.append(f"{printable(folder / parent)}: {counted(number, 'file')} {state}")
    return lines or [f"{printable(folder)}: no files"]


_PIECE = 1024 * 1024


def import_to_node(address: str, trainer: str, source: Path, *, replace: bool, add: bool = False) -> View:
    """Send all files to a running node of this machine, with a progress bar; returns its answer.

    Raises:
        ImportRefused: they cannot be read here. PeerUnreachable, PeerTimeout, PeerRefused: by the node.
    """
    boundary = secrets.token_hex(16)
    with NodeClient(address) as node, transfer_bar(source) as moved:
        return node.import_files(trainer, form_of(source, boundary, moved), boundary, replace=replace, add=add)


def import_here(settings: Settings, trainer: str, source: Path, *, replace: bool, add: bool = False) -> View:
    """Copy all files to where this trainer reads them, and load the trainer once to check them.

    Raises:
        ImportRefused, DataThere, NoRoom: nothing has changed; says why.
        SettingsError: there is no such trainer.
    """
    if settings.datasets_path is not None:  # a trainer's words then name the place as it is here
        settings = settings.model_copy(update={"datasets_path": settings.datasets_path.resolve()})
    (file,) = find_trainers(settings.model_copy(update={"trainers": (trainer,)}))
    place = place_of(file, settings.datasets_path)
    with transfer_bar(source) as moving:
        moved = bring_to(place, source, settings.max_import_gigabytes, replace=replace, add=add, report=moving)
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
        why = moved.as_it_came(view["missing"]) or f"it goes on with {view['source']}; {view.get('note', '')}"
        raise ImportRefused(f"{trainer} cannot use what came, and nothing was changed: {why}")
    aside = None if moved.aside is None else str(moved.aside)
    wanted = ("source", "rows", "classes", "counts", "checksum")
    told = {"trainer_id": trainer, "place": str(moved.place), "files": moved.files, "bytes": moved.size}
    return {**told, "aside": aside, **{name: view[name] for name in wanted}}


def imported_lines(told: View) -> list[str]:
    """The result of an import, as lines of text."""
    if not told["files"]:
        return [f"{printable(told['place'])}: all of it is there already"]
    size = f"{counted(int(told['files']), 'file')}, {size_words(int(told['bytes']))}"
    lines = [f"{printable(told['place'])}: {size}"]
    if told["aside"]:
        lines.append(f"the data that were there before are now in {printable(told['aside'])}")
    rows = ", ".join(f"{printable(side)} {count:,}" for side, count in told["rows"].items())
    return [*lines, f"{printable(told['trainer_id'])}: {printable(told['source'])} ({rows})"]


def _asked(settings: Settings, trainer: str) -> View:
    """Describe one trainer's data without touching the state of a node."""
    with temporary_folder("data") as state:
        more = {"trainers": (trainer,), "state_path": state, "compute": "process"}
        views = list(data_views(settings.model_copy(update=more), loads_trainers=True))
    if not views:
        raise SettingsError(f"there is no trainer {trainer}")
    return views[0]


def form_of(
    source: Path | None, boundary: str, moved: Callable[[int], None], fields: Mapping[str, str] | None = None
) -> Iterator[bytes]:
    """Generate a multipart form with these fields and then all files; only one file is open at a time.

    Args:
        source: a file or folder; None for no files.
        moved: told how many bytes were read.
    """
    for name, value in (fields or {}).items():
        yield f'--{boundary}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'.encode()
    for name, path in files_of(source) if source is not None else ():
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
def transfer_bar(source: Path) -> Iterator[Callable[[int], None]]:
    """A progress bar; yields a function that adds a number of bytes."""
    total = sum(path.stat().st_size for _, path in files_of(source))
    with _transfers() as bars:
        task = bars.add_task(printable(source.name), total=total)
        yield lambda count: bars.update(task, advance=count)


def _transfers() -> Progress:
    columns = TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn()
    return Progress(*columns, console=console(stderr=True))


F = TypeVar("F", bound=Callable[..., Any])


def _path_option(use: F) -> F:
    return click.option(
        "--path",
        type=click.Path(path_type=Path),
        help=f"Folder of the data sets.  [{variable_name('datasets_path')}]",
    )(use)


def _settings(path: Path | None) -> Settings:
    return load_settings({"datasets_path": path}, os.environ, read_config(None))


def _folder(path: Path | None) -> Path:
    folder = _settings(path).datasets_path
    if folder is None:
        raise click.UsageError(f"no folder of data sets: give --path, or set {variable_name('datasets_path')}")
    return folder


@click.group("data")
def command() -> None:
    """List, check, download and import data sets.

    \b
    Exit codes: 0 done; 1 refused, damaged or not available; 2 wrong usage or settings.
    """


@command.command("list")
@_path_option
@json_option
def list_data(path: Path | None, as_json: bool) -> None:
    """List each trainer's data: source and rows per class, or what is missing and how to get it.

    All rows are read, which may take a minute. Frameworks are imported only for trainers that do not say how to read
    their data without one.

    \b
    Exit codes: 0 listed, also where data are missing; 1 listed, and some cannot be read; 2 wrong usage or settings.
    """
    whole = {"data_shard": Shard(index=1, count=1), "data_partition": "iid", "compute": "process"}
    out = console(stderr=True)
    with temporary_folder("data") as state:  # splits of a running node stay as they are
        settings = _settings(path).model_copy(update={**whole, "state_path": state})
        views = []
        with out.status("") as status:
            for view in data_views(settings, lambda trainer: status.update(f"asking {printable(trainer)} ...")):
                views.append(view)
                if not as_json:
                    click.echo("\n".join(data_lines(view)))
    if as_json:
        print_json(views)
    elif not views:
        click.echo("no trainers")
    if any(view.get("faulty") for view in views):
        raise SystemExit(1)


@command.command("fetch")
@click.argument("name", type=click.Choice(sorted(DATA_SETS)))
@_path_option
def fetch_data(name: str, path: Path | None) -> None:
    """Download a published data set. Files that exist and are intact are not downloaded again.

    A file appears only once it is complete and its checksum is correct.

    \b
    Exit codes: 0 the data set is complete; 1 no network, a wrong file, or no space; 2 wrong usage.
    """
    folder, data_set = _folder(path), DATA_SETS[name]
    target = folder / data_set.folder
    if is_sample(target / "any"):
        raise DataMissing(f"{target} holds sample data", "remove that folder first")
    with _transfers() as bars:
        for file in data_set.files:
            bar = bars.add_task(file.name, total=file.size)

            def told(done: int, total: int, bar: Any = bar) -> None:
                bars.update(bar, completed=done, total=total)

            new = fetch(file.url, file.sha256, target / file.name, file.size, told)
            bars.update(bar, completed=file.size)
            click.echo(f"{target / file.name}: {'fetched' if new else 'was there already'}, checksum right")


@command.command("check")
@_path_option
@json_option
def check_data(path: Path | None, as_json: bool) -> None:
    """Check the files of all data sets: checksums of published ones, readability of the others.

    \b
    Exit codes: 0 all files are intact; 1 files are damaged or missing, and named; 2 wrong usage.
    """
    folder = _folder(path)
    findings = list(check_files(folder))
    missing = {
        str(folder / data_set.folder): names
        for data_set in DATA_SETS.values()
        if (names := missing_files(data_set, folder)) and len(names) < len(data_set.files)
    }
    if as_json:
        files = [{"path": str(f.path), "right": f.right, "fault": f.fault} for f in findings]
        print_json({"files": files, "missing": missing})
    else:
        click.echo("\n".join(check_lines(folder, findings, missing)))
    if missing or any(finding.fault for finding in findings):
        raise SystemExit(1)


@command.command("import")
@click.argument("words", metavar="[TRAINER] SOURCE", nargs=-1, required=True)
@click.option("--as", "name", help="Name in the folder of data sets.  [default: the name of SOURCE]")
@click.option(
    "--limit-gigabytes",
    type=click.FloatRange(min=0, min_open=True),
    help=f"Refuse more than this.  [default: {MAX_GIGABYTES:g}; FLNET_MAX_IMPORT_GIGABYTES with TRAINER]",
)
@click.option("--node", "address", metavar="HOST:PORT", help="With TRAINER: a running node of this machine.")
@click.option("--replace", is_flag=True, help="With TRAINER: move existing data aside.")
@json_option
@_path_option
def import_data(
    words: tuple[str, ...],
    name: str | None,
    limit_gigabytes: float | None,
    address: str | None,
    replace: bool,
    as_json: bool,
    path: Path | None,
) -> None:
    """Copy a folder or file, or unpack a .zip or .tar archive, into the folder of data sets.

    SOURCE is not changed. Links, devices and paths that lead out of the folder are refused. An import is complete
    or has no effect. With TRAINER, the data are placed where this trainer reads them, and loaded to check them:
    once, or by a running node (--node). Data that the trainer cannot read are removed again.

    \b
    Exit codes: 0 imported; 1 refused or unreadable; 2 wrong usage.
    """
    if len(words) > 2:
        raise click.UsageError("expected SOURCE, or TRAINER and SOURCE")
    source = Path(words[-1])
    if len(words) == 1:
        if address or replace:
            raise click.UsageError("--node and --replace go with TRAINER and SOURCE")
        imported = copy_or_unpack(source, _folder(path), name, limit_gigabytes or MAX_GIGABYTES)
        told = {"place": str(imported.place), "files": imported.files, "bytes": imported.size}
        lines = [f"{printable(imported.place)}: {counted(imported.files, 'file')}, {size_words(imported.size)}"]
    elif name:
        raise click.UsageError("--as goes without TRAINER, which knows how its data are called")
    else:
        told = _for_trainer(words[0], source, address, replace, limit_gigabytes, path)
        lines = imported_lines(told)
    if as_json:
        print_json(told)
    else:
        click.echo("\n".join(lines))


@command.command("add")
@click.argument("trainer")
@click.argument("source", type=click.Path(path_type=Path))
@click.option("--node", "address", metavar="HOST:PORT", help="A running node of this machine.")
@json_option
@_path_option
def add_data(trainer: str, source: Path, address: str | None, as_json: bool, path: Path | None) -> None:
    """Add examples to the data of a trainer: rows of a table, or images in one folder per class.

    Examples that exist already are not added again, and existing rows stay in their split. A running node (--node)
    counts new examples for its schedule, see `flnet schedule`.

    \b
    Exit codes: 0 added, or nothing new; 1 refused or unreadable; 2 wrong usage.
    """
    told = _for_trainer(trainer, source, address, False, None, path, add=True)
    if as_json:
        print_json(told)
    else:
        click.echo("\n".join(imported_lines(told)))


def _for_trainer(
    trainer: str,
    source: Path,
    address: str | None,
    replace: bool,
    gigabytes: float | None,
    path: Path | None,
    add: bool = False,
) -> dict[str, Any]:
    if address:
        if path is not None or gigabytes is not None:
            raise click.UsageError("a running node knows its folder and its limit: leave out the options for them")
        try:
            return dict(import_to_node(parse_address(address), trainer, source, replace=replace, add=add))
        except ValueError as exc:
            raise click.UsageError(f"--node: {exc}") from exc
    settings = _settings(path)
    if settings.datasets_path is None:
        _folder(path)
    if gigabytes is not None:
        settings = settings.model_copy(update={"max_import_gigabytes": gigabytes})
    return dict(import_here(settings, trainer, source, replace=replace, add=add))


@command.command("sample")
@click.argument("name", type=click.Choice(list(SAMPLES)))
@_path_option
def sample_data(name: str, path: Path | None) -> None:
    """Generate a small sample data set to try flnet with. It is always shown as sample data.

    \b
    Exit codes: 0 written; 1 it exists already, or cannot be written; 2 wrong usage.
    """
    sample, folder = SAMPLES[name], _folder(path)
    target = write_sample(sample, folder)
    click.echo(f"{target}: sample data, {sample.words}")
    start = f"{variable_name('datasets_path')}={folder} "
    if sample.lines:
        trainers = _write_trainer(sample, folder)
        click.echo(f"{trainers / sample.trainer}.toml: its trainer")
        start += f"{variable_name('trainers_path')}={trainers} "
    click.echo(f"try it:  {start}flnet demo --trainer {sample.trainer}")


def _write_trainer(sample: Sample, folder: Path) -> Path:
    trainers = folder / "sample-trainers"
    try:
        with replacing(trainers / f"{sample.trainer}.toml") as file:
            file.write(sample.lines.encode())
    except OSError as exc:
        raise DataMissing(f"{trainers} cannot be written: {exc}", "make room, or name another folder") from exc
    return trainers
