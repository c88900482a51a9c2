"""`python -m flnet` and the `flnet` script."""

from __future__ import annotations

from flnet.cli.commands import cli

__all__ = ["main"]


def main() -> None:
    """Run the command line; ends the process with the exit code."""
    cli(prog_name="flnet")


if __name__ == "__main__":
    main()
