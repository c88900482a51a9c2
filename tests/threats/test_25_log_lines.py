"""Somebody writes lines of their own into what a node logs, or commands for the terminal that shows it."""

from __future__ import annotations

import io
import logging
import re
import socket
import ssl
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from click.testing import CliRunner

from flnet.cli.commands import cli
from flnet.cli.output import OneLine, printable
from tests.processes.harness import Harness, PinnedHarness, harness

LINE = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} [A-Z]+ [\w.]+: .*")
START = ("node ", "page ", "mesh ", "state ", "trainers ", "sign in ", "key ")  # what `flnet run` says at first
FORGED = "2026-01-01 00:00:00,000 INFO flnet.web: the operator signed in"
EVIL = [
    f"x\n{FORGED}",
    f"x\r\n{FORGED}",
    f"x\r{FORGED}",
    f"x\x85{FORGED}",
    f"x\u2028{FORGED}\u2029",
    "\x1b[2J\x1b[31mred\x1b[0m",
    "\x1b]0;title\x07",
    "\x1b]8;;http://192.0.2.1\x07link\x1b]8;;\x07",
    "\x9b31m",
    "\x00\x08\x08\x7f",
    "\u202eecilA\u2066",
    "\ud800",
]


@pytest.mark.parametrize("text", EVIL, ids=repr)
def test_a_record_is_one_printable_line_whatever_it_holds(text: str) -> None:
    out = io.StringIO()
    handler = logging.StreamHandler(out)
    handler.setFormatter(OneLine())
    log = logging.Logger("flnet.test")
    log.addHandler(handler)
    log.warning("a peer says %s", text)
    try:
        raise ValueError(text)
    except ValueError:
        log.exception("%s failed", text)
    lines = out.getvalue().split("\n")
    assert len(lines) == 3
    assert all(LINE.fullmatch(line) and line.isprintable() for line in lines[:-1])
    assert printable(text).isprintable()


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    with harness(tmp_path_factory.mktemp("log")) as h:
        h.start(COMPUTE="thread", LOGGING_LEVEL="DEBUG", LISTEN_ADDRESS="0.0.0.0")
        h.ready()
        yield h


def send(port: int, head: bytes, body: bytes = b"") -> None:
    """Send bytes as they are, and wait for the answer's beginning."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as talking:
        talking.sendall(head + b"\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        talking.recv(64)


@pytest.mark.slow
def test_nobody_writes_lines_of_their_own_into_the_log_of_a_real_node(nodes: Harness) -> None:
    (node,) = nodes.nodes
    for text in EVIL[:-1]:
        coded = "".join(f"%{byte:02x}" for byte in text.encode()).encode()
        raw = text.encode()
        send(node.port, b"GET /jobs/" + coded + b" HTTP/1.1\r\nHost: localhost")
        send(
            node.port,
            b"POST /" + coded + b"?" + coded + b" HTTP/1.1\r\nHost: localhost\r\nOrigin: http://" + coded,
        )
        send(node.port, b"GET /info HTTP/1.1\r\nHost: localhost\r\nUser-Agent: " + raw)
        send(node.port, b"GET /info HTTP/1.1\r\nHost: " + raw)
        for path, field in (("/announce", "iAm"), ("/training/trigger", "trainerId"), ("/training", "trainer")):
            node.http.post(path, json={field: {"id": text, "port": 4001} if field == "iAm" else text})
        node.http.post("/settings", headers={"Authorization": "Bearer " + coded.decode()})
    log = (nodes.folder / "n0.log").read_text("utf-8")
    lines = log.split("\n")[:-1]
    assert [line for line in lines if not line.isprintable()] == []
    assert [line for line in lines if not LINE.fullmatch(line) and not line.startswith(START)] == []
    assert [line for line in lines if line.startswith(FORGED)] == []


@pytest.mark.slow
def test_a_client_that_does_not_close_its_end_of_tls_leaves_no_line(tmp_path: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    made = PinnedHarness(tmp_path)
    try:
        node = made.start()
        made.up(node)
        with socket.create_connection(("127.0.0.1", node.port), timeout=60) as line, line.dup() as below:
            talking = context.wrap_socket(line, suppress_ragged_eofs=True)
            talking.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
            while talking.recv(4096):  # the answer, until the node closes the idle connection
                pass
            with suppress(ConnectionError):
                assert below.recv(1) == b""  # it waits in vain for this end, and gives up
            talking.detach()
        assert node.http.get("/health").status_code == 200
    finally:
        made.stop()
    lines = (tmp_path / "n0.log").read_text("utf-8").splitlines()
    assert [line for line in lines if "Traceback" in line or "ERROR" in line] == []


@pytest.mark.slow
def test_what_a_node_says_of_its_peers_is_text_in_a_terminal(nodes: Harness) -> None:
    (node,) = nodes.nodes
    evil = "<b>x</b> \\x1b[31m"
    answer = node.http.post("/announce", json={"iAm": {"id": evil, "port": 4001}, "myPeers": []})
    shown = CliRunner().invoke(cli, ["peers", "--node", f"127.0.0.1:{node.port}"])
    assert all(line.isprintable() for line in shown.output.split("\n"))
    assert (answer.status_code == 201) == (evil in " ".join(shown.output.split()))
