"""What a stranger has: a socket to a real node, and what the node weighs while he tries."""

from __future__ import annotations

import json
import re
import socket
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tests.mesh_name import MESH_NAME
from tests.processes.harness import RealNode, harness

MEGA = 1024 * 1024
JSON = "application/json"
NODE_ROUTES = ("/announce", "/probe", "/training", "/training/model_params", "/training/model_params/accuracy")
PERSON_ROUTES = ("/training/trigger", "/jobs/SLOW/predict")
POSTS = (*NODE_ROUTES, *PERSON_ROUTES)


@contextmanager
def target(folder: Path, module: str = "flnet", **settings: str) -> Iterator[RealNode]:
    """A node whose trainings end at once.

    Args:
        module: that the node runs.
    """
    with harness(folder) as made:
        made.module = module
        made.go()
        node = made.start(**settings)
        made.ready()
        yield node
        assert "Traceback" not in (folder / "n0.log").read_text()


def head(path: str, content_type: str = JSON, method: str = "POST", **headers: Any) -> bytes:
    """The head of a request; `_` in the names of headers stands for `-`."""
    more = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
    first = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nContent-Type: {content_type}\r\n"
    more += "" if "Flnet_Mesh" in headers else f"Flnet-Mesh: {MESH_NAME}\r\n"
    return f"{first}{more}\r\n".encode()


def talk(node: RealNode, parts: Iterable[bytes]) -> tuple[int, dict[str, Any]]:
    """Send these parts as far as they are taken; status and JSON of the answer."""
    with socket.create_connection(("127.0.0.1", node.port), timeout=60) as sock:
        with suppress(ConnectionError):
            for part in parts:
                sock.sendall(part)
        answer = b""
        with suppress(ConnectionError):
            while not _is_whole(answer) and (part := sock.recv(65536)):
                answer += part
    status, _, body = answer.partition(b"\r\n\r\n")
    return int(status.split()[1]), json.loads(body)


def post(node: RealNode, path: str, body: bytes, content_type: str = JSON, **headers: Any) -> tuple[int, str]:
    """Status and error that answer this body."""
    opening = head(path, content_type, Content_Length=len(body), **headers)
    status, told = talk(node, (opening, body))
    return status, str(told.get("error", ""))


def peak(node: RealNode) -> int:
    """The most memory that the node has had since it began, in bytes."""
    status = Path(f"/proc/{node.process.pid}/status").read_text()
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    assert found is not None
    return int(found[1]) * 1024


def wait_until(holds: Any, what: str, seconds: float = 120.0) -> None:
    """Poll until it holds; the deadline only turns a hang into a failure."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


def _is_whole(answer: bytes) -> bool:
    start, empty, body = answer.partition(b"\r\n\r\n")
    stated = re.search(rb"content-length: ([0-9]+)", start.lower())
    return bool(empty) and stated is not None and len(body) >= int(stated[1])
