from __future__ import annotations

from flnet.cli.local_run import data_lines
from tests.cli.fake_node import job


def test_sample_data_are_called_samples() -> None:
    [line] = data_lines({"node-a": job()["data"], "node-b": job()["data"]})
    assert line.startswith("data: SAMPLE DATA, not the real data set: bundled digits")
    assert "node-a 300+100, node-b 300+100" in line


def test_real_data_are_named_per_source() -> None:
    real = {"source": "MNIST in a folder", "rows": {"train": 9, "test": 1}, "sample": False}
    lines = data_lines({"node-a": real, "node-b": job()["data"], "node-c": {}})
    assert lines[0] == "data: MNIST in a folder (training + test examples: node-a 9+1)"
    assert "not described" in lines[2]
