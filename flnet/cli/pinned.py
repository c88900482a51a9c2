"""Speaks TLS to a node of a pinned mesh, and only to the one that is meant: its key is checked in the handshake.

No authority vouches for a node. Its fingerprint is given by --fingerprint, or read from the state folder of the
node that runs on this machine. Other nodes say themselves that they answer with TLS only.
"""

from __future__ import annotations

import json
import os
import ssl
from pathlib import Path
from typing import Any

import click
import httpx

from flnet.cli.operator import is_own_machine
from flnet.cli.options import variable_name
from flnet.errors import PeerRefused, PeerUnreachable, StartError
from flnet.fingerprints import fingerprint, read_fingerprint, short
from flnet.keys.own import noted
from flnet.settings import load_settings

__all__ = ["NodeTransport", "fingerprint_option", "want_tls"]

_GIVEN, _WANTED = "flnet.fingerprint", "flnet.tls"  # in the context of the command
CERTIFICATE = "identity.crt"  # as in `flnet.keys.certificate`, which loads `cryptography`
_PROBED = "/health"  # asked for without a token, to learn whether the node speaks TLS


def fingerprint_option(command: Any) -> Any:
    """The option --fingerprint of every command that speaks to a node."""
    return click.option(
        "--fingerprint",
        expose_value=False,
        is_eager=True,
        callback=_remember,
        metavar="FINGERPRINT",
        help="Whole fingerprint of a node of a pinned mesh on another machine.",
    )(command)


def _remember(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
    try:
        ctx.meta[_GIVEN] = None if value is None else read_fingerprint(value)
    except ValueError as exc:
        raise click.BadParameter(str(exc), ctx, param) from exc


def want_tls(address: str) -> None:
    """Note that the person wrote https:// before this address."""
    context = click.get_current_context(silent=True)
    if context is not None:
        context.meta[_WANTED] = address


class NodeTransport(httpx.BaseTransport):
    """HTTP to one node, until that says that it answers with TLS only; then TLS, for good."""

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
        """Ask first, before a token leaves this machine in the clear, or a body that can be sent only once."""
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
        from flnet.keys.tls import NODE_NAME  # noqa: PLC0415 - loads `cryptography`, for pinned meshes alone

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
    """A connection whose handshake ends well only if the node's key is the one that is meant."""

    def do_handshake(self, block: bool = False) -> None:
        super().do_handshake(block)
        context = self.context
        assert isinstance(context, _Context)
        context.check(self.getpeercert(binary_form=True) or b"")


class _Context(ssl.SSLContext):
    """TLS to the node with one fingerprint; `fault` says in words why the last one was not that."""

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
        """Look at who answers.

        Raises:
            ssl.SSLError: it is not the node that is meant.
        """
        from flnet.keys.certificate import key_of  # noqa: PLC0415 - see above

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
    """The fingerprint of the node of this machine with that port.

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
    """The fingerprint of a node of this machine that was in a pinned mesh once, and may be now; else empty."""
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
    """Whether it says that nothing is said here without TLS; its body is read then."""
    if answer.status_code != 403:
        return False
    answer.read()
    try:
        return bool(json.loads(answer.content)["error"] == "tls_needed")
    except (ValueError, KeyError, TypeError):
        return False
