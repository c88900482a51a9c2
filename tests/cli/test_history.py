"""`flnet history`: the rounds in a table, and as files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from tests.cli.fake_node import FakeNode, record

Flnet = Callable[..., Result]


def test_rounds_are_shown_with_what_was_decided(fake_node: FakeNode, flnet: Flnet) -> None:
    decision = {"over": "given_up", "words": "it was the last round that was asked for"}
    first = record(0) | {"why": "5 new examples have come", "contributors": ["a", "b"], "bytes": {"sent": 7}}
    fake_node.records = [first, record(1) | {"decision": decision, "seconds": {"train": 1.25, "wait": 1}}]
    done = flnet("history", "MNIST", "--node", fake_node.address)
    assert done.exit_code == 0 and "2.25" in done.output
    assert "round 0 was started by the schedule: 5 new examples have come" in done.output
    assert "after round 1: the goal is given up: it was the last round that was asked for" in done.output


def test_nothing_is_a_history_too_and_scripts_get_json(fake_node: FakeNode, flnet: Flnet) -> None:
    assert "no rounds yet" in flnet("history", "MNIST", "--node", fake_node.address).output
    assert flnet("history", "MNIST", "--json", "--node", fake_node.address).output == "[]\n"


@pytest.mark.parametrize("form", ["csv", "svg", "png"])
def test_it_is_written_to_a_file_that_is_not_there(
    fake_node: FakeNode, flnet: Flnet, tmp_path: Path, form: str
) -> None:
    fake_node.files[f"/jobs/MNIST/history.{form}"] = (f"x.{form}", b"what came")
    target = tmp_path / f"h.{form}"
    options = ("history", "MNIST", f"--{form}", "--output", str(target), "--node", fake_node.address)
    assert (flnet(*options).exit_code, target.read_bytes()) == (0, b"what came")
    assert flnet(*options).exit_code == 2
    assert flnet(*options, "--force").exit_code == 0


def test_it_goes_to_stdout_for_scripts(fake_node: FakeNode, flnet: Flnet) -> None:
    fake_node.files["/jobs/MNIST/history.csv?last=3"] = ("x.csv", b"round\n")
    done = flnet("history", "MNIST", "--csv", "--last", "3", "--output", "-", "--node", fake_node.address)
    assert (done.exit_code, done.stdout) == (0, "round\n")


def test_output_needs_a_form(fake_node: FakeNode, flnet: Flnet) -> None:
    assert flnet("history", "MNIST", "--force", "--node", fake_node.address).exit_code == 2
