from __future__ import annotations

from flnet.cli.demo import data_lines, summary
from flnet.cli.results import round_result
from tests.cli.fake_node import job, record


def test_sample_data_are_called_samples() -> None:
    [line] = data_lines({"node-a": job(), "node-b": job()})
    assert line.startswith("data: SAMPLE DATA, not the real data set: bundled digits")
    assert "node-a 300+100, node-b 300+100" in line


def test_real_data_are_named_per_source() -> None:
    real = job(data={"source": "MNIST in a folder", "rows": {"train": 9, "test": 1}, "sample": False})
    lines = data_lines({"node-a": real, "node-b": job(), "node-c": job(data=None)})
    assert lines[0] == "data: MNIST in a folder (training + test examples: node-a 9+1)"
    assert "not described" in lines[2]


def test_the_summary_says_gain_and_sameness() -> None:
    rounds = [round_result(n, {"a": record(n), "b": record(n)}, 2.0) for n in range(2)]
    assert summary(rounds) == (
        "2 rounds in 4.0 s; mean accuracy from 0.5000 to 0.7500 (before the first averaging, after the last); "
        "after every round all nodes held the same model, bit by bit"
    )


def test_the_summary_names_rounds_with_different_models() -> None:
    rounds = [round_result(4, {"a": record(4, "x"), "b": record(4, "y")}, 1)]
    assert summary(rounds).endswith("the nodes' models differed after round 4")
