"""A client of one running node's REST API, for the commands and for the demo; also over TLS, with the operator's token."""

from __future__ import annotations

import ipaddress
import json
import os
import re
import socket
import ssl
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar
from urllib.parse import quote

import click
import httpx

from flnet.cli.options import json_option, variable_name
from flnet.errors import TLS_NEEDED, FlnetError, PeerRefused, PeerTimeout, PeerUnreachable, StartError
from flnet.fingerprints import fingerprint, read_fingerprint, short
from flnet.security.keys import noted
from flnet.settings import Settings, load_settings
from flnet.web.auth.operator_token import read_token, token_path

F = TypeVar("F", bound=Callable[..., Any])
_ASKED_WITH = "flnet.operator_token"  # key of the given token in the context of the command


def _remember_token(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
    if value is not None and not (value.isascii() and value.isprintable()):
        raise click.BadParameter("a token has no such characters", ctx, param)
    ctx.meta[_ASKED_WITH] = value


def token_for(address: str) -> str | None:
    """The token to send to the node at "host:port": the given one, or that of a node on this machine.

    None for loopback: there a person needs none. Of this machine's other addresses the token is read from the
    state folder, while a node holds that; so it is sent to nobody else who may have taken the port.
    """
    context = click.get_current_context(silent=True)
    if context is not None and (given := context.meta.get(_ASKED_WITH)):
        return str(given)
    host, _, port = address.rpartition(":")
    return _kept(int(port)) if _is_own_address(host.strip("[]")) else None


def is_own_machine(address: str, *, loopback_only: bool = False) -> bool:
    """Whether "host:port" is on this machine for certain: loopback, or one of its other addresses."""
    host = address.rpartition(":")[0].strip("[]")
    try:
        if host == "localhost" or ipaddress.ip_address(host).is_loopback:
            return True
    except ValueError:
        return False
    return not loopback_only and _is_own_address(host)


def _kept(port: int) -> str | None:
    # Needed for this alone, and slow to load.
    from flnet.store.state_folder import FolderLock  # noqa: PLC0415

    variable = variable_name("state_path")
    try:
        path = token_path(load_settings({"node_port": port}, {variable: os.environ.get(variable, "")}))
        if not path.is_file():
            return None
        FolderLock(path.parent).close()
    except StartError:  # a node holds the folder
        return read_token(path)
    except (FlnetError, OSError):
        return None
    return None


def _is_own_address(host: str) -> bool:
    """Whether this is an address of this machine other than loopback. Names do not count: they may change."""
    try:
        address = ipaddress.ip_address(host)
        if address.is_loopback or address.is_unspecified:
            return False
        family = socket.AF_INET if address.version == 4 else socket.AF_INET6
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.bind((host, 0))  # which the system refuses for another machine's address
    except (ValueError, OSError):
        return False
    return True


_GIVEN, _WANTED = "flnet.fingerprint", "flnet.tls"  # in the context of the command
CERTIFICATE = "identity.crt"  # as in `flnet.security.keys`, which loads `cryptography`
_PROBED = "/health"  # asked for without a token, to learn whether the node speaks TLS


def _remember_fingerprint(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
    try:
        ctx.meta[_GIVEN] = None if value is None else read_fingerprint(value)
    except ValueError as exc:
        raise click.BadParameter(str(exc), ctx, param) from exc


def want_tls(address: str) -> None:
    """Note that the address was given with https://."""
    context = click.get_current_context(silent=True)
    if context is not None:
        context.meta[_WANTED] = address


class NodeTransport(httpx.BaseTransport):
    """HTTP to one node, until it says that it answers with TLS only; from then on TLS.

    No authority vouches for a node of a pinned mesh: its key is checked in the handshake, against the fingerprint that
    --fingerprint gives, or that of the node of this machine in its state folder.
    """

    def __init__(self, address: str) -> None:
        self._address = address
        self._plain = httpx.HTTPTransport(trust_env=False)
        self._tls: httpx.HTTPTransport | None = None
        self._context: _Context | None = None
        self._is_guess = False  # that the node speaks TLS: what is in its folder may be of earlier days
        self._is_probed = is_own_machine(address, loopback_only=True)
        meta = context.meta if (context := click.get_current_context(silent=True)) else {}
        if (mark := meta.get(_GIVEN)) is not None:
            self._pin(mark)
        elif meta.get(_WANTED) == address:
            self._pin(own_mark(address))
        elif mark := likely_mark(address):
            self._pin(mark)
            self._is_guess = True

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Send one request.

        Raises:
            PeerRefused: another node is there than the one that is meant.
            PeerUnreachable: it speaks no TLS, though it should.
            StartError: it is a node of a pinned mesh, and its fingerprint is not known here.
            httpx.TransportError: it cannot be reached.
        """
        if self._is_guess:
            try:
                return self._sealed(request)
            except (PeerUnreachable, httpx.ConnectError):
                self._tls, self._is_guess = None, False
        if self._tls is None:
            self._probe(request)
        if self._tls is None:
            answer = self._plain.handle_request(request)
            if not _wants_tls(answer):
                return answer
            self._pin(own_mark(self._address))
        return self._sealed(request)

    def close(self) -> None:
        """Close the connections."""
        self._plain.close()
        if self._tls is not None:
            self._tls.close()

    def _probe(self, request: httpx.Request) -> None:
        """Probe for TLS before a token is sent in the clear, or a body that can be sent only once."""
        once = not isinstance(request.stream, httpx.ByteStream)
        if not once and (self._is_probed or "Authorization" not in request.headers):
            return
        self._is_probed = True
        asked = httpx.Request(
            "GET", request.url.copy_with(raw_path=_PROBED.encode()), extensions=request.extensions
        )
        answer = self._plain.handle_request(asked)
        if _wants_tls(answer):
            self._pin(own_mark(self._address))
        answer.close()

    def _pin(self, mark: str) -> None:
        self._context = _Context(mark)
        self._tls = httpx.HTTPTransport(verify=self._context, trust_env=False)

    def _sealed(self, request: httpx.Request) -> httpx.Response:
        from flnet.security.tls import NODE_NAME  # noqa: PLC0415 - loads `cryptography`, for pinned meshes alone

        assert self._tls is not None and self._context is not None
        sealed = httpx.Request(
            request.method,
            request.url.copy_with(scheme="https"),
            headers=request.headers,
            stream=request.stream,
            extensions={**request.extensions, "sni_hostname": NODE_NAME},
        )
        try:
            answer = self._tls.handle_request(sealed)
            self._is_guess = False
            return answer
        except httpx.ConnectError as exc:
            if self._context.fault:
                raise PeerRefused(403, "wrong_key", f"{self._address} is refused: {self._context.fault}") from exc
            if "SSL" in str(exc):
                raise PeerUnreachable(f"{self._address} speaks no TLS, or not as a node does: {exc}") from exc
            raise


class _Socket(ssl.SSLSocket):
    """A connection whose handshake succeeds only with the expected key of the node."""

    def do_handshake(self, block: bool = False) -> None:
        super().do_handshake(block)
        context = self.context
        assert isinstance(context, _Context)
        context.check(self.getpeercert(binary_form=True) or b"")


class _Context(ssl.SSLContext):
    """TLS to the node with one fingerprint; `fault` says why the last handshake failed."""

    sslsocket_class = _Socket
    mark = ""
    fault = ""

    def __new__(cls, mark: str) -> _Context:
        made = super().__new__(cls, ssl.PROTOCOL_TLS_CLIENT)
        made.minimum_version = ssl.TLSVersion.TLSv1_3
        made.check_hostname = False
        made.verify_mode = ssl.CERT_NONE  # no authority is asked; `check` looks at the key
        made.mark = mark
        return made

    def check(self, certificate: bytes) -> None:
        """Compare the key in the certificate with the expected one.

        Raises:
            ssl.SSLError: it is not the node that is meant.
        """
        from flnet.security.tls import key_of  # noqa: PLC0415 - see above

        try:
            key = key_of(certificate)
        except ValueError as exc:
            self.fault = str(exc)
        else:
            if fingerprint(key) == self.mark:
                return
            self.fault = f"the fingerprint of its key begins with {short(key)}, and not with {self.mark[:11]}"
        raise ssl.SSLError(1, self.fault)


def own_mark(address: str) -> str:
    """The fingerprint of the node on this machine with the port of `address`.

    Raises:
        StartError: it is another machine's, or there is no key in its folder.
    """
    mark = _mark_in(_folder(address)) if is_own_machine(address) else ""
    if mark:
        return mark
    raise StartError(
        f"the node at {address} is of a pinned mesh and answers with TLS only: name its key with --fingerprint, "
        f"which flnet keygen shows on its machine, or its folder with {variable_name('state_path')}"
    )


def likely_mark(address: str) -> str:
    """The fingerprint of a node on this machine that has been in a pinned mesh; else empty."""
    if not is_own_machine(address, loopback_only=True):
        return ""
    folder = _folder(address)
    return _mark_in(folder) if (folder / CERTIFICATE).exists() else ""


def _folder(address: str) -> Path:
    variable = variable_name("state_path")
    port = int(address.rpartition(":")[2])
    return load_settings({"node_port": port}, {variable: os.environ.get(variable, "")}).folder


def _mark_in(folder: Path) -> str:
    try:
        key = noted(folder)
    except OSError:
        return ""
    return fingerprint(key) if key else ""


def _wants_tls(answer: httpx.Response) -> bool:
    """Whether the answer says that the node requires TLS; reads its body."""
    if answer.status_code != 403:
        return False
    answer.read()
    try:
        return bool(json.loads(answer.content)["error"] == TLS_NEEDED)
    except (ValueError, KeyError, TypeError):
        return False


TIMEOUT_SECONDS = 10.0
WORK_SECONDS = 90.0  # for what waits its turn behind a training; the node itself gives up after a minute
SILENCE_SECONDS = 60.0  # of an event feed until its node counts as gone; nodes send a comment more often
PORT_VARIABLE = variable_name("node_port")
DEFAULT_PORT = str(Settings.model_fields["node_port"].default)
View = Mapping[str, Any]
File = tuple[str, Iterator[bytes]]  # its name, and what is in it, part by part
_FILE_NAME = re.compile(r'filename="([^"]*)"')


class NodeClient:
    """One node's REST API; the address is "host:port".

    Every method raises PeerUnreachable (no connection), PeerTimeout (no answer in time) or PeerRefused (the
    node answered with an error, or with something that no node answers).
    """

    def __init__(self, address: str, timeout: float = TIMEOUT_SECONDS, token: str | None = None) -> None:
        """Args:
        token: of the node's operator; None for the given one, or that of a node on this machine.
        """
        self.address = address
        # trust_env: a proxy of the environment would be asked even for this machine's own nodes.
        allowed = httpx.Timeout(timeout, connect=min(timeout, TIMEOUT_SECONDS))
        token = token or token_for(address)
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
        """GET /jobs, which has more fields than GET /info."""
        return self._list("/jobs")

    def job(self, trainer: str) -> View:
        """GET /jobs/{trainer}."""
        return self._object("GET", _job_path(trainer))

    def history(self, trainer: str, last: int | None = None) -> list[View]:
        """GET /jobs/{trainer}/history: a record of every round, or of the `last` ones, oldest first."""
        return self._list(_job_path(trainer) + "/history" + (f"?last={last}" if last else ""))

    def replay(self, trainer: str, round: int) -> View:
        """GET /jobs/{trainer}/history/{round}: one round, step by step."""
        return self._object("GET", _job_path(trainer) + f"/history/{round}")

    def history_file(self, trainer: str, form: str, last: int | None = None) -> AbstractContextManager[File]:
        """GET /jobs/{trainer}/history.csv, .svg or .png."""
        return self._file(_job_path(trainer) + f"/history.{form}", {"last": str(last)} if last else {})

    def trigger(self, trainer: str, rounds: int, until: str | None = None, new_numbering: bool = False) -> int:
        """POST /training/trigger; the number of the first round that was started."""
        asked: dict[str, object] = {"trainerId": trainer, "rounds": rounds}
        asked |= {"until": until} if until else {}
        asked |= {"newNumbering": True} if new_numbering else {}
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

    def predict_ids(self, trainer: str, ids: Sequence[str]) -> View:
        """POST /jobs/{trainer}/predict/ids."""
        return self._object("POST", _job_path(trainer) + "/predict/ids", {"ids": list(ids)})

    def findings(self, trainer: str, kind: str, digest: str | None = None) -> View:
        """GET /jobs/{trainer}/labels, .../groups, .../leaks or .../confusion, of the current model or of another one."""
        query = f"?digest={quote(digest, safe='')}" if digest else ""
        return self._object("GET", f"{_job_path(trainer)}/{kind}{query}")

    def model(self, trainer: str, digest: str, form: str) -> AbstractContextManager[File]:
        """GET /jobs/{trainer}/models/{digest}."""
        return self._file(_model_path(trainer, digest), {"format": form})

    def card(self, trainer: str, digest: str) -> AbstractContextManager[File]:
        """GET /jobs/{trainer}/models/{digest}/card."""
        return self._file(_model_path(trainer, digest) + "/card", {})

    def import_files(
        self, trainer: str, form: Iterator[bytes], boundary: str, *, replace: bool, add: bool = False
    ) -> View:
        """POST /data/{trainer}/import with a form of files; returns the result of the import."""
        path = f"/data/{quote(trainer, safe='')}/import"
        query = {name: "true" for name, wanted in (("replace", replace), ("add", add)) if wanted}
        return self._post_form(path, form, boundary, query)

    def proposals(self, trainer: str) -> list[View]:
        """GET /jobs/{trainer}/proposals."""
        return self._list(_job_path(trainer) + "/proposals")

    def propose(self, trainer: str, rule: str) -> View:
        """POST /jobs/{trainer}/proposals; the job afterwards."""
        return self._object("POST", _job_path(trainer) + "/proposals", {"aggregation": rule})

    def answer(self, trainer: str, mark: str, *, takes: bool) -> View:
        """POST /jobs/{trainer}/proposals/answer; the job afterwards."""
        return self._object("POST", _job_path(trainer) + "/proposals/answer", {"mark": mark, "takes": takes})

    def withdraw(self, trainer: str) -> View:
        """DELETE /jobs/{trainer}/proposals; the job afterwards."""
        return self._object("DELETE", _job_path(trainer) + "/proposals")

    def offers(self) -> list[View]:
        """GET /trainers/offers."""
        return self._list("/trainers/offers")

    def take_over(self, form: Iterator[bytes], boundary: str) -> View:
        """POST /trainers/offers with a form of fields and files."""
        return self._post_form("/trainers/offers", form, boundary, {})

    def _post_form(self, path: str, form: Iterator[bytes], boundary: str, query: Mapping[str, str]) -> View:
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
    """Parse "host:port", a bare port, or the address of the page.

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
    command = click.option(
        "--token",
        expose_value=False,
        is_eager=True,
        callback=_remember_token,
        envvar=variable_name("operator_token"),
        show_envvar=True,
        metavar="TOKEN",
        help="Operator's token of the node, if it is on another machine; the variable is safer.",
    )(command)
    command = click.option(
        "--fingerprint",
        expose_value=False,
        is_eager=True,
        callback=_remember_fingerprint,
        metavar="FINGERPRINT",
        help="Whole fingerprint of the node, if it is in a pinned mesh and on another machine.",
    )(command)
    return click.option(
        "--node",
        "address",
        metavar="HOST:PORT",
        callback=_address,
        help=f"Address of the node.  [default 127.0.0.1:${PORT_VARIABLE}, or port {DEFAULT_PORT}]",
    )(json_option(command))
