"""In which order a node has its labels: the argmax accuracy depends on it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from trainers._multi_label import load_node_data, node_label_numbers
from trainers._multi_label_options import Options

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from tests.trainers.test_multi_label import node, write_data  # noqa: E402


def test_the_same_labels_in_the_order_of_the_file_or_in_a_drawn_one() -> None:
    options, labels = Options(deal=[4, 2]), tuple("abcdef")
    drawn = [node_label_numbers(replace(options, label_order="drawn"), labels, (1, 2), seed) for seed in range(8)]
    ascending = [node_label_numbers(options, labels, (1, 2), seed) for seed in range(8)]
    assert [sorted(numbers) for numbers in drawn] == [numbers.tolist() for numbers in ascending]
    assert any(numbers.tolist() != sorted(numbers) for numbers in drawn)


def test_columns_keep_their_names_in_a_drawn_order(tmp_path: Path) -> None:
    write_data(tmp_path, options='node_labels = [["b", "f"], ["a", "c", "e", "d"]]\nlabel_order = "drawn"')
    data = load_node_data(node(tmp_path, part=2))
    assert sorted(data.info.classes) == list("acde")
    truth = np.load(tmp_path / "ml_scene.npz", allow_pickle=False)
    columns = ["abcdef".index(name) for name in data.info.classes]
    known = {(x.tobytes(), y[columns].tobytes()) for x, y in zip(truth["X"], truth["Y"], strict=True)}
    side = data.sides["train"]
    assert {(x.tobytes(), y.tobytes()) for x, y in zip(side.x, side.y, strict=True)} <= known
