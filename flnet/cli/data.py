"""`flnet data`: what data sets are there, and how to get more of them; no node need run."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

from flnet.cli.bring import bring_here, bring_to_node, brought_lines
from flnet.cli.client import parse_address
from flnet.cli.data_views import check_lines, data_lines, data_views
from flnet.cli.options import read_config, variable_name
from flnet.cli.tables import console, print_json
from flnet.cli.text import counted, printable
from flnet.errors import DataMissing
from flnet.setting_types import Shard
from flnet.settings import Settings, load_settings
from flnet.training.bringing import MAX_GIGABYTES, bring
from flnet.training.download import DATA_SETS, fetch
from flnet.training.files import replacing
from flnet.training.samples import SAMPLES, Sample, is_sample, write_sample
from flnet.training.soundness import looked_through, missing_files

__all__ = ["command"]

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
    """See what data sets are there, check them, and get more.

    \b
    Exit codes: 0 done; 1 refused, damaged or not to be had; 2 wrong usage or settings.
    """


@command.command("list")
@_path_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON for scripts.")
def list_data(path: Path | None, as_json: bool) -> None:
    """What each trainer finds: where, how many rows of which class; or what it lacks and how to get that.

    Trainers are loaded one after the other, each with all its rows, so this may take a minute.

    \b
    Exit codes: 0 listed, also where data are missing; 2 wrong usage or settings.
    """
    whole = {"data_shard": Shard(index=1, count=1), "data_partition": "iid", "compute": "process"}
    out = console(stderr=True)
    with tempfile.TemporaryDirectory(prefix="flnet-data-") as state:  # splits of a running node stay as they are
        settings = _settings(path).model_copy(update={**whole, "state_path": Path(state)})
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


@command.command("fetch")
@click.argument("name", type=click.Choice(sorted(DATA_SETS)))
@_path_option
def fetch_data(name: str, path: Path | None) -> None:
    """Download a published data set; what is there already and whole is not fetched again.

    A file is there when it is complete and its checksum is right, and not before.

    \b
    Exit codes: 0 everything is there; 1 no network, a wrong file, or no room; 2 wrong usage.
    """
    folder, one = _folder(path), DATA_SETS[name]
    target = folder / one.folder
    if is_sample(target / "any"):
        raise DataMissing(f"{target} holds sample data", "remove that folder first")
    columns = TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn()
    with Progress(*columns, console=console(stderr=True)) as bars:
        for file in one.files:
            bar = bars.add_task(file.name, total=file.size)

            def told(done: int, total: int, bar: Any = bar) -> None:
                bars.update(bar, completed=done, total=total)

            new = fetch(file.url, file.sha256, target / file.name, file.size, told)
            bars.update(bar, completed=file.size)
            click.echo(f"{target / file.name}: {'fetched' if new else 'was there already'}, checksum right")


@command.command("check")
@_path_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON for scripts.")
def check_data(path: Path | None, as_json: bool) -> None:
    """Look whether the files are whole: checksums of published ones, and that the others can be read.

    \b
    Exit codes: 0 nothing is wrong; 1 some files are damaged or missing, they are named; 2 wrong usage.
    """
    folder = _folder(path)
    findings = list(looked_through(folder))
    missing = {
        str(folder / one.folder): names
        for one in DATA_SETS.values()
        if (names := missing_files(one, folder)) and len(names) < len(one.files)
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
@click.option("--as", "name", help="What it is called in the folder of data sets.  [default: its own name]")
@click.option(
    "--limit-gigabytes",
    type=click.FloatRange(min=0, min_open=True),
    help=f"Refuse more than this.  [default: {MAX_GIGABYTES:g}; FLNET_MAX_IMPORT_GIGABYTES with TRAINER]",
)
@click.option("--node", "address", metavar="HOST:PORT", help="With TRAINER: a running node of this machine.")
@click.option("--replace", is_flag=True, help="With TRAINER: data that are there are kept aside.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON for scripts.")
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

    SOURCE stays as it is. Links, devices and names that lead out of the folder are refused. It is there whole or
    not at all. With TRAINER it goes where this trainer looks for its data, which then is loaded once, or by a
    running node for good (--node); what it cannot read is taken out again.

    \b
    Exit codes: 0 it is there; 1 it was refused or cannot be read; 2 wrong usage.
    """
    if len(words) > 2:
        raise click.UsageError("expected SOURCE, or TRAINER and SOURCE")
    source = Path(words[-1])
    if len(words) == 1:
        if address or replace:
            raise click.UsageError("--node and --replace go with TRAINER and SOURCE")
        found = bring(source, _folder(path), name, limit_gigabytes or MAX_GIGABYTES)
        told = {"place": str(found.place), "files": found.files, "bytes": found.size}
        lines = [f"{printable(found.place)}: {counted(found.files, 'file')}, {found.size / 1e6:,.1f} MB"]
    elif name:
        raise click.UsageError("--as goes without TRAINER, which knows how its data are called")
    else:
        told = _for_trainer(words[0], source, address, replace, limit_gigabytes, path)
        lines = brought_lines(told)
    if as_json:
        print_json(told)
    else:
        click.echo("\n".join(lines))


@command.command("add")
@click.argument("trainer")
@click.argument("source", type=click.Path(path_type=Path))
@click.option("--node", "address", metavar="HOST:PORT", help="A running node of this machine.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON for scripts.")
@_path_option
def add_data(trainer: str, source: Path, address: str | None, as_json: bool, path: Path | None) -> None:
    """Add further examples to the data of a trainer: rows of a table, or images in folders of their classes.

    What is there already is not added again; old rows stay on their side of the split. A running node (--node)
    counts what came for its schedule, see `flnet schedule`.

    \b
    Exit codes: 0 added, or there already; 1 it was refused or cannot be read; 2 wrong usage.
    """
    told = _for_trainer(trainer, source, address, False, None, path, add=True)
    if as_json:
        print_json(told)
    else:
        click.echo("\n".join(brought_lines(told)))


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
            return dict(bring_to_node(parse_address(address), trainer, source, replace=replace, add=add))
        except ValueError as exc:
            raise click.UsageError(f"--node: {exc}") from exc
    settings = _settings(path)
    if settings.datasets_path is None:
        _folder(path)
    if gigabytes is not None:
        settings = settings.model_copy(update={"max_import_gigabytes": gigabytes})
    return dict(bring_here(settings, trainer, source, replace=replace, add=add))


@command.command("sample")
@click.argument("name", type=click.Choice(list(SAMPLES)))
@_path_option
def sample_data(name: str, path: Path | None) -> None:
    """Make up a small data set for a first try: sample data, called so wherever they are shown.

    \b
    Exit codes: 0 written; 1 it is there already, or cannot be written; 2 wrong usage.
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
