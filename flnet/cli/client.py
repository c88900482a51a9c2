"""Speaks to one running node over its REST API, for the commands and for the demo."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from types import TracebackType
from typing import Any, Self, TypeVar
from urllib.parse import quote

import click
import httpx

from flnet.cli.operator import token_for, token_option
from flnet.cli.options import variable_name
from flnet.cli.pinned import NodeTransport, fingerprint_option, want_tls
from flnet.errors import PeerRefused, PeerTimeout, PeerUnreachable
from flnet.settings import Settings

__all__ = ["NodeClient", "node_option", "parse_address"]

TIMEOUT_SECONDS = 10.0
WORK_SECONDS = 90.0  # for what waits its turn behind a training; the node itself gives up after a minute
SILENCE_SECONDS = 60.0  # of an event feed until its node counts as gone; nodes send a comment more often
PORT_VARIABLE = variable_name("node_port")
DEFAULT_PORT = str(Settings.model_fields["node_port"].default)
View = Mapping[str, Any]
File = tuple[str, Iterator[bytes]]  # its name, and what is in it, part by part
_FILE_NAME = re.compile(r'filename="([^"]*)"')
F = TypeVar("F", bound=Callable[..., Any])


class NodeClient:
    """One node's REST API; the address is "host:port".

    Every method raises PeerUnreachable (no connection), PeerTimeout (no answer in time) or PeerRefused (the
    node answered with an error, or with something that no node answers).
    """

    def __init__(self, address: str, timeout: float = TIMEOUT_SECONDS) -> None:
        self.address = address
        # trust_env: a proxy of the environment would be asked even for this machine's own nodes.
        allowed = httpx.Timeout(timeout, connect=min(timeout, TIMEOUT_SECONDS))
        token = token_for(address)
        shown = {"Authorization": f"Bearer {token}"} if token else {}
        carrier = NodeTransport(address)
        self._http = httpx.Client(
            base_url=f"http://{address}", headers=shown, timeout=allowed, trust_env=False, transport=carrier
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def info(self) -> View:
        """GET /info."""
        return self._object("GET", "/info")

    def ready(self) -> View:
        """GET /ready; a node that is not ready yet says why in the same form."""
        return self._object("GET", "/ready", accept=(503,))

    def peers(self) -> list[View]:
        """GET /peers: the peers' views."""
        return self._list("/peers")

    def jobs(self) -> list[View]:
        """GET /jobs: with more than GET /info tells."""
        return self._list("/jobs")

    def job(self, trainer: str) -> View:
        """GET /jobs/{trainer}."""
        return self._object("GET", _job_path(trainer))

    def history(self, trainer: str, last: int | None = None) -> list[View]:
        """GET /jobs/{trainer}/history: a record of every round, or of the `last` ones, oldest first."""
        return self._list(_job_path(trainer) + "/history" + (f"?last={last}" if last else ""))

    def history_file(self, trainer: str, form: str, last: int | None = None) -> AbstractContextManager[File]:
        """GET /jobs/{trainer}/history.csv, .svg or .png."""
        return self._file(_job_path(trainer) + f"/history.{form}", {"last": str(last)} if last else {})

    def trigger(self, trainer: str, rounds: int, until: str | None = None) -> int:
        """POST /training/trigger; the number of the first round that was started."""
        asked = {"trainerId": trainer, "rounds": rounds, **({"until": until} if until else {})}
        answer = self._object("POST", "/training/trigger", asked)
        return int(answer["round"])

    def edit(self, trainer: str, changes: Mapping[str, int | float | str]) -> View:
        """PATCH /jobs/{trainer}/params; the job afterwards."""
        return self._object("PATCH", _job_path(trainer) + "/params", changes)

    def plan(self, trainer: str, when: str | None) -> View:
        """PUT /jobs/{trainer}/schedule; the job afterwards."""
        return self._object("PUT", _job_path(trainer) + "/schedule", {"when": when})

    def trust(self) -> View:
        """GET /trust: which keys the node accepts, which wait and which stay out."""
        return self._object("GET", "/trust")

    def accept(self, who: str, introducer: bool) -> View:
        """POST /trust/accept; what is accepted."""
        return self._object("POST", "/trust/accept", {"fingerprint": who, "introducer": introducer})

    def reject(self, who: str) -> View:
        """POST /trust/reject; all keys afterwards."""
        return self._object("POST", "/trust/reject", {"fingerprint": who})

    def forget_key(self, who: str) -> View:
        """POST /trust/forget; all keys afterwards."""
        return self._object("POST", "/trust/forget", {"fingerprint": who})

    def models(self, trainer: str) -> list[View]:
        """GET /jobs/{trainer}/models: the held one first."""
        return self._list(_job_path(trainer) + "/models")

    def pin(self, trainer: str, digest: str) -> View:
        """PUT /jobs/{trainer}/models/{digest}/pin; the model afterwards."""
        return self._object("PUT", _model_path(trainer, digest) + "/pin")

    def unpin(self, trainer: str, digest: str) -> View:
        """DELETE /jobs/{trainer}/models/{digest}/pin; the model afterwards."""
        return self._object("DELETE", _model_path(trainer, digest) + "/pin")

    def restore(self, trainer: str, digest: str) -> View:
        """POST /jobs/{trainer}/models/{digest}/restore; the job afterwards."""
        return self._object("POST", _model_path(trainer, digest) + "/restore")

    def predict(self, trainer: str, question: View) -> View:
        """POST /jobs/{trainer}/predict."""
        return self._object("POST", _job_path(trainer) + "/predict", question)

    def findings(self, trainer: str, kind: str, digest: str | None = None) -> View:
        """GET /jobs/{trainer}/labels or .../groups, of the model that is held or of another one."""
        query = f"?digest={quote(digest, safe='')}" if digest else ""
        return self._object("GET", f"{_job_path(trainer)}/{kind}{query}")

    def model(self, trainer: str, digest: str, form: str) -> AbstractContextManager[File]:
        """GET /jobs/{trainer}/models/{digest}."""
        return self._file(_model_path(trainer, digest), {"format": form})

    def card(self, trainer: str, digest: str) -> AbstractContextManager[File]:
        """GET /jobs/{trainer}/models/{digest}/card."""
        return self._file(_model_path(trainer, digest) + "/card", {})

    def bring(
        self, trainer: str, form: Iterator[bytes], boundary: str, *, replace: bool, add: bool = False
    ) -> View:
        """POST /data/{trainer}/import: the parts of a form with files; what the trainer says of them."""
        path = f"/data/{quote(trainer, safe='')}/import"
        query = {name: "true" for name, wanted in (("replace", replace), ("add", add)) if wanted}
        headers = {"Content-Type": f"multipart/form-data; boundary={boundary}"}
        waits = httpx.Timeout(TIMEOUT_SECONDS, write=WORK_SECONDS, read=None)  # a round may have to end first
        with self._translated():
            reply = self._http.post(path, params=query, content=form, headers=headers, timeout=waits)
        if reply.status_code >= 400:
            raise self._refusal(reply)
        answer: View = reply.json()
        return answer

    def events(self, after: int | None = None) -> Iterator[View]:
        """GET /events: what happens, as it happens; ends when the node closes the stream."""
        headers = {"Accept": "text/event-stream"}
        if after is not None:
            headers["Last-Event-ID"] = str(after)
        timeout = httpx.Timeout(TIMEOUT_SECONDS, read=SILENCE_SECONDS)
        with (
            self._translated(),
            self._http.stream("GET", "/events", headers=headers, timeout=timeout) as reply,
        ):
            if reply.status_code >= 400:
                reply.read()
                raise self._refusal(reply)
            for line in reply.iter_lines():
                if line.startswith("data:"):
                    yield self._event(line[5:])

    @contextmanager
    def _file(self, path: str, query: Mapping[str, str]) -> Iterator[File]:
        with self._translated(), self._http.stream("GET", path, params=dict(query)) as reply:
            if reply.status_code >= 400:
                reply.read()
                raise self._refusal(reply)
            named = _FILE_NAME.search(reply.headers.get("Content-Disposition", ""))
            yield named[1] if named else "", reply.iter_bytes()

    def _event(self, data: str) -> View:
        try:
            event = json.loads(data)
        except ValueError as exc:
            raise PeerRefused(200, "no_node", f"{self.address} sends events that are no JSON") from exc
        if not isinstance(event, dict):
            raise PeerRefused(200, "no_node", f"{self.address} sends events that are no JSON objects")
        return event

    def _object(self, verb: str, path: str, body: object = None, accept: tuple[int, ...] = ()) -> View:
        answer = self._ask(verb, path, body, accept)
        if not isinstance(answer, dict):
            raise PeerRefused(200, "no_node", f"{self.address}{path} is no JSON object; is this an flnet node?")
        return answer

    def _list(self, path: str) -> list[View]:
        answer = self._ask("GET", path)
        if not isinstance(answer, list):
            raise PeerRefused(200, "no_node", f"{self.address}{path} is no JSON list; is this an flnet node?")
        return answer

    def _ask(self, verb: str, path: str, body: object = None, accept: tuple[int, ...] = ()) -> Any:
        with self._translated():
            reply = self._http.request(verb, path, json=body)
        if reply.status_code >= 400 and reply.status_code not in accept:
            raise self._refusal(reply)
        try:
            return reply.json()
        except ValueError as exc:
            raise self._refusal(reply) from exc

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except httpx.TimeoutException as exc:
            raise PeerTimeout(f"the node at {self.address} does not answer in time") from exc
        except (httpx.TransportError, httpx.InvalidURL) as exc:
            raise PeerUnreachable(f"no node can be reached at {self.address}: {exc}") from exc

    def _refusal(self, reply: httpx.Response) -> PeerRefused:
        try:
            answer = reply.json()
            return PeerRefused(reply.status_code, str(answer["error"]), str(answer["message"]))
        except (ValueError, KeyError, TypeError):
            words = f"{self.address} answers, but not as an flnet node does"
            return PeerRefused(reply.status_code, "no_node", words)


def _job_path(trainer: str) -> str:
    return "/jobs/" + quote(trainer, safe="")


def _model_path(trainer: str, digest: str) -> str:
    return f"{_job_path(trainer)}/models/{quote(digest, safe='')}"


def parse_address(text: str) -> str:
    """ "host:port", also from a bare port or from the address of the page.

    Raises:
        ValueError: neither of them.
    """
    address = text.strip().removeprefix("http://").removeprefix("https://").rstrip("/")
    host, _, port = address.rpartition(":")
    if not (port.isascii() and port.isdigit() and 1 <= int(port) <= 65535) or "/" in host or "@" in host:
        raise ValueError(f"expected HOST:PORT with a port from 1 to 65535, got {text!r}")
    return f"{host or '127.0.0.1'}:{port}"


def _address(ctx: click.Context, param: click.Parameter, value: str | None) -> str:
    try:
        address = parse_address(value or os.environ.get(PORT_VARIABLE) or DEFAULT_PORT)
    except ValueError as exc:
        raise click.BadParameter(str(exc), ctx, param) from exc
    if (value or "").strip().startswith("https://"):
        want_tls(address)
    return address


def node_option(command: F) -> F:
    """The options of every command that speaks to a running node: --node, --token, --fingerprint and --json."""
    command = fingerprint_option(token_option(command))
    command = click.option("--json", "as_json", is_flag=True, help="Print JSON for scripts.")(command)
    return click.option(
        "--node",
        "address",
        metavar="HOST:PORT",
        callback=_address,
        help=f"Which node to ask.  [default 127.0.0.1:${PORT_VARIABLE}, or port {DEFAULT_PORT}]",
    )(command)
