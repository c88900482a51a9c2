"""A real node learns real digits; what it learnt is asked, taken away, and found the same outside of flnet."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from safetensors.numpy import load_file

from flnet.cli.commands import cli
from flnet.params.params import Params
from tests.processes.harness import RealNode, harness, until
from trainers._digits import _scikit_digits


@pytest.mark.slow
def test_a_learnt_model_reads_digits_here_and_elsewhere(tmp_path: Path) -> None:
    with harness(tmp_path) as h:
        node = h.start(TRAINERS="MNIST", COMPUTE="process", DATA_SHARD="1/4")
        h.ready()
        assert node.http.post("/training/trigger", json={"trainerId": "MNIST"}).status_code == 202
        until(
            lambda: node.get("/jobs/MNIST")["phase"] == "IDLE" and len(node.get("/jobs/MNIST/history")) == 1, "end"
        )
        (model,) = node.get("/jobs/MNIST/models")
        assert (model["held"], model["round"], model["contributors"]) == (True, 0, 1)
        assert model["accuracy"] > 0.8

        answer = read_digits(node, model["digest"])
        pytest.importorskip("onnx", reason="the extra onnx is not installed")
        folder = tmp_path / "out"
        folder.mkdir()
        files = {form: exported(node, form, folder) for form in ("safetensors", "onnx", "folder", "html")}
        assert Params(load_file(files["safetensors"])).digest == model["digest"]
        assert model["digest"] in files["safetensors"].with_suffix(".md").read_text("utf-8")
        assert files["html"].read_bytes().startswith(b"<!DOCTYPE html>")
        with zipfile.ZipFile(files["folder"]) as packed:
            packed.extractall(folder)
        rows = folder / "rows.json"
        rows.write_text(json.dumps(_scikit_digits().x[:200].tolist()))
        program = folder / files["folder"].stem / "predict.py"
        done = subprocess.run([sys.executable, program, rows], capture_output=True, text=True, check=True)
        assert [json.loads(line)["predicted"] for line in done.stdout.splitlines()] == answer["predicted"]
        runtime = pytest.importorskip("onnxruntime", reason="onnxruntime, which runs the file, is not here")
        session = runtime.InferenceSession(files["onnx"])
        (values,) = session.run(None, {"inputs": _scikit_digits().x[:200].astype(np.float32)})
        assert np.abs(values - np.array(answer["probabilities"])).max() < 1e-4


def read_digits(node: RealNode, digest: str) -> Any:
    """Ask for 200 digits by number, and for the first one as a picture and on the command line."""
    data = _scikit_digits()
    answer = node.http.post("/jobs/MNIST/predict", json={"inputs": data.x[:200].tolist()}).json()
    assert answer["model"]["digest"] == digest
    right = [name == str(label) for name, label in zip(answer["predicted"], data.y[:200], strict=True)]
    assert np.mean(right) > 0.8

    image = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
    file = io.BytesIO()
    image.fromarray(data.x[0]).save(file, "PNG")
    sent = node.http.post("/jobs/MNIST/predict", content=file.getvalue(), headers={"Content-Type": "image/png"})
    assert sent.json()["predicted"] == answer["predicted"][:1]
    return answer


def exported(node: RealNode, form: str, folder: Path) -> Path:
    """The file that `flnet export` writes."""
    words = ["export", "MNIST", "--format", form, "--force", "--output", str(folder), "--json"]
    shown = CliRunner().invoke(cli, [*words, "--node", f"127.0.0.1:{node.port}"])
    assert shown.exit_code == 0, shown.output
    return Path(json.loads(shown.stdout)["file"])
