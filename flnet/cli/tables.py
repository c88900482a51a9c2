"""Output for people (tables, on terminals of any width and in files) and for scripts (JSON)."""

from __future__ import annotations

import json

import click
from rich import box
from rich.console import Console
from rich.table import Table

__all__ = ["console", "print_json", "print_table", "table"]

PIPE_WIDTH = 160  # columns where no terminal says its width: wide enough that no cell breaks


def console(stderr: bool = False) -> Console:
    """A console that takes text as it is: no markup, no emoji, no guessed colours in what peers wrote."""
    shown = Console(stderr=stderr, markup=False, highlight=False, emoji=False)
    if not shown.is_terminal:
        shown.width = PIPE_WIDTH
    return shown


def table(*columns: str, title: str | None = None) -> Table:
    """A plain table; cells are text already made printable."""
    shown = Table(title=title, box=box.SIMPLE_HEAD, pad_edge=False, title_justify="left")
    for column in columns:
        shown.add_column(column, overflow="fold")
    return shown


def print_table(shown: Table) -> None:
    """Print it on stdout."""
    console().print(shown)


def print_json(data: object) -> None:
    """Print it on stdout as one indented JSON document, ASCII only, so that any terminal can take it."""
    click.echo(json.dumps(data, indent=2))
