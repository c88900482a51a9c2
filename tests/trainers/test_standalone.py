"""The folder and the card's code of each shipped trainer answer as the node does, where flnet cannot be imported."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.trainers.standalone_exports import HOSTILE, KERAS, QUICK, SLOW, Exported, exported

pytest.importorskip("onnxruntime", reason="onnxruntime, which runs the files, is not here")
TRAINERS = Path(__file__).parents[2] / "trainers"
WITHOUT_FLNET = """
import runpy, sys
sys.modules.update(dict.fromkeys(("flnet", "flnet_trainers", "flnet_resources", "torch", "tensorflow")))
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def without_flnet(program: Path, *words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run a program in a Python that cannot import flnet, nor see this repository."""
    command = [sys.executable, "-X", "utf8", "-I", "-c", WITHOUT_FLNET, str(program), *words]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)


EACH = [*QUICK, *(pytest.param(name, marks=pytest.mark.slow) for name in (*SLOW, *KERAS))]


@pytest.mark.parametrize("name", EACH)
def test_the_folder_and_the_card_predict_what_the_node_predicts(name: str, tmp_path: Path) -> None:
    if name in KERAS:
        pytest.importorskip("tensorflow", reason="needs TensorFlow")
    made = exported(name, tmp_path)
    assert sorted(path.suffix for path in made.folder.iterdir()) == [".md", ".onnx", ".py", ".txt"]
    done = without_flnet(made.folder / "predict.py", *map(str, made.inputs), cwd=made.folder)
    assert done.returncode == 0, done.stderr
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert [one["predicted"] for one in found] == [answer["predicted"] for answer in made.answers]
    for one, answer in zip(found, made.answers, strict=True):
        assert list(one["values"]) == list(answer["values"])  # the order of the classes too
        assert one["values"] == pytest.approx(answer["values"], abs=1e-4)
    check_code(made, tmp_path)
    check_words(made)


def check_code(made: Exported, place: Path) -> None:
    """Each block of Python on the card runs; the one for the ONNX file answers in the words of the card."""
    blocks = re.findall(r"```python\n(.*?)```", made.card, re.DOTALL)
    assert len(blocks) == 2
    for number, block in enumerate(blocks):
        program = place / f"block{number}.py"
        program.write_text(block, encoding="utf-8")
        done = without_flnet(program, cwd=place)
        assert done.returncode == 0, done.stderr
    assert all(repr(name) in done.stdout for name in made.answers[0]["values"])


def check_words(made: Exported) -> None:
    """Range, shape, order of the classes and scaling stand on the card, and the card in the folder is the same one."""
    assert "| inputs | " in made.card and "| range | " in made.card
    assert "For each input the model gives" in made.card
    assert (made.folder / "README.md").read_text("utf-8") == made.card


def test_every_shipped_trainer_that_can_be_exported_is_here() -> None:
    makes_onnx = re.compile(r"def onnx\(|import on_images")
    shipped = [path for path in TRAINERS.glob("[!_]*.py") if makes_onnx.search(path.read_text("utf-8"))]
    assert len(shipped) > 5
    assert {path.stem for path in shipped} <= {*QUICK, *SLOW, *KERAS}


def test_what_cannot_be_read_is_said_and_nothing_is_printed(tmp_path: Path) -> None:
    made = exported("words", tmp_path)
    for rows, reason in (
        ("gap,colour\n1,red\n", r"row 1 lacks the column '<b>size</b>'"),
        ("gap,colour,<b>size</b>\n1,blue,2\n", r"row 1, column 'colour', is 'blue'; expected one of red"),
        ("gap,colour,<b>size</b>\n1,red\n", r"row 1 has 2 cells; the first row names 3 columns"),
        ("gap,colour,<b>size</b>\nwide,red,1\n", r"row 1, column 'gap', is 'wide'; expected a number"),
        ("gap,colour,<b>size</b>\n1e39,red,1\n", r"input 0 has inf"),
    ):
        (tmp_path / "bad.csv").write_text(rows)
        done = without_flnet(made.folder / "predict.py", str(tmp_path / "bad.csv"), cwd=tmp_path)
        assert (done.returncode, done.stdout) == (2, "")
        assert reason in done.stderr
    done = without_flnet(made.folder / "predict.py", str(tmp_path / "t.xls"), cwd=tmp_path)
    assert "expected .csv" in done.stderr


def test_names_of_others_are_no_markup_in_the_page(tmp_path: Path) -> None:
    page = exported("words", tmp_path).files["html"].decode()
    assert HOSTILE not in page and "</title><script>" not in page
    assert page.count("<script") == 2 and page.count("</script>") == 2
    assert "http:" not in page and "https:" not in page and "src=" not in page
