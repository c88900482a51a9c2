"""Requests drawn from /openapi.json, sound and broken ones, against a real node: nothing is answered with a fault.

    python -m tests.fuzz.api --cases 20000

starts a node of its own, sends so many requests, and prints how they were answered, by status, and how fast. An
answer of 500 or above other than "not now", an answer that does not come, a node that has ended and a traceback in its
log are faults: they are printed with the command that sends the same again, and the exit code is 1.

    python -m tests.fuzz.api --cases 5000 --mode pinned

does so over TLS with a node of a pinned mesh, `--mode keyed` with one whose mesh has a key. Both trust nobody for
where he is: their person shows a token, and what nodes say to each other is signed as a member of the mesh signs.
"""

from __future__ import annotations

import argparse
import re
import secrets
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import urlsplit

import httpx
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from urllib3.exceptions import InsecureRequestWarning

from flnet.fingerprints import fingerprint
from flnet.security.signatures import MeshKey
from flnet.security.signing import RequestSigner
from flnet.web.app import ROUTES
from flnet.web.auth.permissions import Who
from tests.mesh_name import MESH_HEADERS
from tests.processes.harness import Harness, PinnedHarness, RealNode
from tests.security.keypairs import TestKey

SECONDS = 60.0  # in which every answer must begin and go on
STREAMS = frozenset({"/events"})  # that have no end; that they are answered is seen from their head
NOT_NOW = 503
TRAINER = "SLOW"  # of the harness
TOKEN = "0123456789abcdefghij"
MESH_KEY = "correct horse battery staple"
MEMBER = TestKey(77)
OF_NODES = [re.compile(re.sub("<[^>]+>", "[^/]+", route.rule)) for route in ROUTES if route.who is Who.NODES]


class Signature(requests.auth.AuthBase):
    """Signs what nodes say to each other; all else is a person's, who shows a token."""

    def __init__(self, mesh: MeshKey | None) -> None:
        """Args:
        mesh: the key of the mesh; None in a pinned one, where the member's own key is accepted.
        """
        self._seal = RequestSigner(MEMBER, mesh, secrets.token_hex(8))

    def __call__(self, sent: requests.PreparedRequest) -> requests.PreparedRequest:
        """Add the headers of a member, or ask for whom to sign."""
        url = urlsplit(str(sent.url))
        if not any(rule.fullmatch(url.path) for rule in OF_NODES):
            sent.headers["Authorization"] = f"Bearer {TOKEN}"
            return sent
        body = sent.body.encode() if isinstance(sent.body, str) else sent.body
        has_kind = sent.method == "POST" and "Content-Type" in sent.headers
        kind = str(sent.headers["Content-Type"]) if has_kind else None
        digest = sha256(body if isinstance(body, bytes) else b"").digest()
        sealed = self._seal.request(url.netloc, str(sent.method), url.path, url.query, digest, kind)
        sent.headers.update(sealed.headers)

        def learn(answer: requests.Response, *_: Any, **__: Any) -> None:
            self._seal.learn(url.netloc, sealed, answer.status_code, answer.headers.get)

        sent.register_hook("response", learn)
        return sent


class Api:
    """What is sent to one node, and how it was answered."""

    def __init__(self, node: RealNode, number: int, mode: str = "open") -> None:
        """Args:
        number: the seed.
        mode: of the node; in all but an open one requests are signed, or carry its person's token.
        """
        self.node = node
        self.url = f"{'https' if mode == 'pinned' else 'http'}://127.0.0.1:{node.port}"
        self.sent = 0
        self.told: Counter[int] = Counter()
        self.faults: list[str] = []
        self._rng = Random(number)
        self._session = requests.Session()
        self._session.trust_env = False
        self._session.headers.update(MESH_HEADERS)
        self._session.verify = False  # a pinned node's certificate is of its own key, and no authority's
        if mode != "open":
            self._session.auth = Signature(MeshKey(MESH_KEY) if mode == "keyed" else None)

    def operations(self) -> list[Any]:
        """Every verb of every path that the node describes."""
        schema: Any = schemathesis.openapi.from_dict(self.node.get("/openapi.json"))
        return [found.ok() for found in schema.get_all_operations()]

    def send(self, case: Any) -> None:
        """Send one request, and note what it was answered."""
        self.sent += 1
        if self._rng.random() < 1 / 2:
            aim(case)
        answer: Any
        try:
            if case.path in STREAMS:
                answer = self._session.get(self.url + case.path, timeout=SECONDS, stream=True)
                answer.close()
            else:
                answer = case.call(
                    base_url=self.url, session=self._session, timeout=SECONDS, allow_redirects=False, verify=False
                )
        except requests.exceptions.InvalidHeader:  # cannot be sent at all
            return
        except requests.exceptions.RequestException as exc:
            self._broke(case, f"no answer ({type(exc).__name__}: {exc})")
            return
        self.told[answer.status_code] += 1
        if answer.status_code >= 500 and not _is_not_now(answer):
            self._broke(case, f"{answer.status_code} {answer.text[:300]}")

    def _broke(self, case: Any, words: str) -> None:
        self.faults.append(f"{case.method} {case.formatted_path}: {words}\n  {case.as_curl_command()[:2000]}")


def aim(case: Any) -> None:
    """Let it be for the trainer that the node has, with parameters of the right form, so that it gets further."""
    if "trainerId" in (case.path_parameters or {}):
        case.path_parameters["trainerId"] = TRAINER
    if isinstance(case.body, dict) and case.body:
        case.body = {**case.body, "trainerId": TRAINER} if "trainerId" in case.body else case.body
        if "modelParams" in case.body:
            case.body = {**case.body, "modelParams": {"w": [0.5, -1.0, 0.0, 2.0]}}


def _is_not_now(answer: Any) -> bool:
    return bool(answer.status_code == NOT_NOW and "error" in answer.json())


def fuzz(api: Api, cases: int, number: int) -> None:
    """Send at least so many requests: an equal part to each operation, the rest to those that vary most."""
    operations, modes = api.operations(), (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)
    part = -(-cases // (len(operations) * len(modes)))
    fruitful = [
        (operation, mode)
        for operation in operations
        for mode in modes
        if (mode is GenerationMode.POSITIVE or can_be_wrong(operation))
        and _fuzz_one(api, operation, mode, part, number) >= part
    ]
    for turn in range(1, 100):
        for operation, mode in fruitful:
            if api.sent >= cases:
                return
            _fuzz_one(api, operation, mode, min(part, cases - api.sent), number + turn)


def can_be_wrong(operation: Any) -> bool:
    """Whether it has a query or a body: any word is right in a path, and looking for a wrong one takes long."""
    return bool(list(operation.body)) or any(one.location != "path" for one in operation.iter_parameters())


def _fuzz_one(api: Api, operation: Any, mode: GenerationMode, cases: int, number: int) -> int:
    """How many requests were sent; few or none where little can be varied."""

    @seed(number)
    @settings(
        max_examples=cases,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(generation_mode=mode))
    def send(case: Any) -> None:
        api.send(case)

    before = api.sent
    with suppress(Unsatisfiable):  # nothing of it can be wrong
        send()
    return api.sent - before


class Keyed(Harness):
    """A node that trusts nobody for where he is."""

    def place(self, index: int) -> dict[str, str]:
        """Settings of the mesh, and who may act on the node."""
        return {**super().place(index), "MESH_KEY": MESH_KEY, "TRUST_LOOPBACK": "false", "OPERATOR_TOKEN": TOKEN}

    def client(self, index: int, port: int) -> httpx.Client:
        """Reading needs the token, too."""
        made = super().client(index, port)
        made.headers["Authorization"] = f"Bearer {TOKEN}"
        return made


class Pinned(PinnedHarness):
    """A node that speaks TLS only, and accepts the key of the member."""

    token = TOKEN

    def place(self, index: int) -> dict[str, str]:
        """Settings of the mesh, and who may act on the node."""
        return {**super().place(index), "TRUSTED_PEERS": fingerprint(MEMBER.text)}


MODES = {"open": Harness, "keyed": Keyed, "pinned": Pinned}


def started(made: Harness) -> RealNode:
    """A node whose trainings end at once."""
    made.go()
    node = made.start(WAIT_TIME_IN_SECONDS_TO_FORCE_FEDAVG="1")
    made.ready()
    return node


def lines(api: Api, seconds: float) -> Iterator[str]:
    """What came of it."""
    for status, count in sorted(api.told.items()):
        yield f"{status} {count:>8}"
    yield f"{api.sent} requests, {api.sent / seconds:.0f} per second; {len(api.faults)} faults"
    yield from api.faults


def main() -> int:
    """Fuzz, and print what came of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--mode", choices=[*MODES], default="open", help="of the node")
    asked = parser.parse_args()
    # Of each request, where a node's certificate is its own.
    warnings.simplefilter("ignore", InsecureRequestWarning)
    with tempfile.TemporaryDirectory() as folder, ExitStack() as ending:
        made = MODES[asked.mode](Path(folder))
        ending.callback(made.stop)
        api = Api(started(made), asked.seed, asked.mode)
        begun = time.monotonic()
        fuzz(api, asked.cases, asked.seed)
        print("\n".join(lines(api, time.monotonic() - begun)))
        alive = api.node.process.poll() is None and api.node.http.get("/health").status_code == 200
        print("the node is well" if alive else f"the node has ended: {api.node.process.poll()}")
        log = made.log(0).read_text("utf-8").splitlines()
        traces = [line for line in log if "Traceback" in line]
        print("\n".join([f"{len(log)} lines of log, {len(traces)} tracebacks", *traces]))
        return 0 if alive and not api.faults and not traces else 1


if __name__ == "__main__":
    sys.exit(main())
