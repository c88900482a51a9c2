"""The `flnet` command: its sub-commands by name, and which exit code each kind of failure gets."""

from __future__ import annotations

import importlib
import sys

import click

from flnet import __version__
from flnet.cli.text import printable
from flnet.errors import FlnetError, PeerTimeout, PeerUnreachable, SettingsError

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_UNREACHABLE = 3

# A module is imported when its command is asked for: `flnet status` needs no web server and no numpy.
COMMANDS = {
    "run": "flnet.cli.run",
    "demo": "flnet.cli.demo",
    "status": "flnet.cli.status",
    "peers": "flnet.cli.peers",
    "train": "flnet.cli.train",
    "schedule": "flnet.cli.schedule",
    "history": "flnet.cli.history",
    "watch": "flnet.cli.watch",
    "params": "flnet.cli.params",
    "predict": "flnet.cli.predict",
    "labels": "flnet.cli.labels",
    "groups": "flnet.cli.groups",
    "export": "flnet.cli.export",
    "models": "flnet.cli.models",
    "audit": "flnet.cli.audit",
    "doctor": "flnet.cli.doctor",
    "keygen": "flnet.cli.keygen",
    "pair": "flnet.cli.pair",
    "token": "flnet.cli.token",
    "data": "flnet.cli.data",
    "experiment": "flnet.cli.experiment",
}


def exit_code(error: FlnetError) -> int:
    """What the process ends with: 2 for wrong settings, 3 for an unreachable node, 1 for all else."""
    if isinstance(error, SettingsError):
        return EXIT_USAGE
    return EXIT_UNREACHABLE if isinstance(error, PeerUnreachable | PeerTimeout) else EXIT_FAILED


class Commands(click.Group):
    """Loads sub-commands lazily and turns flnet's errors into a line on stderr and an exit code."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names in the order in which a newcomer needs them."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the module of that command; None for an unknown name."""
        if cmd_name not in COMMANDS:
            return None
        command = importlib.import_module(COMMANDS[cmd_name]).command
        assert isinstance(command, click.Command)
        return command

    def invoke(self, ctx: click.Context) -> object:
        """Run the command; what a person can mend is told without a traceback."""
        try:
            return super().invoke(ctx)
        except FlnetError as exc:
            # Written directly: the text may quote what a stranger sent.
            click.echo(f"flnet: {printable(exc.message)}", err=True)
            sys.exit(exit_code(exc))


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, prog_name="flnet")
def cli() -> None:
    """Peer-to-peer federated learning: equal nodes train one model together, without a server.

    \b
    Exit codes: 0 done; 1 refused or failed; 2 wrong usage or settings; 3 the node cannot be reached.
    """
