"""`flnet demo --vertical`: three local nodes that hold different columns of the same patients.

Tumour data that come with scikit-learn are written to a folder for each node, as a CSV file and the TOML file of a
trainer without code. The nodes find their common patients, and train one network. Then the same network is trained in
one place, and with the columns of one node only.
"""

from __future__ import annotations

import csv
import importlib.util
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from flnet.cli.local_mesh import DemoFailed, DemoPlan, LocalRun, node_ids, opened
from flnet.cli.output import accuracy, counted, numbers, printable, table
from flnet.cli.progress import RoundFailed, RoundResult, failure
from flnet.errors import DataMissing, FlnetError
from flnet.experiments.vertical_mesh import (
    HolderFiles,
    MeshComparison,
    MeshFigures,
    compare_with_one_place,
)
from flnet.params.params import Array, PeerId, TrainerId
from flnet.web.formatting import size_words

TRAINER = TrainerId("TUMOURS")
FILES, CSV_FILE = "files", "patients.csv"
COMPARE_SECONDS = 20.0  # that nodes have to save the end of the last epoch
MEASURES = (
    *("radius", "texture", "perimeter", "area", "smoothness", "compactness", "concavity", "concave points"),
    *("symmetry", "fractal dimension"),
)
_CLASSES = ("malignant", "benign")  # of 0 and 1 in the file


@dataclass(frozen=True)
class Share:
    """What one node has of the patients.

    Attributes:
        kind: of the ten columns, the first word of their names.
        id: name of the column of ids.
        written: how it writes the id of patient 7, by a format.
        has_label: whether it has the column of the diagnosis.
    """

    kind: str
    id: str
    written: str
    has_label: bool = False


SHARES = (
    Share("error", "patient", "BC-{:04d}", has_label=True),
    Share("mean", "Patient", "bc-{:04d}"),
    Share("worst", "person", " BC-{:04d} "),
)


def read_tumours() -> tuple[Array, Array]:
    """The data: (569, 30) numbers, ten of each kind, and (569,) labels of 0 (malignant) and 1.

    The file is read past scikit-learn, whose import takes a second.

    Raises:
        DataMissing: scikit-learn is not installed, or has no such file.
    """
    spec = importlib.util.find_spec("sklearn")
    folders = (spec.submodule_search_locations or ()) if spec else ()
    for path in (Path(folder, "datasets", "data", "breast_cancer.csv") for folder in folders):
        if path.is_file():
            rows = np.loadtxt(path, np.float64, delimiter=",", skiprows=1)
            return rows[:, :-1], rows[:, -1].astype(np.int64)
    raise DataMissing(
        "the tumour data of scikit-learn are not here", 'install it: pip install "scikit-learn>=1.5"'
    )


def write_shares(folder: Path, x: Array, y: Array) -> list[Path]:
    """Write the files of all nodes, each in its order of rows; every 8th patient is at one node or two only.

    Returns:
        The folder of each node, with a CSV file and a TOML file.
    """
    chance = np.random.default_rng(0)
    absent = [chance.permutation(len(y))[: len(y) // 24] for _ in SHARES]
    lone = np.array_split(chance.permutation(len(y))[: len(y) // 8], len(SHARES))
    folders = []
    for place, (name, share) in enumerate(zip(node_ids(len(SHARES)), SHARES, strict=True)):
        elsewhere = np.concatenate([absent[place], *(rows for at, rows in enumerate(lone) if at != place)])
        rows = chance.permutation(np.setdiff1d(np.arange(len(y)), elsewhere))
        folders.append(folder / name)
        _write_share(folders[-1], share, rows, x, y)
    return folders


def _write_share(folder: Path, share: Share, rows: Array, x: Array, y: Array) -> None:
    kinds = ("mean", "error", "worst")  # in the order of the file
    columns = x[:, kinds.index(share.kind) * len(MEASURES) :][:, : len(MEASURES)]
    folder.mkdir(parents=True)
    with (folder / CSV_FILE).open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        label = ["diagnosis"] if share.has_label else []
        writer.writerow([share.id, *(f"{share.kind} {name}" for name in MEASURES), *label])
        for row in rows:
            diagnosis = [_CLASSES[y[row]]] if share.has_label else []
            writer.writerow([share.written.format(row + 1), *(f"{n:.6g}" for n in columns[row]), *diagnosis])
    lines = ['kind = "vertical"', f'data = "{CSV_FILE}"', f'id = "{share.id}"', "share_names = true"]
    lines += ["allow_predictions = true", *(['target = "diagnosis"'] if share.has_label else [])]
    (folder / f"{TRAINER}.toml").write_text("\n".join(lines) + "\n", "utf-8")


class VerticalRun(LocalRun):
    """A run whose nodes hold different columns.

    Attributes:
        seconds: that the epochs took, with the alignment.
    """

    seconds = 0.0

    def how(self) -> str:
        """In which way the nodes are started."""
        return "each with other columns of the same patients"

    def data_lines(self) -> list[str]:
        """What each node has."""
        lines = []
        for name, share in zip(self.clients, SHARES, strict=True):
            rows = (self.data[name].get("rows") or {}).get("train", "?")
            label = ", and the diagnosis" if share.has_label else ""
            lines.append(f"  {name}  {printable(rows)} patients, 10 columns ({share.kind} values){label}")
        return lines

    def asked_words(self) -> str:
        """Which node was asked for the epochs."""
        return f"{next(iter(self.clients))} was asked for {counted(self.plan.rounds, 'epoch')}; any other node would do"

    def result_words(self, result: RoundResult) -> str:
        """An epoch that is over."""
        figures = next(iter(result.figures.values()), {})
        words = [
            f"{name} {accuracy(figures.get(name))}" for name in ("accuracy", "auc", "loss") if name in figures
        ]
        return f"epoch {result.number}: {', '.join(words)}"

    def _rounds(self) -> list[RoundResult]:
        begin = time.monotonic()
        results = super()._rounds()
        self.seconds = time.monotonic() - begin
        return results

    def compared(self, folders: Sequence[Path], states: Path) -> MeshComparison:
        """Train again in one place, when all nodes have saved the last epoch.

        Raises:
            DemoFailed: they do not.
        """
        nodes = {
            PeerId(name): HolderFiles(folder / f"{TRAINER}.toml", folder, states / name)
            for name, folder in zip(self.clients, folders, strict=True)
        }
        deadline = time.monotonic() + COMPARE_SECONDS
        while True:
            try:
                return compare_with_one_place(TRAINER, nodes, self.plan.rounds)
            except FlnetError as exc:
                if time.monotonic() > deadline:
                    raise DemoFailed(f"the comparison failed: {exc}") from exc
            time.sleep(0.2)

    def cost_words(self) -> str:
        """The time of the epochs, and the bytes by the records of the nodes."""
        records = [record for client in self.clients.values() for record in client.history(TRAINER)]
        sent = sum(numbers(record.get("bytes")).get("sent", 0) for record in records)
        epochs = counted(self.plan.rounds, "epoch")
        return f"alignment and {epochs} in {self.seconds:.1f} s; the nodes sent {size_words(int(sent))} in all"


def comparison_table(compared: MeshComparison) -> Table:
    """Each node's columns alone, together, and in one place."""
    shown = table("columns", "accuracy", "AUC", title="Own columns only, together, and all columns in one place")
    for peer, figures in compared.alone.items():
        label = "has the diagnosis" if peer == compared.label else "if it had the diagnosis"
        shown.add_row(f"{peer}'s {compared.columns[peer]} columns alone ({label})", *_cells(figures))
    count = sum(compared.columns.values())
    shown.add_row(f"together: {len(compared.columns)} nodes with {count} columns", *_cells(compared.together))
    shown.add_row(f"all {count} columns in one place", *_cells(compared.in_one_place))
    return shown


def _cells(figures: MeshFigures) -> Sequence[str]:
    return accuracy(figures.accuracy), accuracy(figures.auc)


def note(compared: MeshComparison) -> str:
    """What the rows of the table have in common."""
    equal = (
        "the weights of the nodes are those of the network in one place, to the last bit"
        if compared.is_equal
        else "the weights of the nodes are NOT those of the network in one place"
    )
    return (
        f"all rows: the same {compared.held_out} of {compared.common} common patients held out, the same batches, first "
        f"weights and epochs; {equal}"
    )


def run_vertical(rounds: int, base_port: int, patience: float, folder: Path, out: Console, *, leave: bool) -> None:
    """Start the nodes, train, compare, and keep the nodes running.

    Raises:
        DataMissing: scikit-learn is not installed.
        DemoFailed, RoundFailed, NodeEnded: something failed.
    """
    folders = write_shares(folder / FILES, *read_tumours())
    settings = [{"trainers_path": each, "datasets_path": each} for each in folders]
    plan = DemoPlan(TRAINER, len(folders), rounds, base_port, patience, settings)
    with opened(VerticalRun, plan, folder / "together", out) as run:
        results = run.train()
        if failed := failure(results):
            raise RoundFailed(failed)
        if results:
            out.print(run.cost_words())
            compared = run.compared(folders, folder / "together")
            out.print(comparison_table(compared))
            out.print(note(compared), soft_wrap=True)
        if not leave:
            out.print(
                f"\nThe files of the nodes are in {folder / FILES}; they are removed at the end.", soft_wrap=True
            )
            run.stay()
