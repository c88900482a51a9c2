"""Serving the app: one socket, bound before anything else starts, and an end that waits for nobody long."""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
import ssl
from collections.abc import Callable

from hypercorn.asyncio import serve as hypercorn_serve
from quart import Quart

from flnet.errors import StartError
from flnet.settings import PREFIX, Settings
from flnet.web.doorman import LEAST, RESERVE, Doorman, GuardedConfig, raise_file_limit
from flnet.web.live import streams_of

GRACE_SECONDS = 3.0  # for requests that are being answered when the node stops
KEEP_ALIVE_SECONDS = 15.0  # longer than flnet's client keeps an idle connection (10 s), so that it closes first
HANDSHAKE_SECONDS = 10.0  # for TLS to be agreed on; until then a connection is nobody's
BACKLOG = 1024  # connections that wait for this node; who finds no place tries again after a second
UNTAKEN_SECONDS = 60.0  # after which the system ends a connection whose other side takes nothing of what is sent
_log = logging.getLogger("flnet.web.server")


def bind(settings: Settings) -> socket.socket:
    """Take the address and port of the settings; call it first, so that a port in use is told at once.

    Raises:
        StartError: the port is in use, not allowed, or the address is not of this machine.
    """
    host, port = settings.listen_address.strip("[]"), settings.node_port
    try:
        family, kind, proto, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except (OSError, UnicodeError) as exc:
        raise StartError(f"{host!r} is no address to listen on; correct {PREFIX}LISTEN_ADDRESS") from exc
    taken = socket.socket(family, kind, proto)
    try:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if hasattr(socket, "TCP_USER_TIMEOUT"):  # Linux; accepted connections inherit it
            taken.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(UNTAKEN_SECONDS * 1000))
        taken.bind(address)
        taken.listen(BACKLOG)  # two programs can bind one port; only listening shows that it is free
    except OSError as exc:
        taken.close()
        raise StartError(_why_not(exc, host, port)) from exc
    taken.setblocking(False)
    return taken


async def serve(
    app: Quart,
    settings: Settings,
    shutdown: asyncio.Event,
    listening: socket.socket | None = None,
    tls: ssl.SSLContext | None = None,
    tell: Callable[[str, str], object] | None = None,
) -> None:
    """Serve until `shutdown` is set, then end within a few seconds, whatever callers do.

    Args:
        app: made by create_app.
        settings: tell where to listen.
        shutdown: set it to end.
        listening: what `bind` returned, if it was called before; it belongs to the server from here on.
        tls: of a pinned mesh; there is no way to it without.
        tell: takes a kind and a sentence, for people.

    Raises:
        StartError: the port cannot be had.
    """
    taken = listening or bind(settings)
    config = _config(taken, tls)
    config.on_tls = _telling(tell) if tell is not None and tls is None else None
    server = asyncio.create_task(hypercorn_serve(app, config, shutdown_trigger=shutdown.wait))
    asked = asyncio.create_task(shutdown.wait())
    try:
        await asyncio.wait({server, asked}, return_when=asyncio.FIRST_COMPLETED)
        streams_of(app).ending.set()
        # From Python 3.12 on, Hypercorn waits for open connections without end; so it is given an end here.
        await asyncio.wait({server}, timeout=GRACE_SECONDS + 1)
    finally:
        streams_of(app).ending.set()
        asked.cancel()
        if not server.done():
            server.cancel()
        await asyncio.gather(server, asked, return_exceptions=True)
    if not server.cancelled() and (failure := server.exception()) is not None:
        raise StartError(f"the web server ended: {failure}") from failure


def _telling(tell: Callable[[str, str], object]) -> Callable[[], None]:
    told: list[bool] = []

    def on_tls() -> None:
        if not told:
            told.append(True)
            words = (
                "somebody asked with TLS (https://), as nodes of a pinned mesh do, and this node answers without"
            )
            tell("refused_here", words)

    return on_tls


def _config(taken: socket.socket, tls: ssl.SSLContext | None) -> GuardedConfig:
    config = GuardedConfig()
    config.tls, config.ssl_handshake_timeout = tls, HANDSHAKE_SECONDS
    config.doorman = Doorman(max(raise_file_limit() - RESERVE, LEAST))
    config.bind = [f"fd://{taken.detach()}"]  # detached: Hypercorn closes it, and only one side may
    config.backlog = BACKLOG
    config.accesslog = None
    config.errorlog = _log
    config.graceful_timeout = GRACE_SECONDS
    config.keep_alive_timeout = KEEP_ALIVE_SECONDS
    config.include_server_header = False
    _log.setLevel(logging.WARNING)  # Hypercorn's own greeting says less than ours
    return config


def _why_not(exc: OSError, host: str, port: int) -> str:
    if exc.errno == errno.EADDRINUSE:
        return f"port {port} on {host} is in use by another program; choose another {PREFIX}NODE_PORT"
    if exc.errno in (errno.EACCES, errno.EPERM):
        return f"port {port} on {host} needs more rights; choose a {PREFIX}NODE_PORT above 1023"
    if exc.errno == errno.EADDRNOTAVAIL:
        return f"{host} is no address of this machine; correct {PREFIX}LISTEN_ADDRESS"
    return f"cannot listen on port {port} of {host}: {exc.strerror or exc}"
