"""A stand-in for a running node: real HTTP on a real socket, with answers that a test lays out beforehand."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Json = dict[str, Any]


def job(**changes: Any) -> Json:
    """A job view at rest before its first round, with changes."""
    view: Json = {
        "trainer_id": "MNIST",
        "phase": "IDLE",
        "current_round": -1,
        "rounds_left": 0,
        "pre_fedavg_accuracy": None,
        "post_fedavg_accuracy": None,
        "digest": None,
        "metrics": {},
        "waiting_for": [],
        "received": [],
        "progress": None,
        "outcome": "",
        "error": None,
        "data": {"source": "bundled digits", "rows": {"train": 300, "test": 100}, "sample": True},
    }
    return view | changes


def record(number: int, digest: str = "d1", pre: float = 0.5, post: float = 0.75) -> Json:
    """A history record."""
    return {"round": number, "digest": digest, "pre_fedavg_accuracy": pre, "post_fedavg_accuracy": post}


def measured(number: int, post: float, **after: float) -> Json:
    """A history record with further figures of the trainer."""
    return record(number, post=post) | {"metrics": {"before": {"f1_macro": 0.0}, "after": after}}


class FakeNode:
    """What the node answers. `views` are given out one per look at the job, the last one again and again."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.views: list[Json] = [job()]
        self.records: list[Json] = []
        self.peer_views: list[Json] = []
        self.events: list[Json] = []
        self.models: list[Json] = []
        self.files: dict[str, tuple[str, bytes]] = {}  # path with its query -> name and contents
        self.prediction: Json = {}
        self.posted: list[Json] = []
        self.refused_images: dict[str, tuple[int, Json]] = {}  # in base64 -> the answer when it comes first
        self.ordered: list[str] = []  # requests without a body, which only name what is to be done
        self.answer_to_order: tuple[int, Json] = (200, {})
        self.headers: list[dict[str, str]] = []
        self.answers: dict[str, tuple[int, bytes]] = {}  # path -> answer instead of the usual one

    def get(self, path: str) -> tuple[int, Any]:
        """The answer to a GET."""
        if path == "/info":
            me = {"id": "node-a", "ip": None, "port": "4000"}
            info = {"iAm": me, "jobsInfo": [self.views[0]], "lastNodeStatus": "IDLE", "peers": self.peer_views}
            return 200, info
        if path == "/jobs":
            return 200, [self.views[0]]
        if path == "/peers":
            return 200, self.peer_views
        if path == "/jobs/MNIST":
            return 200, self.views.pop(0) if len(self.views) > 1 else self.views[0]
        if path.partition("?")[0] == "/jobs/MNIST/history":
            return 200, self.records
        if path == "/jobs/MNIST/models":
            return 200, self.models
        return 404, {"error": "not_found", "message": f"there is nothing at {path!r}"}

    def post(self, body: Json) -> tuple[int, Any]:
        """The answer to a trigger, a question or an edit."""
        self.posted.append(body)
        if "trainerId" not in body:
            return self.refused_images.pop(body.get("image", ""), (200, self.prediction))
        if body["trainerId"] != "MNIST":
            return 404, {"error": "unknown_trainer", "message": f"this node has no trainer {body['trainerId']!r}"}
        return 202, {"trainerId": "MNIST", "round": 0}


def _handler(node: FakeNode) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            node.headers.append(dict(self.headers))
            if self.path in node.answers:
                self._send(*node.answers[self.path])
            elif self.path in node.files:
                name, contents = node.files[self.path]
                self._send(200, contents, f'attachment; filename="{name}"')
            elif self.path == "/events":
                lines = ["retry: 2000\n\n", ": still here\n\n"]
                lines += [f"id: {event['id']}\nevent: x\ndata: {json.dumps(event)}\n\n" for event in node.events]
                self._send(200, "".join(lines).encode())
            else:
                status, answer = node.get(self.path)
                self._send(status, json.dumps(answer).encode())

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))) or "null")
            if body is None:
                node.ordered.append(f"{self.command} {self.path}")
                status, answer = node.answer_to_order
            else:
                status, answer = node.post(body)
            self._send(status, json.dumps(answer).encode())

        do_PATCH = do_PUT = do_DELETE = do_POST

        def _send(self, status: int, body: bytes, disposition: str = "") -> None:
            self.send_response(status)
            if disposition:
                self.send_header("Content-Disposition", disposition)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    return Handler


@contextmanager
def serving(server: ThreadingHTTPServer) -> Iterator[None]:
    """Serve in a thread, which is ended afterwards."""
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        thread.join()


@contextmanager
def running_fake_node() -> Iterator[FakeNode]:
    """A fake node on a free port of loopback."""
    node = FakeNode("")
    with ThreadingHTTPServer(("127.0.0.1", 0), _handler(node)) as server:
        node.address = f"127.0.0.1:{server.server_address[1]}"
        with serving(server):
            yield node
