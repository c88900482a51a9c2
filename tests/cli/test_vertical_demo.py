"""`flnet demo --vertical`: the files that it writes, its table, and the whole as a person runs it."""

from __future__ import annotations

import csv
import importlib.util
import os
import re
import signal
from collections.abc import Callable
from dataclasses import replace
from io import StringIO
from pathlib import Path

import numpy as np
import psutil
import pytest
from click.testing import Result
from rich.console import Console

from flnet.algorithms.vertical.identifiers import normalised_column
from flnet.cli import vertical_demo
from flnet.cli.vertical_demo import SHARES, comparison_table, note, read_tumours, write_shares
from flnet.datasets.no_code import OwnColumns, read_own
from flnet.datasets.no_code_columns import read_columns
from flnet.errors import DataMissing
from flnet.experiments.vertical_mesh import MeshComparison, MeshFigures
from flnet.params.params import PeerId
from tests.cli.live import answers, flnet, until, until_ended
from tests.ports import free_port

A, B, C = PeerId("node-a"), PeerId("node-b"), PeerId("node-c")
MADE_UP = np.random.default_rng(1).normal(size=(240, 30)), np.arange(240) % 2
COMPARED = MeshComparison(
    {A: 10, B: 10, C: 10},
    A,
    {A: MeshFigures(0.75, 0.5), B: MeshFigures(0.8, 0.9), C: MeshFigures(0.85, None)},
    MeshFigures(0.875, 0.99),
    MeshFigures(0.875, 0.99),
    True,
    446,
    89,
)


def ids_of(path: Path) -> list[str]:
    with path.open(newline="", encoding="utf-8") as file:
        return [row[0] for row in list(csv.reader(file))[1:]]


# files


def test_each_node_gets_ten_columns_in_an_order_of_its_own_and_one_gets_the_label(tmp_path: Path) -> None:
    folders = write_shares(tmp_path, *MADE_UP)
    owns = [read_own(folder / "TUMOURS.toml") for folder in folders]
    columns = [
        read_columns(folder / "patients.csv", own)
        for folder, own in zip(folders, owns, strict=True)
        if isinstance(own, OwnColumns)
    ]
    assert [folder.name for folder in folders] == ["node-a", "node-b", "node-c"]
    assert [len(each.names) for each in columns] == [10, 10, 10]
    assert len({name for each in columns for name in each.names}) == 30
    assert [each.classes for each in columns] == [("benign", "malignant"), (), ()]
    assert len({tuple(each.ids) for each in columns}) == 3


def test_nodes_write_ids_differently_and_have_patients_that_no_other_has(tmp_path: Path) -> None:
    files = [ids_of(folder / "patients.csv") for folder in write_shares(tmp_path, *MADE_UP)]
    assert not set(files[0]) & set(files[1])
    sets = [set(normalised_column(ids)) for ids in files]
    common = set.intersection(*sets)
    assert 180 < len(common) < 240
    for place, own in enumerate(sets):
        others = set.union(*(ids for other, ids in enumerate(sets) if other != place))
        assert len(own - others) > 5
    assert len(set.union(*sets) - common) > 30


def test_a_row_has_the_values_of_its_patient(tmp_path: Path) -> None:
    x, y = MADE_UP
    for folder, first in zip(write_shares(tmp_path, x, y), (10, 0, 20), strict=True):
        with (folder / "patients.csv").open(newline="", encoding="utf-8") as file:
            for row in list(csv.reader(file))[1:]:
                patient = int(row[0].strip()[3:]) - 1
                assert list(map(float, row[1:11])) == pytest.approx(x[patient, first : first + 10], rel=1e-5)
                assert row[11:] == ([] if first != 10 else [["malignant", "benign"][y[patient]]])


def test_the_data_are_those_of_scikit_learn() -> None:
    datasets = pytest.importorskip("sklearn.datasets", reason="scikit-learn is not installed")
    x, y = read_tumours()
    bundled = datasets.load_breast_cancer()
    assert np.array_equal(x, bundled.data)
    assert np.array_equal(y, bundled.target)
    names = [f"{share.kind} {name}" for share in SHARES for name in vertical_demo.MEASURES]
    assert {name.replace("error ", "") + " error" if "error" in name else name for name in names} == set(
        bundled.feature_names
    )


def test_without_scikit_learn_the_demo_says_what_to_install(
    flnet: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(DataMissing, match="scikit-learn"):
        read_tumours()
    refused = flnet("demo", "--vertical", "--exit")
    assert refused.exit_code == 1
    assert 'pip install "scikit-learn' in refused.output


@pytest.mark.parametrize("other", [("--nodes", "3"), ("--trainer", "MNIST"), ("--alone",)])
def test_options_of_the_other_demo_are_refused(flnet: Callable[..., Result], other: tuple[str, ...]) -> None:
    refused = flnet("demo", "--vertical", *other)
    assert refused.exit_code == 2
    assert "leave --nodes, --trainer and --alone away" in refused.output


# the table


def rows(compared: MeshComparison) -> list[str]:
    out = StringIO()
    Console(file=out, width=160).print(comparison_table(compared))
    return [" ".join(line.split()) for line in out.getvalue().splitlines() if re.search(r"\d\.\d{4}", line)]


def test_own_columns_together_and_in_one_place_stand_below_each_other() -> None:
    assert rows(COMPARED) == [
        "node-a's 10 columns alone (has the diagnosis) 0.7500 0.5000",
        "node-b's 10 columns alone (if it had the diagnosis) 0.8000 0.9000",
        "node-c's 10 columns alone (if it had the diagnosis) 0.8500 -",
        "together: 3 nodes with 30 columns 0.8750 0.9900",
        "all 30 columns in one place 0.8750 0.9900",
    ]


def test_the_note_says_whether_the_weights_are_equal() -> None:
    assert "the same 89 of 446 common patients held out" in note(COMPARED)
    assert "to the last bit" in note(COMPARED)
    assert "are NOT those" in note(replace(COMPARED, is_equal=False))


# the whole


@pytest.fixture
def _libraries() -> None:
    pytest.importorskip("nacl", reason="PyNaCl is not installed (the extra `vertical`)")
    pytest.importorskip("sklearn", reason="scikit-learn is not installed")


@pytest.mark.slow
@pytest.mark.usefixtures("_libraries")
def test_the_demo_trains_over_the_mesh_what_one_place_would_and_ends(tmp_path: Path) -> None:
    args = ("--vertical", "--rounds", "2", "--exit", "--base-port", str(free_port()))
    with flnet(tmp_path, "demo", *args) as process:
        out, err = process.communicate()
    assert process.returncode == 0, out + err
    assert re.search(r"node-a +502 patients, 10 columns \(error values\), and the diagnosis", out)
    assert (
        len(re.findall(r"^epoch [01]: accuracy 0\.\d{4}, auc 0\.\d{4}, loss \d\.\d{4}$", out, re.MULTILINE)) == 2
    )
    assert re.search(r"alignment and 2 epochs in \d+\.\d s; the nodes sent \d.* in all", out)
    figures = re.findall(r"^ (node-.|together|all 30).* (\d\.\d{4}) +(\d\.\d{4}) *$", out, re.MULTILINE)
    assert [name for name, _, _ in figures] == ["node-a", "node-b", "node-c", "together", "all 30"]
    assert figures[3][1:] == figures[4][1:]
    assert "the same 89 of 446 common patients held out" in out
    assert "those of the network in one place, to the last bit" in out
    assert not list(tmp_path.glob("flnet*")), "the folder of states and logs is left behind"


@pytest.mark.slow
@pytest.mark.usefixtures("_libraries")
def test_the_nodes_stay_with_their_files_until_ctrl_c(tmp_path: Path) -> None:
    with flnet(tmp_path, "demo", "--vertical", "--rounds", "1", "--base-port", str(free_port())) as process:
        lines = []
        assert process.stdout is not None
        for line in process.stdout:
            lines.append(line)
            if "press Ctrl-C to end" in line:
                break
        out = "".join(lines)
        ports = {
            int(port) for port in re.findall(r"127\.0\.0\.1:(\d+)/", out.partition("stay up for the browser")[2])
        }
        assert len(ports) == 3, out
        until(lambda: all(answers(port, "/jobs/TUMOURS") for port in ports), "the jobs")
        files = re.search(
            r"^The files of the nodes are in (.+); they are removed at the end\.$", out, re.MULTILINE
        )
        assert files is not None, out
        found = sorted(str(path.relative_to(files[1])) for path in Path(files[1]).glob("*/*"))
        assert found == [f"node-{x}/{name}" for x in "abc" for name in ("TUMOURS.toml", "patients.csv")]
        nodes = psutil.Process(process.pid).children(recursive=True)
        os.kill(process.pid, signal.SIGINT)
        _, err = process.communicate()
    assert process.returncode == 0, err
    until_ended(nodes)
    assert not Path(files[1]).exists()
