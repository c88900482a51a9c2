"""A real node tells a real web server that another node is gone, and goes on while that server answers nobody."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.processes.harness import at_rest, harness, kept, until

pytestmark = pytest.mark.slow


def test_the_loss_of_a_node_is_told_and_a_silent_receiver_holds_up_nothing(tmp_path: Path) -> None:
    told: list[dict[str, Any]] = []
    answers = threading.Event()

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            answers.wait()
            told.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with harness(tmp_path) as mesh, server:
        url = f"http://127.0.0.1:{server.server_port}/hook"
        first = mesh.start(NOTIFY_URL=url, NOTIFY_LOST_SECONDS="0", NOTIFY_PAUSE_SECONDS="0")
        mesh.start()
        last = mesh.start()
        mesh.ready()
        mesh.go()
        last.kill()
        until(lambda: first.states()["n2"] == "dead", "the loss of the node")
        others = mesh.nodes[:2]
        first.trigger()
        until(lambda: at_rest(others, 0) and kept(others, 0), "a round while the receiver is silent")
        answers.set()
        until(lambda: any(each["type"] == "flnet.peer_lost" for each in told), "the notice")
        server.shutdown()
    (notice, *_) = [each["data"] for each in told if each["type"] == "flnet.peer_lost"]
    assert (notice["node"], notice["text"]) == ("n0", "n2: no answer for 0 seconds or longer")
