"""Data files whose header or lines fill memory or take for ever, and a trainer that never ends to load what came."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from flnet.datasets import dataset_import, tables
from flnet.datasets.dataset_import import bring_to, place_of
from flnet.datasets.multi_label import read_multi_label
from flnet.datasets.tables import LONGEST_ROW
from flnet.datasets.text_rows import text_rows
from flnet.errors import ImportRefused, TrainerError
from flnet.trainer import TrainerFile
from tests.processes.harness import Harness, RealNode, harness, until

MILLION = 1_000_000
WIDE = ",".join(f"c{n}" for n in range(MILLION // 4))
ATTACKS: dict[str, tuple[str, Callable[[], Iterator[str]], str]] = {
    "a wide header": ("csv", lambda: iter([WIDE, "\n"]), "250,000 columns; expected at most 100,000"),
    "a million columns": ("csv", lambda: iter(["c," * MILLION, "c\n"]), "more than 4,194,304|1,000,001 columns"),
    "a line without end": ("csv", lambda: ("1," * MILLION for _ in range(30)), "more than 4,194,304 characters"),
    "a row without end": (
        "csv",
        lambda: iter(["a\n", *['"x\n",' * MILLION] * 6]),
        "more than 4,194,304 characters",
    ),
    "a cell without end": (
        "csv",
        lambda: iter(["a\n", '"', *["x\n" * MILLION] * 6]),
        "field larger than field limit",
    ),
    "attributes": (
        "arff",
        lambda: (f"@attribute c{n} numeric\n" for n in range(MILLION)),
        "100,001 columns; expected at most 100,000",
    ),
    "values of attributes": (
        "arff",
        lambda: (f"@attribute c{n} {{{','.join(f'v{v}' for v in range(10_000))}}}\n" for n in range(100)),
        "110,000 columns; expected at most 100,000",
    ),
    "an attribute without end": (
        "arff",
        lambda: iter(["@attribute c {", *["0,1," * MILLION] * 6]),
        "more than 4,194,304 characters",
    ),
    "a comment without end": (
        "arff",
        lambda: iter(["% ", *["'%" * MILLION] * 6]),
        "more than 4,194,304 characters",
    ),
}


@pytest.mark.parametrize("name", ATTACKS)
def test_a_table_that_is_too_wide_or_too_long_is_refused_in_bounded_memory(tmp_path: Path, name: str) -> None:
    ending, parts, words = ATTACKS[name]
    path = tmp_path / f"t.{ending}"
    with path.open("w") as file:
        file.writelines(parts())
    tracemalloc.start()
    try:
        with pytest.raises(TrainerError, match=words):
            read_multi_label(path, label_columns=1)
        if ending == "csv":
            with pytest.raises(TrainerError, match=words), text_rows(path) as table:
                list(table.rows)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 25 * LONGEST_ROW


@pytest.mark.parametrize("row", ["{}", ",".join(["a"] * 2_000)])
def test_rows_that_stand_for_many_more_values_than_they_have_bytes_end(
    tmp_path: Path, row: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "MOST_VALUES", MILLION)
    path = tmp_path / "t.arff"
    with path.open("w") as file:
        file.writelines([*(f"@attribute c{n} {{a,b}}\n" for n in range(2_000)), "@data\n", *[f"{row}\n"] * 20_000])
    with pytest.raises(TrainerError, match="more than 1,000,000 values; ignore columns, or bring fewer rows"):
        read_multi_label(path, label_columns=1, on_bad_rows="skip")


def test_a_list_of_labels_without_end_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "t.arff").write_text("@relation r\n@attribute a numeric\n@attribute b {0,1}\n@data\n1,0\n")
    with (tmp_path / "t.xml").open("w") as file:
        file.writelines(["<labels>", *["<label name='b'/>" * MILLION]])
    with pytest.raises(TrainerError, match="no list of labels is so long"):
        read_multi_label(tmp_path / "t.arff")


@pytest.mark.parametrize("limit", ["MOST_ROWS", "MOST_NEW_ROWS", "MOST_NEW_BYTES"])
def test_rows_that_are_added_are_held_in_bounded_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    place = place_of(TrainerFile("X", "x.py", place="t.csv"), tmp_path / "data")
    place.datasets.mkdir()
    place.path.write_text("a\n1\n2\n3\n")
    source = tmp_path / "more.csv"
    source.write_text("a\n4\n5\n6\n")
    monkeypatch.setattr(dataset_import, limit, 2)
    with pytest.raises(ImportRefused, match=r"more than 2 (rows|bytes); add fewer, or replace the table"):
        bring_to(place, source, 0.1, add=True)
    assert place.path.read_text() == "a\n1\n2\n3\n"


TRAINER = '''
"""The mean of the numbers in a table; where a column is named "slow", it never ends to read them."""

import time

import numpy as np

from flnet.datasets.text_rows import text_rows
from flnet.trainer import DataInfo, Fit, Score, Trainer

DATA_PLACE = "numbers.csv"


class Numbers(Trainer):
    def __init__(self, settings):
        self.path = settings.datasets_path / DATA_PLACE
        with text_rows(self.path) as table:
            while "slow" in table.header:
                time.sleep(0.1)
            self.x = np.array([[float(cells[0])] for where, cells in table.rows], "float32")

    def initial_params(self, seed):
        return {"w": np.zeros(1, "float32")}

    def fit(self, task):
        return Fit({"w": self.x.mean(0)}, examples=len(self.x))

    def evaluate(self, params):
        return Score(0.5, examples=1)

    def data_info(self):
        return DataInfo(source=f"table {self.path}", rows={"train": len(self.x)}, checksum=str(self.x.sum()))


def make_trainer(settings):
    return Numbers(settings)
'''


@pytest.fixture
def nodes(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Harness]:
    """One node; a test may say how many seconds its imports have."""
    seconds = getattr(request, "param", "60")
    with harness(tmp_path) as made:
        (made.trainers / "NUMBERS.py").write_text(TRAINER)
        (tmp_path / "data").mkdir()
        (tmp_path / "data" / "numbers.csv").write_text("x\n1\n2\n")
        paths = {"DATASETS_PATH": str(tmp_path / "data"), "MAX_IMPORT_SECONDS": seconds}
        made.start(TRAINERS="NUMBERS", COMPUTE="process", **paths)
        made.ready()
        yield made


def bring(node: RealNode, data: bytes, how: str = "replace") -> httpx.Response:
    return node.http.post(f"/data/NUMBERS/import?name=numbers.csv&{how}=true", content=data, timeout=120)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["replace", "add"])
def test_a_node_refuses_a_million_columns_and_keeps_its_data(nodes: Harness, how: str) -> None:
    (node,) = nodes.nodes
    answer = bring(node, b"c," * MILLION + b"c\n1\n", how)
    assert (answer.status_code, answer.json()["error"]) == (422, "import_refused")
    assert "1,000,001 columns; expected at most 100,000" in answer.json()["message"]
    assert node.job("NUMBERS")["data"]["rows"] == {"train": 2}


@pytest.mark.slow
@pytest.mark.parametrize("nodes", ["4"], indirect=True)
def test_data_that_a_trainer_never_ends_to_load_are_taken_out_again(nodes: Harness, tmp_path: Path) -> None:
    (node,) = nodes.nodes
    answer = bring(node, b"slow\n1\n")
    assert answer.status_code == 422
    assert "NUMBERS did not load its data within 4 s" in answer.json()["message"]
    assert (tmp_path / "data" / "numbers.csv").read_text() == "x\n1\n2\n"

    def brought() -> bool:  # a busy machine may need more than one try
        return bool(bring(node, b"x\n3\n4\n5\n").json().get("rows") == {"train": 3})

    until(brought, "data that load: nothing is held up")
    assert node.trigger("NUMBERS").status_code == 202
    until(lambda: bool(node.history("NUMBERS")), "a round")
