"""What somebody has who is let in: a key that the mesh accepts, in each of the three modes, and a line to a node."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal

import httpx

from flnet.fingerprints import fingerprint
from flnet.protocol.messages import News, StateWord
from flnet.security.signatures import MeshKey, NodeKey
from flnet.security.signing import RequestSigner
from tests.mesh_name import MESH_HEADERS, MESH_NAME
from tests.processes.harness import ANSWER_SECONDS, Harness, PinnedHarness, RealNode
from tests.security.keypairs import TestKey
from tests.threats.stranger import JSON

Mode = Literal["open", "keyed", "pinned"]
SECRET = "correct horse battery staple"
OWN = TestKey(77)


@contextmanager
def mesh_of(
    mode: Mode, folder: Path, nodes: int, *others: NodeKey, module: str = "flnet", **settings: str
) -> Iterator[Harness]:
    """A mesh of real nodes that lets these keys in.

    Args:
        module: that the nodes run.
        settings: of all nodes.
    """
    made = PinnedHarness(folder) if mode == "pinned" else Harness(folder)
    made.module = module
    more = {"MESH_KEY": SECRET} if mode == "keyed" else {}
    if isinstance(made, PinnedHarness):
        marks = [made.mark(index) for index in range(nodes)] + [fingerprint(key.text) for key in others]
        more = {"TRUSTED_PEERS": ",".join(marks)}
    try:
        for _ in range(nodes):
            made.start(**more, **settings)
        made.ready()
        yield made
        for index in range(nodes):
            assert "Traceback" not in made.log(index).read_text()
    finally:
        made.stop()


def claim(
    node: RealNode, state: StateWord, incarnation: int, by: str | None = None, key: NodeKey | None = None
) -> dict[str, Any]:
    """What is said of a node.

    Args:
        key: that signs it; None: nobody.
    """
    news = News(id=node.name, ip="127.0.0.1", port=node.port, state=state, incarnation=incarnation, by=by)
    if key is not None:
        signature = base64.b64encode(key.sign(news.statement(MESH_NAME, key.text))).decode()
        news = news.model_copy(update={"signature": signature})
    return news.fields()


class Insider:
    """A member that is no node: it sends whatever it likes, signed as the mode wants it."""

    def __init__(self, mode: Mode, key: NodeKey = OWN, run: str = "00112233aabbccdd") -> None:
        """Args:
        run: 16 hexadecimal digits that no other one with this key has.
        """
        self.key = key
        mesh = MeshKey(SECRET) if mode == "keyed" else None
        self._signer = None if mode == "open" else RequestSigner(key, mesh, run)

    def post(self, node: RealNode, path: str, message: dict[str, Any]) -> tuple[int, str]:
        """Status and error that answer a message of this key."""
        body = json.dumps({**message, "key": self.key.text}).encode()
        with httpx.Client(
            base_url=node.http.base_url,
            verify=False,
            trust_env=False,
            timeout=ANSWER_SECONDS,
            headers=MESH_HEADERS,
        ) as line:
            answer = line.post(path, content=body, headers=self._headers(node, path, body))
            if answer.status_code == 401 and self._signer is not None:
                unsigned = self._signer.request(self._address(node), "POST", path, "", b"")
                assert self._signer.learn(self._address(node), unsigned, 401, answer.headers.get)
                answer = line.post(path, content=body, headers=self._headers(node, path, body))
        return answer.status_code, str(answer.json().get("error", ""))

    def _headers(self, node: RealNode, path: str, body: bytes) -> dict[str, str]:
        if self._signer is None:
            return {"Content-Type": JSON}
        signed = self._signer.request(self._address(node), "POST", path, "", sha256(body).digest(), JSON)
        return {**signed.headers, "Content-Type": JSON}

    def _address(self, node: RealNode) -> str:
        return f"127.0.0.1:{node.port}"
