"""`flnet run`: settings from all their sources, then node, page and server until a signal ends them."""

from __future__ import annotations

import asyncio
import ctypes
import os
import signal
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from flnet.cli.options import chosen, read_config, settings_options
from flnet.cli.output import printable, set_up_logging
from flnet.errors import StartError
from flnet.names import DEFAULT_MESH
from flnet.node.build import build_node
from flnet.node.formats import settle
from flnet.node.runtime import NodeRuntime
from flnet.node.trust import tls_of
from flnet.security.ownership import check_folder
from flnet.settings import PREFIX, Settings, load_settings
from flnet.store.changed_settings import ChangedSettings, read_changes
from flnet.web.app import create_app
from flnet.web.auth.operator_token import OperatorToken, is_token_needed, page_address, sign_in_link, token_of
from flnet.web.server import bind, serve

PARENT_CHECK_SECONDS = 1.0
_M_ARENA_MAX, ARENAS = -8, 2  # of mallopt(3)
MESHES = {
    "open": "open: every node that reaches this one may take part",
    "keyed": "keyed: who knows its key takes part",
    "pinned": "pinned: whose key a person accepted takes part, with TLS",
}

TWO_KEYS = f"; two keys are accepted, until {PREFIX}OTHER_MESH_KEY is removed"


@click.command("run")
@settings_options
@click.option(
    "--config",
    type=click.Path(path_type=Path),
    help="Settings file in TOML, one line per setting (node_port = 4000).  [default flnet.toml, if it exists]",
)
@click.option("--exit-with-parent", type=int, metavar="PID", hidden=True)
def command(config: Path | None, exit_with_parent: int | None, **options: Any) -> None:
    """Start a node and serve its page until Ctrl-C.

    Every setting is an option, an environment variable and a line of flnet.toml. Options override variables, and
    variables override the file. The variables are given in brackets below.

    \b
    Exit codes: 0 ended by Ctrl-C or SIGTERM; 1 it could not start; 2 a setting is wrong.
    """
    given = chosen(options), os.environ, read_config(config)
    settings = load_settings(*given, read_changes(load_settings(*given).folder))
    os.environ.pop(f"{PREFIX}OPERATOR_TOKEN", None)  # the training child inherits what is left
    set_up_logging(settings.logging_level)
    share_arenas()
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(run_node(settings, exit_with_parent))


def share_arenas() -> None:
    """Let all threads of this process take memory from the same two heaps of the C library.

    Otherwise each thread has one, of which little is returned: the threads that read large bodies and unpack archives
    kept 50 MB that nobody used (docs/testing-faults.md, "Where memory grows"). Other C libraries have no such heaps.
    """
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, ARENAS)


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """The factory of the event loop: uvloop's if it is installed, else None, which means asyncio's own."""
    try:
        import uvloop  # noqa: PLC0415 - there is none for some systems
    except ImportError:
        return None
    return uvloop.new_event_loop


async def run_node(settings: Settings, parent: int | None = None) -> None:
    """Run one node until a signal asks it to end, or until the process `parent` is not its parent any more.

    Raises:
        StartError: the port is taken, the state folder cannot be written, ...
    """
    asked, shutdown = _shutdown_on_signals(), asyncio.Event()
    watch = asyncio.create_task(_watch_parent(parent, asked)) if parent is not None else None
    listening = bind(settings)  # before all else: a second node on this port must not touch the first one's state
    try:
        _make_writable(settings.folder, "state", "STATE_PATH", check_folder)
        if settings.tmp_path is not None:
            _make_writable(settings.tmp_path, "temporary", "TMP_PATH")
            os.environ["TMPDIR"] = tempfile.tempdir = str(settings.tmp_path)  # the training child inherits it
        node = build_node(settings)
        try:
            await node.start()
            token = token_of(settings)
            click.echo(greeting(node, settings, token))
            going = asyncio.create_task(_leave(node, asked, shutdown))
            tls = tls_of(settings, settings.folder, node.feed.publish)
            app = create_app(node, settings, token, changed=ChangedSettings(settings, settings.folder))
            settle()
            relayed = node.relay_link.connections if node.relay_link is not None else None
            await serve(app, settings, shutdown, listening, tls, node.feed.publish, relayed)
            going.cancel()
        finally:
            await node.stop()
    finally:
        listening.close()
        if watch is not None:
            watch.cancel()


async def _leave(node: NodeRuntime, asked: asyncio.Event, shutdown: asyncio.Event) -> None:
    """Once it is asked to: tell the mesh, let transfers arrive while the node still answers, then shut down."""
    try:
        await asked.wait()
        await node.leave()
    finally:
        shutdown.set()


def _make_writable(folder: Path, kind: str, setting: str, check: Callable[[Path], None] = lambda _: None) -> None:
    """Make a folder, and try it, before a node promises to keep anything there."""
    try:
        check(folder)  # before anything is made in the folder of somebody else
        folder.mkdir(parents=True, exist_ok=True)
        check(folder)
        probe = folder / f".probe-{os.getpid()}"
        probe.touch()
        probe.unlink()
    except OSError as exc:
        words = f"the {kind} folder {folder} cannot be written ({exc.strerror or exc})"
        raise StartError(f"{words}; set {PREFIX}{setting} to one that can") from exc


def _name_of(settings: Settings) -> str:
    """The name of the mesh, if it has one of its own, before the words for its mode."""
    return "" if settings.mesh_name == DEFAULT_MESH else f"{settings.mesh_name}; "


def greeting(node: NodeRuntime, settings: Settings, token: OperatorToken) -> str:
    """The lines that `flnet run` prints first: name, page, sign-in link, state folder and trainers."""
    jobs: list[Mapping[str, Any]] = list(node.info()["jobsInfo"])
    lines = {
        "node": node.me.id,
        "page": page_address(settings),
        "mesh": _name_of(settings) + MESHES[settings.mode] + TWO_KEYS * settings.accepts_other_mesh_key,
        "state": settings.folder,
        "trainers": ", ".join(job["trainer_id"] for job in jobs) or "none",
    }
    if settings.relay is not None:
        lines["relay"] = f"others reach this node through {settings.relay}"
    if settings.relay_ports is not None:
        lines["relay"] = f"ports {settings.relay_ports}, for nodes that others do not reach"
    if node.trust is not None:
        own = node.trust.own()
        lines |= {"key": own["fingerprint"], "in words": own["words"]}
    made_here = settings.operator_token is None and settings.operator_token_file is None
    if made_here and is_token_needed(settings) and (made := token.text()):
        lines["sign in"] = sign_in_link(settings, made)
    return "\n".join(f"{name:<9}{printable(value)}" for name, value in lines.items())


def _shutdown_on_signals() -> asyncio.Event:
    """An event that SIGINT, SIGTERM or a closed terminal sets; the same signal again ends the process at once."""
    shutdown, loop = asyncio.Event(), asyncio.get_running_loop()

    def stop(number: int) -> None:
        loop.remove_signal_handler(number)
        shutdown.set()

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, stop, number)
    return shutdown


async def _watch_parent(parent: int, shutdown: asyncio.Event) -> None:
    """A parent that was killed cannot end its children; so they look whether it is still there."""
    while os.getppid() == parent:  # noqa: ASYNC110 - nothing sends an event when a parent goes
        await asyncio.sleep(PARENT_CHECK_SECONDS)
    shutdown.set()
