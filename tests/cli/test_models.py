from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from flnet.cli.commands import cli
from flnet.cli.models import BEFORE
from tests.cli.fake_node import FakeNode

Run = Callable[..., Result]
NEW, OLD = "cd" * 32, "ab" * 32


@pytest.fixture(autouse=True)
def listed(fake_node: FakeNode) -> None:
    common = {"contributors": 2, "bytes": 440_616, "exchanged_with": None}
    fake_node.models = [
        {"digest": NEW, "round": 4, "accuracy": 0.91, "held": True, "pinned": False, **common},
        {"digest": OLD, "round": 1, "accuracy": 0.9512, "held": False, "pinned": True, **common},
    ]


def test_they_are_listed_with_their_figures_and_marks(ask: Run, fake_node: FakeNode) -> None:
    shown = ask("models", "MNIST")
    assert shown.exit_code == 0
    first, second = [line.split() for line in shown.output.splitlines() if "440616" in line]
    assert first == ["cdcdcdcdcd", "4", "2", "0.9100", "440616", "-", "in", "use"]
    assert second == ["ababababab", "1", "2", "0.9512", "440616", "-", "pinned"]
    assert fake_node.ordered == []


def test_an_untrained_model_has_no_round(ask: Run, fake_node: FakeNode) -> None:
    fake_node.models = [
        {"digest": NEW, "round": -1, "contributors": 0, "accuracy": None, "bytes": 4, "held": True}
    ]
    shown = ask("models", "MNIST")
    (line,) = [line.split() for line in shown.output.splitlines() if "cdcd" in line]
    assert line == ["cdcdcdcdcd", "-", "0", "-", "4", "-", "in", "use"]


@pytest.mark.parametrize(
    ("option", "request_line"),
    [("--pin", f"PUT /jobs/MNIST/models/{OLD[:8]}/pin"), ("--unpin", f"DELETE /jobs/MNIST/models/{OLD[:8]}/pin")],
)
def test_a_model_is_pinned_and_unpinned(ask: Run, fake_node: FakeNode, option: str, request_line: str) -> None:
    shown = ask("models", "MNIST", option, OLD[:8])
    assert (shown.exit_code, fake_node.ordered) == (0, [request_line])
    assert "pinned" in shown.output


def test_going_back_says_first_what_it_means_and_asks(fake_node: FakeNode) -> None:
    arguments = ["models", "MNIST", "--restore", OLD[:8], "--node", fake_node.address]
    refused = CliRunner().invoke(cli, arguments, input="n\n")
    assert (refused.exit_code, fake_node.ordered) == (1, [])
    assert "on all nodes if it is started at this node" in BEFORE
    assert BEFORE in refused.stderr
    done = CliRunner().invoke(cli, arguments, input="y\n")
    assert (done.exit_code, fake_node.ordered) == (0, [f"POST /jobs/MNIST/models/{OLD[:8]}/restore"])


def test_a_script_says_yes_beforehand(ask: Run, fake_node: FakeNode) -> None:
    shown = ask("models", "MNIST", "--restore", OLD, "--yes", "--json")
    assert json.loads(shown.stdout) == fake_node.models
    assert fake_node.ordered == [f"POST /jobs/MNIST/models/{OLD}/restore"]


def test_one_thing_is_done_at_a_time(ask: Run, fake_node: FakeNode) -> None:
    shown = ask("models", "MNIST", "--pin", OLD, "--unpin", NEW)
    assert (shown.exit_code, fake_node.ordered) == (2, [])
    assert "one of --pin, --unpin and --restore" in shown.stderr


DIGEST = "ab" * 32
NAME = "MNIST-round3-ababababab"


@pytest.fixture
def exportable(fake_node: FakeNode) -> None:
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


@pytest.mark.usefixtures("exportable")
def test_the_held_model_and_its_card_come_under_their_own_names(ask: Run, tmp_path: Path) -> None:
    shown = ask("export", "MNIST", "--output", str(tmp_path))
    assert shown.exit_code == 0
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {
        f"{NAME}.safetensors": b"arrays",
        f"{NAME}.md": b"# card",
    }
    assert "6 bytes, model ababababab of MNIST" in shown.output
    mask = os.umask(0)
    os.umask(mask)
    assert (tmp_path / f"{NAME}.md").stat().st_mode & 0o777 == 0o666 & ~mask


@pytest.mark.usefixtures("exportable")
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


@pytest.mark.usefixtures("exportable")
def test_one_of_two_models_may_be_chosen(ask: Run, tmp_path: Path) -> None:
    words = ("export", "MNIST", "--format", "onnx", "--model", "personal", "--output", str(tmp_path))
    assert ask(*words).exit_code == 0
    assert (tmp_path / f"{NAME}-personal.onnx").read_bytes() == b"mine"
    assert ask("export", "MNIST", "--model", "local").exit_code == 2


@pytest.mark.usefixtures("exportable")
def test_a_folder_comes_as_a_zip_file_whatever_name_the_node_gives(
    ask: Run, fake_node: FakeNode, tmp_path: Path
) -> None:
    fake_node.files[f"/jobs/MNIST/models/{DIGEST}?format=folder"] = ("../../evil", b"packed")
    assert ask("export", "MNIST", "--format", "folder", "--output", str(tmp_path)).exit_code == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["MNIST.md", "MNIST.zip"]


@pytest.mark.usefixtures("exportable")
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


@pytest.mark.usefixtures("exportable")
def test_two_formats_of_one_model_share_a_card_that_names_their_files(
    flnet: Run, fake_node: FakeNode, tmp_path: Path
) -> None:
    card = f'| digest | `{DIGEST}` |\nload_file("{NAME}.safetensors")\nInferenceSession("{NAME}.onnx")\n'
    fake_node.files[f"/jobs/MNIST/models/{DIGEST}/card"] = (f"{NAME}.md", card.encode())
    words = ("export", "MNIST", "--node", fake_node.address, "--output")
    assert flnet(*words, str(tmp_path)).exit_code == 0
    assert flnet(*words, str(tmp_path), "--format", "onnx").exit_code == 0
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".md", ".onnx", ".safetensors"]
    assert flnet(*words, str(tmp_path), "--format", "onnx").exit_code == 2  # the file is there

    digits = tmp_path / "digits"
    assert flnet(*words, f"{digits}.onnx", "--format", "onnx").exit_code == 0
    assert flnet(*words, f"{digits}.safetensors").exit_code == 0
    assert (tmp_path / "digits.md").read_text() == card.replace(NAME, "digits")


@pytest.mark.usefixtures("exportable")
def test_the_card_of_another_model_is_not_written_over(flnet: Run, fake_node: FakeNode, tmp_path: Path) -> None:
    there = tmp_path / f"{NAME}.md"
    there.write_text(f"| digest | `{'ef' * 32}` |\n")
    words = ("export", "MNIST", "--output", str(tmp_path), "--node", fake_node.address)
    shown = flnet(*words)
    assert (shown.exit_code, [path.name for path in tmp_path.iterdir()]) == (2, [there.name])


@pytest.mark.usefixtures("exportable")
def test_a_name_from_a_node_is_never_a_path(flnet: Run, fake_node: FakeNode, tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    folder.mkdir(parents=True)
    words = ("export", "MNIST", "--digest", "cd", "--output", str(folder), "--node", fake_node.address)
    assert flnet(*words).exit_code == 0
    assert sorted(path.name for path in folder.iterdir()) == ["MNIST.md", "MNIST.safetensors"]
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


@pytest.mark.usefixtures("exportable")
def test_the_card_needs_a_name_of_its_own(ask: Run, tmp_path: Path) -> None:
    shown = ask("export", "MNIST", "--output", str(tmp_path / "model.md"))
    assert shown.exit_code == 2
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("exportable")
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
