"""Every setting as an option of the command line, and the optional flnet.toml."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args, get_origin

import click
from pydantic.fields import FieldInfo

from flnet.errors import SettingsError
from flnet.security.ownership import foreign_owner
from flnet.settings import PREFIX, Settings, Shard

F = TypeVar("F", bound=Callable[..., Any])

CONFIG_FILE = "flnet.toml"
METAVARS: Mapping[Any, str] = {int: "INTEGER", float: "NUMBER", Path: "PATH", Shard: "I/N"}


def option_name(field: str) -> str:
    """The option of a setting: node_port is --node-port."""
    return "--" + field.replace("_", "-")


def variable_name(field: str) -> str:
    """The environment variable of a setting, with the common prefix."""
    return PREFIX + field.upper()


def settings_options(command: F) -> F:
    """Give a command one option per setting; values stay text, the settings check them."""
    for name, field in reversed(Settings.model_fields.items()):
        command = _option(name, field)(command)
    return command


def folder_options(command: F) -> F:
    """The options --state-path and --node-port of commands that work on a node's state folder."""
    command = click.option(
        "--node-port", type=click.IntRange(1, 65535), help="Port of the node whose usual folder is meant."
    )(command)
    return click.option(
        "--state-path", type=click.Path(path_type=Path), help="The node's folder.  [FLNET_STATE_PATH]"
    )(command)


def json_option(command: F) -> F:
    """The option --json; the command gets `as_json`."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON for scripts.")(command)


def chosen(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options that were given, for `load_settings`; a list option that is repeated becomes one list."""
    return {
        name: ",".join(value) if isinstance(value, tuple) else value
        for name, value in options.items()
        if value is not None and value != ()
    }


def read_config(path: Path | None) -> Mapping[str, Any]:
    """Read the named settings file, or flnet.toml in the working directory if it exists.

    Raises:
        SettingsError: the named file is missing, a file is not readable as TOML, or one that nobody named can be
            changed by another user: a folder such as /tmp may hold a file that names a program of theirs.
    """
    named, path = path is not None, path or Path(CONFIG_FILE)
    try:
        if not named and not path.is_file():
            return {}
        if not named and (owner := foreign_owner(path)):
            raise SettingsError(
                f"{owner} can change the settings file {path.absolute()}; give it with --config if you trust it"
            )
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as exc:
        raise SettingsError(f"the settings file {path} cannot be read: {exc.strerror or exc}") from exc
    except ValueError as exc:  # bad TOML and bad UTF-8 alike
        raise SettingsError(f"the settings file {path} is no valid TOML: {exc}") from exc


def _option(name: str, field: FieldInfo) -> Callable[[Any], Any]:
    option, kind = option_name(name), _kind(field)
    if kind is bool:
        return click.option(f"{option}/--no-{option[2:]}", name, default=None, help=_help(name, field))
    return click.option(
        option, name, metavar=_metavar(kind), multiple=get_origin(kind) is tuple, help=_help(name, field)
    )


def _kind(field: FieldInfo) -> Any:
    """The type without "| None"."""
    arguments = [kind for kind in get_args(field.annotation) if kind is not type(None)]
    optional = type(None) in get_args(field.annotation)
    return arguments[0] if optional else field.annotation


def _metavar(kind: Any) -> str:
    if get_origin(kind) is Literal:
        return "[" + "|".join(get_args(kind)) + "]"
    if get_origin(kind) is tuple:
        return "A,B,..."
    return METAVARS.get(kind, "TEXT")


def _help(name: str, field: FieldInfo) -> str:
    notes = variable_name(name)
    if field.default is not None and field.default != ():
        default = str(field.default)
        notes += f"; default {default.lower() if isinstance(field.default, bool) else default}"
    return f"{field.description}  [{notes}]"
