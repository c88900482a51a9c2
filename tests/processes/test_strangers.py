"""A real node is sent what no node sends; it answers in words, and goes on as before."""

from __future__ import annotations

import json
import re
import socket
import struct
from collections.abc import Iterator
from contextlib import suppress

import numpy as np
import psutil
import pytest

from flnet.params.params import Array, Params
from flnet.protocol.messages import HyperParams, ModelParams, Packet, Peer
from flnet.wire.binary_codec import BINARY_TYPE, BinaryCodec
from tests.mesh_name import MESH_NAME
from tests.processes.harness import RealNode, harness
from tests.processes.test_wires import LARGE, MEGA, Wires, hears

pytestmark = pytest.mark.slow
PATH = "/training/model_params"
ENDING = f" HTTP/1.1\r\nHost: localhost\r\nFlnet-Mesh: {MESH_NAME}\r\nConnection: close\r\n\r\n"  # of a GET
GIGA = 1024 * MEGA


@pytest.fixture(scope="module")
def wires(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Wires]:
    with harness(tmp_path_factory.mktemp("strangers")) as made:
        one = Wires(made, LARGE)
        one.start()
        made.ready()
        yield one


@pytest.fixture
def node(wires: Wires) -> Iterator[RealNode]:
    """The one node; after each test it is the same as before, and no larger."""
    (running,) = wires.harness.nodes
    before, size = running.get("/jobs/MANY"), memory(running)
    yield running
    assert running.get("/info")["lastNodeStatus"] == "IDLE"
    assert running.get("/jobs/MANY") == before
    assert memory(running) - size < 48 * MEGA


def memory(node: RealNode) -> int:
    rss: int = psutil.Process(node.process.pid).memory_info().rss
    return rss


def sent(node: RealNode, *parts: bytes, end: bool = False) -> bytes:
    """Send these parts as far as they are taken; the one answer that comes, as far as it comes."""
    with socket.create_connection(("127.0.0.1", node.port), timeout=30) as sock:
        with suppress(ConnectionError):  # it has heard enough
            for part in parts:
                sock.sendall(part)
            if end:
                sock.shutdown(socket.SHUT_WR)
        answer = b""
        with suppress(ConnectionError):
            while not whole(answer) and (part := sock.recv(65536)):
                answer += part
        return answer


def whole(answer: bytes) -> bool:
    head, empty, body = answer.partition(b"\r\n\r\n")
    stated = re.search(rb"content-length: ([0-9]+)", head.lower())
    return bool(empty) and stated is not None and len(body) >= int(stated[1])


def posted(node: RealNode, size: int, *parts: bytes) -> tuple[int, str, str]:
    """Status, error and words that answer a binary body of a stated size."""
    return read(sent(node, opening(size), *parts))


def opening(size: int) -> bytes:
    head = f"POST {PATH} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: {BINARY_TYPE}\r\n"
    head += f"Flnet-Mesh: {MESH_NAME}\r\n"
    return f"{head}Content-Length: {size}\r\n\r\n".encode()


def shut_out(answer: bytes) -> bool:
    """Refused below flnet: with an empty answer, or none where the connection was reset before it was read."""
    return answer == b"" or answer.startswith(b"HTTP/1.1 4")


def read(answer: bytes) -> tuple[int, str, str]:
    head, _, body = answer.partition(b"\r\n\r\n")
    told = json.loads(body)
    return int(head.split()[1]), told["error"], told["message"]


def update(arrays: dict[str, Array], trainer: str = "MANY") -> bytes:
    """A valid body with these arrays."""
    message = ModelParams(
        i_am=Peer(id="stranger", ip="127.0.0.1", port=9),
        trainer_id=trainer,
        round=0,
        federated_learning_params=HyperParams(e=1, u=0.1, b=1),
    )
    return bytes(BinaryCodec().encode(Packet(message, Params(arrays))))


def right() -> dict[str, Array]:
    return {"w": np.zeros(LARGE, np.float32), "b": np.zeros(3, np.float32)}


def header(size: int, text: bytes) -> bytes:
    return struct.pack("<Q", size) + text


@pytest.mark.parametrize("size", [10 * GIGA, 2**63])
def test_a_body_of_ten_gigabytes_is_refused_unread(node: RealNode, size: int) -> None:
    status, error, words = posted(node, size, update(right())[:100])
    assert (status, error) == (413, "body_too_large")
    assert str(size) in words


@pytest.mark.parametrize(
    "body",
    [
        header(10 * GIGA, b'{"w":'),
        header(100, b'{"w":{"dtype":"F32","shape":[2684354560],"data_offsets":[0,10737418240]}}'.ljust(100)),
        header(2**64 - 1, b"{" * 100),
    ],
)
def test_a_head_that_claims_ten_gigabytes_is_refused(node: RealNode, body: bytes) -> None:
    status, error, words = posted(node, 8 * MEGA, body)  # the rest need not come
    assert (status, error) == (422, "unreadable_body")
    assert words
    hears(node, f"a request to {PATH} was refused by its head")


@pytest.mark.parametrize("filling", [b" ", b"{", b"[", b'"', b"\x00", b"\xff"])
def test_a_head_that_never_ends_is_refused(node: RealNode, filling: bytes) -> None:
    length = 2 * MEGA
    status, error, _ = posted(node, 8 * MEGA, header(length, b"{"), *[filling * (MEGA // 4)] * 8)
    assert (status, error) == (422, "unreadable_body")


def test_a_request_whose_own_head_never_ends_is_cut_off(node: RealNode) -> None:
    assert shut_out(sent(node, f"POST {PATH} HTTP/1.1\r\nX: ".encode(), *[b"x" * MEGA] * 16))


def test_a_body_cut_in_the_middle_changes_nothing(node: RealNode) -> None:
    body = update(right())
    half = len(body) // 2
    status, error, words = posted(node, half, body[:half])
    assert (status, error) == (422, "unreadable_body")
    assert str(half) in words
    assert shut_out(sent(node, opening(len(body)), body[:half], end=True))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"w": np.zeros((LARGE, 1), np.float32)}, f"'w' has shape [{LARGE}, 1]; expected [{LARGE}]"),
        ({"b": np.zeros(2, np.float32)}, "'b' has shape [2]; expected [3]"),
        ({"more": np.zeros(1, np.float32)}, "not known here 'more'"),
        ({"b": np.full(3, np.nan, np.float32)}, "not finite"),
    ],
)
def test_a_sound_file_that_does_not_fit_is_refused_and_told_why(
    node: RealNode, changes: dict[str, Array], said: str
) -> None:
    body = update(right() | changes)
    status, error, words = posted(node, len(body), body)
    assert (status, error) == (422, "params_refused")
    assert said in words


def test_a_sound_file_for_nobody_here_is_404(node: RealNode) -> None:
    body = update(right(), "NO_SUCH")
    status, error, words = posted(node, len(body), body)
    assert (status, error) == (404, "unknown_trainer")
    assert "it has MANY" in words


@pytest.mark.parametrize(
    "digest",
    [
        *("../", "../../../etc/passwd", "..%2f..%2fetc%2fpasswd", "Z" * 64, "A" * 64, "0" * 63, "0" * 65),
        *("%F0%9F%A6%8A" * 16, "%00" * 64, "%FF" * 64, "0" * 10_240, "%D9%A1" * 64, "0" * 64 + "/x", "0" * 64),
        *("?" + "0" * 64, "%0d%0aX-Injected:%20yes", "{}", "<script>", ";", "."),
    ],
)
def test_a_digest_that_is_none_is_answered_in_words(node: RealNode, digest: str) -> None:
    answer = sent(node, f"GET {PATH}/{digest}{ENDING}".encode())
    status, error, words = read(answer)
    assert status in (404, 405)
    assert error
    assert words
    assert len(answer) < 2000
    assert b"\nX-Injected" not in answer


@pytest.mark.parametrize("digest", [b"\xff" * 64, "é".encode(), b"\x00", b"0" * 10**6, b" x y "])
def test_an_address_that_is_no_address_ends_the_connection_only(node: RealNode, digest: bytes) -> None:
    assert shut_out(sent(node, f"GET {PATH}/".encode() + digest + ENDING.encode()))


def test_afterwards_a_round_ends_as_ever(wires: Wires) -> None:
    wires.trigger()
    (record,) = wires.ended(0, *wires.harness.nodes)
    assert record["contributors"] == ["n0"]
