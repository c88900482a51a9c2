"""The `flnet` command: its sub-commands by name, and which exit code each kind of failure gets."""

from __future__ import annotations

import importlib
import sys

import click

from flnet import __version__
from flnet.cli.output import printable
from flnet.errors import FlnetError, PeerTimeout, PeerUnreachable, SettingsError

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_UNREACHABLE = 3

# Module, and the function if it is not `command`. A module is imported when its command is asked for: `flnet status`
# needs no web server and no numpy.
COMMANDS = {
    "run": "flnet.cli.run",
    "demo": "flnet.cli.demo",
    "status": "flnet.cli.status",
    "peers": "flnet.cli.status:peers_command",
    "train": "flnet.cli.train",
    "schedule": "flnet.cli.train:schedule_command",
    "history": "flnet.cli.history",
    "watch": "flnet.cli.status:watch_command",
    "params": "flnet.cli.train:params_command",
    "rule": "flnet.cli.rule",
    "predict": "flnet.cli.predict",
    "labels": "flnet.cli.diagnostics:labels_command",
    "groups": "flnet.cli.diagnostics:groups_command",
    "leaks": "flnet.cli.diagnostics:leaks_command",
    "confusion": "flnet.cli.diagnostics:confusion_command",
    "export": "flnet.cli.models:export_command",
    "models": "flnet.cli.models",
    "audit": "flnet.cli.history:audit_command",
    "doctor": "flnet.cli.diagnostics:doctor_command",
    "backup": "flnet.cli.backup:backup_command",
    "restore": "flnet.cli.backup:restore_command",
    "keygen": "flnet.cli.keys",
    "pair": "flnet.cli.keys:pair_command",
    "token": "flnet.cli.keys:token_command",
    "data": "flnet.cli.data",
    "new-trainer": "flnet.cli.new_trainer",
    "take-over": "flnet.cli.take_over",
    "experiment": "flnet.cli.experiment",
}


def exit_code(error: FlnetError) -> int:
    """The exit code: 2 for wrong settings, 3 for an unreachable node, 1 for everything else."""
    if isinstance(error, SettingsError):
        return EXIT_USAGE
    return EXIT_UNREACHABLE if isinstance(error, PeerUnreachable | PeerTimeout) else EXIT_FAILED


class Commands(click.Group):
    """Loads sub-commands lazily and turns flnet's errors into a line on stderr and an exit code."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names of commands, in the order in which a new user needs them."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the module of that command; None for an unknown name."""
        if cmd_name not in COMMANDS:
            return None
        module, _, function = COMMANDS[cmd_name].partition(":")
        command = getattr(importlib.import_module(module), function or "command")
        assert isinstance(command, click.Command)
        return command

    def invoke(self, ctx: click.Context) -> object:
        """Run the command; errors of flnet are printed without a traceback."""
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
