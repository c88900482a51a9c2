"""Threat 17: strangers name addresses, to let the node knock where only it can. A listener sees nothing."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest

from tests.processes.harness import RealNode
from tests.threats.stranger import post, target, wait_until

pytestmark = pytest.mark.slow
NASTY = (
    *("0.0.0.0", "::", "169.254.169.254", "169.254.0.1", "::ffff:169.254.169.254", "fe80::1", "fd00:ec2::254"),
    *("224.0.0.1", "239.255.255.250", "255.255.255.255", "240.0.0.1", "ff02::1", "ff05::1", "10.0.0.1", "8.8.8.8"),
    *(
        "192.168.0.1",
        "172.16.0.1",
        "100.100.100.200",
        "192.0.0.192",
        "2001:db8::1",
        "64:ff9b::7f00:1",
        "198.18.0.1",
    ),
    *(
        "0",
        "127.1",
        "2130706433",
        "0x7f000001",
        "0177.0.0.1",
        "metadata.google.internal",
        "localhost.localdomain.",
    ),
    *("instance-data", "example.org"),
)
"""Other machines' addresses, and other spellings of this one."""
SOON = {
    "WAIT_TIME_IN_SECONDS_TO_FORCE_FEDAVG": "2",
    "WAIT_TIME_IN_SECONDS_TO_FORCE_FEDAVG_MARGIN": "0",
    "REQUEST_TIMEOUT_IN_SECONDS": "5",
}


@contextmanager
def listener(
    family: socket.AddressFamily, host: str, answer: Callable[[socket.socket], None] = lambda conn: None
) -> Iterator[tuple[int, list[str]]]:
    """A port, and from where somebody connected to it; each gets an answer before it is closed."""
    seen: list[str] = []
    with socket.create_server((host, 0), family=family) as server:
        server.settimeout(0.1)
        ending = threading.Event()

        def accept() -> None:
            while not ending.is_set():
                try:
                    conn, where = server.accept()
                except TimeoutError:
                    continue
                seen.append(str(where))
                with suppress(OSError):
                    answer(conn)
                conn.close()

        thread = threading.Thread(target=accept)
        thread.start()
        try:
            yield server.getsockname()[1], seen
        finally:
            ending.set()
            thread.join()


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealNode]:
    """It soon gives up to wait for those that are announced to it and never answer or train."""
    settings = {"ALLOWED_NETWORKS": "127.0.0.0/8, 198.51.100.0/24", **SOON}
    with target(tmp_path_factory.mktemp("nasty"), "tests.processes.watchful", **settings) as made:
        yield made


def announce(node: RealNode, ip: str | None, port: int, named: list[dict[str, Any]], name: str = "x") -> int:
    me = {"id": name, "ip": ip, "port": port}
    members = [{**one, "state": "alive", "incarnation": 0} for one in named]
    said = {"iAm": me, "myKnownPeers": named, "incarnation": 0, "members": members}
    return post(node, "/announce", json.dumps(said).encode())[0]


def texts(node: RealNode) -> str:
    return node.http.get("/events.jsonl").text


def test_nobody_is_called_at_thirty_nasty_addresses(node: RealNode) -> None:
    with (
        listener(socket.AF_INET, "0.0.0.0") as (port, seen),
        listener(socket.AF_INET, "127.0.0.1") as (caller, called),
    ):
        named = [{"id": f"n{i}", "ip": ip, "port": port} for i, ip in enumerate(NASTY)]
        assert announce(node, None, caller, named, "teller") == 201
        for i, ip in enumerate(NASTY):
            me = {"id": f"self{i}", "ip": ip, "port": port}
            probe = {"iAm": me, "news": [{**named[i], "state": "alive", "incarnation": 1}]}
            assert post(node, "/probe", json.dumps(probe).encode())[0] in (200, 403, 422)
            assert announce(node, ip, port, [], f"self{i}") in (201, 403, 422)
        wait_until(lambda: called, "the node calls the one whom it may")  # so it has looked at all before
        wait_until(lambda: texts(node).count("is not called") >= 15, "what is not called is told")
    assert seen == []
    assert not {peer["ip"] for peer in node.get("/peers")} & {"169.254.169.254", "10.0.0.1", "8.8.8.8", "0.0.0.0"}


def banner(words: bytes) -> Callable[[socket.socket], None]:
    """Answers so whatever is asked."""

    def answer(conn: socket.socket) -> None:
        conn.recv(65536)
        conn.sendall(words)

    return answer


@pytest.mark.parametrize(
    "words", [b"SSH-2.0-SECRET\r\n", b"HTTP/1.1 404 SECRET\r\nContent-Length: 6\r\n\r\nSECRET"]
)
def test_nothing_of_an_answer_is_shown_to_who_named_the_address(node: RealNode, words: bytes) -> None:
    with listener(socket.AF_INET, "127.0.0.1", banner(words)) as (port, called):
        assert announce(node, None, port, [], f"there{port}") == 201
        with listener(socket.AF_INET, "127.0.0.1", banner(words)) as (other, asked):
            assert (
                announce(node, None, 1 + port, [{"id": "z", "ip": "127.0.0.1", "port": other}], f"teller{port}")
                == 201
            )
            wait_until(lambda: called and asked, "both addresses are called")
            wait_until(
                lambda: f"127.0.0.1:{other} does not answer the announcement" in texts(node), "its end is told"
            )
        wait_until(
            lambda: f"there{port} may be gone" in texts(node), "a suspicion"
        ) if b"HTTP" not in words else None
    assert "SECRET" not in texts(node) + node.http.get("/peers").text + node.http.get("/").text


SERVICES = [
    (b"404 Not Found", b"SECRET"),
    (b"403 Forbidden", b'{"error": "SECRET", "message": "SECRET"}'),
    (b"401 Unauthorized", b'{"timestamp": 1, "error": "Unauthorized", "message": "SECRET", "path": "/SECRET"}'),
]


@pytest.mark.parametrize(("status", "body"), SERVICES)
def test_a_service_that_is_named_as_a_member_is_not_quoted_in_rounds(
    node: RealNode, status: bytes, body: bytes
) -> None:
    words = b"HTTP/1.1 %s\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s" % (status, len(body), body)
    with listener(socket.AF_INET, "127.0.0.1", banner(words)) as (port, _):
        name = f"service{port}"
        assert announce(node, None, port, [], name) == 201
        assert node.trigger().status_code == 202
        told = f"{name} refused /training: this is not the answer of a node"
        wait_until(lambda: told in texts(node), "the refusal of the service")
        assert node.http.post("/jobs/SLOW/pause").status_code == 200
        assert node.http.post("/jobs/SLOW/resume").status_code == 200
    wait_until(lambda: node.job()["phase"] == "IDLE", "the end of the round")
    paths = ("/events.jsonl", "/jobs/SLOW", "/jobs/SLOW/history", "/peers", "/")
    assert "SECRET" not in "".join(node.http.get(path).text for path in paths)


def test_services_of_this_machine_below_1024_and_the_node_itself_are_not_called(node: RealNode) -> None:
    for port in (22, 25, 80, 443, 631, node.port):
        assert announce(node, "127.0.0.1", port, [], f"p{port}") == 403


def test_a_redirect_leads_nowhere(node: RealNode) -> None:
    with listener(socket.AF_INET, "127.0.0.1") as (port, seen), socket.create_server(("127.0.0.1", 0)) as server:
        answer = (
            f"HTTP/1.1 307 Temporary Redirect\r\nLocation: http://127.0.0.1:{port}/\r\nContent-Length: 0\r\n\r\n"
        )
        mine = server.getsockname()[1]
        assert announce(node, None, mine, [], "redirecting") == 201
        server.settimeout(30)
        conn, _ = server.accept()
        with conn:
            conn.settimeout(30)
            conn.recv(65536)
            conn.sendall(answer.encode())
            wait_until(lambda: "redirecting" in texts(node), "it is told of")
        assert seen == []
