"""The operator's token on the command line: which one a command shows to a node, and the link to sign in with."""

from __future__ import annotations

import ipaddress
import os
import socket
from collections.abc import Callable
from typing import Any, TypeVar

import click

from flnet.cli.options import variable_name
from flnet.errors import FlnetError, StartError
from flnet.names import hostport
from flnet.settings import LOOPBACK, Settings, load_settings

__all__ = ["is_own_machine", "is_token_needed", "page_address", "sign_in_link", "token_for", "token_option"]

F = TypeVar("F", bound=Callable[..., Any])
VARIABLE = variable_name("operator_token")
_GIVEN = "flnet.operator_token"  # in the context of the command
_EVERYWHERE = ("0.0.0.0", "::")  # noqa: S104 - compared here, not listened on


def token_option(command: F) -> F:
    """The option --token of every command that speaks to a node; `token_for` finds what was given."""
    return click.option(
        "--token",
        expose_value=False,
        is_eager=True,
        callback=_remember,
        envvar=VARIABLE,
        show_envvar=True,
        metavar="TOKEN",
        help="Operator's token of a node on another machine; the variable is safer.",
    )(command)


def _remember(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
    if value is not None and not (value.isascii() and value.isprintable()):
        raise click.BadParameter("a token has no such characters", ctx, param)
    ctx.meta[_GIVEN] = value


def token_for(address: str) -> str | None:
    """What to show to the node at "host:port": the token given, or that of a node that runs on this machine.

    None for loopback: there a person needs none. Of this machine's other addresses the token is read from the
    state folder, while a node holds that; so it is sent to nobody else who may have taken the port.
    """
    context = click.get_current_context(silent=True)
    if context is not None and (given := context.meta.get(_GIVEN)):
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
    from flnet.store.disk.lock import FolderLock  # noqa: PLC0415
    from flnet.web.operator_token import read_token, token_path  # noqa: PLC0415

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
    """Whether it is an address of this machine, but not loopback; a name could lead elsewhere the next time."""
    try:
        found = ipaddress.ip_address(host)
        if found.is_loopback or found.is_unspecified:
            return False
        family = socket.AF_INET if found.version == 4 else socket.AF_INET6
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.bind((host, 0))  # which the system refuses for another machine's address
    except (ValueError, OSError):
        return False
    return True


def is_token_needed(settings: Settings) -> bool:
    """Whether somebody can reach the node who has to sign in."""
    return settings.listen_address not in LOOPBACK or not settings.trust_loopback


def page_address(settings: Settings) -> str:
    """Where a person opens the page."""
    host = "127.0.0.1" if settings.listen_address in _EVERYWHERE else settings.listen_address
    scheme = "https" if settings.mode == "pinned" else "http"
    return f"{scheme}://{hostport(settings.node_ip or host, settings.node_port)}/"


def sign_in_link(settings: Settings, token: str) -> str:
    """A link that signs in; what follows "#" is sent to nobody."""
    return f"{page_address(settings)}sign-in#{token}"
