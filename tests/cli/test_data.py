"""`flnet data` as a person uses it; no node runs, and nothing is fetched from outside."""

from __future__ import annotations

import hashlib
import json
import threading
import zipfile
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import httpx
import numpy as np
import pytest
from click.testing import Result

from flnet.training.download import DATA_SETS, DataSet, Download

Flnet = Callable[..., Result]


def test_sample_check_and_list_go_together(flnet: Flnet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLNET_DATASETS_PATH", str(tmp_path))
    made = flnet("data", "sample", "mnist")
    assert made.exit_code == 0
    assert f"try it:  FLNET_DATASETS_PATH={tmp_path} flnet demo --trainer MNIST" in made.output
    assert flnet("data", "check").exit_code == 0
    monkeypatch.setenv("FLNET_TRAINERS", "MNIST_3_7,MULTI_LABEL")
    monkeypatch.setenv("FLNET_DATA_SHARD", "2/4")  # of a node; here all is counted
    listed = flnet("data", "list")
    assert listed.exit_code == 0
    assert f"MNIST_3_7: sample data: MNIST idx files in {tmp_path / 'mnist'} (0." in listed.stdout
    assert "test               40 rows   3: 20; 7: 20" in listed.stdout
    assert "MULTI_LABEL: no data\n    no multi-label data set was found" in listed.stdout


def test_a_list_for_scripts(flnet: Flnet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FLNET_TRAINERS", "MNIST_3_7")
    (view,) = json.loads(flnet("data", "list", "--json", "--path", str(tmp_path)).stdout)
    assert sum(view["counts"]["test"]) == view["rows"]["test"]
    assert (view["trainer"], view["classes"], view["missing"], view["bytes"]) == (
        "MNIST_3_7",
        ["3", "7"],
        "",
        None,
    )


@pytest.mark.parametrize("name", ["images", "table"])
def test_a_sample_comes_with_its_trainer(
    flnet: Flnet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    pytest.importorskip("torch", reason="needs PyTorch: pip install flnet[torch]")
    pytest.importorskip("PIL.Image", reason="needs Pillow: pip install flnet[images]")
    made = flnet("data", "sample", name, "--path", str(tmp_path))
    assert made.exit_code == 0
    monkeypatch.setenv("FLNET_TRAINERS_PATH", str(tmp_path / "sample-trainers"))
    monkeypatch.setenv("FLNET_TRAINERS", f"SAMPLE_{name.upper()}")
    (view,) = json.loads(flnet("data", "list", "--json", "--path", str(tmp_path)).stdout)
    assert (view["sample"], view["missing"]) == (True, "")
    assert view["bytes"] > 1000
    again = flnet("data", "sample", name, "--path", str(tmp_path))
    assert again.exit_code == 1
    assert "is there already" in again.stderr


def test_without_a_folder_the_usage_is_explained(flnet: Flnet) -> None:
    for words in (["check"], ["fetch", "mnist"], ["import", "x"], ["sample", "table"]):
        refused = flnet("data", *words)
        assert refused.exit_code == 2
        assert "give --path, or set FLNET_DATASETS_PATH" in refused.stderr


def test_a_check_names_what_is_damaged_or_missing(flnet: Flnet, tmp_path: Path) -> None:
    (tmp_path / "mnist").mkdir()
    (tmp_path / "mnist/t10k-labels-idx1-ubyte.gz").write_bytes(b"x")
    np.savez(tmp_path / "good.npz", x=np.zeros(3))
    checked = flnet("data", "check", "--path", str(tmp_path))
    assert checked.exit_code == 1
    assert "t10k-labels-idx1-ubyte.gz: its checksum is not that of the published file" in checked.stdout
    assert "t10k-images-idx3-ubyte.gz missing" in checked.stdout
    assert "good.npz: whole, x [3]" in checked.stdout
    found = json.loads(flnet("data", "check", "--json", "--path", str(tmp_path)).stdout)
    assert len(found["files"]) == 2
    assert len(found["missing"][str(tmp_path / "mnist")]) == 3


def test_an_archive_is_imported(flnet: Flnet, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as file:
        file.writestr("pets/cat/1.txt", "x")
    brought = flnet("data", "import", str(tmp_path / "a.zip"), "--as", "mine", "--path", str(tmp_path / "data"))
    assert (brought.exit_code, brought.stdout) == (0, f"{tmp_path / 'data/mine'}: 1 file, 0.0 MB\n")
    refused = flnet("data", "import", str(tmp_path / "b.zip"), "--path", str(tmp_path / "data"))
    assert refused.exit_code == 1
    assert "b.zip is not there" in refused.stderr


def test_a_data_set_is_fetched_once(flnet: Flnet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    body = b"digits" * 1000

    class Server(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Server) as server:
        url = f"http://127.0.0.1:{server.server_port}/x.gz"
        file = Download(url, hashlib.sha256(body).hexdigest(), len(body))
        monkeypatch.setitem(DATA_SETS, "mnist", DataSet("mnist", "made up", (file,)))
        answering = threading.Thread(target=server.handle_request)
        answering.start()
        first = flnet("data", "fetch", "mnist", "--path", str(tmp_path))
        answering.join()
        again = flnet("data", "fetch", "mnist", "--path", str(tmp_path))
    assert (first.exit_code, again.exit_code) == (0, 0)
    assert "x.gz: fetched, checksum right" in first.stdout
    assert "x.gz: was there already" in again.stdout
    assert (tmp_path / "mnist/x.gz").read_bytes() == body


def test_nothing_is_fetched_over_sample_data_or_without_network(
    flnet: Flnet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise httpx.ConnectError("no network")

    monkeypatch.setattr(httpx, "stream", fail)
    refused = flnet("data", "fetch", "mnist", "--path", str(tmp_path))
    assert refused.exit_code == 1
    assert "could not be fetched: no network; try again later, or put the file at" in refused.stderr
    assert not list((tmp_path / "mnist").iterdir())
    (tmp_path / "mnist").rmdir()
    flnet("data", "sample", "mnist", "--path", str(tmp_path))
    assert (
        "holds sample data; remove that folder first"
        in flnet("data", "fetch", "mnist", "--path", str(tmp_path)).stderr
    )
