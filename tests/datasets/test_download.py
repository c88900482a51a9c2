"""Fetching against a server on loopback that does everything wrong in turn."""

from __future__ import annotations

import gzip
import hashlib
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest

from flnet.datasets.download import DATA_SETS, check_files, fetch, missing_files
from flnet.datasets.samples import SAMPLES, png, write_sample
from flnet.errors import DataMissing

BODY = bytes(range(256)) * 2000
SHA = hashlib.sha256(BODY).hexdigest()


class Server(BaseHTTPRequestHandler):
    """/good gives BODY, /cut half of it, /other something else, /more without end, /moved leads to /good."""

    def do_GET(self) -> None:
        self.server.asked.append(self.path)  # type: ignore[attr-defined]
        if self.path == "/gone":
            self.send_error(404)
            return
        self.send_response(302 if self.path == "/moved" else 200)
        if self.path == "/moved":
            self.send_header("Location", "/good")
        body = {"/other": b"x" * len(BODY), "/more": BODY * 10, "/moved": b""}.get(self.path, BODY)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[: len(body) // 2] if self.path == "/cut" else body)

    def log_message(self, *args: object) -> None:
        pass


class Quiet(ThreadingHTTPServer):
    def handle_error(self, request: object, client_address: object) -> None:
        """The other side hung up: that is the test."""


@pytest.fixture
def server() -> Iterator[ThreadingHTTPServer]:
    with Quiet(("127.0.0.1", 0), Server) as one:
        one.asked = []  # type: ignore[attr-defined]
        thread = threading.Thread(target=one.serve_forever, args=(0.01,))
        thread.start()
        yield one
        one.shutdown()
        thread.join()


def url(server: ThreadingHTTPServer, path: str) -> str:
    return f"http://127.0.0.1:{server.server_port}{path}"


@pytest.mark.parametrize("path", ["/good", "/moved"])
def test_a_file_is_fetched_once(server: ThreadingHTTPServer, tmp_path: Path, path: str) -> None:
    target, told = tmp_path / "new" / "file.gz", list[tuple[int, int]]()
    assert fetch(url(server, path), SHA, target, len(BODY), lambda *progress: told.append(progress))
    assert target.read_bytes() == BODY
    assert told[-1] == (len(BODY), len(BODY))
    assert not fetch(url(server, path), SHA, target, len(BODY))
    assert len(server.asked) == (2 if path == "/moved" else 1)  # type: ignore[attr-defined]


def test_a_damaged_file_is_fetched_again(server: ThreadingHTTPServer, tmp_path: Path) -> None:
    target = tmp_path / "file.gz"
    target.write_bytes(BODY[:-1])
    assert fetch(url(server, "/good"), SHA, target, len(BODY))
    assert target.read_bytes() == BODY


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/other", "is not the published file: got 512000 bytes with sha256"),
        ("/cut", "could not be fetched"),
        ("/gone", "was answered with 404"),
        ("/more", "sends more than the 512000 bytes expected"),
    ],
)
def test_what_goes_wrong_is_said_and_leaves_nothing_behind(
    server: ThreadingHTTPServer, tmp_path: Path, path: str, words: str
) -> None:
    with pytest.raises(DataMissing, match=words) as caught:
        fetch(url(server, path), SHA, tmp_path / "file.gz", len(BODY))
    assert str(tmp_path / "file.gz") in caught.value.remedy
    assert list(tmp_path.iterdir()) == []


def test_a_refused_connection_and_a_nonsense_address_are_said(tmp_path: Path) -> None:
    with socket.socket() as held:  # nobody listens there, and nobody else can
        held.bind(("127.0.0.1", 0))
        port = held.getsockname()[1]
        for address in (f"http://127.0.0.1:{port}/good", "gopher://x/", "http://[broken"):
            with pytest.raises(DataMissing, match="could not be fetched"):
                fetch(address, SHA, tmp_path / "file.gz", 1)


def test_a_folder_that_cannot_be_written_is_said(server: ThreadingHTTPServer, tmp_path: Path) -> None:
    (tmp_path / "a_file").touch()
    with pytest.raises(DataMissing, match="could not be written"):
        fetch(url(server, "/good"), SHA, tmp_path / "a_file" / "x", len(BODY))


def test_the_data_sets_have_an_address_a_checksum_and_a_size_each() -> None:
    for known in DATA_SETS.values():
        for file in known.files:
            assert file.url.startswith("https://")
            assert len(bytes.fromhex(file.sha256)) == 32
            assert file.size > 0
    assert DATA_SETS["mnist"].files[0].name == "train-images-idx3-ubyte.gz"


# Files of data sets looked through: what is whole, and what is wrong with the others.


def found(folder: Path) -> dict[str, tuple[str, str]]:
    return {f.path.relative_to(folder).as_posix(): (f.right, f.fault) for f in check_files(folder)}


def test_whole_files_say_what_they_hold(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=np.zeros((3, 2)))
    np.save(tmp_path / "b.npy", np.zeros(4))
    (tmp_path / "c.csv").write_text("a,b\n1,2\n3,4\n")
    (tmp_path / "d.gz").write_bytes(gzip.compress(b"x"))
    (tmp_path / "notes.txt").touch()
    (tmp_path / ".hidden").mkdir()
    (tmp_path / ".hidden/x.npz").touch()
    assert found(tmp_path) == {
        "a.npz": ("x [3, 2]", ""),
        "b.npy": ("[4]", ""),
        "c.csv": ("2 rows, 2 columns", ""),
        "d.gz": ("unpacks", ""),
        "notes.txt": ("", ""),
    }


def test_damaged_files_are_named_with_what_is_wrong(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=np.arange(1000))
    data = bytearray((tmp_path / "a.npz").read_bytes())
    data[3000] ^= 1
    (tmp_path / "a.npz").write_bytes(data)
    (tmp_path / "b.npy").write_bytes(b"x")
    (tmp_path / "c.csv").write_text("a,b\n1,2,3\n")
    (tmp_path / "d.gz").write_bytes(gzip.compress(b"x" * 99)[:-9])
    (tmp_path / "e.csv").write_bytes(b"\xff\xfe")
    faults = {name: fault for name, (_, fault) in found(tmp_path).items()}
    assert faults["a.npz"] == "x.npy in it is damaged"
    assert faults["c.csv"] == "line 2: 3 values for 2 columns"
    assert all(faults.values())
    assert len(faults) == 5


def test_pictures_are_opened(tmp_path: Path) -> None:
    pytest.importorskip("PIL.Image", reason="needs Pillow: pip install flnet[images]")
    picture = png(np.zeros((5, 7, 3), np.uint8))
    (tmp_path / "a.png").write_bytes(picture)
    (tmp_path / "b.png").write_bytes(picture[:-30])
    (tmp_path / "c.jpg").write_bytes(b"x")
    looked = found(tmp_path)
    assert looked["a.png"] == ("7x5", "")
    assert looked["b.png"][1]
    assert looked["c.jpg"][1]


def test_published_files_are_held_to_their_checksum_and_sample_data_are_not(tmp_path: Path) -> None:
    write_sample(SAMPLES["mnist"], tmp_path)
    assert found(tmp_path)["mnist/t10k-labels-idx1-ubyte.gz"] == ("[200]", "")
    assert missing_files(DATA_SETS["mnist"], tmp_path) == []
    (tmp_path / "mnist" / ".flnet-sample-data").unlink()
    assert {fault for _, fault in found(tmp_path).values()} == {"its checksum is not that of the published file"}
    (tmp_path / "mnist/t10k-labels-idx1-ubyte.gz").unlink()
    assert missing_files(DATA_SETS["mnist"], tmp_path) == ["t10k-labels-idx1-ubyte.gz"]


def test_a_folder_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(DataMissing, match="x is no folder; name the folder"):
        list(check_files(tmp_path / "x"))
