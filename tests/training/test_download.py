"""Fetching against a server on loopback that does everything wrong in turn."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from flnet.errors import DataMissing
from flnet.training.download import DATA_SETS, fetch

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
    with ThreadingHTTPServer(("127.0.0.1", 0), Server) as one:
        port = one.server_port
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
