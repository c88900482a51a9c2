from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from tests.cli.fake_node import FakeNode

Run = Callable[..., Result]
DIGEST = "ab" * 32
NAME = "MNIST-round3-ababababab"


@pytest.fixture(autouse=True)
def trained(fake_node: FakeNode) -> None:
    fake_node.models = [{"digest": DIGEST, "held": True}, {"digest": "cd" * 32, "held": False}]
    path = f"/jobs/MNIST/models/{DIGEST}"
    fake_node.files = {
        f"{path}?format=safetensors": (f"{NAME}.safetensors", b"arrays"),
        f"{path}?format=onnx": (f"{NAME}.onnx", b"graph"),
        f"{path}?format=onnx-personal": (f"{NAME}-personal.onnx", b"mine"),
        f"{path}/card": (f"{NAME}.md", b"# card"),
        "/jobs/MNIST/models/cd?format=safetensors": ("../../evil", b"old"),
        "/jobs/MNIST/models/cd/card": ("x", b"# old"),
    }


def test_the_held_model_and_its_card_come_under_their_own_names(
    flnet: Run, fake_node: FakeNode, tmp_path: Path
) -> None:
    shown = flnet("export", "MNIST", "--output", str(tmp_path), "--node", fake_node.address)
    assert shown.exit_code == 0
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {
        f"{NAME}.safetensors": b"arrays",
        f"{NAME}.md": b"# card",
    }
    assert "6 bytes, model ababababab of MNIST" in shown.output
    mask = os.umask(0)
    os.umask(mask)
    assert (tmp_path / f"{NAME}.md").stat().st_mode & 0o777 == 0o666 & ~mask


def test_a_file_of_choice_for_scripts(flnet: Run, fake_node: FakeNode, tmp_path: Path) -> None:
    target = tmp_path / "new" / "model.onnx"
    words = ("export", "MNIST", "--format", "onnx", "--output", str(target), "--json", "--node", fake_node.address)
    told = json.loads(flnet(*words).stdout)
    assert told == {
        "file": str(target),
        "card": str(target.with_suffix(".md")),
        "bytes": 5,
        "digest": DIGEST,
    }
    assert target.read_bytes() == b"graph"


def test_one_of_two_models_may_be_chosen(flnet: Run, fake_node: FakeNode, tmp_path: Path) -> None:
    words = ("export", "MNIST", "--format", "onnx", "--model", "personal", "--output", str(tmp_path))
    assert flnet(*words, "--node", fake_node.address).exit_code == 0
    assert (tmp_path / f"{NAME}-personal.onnx").read_bytes() == b"mine"
    assert flnet("export", "MNIST", "--model", "local", "--node", fake_node.address).exit_code == 2


def test_nothing_is_written_over_without_force(flnet: Run, fake_node: FakeNode, tmp_path: Path) -> None:
    there = tmp_path / f"{NAME}.md"
    there.write_text("mine")
    words = ("export", "MNIST", "--output", str(tmp_path), "--node", fake_node.address)
    shown = flnet(*words)
    assert shown.exit_code == 2
    assert f"{there} exists; --force writes over" in shown.stderr
    assert [path.name for path in tmp_path.iterdir()] == [there.name]
    assert flnet(*words, "--force").exit_code == 0
    assert there.read_text() == "# card"


def test_a_name_from_a_node_is_never_a_path(flnet: Run, fake_node: FakeNode, tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    folder.mkdir(parents=True)
    words = ("export", "MNIST", "--digest", "cd", "--output", str(folder), "--node", fake_node.address)
    assert flnet(*words).exit_code == 0
    assert sorted(path.name for path in folder.iterdir()) == ["MNIST.md", "MNIST.safetensors"]
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_the_card_needs_a_name_of_its_own(flnet: Run, fake_node: FakeNode, tmp_path: Path) -> None:
    shown = flnet("export", "MNIST", "--output", str(tmp_path / "model.md"), "--node", fake_node.address)
    assert shown.exit_code == 2
    assert list(tmp_path.iterdir()) == []


def test_what_the_node_refuses_and_a_folder_that_cannot_be_written_fail(
    flnet: Run, fake_node: FakeNode, tmp_path: Path
) -> None:
    shown = flnet("export", "MNIST", "--digest", "ee", "--output", str(tmp_path), "--node", fake_node.address)
    assert shown.exit_code == 1
    assert "there is nothing at" in shown.stderr
    (tmp_path / "file").write_text("")
    words = ("export", "MNIST", "--output", str(tmp_path / "file" / "x.bin"), "--node", fake_node.address)
    shown = flnet(*words)
    assert shown.exit_code == 1
    assert "cannot be written" in shown.stderr
