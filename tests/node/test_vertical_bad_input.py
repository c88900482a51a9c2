"""Data with which nodes cannot train together: words before any training, on the page and on the command line.

Each case goes the whole way in one process: TOML and CSV files, nodes, the REST API over HTTP, `flnet train --wait`.
"""

from __future__ import annotations

import asyncio
import html
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest
from click.testing import CliRunner, Result

from flnet.cli.commands import cli
from flnet.compute.loader import find_trainers, import_trainer
from flnet.settings import Settings
from flnet.trainer import Trainer, TrainerSettings
from flnet.web.app import create_app
from tests.compute.inline_queue import InlineQueue
from tests.node.mesh import Mesh, until
from tests.node.vertical_mesh import T, job_of
from tests.web.conftest import SETTINGS, served

COUNT = 24
IDS = [f"P{number}" for number in range(COUNT)]
VALUES = [str(number % 7) for number in range(COUNT)]
LABELS = ["yes" if number % 3 else "no" for number in range(COUNT)]


class Table(NamedTuple):
    """The file of a node.

    Attributes:
        columns: cells by name; "id" is the column of ids.
        target: the column of the label; empty without one.
        more: further lines of the TOML file.
    """

    columns: Mapping[str, list[str]]
    target: str = ""
    more: str = ""


BANK = Table({"id": IDS, "age": VALUES})
INSURER = Table({"id": IDS[::-1], "cost": VALUES, "claim": LABELS[::-1]}, "claim")


class Trainers(Mapping[str, Trainer]):
    """Makes the trainer of a folder anew whenever it is asked for, as a training process does."""

    def __init__(self, folder: Path) -> None:
        (found,) = [file for file in find_trainers(_settings(folder)) if file.id == "OWN"]
        self.file, self._folder = replace(found, id=T), folder

    def __getitem__(self, name: str) -> Trainer:
        return import_trainer(self.file, TrainerSettings(self._folder, self._folder))

    def __contains__(self, name: object) -> bool:
        return name == T

    def __iter__(self) -> Iterator[str]:
        return iter((T,))

    def __len__(self) -> int:
        return 1


def _settings(folder: Path) -> Settings:
    return Settings(trainers_path=folder, datasets_path=folder, trainers=("OWN",))


def write(folder: Path, table: Table) -> Path:
    """The two files of a node, in a folder of its own."""
    folder.mkdir()
    lines = [",".join(table.columns), *(",".join(cells) for cells in zip(*table.columns.values(), strict=True))]
    (folder / "own.csv").write_text("\n".join(lines) + "\n")
    target = f'target = "{table.target}"\n' if table.target else ""
    (folder / "OWN.toml").write_text(f'kind = "vertical"\ndata = "own.csv"\nid = "id"\n{target}{table.more}')
    return folder


@asynccontextmanager
async def nodes_with(folder: Path, **tables: Table) -> AsyncIterator[tuple[Mesh, dict[str, int]]]:
    """Nodes with these tables that know each other; and the ports at which the web serves them."""
    mesh = Mesh()
    async with AsyncExitStack() as stack:
        stack.push_async_callback(mesh.stop)
        first: tuple[str, ...] = ()
        for name, table in tables.items():
            trainers = Trainers(write(folder / name, table))
            await mesh.add(name, None, first, files=(trainers.file,), pool=InlineQueue(trainers))
            first = first or (name,)
        await until(lambda: all(len(n.core.members.alive) == len(tables) - 1 for n in mesh.nodes.values()))
        await until(lambda: all(n.job(T).phase != "LOADING" for n in mesh.nodes.values()))
        apps = {name: create_app(node, SETTINGS) for name, node in mesh.nodes.items()}
        yield mesh, {name: await stack.enter_async_context(served(app)) for name, app in apps.items()}


async def train(port: int, rounds: int = 2) -> Result:
    """`flnet train --wait`, in a thread."""
    words = ("train", T, "--rounds", str(rounds), "--wait", "--node", f"127.0.0.1:{port}")
    return await asyncio.to_thread(CliRunner().invoke, cli, words)


async def seen(port: int) -> tuple[str, str]:
    """The page of a node, and the words of `flnet status`."""
    async with httpx.AsyncClient(trust_env=False) as client:
        page = await client.get(f"http://127.0.0.1:{port}/", headers={"Accept-Language": "en"})
    told = await asyncio.to_thread(CliRunner().invoke, cli, ("status", "--node", f"127.0.0.1:{port}"))
    return html.unescape(page.text), " ".join(told.output.split())


@pytest.fixture(autouse=True)
def _looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flnet.cli.epochs.POLL_SECONDS", 0.01)


def with_column(table: Table, name: str, cells: list[str]) -> Table:
    return table._replace(columns={**table.columns, name: cells})


# The data of one node cannot be used at all: it says so itself, and to whoever asks it.
ALONE = {
    "a label with one class": (
        with_column(INSURER, "claim", ["yes"] * COUNT),
        "the label column has one value only; nothing can be learnt from it",
    ),
    "a column of zero variance": (
        with_column(INSURER, "cost", ["7"] * COUNT),
        "feature column cost has the same value in all rows; leave it out",
    ),
    "NaN": (with_column(INSURER, "cost", ["NaN", *VALUES[1:]]), "column cost has no value in 1 of 24 rows"),
    "infinity": (
        with_column(INSURER, "cost", ["inf", *VALUES[1:]]),
        "column cost has numbers that are not finite",
    ),
    "no column left": (
        INSURER._replace(target="", more='ignore = ["cost", "claim"]\n'),
        "there is neither a feature column nor a label column",
    ),
    "ids that repeat": (
        with_column(INSURER, "id", ["P0", *IDS[:-1]]),
        "1 of 24 ids repeat the id of an earlier row",
    ),
    "ids that are missing": (with_column(INSURER, "id", ["", *IDS[1:]]), "1 of 24 ids are missing or empty"),
}


@pytest.mark.parametrize(("insurer", "words"), ALONE.values(), ids=ALONE)
async def test_data_that_a_node_cannot_use_are_refused_with_a_reason_by_it_and_by_whoever_needs_it(
    tmp_path: Path, insurer: Table, words: str
) -> None:
    async with nodes_with(tmp_path, bank=BANK, insurer=insurer) as (mesh, ports):
        refused, asked = await train(ports["insurer"]), await train(ports["bank"])
        for result in (refused, asked):
            assert result.exit_code == 1
            assert words in result.stderr
        page, status = await seen(ports["insurer"])
        assert words in page
        assert words in status
        page, status = await seen(ports["bank"])  # its error names the node that cannot, and why
        assert "insurer: " in page
        assert words in page
        assert "no other node holds columns of this job" in status
        assert {job_of(node).models.closed for node in mesh.nodes.values()} == {-1}


async def test_who_misses_the_label_is_told_whose_data_cannot_be_used(tmp_path: Path) -> None:
    one_class, words = ALONE["a label with one class"]
    clinic = Table({"id": IDS, "pulse": VALUES})
    async with nodes_with(tmp_path, bank=BANK, clinic=clinic, insurer=one_class) as (_, ports):
        result = await train(ports["bank"])
        assert result.exit_code == 1
        assert "no holder has the label; one of bank, clinic needs it" in result.stderr
        assert words in result.stderr


# The data of the nodes do not fit together: all holders are told.
TOGETHER = {
    "no common id": (
        BANK._replace(columns={"id": [f"Q{number}" for number in range(COUNT)], "age": VALUES}),
        INSURER,
        "bank, insurer have no id in common",
    ),
    "ids with other types": (
        BANK._replace(columns={"id": [str(number) for number in range(COUNT)], "age": VALUES}),
        INSURER,
        "they have to write ids alike (prefixes, hyphens and leading zeros count)",
    ),
    "one common id": (
        BANK._replace(columns={"id": ["P3", *(f"Q{number}" for number in range(1, COUNT))], "age": VALUES}),
        INSURER,
        "the holders have 1 id in common; at least 2 are needed",
    ),
    "a label with one class in the common rows": (
        BANK,
        with_column(INSURER, "claim", ["yes", *["no"] * (COUNT - 1)])._replace(
            columns={"id": ["other", *IDS[1:]], "cost": VALUES, "claim": ["yes", *["no"] * (COUNT - 1)]}
        ),
        "the label has one value only in the",
    ),
    "two label holders": (
        Table({"id": IDS, "age": VALUES, "claim": LABELS}, "claim"),
        INSURER,
        "bank, insurer all hold a label, but this job is meant for one label holder",
    ),
    "no label holder": (
        BANK,
        Table({"id": IDS, "cost": VALUES}),
        "no holder has the label; one of bank, insurer needs it",
    ),
    "no features": (
        Table({"id": IDS, "claim": LABELS}, "claim", "features = []\nseveral_labels = true\n"),
        INSURER._replace(more="features = []\nseveral_labels = true\n"),
        "no holder has features",
    ),
}


@pytest.mark.parametrize(("bank", "insurer", "words"), TOGETHER.values(), ids=TOGETHER)
async def test_data_that_do_not_fit_together_are_refused_with_a_reason_on_all_nodes(
    tmp_path: Path, bank: Table, insurer: Table, words: str
) -> None:
    async with nodes_with(tmp_path, bank=bank, insurer=insurer) as (mesh, ports):
        result = await train(ports["bank"])
        assert result.exit_code == 1
        assert words in result.stderr
        for port in ports.values():
            await until(lambda: all(node.job(T).error for node in mesh.nodes.values()))
            page, status = await seen(port)
            assert words in page
            assert words in status
        assert {job_of(node).models.closed for node in mesh.nodes.values()} == {-1}


async def test_data_that_fit_are_trained_on(tmp_path: Path) -> None:
    async with nodes_with(tmp_path, bank=BANK, insurer=INSURER) as (mesh, ports):
        result = await train(ports["bank"])
        assert (result.exit_code, result.stderr) == (0, "")
        assert "24 common rows, 2 trained epochs" in result.output
        assert {job_of(node).models.closed for node in mesh.nodes.values()} == {1}
