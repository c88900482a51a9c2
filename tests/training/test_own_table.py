"""One node's rows: split for good and by groups, standardised by what is agreed or by the node's own figures."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from flnet.errors import DataMissing, TrainerError
from flnet.training.own_table import load_table, standardised
from tests.training.own_files import csv_file, node, table, two_clouds


def test_rows_are_split_in_the_proportions_asked_for_and_for_good(tmp_path: Path) -> None:
    rows = two_clouds(200)
    csv_file(tmp_path / "t.csv", ["a", "b", "y"], rows)
    first = load_table(table(split=[60, 20, 20]), node(tmp_path))
    assert {side: len(y) for side, (_, y) in first.sides.items()} == {"train": 120, "validation": 40, "test": 40}
    assert first.info.source == f"table {tmp_path / 't.csv'}"
    csv_file(tmp_path / "t.csv", ["a", "b", "y"], [*two_clouds(40, seed=9), *reversed(rows)])
    again = load_table(table(split=[60, 20, 20]), node(tmp_path))
    assert {side: len(y) for side, (_, y) in again.sides.items()} == {"train": 144, "validation": 48, "test": 48}


def test_no_test_row_is_ever_trained_on(tmp_path: Path) -> None:
    own = table(scale={"a": [0, 1], "b": [0, 1]})  # agreed scales: rows can be recognised again
    csv_file(tmp_path / "t.csv", ["a", "b", "y"], two_clouds(100))
    before = {tuple(row) for row in load_table(own, node(tmp_path)).sides["test"][0].tolist()}
    csv_file(
        tmp_path / "t.csv", ["b", "a", "y"], [[b, a, y] for a, b, y in [*two_clouds(100, 1), *two_clouds(100)]]
    )
    after = {tuple(row) for row in load_table(own, node(tmp_path)).sides["train"][0].tolist()}
    assert before
    assert not before & after


def test_numbers_are_standardised_by_the_nodes_own_training_rows(tmp_path: Path) -> None:
    csv_file(tmp_path / "t.csv", ["a", "b", "y"], two_clouds(200))
    x, _ = load_table(table(), node(tmp_path)).sides["train"]
    assert x.dtype == np.float32
    assert np.allclose(x.mean(axis=0), 0, atol=1e-5)
    assert np.allclose(x.std(axis=0), 1, atol=1e-5)


def test_an_agreed_scale_is_taken_instead(tmp_path: Path) -> None:
    csv_file(tmp_path / "t.csv", ["a", "y"], [[i, "ny"[i % 2]] for i in range(50)])
    data = load_table(table(scale={"a": [10, 5]}), node(tmp_path))
    x, _ = data.sides["train"]
    assert set(np.round(x[:, 0] * 5 + 10).astype(int)) <= set(range(50))


def test_missing_values_become_the_mean_and_a_constant_column_does_no_harm(tmp_path: Path) -> None:
    rows = [[i if i % 5 else "", 7, "ny"[i % 2]] for i in range(60)]
    csv_file(tmp_path / "t.csv", ["a", "b", "y"], rows)
    data = load_table(table(missing="mean"), node(tmp_path))
    everything = np.concatenate([x for x, _ in data.sides.values()])
    assert np.isfinite(everything).all()
    assert (everything[:, 0] == 0).sum() == 12
    assert (everything[:, 1] == 0).all()


def test_one_wild_number_is_bounded() -> None:
    out = standardised(np.array([[np.nan, 3e38]], np.float32), np.array([[0.0, 1.0], [0.0, 1e-30]]))
    assert out.tolist() == [[0, 1e6]]


@pytest.mark.parametrize("partition", ["iid", "groups", "pathological:1"])
def test_groups_stay_together_over_shards_and_sides(tmp_path: Path, partition: str) -> None:
    rows = [[a, b, f"patient {i // 4}", y] for i, (a, b, y) in enumerate(two_clouds(240))]
    csv_file(tmp_path / "t.csv", ["a", "b", "p", "y"], rows)
    owner: dict[tuple[float, ...], int] = {}
    seen: list[set[str]] = []
    own = table(id="p", scale={"a": [0, 1], "b": [0, 1]})
    numbers = np.array([[a, b] for a, b, _, _ in rows], np.float32).tolist()
    patient = {tuple(pair): row[2] for pair, row in zip(numbers, rows, strict=True)}
    for part in (1, 2):
        data = load_table(own, node(tmp_path, f"node{part}", (part, 2), partition))
        for x, _ in data.sides.values():
            seen.append({str(patient[tuple(row)]) for row in x.tolist()})
            owner |= {tuple(row): part for row in x.tolist()}
    assert len(owner) == 240
    assert sum(map(len, seen)) == len(set().union(*seen)) == 60


def test_rows_are_dealt_by_a_partition_and_groups_need_an_id(tmp_path: Path) -> None:
    csv_file(tmp_path / "t.csv", ["a", "b", "y"], two_clouds(240))
    data = [load_table(table(), node(tmp_path, f"n{i}", (i, 2), "pathological:1")) for i in (1, 2)]
    assert [sum(one.info.rows.values()) for one in data] == [120, 120]
    assert [sum(map(bool, one.info.counts["test"])) for one in data] == [1, 1]
    assert data[1].info.note == "this node has part 2 of 2 of the partition pathological:1"
    with pytest.raises(TrainerError, match="this trainer gives none"):
        load_table(table(), node(tmp_path, "n3", (1, 2), "groups"))


def test_a_regression_is_split_evenly_over_its_target(tmp_path: Path) -> None:
    csv_file(tmp_path / "t.csv", ["a", "y"], [[i, 3 * i] for i in range(200)])
    data = load_table(table(task="regress", target_scale=[300, 170]), node(tmp_path))
    means = [float(y.mean()) for _, y in data.sides.values()]
    assert max(means) - min(means) < 0.2


def test_too_few_rows_are_told(tmp_path: Path) -> None:
    csv_file(tmp_path / "t.csv", ["a", "y"], [[1, "n"], [2, "y"]])
    with pytest.raises(DataMissing, match=r"too few rows in .*t.csv: .* in train"):
        load_table(table(), node(tmp_path))
